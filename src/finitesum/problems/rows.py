"""Rows of data as kernels see them: dense or CSR, with an intercept column that is never stored.

This is the only module that knows how a matrix lies in memory. Everything else asks a row for what it can do:
``dot``, ``add_to``, ``gram_add``. The values stay float32 where they were given so; sums run in float64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from finitesum.core.arrays import Data, Indices, Matrix, Vector
from finitesum.core.jit import compilable, kernel_part, reassociated_part


@reassociated_part
def _dense_dot(values: Data, i: int, n_columns: int, x: Vector) -> float:
    total = 0.0
    for j in range(n_columns):
        total += values[i, j] * x[j]
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

    def dot(self, i: int, x: Vector) -> float:
        """Return x_i'w, the intercept's coordinate included."""
        total = _dense_dot(self.values, i, self.n_columns, x)
        if self.intercept:
            total += x[self.n_columns]
        return total

    def add_to(self, i: int, scale: float, out: Vector) -> None:
        """Add scale x_i to out."""
        for j in range(self.n_columns):
            out[j] += scale * self.values[i, j]
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

    def add_grams(self, picked: Indices, scales: Vector, out: Matrix) -> None:
        """Add scale_k x_i x_i' to the lower triangle of out, for i = picked[k] one after the other."""
        for k in range(picked.size):
            self.gram_add(picked[k], scales[k], out)

    def squared_norm(self, i: int) -> float:
        """Return ||x_i||^2, the intercept included."""
        total = float(self.intercept)
        for j in range(self.n_columns):
            value = np.float64(self.values[i, j])  # in kernels float() would leave a float32 one
            total += value * value
        return total


@kernel_part
def _sparse_dot(values: Data, columns: Any, start: Any, stop: Any, x: Vector) -> float:
    # unsigned: no index is checked for counting from the end
    one, k, end = np.uint64(1), np.uint64(start), np.uint64(stop)
    even = odd = 0.0  # an addition waits for the one before: with two sums, half as long
    while k + one < end:
        even += values[k] * x[np.uint64(columns[k])]
        odd += values[k + one] * x[np.uint64(columns[k + one])]
        k += one + one
    if k < end:
        even += values[k] * x[np.uint64(columns[k])]
    return even + odd


@kernel_part
def _add_sparse(values: Data, columns: Any, start: Any, stop: Any, scale: float, out: Vector) -> None:
    for k in range(np.uint64(start), np.uint64(stop)):
        out[np.uint64(columns[k])] += scale * values[k]


@kernel_part
def _add_sparse_gram(values: Data, columns: Any, start: Any, stop: Any, scale: float, out: Matrix) -> None:
    for k in range(start, stop):
        row = out[np.uint64(columns[k])]
        factor = scale * values[k]
        for j in range(start, k + np.uint64(1)):
            row[np.uint64(columns[j])] += factor * values[j]


@kernel_part
def _add_sparse_grams(values: Data, columns: Any, starts: Any, picked: Indices, scales: Vector, out: Matrix) -> None:
    one = np.uint64(1)
    for position in range(picked.size):
        i, scale = np.uint64(picked[position]), scales[position]
        start, stop = np.uint64(starts[i]), np.uint64(starts[i + one])
        k = start
        while k < stop:
            row = out[np.uint64(columns[k])]
            factor = scale * values[k]
            for j in range(start, k + one):
                row[np.uint64(columns[j])] += factor * values[j]
            k += one


