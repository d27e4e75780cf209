"""Paths of regressions, and penalties chosen by folds or criteria: against scikit-learn, and by their definitions."""

import math

import numpy as np
import pytest
from sklearn import linear_model as reference
from sklearn.metrics import get_scorer, max_error
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

from finitesum import LinearRegressor, LinearRegressorCV, PoissonRegressor, PoissonRegressorCV, Ridge, RidgeCV, linear_path

N, D = 120, 6
ALPHAS = np.geomspace(1.0, 1e-3, 8)
CV = KFold(4, shuffle=True, random_state=0)


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    return X, X @ [2.0, -1.0, 0.5, 0.0, 0.0, 0.0] + 3.0 + rng.standard_normal(N), rng


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_a_path_is_the_fits_one_by_one(l1_ratio):
    X, y, _ = data()
    path = linear_path(X, y, alphas=ALPHAS, l1_ratio=l1_ratio)
    np.testing.assert_array_equal(path.alphas, ALPHAS)
    for alpha, coef, intercept in zip(path.alphas, path.coefs, path.intercepts, strict=True):
        alone = LinearRegressor(alpha=alpha, l1_ratio=l1_ratio).fit(X, y)
        assert coef == pytest.approx(alone.coef_, abs=1e-7)
        assert intercept == pytest.approx(alone.intercept_, abs=1e-7)


@pytest.mark.parametrize("loss", ["squared", "poisson", "huber"])
def test_the_usual_strengths_begin_where_no_coefficient_is_left(loss):
    X, y, rng = data()
    target = rng.poisson(np.exp(0.2 * y)) if loss == "poisson" else y
    path = linear_path(X, target, loss=loss, alphas=5, l1_ratio=1.0)
    assert path.alphas[-1] == pytest.approx(1e-3 * path.alphas[0])
    if loss != "huber":  # whose best constant is not the mean
        assert np.abs(path.coefs[0]).max() <= 1e-7
        assert np.abs(LinearRegressor(loss, alpha=0.9 * path.alphas[0], l1_ratio=1.0).fit(X, target).coef_).max() > 0.0
    assert np.count_nonzero(path.coefs[-1]) == D


def test_folds_choose_what_scikit_learn_chooses():
    X, y, _ = data()
    ours = LinearRegressorCV(alphas=ALPHAS, l1_ratios=[0.2, 0.7, 1.0], cv=CV).fit(X, y)
    theirs = reference.ElasticNetCV(alphas=ALPHAS, l1_ratio=[0.2, 0.7, 1.0], cv=CV, tol=1e-10).fit(X, y)
    assert (ours.alpha_, ours.l1_ratio_) == (theirs.alpha_, theirs.l1_ratio_)
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-6)
    assert -2.0 * ours.scores_.transpose(1, 2, 0) == pytest.approx(theirs.mse_path_, rel=1e-6)
    ridge = RidgeCV(alphas=100.0 * ALPHAS, cv=CV, scoring="neg_mean_squared_error").fit(X, y)
    known = reference.RidgeCV(alphas=100.0 * ALPHAS, cv=CV, scoring="neg_mean_squared_error").fit(X, y)
    assert ridge.alpha_ == known.alpha_
    assert ridge.coef_ == pytest.approx(known.coef_, abs=1e-8)
    assert ridge.scores_.mean(axis=0).max() == pytest.approx(known.best_score_, rel=1e-6)


def test_weights_are_repetitions_in_folds_and_scores():
    X, y, rng = data()
    weights = rng.integers(1, 4, N)
    twice, folds = np.repeat(np.arange(N), weights), np.arange(N) % 3
    weighted = PoissonRegressorCV(alphas=ALPHAS, cv=GroupKFold(3)).fit(X, np.round(np.exp(0.2 * y)), weights, groups=folds)
    counts = np.round(np.exp(0.2 * y))[twice]
    repeated = PoissonRegressorCV(alphas=ALPHAS, cv=GroupKFold(3)).fit(X[twice], counts, groups=folds[twice])
    order = np.argsort(weighted.scores_[:, 0, 0])
    other = np.argsort(repeated.scores_[:, 0, 0])
    assert weighted.scores_[order] == pytest.approx(repeated.scores_[other], rel=1e-6)
    assert weighted.alpha_ == repeated.alpha_
    assert weighted.coef_ == pytest.approx(repeated.coef_, abs=1e-7)


