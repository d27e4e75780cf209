"""F on a sample of the components that grows, and steps along a line on it: what lazy Newton and Newton-CG share.

On a sample with the share S_A = sum of its rows' p_i, F is replaced by

    F_A(x) = (1/S_A) (sum_{i in sample} p_i loss_i(x) + l2/2 ||x||^2):

the penalty has the part in the sum that it has in F's, so that few rows do not overfit.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.row_products import line_through, objective, slope_along
from finitesum.evaluation.row_sums import Majorize, Vector32, loss_sums
from finitesum.problems.linear import Problem

#: Rows of the first sample, and by how much a sample outgrows the one before.
FIRST_ROWS, GROWTH = 2000, 4

#: By how much sums over many rows may differ where F is the same.
ROUNDING = 1e-9

#: Looks at a line, at most.
MOST_LOOKS = 40


class Sample(NamedTuple):
    """Some components."""

    components: Indices  # increasing
    share: float  # sum of their rows' weights
    ridge: float  # l2 / share

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
    share = float(problem.component_weights[chosen].sum()) or 1.0
    return Sample(chosen, share, ridge / share)


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


def next_size(problem: Problem, n_sampled: int, first_rows: int) -> int:
    """Return how many components the sample after one of n_sampled has."""
    m = problem.n_components
    n_next = -(-first_rows // (problem.batch_size or 1)) if n_sampled == 0 else GROWTH * n_sampled
    return m if n_next > 0.4 * m else n_next


class Look(NamedTuple):
    """What was read at a point."""

    gradient: Vector  # of F_A
    curvatures: Vector32  # (n,)  of the sample's rows
    squares: float  # sum of p_i phi'_i^2
    loss: float  # sum of p_i phi_i


def look(
    problem: Problem,
    sample: Sample,
    x: Vector,
    curvatures: Vector32,
    *,
    majorize: int = Majorize.NONE,
    n_threads: int = 1,
) -> Look:
    """Return what a pass over the sample sees at x; rows outside of it keep their curvatures."""
    seen = np.empty_like(curvatures) if sample.is_complete(problem) else curvatures.copy()
    gradient, squares, loss = loss_sums(
        problem, x, sample.components, curvatures=seen, majorize=majorize, n_threads=n_threads
    )
    gradient /= sample.share
    penalised = slice(problem.rows.n_columns)
    gradient[penalised] += sample.ridge * x[penalised]
    return Look(gradient, seen, squares, loss)


def look_at_more(
    problem: Problem,
    before: Sample,
    sample: Sample,
    x: Vector,
    known: Look,
    *,
    majorize: int = Majorize.NONE,
    n_threads: int = 1,
) -> Look:
    """Return what a pass over the larger sample would see at x, by reading the rows that are new in it."""
    new = others(sample.components, before.components, problem.n_components)
    seen = known.curvatures.copy()
    gradient, squares, loss = loss_sums(problem, x, new, curvatures=seen, majorize=majorize, n_threads=n_threads)
    penalised = slice(problem.rows.n_columns)
    if before.components.size > 0:
        gradient += before.share * known.gradient
        gradient[penalised] -= before.share * before.ridge * x[penalised]
    gradient /= sample.share
    gradient[penalised] += sample.ridge * x[penalised]
    return Look(gradient, seen, known.squares + squares, known.loss + loss)


def search(problem: Problem, sample: Sample, x: Vector, way: Vector, first: float) -> float:
    """Return t > 0 where the slope of F_A along x + t way is between -1/2 and 0 of the first, as far as rounding allows."""
    line = line_through(problem, x, way, sample.components)
    penalised = slice(problem.rows.n_columns)
    square = sample.ridge * float(way[penalised] @ way[penalised])
    linear = sample.ridge * float(way[penalised] @ x[penalised])
    low, high, t = 0.0, math.inf, 1.0
    for _ in range(MOST_LOOKS):
        slope = slope_along(problem, line, t) / sample.share + linear + t * square
        if 0.5 * first <= slope <= 0.0:
            return t
        if slope < 0.0:
            low = t
        else:  # NaN, too
            high = t
        t = 4.0 * t if high == math.inf else (math.sqrt(low * high) if low > 0.0 else 0.25 * high)
    return low if low > 0.0 else t


def wants_search(slope: float, first: float, left: float) -> bool:
    """Tell whether the length of a step is to be searched for, where F_A is smooth.

    Parameters
    ----------
    slope, first : float
        Slopes of F_A along the step at its end and at its start. F_A falls where the first is <= 0, because it is convex.
    left : float >= 0
        The share of the gradient that the end leaves.
    """
    fine = slope <= 0.0 or (slope <= 0.5 * abs(first) and left < 0.9)
    return not fine or slope < 0.65 * first


def share_left(problem: Problem, end: Vector, gradient: Vector, optimality: float) -> float:
    """Return the optimality that a gradient at the end of a step means, as a share of the one before; 0 if that was 0."""
    return problem.term.optimality(end, gradient) / optimality if optimality != 0.0 else 0.0


def rise_bound(problem: Problem, x: Vector, end: Vector, gradient: Vector) -> float:
    """Return gradient'(end - x) + l1 (||end||_1 - ||x||_1) >= F(end) - F(x), given the gradient at the end."""
    penalised = slice(problem.rows.n_columns)
    norms = float(np.abs(end[penalised]).sum() - np.abs(x[penalised]).sum())
    return float(gradient @ (end - x)) + problem.penalty.lasso() * norms


def falls(
    problem: Problem, sample: Sample, x: Vector, end: Vector, *, rise: float, left: float, n_threads: int
) -> bool:
    """Tell whether F is lower at the end of a step than at x, given `rise_bound` and `share_left` of the step.

    Where F may have risen although the optimality shrank, F itself is looked at; a sample is no reason to do so.
    """
    if rise <= 0.0:
        return True
    if not left < 0.9:
        return False
    if not sample.is_complete(problem):
        return True
    before = objective(problem, x, n_threads)
    return objective(problem, end, n_threads) <= before + ROUNDING * abs(before)
