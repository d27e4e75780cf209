"""The system of the rows: its oracle product by product, the minimum, where it is taken, and that runs resume."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import LinearRegressor, Problem, minimize
from finitesum.constraints import Box
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.cost_model import takes_fewer_by_rows
from finitesum.methods.newton import newton_cg, row_system
from finitesum.methods.newton.newton_cg import FEW_PRODUCTS, NewtonCG
from finitesum.problems.rows import to_matrix


def wide(n=60, d=200, *, seed=0, alpha=1e-3, weighted=False, intercept=False, dtype=np.float64, **more):
    """Return rows of some entries, and least squares on them."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.05, format="csr", rng=rng, data_sampler=rng.standard_normal).astype(dtype)
    given = {"sample_weight": rng.integers(0, 4, n).astype(float), "offset": rng.standard_normal(n)} if weighted else {}
    y = X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) + 2.0
    return Problem.linear(X, y, loss="squared", alpha=alpha, fit_intercept=intercept, **given, **more)


def dense_parts(problem):
    """Return X, p, the targets less the offsets, and what centres a vector by the roots of p."""
    X, p = to_matrix(problem.rows).toarray().astype(np.float64), problem.weights
    roots = np.sqrt(p)
    u = roots / np.linalg.norm(roots) * problem.has_intercept
    return X, p, problem.targets - problem.offsets, np.eye(p.size) - np.outer(u, u)


def minimiser(problem):
    X, p, right, _ = dense_parts(problem)
    Z = np.column_stack([X, np.ones(p.size)])[:, : problem.dim]
    penalty = problem.term.ridge * np.diag([1.0] * X.shape[1] + [0.0])[: problem.dim, : problem.dim]
    return np.linalg.solve(Z.T @ (p[:, None] * Z) + penalty, Z.T @ (p * right))


