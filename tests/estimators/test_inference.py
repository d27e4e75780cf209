"""Errors, tests and criteria of fitted models against statsmodels; robust and clustered errors; how they are shown."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from finitesum import (
    GammaRegressor,
    HuberRegressor,
    LinearClassifier,
    LinearRegressor,
    LogisticRegression,
    NegativeBinomialRegressor,
    PoissonRegressor,
    Ridge,
)
from finitesum.constraints import Box
from finitesum.estimators.inference import likelihood_ratio_test

TIGHT = {"solver": "newton", "tol": 1e-11, "standard_errors": True}
N = 200


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = X @ [1.0, 0.0, -0.5] + rng.standard_normal(N) * (1.0 + abs(X[:, 0]))
    return X, y, rng.integers(0, 15, N), rng


@pytest.fixture(scope="module")
def api():
    return pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")


def first(numbers):
    """Variables in the order of statsmodels, which has the constant in front."""
    return np.roll(numbers, 1, axis=0)


def agree(ours, theirs):
    assert first(ours.standard_errors) == pytest.approx(theirs.bse, rel=1e-7)
    assert first(ours.p_values) == pytest.approx(theirs.pvalues, rel=1e-6, abs=1e-12)
    assert first(ours.confint(0.9)) == pytest.approx(np.asarray(theirs.conf_int(0.1)), rel=1e-7)
    assert (ours.log_likelihood, ours.aic) == pytest.approx((theirs.llf, theirs.aic), rel=1e-9)


def test_least_squares(api):
    X, y, groups, _ = data()
    model = LinearRegressor(alpha=0.0, **TIGHT).fit(X, y)
    theirs = api.OLS(y, api.add_constant(X)).fit()
    agree(model.summary(), theirs)
    assert model.summary().bic == pytest.approx(theirs.bic, rel=1e-9)
    assert model.summary().dispersion == pytest.approx(theirs.scale, rel=1e-9)
    np.testing.assert_array_equal(model.confint(0.9), model.summary().confint(0.9))
    for kind in ("HC0", "HC1", "HC2", "HC3"):
        errors = model.inference(X, y, kind=kind).standard_errors
        assert first(errors) == pytest.approx(theirs.get_robustcov_results(kind).bse, rel=1e-9)
    clustered = theirs.get_robustcov_results("cluster", groups=groups)
    errors = model.inference(X, y, kind="cluster", groups=groups).standard_errors
    assert first(errors) == pytest.approx(clustered.bse, rel=1e-9)
    hypothesis = np.eye(4)[:2]
    found, known = model.summary().wald_test(["x0", "x1"]), theirs.f_test(first(hypothesis.T).T)
    assert (found["statistic"], found["p_value"]) == pytest.approx((float(known.fvalue), float(known.pvalue)), rel=1e-7)


def test_two_classes(api):
    X, y, groups, _ = data()
    labels, Z = (y > 0.0).astype(int), api.add_constant(X)
    model = LogisticRegression(C=np.inf, **TIGHT).fit(X, labels)
    agree(model.summary(), api.Logit(labels, Z).fit(disp=0, tol=1e-13))
    for kind, options in (("HC0", {}), ("cluster", {"cov_kwds": {"groups": groups}})):
        theirs = api.Logit(labels, Z).fit(disp=0, tol=1e-13, cov_type=kind, **options)
        more = {"groups": groups} if options else {}
        assert first(model.inference(X, labels, kind=kind, **more).standard_errors) == pytest.approx(theirs.bse, rel=1e-7)
    probit = LinearClassifier("probit", alpha=0.0, **TIGHT).fit(X, labels)
    agree(probit.summary(), api.Probit(labels, Z).fit(disp=0, tol=1e-13))
    found, known = model.summary().wald_test("x1", 0.5), api.Logit(labels, Z).fit(disp=0).wald_test("x2 = 0.5", scalar=True)
    assert found["statistic"] == pytest.approx(float(known.statistic), rel=1e-5)
    smaller = LogisticRegression(C=np.inf, **TIGHT).fit(X[:, [0, 2]], labels)
    test = likelihood_ratio_test(smaller.summary(), model.summary())
    assert test["df"] == 1
    assert test["statistic"] == pytest.approx(2.0 * (model.summary().log_likelihood - smaller.summary().log_likelihood))
    with pytest.raises(ValueError, match="the second model must contain the first"):
        likelihood_ratio_test(model.summary(), smaller.summary())


@pytest.mark.parametrize("case", ["poisson", "gamma", "negative binomial", "binomial"])
def test_families_with_weights(case, api):
    X, _, _, rng = data()
    weights, means = rng.integers(1, 4, N).astype(float), np.exp(1.0 + 0.3 * X[:, 0])
    families = api.families
    model, y, family = {
        "poisson": (PoissonRegressor, rng.poisson(means), families.Poisson()),
        "gamma": (GammaRegressor, means * rng.gamma(3.0, 1.0, N), families.Gamma(families.links.Log())),
        "negative binomial": (
            NegativeBinomialRegressor,
            rng.poisson(means * rng.gamma(1.0, 1.0, N)),
            families.NegativeBinomial(alpha=1.0),
        ),
        "binomial": (LinearRegressor, rng.random(N) < means / (1.0 + means), families.Binomial()),
    }[case]
    more = {"loss": "binomial"} if case == "binomial" else {}
    ours = model(alpha=0.0, **more, **TIGHT).fit(X, y.astype(float), sample_weight=weights).summary()
    theirs = api.GLM(y.astype(float), api.add_constant(X), family=family, freq_weights=weights).fit(tol=1e-13)
    assert first(ours.standard_errors) == pytest.approx(theirs.bse, rel=1e-6)
    assert first(ours.p_values) == pytest.approx(theirs.pvalues, rel=1e-5, abs=1e-12)
    assert (ours.deviance, ours.dispersion) == pytest.approx((theirs.deviance, theirs.scale), rel=1e-8)
    if case != "binomial":  # whose weights are trials of one share here, and repeated rows there
        assert ours.log_likelihood == pytest.approx(theirs.llf, rel=1e-8)


def test_several_classes(api):
    X, y, groups, _ = data()
    labels = np.digitize(y, [-0.5, 0.7])
    model = LogisticRegression(C=np.inf, **TIGHT).fit(X, labels)
    theirs = api.MNLogit(labels, api.add_constant(X)).fit(disp=0, tol=1e-13)
    ours = model.summary()
    assert (ours.log_likelihood, ours.rank) == pytest.approx((theirs.llf, 8), rel=1e-9)
    contrast = np.kron([[-1.0, 1.0, 0.0]], np.eye(4)[0])[0]  # x0 of the second class against the first
    error = np.sqrt(contrast @ ours.covariance @ contrast)
    assert error == pytest.approx(np.asarray(theirs.bse)[1, 0], rel=1e-7)
    assert ours.names[4:6] == ("1: x0", "1: x1")
    robust = model.inference(X, labels, kind="cluster", groups=groups)
    known = api.MNLogit(labels, api.add_constant(X)).fit(disp=0, tol=1e-13, cov_type="cluster", cov_kwds={"groups": groups})
    assert np.sqrt(contrast @ robust.covariance @ contrast) == pytest.approx(np.asarray(known.bse)[1, 0], rel=1e-6)
    with pytest.raises(ValueError, match='kind="HC3" is known for one output'):
        model.inference(X, labels, kind="HC3")


def test_a_penalty_tells_nothing_of_what_all_classes_share():
    """Coefficients of classes sum to 0, with a penalty as without: errors are those of such directions, and continuous."""
    X, y, groups, _ = data()
    labels = np.digitize(y, [-0.5, 0.7])
    free = LogisticRegression(C=np.inf, **TIGHT).fit(X, labels)
    for C in (1e8, 1.0):
        model = LogisticRegression(C=C, **TIGHT).fit(X, labels)
        ours = model.summary()
        assert ours.rank == 8
        for known in (
            ours,
            model.inference(X, labels, kind="HC1"),
            model.inference(X, labels, kind="cluster", groups=groups),
        ):
            shared = np.kron(np.ones(3), np.eye(4))  # the sum over the classes of each coefficient
            assert np.abs(shared @ known.covariance @ shared.T).max() <= 1e-10 * known.covariance.max()
        if C > 1.0:
            assert ours.standard_errors == pytest.approx(free.summary().standard_errors, rel=1e-5)
        # errors of contrasts are those of the whole Hessian's inverse, penalty included
        P = model.predict_proba(X)
        Z = np.column_stack([X, np.ones(len(X))])
        curvatures = -np.einsum("ik,il->ikl", P, P)
        curvatures[:, range(3), range(3)] += P
        hessian = (
            np.einsum("ikl,ia,ib->kalb", curvatures, Z, Z).reshape(12, 12) + np.diag(np.tile([1.0, 1.0, 1.0, 0.0], 3)) / C
        )
        contrast = np.kron([-1.0, 1.0, 0.0], np.eye(4)[0])
        expected = contrast @ np.linalg.pinv(hessian, rcond=1e-14, hermitian=True) @ contrast
        assert contrast @ ours.covariance @ contrast == pytest.approx(expected, rel=1e-6)


def test_robust_regression(api):
    X, y, _, _ = data()
    theirs = api.RLM(y, api.add_constant(X), M=api.robust.norms.HuberT(1.345)).fit(maxiter=300, tol=1e-12)
    model = HuberRegressor(epsilon=1.345, scale=float(theirs.scale), alpha=0.0, tol=1e-11, solver="newton").fit(X, y)
    ours = model.inference(X, y)
    assert first(ours.coefficients) == pytest.approx(theirs.params, abs=1e-6)
    assert first(ours.standard_errors) == pytest.approx(theirs.bse, rel=1e-5)
    joint = HuberRegressor(scale="joint", alpha=0.0, tol=1e-10, solver="newton").fit(X, y).inference(X, y)
    assert np.isfinite(joint.standard_errors).all()


@pytest.mark.parametrize("kind", ["model", "HC0", "HC1", "cluster"])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_weights_are_repetitions(form, kind):
    X, _, groups, rng = data()
    weights = rng.integers(0, 4, N)
    twice = np.repeat(np.arange(N), weights)
    counts = rng.poisson(np.exp(0.3 * X[:, 0]))
    model = PoissonRegressor(alpha=0.0, **TIGHT).fit(X, counts, sample_weight=weights)
    more = ({"groups": groups}, {"groups": groups[twice]}) if kind == "cluster" else ({}, {})
    weighted = model.inference(form(X), counts, sample_weight=weights, kind=kind, **more[0])
    repeated = model.inference(form(X[twice]), counts[twice], kind=kind, **more[1])
    assert weighted.standard_errors == pytest.approx(repeated.standard_errors, rel=1e-9)
    assert (weighted.aic, weighted.bic) == pytest.approx((repeated.aic, repeated.bic), rel=1e-9)


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        (LinearRegressor(l1_ratio=1.0, alpha=0.1), {}, "say nothing after an l1 penalty has selected"),
        (LinearRegressor(constraint=Box(-1.0, 1.0)), {}, "not known with a constraint"),
        (LinearClassifier("squared-hinge"), {}, "not known for the SquaredHinge loss, the likelihood of no model"),
        (LinearRegressor(alpha=0.1, penalty="mcp"), {}, "known with alpha and penalty_weights alone"),
        (LinearRegressor(), {"kind": "HC4"}, "kind must be one of model, HC0, HC1, HC2, HC3, cluster, got 'HC4'"),
        (LinearRegressor(), {"kind": "cluster"}, 'groups, a label for each row, go with kind="cluster"'),
        (LinearRegressor(), {"kind": "cluster", "groups": [1]}, r"groups must have shape \(200,\)"),
        (LinearRegressor(), {"kind": "cluster", "groups": np.ones(N)}, "groups must hold two values or more, got 1"),
    ],
)
def test_what_has_no_errors_is_refused_in_a_sentence(model, more, message):
    X, y, _, _ = data()
    target = y > 0.0 if isinstance(model, LinearClassifier) else y
    with pytest.raises(ValueError, match=message):
        model.fit(X, target).inference(X, target, **more)
    if not more:
        with pytest.raises(ValueError, match=r"standard errors|has no mean"):
            model.residuals(X, target)
    with pytest.raises(ValueError, match=r"knows no errors of its coefficients: fit one target with standard_errors=True"):
        model.summary()


def test_names_tables_and_pictures_of_tables():
    X, y, _, _ = data()
    frame = pd.DataFrame(X, columns=["age", "<dose>", "site"])
    known = Ridge(alpha=1.0, standard_errors=True).fit(frame, y).summary()
    table = known.to_frame(0.9)
    assert list(table.index) == ["age", "<dose>", "site", "intercept"]
    assert list(table.columns) == ["coef", "std err", "t", "p", "[5%", "95%]"]
    assert known.cov_frame().loc["age", "site"] == known.covariance[0, 2]
    lines = repr(known).splitlines()
    assert lines[0].strip() == "Ridge"
    assert any(line.startswith("age ") for line in lines)
    assert max(map(len, lines)) <= 80
    assert "&lt;dose&gt;" in known._repr_html_()
    ratios = LogisticRegression(C=np.inf, standard_errors=True).fit(frame, y > 0.0).coef_table()
    assert ratios["exp(coef)"].to_numpy() == pytest.approx(np.exp(ratios["coef"].to_numpy()))
    with pytest.raises(ValueError, match=r"level must be > 0 and < 1, got 95"):
        known.confint(95)
    with pytest.raises(ValueError, match=r"hypothesis names 'dose', but the coefficients are age"):
        known.wald_test(["dose"])


@pytest.mark.parametrize("case", ["squared", "logistic", "poisson", "gamma", "negative binomial"])
def test_residuals_leverages_and_distances(case, api):
    X, y, _, rng = data()
    Z, families, means = api.add_constant(X), api.families, np.exp(1.0 + 0.3 * X[:, 0])
    model, target, family = {
        "squared": (LinearRegressor(alpha=0.0, **TIGHT), y, families.Gaussian()),
        "logistic": (LogisticRegression(C=np.inf, **TIGHT), (y > 0.0).astype(float), families.Binomial()),
        "poisson": (PoissonRegressor(alpha=0.0, **TIGHT), rng.poisson(means), families.Poisson()),
        "gamma": (GammaRegressor(alpha=0.0, **TIGHT), means * rng.gamma(3.0, 1.0, N), families.Gamma(families.links.Log())),
        "negative binomial": (
            NegativeBinomialRegressor(alpha=0.0, **TIGHT),
            rng.poisson(means * rng.gamma(1.0, 1.0, N)),
            families.NegativeBinomial(alpha=1.0),
        ),
    }[case]
    ours, theirs = model.fit(X, target).residuals(X, target), api.GLM(target, Z, family=family).fit(tol=1e-13)
    influence = theirs.get_influence(observed=False)
    for found, known in (
        (ours.response, theirs.resid_response),
        (ours.pearson, theirs.resid_pearson),
        (ours.deviance, theirs.resid_deviance),
        (ours.leverage, influence.hat_matrix_diag),
        (ours.standardised, influence.resid_studentized),
        (ours.cooks, influence.cooks_distance[0]),
    ):
        assert found == pytest.approx(np.asarray(known), rel=1e-6, abs=1e-9)
    assert ours.leverage.sum() == pytest.approx(ours.rank, rel=1e-9)


def test_residuals_of_a_loss_without_a_mean_are_refused():
    X, y, _, _ = data()
    model = HuberRegressor(alpha=0.0).fit(X, y)
    with pytest.raises(ValueError, match="Huber has no mean to compare targets with"):
        model.residuals(X, y)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("intercept", [False, True])
def test_weights_of_the_penalty_count_in_errors(intercept, form):
    X, y, _, _ = data()
    v = np.array([0.0, 1.0, 5.0])
    model = LinearRegressor(alpha=0.3, penalty_weights=v, fit_intercept=intercept, **TIGHT).fit(form(X), y)
    Z = np.column_stack([X, np.ones(N)]) if intercept else X
    ridge = N * 0.3 * np.append(v, 0.0)[: Z.shape[1]]
    residuals = y - model.predict(X)
    expected = residuals @ residuals / (N - Z.shape[1]) * np.linalg.inv(Z.T @ Z + np.diag(ridge))
    assert model.cov_params_ == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_a_robust_loss_has_errors_as_it_is_fitted():
    X, y, _, _ = data()
    model = LinearRegressor("huber", alpha=0.0, **TIGHT).fit(X, y)
    same = HuberRegressor(epsilon=1.35, scale=1.0, alpha=0.0, solver="newton", tol=1e-11).fit(X, y).inference(X, y)
    assert model.standard_errors_ == pytest.approx(same.standard_errors, rel=1e-6)
    assert model.summary().kind == "model"
    several = LinearRegressor("huber", alpha=0.0, **TIGHT).fit(X, np.column_stack([y, y]))
    assert several.standard_errors_[1] == pytest.approx(model.standard_errors_, rel=1e-6)


@pytest.mark.parametrize(("model", "value"), [(Ridge, 0.0), (GammaRegressor, 1.0)])
def test_an_exact_fit_has_a_summary(model, value):
    X = np.random.default_rng(0).standard_normal((20, 2))
    summary = model(alpha=0.0, standard_errors=True).fit(X, np.full(20, value)).summary()
    assert summary.log_likelihood == np.inf
    assert str(summary)


def test_a_row_without_weight_counts_for_nothing_however_far_off():
    X, *_, rng = data()
    shares, weights = rng.random(N), np.append(0.0, np.ones(N - 1))
    X[0] = 1e4  # where the predicted share is 0 or 1
    model = LinearRegressor("binomial", alpha=0.0, **TIGHT).fit(X, shares, weights)
    found = model.inference(X, shares, sample_weight=weights)
    other = model.inference(X[1:], shares[1:])
    assert found.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-12)
    assert found.deviance == pytest.approx(other.deviance, rel=1e-12)
