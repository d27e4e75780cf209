"""Passes of visits that jump to the minimiser of the mean second-order model: what NIM does, with three solvers.

Each visit moves a component's model to x, under the guard of `finitesum.methods.curvature.trust`, and then x to the
model's minimiser (or a share of the way there). Kernels visit and solve in one where the solver allows it.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.methods.curvature.taylor_model import (
    Pending,
    Surrogate,
    curvature_product,
    finish_visits,
    full_hessian,
    model_gradient,
    new_pending,
    surrogate_gradient,
)
from finitesum.methods.curvature.trust import Guard, guarded_visit, judged
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.linear import LinearSum, Problem


@kernel_part
def _largest(vector: Vector) -> float:
    size = 0.0
    for j in range(vector.size):
        size = max(size, abs(vector[j]))
    return size


@kernel_part
def _dot(a: Vector, b: Vector) -> float:
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@kernel_part
def _conjugate_gradients(
    surrogate: Surrogate,
    pending: Pending,
    residual: Vector,
    direction: Vector,
    product: Vector,
    step: Vector,
    tolerance: float,
    most_steps: int,
) -> None:
    """Add to `step` an approximate solution of H step = residual, in place; all have the padded length."""
    square = _dot(residual, residual)
    for j in range(step.size):
        direction[j] = residual[j]
    for _ in range(most_steps):
        curvature_product(surrogate, pending, direction, product)
        curvature = _dot(direction, product)
        if not curvature > 0.0:
            break
        length = square / curvature
        for j in range(step.size):
            step[j] += length * direction[j]
            residual[j] -= length * product[j]
        if _largest(residual) <= tolerance:
            break
        last, square = square, _dot(residual, residual)
        for j in range(step.size):
            direction[j] = residual[j] + square / last * direction[j]


@kernel_part
def _share(step: Vector, damping: float, radius: float) -> float:
    """Return how much of a jump is taken."""
    length = np.sqrt(_dot(step, step))
    return min(damping, radius / length) if length > 0.0 else damping


@kernel
def _inexact_visits(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    surrogate: Surrogate,
    pending: Pending,
    guard: Guard,
    damping: float,
) -> tuple[Guard, int]:
    """Visit the components of `order` and solve by conjugate gradients, in place; return the guard and the visits."""
    padded = pending.vectors.shape[1]
    y, step = np.zeros(padded), np.zeros(padded)
    residual, direction, product = np.zeros(padded), np.zeros(padded), np.zeros(padded)
    y[: x.size] = x
    failure, movement = guard.failure, guard.movement
    n_missing = linear_sum.n_components
    for seen in surrogate.visited:
        n_missing -= 1 if seen else 0
    n_visits = 0
    for component in order:
        seen = surrogate.visited[component]
        n_missing -= 0 if seen else 1
        finite = guarded_visit(linear_sum, surrogate, pending, component, y, failure, movement, guard.majorised)
        ratio, n_compared, majorised, radius, quiet_until, trusted = judged(guard, linear_sum.n_components, seen)
        guard = Guard(guard.active, failure, movement, ratio, n_compared, majorised, radius, quiet_until, trusted)
        n_visits += 1
        if not finite:
            y[:] = np.nan
            break
        surrogate_gradient(surrogate, pending, y, residual)
        size = _largest(residual)
        for j in range(padded):
            residual[j] = -residual[j]
            step[j] = 0.0
        tolerance = min(1.0, np.sqrt(size)) * size if n_missing == 0 else 1.0
        _conjugate_gradients(surrogate, pending, residual, direction, product, step, tolerance, x.size)
        share = _share(step, damping, radius)
        for j in range(x.size):
            y[j] += share * step[j]
    finish_visits(surrogate, pending)
    x[:] = y[: x.size]
    return guard, n_visits


@kernel
def _one_visit(
    linear_sum: LinearSum, component: int, x: Vector, surrogate: Surrogate, pending: Pending, guard: Guard
) -> tuple[Guard, bool]:
    """Visit a component; return the guard and whether all is finite. H is complete afterwards."""
    seen = surrogate.visited[component]
    failure, movement = guard.failure, guard.movement
    finite = guarded_visit(linear_sum, surrogate, pending, component, x, failure, movement, guard.majorised)
    finish_visits(surrogate, pending)
    ratio, n_compared, majorised, radius, quiet_until, trusted = judged(guard, linear_sum.n_components, seen)
    done = Guard(guard.active, failure, movement, ratio, n_compared, majorised, radius, quiet_until, trusted)
    return done, finite


@kernel_part
def _inverse_times_row(linear_sum: LinearSum, inverse: Matrix, i: int, out: Vector) -> None:
    rows = linear_sum.rows
    for j in range(out.size):
        out[j] = 0.0
    start = rows.first(i)
    for k in range(start, start + rows.n_stored(i)):
        entry = rows.entry(i, k)
        column = inverse[rows.column(i, k)]
        for j in range(out.size):
            out[j] += entry * column[j]
    for tail in range(linear_sum.n_penalised, out.size):
        column = inverse[tail]
        for j in range(out.size):
            out[j] += column[j]


@kernel_part
def _rank_one(inverse: Matrix, vector: Vector, factor: float) -> None:
    """Add factor v v' to the inverse."""
    for j in range(vector.size):
        row = inverse[j]
        scale = factor * vector[j]
        for k in range(vector.size):
            row[k] += scale * vector[k]


