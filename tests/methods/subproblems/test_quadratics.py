"""The minimisers of quadratic models against their optimality conditions, and weighted Gram matrices."""

import numpy as np
import pytest
import sklearn.datasets
from contracts.problems import make_pair
from oracles import newton_type as oracle
from sklearn.datasets import load_breast_cancer

from finitesum import Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, NonNegative, Simplex
from finitesum.evaluation.hessian import hessian_of
from finitesum.methods.subproblems import active_set, quadratic_models
from finitesum.methods.subproblems.lattice import nearest_combination
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.methods.subproblems.quadratic_models import minimise_model


def random_model(rng, d, rank=None):
    A = rng.standard_normal((rank or 2 * d, d))
    return A.T @ A, rng.standard_normal(d), rng.standard_normal(d)


def test_solves_positive_definite_systems_from_the_lower_triangle():
    H, g, _ = random_model(np.random.default_rng(0), 9)
    garbage = np.tril(H) + np.triu(np.full((9, 9), np.nan), 1)
    np.testing.assert_allclose(solve_spd(garbage, g), np.linalg.solve(H, g), rtol=1e-10)


def test_a_singular_system_is_solved_on_its_range():
    rng = np.random.default_rng(1)
    H, _, y = random_model(rng, 8, rank=5)
    solution = solve_spd(H, H @ y)
    np.testing.assert_allclose(H @ solution, H @ y, rtol=1e-6, atol=1e-8)
    assert np.linalg.norm(solution) < 10 * np.linalg.norm(y)


def test_zero_curvature_gives_a_gradient_step():
    np.testing.assert_array_equal(solve_spd(np.zeros((2, 2)), np.array([3.0, -1.0])), [3.0, -1.0])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("intercept", [False, True])
def test_l1_minimisers_meet_the_optimality_conditions_to_rounding(seed, intercept):
    rng = np.random.default_rng(seed)
    problem, F = make_pair(n=40, d=12, alpha=rng.choice([0.1, 1.0, 5.0]), l1_ratio=1.0, intercept=intercept)
    H, g, y = random_model(rng, problem.dim)
    x = minimise_model(problem.term, H, g, y, 0.0)
    slope = g + H @ (x - y)
    scale = np.abs(g).max() + np.abs(H).max() * np.abs(y).max()
    assert np.abs(x - F.prox(x - slope, 1.0)).max() <= 1e-13 * scale


def test_l1_minimisers_of_badly_conditioned_models():
    rng = np.random.default_rng(3)
    problem, F = make_pair(n=40, d=12, alpha=0.01, l1_ratio=1.0)
    A = rng.standard_normal((30, 12)) * np.logspace(0, -4, 12)
    H, g, y = A.T @ A, A.T @ rng.standard_normal(30), np.zeros(12)
    x = minimise_model(problem.term, H, g, y, 0.0)
    assert np.abs(x - F.prox(x - g - H @ (x - y), 1.0)).max() <= 1e-12


def test_a_large_penalty_gives_exact_zeros():
    problem, _ = make_pair(alpha=100.0, l1_ratio=1.0)
    H, g, y = random_model(np.random.default_rng(4), problem.dim)
    np.testing.assert_array_equal(minimise_model(problem.term, H, g, y, 0.0), np.zeros(problem.dim))


@pytest.mark.parametrize("constraint", ["box"])
def test_constrained_minimisers_are_fixed_points_of_the_projected_step(constraint):
    problem, F = make_pair(constraint=constraint)
    H, g, y = random_model(np.random.default_rng(5), problem.dim)
    x = minimise_model(problem.term, H, g, y, 1e-12)
    np.testing.assert_allclose(x, oracle.projected(F, g, H, y), atol=1e-10)


def test_a_model_that_is_not_finite_has_no_minimiser():
    problem, _ = make_pair()
    H, g, y = random_model(np.random.default_rng(6), problem.dim)
    H[2, 2] = np.inf
    assert np.isnan(minimise_model(problem.term, H, g, y, 0.0)).all()


