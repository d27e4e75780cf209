"""Dual ascent for the hinge loss: minima against interior points, the equations of the free loads, what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.row_products import predictions
from finitesum.methods.auto import choose


def generated_hinge(seed, loss="hinge"):
    """Return rows of any shape and density, weights over two decades with zeros among them, offsets, any alpha."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 200)), int(rng.integers(1, 60))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5) * 10.0 ** rng.uniform(-1, 1, d)
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    more = {"alpha": 10.0 ** rng.uniform(-4, 0), "fit_intercept": bool(rng.random() < 0.6)}
    if rng.random() < 0.5:
        more["sample_weight"] = 10.0 ** rng.uniform(-2, 0, n) * (rng.random(n) < 0.9) + 1e-3 * (np.arange(n) < 2)
    if rng.random() < 0.3:
        more["offset"] = 0.3 * rng.standard_normal(n)
    return Problem.linear(sp.csr_array(X) if rng.random() < 0.5 else X, y, loss=loss, **more)


def text(n=2000, d=3000):
    """Return rows of length 1 with frequent and rare columns."""
    rng = np.random.default_rng(0)
    columns = np.minimum((d * rng.random((n, 30)) ** 4).astype(int), d - 1)
    X = sp.csr_array((rng.random(n * 30) + 0.1, columns.ravel(), np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    X = sp.csr_array(sp.diags_array(1.0 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.1, 1.0, -1.0)
    return Problem.linear(X, y, loss="hinge", alpha=1.0 / n)


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 60))])
@pytest.mark.usefixtures("kernels_as_python")
def test_hinge_problems_of_any_shape_end_at_the_minimum(seed):
    problem = generated_hinge(seed)
    result = minimize(problem, method="dual-ascent", tol=1e-9, max_iter=5000, measure_every=0)
    other = minimize(problem, method="interior-point", tol=1e-9, measure_every=0)
    assert result.success, result.message
    assert abs(result.fun - other.fun) <= 2e-9


@pytest.mark.parametrize("loss", ["squared-hinge", "smoothed-hinge"])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40))])
@pytest.mark.usefixtures("kernels_as_python")
def test_rounded_corners_end_at_the_minimum(seed, loss):
    problem = generated_hinge(seed, loss)
    result = minimize(problem, method="dual-ascent", tol=1e-8, max_iter=5000, measure_every=0)
    other = minimize(problem, method="newton", tol=1e-9, measure_every=0)
    assert result.success, result.message
    assert np.linalg.norm(result.jac) <= 1e-8
    assert result.nfev == 0  # a round ends with the gradient at its point, which no check computes again
    np.testing.assert_allclose(result.jac, evaluate(problem, result.x).gradient, atol=1e-12)
    assert result.fun == pytest.approx(other.fun, rel=1e-9, abs=1e-12)


def test_the_free_loads_of_text_are_solved_for_in_few_rounds():
    problem = text()
    result = minimize(problem, method="dual-ascent", tol=1e-12, measure_every=0)
    assert result.success
    assert result.state.n_rounds <= 20
    multipliers = -problem.targets * result.state.slopes
    free = (multipliers > 0.0) & (multipliers < 1.0)
    excesses = problem.targets * predictions(problem, result.x) - 1.0
    assert 10 <= free.sum() < 2000
    assert np.abs(excesses[free]).max() <= 1e-8
    assert excesses[multipliers == 0.0].min() >= -1e-8
    assert excesses[multipliers == 1.0].max() <= 1e-8


@pytest.mark.parametrize(
    ("n", "d", "more", "is_taken"),
    [
        (600, 2000, {}, True),
        (600, 2000, {"alpha": 0.1}, False),
        (600, 2000, {"fit_intercept": True}, False),
        (600, 2000, {"l1_ratio": 0.5}, False),
        (6000, 500, {}, False),
    ],
)
def test_rounded_corners_go_to_dual_ascent_where_rows_are_few_by_columns(n, d, more, is_taken):
    X = sp.random_array((n, d), density=0.02, rng=np.random.default_rng(0), format="csr")
    y = np.where(np.arange(n) % 3 > 0, 1.0, -1.0)
    problem = Problem.linear(X, y, loss="squared-hinge", **{"alpha": 1.0 / n, **more})
    assert (choose(problem).method.name == "dual-ascent") == is_taken
