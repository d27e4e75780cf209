"""What the projections onto the l1 ball and the simplex sum: over the coordinates above a threshold, and exactly.

See `finitesum.constraints.threshold` for the problem, its letters and [3]. Exact sums are right to their last rounding, in
any order: they are split in a high part, whose sum has no rounding error, and a low part [3].
"""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import compilable, kernel_part, reassociated_part


class Factors(Protocol):
    """Weights or a metric, which may be absent."""

    def entry_of(self, index: int) -> float: ...
    def part_of(self, start: int, stop: int) -> Any: ...


@compilable
class Given(NamedTuple):
    """The entries of an array."""

    values: Vector

    def entry_of(self, index: int) -> float:
        return float(self.values[index])

    def part_of(self, start: int, stop: int) -> Any:
        return Given(self.values[start:stop])


@compilable
class Ones(NamedTuple):
    """1 everywhere, without an array."""

    unused: float = 0.0  # a tuple without fields cannot be called in kernels

    def entry_of(self, index: int) -> float:
        return 1.0

    def part_of(self, start: int, stop: int) -> Any:
        return self


@kernel_part
def weighted_size(values: Vector, weights: Factors, i: int) -> float:
    return abs(float(values[i]) * weights.entry_of(i))


@kernel_part
def high_part(value: float, sigma: float) -> float:
    return (sigma + value) - sigma


@kernel_part
def splitter(bound: float, d: int) -> float:
    """Return a power of two: the high parts of d numbers of size <= 2 bound, split at it, are summed without rounding."""
    exponent = math.frexp(bound)[1] + math.frexp(d + 2.0)[1] + 2
    return math.ldexp(1.0, min(exponent, 1000))


@reassociated_part
def split_sum(values: Vector, weights: Factors, bound: float) -> tuple[float, float]:
    """Return sum |weights values| as a high part, exact in any order, and a low part; no term may exceed 2 bound."""
    sigma = splitter(bound, values.shape[0])
    high = low = 0.0
    for i in range(values.shape[0]):
        value = weighted_size(values, weights, i)
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


class Terms(NamedTuple):
    """The data of problem (1)."""

    x: Vector
    mirror: float  # -1: u = |x|; +1: u = x
    metric: Factors
    weights: Factors


# The loops divide by np.divide: the bare operator may raise in compiled code, and such a loop is not vectorised. What is
# computed for one coordinate stands in functions of its own, rounded as written; only sums are taken in any order.


@kernel_part
def height_at(terms: Terms, i: int, origin: float) -> float:
    x = terms.x[i]
    s = terms.metric.entry_of(i)
    c = terms.weights.entry_of(i)
    return float(np.divide(max(x, terms.mirror * x) * s, c)) - origin


@kernel_part
def lift_at(terms: Terms, i: int) -> float:
    """Return the height times the weight."""
    x = terms.x[i]
    return float(max(x, terms.mirror * x) * terms.metric.entry_of(i))


@kernel_part
def bar_at(terms: Terms, i: int, threshold: float) -> float:
    """Return what the lift is above exactly if the height is above the threshold."""
    return threshold * terms.weights.entry_of(i)


@kernel_part
def rate_at(terms: Terms, i: int) -> float:
    s = terms.metric.entry_of(i)
    return float(np.divide(terms.weights.entry_of(i), s))


@kernel_part
def slope_at(terms: Terms, i: int) -> float:
    return terms.weights.entry_of(i) * rate_at(terms, i)


@kernel_part
def weighted_at(terms: Terms, i: int) -> float:
    x = terms.x[i]
    return terms.weights.entry_of(i) * float(max(x, terms.mirror * x))


@kernel_part
def largest_height(terms: Terms) -> float:
    """Return the largest height. Two running maxima, because one would wait for itself."""
    top0 = top1 = -np.inf
    for i in range(0, terms.x.shape[0] - 1, 2):
        z0, z1 = height_at(terms, i, 0.0), height_at(terms, i + 1, 0.0)
        top0 = z0 if z0 > top0 else top0
        top1 = z1 if z1 > top1 else top1
    return max(max(top0, top1), height_at(terms, terms.x.shape[0] - 1, 0.0))


class Sums(NamedTuple):
    """What a pass finds of the coordinates above a threshold: sum k (z - origin), sum k, how many, how many far above."""

    moment: float
    slope: float
    n_above: float
    n_far: float


@reassociated_part
def sums_above(terms: Terms, threshold: float) -> Sums:
    """Return the sums over z > threshold, measured from 0. Far is where z - |z| / 2 > threshold.

    z > threshold is s u > threshold c, and k z is c u: one division less, or two.
    """
    far = (2.0 if threshold > 0.0 else 2.0 / 3.0) * threshold
    moment = slope = count = n_far = 0.0
    for i in range(terms.x.shape[0]):
        lift = lift_at(terms, i)
        above = lift > bar_at(terms, i, threshold)
        k = slope_at(terms, i)
        u = weighted_at(terms, i)
        moment += u if above else 0.0
        slope += k if above else 0.0
        count += 1.0 if above else 0.0
        n_far += 1.0 if lift > bar_at(terms, i, far) else 0.0
    return Sums(moment, slope, count, n_far)


@reassociated_part
def sums_above_from(terms: Terms, origin: float, threshold: float) -> Sums:
    """Return the sums over z - origin > threshold, measured from the origin; none of them is far."""
    moment = slope = count = 0.0
    for i in range(terms.x.shape[0]):
        z = height_at(terms, i, origin)
        above = z > threshold
        k = slope_at(terms, i)
        k = k if above else 0.0
        moment += k * z
        slope += k
        count += 1.0 if above else 0.0
    return Sums(moment, slope, count, 0.0)


@kernel_part
def cut(terms: Terms, start: int, stop: int) -> Terms:
    metric, weights = terms.metric.part_of(start, stop), terms.weights.part_of(start, stop)
    return Terms(terms.x[start:stop], terms.mirror, metric, weights)
