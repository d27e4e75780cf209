"""Minimisers of many quadratic models with l1 penalties, by coordinate descent in one kernel.

The model of problem p at x_p is g_p'v + v'(H + diag(ridges_p)) v / 2 + sum_j thresholds_pj |x_pj + v_j|, with H one of few
Hessians. Sweeps over all coordinates alternate with sweeps over those that moved, or are not 0, which cost little.
"""

from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import array_form, kernel, kernel_part
from finitesum.methods.subproblems import faces

#: Sweeps end where one moves the model by less than this part of the most that one did; and after this many.
SMALL, MOST_SWEEPS = 1e-5, 100


@kernel_part
def _sweep(
    hessian: Matrix, diagonal: Vector, thresholds: Vector, x: Vector, q: Vector, v: Vector, moved_only: bool
) -> float:
    """Move each coordinate to its minimiser in place, q the model's gradient at v; return the sum of h_jj change^2."""
    total = 0.0
    for j in range(v.size):
        if not diagonal[j] > 0.0 or (moved_only and x[j] + v[j] == 0.0):
            continue
        old = x[j] + v[j]
        place, threshold = old - q[j] / diagonal[j], thresholds[j] / diagonal[j]
        new = place - threshold if place > threshold else (place + threshold if place < -threshold else 0.0)
        change = new - old
        if change != 0.0:
            for k in range(v.size):
                q[k] += change * hessian[j, k]
            q[j] += change * (diagonal[j] - hessian[j, j])
            v[j] = new - x[j]
            total += diagonal[j] * change * change
    return total


@kernel
def _descend(
    hessians: Any, which: Indices, diagonals: Matrix, thresholds: Matrix, x: Matrix, gradients: Matrix, steps: Matrix
) -> None:
    """Write the minimisers of all models; the gradients are overwritten."""
    for p in range(which.size):
        hessian, largest, moved_only = hessians[which[p]], 0.0, False
        for _ in range(MOST_SWEEPS):
            size = _sweep(hessian, diagonals[p], thresholds[p], x[p], gradients[p], steps[p], moved_only)
            largest = max(largest, size)
            is_small = size <= SMALL * largest
            if is_small and not moved_only:
                break
            moved_only = not is_small


#: The change of a slope, relative to the largest that a model's minimiser has to change, at which models in arrays end; and
#: the numbers that are computed in the time of a coordinate's calls there.
CLOSE, OF_CALLS = 1e-3, 500.0


def _n_numbers(hessians: Any, which: Indices, *_others: Any) -> float:
    dim = hessians.shape[1]
    return float(which.size * dim * (OF_CALLS + dim))


@array_form(_descend, _n_numbers, stands_in=True)
def _descend_in_arrays(
    hessians: Any, which: Indices, diagonals: Matrix, thresholds: Matrix, x: Matrix, gradients: Matrix, steps: Matrix
) -> None:
    without = np.full(x.shape[1], np.inf)
    for p, k in enumerate(which):
        matrix = hessians[k].copy()
        np.einsum("jj->j", matrix)[:] = diagonals[p]
        asked = np.where(x[p] != 0.0, thresholds[p], 0.0) + np.maximum(np.abs(gradients[p]) - thresholds[p], 0.0)
        limits, enough = (thresholds[p], -without, without), CLOSE * float(asked.max(initial=0.0))
        steps[p] = faces.minimised(matrix, gradients[p], x[p], limits, enough) - x[p]


def model_steps(hessians: Any, which: Indices, ridges: Matrix, thresholds: Matrix, x: Matrix, gradients: Matrix) -> Matrix:
    """Return the steps v to the minimisers of the models, (P, d).

    Parameters
    ----------
    hessians : ndarray, shape (R, d, d)
    which : ndarray of integers, shape (P,)
        The Hessian of each model.
    ridges, thresholds, x, gradients : ndarray, shape (P, d)
    """
    if which.size == 0:
        return np.zeros_like(x)
    if x.shape[1] > 1 and not (thresholds[:, -1].any() or ridges[:, -1].any()) and (hessians[:, -1, -1] > 0.0).all():
        return _without_last(hessians, which, ridges, thresholds, x, gradients)
    diagonals = np.diagonal(hessians, axis1=1, axis2=2)[which] + ridges
    steps = np.zeros_like(x)
    hessians, thresholds, x = (np.ascontiguousarray(part) for part in (hessians, thresholds, x))
    _descend(hessians, which, diagonals, thresholds, x, gradients.copy(), steps)
    return steps


def _without_last(
    hessians: Any, which: Indices, ridges: Matrix, thresholds: Matrix, x: Matrix, gradients: Matrix
) -> Matrix:
    """Return the steps where the last coordinate is free, an intercept: at its minimiser for all values of the others.

    Columns far from 0, of which sweeps would see little but the intercept, are so centred.
    """
    last = hessians[:, :-1, -1] / hessians[:, -1:, -1]  # (R, d - 1)
    centred = hessians[:, :-1, :-1] - last[:, :, None] * hessians[:, -1:, :-1]
    right = gradients[:, :-1] - gradients[:, -1:] * last[which]
    steps = model_steps(centred, which, ridges[:, :-1], thresholds[:, :-1], x[:, :-1], right)
    free = -gradients[:, -1] / hessians[which, -1, -1] - np.einsum("pj,pj->p", last[which], steps)
    return np.column_stack([steps, free])
