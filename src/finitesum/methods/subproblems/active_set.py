"""The exact minimiser of a quadratic model with bounds, an l1 penalty, l1 balls or simplices: a primal active-set method.

A point has *free* coordinates, which lie within their interval, and others that rest at a bound of it; a coefficient with
an l1 penalty or in an l1 ball has the part of its interval with its sign, and at 0 no sign. With several outputs there is a
sum for each. A round goes to the minimiser over the free coordinates,

    min_p  s'p + 1/2 p'H p,      p_j = 0 for j not free,   <normal, p> = lacking  where a sum is at its bound,

or as far as the first of them comes to its bound, where that coordinate is fixed; where no sums are bounded, all that would
pass their bounds are fixed there at once, if the model is lower after the others' whole step. At such a minimiser the
coordinate whose slope asks the most for it, in the scale of its curvature, is set free [1, chapter 16.5]. The model falls
with every step that is not of length 0, so that no set of free coordinates comes back, and the number of rounds is bounded
all the same.
Factors see H scaled to a diagonal of ones: columns may be in any units.

References
----------
.. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006.
"""

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.problems.intervals import Intervals

#: The least normal number.
TINY = float(np.finfo(np.float64).tiny)

#: Rounds beside those that set each coordinate free once and fix it once.
EXTRA_ROUNDS = 50

#: Rounds in which all coordinates that ask for as much as this part of the most are set free at once; then it is one.
AT_ONCE_ROUNDS, MUCH = 30, 0.5

#: Rounding errors of a slope, relative to the sum of its terms' sizes.
ROUNDING = 1e-15

#: Minimisers over the same coordinates that are computed again, because a factor leaves rounding errors.
MOST_REFINED = 3


class _Point(NamedTuple):
    w: Vector
    step: Vector  # w - y, with digits that w may not have
    free: Flags
    signs: Vector  # of the coordinates whose size counts; 0 elsewhere
    is_tight: Flags  # (n_sums,)  whether a sum is held at its bound


def _begun(intervals: Intervals, w: Vector, y: Vector) -> _Point:
    signs = np.where(intervals.has_sign, np.sign(w), 0.0)
    free = (w > intervals.lower) & (w < intervals.upper) & ~(intervals.has_sign & (w == 0.0))
    is_tight = np.full(intervals.n_sums, intervals.is_equal)
    if intervals.sizes.size and not intervals.is_equal:
        is_tight = intervals.by_sum(intervals.sizes * np.abs(w)) >= intervals.total * (1.0 - 1e-12)
    return _Point(w, w - y, free, signs, is_tight)


def _normal(intervals: Intervals, point: _Point) -> Vector:
    """Return the gradient of the sums of sizes on the face."""
    return intervals.sizes * np.where(intervals.has_sign, point.signs, 1.0)


def _face_step(intervals: Intervals, hessian: Matrix, point: _Point, slope: Vector) -> tuple[Vector, Vector]:
    """Return the step to the minimiser over the free coordinates, and the multipliers of the sums."""
    free, step, multipliers = np.flatnonzero(point.free), np.zeros(slope.size), np.zeros(intervals.n_sums)
    if free.size == 0:
        return step, multipliers
    matrix = hessian[np.ix_(free, free)]
    right = -(slope + intervals.thresholds * point.signs)[free]
    normal = np.zeros(slope.size)
    if point.is_tight.any():
        normal[point.free] = (_normal(intervals, point) * intervals.spread(point.is_tight))[point.free]
    held = np.flatnonzero(intervals.by_sum(np.abs(normal)))
    if held.size == 0:
        step[free] = solve_spd(matrix, right)
        return step, multipliers
    lacking = intervals.total - intervals.by_sum(normal * point.w)
    lacking[np.abs(lacking) <= 1e-15 * intervals.total] = 0.0
    sum_of = intervals.spread(np.arange(intervals.n_sums))[free]
    step[free], multipliers[held] = on_planes(matrix, right, normal[free], [sum_of == k for k in held], lacking[held])
    return step, multipliers


def on_plane(matrix: Matrix, right: Vector, normal: Vector, lacking: float) -> tuple[Vector, float]:
    """Return p with matrix p + multiplier normal = right and normal'p = lacking, and the multiplier."""
    step, multipliers = on_planes(matrix, right, normal, [np.ones(normal.size, dtype=bool)], np.array([lacking]))
    return step, float(multipliers[0])


