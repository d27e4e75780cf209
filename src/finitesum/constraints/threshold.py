"""Projects onto the l1 ball and the simplex in a diagonal metric: exact, in place, without sorting or allocating.

The problem, for a metric s > 0, weights c > 0 and a total tau > 0, is::

    minimise 1/2 sum_i s_i (y_i - u_i)^2   over   y >= 0,  sum_i c_i y_i = tau                                   (1)

with u = x for the simplex. The l1 ball {sum_i c_i |y_i| <= tau} is (1) with u = |x| and the signs of x put back, wherever
x lies outside of it. By the multiplier lam of the equation, with the *height* z_i = s_i u_i / c_i of a coordinate ::

    y_i = (c_i / s_i) max(z_i - lam, 0),      phi(lam) = sum_{z_i > lam} k_i (z_i - lam) - tau = 0,      k_i = c_i^2 / s_i

phi is convex, decreasing and piecewise linear, so Newton's method on it, ::

    lam <- (sum_{z_i > lam} k_i z_i - tau) / sum_{z_i > lam} k_i

climbs to the root from the left, loses coordinates only, and is exact once no coordinate was lost (Michelot's variable
fixing [1]_, [2]_, here in any metric). A sweep costs O(d).

*   **Few sweeps.** By convexity phi_new / phi_old + phi'_new / phi'_old <= 1 in every step, so that phi phi' falls by a
    factor of 4 at least: with phi from d to 1e-16 and slopes over ten orders of magnitude that is 70 sweeps at worst, never
    d of them. It is two to ten on everything met in practice, and some four from the first guess, which is the root for
    one coordinate in 64.
*   **No cancellation.** Where the root is within a factor 2 of the largest height, all thresholds are measured downwards
    from that height. The differences are then exact (Sterbenz), so that a total of 1e-20 under entries of size 1 is no
    problem; measured from 0 they would be rounding errors.
*   **Feasible.** At the end the exact sum (split in a high part, whose sum has no rounding error, and a low part [3]_)
    gives a last correction of lam, as a number of its own, by which the constraint holds to 1 ulp of tau.

References
----------
.. [1] Michelot, "A finite algorithm for finding the projection of a point onto the canonical simplex of R^n", JOTA 50
   (1986).
.. [2] Kiwiel, "Variable fixing algorithms for the continuous quadratic knapsack problem", JOTA 136 (2008).
.. [3] Rump, Ogita, Oishi, "Accurate floating-point summation, part I: faithful rounding", SIAM J. Sci. Comput. 31 (2008).
"""

import math
from typing import NamedTuple, Protocol

import numpy as np

from finitesum.arrays import Vector
from finitesum.jit import compilable, kernel_part, reassociated_part

#: A plain sum is within this factor of the exact one.
SLACK = 1e-9

#: Half an ulp, relatively.
ROUNDING = 2.0**-53

#: The sample that gives a first guess: one coordinate in 64, in 32 blocks.
SAMPLE_SHARE = 64
SAMPLE_BLOCKS = 32
SAMPLE_SWEEPS = 20


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
    """Reads 1 everywhere; the array is not looked at."""

    unused: float = 0.0

    def entry_of(self, values: Vector, index: int) -> float:
        return 1.0


class Terms(NamedTuple):
    """The data of problem (1). Where there is no metric, or are no weights, any array of the length stands in."""

    x: Vector
    mirror: float  # -1: u = |x|; +1: u = x
    metric: Vector
    metric_reading: Reading
    weights: Vector
    weights_reading: Reading


# The loops below divide by np.divide, because the bare operator raises on zero in compiled code, and a loop that may raise
# is not vectorised. What is computed for one coordinate stands in functions of its own, so that it is rounded as written;
# only the sums over the coordinates may be taken in any order.


@kernel_part
def _height(terms: Terms, i: int, origin: float) -> float:
    x = terms.x[i]
    s = terms.metric_reading.entry_of(terms.metric, i)
    c = terms.weights_reading.entry_of(terms.weights, i)
    return float(np.divide(max(x, terms.mirror * x) * s, c)) - origin


@kernel_part
def _rate(terms: Terms, i: int) -> float:
    s = terms.metric_reading.entry_of(terms.metric, i)
    return float(np.divide(terms.weights_reading.entry_of(terms.weights, i), s))


