"""What users give, checked once: rows of any table or sparse matrix of numbers, targets, labels, offsets and weights."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from finitesum.core.arrays import Data, Vector
from finitesum.core.in_memory import require_in_memory
from finitesum.core.indices import have_increasing_indices, require_indices
from finitesum.core.mapped import as_writable
from finitesum.losses import Loss, Squared, SquaredTargets
from finitesum.problems.labels import labels_and_codes, require_classes
from finitesum.problems.rows import CSRRows, DenseRows

#: The fraction of entries from which an array is better than CSR rows, and bytes up to which it may be the larger one.
DENSE, MOST_COPIED = 0.4, 2**26


def _floating(values: Any) -> Data:
    array = np.asarray(values)
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, got {array.dtype}. Encode text and objects first.")
    return array.astype(np.float64)


def _table(X: Any) -> Data:
    """Return a dense input as an array of two axes."""
    require_in_memory(X, "X")
    if np.ma.is_masked(X):
        raise ValueError("X must not have masked entries. Impute or drop them first.")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"X must be a table whose rows have the same length: {error}.") from error
    return array


def _first_not_finite(values: Data) -> int | None:
    """Return the position, in the order of the memory, of the first entry that is NaN or infinite."""
    # The sum of squares is finite unless an entry is not (or it overflows): one pass without a temporary, in a third of the
    # time of a plain sum. The exact check comes after.
    flat = values.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(flat @ flat):
            return None
    bad = np.flatnonzero(~np.isfinite(values))
    return int(bad[0]) if bad.size else None


def _refuse_entry(value: float, i: int, j: int) -> None:
    raise ValueError(f"X must be finite, got {value} in row {i}, column {j} (from 0). Impute or drop such entries first.")


def in_order(matrix: Any) -> Any:
    """Return a CSR matrix whose indices increase in each row: itself, or a copy in which duplicates are summed."""
    if have_increasing_indices(matrix):
        return matrix
    n_stored = int(matrix.indptr[-1])  # the arrays may be longer
    parts = matrix.data[:n_stored], matrix.indices[:n_stored], matrix.indptr
    found = scipy.sparse.csr_array(parts, shape=matrix.shape, copy=True)
    found.sum_duplicates()
    return found


def _csr_rows(matrix: Any, intercept: int, *, is_checked: bool) -> CSRRows:
    if not is_checked:
        require_indices(matrix)
        if matrix.format != "csr":
            matrix = matrix.tocsr()
            require_indices(matrix)  # of some formats they are known only now
        matrix = in_order(matrix)
    n_rows, n_columns = matrix.shape
    n_stored = int(matrix.indptr[-1])
    values, columns, starts = matrix.data[:n_stored], matrix.indices[:n_stored], matrix.indptr
    values = _floating(values)
    fits = max(n_columns, n_stored) <= np.iinfo(np.int32).max
    width = np.int32 if fits else np.int64
    columns = np.ascontiguousarray(columns.astype(width, copy=False))
    starts = np.ascontiguousarray(starts.astype(width, copy=False))
    if not is_checked and (k := _first_not_finite(values)) is not None:
        _refuse_entry(values[k], int(np.searchsorted(starts, k, side="right")) - 1, int(columns[k]))
    values, columns, starts = map(as_writable, (values, columns, starts))
    return CSRRows(values, columns, starts, int(n_rows), int(n_columns), intercept)


def as_rows(
    X: Any, *, intercept: bool = False, is_checked: bool = False, may_be_empty: bool = False
) -> DenseRows | CSRRows:
    """Return the rows of a matrix as kernels see them, without a copy where the memory fits, or raise what is wrong.

    float32 and float64 are kept; other numbers become float64. Sparse input becomes CSR with indices narrowed to int32
    where they fit; duplicates are summed. An intercept is a column of ones behind the last one, which is not stored.
    What is known to be finite, in CSR with indices that fit and increase in each row, is not looked at again. There must
    be a row, unless the rows may be empty, and a column.
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
    if (shape[0] == 0 and not may_be_empty) or (shape[0] > 0 and shape[1] + ones == 0):
        raise ValueError(f"X must have at least one row and one column, got shape {shape}.")
    if scipy.sparse.issparse(table):
        return _csr_rows(table, ones, is_checked=is_checked)
    values = np.ascontiguousarray(_floating(table))
    if not is_checked and (k := _first_not_finite(values)) is not None:
        i, j = divmod(k, shape[1])
        _refuse_entry(values[i, j], i, j)
    return DenseRows(as_writable(values), int(shape[0]), int(shape[1]), ones)


def stored_well(X: Any) -> Any:
    """Return X, but a CSR matrix whose whole rows are read in less time as a C-ordered array of its dtype.

    That is from two entries in five on, as measured with Newton's methods, where rows outnumber columns. A copy that is
    larger than the entries with their columns is made up to 64 MB.
    """
    if not scipy.sparse.issparse(X) or X.format != "csr" or X.shape[0] < X.shape[1]:
        return X
    size, n_stored = X.shape[0] * X.shape[1], int(X.indptr[-1])
    fits = size * X.dtype.itemsize <= max(n_stored * (X.dtype.itemsize + X.indices.itemsize), MOST_COPIED)
    return X.toarray(order="C") if n_stored >= DENSE * size and fits else X


