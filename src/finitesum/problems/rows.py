"""Rows of data as kernels see them: dense or CSR, with an intercept column that is never stored.

This is the only module that knows how a matrix lies in memory. Everything else asks a row for what it can do:
``dot``, ``add_to``, ``gram_add``. The values stay float32 where they were given so; sums run in float64.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse._sparsetools import csc_matvec, csr_matvec, csr_row_index

from finitesum.core.arrays import Data, Indices, Matrix, Vector
from finitesum.core.jit import array_form, compilable, kernel, kernel_part, reassociated_part

#: All rows.
EVERY = slice(None)

#: Numbers of double precision that are made of others at a time.
N_AT_A_TIME = 1 << 16


@reassociated_part
def _dense_dot(values: Data, i: int, n_columns: int, w: Vector) -> float:
    total = 0.0
    for j in range(n_columns):
        total += values[i, j] * w[j]
    return total


@reassociated_part
def _dense_square(values: Data, i: int, n_columns: int) -> float:
    total = 0.0
    for j in range(n_columns):
        value = np.float64(values[i, j])  # in kernels float() would leave a float32 one
        total += value * value
    return total


@compilable
class DenseRows(NamedTuple):
    """Rows of a C-order matrix; with ``intercept`` 1 a column of ones stands behind the last column."""

    values: Data  # (n, d)
    n_rows: int
    n_columns: int  # d, without the intercept
    intercept: int  # 0 or 1

    def dim(self) -> int:
        """Return the length of an iterate: the columns and the intercept."""
        return self.n_columns + self.intercept

    def is_sparse(self) -> bool:
        """Return whether a row touches only some coordinates."""
        return False

    def n_stored(self, i: int) -> int:
        """Return the number of stored entries of row i, without the intercept."""
        return self.n_columns

    def first(self, i: int) -> int:
        """Return the position of row i's first stored entry, for `column` and `entry`."""
        return 0

    def column(self, i: int, k: int) -> int:
        """Return the column of the stored entry at position k of row i."""
        return k

    def entry(self, i: int, k: int) -> float:
        """Return the value of the stored entry at position k of row i."""
        return np.float64(self.values[i, k])

    def dot(self, i: int, w: Vector) -> float:
        """Return x_i'w, the intercept's coordinate included."""
        total = _dense_dot(self.values, i, self.n_columns, w)
        if self.intercept:
            total += w[self.n_columns]
        return total

    def add_to(self, i: int, scale: float, out: Vector) -> None:
        """Add scale x_i to out."""
        for j in range(self.n_columns):
            out[j] += scale * self.values[i, j]
        if self.intercept:
            out[self.n_columns] += scale

    def add_squares_to(self, i: int, scale: float, out: Vector) -> None:
        """Add scale times the squares of x_i to out."""
        for j in range(self.n_columns):
            out[j] += scale * self.values[i, j] * self.values[i, j]
        if self.intercept:
            out[self.n_columns] += scale

    def copy_to(self, i: int, out: Vector) -> None:
        """Write x_i to the head of out."""
        for j in range(self.n_columns):
            out[j] = self.values[i, j]
        if self.intercept:
            out[self.n_columns] = 1.0

    def gram_add(self, i: int, scale: float, out: Matrix) -> None:
        """Add scale x_i x_i' to the lower triangle of out."""
        for j in range(self.n_columns):
            factor = scale * self.values[i, j]
            if factor != 0.0:
                for k in range(j + 1):
                    out[j, k] += factor * self.values[i, k]
        if self.intercept:
            for k in range(self.n_columns):
                out[self.n_columns, k] += scale * self.values[i, k]
            out[self.n_columns, self.n_columns] += scale

    def squared_norm(self, i: int) -> float:
        """Return ||x_i||^2, the intercept included."""
        return self.intercept + _dense_square(self.values, i, self.n_columns)


@kernel_part
def _sparse_dot(values: Data, columns: Any, start: Any, stop: Any, w: Vector) -> float:
    # unsigned: no index is checked for counting from the end
    one, k, end = np.uint64(1), np.uint64(start), np.uint64(stop)
    even = odd = 0.0  # an addition waits for the one before: with two sums, half as long
    while k + one < end:
        even += values[k] * w[np.uint64(columns[k])]
        odd += values[k + one] * w[np.uint64(columns[k + one])]
        k += one + one
    if k < end:
        even += values[k] * w[np.uint64(columns[k])]
    return even + odd


