"""What machine code of a kernel is made for, as found without importing numba."""

from typing import Any

import numpy as np

#: Types of NumPy's scalars that machine code does not tell from Python's.
SAME = {"float64": "float", "int64": "int"}


def kinds_of_arguments(value: Any) -> Any:
    """Return what machine code is made for: types of arguments, of arrays and tuples what is in them."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.ndim, value.flags.c_contiguous
    if isinstance(value, tuple):
        return type(value).__name__, *map(kinds_of_arguments, value)
    return SAME.get(type(value).__name__, type(value).__name__)
