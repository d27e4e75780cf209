"""Sets with several outputs: the coefficients of each output lie in the set by themselves, and intercepts are free.

Minima are compared with a long accelerated projected gradient method of NumPy, whose projections are written down here.
"""

import itertools
import math

import numpy as np
import pytest
from contracts.problems import FORMATS, as_format
from oracles import projected_gradients
from oracles.outputs import SumOfOutputs
from scipy.optimize import nnls

from finitesum import METHODS, FiniteSum, LogisticRegression, LogisticRegressionCV, Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Polyhedron, Simplex
from finitesum.constraints.outputs import OutputsProjection
from finitesum.constraints.projections import project_in_metric
from finitesum.core.jit import as_python
from finitesum.evaluation.outputs import measure
from finitesum.methods.auto import choose

N, D, K = 40, 4, 3
WEIGHTS = np.array([1.0, 0.5, 2.0, 1.5])
MATRIX, LIMITS = np.array([[1.0, 1.0, 0.0, -1.0], [0.0, -1.0, 1.0, 0.0]]), np.array([-0.3, -0.2])


def onto_l1(x, radius, weights):
    if weights @ np.abs(x) <= radius:
        return x
    low, high = 0.0, float((np.abs(x) / weights).max())
    for _ in range(200):
        middle = 0.5 * (low + high)
        is_long = weights @ np.maximum(np.abs(x) - middle * weights, 0.0) > radius
        low, high = (middle, high) if is_long else (low, middle)
    return np.sign(x) * np.maximum(np.abs(x) - high * weights, 0.0)


def onto_simplex(x, total):
    low, high = x.min() - total, x.max()
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.maximum(x - middle, 0.0).sum() > total else (low, middle)
    return np.maximum(x - high, 0.0)


def onto_planes(x, matrix, limits):
    excess = matrix @ x - limits
    lower = np.linalg.cholesky(matrix @ matrix.T)
    multipliers, _ = nnls(lower.T, np.linalg.solve(lower, excess))
    return x - matrix.T @ multipliers


SETS = {
    "l1": (L1Ball(0.7), lambda x: onto_l1(x, 0.7, np.ones(D))),
    "weighted l1": (L1Ball(0.8, WEIGHTS), lambda x: onto_l1(x, 0.8, WEIGHTS)),
    "l2": (L2Ball(0.5), lambda x: x * 0.5 / max(0.5, np.linalg.norm(x))),
    "linf": (LInfBall(0.3), lambda x: np.clip(x, -0.3, 0.3)),
    "box": (Box(-0.2, 0.2 * WEIGHTS), lambda x: np.clip(x, -0.2, 0.2 * WEIGHTS)),
    "signs": (NonNegative(), lambda x: np.maximum(x, 0.0)),
    "simplex": (Simplex(0.9), lambda x: onto_simplex(x, 0.9)),
    "half-space": (HalfSpace(WEIGHTS, -0.4), lambda x: x - WEIGHTS * max(WEIGHTS @ x + 0.4, 0.0) / (WEIGHTS @ WEIGHTS)),
    "planes": (Polyhedron(MATRIX, LIMITS), lambda x: onto_planes(x, MATRIX, LIMITS)),
}
OF_WORKING_SETS = {"l1", "weighted l1", "linf", "box", "signs", "simplex"}
SETTINGS = [
    ("dense", {}),
    ("csr32", {"intercept": True, "weighted": True}),
    ("dense", {"loss": "squared", "intercept": True, "weighted": True}),
    ("csr64", {"loss": "squared", "alpha": 0.0}),
]


