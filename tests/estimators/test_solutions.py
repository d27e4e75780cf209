"""What the estimators find: scikit-learn's solutions at tight tolerances, weights that mean repetition, every solver."""

import numpy as np
import pytest
import scipy.sparse
import sklearn.linear_model as reference
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC as ReferenceSVC, LinearSVR

from finitesum import (
    HuberRegressor,
    LinearClassifier,
    LinearRegressor,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Problem,
    Ridge,
    logistic_path,
)
from finitesum.constraints import Box, L1Ball
from finitesum.estimators.covariance import covariance_at
from finitesum.estimators.solvers import offered
from finitesum.losses import EpsilonInsensitive, Huber, SquaredEpsilonInsensitive

#: Kernels are compiled for every loss and kind of rows: where no solver is under test it is the cheapest to compile.
CHEAP = {"solver": "newton", "tol": 1e-12}


def labelled(n=120, d=4, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, n_classes)) + 1.5 * rng.standard_normal((n, n_classes))
    return X, scores.argmax(axis=1), rng.integers(0, 6, n).astype(float)


def numbers(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + 3.0 + rng.standard_normal(n) * (1.0 + 9.0 * (rng.random(n) < 0.1))
    return X, y, rng.integers(0, 6, n).astype(float)


def repeated(X, y, s):
    rows = np.repeat(np.arange(len(y)), s.astype(int))
    return X[rows], y[rows]


SMOOTH = offered(Problem.linear([[0.0], [1.0]], [0, 1]))


@pytest.mark.compiled
@pytest.mark.parametrize(
    "solver", ["auto", *(s if s in ("sag", "saga") else pytest.param(s, marks=pytest.mark.slow) for s in SMOOTH)]
)
def test_weights_mean_repetition_for_every_solver(solver):
    X, y, _ = labelled()
    s = np.random.default_rng(1).integers(1, 21, y.size).astype(float)  # where scikit-learn's sag and saga are wrong
    model = LogisticRegression(C=0.01, solver=solver, class_weight="balanced", tol=1e-11, max_iter=20_000)
    one = model.fit(X, y, sample_weight=s)
    coef, intercept = one.coef_.copy(), one.intercept_.copy()
    other = model.fit(*repeated(X, y, s))
    assert np.abs(other.coef_ - coef).max() < 1e-8
    assert np.abs(other.intercept_ - intercept).max() < 1e-8


@pytest.mark.compiled
@pytest.mark.parametrize("solver", ["sag", "ciag", "a-ciag", "newton", "auto"])
def test_rare_positives_with_balanced_weights(solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 5))
    u = X @ rng.standard_normal(5)
    y = u + 0.5 * rng.standard_normal(2000) > np.quantile(u, 0.984)
    model = LogisticRegression(solver=solver, class_weight="balanced", tol=1e-12, max_iter=5000).fit(X, y)
    other = reference.LogisticRegression(
        C=1.0, solver="newton-cholesky", class_weight="balanced", tol=1e-13, max_iter=1000
    ).fit(X, y)
    assert 0.01 < y.mean() < 0.02
    assert np.abs(model.coef_ - other.coef_).max() < 1e-8


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression_is_scikit_learns(n_classes):
    X, y, s = labelled(n_classes=n_classes)
    model = LogisticRegression(C=0.7, **CHEAP).fit(X, y, sample_weight=s)
    other = reference.LogisticRegression(C=0.7, solver="newton-cholesky", tol=1e-13).fit(X, y, sample_weight=s)
    assert np.abs(model.coef_ - other.coef_).max() < 1e-8
    assert np.abs(model.intercept_ - other.intercept_).max() < 1e-8
    assert np.abs(model.predict_proba(X) - other.predict_proba(X)).max() < 1e-8
    assert np.abs(model.predict_log_proba(X) - other.predict_log_proba(X)).max() < 1e-8
    assert np.array_equal(model.predict(X), other.predict(X))


def test_class_weights_are_factors_of_the_sample_weights():
    X, y, s = labelled(n_classes=3)
    factors = {0: 1.0, 1: 3.0, 2: 0.5}
    model = LogisticRegression(class_weight=factors, **CHEAP).fit(X, y, sample_weight=s)
    other = LogisticRegression(**CHEAP).fit(X, y, sample_weight=s * np.array([1.0, 3.0, 0.5])[y])
    assert np.array_equal(model.coef_, other.coef_)


