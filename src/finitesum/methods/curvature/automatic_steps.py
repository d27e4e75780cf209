"""Steps on the second-order surrogate that need no step size: what CIAG and A-CIAG do with "auto".

**Step and momentum.** See `finitesum.methods.curvature.accelerated_steps`: a bound on lambda_max of the current H gives
the step, Nesterov's sequence the momentum.

**Guard.** What is left to go wrong are bad models. At the visit of a component at y its model predicted a slope; with the
true slope that gives, for free,

    delta = sum_i p_i (slope_i - predicted_i) z_i        (the exact jump of the model gradient at y)
    pi    = sum_i p_i phi''_i (u_i - last u_i) z_i       (the change that was predicted)

and the ratio R = ||E delta|| / ||E pi|| of their running sums is the factor by which a model solved exactly would shrink
the gradient in a pass. R > 1 is Newton's overshooting. Where the loss has a quadratic majorant, doubtful rows take its
curvature instead of the second derivative: all rows while R is large (the method is then incremental MM, which cannot
diverge), only rows on the wrong side while R is middling (there the loss is nearly linear and its second derivative says
nothing of what comes; on the right side it is to be trusted), none once R is small; and whatever R is, a single row whose
model failed and whose failure outweighs the running sum. Other losses limit the move of a visit instead.

The first pass has nothing to compare but revisits: a few visits to components already seen supply R there, and they count.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020): the recursions that this controls.
.. [2] T. Jaakkola, M. Jordan, "Bayesian parameter estimation via variational methods", Stat. Comput. 10 (2000): the
   logistic loss's majorant.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.core.symmetric import padded_size
from finitesum.evaluation.smoothness import strong_convexity
from finitesum.methods.curvature.accelerated_steps import (
    Rule,
    accelerate,
    bound_eigenvalue,
    extrapolate,
    length_of,
    take_model_steps,
)
from finitesum.methods.curvature.taylor_model import Pending, Surrogate, finish_visits, move_anchor, new_pending
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row

#: R below which the models are trusted altogether, below which they are trusted in the main, and above which not at all.
FULLY_TRUSTED, TRUSTED, DISTRUSTED = 0.2, 0.5, 0.9


class Guard(NamedTuple):
    """What is known of the models' worth, and what follows from it."""

    ratio: float  # R, NaN before it is known
    usual_failure: float  # ||E delta||
    n_compared: int  # comparisons up to now
    doubt: int  # 2: every row takes the majorant's curvature; 1: those on the wrong side do; 0: none
    radius: float  # the largest move of a visit, where there is no majorant
    quiet_until: int  # the visit before which the radius is not changed again
    cut_ratio: float  # R at the last cut of the radius


class Control(NamedTuple):
    """What the control remembers."""

    direction: Vector  # (padded d,)  of the power iteration
    failure: Vector  # (d,)  E delta
    movement: Vector  # (d,)  E pi
    guard: Guard
    eigenvalue: float  # lambda
    t: float  # of Nesterov's sequence
    n_visits: int


def new_control(problem: Problem, x0: Vector) -> Control:
    """Return the control before the first visit."""
    dim = problem.dim
    guard = Guard(
        ratio=math.nan,
        usual_failure=0.0,
        n_compared=0,
        doubt=2,
        radius=10.0 * max(1.0, float(np.linalg.norm(x0))) / problem.n_components,
        quiet_until=0,
        cut_ratio=math.inf,
    )
    return Control(np.zeros(padded_size(dim)), np.zeros(dim), np.zeros(dim), guard, 0.0, 1.0, 0)


def _has_majorant(problem: Problem) -> bool:
    return math.isfinite(problem.loss.majorant(0.0, 1.0))


def copy_control(control: Control) -> Control:
    """Return a copy whose arrays may be written to."""
    return control._replace(
        direction=control.direction.copy(), failure=control.failure.copy(), movement=control.movement.copy()
    )


def comparison_window(n_components: int) -> float:
    """Return h, the visits that the running sums look back on: a tenth of a pass."""
    return max(0.1 * n_components, 1.0)