def test_the_rule_of_one_standard_error():
    X, y, _ = data()
    best = LinearRegressorCV(alphas=ALPHAS, l1_ratio=1.0, cv=CV).fit(X, y)
    model = LinearRegressorCV(alphas=ALPHAS, l1_ratio=1.0, cv=CV, rule="one_standard_error").fit(X, y)
    means, scores = model.scores_.mean(axis=0)[0], model.scores_[:, 0]
    place = int(np.argmax(means))
    limit = means[place] - scores[:, place].std(ddof=1) / math.sqrt(len(scores))
    assert best.alpha_ == ALPHAS[place]
    assert model.alpha_ == max(alpha for alpha, mean in zip(ALPHAS, means, strict=True) if mean >= limit)
    assert model.alpha_ > best.alpha_


@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
def test_criteria_are_those_of_the_fits(criterion):
    X, y, _ = data()
    model = LinearRegressorCV(alphas=ALPHAS, l1_ratio=1.0, criterion=criterion).fit(X, y)
    expected = []
    for alpha in ALPHAS:
        one = LinearRegressor(alpha=alpha, l1_ratio=1.0).fit(X, y)
        k, squares = np.count_nonzero(one.coef_), float(((y - one.predict(X)) ** 2).sum())
        value = N * (math.log(2.0 * math.pi * squares / N) + 1.0) + (k + 1) * (2.0 if criterion == "aic" else math.log(N))
        expected.append(value + (2.0 * math.log(math.comb(D, k)) if criterion == "ebic" else 0.0))
    assert model.criteria_[0] == pytest.approx(expected, rel=1e-6)
    assert model.alpha_ == ALPHAS[int(np.argmin(expected))]


def test_ridge_spends_fewer_degrees_of_freedom_than_columns():
    X, y, _ = data()
    model = RidgeCV(alphas=[50.0], criterion="aic").fit(X, y)
    centred = X - X.mean(axis=0)
    freedom = 1.0 + np.trace(centred @ np.linalg.solve(centred.T @ centred + 50.0 * np.eye(D), centred.T))
    squares = float(((y - model.predict(X)) ** 2).sum())
    assert model.criteria_[0, 0] == pytest.approx(
        N * (math.log(2.0 * math.pi * squares / N) + 1.0) + 2.0 * freedom, rel=1e-8
    )
    assert model.coef_ == pytest.approx(Ridge(alpha=50.0).fit(X, y).coef_, abs=1e-9)


def test_time_splits_errors_and_offsets():
    X, y, rng = data()
    offset = rng.standard_normal(N)
    counts = rng.poisson(np.exp(0.2 * y + 0.3 * offset))
    model = PoissonRegressorCV(alphas=4, cv=TimeSeriesSplit(3), standard_errors=True).fit(X, counts, offset=0.3 * offset)
    alone = PoissonRegressor(alpha=model.alpha_, standard_errors=True).fit(X, counts, offset=0.3 * offset)
    assert model.coef_ == pytest.approx(alone.coef_, abs=1e-8)
    assert model.standard_errors_ == pytest.approx(alone.standard_errors_, rel=1e-7)
    again = model.inference(X, counts, offset=0.3 * offset).standard_errors
    assert again == pytest.approx(model.standard_errors_, rel=1e-6)
    assert model.score(X, counts, offset=0.3 * offset) > 0.2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alphas": 0}, "alphas must be a whole number >= 1 or a sequence of numbers > 0, got 0"),
        ({"alphas": [0.1, -1.0]}, "alphas must be a whole number >= 1 or a sequence"),
        ({"loss": "huber", "criterion": "aic"}, "the Huber loss has no log-likelihood that is known: use criterion='cv'"),
        ({"criterion": "cp"}, "criterion must be one of cv, aic, bic, ebic"),
        ({"rule": "first"}, "rule best or one_standard_error"),
        ({"rule": "one_standard_error", "criterion": "bic"}, "other criteria have no folds"),
    ],
)
def test_what_means_nothing_is_refused(given, message):
    X, y, _ = data()
    with pytest.raises(ValueError, match=message):
        LinearRegressorCV(**given).fit(X, y)
    with pytest.raises(TypeError, match="linear_path has no alpha"):
        linear_path(X, y, alpha=1.0)


