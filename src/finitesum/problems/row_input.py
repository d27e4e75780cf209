"""Rows made of what users give: any table or sparse matrix of numbers, checked once."""

from typing import Any

import numpy as np
import scipy.sparse

from finitesum.core.arrays import Data
from finitesum.core.indices import require_indices
from finitesum.problems.rows import CSRRows, DenseRows


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


def _csr_rows(matrix: Any, intercept: int) -> CSRRows:
    increase = require_indices(matrix)
    if matrix.format != "csr":
        matrix = matrix.tocsr()
        increase = require_indices(matrix)  # of some formats they are known only now
    n_rows, n_columns = matrix.shape
    n_stored = int(matrix.indptr[-1])  # the arrays may be longer
    values, columns, starts = matrix.data[:n_stored], matrix.indices[:n_stored], matrix.indptr
    if not increase:
        matrix = scipy.sparse.csr_array((values, columns, starts), shape=matrix.shape, copy=True)
        matrix.sum_duplicates()
        values, columns, starts, n_stored = matrix.data, matrix.indices, matrix.indptr, int(matrix.nnz)
    values = _floating(values)
    fits = max(n_columns, n_stored) <= np.iinfo(np.int32).max
    width = np.int32 if fits else np.int64
    columns = np.ascontiguousarray(columns.astype(width, copy=False))
    starts = np.ascontiguousarray(starts.astype(width, copy=False))
    if (k := _first_not_finite(values)) is not None:
        _refuse_entry(values[k], int(np.searchsorted(starts, k, side="right")) - 1, int(columns[k]))
    return CSRRows(
        _as_writable(values), _as_writable(columns), _as_writable(starts), int(n_rows), int(n_columns), intercept
    )


def as_rows(X: Any, *, intercept: bool = False) -> DenseRows | CSRRows:
    """Return the rows of a matrix as kernels see them, without a copy where the memory fits, or raise what is wrong.

    float32 and float64 are kept; other numbers become float64. Sparse input becomes CSR with indices narrowed to int32
    where they fit; duplicates are summed. An intercept is a column of ones behind the last one, which is not stored.
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