@kernel_part
def _compared_visit(
    linear_sum: LinearSum,
    surrogate: Surrogate,
    pending: Pending,
    component: int,
    y: Vector,
    guard: Guard,
    has_majorant: bool,
    has_signs: bool,
    keep: float,
    failure: Vector,
    movement: Vector,
    eigenvalue: float,
    direction: Vector,
) -> float:
    """Visit a component, add delta and pi to the running sums; return the trace of H's increase, NaN if not finite.

    A row that raises H by much may bring a new largest eigenvector: it is mixed into the direction of the power iteration,
    which would take long to turn there by itself.
    """
    rows, loss = linear_sum.rows, linear_sum.loss
    seen = surrogate.visited[component]
    if seen:
        for j in range(failure.size):
            failure[j] *= keep
            movement[j] *= keep
    increase = 0.0
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        target, offset, weight = linear_sum.targets[i], linear_sum.offsets[i], linear_sum.weights[i]
        if weight == 0.0:
            continue
        margin = rows.dot(i, y)
        slope, curvature = loss.d1_d2(margin + offset, target)
        if not (np.isfinite(slope) and np.isfinite(curvature)):
            return np.nan
        doubtful = guard.doubt == 2 or (guard.doubt == 1 and has_signs and target * (margin + offset) < 0.0)
        if seen:
            predicted = loss.d2(surrogate.margins[i] + offset, target) * (margin - surrogate.margins[i])
            missed = slope - surrogate.slopes[i] - predicted
            rows.add_to(i, weight * missed, failure)
            rows.add_to(i, weight * predicted, movement)
            if abs(missed) > DISTRUSTED * abs(predicted):
                doubtful = doubtful or weight * abs(missed) * np.sqrt(rows.squared_norm(i)) > 0.5 * guard.usual_failure
        if doubtful and has_majorant:
            curvature = loss.majorant(margin + offset, target)
        rise = weight * (curvature - surrogate.curvatures[i])
        if rise > 0.0:
            square = rows.squared_norm(i)
            increase += rise * square
            if rise * square > 0.01 * eigenvalue:
                rows.add_to(i, rise * np.sqrt(square) / max(eigenvalue, rise * square), direction)
        move_anchor(linear_sum, surrogate, pending, i, margin, slope, curvature)
    surrogate.visited[component] = True
    return increase


@kernel_part
def _pull_back(x: Vector, start: Vector, radius: float) -> bool:
    """Shorten the move from start to x to the radius; return whether that was needed."""
    length = 0.0
    for j in range(x.size):
        length += (x[j] - start[j]) ** 2
    length = np.sqrt(length)
    if length <= radius:
        return False
    for j in range(x.size):
        x[j] = start[j] + radius / length * (x[j] - start[j])
    return True


@kernel_part
def _judge(guard: Guard, rule: Rule, failure: float, movement: float, now: int, m: int, window: float) -> Guard:
    """Return what the guard thinks after one more comparison, given ||E delta|| and ||E pi||."""
    ratio, doubt = guard.ratio, guard.doubt
    radius, quiet_until, cut_ratio = guard.radius, guard.quiet_until, guard.cut_ratio
    n_compared = guard.n_compared + 1
    if n_compared >= 3 and movement > 1e-15:
        ratio = failure / movement
        if rule.has_majorant:
            if ratio > DISTRUSTED:
                doubt = 2
            elif doubt == 2 and ratio < TRUSTED:
                doubt = 1
            elif doubt < 2:
                doubt = 0 if ratio < FULLY_TRUSTED else (1 if ratio > TRUSTED else doubt)
        elif ratio < TRUSTED and now >= quiet_until:
            radius, cut_ratio = 4.0 * radius, np.inf
            quiet_until = now + max(int(min(window, m / 4.0)), 1)
        elif ratio > DISTRUSTED and (now >= quiet_until or ratio > 2.0 * cut_ratio):
            radius, cut_ratio = radius * max(0.05, 0.45 / ratio), ratio
            quiet_until = now + m
    return Guard(ratio, failure, n_compared, doubt, radius, quiet_until, cut_ratio)


@kernel_part
def _shrunk(guard: Guard, quiet_until: int) -> Guard:
    ratio, usual_failure, n_compared, doubt, radius, _, cut_ratio = guard
    return Guard(ratio, usual_failure, n_compared, doubt, 0.1 * radius, quiet_until, cut_ratio)


