"""Folds of losses of a mean, solved together: against fits one by one."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.model_selection import KFold

from finitesum import LinearRegressor, LinearRegressorCV, PoissonRegressorCV
from finitesum.estimators import mean_paths, regression_path

N, D, FOLDS = 240, 8, KFold(3)
ALPHAS = np.geomspace(1.0, 1e-4, 5)


def data(kind="dense"):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, D)) + (50.0 if kind == "shifted" else 0.0)
    linear = (X - X.mean(axis=0)) @ rng.standard_normal(D) * 0.3 + 1.0
    if kind == "sparse":
        X = scipy.sparse.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0))
    return (X.astype(np.float32) if kind == "float32" else X), rng.poisson(np.exp(linear)) + 1.0, rng


@pytest.fixture
def together_alone(monkeypatch):
    """Let a fold fail that is solved by itself."""

    def no_path(*_args, **_others):
        raise AssertionError("a fold was solved by itself")

    monkeypatch.setattr(regression_path, "solve_path", no_path)


@pytest.mark.parametrize("kind", ["dense", "shifted", "float32", "sparse"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_scores_and_model_are_those_of_fits_one_by_one(kind, l1_ratio, loss, request):
    if l1_ratio == 0.0:  # else some may converge too slowly
        request.getfixturevalue("together_alone")
    X, y, rng = data(kind)
    weights, offset = rng.integers(0, 3, N).astype(float), 0.3 * rng.standard_normal(N)
    given = {"loss": loss, "l1_ratio": l1_ratio}
    model = LinearRegressorCV(alphas=ALPHAS, cv=FOLDS, **given).fit(X, y, weights, offset)
    for k, alpha in enumerate(ALPHAS):
        for fold, (train, test) in enumerate(FOLDS.split(y)):
            alone = LinearRegressor(alpha=alpha, tol=1e-10, **given).fit(X[train], y[train], weights[train], offset[train])
            u = X[test].astype(float) @ alone.coef_.astype(float) + float(alone.intercept_) + offset[test]
            losses = np.exp(u) - y[test] * u if loss == "poisson" else u + y[test] * np.exp(-u)
            score = model.scores_[fold, 0, k]
            expected = -float(np.average(losses, weights=weights[test]))
            first = -float(np.average(_constant(loss, y[test]), weights=weights[test]))
            assert score == pytest.approx(expected + first, rel=2e-6, abs=2e-6)
    exact = LinearRegressor(alpha=model.alpha_, tol=1e-10, **given).fit(X, y, weights, offset)
    assert model.coef_ == pytest.approx(exact.coef_, abs=1e-5 if kind == "float32" else 1e-7)
    assert model.optimality_ <= 1e-8


def _constant(loss, y):
    """Return the part of the losses that depends on targets alone, as the losses themselves have it at u = 0."""
    from finitesum.losses import as_loss

    plain = np.ones_like(y) if loss == "poisson" else y
    return np.array([as_loss(loss).value(0.0, target) for target in y]) - plain


def test_what_is_not_solved_together_is_solved_by_itself(monkeypatch):
    X, y, _ = data()
    expected = PoissonRegressorCV(alphas=ALPHAS, cv=FOLDS).fit(X, y)
    monkeypatch.setattr("finitesum.running.together.MOST_PASSES", 1)
    found = PoissonRegressorCV(alphas=ALPHAS, cv=FOLDS).fit(X, y)
    assert found.scores_ == pytest.approx(expected.scores_, rel=1e-6)
    monkeypatch.setattr(mean_paths, "MOST_NUMBERS", 0.0)
    assert PoissonRegressorCV(alphas=ALPHAS, cv=FOLDS).fit(X, y).scores_ == pytest.approx(expected.scores_, rel=1e-6)


def test_threads_change_nothing_that_counts():
    X, y, _ = data()
    one, two = (PoissonRegressorCV(alphas=ALPHAS, cv=FOLDS, n_threads=n).fit(X, y) for n in (None, 2))
    np.testing.assert_allclose(one.scores_, two.scores_, rtol=1e-9)
    assert one.alpha_ == two.alpha_


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_folds_with_fewer_rows_than_columns_have_paths_by_the_products_of_rows(loss, sparse, together_alone):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 240)) * (rng.random((60, 240)) < (0.4 if sparse else 1.0))
    y = rng.poisson(np.exp(0.3 * X[:, 0] + 1.0)) + 1.0
    weights, alphas = rng.integers(1, 3, 60).astype(float), np.geomspace(1.0, 1e-2, 4)
    model = LinearRegressorCV(loss, alphas=alphas, l1_ratio=0.0, cv=FOLDS)
    model.fit(scipy.sparse.csr_array(X) if sparse else X, y, weights)
    for k, alpha in enumerate(alphas):
        for fold, (train, test) in enumerate(FOLDS.split(y)):
            alone = LinearRegressor(loss, alpha=alpha, l1_ratio=0.0, tol=1e-10).fit(X[train], y[train], weights[train])
            u = X[test] @ alone.coef_ + alone.intercept_
            losses = np.exp(u) - y[test] * u if loss == "poisson" else u + y[test] * np.exp(-u)
            expected = -float(np.average(losses + _constant(loss, y[test]), weights=weights[test]))
            assert model.scores_[fold, 0, k] == pytest.approx(expected, rel=2e-5, abs=2e-5)
    exact = LinearRegressor(loss, alpha=model.alpha_, l1_ratio=0.0, tol=1e-10).fit(X, y, weights)
    assert model.coef_ == pytest.approx(exact.coef_, abs=1e-6)
