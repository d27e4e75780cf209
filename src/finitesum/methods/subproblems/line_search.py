"""Step sizes along a direction: halved until F falls enough, or searched for where the slope is between two bounds.

References
----------
.. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006.
.. [2] R. P. Brent, "Algorithms for minimization without derivatives", 1973, chapter 4.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

#: The fraction of the predicted decrease that a step must bring, and the halvings tried for it.
DECREASE, MOST_HALVINGS = 1e-4, 60

#: The distance of 1 to the next number.
EPSILON = float(np.finfo(np.float64).eps)

#: Slopes evaluated in a search, at most, and the part of the steepest one allowed that is aimed at.
MOST_SLOPES, AIM = 40, 0.3

#: The error of a t that is found, which is a fraction of it.
TINY = 1e-300

#: Slopes that Brent's method asks for before t is of another size, and the ratio of two t from which it ends the search.
FEW_SLOPES, NEAR = 8, 16.0

#: The part of an interval that a trial leaves on either side, at least.
MARGIN = 0.05


class Trial(NamedTuple):
    """F and its slope at t along a direction."""

    t: float
    value: float
    slope: float


def between(low: Trial, high: Trial, rounding: float = 0.0) -> float:
    """Return a t between two trials, F falling at the first and not at the second.

    It is the minimum of the cubic through both [1, eq. 3.59], or where their values differ by no more than rounding errors
    the zero of a line through the slopes; a tenth of the way where one is not finite.

    Examples
    --------
    >>> between(Trial(0.0, 0.0, -3.0), Trial(2.0, 2.0, 9.0))
    1.0
    """
    width, share = high.t - low.t, 0.1
    if math.isfinite(high.slope) and width > 0.0:
        share = -low.slope / (high.slope - low.slope)
        mixed = low.slope + high.slope + 3.0 * (low.value - high.value) / width
        square = mixed * mixed - low.slope * high.slope
        is_visible = abs(low.value - high.value) > rounding
        if is_visible and math.isfinite(square) and square > 0.0:
            root = math.sqrt(square)
            share = 1.0 - (high.slope + root - mixed) / (high.slope - low.slope + 2.0 * root)
    return low.t + width * min(max(share, MARGIN), 1.0 - MARGIN)


def rounding_of(value: float, n_terms: float) -> float:
    """Return what rounding errors put into a sum of n_terms, at most: changes of F that are less than it are hidden."""
    return n_terms * EPSILON * abs(value)


def is_enough(before: float, after: float, predicted: float, n_terms: float) -> bool:
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


def _first_of(t: float, functions: list[Callable[[float], float]]) -> float:
    return functions[0](t)


def with_gentler_slope(
    slope: Callable[[float], float], first: float, fraction: float = 0.5, at_one: float | None = None
) -> float:
    """Return t > 0 where the slope is between a fraction of the first, which is < 0, and 0, as far as rounding allows.

    What is known of the slope at t = 1 need not be asked for. t grows by factors of 4 up to a slope > 0. Then Brent's
    method [2] comes to a slope within the bounds. Where it needs many, t is of another size: it falls by 4, by 16, by 256,
    ... from there to a slope < 0, and goes to geometric means before Brent's method ends the search.

    Examples
    --------
    >>> with_gentler_slope(lambda t: 8.0 * t - 16.0, -16.0)
    1.0
    """
    target, known = AIM * fraction * first, {0.0: first}

    def distance(t: float) -> float:
        if t not in known:
            found = at_one if t == 1.0 and at_one is not None else slope(t)
            known[t] = math.inf if math.isnan(found) else found  # F overflows there
        return 0.0 if fraction * first <= known[t] <= 0.0 else known[t] - target

    low, high, t, fall, n_within = 0.0, math.inf, 1.0, 0.25, FEW_SLOPES
    for _ in range(MOST_SLOPES):
        if (here := distance(t)) == 0.0:
            return t
        low, high = (t, high) if here < 0.0 else (low, t)
        if high == math.inf:
            t *= 4.0
            continue
        if math.isfinite(known[high]) and n_within > 0:
            lent = [distance]  # what brentq makes of a function refers to itself, and stays until garbage is collected
            end, *_ = brentq(_first_of, low, high, (lent,), xtol=TINY, maxiter=n_within, disp=False, full_output=True)
            lent.clear()
            if distance(end) == 0.0 or n_within == MOST_SLOPES:
                break
            low = max(t for t, value in known.items() if value < 0.0)
            high, n_within = min(t for t, value in known.items() if value > 0.0), 0
        if low > 0.0:
            n_within = MOST_SLOPES if high < NEAR * low else 0
            t = math.sqrt(low * high)
        else:
            t, fall = fall * high, fall * fall
    return max((t for t, value in known.items() if t > 0.0 and value <= 0.0), default=t)


def wants_search(slope: float, first: float, ratio: float) -> bool:
    """Return whether the length of a step is to be searched for, where F is smooth and convex.

    The slopes are those of F along the step at its end (F falls where that is <= 0, because it is convex) and at its start;
    the ratio is what the end leaves of the gradient.
    """
    is_fine = slope <= 0.0 or (slope <= 0.5 * abs(first) and ratio < 0.9)
    return not is_fine or slope < 0.65 * first
