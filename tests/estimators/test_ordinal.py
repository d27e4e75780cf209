"""Ordered classes: against statsmodels, against logistic regression, derivatives, weights, sets and penalties."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import LogisticRegression, OrdinalLogisticRegression


def data(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    offset = 0.3 * rng.standard_normal(n)
    y = np.digitize(X @ [1.0, -0.5, 0.0, 0.3] + offset + rng.logistic(size=n), [-1.0, 0.5, 2.0])
    return X, y, rng.integers(1, 4, n).astype(float), offset


@pytest.mark.filterwarnings("ignore:Maximum Likelihood optimization failed")  # by its own counting, at the solution
def test_coefficients_errors_and_likelihood_are_those_of_statsmodels():
    module = pytest.importorskip("statsmodels.miscmodels.ordinal_model", reason="statsmodels is not installed")
    X, y, *_ = data()
    model = OrdinalLogisticRegression(C=np.inf, tol=1e-12, standard_errors=True).fit(X, y)
    other = module.OrderedModel(y, X, distr="logit").fit(method="newton", disp=False, tol=1e-10, maxiter=200)
    assert model.coef_[0] == pytest.approx(other.params[:4], abs=1e-8)
    assert model.thresholds_ == pytest.approx(other.model.transform_threshold_params(other.params)[1:-1], abs=1e-8)
    assert model.standard_errors_[:4] == pytest.approx(other.bse[:4], rel=1e-5)  # theirs is of differences
    assert model.summary().log_likelihood == pytest.approx(other.llf, rel=1e-12)
    assert model.predict_proba(X) == pytest.approx(other.model.predict(other.params), abs=1e-8)
    assert model.summary().names == ("x0", "x1", "x2", "x3", "y > 0", "y > 1", "y > 2")


@pytest.mark.parametrize("change", [{}, {"l1_ratio": 0.7, "C": 0.1}, {"bounds": (0.0, None)}, {"class_weight": {0: 2.0}}])
def test_two_classes_are_logistic_regression(change):
    X, y, weights, offset = data()
    y = (y > 1).astype(int)
    ours, other = (
        cls(tol=1e-11, **change).fit(X, y, sample_weight=weights, offset=offset)
        for cls in (OrdinalLogisticRegression, LogisticRegression)
    )
    assert ours.coef_ == pytest.approx(other.coef_, abs=1e-8)
    assert ours.intercept_ == pytest.approx(other.intercept_, abs=1e-8)
    assert ours.predict_proba(X, offset) == pytest.approx(other.predict_proba(X, offset), abs=1e-8)
    assert ours.decision_function(X, offset) == pytest.approx(other.decision_function(X, offset), abs=1e-7)


@pytest.mark.parametrize("sparse", [False, True])
def test_derivatives_are_those_of_the_value(sparse):
    X, y, weights, offset = data(n=40)
    X = scipy.sparse.csr_array(X) if sparse else X
    model = OrdinalLogisticRegression(C=0.7)
    (problem,), _ = model.fit(X, y, weights, offset)._posed(X, y, weights, offset)
    w = np.array([0.3, -0.2, 0.5, 0.1, 1.5, 0.2, -0.9])
    check = problem.check(w)
    assert check.success, check.message
    product = [problem.component_product(w, 3, v) for v in np.eye(7)]
    assert np.array(product) == pytest.approx(problem.component_hessian(w, 3), abs=1e-12)
    value, gradient = problem.mean_value_and_gradient(np.array([0.3, -0.2, 0.5, 0.1, 1.5, 1.6, -0.9]))
    assert value == np.inf  # thresholds that are not in order
    assert np.isnan(gradient).all()


@pytest.mark.parametrize(
    "change",
    [{}, {"l1_ratio": 1.0, "C": 0.05}, {"bounds": (0.0, None)}, {"groups": [0, 0, 1, 1], "C": 0.05}, {"penalty": "mcp"}],
    ids=str,
)
def test_weights_mean_repetition_and_solvers_agree(change):
    X, y, weights, offset = data()
    model = OrdinalLogisticRegression(tol=1e-9, max_iter=5000, **change).fit(X, y, weights, offset)
    times = weights.astype(int)
    again = OrdinalLogisticRegression(tol=1e-9, max_iter=5000, **change)
    again.fit(np.repeat(X, times, axis=0), np.repeat(y, times), offset=np.repeat(offset, times))
    assert again.coef_ == pytest.approx(model.coef_, abs=1e-6)
    assert again.thresholds_ == pytest.approx(model.thresholds_, abs=1e-6)
    other = OrdinalLogisticRegression(solver="fg", tol=1e-9, max_iter=20_000, **change).fit(X, y, weights, offset)
    assert other.coef_ == pytest.approx(model.coef_, abs=1e-6)
    assert (np.diff(model.thresholds_) > 0.0).all()


def test_labels_have_the_order_that_is_given():
    X, y, *_ = data()
    names = np.array(["low", "fair", "good", "best"])
    by_name = OrdinalLogisticRegression(categories=names).fit(X, names[y])
    by_code = OrdinalLogisticRegression().fit(X, y)
    assert by_name.classes_.tolist() == names.tolist()
    assert by_name.coef_ == pytest.approx(by_code.coef_, abs=1e-12)
    assert (by_name.predict(X) == names[by_code.predict(X)]).all()
    with pytest.raises(ValueError, match=r"categories must hold each label of y once, \['best', .* got \['low', 'good'\]"):
        OrdinalLogisticRegression(categories=["low", "good"]).fit(X, names[y])
    with pytest.raises(ValueError, match="fit_intercept must be True"):
        OrdinalLogisticRegression(fit_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="standard errors are known with an l2 penalty alone"):
        OrdinalLogisticRegression(standard_errors=True, l1_ratio=0.5).fit(X, y)
    with pytest.raises(ValueError, match="residuals are not known for ordered classes"):
        by_code.residuals(X, y)


def test_a_warm_start_goes_on_and_float32_is_kept():
    X, y, *_ = data()
    model = OrdinalLogisticRegression(warm_start=True, solver="newton").fit(X, y)
    first = model.n_iter_[0]
    assert model.fit(X, y).n_iter_[0] < first
    single = OrdinalLogisticRegression().fit(X.astype(np.float32), y)
    assert single.coef_.dtype == single.intercept_.dtype == np.float32
    assert single.predict_log_proba(X.astype(np.float32)).dtype == np.float32
    assert single.coef_ == pytest.approx(model.coef_, abs=1e-5)