def test_weights_penalties_and_a_single_split():
    X, y, _ = data()
    weights = [1.0, 0.5, 2.0, 1.0, 1.0, 4.0]
    path = linear_path(X, y, alphas=3, l1_ratio=1.0, penalty_weights=weights)
    assert np.abs(path.coefs[0]).max() <= 1e-7
    assert (
        np.abs(linear_path(X, y, alphas=[0.98 * path.alphas[0]], l1_ratio=1.0, penalty_weights=weights).coefs).max() > 0.0
    )
    lasso = linear_path(X, y, alphas=3, l1_ratio=1.0).alphas
    for more in ({"penalty": "mcp"}, {"penalty": "scad"}, {"groups": np.arange(6)}):
        other = linear_path(X, y, alphas=3, **more)
        assert other.alphas == pytest.approx(lasso)
        assert np.abs(other.coefs[0]).max() <= 1e-7
    ridge = LinearRegressorCV(alphas=[0.2], penalty_weights=weights, criterion="aic").fit(X, y)
    centred = X - X.mean(axis=0)
    gram = centred.T @ centred
    freedom = 1.0 + np.trace(np.linalg.solve(gram + 0.2 * N * np.diag(weights), gram))
    squares = float(((y - ridge.predict(X)) ** 2).sum())
    assert ridge.criteria_[0, 0] == pytest.approx(
        N * (math.log(2.0 * math.pi * squares / N) + 1.0) + 2.0 * freedom, rel=1e-7
    )
    one = [(np.arange(80), np.arange(80, N))]
    found = LinearRegressorCV(alphas=[0.3, 0.01], penalty="mcp", cv=one, rule="one_standard_error").fit(X, y)
    assert found.scores_.shape == (1, 1, 2)
    assert found.coef_ == pytest.approx(LinearRegressor(alpha=found.alpha_, penalty="mcp").fit(X, y).coef_, abs=1e-5)


def _by_hand(model, X, y):
    return -max_error(y, model.predict(X))


@pytest.mark.parametrize("scoring", [_by_hand, get_scorer("neg_mean_poisson_deviance")])
def test_scorers_are_functions_too_with_weights_where_they_take_some_and_offsets(scoring):
    X, y, rng = data()
    y, weights, offset = rng.poisson(np.exp(0.2 * y)), rng.random(N), rng.standard_normal(N)
    given = {"alphas": ALPHAS, "cv": CV}
    model = PoissonRegressorCV(scoring=scoring, **given).fit(X, y, weights, offset)
    name = "neg_max_error" if scoring is _by_hand else "neg_mean_poisson_deviance"
    by_name = PoissonRegressorCV(scoring=name, **given).fit(X, y, weights, offset)
    np.testing.assert_allclose(model.scores_, by_name.scores_, rtol=1e-12)
    train, test = next(CV.split(X))
    one = PoissonRegressor(alpha=ALPHAS[2]).fit(X[train], y[train], weights[train], offset[train])
    means = one.predict(X[test], offset[test])
    score = get_scorer(name)
    more = {} if scoring is _by_hand else {"sample_weight": weights[test]}
    assert model.scores_[0, 0, 2] == pytest.approx(-score._score_func(y[test], means, **more), rel=1e-6)


@pytest.mark.parametrize("model", [LinearRegressorCV, RidgeCV])
def test_an_exact_fit_is_infinitely_likely(model):
    X, *_ = data()
    chosen = model(alphas=ALPHAS, criterion="aic").fit(X, np.zeros(N))
    assert (chosen.criteria_ == -math.inf).all()
    assert not chosen.coef_.any()


@pytest.mark.parametrize("name", ["r2", "neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error"])
@pytest.mark.parametrize("estimator", [LinearRegressorCV, RidgeCV, PoissonRegressorCV])
@pytest.mark.parametrize("is_plain", [True, False])
def test_scores_of_all_models_at_once_are_the_scorers(estimator, name, is_plain):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 4))
    y = rng.poisson(np.exp(0.5 * X[:, 0])).astype(float)
    given = [] if is_plain else [rng.uniform(0.0, 2.0, 60), 0.3 * rng.standard_normal(60)]
    one, other = (estimator(alphas=[0.01, 1.0], cv=3, scoring=how).fit(X, y, *given) for how in (name, get_scorer(name)))
    np.testing.assert_allclose(one.scores_, other.scores_, rtol=1e-9)
    assert one.alpha_ == other.alpha_


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_r2_of_a_constant_is_that_of_the_scorer(value):
    X = np.random.default_rng(5).standard_normal((20, 2))
    y = np.append(np.full(10, value), np.arange(10.0))  # the first fold has one number alone
    one, other = (RidgeCV(alphas=[1.0], cv=2, scoring=how).fit(X, y) for how in ("r2", get_scorer("r2")))
    np.testing.assert_allclose(one.scores_, other.scores_, rtol=1e-9)
