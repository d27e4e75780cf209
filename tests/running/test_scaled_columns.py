"""Runs in scaled columns: methods that stood still on columns of different size reach tol, in the user's units."""

import numpy as np
import pytest
from contracts.problems import as_format
from oracles import methods as oracles
from oracles.sums import Sum
from scipy.sparse import csr_array

from finitesum import METHODS, FiniteSum, Problem, minimize
from finitesum.constraints import Box, L2Ball, NonNegative
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.smoothness import full_smoothness
from finitesum.methods.base import is_suited
from finitesum.problems import scaled
from finitesum.problems.penalties import MCP
from finitesum.problems.rows import to_matrix
from finitesum.problems.scaled import Columns, column_sums, scale_of, scaled_problem, shift_of
from finitesum.running.checkpoint import CheckpointError
from finitesum.running.scaled_columns import scales_for

METHODS_SCALED = [name for name, cls in METHODS.items() if getattr(cls, "wants_scaled_columns", False)]

#: Methods that are exact to a tolerance: ig and svrg2, which settles where its steps are its own, are not.
EXACT = [name for name in METHODS_SCALED if name not in ("ig", "svrg2")]

#: Kinds of problems: loss, penalty, set and rows, each with columns from 1e-4 to 1e4.
KINDS = {
    "l2": {},
    "csr": {"form": "csr32"},
    "csr, l1": {"form": "csr64", "alpha": 0.05, "l1_ratio": 1.0},
    "float32": {"dtype": np.float32},
    "no intercept": {"fit_intercept": False},
    "l1": {"alpha": 0.05, "l1_ratio": 1.0},
    "elastic net": {"alpha": 0.05, "l1_ratio": 0.5},
    "penalty weights": {"penalty_weights": np.array([1.0, 0.0, 2.0, 0.5, 1.0])},
    "weighted elastic net": {"l1_ratio": 0.3, "penalty_weights": np.array([1.0, 0.0, 2.0, 0.5, 1.0])},
    "box": {"constraint": Box(-1e-3, 2e-3)},
    "box without a penalty": {"constraint": Box(-1.0, 0.5), "alpha": 0.0},
    "signs": {"constraint": NonNegative()},
    "squared": {"loss": "squared"},
    "huber": {"loss": "huber"},
    "squared hinge": {"loss": "squared-hinge"},
    "smoothed hinge": {"loss": "smoothed-hinge"},
    "classes": {"loss": "multinomial"},
}

SIZES = 10.0 ** np.array([-4.0, -2.0, 0.0, 2.0, 4.0])