@pytest.mark.parametrize("form", ["dense", "csr32"])
@pytest.mark.parametrize("intercept", [False, True])
def test_hessians_equal_their_definition(form, intercept):
    problem, F = make_pair(form, n=50, intercept=intercept, weighted=True)
    x = np.random.default_rng(7).standard_normal(problem.dim)
    H = hessian_of(problem, F.d2(F.predictions(x), F.y))
    np.testing.assert_allclose(H, F.hessian(x), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(H, H.T)


@pytest.mark.compiled
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_signs_that_change_at_once_do_not_end_the_search(C, l1_ratio):
    """Columns in units from thousandths to thousands: the step on a face is at once against a sign that changes."""
    X, y = load_breast_cancer(return_X_y=True)
    problem = Problem.linear(X, y, alpha=1.0 / (C * y.size), l1_ratio=l1_ratio, fit_intercept=True)
    result = minimize(problem, method="lazy-newton", tol=1e-10, max_iter=60, measure_every=0)
    assert result.success, result.message


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "constraint",
    [
        L1Ball(0.5),
        L1Ball(0.5, np.linspace(0.5, 2.0, 6)),
        L2Ball(0.5),
        Box(-0.1, [0.3, 0.3, 0.3, 0.01, 0.01, 0.01]),
        NonNegative(),
        Simplex(0.7),
        HalfSpace(np.arange(1.0, 7.0), -0.2),
    ],
)
def test_minimisers_over_sets_of_models_in_any_units_are_fixed_points(constraint, seed, intercept):
    rng = np.random.default_rng(seed)
    problem = Problem.linear(np.eye(6), np.arange(6.0), loss="squared", constraint=constraint, fit_intercept=intercept)
    scale = 10.0 ** rng.uniform(-2, 2, problem.dim)
    A = rng.standard_normal((20, problem.dim)) * scale
    H, g = A.T @ A / 20, A.T @ rng.standard_normal(20) / 20
    y = np.zeros(problem.dim)
    y[:6] = constraint.project(0.1 * rng.standard_normal(6))
    x = minimise_model(problem.term, H, g, y, 1e-10)
    assert constraint.contains(x[:6], 1e-9)
    slope = g + H @ (x - y)
    back = x - slope
    back[:6] = constraint.project(back[:6])
    assert np.abs(x - back).max() <= 1e-9


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
@pytest.mark.parametrize(
    "constraint", [L1Ball(0.5), L2Ball(0.5), Box(-0.1, 0.1), NonNegative(), Simplex(), "half-space"], ids=str
)
def test_raw_columns_are_fitted_over_every_set(name, loss, constraint):
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    known = HalfSpace(np.ones(X.shape[1]), 1.0) if constraint == "half-space" else constraint
    problem = Problem.linear(X, y == 0, loss=loss, alpha=1e-4, constraint=known, fit_intercept=True)
    result = minimize(problem, method="lazy-newton", tol=1e-8, max_iter=100, measure_every=0)
    assert result.success, result.message


@pytest.mark.parametrize("method", ["lazy-newton", "newton", "acc-svrg", "a-ciag", "working-set-newton"])
@pytest.mark.parametrize("constraint", [Simplex(), Box(1.0, 2.0)])
def test_a_start_outside_of_the_set_is_brought_to_it(method, constraint):
    rng = np.random.default_rng(0)
    problem = Problem.linear(rng.standard_normal((20, 5)), rng.standard_normal(20), loss="huber", constraint=constraint)
    result = minimize(problem, method=method, tol=1e-8, max_iter=500)
    assert result.success
    assert constraint.contains(result.x)


@pytest.mark.parametrize("seed", range(10))
def test_integer_combinations_are_nearly_the_nearest(seed):
    rng = np.random.default_rng(seed)
    basis, right = rng.standard_normal((3, 3)) * 10.0 ** rng.uniform(-1, 0, 3), rng.standard_normal(3)
    k = nearest_combination(basis, right)
    assert np.array_equal(k, np.rint(k))
    steps = np.array(np.meshgrid(*[np.arange(-4, 5)] * 3)).reshape(3, -1)
    best = np.linalg.norm(basis @ (k[:, None] + steps) - right[:, None], axis=0).min()
    assert np.linalg.norm(basis @ k - right) <= 2.0 * best


def test_collinear_bases_leave_little_where_rounding_the_solution_leaves_much():
    left, much = 0.0, 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        basis = rng.standard_normal((5, 1)) + 1e-3 * rng.standard_normal((5, 5))
        right = rng.standard_normal(5)
        left += np.linalg.norm(basis @ nearest_combination(basis, right) - right)
        much += np.linalg.norm(basis @ np.rint(np.linalg.solve(basis, right)) - right)
    assert left < 0.3 * much
    np.testing.assert_array_equal(nearest_combination(np.zeros((2, 2)), np.ones(2)), np.zeros(2))


