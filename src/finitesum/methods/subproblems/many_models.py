"""Minimisers of many quadratic models with l1 penalties, by coordinate descent in one kernel.

The model of problem p at x_p is g_p'v + v'(H + diag(ridges_p)) v / 2 + sum_j thresholds_pj |x_pj + v_j|, with H one of few
Hessians. Sweeps over all coordinates alternate with sweeps over those that moved, or are not 0, which cost little.
"""

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

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


class Hessians(NamedTuple):
    """Hessians, and what is left of them where the last coordinate is at its minimiser for all values of the others."""

    whole: npt.NDArray[np.float64]  # (R, d, d)
    reduced: npt.NDArray[np.float64]  # (R, d - 1, d - 1); without meaning where a last curvature is 0, empty if not wanted
    ratios: Matrix  # (R, d - 1)  the last row by the last curvature

    @classmethod
    def of_all(cls, whole: npt.NDArray[np.float64]) -> Self:
        """Return Hessians whose last coordinate is like the others."""
        return cls(whole, np.zeros((len(whole), 0, 0)), np.zeros((len(whole), 0)))


def without_last(whole: npt.NDArray[np.float64]) -> Hessians:
    """Return Hessians with what is left of them without the last coordinate, an intercept.

    Columns far from 0, of which sweeps would see little but the intercept, are so centred.
    """
    with np.errstate(all="ignore"):
        ratios = whole[:, :-1, -1] / whole[:, -1:, -1]
        return Hessians(whole, whole[:, :-1, :-1] - ratios[:, :, None] * whole[:, -1:, :-1], ratios)


def model_steps(
    hessians: Hessians, which: Indices, ridges: Matrix, thresholds: Matrix, x: Matrix, gradients: Matrix
) -> Matrix:
    """Return the steps v to the minimisers of the models, (P, d).

    Parameters
    ----------
    hessians : Hessians
    which : ndarray of integers, shape (P,)
        The Hessian of each model.
    ridges, thresholds, x, gradients : ndarray, shape (P, d)
    """
    last = hessians.whole[which, -1, -1]
    if hessians.ratios.shape[1] == 0 or thresholds[:, -1].any() or ridges[:, -1].any() or not (last > 0.0).all():
        return _minimised(hessians.whole, which, ridges, thresholds, x, gradients)
    ratios = hessians.ratios[which]
    right = gradients[:, :-1] - gradients[:, -1:] * ratios
    steps = _minimised(hessians.reduced, which, ridges[:, :-1], thresholds[:, :-1], x[:, :-1], right)
    free = -gradients[:, -1] / last - np.einsum("pj,pj->p", ratios, steps)
    return np.column_stack([steps, free])


def _minimised(
    hessians: npt.NDArray[np.float64], which: Indices, ridges: Matrix, thresholds: Matrix, x: Matrix, gradients: Matrix
) -> Matrix:
    if which.size == 0:
        return np.zeros_like(x)
    diagonals = np.diagonal(hessians, axis1=1, axis2=2)[which] + ridges
    steps = np.zeros_like(x)
    thresholds, x = np.ascontiguousarray(thresholds), np.ascontiguousarray(x)
    _descend(hessians, which, diagonals, thresholds, x, gradients.copy(), steps)
    return steps