def badly_scaled(form="dense", loss="logistic", dtype=np.float64, alpha=0.02, n=80, **more):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, SIZES.size)) * (rng.random((n, SIZES.size)) < (0.5 if form != "dense" else 1.0))
    signal = X.sum(axis=1) + 2.0 * rng.logistic(size=n)
    y = signal if loss in ("squared", "huber") else np.digitize(signal, [-1.0, 1.0] if loss == "multinomial" else [0.0])
    more = {"fit_intercept": True, **more}
    return Problem.linear(as_format((X * SIZES).astype(dtype), form), y, loss=loss, alpha=alpha, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_what_stood_still_reaches_tol(kind):
    problem = badly_scaled(**KINDS[kind])
    result = minimize(problem, method="afg", tol=1e-6, max_iter=1500, measure_every=0)
    assert result.success, result.message
    assert evaluate(problem, result.x).optimality <= 1e-6
    most = result.n_passes
    still = minimize(problem, method="afg", tol=1e-6, max_iter=most, measure_every=0, scale_columns=False)
    assert not still.optimality < 1e3 * max(result.optimality, 1e-9)


@pytest.mark.parametrize("kind", ["l2", "csr, l1", "box"])
@pytest.mark.parametrize("name", EXACT)
def test_all_methods_with_one_step_reach_tol(kind, name):
    problem = badly_scaled(**KINDS[kind])
    if not is_suited(METHODS[name], problem):
        return
    result = minimize(problem, method=name, tol=1e-4, max_iter=400, measure_every=0)
    assert result.success, result.message


def test_a_loss_without_a_bound_and_a_penalty_that_is_not_convex():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = rng.poisson(np.exp(0.5 * X.sum(axis=1)))
    scaled = X * np.array([1e-3, 1.0, 1e3])
    assert minimize(Problem.linear(scaled, y, loss="poisson", alpha=1e-3), method="svrg", tol=1e-6).success
    problem = Problem.linear(scaled, np.sign(X[:, 0]), penalty=MCP(0.01, gamma=1e8))
    result = minimize(problem, method="fg", tol=1e-6, max_iter=3000)
    assert result.success, result.message


@pytest.mark.parametrize("kind", KINDS)
def test_the_objective_is_the_same_function(kind):
    problem = badly_scaled(**KINDS[kind])
    columns = scale_of(problem)
    assert np.array_equal(np.log2(columns), np.round(np.log2(columns)))  # powers of 2: no digit is lost
    changed = Columns(columns, np.zeros(columns.size), problem.n_outputs)
    scaled, scale = scaled_problem(problem, changed), changed.outward(np.ones(problem.dim))
    v = 0.01 * np.random.default_rng(1).standard_normal(problem.dim)
    if problem.is_constrained:
        v = problem.term.project(v * scale) / scale
    w = scale * v
    here, there = evaluate(problem, w), evaluate(scaled, v)
    assert there.optimality == pytest.approx(here.optimality, rel=1e-12)
    if not problem.is_constrained:  # else the quadratic part is in the prox
        assert np.allclose(there.gradient / scale, here.gradient, rtol=1e-12)
    assert there.objective == pytest.approx(here.objective, rel=1e-12)
    step = 1e-3  # a prox step in the metric D^-2
    moved = problem.term.prox(w, 0.0) if problem.is_constrained else w
    assert np.allclose(scale * scaled.term.prox(v, 0.0), moved)
    rise = scaled.term.value(v + step) - scaled.term.value(v)
    if not problem.is_constrained:
        assert rise == pytest.approx(problem.term.value(w + step * scale) - problem.term.value(w), rel=1e-9)


def test_callbacks_trace_and_result_are_in_the_users_units():
    problem, seen = badly_scaled(), []
    result = minimize(problem, method="saga", tol=1e-6, callback=lambda report: seen.append((report.x, report.fun)))
    assert type(result.state).__name__ == "ScaledState"
    assert result.method == METHODS["saga"]()
    for x, value in seen[::10]:
        assert value == pytest.approx(evaluate(problem, x).objective, rel=1e-12)
    assert result.jac == pytest.approx(evaluate(problem, result.x).gradient)
    start = np.array([1e3, -1.0, 0.1, 1e-3, 1e-5, 0.3])
    assert minimize(problem, start, method="saga", max_iter=1).trace.rows[0].objective == evaluate(problem, start).objective


def test_a_resumed_run_has_the_same_bits(tmp_path):
    problem, file = badly_scaled(), tmp_path / "run.npz"
    whole = minimize(problem, method="svrg", tol=1e-6)
    minimize(problem, method="svrg", tol=1e-6, max_iter=5, checkpoint=file)
    rest = minimize(problem, method="svrg", tol=1e-6, checkpoint=file, resume=True)
    assert np.array_equal(rest.x, whole.x)
    with pytest.raises(CheckpointError):
        minimize(problem, method="svrg", tol=1e-6, checkpoint=file, resume=True, scale_columns=False)
    first = minimize(problem, method="saga", tol=1e-6, max_iter=5, random_state=3)
    second = minimize(problem, method="saga", tol=1e-6, earlier=first)
    assert np.array_equal(second.x, minimize(problem, method="saga", tol=1e-6, random_state=3).x)


def test_a_run_in_other_columns_than_now_are_chosen_is_not_resumed(monkeypatch, tmp_path):
    problem, file = badly_scaled(), tmp_path / "run.npz"
    minimize(problem, method="svrg", tol=1e-6, max_iter=5, checkpoint=file)
    monkeypatch.setattr("finitesum.running.scaled_columns.scale_of", lambda *given, **more: 2.0 * scale_of(*given, **more))
    with pytest.raises(CheckpointError, match="scale_columns"):
        minimize(problem, method="svrg", tol=1e-6, checkpoint=file, resume=True)


@pytest.mark.parametrize("name", ["fg", "afg", "acc-svrg", "sarah", "ciag", "a-ciag"])
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_boxes_beside_an_l2_penalty_take_few_passes(name, loss):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((100, 6)) * 10.0 ** np.linspace(-1.5, 1.5, 6)
    scores = X / X.std(axis=0) @ rng.standard_normal(6) / 2.0
    y = {"logistic": scores > 0.1, "squared": scores, "poisson": rng.poisson(np.exp(scores))}[loss]
    problem = Problem.linear(X, y, loss=loss, alpha=0.1, constraint=Box(-0.1, 0.05), fit_intercept=True)
    if not is_suited(METHODS[name], problem) or (name in ("acc-svrg", "sarah") and loss == "poisson"):
        pytest.skip("cannot treat it")
    result = minimize(problem, method=name, tol=1e-5, scale_columns=True, measure_every=0)
    assert result.success
    assert result.n_passes <= 100
    assert evaluate(problem, result.x).optimality <= 1e-5


def test_columns_of_like_size_and_steps_that_are_given_stay_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) * np.array([0.5, 1.0, 2.0])
    problem = Problem.linear(X, np.sign(X[:, 0]), alpha=0.1, fit_intercept=True)
    auto, plain = (minimize(problem, method="saga", scale_columns=how) for how in ("auto", False))
    assert np.array_equal(auto.x, plain.x)
    assert type(auto.state) is type(plain.state)
    own = minimize(badly_scaled(), method="fg", options={"step_size": 1e-9}, max_iter=3)
    assert type(own.state).__name__ != "ScaledState"


