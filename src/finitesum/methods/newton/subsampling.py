"""F on a sample of the components that grows, and steps along a line on it: what lazy Newton and Newton-CG have in common.

On a sample, whose rows have the weight P_A = sum_{i in sample} p_i, F is replaced by

    F_A(x) = (1/P_A) (sum_{i in sample} p_i loss_i(x) + l2/2 ||x||^2):

the penalty has the part in the sum that it has in F's, so that few rows do not overfit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.row_products import line_through, objective, slope_along
from finitesum.evaluation.row_sums import Majorize, Vector32, loss_sums
from finitesum.methods.base import check_count
from finitesum.methods.subproblems.line_search import with_gentler_slope
from finitesum.problems.linear import Problem

#: Rows of the first sample, and by how much a sample outgrows the one before.
FIRST_ROWS, GROWTH = 2000, 4

#: The fraction of all rows that the sample before all of them has, where the first one can be chosen for it.
LAST_FRACTION = 0.36

#: By how much sums over many rows may differ where F is the same.
ROUNDING = 1e-9

#: The least optimality that a choice is made for: below are rounding errors.
LEAST_TOL = 1e-14


class Sample(NamedTuple):
    """Some components."""

    components: Indices  # increasing
    weight: float  # sum of their rows' weights p_i
    ridge: float  # l2 / weight

    def is_complete(self, problem: Problem) -> bool:
        """Return whether these are all components."""
        return self.components.size == problem.n_components

    def n_rows(self, problem: Problem) -> int:
        """Return the number of rows (at most a component more)."""
        return min(problem.n_rows, self.components.size * (problem.batch_size or 1))


def sample_of(problem: Problem, components: Indices) -> Sample:
    """Return components as a sample."""
    ridge, m = problem.penalty.ridge(), problem.n_components
    if components.size == m:
        return Sample(np.arange(m), 1.0, ridge)
    chosen = np.sort(components)
    weight = float(problem.component_weights[chosen].sum()) or 1.0
    return Sample(chosen, weight, ridge / weight)


def others(components: Indices, without: Indices, m: int) -> Indices:
    """Return those of the components that are not among others, in their order; there are m in all."""
    is_other = np.ones(m, dtype=bool)
    is_other[without] = False
    return components[is_other[components]]


def permutation(order: Indices, m: int) -> Indices:
    """Return all components in the order of their first visit, those without one at the end."""
    if order.size == m and np.bincount(order, minlength=m).max() == 1:
        return order
    visited, first = np.unique(order, return_index=True)
    return np.concatenate([order[np.sort(first)], np.setdiff1d(np.arange(m), visited)])


def first_rows(problem: Problem) -> int:
    """Return how many rows the first sample has: with few columns so many that there is a second one, too; few rows all."""
    n, dim = problem.n_rows, problem.dim
    usual = max(FIRST_ROWS, 8 * dim)
    return n if usual > LAST_FRACTION * n else min(usual, max(int(LAST_FRACTION / GROWTH * n), 6 * dim))


def next_size(problem: Problem, n_sampled: int, first_rows: int) -> int:
    """Return how many components the sample after one of n_sampled has."""
    m = problem.n_components
    n_next = -(-first_rows // (problem.batch_size or 1)) if n_sampled == 0 else GROWTH * n_sampled
    return m if n_next > 0.4 * m else n_next


class Evaluation(NamedTuple):
    """What a pass over a sample finds at a point."""

    gradient: Vector  # of F_A
    curvatures: Vector32  # (n,)  of the sample's rows
    squared_slopes: float  # sum of p_i phi'_i^2
    value: float  # sum of p_i phi_i


def evaluate_on(
    problem: Problem,
    sample: Sample,
    x: Vector,
    curvatures: Vector32,
    *,
    majorize: int = Majorize.NONE,
    n_threads: int = 1,
) -> Evaluation:
    """Return what a pass over the sample sees at x; rows outside of it keep their curvatures."""
    seen = np.empty_like(curvatures) if sample.is_complete(problem) else curvatures.copy()
    gradient, squares, loss = loss_sums(
        problem, x, sample.components, curvatures=seen, majorize=majorize, n_threads=n_threads
    )
    gradient /= sample.weight
    penalised = slice(problem.rows.n_columns)
    gradient[penalised] += sample.ridge * x[penalised]
    return Evaluation(gradient, seen, squares, loss)


def evaluate_more(
    problem: Problem,
    before: Sample,
    sample: Sample,
    x: Vector,
    known: Evaluation,
    *,
    majorize: int = Majorize.NONE,
    n_threads: int = 1,
) -> Evaluation:
    """Return what a pass over the larger sample would see at x, by reading the rows that are new in it."""
    new = others(sample.components, before.components, problem.n_components)
    seen = known.curvatures.copy()
    gradient, squares, loss = loss_sums(problem, x, new, curvatures=seen, majorize=majorize, n_threads=n_threads)
    penalised = slice(problem.rows.n_columns)
    if before.components.size > 0:
        gradient += before.weight * known.gradient
        gradient[penalised] -= before.weight * before.ridge * x[penalised]
    gradient /= sample.weight
    gradient[penalised] += sample.ridge * x[penalised]
    return Evaluation(gradient, seen, known.squared_slopes + squares, known.value + loss)


def search(problem: Problem, sample: Sample, x: Vector, direction: Vector, first: float) -> float:
    """Return t > 0 where the slope of F_A along x + t direction is between -1/2 and 0 of the first."""
    line = line_through(problem, x, direction, sample.components)
    penalised = slice(problem.rows.n_columns)
    square = sample.ridge * float(direction[penalised] @ direction[penalised])
    linear = sample.ridge * float(direction[penalised] @ x[penalised])
    return with_gentler_slope(lambda t: slope_along(problem, line, t) / sample.weight + linear + t * square, first)


def ratio_left(problem: Problem, end: Vector, gradient: Vector, optimality: float) -> float:
    """Return the optimality that a gradient at the end of a step means, relative to the one before; 0 if that was 0."""
    return problem.term.optimality(end, gradient) / optimality if optimality != 0.0 else 0.0


def rise_bound(problem: Problem, x: Vector, end: Vector, gradient: Vector) -> float:
    """Return gradient'(end - x) + l1 (||end||_1 - ||x||_1) >= F(end) - F(x), given the gradient at the end."""
    penalised = slice(problem.rows.n_columns)
    norms = float(np.abs(end[penalised]).sum() - np.abs(x[penalised]).sum())
    return float(gradient @ (end - x)) + problem.penalty.lasso() * norms