def checked_numbers(values: Any, shape: tuple[int, ...], name: str) -> Any:
    """Return the values as a float64 array of this shape, of our own, or raise what is wrong with them."""
    given = _as_array(values, name)
    if given.dtype.kind not in "biufOUS":
        raise ValueError(f"{name} must hold numbers, got {given.dtype}.")
    try:
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}.") from error
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to match the rows of X, got {array.shape}.")
    if not np.isfinite(array).all():
        position = np.argwhere(~np.isfinite(array))[0]
        where = f"position {position[0]}" if array.ndim == 1 else f"row {position[0]}, column {position[1]}"
        raise ValueError(f"{name} must be finite, got {array[tuple(position)]} at {where}. Impute or drop such rows first.")
    return array


def _as_array(values: Any, name: str) -> Any:
    require_in_memory(values, name)
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not have masked entries. Drop those rows first.")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a vector: {error}.") from error


def weights_of_rows(values: Any, n: int, name: str) -> Vector:
    """Return numbers s_i >= 0 for the rows, or raise what is wrong with them."""
    weights: Vector = checked_numbers(values, (n,), name)
    if (weights < 0.0).any():
        i = int(np.flatnonzero(weights < 0.0)[0])
        raise ValueError(f"{name} must be >= 0, got {weights[i]} at position {i}. Weight 0 leaves a row out.")
    return weights


def checked_weights(sample_weight: Any, n: int) -> Vector:
    """Return the sample weights, scaled so that they sum to 1, or raise what is wrong with them."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weights = weights_of_rows(sample_weight, n, "sample_weight")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if total == 0.0:
        raise ValueError("sample_weight must have a positive sum, got zeros only. Leave it out for equal weights.")
    if total == math.inf:
        raise ValueError("sample_weight must have a finite sum, got one beyond 1.8e308. Scale the weights down.")
    return np.asarray(weights / total)


#: What targets of a kind must be, in words and as a test.
RANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "count": (">= 0", lambda y: y >= 0.0),
    "positive": ("> 0", lambda y: y > 0.0),
    "share": (">= 0 and <= 1", lambda y: (y >= 0.0) & (y <= 1.0)),
}


class Targets(NamedTuple):
    """What a loss compares predictions with."""

    loss: Loss
    values: Any  # (n,): numbers, -1 and +1, or codes 0 to K - 1 of classes; (n, K) of several targets
    classes: Any  # the labels behind signs and codes, None where targets are numbers
    n_outputs: int  # predictions a row


def checked_targets(y: Any, n: int, loss: Loss, weights: Vector) -> Targets:
    """Return the targets, and the loss in the form that they ask for, or raise what is wrong with them."""
    if is_of_labels(loss):
        classes, codes = checked_labels(y, n, loss)
        require_classes(classes, np.bincount(codes, weights=weights, minlength=classes.size), loss)
        if loss.target_kind() == "sign":
            return Targets(loss, np.where(codes == 1, 1.0, -1.0), classes, 1)
        return Targets(loss, codes.astype(np.int64), classes, classes.size)
    values = checked_values(y, n, loss)
    if values.ndim == 2:
        return Targets(SquaredTargets(loss.scale), values, None, values.shape[1])  # type: ignore[attr-defined]
    return Targets(Squared(loss.scale) if isinstance(loss, SquaredTargets) else loss, values, None, 1)


def is_of_labels(loss: Loss) -> bool:
    """Return whether a loss compares predictions with labels, not with numbers."""
    return loss.target_kind() in ("sign", "class")


def _vector(y: Any, n: int, loss: Loss) -> Any:
    """Return y as an array of shape (n,)."""
    labels = _as_array(y, "y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        more = f" Several targets need loss='squared', got {type(loss).__name__}." if labels.ndim == 2 else ""
        raise ValueError(f"y must have shape ({n},) to match the rows of X, got {labels.shape}.{more}")
    return labels


def checked_labels(y: Any, n: int, loss: Loss) -> tuple[Any, Any]:
    """Return the labels that there are, in increasing order, and the place of each row's among them."""
    return labels_and_codes(_vector(y, n, loss))


def checked_values(y: Any, n: int, loss: Loss) -> Any:
    """Return targets that are numbers, shape (n,), or (n, K) of the squared loss."""
    given = _as_array(y, "y")
    if given.ndim == 2 and given.shape[1] > 1 and isinstance(loss, Squared | SquaredTargets):
        return checked_numbers(given, (n, given.shape[1]), "y")
    values = checked_numbers(_vector(given, n, loss), (n,), "y")
    if loss.target_kind() in RANGES:
        words, is_within = RANGES[loss.target_kind()]
        if not (good := is_within(values)).all():
            i = int(np.flatnonzero(~good)[0])
            raise ValueError(f"y must be {words} for {type(loss).__name__}, got {values[i]} at position {i}.")
    return values
