"""Products of sparse rows for several outputs, by rows and by columns of a copy, against dense ones."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize
from finitesum.evaluation import sparse_outputs
from finitesum.evaluation.outputs import score_changes, sum_of_rows
from finitesum.evaluation.sparse_outputs import BEFORE_COPY
from finitesum.methods import as_method

K = 3


def problem_of(shape, *, dtype=np.float64, fit_intercept=True, is_sorted=True):
    rng = np.random.default_rng(0)
    X = sp.random_array(shape, density=0.1, format="csr", rng=rng, dtype=dtype)
    problem = Problem.linear(X, rng.integers(0, K, shape[0]), loss="multinomial", alpha=0.1, fit_intercept=fit_intercept)
    if not is_sorted:  # as rows that nothing checked may be
        columns, values, starts = problem.rows.columns, problem.rows.values, problem.rows.starts
        for first, last in itertools.pairwise(starts):
            columns[first:last], values[first:last] = columns[first:last][::-1].copy(), values[first:last][::-1].copy()
    return problem, X.toarray()


def has_copy(problem):
    return "_by_columns" in problem.of_rows


@pytest.fixture
def sums_by_columns(monkeypatch):
    """Return a list that grows with each use of the copy's transpose."""
    used, by_columns = [], sparse_outputs._by_columns

    class Watched(tuple):
        __slots__ = ()

        def __getitem__(self, place):
            used.extend([place] if place == 1 else [])
            return super().__getitem__(place)

    monkeypatch.setattr(sparse_outputs, "_by_columns", lambda problem: Watched(by_columns(problem)))
    return used


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(60, 20), (20, 60), (40, 40)])
def test_products_by_columns_are_those_by_rows_bit_by_bit(monkeypatch, sums_by_columns, shape, fit_intercept):
    is_wide = 2 * shape[0] < shape[1]
    monkeypatch.setattr(sparse_outputs, "IN_CACHE", (K * shape[1] - 1) // 2 if is_wide else K * shape[0])
    problem, X = problem_of(shape, fit_intercept=fit_intercept)
    rng = np.random.default_rng(1)
    w, scales = rng.standard_normal(problem.dim), rng.standard_normal((shape[0], K))
    table = np.column_stack([X, np.ones((shape[0], int(fit_intercept)))])
    before = score_changes(problem, w), sum_of_rows(problem, scales)
    assert not has_copy(problem)
    np.testing.assert_allclose(before[0], table @ w.reshape(K, -1).T, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(before[1], scales.T @ table, rtol=1e-13, atol=1e-14)
    for _ in range(BEFORE_COPY):
        score_changes(problem, w)
    assert has_copy(problem)
    np.testing.assert_array_equal(score_changes(problem, w), before[0])
    np.testing.assert_array_equal(sum_of_rows(problem, scales), before[1])
    assert bool(sums_by_columns) == is_wide


@pytest.mark.parametrize(
    "reason", ["many numbers of rows", "many outputs", "unsorted", "single precision", "large", "mapped"]
)
def test_no_copy_is_made(monkeypatch, reason, tmp_path):
    monkeypatch.setattr(sparse_outputs, "BEFORE_COPY", 0)
    if reason == "many numbers of rows":
        monkeypatch.setattr(sparse_outputs, "IN_CACHE", 60 * K - 1)
    if reason == "many outputs":
        monkeypatch.setattr(sparse_outputs, "FEW_OUTPUTS", K - 1)
    if reason == "large":
        monkeypatch.setattr(sparse_outputs, "MOST_BYTES", 100)
    kind = np.float32 if reason == "single precision" else np.float64
    problem, X = problem_of((60, 20), dtype=kind, is_sorted=reason != "unsorted")
    if reason == "mapped":
        np.save(tmp_path / "values.npy", problem.rows.values)
        values = np.load(tmp_path / "values.npy", mmap_mode="r")
        problem = replace(problem, rows=problem.rows._replace(values=values))
    w = np.random.default_rng(1).standard_normal(problem.dim)
    for _ in range(3):
        scores = score_changes(problem, w)
    assert not has_copy(problem)
    by_class = w.reshape(K, -1)
    np.testing.assert_allclose(scores, X @ by_class[:, :20].T + by_class[:, 20], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("solver", ["multinomial-newton", "multinomial-lbfgs"])
def test_runs_have_the_same_bits_with_a_copy_and_without(monkeypatch, solver):
    monkeypatch.setattr(sparse_outputs, "BEFORE_COPY", 2)
    method = as_method(solver, {"solver": "cg"} if solver == "multinomial-newton" else None)
    with_copy, _ = problem_of((60, 20))
    found = minimize(with_copy, method=method, tol=1e-10)
    assert has_copy(with_copy)
    monkeypatch.setattr(sparse_outputs, "FEW_OUTPUTS", 1)
    without, _ = problem_of((60, 20))
    expected = minimize(without, method=method, tol=1e-10)
    assert not has_copy(without)
    np.testing.assert_array_equal(found.x, expected.x)
    assert found.n_passes == expected.n_passes
