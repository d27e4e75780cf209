"""Problems as wild as users' data: no false claim, no step up, an end to every run, and refusals in words."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import METHODS, FiniteSum, Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, NonNegative, Simplex
from finitesum.core.jit import compilable
from finitesum.evaluation.optimality import evaluate
from finitesum.losses import Binomial, Gamma, LogCosh, NegativeBinomial, Poisson, PseudoHuber, Tweedie
from finitesum.losses.base import OfMargin, Scaled
from finitesum.methods import as_method
from finitesum.methods.base import is_suited
from finitesum.methods.subproblems.positive_definite import solve_spd

#: Methods that claim that no pass raises F.
DESCENDING = ("lazy-newton", "newton", "newton-cg", "working-set-newton", "coordinate-descent", "fg", "auto")


def wild(seed, **options):
    """Return a problem in columns of 1e-6 to 1e6, one of them twice, with weights over six decades, some of them 0."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 30)), int(rng.integers(2, 7))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-6, 6, d)
    X[:, 0] = X[:, -1]
    weights = 10.0 ** rng.uniform(-6, 0, n) * (rng.random(n) < 0.8)
    weights[:2] = 1e-3
    y = np.where(rng.standard_normal(n) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    if options.get("loss") == "poisson":
        y = np.maximum(y, 0.0)
    return Problem.linear(X, y, sample_weight=weights, **options)


TERMS = {
    "l2": {"alpha": 1e-8},
    "l1": {"alpha": 1e-6, "l1_ratio": 1.0},
    "elastic net": {"alpha": 1e-4, "l1_ratio": 0.5},
    "l1-ball": {"constraint": L1Ball(1.0)},
    "l2-ball": {"constraint": L2Ball(1.0)},
    "box": {"constraint": Box(-1.0, 1.0)},
    "orthant": {"constraint": NonNegative()},
    "simplex": {"constraint": Simplex(1.0)},
}


#: Losses of families, with slopes by their definitions, and targets made of normal variables.
FAMILIES = {
    "poisson": (Poisson(), lambda u, y: np.exp(u) - y, lambda z: np.floor(np.exp(z))),
    "gamma": (Gamma(), lambda u, y: 1.0 - y * np.exp(-u), np.exp),
    "tweedie": (Tweedie(1.5), lambda u, y: np.exp(u / 2) - y * np.exp(-u / 2), lambda z: np.where(z > 0.0, np.exp(z), 0.0)),
    "negative binomial": (
        NegativeBinomial(1.0),
        lambda u, y: (y + 1) / (1 + np.exp(-u)) - y,
        lambda z: np.floor(np.exp(z)),
    ),
    "shares": (Binomial(), lambda u, y: 1 / (1 + np.exp(-u)) - y, lambda z: 1 / (1 + np.exp(-3 * z))),
    "log-cosh": (LogCosh(), lambda u, y: np.tanh(u - y), lambda z: 10.0 * z),
    "pseudo-Huber": (PseudoHuber(1.0), lambda u, y: (u - y) / np.sqrt(1 + (u - y) ** 2), lambda z: 10.0 * z),
}


@pytest.mark.parametrize("term", ["l2", "l1", "box", "orthant"])
@pytest.mark.parametrize("family", FAMILIES)
def test_claims_about_families_hold_in_more_digits(family, term):
    """The prox-gradient mapping, from the definition in extended precision, is at most tol wherever success is claimed."""
    loss, slope, targets = FAMILIES[family]
    for seed in range(4):
        known = wild(seed, alpha=0.0)
        X, rng = known.rows.values, np.random.default_rng(seed)
        problem = Problem.linear(
            *(X, targets(rng.standard_normal(len(X)))),
            loss=loss,
            sample_weight=known.weights,
            fit_intercept=bool(seed % 2),
            **TERMS[term],
        )
        result = minimize(problem, tol=1e-8)
        assert result.success, result.message
        d = X.shape[1]
        x, rows, y, p = (values.astype(np.longdouble) for values in (result.x, X, problem.targets, problem.weights))
        slopes = p * slope(rows @ x[:d] + x[d:].sum(), y)
        w = x[:d] - rows.T @ slopes - problem.term.ridge * x[:d]
        if term == "l1":
            w = np.sign(w) * np.maximum(np.abs(w) - problem.penalty.lasso(), 0.0)
        elif term == "box":
            w = np.clip(w, -1.0, 1.0)
        elif term == "orthant":
            w = np.maximum(w, 0.0)
        mapping = np.append(x[:d] - w, slopes.sum() if x.size > d else 0.0)
        assert np.sqrt((mapping**2).sum()) <= 1.001e-8


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge", "huber"])
@pytest.mark.parametrize("method", DESCENDING)
def test_no_pass_raises_the_objective(method, loss, term, seed):
    problem = wild(seed, loss=loss, fit_intercept=bool(seed % 2), **TERMS[term])
    if method != "auto" and not is_suited(as_method(method), problem):
        pytest.skip("not treated by this method")
    result = minimize(problem, method=method, tol=1e-8, max_iter=40, measure_every=1, random_state=0)
    objectives = result.trace.column("objective")
    objectives = objectives[np.isfinite(objectives)]
    assert (np.diff(objectives) <= 1e-12 * np.abs(objectives[:-1])).all()
    assert result.fun <= objectives[0] * (1.0 + 1e-12)


#: Methods whose passes on Taylor models are guarded, and others that make their steps themselves.
GUARDED, AUTOMATIC = ("nim", "ciag", "a-ciag"), ("iqn", "svrg2", "svrg")


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize(
    ("method", "loss", "seed"),
    [
        *(("nim", loss, seed) for loss in ("logistic", "smoothed-hinge", "squared-hinge", "poisson") for seed in range(3)),
        *((method, loss, 2) for method in GUARDED[1:] for loss in ("squared-hinge", "poisson")),
    ],
)
def test_a_method_comes_back_from_where_its_models_led_too_far(method, loss, term, seed):
    """A pass may end far up before the losses that the next one meets show it; that one is undone, and none rises after."""
    problem = wild(seed, loss=loss, fit_intercept=bool(seed % 2), **TERMS[term])
    result = minimize(problem, method=method, tol=1e-8, max_iter=15, measure_every=1, random_state=0)
    objectives = result.trace.column("objective")
    assert result.fun <= objectives[0] * (1.0 + 1e-12)
    far = np.flatnonzero(objectives > 3.0 * objectives[0] + 1.0)
    assert far.size <= 1
    after = objectives[far[0] + 1 :] if far.size else objectives[:0]
    assert (np.diff(after) <= 1e-11 * np.abs(after[:-1])).all()
    assert (after <= objectives[0] * (1.0 + 1e-12)).all()


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
@pytest.mark.parametrize("form", ["linear", "functions"])
@pytest.mark.parametrize("method", GUARDED + AUTOMATIC)
def test_no_run_by_steps_of_its_own_ends_above_its_start(method, form, loss, seed):
    problem = wild(seed, loss=loss, fit_intercept=bool(seed % 2), alpha=1e-8)
    problem = problem if form == "linear" else FiniteSum.from_linear(problem)
    start = evaluate(problem, np.zeros(problem.dim)).objective
    result = minimize(problem, method=method, tol=1e-8, max_iter=8, measure_every=0)
    assert result.fun <= start * (1.0 + 1e-12)


def test_a_point_far_out_is_no_minimum():
    """At w = -1e30 the step w - g is w, and F is 1e30."""
    for options in ({"alpha": 1e-3, "l1_ratio": 1.0}, {"constraint": L1Ball(1e40)}):
        problem = Problem.linear([[1.0], [-1.0]], [1, -1], **options)
        result = minimize(problem, x0=[-1e30])
        assert result.fun < 0.01
        assert result.success


@pytest.mark.compiled
def test_wide_l1_problems_in_any_units_do_not_end_above_their_start():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((60, 90)) * 10.0 ** rng.uniform(-6, 6, 90)
        y = np.where(X[:, 0] > 0.0, 1, -1)
        y[0] = -y[1]
        problem = Problem.linear(X, y, alpha=1e-11, l1_ratio=1.0, fit_intercept=True)
        assert minimize(problem, tol=1e-10, max_iter=60).fun <= np.log(2.0)


@pytest.mark.parametrize("matrix", [[[-1e-20]], [[-1.0]], [[0.0]], [[1.0, 0.0], [1.0, 1.0 - 1e-9]]])
def test_systems_of_any_matrix_are_solved_or_left(matrix):
    """An indefinite matrix is raised until it is positive definite, by a bounded number of factors."""
    assert np.isfinite(solve_spd(np.array(matrix), np.ones(len(matrix)))).all()


def test_a_few_rows_on_a_simplex_end():
    X = [
        [-139045.56135349744, 593801.2778029729],
        [-162421.78614597785, -104227.77411606697],
        [431816.35614711395, 221838.85439442247],
        [183765.35672668248, 151022.11829385167],
        [-101616.0350707684, -341187.9818772227],
    ]
    weights = [8.137395e-04, 2.4152665e-05, 3.4240829e-01, 4.1354140e-05, 1.8826050e-03]
    problem = Problem.linear(X, [1, 1, -1, -1, 1], sample_weight=weights, fit_intercept=True, constraint=Simplex(1.0))
    result = minimize(problem, tol=1e-10, max_iter=200)
    assert result.n_passes <= 201.0
    assert result.success or "rounding errors" in result.message
    slope = evaluate(problem, result.x).gradient
    # F is convex, and thus nowhere lower by more than this on the simplex, with an intercept at most 1e6 away:
    assert slope[:2] @ result.x[:2] - slope[:2].min() + 1e6 * abs(slope[2]) <= 1e-4 * result.fun


def test_accelerated_svrg_keeps_a_step_that_rounding_errors_do_not_shrink():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        problem = Problem.linear(rng.standard_normal((60, 5)), rng.standard_normal(60), loss="huber", constraint=Simplex())
        result = minimize(problem, method="acc-svrg", tol=1e-9, max_iter=500, random_state=seed)
        assert result.success
        assert result.state.step_size > 1e-6


def texts(n, d, **kind):
    """Counts of few words in many columns, as those of short texts."""
    rng = np.random.default_rng(0)
    X, part = sp.csr_array(rng.poisson(min(0.05, 160.0 / d), (n, d)).astype(float)), d // 10
    y = np.where(X[:, :part].sum(1) - X[:, part : 2 * part].sum(1) + rng.standard_normal(n) > 0.0, 1, -1)
    return Problem.linear(X, y, **kind)


@pytest.mark.parametrize("cap", [3, 10])
@pytest.mark.parametrize(
    "kind", [{"alpha": 1e-3}, {"loss": "hinge", "alpha": 1e-2}, {"loss": "multinomial", "alpha": 0.1}], ids=str
)
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_max_iter_is_charged_and_kept(method, kind, cap):
    """No pass begins once max_iter is spent, and none costs more than a few: with the check of the result that is all."""
    require_max_iter(method, texts(40, 80, **kind), cap)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("cap", [50, 200])
def test_max_iter_is_charged_and_kept_where_rows_are_many_and_wide(cap):
    require_max_iter("auto", texts(1993, 7862, alpha=1 / 1993), cap)


def require_max_iter(method, problem, cap):
    if method in METHODS and not is_suited(METHODS[method], problem):
        pytest.skip("cannot treat it")
    result = minimize(problem, method=method, tol=1e-14, max_iter=cap)
    charged = result.trace.column("n_passes")
    most = float(np.diff(charged).max())
    few = 12.0 if result.method.name == "dual-ascent" else 9.0  # which makes all products with few rows at once
    assert 0.0 < most <= few
    assert charged.size == 2 or charged[-2] < cap
    assert charged[-1] <= result.n_passes <= charged[-1] + 1.0
    assert result.njev == pytest.approx(result.n_passes * problem.batched(result.batch_size).n_components)


@pytest.mark.parametrize("options", [{"n_threads": None}, {"n_threads": "2"}, {"first_rows": [3]}])
def test_an_option_that_is_no_number_is_named(options):
    problem = Problem.linear(np.eye(2), [1, -1], alpha=0.1)
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be a whole number"):
        minimize(problem, method="lazy-newton", options=options)


#: Methods whose step size says at once that columns are too large.
REFUSE_HUGE = ("fg", "afg", "iag")

#: Beyond what can be squared: kinds of problem that between them every method treats.
KINDS = {
    "l2": {"alpha": 1e-3},
    "l1": {"alpha": 1e-3, "l1_ratio": 1.0, "fit_intercept": True},
    "squared": {"loss": "squared"},
    "hinge": {"loss": "hinge", "alpha": 1e-3},
    "ball": {"loss": "hinge", "constraint": L1Ball(1.0)},
    "multinomial": {"loss": "multinomial", "alpha": 1e-3},
}


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_huge_columns_end_in_a_message(method, kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 3))
    problem = Problem.linear(X * 1e160, np.where(X[:, 0] > 0.0, 1, -1), **KINDS[kind])
    if method in METHODS and not is_suited(METHODS[method], problem):
        pytest.skip("cannot treat it")
    if method in REFUSE_HUGE:
        with pytest.raises((RuntimeError, ValueError), match=r"Scale the columns of X|columns of X are .* scale them"):
            minimize(problem, method=method)
        return
    result = minimize(problem, method=method, tol=1e-10, max_iter=101)  # runs of 100 passes are told why
    assert result.message
    assert not result.success or np.isfinite(result.fun)