@kernel_part
def _slope(terms: Terms, i: int) -> float:
    return terms.weights_reading.entry_of(terms.weights, i) * _rate(terms, i)


@kernel_part
def _weighted(terms: Terms, i: int) -> float:
    x = terms.x[i]
    return terms.weights_reading.entry_of(terms.weights, i) * float(max(x, terms.mirror * x))


@kernel_part
def _top(terms: Terms) -> float:
    """Return the largest height. Four running maxima, because one would wait for itself."""
    top0 = top1 = top2 = top3 = -np.inf
    d = terms.x.shape[0]
    whole = d - d % 4
    for i in range(0, whole, 4):
        z0, z1 = _height(terms, i, 0.0), _height(terms, i + 1, 0.0)
        z2, z3 = _height(terms, i + 2, 0.0), _height(terms, i + 3, 0.0)
        top0 = z0 if z0 > top0 else top0
        top1 = z1 if z1 > top1 else top1
        top2 = z2 if z2 > top2 else top2
        top3 = z3 if z3 > top3 else top3
    for i in range(whole, d):
        top0 = max(top0, _height(terms, i, 0.0))
    return max(max(top0, top1), max(top2, top3))


@reassociated_part
def _sums_above(terms: Terms, origin: float, threshold: float) -> tuple[float, float, float]:
    """Return sum k (z - origin), sum k and the number of the coordinates with z - origin > threshold."""
    moment = slope = count = 0.0
    for i in range(terms.x.shape[0]):
        z = _height(terms, i, origin)
        above = z > threshold
        k = _slope(terms, i)
        k = k if above else 0.0
        moment += k * z
        slope += k
        count += 1.0 if above else 0.0
    return moment, slope, count


@kernel_part
def _cut(terms: Terms, start: int, stop: int) -> Terms:
    return Terms(
        terms.x[start:stop],
        terms.mirror,
        terms.metric[start:stop],
        terms.metric_reading,
        terms.weights[start:stop],
        terms.weights_reading,
    )


