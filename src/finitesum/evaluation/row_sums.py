"""Sums over rows at a point: the mean loss, its gradient, slopes and curvatures of rows.

Methods see data by these sums, or by visits of single components, and in no third way. They are taken over blocks of
rows (`finitesum.evaluation.row_blocks`).

Products with the rows (predictions, gram products and diagonals, lines) are in `finitesum.evaluation.row_products`, gram
matrices in `finitesum.evaluation.hessian`.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import array_form, kernel, kernel_part, reassociated_part
from finitesum.evaluation.row_blocks import Block, sum_over_blocks
from finitesum.evaluation.whole_arrays import losses_at, whole_arrays
from finitesum.losses.arrays import in_arrays
from finitesum.problems.beside import empty_by_row
from finitesum.problems.linear import Problem
from finitesum.problems.rows import EVERY, add_combination, products, some_rows
from finitesum.problems.view import View, chosen_rows, first_row, last_row, n_numbers

#: Rows whose predictions are computed before their sums are added: they stay in the cache.
N_TOGETHER = 128

#: Where the parts of the memory for them begin.
SLOPES, LOSSES = np.uint64(N_TOGETHER), np.uint64(2 * N_TOGETHER)

#: One number per row where single precision is enough.
Vector32 = npt.NDArray[np.float32]


class Majorize(IntEnum):
    """Which rows have the curvature of a quadratic that lies above the loss, in the place of the loss's own.

    On rows that are misclassified the second derivative grows along the direction to the minimum, and a step that trusts it
    overshoots. With targets that are no signs, MISCLASSIFIED means ALL.
    """

    NONE = 0
    MISCLASSIFIED = 1
    ALL = 2


@kernel_part
def _end_of_run(components: Indices, position: int) -> int:
    """Return the position behind the components that follow each other from this one on."""
    end = position + 1
    while end < components.size and components[end] == components[end - 1] + 1:
        end += 1
    return end


@kernel_part
def _majorant(loss: Any, target: float, prediction: float, slope: float, curvature: float, majorize: int) -> float:
    """Return the curvature of the loss's majorant where it replaces that of the loss."""
    bound = loss.majorant(prediction, target)
    replaces = (majorize == 2 or slope * prediction > 0.0) and bound < np.inf
    return bound if replaces else curvature


@kernel_part
def _differentiate(
    loss: Any, targets: Any, offsets: Vector, weights: Vector, majorize: int, parts: Vector, curvatures: Any
) -> None:
    """Write phi'_i, p_i phi'_i and p_i phi_i to the parts, of which the first has the predictions, and write phi''_i.

    It is arithmetic alone, which becomes SIMD code as long as few arrays take part that might overlap.
    """
    for k in range(np.uint64(targets.size)):
        weight, target = weights[k], targets[k]
        prediction = parts[k] + offsets[k]
        slope, curvature = loss.d1_d2(prediction, target)
        if majorize > 0:
            curvature = _majorant(loss, target, prediction, slope, curvature, majorize)
        value = loss.value(prediction, target)  # always: what is conditional is a branch
        counts = weight > 0.0  # with weight 0, what overflows must not show
        parts[np.uint64(k) + LOSSES] = weight * value if counts else 0.0
        parts[np.uint64(k) + SLOPES] = weight * slope if counts else 0.0
        parts[k] = slope if counts else 0.0
        curvatures[k] = curvature if counts else 0.0


@reassociated_part
def _dot(left: Vector, right: Vector, n: int) -> float:
    total = 0.0
    for k in range(np.uint64(n)):
        total += left[k] * right[k]
    return total


@reassociated_part
def _sum(numbers: Vector, n: int) -> float:
    total = 0.0
    for k in range(np.uint64(n)):
        total += numbers[k]
    return total


class Scratch(NamedTuple):
    """Memory for N_TOGETHER rows, which stays in the cache."""

    parts: Vector  # three parts: phi'_i, p_i phi'_i and p_i phi_i
    rows: Indices  # rows that lie apart, and what belongs to them, gathered for SIMD code
    targets: Vector
    offsets: Vector
    weights: Vector
    curvatures: Any


