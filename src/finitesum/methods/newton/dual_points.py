"""The points w that slopes of a loss with corners lead to: see `finitesum.methods.newton.dual_ascent`."""

import math
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.sparse import issparse

from finitesum.core.arrays import Vector
from finitesum.evaluation.certificates import error_within
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.row_products import combination, predictions
from finitesum.losses import Cornered
from finitesum.problems.linear import Problem
from finitesum.problems.rows import n_entries, some_rows, to_matrix

#: How far from 1 the best factor of w is looked for first, then four times as far, and so on.
NEAREST = 1e-4

#: Shifts of all predictions that are tried, at most, and what they differ by, relatively, where they are the same.
MOST_SHIFTS, SAME_SHIFT = 50, 1e-14

#: Times that rows beyond their intervals are left at the ends, where there are fewer rows than columns: of more rows more
#: are at corners than can be, until the last few rounds.
TRIES = 5

#: Numbers that rows at corners and the matrices of their products may have, 32 MB.
MOST_NUMBERS = 4e6

#: The part of tol up to which a rough bound of F's rounding errors is good enough.
OF_ERROR = 1e-3

#: What a gram matrix of rows has on its diagonal beside, by its trace: rows may be the same.
JITTER = 1e-14


def loss_of(problem: Problem) -> Any:
    """Return the loss, whose methods take arrays."""
    return problem.loss


def value_at(problem: Problem, w: Vector, u: Vector) -> float:
    """Return F at w, given its predictions with their offsets."""
    return float(problem.weights @ loss_of(problem).value(u, problem.targets)) + problem.term.value(w)


def measures_within(problem: Problem, w: Vector, bound: float, tol: float) -> Measures | None:
    """Return F, a subgradient and the gap at w, given a bound of the minimum; None where it may be more than tol.

    The loss has sharp corners. F's rounding errors are counted in.
    """
    u = predictions(problem, w) + problem.offsets
    value = value_at(problem, w, u)
    gap = max(value - bound, 0.0) + error_within(problem, w, value, OF_ERROR * tol)
    if not gap <= tol:
        return None
    gradient = combination(problem, problem.weights * loss_of(problem).d1(u, problem.targets))
    problem.term.add_to(gradient, w)
    return Measures(value, gap, gradient)


def count_at_corners(problem: Problem, slopes: Vector) -> int:
    """Return how many rows have a slope between the least and the largest one of a corner."""
    (low, high, _), (other_low, other_high, _) = loss_of(problem).corners(problem.targets)
    at_other = (other_low < slopes) & (slopes < other_high)
    return int(np.count_nonzero((low < slopes) & (slopes < high) | at_other))


def point_of(problem: Problem, slopes: Vector, intercept: float) -> Vector:
    """Return w = -(1/l2) sum_i p_i s_i x_i, with this intercept."""
    w = combination(problem, -problem.weights * slopes) / problem.term.ridge
    if problem.has_intercept:
        w[-1] = intercept
    return np.asarray(w)


def solved_at_corners(
    problem: Problem, slopes: Vector, w: Vector, u: Vector, most_work: float
) -> tuple[Vector, Vector, Vector]:
    """Return slopes, w and u where rows at corners have predictions there, as long as slopes are within their intervals.

    Changes c_k of p_k s_k, and the change that w and the intercept b make with them, solve ::

        u_k - (1/l2) sum_j c_j x_j'x_k + change of b = corner of k,    sum_k c_k = -sum_i p_i s_i

    (the last only with an intercept) by a Cholesky factor: for all rows at corners that is where the dual function has its
    maximum over them. Where there are fewer rows than columns, rows beyond their intervals are left at their ends, and the
    others are solved for again; the bound that slopes gave before stays, should it be the better one. Where no slopes are
    found within their intervals, or it takes more products than `most_work` or too much memory, nothing changes, and the
    slopes that are returned are those that were given.
    """
    corners = corners_in_place(problem)
    used = problem.weights > 0.0
    inside = [np.flatnonzero((low < slopes) & (slopes < high) & used) for low, high, _ in corners]
    face = np.concatenate(inside)
    work = face.size**2 * (n_entries(problem.rows) / problem.n_rows + face.size / 3.0)
    n_numbers = face.size * (problem.rows.n_columns + 3.0 * face.size)
    if not (0 < face.size <= problem.dim and work <= most_work and n_numbers <= MOST_NUMBERS):
        return slopes, w, u
    lowest, highest, points = (np.concatenate([c[j][k] for c, k in zip(corners, inside, strict=True)]) for j in range(3))
    rows = to_matrix(some_rows(problem.rows, face)).astype(np.float64, copy=False)
    gram = rows @ rows.T
    gram = np.asarray(gram.toarray() if issparse(gram) else gram) / problem.term.ridge
    gram.flat[:: face.size + 1] += JITTER * gram.trace()
    weights, total = problem.weights[face], float(problem.weights @ slopes)
    least, most = weights * (lowest - slopes[face]), weights * (highest - slopes[face])
    change, shift, free = np.zeros(face.size), 0.0, np.ones(face.size, dtype=bool)
    for _ in range(TRIES if problem.n_rows <= problem.dim else 1):
        right = (u[face] - points - gram @ np.where(free, 0.0, change))[free]
        solved, info = lapack.dposv(gram[np.ix_(free, free)], np.column_stack([right, np.ones(right.size)]))[1:]
        if info != 0:
            return slopes, w, u
        if problem.has_intercept:
            shift = -float(total + change[~free].sum() + solved[:, 0].sum()) / float(solved[:, 1].sum())
        change[free] = solved[:, 0] + shift * solved[:, 1]
        within = (least < change) & (change < most)
        if within[free].all():
            break
        change = np.clip(change, least, most)
        free &= within
        if not free.any():
            return slopes, w, u
    else:
        return slopes, w, u
    there = np.clip(slopes[face] + change / weights, lowest, highest)
    slopes, moved = slopes.copy(), np.zeros(w.size)
    slopes[face] = there
    moved[: rows.shape[1]] = rows.T @ change / -problem.term.ridge
    moved[rows.shape[1] :] = shift
    return slopes, w + moved, u + predictions(problem, moved)


