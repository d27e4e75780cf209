"""Ridge and LinearRegressor of several targets: what they find is what fits of single targets do, at the cost of one."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import LinearRegressor, Problem, Ridge, minimize
from finitesum.evaluation.outputs import objectives_of_outputs


def drawn(seed=0, n=80, d=6, k=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal((d, k)) + rng.standard_normal((n, k)), rng


@pytest.mark.parametrize("shape", [(80, 6), (30, 90)])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("has_more", [False, True])
def test_all_targets_are_fitted_as_single_ones(shape, is_sparse, has_more):
    X, Y, rng = drawn(n=shape[0], d=shape[1])
    weights = rng.integers(0, 3, len(Y)).astype(float) if has_more else None
    offset = rng.standard_normal(Y.shape) if has_more else None
    data = sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0)) if is_sparse else X
    made = {"alpha": 2.0, "fit_intercept": has_more, "tol": 1e-10}
    model = Ridge(**made).fit(data, Y, sample_weight=weights, offset=offset)
    for k, y in enumerate(Y.T):
        single = Ridge(**made).fit(data, y, sample_weight=weights, offset=None if offset is None else offset[:, k])
        np.testing.assert_allclose(model.coef_[k], single.coef_, atol=1e-8)
        np.testing.assert_allclose(model.intercept_[k], single.intercept_, atol=1e-8)
        np.testing.assert_allclose(model.objective_[k], single.objective_, rtol=1e-10)
    assert model.n_iter_.shape == (4,)
    assert len(model.trace_) == 4


def test_one_hessian_is_made_for_all_targets():
    X, Y, _ = drawn(k=7)
    model = LinearRegressor(alpha=0.1).fit(X, Y)
    assert (model.n_passes_, model.n_hessian_passes_, model.solver_) == (2.0, 1.0, "newton")
    assert model.optimality_ <= model.tol


def test_strengths_of_their_own_share_the_hessian():
    X, Y, _ = drawn(k=3)
    model = Ridge(alpha=[0.5, 5.0, 0.5], tol=1e-12).fit(X, Y)
    for k, alpha in enumerate([0.5, 5.0, 0.5]):
        np.testing.assert_allclose(model.coef_[k], Ridge(alpha=alpha, tol=1e-12).fit(X, Y[:, k]).coef_, rtol=1e-10)


@pytest.mark.parametrize("given", [{"warm_start": True}, {"callback": lambda report: None}, {"standard_errors": True}])
def test_runs_of_single_targets_where_somebody_sees_them(given):
    X, Y, _ = drawn()
    seen = []
    given = {"callback": lambda report: seen.append(report.x.size)} if "callback" in given else given
    model = Ridge(**given).fit(X, Y)
    np.testing.assert_allclose(model.coef_, Ridge().fit(X, Y).coef_, rtol=1e-7)
    assert set(seen) <= {7}


def test_an_l1_penalty_shares_what_is_known_of_the_rows():
    X, Y, _ = drawn(n=200, d=12)
    model = LinearRegressor(alpha=0.05, l1_ratio=1.0, tol=1e-12).fit(X, Y)
    for k, y in enumerate(Y.T):
        np.testing.assert_allclose(
            model.coef_[k], LinearRegressor(alpha=0.05, l1_ratio=1.0, tol=1e-12).fit(X, y).coef_, atol=1e-10
        )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_objectives_of_outputs_are_sums_over_blocks_of_rows(form, monkeypatch):
    monkeypatch.setattr("finitesum.evaluation.outputs.BLOCK_SIZE", 20)
    rng = np.random.default_rng(2)
    X, y, shifts, weights = rng.standard_normal((40, 3)), *rng.standard_normal((2, 40, 2)), rng.integers(0, 3, 40)
    words = {"loss": "squared", "alpha": 0.5, "fit_intercept": True, "sample_weight": weights, "offset": shifts}
    problem, w = Problem.linear(form(X), y, **words), rng.standard_normal(8)
    residuals = X @ w.reshape(2, 4)[:, :3].T + w.reshape(2, 4)[:, 3] + shifts - y
    expected = 0.5 * (weights / weights.sum()) @ residuals**2 + 0.25 * (w.reshape(2, 4)[:, :3] ** 2).sum(axis=1)
    np.testing.assert_allclose(objectives_of_outputs(problem, w), expected, rtol=1e-12)


def test_objectives_of_outputs_add_up():
    X, Y, rng = drawn()
    problem = Problem.linear(X, Y, loss="squared", alpha=0.3, fit_intercept=True, sample_weight=rng.random(len(Y)))
    result = minimize(problem, tol=1e-10)
    assert (result.method.name, result.n_hessian_passes) == ("newton", 1.0)
    np.testing.assert_allclose(objectives_of_outputs(problem, result.x).sum(), result.fun, rtol=1e-12)


def test_what_one_run_for_all_does_not_reach_single_ones_do():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((200, 8)) + 1e4, rng.standard_normal((200, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Ridge(alpha=1.0, tol=1e-10).fit(X, Y)
    assert model.optimality_ <= 1e-10
    assert model.objective_.shape == (4,)