@kernel_part
def _guess(terms: Terms, total: float, floor: float) -> float:
    """Return about the root of phi, from one coordinate in 64, taken in 32 blocks; `floor` where that says nothing."""
    d = terms.x.shape[0]
    length = d // (SAMPLE_BLOCKS * SAMPLE_SHARE)
    if length < 8:
        return floor
    threshold, known = floor, -1.0
    for _ in range(SAMPLE_SWEEPS):
        moment = slope = count = 0.0
        for block in range(SAMPLE_BLOCKS):
            start = block * (d // SAMPLE_BLOCKS)
            sums = _sums_above(_cut(terms, start, start + length), 0.0, threshold)
            moment += sums[0]
            slope += sums[1]
            count += sums[2]
        if count == known or slope == 0.0:
            break
        known = count
        threshold = max(threshold, (moment - total / SAMPLE_SHARE) / slope)
    return threshold


@kernel_part
def _climb(terms: Terms, total: float, origin: float, floor: float, start: float) -> tuple[float, float]:
    """Return the root of phi, measured from origin and known to be >= floor, and the slope there.

    By Newton steps: up, save perhaps the first.
    """
    root, point = floor, start
    known = -1.0  # how many coordinates were above the last point
    while True:
        moment, slope, count = _sums_above(terms, origin, point)
        if count == known or slope == 0.0:
            return root, slope
        step = (moment - total) / slope
        if step > root:
            root, point, known = step, step, count
        elif point == root:
            return root, slope
        else:  # the start was far to the right
            point = root


@kernel_part
def _find(terms: Terms, total: float, floor: float) -> tuple[float, float, float]:
    """Return the root lam of phi as origin and lam - origin, where lam >= floor is known, and the slope there."""
    top = _top(terms)
    guess = _guess(terms, total, floor)
    root, slope = _climb(terms, total, 0.0, floor, guess if guess < top else floor)
    size = abs(top)
    if root <= top - 0.5 * size:
        return 0.0, root, slope
    start = root - top if root < top else -0.5 * size
    root, slope = _climb(terms, total, top, -size, start)
    return top, root, slope


@kernel_part
def _write(terms: Terms, origin: float, threshold: float, out: Vector) -> None:
    for i in range(terms.x.shape[0]):
        x = terms.x[i]
        y = _rate(terms, i) * (_height(terms, i, origin) - threshold)
        y = y if y > 0.0 else 0.0
        out[i] = (terms.mirror * y if x < 0.0 else y) + 0.0  # no negative zeros


@reassociated_part
def _plain_sum(terms: Terms) -> float:
    total = 0.0
    for i in range(terms.x.shape[0]):
        total += _weighted(terms, i)
    return total


@kernel_part
def _size(values: Vector, weights: Vector, reading: Reading, i: int) -> float:
    return abs(float(values[i]) * reading.entry_of(weights, i))


@kernel_part
def _high_part(value: float, sigma: float) -> float:
    return (sigma + value) - sigma


@kernel_part
def _splitter(bound: float, d: int) -> float:
    """Return a power of two: the high parts of d numbers of size <= 2 bound, split at it, are summed without rounding."""
    exponent = math.frexp(bound)[1] + math.frexp(d + 2.0)[1] + 2
    return math.ldexp(1.0, min(exponent, 1000))


@reassociated_part
def split_sum(values: Vector, weights: Vector, reading: Reading, bound: float) -> tuple[float, float]:
    """Return sum |weights values| as a high part, exact in any order, and a low part; no term may exceed 2 bound."""
    sigma = _splitter(bound, values.shape[0])
    high = low = 0.0
    for i in range(values.shape[0]):
        value = _size(values, weights, reading, i)
        part = _high_part(value, sigma)
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
    sigma = _splitter(1.0, x.shape[0])
    high = low = 0.0
    for i in range(x.shape[0]):
        value = _scaled_square(x[i], top)
        part = _high_part(value, sigma)
        high += part
        low += value - part
    return high + low


@kernel_part
def copy_into(x: Vector, out: Vector) -> None:
    """Copy; without a temporary array, so that both may be the same."""
    for i in range(x.shape[0]):
        out[i] = x[i]


@kernel_part
def _missing(terms: Terms, total: float, out: Vector) -> float:
    high, low = split_sum(out, terms.weights, terms.weights_reading, total)
    return (total - high) - low


@kernel_part
def _lower_threshold(terms: Terms, amount: float, out: Vector) -> None:
    """Lower the threshold of what was written by an amount too small to be subtracted from it."""
    for i in range(out.shape[0]):
        y = out[i]
        size = abs(y) + amount * _rate(terms, i)
        size = size if size > 0.0 else 0.0
        size = size if y != 0.0 else 0.0
        out[i] = (-size if y < 0.0 else size) + 0.0


@kernel_part
def _solve(terms: Terms, total: float, floor: float, out: Vector) -> None:
    origin, threshold, slope = _find(terms, total, floor)
    _write(terms, origin, threshold, out)  # from here on terms.x is not read, for it may be out
    if slope > 0.0:
        _lower_threshold(terms, _missing(terms, total, out) / slope, out)
    missing = _missing(terms, total, out)
    if ROUNDING * total < abs(missing) < total:  # a coordinate was cut off at 0
        for i in range(out.shape[0]):
            out[i] += missing / total * out[i]


@kernel_part
def onto_simplex(terms: Terms, total: float, out: Vector) -> None:
    """Project onto {y >= 0, sum c y = total}; an x that is not finite is copied, so that a divergence is seen."""
    if np.isfinite(_plain_sum(terms)):
        _solve(terms, total, -np.inf, out)
    else:
        copy_into(terms.x, out)


@kernel_part
def onto_l1_ball(terms: Terms, radius: float, out: Vector) -> None:
    """Project onto {sum c |y| <= radius}; an x that is not finite is copied, so that a divergence is seen."""
    norm = _plain_sum(terms)
    outside = radius * (1.0 - SLACK) < norm < np.inf
    if outside and norm < radius * (1.0 + SLACK):
        high, low = split_sum(terms.x, terms.weights, terms.weights_reading, radius)
        outside = (radius - high) - low < 0.0
    if outside:
        _solve(terms, radius, 0.0, out)
    else:
        copy_into(terms.x, out)