def test_what_has_no_columns_to_scale_says_so():
    problem = badly_scaled(n=12)
    ball = badly_scaled(constraint=L2Ball(1.0))
    assert type(minimize(ball, method="fg", max_iter=3).state).__name__ != "ScaledState"  # left as it is
    for of, name, words in (
        (ball, "fg", "groups, balls, bounds for each output and other sets"),
        (problem, "newton", "one step for all coordinates"),
        (FiniteSum.from_linear(problem), "fg", "functions have no columns"),
    ):
        with pytest.raises(ValueError, match=words):
            minimize(of, method=name, scale_columns=True)
    with pytest.raises(ValueError, match="scale_columns must be"):
        minimize(problem, method="fg", scale_columns="always")


def far_columns(form=np.asarray, loss="logistic", n=150, **more):
    """Return a problem of columns near 480, whose spread is 20, or of one near 0, and of one in small units."""
    rng = np.random.default_rng(7)
    Z = rng.standard_normal((n, 5))
    signal = Z @ rng.standard_normal(5) + rng.logistic(size=n)
    X = (480.0 + 20.0 * Z) * np.array([1.0, 1.0, 1e-4, 1.0, 1.0])
    X[:, 3] = Z[:, 3]
    y = np.digitize(signal, [-1.0, 1.0] if loss == "multinomial" else [0.0])
    return Problem.linear(form(X), y, loss=loss, **{"alpha": 1e-3, "fit_intercept": True, **more})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"l1_ratio": 1.0},
        {"l1_ratio": 0.5, "penalty_weights": np.array([1.0, 0.0, 2.0, 0.5, 1.0])},
        {"constraint": Box(-0.02, 0.03), "alpha": 0.0},
        {"sample_weight": np.random.default_rng(1).integers(0, 4, 150).astype(float)},
        {"loss": "multinomial"},
    ],
)
@pytest.mark.parametrize("name", ["afg", "saga", "acc-svrg", "sarah", "ciag"])
def test_columns_far_from_zero_are_centred_beside_an_intercept(name, more):
    problem = far_columns(**more)
    if not is_suited(METHODS[name], problem):
        return
    tol = 1e-3 if "loss" in more else 1e-5
    result = minimize(problem, method=name, tol=tol, max_iter=400, measure_every=0)
    assert result.success, result.message
    exact = minimize(problem, method="newton", tol=1e-9)
    assert result.fun == pytest.approx(exact.fun, abs=1e-6)
    assert evaluate(problem, result.x).optimality <= tol  # in the user's columns
    still = minimize(problem, method=name, tol=tol, max_iter=result.n_passes, measure_every=0, scale_columns=False)
    assert still.optimality > 10.0 * tol


@pytest.mark.parametrize(
    "problem",
    [far_columns(fit_intercept=False), far_columns(csr_array, fit_intercept=False), badly_scaled(), badly_scaled("csr32")],
    ids=["no intercept", "sparse, no intercept", "near 0", "sparse near 0"],
)
def test_columns_are_not_shifted_without_need(problem):
    for by_sums in (False, True):
        shift, unstored = shift_of(problem, by_sums=by_sums)
        assert not shift.any()
        assert unstored is None


