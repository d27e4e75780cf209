"""Projects onto the l1 ball and the simplex in a diagonal metric: exact, in place, without sorting or allocating.

The problem, for a metric s > 0, weights c > 0 and a total tau > 0, is::

    minimise 1/2 sum_i s_i (y_i - u_i)^2   over   y >= 0,  sum_i c_i y_i = tau                                   (1)

with u = x for the simplex. The l1 ball {sum_i c_i |y_i| <= tau} is (1) with u = |x| and the signs of x put back, wherever
x lies outside of it. By the multiplier lam of the equation, with the *height* z_i = s_i u_i / c_i of a coordinate ::

    y_i = (c_i / s_i) max(z_i - lam, 0),      phi(lam) = sum_{z_i > lam} k_i (z_i - lam) - tau = 0,      k_i = c_i^2 / s_i

phi is convex, decreasing and piecewise linear, so Newton's method on it, ::

    lam <- (sum_{z_i > lam} k_i z_i - tau) / sum_{z_i > lam} k_i

climbs to the root from the left, loses coordinates only, and is exact once no coordinate was lost (Michelot's variable
fixing [1]_, [2]_, here in any metric). A step costs O(d).

*   **Few steps.** By convexity phi_new / phi_old + phi'_new / phi'_old <= 1 in every step, so that phi phi' falls by a
    factor of 4 at least: with phi from d to 1e-16 and slopes over ten orders of magnitude that is 70 steps at worst, never
    d of them. It is two to ten on everything met in practice, and some four from the first guess, which is the root for
    one coordinate in 64. What lies below a threshold lies below all later ones: blocks with nothing above are passed over.
*   **No cancellation.** Where the root is within a factor 2 of the largest height, all thresholds are measured downwards
    from that height. The differences are then exact (Sterbenz), so that a total of 1e-20 under entries of size 1 is no
    problem; measured from 0 they would be rounding errors.
*   **Feasible.** At the end the exact sum (split in a high part, whose sum has no rounding error, and a low part [3]_)
    gives a last correction of lam, as a number of its own, by which the constraint holds to 1 ulp of tau; what a
    coordinate cut off at 0 still leaves goes to the coordinate of largest k_i, where it costs least.
*   **As good as float64 can hold.** The result is the exact projection of a point within some roundings of x. Where s
    spans many orders of magnitude the optimality condition itself cannot be met better: s_i (x_i - y_i) = lam holds to
    s_i |x_i| 2^-53, however y is found, and lam may be that small.

References
----------
.. [1] Michelot, "A finite algorithm for finding the projection of a point onto the canonical simplex of R^n", JOTA 50
   (1986).
.. [2] Kiwiel, "Variable fixing algorithms for the continuous quadratic knapsack problem", JOTA 136 (2008).
.. [3] Rump, Ogita, Oishi, "Accurate floating-point summation, part I: faithful rounding", SIAM J. Sci. Comput. 31 (2008).
"""

import numpy as np

from finitesum.constraints import threshold_sums as summed
from finitesum.constraints.threshold_sums import Sums, Terms
from finitesum.core.arrays import Vector
from finitesum.core.jit import kernel_part, reassociated_part
from finitesum.core.vectors import copy

#: A plain sum is within this factor of the exact one.
SLACK = 1e-9

#: Half an ulp, relatively.
ROUNDING = 2.0**-53

#: The sample that gives a first guess: one coordinate in 64, in 32 blocks.
SAMPLE_FRACTION = 64
SAMPLE_BLOCKS = 32
SAMPLE_STEPS = 20

#: Steps skip those of 62 blocks that have nothing above the threshold any more.
N_BLOCKS = 62
SHORTEST_BLOCK = 256

#: How far a start right of the root is taken back, and how often, before Newton's step to the left is taken.
STEP_BACK, MAX_STEPS_BACK = 1 / 16, 4