@pytest.mark.parametrize("seed", range(4))
def test_coordinate_descent_on_many_variables_ends_at_the_minimum_or_leaves_it_to_the_active_set(seed):
    """With a tolerance: where columns are nearly alike, descent comes near too slowly."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((60 if seed % 2 else 300, 100)) + 10.0 * (seed > 1)
    problem = Problem.linear(np.eye(100), np.arange(100.0), loss="squared", alpha=0.3, l1_ratio=1.0)
    H, g = A.T @ A / len(A), A.T @ rng.standard_normal(len(A)) / len(A) * 10.0
    y = rng.standard_normal(100) * (rng.random(100) < 0.3)
    x = minimise_model(problem.term, H, g, y, 1e-6)
    assert problem.term.optimality(x, g + H @ (x - y)) <= 1e-6
    assert 0 < np.count_nonzero(x) < 100


def test_coordinates_that_pass_their_bounds_are_fixed_at_once(monkeypatch):
    """From the midpoint of a box the step to the free minimiser passes the bounds of most coordinates."""
    factors, rng = [], np.random.default_rng(0)
    monkeypatch.setattr(active_set, "solve_spd", lambda *given: factors.append(given[1].size) or solve_spd(*given))
    H, g, _ = random_model(rng, 60)
    term = Problem.linear(np.eye(60), np.zeros(60), loss="squared", constraint=Box(-0.01, 0.01)).term
    w = active_set.minimised(term.intervals, H, g, np.zeros(60), np.zeros(60), 0.0)
    assert np.abs(w - np.clip(w - (g + H @ w), -0.01, 0.01)).max() <= 1e-13 * np.abs(H).max()
    assert np.count_nonzero(np.abs(w) == 0.01) > 20
    assert len(factors) < 15


def descend(hessian, w, gradient, thresholds, lower, upper, ends):
    """Coordinate descent as `model_descent.descend` does it, for which nothing is compiled."""
    n_passes, most_settled, tolerance = ends
    n_settled = 0
    for _ in range(n_passes):
        before, largest = np.sign(w), 0.0
        for j in np.flatnonzero((w != 0.0) | (np.abs(gradient) > thresholds)):
            target, threshold = w[j] - gradient[j] / hessian[j, j], thresholds[j] / hessian[j, j]
            target = np.clip(np.sign(target) * max(abs(target) - threshold, 0.0), lower[j], upper[j])
            step, w[j] = target - w[j], target
            gradient += step * hessian[j]
            largest = max(largest, hessian[j, j] * abs(step))
        is_same = (np.sign(w) == before).all()
        n_settled = n_settled + 1 if is_same else 0
        if n_settled == most_settled or (largest <= tolerance and is_same):
            return True
    return False


@pytest.mark.parametrize("start", ["zero", "dense"])
@pytest.mark.parametrize("in_ball", [False, True])
def test_coordinate_descent_goes_on_while_it_saves_steps_of_the_active_set(in_ball, start, monkeypatch):
    """A weak l1 penalty, or a large ball, with fewer rows than columns: descent frees far more coordinates at first."""
    factors, rng = [], np.random.default_rng(0)
    monkeypatch.setattr(active_set, "solve_spd", lambda *given: factors.append(given[1].size) or solve_spd(*given))
    monkeypatch.setattr(quadratic_models, "descend", descend)
    A = rng.standard_normal((80, 400)) * np.exp(rng.normal(0.0, 0.7, 400))
    A[:, 1:] += 0.5 * A[:, :-1]
    H, right, y = A.T @ A / 80.0, A.T @ rng.standard_normal(80) / 80.0, np.zeros(400)
    given = {"alpha": 1e-3 * np.abs(right).max(), "l1_ratio": 1.0}
    if in_ball:
        given = {"constraint": L1Ball(3.9)}
    if start == "dense":
        y = rng.standard_normal(400)
        y *= 3.9 / np.abs(y).sum()
    term, g = Problem.linear(np.eye(400), np.zeros(400), loss="squared", **given).term, H @ y - right
    w = minimise_model(term, H, g, y, 1e-12)
    assert term.optimality(w, H @ w - right) <= 1e-11
    assert np.count_nonzero(w) <= 80
    assert len(factors) < 80