@compilable
class CSRRows(NamedTuple):
    """Rows of a CSR matrix with int32 or int64 indices, each row's columns increasing and unique."""

    values: Data  # (nnz,)
    columns: Any  # (nnz,) int32 or int64
    starts: Any  # (n + 1,), of the same type
    n_rows: int
    n_columns: int
    intercept: int

    def dim(self) -> int:
        """Return the length of an iterate: the columns and the intercept."""
        return self.n_columns + self.intercept

    def is_sparse(self) -> bool:
        """Return whether a row touches only some coordinates."""
        return True

    def n_stored(self, i: int) -> int:
        """Return the number of stored entries of row i, without the intercept."""
        return int(self.starts[i + 1] - self.starts[i])

    def first(self, i: int) -> int:
        """Return the position of row i's first stored entry, for `column` and `entry`."""
        return int(self.starts[i])

    def column(self, i: int, k: int) -> int:
        """Return the column of the stored entry at position k of row i."""
        return int(self.columns[k])

    def entry(self, i: int, k: int) -> float:
        """Return the value of the stored entry at position k of row i."""
        return np.float64(self.values[k])

    def dot(self, i: int, x: Vector) -> float:
        """Return x_i'w, the intercept's coordinate included."""
        k = np.uint64(i)
        total = _sparse_dot(self.values, self.columns, self.starts[k], self.starts[k + np.uint64(1)], x)
        if self.intercept:
            total += x[self.n_columns]
        return total

    def add_to(self, i: int, scale: float, out: Vector) -> None:
        """Add scale x_i to out."""
        k = np.uint64(i)
        _add_sparse(self.values, self.columns, self.starts[k], self.starts[k + np.uint64(1)], scale, out)
        if self.intercept:
            out[self.n_columns] += scale

    def copy_to(self, i: int, out: Vector) -> None:
        """Write x_i to the head of out."""
        for j in range(self.n_columns):
            out[j] = 0.0
        for k in range(self.starts[i], self.starts[i + 1]):
            out[self.columns[k]] = self.values[k]
        if self.intercept:
            out[self.n_columns] = 1.0

    def gram_add(self, i: int, scale: float, out: Matrix) -> None:
        """Add scale x_i x_i' to the lower triangle of out."""
        start, stop = np.uint64(self.starts[np.uint64(i)]), np.uint64(self.starts[np.uint64(i) + np.uint64(1)])
        _add_sparse_gram(self.values, self.columns, start, stop, scale, out)
        if self.intercept:
            row = out[self.n_columns]
            _add_sparse(self.values, self.columns, start, stop, scale, row)
            row[self.n_columns] += scale

    def add_grams(self, picked: Indices, scales: Vector, out: Matrix) -> None:
        """Add scale_k x_i x_i' to the lower triangle of out, for i = picked[k] one after the other."""
        _add_sparse_grams(self.values, self.columns, self.starts, picked, scales, out)
        if self.intercept:
            row = out[self.n_columns]
            for k in range(picked.size):
                self.add_to(picked[k], scales[k], row)

    def squared_norm(self, i: int) -> float:
        """Return ||x_i||^2, the intercept included."""
        total = float(self.intercept)
        for k in range(self.starts[i], self.starts[i + 1]):
            value = np.float64(self.values[k])
            total += value * value
        return total


class _Alias:
    """The memory of an array, offered as writable: kernels then need one signature, and they never write to data."""

    def __init__(self, array: Data) -> None:
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}
        self._keeps_alive = array


def _as_writable(array: Data) -> Data:
    return array if array.flags.writeable and type(array) is np.ndarray else np.asarray(_Alias(array))


def _floating(values: Any) -> Data:
    array = np.asarray(values)
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, got {array.dtype}. Encode text and objects first.")
    return array.astype(np.float64)


def _table(X: Any) -> Data:
    """Return a dense input as an array of two axes."""
    if np.ma.is_masked(X):
        raise ValueError("X must not have masked entries. Impute or drop them first.")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"X must be a table whose rows have the same length: {error}.") from error
    return array


def _first_not_finite(values: Data) -> int | None:
    """Return the position, in the order of the memory, of the first entry that is NaN or infinite."""
    # A sum is finite unless an entry is not (or it overflows): one pass without a temporary; the exact check comes after.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values, dtype=np.float64)):
            return None
    bad = np.flatnonzero(~np.isfinite(values))
    return int(bad[0]) if bad.size else None


def _refuse_entry(value: float, i: int, j: int) -> None:
    raise ValueError(
        f"X must be finite, got {value} in row {i}, column {j} (from 0). Impute or drop such entries first."
    )


def _require_csr(matrix: Any) -> None:
    """Raise unless all indices lie in the matrix: scipy takes them on trust, and kernels would read foreign memory."""
    starts, columns = matrix.indptr, matrix.indices
    if (starts[1:] < starts[:-1]).any():
        raise ValueError("X must have an indptr that does not decrease. Call X.check_format() to see what is wrong.")
    columns = columns[: matrix.nnz]
    if columns.size and not (columns.min() >= 0 and columns.max() < matrix.shape[1]):
        raise ValueError(
            f"X must have column indices from 0 to {matrix.shape[1] - 1}, got {columns.min()} to {columns.max()}."
        )


