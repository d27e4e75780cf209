"""Newton's method with fewer rows than columns: its steps come from the products of rows."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.problems import FORMATS, ident, make_pair, passes_of, start
from oracles import newton_type

from finitesum import Problem, minimize
from finitesum.evaluation import row_space
from finitesum.methods import as_method, forecasts
from finitesum.methods.cost_model import has_few_rows
from finitesum.methods.newton.newton import Newton

SETTINGS = [
    {},
    {"intercept": True, "weighted": True},
    {"loss": "squared", "intercept": True},
    {"loss": "smoothed-hinge"},
    {"loss": "squared-hinge", "intercept": True, "weighted": True},
    {"loss": "huber"},
    {"loss": "poisson", "intercept": True, "weighted": True},
]


@pytest.fixture(autouse=True)
def _any_number_of_columns(monkeypatch):
    monkeypatch.setattr("finitesum.methods.cost_model.FEW_COLUMNS", 0)


def wide_pair(form, setting):
    problem, oracle = make_pair(form, **setting | {"n": 14, "d": 40})
    assert has_few_rows(problem)
    return problem, oracle


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.usefixtures("kernels_as_python")
def test_steps_are_those_of_the_hessian_of_all_columns(form, setting):
    problem, oracle = wide_pair(form, setting)
    x0 = start(problem, 0.1)
    expected = newton_type.newton(oracle, x0, 4, damping=1.0)
    for state, point in zip(passes_of(Newton(step_size=1.0), problem, x0)[1], expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seconds", [0.0, 2e7], ids=["one step a pass", "many steps a pass"])
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.usefixtures("kernels_as_python")
def test_the_minimum_is_that_of_other_methods(setting, seconds, monkeypatch):
    monkeypatch.setattr("finitesum.methods.cost_model.LEAST_PASS", seconds)
    problem, oracle = wide_pair("csr32", setting)
    result = minimize(problem, method="newton", x0=start(problem), tol=1e-12)
    assert result.success, result.message
    assert oracle.optimality(result.x) <= 1e-11
    np.testing.assert_allclose(result.x, minimize(problem, method="newton-cg", tol=1e-11).x, atol=1e-8)


@pytest.mark.usefixtures("kernels_as_python")
def test_rows_that_repeat():
    X = np.random.default_rng(0).standard_normal((12, 50))
    problem = Problem.linear(np.vstack([X, X[:6]]), np.arange(18) % 2, alpha=1e-3, fit_intercept=True)
    result = minimize(problem, method="newton", tol=1e-12)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, minimize(problem, method="newton-cg", tol=1e-11).x, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.usefixtures("kernels_as_python")
def test_the_last_digits_are_those_of_the_gradient_in_extended_precision(intercept, weighted):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 90))
    weights = rng.uniform(0.5, 2.0, 30) if weighted else None
    problem = Problem.linear(X, X[:, 0] > 0.0, sample_weight=weights, alpha=1e-3, fit_intercept=intercept)
    result = minimize(problem, method="newton", tol=3e-18, max_iter=60)  # the rounding errors of float64 leave 1e-17
    assert result.success, result.message


def test_rows_in_single_precision_are_not_copied_whole():
    X = np.random.default_rng(4).standard_normal((40, 1000)).astype(np.float32)
    problem = Problem.linear(X, X[:, 0] > 0.0, alpha=1e-3)
    tracemalloc.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_space, "NUMBERS_AT_A_TIME", 4000)
        found = row_space.products_of_rows(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, X.astype(np.float64) @ X.T.astype(np.float64), rtol=1e-12)
    assert peak < X.nbytes


def test_auto_takes_it_where_few_rows_have_many_columns():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3000)) * 10.0 ** rng.uniform(-1, 1, 3000)
    problem = Problem.linear(X, X[:, 0] > 0.0, alpha=1e-3)
    result = minimize(problem, tol=1e-10)
    assert result.success, result.message
    assert result.method == as_method("newton")
    assert forecasts.forecast("newton", problem, 1e-10) < forecasts.forecast("newton-cg", problem, 1e-10)
    assert result.n_passes < 6


def test_a_loose_tol_takes_fewer_steps():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 400))
    problem = Problem.linear(X, X[:, 0] > 0.0, alpha=1e-3)
    loose, tight = (minimize(problem, method="newton", tol=tol, measure_every=0) for tol in (1e-3, 1e-12))
    assert loose.success
    assert loose.n_hessian_passes < tight.n_hessian_passes
    assert loose.nit == 1  # the end is what was asked for


@pytest.mark.parametrize("density", [0.01, 0.1, 0.5, 1.0])
def test_pairs_of_entries_are_counted_only_where_that_may_decide(density):
    X = sp.random_array((60, 500), density=density, format="csr", rng=np.random.default_rng(1))
    problem = Problem.linear(X, np.arange(60) % 2, alpha=1.0)
    per_column = np.bincount(X.indices, minlength=500).astype(float)
    with_zeros = row_space.PRODUCT * 60 * 60 * 500 + row_space.CONVERTED * X.nnz
    without = row_space.SPARSE_PRODUCT * float(per_column @ per_column)
    found = row_space._times_of_products(problem)
    assert min(found) == pytest.approx(min(with_zeros, without), rel=1e-12)
    assert (found[1] <= found[0]) == (without <= with_zeros)
    assert "_times_of_products" in problem.batched(3).of_rows


@pytest.mark.parametrize("loss", ["squared-hinge", "smoothed-hinge"])
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.usefixtures("kernels_as_python")
def test_rows_beyond_their_corners_have_no_curvature(loss, has_intercept):
    problem, oracle = make_pair("dense", n=14, d=40, loss=loss, intercept=has_intercept)
    rows = np.column_stack([problem.rows.values, *[np.ones((14, 1))] * has_intercept])
    far = 1e3 * np.linalg.lstsq(rows, problem.targets, rcond=None)[0]
    assert (problem.targets * (rows @ far) > 100.0).all()
    result = minimize(problem, far, method="newton", tol=1e-10)
    assert result.success, result.message
    assert oracle.optimality(result.x) <= 1e-9
