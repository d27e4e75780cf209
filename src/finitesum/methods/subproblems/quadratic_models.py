"""Minimisers of a quadratic model q(w) = g'(w - y) + 1/2 (w - y)'H (w - y) + r(w): what NIM and Newton's method solve.

* smooth: the Cholesky factor of H, O(d^3);
* an l1 penalty: coordinate descent, and unless it comes close enough the Cholesky factor on the support that it found:
  the minimiser that belongs to its signs (`finitesum.methods.subproblems.active_set`);
* a box, an l1 ball, a simplex: the same, with bounds or a multiplier; where that does not end, accelerated projected
  gradients with restarts do;
* a half-space: the free minimiser, or that on its plane; an l2 ball: Newton's method for the multiplier;
* a polyhedron: the multipliers of its inequalities, by an active-set method;
* several outputs, an l1 ball, an l2 ball or a simplex for each: Newton's method on the prox-gradient mapping, and sweeps
  over the outputs (`finitesum.methods.subproblems.output_models`);
* any other set or convex penalty: accelerated proximal gradients with restarts.

A matrix H that is not positive definite to working accuracy (no l2 penalty and too few rows, a loss that is flat far out)
has its diagonal raised until it is, or until the minimiser is found.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import eigsh

from finitesum.constraints import Polyhedron
from finitesum.constraints.multipliers import multipliers_of
from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.core.symmetric import mirrored
from finitesum.methods.subproblems import group_models, output_models
from finitesum.methods.subproblems.active_set import ROUNDING, is_settled, minimised, on_plane
from finitesum.methods.subproblems.model_descent import FEW_COORDINATES, descend
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.problems.intervals import Intervals
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import Groups

#: Passes of coordinate descent, at most: of many variables they cost about as much as a factor. Passes without a change of
#: signs after which few variables, or those that are to be exact, have their active set.
DESCENT_PASSES, SETTLED_PASSES = 100, 5

#: Multiplications of coordinate descent that take as long as a step of the active set: its calls, an entry of the matrix in
#: its products, and a cube of the coordinates that are free in its factor.
OF_CALLS, OF_PRODUCTS, OF_FACTOR = 5e5, 5.0, 0.2

#: The change of a slope in a pass, relative to the tolerance as a norm, at which coordinate descent ends.
CLOSE = 0.5

#: Multipliers of an l1 ball that are tried before passes become more, and what they differ by, relatively, where they are
#: the same.
MOST_MULTIPLIERS, SAME_MULTIPLIER = 8, 0.01

#: What a diagonal is raised by, relatively, where the point that was found leaves more than half of the model's optimality,
#: or is not downhill.
SHIFTS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)

#: The least curvature that is divided by.
TINY = 1e-300

#: Fewer variables than this have their eigenvalues computed exactly.
FEW = 200

#: Prox-gradient steps that a model gets at most.
MOST_STEPS = 10_000

#: Newton steps to the multiplier of an l2 ball, at most: the first is 0, from where each falls short of the root by less.
MOST_ROOT_STEPS = 60


def _largest_eigenvalue(hessian: Matrix) -> float:
    """Return the largest eigenvalue, or a little more."""
    if hessian.shape[0] < FEW:
        return float(eigvalsh(hessian, check_finite=False)[-1])
    start = np.ones(hessian.shape[0])
    return 1.05 * float(eigsh(hessian, 1, v0=start, tol=1e-2, return_eigenvectors=False)[0])


def _by_prox_gradients(term: ConvexTerm, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    largest = _largest_eigenvalue(hessian)
    step_size = 1.0 / largest if largest > 0.0 else 1.0
    w = point = y
    t = 1.0
    for _ in range(MOST_STEPS):
        moved = term.prox_step(point, gradient + hessian @ (point - y), step_size)
        if not np.abs(point - moved).max() > tolerance * min(step_size, 1.0):
            return moved
        restart = np.dot(point - moved, moved - w) > 0.0
        t_next = 1.0 if restart else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        point = moved if restart else moved + (t - 1.0) / t_next * (moved - w)
        w, t = moved, t_next
    return w


def _in_half_space(term: ConvexTerm, half_space: Any, hessian: Matrix, gradient: Vector, y: Vector) -> Vector:
    """Return the minimiser over a half-space: free, or on its plane."""
    if term.n_blocks > 1:
        return _in_polyhedron(term, Polyhedron(half_space.normal[None], half_space.offset), hessian, gradient, y)
    normal = np.zeros(y.size)
    normal[: term.n_columns] = half_space.normal
    w: Vector = y - solve_spd(hessian, gradient)
    if float(normal @ w) > half_space.offset:
        step, _ = on_plane(mirrored(hessian), -gradient, normal, half_space.offset - float(normal @ y))
        w = y + step
    return w  # no projection, which sees no curvature


def _in_l2_ball(term: ConvexTerm, ball: Any, hessian: Matrix, gradient: Vector, y: Vector) -> Vector:
    """Return the minimiser over an l2 ball.

    (H + m D) (w - y) = -g - m D y, with D the identity on the coefficients; m >= 0 is such that their norm is the radius,
    by Newton's method on 1 / ||w(m)||, which is nearly linear in m.
    """
    penalised = np.arange(term.n_columns)
    multiplier, w = 0.0, y
    for _ in range(MOST_ROOT_STEPS):
        shifted, right = hessian.copy(), -gradient
        shifted[penalised, penalised] += multiplier
        right[penalised] -= multiplier * y[penalised]
        w = y + solve_spd(shifted, right)
        norm = float(np.linalg.norm(w[penalised]))
        if not norm > (1.0 + 4e-16) * ball.radius:
            break
        inner = np.zeros(w.size)
        inner[penalised] = w[penalised]
        multiplier += norm**2 / float(inner @ solve_spd(shifted, inner)) * (norm - ball.radius) / ball.radius
    return term.project(w)


def _in_polyhedron(term: ConvexTerm, polyhedron: Any, hessian: Matrix, gradient: Vector, y: Vector) -> Vector:
    """Return the minimiser over a polyhedron, that of each output, by the multipliers of all inequalities."""
    m, n_outputs = polyhedron.matrix.shape[0], term.n_blocks
    blocks = np.zeros((n_outputs, m, n_outputs, y.size // n_outputs))
    for k in range(n_outputs):
        blocks[k, :, k, : term.n_columns] = polyhedron.matrix
    matrix, limits = blocks.reshape(n_outputs * m, y.size), np.tile(polyhedron.limits, n_outputs)
    answers = solve_spd(hessian, np.column_stack([gradient, matrix.T]))
    free, directions = y - answers[:, 0], answers[:, 1:]
    multipliers = multipliers_of(np.ascontiguousarray(matrix @ directions), matrix @ free - limits)
    w: Vector = free - directions @ multipliers
    tight = multipliers > 0.0
    if tight.any():  # what rounding left of the inequalities that hold with equality
        excess = matrix[tight] @ w - limits[tight]
        w = w - directions[:, tight] @ solve_spd(mirrored(matrix[tight] @ directions[:, tight]), excess)
    return w


#: Where the minimiser has a form of its own: (term, set, H, g, y) -> the minimiser over the set.
CLOSED_FORMS: dict[str, Callable[[ConvexTerm, Any, Matrix, Vector, Vector], Vector]] = {
    "plane": _in_half_space,
    "planes": _in_polyhedron,
    "l2-norm": _in_l2_ball,
}


def minimise_model(term: ConvexTerm, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    """Return the minimiser of g'(w - y) + 1/2 (w - y)'H (w - y) + r(w), with the term's r.

    H >= 0 is symmetric; its lower triangle is enough where there is no r. The tolerance bounds ||w - prox(w - q'(w))||_inf
    where the minimiser is found by iteration; 0 asks for rounding errors. Where the model is not finite the result is NaN,
    so that a divergence is seen.
    """
    if not (np.isfinite(np.diagonal(hessian)).all() and np.isfinite(gradient).all()):
        return np.full_like(y, np.nan)
    if term.is_smooth:
        return y - solve_spd(hessian, gradient)
    rounding = ROUNDING * float((np.abs(gradient) + np.abs(hessian) @ np.abs(y)).max())
    on_planes = term.constraint.boundary in ("plane", "planes")
    if term.n_blocks > 1 and term.is_constrained and not (term.constraint.is_separable or on_planes):
        return output_models.minimised(term, (hessian, gradient, y), tolerance, rounding, minimise_model)
    if term.n_blocks > 1 and term.is_elastic_net and not on_planes:
        term, order = term.in_one_block
        end = np.empty_like(y)
        end[order] = minimise_model(term, hessian[np.ix_(order, order)], gradient[order], y[order], tolerance)
        return end
    hidden = max(tolerance, rounding)
    if isinstance(term.penalty, Groups):
        return group_models.minimised(term, hessian, gradient, y, math.sqrt(y.size) * hidden)
    closed_form, intervals, linear = CLOSED_FORMS.get(term.constraint.boundary), term.intervals, gradient
    if intervals is not None:
        intervals, linear = intervals.without_signs(gradient)
    if closed_form is None and intervals is None:
        return _by_prox_gradients(term, hessian, gradient, y, hidden)
    enough = max(0.5 * term.optimality(y, gradient), 10.0 * math.sqrt(y.size) * hidden)
    best, least, start = y, math.inf, term.project(y)
    for shift in SHIFTS:
        raised = hessian if shift == 0.0 else hessian + np.diag(shift * np.diagonal(hessian))
        if closed_form is not None:
            w = closed_form(term, term.constraint, raised, gradient, y)
        else:
            assert intervals is not None
            by_descent = tolerance if y.size > FEW_COORDINATES else 0.0
            has_intercept = term.n_blocks == term.n_free == 1
            w = _started(intervals, raised, linear, y, start, by_descent, has_intercept=has_intercept)
            if by_descent > 0.0 and term.optimality(w, gradient + raised @ (w - y)) <= by_descent:
                return w
            w = minimised(intervals, raised, linear, y, w, tolerance)
        if (left := term.optimality(w, gradient + raised @ (w - y))) < least:
            best, least = w, left
        rise = float(gradient @ (w - y)) + term.rise(y, w)
        if left <= enough and rise <= ROUNDING * float(np.abs(gradient) @ np.abs(w - y)):
            break
    return best


def _started(
    intervals: Intervals,
    hessian: Matrix,
    gradient: Vector,
    y: Vector,
    w: Vector,
    tolerance: float,
    *,
    has_intercept: bool = False,
) -> Vector:
    """Return a point of the set with most of the minimiser's active set, by coordinate descent from one, w.

    A point that no coordinate at rest is asked to leave may be near already: few passes show whether others come to rest.
    With a tolerance it is the minimiser to that accuracy, where that takes few passes. Passes go on, twice as many as
    before, while they take less time than steps of the active set would for what the last ones changed in it. An intercept
    follows the other coordinates beside columns far from 0, which so see centred ones.
    """
    slope = gradient + hessian @ (w - y)
    if intervals.sizes.size and not intervals.is_equal:
        return _started_in_ball(intervals, hessian, gradient, y, w, slope)
    if intervals.is_equal:
        return w
    is_near, is_small = is_settled(intervals, w, slope), w.size <= FEW_COORDINATES
    if is_near and is_small:
        return w
    w, most_settled = w.copy(), DESCENT_PASSES if tolerance > 0.0 else SETTLED_PASSES
    n_passes, most_first = (SETTLED_PASSES, SETTLED_PASSES) if is_near else (DESCENT_PASSES, most_settled)
    limits, change = (intervals.thresholds, intervals.lower, intervals.upper), CLOSE * tolerance / math.sqrt(w.size)
    goes = _descend_beside_intercept if has_intercept and _is_far_from_centred(hessian) else descend
    face, is_worth, ends = intervals.face(w), True, (n_passes, most_first, change)
    while is_worth and not goes(hessian, w, slope, *limits, ends):
        before, face, n_passes = face, intervals.face(w), 2 * n_passes
        is_worth, ends = _is_worth(n_passes, w, face != before), (n_passes, most_settled, change)
    return w


def _is_worth(n_passes: int, w: Vector, changed: Flags) -> bool:
    """Return whether passes of coordinate descent take less time than a step of the active set for each that changed.

    Coordinates that are not 0 count as free, which those at another bound of a box are not.
    """
    n_free = int(np.count_nonzero(w))
    of_step = OF_CALLS + OF_PRODUCTS * w.size**2 + OF_FACTOR * n_free**3
    return bool(np.count_nonzero(changed) * of_step > float(n_passes) * n_free * w.size)


def _is_far_from_centred(hessian: Matrix) -> bool:
    """Return whether the last coordinate, an intercept, shares more with the others than it could with orthogonal ones."""
    curvatures, last = np.diagonal(hessian)[:-1], hessian[-1, -1]
    return last > 0.0 and bool((hessian[:-1, -1] ** 2 / np.maximum(curvatures, TINY)).sum() > last)


def _descend_beside_intercept(
    hessian: Matrix, w: Vector, slope: Vector, thresholds: Vector, lower: Vector, upper: Vector, ends: Any
) -> bool:
    """Do what `descend` does in all coordinates but the last one, which is at its best whatever they are."""
    across, curvature = hessian[:-1, -1], hessian[-1, -1]
    reduced, at = hessian[:-1, :-1] - np.outer(across, across / curvature), w[:-1].copy()
    of_others = slope[:-1] - across * (slope[-1] / curvature)
    has_ended = descend(reduced, at, of_others, thresholds[:-1], lower[:-1], upper[:-1], ends)
    w[-1] -= (slope[-1] + across @ (at - w[:-1])) / curvature
    w[:-1], slope[:-1], slope[-1] = at, of_others, 0.0
    return bool(has_ended)


def _started_in_ball(
    intervals: Intervals, hessian: Matrix, gradient: Vector, y: Vector, w: Vector, slope: Vector
) -> Vector:
    """Do the same in an l1 ball: a penalty with a multiplier.

    The multiplier is found by turns: with that at which the sum of sizes is at its bound on the face of the point,
    coordinates descend to the next face; once it is found, or was tried often, they go on as they do without a ball. Where
    it is 0 the ball may be too large to matter.
    """
    sizes, multiplier, is_small = intervals.sizes, _multiplier(intervals, slope, w), w.size <= FEW_COORDINATES
    is_inside = w.any() and float(sizes @ np.abs(w)) < (1.0 - 1e-9) * intervals.total
    on_face, is_tried = 0.0 if is_inside else multiplier, False
    k, n_passes, face, around = 0, DESCENT_PASSES, intervals.face(w), (0.0, math.inf)
    is_near, start = is_settled(intervals._replace(thresholds=intervals.thresholds + multiplier * sizes), w, slope), w
    if is_small and is_near:
        return w
    w = w.copy()
    while True:
        if on_face == 0.0 and not is_tried and not intervals.thresholds.any():
            is_tried, free = True, y - solve_spd(hessian, gradient)
            if sizes @ np.abs(free) <= intervals.total:
                return free
        thresholds = intervals.thresholds + multiplier * sizes
        ends = n_passes, SETTLED_PASSES if is_small or is_near else DESCENT_PASSES, 0.0
        has_ended = descend(hessian, w, slope, thresholds, intervals.lower, intervals.upper, ends)
        before, last, face = multiplier, face, intervals.face(w)
        if is_near and has_ended and (face == last).all():  # the start has the sum at its bound, w not
            return start
        is_near, on_face = False, _multiplier_on_face(intervals, hessian, slope, w)
        multiplier = min(max(on_face, 0.3 * before), 3.0 * before)
        if not is_small:
            is_large = float(sizes @ np.abs(w)) > intervals.total
            multiplier, around = _bracketed(multiplier, before, around, is_too_small=is_large)
        k, is_found = k + 1, abs(multiplier - before) <= SAME_MULTIPLIER * before
        if is_found or k >= MOST_MULTIPLIERS:
            n_passes *= 2
            if (has_ended and is_found) or not _is_worth(n_passes, w, face != last):
                break
    size = float(sizes @ np.abs(w))
    is_at_bound = 0.9 * intervals.total < size  # where the multiplier is that of the minimiser
    return np.where(sizes > 0.0, w * (intervals.total / size), w) if is_at_bound else w


def _bracketed(
    proposed: float, tried: float, around: tuple[float, float], *, is_too_small: bool
) -> tuple[float, tuple[float, float]]:
    """Return the next multiplier, and what it lies between, after one that was tried.

    That which the face proposes is on the wrong side where H is singular on it, or the point not yet the minimiser.
    """
    below, above = (max(around[0], tried), around[1]) if is_too_small else (around[0], min(around[1], tried))
    if (proposed > tried) != is_too_small:
        proposed = 0.5 * (below + above) if above < math.inf else 2.0 * tried
    return proposed, (below, above)


def _multiplier(intervals: Intervals, slope: Vector, w: Vector) -> float:
    """Return a guess at the multiplier of a sum of sizes: that which w and the slope imply, or else half of the largest."""
    if (implied := -float(slope @ w) / intervals.total) > 0.0:
        return implied
    counted = intervals.sizes > 0.0
    return 0.5 * float(np.max(np.abs(slope[counted]) / intervals.sizes[counted]))


def _multiplier_on_face(intervals: Intervals, hessian: Matrix, slope: Vector, w: Vector) -> float:
    """Return the multiplier at which the minimiser over the face of w has the sum of sizes at its bound, at least 0."""
    free = np.flatnonzero((w != 0.0) | (intervals.sizes == 0.0))
    signs = np.sign(w[free])
    normal, right = intervals.sizes[free] * signs, slope[free] + intervals.thresholds[free] * signs
    if not normal.any():
        return 0.0
    solutions = solve_spd(hessian[np.ix_(free, free)], np.column_stack([right, normal]))
    excess = float(normal @ (w[free] - solutions[:, 0])) - intervals.total
    multiplier = excess / float(normal @ solutions[:, 1])
    return multiplier if multiplier > 0.0 else 0.0  # NaN, too
