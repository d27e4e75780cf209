"""Huber's joint estimate of coefficients and scale: Newton's method on both at once, and where it is not taken."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize as scipy_minimize
from sklearn.exceptions import ConvergenceWarning

from finitesum.constraints import Box
from finitesum.estimators import HuberRegressor
from finitesum.estimators.huber_scale import joint_estimate


def data(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.array([1.0, 0.1, 10.0, 3.0])[:d]
    return X, X @ np.arange(1.0, d + 1.0) + 2.0 + rng.standard_t(2, size=n), rng.random(n) + 0.1


def objective(X, y, p, alpha, epsilon, at):
    w, b, sigma = at[: X.shape[1]], at[-2], at[-1]
    t = np.abs(X @ w + b - y) / sigma
    losses = np.where(t <= epsilon, t * t, 2.0 * epsilon * t - epsilon**2)
    return float(p @ (sigma + sigma * losses)) + 0.5 * alpha * float(w @ w)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_it_ends_where_the_formula_is_least(form, intercept, weighted):
    X, y, weights = data()
    p = weights / weights.sum() if weighted else np.full(y.size, 1.0 / y.size)
    start = np.zeros(4 + intercept), float(y.std())
    found = joint_estimate(
        form(X), y, p, start, alpha=0.01, epsilon=1.35, has_intercept=intercept, tol=1e-10, least_scale=1e-8
    )
    w = found.coefficients if intercept else np.append(found.coefficients, 0.0)
    at, h = np.append(w, found.scale), 1e-6
    for j in (*range(4), *([4] if intercept else []), 5):
        step = h * np.eye(6)[j]
        slope = (objective(X, y, p, 0.01, 1.35, at + step) - objective(X, y, p, 0.01, 1.35, at - step)) / (2.0 * h)
        assert abs(slope) < 1e-6
    assert found.n_steps <= 15
    assert found.n_hessians <= 3.0


def test_weights_are_repetitions_and_scipy_finds_no_lower_value():
    X, y, _ = data()
    counts = np.arange(y.size) % 3
    model = HuberRegressor(scale="joint", alpha=0.01).fit(X, y, sample_weight=counts)
    repeated = HuberRegressor(scale="joint", alpha=0.01).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(model.coef_, repeated.coef_, rtol=1e-8)
    assert model.scale_ == pytest.approx(repeated.scale_, rel=1e-8)
    p = counts / counts.sum()
    at = np.concatenate([model.coef_, [model.intercept_, model.scale_]])
    assert objective(X, y, p, 0.01, 1.35, at) == pytest.approx(model.objective_, rel=1e-12)
    bounds = [(None, None)] * 5 + [(1e-8, None)]
    for start in (at, np.append(np.zeros(5), 1.0)):
        other = scipy_minimize(lambda u: objective(X, y, p, 0.01, 1.35, u), start, method="L-BFGS-B", bounds=bounds)
        assert other.fun >= model.objective_ - 1e-12


def turns_of(model, X, y):
    turns, solve_at = [], type(model)._solve_at

    def counted(self, *arguments):
        turns.append(arguments[3])
        return solve_at(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "_solve_at", counted)
        model.fit(X, y)
    return len(turns)


def test_the_search_for_the_scale_has_one_turn():
    X, y, _ = data()
    assert turns_of(HuberRegressor(scale="joint"), X, y) == 1
    model = HuberRegressor(scale="joint", warm_start=True)
    assert turns_of(model, X, y) == turns_of(model, X, y) == 1


@pytest.mark.parametrize(
    "more",
    [{"solver": "newton"}, {"constraint": Box(-50.0, 50.0)}, {"bounds": (-50.0, 50.0)}, {"callback": lambda _: None}],
)
def test_a_method_a_set_or_a_callback_has_the_search_and_ends_at_the_same_model(more):
    X, y, _ = data()
    wanted, other = HuberRegressor(scale="joint").fit(X, y), HuberRegressor(scale="joint", **more)
    assert turns_of(other, X, y) > 1
    np.testing.assert_allclose(other.coef_, wanted.coef_, rtol=1e-5)
    assert other.scale_ == pytest.approx(wanted.scale_, rel=1e-6)
    assert wanted.n_passes_ < other.n_passes_


def test_rows_that_are_fitted_exactly_have_no_scale_and_few_turns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    y = X @ rng.standard_normal(40) + rng.standard_t(2, size=60)
    model = HuberRegressor(scale="joint")
    with pytest.warns(ConvergenceWarning, match="no positive scale is best"):
        assert turns_of(model, X, y) <= 10
    assert model.scale_ <= 1e-5 * y.std()
