"""Families of targets against scikit-learn and statsmodels: coefficients, weights, offsets, standard errors."""

import math
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import nbinom
from sklearn import linear_model as reference
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from finitesum import (
    GammaRegressor,
    LinearClassifier,
    LinearRegressor,
    NegativeBinomialRegressor,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from finitesum.constraints import L1Ball
from finitesum.estimators.means import likeliest_theta
from finitesum.losses import Binomial, Gamma, InverseGaussian, NegativeBinomial, Poisson, Tweedie, as_loss

TIGHT = {"alpha": 0.0, "solver": "newton", "tol": 1e-11}


def data(n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    means = np.exp(1.0 + 0.4 * X @ rng.standard_normal(d))
    weights = rng.integers(1, 4, n).astype(float)
    return X, means, weights, 0.3 * rng.standard_normal(n), rng


def positive(means, rng):
    return means * rng.gamma(2.0, 0.5, means.size)


@pytest.mark.filterwarnings(
    "ignore:The inner solver of NewtonCholeskySolver detected:sklearn.exceptions.ConvergenceWarning"
)
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("power", [0.0, 1.0, 1.2, 1.5, 1.9, 2.0, 2.3, 3.0])
def test_tweedie_and_gamma_are_scikit_learns(power, intercept, alpha):
    X, means, weights, _, rng = data()
    y = positive(means, rng)
    if power < 2.0:
        y = np.where(rng.random(y.size) < 0.3, 0.0, y)
    settings = {"alpha": alpha, "fit_intercept": intercept}
    model = TweedieRegressor(power=power, solver="newton", tol=1e-11, **settings).fit(X, y, sample_weight=weights)
    other = reference.TweedieRegressor(power=power, solver="newton-cholesky", tol=1e-13, **settings)
    other.fit(X, y, sample_weight=weights)
    assert np.abs(model.coef_ - other.coef_).max() < 1e-8
    assert model.intercept_ == pytest.approx(other.intercept_, abs=1e-8)
    rtol = 1e-8 if power < 3.0 else 1e-7  # where scikit-learn goes on with L-BFGS
    np.testing.assert_allclose(model.predict(X), other.predict(X), rtol=rtol, atol=1e-8)
    assert model.score(X, y, sample_weight=weights) == pytest.approx(other.score(X, y, sample_weight=weights), abs=1e-9)
    if power == 2.0:
        gamma = GammaRegressor(solver="newton", tol=1e-11, **settings).fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(gamma.coef_, model.coef_)


@pytest.mark.parametrize(
    ("message", "change"),
    [
        (r"power must be 0 or >= 1, got inf: no such distribution exists", {"power": math.inf}),
        (r"power must be 0 or >= 1, got 0.5", {"power": 0.5}),
        (r'link must be "auto" or "log" for power 1.5, got \'identity\'', {"power": 1.5, "link": "identity"}),
    ],
)
def test_powers_and_links_that_are_not_known_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TweedieRegressor(**change).fit([[0.0], [1.0]], [1.0, 2.0])


def glm(y, X, family, **more):
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    return api.GLM(y, api.add_constant(X), family=family(api.families), **more).fit(tol=1e-13, maxiter=200)


@pytest.mark.parametrize(
    "case", ["poisson", "gamma", "tweedie", "steep-tweedie", "inverse-gaussian", "negative-binomial", "binomial"]
)
def test_coefficients_and_standard_errors_are_those_of_statsmodels(case):
    X, means, weights, offset, rng = data()
    errors = {**TIGHT, "standard_errors": True}
    model, y, family = {
        "poisson": (PoissonRegressor(**errors), rng.poisson(means), lambda of: of.Poisson()),
        "gamma": (GammaRegressor(**errors), positive(means, rng), lambda of: of.Gamma(of.links.Log())),
        "tweedie": (
            TweedieRegressor(power=1.6, **errors),
            positive(means, rng) * (rng.random(means.size) < 0.8),
            lambda of: of.Tweedie(of.links.Log(), var_power=1.6),
        ),
        "steep-tweedie": (
            TweedieRegressor(power=3.5, **errors),
            positive(means, rng),
            lambda of: of.Tweedie(of.links.Log(), var_power=3.5),
        ),
        "inverse-gaussian": (
            TweedieRegressor(power=3.0, **errors),
            positive(means, rng),
            lambda of: of.InverseGaussian(of.links.Log()),
        ),
        "negative-binomial": (
            NegativeBinomialRegressor(theta=2.0, **errors),
            rng.poisson(positive(means, rng)),
            lambda of: of.NegativeBinomial(alpha=0.5),
        ),
        "binomial": (
            LinearRegressor("binomial", **errors),
            rng.binomial(7, means / (1.0 + means)) / 7.0,
            lambda of: of.Binomial(),
        ),
    }[case]
    model.fit(X, y, sample_weight=weights, offset=offset)
    other = glm(y, X, family, freq_weights=weights, offset=offset)
    assert np.append(model.intercept_, model.coef_) == pytest.approx(other.params, abs=1e-8)
    assert np.roll(model.standard_errors_, 1) == pytest.approx(other.bse, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.05])
@pytest.mark.parametrize("quantile", [0.25, 0.5, 0.9])
def test_quantiles_are_scikit_learns(quantile, alpha):
    X, _, weights, _, rng = data(n=150)
    y = X @ [1.0, -2.0, 0.0, 0.5] + rng.standard_t(3, 150)
    model = QuantileRegressor(quantile=quantile, alpha=alpha, tol=1e-11).fit(X, y, sample_weight=weights)
    other = reference.QuantileRegressor(quantile=quantile, alpha=alpha).fit(X, y, sample_weight=weights)
    assert model.solver_ == "interior-point"
    assert model.coef_ == pytest.approx(other.coef_, abs=1e-8)
    assert model.intercept_ == pytest.approx(other.intercept_, abs=1e-8)
    assert model.score(X, y) == pytest.approx(other.score(X, y), abs=1e-8)
    if alpha == 0.0:
        assert np.average(y < model.predict(X) - 1e-6, weights=weights) <= quantile
        assert np.average(y <= model.predict(X) + 1e-6, weights=weights) >= quantile


@pytest.mark.parametrize(("loss", "link"), [("probit", "Probit"), ("complementary-log-log", "CLogLog")])
def test_links_of_two_classes_are_those_of_statsmodels(loss, link):
    X, means, weights, _, rng = data()
    y = np.where(means + rng.standard_normal(means.size) > 2.5, "yes", "no")
    model = LinearClassifier(loss, **TIGHT).fit(X, y, sample_weight=weights)
    family = lambda of: of.Binomial(getattr(of.links, link)())  # noqa: E731
    other = glm((y == "yes").astype(float), X, family, freq_weights=weights)
    assert np.append(model.intercept_, model.coef_) == pytest.approx(other.params, abs=1e-7)
    assert model.predict_proba(X)[:, 1] == pytest.approx(other.predict(), abs=1e-7)


def test_the_likeliest_theta_is_that_of_the_profile():
    X, means, weights, offset, rng = data(n=800)
    y = rng.poisson(means * np.exp(offset) * rng.gamma(2.5, 1.0 / 2.5, means.size)).astype(float)
    model = NegativeBinomialRegressor(theta="estimate", **TIGHT).fit(X, y, sample_weight=weights, offset=offset)

    def lack(logarithm):
        theta = math.exp(logarithm)
        one = NegativeBinomialRegressor(theta=theta, **TIGHT).fit(X, y, sample_weight=weights, offset=offset)
        return -float(weights @ nbinom.logpmf(y, theta, theta / (theta + one.predict(X, offset=offset))))

    best = minimize_scalar(lack, bounds=(math.log(0.5), math.log(20.0)), method="bounded", options={"xatol": 1e-9})
    assert model.theta_ == pytest.approx(math.exp(best.x), rel=1e-4)  # as near as values know
    assert lack(math.log(model.theta_)) <= best.fun + 1e-9
    again = NegativeBinomialRegressor(theta=model.theta_, **TIGHT).fit(X, y, sample_weight=weights, offset=offset)
    assert np.abs(again.coef_ - model.coef_).max() < 1e-10


def test_a_warm_start_goes_on_from_the_theta_that_is_known():
    X, means, _, _, rng = data(n=300)
    y = rng.poisson(means * rng.gamma(2.0, 0.5, means.size)).astype(float)
    model = NegativeBinomialRegressor(theta="estimate", warm_start=True, **TIGHT).fit(X, y)
    theta, n_iter = model.theta_, model.n_iter_
    model.fit(X, y)
    assert model.theta_ == pytest.approx(theta, rel=1e-10)
    assert model.n_iter_ < n_iter
    cold = NegativeBinomialRegressor(theta="estimate", **TIGHT).fit(X[50:], y[50:])
    assert model.fit(X[50:], y[50:]).theta_ == pytest.approx(cold.theta_, rel=1e-9)


def counts_of_one_column(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, rng.poisson(np.exp(X[:, 0] + 1.0) * rng.gamma(2.0, 0.5, n)).astype(float)


def test_rows_without_weight_have_no_part_in_theta():
    X, y = counts_of_one_column()
    alone = NegativeBinomialRegressor(theta="estimate", alpha=0.0).fit(X, y)
    far, weights = np.vstack([X, np.full((1, 3), 1e4)]), np.append(np.ones(200), 0.0)
    with np.errstate(all="ignore"):
        model = NegativeBinomialRegressor(theta="estimate", alpha=0.0).fit(far, np.append(y, 0.0), weights)
    assert model.theta_ == pytest.approx(alone.theta_, rel=1e-9)
    assert model.coef_ == pytest.approx(alone.coef_, abs=1e-8)


@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_a_warm_start_that_leads_nowhere_is_left(alpha):
    X, y = counts_of_one_column()
    cold = NegativeBinomialRegressor(theta="estimate", alpha=alpha, tol=1e-8).fit(X, y)
    model = clone(cold).set_params(warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, np.zeros(200))
    assert model.theta_ == 1e8  # which vary no more than Poisson's
    model.fit(X, y)
    assert model.theta_ == pytest.approx(cold.theta_, rel=1e-6)
    model.coef_, model.intercept_ = model.coef_ * 0.0 - 40.0, 300.0
    model.fit(X, y)
    assert model.theta_ == pytest.approx(cold.theta_, rel=1e-6)
    assert model.coef_ == pytest.approx(cold.coef_, abs=1e-6)


def test_data_that_are_refused_leave_the_model_as_it_was():
    X, y = counts_of_one_column()
    model = NegativeBinomialRegressor(theta="estimate")
    with pytest.raises(ValueError, match="y must be"):
        model.fit(X, -y - 1.0)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    known = dict(vars(model))
    model.standard_errors, model.constraint = True, L1Ball(0.1)
    with pytest.raises(ValueError, match="standard"):
        model.fit(X, y)
    assert all(vars(model)[name] is known[name] for name in ("coef_", "theta_", "trace_"))


def test_a_fit_that_is_stopped_in_its_first_turn_has_the_theta_of_its_point():
    X, y = counts_of_one_column()
    model = NegativeBinomialRegressor(theta="estimate", callback=lambda report: True).fit(X, y)
    found = likeliest_theta(y, model.predict(X), np.ones(200))
    assert model.theta_ == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("near", [1e-8, 1e-3, 1.0, 50.0, 1e8])
@pytest.mark.parametrize("theta", [0.02, 1.0, 300.0])
def test_the_likeliest_theta_is_found_from_anywhere(theta, near):
    rng = np.random.default_rng(0)
    means = np.exp(rng.standard_normal(400) + 4.0)
    counts = rng.negative_binomial(theta, theta / (theta + means)).astype(float)
    weights = rng.random(400)
    found = likeliest_theta(counts, means, weights, near=near)
    assert found == pytest.approx(theta, rel=0.5)

    def value(one):
        return float(weights @ nbinom.logpmf(counts, one, one / (one + means)))

    assert value(found) >= max(value(found * 1.001), value(found / 1.001))
    assert found == pytest.approx(likeliest_theta(counts, means, weights), rel=1e-12)


def test_counts_that_vary_no_more_than_poissons_are_fitted_as_these():
    X, means, _, _, _ = data()
    y = np.round(means)
    model = NegativeBinomialRegressor(theta="estimate", **TIGHT).fit(X, y)
    assert model.theta_ == 1e8
    poisson = PoissonRegressor(**TIGHT).fit(X, y)
    assert np.abs(model.coef_ - poisson.coef_).max() < 1e-6
    with pytest.raises(ValueError, match=r'theta must be a number > 0 or "estimate", got \'auto\''):
        NegativeBinomialRegressor(theta="auto").fit(X, y)


@pytest.mark.parametrize(
    ("loss", "bad", "words"),
    [
        ("gamma", 0.0, "> 0 for Gamma"),
        ("tweedie", -1.0, ">= 0 for Tweedie"),
        ("binomial", 1.5, ">= 0 and <= 1 for Binomial"),
    ],
)
def test_targets_that_no_family_has_are_refused(loss, bad, words):
    with pytest.raises(ValueError, match=f"y must be {words}, got {bad} at position 1"):
        LinearRegressor(loss).fit([[0.0], [1.0]], [0.5, bad])


@pytest.mark.parametrize(
    "loss", [Poisson(), Gamma(), Tweedie(), Tweedie(2.4), InverseGaussian(), NegativeBinomial(), Binomial()], ids=repr
)
def test_the_deviance_is_twice_what_the_loss_is_above_its_least(loss):
    targets = np.array([0.2, 0.7, 0.9]) if isinstance(loss, Binomial) else np.array([0.3, 1.0, 7.0])
    for shift in (-0.7, 0.0, 0.4):
        u, best = loss.link_of(targets) + shift, loss.link_of(targets)
        excess = np.array([loss.value(a, y) - loss.value(b, y) for a, b, y in zip(u, best, targets, strict=True)])
        assert loss.deviance_from(targets, loss.mean_at(u)) == pytest.approx(2.0 * excess, rel=1e-9, abs=1e-14)


def test_binomial_shares_are_rows_of_each_kind():
    rng = np.random.default_rng(0)
    X, trials = rng.standard_normal((40, 2)), rng.integers(1, 9, 40).astype(float)
    successes = rng.binomial(trials.astype(int), 0.4).astype(float)
    by_share = LinearRegressor("binomial", **TIGHT).fit(X, successes / trials, sample_weight=trials)
    twice, labels = np.vstack([X, X]), np.repeat([1, 0], 40)
    by_row = LinearClassifier(**TIGHT).fit(twice, labels, sample_weight=np.concatenate([successes, trials - successes]))
    assert np.abs(by_share.coef_ - by_row.coef_).max() < 1e-9
    assert by_share.predict(X) == pytest.approx(by_row.predict_proba(X)[:, 1], abs=1e-9)
    assert as_loss("binomial") == Binomial()


@pytest.mark.parametrize("unit", [1e13, 1e-13])
def test_the_part_of_the_deviance_knows_no_unit(unit):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = np.exp(0.5 * X[:, 0]) * rng.gamma(3.0, 1.0 / 3.0, 30)
    ours, other = (GammaRegressor(alpha=0.01).fit(X, u * y).score(X, u * y) for u in (1.0, unit))
    assert 0.0 < ours < 1.0
    assert other == pytest.approx(ours, rel=1e-9)


def test_one_weight_for_all_rows_leaves_theta_as_it_is():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 1)), rng.negative_binomial(1, 0.2, 40)
    one, other = (NegativeBinomialRegressor(theta="estimate", alpha=0.0).fit(X, y, weight) for weight in (None, 2.0))
    assert other.theta_ == pytest.approx(one.theta_, rel=1e-9)
