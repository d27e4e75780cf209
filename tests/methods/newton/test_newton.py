"""Newton's method: how many Hessians it takes."""

import numpy as np
import pytest
from contracts.problems import make_pair
from scipy import sparse

from finitesum import Problem, minimize
from finitesum.methods.newton import newton

pytestmark = pytest.mark.usefixtures("kernels_as_python")

#: Losses without kinks: the Hessian is Lipschitz continuous.
MODELS = [
    {"loss": "logistic"},
    {"loss": "poisson", "intercept": True},
    {"loss": "logistic", "l1_ratio": 0.5, "weighted": True},
    {"loss": "poisson", "constraint": "box"},
]


@pytest.mark.parametrize("model", MODELS)
def test_the_last_step_has_the_hessian_of_the_one_before_where_that_is_likely_to_meet_tol(model, monkeypatch):
    problem, F = make_pair(n=60, d=5, alpha=0.05, **model)
    saved = 0
    for tol in 10.0 ** -np.arange(3.0, 11.0):
        found = minimize(problem, method="newton", tol=tol)
        with monkeypatch.context() as without:
            without.setattr(newton, "LIKELY", 0.0)
            usual = minimize(problem, method="newton", tol=tol)
        assert found.success
        assert F.optimality(found.x) <= tol * (1.0 + 1e-6)
        assert found.n_hessian_passes <= usual.n_hessian_passes
        assert found.n_passes <= usual.n_passes + 1.0
        saved += usual.n_hessian_passes - found.n_hessian_passes
    assert saved >= 2.0


def _gamma(rng, n, d):
    """Return a problem of Gamma targets, and its solution to all digits by Newton's method in NumPy."""
    X, weights, offset = rng.standard_normal((n, d)), rng.integers(1, 4, n).astype(float), 0.1 * rng.standard_normal(n)
    y = np.exp(0.3 * X.sum(axis=1) / np.sqrt(d) + 0.2 + offset) * rng.gamma(2.0, 0.5, n)
    problem = Problem.linear(X, y, loss="gamma", alpha=1e-2, fit_intercept=True, sample_weight=weights, offset=offset)
    A, p, ridge = np.c_[X, np.ones(n)], weights / weights.sum(), 1e-2 * np.append(np.ones(d), 0.0)
    w = np.append(np.zeros(d), np.log(p @ y))
    for _ in range(50):
        ratio = y * np.exp(-(A @ w + offset))
        w -= np.linalg.solve((A.T * (p * ratio)) @ A + np.diag(ridge), A.T @ (p * (1.0 - ratio)) + ridge * w)
    return problem, w


@pytest.mark.parametrize("seed", range(4))
def test_one_expected_hessian_is_enough_for_gamma_targets_far_more_than_columns(seed):
    problem, solution = _gamma(np.random.default_rng(seed), 2000, 4)
    start = np.append(np.zeros(4), 0.2)
    loose, tight = (minimize(problem, start, method="newton", tol=tol) for tol in (1e-3, 1e-12))
    assert loose.success
    assert tight.success
    assert loose.n_hessian_passes == 1.0
    assert loose.n_passes <= 2.0 + newton.MOST_EXPECTED
    assert tight.n_hessian_passes <= 4.0
    np.testing.assert_allclose(tight.x, solution, rtol=1e-9, atol=1e-11)


def test_steps_with_the_expected_hessian_end_where_they_cost_more_than_two_others(monkeypatch):
    problem, solution = _gamma(np.random.default_rng(7), 2000, 4)
    spent = {}
    for price in (-1.0, 1e9):
        monkeypatch.setattr(newton, "hessian_in_gradients", lambda _problem, price=price: price)
        spent[price] = minimize(problem, method="newton", tol=1e-10, max_iter=1).n_passes
        found = minimize(problem, method="newton", tol=1e-10)
        assert found.success
        np.testing.assert_allclose(found.x, solution, rtol=1e-7, atol=1e-9)
    assert spent[-1.0] < spent[1e9] <= 2.0 + newton.MOST_EXPECTED


def test_runs_that_begin_near_a_solution_take_hessians_of_their_own():
    problem, solution = _gamma(np.random.default_rng(3), 2000, 4)
    near = minimize(problem, 1.001 * solution, method="newton", tol=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newton, "_has_expected", lambda _problem: False)
        usual = minimize(problem, 1.001 * solution, method="newton", tol=1e-9)
    assert (near.n_passes, near.n_hessian_passes) == (usual.n_passes, usual.n_hessian_passes)


