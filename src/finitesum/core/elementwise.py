"""Choices between numbers, written once for a number and for whole arrays.

Kernels compile them to selections without a branch, Python's numbers go through Python's own comparisons, and arrays
through NumPy's: so that one formula of a loss serves a visit of a row and a pass over all rows. Both alternatives are
computed wherever they stand, so neither may divide by zero.
"""

from typing import Any

import numpy as np

from finitesum.core.jit import compiled_form


def where(condition: Any, chosen: Any, other: Any) -> Any:
    """Return `chosen` where the condition holds, `other` elsewhere."""
    return np.where(condition, chosen, other) if isinstance(condition, np.ndarray) else (chosen if condition else other)


@compiled_form(of=where)
def _where(condition: Any, chosen: Any, other: Any) -> Any:
    return chosen if condition else other


def maximum(value: Any, least: Any) -> Any:
    """Return the value, but not less than `least`; NaN stays NaN. For arrays it is a quarter of the work of `where`."""
    return np.maximum(value, least) if isinstance(value, np.ndarray) else max(value, least)


@compiled_form(of=maximum)
def _maximum(value: Any, least: Any) -> Any:
    return max(value, least)


def minimum(value: Any, most: float) -> Any:
    """Return the value, but not more than `most`; NaN stays NaN."""
    return np.minimum(value, most) if isinstance(value, np.ndarray) else min(value, most)


@compiled_form(of=minimum)
def _minimum(value: Any, most: float) -> Any:
    return min(value, most)