@kernel
def _controlled_visits(
    linear_sum: LinearSum,
    order: Indices,
    window: float,
    x: Vector,
    previous: Vector,
    surrogate: Surrogate,
    pending: Pending,
    control: Control,
    rule: Rule,
) -> Control:
    """Visit the components of `order`, in place; x becomes NaN where even the start has no finite derivatives."""
    m = linear_sum.n_components
    guard, eigenvalue, t, now = control.guard, control.eigenvalue, control.t, control.n_visits
    y = np.zeros(control.direction.size)
    gradient = np.zeros(control.direction.size)
    start = x.copy()
    for component in order:
        compared = surrogate.visited[component]
        t_next, extrapolation = accelerate(rule, eigenvalue, t)
        extrapolate(x, previous, extrapolation, y)
        increase = _compared_visit(
            linear_sum,
            surrogate,
            pending,
            component,
            y,
            guard,
            rule.has_majorant,
            rule.has_signs,
            1.0 - 1.0 / window,
            control.failure,
            control.movement,
            eigenvalue,
            control.direction,
        )
        now += 1
        radius = guard.radius
        if not np.isfinite(increase):  # an exponential overflowed: halfway back to where it did not, and smaller moves
            for j in range(x.size):
                x[j] = 0.5 * (x[j] + start[j]) if now > 1 else np.nan
            radius = -1.0
            guard = _shrunk(guard, now + m)
        else:
            eigenvalue = bound_eigenvalue(
                surrogate, pending, control.direction, eigenvalue + increase, gradient, now, m
            )
            start[:] = x
            if eigenvalue > 0.0:
                t = take_model_steps(
                    linear_sum, surrogate, pending, rule, x, previous, y, gradient, eigenvalue, t, t_next
                )
            if compared:
                guard = _judge(guard, rule, length_of(control.failure), length_of(control.movement), now, m, window)
        pulled = not rule.has_majorant and radius >= 0.0 and _pull_back(x, start, radius)
        if pulled or guard.radius < radius or radius < 0.0:
            t = 1.0
            previous[:] = x
    finish_visits(surrogate, pending)
    return Control(control.direction, control.failure, control.movement, guard, eigenvalue, t, now)


def with_revisits(order: Indices, n_revisits: int) -> Indices:
    """Return the order with some visits more, spread over it, of components that came before."""
    if n_revisits == 0:
        return order
    places = np.linspace(1, order.size, n_revisits).astype(np.int64)  # before so many of the order come after each
    earlier = order[(7919 * np.arange(n_revisits) + 104_729) % places]
    return np.insert(order, places, earlier)


def controlled_pass(
    problem: Problem,
    order: Indices,
    x: Vector,
    previous: Vector,
    surrogate: Surrogate,
    control: Control,
    *,
    accelerated: bool,
    model_steps: int,
) -> tuple[Control, int]:
    """Run the visits of `order` with automatic steps, in place; return the control and how many visits were made.

    The first pass of an empty memory makes some visits more, to supply R.
    """
    m = problem.n_components
    first = not bool(surrogate.visited.any())
    n_revisits = math.ceil(m * max(0.05, min(0.5, 10.0 / m))) if first and m > 1 else 0
    window = min(max(0.1 * n_revisits, 3.0), 50.0) if n_revisits else comparison_window(m)
    rule = Rule(
        accelerated=accelerated,
        step_factor=1.0 if accelerated else 1.8,
        model_steps=model_steps,
        mu=strong_convexity(problem),
        has_majorant=_has_majorant(problem),
        has_signs=problem.loss.target_kind() == "sign",
    )
    visits = with_revisits(order, n_revisits)
    control = _controlled_visits(
        problem.view, visits, window, x, previous, surrogate, new_pending(problem), copy_control(control), rule
    )
    return control, visits.size


def free_certificate(problem: Problem, control: Control) -> float:
    """Return (m / h) ||E delta||, an estimate of the surrogate's error at the last iterate."""
    window = comparison_window(problem.n_components)
    return float(problem.n_components / window * np.linalg.norm(control.failure))