@kernel_part
def _sums_of(parts: Vector, n: int) -> tuple[float, float]:
    """Return sum p_i phi'_i^2 and sum p_i phi_i of n rows."""
    return _dot(parts[N_TOGETHER:], parts, n), _sum(parts[2 * N_TOGETHER :], n)


@kernel_part
def _add_run(
    view: View, first: int, w: Vector, majorize: int, curvatures: Any, slopes: Vector, gradient: Vector, at: Scratch
) -> tuple[float, float]:
    """Do what `_add_losses` does for N_TOGETHER rows that follow each other."""
    parts, some = at.parts, slice(first, first + N_TOGETHER)
    for k in range(np.uint64(N_TOGETHER)):  # unsigned: no index is tested for whether it counts from behind
        i: Any = np.uint64(first) + np.uint64(k)
        parts[k] = view.rows.dot(i, w)
    targets, offsets, weights = view.targets[some], view.offsets[some], view.weights[some]
    _differentiate(view.loss, targets, offsets, weights, majorize, parts, curvatures[some])
    for k in range(np.uint64(N_TOGETHER)):
        i, slope = np.uint64(first) + np.uint64(k), parts[np.uint64(k) + SLOPES]
        if slope != 0.0:
            view.rows.add_to(i, slope, gradient)
    if slopes.size > 0:
        for k in range(N_TOGETHER):
            slopes[first + k] = parts[k]
    return _sums_of(parts, N_TOGETHER)


@kernel_part
def _add_scattered(
    view: View, n: int, w: Vector, majorize: int, curvatures: Any, slopes: Vector, gradient: Vector, at: Scratch
) -> tuple[float, float]:
    """Do the same for the first n of the rows that lie apart."""
    parts = at.parts
    for k in range(np.uint64(n)):
        i: Any = np.uint64(at.rows[k])
        parts[k] = view.rows.dot(i, w)
        at.targets[k], at.offsets[k], at.weights[k] = view.targets[i], view.offsets[i], view.weights[i]
    _differentiate(view.loss, at.targets[:n], at.offsets, at.weights, majorize, parts, at.curvatures)
    for k in range(np.uint64(n)):
        i, slope = np.uint64(at.rows[k]), parts[np.uint64(k) + SLOPES]
        curvatures[i] = at.curvatures[k]
        if slope != 0.0:
            view.rows.add_to(i, slope, gradient)
        if slopes.size > 0:
            slopes[i] = parts[k]
    return _sums_of(parts, n)


@kernel
def _add_losses(
    view: View,
    components: Indices,
    w: Vector,
    majorize: int,
    curvatures: Any,
    slopes: Vector,
    gradient: Vector,
    at: Scratch,
) -> tuple[float, float]:
    """Add to the gradient, write curvatures and slopes (unless they are empty); return sum p_i phi'_i^2, sum p_i phi_i."""
    squares, value, position, n = 0.0, 0.0, 0, 0
    while position < components.size:
        next_run = _end_of_run(components, position)
        first, end = first_row(view, components[position]), last_row(view, components[next_run - 1])
        position = next_run
        while end - first >= N_TOGETHER:
            found = _add_run(view, first, w, majorize, curvatures, slopes, gradient, at)
            squares, value, first = squares + found[0], value + found[1], first + N_TOGETHER
        while first < end or (n > 0 and position == components.size):  # what is left at the end is added, too
            if first < end:
                at.rows[n] = first
                n, first = n + 1, first + 1
            if n == N_TOGETHER or (first == end and position == components.size):
                found = _add_scattered(view, n, w, majorize, curvatures, slopes, gradient, at)
                squares, value, n = squares + found[0], value + found[1], 0
    return squares, value


