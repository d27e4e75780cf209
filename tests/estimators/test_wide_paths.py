"""Paths with an l1 penalty on fewer rows than columns: against fits one by one, on columns of all kinds."""

import numpy as np
import pytest
import scipy.sparse

from finitesum import LinearRegressor, LinearRegressorCV, linear_path
from finitesum.estimators import wide_paths
from finitesum.methods.subproblems.gram_homotopy import Lost


def data(kind, n=40, d=230):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, d))
    if kind == "correlated":
        X += rng.standard_normal((n, 3)) @ rng.standard_normal((3, d))
    if kind == "unscaled":
        X = X * np.geomspace(1e-2, 1e2, d) + np.linspace(0.0, 1e4, d)
        X[:, 3] = 4.0
    if kind == "twice":
        X[:, d // 2 :] = X[:, : d - d // 2]
    if kind in ("sparse", "one-hot"):
        X = np.where(rng.random(X.shape) < 0.2, X, 0.0) if kind == "sparse" else (rng.random(X.shape) < 0.1) + 0.0
    y = X[:, ::20].sum(axis=1) + 3.0 + rng.standard_normal(n)
    if kind == "float32":
        X = X.astype(np.float32)
    return scipy.sparse.csr_array(X) if kind == "sparse" else X, y, rng


KINDS = ["independent", "correlated", "unscaled", "twice", "sparse", "one-hot", "float32"]


def objectives(model, X, y, alphas, l1_ratio, weights, offset, penalty_weights):
    """Return F at the coefficients of a path, by its definition."""
    p = np.ones(y.size) if weights is None else weights
    found = []
    for alpha, w, b in zip(alphas, model.coefs, model.intercepts, strict=True):
        left = X @ w + b + (0.0 if offset is None else offset) - y
        sizes = penalty_weights * (l1_ratio * np.abs(w) + 0.5 * (1.0 - l1_ratio) * w * w)
        found.append(0.5 * np.average(left**2, weights=p) + alpha * sizes.sum())
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
@pytest.mark.parametrize("with_more", [False, True])
def test_all_strengths_are_solved_without_the_rows(kind, l1_ratio, with_more, monkeypatch):
    """The path itself reaches tol, and F is that of a fit by itself."""
    X, y, rng = data(kind)
    weights, offset, sizes = None, None, np.ones(X.shape[1])
    if with_more:
        weights, offset = rng.integers(0, 3, y.size).astype(float), rng.standard_normal(y.size)
        sizes = rng.uniform(0.5, 2.0, sizes.size)
        sizes[[0, 3]] = 0.0
    given = {"l1_ratio": l1_ratio, "penalty_weights": sizes if with_more else None, "fit_intercept": kind != "correlated"}
    monkeypatch.setattr(wide_paths, "MOST_FREE", 10)
    solve, seen = wide_paths.WidePaths.solve, []
    monkeypatch.setattr(wide_paths.WidePaths, "solve", lambda *args: seen.append(solve(*args)) or seen[-1])
    path = linear_path(X, y, alphas=15, sample_weight=weights, offset=offset, **given)
    (found,) = seen
    assert (found[1] <= 1e-6).all() or kind == "unscaled"  # whose rounding errors are near tol
    assert (path.optimality <= 1e-6).all()
    values = objectives(path, X, y, path.alphas, l1_ratio, weights, offset, sizes)
    for k in (3, 9, 14):
        alone = LinearRegressor(alpha=path.alphas[k], solver="newton", **given).fit(X, y, weights, offset)
        assert values[k] == pytest.approx(float(alone.objective_), rel=1e-6)


@pytest.mark.parametrize("kind", ["independent", "sparse"])
def test_folds_are_solved_as_fits(kind):
    X, y, rng = data(kind)
    weights = rng.uniform(0.5, 2.0, y.size)
    model = LinearRegressorCV(l1_ratio=1.0, alphas=12, cv=4).fit(X, y, weights)
    folds = np.array_split(np.arange(y.size), 4)
    for k, test in enumerate(folds):
        train = np.setdiff1d(np.arange(y.size), test)
        for j in (2, 6, 11):
            one = LinearRegressor(alpha=model.alphas_[0, j], l1_ratio=1.0, tol=1e-9).fit(X[train], y[train], weights[train])
            squares = (one.predict(X[test]) - y[test]) ** 2
            assert model.scores_[k, 0, j] == pytest.approx(-0.5 * np.average(squares, weights=weights[test]), rel=1e-4)


@pytest.mark.parametrize("last", [0, 5])
def test_where_a_path_ends_the_rest_is_solved_on_the_rows(last, monkeypatch):
    X, y, _ = data("independent")
    expected = LinearRegressorCV(l1_ratio=1.0, alphas=10, cv=3).fit(X, y)
    strengths = linear_path(X, y, l1_ratio=1.0, alphas=10)

    class Ending(wide_paths.Path):
        def at(self, strength):
            if strength <= expected.alphas_[0, last]:
                raise Lost
            return super().at(strength)

    monkeypatch.setattr(wide_paths, "Path", Ending)
    found = LinearRegressorCV(l1_ratio=1.0, alphas=10, cv=3).fit(X, y)
    assert found.scores_ == pytest.approx(expected.scores_, rel=1e-4)
    path = linear_path(X, y, l1_ratio=1.0, alphas=10)
    assert (path.optimality <= 1e-6).all()
    assert path.coefs == pytest.approx(strengths.coefs, abs=1e-4)


def test_elastic_nets_with_many_coefficients_are_left_to_passes(monkeypatch):
    X, y, _ = data("twice")
    solve, seen = wide_paths.WidePaths.solve, []
    monkeypatch.setattr(wide_paths.WidePaths, "solve", lambda *args: seen.append(solve(*args)) or seen[-1])
    expected = linear_path(X, y, l1_ratio=0.5, alphas=15)
    assert np.count_nonzero(expected.coefs[-1]) > 2 * y.size
    assert np.isnan(seen[0][0][-1]).all()
    monkeypatch.setattr(wide_paths, "MOST_FREE", 10)
    path = linear_path(X, y, l1_ratio=0.5, alphas=15)
    assert (expected.optimality <= 1e-6).all()
    assert path.coefs == pytest.approx(expected.coefs, abs=1e-4)


def test_targets_without_variation_and_strengths_above_the_path():
    X, _, _ = data("independent")
    path = linear_path(X, np.full(40, 2.0), l1_ratio=1.0, alphas=[0.1, 1.0])
    assert not path.coefs.any()
    assert path.intercepts == pytest.approx([2.0, 2.0])
    path = linear_path(X, X[:, 0], l1_ratio=1.0, alphas=[1e3, 1e2, 0.1])
    assert [np.count_nonzero(w) > 0 for w in path.coefs] == [False, False, True]
