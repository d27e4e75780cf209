"""Paths of the squared loss on Gram matrices: against fits one by one, on data of all kinds."""

import numpy as np
import pytest
import scipy.sparse
from sklearn import linear_model as reference
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit

from finitesum import LinearRegressor, LinearRegressorCV, Ridge, RidgeCV, linear_path
from finitesum.estimators import gram_minimisers, regression_cv
from finitesum.losses import Squared

N, FOLDS = 90, KFold(3, shuffle=True, random_state=1)


def data(kind="dense", d=14):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, d))
    X[:, 1:] += 0.5 * X[:, :-1]
    y = X[:, :5] @ [1.0, -1.0, 0.5, 0.5, 2.0] + 2.0 + rng.standard_normal(N)
    if kind == "unscaled":
        X = X * np.geomspace(1e-3, 1e3, d) + np.linspace(0.0, 100.0, d)
        X[:, 3] = 4.0
    if kind == "float32":
        X = X.astype(np.float32)
    if kind == "sparse":
        X = scipy.sparse.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0))
    return X, y, rng


def fold_scores(single, X, y, weights, offset, splits):
    """Return minus the mean losses of test rows, each model fitted by itself."""
    weights = np.ones(N) if weights is None else weights
    offset = np.zeros(N) if offset is None else offset
    found = []
    for train, test in splits:
        model = single.fit(X[train], y[train], weights[train], offset[train])
        squares = 0.5 * (model.predict(X[test], offset[test]) - y[test]) ** 2
        found.append(-float(np.average(squares, weights=weights[test])))
    return found


_rows_of = regression_cv.rows_of


@pytest.fixture
def on_matrices_alone(monkeypatch):
    """Let a fold fail that is solved on its rows."""

    def test_rows_alone(problem, rows):
        assert len(rows) <= N // 2, "a fold was solved without its Gram matrix"
        return _rows_of(problem, rows)

    monkeypatch.setattr(regression_cv, "rows_of", test_rows_alone)


@pytest.mark.usefixtures("on_matrices_alone")
@pytest.mark.parametrize("kind", ["dense", "unscaled", "float32", "sparse", "wide"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.6])
@pytest.mark.parametrize("with_more", [False, True])
def test_scores_and_model_are_those_of_fits_one_by_one(kind, l1_ratio, with_more):
    X, y, rng = data(kind, 120 if kind == "wide" else 14)
    weights, offset = (rng.integers(0, 4, N).astype(float), rng.standard_normal(N)) if with_more else (None, None)
    given = {"l1_ratio": l1_ratio, "fit_intercept": not (with_more and kind == "sparse")}
    alphas = np.geomspace(1.0, 1e-2, 4)
    model = LinearRegressorCV(alphas=alphas, cv=FOLDS, **given).fit(X, y, weights, offset)
    near = 1e-4 if kind == "float32" else 1e-6  # whose models predict in float32
    for k, alpha in enumerate(alphas):
        alone = LinearRegressor(alpha=alpha, solver="newton", tol=1e-10, **given)
        assert model.scores_[:, 0, k] == pytest.approx(fold_scores(alone, X, y, weights, offset, FOLDS.split(y)), rel=near)
    exact = LinearRegressor(alpha=model.alpha_, tol=1e-10, **given).fit(X, y, weights, offset)
    scale = 1e-8 * float(np.abs(exact.coef_).max()) * (1e3 if kind == "float32" else 1.0)
    assert model.coef_ == pytest.approx(exact.coef_, abs=scale)
    assert model.optimality_ <= 1e-8


@pytest.mark.parametrize("splitter", [TimeSeriesSplit(4), ShuffleSplit(3, test_size=0.4, random_state=0), "repeated"])
def test_folds_need_not_be_a_partition(splitter):
    X, y, rng = data()
    some = [(rng.integers(0, N, N), np.arange(20)) for _ in range(2)]  # rows more than once
    splits = some if splitter == "repeated" else list(splitter.split(X))
    model = LinearRegressorCV(alphas=[0.1, 0.01], cv=splits, l1_ratio=1.0).fit(X, y)
    for k, alpha in enumerate(model.alphas_[0]):
        alone = LinearRegressor(alpha=alpha, l1_ratio=1.0, tol=1e-10)
        assert model.scores_[:, 0, k] == pytest.approx(fold_scores(alone, X, y, None, None, splits), rel=1e-7)


