"""Minimisers of one quadratic model with elastic-net penalties of several strengths, by coordinate descent in one kernel.

The model of strength a is w'G w / 2 - r'w + a sum_j (q_j w_j^2 / 2 + t_j |w_j|). Each is started at the minimiser for the
strength before. A sweep over all coordinates alternates with sweeps over those that are not 0, which cost little: a
coordinate that stays at 0 reads one number, its slope, which is updated with each coordinate that moves. Where few are not
0 these sweeps are on their own part of G, and the slopes of the others are updated once, behind the last one.
"""

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import kernel, kernel_part

#: Sweeps for one strength, at most, and those over coordinates that are not 0 between two over all; on a part of the matrix
#: those that take as long.
MOST_SWEEPS, SWEEPS_BETWEEN = 100, 10

#: Coordinates for each one that is not 0, from which sweeps over these are on a part of the matrix.
PACKED = 2

#: The change of a slope in a sweep, relative to the tolerance as a norm, at which a model is solved.
CLOSE = 0.2


@kernel_part
def _sweep(gram: Matrix, quadratic: Vector, thresholds: Vector, w: Vector, slopes: Vector, moved_only: bool) -> float:
    """Move each coordinate to its minimiser in place, slopes = G w - r; return the largest change of a slope."""
    largest = 0.0
    for j in range(w.size):
        before = w[j]
        if moved_only and before == 0.0:
            continue
        curvature = gram[j, j] + quadratic[j]
        if not curvature > 0.0:
            continue
        place = gram[j, j] * before - slopes[j]
        if place > thresholds[j]:
            after = (place - thresholds[j]) / curvature
        elif place < -thresholds[j]:
            after = (place + thresholds[j]) / curvature
        else:
            after = 0.0
        change = after - before
        if change != 0.0:
            w[j] = after
            row = gram[j]
            for k in range(w.size):
                slopes[k] += change * row[k]
            largest = max(largest, curvature * abs(change))
    return largest


@kernel_part
def _take_part(gram: Matrix, chosen: Indices, part: Matrix) -> None:
    """Write the part of G with the chosen coordinates."""
    for a in range(chosen.size):
        row = gram[chosen[a]]
        for b in range(chosen.size):
            part[a, b] = row[chosen[b]]


@kernel_part
def _put_part(gram: Matrix, chosen: Indices, own: Vector, w: Vector, slopes: Vector) -> None:
    """Set the chosen coordinates to `own`, and update the slopes of all."""
    for a in range(chosen.size):
        j = chosen[a]
        change, row = own[a] - w[j], gram[j]
        w[j] = own[a]
        for k in range(w.size):
            slopes[k] += change * row[k]


@kernel
def _descend(
    gram: Matrix,
    strengths: Vector,
    quadratic: Vector,
    thresholds: Vector,
    enough: float,
    w: Vector,
    slopes: Vector,
    points: Matrix,
) -> int:
    """Write the minimisers for the strengths up to one that takes too many sweeps; return the number of the others.

    w and slopes = G w - r are those of the last one then.
    """
    for k in range(strengths.size):
        of_squares, of_sizes = strengths[k] * quadratic, strengths[k] * thresholds
        n_sweeps, is_solved = 0.0, False
        while n_sweeps < MOST_SWEEPS:
            n_sweeps += 1.0
            if _sweep(gram, of_squares, of_sizes, w, slopes, False) <= enough:
                is_solved = True
                break
            chosen = np.flatnonzero(w)
            is_packed = PACKED * chosen.size <= w.size
            part, own = np.empty((0, 0)), w[:0]
            if is_packed:
                part, own = np.empty((chosen.size, chosen.size)), w[chosen]
                own_slopes, own_squares, own_sizes = slopes[chosen], of_squares[chosen], of_sizes[chosen]
                _take_part(gram, chosen, part)
            share = chosen.size / w.size if is_packed else 1.0  # of a sweep's time on the whole matrix
            for _ in range(int(SWEEPS_BETWEEN / max(share, 1.0 / w.size))):
                n_sweeps += share
                if is_packed:
                    largest = _sweep(part, own_squares, own_sizes, own, own_slopes, True)
                else:
                    largest = _sweep(gram, of_squares, of_sizes, w, slopes, True)
                if largest <= enough:
                    break
            if is_packed:
                _put_part(gram, chosen, own, w, slopes)
        points[k] = w
        if not is_solved:
            return k
    return strengths.size


def minimisers(
    gram: Matrix,
    right: Vector,
    strengths: Vector,
    quadratic: Vector,
    thresholds: Vector,
    tolerance: float,
    start: Vector | None = None,
) -> tuple[Matrix, int]:
    """Return points near the minimisers for falling strengths, (m, d), and how many are within the tolerance.

    The first one that takes many sweeps is the last that is computed: the next ones would take more.

    Parameters
    ----------
    gram : ndarray, shape (d, d)
        Symmetric, >= 0.
    right : ndarray, shape (d,)
    strengths : ndarray, shape (m,)
    quadratic, thresholds : ndarray, shape (d,)
        Those of strength 1, >= 0.
    tolerance : float > 0
        Of the optimality.
    start : ndarray, shape (d,), optional
        From where the first is found; 0 when left out.

    Examples
    --------
    >>> found, n_solved = minimisers(np.eye(2), np.array([3.0, 0.5]), np.array([1.0, 0.25]), np.zeros(2), np.ones(2), 1e-8)
    >>> found.tolist(), n_solved
    ([[2.0, 0.0], [2.75, 0.25]], 2)
    """
    points = np.empty((strengths.size, right.size))
    enough = CLOSE * tolerance / np.sqrt(max(right.size, 1))
    gram, quadratic, thresholds = (np.ascontiguousarray(part) for part in (gram, quadratic, thresholds))
    w = np.zeros(right.size) if start is None else start.copy()
    slopes = -right if start is None else gram @ w - right
    n_solved = _descend(gram, strengths, quadratic, thresholds, float(enough), w, slopes, points)
    points[n_solved + 1 :] = np.nan
    return points, int(n_solved)
