"""Step sizes along a direction: halved until F falls enough, or searched for where the slope is between two bounds.

References
----------
.. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006.
"""

import math
from collections.abc import Callable

import numpy as np

#: The fraction of the predicted decrease that a step must bring, and the halvings tried for it.
DECREASE, MOST_HALVINGS = 1e-4, 60

#: The distance of 1 to the next number.
EPSILON = float(np.finfo(np.float64).eps)

#: Slopes evaluated in a search, at most.
MOST_SLOPES = 40


def rounding_of(value: float, n_terms: int) -> float:
    """Return what rounding errors put into a sum of n_terms, at most: changes of F that are less than it are hidden."""
    return n_terms * EPSILON * abs(value)


def is_enough(before: float, after: float, predicted: float, n_terms: int) -> bool:
    """Return whether F came down by a fraction of what was predicted [1, eq. 3.6a], up to the rounding of a sum of n_terms.

    It did not where it is NaN or infinite.
    """
    rounding = rounding_of(before, n_terms)
    return math.isfinite(after) and after <= before + DECREASE * predicted + rounding


def halved(
    objective: Callable[[float], float], before: float, predicted: float, n_terms: int, *, first: float = 1.0
) -> tuple[float, int]:
    """Return the first t of first, first / 2, first / 4, ... that brings enough, and how many before it did not.

    t is 0 where none does. F at 0 is `before`, and `predicted` <= 0 its change as predicted for t = 1.

    Examples
    --------
    >>> halved(lambda t: (1.0 - 4.0 * t) ** 2, 1.0, -8.0, 1)
    (0.25, 2)
    """
    t = first
    for n_failed in range(MOST_HALVINGS):
        if is_enough(before, objective(t), t * predicted, n_terms):
            return t, n_failed
        t *= 0.5
    return 0.0, MOST_HALVINGS


def with_gentler_slope(slope: Callable[[float], float], first: float, fraction: float = 0.5) -> float:
    """Return t > 0 where the slope is between a fraction of the first, which is < 0, and 0, as far as rounding allows.

    Examples
    --------
    >>> with_gentler_slope(lambda t: 8.0 * t - 16.0, -16.0)
    1.0
    """
    low, high, t = 0.0, math.inf, 1.0
    for _ in range(MOST_SLOPES):
        here = slope(t)
        if fraction * first <= here <= 0.0:
            return t
        if here < 0.0:
            low = t
        else:  # NaN, too
            high = t
        t = 4.0 * t if high == math.inf else (math.sqrt(low * high) if low > 0.0 else 0.25 * high)
    return low if low > 0.0 else t


def wants_search(slope: float, first: float, ratio: float) -> bool:
    """Return whether the length of a step is to be searched for, where F is smooth and convex.

    The slopes are those of F along the step at its end (F falls where that is <= 0, because it is convex) and at its start;
    the ratio is what the end leaves of the gradient.
    """
    is_fine = slope <= 0.0 or (slope <= 0.5 * abs(first) and ratio < 0.9)
    return not is_fine or slope < 0.65 * first