@kernel_part
def _add_sparse(values: Data, columns: Any, start: Any, stop: Any, scale: float, out: Vector) -> None:
    for k in range(np.uint64(start), np.uint64(stop)):
        out[np.uint64(columns[k])] += scale * values[k]


@kernel_part
def _add_sparse_squares(values: Data, columns: Any, start: Any, stop: Any, scale: float, out: Vector) -> None:
    for k in range(np.uint64(start), np.uint64(stop)):
        out[np.uint64(columns[k])] += scale * values[k] * values[k]


@kernel_part
def _add_sparse_gram(values: Data, columns: Any, start: Any, stop: Any, scale: float, out: Matrix) -> None:
    for k in range(start, stop):
        row = out[np.uint64(columns[k])]
        factor = scale * values[k]
        for j in range(start, k + np.uint64(1)):
            row[np.uint64(columns[j])] += factor * values[j]


@compilable
class CSRRows(NamedTuple):
    """Rows of a CSR matrix with int32 or int64 indices, each row's columns increasing and unique.

    The methods are those of `DenseRows`.
    """

    values: Data  # (nnz,)
    columns: Any  # (nnz,) int32 or int64
    starts: Any  # (n + 1,), of the same type
    n_rows: int
    n_columns: int
    intercept: int

    def dim(self) -> int:
        return self.n_columns + self.intercept

    def is_sparse(self) -> bool:
        return True

    def n_stored(self, i: int) -> int:
        return int(self.starts[i + 1] - self.starts[i])

    def first(self, i: int) -> int:
        return int(self.starts[i])

    def column(self, i: int, k: int) -> int:
        return int(self.columns[k])

    def entry(self, i: int, k: int) -> float:
        return np.float64(self.values[k])

    def dot(self, i: int, w: Vector) -> float:
        k = np.uint64(i)
        total = _sparse_dot(self.values, self.columns, self.starts[k], self.starts[k + np.uint64(1)], w)
        if self.intercept:
            total += w[self.n_columns]
        return total

    def add_to(self, i: int, scale: float, out: Vector) -> None:
        k = np.uint64(i)
        _add_sparse(self.values, self.columns, self.starts[k], self.starts[k + np.uint64(1)], scale, out)
        if self.intercept:
            out[self.n_columns] += scale

    def add_squares_to(self, i: int, scale: float, out: Vector) -> None:
        k = np.uint64(i)
        _add_sparse_squares(self.values, self.columns, self.starts[k], self.starts[k + np.uint64(1)], scale, out)
        if self.intercept:
            out[self.n_columns] += scale

    def copy_to(self, i: int, out: Vector) -> None:
        for j in range(self.n_columns):
            out[j] = 0.0
        for k in range(self.starts[i], self.starts[i + 1]):
            out[self.columns[k]] = self.values[k]
        if self.intercept:
            out[self.n_columns] = 1.0

    def gram_add(self, i: int, scale: float, out: Matrix) -> None:
        start, stop = np.uint64(self.starts[np.uint64(i)]), np.uint64(self.starts[np.uint64(i) + np.uint64(1)])
        _add_sparse_gram(self.values, self.columns, start, stop, scale, out)
        if self.intercept:
            row = out[self.n_columns]
            _add_sparse(self.values, self.columns, start, stop, scale, row)
            row[self.n_columns] += scale

    def squared_norm(self, i: int) -> float:
        total = float(self.intercept)
        for k in range(self.starts[i], self.starts[i + 1]):
            value = np.float64(self.values[k])
            total += value * value
        return total


def to_matrix(rows: DenseRows | CSRRows) -> Any:
    """Return the stored columns (without the intercept) as an ndarray or a CSR array; of all rows, over the same memory."""
    if isinstance(rows, DenseRows):
        return rows.values
    first, last = rows.starts[0], rows.starts[-1]  # of a block of the rows they are other entries than all
    parts = rows.values[first:last], rows.columns[first:last], rows.starts - first if first else rows.starts
    return scipy.sparse.csr_array(parts, shape=(rows.n_rows, rows.n_columns))