def test_steps_of_a_given_size_and_few_rows_have_no_expected_hessian():
    problem, _ = _gamma(np.random.default_rng(1), 200, 3)
    result = minimize(problem, method="newton", options={"step_size": 1.0}, tol=1e-6)
    assert result.n_hessian_passes == result.nit
    few = np.random.default_rng(2).standard_normal((30, 2000))
    assert not newton._has_expected(Problem.linear(few, np.ones(30), loss="gamma", alpha=0.1))
    assert not newton._has_expected(Problem.linear(problem.rows.values, problem.targets, loss="poisson"))


def test_steps_of_a_given_size_have_hessians_of_their_own():
    problem, _ = make_pair(loss="logistic", n=60, d=5, alpha=0.05)
    for tol in (1e-3, 1e-5, 1e-7):
        result = minimize(problem, method="newton", options={"step_size": 1.0}, tol=tol)
        assert result.n_hessian_passes == result.nit
        assert result.n_passes == result.nit + 1.0


@pytest.mark.parametrize("are_alike", [True, False])
def test_hessians_of_a_part_of_the_rows_are_taken_until_they_cost_steps(are_alike, monkeypatch):
    rng, (n, d) = np.random.default_rng(3), (5400, 60)
    X = rng.standard_normal((n, d))
    every = n // (newton.ENOUGH_ROWS * d)  # 5
    if not are_alike:
        X[::every] *= 1e-3  # the rows of the part
    y = np.sign(2.0 * X[:, 0] + rng.standard_normal(n))
    problem = Problem.linear(X, y, alpha=1e-4)
    result = minimize(problem, method="newton", tol=1e-9)
    monkeypatch.setattr(newton, "is_part_enough", lambda problem: False)
    exact = minimize(problem, method="newton", tol=1e-9)
    assert result.success
    assert result.fun == pytest.approx(exact.fun, rel=1e-14)
    assert result.n_passes <= exact.n_passes + (3.0 if are_alike else 6.0)
    assert result.n_hessian_passes < exact.n_hessian_passes + (-0.5 if are_alike else 1.5)


@pytest.fixture
def parts(monkeypatch):
    """Return of which parts of the rows Hessians are tried: every k-th row."""
    tries, in_single = [], newton.hessian_in_single

    def tried(problem, curvatures, every):
        tries.extend([every] if every > 1 else [])
        return in_single(problem, curvatures, every)

    monkeypatch.setattr(newton, "hessian_in_single", tried)
    return tries


def test_a_part_of_the_rows_whose_factor_is_not_precise_is_not_tried_again(parts, monkeypatch):
    rng, (n, groups, levels) = np.random.default_rng(4), (4200, 8, 8)
    X = np.eye(levels)[rng.integers(0, levels, (n, groups))].reshape(n, -1)  # of each group all columns sum to 1
    y = np.sign(X @ rng.standard_normal(groups * levels) + rng.logistic(size=n))
    problem = Problem.linear(sparse.csr_array(X), y, alpha=1e-6)
    result = minimize(problem, method="newton", tol=1e-9)
    assert parts == [n // (newton.ENOUGH_ROWS * problem.dim)]
    monkeypatch.setattr(newton, "is_part_enough", lambda problem: False)
    exact = minimize(problem, method="newton", tol=1e-9)
    np.testing.assert_array_equal(result.x, exact.x)
    assert result.n_hessian_passes == exact.n_hessian_passes


@pytest.mark.parametrize("batch_size", [None, 2700, 5400])
def test_parts_of_the_rows_are_the_same_whatever_a_component_is(batch_size, parts):
    rng, (n, d) = np.random.default_rng(3), (5400, 60)
    X = rng.standard_normal((n, d))
    y = np.sign(2.0 * X[:, 0] + rng.standard_normal(n))
    minimize(Problem.linear(X, y, alpha=1e-4, batch_size=batch_size), method="newton", tol=1e-9)
    assert parts == 3 * [n // (newton.ENOUGH_ROWS * d)]


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_hessians_in_single_precision_end_at_the_same_point_or_are_summed_again(scale):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 40))
    X[:, 1] = X[:, 0] + scale * X[:, 1]  # so that pivots are small
    y = np.sign(X[:, 0] + rng.standard_normal(400))
    problem = Problem.linear(X, y, alpha=1e-9)
    first = newton.Newton().init(problem, np.zeros(40))
    state = newton.Newton().run_pass(problem, first, np.arange(400))
    assert (first.in_single, state.in_single) == (True, scale == 1.0)
    result = minimize(problem, method="newton", tol=1e-9)
    exact = minimize(problem, method="newton", options={"step_size": 1.0}, tol=1e-9)  # exact Hessians
    assert result.success
    assert result.fun == pytest.approx(exact.fun, rel=1e-12)
