"""Minimisers of large quadratic models with bounds, or with a bound on the sum of sizes of each output's coefficients.

    min_w q(w) = g'(w - y) + 1/2 (w - y)'H (w - y),      l <= w <= u,      sum_{j of k} c_j |w_j| <= r_k (or = r_k, w >= 0)

The bounds of the sums are penalties with a multiplier m_k for each. A turn has three parts:

1. few passes of coordinate descent with the multipliers at hand, which sets coordinates free and fixes others;
2. the multipliers at which the minimiser on the face of w, w(m) = w - H^-1 (s + N m) with N_jk = c_j sign(w_j), has the
   sums at their bounds;
3. w + t (w(m) - w), with what would leave its interval put at the end of it: many coordinates are fixed at once, by one
   factor. t is 1, or the time when a half, a quarter, ... of those that come to an end have, or the first of them does: the
   first of these that brings the model with these multipliers down.

Where a turn no longer changes the face, the active-set method (`finitesum.methods.subproblems.active_set`) goes on, which
fixes coordinates one by one, and is exact.
"""

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.methods.subproblems import active_set
from finitesum.methods.subproblems.model_descent import descend
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.problems.intervals import Intervals

#: Turns, passes of descent in each, at most, and passes without a change of signs after which descent ends.
MOST_TURNS, MOST_PASSES, SETTLED_PASSES = 40, 20, 3

#: Rounds of the active-set method, at most: some, and as many as have factors of this many products. A working set changes
#: before its model's last coefficients do.
EXTRA_ROUNDS, PRODUCTS = 50, 1e11

#: What multipliers may differ by, relatively, where they are the same; by which factor they change at most; and which part
#: of the steepest slope the first ones are, at least.
SAME, MOST_CHANGE, FIRST = 1e-3, 5.0, 0.1

#: What sums are off their bounds, relatively, from which their multipliers go one way alone; and up to which they are put
#: there at the end.
NEAR, CLOSE = 0.01, 0.1

#: The least normal number.
TINY = float(np.finfo(np.float64).tiny)


class _Turn(NamedTuple):
    w: Vector
    slope: Vector  # of q at w
    multipliers: Vector  # of the sums
    factors: Vector  # by which these may change: above 1 those that grew last, and below 1 those that fell


