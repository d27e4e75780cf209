"""Gram matrices with one scale for all rows, which are products of the rows as they lie in memory."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from finitesum import Problem
from finitesum.evaluation import whole_arrays
from finitesum.evaluation.hessian import add_gram, gram
from finitesum.problems.rows import DenseRows


def problem_of(n, d, dtype=np.float64, order="C", has_intercept=True):
    X = np.random.default_rng(0).standard_normal((n, d)).astype(dtype, order=order)
    return Problem.linear(X, np.arange(n) % 2, alpha=0.1, fit_intercept=has_intercept)


def rows_of(problem):
    X = np.asarray(problem.rows.values, dtype=np.float64)
    return np.column_stack([X, np.ones(len(X))]) if problem.has_intercept else X


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("shape", [(50, 4), (20, 40), (3000, 60)])
@pytest.mark.parametrize("kind", [{}, {"dtype": np.float32}, {"order": "F"}])
def test_they_are_sums_of_products(shape, every, kind, has_intercept):
    problem = problem_of(*shape, **kind, has_intercept=has_intercept)
    rows = rows_of(problem)[::every]
    for scales in (np.full(shape[0], 0.25), np.linspace(0.1, 0.4, shape[0])):
        expected = (scales[::every, None] * rows).T @ rows
        np.testing.assert_allclose(gram(problem, scales, every=every), expected, rtol=1e-10, atol=1e-9)
    assert np.isnan(gram(problem, np.full(shape[0], np.nan))).any()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("first", [0, 7])
def test_so_are_those_of_consecutive_rows_on_threads(sign, first):
    problem = problem_of(400_000, 12)
    picked = np.arange(first, problem.n_rows)
    for n_threads in (1, 2):
        sums = np.zeros((problem.dim, problem.dim))
        add_gram(problem, picked, np.full(picked.size, 0.5 * sign), sums, n_threads=n_threads)
        rows = rows_of(problem)[picked]
        np.testing.assert_allclose(np.tril(sums), np.tril(0.5 * sign * rows.T @ rows), rtol=1e-9, atol=1e-6)


def test_sums_of_columns_in_single_precision_keep_its_digits():
    values = (5.0 + 0.1 * np.random.default_rng(0).random((1_000_000, 2))).astype(np.float32)
    found = whole_arrays.product_of_equals(values, 1.0 / len(values), 1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[2, :2], values.mean(axis=0, dtype=np.float64), rtol=2e-7)


def test_zeros_are_filled_in_up_to_a_size(monkeypatch):
    X = np.where(np.random.default_rng(0).random((40, 10)) < 0.4, 1.0, 0.0)
    problem = Problem.linear(csr_array(X), np.arange(40) % 2, alpha=0.1)
    assert isinstance(whole_arrays.with_zeros(problem).rows, DenseRows)
    monkeypatch.setattr(whole_arrays, "MOST_BYTES", 8 * X.size - 1)
    assert whole_arrays.with_zeros(problem) is problem