def test_rows_of_weight_zero_may_hold_a_class_of_their_own():
    X, y, _ = labelled()
    y = y.copy()
    y[:5] = 7
    s = np.where(y == 7, 0.0, 1.0)
    model = LogisticRegression(**CHEAP).fit(X, y, sample_weight=s)
    assert model.classes_.tolist() == [0, 1]
    assert np.abs(model.coef_ - LogisticRegression(**CHEAP).fit(X[5:], y[5:]).coef_).max() < 1e-10


@pytest.mark.parametrize("loss", ["squared-hinge", "hinge"])
def test_svm_weights_mean_repetition_and_several_classes_are_one_against_the_rest(loss):
    X, y, s = labelled(n_classes=3)
    solver = "newton" if loss == "squared-hinge" else "interior-point"
    model = LinearSVC(loss=loss, solver=solver, tol=1e-12, n_threads=2)
    one = model.fit(X, y, sample_weight=s).coef_.copy()
    assert one.shape == (3, 4)
    assert model.n_iter_.shape == (3,)
    assert len(model.trace_) == 3
    assert np.abs(model.fit(*repeated(X, y, s)).coef_ - one).max() < 1e-8
    single = LinearSVC(loss=loss, solver=solver, tol=1e-12).fit(X, y == 1, sample_weight=s)
    assert np.abs(single.coef_[0] - one[1]).max() < 1e-8


def test_hinge_with_an_l2_penalty_reaches_a_gap_that_liblinear_does_not():
    X, y, _ = labelled()
    model = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-12).fit(X, y)
    assert model.optimality_ <= 1e-12
    other = ReferenceSVC(loss="hinge", fit_intercept=False, tol=1e-10, max_iter=100_000).fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)

    def objective(w):
        return np.maximum(0.0, 1.0 - signs * (X @ w)).sum() + 0.5 * w @ w

    assert objective(model.coef_[0]) <= objective(other.coef_[0]) + 1e-9
    assert np.abs(model.coef_ - other.coef_).max() < 1e-4


@pytest.mark.parametrize("loss", [EpsilonInsensitive(0.5), SquaredEpsilonInsensitive(0.5)], ids=repr)
def test_support_vector_regression_is_scikit_learns(loss):
    X, y, s = numbers()
    C, name = 2.0, "squared_epsilon_insensitive" if loss.is_smooth() else "epsilon_insensitive"
    model = LinearRegressor(loss=loss, alpha=1.0 / (C * s.sum()), fit_intercept=False, tol=1e-12)
    model.fit(X, y, sample_weight=s)
    other = LinearSVR(epsilon=0.5, C=C, loss=name, fit_intercept=False, tol=1e-12, max_iter=1_000_000)
    assert np.abs(model.coef_ - other.fit(X, y, sample_weight=s).coef_).max() < 1e-7


def test_constraints_hold():
    X, y, _ = labelled()
    model = LinearClassifier(loss="hinge", alpha=0.0, constraint=L1Ball(0.5)).fit(X, y)
    assert model.solver_ == "interior-point"
    assert np.abs(model.coef_).sum() <= 0.5 + 1e-12
    boxed = LinearClassifier(alpha=0.01, constraint=Box(-0.1, 0.1), **CHEAP).fit(X, y)
    assert np.abs(boxed.coef_).max() <= 0.1 + 1e-12


def test_ridge_is_scikit_learns_in_one_pass():
    X, y, s = numbers()
    X = 10.0 ** np.arange(-2, 2) * (X + 50.0)  # columns of any scale, far from 0
    model = Ridge(alpha=0.3, standard_errors=True).fit(X, y, sample_weight=s)
    other = reference.Ridge(alpha=0.3, solver="cholesky").fit(X, y, sample_weight=s)
    assert np.abs(model.coef_ / other.coef_ - 1.0).max() < 1e-8
    assert model.n_iter_ <= 2
    assert model.n_hessian_passes_ <= 2.0


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_ridge_from_parts_is_ridge(fit_intercept, sparse):
    X, y, s = numbers()
    X += 20.0
    whole = Ridge(alpha=2.0, fit_intercept=fit_intercept, tol=1e-10).fit(X, y, sample_weight=s)
    parts = Ridge(alpha=2.0, fit_intercept=fit_intercept)
    for rows in np.array_split(np.arange(y.size), 5):
        matrix = scipy.sparse.csr_array(X[rows]) if sparse else X[rows]
        parts.partial_fit(matrix, y[rows], sample_weight=s[rows])
    assert np.abs(parts.coef_ - whole.coef_).max() < 1e-9
    assert parts.intercept_ == pytest.approx(whole.intercept_, abs=1e-7)
    assert parts.optimality_ < 1e-10


