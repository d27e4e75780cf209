"""Constants of smoothness for the theory's step sizes, of linear models and of components given as functions.

For linear models they follow from the data (`finitesum.evaluation.smoothness`). Functions may come with bounds L_j on
the Lipschitz constants of their gradients (without the penalty). Where there are none, they are estimated at the start:
by the norm of the Hessian where there is one (one Hessian a component, charged), else by `POWER_STEPS` steps of the
power iteration with differences of gradients (one gradient a step and one more, charged). Estimates know one point
only, so that methods with a table raise them when a visit sees the gradient change faster than they allow:

    L_j <- max(L_j, ||nabla f_j(w) - nabla f_j(z)|| / ||w - z||),    z the point of the last visit
"""

from enum import Enum
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.smoothness import (
    component_smoothness,
    counted_smoothness,
    strong_convexity as linear_strong_convexity,
)
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem

#: Steps of the power iteration on a component without a Hessian.
POWER_STEPS = 3


class Constant(Enum):
    """Which Lipschitz constant, the penalty's part included."""

    MEAN = "L, of F's smooth part"
    LARGEST = "L_max, of the component with the largest one"


class Smoothness(NamedTuple):
    """A Lipschitz constant of gradients, and what it cost to find it."""

    value: float
    bounds: Vector  # (n,)  the estimates that it rests on; empty where the constant is known
    n_gradients: int
    n_hessians: int


def smoothness_at(problem: AnySum, w: Vector, constant: Constant) -> Smoothness:
    """Return a constant; where nothing is known of the components, they are estimated at w."""
    nothing = np.empty(0)
    if isinstance(problem, Problem):
        if constant is Constant.LARGEST:
            return Smoothness(component_smoothness(problem), nothing, 0, 0)
        value, n_gradients = counted_smoothness(problem)
        return Smoothness(value, nothing, n_gradients, 0)
    if problem.smoothness is not None or (constant is Constant.MEAN and problem.mean_smoothness is not None):
        given = np.zeros(1) if problem.smoothness is None else problem.smoothness
        return Smoothness(smoothness_from(problem, given, constant), nothing, 0, 0)
    bounds, n_gradients, n_hessians = _estimates_at(problem, w)
    return Smoothness(smoothness_from(problem, bounds, constant), bounds, n_gradients, n_hessians)


def smoothness_from(problem: AnySum, bounds: Vector, constant: Constant) -> float:
    """Return a constant by those of the components, without the penalty; 1 where F is constant."""
    given = problem.mean_smoothness if isinstance(problem, FiniteSum) else None
    if constant is Constant.LARGEST:
        value = float(bounds.max())
    else:
        value = float(bounds.mean()) if given is None else float(given)
    return value + problem.term.largest_quadratic or 1.0


def strong_convexity(problem: AnySum) -> float:
    """Return mu, a lower bound on F's curvature."""
    if isinstance(problem, Problem):
        return linear_strong_convexity(problem)
    return problem.strong_convexity + float(problem.term.quadratic.min())


def _estimates_at(problem: FiniteSum, w: Vector) -> tuple[Vector, int, int]:
    """Return the components' constants, estimated at w, and the gradients and Hessians that this cost."""
    bounds = np.zeros(problem.n_components)
    n_gradients = n_hessians = 0
    for j in range(bounds.size):
        if problem.has_hessian(j):
            hessian = problem.component_hessian(w, j)
            bounds[j] = float(np.linalg.norm(hessian, 2)) if np.isfinite(hessian).all() else 0.0
            n_hessians += 1
        else:
            bounds[j] = _by_differences(problem, w, j)
            n_gradients += 1 + POWER_STEPS
    return bounds, n_gradients, n_hessians


def _by_differences(problem: FiniteSum, w: Vector, j: int) -> float:
    """Return the length of the change of component j's gradient, a unit length along its steepest change."""
    width = difference_width(w)
    gradient = problem.component_gradient(w, j)
    direction, norm = gradient, 0.0
    for _ in range(POWER_STEPS):
        length = float(np.linalg.norm(direction))
        direction = direction / length if length > 0.0 else np.full(w.size, w.size**-0.5)
        direction = (problem.component_gradient(w + width * direction, j) - gradient) / width
        norm = max(norm, float(np.linalg.norm(direction)))
    return norm if np.isfinite(norm) else 0.0


def difference_width(w: Vector) -> float:
    """Return how far apart gradients are taken for a difference at w."""
    return 1e-6 * max(1.0, float(np.linalg.norm(w)))


def curvature_between(change: Vector, step: Vector, w: Vector) -> float:
    """Return ||change of the gradient|| / ||step|| near w, 0 where rounding errors would decide or the step is NaN."""
    length = float(np.linalg.norm(step))
    if not length > 1e-7 * max(1.0, float(np.linalg.norm(w))):
        return 0.0
    return float(np.linalg.norm(change)) / length