@kernel_part
def _guess(terms: Terms, total: float, floor: float, norm: float) -> float:
    """Return about the root of phi, from one coordinate in 64, taken in 32 blocks; `floor` where that says nothing.

    The total for the sample is its fraction of the norm, which few large entries may hold; 1/64 where there is no norm.
    """
    d = terms.x.shape[0]
    length = d // (SAMPLE_BLOCKS * SAMPLE_FRACTION)
    if length < 8:
        return floor
    threshold, known, fraction = floor, -1.0, 1.0 / SAMPLE_FRACTION
    for step in range(SAMPLE_STEPS):
        moment = slope = n_above = 0.0
        for block in range(SAMPLE_BLOCKS):
            start = block * (d // SAMPLE_BLOCKS)
            sums = summed.sums_above(summed.cut(terms, start, start + length), threshold)
            moment += sums.moment
            slope += sums.slope
            n_above += sums.n_above
        if step == 0 and norm > 0.0:
            fraction = moment / norm
        if n_above == known or slope == 0.0:
            break
        known = n_above
        threshold = max(threshold, (moment - fraction * total) / slope)
    return threshold


@kernel_part
def _all_blocks(d: int) -> int:
    """Return the set of all blocks, as bits. Few coordinates make one block."""
    return (1 << N_BLOCKS) - 1 if d >= N_BLOCKS * SHORTEST_BLOCK else 1


@kernel_part
def _bounds(d: int, block: int) -> tuple[int, int]:
    """Return the first coordinate of a block and the one behind its last."""
    if d < N_BLOCKS * SHORTEST_BLOCK:
        return 0, d
    return d * block // N_BLOCKS, d * (block + 1) // N_BLOCKS


@kernel_part
def _sums_in_blocks(terms: Terms, origin: float, threshold: float, blocks: int) -> tuple[Sums, int]:
    """Return the sums over what lies above in the given blocks, and the blocks where something does."""
    moment = slope = n_above = n_far = 0.0
    seen, block = 0, 0
    while blocks >> block:
        if (blocks >> block) & 1:
            start, stop = _bounds(terms.x.shape[0], block)
            part = summed.cut(terms, start, stop)
            sums = summed.sums_above(part, threshold) if origin == 0.0 else summed.sums_above_from(part, origin, threshold)
            moment += sums.moment
            slope += sums.slope
            n_above += sums.n_above
            n_far += sums.n_far
            if sums.n_above > 0.0:
                seen |= 1 << block
        block += 1
    return Sums(moment, slope, n_above, n_far), seen


@kernel_part
def _climb(terms: Terms, total: float, origin: float, floor: float, start: float) -> tuple[float, Sums]:
    """Return the root of phi, measured from origin and known to be >= floor, and the sums there.

    By Newton steps, each of which ends at or left of the root, for phi is convex. Right of the root, where only a start
    can be, they may end far left, so that the next point is rather a sixteenth as high.
    """
    root, point = floor, start
    known = -1.0  # how many coordinates were above the last point
    blocks, n_back = _all_blocks(terms.x.shape[0]), 0
    while True:
        sums, seen = _sums_in_blocks(terms, origin, point, blocks)
        if sums.n_above == known or (sums.slope == 0.0 and point == root):
            return root, sums
        step = (sums.moment - total) / sums.slope if sums.slope > 0.0 else -np.inf
        if step > point:
            root, point, known, blocks = step, step, sums.n_above, seen
        elif point == root:
            return root, sums
        else:
            n_back += 1
            root = max(root, step)
            is_high = point > 0.0 and n_back <= MAX_STEPS_BACK
            point = max(root, STEP_BACK * point) if is_high else root
            known, blocks = -1.0, _all_blocks(terms.x.shape[0])


@kernel_part
def _find(terms: Terms, total: float, floor: float, norm: float) -> tuple[float, float, float]:
    """Return the root lam >= floor of phi as origin and lam - origin, and the slope there; norm is sum c u, or 0."""
    root, sums = _climb(terms, total, 0.0, floor, _guess(terms, total, floor, norm))
    if sums.n_far > 0.0:
        return 0.0, root, sums.slope
    top = summed.largest_height(terms)
    size = abs(top)
    if size == 0.0:
        return 0.0, root, sums.slope
    root, sums = _climb(terms, total, top, -size, root - top if root < top else -0.5 * size)
    return top, root, sums.slope


@kernel_part
def _value(terms: Terms, i: int, origin: float, threshold: float) -> float:
    """Return y, with the sign of x; no negative zeros."""
    x = terms.x[i]
    if origin == 0.0:
        y = max(x, terms.mirror * x) - threshold * summed.rate_at(terms, i)
    else:
        y = summed.rate_at(terms, i) * (summed.height_at(terms, i, origin) - threshold)
    y = y if y > 0.0 else 0.0
    return float(terms.mirror * y if x < 0.0 else y) + 0.0


@reassociated_part
def _write(terms: Terms, origin: float, threshold: float, total: float, out: Vector) -> tuple[float, float]:
    """Write y, and return sum c |y| as `split_sum` does."""
    sigma = summed.splitter(total, out.shape[0])
    high = low = 0.0
    for i in range(terms.x.shape[0]):
        out[i] = _value(terms, i, origin, threshold)
        value = summed.weighted_size(out, terms.weights, i)
        part = summed.high_part(value, sigma)
        high += part
        low += value - part
    return high, low


@reassociated_part
def _plain_sum(terms: Terms) -> float:
    total = 0.0
    for i in range(terms.x.shape[0]):
        total += summed.weighted_at(terms, i)
    return total


@kernel_part
def _missing(total: float, sums: tuple[float, float]) -> float:
    return (total - sums[0]) - sums[1]


@kernel_part
def _lowered(terms: Terms, i: int, amount: float, y: float) -> float:
    size = abs(y) + amount * summed.rate_at(terms, i)
    size = size if size > 0.0 else 0.0
    size = size if y != 0.0 else 0.0
    return (-size if y < 0.0 else size) + 0.0


@reassociated_part
def _lower_threshold(terms: Terms, amount: float, total: float, out: Vector) -> tuple[float, float]:
    """Lower the threshold of what was written by an amount too small to be subtracted from it; return sum c |y|."""
    sigma = summed.splitter(total, out.shape[0])
    high = low = 0.0
    for i in range(out.shape[0]):
        out[i] = _lowered(terms, i, amount, out[i])
        value = summed.weighted_size(out, terms.weights, i)
        part = summed.high_part(value, sigma)
        high += part
        low += value - part
    return high, low


@kernel_part
def _give_to_one(terms: Terms, missing: float, out: Vector) -> bool:
    """Give what is missing to the coordinate that costs least, the one of largest slope; return whether it could."""
    chosen, most = -1, 0.0
    for i in range(out.shape[0]):
        k = summed.slope_at(terms, i)
        if k > most or (k == most and abs(out[i]) > abs(out[chosen])):
            chosen, most = (i, k) if out[i] != 0.0 else (chosen, most)
    if chosen < 0:
        return False
    amount = missing / terms.weights.entry_of(chosen)
    if not abs(amount) < 0.5 * abs(out[chosen]):
        return False
    out[chosen] += amount if out[chosen] > 0.0 else -amount
    return True


@kernel_part
def _solve(terms: Terms, total: float, floor: float, norm: float, out: Vector) -> None:
    origin, threshold, slope = _find(terms, total, floor, norm)
    missing = _missing(total, _write(terms, origin, threshold, total, out))  # from here on terms.x may be out
    if slope > 0.0:
        missing = _missing(total, _lower_threshold(terms, missing / slope, total, out))
    if ROUNDING * total < abs(missing) < total and not _give_to_one(terms, missing, out):  # one was cut off at 0
        for i in range(out.shape[0]):
            out[i] += missing / total * out[i]


@kernel_part
def onto_simplex(terms: Terms, total: float, out: Vector) -> None:
    """Project onto {y >= 0, sum c y = total}; an x that is not finite is copied, so that a divergence is seen."""
    if np.isfinite(_plain_sum(terms)):
        _solve(terms, total, -np.inf, 0.0, out)
    else:
        copy(terms.x, out)


@kernel_part
def onto_l1_ball(terms: Terms, radius: float, out: Vector) -> None:
    """Project onto {sum c |y| <= radius}; an x that is not finite is copied, so that a divergence is seen."""
    norm = _plain_sum(terms)
    outside = radius * (1.0 - SLACK) < norm < np.inf
    if outside and norm < radius * (1.0 + SLACK):
        high, low = summed.split_sum(terms.x, terms.weights, radius)
        outside = (radius - high) - low < 0.0
    if outside:
        _solve(terms, radius, 0.0, norm, out)
    else:
        copy(terms.x, out)