def on_planes(matrix: Matrix, right: Vector, normal: Vector, parts: list[Flags], lacking: Vector) -> tuple[Vector, Vector]:
    """Return p with matrix p + sum_k multiplier_k normal_k = right and normal_k'p = lacking_k, and the multipliers.

    The normals are the parts of one vector in coordinates of their own. Of each one coordinate is eliminated, that with the
    largest entry of the normal in the scale of the curvatures: so the planes are kept to the last digits, also where the
    matrix is nearly singular.
    """
    steepness = normal**2 / np.maximum(np.diagonal(matrix), TINY)
    gone = np.array([int(np.argmax(np.where(part, steepness, -1.0))) for part in parts])
    others = np.delete(np.arange(normal.size), gone)
    ratios = np.array([np.where(part, normal, 0.0)[others] / normal[k] for part, k in zip(parts, gone, strict=True)])
    columns, corner, base = matrix[np.ix_(gone, others)], matrix[np.ix_(gone, gone)], lacking / normal[gone]
    crossed = ratios.T @ columns
    reduced = matrix[np.ix_(others, others)] - crossed - crossed.T + ratios.T @ corner @ ratios
    rest = right[others] - ratios.T @ right[gone] - columns.T @ base + ratios.T @ (corner @ base)
    step = np.empty(normal.size)
    step[others] = solve_spd(reduced, rest) if others.size else 0.0
    step[gone] = base - ratios @ step[others]
    return step, np.asarray((right[gone] - matrix[gone] @ step) / normal[gone])


def _reach(intervals: Intervals, point: _Point, step: Vector) -> tuple[float, int, int]:
    """Return how long the step may be, and the coordinate, or the sum, that then comes to its bound (-1: none does)."""
    w = point.w
    low = np.where(point.signs > 0.0, 0.0, intervals.lower)
    high = np.where(point.signs < 0.0, 0.0, intervals.upper)
    ahead = np.where(step < 0.0, low, high) - w
    lengths = np.divide(ahead, step, out=np.full(w.size, np.inf), where=point.free & (step != 0.0))
    first = int(lengths.argmin())
    length, which = float(lengths[first]), first if lengths[first] < np.inf else -1
    if intervals.sizes.size and not point.is_tight.all():
        normal = _normal(intervals, point)
        growth = np.where(point.is_tight, 0.0, intervals.by_sum(normal * step))
        room = np.maximum(intervals.total - intervals.by_sum(normal * w), 0.0)
        until = np.divide(room, growth, out=np.full(growth.size, np.inf), where=growth > 0.0)
        if (least := float(until.min())) < length:
            return least, -1, int(until.argmin())
    return max(length, 0.0), which, -1


def _beyond(
    intervals: Intervals, hessian: Matrix, point: _Point, slope: Vector, step: Vector
) -> tuple[_Point, Vector, float]:
    """Return the end of a step in which coordinates stop at their bounds, each for itself.

    With it come the change of the slope and that of the model.
    """
    low = np.where(point.signs > 0.0, 0.0, intervals.lower)
    high = np.where(point.signs < 0.0, 0.0, intervals.upper)
    w, moved = np.where(point.free, np.clip(point.w + step, low, high), point.w), point.w + step
    stops = point.free & np.where(step < 0.0, moved <= low, (step > 0.0) & (moved >= high))
    change = np.where(stops, w - point.w, np.where(point.free, step, 0.0))
    along = hessian @ change
    rise = float((slope + intervals.thresholds * point.signs) @ change + 0.5 * (change @ along))
    signs = np.where(stops & (w == 0.0), 0.0, point.signs)
    return point._replace(w=w, step=point.step + change, free=point.free & ~stops, signs=signs), along, rise


def _wishes(intervals: Intervals, point: _Point, slope: Vector, multipliers: Vector) -> tuple[Vector, Vector]:
    """Return by how much the slope of each fixed coordinate asks for a step, and the sign of that step."""
    fixed, force = ~point.free, np.zeros(slope.size)
    if point.is_tight.any():
        force = intervals.spread(np.where(point.is_tight, multipliers, 0.0)) * intervals.sizes
    pull = slope + force + intervals.thresholds * point.signs
    has_room = np.where(pull < 0.0, point.w < intervals.upper, point.w > intervals.lower)
    at_bound, at_zero = np.abs(pull), np.abs(slope) - intervals.thresholds - force
    at_kink = intervals.has_sign & (point.signs == 0.0)
    wishes = np.where(fixed & has_room, np.where(at_kink, at_zero, at_bound), 0.0)
    return wishes, np.where(at_kink, -np.sign(slope), point.signs)


