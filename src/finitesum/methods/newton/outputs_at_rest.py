r"""Working sets of several outputs on a set: the coefficients that do not rest, and the model of F in them.

With H_jj the diagonal of the Hessian and P the projection onto the set in the metric H_jj, a coefficient rests at w where

    w_j = P(w - s g / H_jj)_j    is 0 on an l1 ball or a simplex, or one of the bounds of a box,

for a small s: of an l1 ball, where |g_j| is at most the multiplier of its output's sum. The others are the working set,
ordered by |w - P(w - s g / H_jj)|_j sqrt(H_jj), the root of what F gains along one coordinate.
"""

import numpy as np

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.methods.subproblems import sums_models
from finitesum.problems.linear import Problem
from finitesum.problems.term import ConvexTerm

#: Sets whose solutions have coefficients that rest.
BOUNDARIES = ("bounds", "signs", "l1-norm", "sum")

#: New coefficients of a working set, at least and at most, and the most of all where those of a box that lie within count.
FEWEST_NEW, MOST_NEW, MOST_WITHIN = 256, 1000, 3000

#: The length of the step that asks which coefficients leave their place, relative to the largest coefficient.
SMALL = 1e-3

#: The least entry of the diagonal, relatively.
LEAST_CURVATURE = 1e-14

#: Length of a step below which there is damping; that after a first such step, the most, and that below which it is 0.
SHORT, FIRST_DAMPING, MOST_DAMPING, LEAST_DAMPING = 0.2, 1e-4, 0.1, 1e-9

#: By how much a model falls further, at least, where a raised diagonal helps.
LOWER = 1.02

#: What a diagonal is raised by, relatively, where a model's minimiser is not found; the part of its slope that may be left.
SHIFTS, LEFT = (0.0, 1e-12, 1e-10, 1e-8, 1e-6), 0.1


def curvatures_of(problem: Problem, scores: Matrix) -> Vector:
    """Return the diagonal of the Hessian of the smooth part, shape (K dim,)."""
    loss, outputs = several.loss_of(problem), range(problem.n_outputs)
    curvatures = loss.curvatures(scores)
    of_rows = np.stack([problem.weights * loss.curvature_entry(curvatures, k, k) for k in outputs], axis=1)
    return np.asarray(several.sum_of_rows(problem, of_rows, squared=True).reshape(-1) + problem.term.quadratic)


def squares_of(problem: Problem) -> Vector:
    """Return the weighted mean squares of the columns, for the coefficients of each output, shape (K dim,)."""
    weights = np.repeat(problem.weights[:, None], problem.n_outputs, axis=1)
    return np.asarray(several.sum_of_rows(problem, weights, squared=True).reshape(-1))


def next_damping(damping: float, t: float) -> float:
    """Return the damping after a step of length t: more where the model reached far too far, less after whole steps.

    Examples
    --------
    >>> next_damping(0.0, 1.0), next_damping(0.0, 0.5), next_damping(0.0, 0.125), next_damping(0.01, 1.0)
    (0.0, 0.0, 0.0008, 0.002)
    """
    if t == 1.0:
        return 0.2 * damping if damping > LEAST_DAMPING else 0.0
    return damping if t >= SHORT else min(max(damping, FIRST_DAMPING) / max(t, 0.1), MOST_DAMPING)


def projected_step(term: ConvexTerm, w: Vector, gradient: Vector, diagonal: Vector, t: float) -> Vector:
    """Return P(w - t g / H_jj), in the metric of H_jj, with thresholds before bounds: of intercepts the step."""
    metric, end = np.maximum(diagonal, LEAST_CURVATURE * float(diagonal.max(initial=0.0)) or 1.0), np.empty_like(w)
    moved = w - t * gradient / metric
    if term.has_l1:
        moved = np.sign(moved) * np.maximum(np.abs(moved) - t * term.thresholds / metric, 0.0)
    term.compiled.projection.project_into(moved, metric, end)
    return end


def not_at_rest(problem: Problem, w: Vector, gradient: Vector, diagonal: Vector) -> Flags:
    """Return which coefficients make the working set, shape (K dim,): intercepts do always."""
    term, intervals = problem.term, problem.term.intervals
    assert intervals is not None
    metric = np.maximum(diagonal, LEAST_CURVATURE * float(diagonal.max(initial=0.0)) or 1.0)
    step = gradient / metric
    is_free = np.ones(problem.dim, dtype=bool)
    is_free.reshape(problem.n_outputs, -1)[:, : term.n_columns] = False
    longest = float(np.abs(step[~is_free]).max(initial=0.0))
    length = SMALL * (float(np.abs(w[~is_free]).max(initial=0.0)) or 1.0) / (longest or 1.0)
    end = projected_step(term, w, gradient, diagonal, length)
    at_zero = (w == 0.0) & (end == 0.0)
    at_bound = ((w == intervals.lower) & (end == w)) | ((w == intervals.upper) & (end == w))
    rests = (intervals.has_sign & at_zero) | at_bound | (diagonal == 0.0) & (w == 0.0)
    if intervals.sizes.size:
        is_old = (w != 0.0) & ~is_free
    else:
        is_old = (w > intervals.lower) & (w < intervals.upper) & ~is_free & ~rests
    gains = np.where(is_free | rests, 0.0, np.abs(end - w) * np.sqrt(metric))
    n_old = int(np.count_nonzero(is_old))
    if n_old > MOST_WITHIN and not intervals.sizes.size:
        return np.asarray(is_free | _largest(gains, MOST_WITHIN))
    return np.asarray(is_free | is_old | _largest(np.where(is_old, 0.0, gains), min(max(FEWEST_NEW, n_old), MOST_NEW)))


def _largest(sizes: Vector, most: int) -> Flags:
    """Return which numbers are the largest ones, at most a given number of them, and not 0."""
    found = sizes > 0.0
    if np.count_nonzero(found) > most:
        found = np.zeros(sizes.size, dtype=bool)
        found[np.argpartition(sizes, sizes.size - most)[sizes.size - most :]] = True
    return found


def end_of_model(term: ConvexTerm, hessian: Matrix, w: Vector, gradient: Vector, chosen: Indices, part: float) -> Vector:
    """Return the point of the set, (K dim,), at which the model in the chosen coefficients is least.

    The part of the slope's size that may be left is that of coefficients at w.
    """
    assert term.intervals is not None
    intervals, linear = term.intervals.on(chosen).without_signs(gradient[chosen])
    y, slope = w[chosen], np.zeros(w.size)
    slope[chosen] = gradient[chosen]
    first = term.optimality(w, slope)
    best, least = w, 0.0
    for shift in SHIFTS:
        raised = hessian if shift == 0.0 else hessian + np.diag(shift * np.diagonal(hessian))
        end = w.copy()
        end[chosen] = sums_models.minimised(intervals, raised, linear, y, part * first)
        step = end[chosen] - y
        change = hessian @ step
        slope[chosen] = gradient[chosen] + change
        fall = float(linear @ step) + 0.5 * float(step @ change)
        fall += float(intervals.thresholds @ (np.abs(end[chosen]) - np.abs(y)))
        is_same = least < 0.0 and fall > LOWER * least  # the model was not too flat, but its last coefficients are many
        if fall < least:
            best, least = end, fall
        if is_same or (term.optimality(end, slope) <= LEFT * first and fall <= 0.0):
            break
    return best
