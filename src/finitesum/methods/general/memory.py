"""The second-order memory of components that are callables: what CIAG, A-CIAG and NIM share.

Component j is replaced by its Taylor model of second order at its anchor P_j, the point of its last visit. The gradient of
their mean at y is

    g(y) = b + H y,    b = (1/n) sum_j (nabla f_j(P_j) - H_j P_j),    H = diag(l2) + (1/n) sum_j H_j,    H_j at P_j

over the components that were visited. Memory 2 n d + d^2 numbers: the anchors and the gradients there. Hessians are not
kept, that would be n d^2: a visit evaluates the old one at the anchor again, and is charged for both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.problems.finite_sum import FiniteSum


class Memory(NamedTuple):
    """Anchors, gradients there, and the aggregates b and H."""

    anchors: Matrix  # (n, d)
    gradients: Matrix  # (n, d)
    visited: Flags  # (n,)
    linear: Vector  # (d,)  b
    hessian: Matrix  # (d, d)  H


class Visit(NamedTuple):
    """What a visit of component j at y found before anything was changed."""

    gradient: Vector  # at y
    curvature: Matrix  # the Hessian at the anchor; zeros at the first visit
    predicted: Vector  # the change of the gradient since the last visit, by that Hessian
    missed: Vector  # what the change was beyond that


def empty_memory(problem: FiniteSum) -> Memory:
    """Return the memory before the first visit: b = 0 and H = diag(l2)."""
    n, dim = problem.n_components, problem.dim
    nobody = np.zeros(n, dtype=np.bool_)
    return Memory(np.zeros((n, dim)), np.zeros((n, dim)), nobody, np.zeros(dim), np.diag(problem.term.quadratic))


def copy_memory(memory: Memory) -> Memory:
    """Return a copy that may be written to."""
    anchors, gradients, visited, linear, hessian = memory
    return Memory(anchors.copy(), gradients.copy(), visited.copy(), linear.copy(), hessian.copy())


def look(problem: FiniteSum, memory: Memory, j: int, y: Vector) -> Visit:
    """Evaluate component j at y and compare with its model: a gradient and, but for the first visit, a Hessian."""
    gradient = problem.component_gradient(y, j)
    if not memory.visited[j]:
        nothing = np.zeros(problem.dim)
        return Visit(gradient, np.zeros((problem.dim, problem.dim)), nothing, nothing)
    curvature = problem.component_hessian(memory.anchors[j], j)
    predicted = curvature @ (y - memory.anchors[j])
    return Visit(gradient, curvature, predicted, gradient - memory.gradients[j] - predicted)


def move(problem: FiniteSum, memory: Memory, j: int, y: Vector, visit: Visit) -> Matrix | None:
    """Move the anchor of component j to y, in place; return the change of H, None (and no move) if it is not finite."""
    n = problem.n_components
    new = problem.component_hessian(y, j)
    if not (np.isfinite(new).all() and np.isfinite(visit.gradient).all()):
        return None
    rise, constant = new / n, (visit.gradient - new @ y) / n
    if memory.visited[j]:
        rise -= visit.curvature / n
        constant -= (memory.gradients[j] - visit.curvature @ memory.anchors[j]) / n
    memory.linear[:] += constant
    memory.hessian[:] += rise
    memory.anchors[j], memory.gradients[j], memory.visited[j] = y, visit.gradient, True
    return rise


def model_gradient(memory: Memory, y: Vector) -> Vector:
    """Return b + H y."""
    gradient: Vector = memory.linear + memory.hessian @ y
    return gradient


def full_memory(problem: FiniteSum, x: Vector) -> Memory:
    """Return the memory with every component anchored at x: one pass of gradients and Hessians."""
    memory = empty_memory(problem)
    for j in range(problem.n_components):
        move(problem, memory, j, x, look(problem, memory, j, x))
    return memory


def rebuilt(problem: FiniteSum, memory: Memory) -> tuple[Memory, int]:
    """Return the memory with b and H summed again, which rids them of rounding errors, and the Hessians it took."""
    fresh = empty_memory(problem)
    fresh = memory._replace(linear=fresh.linear, hessian=fresh.hessian)
    n, n_hessians = problem.n_components, 0
    for j in range(n):
        if not memory.visited[j]:
            continue
        anchor = memory.anchors[j]
        curvature = problem.component_hessian(anchor, j)
        n_hessians += 1
        fresh.linear[:] += (memory.gradients[j] - curvature @ anchor) / n
        fresh.hessian[:] += curvature / n
    return fresh, n_hessians
