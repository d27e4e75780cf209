"""Several labels a row: targets that are a column of 0 and 1 for each label, of which a row may have any number.

The losses of the labels are added up, and no penalty or set ties them: each label is a problem of its own on the same rows.
"""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.multiclass import type_of_target

from finitesum.core.arrays import Data
from finitesum.problems.input import checked_numbers


def has_columns(y: Any) -> bool:
    """Return whether targets are more than one column.

    Examples
    --------
    >>> has_columns([[0, 1], [1, 1]]), has_columns([[0], [1]]), has_columns([0, 1])
    (True, False, False)
    """
    shape: Any = getattr(y, "shape", None)
    if shape is None:
        shape = np.shape(y) if _is_nested(y) else ()
    return len(shape) == 2 and shape[1] > 1


def _is_nested(y: Any) -> bool:
    return isinstance(y, list | tuple) and len(y) > 0 and isinstance(y[0], list | tuple | np.ndarray)


def indicators_of(y: Any) -> Data:
    """Return targets as an array of 0 and 1, shape (n, K), or raise what is wrong with them."""
    y = y.toarray() if issparse(y) else np.asarray(y)
    if type_of_target(y) != "multilabel-indicator" or not np.isin(y, (0, 1)).all():
        raise ValueError(
            f"y must be a vector of labels, or a column of 0 and 1 for each label, got shape {y.shape} with other entries."
        )
    empty = [k for k in range(y.shape[1]) if y[:, k].min() == y[:, k].max()]
    if empty:
        raise ValueError(
            f"each column of y must hold both 0 and 1, but columns {empty} hold one of them only. Leave these labels out."
        )
    return np.asarray(y, dtype=np.int64)


def offset_of_label(offset: Any, shape: tuple[int, ...], k: int) -> Any:
    """Return the offsets of a label, from those of all, (n, K), or None."""
    return None if offset is None else np.ascontiguousarray(checked_numbers(offset, shape, "offset")[:, k])
