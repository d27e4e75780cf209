"""Coordinate descent on a quadratic model with thresholds and bounds, given by its matrix."""

from typing import Any

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import MOST_NUMBERS, array_form, kernel, kernel_part
from finitesum.methods.subproblems import faces

#: Variables up to which coordinate descent in arrays takes as many passes as the kernel, and up to which it goes by faces,
#: which take as long as the kernel so far, as measured.
FEW_COORDINATES, MOST_COORDINATES = 64, 2000


@kernel_part
def _move(hessian: Matrix, w: Vector, gradient: Vector, j: int, target: float) -> bool:
    """Move a coordinate; return whether its sign is another then."""
    before, step = w[j], target - w[j]
    if step != 0.0:
        w[j] = target
        row = hessian[j]
        for k in range(w.size):
            gradient[k] += step * row[k]
    return bool(before > 0.0) != (target > 0.0) or bool(before < 0.0) != (target < 0.0)


@kernel
def descend(
    hessian: Matrix, w: Vector, gradient: Vector, thresholds: Vector, lower: Vector, upper: Vector, ends: Any
) -> bool:
    """Minimise model + sum_j thresholds_j |w_j| between the bounds along one coordinate after the other.

    gradient = g + H (w - y) is updated along with w. Coordinates that are 0 and stay so when a pass begins are not visited
    in it. The ends are the most passes, those without a change of signs, and the change of a coordinate's slope up to which
    it does not count. Returns whether one of the last two was reached.
    """
    n_passes, most_settled, tolerance = ends
    n_settled, moves = 0, np.empty(w.size, dtype=np.bool_)
    for _ in range(n_passes):
        changes, largest = False, 0.0
        for j in range(w.size):
            moves[j] = w[j] != 0.0 or not abs(gradient[j]) <= thresholds[j]
        for j in range(w.size):
            if not moves[j]:
                continue
            curvature = hessian[j, j]
            if curvature > 0.0:
                target = w[j] - gradient[j] / curvature
                threshold = thresholds[j] / curvature
                target = max(target - threshold, 0.0) + min(target + threshold, 0.0)
                target = min(max(target, lower[j]), upper[j])
                largest = max(largest, curvature * abs(target - w[j]))
                changes |= _move(hessian, w, gradient, j, target)
            elif abs(gradient[j]) < thresholds[j]:  # linear on both sides of 0
                changes |= _move(hessian, w, gradient, j, min(max(0.0, lower[j]), upper[j]))
        n_settled = 0 if changes else n_settled + 1
        if n_settled == most_settled or (largest <= tolerance and not changes):
            return True
    return False


@array_form(
    descend,
    lambda hessian, *_: MOST_NUMBERS * len(hessian) / MOST_COORDINATES,
    stands_in=lambda hessian, *_: len(hessian) > FEW_COORDINATES,
)
def _descend_in_arrays(
    hessian: Matrix, w: Vector, gradient: Vector, thresholds: Vector, lower: Vector, upper: Vector, ends: Any
) -> bool:
    """Do the same, but for what is returned: more passes would not pay here, so that they count as ended."""
    limits = thresholds, lower, upper
    if w.size <= FEW_COORDINATES:
        faces.descend(hessian, w, gradient, limits, ends)
        return True
    end = faces.minimised(hessian, gradient, w, limits, ends[2])
    gradient += hessian @ (end - w)
    w[:] = end
    return True