@kernel
def _inverse_visits(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    surrogate: Surrogate,
    pending: Pending,
    guard: Guard,
    damping: float,
    inverse: Matrix,
    gradient: Vector,
    newton: Vector,
) -> tuple[Guard, int]:
    """Visit single rows and keep up B = H^-1, in place; return the guard and the visits.

    `gradient` is the model gradient at x, `newton` is B times it: after a whole jump both are 0, and a visit changes the
    model gradient by a multiple of z_i, so that the next jump is a multiple of B z_i.
    """
    failure, movement = guard.failure, guard.movement
    vector, step = np.zeros(x.size), np.zeros(x.size)
    n_visits = 0
    for i in order:
        seen = surrogate.visited[i]
        margin, slope, curvature = surrogate.margins[i], surrogate.slopes[i], surrogate.curvatures[i]
        finite = guarded_visit(linear_sum, surrogate, pending, i, x, failure, movement, guard.majorised)
        ratio, n_compared, majorised, radius, quiet_until, trusted = judged(guard, linear_sum.n_components, seen)
        guard = Guard(guard.active, failure, movement, ratio, n_compared, majorised, radius, quiet_until, trusted)
        n_visits += 1
        if not finite:
            x[:] = np.nan
            break
        _inverse_times_row(linear_sum, inverse, i, vector)
        weight = linear_sum.weights[i]
        rise = weight * (surrogate.curvatures[i] - curvature)
        jump = weight * (surrogate.slopes[i] - slope - curvature * (surrogate.margins[i] - margin))
        factor = rise / (1.0 + rise * linear_sum.rows.dot(i, vector))
        _rank_one(inverse, vector, -factor)
        newton_share = factor * _dot(vector, gradient)
        row_share = jump * (1.0 - factor * linear_sum.rows.dot(i, vector))
        for j in range(x.size):
            newton[j] += (row_share - newton_share) * vector[j]
            step[j] = -newton[j]
        linear_sum.rows.add_to(i, jump, gradient)
        share = _share(step, damping, radius)
        for j in range(x.size):
            x[j] += share * step[j]
            newton[j] *= 1.0 - share
            gradient[j] *= 1.0 - share
    finish_visits(surrogate, pending)
    return guard, n_visits


def _inverse(surrogate: Surrogate) -> Matrix:
    hessian = full_hessian(surrogate)
    try:
        factor = cho_factor(hessian, check_finite=False)
    except LinAlgError:
        raise ValueError(
            'solver "inverse" needs an H that has an inverse before every component was seen. Give alpha > 0 and no '
            'intercept, or warm_start_method="full", or solver="inexact".'
        ) from None
    inverse: Matrix = np.ascontiguousarray(cho_solve(factor, np.eye(hessian.shape[0]), check_finite=False))
    return inverse


def inexact_pass(
    problem: Problem, order: Indices, x: Vector, surrogate: Surrogate, guard: Guard, damping: float
) -> tuple[Guard, int]:
    """Run the visits of `order` with conjugate gradients, in place; return the guard and how many visits were made."""
    done, n_visits = _inexact_visits(problem.view, order, x, surrogate, new_pending(problem), guard, damping)
    return Guard(*done), n_visits


def inverse_pass(
    problem: Problem, order: Indices, x: Vector, surrogate: Surrogate, guard: Guard, damping: float
) -> tuple[Guard, int]:
    """Run visits to single rows with an inverse that is kept up, in place; return the guard and how many were made.

    Raises
    ------
    ValueError
        H has no inverse at the head of the pass.
    """
    inverse = _inverse(surrogate)
    gradient = model_gradient(surrogate, x)
    newton = inverse @ gradient
    pending = new_pending(problem)
    done, n_visits = _inverse_visits(
        problem.view, order, x, surrogate, pending, guard, damping, inverse, gradient, newton
    )
    return Guard(*done), n_visits


def exact_pass(
    problem: Problem,
    order: Indices,
    x: Vector,
    surrogate: Surrogate,
    guard: Guard,
    damping: float,
    *,
    to_rounding: bool,
) -> tuple[Guard, int]:
    """Run the visits of `order` with the solvers of `quadratic_models`, in place; return the guard and how many were made.

    Minimisers that are found by iteration are so to rounding errors, or to min(1, sqrt(G)) G with G the model's optimality
    (to 1 while components are missing).
    """
    pending = new_pending(problem)
    for n_visits, component in enumerate(order, start=1):
        done, finite = _one_visit(problem.view, component, x, surrogate, pending, guard)
        guard = Guard(*done)
        if not finite:
            x[:] = np.nan
            return guard, n_visits
        gradient = model_gradient(surrogate, x)
        size = problem.term.optimality(x, gradient)
        tolerance = min(1.0, math.sqrt(size)) * size if surrogate.visited.all() else 1.0
        if to_rounding:
            tolerance = 0.0
        step = minimise_model(problem.term, full_hessian(surrogate), gradient, x, tolerance) - x
        length = float(np.linalg.norm(step))
        x += (min(damping, guard.radius / length) if length > 0.0 else damping) * step
    return guard, order.size
