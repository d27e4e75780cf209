"""Checks of the indices of sparse matrices.

SciPy takes them on trust, and its compiled functions, like kernels, would read and write foreign memory.
"""

from typing import Any

import numpy as np


def require_indices(X: Any) -> None:
    """Raise a ValueError where the indices of a sparse matrix do not fit it; anything else passes."""
    if isinstance(X, np.ndarray):
        return
    from scipy.sparse import issparse

    if not issparse(X) or X.ndim != 2:
        return
    n_rows, n_columns = X.shape
    if X.format == "csr":
        require_compressed(X.indptr, X.indices, len(X.data), n_rows, n_columns)
    elif X.format == "csc":
        require_compressed(X.indptr, X.indices, len(X.data), n_columns, n_rows, "row")
    elif X.format == "bsr":
        height, width = X.blocksize
        require_compressed(X.indptr, X.indices, len(X.data), n_rows // height, n_columns // width)
    elif X.format == "coo":
        for indices, size, axis in ((X.row, n_rows, "row"), (X.col, n_columns, "column")):
            if len(indices) != len(X.data):
                raise ValueError(f"X must have as many indices as entries, got {len(indices)} and {len(X.data)}.")
            _require_within(indices, size, axis)
    elif X.format == "lil" and list(map(len, X.rows)) != list(map(len, X.data)):
        raise ValueError("X must have as many indices as entries in each row. Make the matrix again.")
    elif X.format == "dia" and X.data.shape[:1] != X.offsets.shape:
        raise ValueError(f"X must have a diagonal for each offset, got {len(X.data)} for {len(X.offsets)}.")


def require_compressed(starts: Any, indices: Any, n_values: int, n_major: int, n_minor: int, axis: str = "column") -> None:
    """Raise a ValueError unless `indptr` and `indices` of CSR rows, or of columns, fit the matrix and its entries."""
    if starts.dtype.kind not in "iu" or (starts[1:] < starts[:-1]).any():
        raise ValueError("X must have an indptr that does not decrease. Call X.check_format() to see what is wrong.")
    ends = starts[[0, -1]].tolist() if starts.size else []
    if starts.shape != (n_major + 1,) or ends[0] != 0 or ends[1] > min(len(indices), n_values):
        raise ValueError(
            f"X must have an indptr of {n_major + 1} numbers from 0 to at most the number of its entries, got "
            f"{len(starts)} with the ends {ends} for {len(indices)} indices and {n_values} values. "
            "Call X.check_format() to see what is wrong."
        )
    _require_within(indices[: ends[1]], n_minor, axis)


def have_increasing_indices(matrix: Any) -> bool:
    """Return whether the indices of each row of a CSR matrix increase: SciPy's flags say what was true at some time."""
    starts = matrix.indptr
    indices = matrix.indices[: int(starts[-1])]
    falls = indices[1:] <= indices[:-1]
    falls[starts[(starts > 0) & (starts < indices.size)] - 1] = False
    return not falls.any()


def _require_within(indices: Any, size: int, axis: str) -> None:
    if indices.dtype.kind not in "iu":
        raise ValueError(f"X must have whole numbers as {axis} indices, got {indices.dtype}.")
    if indices.size and not indices.view(f"{indices.dtype.byteorder}u{indices.itemsize}").max() < size:  # or negative
        raise ValueError(f"X must have {axis} indices from 0 to {size - 1}, got {indices.min()} to {indices.max()}.")