def pair(constraint, form="dense", *, loss="multinomial", alpha=0.02, intercept=False, weighted=False, seed=0, scales=0.0):
    """Return the same problem as (Problem, SumOfOutputs)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.7)
    scores = 1.5 * X @ rng.standard_normal((D, K)) + rng.gumbel(size=(N, K))
    X = X * 10.0 ** (scales * np.linspace(-1.0, 1.0, D))
    y = scores.argmax(axis=1) if loss == "multinomial" else scores
    weights = rng.integers(1, 4, N).astype(float) if weighted else None
    offsets = 0.3 * rng.standard_normal((N, K)) if weighted else None
    problem = Problem.linear(
        as_format(X, form), y, loss=loss, alpha=alpha, fit_intercept=intercept, sample_weight=weights, offset=offsets,
        constraint=constraint,
    )  # fmt: skip
    oracle = SumOfOutputs(X, y, loss, K, l1=0.0, l2=alpha, intercept=intercept, weights=weights, offsets=offsets)
    return problem, oracle


def projected(w, onto):
    table = w.reshape(K, -1).copy()
    for row in table:
        row[:D] = onto(row[:D])
    return table.ravel()


def mapping(oracle, w, onto):
    return w - projected(w - oracle.gradient(w), onto)


def lowest(oracle, onto, dim):
    """Return the minimum by accelerated projected gradients with restarts."""
    step = 1.0 / np.linalg.eigvalsh(oracle.hessian(np.zeros(dim)))[-1] / (2.0 if oracle.loss == "multinomial" else 1.0)
    return projected_gradients.lowest(oracle, lambda point: projected(point, onto), step, dim)


def known_methods():
    return sorted(name for name, cls in METHODS.items() if {"outputs", "constraint"} <= cls.handles)


@pytest.mark.parametrize(("form", "setting"), SETTINGS, ids=str)
@pytest.mark.parametrize("name", SETS)
def test_auto_and_gradients_find_the_minimum_of_the_oracle(name, form, setting):
    constraint, onto = SETS[name]
    problem, oracle = pair(constraint, form, **setting)
    expected = lowest(oracle, onto, problem.dim)
    for method in ("auto", "afg", "newton", *["multinomial-working-set"] * (name in OF_WORKING_SETS)):
        result = minimize(problem, method=method, tol=1e-9, max_iter=20_000)
        assert result.success, result.message
        assert result.fun == pytest.approx(expected, rel=1e-8)
        assert np.linalg.norm(mapping(oracle, result.x, onto)) <= 1.01e-9
        for row in result.x.reshape(K, -1):
            assert constraint.contains(row[:D])


@pytest.mark.parametrize(
    ("method", "name"),
    [
        pytest.param(method, name, marks=[pytest.mark.slow] * (method == "a-ciag" and name != "box"))
        for method in known_methods()
        for name in ("weighted l1", "l2", "box", "planes")
    ],
)
def test_every_method_that_treats_both_does(method, name):
    constraint, onto = SETS[name]
    problem, oracle = pair(constraint, intercept=True)
    if method == "multinomial-working-set" and name not in OF_WORKING_SETS:
        with pytest.raises(
            ValueError, match=r"needs a box, signs, an l1 ball or a simplex, got .*\. Use method=\"newton\""
        ):
            minimize(problem, method=method)
        return
    result = minimize(problem, method=method, tol=1e-6, max_iter=3000)
    assert result.success, result.message
    assert np.linalg.norm(mapping(oracle, result.x, onto)) <= 1.01e-6


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(known_methods())))
def test_others_refuse_in_a_sentence_that_names_some_that_can(name):
    with pytest.raises(ValueError, match=f"{name} cannot treat a constraint with several classes at once: .*newton.* can"):
        minimize(pair(L1Ball(1.0))[0], method=name)


@pytest.mark.parametrize("name", SETS)
def test_badly_scaled_columns_keep_tol(name):
    constraint, _ = SETS[name]
    for alpha, method in itertools.product((0.0, 1e-3), ("auto", "multinomial-working-set")):
        if method != "auto" and name not in OF_WORKING_SETS:
            continue
        problem, oracle = pair(constraint, intercept=True, scales=2.5, alpha=alpha, weighted=True)
        result = minimize(problem, method=method, tol=1e-8)
        assert result.success, result.message
        assert np.linalg.norm(mapping(oracle, result.x, SETS[name][1])) <= 1.01e-8
        if constraint.is_bounded:  # no point of the set is lower by more than the gradient's slope to it
            gradient = oracle.gradient(result.x).reshape(K, -1)
            slopes = [
                g[:D] @ w[:D] + constraint.support(-g[:D]) for g, w in zip(gradient, result.x.reshape(K, -1), strict=True)
            ]
            assert sum(slopes) <= 1e-5 * abs(result.fun)


@pytest.mark.parametrize("scales", [0.0, 3.0])
@pytest.mark.parametrize("name", ["l1", "simplex", "l2"])
def test_many_coefficients_without_a_penalty_have_models_of_newton_solved(name, scales):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 30))
    y = (X @ rng.standard_normal((30, 4)) + rng.gumbel(size=(300, 4))).argmax(axis=1)
    X = X * 10.0 ** (scales * rng.uniform(-1.0, 1.0, 30))
    constraint = {"l1": L1Ball(2.0), "simplex": Simplex(2.0), "l2": L2Ball(1.0)}[name]
    problem = Problem.linear(X, y, loss="multinomial", fit_intercept=True, alpha=0.0, constraint=constraint)
    result = minimize(problem, method="newton", tol=1e-9)
    assert result.success, result.message
    assert result.nit <= 10
    if not scales:
        assert result.fun == pytest.approx(minimize(problem, method="afg", tol=1e-9).fun, rel=1e-10)


def wide(constraint, alpha, scales, n=120, d=150, form="dense"):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 8)) @ rng.standard_normal((8, d)) + 0.5 * rng.standard_normal((n, d))
    y = (X[:, :30] @ rng.standard_normal((30, 4)) + rng.gumbel(size=(n, 4))).argmax(axis=1)
    X = X * 10.0 ** rng.uniform(0.0, scales, d)
    return Problem.linear(as_format(X, form), y, loss="multinomial", fit_intercept=True, alpha=alpha, constraint=constraint)


@pytest.mark.as_chosen
@pytest.mark.parametrize(("form", "scales"), [("dense", 0.0), ("csr32", 0.5)])
@pytest.mark.parametrize(
    "constraint", [L1Ball(0.5), L1Ball(5.0), Box(-0.02, 0.05), NonNegative(), Simplex(0.5)], ids=lambda one: repr(one)[:12]
)
def test_working_sets_of_many_correlated_coefficients_are_exact(constraint, form, scales):
    problem = wide(constraint, 0.0 if constraint.is_bounded else 1e-3, scales, form=form)
    result = minimize(problem, method="multinomial-working-set", tol=1e-7)
    assert result.success, result.message
    assert result.nit <= 45
    table, d = result.x.reshape(4, -1), problem.rows.n_columns
    assert all(constraint.contains(row[:d]) for row in table)
    if constraint.is_bounded:  # no point of the set is lower by more than the gradient's slope to it
        gradient = measure(problem, result.x)[1].reshape(4, -1)
        gaps = [g[:d] @ w[:d] + constraint.support(-g[:d]) for g, w in zip(gradient, table, strict=True)]
        assert sum(gaps) <= 1e-4


@pytest.mark.as_chosen
def test_working_sets_are_an_alternative_of_auto_and_checkpoints_go_on(tmp_path):
    problem = wide(L1Ball(5.0), 0.0, 0.0)
    choice = choose(problem, tol=1e-8)
    assert "multinomial-working-set" in [choice.method.name, *[other.method.name for other in choice.others]]
    assert minimize(problem, tol=1e-6).success
    whole = minimize(problem, method="multinomial-working-set", tol=0.0, max_iter=6)
    file = tmp_path / "run.npz"
    minimize(problem, method="multinomial-working-set", tol=0.0, max_iter=3, checkpoint=file)
    resumed = minimize(problem, method="multinomial-working-set", tol=0.0, max_iter=6, checkpoint=file, resume=True)
    assert resumed.x.tobytes() == whole.x.tobytes()


@pytest.mark.parametrize("method", ["afg", "newton", "acc-svrg", "ciag"])
@pytest.mark.parametrize("name", ["l1", "box", "planes"])
def test_functions_make_the_same_iterates_and_checkpoints_go_on(name, method, tmp_path):
    settings = {"intercept": True, "weighted": True, "loss": "squared" if method == "newton" else "multinomial"}
    problem = pair(SETS[name][0], **settings)[0].batched(5)
    options = {} if method == "newton" else {"step_size": 0.1}
    whole = minimize(problem, method=method, options=options, tol=0.0, max_iter=9)
    general = minimize(FiniteSum.from_linear(problem), method=method, options=options, tol=0.0, max_iter=9)
    np.testing.assert_allclose(general.x, whole.x, rtol=1e-9, atol=1e-9)
    file = tmp_path / "run.npz"
    minimize(problem, method=method, options=options, tol=0.0, max_iter=4, checkpoint=file)
    resumed = minimize(problem, method=method, options=options, tol=0.0, max_iter=9, checkpoint=file, resume=True)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert problem.fingerprint != pair(SETS["l2"][0], **settings)[0].batched(5).fingerprint


@pytest.mark.parametrize("name", SETS)
def test_the_projection_in_a_metric_is_that_of_each_output(name):
    constraint, rng = SETS[name][0], np.random.default_rng(1)
    projection = OutputsProjection(constraint.compiled, K, D)
    x, metric = 2.0 * rng.standard_normal(K * (D + 1)), rng.random(K * (D + 1)) + 0.1
    out = np.empty_like(x)
    for runs in (1, 2):
        if runs == 1:
            projection.project_into(x, metric, out)
        else:
            with as_python():
                project_in_metric(projection, x, metric, out)
        for row, given, weights in zip(out.reshape(K, -1), x.reshape(K, -1), metric.reshape(K, -1), strict=True):
            np.testing.assert_allclose(row[:D], constraint.project(given[:D], weights[:D]), atol=1e-12)
            assert row[D] == given[D]


def test_sets_are_those_of_one_output_and_go_with_an_l2_penalty_alone():
    X, y = np.eye(4), [0, 1, 2, 0]
    for own, message in (
        ({"constraint": Box(0.0, np.ones(3))}, "Box is made for 3 variables, but there are 4"),
        ({"constraint": L1Ball(1.0), "alpha": 0.1, "l1_ratio": 0.5}, "an l1 penalty goes with bounds of coefficients"),
        ({"constraint": L1Ball(1.0), "alpha": 0.1, "groups": [0, 0, 1, 1]}, "a constraint goes with an l2 penalty alone"),
    ):
        with pytest.raises(ValueError, match=message):
            Problem.linear(X, y, loss="multinomial", **own)


@pytest.mark.parametrize("form", FORMATS)
def test_logistic_regression_takes_a_set_for_each_class(form):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 5))
    y = np.array(["a", "b", "c"])[(X[:, :3] + 0.7 * rng.gumbel(size=(90, 3))).argmax(axis=1)]
    for own, constraint in (
        ({"constraint": L1Ball(0.8)}, L1Ball(0.8)),
        ({"bounds": (0.0, None)}, NonNegative()),
        ({"constraint": Simplex(1.0), "C": math.inf}, Simplex(1.0)),
    ):
        model = LogisticRegression(tol=1e-9, **own).fit(as_format(X, form), y)
        assert model.optimality_ <= 1e-9
        assert all(constraint.contains(coef) for coef in model.coef_)
        assert model.coef_.shape == (3, 5)
        alpha = 1.0 / (model.C * 90)
        problem = Problem.linear(X, y, loss="multinomial", alpha=alpha, fit_intercept=True, constraint=constraint)
        assert float(model.objective_) == pytest.approx(minimize(problem, method="afg", tol=1e-9).fun, rel=1e-9)
        scores = X @ model.coef_.T + model.intercept_
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        np.testing.assert_allclose(model.predict_proba(X), chances / chances.sum(axis=1, keepdims=True), atol=1e-12)
    chosen = LogisticRegressionCV(Cs=[0.1, 10.0], cv=3, constraint=L1Ball(0.8)).fit(as_format(X, form), y)
    assert all(L1Ball(0.8).contains(coef) for coef in chosen.coef_)


@pytest.mark.as_chosen
def test_a_simplex_gives_up_most_coefficients_of_its_middle_at_once():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((300, 100))
    y = (X[:, :5] + rng.gumbel(size=(300, 5))).argmax(axis=1)
    problem = Problem.linear(X, y, loss="multinomial", fit_intercept=True, alpha=1e-6, constraint=Simplex(1.5))
    counts = []
    result = minimize(
        problem, method="multinomial-working-set", tol=1e-9, callback=lambda r: counts.append(np.count_nonzero(r.x))
    )
    assert result.success
    assert counts[0] < 150
    assert result.nit <= 8
    assert result.fun == pytest.approx(minimize(problem, method="afg", tol=1e-9, max_iter=5000).fun, rel=1e-9)


@pytest.mark.as_chosen
@pytest.mark.parametrize("constraint", [L1Ball(0.1), Simplex(0.05)], ids=type)
def test_columns_that_differ_by_1e4_without_a_penalty_keep_tol(constraint):
    rng = np.random.default_rng(11)
    X = np.maximum(rng.standard_normal((300, 5)) @ rng.standard_normal((5, 40)) + rng.standard_normal((300, 40)), 0.0)
    y = (0.3 * X[:, :4] + rng.gumbel(size=(300, 4))).argmax(axis=1)
    X = X * 10.0 ** rng.uniform(0.0, 4.0, 40)
    problem = Problem.linear(X, y, loss="multinomial", fit_intercept=True, alpha=0.0, constraint=constraint)
    result = minimize(problem, method="multinomial-working-set", tol=1e-6)
    assert result.success, result.message
    assert result.nit <= 40
    oracle = SumOfOutputs(X, y, "multinomial", 4, l1=0.0, l2=0.0, intercept=True, weights=None, offsets=None)
    gradient, table = oracle.gradient(result.x).reshape(4, -1), result.x.reshape(4, -1)
    gaps = [g[:40] @ w[:40] + constraint.support(-g[:40]) for g, w in zip(gradient, table, strict=True)]
    assert sum(gaps) <= 1e-6  # no point of the set is lower by more than the gradient's slope to it
    whole = minimize(problem, method="multinomial-working-set", tol=0.0, max_iter=6)
    earlier = minimize(problem, method="multinomial-working-set", tol=0.0, max_iter=3)
    again = minimize(problem, method="multinomial-working-set", tol=0.0, max_iter=3, earlier=earlier)
    np.testing.assert_array_equal(again.x, whole.x)  # the damping goes on