def sparse_columns(density=0.05, n_far=2, d=30, n=200, alpha=1e-3, dtype=np.float64, index=np.int32, **more):
    """Return a sparse problem: columns that are stored everywhere, near 480, and some that are mostly 0, with a mean."""
    rng = np.random.default_rng(11)
    Z = rng.standard_normal((n, d))
    X = (4.0 + Z) * (rng.random((n, d)) < density)
    X[:, :n_far] = 480.0 + 20.0 * Z[:, :n_far]
    signal = Z @ rng.standard_normal(d) + rng.logistic(size=n)
    y = np.digitize(signal, [-1.0, 1.0]) if more.get("loss") == "multinomial" else np.sign(signal)
    given = csr_array(X.astype(dtype))
    given.indices, given.indptr = given.indices.astype(index), given.indptr.astype(index)
    return Problem.linear(given, y, alpha=alpha, **{"fit_intercept": True, **more})


def centred_by_hand(problem, columns):
    """Return the dense oracle of a problem without a quadratic penalty in shifted and scaled columns."""
    X = (to_matrix(problem.rows).toarray() - columns.shift) * columns.scale
    l1 = np.append(problem.penalty.lasso() * columns.scale, 0.0)
    return Sum(X, problem.targets, l1=l1, intercept=True, weights=problem.weights)


RECURSIONS = {
    "fg": lambda F, x, orders, step: oracles.fg(F, x, orders, step),
    "afg": lambda F, x, orders, step: oracles.afg(F, x, orders, step, 0.6),
    "saga": lambda F, x, orders, step: oracles.saga(F, x, orders, step),
    "sag": lambda F, x, orders, step: oracles.aggregated(F, x, orders, step),
    "sarah": lambda F, x, orders, step: oracles.sarah(F, x, orders, step),
}


@pytest.mark.parametrize("settings", [{"alpha": 0.0}, {"l1_ratio": 1.0}, {"density": 0.6}, {"index": np.int64}])
@pytest.mark.parametrize("name", RECURSIONS)
def test_sparse_columns_are_centred_as_dense_ones_by_hand(name, settings):
    problem = sparse_columns(**{"alpha": 0.0, **({"alpha": 0.01} if "l1_ratio" in settings else {}), **settings})
    method = METHODS[name](**{"step_size": 0.1, **({"momentum": 0.6} if name == "afg" else {})})
    columns = scales_for(METHODS[name](), problem, "auto")
    assert columns.shift[:2].all()  # they are stored but for a few rows, and far from 0
    assert columns.shift.all() == (name in ("fg", "afg") or "density" in settings)
    inner = scaled_problem(problem, columns)
    assert inner.rows.is_sparse() == ("density" not in settings)
    rng = np.random.default_rng(2)
    orders, oracle = [rng.permutation(problem.n_rows) for _ in range(3)], centred_by_hand(problem, columns)
    x = 0.1 * rng.standard_normal(problem.dim)
    state = method.init(inner, x)
    for order, expected in zip(orders, RECURSIONS[name](oracle, x, orders, 0.1), strict=True):
        state = method.run_pass(inner, state, order)
        np.testing.assert_allclose(state.x, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"l1_ratio": 1.0},
        {"loss": "squared"},
        {"loss": "multinomial"},
        {"constraint": Box(-0.2, 0.3), "alpha": 0.0},
        {"dtype": np.float32, "index": np.int64},
        {"sample_weight": np.random.default_rng(1).integers(0, 4, 200).astype(float)},
    ],
)
def test_methods_that_see_sums_alone_leave_centred_rows_sparse(more):
    problem = sparse_columns(**more)
    columns = scales_for(METHODS["afg"](), problem, "auto")
    assert columns.unstored.any()
    inner, dense = scaled_problem(problem, columns), scaled_problem(problem, columns._replace(unstored=None))
    assert inner.rows.is_sparse()
    assert inner.rows.values.size <= 1.05 * problem.rows.values.size
    v = 0.1 * np.random.default_rng(0).standard_normal(problem.dim)
    own, theirs, users = evaluate(inner, v), evaluate(dense, v), evaluate(problem, columns.outward(v))
    tolerance = 1e-5 if "dtype" in more else 1e-11
    np.testing.assert_allclose(own.gradient, theirs.gradient, rtol=tolerance, atol=tolerance)
    assert own.objective == pytest.approx(users.objective, rel=tolerance)
    assert own.optimality == pytest.approx(users.optimality, rel=10 * tolerance, abs=tolerance)
    assert full_smoothness(inner) == pytest.approx(full_smoothness(dense), rel=2e-3)
    result = minimize(problem, method="afg", tol=1e-5, max_iter=600, measure_every=0)
    assert result.success, result.message
    still = minimize(problem, method="afg", tol=1e-5, max_iter=result.n_passes, measure_every=0, scale_columns=False)
    assert still.optimality > 10.0 * result.optimality


