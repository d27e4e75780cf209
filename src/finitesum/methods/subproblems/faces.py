"""Quadratic models with thresholds and bounds, given by their matrix, minimised by operations on arrays: without a kernel.

The model is s'(v - w) + 1/2 (v - w)'M (v - w) + sum_j t_j |v_j| between bounds. Few passes of coordinate descent, whose
steps are operations on a row of M, find about the coordinates that move; then steps go to the minimiser on the face that
they span, by its Cholesky factor, as far as signs and bounds are kept. The two take turns: passes bring the model down
whatever the face, and on the right face one step ends it. As measured, a model of some hundred columns so takes as long as
kernels take for the many passes of coordinate descent alone.
"""

import itertools

import numpy as np
from scipy.linalg import blas

from finitesum.core.arrays import Matrix, Vector
from finitesum.methods.subproblems.positive_definite import solve_spd

#: Parts of the step to the minimiser on a face that are tried.
PARTS = 0.5 ** np.arange(8)

#: Faces on which the minimiser is looked for in a row, at most; between passes.
MOST_FACES, FEW_FACES = 10, 1

#: Passes of coordinate descent between faces, at least and at most, and such rounds, at most.
FEWEST_PASSES, MOST_PASSES, MOST_ROUNDS = 3, 20, 50


def descend(
    matrix: Matrix, w: Vector, slope: Vector, limits: tuple[Vector, Vector, Vector], ends: tuple[int, int, float]
) -> tuple[bool, float]:
    """Minimise along one coordinate after the other, in place: w, and the slope along with it.

    Coordinates that are 0 and stay so when a pass begins are not visited in it.

    Parameters
    ----------
    matrix : ndarray, shape (d, d)
        M, symmetric, in C order.
    w, slope : ndarray, shape (d,)
        Written to.
    limits : tuple of ndarrays, shape (d,)
        Thresholds, lower and upper bounds.
    ends : (int, int, float)
        The most passes, those without a change of signs after which to end, and the change of a slope that does not count.

    Returns
    -------
    is_changed : bool
        Whether the last pass changed signs.
    largest : float
        The largest change of a coordinate's slope in it.
    """
    at, n_settled, daxpy, (n_passes, most_settled, tolerance) = w.tolist(), 0, blas.daxpy, ends
    (thresholds, lower, upper), curvatures = limits, np.diagonal(matrix)
    sizes = np.divide(thresholds, curvatures, out=thresholds.copy(), where=curvatures > 0.0)
    parts = (part.tolist() for part in (curvatures, sizes, lower, upper))
    coordinates = list(zip(range(len(at)), matrix, *parts, strict=True))
    changes, largest = False, 0.0
    for _ in range(n_passes):
        changes, largest = False, 0.0
        moves = (np.array(at) != 0.0) | ~(np.abs(slope) <= thresholds)
        for j, row, curvature, size, least, most in itertools.compress(coordinates, moves.tolist()):
            before, pull = at[j], slope.item(j)
            if curvature > 0.0:
                target = before - pull / curvature
                target = 0.0 if -size <= target <= size else (target + size if target < 0.0 else target - size)
            elif abs(pull) < size:  # linear on both sides of 0
                target = 0.0
            else:
                continue
            target = least if target < least else (most if target > most else target)
            if target != before:
                at[j], largest = target, max(largest, curvature * abs(target - before))
                daxpy(row, slope, a=target - before)  # in place
                changes |= (before > 0.0) != (target > 0.0) or (before < 0.0) != (target < 0.0)
        n_settled = 0 if changes else n_settled + 1
        if n_settled == most_settled or (largest <= tolerance and not changes):
            break
    w[:] = at
    return changes, largest


def over_faces(
    matrix: Matrix,
    slope: Vector,
    start: Vector,
    limits: tuple[Vector, Vector, Vector] | Matrix,
    most_faces: int = MOST_FACES,
) -> Vector:
    """Return a point with a lower value, from the start and its slope on.

    A step goes to the minimiser in the coordinates that move, as far as they keep their signs and bounds, or a part of the
    way: a half, a quarter ..., or to where the first of them, the second, the fourth ... comes to a bound.
    """
    (thresholds, lower, upper), w, before = limits, start.copy(), np.zeros(0, dtype=np.int64)
    for _ in range(most_faces):
        signs = np.where(w != 0.0, np.sign(w), -np.sign(slope))
        pull = slope + thresholds * signs
        moves = (w != 0.0) | (np.abs(slope) > thresholds)
        moves &= ~((w <= lower) & (pull > 0.0)) & ~((w >= upper) & (pull < 0.0))
        free = np.flatnonzero(moves)
        face, right, at, is_held = matrix[np.ix_(free, free)], pull[free], w[free], thresholds[free] > 0.0
        low = np.where(is_held & (signs[free] > 0.0), np.maximum(lower[free], 0.0), lower[free])
        high = np.where(is_held & (signs[free] < 0.0), np.minimum(upper[free], 0.0), upper[free])
        step = -solve_spd(face, right) if free.size else np.zeros(0)
        ahead = np.where(step < 0.0, low, high) - at
        lengths = np.divide(ahead, step, out=np.ones(free.size), where=(step != 0.0) & np.isfinite(ahead))
        ends = np.sort(lengths[(lengths > 0.0) & (lengths < 1.0)])
        parts = np.concatenate([PARTS, ends[2 ** np.arange(ends.size.bit_length()) - 1]])
        steps = np.clip(at + parts[:, None] * step, low, high) - at
        rises = steps @ right + 0.5 * ((steps @ face) * steps).sum(axis=1)
        best = int(np.argmin(rises))
        if not rises[best] < 0.0:
            break
        w[free] += steps[best]
        is_whole = best == 0 and not (lengths < 1.0).any()
        if is_whole and np.array_equal(free, before):
            break
        slope = slope + matrix[:, free] @ steps[best]
        before = free if is_whole else before[:0]
    return w


def _worth(n_free: int) -> int:
    """Return how many passes take as long as a step on a face."""
    of_pass, of_face = n_free * (1000.0 + 0.5 * n_free), 1e5 + n_free**2 * (5.0 + 0.03 * n_free)
    return int(min(max(of_face / max(of_pass, 1.0), FEWEST_PASSES), MOST_PASSES))


def minimised(
    matrix: Matrix, slope: Vector, start: Vector, limits: tuple[Vector, Vector, Vector], tolerance: float
) -> Vector:
    """Return the minimiser, from a start and its slope on.

    The end is a pass of coordinate descent that changes no signs, and no coordinate's slope by more than the tolerance, or
    which does not reach as far but changes signs no more than the one before.

    Examples
    --------
    >>> limits = np.ones(2), np.full(2, -np.inf), np.full(2, np.inf)
    >>> minimised(np.eye(2), np.array([-3.0, 0.5]), np.zeros(2), limits, 1e-9)
    array([2., 0.])
    """
    w, slope, best = start.copy(), slope.copy(), np.inf
    for k in range(MOST_ROUNDS):
        n_passes = _worth(int(np.count_nonzero(w)))
        is_changed, largest = descend(matrix, w, slope, limits, (n_passes, n_passes, tolerance))
        if largest <= tolerance and not is_changed:
            break
        if not is_changed and k > 2 and not largest < 0.5 * best:  # rounding errors are left
            break
        best = min(best, largest)
        end = over_faces(matrix, slope, w, limits, FEW_FACES)
        slope += matrix @ (end - w)
        w = end
    return w
