"""Sums over the rows of some components, by one or several threads: gradients, losses along a line.

Threads share the components out in blocks of consecutive ones, and their sums are added in the order of the blocks: the
result depends on the number of threads, and on nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part, reassociated_part
from finitesum.core.threads import map_blocks
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row
from finitesum.problems.rows import n_entries

#: Rows that are read before their sums are added: they stay in the cache.
BLOCK = 128

#: Where parts of the scratch begin.
SLOPES, LOSSES = np.uint64(BLOCK), np.uint64(2 * BLOCK)

#: One number per row, where half the digits do.
ShortVector = npt.NDArray[np.float32]


def _numbers(problem: Problem, components: Indices) -> float:
    """Return about how many entries the rows of some components have."""
    return n_entries(problem.rows) * components.size / problem.n_components


class Pass(NamedTuple):
    """What a pass over some components finds."""

    gradient: Vector  # sum_i p_i phi'_i z_i
    squares: float  # sum_i p_i phi'_i^2
    loss: float  # sum_i p_i phi_i


@kernel_part
def _run_of(components: Indices, position: int) -> int:
    """Return the position behind the components that follow each other from this one on."""
    end = position + 1
    while end < components.size and components[end] == components[end - 1] + 1:
        end += 1
    return end


@kernel_part
def _predict_rows(linear_sum: LinearSum, first: int, last: int, x: Vector, out: Vector) -> None:
    for k in range(np.uint64(last - first)):  # unsigned: no index needs a look whether it counts from behind
        i: Any = np.uint64(first) + np.uint64(k)
        out[k] = linear_sum.rows.dot(i, x)


@kernel_part
def _curvature(linear_sum: LinearSum, i: int, prediction: float, slope: float, curvature: float, doubt: int) -> float:
    """Return the majorant's curvature where the second derivative is not to be trusted.

    Doubt 1: on the wrong side of 0, where the second derivative grows along the way to the minimum, and a step that trusts
    it overshoots. Doubt 2: everywhere.
    """
    bound = linear_sum.loss.majorant(prediction, linear_sum.targets[i])
    is_doubted = (doubt == 2 or slope * prediction > 0.0) and bound < np.inf
    return bound if is_doubted else curvature


@kernel_part
def _differentiate(
    linear_sum: LinearSum, first: int, last: int, doubt: int, scratch: Vector, curvatures: ShortVector
) -> None:
    """Write phi'_i, p_i phi'_i and p_i phi_i, in blocks, and phi''_i of rows whose predictions are in the first block.

    It is arithmetic alone, which becomes SIMD code, as long as few arrays take part that might overlap.
    """
    for k in range(np.uint64(last - first)):
        i: Any = np.uint64(first) + np.uint64(k)
        weight, target = linear_sum.weights[i], linear_sum.targets[i]
        prediction = scratch[k] + linear_sum.offsets[i]
        slope, curvature = linear_sum.loss.d1_d2(prediction, target)
        if doubt > 0:
            curvature = _curvature(linear_sum, i, prediction, slope, curvature, doubt)
        loss = linear_sum.loss.value(prediction, target)  # always: what is conditional is a branch
        counts = weight > 0.0
        scratch[np.uint64(k) + LOSSES] = weight * loss if counts else 0.0
        scratch[np.uint64(k) + SLOPES] = weight * slope if counts else 0.0
        scratch[k] = slope if counts else 0.0
        curvatures[i] = curvature if counts else 0.0


@kernel_part
def _add_rows(linear_sum: LinearSum, first: int, last: int, slopes: Vector, out: Vector) -> None:
    for k in range(np.uint64(last - first)):
        if slopes[k] != 0.0:
            i: Any = np.uint64(first) + np.uint64(k)
            linear_sum.rows.add_to(i, slopes[k], out)


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


@kernel
def _sweep(
    linear_sum: LinearSum,
    components: Indices,
    x: Vector,
    doubt: int,
    curvatures: ShortVector,
    gradient: Vector,
    scratch: Vector,
) -> tuple[float, float]:
    predictions, slopes, losses = scratch[:BLOCK], scratch[BLOCK : 2 * BLOCK], scratch[2 * BLOCK :]
    squares, loss, position = 0.0, 0.0, 0
    while position < components.size:
        next_run = _run_of(components, position)
        first, end = first_row(linear_sum, components[position]), last_row(linear_sum, components[next_run - 1])
        while first < end:
            last = min(first + BLOCK, end)
            _predict_rows(linear_sum, first, last, x, predictions)
            _differentiate(linear_sum, first, last, doubt, scratch, curvatures)
            squares += _dot(slopes, predictions, last - first)
            loss += _sum(losses, last - first)
            _add_rows(linear_sum, first, last, slopes, gradient)
            first = last
        position = next_run
    return squares, loss


def one_sweep(
    problem: Problem, components: Indices, x: Vector, curvatures: ShortVector, *, doubt: int = 0, n_threads: int = 1
) -> Pass:
    """Return what a pass over the rows of the components finds at x, and write their curvatures.

    Doubt 1 puts the majorant's curvature in the place of second derivatives on the wrong side of 0 (with targets that are
    signs; everywhere with others), doubt 2 everywhere.
    """
    if doubt == 1 and problem.loss.target_kind() != "sign":
        doubt = 2

    def share(block: Indices) -> Pass:
        gradient = np.zeros(problem.dim)
        return Pass(gradient, *_sweep(problem.view, block, x, doubt, curvatures, gradient, np.empty(3 * BLOCK)))

    parts = map_blocks(share, components, _numbers(problem, components), n_threads)
    gradient = parts[0].gradient
    for part in parts[1:]:
        gradient += part.gradient
    return Pass(gradient, sum(part.squares for part in parts), sum(part.loss for part in parts))


class Line(NamedTuple):
    """The predictions x'z_i + t way'z_i of the rows of some components."""

    components: Indices
    starts: Vector  # (n,)
    changes: Vector  # (n,)


@kernel
def _predict(linear_sum: LinearSum, components: Indices, x: Vector, out: Vector) -> None:
    for component in components:
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            out[i] = linear_sum.rows.dot(i, x)


def line_through(problem: Problem, components: Indices, x: Vector, way: Vector) -> Line:
    """Return the line x + t way, for as much as a pass of gradients costs."""
    starts, changes = np.empty(problem.n_rows), np.empty(problem.n_rows)
    _predict(problem.view, components, x, starts)
    _predict(problem.view, components, way, changes)
    return Line(components, starts, changes)


@kernel
def _slope_along(linear_sum: LinearSum, components: Indices, starts: Vector, changes: Vector, t: float) -> float:
    total = 0.0
    for component in components:
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            weight = linear_sum.weights[i]
            if weight > 0.0:
                prediction = starts[i] + t * changes[i] + linear_sum.offsets[i]
                total += weight * linear_sum.loss.d1(prediction, linear_sum.targets[i]) * changes[i]
    return total


def slope_along(problem: Problem, line: Line, t: float) -> float:
    """Return the derivative in t of sum_i p_i loss_i on the line."""
    with np.errstate(all="ignore"):
        return float(_slope_along(problem.view, line.components, line.starts, line.changes, t))


@kernel
def _loss(linear_sum: LinearSum, components: Indices, x: Vector) -> float:
    total = 0.0
    for component in components:
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            weight = linear_sum.weights[i]
            if weight > 0.0:
                prediction = linear_sum.rows.dot(i, x) + linear_sum.offsets[i]
                total += weight * linear_sum.loss.value(prediction, linear_sum.targets[i])
    return total


def objective(problem: Problem, x: Vector, n_threads: int = 1) -> float:
    """Return F(x), without its gradient."""
    components = np.arange(problem.n_components)
    parts = map_blocks(
        lambda block: _loss(problem.view, block, x), components, _numbers(problem, components), n_threads
    )
    return float(sum(parts)) + problem.term.value(x)


@kernel
def _product(linear_sum: LinearSum, components: Indices, curvatures: ShortVector, way: Vector, out: Vector) -> None:
    for component in components:
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            weight = linear_sum.weights[i] * curvatures[i]
            if weight != 0.0:
                linear_sum.rows.add_to(i, weight * linear_sum.rows.dot(i, way), out)


def hessian_product(
    problem: Problem, components: Indices, curvatures: ShortVector, way: Vector, n_threads: int = 1
) -> Vector:
    """Return sum_i p_i h_i z_i z_i'way over the rows of the components."""

    def share(block: Indices) -> Vector:
        out = np.zeros(problem.dim)
        _product(problem.view, block, curvatures, way, out)
        return out

    parts = map_blocks(share, components, _numbers(problem, components), n_threads)
    for part in parts[1:]:
        parts[0][:] += part
    return parts[0]


@kernel
def _diagonal(linear_sum: LinearSum, components: Indices, curvatures: ShortVector, out: Vector) -> None:
    rows = linear_sum.rows
    for component in components:
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            weight = linear_sum.weights[i] * curvatures[i]
            first = rows.first(i)
            for k in range(first, first + rows.n_stored(i)):
                out[rows.column(i, k)] += weight * rows.entry(i, k) * rows.entry(i, k)
            if rows.intercept:
                out[rows.n_columns] += weight


def hessian_diagonal(problem: Problem, components: Indices, curvatures: ShortVector) -> Vector:
    """Return the diagonal of sum_i p_i h_i z_i z_i' over the rows of the components."""
    out = np.zeros(problem.dim)
    _diagonal(problem.view, components, curvatures, out)
    return out