@pytest.mark.parametrize("name", ["afg", "saga", "svrg", "a-ciag"])
@pytest.mark.parametrize("density", [0.08, 0.9])
def test_sparse_columns_far_from_zero_reach_tol_and_resume_to_the_same_bits(name, density, tmp_path):
    problem = sparse_columns(density=density, n=60, alpha=0.02)
    settings = {"method": name, "tol": 1e-4, "measure_every": 0, "max_iter": 800}
    whole = minimize(problem, **settings)
    assert whole.success, whole.message
    minimize(problem, checkpoint=tmp_path / "run.npz", **(settings | {"max_iter": 2}))
    found = minimize(problem, checkpoint=tmp_path / "run.npz", resume=True, **settings)
    assert found.x.tobytes() == whole.x.tobytes()
    assert whole.fun == pytest.approx(minimize(problem, method="newton", tol=1e-9).fun, abs=1e-5)


def test_the_shift_is_found_by_one_pass_over_the_rows(monkeypatch):
    problem, calls = far_columns(alpha=0.1), []
    monkeypatch.setattr(scaled, "column_sums", lambda *args: calls.append(args) or column_sums(*args))
    shift, _ = scaled.shift_of(problem)
    assert len(calls) == 1
    X = problem.rows.values
    np.testing.assert_allclose(shift, problem.weights @ X, rtol=1e-12)
    as_sparse = shift_of(far_columns(csr_array, alpha=0.1))[0]
    np.testing.assert_allclose(as_sparse, shift, rtol=1e-12)


def test_a_constant_column_far_from_zero_keeps_its_size():
    problem = far_columns(lambda X: np.column_stack([X, np.full(len(X), 0.1)]), alpha=0.0)
    shift, _ = shift_of(problem)
    assert 0.05 <= 0.1 * scale_of(problem, shift)[-1] <= 2.0


def test_points_and_gradients_go_to_the_users_columns_and_back():
    rng = np.random.default_rng(0)
    for problem in (far_columns(), far_columns(loss="multinomial")):
        columns = Columns(scale_of(problem), shift_of(problem)[0], problem.n_outputs)
        assert columns.shift.any()
        inner, v = scaled_problem(problem, columns), rng.standard_normal(problem.dim)
        w = columns.outward(v)
        np.testing.assert_allclose(columns.inward(w), v, rtol=1e-10)
        own, theirs = evaluate(inner, v), evaluate(problem, w)
        assert own.objective == pytest.approx(theirs.objective, rel=1e-10)
        assert own.optimality == pytest.approx(theirs.optimality, rel=1e-8)


def test_a_run_in_shifted_columns_is_resumed_to_the_same_bits(tmp_path):
    problem, settings = far_columns(), {"method": "saga", "tol": 1e-6, "measure_every": 0}
    whole = minimize(problem, **settings)
    minimize(problem, max_iter=3, checkpoint=tmp_path / "run.npz", **settings)
    found = minimize(problem, checkpoint=tmp_path / "run.npz", resume=True, **settings)
    assert whole.success
    assert found.x.tobytes() == whole.x.tobytes()


@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize("name", ["fg", "afg", "saga", "a-ciag"])
def test_what_is_claimed_of_shifted_rows_in_single_precision_is_true_of_them_as_they_are(name, form):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X = (30.0 + rng.standard_normal((80, 6))).astype(np.float32)
        y = ((X - 30.0) @ rng.standard_normal(6) + rng.logistic(size=80) > 0.0).astype(int)
        problem = Problem.linear(as_format(X, form), y, alpha=0.01, fit_intercept=True)
        result = minimize(problem, method=name, tol=1e-7, measure_every=0)
        assert result.success
        assert evaluate(problem, result.x).optimality <= 1e-7


def test_rows_become_dense_by_one_rule():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 100)) < 0.2, 1.0, 0.0)
    X[:, 0] = 100.0 + rng.standard_normal(300)
    problem = Problem.linear(csr_array(X), rng.integers(0, 2, 300), alpha=0.1, fit_intercept=True)
    for name, is_dense in (("fg", False), ("saga", True)):
        columns = scales_for(METHODS[name](), problem, "auto")
        assert columns.shift[0] != 0.0
        assert scaled_problem(problem, columns).rows.is_sparse() is not is_dense
