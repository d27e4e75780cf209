"""Steps on rows at corners together: see `finitesum.methods.newton.dual_ascent`."""

from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part

#: What changes beyond their intervals are likely to cost, by the last product's gain, from which they are brought back.
COSTS = 1.0


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


@kernel_part
def _product(view: Any, face: Indices, moved: Vector, changes: Vector, k: int) -> float:
    """Return row k of a face's system times changes that move w by this."""
    width, i = view.loss.corner_width(), face[k]
    product: float = width * changes[k] / view.weights[i] - view.rows.dot(i, moved)
    return product


@kernel_part
def _begin_again(
    view: Any, face: Indices, run: tuple[Vector, Vector, Vector], box: Any, terms: Any, moved: Vector
) -> float:
    """Bring changes back to their intervals, where those rest that would leave them; return the residual's square."""
    (solution, residual, direction), (lowest, highest, metric), size = run, box, 0.0
    for k in range(face.size):
        inside = min(max(solution[k], lowest[k]), highest[k])
        direction[k], solution[k] = inside - solution[k], inside
    _pull_back(view, face, direction, terms, moved)
    for k in range(face.size):
        residual[k] -= _product(view, face, moved, direction, k)
        rests = (solution[k] <= lowest[k] and residual[k] < 0.0) or (solution[k] >= highest[k] and residual[k] > 0.0)
        direction[k] = 0.0 if rests else residual[k] / metric[k]
        size += residual[k] * direction[k]
    return size


@kernel
def advance(
    view: Any, face: Indices, slopes: Vector, run: tuple[Vector, Vector, Vector], sizes: Any, terms: Any, limits: Any
) -> tuple[float, int, bool]:
    """Go on with conjugate gradients for the change of p_i s_i on a face that meets all corners.

    The run is its solution, its residual and its direction, which are written to, preconditioned by the couplings; sizes
    are the residual's squares, now and where they end. Once changes beyond their intervals are likely to cost more than a
    product gains, they are brought back, and the others are solved for. The limits: products, and rows that may be read.
    Return the square now, the products, and whether it is over: solved, by products or by curvature.
    """
    (solution, residual, direction), (size, least), (most_products, most_read) = run, sizes, limits
    couplings, width = terms[0], view.loss.corner_width()
    product, lowest, highest, metric = np.empty(face.size), np.empty(face.size), np.empty(face.size), np.empty(face.size)
    moved, box = np.empty(view.rows.n_columns + view.rows.intercept), (lowest, highest, metric)
    for k in range(face.size):
        i = face[k]
        low, high, _ = _interval(view, i, slopes[i])
        lowest[k], highest[k] = view.weights[i] * (low - slopes[i]), view.weights[i] * (high - slopes[i])
        metric[k] = couplings[i] + width / view.weights[i]
    n_products, is_over = 0, not size > least
    while not is_over and n_products * face.size < most_read:
        _pull_back(view, face, direction, terms, moved)
        curvature = 0.0
        for k in range(face.size):
            product[k] = _product(view, face, moved, direction, k)
            curvature += direction[k] * product[k]
        n_products += 1
        if not curvature > 0.0:
            return size, n_products, True
        step, before = size / curvature, size
        size, beyond = 0.0, 0.0
        for k in range(face.size):
            solution[k] += step * direction[k]
            residual[k] -= step * product[k]
            if not lowest[k] < solution[k] < highest[k]:
                excess = max(lowest[k] - solution[k], solution[k] - highest[k])
                beyond += excess * excess * metric[k]
                product[k] = 0.0 if direction[k] == 0.0 else residual[k] / metric[k]  # 0 where it rests
            else:
                product[k] = residual[k] / metric[k]
            size += residual[k] * product[k]
        if beyond > COSTS * step * before or (beyond > 0.0 and not size > least):
            size = _begin_again(view, face, run, box, terms, moved)
            n_products += 1
        else:
            for k in range(face.size):
                direction[k] = direction[k] * (size / before) + product[k]
        is_over = n_products >= most_products or not size > least
    return size, n_products, is_over


@kernel
def take_step(
    view: Any, face: Indices, solution: Vector, w: Vector, slopes: Vector, terms: Any, shortest: float
) -> tuple[float, int]:
    """Step along the changes of p_i s_i on a face as far as the dual function rises, slopes clipped.

    Return its length, 1, halved until the function rises, or 0 where it would be below the shortest; and how many rows are
    at corners still.
    """
    _, ridge, hold = terms
    d, length, width, n_inside = view.rows.n_columns, 1.0, view.loss.corner_width(), 0
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
                n_inside += low < slopes[i] < high
            for j in range(w.size):
                w[j] += moved[j]
            return length, n_inside
        length *= 0.5
    return 0.0, 0