@pytest.mark.parametrize("more", [{}, {"weighted": True}, {"intercept": True}, {"weighted": True, "intercept": True}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_product_is_the_oracle_s(more, dtype):
    problem = wide(dtype=dtype, **more)
    X, p, right, centre = dense_parts(problem)
    A = centre @ (np.sqrt(p)[:, None] * X) / np.sqrt(problem.term.ridge)
    K, b = A @ A.T + np.eye(p.size), centre @ (np.sqrt(p) * right)
    mean = p @ X / p.sum() * problem.has_intercept
    D = 1.0 + p * ((X - mean) ** 2).sum(axis=1) / problem.term.ridge
    v, r = np.zeros(p.size), b.copy()
    q = r / D
    run = row_system.first_run(problem)
    for _ in range(12):
        step = (r @ (r / D)) / (q @ K @ q)
        v, left = v + step * q, r - step * (K @ q)
        q, r = left / D + (left @ (left / D)) / (r @ (r / D)) * q, left
        run = row_system.multiplied(problem, run)
        assert run.solution == pytest.approx(v, rel=1e-9, abs=1e-9)
        assert run.residual == pytest.approx(r, rel=1e-7, abs=1e-9)
    point = row_system.point_of(problem, run)
    w = X.T @ (np.sqrt(p) * (centre @ v)) / problem.term.ridge
    assert point[: X.shape[1]] == pytest.approx(w, rel=1e-8, abs=1e-9)
    gradient = problem.term.quadratic[: w.size] * w + X.T @ (
        p * (X @ w + (point[-1] if problem.has_intercept else 0.0) - right)
    )
    assert np.linalg.norm(gradient) == pytest.approx(row_system._gradient_norm(problem, run), rel=1e-6)


@pytest.mark.parametrize("more", [{}, {"weighted": True, "intercept": True}, {"intercept": True, "dtype": np.float32}])
def test_the_minimum_takes_fewer_products_than_by_columns(more, monkeypatch):
    problem = wide(300, 1200, **more)
    by_rows = minimize(problem, method="newton-cg", tol=1e-10)
    monkeypatch.setattr(newton_cg, "takes_fewer_by_rows", lambda problem: False)
    by_columns = minimize(problem, method="newton-cg", tol=1e-10)
    assert by_rows.success
    assert by_columns.success
    assert by_rows.x == pytest.approx(minimiser(problem), abs=1e-6)
    assert by_rows.x == pytest.approx(by_columns.x, abs=1e-6)
    assert 2.0 * by_rows.n_passes < by_columns.n_passes


def test_columns_far_from_0_beside_an_intercept():
    X = sp.csr_array(np.random.default_rng(0).standard_normal((40, 100)) + 100.0)
    y = np.random.default_rng(1).standard_normal(40)
    problem = Problem.linear(X, y, loss="squared", alpha=1e-2, fit_intercept=True)
    result = minimize(problem, method="newton-cg", tol=1e-8)
    assert result.success
    assert result.x == pytest.approx(minimiser(problem), rel=1e-5, abs=1e-6)


def test_it_is_for_weak_penalties_on_few_sparse_rows():
    assert takes_fewer_by_rows(wide())
    assert not takes_fewer_by_rows(wide(alpha=10.0))
    assert not takes_fewer_by_rows(wide(n=250, d=200))
    assert not takes_fewer_by_rows(wide(alpha=0.0))
    assert not takes_fewer_by_rows(wide(l1_ratio=0.5))
    assert not takes_fewer_by_rows(wide(constraint=Box(-1.0, 1.0)))
    assert not takes_fewer_by_rows(wide(penalty_weights=np.arange(200.0)))
    X, y = to_matrix(wide().rows), np.sign(wide().targets)
    assert not takes_fewer_by_rows(Problem.linear(X, y, loss="logistic", alpha=1e-3))
    dense = Problem.linear(np.eye(20, 60), np.arange(20.0), loss="squared", alpha=1e-9)
    assert not takes_fewer_by_rows(dense)


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_targets_that_say_nothing(right):
    problem = Problem.linear(to_matrix(wide().rows), np.full(60, right), loss="squared", alpha=1e-3, fit_intercept=True)
    result = minimize(problem, method="newton-cg", tol=1e-10)
    assert result.success
    assert result.x == pytest.approx(np.append(np.zeros(200), right), abs=1e-10)


@pytest.mark.parametrize("passes", [1, 2, 4])
def test_runs_resume_to_the_same_bits(passes, tmp_path):
    problem, path = wide(300, 1200, weighted=True, intercept=True), tmp_path / "run.ckpt"
    whole = minimize(problem, method="newton-cg", tol=1e-10)
    assert whole.n_passes > 4 * FEW_PRODUCTS
    minimize(problem, method="newton-cg", tol=1e-10, max_iter=passes * FEW_PRODUCTS, checkpoint=path)
    resumed = minimize(problem, method="newton-cg", tol=1e-10, checkpoint=path, resume=True)
    assert resumed.n_passes == whole.n_passes
    np.testing.assert_array_equal(resumed.x, whole.x)


def test_other_starts_go_by_columns(monkeypatch):
    problem = wide(300, 1200, intercept=True)
    cold = minimize(problem, method="newton-cg", tol=1e-9)
    monkeypatch.setattr(row_system, "first_run", None)  # is not called
    near = cold.x + 1e-6 * np.random.default_rng(0).standard_normal(cold.x.size)
    warm = minimize(problem, x0=near, method="newton-cg", tol=1e-9)
    assert warm.success
    assert warm.x == pytest.approx(cold.x, abs=1e-6)


@pytest.mark.parametrize("alpha", [1e-10, 1e-3])
@pytest.mark.parametrize("seed", [0, 4, 7])
def test_columns_of_very_different_size_go_by_columns(seed, alpha):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(np.column_stack([1e7 * rng.standard_normal(80), rng.standard_normal((80, 159))]))
    problem = Problem.linear(X, rng.standard_normal(80), loss="squared", alpha=alpha, fit_intercept=True)
    assert not takes_fewer_by_rows(problem)
    result = minimize(problem, method="newton-cg", tol=1e-6)
    assert result.fun <= minimize(problem, method="newton", tol=1e-6).fun * (1.0 + 1e-6) + 1e-12


def test_a_solution_that_rounding_errors_hide_leaves_the_rest_to_columns(monkeypatch):
    problem = wide(60, 200, intercept=True)
    monkeypatch.setattr(row_system, "point_of", lambda problem, run: np.zeros(problem.dim))
    result = minimize(problem, method="newton-cg", tol=1e-9)
    assert result.success
    assert result.x == pytest.approx(minimiser(problem), abs=1e-6)


@pytest.mark.parametrize("n", [300, 1500])
def test_a_run_that_ends_within_its_step_has_what_products_have_found(n):
    """By rows and, of more rows than columns, by columns."""
    problem = wide(n, 1200, alpha=1e-5)
    result = minimize(problem, method="newton-cg", tol=1e-9, max_iter=10)
    assert not result.success
    assert result.fun < 0.2 * result.trace.rows[0].objective
    assert "so far" in result.message
    assert evaluate(problem, result.x).optimality == pytest.approx(result.optimality, rel=1e-9)


def test_long_steps_are_no_standstill():
    problem = wide(280, 300, alpha=1e-7)
    result = minimize(problem, method="newton-cg", tol=1e-8)
    assert result.success, result.message
    assert result.n_passes > NewtonCG.patience * FEW_PRODUCTS


def test_what_products_lead_to_is_foreseen():
    """So that a run is not taken for late within the only step that it has."""
    problem = wide(280, 300, alpha=1e-7)
    for suited in (True, False):
        method, state = NewtonCG(), NewtonCG().init(problem, np.zeros(problem.dim), 1e-8)
        foreseen = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(newton_cg, "takes_fewer_by_rows", lambda problem, suited=suited: suited)
            for _ in range(12):
                state = method.run_pass(problem, state, np.arange(problem.n_components))
                foreseen.append(method.foreseen(problem, state))
        assert np.isnan(foreseen[0])  # before the first product
        assert np.isfinite(foreseen[1:]).all()
        assert foreseen[-1] < 0.3 * foreseen[1]
    logistic = Problem.linear(to_matrix(problem.rows), problem.targets > 2.0, alpha=1e-7)
    state = method.init(logistic, np.zeros(problem.dim), 1e-8)
    for _ in range(12):
        state = method.run_pass(logistic, state, np.arange(problem.n_components))
        assert np.isnan(method.foreseen(logistic, state))


@pytest.mark.compiled
def test_threads_share_products(monkeypatch):
    monkeypatch.setattr("finitesum.core.threads.NUMBERS_OF_A_THREAD", 100)
    one, two = (
        minimize(wide(300, 1200, weighted=True, intercept=True), method=NewtonCG(n_threads=k), tol=1e-10) for k in (1, 2)
    )
    assert one.success
    assert two.success
    assert one.x == pytest.approx(two.x, abs=1e-7)


def test_estimators_take_it():
    problem = wide(300, 3000)
    X, y = to_matrix(problem.rows), problem.targets
    model = LinearRegressor(loss="squared", alpha=1e-3, fit_intercept=False, solver="newton-cg", tol=1e-10).fit(X, y)
    assert model.coef_ == pytest.approx(minimiser(problem), abs=1e-6)