def minimised(intervals: Intervals, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    """Return the minimiser, given a point of the set, y; the tolerance bounds what slopes may lack at their bounds."""
    turn = _Turn(
        y.copy(), gradient.copy(), _first_multipliers(intervals, y, gradient), np.full(intervals.n_sums, MOST_CHANGE)
    )
    little = SAME * FIRST * turn.multipliers
    for _ in range(MOST_TURNS):
        face, before = intervals.face(turn.w), turn.multipliers
        turn = _on_face(intervals, hessian, _descended(intervals, hessian, turn))
        is_same = (np.abs(turn.multipliers - before) <= SAME * np.abs(before) + np.abs(little)).all()
        if is_same and (face == intervals.face(turn.w)).all():
            break
    most = EXTRA_ROUNDS + int(PRODUCTS / max(y.size, 1) ** 3)
    return active_set.minimised(intervals, hessian, gradient, y, _in_set(intervals, turn, y), tolerance, most)


def _free(intervals: Intervals, w: Vector) -> Flags:
    return np.asarray((w > intervals.lower) & (w < intervals.upper) & ~(intervals.has_sign & (w == 0.0)))


def _descended(intervals: Intervals, hessian: Matrix, turn: _Turn) -> _Turn:
    """Return the point after coordinate descent with the multipliers at hand."""
    shares, (pull, thresholds) = _shares(intervals, turn.multipliers), (np.zeros(turn.w.size), intervals.thresholds)
    if intervals.is_equal:  # no coordinate is negative, and multipliers may be
        pull = shares
    else:
        thresholds = thresholds + shares
    w, slope = turn.w.copy(), turn.slope + pull
    descend(hessian, w, slope, thresholds, intervals.lower, intervals.upper, (MOST_PASSES, SETTLED_PASSES, 0.0))
    return turn._replace(w=w, slope=slope - pull)


def _shares(intervals: Intervals, multipliers: Vector) -> Vector:
    """Return what the multipliers of sums ask of the coordinates."""
    return intervals.spread(multipliers) * intervals.sizes if intervals.sizes.size else np.zeros(intervals.lower.size)


def _on_face(intervals: Intervals, hessian: Matrix, turn: _Turn) -> _Turn:
    """Return the point and the multipliers after the step to the minimiser on the face, cut off at the intervals' ends."""
    w, slope, multipliers, _ = turn
    chosen = np.flatnonzero(_free(intervals, w))
    if chosen.size == 0:
        return turn._replace(multipliers=0.5 * multipliers)
    signs = np.sign(w) if intervals.is_equal else np.where(intervals.has_sign, np.sign(w), 0.0)
    right = (slope + intervals.thresholds * signs)[chosen]
    normals = np.zeros((chosen.size, intervals.n_sums))
    if intervals.sizes.size:
        sum_of = intervals.spread(np.arange(intervals.n_sums))[chosen]
        normals[np.arange(chosen.size), sum_of] = (intervals.sizes * signs)[chosen]
    solutions = solve_spd(hessian[np.ix_(chosen, chosen)], np.column_stack([right, normals]))
    if intervals.sizes.size:
        multipliers = _multipliers(intervals, turn, (normals, solutions), w[chosen])
    factors = _factors(turn, multipliers)
    direction = np.zeros(w.size)
    direction[chosen] = -solutions[:, 0] - solutions[:, 1:] @ multipliers
    low = np.where(intervals.has_sign & (w > 0.0), 0.0, intervals.lower)
    high = np.where(intervals.has_sign & (w < 0.0), 0.0, intervals.upper)
    linear = intervals.thresholds * signs + _shares(intervals, multipliers) * signs
    bounds = np.where(direction < 0.0, low, high)
    times = np.divide(bounds - w, direction, out=np.full(w.size, np.inf), where=direction != 0.0)
    crossed = np.sort(times[times < 1.0])
    t, rank = 1.0, crossed.size
    while True:
        end = np.where(times <= t, bounds, w + t * direction)
        step = end - w
        change = hessian @ step
        if float((slope + linear + 0.5 * change) @ step) <= 0.0:
            return _Turn(end, slope + change, multipliers, factors)
        if rank == 0:
            return turn._replace(multipliers=multipliers, factors=factors)
        rank //= 2
        t = float(crossed[rank])


def _multipliers(intervals: Intervals, turn: _Turn, solved: tuple[Matrix, Matrix], w: Vector) -> Vector:
    """Return the multipliers at which the minimiser over the face of w has the sums at their bounds.

    A sum above its bound asks for no smaller one than before, whatever a singular matrix says, and one below for no larger
    one.
    """
    (normals, solutions), before = solved, turn.multipliers
    is_there, lengths = normals.any(axis=0), intervals.by_sum(intervals.sizes * np.abs(turn.w))
    excess, among = normals.T @ (w - solutions[:, 0]) - intervals.total, normals.T @ solutions[:, 1:]
    if intervals.is_equal:  # an output without a coefficient gets some
        found = before - np.abs(before)
        found[is_there] = solve_spd(among[np.ix_(is_there, is_there)], excess[is_there])
        return found
    change = np.maximum(turn.factors, 1.0 / turn.factors)
    least = np.where(lengths > (1.0 + NEAR) * intervals.total, before, before / change)
    most = np.where(lengths < (1.0 - NEAR) * intervals.total, before, before * change)
    found, held = np.where(is_there, before, least), is_there.copy()
    for _ in range(intervals.n_sums):
        if not held.any():
            break
        others = among[np.ix_(held, ~held)] @ found[~held]
        found[held] = solve_spd(among[np.ix_(held, held)], excess[held] - others)
        ends = np.clip(found, least, most)
        held &= ends == found
        if (ends == found).all():
            break
        found = ends
    return found


def _factors(turn: _Turn, multipliers: Vector) -> Vector:
    """Return by which factors multipliers may change next: their roots where these turn round, or larger ones again."""
    before, grew = turn.multipliers, multipliers > turn.multipliers
    change, has_grown = np.maximum(turn.factors, 1.0 / turn.factors), turn.factors > 1.0
    change = np.where(grew == has_grown, np.minimum(change**1.5, MOST_CHANGE), np.sqrt(change))
    return np.where(multipliers == before, turn.factors, np.where(grew, change, 1.0 / change))


def _in_set(intervals: Intervals, turn: _Turn, y: Vector) -> Vector:
    """Return a point of the set with the same coordinates at 0: sums that are nearly at their bounds are put there."""
    w = turn.w
    if intervals.sizes.size == 0:
        return w
    lengths = intervals.by_sum(intervals.sizes * np.abs(w))
    is_whole = (lengths > (1.0 - CLOSE) * intervals.total) | intervals.is_equal
    factors = np.where(is_whole & (lengths > 0.0), intervals.total / np.where(lengths > 0.0, lengths, 1.0), 1.0)
    is_empty = intervals.spread((lengths <= 0.0) & intervals.is_equal)  # a simplex does not hold 0
    counted = intervals.sizes > 0.0
    return np.where(counted, np.where(is_empty, y, w * intervals.spread(factors)), w)


def _first_multipliers(intervals: Intervals, w: Vector, slope: Vector) -> Vector:
    """Return a guess at the multipliers: those that w and its slope imply, and no less than a part of the largest."""
    if intervals.sizes.size == 0:
        return np.zeros(intervals.n_sums)
    lengths = intervals.by_sum(intervals.sizes * np.abs(w))
    implied = -intervals.by_sum(np.where(intervals.sizes > 0.0, slope * w, 0.0)) / np.maximum(lengths, TINY)
    if intervals.is_equal:
        return np.asarray(implied)
    steepness = np.divide(np.abs(slope), intervals.sizes, out=np.zeros(w.size), where=intervals.sizes > 0.0)
    largest, sum_of = np.zeros(intervals.n_sums), intervals.spread(np.arange(intervals.n_sums))
    np.maximum.at(largest, sum_of, steepness)
    return np.maximum(np.where(lengths > (1.0 - 1e-9) * intervals.total, implied, 0.0), FIRST * largest)