def test_where_the_loss_overflows_on_the_whole_set_a_run_ends_at_once():
    problem = Problem.linear([[500.0], [600.0]], [1.0, 2.0], loss="poisson", constraint=Box(10.0, 20.0))
    result = minimize(problem, method="lazy-newton", max_iter=50)
    assert not result.success
    assert result.n_passes <= 3.0
    assert "overflows at every point of the set" in result.message


@compilable
class ExponentialMargin(Scaled, OfMargin):
    """exp(-y u), which overflows on the other side for the other class."""

    def value(self, prediction, target):
        return math.inf if -target * prediction > 709.0 else self.scale * math.exp(-target * prediction)

    def d1(self, prediction, target):
        return -target * self.value(prediction, target)

    def d2(self, prediction, target):
        return self.value(prediction, target)


#: Sets whose point next to 0 has predictions of 1e5, and one where they are small.
FAR_SETS = {
    "simplex": Simplex(1.0),
    "box": Box([1.0, 0.0, 0.0], [10.0, 100.0, 100.0]),
    "half-space": HalfSpace([-1.0, 0.0, 0.0], -1.0),
}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["poisson", ExponentialMargin()], ids=["poisson", "exponential"])
@pytest.mark.parametrize("kind", FAR_SETS)
def test_a_run_begins_where_the_loss_does_not_overflow(kind, loss, intercept):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)
    sides = np.where(loss == "poisson", 1.0, -y)  # on which predictions overflow
    X = np.column_stack([1e5 * (1.0 + rng.random(20)) * sides, -1e5 * sides, rng.standard_normal(20)])
    problem = Problem.linear(
        X, y if loss != "poisson" else np.arange(20) % 3, loss=loss, constraint=FAR_SETS[kind], fit_intercept=intercept
    )
    with np.errstate(all="ignore"):
        assert not np.isfinite(evaluate(problem, problem.term.project(np.zeros(problem.dim))).objective)
    for method in ("auto", "newton"):
        result = minimize(problem, method=method, tol=1e-6, max_iter=200)
        assert result.success, result.message


