"""Columns kept as rows, times a number for each entry's row: what models of many rows in some columns are made of."""

import itertools
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Data, Matrix, Vector
from finitesum.core.jit import MOST_NUMBERS, array_form, kernel, reassociated_part
from finitesum.problems.rows import CSRRows, DenseRows, products, squares_of, to_matrix

#: Numbers of columns with their zeros up to which they are read so, without a kernel, as measured.
MOST_WITH_ZEROS = 3e6

#: Numbers that count for a sparse column, as measured: with 5,000 of them models in arrays take a third of the time of
#: compiling.
OF_SPARSE = 200.0

#: A curvature less than this part of the column's square is rounding errors of what the intercept leaves.
HIDDEN = 1e-13


def n_counted(values: Data) -> float:
    """Return the numbers of a matrix, less because long columns take as long by NumPy as by machine code."""
    return float(values.size) * MOST_NUMBERS / MOST_WITH_ZEROS


@reassociated_part
def _scale_dense(values: Data, roots: Vector, out: Matrix, j: int) -> tuple[float, float]:
    square = total = 0.0
    for i in range(np.uint64(roots.size)):
        entry = values[j, i] * roots[i]
        out[j, i] = entry
        square += entry * entry
        total += entry * roots[i]
    return square, total


@kernel
def _scale_dense_columns(values: Data, roots: Vector, out: Matrix, sums: Matrix) -> None:
    for j in range(values.shape[0]):
        sums[0, j], sums[1, j] = _scale_dense(values, roots, out, j)


@kernel
def _scale_sparse_columns(columns: CSRRows, roots: Vector, out: Vector, sums: Matrix) -> None:
    for j in range(columns.n_rows):
        square = total = 0.0
        for k in range(np.uint64(columns.starts[j]), np.uint64(columns.starts[j + 1])):
            root = roots[np.uint64(columns.columns[k])]
            entry = columns.values[k] * root
            out[k] = entry
            square += entry * entry
            total += entry * root
        sums[0, j], sums[1, j] = square, total


@array_form(_scale_dense_columns, lambda values, *_: n_counted(values), stands_in=True)
def _scale_dense_in_arrays(values: Data, roots: Vector, out: Matrix, sums: Matrix) -> None:
    np.multiply(values, roots, out=out)
    sums[0], sums[1] = np.einsum("ij,ij->i", out, out), out @ roots


@array_form(_scale_sparse_columns, lambda columns, *_: float(columns.values.size), stands_in=True)
def _scale_sparse_in_arrays(columns: CSRRows, roots: Vector, out: Vector, sums: Matrix) -> None:
    np.multiply(columns.values, roots[columns.columns], out=out)
    scaled_columns = columns._replace(values=out)
    sums[0], sums[1] = squares_of(scaled_columns), products(scaled_columns, roots)


class ScaledColumns(NamedTuple):
    """Columns as rows, times the roots of the rows' curvatures."""

    columns: DenseRows | CSRRows
    squares: Vector  # their squared norms
    means: Vector  # their products with the roots


def scaled(columns: DenseRows | CSRRows, roots: Vector) -> ScaledColumns:
    """Return columns as rows, times a number for each entry's row: by one read of them."""
    out, sums = np.empty_like(columns.values), np.empty((2, columns.n_rows))
    if isinstance(columns, DenseRows):
        _scale_dense_columns(columns.values, roots, out, sums)
    else:
        _scale_sparse_columns(columns, roots, out, sums)
    return ScaledColumns(columns._replace(values=out), *sums)


def without_intercept(squares: Vector, means: Vector, total: float) -> Vector:
    """Return the curvatures of coordinates that an intercept follows: 0 where only rounding errors are left."""
    if not total > 0.0:
        return squares
    rest = squares - means * means / total
    return np.where(rest > HIDDEN * squares, rest, 0.0)


def n_numbers(columns: DenseRows | CSRRows, *_others: Any) -> float:
    """Return the numbers of columns; of sparse ones at least what their calls cost."""
    if isinstance(columns, DenseRows):
        return n_counted(columns.values)
    return max(float(columns.values.size), columns.n_rows * OF_SPARSE)


def _n_with_zeros(columns: CSRRows) -> float:
    return float(columns.n_rows) * columns.n_columns


def entries_of(columns: DenseRows | CSRRows) -> list[tuple[Any, Vector]]:
    """Return the places in r and the values of each column: of few sparse ones with their zeros, and without places."""
    if isinstance(columns, DenseRows):
        return [(None, row) for row in columns.values]
    if _n_with_zeros(columns) <= MOST_WITH_ZEROS:
        return [(None, row) for row in to_matrix(columns).toarray()]
    ends = itertools.pairwise(columns.starts.tolist())
    return [(columns.columns[first:last], columns.values[first:last]) for first, last in ends]
