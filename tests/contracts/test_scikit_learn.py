"""Estimators that have a name of scikit-learn's mean the same by the same arguments, and all take offsets."""

import pickle

import numpy as np
import pytest
import sklearn.linear_model as reference
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC as ReferenceSVC

from finitesum import (
    HuberRegressor,
    LinearClassifier,
    LinearRegressor,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    logistic_path,
)

RNG = np.random.default_rng(0)
N, D = 90, 3
X = RNG.standard_normal((N, D)) + np.array([0.0, 1.0, -2.0])
Y = X @ RNG.standard_normal((D, 3)) + RNG.standard_normal((N, 3)) + np.array([3.0, 0.0, -1.0])
LABELS = {2: (Y[:, 0] > np.median(Y[:, 0])).astype(int), 3: (Y - Y.mean(axis=0)).argmax(axis=1)}
COUNTS = RNG.poisson(np.exp(0.2 * X[:, 0] + 1.0)).astype(float)
WEIGHTS = {"equal": None, "repeated": RNG.integers(0, 5, N).astype(float), "small": RNG.uniform(1e-3, 1e-2, N)}
TIGHT = {"solver": "newton", "tol": 1e-12}

weights = pytest.mark.parametrize("weights", WEIGHTS)
intercept = pytest.mark.parametrize("fit_intercept", [False, True])


def same(model, other, atol=1e-9):
    assert model.coef_.shape == other.coef_.shape
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=atol, atol=atol)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=atol, atol=atol)


@weights
@intercept
@pytest.mark.parametrize("alpha", [None, 0.0, 1e-3, 20.0, [0.1, 2.0, 50.0]])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_ridge(alpha, n_targets, fit_intercept, weights):
    y = Y if n_targets == 3 else Y[:, 0]
    given = {"fit_intercept": fit_intercept} | ({} if alpha is None else {"alpha": alpha})
    if isinstance(alpha, list) and n_targets == 1:
        with pytest.raises(ValueError, match="alpha must be a number, or hold 1, one for each target, got 3"):
            Ridge(**given).fit(X, y)
        return
    model = Ridge(tol=1e-12, **given).fit(X, y, sample_weight=WEIGHTS[weights])
    other = reference.Ridge(solver="svd", **given).fit(X, y, sample_weight=WEIGHTS[weights])
    same(model, other)
    assert model.score(X, y) == pytest.approx(other.score(X, y), rel=1e-9)
    if n_targets == 1:
        parts = Ridge(**given)
        for some in np.array_split(np.arange(N), 3):
            parts.partial_fit(X[some], y[some], None if WEIGHTS[weights] is None else WEIGHTS[weights][some])
        same(parts, other)


@weights
@intercept
@pytest.mark.parametrize("n_classes", LABELS)
@pytest.mark.parametrize(
    "given", [{}, {"C": 0.01}, {"C": 30.0}, {"C": np.inf}, {"C": 0.3, "class_weight": "balanced"}], ids=repr
)
def test_logistic_regression(given, n_classes, fit_intercept, weights):
    given = given | {"fit_intercept": fit_intercept}
    y, s = LABELS[n_classes], WEIGHTS[weights]
    model = LogisticRegression(**TIGHT, **given).fit(X, y, sample_weight=s)
    other = reference.LogisticRegression(solver="newton-cg", tol=1e-12, max_iter=5000, **given).fit(X, y, sample_weight=s)
    same(model, other, atol=1e-6)


@intercept
@pytest.mark.parametrize("n_classes", LABELS)
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
def test_logistic_regression_with_an_l1_penalty(l1_ratio, n_classes, fit_intercept):
    given = {"C": 0.1, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    y = LABELS[n_classes]
    model = LogisticRegression(tol=1e-10, **given).fit(X, y)
    other = reference.LogisticRegression(solver="saga", tol=1e-10, max_iter=20_000, **given).fit(X, y)
    same(model, other, atol=1e-6)
    assert (model.coef_ == 0.0).any() or l1_ratio < 1.0


@weights
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_poisson_regressor(alpha, weights):
    model = PoissonRegressor(alpha=alpha, **TIGHT).fit(X, COUNTS, sample_weight=WEIGHTS[weights])
    other = reference.PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    same(model, other.fit(X, COUNTS, sample_weight=WEIGHTS[weights]), atol=1e-7)


def test_linear_svc_without_an_intercept():
    model = LinearSVC(C=0.3, fit_intercept=False, **TIGHT).fit(X, LABELS[2])
    other = ReferenceSVC(C=0.3, fit_intercept=False, dual=False, tol=1e-10, max_iter=100_000).fit(X, LABELS[2])
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-6)


