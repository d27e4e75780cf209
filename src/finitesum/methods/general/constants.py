"""Constants of smoothness for components that are callables: given, or estimated and corrected on the way.

L_j bounds the Lipschitz constant of component j's gradient, without the penalty. Where the user gives none, it is estimated
at the start: by the norm of the Hessian where there is one (one Hessian a component, charged), else by `POWER_STEPS` steps
of the power iteration with differences of gradients (one gradient a step and one more, charged). Estimates know one point
only, so that methods with a table raise them when a visit sees the gradient change faster than they allow:

    L_j <- max(L_j, ||nabla f_j(x) - nabla f_j(z)|| / ||x - z||),    z the point of the last visit
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.problems.finite_sum import FiniteSum

#: Steps of the power iteration on a component without a Hessian.
POWER_STEPS = 3


class Constants(NamedTuple):
    """L_j of the components, and what it cost to find them."""

    bounds: Vector  # (n,)
    n_gradients: int
    n_hessians: int


def constants_at(problem: FiniteSum, x: Vector) -> Constants:
    """Return the constants that were given, or estimates at x."""
    n = problem.n_components
    if problem.smoothness is not None:
        return Constants(problem.smoothness, 0, 0)
    bounds = np.zeros(n)
    n_gradients, n_hessians = 0, 0
    for j in range(n):
        if problem.has_hessian(j):
            bounds[j] = _finite_norm(problem.component_hessian(x, j))
            n_hessians += 1
        else:
            bounds[j] = _by_differences(problem, x, j)
            n_gradients += 1 + POWER_STEPS
    return Constants(bounds, n_gradients, n_hessians)


def _finite_norm(hessian: Vector) -> float:
    return float(np.linalg.norm(hessian, 2)) if np.isfinite(hessian).all() else 0.0


def _by_differences(problem: FiniteSum, x: Vector, j: int) -> float:
    """Return the length of the change of component j's gradient, a unit length along its steepest change."""
    width = difference_width(x)
    gradient = problem.component_gradient(x, j)
    direction, norm = gradient, 0.0
    for _ in range(POWER_STEPS):
        length = float(np.linalg.norm(direction))
        direction = direction / length if length > 0.0 else np.full(x.size, x.size**-0.5)
        direction = (problem.component_gradient(x + width * direction, j) - gradient) / width
        norm = max(norm, float(np.linalg.norm(direction)))
    return norm if np.isfinite(norm) else 0.0


def difference_width(x: Vector) -> float:
    """Return how far apart gradients are taken for a difference at x."""
    return 1e-6 * max(1.0, float(np.linalg.norm(x)))


def seen_curvature(change: Vector, step: Vector, x: Vector) -> float:
    """Return ||change of the gradient|| / ||step|| near x, 0 where rounding errors would decide."""
    length = float(np.linalg.norm(step))
    if not length > 1e-7 * max(1.0, float(np.linalg.norm(x))):
        return 0.0
    return float(np.linalg.norm(change)) / length


def full_smoothness(problem: FiniteSum, bounds: Vector) -> float:
    """Return L of F's smooth part, penalty included; 1 where F is constant."""
    mean = problem.mean_smoothness
    return (float(bounds.mean()) if mean is None else float(mean)) + problem.penalty.ridge() or 1.0


def component_smoothness(problem: FiniteSum, bounds: Vector) -> float:
    """Return L_max, with the penalty counted to each component; 1 where F is constant."""
    return float(bounds.max()) + problem.penalty.ridge() or 1.0


def strong_convexity(problem: FiniteSum) -> float:
    """Return mu, a lower bound on F's curvature."""
    return problem.strong_convexity + (0.0 if problem.has_intercept else problem.penalty.ridge())