def test_offsets_that_overflow_are_met_by_the_start(tmp_path):
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(30), rng.standard_normal(30)])
    problem = Problem.linear(X, rng.poisson(1.0, 30), loss="poisson", offset=np.full(30, 800.0))
    whole = minimize(problem, tol=1e-8)
    assert whole.success
    file = tmp_path / "run"
    minimize(problem, tol=1e-8, max_iter=2, checkpoint=file)
    again = minimize(problem, tol=1e-8, checkpoint=file, resume=True)
    np.testing.assert_array_equal(again.x, whole.x)


#: What stood in Newton's way: pieces without curvature, separable rows, sets met along the wrong metric.
HARD = {
    "separable": {"loss": "smoothed-hinge", "alpha": 1e-7},
    "separable, squared": {"loss": "squared-hinge", "alpha": 1e-8},
    "linear tails": {"loss": "huber", "constraint": NonNegative()},
    "an l1 penalty": {"loss": "smoothed-hinge", "alpha": 1e-6, "l1_ratio": 1.0},
    "a half-space": {"loss": "smoothed-hinge", "alpha": 1e-5, "constraint": HalfSpace([1.0] * 12, -1.0)},
    "a sphere": {"loss": "smoothed-hinge", "alpha": 1e-9, "constraint": L2Ball(0.5)},
    "a logistic model on a simplex": {"loss": "logistic", "alpha": 1e-9, "constraint": Simplex(1.0)},
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", HARD)
def test_small_problems_with_quadratic_pieces_reach_tol(name, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 12)) * 10.0 ** rng.uniform(-2, 2, 12)
    signal = X @ (rng.standard_normal(12) / np.abs(X).max(axis=0))
    y = 10.0 * signal if HARD[name]["loss"] == "huber" else np.where(signal > 0.0, 1.0, -1.0)
    result = minimize(Problem.linear(X, y, **HARD[name]), tol=1e-10, max_iter=300)
    assert result.method.name == "newton"
    assert result.success, result.message