def some_rows(rows: DenseRows | CSRRows, chosen: Indices | slice) -> DenseRows | CSRRows:
    """Return the chosen rows, increasing; a copy, unless they are all."""
    if chosen is EVERY:
        return rows
    if isinstance(rows, DenseRows):
        values = rows.values[chosen]
        return rows._replace(values=values, n_rows=len(values))
    if isinstance(chosen, slice):
        chosen = np.arange(rows.n_rows)[chosen]
    places = chosen.astype(rows.starts.dtype, copy=False)
    starts = np.zeros(places.size + 1, dtype=rows.starts.dtype)
    np.cumsum(rows.starts[places + 1] - rows.starts[places], out=starts[1:])
    values, columns = np.empty(starts[-1], dtype=rows.values.dtype), np.empty(starts[-1], dtype=rows.columns.dtype)
    # what an index of SciPy's array comes to, without the checks of a new one
    csr_row_index(places.size, places, rows.starts, rows.columns, rows.values, columns, values)
    return CSRRows(values, columns, starts, places.size, rows.n_columns, rows.intercept)


def products(rows: DenseRows | CSRRows, w: Vector) -> Vector:
    """Return x_i'w of all rows, by NumPy or SciPy: what `dot` is to one row."""
    if isinstance(rows, DenseRows):
        found: Vector = rows.values @ w[: rows.n_columns]
        return found + w[rows.n_columns] if rows.intercept else found
    w = w.astype(np.float64, copy=False)
    found = np.full(rows.n_rows, w[rows.n_columns] if rows.intercept else 0.0)
    # what a product of SciPy's array comes to, without the checks of a new one
    csr_matvec(rows.n_rows, rows.n_columns, rows.starts, rows.columns, rows.values, w[: rows.n_columns], found)
    return found


def add_combination(rows: DenseRows | CSRRows, scales: Vector, out: Vector) -> None:
    """Add sum_i s_i x_i of all rows, by NumPy or SciPy: what `add_to` is to one row."""
    head = out[: rows.n_columns]
    if isinstance(rows, DenseRows):
        head += rows.values.T @ scales
    else:
        csc_matvec(rows.n_columns, rows.n_rows, rows.starts, rows.columns, rows.values, scales, head)
    if rows.intercept:
        out[rows.n_columns] += scales.sum()


