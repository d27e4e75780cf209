"""Passes of visits that go to the minimiser of the mean Taylor model: what NIM does, with three solvers.

Each visit moves a component's model to w, compares it as `finitesum.methods.curvature.trust` says, and moves w to the
model's minimiser (or a fraction of the distance). Kernels visit and solve in one where the solver allows it.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.core.vectors import add_square, axpy, copy, dot, fill, largest, norm, scale
from finitesum.methods.curvature import taylor_model as taylor
from finitesum.methods.curvature.taylor_model import OpenModel
from finitesum.methods.curvature.trust import Comparison, Trust, TrustRule, go_back, stepping, trusted_visit
from finitesum.methods.subproblems.positive_definite import inverse_of
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.methods.visits import AnySum
from finitesum.problems.linear import Problem
from finitesum.problems.view import View

#: What to do where H has no inverse when a pass begins, or after an overflow.
SINGULAR = (
    'solver "inverse" needs an H that has an inverse before every component was visited. Give alpha > 0 and no intercept, '
    'or warm_start_method="full", or solver="inexact".'
)


#: What a minimiser that is found by iteration leaves of the model's optimality, at most.
LEAST_GAIN = 0.1

#: A curvature is negative where it is so by more than this fraction of what it may be: else it is a rounding error.
NEGATIVE = 1e-8


class Run(NamedTuple):
    """What the visits of a pass work on, in place, and their rules."""

    w: Vector
    model: OpenModel
    comparison: Comparison
    rule: TrustRule
    damping: float  # the fraction of the distance to the minimiser


@kernel_part
def _conjugate_gradients(
    model: OpenModel, residual: Vector, direction: Vector, product: Vector, step: Vector, tolerance: float, most_steps: int
) -> None:
    """Add to `step` an approximate solution of H step = residual, in place; all have the padded length.

    A direction of negative curvature is the last; the step goes on along it to where the curvature's size puts a minimum.
    """
    square = dot(residual, residual)
    copy(residual, direction)
    for _ in range(most_steps):
        taylor.curvature_product(model, direction, product)
        curvature = dot(direction, product)
        if not curvature > 0.0:
            if curvature < -NEGATIVE * norm(direction) * norm(product):  # of a sum that is not convex
                axpy(-square / curvature, direction, step)
            break
        axpy(square / curvature, direction, step)
        axpy(-square / curvature, product, residual)
        if largest(residual) <= tolerance:
            break
        last, square = square, dot(residual, residual)
        scale(direction, square / last)
        axpy(1.0, residual, direction)


@kernel_part
def _fraction(length: float, damping: float, radius: float) -> float:
    """Return the fraction of a step that is taken."""
    return min(damping, radius / length) if length > 0.0 else damping


@kernel_part
def _visit(view: View, run: Run, component: int, w: Vector, start: Vector, trust: Trust) -> tuple[Trust, bool]:
    """Visit a component at w; return the trust, and whether all is finite.

    After an overflow w is halfway back to the start of the last step, NaN where that does not help.
    """
    comparison, rule = run.comparison, run.rule
    scratch = comparison.residual  # there is no power iteration that a direction could be for
    trust, increase = trusted_visit(view, run.model, component, w, comparison, trust, rule, np.inf, scratch)
    if np.isfinite(increase):
        return trust, True
    go_back(w, start, not rule.acts or trust.n_visits == 1)
    return trust, False


@kernel
def inexact_visits(view: View, order: Indices, run: Run, trust: Trust) -> tuple[Trust, int]:
    """Visit the components of `order` and solve by conjugate gradients, in place; return the trust and the visits."""
    w, model = run.w, run.model
    padded = model.hessian.shape[1]
    y, step = np.zeros(padded), np.zeros(padded)
    residual, direction, product = np.zeros(padded), np.zeros(padded), np.zeros(padded)
    copy(w, y)
    start = y.copy()
    n_missing = view.n_components - np.sum(model.visited)
    n_visits = 0
    for component in order:
        n_missing -= 0 if model.visited[component] else 1
        trust, is_finite = _visit(view, run, component, y, start, trust)
        n_visits += 1
        if not is_finite:
            if np.isnan(y[0]):
                break
            continue
        taylor.gradient_into(model, y, residual)
        size = largest(residual)
        scale(residual, -1.0)
        fill(step, 0.0)
        tolerance = min(1.0, np.sqrt(size)) * size if n_missing == 0 else 1.0
        _conjugate_gradients(model, residual, direction, product, step, tolerance, w.size)
        length = norm(step)
        copy(y, start)
        axpy(_fraction(length, run.damping, trust.radius), step, y)
        trust = stepping(trust, length)
    taylor.finish_visits(model)
    copy(y[: w.size], w)
    return trust, n_visits


@kernel
def _one_visit(view: View, component: int, run: Run, start: Vector, trust: Trust) -> tuple[Trust, bool]:
    """Visit a component at the iterate, in place; return the trust and whether all is finite. H is complete afterwards."""
    trust, is_finite = _visit(view, run, component, run.w, start, trust)
    taylor.finish_visits(run.model)
    return trust, is_finite


@kernel_part
def _inverse_times_row(view: View, inverse: Matrix, i: int, out: Vector) -> None:
    rows = view.rows
    fill(out, 0.0)
    start = rows.first(i)
    for k in range(start, start + rows.n_stored(i)):
        axpy(rows.entry(i, k), inverse[rows.column(i, k)], out)
    for tail in range(view.n_penalised, out.size):
        axpy(1.0, inverse[tail], out)


@kernel
def _inverse_visits(
    view: View, order: Indices, run: Run, trust: Trust, inverse: Matrix, gradient: Vector, newton: Vector
) -> tuple[Trust, int]:
    """Visit single rows and keep up B = H^-1, in place; return the trust and the visits.

    `gradient` is the model gradient at w, `newton` is B times it: after a whole step both are 0, and a visit changes the
    model gradient by a multiple of x_i, so that the next step is a multiple of B x_i.
    """
    w, model = run.w, run.model
    vector, step, start = np.zeros(w.size), np.zeros(w.size), w.copy()
    n_visits = 0
    for i in order:
        margin, slope, curvature = model.margins[i], model.slopes[i], model.curvatures[i]
        trust, is_finite = _visit(view, run, i, w, start, trust)
        n_visits += 1
        if not is_finite:
            break  # gradient and newton are those of the point that was left
        _inverse_times_row(view, inverse, i, vector)
        weight = view.weights[i]
        rise = weight * (model.curvatures[i] - curvature)
        change = weight * (model.slopes[i] - slope - curvature * (model.margins[i] - margin))
        factor = rise / (1.0 + rise * view.rows.dot(i, vector))
        add_square(inverse, -factor, vector)
        along_newton = factor * dot(vector, gradient)
        along_row = change * (1.0 - factor * view.rows.dot(i, vector))
        axpy(along_row - along_newton, vector, newton)
        copy(newton, step)
        scale(step, -1.0)
        view.rows.add_to(i, change, gradient)
        length = norm(step)
        fraction = _fraction(length, run.damping, trust.radius)
        trust = stepping(trust, length)
        copy(w, start)
        axpy(fraction, step, w)
        scale(newton, 1.0 - fraction)
        scale(gradient, 1.0 - fraction)
    taylor.finish_visits(model)
    return trust, n_visits


def inverse_pass(problem: Problem, order: Indices, run: Run, trust: Trust) -> tuple[Trust, int]:
    """Run visits to single rows with an inverse that is kept up, in place; return the trust and how many were made."""
    n_visits = 0
    while n_visits < order.size and np.isfinite(run.w).all():
        inverse = inverse_of(taylor.full_hessian(run.model), SINGULAR)
        gradient = taylor.model_gradient(run.model, run.w)
        newton = inverse @ gradient
        trust, n_more = _inverse_visits(problem.view, order[n_visits:], run, trust, inverse, gradient, newton)
        n_visits += n_more
    return trust, n_visits


def exact_pass(problem: AnySum, order: Indices, run: Run, trust: Trust, *, to_rounding: bool) -> tuple[Trust, int]:
    """Run the visits of `order` with the solvers of `quadratic_models`, in place; return the trust and how many were made.

    Minimisers that are found by iteration are so to rounding errors, or to min(1/10, sqrt(G)) G with G the model's
    optimality (with G itself, which a large one would allow, a step may be 0).
    """
    w, model = run.w, run.model
    start = w.copy()
    for n_visits, component in enumerate(order, start=1):
        trust, is_finite = _one_visit(problem.view, component, run, start, trust)
        if not is_finite:
            if np.isnan(w[0]):
                return trust, n_visits
            continue
        gradient = taylor.model_gradient(model, w)
        size = problem.term.optimality(w, gradient)
        tolerance = 0.0 if to_rounding else min(LEAST_GAIN, math.sqrt(size)) * size
        step = minimise_model(problem.term, taylor.full_hessian(model), gradient, w, tolerance) - w
        length = float(np.linalg.norm(step))
        start[:] = w
        w += _fraction(length, run.damping, trust.radius) * step
        trust = stepping(trust, length)
    return trust, order.size
