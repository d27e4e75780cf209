"""exp and log(1 + s) as kernels compute them: without a call or a branch, so that loops over rows become SIMD code.

With k = round(t / log 2) and r = t - k log 2, |r| <= log(2)/2, exp(t) = 2^k exp(r); the polynomial is Taylor's of degree
13, whose remainder is below 2e-17, and 2^k is made from its bits. The error is at most 1 unit in the last place for
-708 <= t <= 709; below it is 0. log(1 + s) = 2 artanh(s / (2 + s)) is the series of the
inverse hyperbolic tangent, to 2 units in the last place for 0 <= s <= 1. Python calls `math`, and NumPy for arrays.
"""

import math
from typing import Any

import numpy as np

from finitesum.core.elementwise import maximum, minimum, where
from finitesum.core.jit import compiled_form, kernel_part

#: Beyond it exp overflows a float64.
LARGEST_EXPONENT = 709.0

#: exp is 0 below: 2^k would not be a normal number.
LEAST = -708.0

#: log 2 in two parts, of which the first has zeros at its end: k times it is exact.
_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_BY_LOG2 = 1.0 / math.log(2.0)

#: Added to a number of moderate size it leaves the nearest integer in the last bits.
_ROUNDER = 1.5 * 2.0**52

_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1.0 / math.factorial(k) for k in range(2, 14))

(_A3, _A5, _A7, _A9, _A11, _A13, _A15, _A17, _A19, _A21, _A23, _A25, _A27, _A29, _A31, _A33) = (
    1.0 / k for k in range(3, 35, 2)
)


def exp(t: Any) -> Any:
    """Return exp(t) for t <= 709, of a number or of an array."""
    return np.exp(t) if isinstance(t, np.ndarray) else math.exp(t)


@compiled_form(exp, fastmath={"contract"})
def _exp(t: float) -> float:
    given, t = t, max(t, LEAST)
    shifted = t * _BY_LOG2 + _ROUNDER
    k = shifted - _ROUNDER
    r = (t - k * _LOG2_HIGH) - k * _LOG2_LOW
    square = r * r
    tail = (_C12 + _C13 * r) * square + (_C10 + _C11 * r)
    tail = tail * square + (_C8 + _C9 * r)
    tail = tail * square + (_C6 + _C7 * r)
    tail = tail * square + (_C4 + _C5 * r)
    tail = tail * square + (_C2 + _C3 * r)
    bits = np.float64(shifted).view(np.int64)
    power = (1.0 + (r + square * tail)) * np.int64((bits + 1023) << 52).view(np.float64)
    return 0.0 if given < LEAST else power


def log1p(fraction: Any) -> Any:
    """Return log(1 + fraction) for 0 <= fraction <= 1, of a number or of an array."""
    return np.log1p(fraction) if isinstance(fraction, np.ndarray) else math.log1p(fraction)


@compiled_form(log1p, fastmath={"contract"})
def _log1p(fraction: float) -> float:
    ratio = fraction / (2.0 + fraction)
    square = ratio * ratio
    fourth = square * square
    eighth = fourth * fourth
    low = (_A3 + _A5 * square) + (_A7 + _A9 * square) * fourth
    middle = (_A11 + _A13 * square) + (_A15 + _A17 * square) * fourth
    high = (_A19 + _A21 * square) + (_A23 + _A25 * square) * fourth
    last = (_A27 + _A29 * square) + (_A31 + _A33 * square) * fourth
    series = low + eighth * (middle + eighth * (high + eighth * last))
    return 2.0 * (ratio + ratio * square * series)


def log(t: Any) -> Any:
    """Return the natural logarithm of t > 0, of a number or of an array."""
    return np.log(t) if isinstance(t, np.ndarray) else math.log(t)


@compiled_form(log)
def _log(t: float) -> float:
    return math.log(t)


def expm1(t: Any) -> Any:
    """Return exp(t) - 1, of a number or of an array."""
    return np.expm1(t) if isinstance(t, np.ndarray) else math.expm1(t)


@compiled_form(expm1)
def _expm1(t: float) -> float:
    return math.expm1(t)


@kernel_part
def minus_log_of_rest(part: Any) -> Any:
    """Return -log(1 - part) for 0 <= part <= 1/2, part being small or not."""
    from_one = 1.0 - part
    lost = (1.0 - from_one) - part
    return -(log(from_one) + lost / from_one)


def exponential(t: Any) -> Any:
    """Return exp(t), infinite where it overflows: for t > 709, or a little further."""
    if isinstance(t, np.ndarray):
        with np.errstate(over="ignore"):
            return np.exp(t)
    return math.inf if t > LARGEST_EXPONENT else math.exp(t)


@compiled_form(exponential)
def _exponential(t: float) -> float:
    return where(t > LARGEST_EXPONENT, math.inf, exp(minimum(t, LARGEST_EXPONENT)))  # type: ignore[no-any-return]


@kernel_part
def share(t: Any) -> Any:
    """Return 1 / (1 + exp(-t)), every digit of it for t < 0, too."""
    decay = exp(-abs(t))
    return maximum(decay, 1.0 * (t >= 0.0)) / (1.0 + decay)
