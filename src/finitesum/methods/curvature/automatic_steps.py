"""Steps on the mean Taylor model that need no step size: what CIAG and A-CIAG do with "auto".

A bound on lambda_max of the current H gives the step, Nesterov's sequence the momentum
(`finitesum.methods.curvature.accelerated_steps`). What is left to go wrong are bad models: after each visit R decides
which rows take the curvature of a majorant, or how far a visit may step (`finitesum.methods.curvature.trust`).

The first pass has nothing to compare but components that are visited twice: a few visits more supply R there, and they
count.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.core.symmetric import padded_size
from finitesum.core.vectors import axpy, copy, extrapolate, norm
from finitesum.evaluation.smoothness import component_smoothness
from finitesum.methods.constants import Constant, smoothness_from, strong_convexity
from finitesum.methods.curvature.accelerated_steps import StepRule, accelerate, bound_eigenvalue, take_model_steps
from finitesum.methods.curvature.taylor_model import OpenModel, TaylorModel, finish_visits, full_hessian, opened
from finitesum.methods.curvature.trust import (
    ALL,
    Comparison,
    Trust,
    TrustRule,
    go_back,
    new_trust,
    no_comparison,
    stepping,
    trust_rule,
    trusted_visit,
)
from finitesum.methods.visits import AnySum
from finitesum.problems.linear import LinearSum, Problem


class Control(NamedTuple):
    """What automatic steps remember."""

    direction: Vector  # (padded d,)  of the power iteration
    comparison: Comparison
    trust: Trust
    eigenvalue: float  # lambda
    sequence: float  # the last number of Nesterov's sequence


def new_control(problem: AnySum, w0: Vector, *, acts: bool) -> Control:
    """Return the control before the first visit; one that does not act measures R only."""
    trust = new_trust(problem, w0, trust_rule(problem, acts=acts, is_gradual=True))
    return Control(np.zeros(padded_size(problem.dim)), no_comparison(problem), trust, 0.0, 1.0)


def with_bound(control: Control, model: TaylorModel, n_steps: int = 30) -> Control:
    """Return a control that knows lambda_max of an H which it has not seen grow, by the power iteration."""
    hessian = full_hessian(model)
    direction = np.ones(hessian.shape[0]) + 0.1 * np.cos(np.arange(hessian.shape[0]))  # orthogonal to nothing of note
    largest = 0.0
    for _ in range(n_steps):
        product = hessian @ direction
        largest = float(np.linalg.norm(product))
        if largest == 0.0:
            return control
        direction = product / largest
    padded = np.zeros(control.direction.size)
    padded[: direction.size] = direction
    return control._replace(direction=padded, eigenvalue=1.05 * largest)


@kernel_part
def _pull_back(w: Vector, start: Vector, radius: float, scratch: Vector) -> float:
    """Shorten the step from start to w to the radius; return how long it was."""
    copy(w, scratch)
    axpy(-1.0, start, scratch)
    length = norm(scratch)
    if length > radius:
        copy(start, w)
        axpy(radius / length, scratch[: w.size], w)
    return length


@kernel
def _controlled_visits(
    linear_sum: LinearSum,
    order: Indices,
    w: Vector,
    previous: Vector,
    model: OpenModel,
    control: Control,
    trust_rule: TrustRule,
    step_rule: StepRule,
) -> tuple[Trust, float, float]:
    """Visit the components of `order`, in place; w becomes NaN where even the start has no finite derivatives.

    Return trust, eigenvalue and sequence of the control.
    """
    m = linear_sum.n_components
    direction, comparison = control.direction, control.comparison
    trust, eigenvalue, sequence = control.trust, control.eigenvalue, control.sequence
    y, gradient, start = np.zeros(direction.size), np.zeros(direction.size), w.copy()
    for component in order:
        following, extrapolation = accelerate(step_rule, eigenvalue, sequence)
        extrapolate(w, previous, extrapolation, y)
        radius = trust.radius
        trust, increase = trusted_visit(
            linear_sum, model, component, y, comparison, trust, trust_rule, eigenvalue, direction
        )
        if np.isfinite(increase):
            bound = eigenvalue + increase
            eigenvalue = bound_eigenvalue(model, direction, bound, gradient, trust.n_visits, m)
            copy(w, start)
            if eigenvalue > 0.0:
                sequence = take_model_steps(
                    linear_sum, model, step_rule, w, previous, y, gradient, eigenvalue, following, trust.majorize == ALL
                )
            restarts = trust.radius < radius
            if not trust_rule.majorizes:
                length = _pull_back(w, start, radius, y)
                trust, restarts = stepping(trust, length), restarts or length > radius
        else:  # an exponential overflowed: halfway back to where it did not, and shorter steps
            restarts = True
            go_back(w, start, trust.n_visits == 1)
        if restarts:
            sequence = 1.0
            copy(w, previous)
    finish_visits(model)
    return trust, eigenvalue, sequence


def with_revisits(order: Indices, n_revisits: int) -> Indices:
    """Return the order with some visits more, spread over it, of components that came before."""
    if n_revisits == 0:
        return order
    places = np.linspace(1, order.size, n_revisits).astype(np.int64)  # the visits of the order before each of them
    earlier = order[(7919 * np.arange(n_revisits) + 104_729) % places]
    return np.insert(order, places, earlier)


def _known_smoothness(problem: AnySum) -> float:
    """Return L of functions and of several outputs where it is known, else 0."""
    if isinstance(problem, Problem):
        return component_smoothness(problem) if problem.n_outputs > 1 else 0.0
    return 0.0 if problem.smoothness is None else smoothness_from(problem, problem.smoothness, Constant.MEAN)


def controlled_pass(
    problem: AnySum,
    order: Indices,
    w: Vector,
    previous: Vector,
    model: TaylorModel,
    control: Control,
    *,
    is_accelerated: bool,
    model_steps: int,
) -> tuple[Control, int]:
    """Run the visits of `order` with automatic steps, in place; return the control and how many visits were made.

    The first pass of an empty model makes some visits more, to supply R.
    """
    m = problem.n_components
    first = not bool(model.visited.any())
    n_revisits = math.ceil(m * max(0.05, min(0.5, 10.0 / m))) if first and m > 1 else 0
    rule = trust_rule(problem, acts=True, is_gradual=True)
    if n_revisits:
        rule = rule._replace(window=min(max(0.1 * n_revisits, 3.0), 50.0))
    step_rule = StepRule(
        is_accelerated=is_accelerated,
        step_factor=1.0 if is_accelerated else 1.8,
        model_steps=model_steps,
        mu=strong_convexity(problem),
        smoothness=_known_smoothness(problem),
    )
    visits = with_revisits(order, n_revisits)
    trust, eigenvalue, sequence = _controlled_visits(
        problem.view, visits, w, previous, opened(model), control, rule, step_rule
    )
    after = control._replace(trust=Trust(*trust), eigenvalue=float(eigenvalue), sequence=float(sequence))
    return after, visits.size