def test_a_ridge_saved_with_the_earlier_meaning_of_alpha_is_refused():
    model = Ridge(alpha=2.0).fit(X, Y)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)
    state = model.__getstate__()
    del state["_alpha_is_of"]
    with pytest.raises(ValueError, match=r"saved when alpha stood against the mean.*LinearRegressor with the same alpha"):
        Ridge().__setstate__(state)


def test_the_earlier_meaning_of_ridges_alpha_is_that_of_the_linear_regressor():
    same(Ridge(alpha=0.2 * N, tol=1e-12).fit(X, Y), LinearRegressor(alpha=0.2, tol=1e-12).fit(X, Y))


# -- several targets


def test_each_of_several_targets_has_a_model_of_its_own():
    shifts = RNG.standard_normal(Y.shape)
    for model in (LinearRegressor("huber", alpha=0.1, **TIGHT), Ridge(alpha=3.0, standard_errors=True)):
        whole = model.fit(X, Y, offset=shifts)
        found = whole.coef_, whole.intercept_, whole.predict(X, offset=shifts), getattr(whole, "standard_errors_", None)
        assert whole.n_iter_.shape == whole.objective_.shape == (3,)
        for k in range(3):
            one = model.fit(X, Y[:, k], offset=shifts[:, k])
            np.testing.assert_allclose(found[0][k], one.coef_, atol=1e-9)
            np.testing.assert_allclose(found[1][k], one.intercept_, atol=1e-9)
            np.testing.assert_allclose(found[2][:, k], one.predict(X, offset=shifts[:, k]), atol=1e-8)
            if found[3] is not None:
                np.testing.assert_allclose(found[3][k], one.standard_errors_, rtol=1e-9)
    assert Ridge().fit(X, Y[:, :1]).coef_.shape == (D,)
    again = Ridge(warm_start=True).fit(X, Y)
    assert again.fit(X, Y).n_passes_ <= 3.0  # the checks of the starts
    with pytest.raises(ValueError, match="1d array"):
        PoissonRegressor().fit(X, np.abs(Y))


# -- offsets

CLASSIFIERS = [
    LogisticRegression(**TIGHT),
    LogisticRegressionCV([0.1, 1.0], cv=2, **TIGHT),
    LinearClassifier("squared-hinge", alpha=0.1, **TIGHT),
    LinearClassifier(alpha=0.1, **TIGHT),
    LinearSVC(**TIGHT),
]


@pytest.mark.parametrize("n_classes", LABELS)
@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_an_offset_of_a_classifier_is_a_column_whose_coefficient_is_given(model, n_classes):
    """With the column z c as offset the free coefficients are the best ones at the coefficient c of z."""
    y = LABELS[n_classes]
    shape = (N,) if n_classes == 2 else (N, n_classes)
    constant = np.full(shape, 0.7) * (1.0 if n_classes == 2 else np.array([1.0, -2.0, 0.5]))
    plain = model.fit(X, y)
    decisions, labels, score = plain.decision_function(X), plain.predict(X), plain.score(X, y)
    shifted = model.fit(X, y, offset=constant)  # which the free intercept takes back
    gap = shifted.decision_function(X, offset=constant) - decisions
    if n_classes == 3:
        gap -= gap.mean(axis=1, keepdims=True)
        decisions = decisions - decisions.mean(axis=1, keepdims=True)
    assert np.abs(gap).max() < 1e-6
    assert np.array_equal(shifted.predict(X, offset=constant), labels)
    assert shifted.score(X, y, offset=constant) == score
    for name in ("predict_proba", "predict_log_proba"):
        if hasattr(model, name):
            assert getattr(shifted, name)(X, offset=constant) == pytest.approx(getattr(model.fit(X, y), name)(X), abs=1e-6)
            shifted = model.fit(X, y, offset=constant)
    known = RNG.standard_normal(shape)
    found = model.fit(X, y, offset=known)
    assert found.decision_function(X, offset=known) == pytest.approx(found.decision_function(X) + known, abs=1e-12)
    with pytest.raises(ValueError, match="offset must have shape"):
        model.fit(X, y, offset=known[:-1])
    with pytest.raises(ValueError, match="offset must have shape"):
        found.decision_function(X, offset=known[:-1])


