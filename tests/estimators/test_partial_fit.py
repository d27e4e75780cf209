"""Ridge regression from parts of the data: all that a fit knows, and nothing of an earlier one."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import Ridge


def numbers(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 5.0
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n), rng.uniform(0.5, 3.0, n)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_objective_and_standard_errors_are_those_of_a_fit(alpha, fit_intercept, sparse):
    X, y, s = numbers()
    settings = {"alpha": alpha, "fit_intercept": fit_intercept, "standard_errors": True}
    whole, parts = Ridge(**settings).fit(X, y, sample_weight=s), Ridge(**settings)
    for rows in np.array_split(np.arange(y.size), 5):
        parts.partial_fit(scipy.sparse.csr_array(X[rows]) if sparse else X[rows], y[rows], sample_weight=s[rows])
    assert parts.objective_ == pytest.approx(whole.objective_, rel=1e-9)
    assert np.allclose(parts.cov_params_, whole.cov_params_, rtol=1e-8)
    assert np.allclose(parts.standard_errors_, whole.standard_errors_, rtol=1e-8)


def test_standard_errors_wait_for_more_rows_than_variables():
    X, y, _ = numbers()
    model = Ridge(alpha=0.0, standard_errors=True).partial_fit(X[:5], y[:5])
    assert np.isnan(model.standard_errors_).all()
    model.partial_fit(X[5:8], y[5:8])
    assert (model.standard_errors_ > 0.0).all()


def test_nothing_of_an_earlier_fit_is_left():
    X, y, _ = numbers()
    model = Ridge(standard_errors=True).fit(X, y)
    before = model.objective_
    model.set_params(standard_errors=False).partial_fit(X[:50], y[:50])
    assert not any(hasattr(model, name) for name in ("trace_", "cov_params_", "standard_errors_"))
    assert model.objective_ != before


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Ridge(alpha=-1.0), "alpha must be a number >= 0 and finite, got -1.0"),
        (Ridge(alpha="weak"), "alpha must be a number >= 0 and finite, got 'weak'"),
        (Ridge(l1_ratio=2.0), "l1_ratio must be a number in"),
        (Ridge(fit_intercept="no"), "fit_intercept must be True or False"),
    ],
    ids=repr,
)
def test_parameters_are_checked_as_in_fit(model, message):
    X, y, _ = numbers()
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(X, y)