@array_form(_add_losses, n_numbers)
def _losses_in_arrays(
    view: View,
    components: Indices,
    w: Vector,
    majorize: int,
    curvatures: Any,
    slopes: Vector,
    gradient: Vector,
    _at: Scratch,
) -> tuple[float, float]:
    chosen = chosen_rows(view, components)
    targets, weights = view.targets[chosen], view.weights[chosen]
    rows = some_rows(view.rows, chosen)
    prediction = products(rows, w)
    if view.has_offsets:
        prediction += view.offsets[chosen]
    slope, curvature, value = losses_at(in_arrays(view.loss), targets, prediction, majorize)
    if view.equal_weight == 0.0 and not weights.all():
        for part in (slope, curvature, value):
            part[weights == 0.0] = 0.0  # what overflows must not show
    curvatures[chosen] = curvature
    if slopes.size > 0:
        slopes[chosen] = slope
    weighted = weights * slope
    add_combination(rows, weighted, gradient)
    return float(weighted @ slope), float(weights @ value)


class LossSums(NamedTuple):
    """Sums over the rows of some components at a point."""

    gradient: Vector  # sum_i p_i phi'_i x_i
    squared_slopes: float  # sum_i p_i phi'_i^2
    value: float  # sum_i p_i phi_i
    n_straight: int = 0  # rows without curvature, where these were asked to be counted
    n_sloped: int = 0  # those of them with a slope


def _with_straight(sums: LossSums, curvatures: Any, slopes: Any) -> LossSums:
    """Return sums with the numbers of rows that have no curvature, and of those among them that have a slope."""
    straight = curvatures == 0.0
    n_straight = int(np.count_nonzero(straight))
    return sums._replace(n_straight=n_straight, n_sloped=int(np.count_nonzero(slopes[straight])) if n_straight else 0)


def loss_sums(
    problem: Problem,
    w: Vector,
    components: Indices | None = None,
    *,
    curvatures: npt.NDArray[Any] | None = None,  # (n,), float32 or float64: phi''_i is written there, 0 for weight 0
    slopes: Vector | None = None,  # (n,): phi'_i is written there
    majorize: int = Majorize.NONE,  # whose curvatures are those of the majorant
    counts_straight: bool = False,  # of written slopes and curvatures of all components
    n_threads: int = 1,
) -> LossSums:
    """Return value and gradient of the mean loss at w, by one pass over the rows of all components, or increasing ones."""
    if majorize == Majorize.MISCLASSIFIED and problem.loss.target_kind() != "sign":
        majorize = Majorize.ALL
    if (arrays := whole_arrays(problem)) is not None:
        chosen = EVERY if components is None else chosen_rows(problem.view_of_rows, components)
        of_all = LossSums(*arrays.sums(w, int(majorize), curvatures, slopes, chosen))
        return _with_straight(of_all, curvatures, slopes) if counts_straight else of_all

    has_curvatures, has_slopes = curvatures is not None, slopes is not None

    def sums(block: Block, *written: Any) -> LossSums:
        gradient, n_rows = np.zeros(w.size), block.rows.stop - block.rows.start
        second = written[0] if has_curvatures else np.empty(n_rows, dtype=np.float32)
        first = written[-1] if has_slopes else np.empty(0)
        parts, rows, few = np.empty(3 * N_TOGETHER), np.empty(N_TOGETHER, dtype=np.int64), np.empty((3, N_TOGETHER))
        at = Scratch(parts, rows, few[0], few[1], few[2], np.empty(N_TOGETHER, dtype=second.dtype))
        found = _add_losses(block.view, block.components, w, int(majorize), second, first, gradient, at)
        of_block = LossSums(gradient, float(found[0]), float(found[1]))
        return _with_straight(of_block, second, first) if counts_straight else of_block

    writes = [array for array in (curvatures, slopes) if array is not None]
    total: LossSums = sum_over_blocks(sums, problem, components, n_threads, writes=writes)
    return total


def curvatures_at(problem: Problem, w: Vector) -> Vector:
    """Return phi''_i of all rows at w, shape (n,)."""
    curvatures: Vector = empty_by_row(problem)
    with np.errstate(all="ignore"):  # after a divergence
        loss_sums(problem, w, curvatures=curvatures)
    return curvatures