@pytest.mark.parametrize("n_classes", LABELS)
def test_an_offset_of_logistic_regression_is_in_its_gradient(n_classes):
    y = LABELS[n_classes]
    known = RNG.standard_normal((N,) if n_classes == 2 else (N, n_classes))
    model = LogisticRegression(C=2.0, **TIGHT).fit(X, y, offset=known)
    residuals = model.predict_proba(X, offset=known) - np.eye(n_classes)[y]
    expected = residuals.T @ X + 0.5 * (model.coef_ if n_classes == 3 else np.vstack([-model.coef_, model.coef_]))
    if n_classes == 2:
        expected = expected[1:]
    assert np.abs(expected).max() < 1e-8
    assert np.abs(residuals.sum(axis=0)).max() < 1e-8


@pytest.mark.parametrize("n_classes", LABELS)
def test_folds_and_paths_have_the_offsets_of_their_rows(n_classes):
    y, Cs = LABELS[n_classes], [0.1, 1.0]
    known = RNG.standard_normal((N,) if n_classes == 2 else (N, n_classes))
    for scoring, by in ((None, lambda m, *d: m.score(*d[:2], offset=d[2])), ("neg_log_loss", None)):
        model = LogisticRegressionCV(Cs, cv=StratifiedKFold(2), scoring=scoring, **TIGHT).fit(X, y, offset=known)
        for k, (train, test) in enumerate(StratifiedKFold(2).split(X, y)):
            one = LogisticRegression(0.1, **TIGHT).fit(X[train], y[train], offset=known[train])
            P = one.predict_proba(X[test], offset=known[test])
            expected = by(one, X[test], y[test], known[test]) if by else np.log(P[np.arange(test.size), y[test]]).mean()
            assert model.scores_[k, 0] == pytest.approx(expected, rel=1e-7)
        best = LogisticRegression(model.C_, **TIGHT).fit(X, y, offset=known)
        same(model, best, atol=1e-8)
        if scoring is None:
            assert model.score(X, y, offset=known) == best.score(X, y, offset=known)
    path = logistic_path(X, y, Cs=Cs, offset=known, **TIGHT)
    one = LogisticRegression(1.0, **TIGHT).fit(X, y, offset=known)
    assert path.coefs[-1] == pytest.approx(one.coef_, abs=1e-8)


@pytest.mark.parametrize(
    "model",
    [LinearRegressor(alpha=0.1, **TIGHT), Ridge(2.0), HuberRegressor(**TIGHT), HuberRegressor(scale="joint", **TIGHT)],
    ids=repr,
)
def test_an_offset_of_a_residual_is_taken_off_the_target(model):
    known = RNG.standard_normal(N)
    y = Y[:, 0]
    alone = model.fit(X, y - known)
    coef, predicted = alone.coef_, alone.predict(X)
    found = model.fit(X, y, offset=known)
    np.testing.assert_allclose(found.coef_, coef, atol=1e-8)
    np.testing.assert_allclose(found.predict(X, offset=known), predicted + known, atol=1e-7)
    spread = ((y - y.mean()) ** 2).sum()
    expected = 1.0 - ((y - found.predict(X, offset=known)) ** 2).sum() / spread
    assert found.score(X, y, offset=known) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="offset must have shape"):
        model.fit(X, y, offset=known[:-1])
    if hasattr(model, "partial_fit"):
        model.partial_fit(X[:40], y[:40], offset=known[:40]).partial_fit(X[40:], y[40:], offset=known[40:])
        np.testing.assert_allclose(model.coef_, coef, atol=1e-8)
