"""Minimisers of a quadratic model q(x) = g'(x - y) + 1/2 (x - y)'H (x - y) + r(x): what NIM and Newton's method solve.

* smooth: the Cholesky factor of H, O(d^3);
* an l1 penalty: coordinate descent finds signs, the Cholesky factor on the support then gives the minimiser that belongs to
  them; exact as soon as the signs are;
* a constraint: accelerated projected gradients with restarts, to a tolerance.

A matrix H that is not positive definite to working accuracy (no ridge and too few rows, a loss that is flat far out) is
shifted by the smallest 1e-12, 1e-10, ... of its largest diagonal entry that makes it so.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, blas, cho_factor, cho_solve, eigvalsh

from finitesum.arrays import Matrix, Vector
from finitesum.jit import kernel, kernel_part
from finitesum.measures import prox_in_place, prox_step
from finitesum.problem import LinearSum, Problem
from finitesum.rows import to_matrix

#: Sweeps of coordinate descent between two looks at the support.
SWEEPS = 5

#: Rounds of sweeps, and projected gradient steps, that a model gets at most.
MOST_ROUNDS, MOST_STEPS = 200, 10_000


def solve_spd(hessian: Matrix, right: Vector) -> Vector:
    """Return H^-1 right for a finite symmetric H >= 0, given by its lower triangle (a shifted H where it is not > 0).

    Examples
    --------
    >>> solve_spd(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([3.0, 3.0]))
    array([1., 1.])
    """
    shift = 0.0
    while True:
        try:
            matrix = hessian.T if shift == 0.0 else hessian.T + shift * np.eye(right.size)
            solution: Vector = cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False)
            return solution
        except LinAlgError:
            shift = 100.0 * shift or 1e-12 * float(np.diagonal(hessian).max()) or 1.0


@kernel_part
def _move(hessian: Matrix, x: Vector, gradient: Vector, j: int, target: float) -> None:
    step = target - x[j]
    if step != 0.0:
        x[j] = target
        row = hessian[j]
        for k in range(x.size):
            gradient[k] += step * row[k]


@kernel
def _sweep(linear_sum: LinearSum, hessian: Matrix, x: Vector, gradient: Vector, n_sweeps: int) -> None:
    """Minimise the model along one coordinate after the other; gradient = g + H (x - y) is kept up."""
    for _ in range(n_sweeps):
        for j in range(x.size):
            curvature = hessian[j, j]
            if curvature > 0.0:
                target = x[j] - gradient[j] / curvature
                if j < linear_sum.n_penalised:
                    target = linear_sum.penalty.prox_at(target, 1.0 / curvature)
                _move(hessian, x, gradient, j, target)


@kernel
def _mapping_size(linear_sum: LinearSum, x: Vector, gradient: Vector) -> float:
    """Return ||x - prox(x - gradient)||_inf."""
    moved = x - gradient
    prox_in_place(linear_sum, moved, 1.0)
    return np.abs(x - moved).max()  # type: ignore[no-any-return]


def _on_support(problem: Problem, hessian: Matrix, x: Vector, gradient: Vector) -> Vector:
    """Return the minimiser of the model among points with the signs of x, or where the way there first meets a zero."""
    n_penalised = problem.rows.n_columns
    free = x != 0.0
    free[n_penalised:] = True
    support = np.flatnonzero(free)
    if support.size == 0:
        return x
    slope = gradient[support] + problem.penalty.lasso() * np.where(support < n_penalised, np.sign(x[support]), 0.0)
    step = solve_spd(hessian[np.ix_(support, support)], -slope)
    start = x[support]
    crossing = (support < n_penalised) & (start * (start + step) <= 0.0)
    way = np.min(-start[crossing] / step[crossing], initial=1.0)
    end = start + way * step
    end[crossing & (np.abs(end) <= 1e-15 * np.abs(start))] = 0.0
    moved = x.copy()
    moved[support] = end
    return moved


def _minimise_l1(problem: Problem, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    x = y
    for k in range(MOST_ROUNDS):
        slope = gradient + hessian @ (x - y)
        if k > 0 and not _mapping_size(problem.view, x, slope) > tolerance:
            break
        if k % 2 == 0:
            x = _on_support(problem, hessian, x, slope)  # often all there is to do: signs seldom change
        else:
            x = x.copy()
            _sweep(problem.view, hessian, x, slope, SWEEPS)
    return x


def _minimise_constrained(problem: Problem, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    largest = float(eigvalsh(hessian, check_finite=False)[-1])
    step_size = 1.0 / largest if largest > 0.0 else 1.0
    x = point = y
    t = 1.0
    for _ in range(MOST_STEPS):
        moved = prox_step(problem, point, gradient + hessian @ (point - y), step_size)
        if not np.abs(point - moved).max() > tolerance * min(step_size, 1.0):
            return moved
        restart = np.dot(point - moved, moved - x) > 0.0
        t_next = 1.0 if restart else 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        point = moved if restart else moved + (t - 1.0) / t_next * (moved - x)
        x, t = moved, t_next
    return x


def minimise_model(problem: Problem, hessian: Matrix, gradient: Vector, y: Vector, tolerance: float) -> Vector:
    """Return the minimiser of g'(x - y) + 1/2 (x - y)'H (x - y) + r(x).

    Parameters
    ----------
    problem : Problem
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
    if problem.penalty.lasso() == 0.0 and not problem.is_constrained:
        return y - solve_spd(hessian, gradient)
    rounding = 1e-15 * float((np.abs(gradient) + np.abs(hessian) @ np.abs(y)).max())
    tolerance = max(tolerance, rounding)
    if problem.is_constrained:
        return _minimise_constrained(problem, hessian, gradient, y, tolerance)
    return _minimise_l1(problem, hessian, gradient, y, tolerance)


#: Rows of dense data that are weighted and multiplied at a time.
BLOCK = 2048


@kernel
def _add_grams(linear_sum: LinearSum, weights: Vector, lower: Matrix) -> None:
    for i in range(linear_sum.rows.n_rows):
        if weights[i] != 0.0:
            linear_sum.rows.gram_add(i, weights[i], lower)


def _dense_gram(problem: Problem, weights: Vector) -> Matrix:
    values = to_matrix(problem.rows)
    gram = np.zeros((problem.dim, problem.dim), order="F")
    for start in range(0, problem.n_rows, BLOCK):
        block = np.ones((min(BLOCK, problem.n_rows - start), problem.dim))
        block[:, : values.shape[1]] = values[start : start + BLOCK]
        block *= np.sqrt(weights[start : start + BLOCK, None])
        gram = blas.dsyrk(1.0, block.T, beta=1.0, c=gram, lower=True, overwrite_c=True)
    return np.ascontiguousarray(gram)


def hessian_of(problem: Problem, curvatures: Vector) -> Matrix:
    """Return sum_i p_i c_i z_i z_i' + l2 I on the penalised coordinates, symmetric, for curvatures c_i >= 0 of the rows."""
    weights = problem.weights * curvatures
    if problem.rows.is_sparse():
        gram = np.zeros((problem.dim, problem.dim))
        _add_grams(problem.view, weights, gram)
    else:
        gram = _dense_gram(problem, weights)
    penalised = np.arange(problem.rows.n_columns)
    gram[penalised, penalised] += problem.penalty.ridge()
    whole: Matrix = np.tril(gram) + np.tril(gram, -1).T
    return whole
