"""Bounds of rounding errors against rational arithmetic, and claims of convergence that they confirm."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.constraints import Box, L1Ball
from finitesum.core.jit import Kernel
from finitesum.evaluation import double_double, rounding
from finitesum.evaluation.optimality import evaluate
from finitesum.losses import Multinomial

BOUNDS = {"norms": rounding._by_norms, "rows": rounding._by_rows}


def wild(seed, loss, spread=6.0, **options):
    """Return a problem whose columns differ in size by up to 10^(2 spread), and a point where predictions are moderate."""
    rng = np.random.default_rng(seed)
    n, d = 12, 4
    scales = 10.0 ** rng.uniform(-spread, spread, d)
    X = rng.standard_normal((n, d)) * scales
    y = np.where(rng.standard_normal(n) > 0.0, 1.0, -1.0) if loss == "squared-hinge" else rng.standard_normal(n)
    problem = Problem.linear(X, y, loss=loss, sample_weight=rng.random(n) + 0.1, **options)
    return problem, X, rng.standard_normal(problem.dim) / np.append(scales, np.ones(problem.dim - d))


def exact_gradient(problem, X, w):
    """Return the gradient of the mean loss with the quadratic penalty in rational numbers."""
    rows = [[Fraction(float(v)) for v in row] + [Fraction(1)] * (w.size - X.shape[1]) for row in X]
    point, total = [Fraction(float(v)) for v in w], [Fraction(0)] * w.size
    for row, target, weight in zip(rows, problem.targets, problem.weights, strict=True):
        u, y, p = sum(a * b for a, b in zip(row, point, strict=True)), Fraction(float(target)), Fraction(float(weight))
        kind = type(problem.loss).__name__
        if kind == "Huber":
            t = Fraction(float(problem.loss.threshold))
            slope = min(max(u - y, -t), t)
        elif kind == "SquaredEpsilonInsensitive":
            t = Fraction(float(problem.loss.epsilon))
            slope = 2 * (max(u - y - t, 0) - max(y - u - t, 0))
        else:
            slope = u - y if kind == "Squared" else -2 * y * max(1 - y * u, 0)
        total = [a + p * slope * b for a, b in zip(total, row, strict=True)]
    return [a + Fraction(float(q)) * b for a, q, b in zip(total, problem.term.quadratic, point, strict=True)]


def distance(found, exact):
    return float(sum((Fraction(float(a)) - b) ** 2 for a, b in zip(found, exact, strict=True))) ** 0.5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("loss", ["squared", "huber", "squared-hinge", "squared-epsilon-insensitive"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_hold_and_are_of_use(bound, loss, seed):
    problem, X, w = wild(seed, loss, alpha=1e-3, fit_intercept=bool(seed % 2))
    found = evaluate(problem, w)
    error = distance(found.gradient, exact_gradient(problem, X, w))
    known = BOUNDS[bound](problem, w, found)
    assert error <= known
    if bound == "rows":
        assert known <= 1e4 * np.finfo(float).eps * np.abs(X).max() * (1.0 + np.abs(problem.targets).max())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("loss", ["squared", "huber", "squared-hinge"])
def test_extended_precision_is_right_within_its_bound(loss, seed):
    problem, X, w = wild(seed, loss, alpha=1e-3, fit_intercept=bool(seed % 2))
    found = rounding.in_extended_precision(problem, w, evaluate(problem, w))
    exact = float(sum(g * g for g in exact_gradient(problem, X, w))) ** 0.5
    assert abs(found.optimality - exact) <= found.rounding + 4.0 * np.finfo(float).eps * exact
    if np.finfo(np.longdouble).eps < 1e-18:
        assert found.rounding < 0.01 * rounding._by_rows(problem, w, evaluate(problem, w))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predictions_of_dense_rows_are_exact_where_they_cancel(dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((12, 6)) * 10.0 ** rng.uniform(-6, 6, 6)).astype(dtype)
    w = rng.standard_normal(6)
    for _ in range(3):
        w[5] = -float(X[0, :5].astype(float) @ w[:5]) / float(X[0, 5])
    problem = Problem.linear(X[:1], [0.0], loss="squared")
    exact = exact_gradient(problem, X[:1].astype(float), w)
    gradient, bounds = rounding.extended_gradient(problem, w)
    errors = [abs(Fraction(float(g)) + Fraction(float(g - float(g))) - e) for g, e in zip(gradient, exact, strict=True)]
    assert all(float(e) <= b for e, b in zip(errors, bounds, strict=True))
    slope, size = abs(float(sum(exact)) / float(X[0].sum())), float(np.abs(X[0] * w).sum())
    assert (bounds <= np.abs(X[0]) * (1e-15 * slope + 1e-29 * size)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [3, 16, 37])
@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("form", ["kernel", "arrays"])
def test_double_double_sums_have_twice_the_digits(form, intercept, d, dtype, monkeypatch):
    rng = np.random.default_rng(d)
    X = (rng.standard_normal((9, d)) * 10.0 ** rng.uniform(-6, 6, d)).astype(dtype)
    w, offsets, errors = rng.standard_normal(d + intercept), rng.standard_normal(9), rng.random(9)
    rows = [[Fraction(float(x)) for x in row] + [Fraction(1)] * intercept for row in X]

    def off(high, low, exact):
        return float(abs(Fraction(high) + Fraction(low) - exact))

    dot, add = (getattr(double_double, name + "_in_arrays" * (form == "arrays")) for name in ("_dot_rows", "_add_rows"))
    high, low, sizes = np.empty(9), np.empty(9), np.empty(9)
    monkeypatch.setattr(Kernel, "as_compiled", True)
    dot(X, w, offsets, high, low, sizes)
    np.testing.assert_allclose(sizes, np.abs(X * w[:d]).sum(axis=1), rtol=1e-13)
    for row, offset, *found, size in zip(rows, offsets, high, low, sizes, strict=True):
        exact = sum((x * Fraction(v) for x, v in zip(row, w, strict=True)), Fraction(offset))
        assert off(*found, exact) <= 1e-30 * (size + 1.0)
    totals, rests, of_errors = np.zeros(d + intercept), np.zeros(d + intercept), np.zeros(d + intercept)
    add(X, high, low, errors, totals, rests, of_errors)
    columns = list(zip(*rows, strict=True))
    for column, *found, of_error in zip(columns, totals, rests, of_errors, strict=True):
        exact = sum(x * (Fraction(a) + Fraction(b)) for x, a, b in zip(column, high, low, strict=True))
        assert off(*found, exact) <= 1e-29 * float(sum(abs(x * Fraction(a)) for x, a in zip(column, high, strict=True)))
        assert of_error == pytest.approx(float(sum(abs(x) * Fraction(e) for x, e in zip(column, errors, strict=True))))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "options",
    [{"alpha": 1e-6}, {"alpha": 1e-3, "l1_ratio": 1.0}, {"constraint": Box(-1.0, 1.0)}, {"constraint": L1Ball(0.1)}],
)
def test_a_claim_holds_in_extended_precision(options, seed):
    problem, _, _ = wild(seed, "squared", 4.0, **options)
    result = minimize(problem, tol=1e-9, max_iter=200)
    exact = rounding.in_extended_precision(problem, result.x, evaluate(problem, result.x))
    assert result.success == (result.optimality + result.rounding <= 1e-9)
    if result.success:
        assert exact.optimality + exact.rounding <= 1e-9


def test_sparse_rows_and_classes_have_bounds():
    rng = np.random.default_rng(0)
    X = sp.random_array((30, 6), density=0.3, rng=rng, format="csr") * 1e3
    for loss, y in (
        ("logistic", rng.integers(0, 2, 30)),
        ("multinomial", rng.integers(0, 3, 30)),
        ("poisson", rng.poisson(1.0, 30)),
    ):
        problem = Problem.linear(X, y, loss=loss, alpha=1e-2, fit_intercept=True)
        found = minimize(problem, tol=1e-9)
        assert found.success
        assert 0.0 < found.rounding < 1e-9
        again = rounding.in_extended_precision(problem, found.x, evaluate(problem, found.x))
        assert again.optimality == pytest.approx(found.optimality, abs=found.rounding + again.rounding)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("loss", ["multinomial", "squared"])
@pytest.mark.parametrize("seed", range(3))
def test_several_outputs_have_bounds_by_rows(seed, loss, is_sparse):
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.uniform(-4.0, 4.0, 6)
    X = (rng.standard_normal((25, 6)) + 3.0) * (rng.random((25, 6)) < 0.7) * scales
    y = rng.integers(0, 3, 25) if loss == "multinomial" else rng.standard_normal((25, 3))
    more = {"sample_weight": rng.integers(0, 3, 25), "offset": rng.standard_normal((25, 3))} if seed else {}
    problem = Problem.linear(sp.csr_array(X) if is_sparse else X, y, loss=loss, alpha=1e-3, fit_intercept=True, **more)
    w = (rng.standard_normal((3, 7)) / np.append(scales, 1.0)).ravel()
    found = evaluate(problem, w)
    exact, _ = rounding.extended_gradient(problem, w)
    known = rounding._by_rows(problem, w, found)
    assert float(np.linalg.norm((exact - found.gradient).astype(float))) <= known
    assert known < 0.5 * rounding._by_norms(problem, w, found)


def test_classes_are_confirmed_by_rows_where_norms_are_not_enough(monkeypatch):
    rng = np.random.default_rng(0)
    X = 30.0 + rng.standard_normal((60, 40))
    problem = Problem.linear(X, X[:, :3].argmax(axis=1), loss="multinomial", alpha=1e-3, fit_intercept=True)
    monkeypatch.setattr(rounding, "in_extended_precision", lambda *_: pytest.fail("a sum in extended precision"))
    w = minimize(problem, tol=1e-6).x
    found = evaluate(problem, w)
    tol = found.optimality + 0.5 * rounding._by_norms(problem, w, found)
    sure = rounding.confirmed(problem, w, found, tol)
    assert sure.optimality + sure.rounding <= tol


def test_measures_have_no_bound_before_they_are_confirmed():
    problem, _, w = wild(0, "huber")
    found = evaluate(problem, w)
    assert np.isnan(found.rounding)
    assert found.upper == found.optimality
    assert rounding.confirmed(problem, w, found, 0.5 * found.optimality) is found


def test_changes_of_scores_change_the_slopes_of_classes_by_no_more_than_their_bound():
    loss, rng = Multinomial(2.0), np.random.default_rng(0)
    scores, targets = rng.standard_normal((400, 3)) * 10.0 ** rng.uniform(-1, 2, (400, 1)), rng.integers(0, 3, 400)
    for size in (1e-6, 1e-2, 0.4, 3.0):
        slopes, reach = loss.d1(scores, targets), size * rng.random((400, 3))
        moved = np.max(
            [np.abs(loss.d1(scores + s * reach, targets) - slopes) for s in rng.choice([-1.0, 1.0], (50, 1, 3))], 0
        )
        bound = loss.most_change(slopes, reach)
        assert (moved <= bound * (1.0 + 1e-9) + 1e-15).all()
        assert (bound <= 2.0).all()


def test_what_rows_of_a_certain_class_lose_keeps_its_digits():
    scores, target = np.array([[50.0, 0.0, -1.0]]), np.array([0])
    small = np.exp(-50.0) + np.exp(-51.0)
    np.testing.assert_allclose(Multinomial().value(scores, target), small, rtol=1e-14)
    np.testing.assert_allclose(Multinomial().d1(scores, target)[0, 0], -small, rtol=1e-14)


def test_an_optimality_that_is_above_tol_by_rounding_errors_alone_is_measured_again():
    n_lower = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((30, 3)) * [1e4, 1.0, 1e-2]
        y = X @ rng.standard_normal(3) + rng.standard_normal(30)
        problem, w = Problem.linear(X, y, loss="squared"), np.linalg.lstsq(X, y, rcond=None)[0]
        found = evaluate(problem, w)
        tol = 0.99 * found.optimality
        is_lower = rounding.in_extended_precision(problem, w, found).upper <= tol
        assert (rounding.confirmed(problem, w, found, tol).upper <= tol) == is_lower
        n_lower += is_lower
    assert n_lower > 0


def exact_solution(problem, X):
    """Return the minimiser of least squares in rational numbers."""
    rows = [[Fraction(float(v)) for v in row] for row in X]
    weights, targets = ([Fraction(float(v)) for v in values] for values in (problem.weights, problem.targets))
    d = X.shape[1]
    system = [
        [sum(p * row[i] * b for p, row, b in zip(weights, rows, column, strict=True))
         for column in (*zip(*rows, strict=True), targets)]
        for i in range(d)
    ]  # fmt: skip
    for k in range(d):
        for i in range(d):
            if i != k:
                factor = system[i][k] / system[k][k]
                system[i] = [a - factor * b for a, b in zip(system[i], system[k], strict=True)]
    return np.array([float(system[i][d] / system[i][i]) for i in range(d)])


@pytest.mark.parametrize("seed", range(6))
def test_newton_finds_better_float64_numbers_than_those_nearest_to_the_solution(seed):
    """Of nearly collinear columns what one coefficient loses by rounding the others can make up for."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((20, 1)) + 1e-4 * rng.standard_normal((20, 5))) * 1e5
    problem = Problem.linear(X, rng.standard_normal(20), loss="squared")
    result = minimize(problem, method="newton", tol=1e-10, max_iter=30)
    ours, nearest = (
        float(sum(g * g for g in exact_gradient(problem, X, w))) ** 0.5 for w in (result.x, exact_solution(problem, X))
    )
    assert nearest > 1e-9
    assert result.success
    assert ours <= 1e-10
