"""The padded triangle: its layout, and its products against NumPy's."""

import numpy as np
import pytest

from finitesum.core import symmetric
from finitesum.core.jit import kernel
from finitesum.core.symmetric import RANK, add_outer_products, multiply

DIMS = [1, 2, 3, 4, 5, 31, 32, 33, 64, 70]


@kernel
def _multiply(matrix, y, out):
    multiply(matrix, y, out)


@kernel
def _add_outer_products(matrix, vectors, weights):
    add_outer_products(matrix, vectors, weights)


def random_triangle(dim, seed=0):
    """A padded triangle and the symmetric matrix that it stands for."""
    square = np.random.default_rng(seed).standard_normal((dim, dim))
    whole = square + square.T
    padded = symmetric.allocate(dim)
    padded[:dim, :dim] = np.tril(whole)
    return padded, whole


def padded_vector(dim, seed=1):
    vector = np.zeros(symmetric.padded_size(dim))
    vector[:dim] = np.random.default_rng(seed).standard_normal(dim)
    return vector


@pytest.mark.parametrize("dim", DIMS)
def test_the_layout_is_padded_and_aligned(dim):
    for _ in range(5):
        matrix = symmetric.allocate(dim)
        rows, columns = matrix.shape
        assert (rows % 4, columns % 32) == (0, 0)
        assert dim <= rows < dim + 4
        assert dim <= columns < dim + 32
        assert columns == symmetric.padded_size(dim)
        assert matrix.ctypes.data % 64 == 0
        assert matrix.flags.c_contiguous
        assert not matrix.any()


@pytest.mark.parametrize("dim", DIMS)
def test_a_copy_has_the_same_numbers_on_the_same_boundaries(dim):
    matrix, _ = random_triangle(dim)
    unaligned = np.zeros(matrix.size + 1)[1:].reshape(matrix.shape)
    unaligned[:] = matrix
    copy = symmetric.copy(unaligned, dim)
    np.testing.assert_array_equal(copy, matrix)
    assert copy.ctypes.data % 64 == 0
    assert not np.shares_memory(copy, unaligned)


@pytest.mark.parametrize("dim", DIMS)
def test_full_is_the_symmetric_matrix(dim):
    matrix, whole = random_triangle(dim)
    np.testing.assert_array_equal(symmetric.full(matrix, dim), whole)


@pytest.mark.parametrize("dim", DIMS)
def test_the_product_is_that_of_the_symmetric_matrix(dim):
    matrix, whole = random_triangle(dim)
    y, out = padded_vector(dim), np.full(symmetric.padded_size(dim), 9.0)  # what was in out does not count
    _multiply(matrix, y, out)
    np.testing.assert_allclose(out[:dim], whole @ y[:dim], rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(out[dim:], 0.0)


@pytest.mark.parametrize("dim", DIMS)
def test_outer_products_are_added_and_the_upper_triangle_stays_zero(dim):
    matrix, whole = random_triangle(dim)
    vectors = np.array([padded_vector(dim, seed) for seed in range(RANK)])
    weights = np.linspace(-1.0, 2.0, RANK)
    _add_outer_products(matrix, vectors, weights)
    expected = whole + (vectors[:, :dim].T * weights) @ vectors[:, :dim]
    np.testing.assert_allclose(symmetric.full(matrix, dim), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(np.triu(matrix, 1), 0.0)
    np.testing.assert_array_equal(matrix[dim:], 0.0)


def test_weights_of_zero_add_nothing_to_the_last_bit():
    matrix, _ = random_triangle(33)
    before = matrix.copy()
    _add_outer_products(matrix, np.array([padded_vector(33, seed) for seed in range(RANK)]), np.zeros(RANK))
    np.testing.assert_array_equal(matrix, before)
