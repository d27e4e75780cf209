"""Sums over the rows of some components, by one or several threads: gradients, losses along a line.

Threads share the components out in blocks of consecutive ones, and their sums are added in the order of the blocks: the
result depends on the number of threads, and on nothing else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.arrays import Indices, Vector
from finitesum.jit import kernel, kernel_part
from finitesum.problem import LinearSum, Problem, first_row, last_row
from finitesum.rows import n_entries
from finitesum.threads import map_blocks

#: One number per row, where half the digits do.
ShortVector = npt.NDArray[np.float32]


def _numbers(problem: Problem, components: Indices) -> float:
    """Return about how many entries the rows of some components have."""
    return n_entries(problem.rows) * components.size / problem.n_components


@kernel_part
def _curvature(linear_sum: LinearSum, i: int, prediction: float, slope: float, curvature: float, doubt: int) -> float:
    """Return the majorant's curvature where the second derivative is not to be trusted.

    Doubt 1: on the wrong side of 0, where the second derivative grows along the way to the minimum, and a step that trusts
    it overshoots. Doubt 2: everywhere.
    """
    if doubt == 1 and slope * prediction <= 0.0:
        return curvature
    bound = linear_sum.loss.majorant(prediction, linear_sum.targets[i])
    return bound if np.isfinite(bound) else curvature


@kernel
def _sweep(
    linear_sum: LinearSum,
    components: Indices,
    x: Vector,
    doubt: int,
    curvatures: ShortVector,
    gradient: Vector,
) -> float:
    squares = 0.0
    for component in components:
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            weight = linear_sum.weights[i]
            if weight == 0.0:
                curvatures[i] = 0.0
                continue
            prediction = linear_sum.rows.dot(i, x) + linear_sum.offsets[i]
            slope, curvature = linear_sum.loss.d1_d2(prediction, linear_sum.targets[i])
            if doubt > 0:
                curvature = _curvature(linear_sum, i, prediction, slope, curvature, doubt)
            curvatures[i] = curvature
            squares += weight * slope * slope
            linear_sum.rows.add_to(i, weight * slope, gradient)
    return squares


def add_gradients(
    problem: Problem, components: Indices, x: Vector, curvatures: ShortVector, *, doubt: int = 0, n_threads: int = 1
) -> tuple[Vector, float]:
    """Return sum_i p_i phi'_i z_i and sum_i p_i phi'_i^2 at x over the rows of the components; write their curvatures.

    Doubt 1 puts the majorant's curvature in the place of second derivatives on the wrong side of 0 (with targets that are
    signs; everywhere with others), doubt 2 everywhere.
    """
    if doubt == 1 and problem.loss.target_kind() != "sign":
        doubt = 2

    def share(block: Indices) -> tuple[Vector, float]:
        gradient = np.zeros(problem.dim)
        return gradient, float(_sweep(problem.view, block, x, doubt, curvatures, gradient))

    parts = map_blocks(share, components, _numbers(problem, components), n_threads)
    for gradient, _ in parts[1:]:
        parts[0][0][:] += gradient
    return parts[0][0], sum(squares for _, squares in parts)


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
    loss = sum(parts)
    coefficients = x[: problem.rows.n_columns]
    penalty = problem.penalty.lasso() * np.abs(coefficients).sum()
    penalty += 0.5 * problem.penalty.ridge() * (coefficients @ coefficients)
    return float(loss + penalty)


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
