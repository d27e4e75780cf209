"""The losses of the rows along a line w + t v: at any t they cost O(n), on predictions that are kept."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import array_form, kernel
from finitesum.evaluation.row_blocks import Block, sum_over_blocks
from finitesum.evaluation.row_products import predictions
from finitesum.evaluation.whole_arrays import whole_arrays
from finitesum.losses.arrays import in_arrays
from finitesum.problems.linear import Problem
from finitesum.problems.rows import EVERY
from finitesum.problems.view import View, chosen_rows, first_row, last_row, n_numbers


class Line(NamedTuple):
    """The predictions x_i'w + t x_i'v of the rows of some components."""

    components: Indices | None
    starts: Vector  # (n,)
    changes: Vector  # (n,)


def line_through(problem: Problem, w: Vector, direction: Vector, components: Indices | None = None) -> Line:
    """Return the line w + t direction, by two passes over the rows: at any t, values and slopes then cost O(n)."""
    return Line(components, predictions(problem, w, components), predictions(problem, direction, components))


@kernel
def _slope(view: View, components: Indices, starts: Vector, changes: Vector, t: float) -> float:
    total = 0.0
    for component in components:
        for i in range(first_row(view, component), last_row(view, component)):
            weight = view.weights[i]
            if weight > 0.0:
                prediction = starts[i] + t * changes[i] + view.offsets[i]
                total += weight * view.loss.d1(prediction, view.targets[i]) * changes[i]
    return total


@kernel
def _value(view: View, components: Indices, starts: Vector, changes: Vector, t: float) -> float:
    total = 0.0
    for component in components:
        for i in range(first_row(view, component), last_row(view, component)):
            weight = view.weights[i]
            if weight > 0.0:
                prediction = starts[i] + t * changes[i] + view.offsets[i]
                total += weight * view.loss.value(prediction, view.targets[i])
    return total


def _on_line(
    view: View, components: Indices, starts: Vector, changes: Vector, t: float
) -> tuple[Indices | slice, Vector, Vector]:
    """Return the chosen rows of positive weight, their predictions and their weights."""
    chosen = chosen_rows(view, components)
    if view.equal_weight == 0.0 and not view.weights.all():
        positive = view.weights > 0.0
        chosen = np.flatnonzero(positive) if chosen is EVERY else chosen[positive[chosen]]  # type: ignore[index]
    return chosen, starts[chosen] + t * changes[chosen] + view.offsets[chosen], view.weights[chosen]


@array_form(_slope, n_numbers)
def _slope_in_arrays(view: View, components: Indices, starts: Vector, changes: Vector, t: float) -> float:
    chosen, prediction, weights = _on_line(view, components, starts, changes, t)
    return float((weights * in_arrays(view.loss).d1(prediction, view.targets[chosen])) @ changes[chosen])


@array_form(_value, n_numbers)
def _value_in_arrays(view: View, components: Indices, starts: Vector, changes: Vector, t: float) -> float:
    chosen, prediction, weights = _on_line(view, components, starts, changes, t)
    return float(weights @ in_arrays(view.loss).value(prediction, view.targets[chosen]))


def _sum_along(kernel_of_block: Callable[..., float], problem: Problem, line: Line, t: float) -> float:
    def part(block: Block, starts: Vector, changes: Vector) -> float:
        return kernel_of_block(block.view, block.components, starts, changes, t)

    with np.errstate(all="ignore"):
        return float(sum_over_blocks(part, problem, line.components, reads=(line.starts, line.changes)))


def slope_along(problem: Problem, line: Line, t: float) -> float:
    """Return the derivative in t of sum_i p_i phi_i on the line."""
    if line.components is None and (arrays := whole_arrays(problem)) is not None:
        return float(arrays.along("d1", line[1:], t) @ line.changes)
    return _sum_along(_slope, problem, line, t)


def value_along(problem: Problem, line: Line, t: float) -> float:
    """Return sum_i p_i phi_i on the line at t."""
    if line.components is None and (arrays := whole_arrays(problem)) is not None:
        return float(arrays.along("value", line[1:], t).sum())
    return _sum_along(_value, problem, line, t)


def objective(problem: Problem, w: Vector, n_threads: int = 1) -> float:
    """Return F(w), without its gradient."""
    line = Line(None, predictions(problem, w, n_threads=n_threads), np.zeros(problem.n_rows))
    return value_along(problem, line, 0.0) + problem.term.value(w)