def is_settled(intervals: Intervals, w: Vector, slope: Vector) -> bool:
    """Return whether no coordinate that rests at a bound is asked to leave it; the bounds of sums apart."""
    none = np.zeros(intervals.n_sums)
    wishes, _ = _wishes(intervals, _begun(intervals, w, w)._replace(is_tight=none > 0.0), slope, none)
    return not (wishes > 1e-12 * np.abs(slope)).any()


def minimised(
    intervals: Intervals,
    hessian: Matrix,
    gradient: Vector,
    y: Vector,
    start: Vector,
    tolerance: float,
    most_rounds: int | None = None,
) -> Vector:
    """Return the minimiser of gradient'(w - y) + 1/2 (w - y)'H (w - y) + r(w); the best point after too many rounds.

    H >= 0 is symmetric, the start a point of the set; the tolerance bounds what a slope may lack, which is at least its
    rounding error: the smaller the step to the minimiser, the smaller that is.
    """
    point, n_refined, sizes = _begun(intervals, start, y), 0, np.abs(hessian)
    flat = max(tolerance, ROUNDING * float((np.abs(gradient) + sizes @ np.abs(y)).max()))  # no slope of a linear piece
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(hessian), TINY))
    slope = gradient + hessian @ point.step  # updated where a bound ends a step, and computed again at a face's minimiser
    for k in range(EXTRA_ROUNDS + 4 * start.size if most_rounds is None else most_rounds):
        step, multipliers = _face_step(intervals, hessian, point, slope)
        along = hessian @ step
        length, which, full = _reach(intervals, point, step)
        falls, curved = float((slope + intervals.thresholds * point.signs) @ step), float(step @ along)
        is_linear = -falls > flat * float(np.abs(step).sum()) and curved < -1e-8 * falls
        if is_linear and which < 0 and full < 0:  # without end: H is singular to rounding errors
            return point.w
        if length > 1.0 and not is_linear:
            length, which, full = 1.0, -1, -1
        if which >= 0 and not is_linear and not intervals.sizes.size:
            beyond, change, rise = _beyond(intervals, hessian, point, slope, step)
            if rise < length * falls + 0.5 * length**2 * curved:
                point, slope, n_refined = beyond, slope + change, 0
                continue
        total = point.step + length * step
        w = np.where(length * step == 0.0, point.w, y + total)
        if which >= 0:
            w[which] = (intervals.lower if step[which] < 0.0 else intervals.upper)[which]
            w[which] = 0.0 if step[which] * point.signs[which] < 0.0 else w[which]
            total[which] = w[which] - y[which]
            free, signs = point.free.copy(), point.signs.copy()
            free[which], signs[which] = False, signs[which] if w[which] != 0.0 else 0.0
            point, slope, n_refined = point._replace(w=w, step=total, free=free, signs=signs), slope + length * along, 0
            continue
        if full >= 0:
            is_tight = point.is_tight.copy()
            is_tight[full] = True
            point, slope, n_refined = point._replace(w=w, step=total, is_tight=is_tight), slope + length * along, 0
            continue
        lack = np.maximum(tolerance, ROUNDING * (np.abs(gradient) + sizes @ (np.abs(point.step) + np.abs(step))))
        point = point._replace(w=w, step=total)
        slope = gradient + hessian @ total
        residual = slope + intervals.thresholds * point.signs
        if point.is_tight.any():
            residual += intervals.spread(multipliers) * _normal(intervals, point)
        if (np.abs(residual) > lack)[point.free].any() and n_refined < MOST_REFINED:
            n_refined += 1
            continue
        if not intervals.is_equal and (multipliers[point.is_tight] < 0.0).any():
            is_tight = point.is_tight.copy()
            is_tight[int(np.argmin(np.where(is_tight, multipliers, 0.0)))] = False
            point, n_refined = point._replace(is_tight=is_tight), 0
            continue
        wishes, signs = _wishes(intervals, point, slope, multipliers)
        gain = np.where(wishes > lack, wishes * scale, 0.0)
        most = float(gain.max(initial=0.0))
        if not most > 0.0:
            return w
        joining = gain >= (MUCH * most if k < AT_ONCE_ROUNDS else most)
        point = point._replace(free=point.free | joining, signs=np.where(joining, signs, point.signs))
        n_refined = 0
    return point.w