def test_other_estimators_have_no_partial_fit():
    for cls in (LogisticRegression, LinearClassifier, LinearSVC, LinearRegressor, PoissonRegressor, HuberRegressor):
        assert not hasattr(cls(), "partial_fit")
    with pytest.raises(ValueError, match="partial_fit needs l1_ratio=0"):
        Ridge(l1_ratio=0.5).partial_fit([[0.0], [1.0]], [0.0, 1.0])


def test_poisson_is_scikit_learns_and_offsets_are_exposures():
    X, y, s = numbers()
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0] + 4.0)).astype(float)
    model = PoissonRegressor(alpha=0.1, **CHEAP).fit(X, counts, sample_weight=s)
    other = reference.PoissonRegressor(alpha=0.1, solver="newton-cholesky", tol=1e-12).fit(X, counts, sample_weight=s)
    assert np.abs(model.coef_ - other.coef_).max() < 1e-8
    assert model.score(X, counts, sample_weight=s) == pytest.approx(other.score(X, counts, sample_weight=s), abs=1e-9)
    exposure = np.random.default_rng(1).uniform(0.5, 3.0, y.size)
    by_offset = PoissonRegressor(alpha=0.0, **CHEAP).fit(X, counts, offset=np.log(exposure))
    by_rate = PoissonRegressor(alpha=0.0, **CHEAP).fit(X, counts / exposure, sample_weight=exposure)
    assert np.abs(by_offset.coef_ - by_rate.coef_).max() < 1e-8
    means = by_offset.predict(X, offset=np.log(exposure))
    assert means.sum() == pytest.approx(counts.sum(), rel=1e-9)


def test_scores_see_offsets_and_counts_are_checked():
    X, y, s = numbers()
    offset = np.random.default_rng(0).normal(size=y.size)
    linear = LinearRegressor(alpha=0.0, **CHEAP).fit(X, y, sample_weight=s, offset=offset)
    alone = LinearRegressor(alpha=0.0, **CHEAP).fit(X, y - offset, sample_weight=s)
    residuals, mean = y - offset - alone.predict(X), s @ y / s.sum()
    r_squared = 1.0 - s @ residuals**2 / (s @ (y - mean) ** 2)
    assert linear.score(X, y, sample_weight=s, offset=offset) == pytest.approx(r_squared, rel=1e-9)
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0] + 1.0)).astype(float)
    model = PoissonRegressor(alpha=0.1, **CHEAP).fit(X, counts)
    assert model.score(X, counts, offset=np.full(y.size, 300.0)) < model.score(X, counts, offset=np.zeros(y.size))
    far = PoissonRegressor(alpha=0.1, **CHEAP).fit(X, counts, offset=np.full(y.size, 300.0))
    assert far.score(X, counts, offset=np.full(y.size, 300.0)) == pytest.approx(model.score(X, counts), abs=1e-8)
    with pytest.raises(ValueError, match="y must be >= 0 for Poisson, got -1"):
        model.score(X, counts - 1.0)
    with pytest.raises(ValueError, match="NaN"):
        model.score(X, np.where(counts == 0, np.nan, counts))


@pytest.mark.parametrize("count", [0.0, 3.0])
def test_the_score_of_counts_that_do_not_vary_is_that_of_r_squared(count):
    X, y, _ = numbers()
    same = np.full(y.size, count)
    assert PoissonRegressor(**CHEAP).fit(X, np.abs(y)).score(X, same) == 0.0
    if count:
        assert PoissonRegressor(**CHEAP).fit(X, same).score(X, same) == 1.0