def squared_parts(rows: DenseRows | CSRRows) -> Iterator[tuple[slice, DenseRows | CSRRows]]:
    """Yield the places of rows that follow each other, and rows of the squares of their entries, in float64.

    No more are made at a time than a cache holds: new memory for all would take several times as long as they do.
    """
    step = max(N_AT_A_TIME * rows.n_rows // max(n_entries(rows), 1), 1)
    for start in range(0, rows.n_rows, step):
        part = rows_between(rows, start, min(start + step, rows.n_rows))
        if isinstance(part, DenseRows):
            yield slice(start, start + step), part._replace(values=np.square(part.values, dtype=np.float64))
            continue
        first, last = part.starts[0], part.starts[-1]
        values = np.square(part.values[first:last], dtype=np.float64)
        yield (
            slice(start, start + step),
            part._replace(values=values, columns=part.columns[first:last], starts=part.starts - first),
        )


def rows_between(rows: DenseRows | CSRRows, start: int, stop: int) -> DenseRows | CSRRows:
    """Return consecutive rows, over the same memory."""
    if isinstance(rows, DenseRows):
        return rows._replace(values=rows.values[start:stop], n_rows=stop - start)
    return rows._replace(starts=rows.starts[start : stop + 1], n_rows=stop - start)


def stored_between(rows: DenseRows | CSRRows, start: int, stop: int) -> tuple[Any, ...]:
    """Return the arrays that hold consecutive rows, over the same memory."""
    if isinstance(rows, DenseRows):
        return (rows.values[start:stop],)
    entries = slice(int(rows.starts[start]), int(rows.starts[stop]))
    return rows.values[entries], rows.columns[entries]


@kernel
def _count_entries(rows: CSRRows, places: Any, counts: Any) -> None:
    for i in range(rows.n_rows):
        n = 0
        for k in range(np.uint64(rows.starts[i]), np.uint64(rows.starts[i + 1])):
            n += places[np.uint64(rows.columns[k])] >= 0
        counts[i + 1] = n


@array_form(_count_entries, lambda rows, *_: rows.values.size)
def _count_in_arrays(rows: CSRRows, places: Any, counts: Any) -> None:
    kept = np.concatenate([[0], np.cumsum(places[rows.columns] >= 0)])
    counts[1:] = kept[rows.starts[1:]] - kept[rows.starts[:-1]]


@kernel
def _copy_entries(rows: CSRRows, places: Any, columns: Any, values: Any) -> None:
    n = np.uint64(0)
    for k in range(np.uint64(rows.starts[0]), np.uint64(rows.starts[rows.n_rows])):
        place = places[np.uint64(rows.columns[k])]
        columns[n], values[n] = place, rows.values[k]  # the next one writes over what is not kept
        n += np.uint64(place >= 0)


@array_form(_copy_entries, lambda rows, *_: rows.values.size)
def _copy_in_arrays(rows: CSRRows, places: Any, columns: Any, values: Any) -> None:
    here = slice(rows.starts[0], rows.starts[-1])
    found = places[rows.columns[here]]
    kept = np.flatnonzero(found >= 0)
    columns[: kept.size], values[: kept.size] = found[kept], rows.values[here][kept]


def columns_of(rows: DenseRows | CSRRows, columns: Indices) -> DenseRows | CSRRows:
    """Return the rows with some of the columns only, which are given in increasing order; a copy."""
    if isinstance(rows, DenseRows):
        return rows._replace(values=np.ascontiguousarray(rows.values[:, columns]), n_columns=columns.size)
    places, starts = np.full(rows.n_columns, -1, dtype=rows.columns.dtype), np.zeros_like(rows.starts)
    places[columns] = np.arange(columns.size)
    _count_entries(rows, places, starts)
    np.cumsum(starts, out=starts)
    kept, values = np.empty(starts[-1] + 1, dtype=places.dtype), np.empty(starts[-1] + 1, dtype=rows.values.dtype)
    _copy_entries(rows, places, kept, values)
    return CSRRows(values[:-1], kept[:-1], starts, rows.n_rows, columns.size, rows.intercept)


#: Numbers of rows that are turned at a time: they stay in the cache.
N_TURNED = 1 << 15


def turned(rows: CSRRows) -> CSRRows:
    """Return the columns as rows, without an intercept's; a copy."""
    matrix = to_matrix(rows).tocsc()
    return CSRRows(matrix.data, matrix.indices, matrix.indptr, rows.n_columns, rows.n_rows, 0)


def copy_columns(rows: DenseRows, columns: Indices, out: Matrix) -> None:
    """Write columns as the rows of a matrix."""
    n_together = max(N_TURNED // max(columns.size, 1), 8)
    for first in range(0, rows.n_rows, n_together):
        some = slice(first, first + n_together)
        out[:, some] = rows.values[some].take(columns, axis=1).T


def squares_of(rows: DenseRows | CSRRows) -> Vector:
    """Return ||x_i||^2 of all rows in float64, without an intercept's 1."""
    if isinstance(rows, DenseRows):
        return np.asarray(np.einsum("ij,ij->i", rows.values, rows.values, dtype=np.float64))
    found, step = np.zeros(rows.n_rows), max(N_AT_A_TIME * rows.n_rows // max(n_entries(rows), 1), 1)
    for start in range(0, rows.n_rows, step):
        starts = rows.starts[start : start + step + 1]
        values = rows.values[starts[0] : starts[-1]].astype(np.float64, copy=False)
        places = np.arange(values.size, dtype=starts.dtype)  # each entry times itself
        csr_matvec(starts.size - 1, values.size, starts - starts[0], places, values, values, found[start : start + step])
    return found


def joined_rows(first: CSRRows, second: CSRRows) -> CSRRows:
    """Return the rows of both; a copy."""
    columns = np.concatenate([first.columns, second.columns])
    starts = np.concatenate([first.starts, first.starts[-1] + second.starts[1:]])
    values = np.concatenate([first.values, second.values])
    return CSRRows(values, columns, starts, first.n_rows + second.n_rows, first.n_columns, first.intercept)


def n_entries(rows: DenseRows | CSRRows) -> int:
    """Return the number of stored entries."""
    return int(rows.values.size)
