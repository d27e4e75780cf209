"""Standard errors against what textbooks say of tables and groups, where the answer can be written down."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import LinearRegressor, LogisticRegression, PoissonRegressor, Problem, Ridge
from finitesum.estimators.covariance import covariance_at

SETTINGS = {"solver": "newton", "tol": 1e-12, "standard_errors": True}
GROUPS = np.array([[0.0], [0.0], [1.0], [1.0]])


def test_the_log_odds_ratio_of_a_table():
    table = np.array([15.0, 5.0, 7.0, 23.0])  # no and yes in one group, no and yes in the other
    model = LogisticRegression(C=np.inf, **SETTINGS).fit(GROUPS, [0, 1, 0, 1], sample_weight=table)
    assert model.coef_[0, 0] == pytest.approx(np.log((15.0 * 23.0) / (5.0 * 7.0)), rel=1e-9)
    assert model.standard_errors_[0] == pytest.approx(np.sqrt((1.0 / table).sum()), rel=1e-9)
    assert model.standard_errors_[1] == pytest.approx(np.sqrt(1.0 / 15.0 + 1.0 / 5.0), rel=1e-9)


def test_contrasts_of_several_classes_are_those_of_tables():
    table = np.array([12.0, 5.0, 9.0, 4.0, 20.0, 7.0])  # three classes in each group
    X, y = np.repeat([[0.0], [1.0]], 3, axis=0), np.tile(["a", "b", "c"], 2)
    model = LogisticRegression(C=np.inf, **SETTINGS).fit(X, y, sample_weight=table)
    contrast = np.array([-1.0, 0.0, 1.0, 0.0, 0.0, 0.0])  # slope of b against a
    cells = table[[0, 1, 3, 4]]
    assert contrast @ model.cov_params_ @ contrast == pytest.approx((1.0 / cells).sum(), rel=1e-8)


def test_the_log_ratio_of_rates():
    counts, exposures = np.array([8.0, 5.0, 30.0, 12.0]), np.array([100.0, 40.0, 90.0, 60.0])
    by_offset = PoissonRegressor(alpha=0.0, **SETTINGS).fit(GROUPS, counts, offset=np.log(exposures))
    by_weight = PoissonRegressor(alpha=0.0, **SETTINGS).fit(GROUPS, counts / exposures, sample_weight=exposures)
    ratio = (42.0 / 150.0) / (13.0 / 140.0)
    for model in (by_offset, by_weight):
        assert model.coef_[0] == pytest.approx(np.log(ratio), rel=1e-9)
        assert model.standard_errors_ == pytest.approx([np.sqrt(1.0 / 13.0 + 1.0 / 42.0), np.sqrt(1.0 / 13.0)], rel=1e-9)


@pytest.mark.parametrize("cls", [Ridge, LinearRegressor])
def test_the_difference_of_means_is_that_of_the_t_test(cls):
    rng = np.random.default_rng(0)
    one, two = rng.standard_normal(11), rng.standard_normal(7) + 3.0
    X, y = np.repeat([[0.0], [1.0]], [11, 7], axis=0), np.concatenate([one, two])
    model = cls(alpha=0.0, **SETTINGS).fit(X, y)
    pooled = (11 * one.var() + 7 * two.var()) / (11 + 7 - 2)
    assert model.coef_[0] == pytest.approx(two.mean() - one.mean(), rel=1e-9)
    assert model.standard_errors_ == pytest.approx(np.sqrt(pooled * np.array([1 / 11 + 1 / 7, 1 / 11])), rel=1e-9)


@pytest.mark.parametrize("mean", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("part", [False, True])
def test_columns_far_from_0_lose_no_digits(part, mean):
    """Standard errors of coefficients do not depend on where the columns' 0 is."""
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, (200, 2)).astype(float)  # numbers that moving by the mean leaves exact
    y = X @ [1.0, -1.0] + rng.standard_normal(200)
    if part:
        near, far = (Ridge(alpha=0.0, standard_errors=True).partial_fit(Z, y) for Z in (X, X + mean))
        assert far.standard_errors_[:2] == pytest.approx(near.standard_errors_[:2], rel=1e-7)
    else:
        signs = np.where(y > 0.0, 1.0, -1.0)
        point = np.array([0.5, -0.25, 0.125])
        moved = np.append(point[:2], point[2] - mean * point[:2].sum())
        near, far = (
            covariance_at(Problem.linear(Z, signs, fit_intercept=True), at, 200.0).matrix
            for Z, at in ((X, point), (X + mean, moved))
        )
        assert far[:2, :2] == pytest.approx(near[:2, :2], rel=1e-6)
        back = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [mean, mean, 1.0]])  # the intercept at the columns' old 0
        if mean <= 1e3:
            assert back @ far @ back.T == pytest.approx(near, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("part", [False, True])
def test_a_constant_column_and_the_intercept_have_what_cannot_be_estimated_in_common(part, form):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((300, 2)), np.full(300, 5.1)])
    y = X[:, 0] + rng.standard_normal(300)
    model = Ridge(alpha=0.0, standard_errors=True)
    model = model.partial_fit(form(X), y) if part else model.fit(form(X), y)
    Z = np.column_stack([X, np.ones(300)])
    residuals = y - model.predict(X)
    expected = np.linalg.pinv(Z.T @ Z, rcond=1e-12) * (residuals @ residuals) / (300 - 3)
    assert model.cov_params_ == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_class_weights_count_as_observations():
    table = np.array([15.0, 5.0, 7.0, 23.0])
    doubled = LogisticRegression(C=np.inf, class_weight={0: 2.0, 1: 2.0}, **SETTINGS)
    doubled.fit(GROUPS, [0, 1, 0, 1], sample_weight=table)
    assert doubled.standard_errors_[0] == pytest.approx(np.sqrt(0.5 * (1.0 / table).sum()), rel=1e-9)
