"""Plain arrays of numbers, for which scikit-learn's checks find nothing: recognised in microseconds.

What is not plain (tables with column names, lists, other types of numbers, NaN) goes through `validate_data`, which
converts it, or says what is wrong.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

#: What X may be: float32 is kept, CSR may have int64 indices.
X_CHECKS: Any = {"accept_sparse": "csr", "accept_large_sparse": True, "dtype": (np.float64, np.float32), "order": "C"}

#: Types of numbers that are kept.
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def is_plain_table(X: Any) -> bool:
    """Return whether X is a C-ordered array or CSR matrix of finite floats, with rows and columns."""
    return is_stored_plainly(X, ordered=True) and has_finite_entries(X)


def is_stored_plainly(X: Any, *, ordered: bool = False) -> bool:
    """Return whether X is an array, C-ordered where asked for, or a CSR matrix of floats, with rows and columns."""
    if type(X) in (csr_matrix, csr_array):
        values, is_well = X.data, X.ndim == 2 and X.indices.dtype == X.indptr.dtype and X.indices.dtype.kind == "i"
    else:
        values, is_well = X, type(X) is np.ndarray and X.ndim == 2 and (X.flags.c_contiguous or not ordered)
    return bool(is_well and values.dtype in FLOATS and 0 not in X.shape)


def has_finite_entries(X: Any) -> bool:
    """Return whether all entries of an array or a CSR matrix are finite, where their sum does not overflow."""
    return _is_finite(X if type(X) is np.ndarray else X.data[: int(X.indptr[-1])])


def frame_as_numbers(X: Any) -> Any:
    """Return a data frame as floats, as a fit in memory converts it; what is missing is NaN, and rows may be none."""
    from sklearn.utils.validation import check_array  # which takes a while to load

    return check_array(X, **X_CHECKS, ensure_all_finite=False, ensure_min_samples=0, ensure_min_features=0, input_name="X")


def is_plain_target(y: Any, n_rows: int) -> bool:
    """Return whether y is an array of n finite numbers."""
    return (
        type(y) is np.ndarray and y.shape == (n_rows,) and (y.dtype.kind in "biu" or (y.dtype in FLOATS and _is_finite(y)))
    )


def _is_finite(values: Any) -> bool:
    """Return whether all numbers are finite, where their sum does not overflow."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum(dtype=np.float64)))


def is_plain_label(y: Any, n_classes: int, *, are_words: bool = False) -> bool:
    """Return whether an array with this many classes holds words or whole numbers that repeat, as labels do."""
    if type(y) is not np.ndarray or y.ndim != 1 or n_classes > 0.5 * y.size:
        return False
    return are_words or y.dtype.kind in "biuU" or (y.dtype in FLOATS and bool((y == np.floor(y)).all()))
