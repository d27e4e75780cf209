"""Symmetric matrices kept as a lower triangle, in a layout that lets the processor stream them.

Rows are padded with zeros to a multiple of 4 and columns to a multiple of 32, on 64-byte boundaries: loops over four rows
at a time then run over whole vector registers, without remainders. That makes the product somewhat faster than BLAS
``dsymv``, and eight outer products at once cost little more than one.
"""

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import compiled_form, reassociated_part

ROWS, COLUMNS, ALIGNMENT = 4, 32, 64

#: The number of outer products that are added in one pass over the matrix.
RANK = 8

#: Rows whose mirror image is written at a time.
MIRRORED_ROWS = 64


def padded_size(dim: int) -> int:
    """Return the length of vectors that are multiplied with a matrix of size dim: dim rounded up to 32."""
    return -(-dim // COLUMNS) * COLUMNS


def aligned_zeros(n_rows: int, n_columns: int) -> Matrix:
    """Return a zero matrix that starts on a 64-byte boundary: vector loads across two cache lines cost twice."""
    memory = np.zeros(n_rows * n_columns + ALIGNMENT // 8)
    offset = (-memory.ctypes.data % ALIGNMENT) // 8
    return memory[offset : offset + n_rows * n_columns].reshape(n_rows, n_columns)


def allocate(dim: int) -> Matrix:
    """Return the zero matrix of size dim, shape (dim rounded up to 4, dim rounded up to 32)."""
    return aligned_zeros(-(-dim // ROWS) * ROWS, padded_size(dim))


def copy(matrix: Matrix, dim: int) -> Matrix:
    """Return a copy on the same boundaries."""
    result = allocate(dim)
    result[:] = matrix
    return result


def full(matrix: Matrix, dim: int) -> Matrix:
    """Return the plain symmetric matrix, shape (dim, dim)."""
    return mirrored(matrix[:dim, :dim])


def mirrored(matrix: Matrix) -> Matrix:
    """Return the symmetric matrix with this one's lower triangle."""
    dim, result = matrix.shape[0], np.empty_like(matrix)
    for k in range(0, dim, MIRRORED_ROWS):  # a transpose as a whole would not stay in the processor's caches
        end = min(k + MIRRORED_ROWS, dim)
        result[k:end, :k], result[:k, k:end] = matrix[k:end, :k], matrix[k:end, :k].T
        block = matrix[k:end, k:end]
        result[k:end, k:end] = np.where(np.tri(end - k, dtype=bool), block, block.T)
    return result


@reassociated_part
def _multiply_rows(matrix: Matrix, i: int, n_blocks: int, y: Vector, out: Vector) -> None:
    """Add to out what rows i..i+3 of the lower triangle and their mirror image contribute."""
    row0, row1, row2, row3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
    y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
    sum0 = sum1 = sum2 = sum3 = 0.0
    for j in range(8 * n_blocks):  # the upper triangle holds zeros
        a, b, c, d = row0[j], row1[j], row2[j], row3[j]
        factor = y[j]
        sum0 += a * factor
        sum1 += b * factor
        sum2 += c * factor
        sum3 += d * factor
        out[j] += (y0 * a + y1 * b) + (y2 * c + y3 * d)
    out[i] += sum0 - row0[i] * y0  # the diagonal was counted twice
    out[i + 1] += sum1 - row1[i + 1] * y1
    out[i + 2] += sum2 - row2[i + 2] * y2
    out[i + 3] += sum3 - row3[i + 3] * y3


def multiply(matrix: Matrix, y: Vector, out: Vector) -> None:
    """Write the product with y to out; both have the padded length, and y ends with zeros."""
    size = matrix.shape[0]
    lower, short = matrix[:, :size], y[:size]
    out[size:] = 0.0
    out[:size] = lower @ short + short @ lower - np.diagonal(lower) * short


@compiled_form(of=multiply)
def _multiply(matrix: Matrix, y: Vector, out: Vector) -> None:
    for j in range(out.size):
        out[j] = 0.0
    for i in range(0, matrix.shape[0], 4):
        _multiply_rows(matrix, i, (i + 4 + 7) // 8, y, out)


@reassociated_part
def _add_to_rows(matrix: Matrix, i: int, n_blocks: int, vectors: Matrix, weights: Vector) -> None:
    """Add the eight outer products to rows i and i + 1: as many sums as the registers hold."""
    row0 = matrix[i]
    row1 = matrix[i + 1]
    v0, v1, v2, v3 = vectors[0], vectors[1], vectors[2], vectors[3]
    v4, v5, v6, v7 = vectors[4], vectors[5], vectors[6], vectors[7]
    a0, a1, a2, a3 = weights[0] * v0[i], weights[1] * v1[i], weights[2] * v2[i], weights[3] * v3[i]
    a4, a5, a6, a7 = weights[4] * v4[i], weights[5] * v5[i], weights[6] * v6[i], weights[7] * v7[i]
    k = i + 1
    b0, b1, b2, b3 = weights[0] * v0[k], weights[1] * v1[k], weights[2] * v2[k], weights[3] * v3[k]
    b4, b5, b6, b7 = weights[4] * v4[k], weights[5] * v5[k], weights[6] * v6[k], weights[7] * v7[k]
    for j in range(8 * n_blocks):
        p0, p1, p2, p3 = v0[j], v1[j], v2[j], v3[j]
        p4, p5, p6, p7 = v4[j], v5[j], v6[j], v7[j]
        row0[j] += ((a0 * p0 + a1 * p1) + (a2 * p2 + a3 * p3)) + ((a4 * p4 + a5 * p5) + (a6 * p6 + a7 * p7))
        row1[j] += ((b0 * p0 + b1 * p1) + (b2 * p2 + b3 * p3)) + ((b4 * p4 + b5 * p5) + (b6 * p6 + b7 * p7))


def add_outer_products(matrix: Matrix, vectors: Matrix, weights: Vector) -> None:
    """Add the sum of weights[k] v_k v_k' over eight vectors of the padded length, shape (8, padded)."""
    size = matrix.shape[0]
    matrix[:, :size] += np.tril((vectors[:, :size].T * weights) @ vectors[:, :size])


@compiled_form(of=add_outer_products)
def _add_outer_products(matrix: Matrix, vectors: Matrix, weights: Vector) -> None:
    for i in range(0, matrix.shape[0], 2):
        n_blocks = (i + 2 + 7) // 8
        _add_to_rows(matrix, i, n_blocks, vectors, weights)
        for k in range(i, i + 2):  # only the lower triangle is kept
            for j in range(k + 1, 8 * n_blocks):
                matrix[k, j] = 0.0