def with_best_intercept(problem: Problem, w: Vector, u: Vector) -> tuple[Vector, Vector]:
    """Return w with the intercept of the least loss, and its predictions: of an interval of intercepts the middle."""
    if not problem.has_intercept:
        return w, u
    shift, w = _best_shift(problem, u), w.copy()
    w[-1] += shift
    return w, u + shift


def _best_shift(problem: Problem, u: Vector) -> float:
    """Return the number that, added to all predictions, leaves the least loss."""
    if not isinstance(problem.loss, Cornered):
        return _smooth_shift(problem, u)
    corners = corners_in_place(problem)
    wanted = np.concatenate([point - u for _, _, point in corners])  # where a corner is met
    jumps = np.concatenate([problem.weights * (high - low) for low, high, _ in corners])
    order, at_first = np.argsort(wanted), -float(sum(problem.weights @ low for low, _, _ in corners))
    ends = np.searchsorted(np.cumsum(jumps[order]), [(1.0 - 1e-12) * at_first, (1.0 + 1e-12) * at_first])
    return float(wanted[order[np.minimum(ends, order.size - 1)]].mean())


def _smooth_shift(problem: Problem, u: Vector) -> float:
    """Return the same of a smooth loss, by Newton's method between the last shifts of both signs of the slope."""
    shift, low, high, step, loss = 0.0, -math.inf, math.inf, 1.0, loss_of(problem)
    for _ in range(MOST_SHIFTS):
        slope = float(problem.weights @ loss.d1(u + shift, problem.targets))
        curvature = float(problem.weights @ loss.d2(u + shift, problem.targets))
        if slope == 0.0:
            break
        low, high = (low, shift) if slope > 0.0 else (shift, high)
        t = shift - slope / curvature if curvature > 0.0 else math.nan
        if not low < t < high:
            is_between = high - low < math.inf
            t, step = (0.5 * (low + high), step) if is_between else (shift - math.copysign(step, slope), 4.0 * step)
        if abs(t - shift) <= SAME_SHIFT * (1.0 + abs(t)):
            break
        shift = t
    return shift


def corners_in_place(problem: Problem) -> list[tuple[Vector, Vector, Vector]]:
    """Return the least and the largest slope of each corner of the loss, and where it is, by row."""
    every = [np.broadcast_arrays(*corner, problem.targets)[:3] for corner in loss_of(problem).corners(problem.targets)]
    return [(low, high, point) for low, high, point in every if np.any(low < high)]


def with_best_factor(problem: Problem, w: Vector, u: Vector) -> tuple[Vector, Vector]:
    """Return t w, the intercept as it is, and its predictions, with the t > 0 of the least F."""
    d, targets = problem.rows.n_columns, problem.targets
    moves = u - problem.offsets - w[d:].sum()
    rest, curvature = u - moves, problem.term.ridge * float(w[:d] @ w[:d])

    def slope(t: float) -> float:
        return float((problem.weights * loss_of(problem).d1(rest + t * moves, targets)) @ moves) + t * curvature

    start, step = slope(1.0), NEAREST
    if not 0.0 < abs(start) < math.inf or curvature <= 0.0:
        return w, u
    sign, last = -math.copysign(1.0, start), 1.0
    while (t := max(1.0 + sign * step, 0.0)) > 0.0 and sign * slope(t) < 0.0:
        last, step = t, 4.0 * step
    low, high = min(last, t), max(last, t)
    bends, jumps = [low], [0.0]
    for at_low, at_high, point in corners_in_place(problem):  # where rows meet corners between, and F's slope jumps
        with np.errstate(all="ignore"):
            meets = (point - rest) / moves
        inside = np.flatnonzero((low < meets) & (meets < high))
        bends.extend(meets[inside])
        jumps.extend(problem.weights[inside] * (at_high - at_low)[inside] * np.abs(moves[inside]))
    order = np.argsort(bends)
    places = np.asarray(bends)[order]
    before = slope(0.5 * (low + places[1])) if places.size > 1 else slope(0.5 * (low + high))
    before -= curvature * 0.5 * ((places[1] if places.size > 1 else high) - low)  # just behind low
    behind = before + np.cumsum(np.asarray(jumps)[order]) + curvature * (places - low)
    k = int(np.searchsorted(behind, 0.0, side="right")) - 1  # F falls behind the bend k still
    best = low if k < 0 else min(places[k] - behind[k] / curvature, places[k + 1] if k + 1 < places.size else high)
    scaled = w.copy()
    scaled[:d] *= best
    return scaled, rest + best * moves
