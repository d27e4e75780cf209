"""Exact measures of a point: objective, full gradient and the optimality that `tol` bounds.

optimality = || w - prox_r(w - grad f(w)) ||_2, where f is the mean loss with the quadratic part of the penalty and r the
rest; with no l1 part that is ||grad F(w)||_2, and with a constraint || w - proj(w - grad F(w)) ||_2.

Where the loss is nonsmooth, or components are callables, no gradient vanishes at a minimum; optimality is then the duality
gap F(w) - lower bound of `finitesum.evaluation.certificates`, and NaN where there is no bound.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.certificates import Minorant, lower_bound, minorant_at
from finitesum.evaluation.outputs import measure
from finitesum.evaluation.row_sums import loss_sums
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.finite_sum import AnyProblem, FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.scaled import at_rows, gradient_from_rows


class Measures(NamedTuple):
    """What one exact full pass finds at a point."""

    objective: float
    optimality: float
    gradient: Vector  # of the smooth part: mean loss and quadratic penalty (a subgradient of a nonsmooth loss)
    minorant: Minorant | None = None  # of the mean loss, where optimality is a duality gap
    rounding: float = math.nan  # at most that much of the optimality is rounding error; NaN where that is not known
    sizes: Callable[[], tuple[float, float]] | None = None  # the root of sum_i p_i phi'_i^2 and max phi''_i, where known

    @property
    def upper(self) -> float:
        """What the optimality is at most, rounding errors included where they are known."""
        return self.optimality if math.isnan(self.rounding) else self.optimality + self.rounding


def evaluate(problem: AnyProblem, w: Vector) -> Measures:
    """Return objective, optimality and gradient at w, by one exact pass over the data.

    Parameters
    ----------
    problem : Problem, FiniteSum or SubgradientProblem
    w : array_like, shape (problem.dim,)

    Raises
    ------
    ValueError
        w has another shape, or holds no numbers.

    Examples
    --------
    >>> problem = Problem.linear([[1.0], [-1.0]], [1.0, -1.0], loss="squared")
    >>> measures = evaluate(problem, np.array([1.0]))
    >>> measures.objective, measures.optimality
    (0.0, 0.0)
    """
    w = checked_point(problem, w)
    if isinstance(problem, FiniteSum):
        value, gradient = problem.mean_value_and_gradient(w)
    elif isinstance(problem, SubgradientProblem) or not problem.loss.is_smooth():
        return _evaluate_nonsmooth(problem, w)
    elif problem.n_outputs > 1:
        value, gradient = measure(problem, at_rows(problem, w))
        gradient = gradient_from_rows(problem, gradient)
    else:
        found = loss_sums(problem, at_rows(problem, w))
        gradient, value = gradient_from_rows(problem, found.gradient), found.value
    objective = value + problem.term.add_to(gradient, w)
    return Measures(float(objective), problem.term.optimality(w, gradient), gradient)


def checked_point(problem: AnyProblem, w: Any) -> Vector:
    """Return a point as an array of shape (dim,), or raise a ValueError that says what it must hold."""
    try:
        point = np.asarray(w, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"w must hold {problem.dim} numbers: {error}.") from error
    if point.shape != (problem.dim,):
        raise ValueError(f"w must have shape ({problem.dim},), got {point.shape}.")
    return point


def _evaluate_nonsmooth(problem: Problem | SubgradientProblem, w: Vector) -> Measures:
    objective, minorant = minorant_at(problem, w)
    gradient = np.asarray(minorant.slopes.sum(axis=0))
    if isinstance(problem, Problem):
        objective += problem.term.add_to(gradient, w)
    bound = lower_bound(problem, minorant)
    gap = max(objective - bound, 0.0) if math.isfinite(bound) else math.nan
    return Measures(objective, gap, gradient, minorant)
