"""Means over some components that are functions, and their derivatives; over all of them in few calls."""

import math

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.part_components import PartSum
from finitesum.problems.batches import Batches
from finitesum.problems.finite_sum import FiniteSum


def _is_whole(problem: FiniteSum, components: Indices) -> bool:
    return components.size == problem.n_components and isinstance(problem.components, Batches)


def worthwhile(problem: FiniteSum, n_components: int) -> int:
    """Return the size of a sample, or the number of all components, where sums over these take less time."""
    m, components = problem.n_components, problem.components
    is_faster_whole = isinstance(components, Batches) and components.is_faster_whole(n_components)
    return m if is_faster_whole else min(n_components, m)


def rows_per_component(problem: FiniteSum) -> int:
    """Return how many rows of data a component has, at most; one that is an object counts for one."""
    if isinstance(problem.components, Batches):
        return problem.components.batch_size
    return int(problem.sizes.max()) if isinstance(problem, PartSum) else 1


def values_and_gradients_on(problem: FiniteSum, components: Indices, w: Vector) -> tuple[Vector, Matrix]:
    """Return the values and the gradients of some components at w, shapes (k,) and (k, d)."""
    if components.size == problem.n_components:
        return problem.values_and_gradients(w)
    found = [problem.value_and_gradient(w, int(j)) for j in components]
    return np.array([value for value, _ in found]), np.stack([gradient for _, gradient in found])


def mean_on(problem: FiniteSum, components: Indices, w: Vector) -> tuple[float, Vector]:
    """Return the mean of some components at w and its gradient, without the penalty."""
    if _is_whole(problem, components):
        return problem.mean_value_and_gradient(w)
    values, gradients = values_and_gradients_on(problem, components, w)
    return math.fsum(values) / values.size, gradients.mean(axis=0)


def hessian_on(problem: FiniteSum, components: Indices, w: Vector) -> Matrix:
    """Return the Hessian of the mean of some components at w, without the penalty."""
    if _is_whole(problem, components):
        whole: Matrix = problem.components.mean_hessian(w)
        return whole
    total, n = np.zeros((problem.dim, problem.dim)), float(components.size)
    if isinstance(problem, PartSum):
        problem.ask_hessians(components, w)
        n = float(problem.sizes[components].sum() / problem.sizes.mean())  # larger parts are larger summands
    for j in components:
        total += problem.component_hessian(w, int(j))
    return total / n


def hessian_product_on(problem: FiniteSum, components: Indices, w: Vector, v: Vector) -> Vector:
    """Return the Hessian of the mean of some components at w times v, without the penalty."""
    if _is_whole(problem, components):
        whole: Vector = problem.components.mean_hessian_product(w, v)
        return whole
    total = np.zeros(problem.dim)
    for j in components:
        total += problem.component_product(w, int(j), v)
    return total / components.size
