"""Polyhedra: their projections are those of a quadratic program, and every method that projects finds the same minimum."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.optimize import linprog, minimize as scipy_minimize, nnls

from finitesum import METHODS, Component, FiniteSum, LinearRegressor, LogisticRegression, Problem, minimize
from finitesum.constraints import Box, HalfSpace, Polyhedron
from finitesum.constraints.multipliers import multipliers_of
from finitesum.losses import Absolute, EpsilonInsensitive, Hinge, Quantile
from finitesum.methods import as_method
from finitesum.methods.base import is_suited


@pytest.mark.parametrize("decades", [0, 3])
@pytest.mark.parametrize("m", [1, 3, 8, 20])
def test_projections_are_those_of_a_quadratic_program(m, decades):
    rng = np.random.default_rng(m)
    for _ in range(20):
        d = int(rng.integers(2, 9))
        matrix, inside = rng.standard_normal((m, d)), rng.standard_normal(d)
        constraint = Polyhedron(matrix, matrix @ inside + rng.exponential(size=m) * (rng.random(m) < 0.7))
        x, metric = 3.0 * rng.standard_normal(d), 10.0 ** rng.uniform(-decades, 0.0, d)
        p = constraint.project(x, metric)
        assert constraint.contains(p, 1e-10)
        # p is nearest: s (x - p) is a sum of normals, with factors >= 0, of inequalities that hold with equality
        tight = matrix @ p >= constraint.limits - 1e-9 * np.abs(matrix) @ (1.0 + np.abs(p))
        gradient = metric * (x - p)
        distance = nnls(matrix[tight].T, gradient)[1] if tight.any() else np.abs(gradient).max()
        assert distance <= 1e-8 * (1.0 + np.abs(gradient).max())


def test_inequalities_may_repeat_and_depend_on_each_other():
    rows = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    constraint = Polyhedron(rows, [1.0, 2.0, 0.5, 0.5, 1.0])
    assert constraint.project([3.0, 3.0]) == pytest.approx([0.5, 0.5])
    assert constraint.project([0.9, 0.2]) == pytest.approx([0.5, 0.2])
    assert multipliers_of(np.zeros((2, 2)), np.array([1.0, -1.0])) == pytest.approx([0.0, 0.0])


def test_boxes_and_half_spaces_are_polyhedra():
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(4)
    box = Polyhedron(np.vstack([np.eye(4), -np.eye(4)]), np.append(np.full(4, 0.5), np.full(4, 0.2)))
    assert box.is_bounded
    assert (box.width(), box.diameter(4)) == pytest.approx((0.7, 1.4))
    for _ in range(30):
        x, metric = rng.standard_normal(4), rng.uniform(0.1, 2.0, 4)
        assert box.project(x, metric) == pytest.approx(Box(-0.2, 0.5).project(x), abs=1e-14)
        half = HalfSpace(normal, -0.3)
        assert Polyhedron([normal], -0.3).project(x, metric) == pytest.approx(half.project(x, metric), abs=1e-14)
        assert box.support(x) == pytest.approx(Box(-0.2, 0.5).support(x))


MATRIX = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, -1.0]])
SET = Polyhedron(MATRIX, [0.0, 0.0, 0.4, 0.1])


def problem_of(**more):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 4))
    y = np.where(X @ [1.0, 0.2, -0.5, -1.0] + 0.5 * rng.standard_normal(40) > 0.0, 1.0, -1.0)
    return Problem.linear(X, y, loss="logistic", alpha=0.02, constraint=SET, **more)


def minimum(problem):
    X, y, d = problem.rows.values, problem.targets, problem.dim
    offsets = np.zeros((len(MATRIX), d - 4))

    def objective(w):
        u = X @ w[:4] + (w[4] if d > 4 else 0.0)
        return np.logaddexp(0.0, -y * u).mean() + 0.01 * w[:4] @ w[:4]

    inequality = {"type": "ineq", "fun": lambda w: SET.limits - np.hstack([MATRIX, offsets]) @ w}
    return scipy_minimize(objective, np.zeros(d), method="SLSQP", constraints=[inequality], options={"ftol": 1e-14})


@pytest.mark.parametrize("name", [name for name in METHODS if is_suited(as_method(name), problem_of())])
def test_every_method_that_projects_finds_the_minimum(name):
    problem, found = problem_of(), minimum(problem_of())
    needs_floor = {"adahb", "adagrad", "rmsprop", "adam", "amsgrad"}
    options = {"delta": 1e-2} if name in needs_floor else None
    result = minimize(problem, method=name, tol=1e-7, max_iter=400, options=options)
    assert SET.contains(result.x, 1e-9)
    assert -1e-9 <= result.fun - found.fun <= (1e-9 if result.success else 3e-2)


def test_newtons_methods_are_exact_on_polyhedra():
    for intercept in (False, True):
        problem = problem_of(fit_intercept=intercept)
        for name in ("auto", "newton", "lazy-newton"):
            result = minimize(problem, method=name, tol=1e-12)
            assert result.success, result.message
            assert result.x == pytest.approx(minimum(problem).x, abs=1e-5)


def hinges_of(problem):
    """Return (A, b, c), by definition, so that the mean loss is sum_k c_k max(0, b_k - A_k z), z = (w, b)."""
    X, y = problem.rows.values, problem.targets
    X = np.column_stack([X, np.ones(len(y))]) if problem.has_intercept else X
    n, zeros = len(y), np.zeros_like(X)
    if isinstance(problem.loss, Hinge):
        return y[:, None] * X, np.ones(n), np.full(n, 1.0 / n)
    width, level = getattr(problem.loss, "epsilon", 0.0), getattr(problem.loss, "quantile", None)
    above, below = (1.0, 1.0) if level is None else (level, 1.0 - level)
    costs = np.repeat([above, below], n) / n
    return np.vstack([X, zeros - X]), np.concatenate([y - width, -y - width]), costs


def exact_minimum(problem, alpha):
    """Return min F by a linear program, or by SLSQP with slacks where there is an l2 penalty."""
    A, b, costs = hinges_of(problem)
    m, dim = A.shape
    matrix, limits = problem.constraint.matrix, problem.constraint.limits
    side = np.hstack([matrix, np.zeros((len(matrix), dim - matrix.shape[1]))])
    program = np.vstack([np.hstack([-A, -np.eye(m)]), np.hstack([side, np.zeros((len(side), m))])])
    right, linear = np.concatenate([-b, limits]), np.concatenate([np.zeros(dim), costs])
    bounds = [(None, None)] * dim + [(0.0, None)] * m
    if alpha == 0.0:
        return linprog(linear, program, right, bounds=bounds).fun
    d = matrix.shape[1]
    quadratic = np.concatenate([np.full(d, alpha), np.zeros(dim + m - d)])
    found = scipy_minimize(
        lambda z: linear @ z + 0.5 * quadratic @ z**2,
        np.concatenate([problem.constraint.project(np.zeros(d)), np.zeros(dim - d), np.full(m, 5.0)]),
        jac=lambda z: linear + quadratic * z,
        constraints=[{"type": "ineq", "fun": lambda z: right - program @ z, "jac": lambda z: -program}],
        bounds=bounds,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.fun


@pytest.mark.parametrize("alpha", [0.0, 0.05])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), Absolute(), EpsilonInsensitive(0.2), Quantile(0.3)])
def test_losses_with_corners_are_exact_on_polyhedra(loss, fit_intercept, alpha):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((24, 4))
    u = X @ [1.0, 0.2, -0.5, -1.0] + rng.standard_normal(24)
    y = np.where(u > 0.0, 1.0, -1.0) if isinstance(loss, Hinge) else u
    cuts = Polyhedron(rng.standard_normal((6, 4)), rng.exponential(size=6))
    for constraint in (SET, cuts, Polyhedron.increasing(range(4), 4)):
        problem = Problem.linear(X, y, loss=loss, alpha=alpha, constraint=constraint, fit_intercept=fit_intercept)
        result = minimize(problem, tol=1e-8)
        assert result.success, result.message
        assert constraint.contains(result.x[:4], 1e-10)
        assert -1e-9 <= result.fun - exact_minimum(problem, alpha) <= 1.1e-8


def test_units_of_columns_change_no_minimum_on_a_polyhedron():
    rng = np.random.default_rng(2)
    X, units = rng.standard_normal((40, 4)), np.array([1e-4, 1.0, 1e3, 1e-2])
    y = X @ [1.0, 0.2, -0.5, -1.0] + rng.standard_normal(40)
    plain = Problem.linear(X, y, loss="absolute", alpha=0.0, constraint=SET)
    scaled = Problem.linear(X / units, y, loss="absolute", alpha=0.0, constraint=Polyhedron(MATRIX / units, SET.limits))
    results = [minimize(problem, tol=1e-8) for problem in (plain, scaled)]
    assert all(result.success for result in results)
    assert results[1].fun == pytest.approx(results[0].fun, abs=2e-8)


@pytest.mark.parametrize("loss", ["hinge", "absolute"])
def test_a_polyhedron_without_interior_is_refused_where_a_loss_has_corners(loss):
    equation = Polyhedron([[1.0, 1.0], [-1.0, -1.0]], [1.0, -1.0])
    assert not equation.has_interior
    problem = Problem.linear([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0], loss=loss, alpha=0.1, constraint=equation)
    with pytest.raises(ValueError, match="a polyhedron without interior points"):
        minimize(problem)
    smooth = Problem.linear([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0], loss="logistic", alpha=0.1, constraint=equation)
    assert minimize(smooth).success


def test_bounds_of_linear_functions_within_reach_are_bounds():
    rng = np.random.default_rng(4)
    for _ in range(30):
        d, m = rng.integers(1, 6, 2)
        constraint = Polyhedron(rng.standard_normal((m, d)), rng.exponential(size=m))
        slope, reach = rng.standard_normal(d), rng.exponential(size=d) + 0.1
        least = linprog(slope, constraint.matrix, constraint.limits, bounds=np.column_stack([-reach, reach])).fun
        bound = constraint.least_within(slope, reach)
        assert least - 1e-8 <= bound <= least + 1e-12 * (1.0 + abs(least))
        inner = constraint.inner_point(3.0 * rng.standard_normal(d))
        assert (constraint.matrix @ inner < constraint.limits).all()
    assert Polyhedron([[1.0]], 0.0).least_within(np.zeros(1), np.ones(1)) == 0.0


def test_components_on_a_polyhedron_and_runs_at_once():
    targets = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    problem = FiniteSum(
        [Component(lambda w, t=t: 0.5 * (w - t) @ (w - t), lambda w, t=t: w - t) for t in targets], dim=4, constraint=SET
    )
    result = minimize(problem, method="fg", tol=1e-10)
    assert result.x == pytest.approx(SET.project(targets.mean(axis=0)), abs=1e-9)
    shared = problem_of().batched(4)
    alone = minimize(shared, method="acc-svrg", tol=0.0, max_iter=30, random_state=0).x
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(minimize, shared, method="acc-svrg", tol=0.0, max_iter=30, random_state=0) for _ in range(8)]
    assert all(np.array_equal(run.result().x, alone) for run in runs)


@pytest.mark.slow
@pytest.mark.compiled
def test_compiled_projections_are_those_of_python():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((3000, 30))
    y = np.where(X @ rng.standard_normal(30) + rng.logistic(size=3000) > 0.0, 1.0, -1.0)
    order = Polyhedron.increasing(range(30), 30)
    problem = Problem.linear(X, y, loss="logistic", alpha=1e-2, constraint=order)
    results = [minimize(problem, method=name, tol=1e-9, max_iter=500) for name in ("auto", "acc-svrg")]
    assert all(order.contains(result.x, 1e-10) for result in results)
    assert results[1].x == pytest.approx(results[0].x, abs=1e-6)


def test_effects_of_ordered_levels_grow():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 5, 120)
    X = np.eye(5)[levels]
    y = np.array([0.0, 0.5, 0.3, 1.0, 0.9])[levels] + 0.1 * rng.standard_normal(120)
    free = LinearRegressor(alpha=0.0, fit_intercept=False).fit(X, y)
    assert (np.diff(free.coef_) < 0.0).any()
    model = LinearRegressor(alpha=0.0, fit_intercept=False, constraint=Polyhedron.increasing(range(5), 5)).fit(X, y)
    assert (np.diff(model.coef_) >= -1e-12).all()
    from sklearn.isotonic import IsotonicRegression

    isotonic = IsotonicRegression().fit(levels, y)
    assert model.coef_ == pytest.approx(isotonic.predict(np.arange(5)), abs=1e-9)
    classes = LogisticRegression(constraint=Polyhedron.increasing([1, 2], 5)).fit(X, y > 0.5)
    assert classes.coef_[0, 1] <= classes.coef_[0, 2] + 1e-12
