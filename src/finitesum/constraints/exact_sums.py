"""Sums right to their last rounding, in any order, and how an array is read that may be absent.

A sum is split in a high part, whose sum has no rounding error, and a low part [1]_.

References
----------
.. [1] Rump, Ogita, Oishi, "Accurate floating-point summation, part I: faithful rounding", SIAM J. Sci. Comput. 31 (2008).
"""

import math
from typing import NamedTuple, Protocol

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import compilable, kernel_part, reassociated_part


class Reading(Protocol):
    """How an entry of an array is read that may be absent."""

    def entry_of(self, values: Vector, index: int) -> float: ...


@compilable
class AsGiven(NamedTuple):
    """Reads what the array holds."""

    unused: float = 0.0  # a tuple without fields cannot be called in kernels

    def entry_of(self, values: Vector, index: int) -> float:
        return float(values[index])


@compilable
class AllOnes(NamedTuple):
    """Reads 1 everywhere; the array is not read."""

    unused: float = 0.0

    def entry_of(self, values: Vector, index: int) -> float:
        return 1.0


@kernel_part
def weighted_size(values: Vector, weights: Vector, reading: Reading, i: int) -> float:
    return abs(float(values[i]) * reading.entry_of(weights, i))


@kernel_part
def high_part(value: float, sigma: float) -> float:
    return (sigma + value) - sigma


@kernel_part
def splitter(bound: float, d: int) -> float:
    """Return a power of two: the high parts of d numbers of size <= 2 bound, split at it, are summed without rounding."""
    exponent = math.frexp(bound)[1] + math.frexp(d + 2.0)[1] + 2
    return math.ldexp(1.0, min(exponent, 1000))


@reassociated_part
def split_sum(values: Vector, weights: Vector, reading: Reading, bound: float) -> tuple[float, float]:
    """Return sum |weights values| as a high part, exact in any order, and a low part; no term may exceed 2 bound."""
    sigma = splitter(bound, values.shape[0])
    high = low = 0.0
    for i in range(values.shape[0]):
        value = weighted_size(values, weights, reading, i)
        part = high_part(value, sigma)
        high += part
        low += value - part
    return high, low


@kernel_part
def _scaled_square(value: float, top: float) -> float:
    value = np.divide(value, top)
    return value * value


@reassociated_part
def scaled_square_sum(x: Vector, top: float) -> float:
    """Return sum (x / top)^2 for top = max |x|, the sum exact but for its last rounding."""
    sigma = splitter(1.0, x.shape[0])
    high = low = 0.0
    for i in range(x.shape[0]):
        value = _scaled_square(x[i], top)
        part = high_part(value, sigma)
        high += part
        low += value - part
    return high + low


@kernel_part
def copy_into(x: Vector, out: Vector) -> None:
    """Copy; without a temporary array, so that both may be the same."""
    for i in range(x.shape[0]):
        out[i] = x[i]
