"""The array aliases that signatures use, which name the role of an array, not its size, and arrays in messages."""

from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]  # of one axis: an iterate, a gradient, one number per row
Matrix = npt.NDArray[np.float64]  # of two axes in C order: a Hessian, a table of iterates
Indices = npt.NDArray[np.int64]  # of one axis: an order of visits
Flags = npt.NDArray[np.bool_]  # of one axis: which components were visited
Data = npt.NDArray[Any]  # float32 or float64 values as they were given: the stored entries of the rows


def in_one_line(thing: Any) -> str:
    """Return what represents a thing in a message: on one line, with its arrays cut short.

    Examples
    --------
    >>> in_one_line(np.zeros((2, 2)))
    'array([[0., 0.], [0., 0.]])'
    """
    with np.printoptions(threshold=6, edgeitems=2, precision=6):
        return " ".join(repr(thing).split())
