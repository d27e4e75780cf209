"""Sums over dense rows for several outputs, in blocks and on threads, against their formulas."""

from typing import NamedTuple

import numpy as np
import pytest

from finitesum import Problem
from finitesum.core import threads
from finitesum.core.threads import blas_threads, limited_blas
from finitesum.evaluation import dense_outputs, outputs
from finitesum.evaluation.dense_outputs import sums_of_dense_rows

#: Rows, columns and outputs.
N, D, K = 103, 7, 3


def classes(*, fit_intercept=True, dtype=np.float64, **more):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N, D)).astype(dtype), rng.integers(0, K, N)
    return Problem.linear(X, y, loss="multinomial", alpha=0.1, fit_intercept=fit_intercept, **more)


def table_of(problem):
    """Return the rows with a column of ones where there is an intercept."""
    X = problem.rows.values.astype(np.float64)
    return np.column_stack([X, np.ones((N, int(problem.has_intercept)))])


@pytest.fixture(params=["one block", "blocks", "products of few rows", "threads"])
def blocks(request, monkeypatch):
    """Make blocks and products as small as those of large data, on two threads."""
    if request.param == "blocks":
        monkeypatch.setattr(dense_outputs, "IN_CACHE", 20 * D)
        monkeypatch.setattr(dense_outputs, "LEAST_ROWS", 1)
        monkeypatch.setattr(dense_outputs, "SMALL", 0)  # products of all rows of a block
    if request.param in ("products of few rows", "threads"):
        monkeypatch.setattr(dense_outputs, "IN_CACHE", 40 * D)
        monkeypatch.setattr(dense_outputs, "LEAST_ROWS", 1)
        monkeypatch.setattr(dense_outputs, "AT_ONCE", 9 * D)
    if request.param == "threads":
        monkeypatch.setattr(dense_outputs, "NUMBERS_OF_A_THREAD", 10)
        monkeypatch.setattr(dense_outputs, "blas_threads", lambda: 2)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sums_are_those_of_the_formulas(blocks, fit_intercept):
    problem, seen = classes(fit_intercept=fit_intercept), np.zeros(N)
    w = np.random.default_rng(1).standard_normal(problem.dim)
    numbers = np.random.default_rng(2).standard_normal((K, N))

    def function(here, scores):
        seen[here] += 1
        total = float(scores.sum())
        return total, numbers[:, here] * scores

    total, sums = sums_of_dense_rows(problem, w, np.float64, function)
    table = table_of(problem)
    scores = w.reshape(K, -1) @ table.T
    assert (seen == 1).all()
    assert total == pytest.approx(scores.sum())
    np.testing.assert_allclose(sums, (numbers * scores) @ table, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_the_hessian_are_those_of_its_matrix(blocks, dtype):
    weights = np.random.default_rng(3).integers(0, 3, N).astype(float)
    problem = classes(dtype=dtype, sample_weight=weights, offset=np.random.default_rng(4).standard_normal((N, K)))
    w, v = np.random.default_rng(5).standard_normal((2, problem.dim))
    curvatures = outputs.curvatures_by_row(problem, outputs.scores_at(problem, w))
    matrix = outputs.full_hessian(problem, curvatures)
    np.testing.assert_allclose(outputs.hessian_product(problem, curvatures, v), matrix @ v, rtol=1e-11, atol=1e-12)


def test_rows_of_weight_0_count_for_nothing_where_they_overflow(blocks):
    X = np.random.default_rng(0).standard_normal((N, D))
    X[5] = 1e200
    weights = np.ones(N)
    weights[5] = 0.0
    y = np.random.default_rng(1).integers(0, K, N)
    problem = Problem.linear(X, y, loss="multinomial", alpha=0.1, sample_weight=weights)
    without = Problem.linear(np.delete(X, 5, axis=0), np.delete(y, 5), loss="multinomial", alpha=0.1)
    w = 1e200 * np.random.default_rng(2).standard_normal(problem.dim)
    w[: 2 * D] /= 1e200
    value, gradient = outputs.measure(problem, w)
    expected = outputs.measure(without, w)
    assert value == pytest.approx(expected[0])
    np.testing.assert_allclose(gradient, expected[1])


def test_sums_have_the_same_bits_on_any_number_of_threads(monkeypatch):
    problem, found = classes(), []
    monkeypatch.setattr(dense_outputs, "NUMBERS_OF_A_THREAD", 100)
    w = np.random.default_rng(1).standard_normal(problem.dim)
    for n_threads in (1, 2, 3, 50):
        monkeypatch.setattr(dense_outputs, "blas_threads", lambda n=n_threads: n)
        found.append(outputs.measure(problem, w))
    assert all(value == found[0][0] and (gradient == found[0][1]).all() for value, gradient in found[1:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("squares", [1, 200, 10**6])
def test_sums_of_squares_are_the_same_in_any_blocks(squares, dtype, monkeypatch):
    monkeypatch.setattr(outputs, "SQUARES", squares)
    problem, scales = classes(dtype=dtype), np.random.default_rng(1).standard_normal((N, K))
    expected = scales.T @ table_of(problem) ** 2
    np.testing.assert_allclose(outputs.sum_of_rows(problem, scales, squared=True), expected, rtol=1e-12, atol=1e-13)


def test_blas_threads_are_the_most_that_a_library_says_it_has(monkeypatch):
    class Library(NamedTuple):
        num_threads: int | None

    class Controller(NamedTuple):
        lib_controllers: list[Library]

    for counts, expected in (((3, 2), 3), ((None, 2), 2), ((None,), 1), ((), 1)):
        found = Controller([Library(count) for count in counts])
        monkeypatch.setattr(threads, "_blas_libraries", lambda found=found: found)
        assert blas_threads() == expected


def test_blas_has_the_threads_that_it_is_limited_to():
    with limited_blas(1):
        assert blas_threads() == 1
