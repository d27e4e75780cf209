"""Sums over rows against NumPy: over all of them, runs of them, and rows that lie apart."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem
from finitesum.evaluation.hessian import _sparse_in_arrays
from finitesum.evaluation.many_points import curvatures_at_each, gradients_at_each, gradients_of_all
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.rounding import extended_gradient
from finitesum.evaluation.row_sums import Majorize, loss_sums
from finitesum.losses import SmoothedHinge

N = 700


@pytest.fixture(scope="module", params=["dense", "csr"])
def rows(request):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 5)) * (rng.random((N, 5)) < 0.6)
    weights = rng.uniform(0.0, 2.0, N)
    weights[::7] = 0.0
    stored = sp.csr_array(X) if request.param == "csr" else X
    return X, stored, np.sign(rng.standard_normal(N)), weights, rng.standard_normal(N), rng.standard_normal(5)


CHOICES = {
    "all": lambda m, rng: np.arange(m),
    "a run": lambda m, rng: np.arange(m // 5, m // 2),
    "apart": lambda m, rng: np.flatnonzero(rng.random(m) < 0.4),
    "nearly all": lambda m, rng: np.delete(np.arange(m), [0, m // 2, m - 2]),
    "one": lambda m, rng: np.array([m - 1]),
    "none": lambda m, rng: np.zeros(0, dtype=np.int64),
}


def in_memory(X, y, weights, offsets, batch_size):
    return Problem.linear(X, y, sample_weight=weights, offset=offsets, batch_size=batch_size)


def in_parts(X, y, weights, offsets, batch_size):
    """Parts that end within components, one of which has no row that counts."""
    cuts = [0, 100, 220, 224, 225, N]
    parts = [(X[a:b], y[a:b], weights[a:b], offsets[a:b]) for a, b in itertools.pairwise(cuts)]
    return Problem.partitioned(parts).batched(batch_size)


@pytest.mark.compiled
@pytest.mark.parametrize("made", [in_memory, in_parts])
@pytest.mark.parametrize("batch_size", [1, 3, 200])
@pytest.mark.parametrize("choice", CHOICES)
def test_sums_over_some_components_are_numpys(rows, choice, batch_size, made):
    X, stored, y, weights, offsets, w = rows
    problem = made(stored, y, weights, offsets, batch_size)
    components = CHOICES[choice](problem.n_components, np.random.default_rng(0))
    chosen = np.isin(np.arange(N) // batch_size, components)
    p, margins = weights / weights.sum(), y * (X @ w + offsets)
    slope, curvature = -y / (1.0 + np.exp(margins)), 1.0 / (2.0 + np.exp(margins) + np.exp(-margins))
    slopes, curvatures = np.full(N, np.nan), np.full(N, np.nan)
    found = loss_sums(problem, w, components, slopes=slopes, curvatures=curvatures, majorize=Majorize.NONE)
    here = chosen & (weights > 0.0)
    np.testing.assert_allclose(found.gradient, X[here].T @ (p * slope)[here], rtol=1e-12, atol=1e-15)
    assert found.value == pytest.approx((p * np.log1p(np.exp(-margins)))[here].sum(), rel=1e-12)
    assert found.squared_slopes == pytest.approx((p * slope**2)[here].sum(), rel=1e-12)
    np.testing.assert_allclose(slopes[chosen], np.where(weights > 0.0, slope, 0.0)[chosen], rtol=1e-12)
    np.testing.assert_allclose(curvatures[chosen], np.where(weights > 0.0, curvature, 0.0)[chosen], rtol=1e-12)
    assert np.isnan(slopes[~chosen]).all()
    assert np.isnan(curvatures[~chosen]).all()


@pytest.mark.parametrize("most_rows", [250, 400, 699])
def test_sums_in_blocks_of_any_size_are_those_over_all_rows(rows, most_rows, monkeypatch):
    X, stored, y, weights, offsets, w = rows
    problem = Problem.linear(stored, y, sample_weight=weights, offset=offsets, alpha=0.1)
    monkeypatch.setattr("finitesum.evaluation.rounding.BLOCK_SIZE", most_rows * (X.shape[1] + 2))
    gradient, _ = extended_gradient(problem, w)
    np.testing.assert_allclose(gradient.astype(float), loss_sums(problem, w).gradient + 0.1 * w, rtol=1e-11, atol=1e-15)
    classes = Problem.linear(stored, np.arange(N) % 3, sample_weight=weights, loss="multinomial", alpha=0.1)
    point = np.random.default_rng(1).standard_normal(classes.dim)
    expected = evaluate(classes, point)
    monkeypatch.setattr("finitesum.evaluation.outputs.BLOCK_SIZE", most_rows * 5)
    np.testing.assert_allclose(evaluate(classes, point).gradient, expected.gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.compiled
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sums_at_many_points_are_those_at_each(rows, fit_intercept, monkeypatch):
    _, stored, y, weights, offsets, _ = rows
    monkeypatch.setattr("finitesum.evaluation.many_points.N_TOGETHER", 1000)  # several blocks of rows
    problem = Problem.linear(stored, y, sample_weight=weights, offset=offsets, fit_intercept=fit_intercept)
    rng = np.random.default_rng(5)
    points, weightings = rng.standard_normal((4, problem.dim)), np.stack([problem.weights, rng.random(N) / N])
    which = np.array([0, 1, 1, 0])
    each = gradients_at_each(problem, points, weightings, which)
    of_all = gradients_of_all(problem, points, weightings)
    curvatures = curvatures_at_each(problem, points)
    for j, w in enumerate(points):
        for f in range(2):
            gradient = loss_sums(replace(problem, weights=weightings[f]), w).gradient
            np.testing.assert_allclose(of_all[f, j], gradient, rtol=1e-11, atol=1e-14)
            if which[j] == f:
                np.testing.assert_allclose(each[j], gradient, rtol=1e-11, atol=1e-14)
        expected = np.empty(N)
        loss_sums(replace(problem, weights=np.full(N, 1.0 / N)), w, curvatures=expected)
        np.testing.assert_allclose(curvatures[j], expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("density", [0.05, 0.5])
@pytest.mark.parametrize("least", [0.0, -1.0])
def test_grams_of_few_sparse_rows_are_those_of_their_numbers(dtype, fit_intercept, density, least):
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 12), density=density, rng=rng, format="csr", dtype=dtype)
    problem = Problem.linear(
        X, np.where(np.arange(60) % 2, 1.0, -1.0), loss="hinge", alpha=0.1, fit_intercept=fit_intercept
    )
    picked, before = np.flatnonzero(rng.random(60) < 0.7), rng.standard_normal((problem.dim, problem.dim))
    scales = np.maximum(rng.uniform(-1.0, 1.0, picked.size), least)
    dense = np.hstack([X.toarray().astype(float), np.ones((60, 1))])[picked, : problem.dim]
    sums = before.copy()
    _sparse_in_arrays(problem.rows, picked, scales, sums)
    np.testing.assert_allclose(np.tril(sums), np.tril(before + (dense.T * scales) @ dense), atol=1e-12)


def test_rows_without_curvature_are_counted():
    X = np.random.default_rng(3).standard_normal((300, 3))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    problem = Problem.linear(X, y, loss=SmoothedHinge(), alpha=0.1)
    w, slopes, curvatures = np.array([2.0, 0.3, 0.0]), np.empty(300), np.empty(300)
    found = loss_sums(problem, w, slopes=slopes, curvatures=curvatures, counts_straight=True)
    assert found.n_straight == (curvatures == 0.0).sum() > found.n_sloped > 0
    assert found.n_sloped == ((curvatures == 0.0) & (slopes != 0.0)).sum()
