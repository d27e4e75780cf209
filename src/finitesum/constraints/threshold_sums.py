"""What the projections onto the l1 ball and the simplex sum over the coordinates above a threshold.

See `finitesum.constraints.threshold` for the problem and its letters.
"""

from typing import NamedTuple

import numpy as np

from finitesum.constraints.exact_sums import Reading
from finitesum.core.arrays import Vector
from finitesum.core.jit import kernel_part, reassociated_part


class Terms(NamedTuple):
    """The data of problem (1). Where there is no metric, or are no weights, any array of the length stands in."""

    x: Vector
    mirror: float  # -1: u = |x|; +1: u = x
    metric: Vector
    metric_reading: Reading
    weights: Vector
    weights_reading: Reading


# The loops divide by np.divide: the bare operator may raise in compiled code, and such a loop is not vectorised. What is
# computed for one coordinate stands in functions of its own, rounded as written; only sums are taken in any order.


@kernel_part
def height_at(terms: Terms, i: int, origin: float) -> float:
    x = terms.x[i]
    s = terms.metric_reading.entry_of(terms.metric, i)
    c = terms.weights_reading.entry_of(terms.weights, i)
    return float(np.divide(max(x, terms.mirror * x) * s, c)) - origin


@kernel_part
def lift_at(terms: Terms, i: int) -> float:
    """Return the height times the weight."""
    x = terms.x[i]
    return float(max(x, terms.mirror * x) * terms.metric_reading.entry_of(terms.metric, i))


@kernel_part
def bar_at(terms: Terms, i: int, threshold: float) -> float:
    """Return what the lift is above exactly if the height is above the threshold."""
    return threshold * terms.weights_reading.entry_of(terms.weights, i)


@kernel_part
def rate_at(terms: Terms, i: int) -> float:
    s = terms.metric_reading.entry_of(terms.metric, i)
    return float(np.divide(terms.weights_reading.entry_of(terms.weights, i), s))


@kernel_part
def slope_at(terms: Terms, i: int) -> float:
    return terms.weights_reading.entry_of(terms.weights, i) * rate_at(terms, i)


@kernel_part
def weighted_at(terms: Terms, i: int) -> float:
    x = terms.x[i]
    return terms.weights_reading.entry_of(terms.weights, i) * float(max(x, terms.mirror * x))


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
    return Terms(
        terms.x[start:stop],
        terms.mirror,
        terms.metric[start:stop],
        terms.metric_reading,
        terms.weights[start:stop],
        terms.weights_reading,
    )