def test_huber_with_a_joint_scale_is_scikit_learns():
    X, y, s = numbers()
    model = HuberRegressor(scale="joint", alpha=2.0 * 0.1 / s.sum(), solver="newton", tol=1e-11)
    model.fit(X, y, sample_weight=s)
    other = reference.HuberRegressor(alpha=0.1, tol=1e-10, max_iter=10_000).fit(X, y, sample_weight=s)
    assert model.optimality_ <= 1e-11
    assert model.scale_ == pytest.approx(other.scale_, rel=1e-4)
    assert np.abs(model.coef_ - other.coef_).max() < 1e-4

    def objective(coef, intercept, sigma):
        ratio = np.abs(X @ coef + intercept - y) / sigma
        rises = np.where(ratio <= 1.35, ratio**2, 2 * 1.35 * ratio - 1.35**2)
        return s @ (sigma + sigma * rises) + 0.1 * coef @ coef

    assert objective(model.coef_, model.intercept_, model.scale_) <= objective(other.coef_, other.intercept_, other.scale_)
    assert model.objective_ * s.sum() == pytest.approx(objective(model.coef_, model.intercept_, model.scale_), rel=1e-10)
    twice = HuberRegressor(scale="joint", alpha=2.0 * 0.1 / s.sum(), solver="newton", tol=1e-11).fit(*repeated(X, y, s))
    assert np.abs(twice.coef_ - model.coef_).max() < 1e-8
    assert twice.scale_ == pytest.approx(model.scale_, abs=1e-8)


def test_huber_with_a_given_scale_is_the_linear_regressor():
    X, y, _ = numbers()
    model = HuberRegressor(epsilon=1.2, scale=0.5, alpha=0.01, **CHEAP).fit(X, y)
    other = LinearRegressor(Huber(0.6), alpha=0.01, **CHEAP).fit(X, y)
    assert np.array_equal(model.coef_, other.coef_)
    assert np.array_equal(model.outliers_, np.abs(X @ model.coef_ + model.intercept_ - y) > 0.6)


def test_a_scale_that_is_best_at_zero_is_warned_of():
    X = np.random.default_rng(0).standard_normal((10, 20))
    with pytest.warns(ConvergenceWarning, match="no positive scale is best"):
        HuberRegressor(scale="joint", solver="newton").fit(X, X[:, 0])


def test_standard_errors_by_their_formulas():
    X, y, s = labelled()
    Z = np.column_stack([X, np.ones(y.size)])
    model = LogisticRegression(C=2.0, standard_errors=True, **CHEAP).fit(X, y, sample_weight=s)
    p = model.predict_proba(X)[:, 1]
    information = Z.T @ (Z * (s * p * (1 - p))[:, None]) + np.diag([0.5] * 4 + [0.0])
    assert np.allclose(model.cov_params_, np.linalg.inv(information), rtol=1e-8)
    assert np.array_equal(model.standard_errors_, np.sqrt(np.diag(model.cov_params_)))

    X, y, s = numbers()
    ols = Ridge(alpha=0.0, standard_errors=True).fit(X, y, sample_weight=s)
    residuals = y - ols.predict(X)
    variance = s @ residuals**2 / (s.sum() - 5)
    Z = np.column_stack([X, np.ones(y.size)])
    assert np.allclose(ols.cov_params_, variance * np.linalg.inv(Z.T @ (Z * s[:, None])), rtol=1e-7)


@pytest.mark.parametrize("unit", [1e-9, 1e-7, 1e7, 1e9])
def test_standard_errors_do_not_depend_on_the_units_of_a_column(unit):
    X, y, _ = labelled()
    units = np.array([1.0, 1.0, 1.0, unit])
    plain = LogisticRegression(C=np.inf, fit_intercept=False, standard_errors=True, **CHEAP).fit(X, y)
    scaled = covariance_at(Problem.linear(X * units, y), plain.coef_[0] / units, float(y.size)).matrix
    assert np.allclose(np.sqrt(np.diagonal(scaled)) * units, plain.standard_errors_, rtol=1e-9)
    X, y, _ = numbers()
    plain, scaled = (Ridge(alpha=0.0, standard_errors=True, tol=1e3).fit(Z, y) for Z in (X, X * units))
    assert np.allclose(scaled.standard_errors_ * np.append(units, 1.0), plain.standard_errors_, rtol=1e-6)