def falls(
    problem: Problem, sample: Sample, x: Vector, end: Vector, *, rise: float, ratio: float, n_threads: int
) -> bool:
    """Return whether F is lower at the end of a step than at x, given `rise_bound` and `ratio_left` of the step.

    Where F may have risen although the optimality shrank, F itself is looked at; a sample is no reason to do so.
    """
    if rise <= 0.0:
        return True
    if not ratio < 0.9:
        return False
    if not sample.is_complete(problem):
        return True
    before = objective(problem, x, n_threads)
    return objective(problem, end, n_threads) <= before + ROUNDING * abs(before)


class SampledState(Protocol):
    """What the states of these methods have in common."""

    @property
    def x(self) -> Vector: ...
    @property
    def gradient(self) -> Vector: ...
    @property
    def value(self) -> float: ...
    @property
    def n_sampled(self) -> int: ...
    @property
    def optimality(self) -> float: ...


class SampledNewton(ABC):
    """What these methods do alike: once all components are sampled, a step ends with the exact gradient at its iterate.

    A method is a dataclass with the field `n_threads`, and counts that may be "auto".
    """

    n_threads: int

    default_sampling: ClassVar[str] = "shuffled-once"
    patience: ClassVar[int] = 20

    def __post_init__(self) -> None:
        for count in fields(self):  # type: ignore[arg-type]
            value = getattr(self, count.name)
            if not (value == "auto" == count.default):
                check_count(count.name, value)

    @abstractmethod
    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> Any:
        """Return the state before the first row is read."""

    @abstractmethod
    def run_pass(self, problem: Problem, state: Any, order: Indices) -> Any:
        """Return the state after a pass."""

    def estimate(self, problem: Problem, state: SampledState) -> float:
        """Return the optimality, which is known exactly at the end of a step over all components; NaN elsewhere."""
        return state.optimality if state.n_sampled == problem.n_components else math.nan

    def exact_measures(self, problem: Problem, state: SampledState) -> Measures | None:
        """Return what the last pass found at x, where that was an exact one."""
        if state.n_sampled < problem.n_components:
            return None
        return Measures(state.value + problem.term.value(state.x), state.optimality, state.gradient.copy())

    def default_batch_size(self, problem: Problem) -> int:
        """Return n / 1024: components are what samples are drawn of."""
        return max(1, problem.n_rows // 1024)
