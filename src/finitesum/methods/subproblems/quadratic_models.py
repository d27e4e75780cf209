"""Minimisers of a quadratic model q(x) = g'(x - y) + 1/2 (x - y)'H (x - y) + r(x): what NIM and Newton's method solve.

* smooth: the Cholesky factor of H, O(d^3);
* an l1 penalty: coordinate descent finds signs, the Cholesky factor on the support then gives the minimiser that belongs to
  them (`finitesum.methods.subproblems.active_set`); exact as soon as the signs are;
* a box, an l1 ball, a simplex: the same, with bounds or a multiplier; where that comes to no end, accelerated projected
  gradients with restarts do;
* a half-space: the free minimiser, or that on its plane; an l2 ball: Newton's method for the multiplier.

A matrix H that is not positive definite to working accuracy (no ridge and too few rows, a loss that is flat far out) is
shifted by the smallest 1e-12, 1e-10, ... of its largest diagonal entry that makes it so.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import eigsh

from finitesum.constraints import HalfSpace, L1Ball, L2Ball, Simplex
from finitesum.constraints.boxes import Intervals
from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.methods.subproblems.active_set import (
    brought_back,
    change,
    face_of,
    in_half_space,
    in_l2_ball,
    is_tight,
    leaves_face,
    on_face,
    solve_spd,
    step_on,
)
from finitesum.problems.term import ConvexTerm

#: Sweeps of coordinate descent, and projected gradient steps, between two factors on a face: of about the same cost.
SWEEPS, GRADIENT_STEPS = 20, 40

#: Fewer variables than this have their eigenvalues computed exactly.
FEW = 200

#: Rounds of sweeps, and projected gradient steps, that a model gets at most.
MOST_ROUNDS, MOST_STEPS = 100, 10_000


@kernel_part
def _move(hessian: Matrix, x: Vector, gradient: Vector, j: int, target: float) -> None:
    step = target - x[j]
    if step != 0.0:
        x[j] = target
        row = hessian[j]
        for k in range(x.size):
            gradient[k] += step * row[k]


@kernel
def _sweep(
    hessian: Matrix, x: Vector, gradient: Vector, thresholds: Vector, lower: Vector, upper: Vector, n_sweeps: int
) -> None:
    """Minimise model + sum_j thresholds_j |x_j| between the bounds along one coordinate after the other.

    gradient = g + H (x - y) is kept up.
    """
    for _ in range(n_sweeps):
        for j in range(x.size):
            curvature = hessian[j, j]
            if curvature > 0.0:
                target = x[j] - gradient[j] / curvature
                threshold = thresholds[j] / curvature
                target = max(target - threshold, 0.0) + min(target + threshold, 0.0)
                _move(hessian, x, gradient, j, min(max(target, lower[j]), upper[j]))


def _mapping_size(term: ConvexTerm, x: Vector, gradient: Vector) -> float:
    """Return ||x - prox(x - gradient)||_inf."""
    return float(np.abs(x - term.prox_step(x, gradient, 1.0)).max())


def _thresholds(term: ConvexTerm, x: Vector, slope: Vector) -> Vector:
    """Return the weight of each |x_j|: that of the l1 penalty, or the multiplier of a set as x and slope have it."""
    n_columns = term.n_columns
    thresholds = np.zeros(x.size)
    thresholds[:n_columns] = term.penalty.lasso()
    if isinstance(term.constraint, L1Ball) and is_tight(term.constraint, x[:n_columns]):
        multiplier = max(-float(slope[:n_columns] @ x[:n_columns]) / term.constraint.radius, 0.0)
        thresholds[:n_columns] = multiplier
        if term.constraint.weights is not None:
            thresholds[:n_columns] *= term.constraint.weights
    elif isinstance(term.constraint, Simplex):
        thresholds[:n_columns] = -float(slope[:n_columns] @ x[:n_columns]) / term.constraint.total
    return thresholds


def _minimise_on_faces(
    term: ConvexTerm, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float
) -> tuple[Vector, bool]:
    """Return what coordinate descent and steps on faces come to, and whether that is the minimiser."""
    x, slope = y, gradient
    lower, upper = np.full(x.size, -np.inf), np.full(x.size, np.inf)
    if isinstance(term.constraint, Intervals):
        n_columns = term.n_columns
        lower[:n_columns], upper[:n_columns] = term.constraint.bounds()
    is_stuck = False
    for _ in range(MOST_ROUNDS):
        thresholds = _thresholds(term, x, slope)
        if is_stuck or leaves_face(term, x, slope, thresholds):
            x, slope = x.copy(), slope.copy()
            _sweep(hessian, x, slope, thresholds, lower, upper, SWEEPS)
        end = on_face(term, hessian, x, slope)
        is_stuck = end is x  # at once against a sign that changes: sweeps bring that coefficient to 0
        x, slope = end, gradient + hessian @ (end - y)
        if not _mapping_size(term, x, slope) > tolerance:
            return x, True
    return x, False


def _minimise_on_ball(
    term: ConvexTerm, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float
) -> tuple[Vector, bool]:
    """Return what coordinate descent with the multiplier of an l1 ball or a simplex comes to with steps on faces.

    And whether that is the minimiser. Sweeps leave the set; the plane on which its sum is what it may be, for the signs
    that they found, brings x back.
    """
    x, slope = y, gradient
    bounds, free = np.full(x.size, np.inf), np.zeros(x.size)
    lower = -bounds
    lower[: term.n_columns] = 0.0  # on a simplex
    for _ in range(MOST_ROUNDS):
        if not _mapping_size(term, x, slope) > tolerance:
            return x, True
        thresholds = _thresholds(term, x, slope)
        end, ahead = x.copy(), slope.copy()
        if leaves_face(term, x, slope, thresholds):
            if isinstance(term.constraint, Simplex):
                ahead += thresholds
                _sweep(hessian, end, ahead, free, lower, bounds, SWEEPS)
                ahead -= thresholds
            else:
                _sweep(hessian, end, ahead, thresholds, -bounds, bounds, SWEEPS)
        is_outside = not term.constraint.contains(end[: term.n_columns])
        face = face_of(term, end, ahead, tight=bool(thresholds.any()) or is_outside)
        swept = end.copy()
        end[face.free] += step_on(term, hessian, end, ahead, face)
        end = brought_back(term, swept, end)
        if not change(term, hessian, x, end, slope) < 0.0:
            end = on_face(term, hessian, x, slope)
            if end is x:
                break
        x = end
        slope = gradient + hessian @ (x - y)
    return x, False


def _largest_eigenvalue(hessian: Matrix) -> float:
    """Return the largest eigenvalue, or a little more."""
    if hessian.shape[0] < FEW:
        return float(eigvalsh(hessian, check_finite=False)[-1])
    start = np.ones(hessian.shape[0])
    return 1.05 * float(eigsh(hessian, 1, v0=start, tol=1e-2, return_eigenvectors=False)[0])


def _minimise_constrained(term: ConvexTerm, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    largest = _largest_eigenvalue(hessian)
    step_size = 1.0 / largest if largest > 0.0 else 1.0
    x = point = y
    t = 1.0
    for k in range(MOST_STEPS):
        moved = term.prox_step(point, gradient + hessian @ (point - y), step_size)
        if not np.abs(point - moved).max() > tolerance * min(step_size, 1.0):
            return on_face(term, hessian, moved, gradient + hessian @ (moved - y))
        if k % GRADIENT_STEPS == GRADIENT_STEPS - 1:
            ended = on_face(term, hessian, moved, gradient + hessian @ (moved - y))
            if ended is not moved:
                x, point, t = ended, ended, 1.0
                continue
        restart = np.dot(point - moved, moved - x) > 0.0
        t_next = 1.0 if restart else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        point = moved if restart else moved + (t - 1.0) / t_next * (moved - x)
        x, t = moved, t_next
    return x


def minimise_model(term: ConvexTerm, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    """Return the minimiser of g'(x - y) + 1/2 (x - y)'H (x - y) + r(x).

    Parameters
    ----------
    term : ConvexTerm
        Gives r: the l1 penalty or the constraint.
    hessian : ndarray of float64, shape (d, d)
        H >= 0, symmetric; its lower triangle is enough where there is no r.
    gradient, y : ndarray of float64, shape (d,)
        g is the gradient of the smooth part at y.
    tolerance : float >= 0
        Bounds ||x - prox(x - q'(x))||_inf where the minimiser is found by iteration; 0 asks for rounding errors.

    Returns
    -------
    ndarray of float64, shape (d,)
        NaN where the model is not finite, so that a divergence is seen.
    """
    if not (np.isfinite(np.diagonal(hessian)).all() and np.isfinite(gradient).all()):
        return np.full_like(y, np.nan)
    if term.is_smooth:
        return y - solve_spd(hessian, gradient)
    rounding = 1e-15 * float((np.abs(gradient) + np.abs(hessian) @ np.abs(y)).max())
    tolerance = max(tolerance, rounding)
    x, is_done = y, False
    if isinstance(term.constraint, HalfSpace):
        return in_half_space(term, term.constraint, hessian, gradient, y)
    if isinstance(term.constraint, L2Ball):
        return in_l2_ball(term, term.constraint, hessian, gradient, y)
    if isinstance(term.constraint, Intervals | L1Ball | Simplex):
        on_faces = _minimise_on_faces if isinstance(term.constraint, Intervals) else _minimise_on_ball
        x, is_done = on_faces(term, hessian, gradient, y, tolerance)
    if is_done or not term.is_constrained:
        return x
    return _minimise_constrained(term, hessian, gradient + hessian @ (x - y), x, tolerance)
