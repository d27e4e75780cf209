"""Steps from a point, and what gradients mean there: penalty and set counted in."""

from __future__ import annotations

import math

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.problems.finite_sum import FiniteSum


def moved(problem: FiniteSum, y: Vector, gradient: Vector, step_size: float) -> Vector:
    """Return prox(y - step_size gradient), or the projection of that point; `gradient` has the quadratic penalty in it."""
    if problem.is_smooth or not np.isfinite(gradient).all():
        stepped: Vector = y - step_size * gradient
        return stepped
    return problem.term.prox_step(y, gradient, step_size)


def optimality_of(problem: FiniteSum, x: Vector, mean_gradient: Vector) -> float:
    """Return the optimality at x if the components' mean gradient there is this."""
    return problem.term.optimality(x, mean_gradient + problem.term.quadratic * x)


def objective_at(problem: FiniteSum, x: Vector) -> float:
    """Return F(x); infinity where it is not finite."""
    value = problem.mean_value(x) + problem.term.value(x)
    return value if math.isfinite(value) else math.inf