def test_standard_errors_of_dependent_columns_are_those_of_what_can_be_estimated():
    X, y, _ = numbers()
    doubled = np.column_stack([X, 1e4 * X[:, 0]])
    plain = Ridge(alpha=0.0, standard_errors=True).fit(X, y)
    model = Ridge(alpha=0.0, standard_errors=True).fit(doubled, y)
    effect = np.array([1.0, 0.0, 0.0, 0.0, 1e4, 0.0])  # of all columns together the effect of the first is known
    assert effect @ model.cov_params_ @ effect == pytest.approx(plain.cov_params_[0, 0], rel=1e-6)
    assert np.allclose(model.standard_errors_[[1, 2, 3, 5]], plain.standard_errors_[1:], rtol=1e-6)


def test_standard_errors_of_several_classes_and_of_an_l1_penalty():
    X, y, _ = labelled(n_classes=3)
    model = LogisticRegression(standard_errors=True, **CHEAP).fit(X, y)
    assert model.cov_params_.shape == (15, 15)
    P, Z = model.predict_proba(X), np.column_stack([X, np.ones(y.size)])
    blocks = [[(Z.T * (P[:, k] * (float(k == m) - P[:, m]))) @ Z for m in range(3)] for k in range(3)]
    information = np.block(blocks) + np.diag(([1.0] * 4 + [0.0]) * 3)
    centred = np.kron(np.eye(3) - 1.0 / 3.0, np.eye(5))  # the coefficients of a column sum to 0, and do not vary otherwise
    assert np.allclose(model.cov_params_, centred @ np.linalg.pinv(information, rcond=1e-10) @ centred, atol=1e-8)
    sparse = LogisticRegression(C=0.05, l1_ratio=1.0, standard_errors=True, **CHEAP).fit(X, y == 0)
    zero = np.append(sparse.coef_[0] == 0.0, False)
    assert 0 < zero.sum() < 4
    assert np.array_equal(np.isnan(sparse.standard_errors_), zero)
    with pytest.raises(ValueError, match="standard errors are not known with a constraint"):
        LogisticRegression(constraint=Box(-1, 1), standard_errors=True, **CHEAP).fit(X, y == 0)


@pytest.mark.parametrize(("solver", "l1_ratio"), [("auto", 0.0), ("auto", 0.5), ("newton", 0.0)])
def test_a_path_is_many_fits_in_fewer_passes(solver, l1_ratio):
    X, y, s = labelled(n=1000)
    Cs = np.logspace(-2, 1, 7)
    path = logistic_path(X, y, Cs=Cs, sample_weight=s, solver=solver, l1_ratio=l1_ratio, tol=1e-10)
    fits = [LogisticRegression(C, solver=solver, l1_ratio=l1_ratio).fit(X, y, sample_weight=s) for C in Cs]
    for coef, fit in zip(path.coefs, fits, strict=True):
        assert np.abs(coef - fit.coef_).max() < 1e-6
    assert (path.optimality <= 1e-10).all()
    assert path.n_passes.sum() < 0.9 * sum(fit.n_passes_ for fit in fits)
    assert path.alphas == pytest.approx(1.0 / (Cs * s.sum()))
    if solver == "auto":  # the rows' curvatures are kept
        hessian_passes = sum(result.n_hessian_passes for result in path.results)
        assert hessian_passes < 0.7 * sum(fit.n_hessian_passes_ for fit in fits)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_cross_validation_chooses_as_scikit_learn_does(n_classes):
    X, y, _ = labelled(n_classes=n_classes)
    Cs = [1e-3, 1e-1, 10.0]
    model = LogisticRegressionCV(Cs, cv=4, scoring="neg_log_loss", n_threads=2, **CHEAP).fit(X, y)
    scores = [
        [
            np.mean(
                reference.LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12)
                .fit(X[train], y[train])
                .predict_log_proba(X[test])[np.arange(test.size), y[test]]
            )
            for C in Cs
        ]
        for train, test in StratifiedKFold(4).split(X, y)
    ]
    assert np.allclose(model.scores_, scores, atol=1e-8)
    assert Cs[int(np.argmax(np.mean(scores, axis=0)))] == model.C_
    alone = LogisticRegression(C=model.C_, **CHEAP).fit(X, y)
    assert np.abs(model.coef_ - alone.coef_).max() < 1e-9
    assert model.coefs_paths_.shape == (4, 3, 1 if n_classes == 2 else 3, 4)
    assert model.score(X, y) == pytest.approx(np.mean(alone.predict_log_proba(X)[np.arange(y.size), y]), abs=1e-8)
