"""Several labels a row: each column of 0 and 1 has the model that it has by itself."""

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_score

from finitesum import LinearClassifier, LinearSVC, LogisticRegression, LogisticRegressionCV
from finitesum.constraints import L1Ball

MODELS = {
    "logistic regression": LogisticRegression(C=0.5),
    "logistic regression, l1": LogisticRegression(C=0.2, l1_ratio=1.0, class_weight="balanced"),
    "probit": LinearClassifier(loss="probit", alpha=0.01),
    "on a ball": LinearClassifier(alpha=0.0, constraint=L1Ball(1.0)),
    "squared hinge": LinearSVC(C=0.1, fit_intercept=False),
    "hinge": LinearSVC(C=0.1, loss="hinge"),
}


def data(n_labels=3):
    """Return counts, labels that overlap, weights with zeros among them, and offsets."""
    rng = np.random.default_rng(1)
    X = rng.poisson(8.0, (150, 6)).astype(float)
    Y = ((X - 8.0) @ rng.standard_normal((6, n_labels)) + 3.0 * rng.standard_normal((150, n_labels)) > 1.0).astype(int)
    return X, Y, rng.integers(0, 3, 150).astype(float), 0.3 * rng.standard_normal((150, n_labels))


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_each_label_has_the_model_that_it_has_by_itself(name, n_labels):
    X, Y, weight, offset = data(n_labels)
    model = clone(MODELS[name]).fit(X, Y, sample_weight=weight, offset=offset)
    assert model.coef_.shape == (n_labels, 6)
    decisions = model.decision_function(X, offset)
    for k in range(n_labels):
        alone = clone(MODELS[name]).fit(X, Y[:, k], sample_weight=weight, offset=offset[:, k])
        np.testing.assert_array_equal(model.coef_[k], alone.coef_[0])
        np.testing.assert_allclose(decisions[:, k], alone.decision_function(X, offset[:, k]), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(model.predict(X, offset)[:, k], alone.predict(X, offset[:, k]))
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(
                model.predict_proba(X, offset)[:, k], alone.predict_proba(X, offset[:, k])[:, 1], rtol=1e-9
            )


def test_probabilities_need_not_sum_to_one_and_have_logarithms():
    X, Y, *_ = data()
    model = LogisticRegression().fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), expit(model.decision_function(X)), rtol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)
    assert model.score(X, Y) == (model.predict(X) == Y).all(axis=1).mean()


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, np.asarray, np.ndarray.tolist, lambda Y: Y.astype(bool)])
def test_labels_may_be_sparse_lists_or_booleans(form):
    X, Y, *_ = data()
    expected = LogisticRegression().fit(X, Y).coef_
    np.testing.assert_array_equal(LogisticRegression().fit(X, form(Y)).coef_, expected)


def test_scores_and_warm_starts():
    X, Y, *_ = data()
    scores = cross_val_score(LogisticRegression(), X, Y, scoring="f1_macro", cv=3)
    model = LogisticRegression(warm_start=True).fit(X, Y)
    assert scores.mean() == pytest.approx(f1_score(Y, model.predict(X), average="macro"), abs=0.2)
    before = model.coef_.copy()
    assert model.fit(X, Y).n_iter_.max() <= 1
    np.testing.assert_array_equal(model.coef_, before)
    model.fit(X, Y[:, 0])  # of one label again
    assert model.coef_.shape == (1, 6)
    assert model.predict(X).shape == (150,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Y: 2 * Y, r"a column of 0 and 1 for each label, got shape \(150, 3\) with other entries"),
        (lambda Y: Y * [1, 0, 1], r"each column of y must hold both 0 and 1, but columns \[1\]"),
        (lambda Y: Y.astype(float) + 0.5, "a column of 0 and 1 for each label"),
    ],
)
def test_columns_of_other_things_are_said(change, message):
    X, Y, *_ = data()
    with pytest.raises(ValueError, match=message):
        LogisticRegression().fit(X, change(Y))


def test_what_knows_one_target_alone_says_so():
    X, Y, *_ = data()
    with pytest.raises(ValueError, match="fit a model for each label"):
        LogisticRegression(standard_errors=True).fit(X, Y)
    with pytest.raises(ValueError, match="1d array"):
        LogisticRegressionCV().fit(X, Y)
    with pytest.raises(ValueError, match="one for classification"):
        LinearClassifier(loss="squared").fit(X, Y)
