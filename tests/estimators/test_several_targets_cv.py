"""RidgeCV and LinearRegressorCV of several targets: scores and models are those of single targets, with one alpha."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold, cross_val_score

from finitesum import LinearRegressor, LinearRegressorCV, PoissonRegressorCV, Ridge, RidgeCV
from finitesum.estimators import gram_paths

FOLDS = KFold(3, shuffle=True, random_state=0)
ALPHAS = np.geomspace(1.0, 1e-2, 4)


def data(kind):
    """Return rows, three targets of which one depends on the rows alone, weights and offsets."""
    rng = np.random.default_rng(0)
    n, d = (45, 70) if kind == "wide" else (90, 8)
    X = rng.standard_normal((n, d)) + (3.0 if kind == "dense" else 0.0)
    if kind == "sparse":
        X = sp.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0))
    y = X @ rng.standard_normal((d, 3)) + np.array([0.1, 3.0, 30.0]) * rng.standard_normal((n, 3)) + [0.0, 5.0, -9.0]
    return X, y, rng.integers(0, 3, n).astype(float), rng.standard_normal((n, 3))


@pytest.mark.parametrize("kind", ["dense", "sparse", "wide"])
@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.6])
def test_scores_are_means_of_those_of_single_targets(kind, loss, l1_ratio):
    X, y, weights, offsets = data(kind)
    given = {"loss": loss, "l1_ratio": l1_ratio, "alphas": ALPHAS, "cv": FOLDS, "tol": 1e-7}
    model = LinearRegressorCV(**given).fit(X, y, weights, offsets)
    alone = [LinearRegressorCV(**given).fit(X, y[:, k], weights, offsets[:, k]).scores_ for k in range(3)]
    np.testing.assert_allclose(model.scores_, np.mean(alone, axis=0), rtol=1e-5)
    assert model.alpha_ == model.alphas_[0, np.argmax(model.scores_.mean(axis=0)[0])]
    exact = LinearRegressor(loss, alpha=model.alpha_, l1_ratio=l1_ratio, tol=1e-9).fit(X, y, weights, offsets)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "wide"])
def test_a_scorer_sees_all_targets_at_once(kind):
    X, y, _, _ = data(kind)
    model = RidgeCV(alphas=ALPHAS * len(X), cv=FOLDS, scoring="r2", tol=1e-9).fit(X, y)
    for k, alpha in enumerate(model.alphas_[0]):
        expected = cross_val_score(Ridge(alpha=alpha, tol=1e-9), X, y, cv=FOLDS, scoring="r2")
        np.testing.assert_allclose(model.scores_[:, 0, k], expected, rtol=1e-5)


def test_information_criteria_are_sums_over_targets():
    X, y, weights, _ = data("dense")
    given = {"alphas": ALPHAS, "criterion": "bic"}
    model = LinearRegressorCV(**given).fit(X, y, weights)
    alone = [LinearRegressorCV(**given).fit(X, y[:, k], weights).criteria_ for k in range(3)]
    np.testing.assert_allclose(model.criteria_, np.sum(alone, axis=0), rtol=1e-8)


def test_usual_strengths_begin_where_the_last_target_loses_its_coefficients():
    X, y, _, _ = data("dense")
    model = LinearRegressorCV(alphas=5, l1_ratio=1.0, cv=FOLDS).fit(X, y)
    alone = [LinearRegressorCV(alphas=5, l1_ratio=1.0, cv=FOLDS).fit(X, y[:, k]).alphas_ for k in range(3)]
    np.testing.assert_allclose(model.alphas_, np.max(alone, axis=0))


def test_one_gram_matrix_serves_all_targets(monkeypatch):
    made, known = [], gram_paths.GramPaths._sums
    monkeypatch.setattr(gram_paths.GramPaths, "_sums", lambda *args: made.append(args) or known(*args))
    X, y, _, _ = data("dense")
    RidgeCV(alphas=ALPHAS, cv=FOLDS).fit(X, y)
    assert len(made) == FOLDS.get_n_splits()


def test_counts_have_one_target():
    X, y, _, _ = data("dense")
    with pytest.raises(ValueError, match="1d"):
        PoissonRegressorCV(cv=FOLDS).fit(X, np.abs(y))
