"""Predictions from rows however they are stored, and what is wrong with rows in which a number is missing."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.datasets import load_iris

from finitesum import LogisticRegression, Ridge
from finitesum.estimators.classification import log_probabilities, probabilities

X, Y = load_iris(return_X_y=True)
FORMS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "CSR": sp.csr_array,
    "list": lambda x: x.tolist(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_storage_does_not_matter(form, n_classes):
    rows = n_classes * 50
    model = LogisticRegression().fit(X[:rows], Y[:rows])
    given = FORMS[form](X[:rows])
    scores = X[:rows] @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(given), scores[:, 0] if n_classes == 2 else scores, rtol=1e-12)
    expected = softmax(scores, axis=1) if n_classes == 3 else np.column_stack([expit(-scores), expit(scores)])
    np.testing.assert_allclose(model.predict_proba(given), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(given), expected.argmax(axis=1))


@pytest.mark.parametrize("form", ["C", "F", "CSR"])
@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 1])
def test_a_number_that_is_missing_is_refused(form, missing, column):
    """In the column whose coefficient is 0, too."""
    model = Ridge(alpha=1e-6).fit(X, Y)
    model.coef_[1] = 0.0
    rows = X.copy()
    rows[7, column] = missing
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.predict(FORMS[form](rows))


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # in scikit-learn's check
def test_infinities_that_cancel_are_refused():
    model = Ridge().fit(X, Y)
    rows = X.copy()
    rows[3] = np.inf * np.sign(model.coef_)
    rows[3, 0] *= -1.0
    with pytest.raises(ValueError, match="contains infinity"):
        model.predict(rows)


def test_an_overflow_warns():
    model = Ridge().fit(X.astype(np.float32), Y)
    model.coef_ *= np.float32(1e3)
    with pytest.warns(RuntimeWarning, match="overflow|invalid"):
        model.predict((X * 1e37).astype(np.float32))


def test_what_is_stored_behind_the_last_row_is_not_looked_at():
    model = Ridge().fit(X, Y)
    rows = sp.csr_matrix(X)
    longer = sp.csr_matrix(X)
    longer.data, longer.indices = np.append(rows.data, np.nan), np.append(rows.indices, 0).astype(rows.indices.dtype)
    for first in (model.coef_[0], 0.0):
        model.coef_[0] = first
        np.testing.assert_array_equal(model.predict(longer), model.predict(rows))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities(dtype):
    """Accurate where they are small, and of the type of the scores."""
    scores = np.array([-1000.0, -40.0, -1.0, 0.0, 2.0, 60.0, 1000.0], dtype=dtype)
    tolerance = 8 * np.finfo(dtype).eps
    pairs = np.stack([-scores, scores], axis=1)
    np.testing.assert_allclose(probabilities(scores), expit(pairs), rtol=tolerance)
    np.testing.assert_allclose(log_probabilities(scores), log_expit(pairs), rtol=tolerance)
    for n_classes in (3, 40):
        table = (100 * np.random.default_rng(0).standard_normal((20, n_classes))).astype(dtype)
        np.testing.assert_allclose(probabilities(table), softmax(table, axis=1), rtol=100 * tolerance, atol=1e-40)
        np.testing.assert_allclose(log_probabilities(table), log_softmax(table, axis=1), rtol=tolerance, atol=tolerance)
    assert probabilities(scores).dtype == log_probabilities(scores).dtype == dtype
    assert probabilities(table).dtype == log_probabilities(table).dtype == dtype
