"""Faces of constraint sets and of the l1 norm, and the minimiser of a quadratic model on one.

Where it is known which coefficients are 0 or at a bound, and which signs the others have, the minimiser of a model with an
l1 penalty, or over a box, an l1 ball or a simplex, is that of a quadratic on the free coordinates, perhaps on a plane

    min_p  s'p + 1/2 p'H p,      p_j = 0 for j not free,   <normal, p> = 0

which takes a Cholesky factor of H on the free coordinates. Half-spaces and l2 balls have a boundary of one piece each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from finitesum.constraints import HalfSpace, L1Ball, L2Ball, Simplex
from finitesum.constraints.boxes import Intervals
from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.problems.term import ConvexTerm


def solve_spd(hessian: Matrix, right: Matrix) -> Matrix:
    """Return H^-1 right for a finite symmetric H >= 0, given by its lower triangle (a shifted H where it is not > 0).

    Examples
    --------
    >>> solve_spd(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([3.0, 3.0]))
    array([1., 1.])
    """
    shift = 0.0
    while True:
        try:
            matrix = hessian.T if shift == 0.0 else hessian.T + shift * np.eye(right.shape[0])
            solution: Matrix = cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False)
            return solution
        except LinAlgError:
            shift = 100.0 * shift or 1e-12 * float(np.diagonal(hessian).max()) or 1.0


#: Newton steps to a multiplier, at most: the first is 0, from where each falls short of the root by less.
MOST_ROOT_STEPS = 60


class Face(NamedTuple):
    """The points near x with the same zeros, signs and bounds."""

    free: Indices
    slopes: Vector  # of the l1 penalty, on the free coordinates
    normal: Vector  # steps are at right angles to it; empty where they need not be


def is_tight(constraint: L1Ball | Simplex, coefficients: Vector) -> bool:
    """Return whether the sum of the coefficients is as large as may be."""
    return isinstance(constraint, Simplex) or not constraint.contains((1.0 + 1e-9) * coefficients)


def leaves_face(term: ConvexTerm, x: Vector, slope: Vector, thresholds: Vector) -> bool:
    """Return whether a coefficient that is 0, with |x_j| weighted by thresholds, or at a bound, is better off otherwise.

    On a simplex, thresholds are what all slopes are raised by.
    """
    if term.is_constrained and isinstance(term.constraint, Intervals):
        return True  # which bounds are passed is seen by going there
    n_columns = term.n_columns
    at_zero = x[:n_columns] == 0.0
    if isinstance(term.constraint, Simplex):
        return bool((slope[:n_columns][at_zero] + thresholds[:n_columns][at_zero] < 0.0).any())
    return bool((np.abs(slope[:n_columns][at_zero]) > (1.0 + 1e-12) * thresholds[:n_columns][at_zero]).any())


def face_of(term: ConvexTerm, x: Vector, slope: Vector, *, tight: bool | None = None) -> Face:
    """Return the face that x lies on; with bounds, coordinates that the slope draws inside are free.

    Whether the sum of an l1 ball is as large as may be can be given, where x itself is not a point of the ball.
    """
    n_columns = term.n_columns
    free = np.ones(x.size, dtype=bool)
    constraint = term.constraint
    coefficients, signs = x[:n_columns], np.sign(x)
    signs[n_columns:] = 0.0
    if isinstance(constraint, L1Ball | Simplex):
        if is_tight(constraint, coefficients) if tight is None else tight:
            free[:n_columns] = coefficients != 0.0
            normal = signs.copy()
            if isinstance(constraint, L1Ball) and constraint.weights is not None:
                normal[:n_columns] *= constraint.weights
            return Face(np.flatnonzero(free), np.zeros(np.count_nonzero(free)), normal[free])
    elif term.is_constrained:
        ahead = term.prox_step(x, slope, 1e-3 * max(1.0, np.abs(x).max()) / (np.abs(slope).max() or 1.0))
        free = ahead != x
    else:
        free[:n_columns] = coefficients != 0.0
    chosen = np.flatnonzero(free)
    return Face(chosen, term.penalty.lasso() * signs[chosen], np.zeros(0))


def step_on(term: ConvexTerm, hessian: Matrix, x: Vector, slope: Vector, face: Face) -> Vector:
    """Return the step from x to the minimiser of the model on a face, for the free coordinates."""
    right = -(slope[face.free] + face.slopes)
    matrix = hessian if face.free.size == x.size else hessian[np.ix_(face.free, face.free)]
    if not face.normal.any():
        return solve_spd(matrix, right)
    constraint = term.constraint
    total = constraint.radius if isinstance(constraint, L1Ball) else constraint.total  # type: ignore[attr-defined]
    solutions = solve_spd(matrix, np.column_stack([right, face.normal]))
    lacking = total - face.normal @ x[face.free]
    force = (face.normal @ solutions[:, 0] - lacking) / (face.normal @ solutions[:, 1])
    step: Vector = solutions[:, 0] - force * solutions[:, 1]
    return step


def brought_back(term: ConvexTerm, x: Vector, end: Vector) -> Vector:
    """Return the end of a step from x with 0 where signs changed, in the set."""
    n_columns = term.n_columns
    if not isinstance(term.constraint, Intervals) or not term.is_constrained:
        end[:n_columns][x[:n_columns] * end[:n_columns] < 0.0] = 0.0
    return term.prox_step(end, np.zeros(x.size), 0.0) if term.is_constrained else end


def on_face(term: ConvexTerm, hessian: Matrix, x: Vector, slope: Vector) -> Vector:
    """Return the minimiser of the model on the face of x: where it leaves the set or changes signs, a better point than x.

    Parameters
    ----------
    term : ConvexTerm
        Gives the set or the penalty. On sets other than boxes, l1 balls and simplices x comes back.
    hessian : ndarray of float64, shape (d, d)
        H, symmetric.
    x, slope : ndarray of float64, shape (d,)
        A point of the set, and the gradient of the quadratic there.
    """
    if not isinstance(term.constraint, Intervals | L1Ball | Simplex):
        return x
    face = face_of(term, x, slope)
    if face.free.size == 0:
        return x
    step = step_on(term, hessian, x, slope, face)
    for share in (1.0, _first_zero(term, x, face.free, step)):
        end = x.copy()
        end[face.free] += share * step
        end = brought_back(term, x, end)
        if change(term, hessian, x, end, slope) < 0.0:
            return end
    return x


def _first_zero(term: ConvexTerm, x: Vector, free: Indices, step: Vector) -> float:
    """Return the share of the step after which the first coefficient is 0 or, in a box, at a bound."""
    start, end = x[free], x[free] + step
    if isinstance(term.constraint, Intervals) and term.is_constrained:
        inside = np.zeros(x.size)
        inside[free] = end
        reached = term.prox_step(inside, inside, 0.0)[free]
        passed = reached != end
        shares = (reached[passed] - start[passed]) / step[passed]
        return float(np.min(shares, initial=1.0))
    crossing = (free < term.n_columns) & (start * end < 0.0)
    return float(np.min(-start[crossing] / step[crossing], initial=1.0))


def change(term: ConvexTerm, hessian: Matrix, x: Vector, end: Vector, slope: Vector) -> float:
    """Return by how much the model rises from x to the end."""
    way = end - x
    n_columns = term.n_columns
    norms = float((np.abs(end[:n_columns]) - np.abs(x[:n_columns])).sum())
    return float(slope @ way + 0.5 * way @ (hessian @ way)) + term.penalty.lasso() * norms


def in_half_space(term: ConvexTerm, constraint: HalfSpace, hessian: Matrix, gradient: Vector, y: Vector) -> Vector:
    """Return the minimiser of g'(x - y) + 1/2 (x - y)'H (x - y) over a half-space: free, or on its plane."""
    normal = np.zeros(y.size)
    normal[: term.n_columns] = constraint.normal
    solutions = solve_spd(hessian, np.column_stack([gradient, normal]))
    x: Vector = y - solutions[:, 0]
    excess = float(normal @ x) - constraint.offset
    if excess > 0.0:
        x -= excess / float(normal @ solutions[:, 1]) * solutions[:, 1]
    return term.prox_step(x, gradient, 0.0)


def in_l2_ball(term: ConvexTerm, constraint: L2Ball, hessian: Matrix, gradient: Vector, y: Vector) -> Vector:
    """Return the minimiser of g'(x - y) + 1/2 (x - y)'H (x - y) over an l2 ball.

    (H + m D) (x - y) = -g - m D y, with D the identity on the coefficients; m >= 0 is such that their norm is the radius,
    by Newton's method on 1 / ||x(m)||, which is nearly linear in m.
    """
    penalised = np.arange(term.n_columns)
    multiplier, x = 0.0, y
    for _ in range(MOST_ROOT_STEPS):
        shifted, right = hessian.copy(), -gradient
        shifted[penalised, penalised] += multiplier
        right[penalised] -= multiplier * y[penalised]
        x = y + solve_spd(shifted, right)
        norm = float(np.linalg.norm(x[penalised]))
        if not norm > (1.0 + 1e-14) * constraint.radius:
            break
        inner = np.zeros(x.size)
        inner[penalised] = x[penalised]
        multiplier += (
            norm**2 / float(inner @ solve_spd(shifted, inner)) * (norm - constraint.radius) / constraint.radius
        )
    return term.prox_step(x, gradient, 0.0)