def test_a_fold_with_nearly_all_of_a_column_is_summed_by_itself():
    X, y, _ = data()
    X[0, 2] = 1e9
    splits = [(np.arange(1, N), np.arange(1)), (np.arange(N - 1), np.arange(N - 1, N))]
    model = RidgeCV(alphas=[10.0, 0.1], cv=splits).fit(X, y)
    for k, alpha in enumerate((10.0, 0.1)):
        alone = Ridge(alpha=alpha).fit(X[1:], y[1:])
        expected = -0.5 * float(alone.predict(X[:1])[0] - y[0]) ** 2
        assert model.scores_[0, 0, k] == pytest.approx(expected, rel=1e-6)


def test_many_strengths_threads_and_a_scaled_loss():
    X, y, _ = data(d=60)
    alphas = np.geomspace(100.0, 0.1, 40)
    one, two = (RidgeCV(alphas=alphas, cv=FOLDS, n_threads=n).fit(X, y) for n in (None, 2))
    np.testing.assert_array_equal(one.scores_, two.scores_)
    exact = [fold_scores(Ridge(alpha=alpha), X, y, None, None, FOLDS.split(y)) for alpha in alphas[::13]]
    np.testing.assert_allclose(one.scores_[:, 0, ::13].T, exact, rtol=1e-8)
    scaled = LinearRegressorCV(Squared(3.0), alphas=[0.3, 0.03], cv=FOLDS, l1_ratio=0.5).fit(X, y)
    plain = LinearRegressorCV(alphas=[0.1, 0.01], cv=FOLDS, l1_ratio=0.5).fit(X, y)
    assert scaled.scores_ == pytest.approx(3.0 * plain.scores_, rel=1e-6)


def test_sets_and_bounds_by_name():
    pandas = pytest.importorskip("pandas")
    X, y, _ = data(d=5)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = RidgeCV(alphas=[1.0, 0.1], cv=FOLDS, bounds={"b": (0.0, None)}).fit(frame, y)
    exact = Ridge(alpha=model.alpha_, bounds={"b": (0.0, None)}).fit(frame, y)
    assert model.coef_ == pytest.approx(exact.coef_, abs=1e-8)
    assert model.coef_[1] == 0.0


def test_what_a_matrix_does_not_solve_is_solved_on_the_rows(monkeypatch):
    X, y, _ = data()
    expected = LinearRegressorCV(alphas=[0.1, 0.01], cv=FOLDS, l1_ratio=0.5).fit(X, y)
    monkeypatch.setattr(gram_minimisers, "_optimality", lambda _q, _s, _t, points: np.full(len(points), np.inf))
    monkeypatch.setattr(gram_minimisers, "minimise_model", lambda _t, _h, _g, w, _tol: np.full_like(w, np.nan))
    found = LinearRegressorCV(alphas=[0.1, 0.01], cv=FOLDS, l1_ratio=0.5).fit(X, y)
    assert found.scores_ == pytest.approx(expected.scores_, rel=1e-6)


def test_a_path_starts_from_the_matrix_and_is_certified_on_the_rows():
    X, y, _ = data("unscaled")
    path = linear_path(X, y, alphas=8, l1_ratio=0.9)
    assert (path.optimality <= 1e-8).all()
    theirs = reference.ElasticNet(alpha=path.alphas[-1], l1_ratio=0.9, tol=1e-14, max_iter=10**6)
    assert (path.coefs[-1] != 0.0).sum() > 3
    assert path.results[-1].fun <= 0.5 * float(np.mean((theirs.fit(X, y).predict(X) - y) ** 2)) + path.alphas[-1] * (
        0.9 * np.abs(theirs.coef_).sum() + 0.05 * theirs.coef_ @ theirs.coef_
    ) * (1.0 + 1e-9)


def test_a_fold_without_weights_is_an_error():
    X, y, _ = data()
    weights = np.zeros(N)
    weights[:20] = 1.0
    with pytest.raises(ValueError, match="a fold has no rows with weight"):
        RidgeCV(alphas=[1.0], cv=[(np.arange(40, N), np.arange(40))]).fit(X, y, weights)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_weak_l1_penalties_on_fewer_rows_than_columns(l1_ratio):
    """Where descent takes too many sweeps the path is followed; of columns that are there twice there is none."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((25, 60))
    y = X[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(25)
    for columns in (np.arange(60), np.r_[0:60, 0:10]):
        model = LinearRegressorCV(l1_ratios=[l1_ratio], alphas=20, cv=3).fit(X[:, columns], y)
        one = LinearRegressor(alpha=model.alpha_, l1_ratio=l1_ratio, tol=1e-10).fit(X[:, columns], y)
        assert model.optimality_ <= 1e-8
        assert model.objective_ == pytest.approx(one.objective_, rel=1e-9)
