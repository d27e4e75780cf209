"""Steps on rows at corners together: see `finitesum.methods.newton.dual_ascent`."""

from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part


@kernel_part
def _interval(view: Any, i: int, slope: float) -> tuple[float, float, float]:
    """Return the slopes that the loss has at a corner of a row, and the corner: of the two that the slope is at."""
    first, other = view.loss.corners(view.targets[i])
    low, high, point = first
    if not low < slope < high:
        low, high, point = other
    return low, high, point


@kernel
def find_face(view: Any, active: Indices, w: Vector, slopes: Vector, face: Indices, excesses: Vector) -> int:
    """Write the active rows at corners, and u_i less where the loss has the slope s_i; return how many there are."""
    size, width = 0, view.loss.corner_width()
    for i in active:
        low, high, point = _interval(view, i, slopes[i])
        if low < slopes[i] < high:
            face[size], excesses[size] = i, view.rows.dot(i, w) + view.offsets[i] - point - width * slopes[i]
            size += 1
    return size


@kernel_part
def _pull_back(view: Any, face: Indices, changes: Vector, terms: Any, out: Vector) -> None:
    """Write what changes d_i of p_i s_i on a face change w by: -(1/l2) sum_i d_i x_i, and -(1/mu) sum_i d_i for b."""
    _, ridge, hold = terms
    for j in range(out.size):
        out[j] = 0.0
    for k in range(face.size):
        if changes[k] != 0.0:
            view.rows.add_to(face[k], -changes[k] / ridge, out)
    if view.rows.intercept:
        out[view.rows.n_columns] *= ridge / hold


@kernel
def advance(
    view: Any, face: Indices, slopes: Vector, run: tuple[Vector, Vector, Vector], sizes: Any, terms: Any, limits: Any
) -> tuple[float, int, bool]:
    """Go on with conjugate gradients for the change of p_i s_i on a face that meets all corners.

    The run is its solution, its residual and its direction, which are written to, preconditioned by the couplings; sizes
    are the residual's squares, now and where they end. The limits: products, and rows that may be read. Return the square
    now, the products, and whether it is over: solved, by products, by curvature or by a change beyond its interval.
    """
    (solution, residual, direction), (size, least), (most_products, most_read) = run, sizes, limits
    couplings, width = terms[0], view.loss.corner_width()
    product, scaled, moved = np.empty(face.size), np.empty(face.size), np.empty(view.rows.n_columns + view.rows.intercept)
    n_products, is_over = 0, not size > least
    while not is_over and n_products * face.size < most_read:
        _pull_back(view, face, direction, terms, moved)
        curvature = 0.0
        for k in range(face.size):
            product[k] = width * direction[k] / view.weights[face[k]] - view.rows.dot(face[k], moved)
            curvature += direction[k] * product[k]
        n_products += 1
        if not curvature > 0.0:
            return size, n_products, True
        step, before = size / curvature, size
        size, is_over = 0.0, n_products >= most_products
        for k in range(face.size):
            i = face[k]
            low, high, _ = _interval(view, i, slopes[i])
            solution[k] += step * direction[k]
            residual[k] -= step * product[k]
            scaled[k] = residual[k] / (couplings[i] + width / view.weights[i])
            size += residual[k] * scaled[k]
            if abs(solution[k]) > view.weights[i] * (high - low):
                is_over = True
        for k in range(face.size):
            direction[k] = direction[k] * (size / before) + scaled[k]
        is_over = is_over or not size > least
    return size, n_products, is_over


@kernel
def take_step(view: Any, face: Indices, solution: Vector, w: Vector, slopes: Vector, terms: Any, shortest: float) -> float:
    """Step along the changes of p_i s_i on a face as far as the dual function rises, slopes clipped; return the length.

    It is 1, halved until the function rises; 0 where it would be below the shortest.
    """
    _, ridge, hold = terms
    d, length, width = view.rows.n_columns, 1.0, view.loss.corner_width()
    changes, excesses, moved = np.empty(face.size), np.empty(face.size), np.empty(w.size)
    for k in range(face.size):
        point = _interval(view, face[k], slopes[face[k]])[2] + width * slopes[face[k]]
        excesses[k] = view.rows.dot(face[k], w) + view.offsets[face[k]] - point
    while length >= shortest:
        gain, cost = 0.0, 0.0
        for k in range(face.size):
            i = face[k]
            low, high, _ = _interval(view, i, slopes[i])
            weight = view.weights[i]
            changes[k] = weight * (min(max(slopes[i] + length * solution[k] / weight, low), high) - slopes[i])
            gain += excesses[k] * changes[k]
            cost += width * changes[k] * changes[k] / weight
        _pull_back(view, face, changes, terms, moved)
        for j in range(d):
            cost += ridge * moved[j] * moved[j]
        if view.rows.intercept:
            cost += hold * moved[d] * moved[d]
        if 0.5 * cost < gain:
            for k in range(face.size):
                i = face[k]
                low, high, _ = _interval(view, i, slopes[i])
                slopes[i] = min(max(slopes[i] + length * solution[k] / view.weights[i], low), high)
            for j in range(w.size):
                w[j] += moved[j]
            return length
        length *= 0.5
    return 0.0
