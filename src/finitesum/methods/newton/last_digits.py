"""The float64 numbers next to an iterate of Newton's method that leave the least of the optimality."""

from typing import Any, cast

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.outputs import free_coordinates, full_hessian, loss_of, scores_at
from finitesum.evaluation.rounding import NOISE
from finitesum.methods.subproblems.lattice import nearest_combination
from finitesum.methods.visits import AnySum
from finitesum.problems.linear import Problem

#: Variables up to which points next to an iterate are looked for: each takes a lattice basis.
MOST_ON_GRID = 300


def point_on_grid(problem: AnySum, w: Vector, gradient: Vector, optimality: float, hessian: Matrix) -> Vector | None:
    """Return float64 numbers next to w that leave little of the optimality; None where w's own do not matter.

    The residual is the mapping m, whose derivative on the coordinates that are at no bound is J = H; where w is on a plane
    with the normal a, or on a sphere, P (H + mu I) + a a' / a'a with the projection P along a. The gradient and the Hessian
    are those of the smooth part of F at w.
    """
    term, constraint = problem.term, cast(Any, problem.term.constraint)
    if not isinstance(problem, Problem) or problem.dim > MOST_ON_GRID or not hessian.size or not np.isfinite(hessian).all():
        return None
    if problem.n_outputs > 1 and term.is_constrained and not term.is_separable:  # a normal for each output
        return None
    mapping, bounds = term.mapping(w, gradient), term.intervals
    free = w != 0.0
    if bounds is not None:
        free &= (w != bounds.lower) & (w != bounds.upper)
    normal = _normal(problem, w) if (mapping != gradient)[free].any() else np.zeros(w.size)
    if problem.n_outputs > 1 and (pinned := free_coordinates(problem)).size > 0:  # the last output follows from the others
        hessian = full_hessian(problem, loss_of(problem).curvatures(scores_at(problem, w)))
        free[pinned - problem.rows.dim()] = False
    units, right, normal = np.spacing(np.abs(w[free])), -mapping[free], normal[free]
    jacobian = hessian[np.ix_(free, free)]
    if (square := float(normal @ normal)) > 0.0:
        if constraint.boundary == "l2-norm":
            moved = term.coefficients(w - gradient)
            multiplier = float(np.linalg.norm(moved)) / constraint.radius - 1.0
            jacobian = jacobian + multiplier * np.diag(1.0 * (normal != 0.0))
        jacobian = jacobian + np.outer(normal, (normal - normal @ jacobian) / square)
    basis = jacobian * units
    if not float(np.linalg.norm(basis)) > NOISE * optimality:
        return None
    end = w.copy()
    end[free] += nearest_combination(basis, right) * units
    return end


def _normal(problem: Problem, w: Vector) -> Vector:
    """Return the normal of the face of the set that w is on; 0 where it has none."""
    term, constraint = problem.term, cast(Any, problem.term.constraint)
    normal = np.zeros(w.size)
    if constraint.boundary == "plane":
        normal[: term.n_columns] = constraint.normal
    elif constraint.boundary == "l2-norm":
        normal[: term.n_columns] = term.coefficients(w)
    elif term.intervals is not None and term.intervals.sizes.size:
        normal[:] = term.intervals.sizes * np.sign(w)
    return normal