def _csr_rows(matrix: Any, intercept: int) -> CSRRows:
    matrix = matrix.tocsr()
    _require_csr(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    n_rows, n_columns = matrix.shape
    n_stored = int(matrix.nnz)  # the arrays may be longer
    values = _floating(matrix.data[:n_stored])
    fits = max(n_columns, n_stored) <= np.iinfo(np.int32).max
    width = np.int32 if fits else np.int64
    columns = np.ascontiguousarray(matrix.indices[:n_stored].astype(width, copy=False))
    starts = np.ascontiguousarray(matrix.indptr.astype(width, copy=False))
    if (k := _first_not_finite(values)) is not None:
        _refuse_entry(values[k], int(np.searchsorted(starts, k, side="right")) - 1, int(columns[k]))
    return CSRRows(
        _as_writable(values), _as_writable(columns), _as_writable(starts), int(n_rows), int(n_columns), intercept
    )


def as_rows(X: Any, *, intercept: bool = False) -> DenseRows | CSRRows:
    """Return the rows of a matrix as kernels see them, without a copy where the memory already fits.

    Parameters
    ----------
    X : array_like or scipy sparse, shape (n, d)
        float32 and float64 are kept; other numbers become float64. Sparse input becomes CSR with indices narrowed to
        int32 where they fit; duplicates are summed.
    intercept : bool
        Whether a column of ones stands behind the last column (it is not stored).

    Raises
    ------
    ValueError
        X has not two axes, is empty, holds no numbers, holds NaN or infinity, or has indices outside of its shape.

    Examples
    --------
    >>> rows = as_rows([[1.0, 2.0], [3.0, 4.0]], intercept=True)
    >>> rows.dim(), float(rows.dot(1, np.array([1.0, 1.0, 0.5])))
    (3, 7.5)
    """
    ones = int(bool(intercept))
    if isinstance(X, DenseRows | CSRRows):
        return X._replace(intercept=ones)
    table = X if scipy.sparse.issparse(X) else _table(X)
    shape = table.shape
    if len(shape) != 2:
        raise ValueError(
            f"X must have two axes (rows and columns), got shape {shape}. Use X.reshape(-1, 1) for one column."
        )
    if shape[0] == 0 or shape[1] + ones == 0:
        raise ValueError(f"X must have at least one row and one column, got shape {shape}.")
    if scipy.sparse.issparse(table):
        return _csr_rows(table, ones)
    values = np.ascontiguousarray(_floating(table))
    if (k := _first_not_finite(values)) is not None:
        i, j = divmod(k, shape[1])
        _refuse_entry(values[i, j], i, j)
    return DenseRows(_as_writable(values), int(shape[0]), int(shape[1]), ones)


def to_matrix(rows: DenseRows | CSRRows) -> Any:
    """Return the stored columns as an ndarray or a CSR array over the same memory (without the intercept)."""
    if isinstance(rows, DenseRows):
        return rows.values
    return scipy.sparse.csr_array((rows.values, rows.columns, rows.starts), shape=(rows.n_rows, rows.n_columns))


def rows_between(rows: DenseRows | CSRRows, start: int, stop: int) -> DenseRows | CSRRows:
    """Return consecutive rows, over the same memory.

    Examples
    --------
    >>> to_matrix(rows_between(as_rows([[1.0], [2.0], [3.0]]), 1, 3))
    array([[2.],
           [3.]])
    """
    if isinstance(rows, DenseRows):
        return rows._replace(values=rows.values[start:stop], n_rows=stop - start)
    return rows._replace(starts=rows.starts[start : stop + 1], n_rows=stop - start)


def columns_of(rows: DenseRows | CSRRows, columns: Indices) -> DenseRows | CSRRows:
    """Return the rows with some of the columns only, which are given in increasing order; a copy.

    Examples
    --------
    >>> to_matrix(columns_of(as_rows([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([0, 2])))
    array([[1., 3.],
           [4., 6.]])
    """
    chosen = to_matrix(rows)[:, columns]
    if isinstance(rows, DenseRows):
        return rows._replace(values=np.ascontiguousarray(chosen), n_columns=columns.size)
    width = rows.columns.dtype
    return CSRRows(
        chosen.data,
        chosen.indices.astype(width, copy=False),
        chosen.indptr.astype(width, copy=False),
        rows.n_rows,
        columns.size,
        rows.intercept,
    )


def n_entries(rows: DenseRows | CSRRows) -> int:
    """Return the number of stored entries."""
    return int(rows.values.size)
