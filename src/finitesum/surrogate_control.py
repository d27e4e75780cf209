"""Steps on the second-order surrogate that need no step size: what CIAG and A-CIAG do with "auto".

**Step and momentum.** The step is factor / lambda, where lambda bounds lambda_max of the current H: a warm power iteration,
and between its runs the trace of every increase of H. So no step can blow up on the model. The momentum follows Nesterov's
sequence below (1 - sqrt(mu/lambda)) / (1 + sqrt(mu/lambda)) and starts anew when step and gradient disagree. Between two
visits A-CIAG takes r = ceil(8 sqrt(lambda/mu) / m) such steps on the model, which read no data: they make up for few, large
components.

**Guard.** What is left to go wrong are bad models. At the visit of a component at y its model predicted a slope; with the
true slope that gives, for free,

    delta = sum_i p_i (slope_i - predicted_i) z_i        (the exact jump of the model gradient at y)
    pi    = sum_i p_i phi''_i (u_i - last u_i) z_i       (the change that was predicted)

and the ratio R = ||E delta|| / ||E pi|| of their running sums is the factor by which a model solved exactly would shrink
the gradient in a pass. R > 1 is Newton's overshooting. Where the loss has a quadratic majorant, components visited while R
is large take the majorant's curvature instead of the second derivative (with all of them the method is incremental MM,
which cannot diverge); they return to second derivatives once R is small. A single row whose model failed and whose failure
outweighs the running sum does so by itself, whatever R is. Other losses limit the move of a visit instead.

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

from finitesum.arrays import Indices, Vector
from finitesum.jit import kernel, kernel_part
from finitesum.measures import prox_in_place
from finitesum.problem import LinearSum, Problem, first_row, last_row
from finitesum.smoothness import strong_convexity
from finitesum.surrogate import (
    Pending,
    Surrogate,
    curvature_product,
    finish_visits,
    move_anchor,
    new_pending,
    surrogate_gradient,
)
from finitesum.symmetric import padded_size

#: R below which the models are trusted, and above which they are not.
TRUSTED, DISTRUSTED = 0.5, 0.9

#: Model steps a visit may take at most: beyond it a visit costs more than it can gain.
MOST_MODEL_STEPS = 200

#: The bound on lambda_max falls at most by this factor when the power iteration says less: an eigenvector that it has not
#: found yet then has time to show.
SLOWEST_FALL = 0.9


class Rule(NamedTuple):
    """What distinguishes the methods under the same control."""

    accelerated: bool
    step_factor: float  # the step is step_factor / lambda
    model_steps: int  # a visit; 0 means as many as the condition asks for
    mu: float  # a known lower bound on the curvature
    has_majorant: bool


class Control(NamedTuple):
    """What the control remembers."""

    direction: Vector  # (padded d,)  of the power iteration
    failure: Vector  # (d,)  E delta
    movement: Vector  # (d,)  E pi
    eigenvalue: float  # lambda
    t: float  # of Nesterov's sequence
    ratio: float  # R, NaN before it is known
    n_compared: int  # comparisons that R rests on, up to now
    majorised: bool  # whether visits take the majorant's curvature
    radius: float  # the largest move of a visit, where there is no majorant
    quiet_until: int  # the visit before which the radius is not changed again
    cut_ratio: float  # R at the last cut of the radius
    n_visits: int


def new_control(problem: Problem, x0: Vector) -> Control:
    """Return the control before the first visit."""
    dim = problem.dim
    radius = 10.0 * max(1.0, float(np.linalg.norm(x0))) / problem.n_components
    return Control(
        direction=np.zeros(padded_size(dim)),
        failure=np.zeros(dim),
        movement=np.zeros(dim),
        eigenvalue=0.0,
        t=1.0,
        ratio=math.nan,
        n_compared=0,
        majorised=math.isfinite(problem.loss.majorant(0.0, 1.0)),
        radius=radius,
        quiet_until=0,
        cut_ratio=math.inf,
        n_visits=0,
    )


def copy_control(control: Control) -> Control:
    """Return a copy whose arrays may be written to."""
    return control._replace(
        direction=control.direction.copy(), failure=control.failure.copy(), movement=control.movement.copy()
    )


@kernel_part
def comparison_window(n_components: int) -> float:
    """Return h, the visits that the running sums look back on: a tenth of a pass."""
    return max(0.1 * n_components, 1.0)


@kernel_part
def _norm(vector: Vector) -> float:
    total = 0.0
    for j in range(vector.size):
        total += vector[j] * vector[j]
    return np.sqrt(total)  # type: ignore[no-any-return]


@kernel_part
def _compared_visit(
    linear_sum: LinearSum,
    surrogate: Surrogate,
    pending: Pending,
    component: int,
    y: Vector,
    majorised: bool,
    has_majorant: bool,
    usual_failure: float,
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
        margin = rows.dot(i, y)
        target, offset, weight = linear_sum.targets[i], linear_sum.offsets[i], linear_sum.weights[i]
        slope, curvature = loss.d1_d2(margin + offset, target)
        if not (np.isfinite(slope) and np.isfinite(curvature)):
            return np.nan
        doubtful = majorised
        if seen:
            predicted = loss.d2(surrogate.margins[i] + offset, target) * (margin - surrogate.margins[i])
            missed = slope - surrogate.slopes[i] - predicted
            rows.add_to(i, weight * missed, failure)
            rows.add_to(i, weight * predicted, movement)
            if abs(missed) > DISTRUSTED * abs(predicted):
                doubtful = doubtful or weight * abs(missed) * np.sqrt(rows.squared_norm(i)) > 0.5 * usual_failure
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
def _power_steps(
    surrogate: Surrogate, pending: Pending, direction: Vector, gradient: Vector, n_steps: int, fallback: float
) -> float:
    """Return 1.05 ||H v|| after some steps of the power iteration on v, in place; `gradient` is overwritten.

    The last model gradient is mixed into v: should a step ever have been too long, it points to the eigenvector missed.
    """
    norm = _norm(direction)
    length = _norm(gradient)
    share = 0.3 / length if length > 0.0 else 0.0
    if norm == 0.0 and length == 0.0:
        return fallback
    scale = 1.0 / norm if norm > 0.0 else 0.0
    for j in range(direction.size):
        direction[j] = scale * direction[j] + share * gradient[j]
    norm = _norm(direction)
    for j in range(direction.size):
        direction[j] /= norm
    product = gradient
    for _ in range(n_steps):
        curvature_product(surrogate, pending, direction, product)
        norm = _norm(product)
        if norm == 0.0:
            return fallback
        for j in range(direction.size):
            direction[j] = product[j] / norm
    return 1.05 * norm


@kernel_part
def _model_step(
    linear_sum: LinearSum,
    surrogate: Surrogate,
    pending: Pending,
    x: Vector,
    previous: Vector,
    y: Vector,
    gradient: Vector,
    step_size: float,
) -> bool:
    """Step from y on the model; return whether step and move disagree, so that the momentum should start anew."""
    surrogate_gradient(surrogate, pending, y, gradient)
    for j in range(x.size):
        previous[j] = x[j]
        x[j] = y[j] - step_size * gradient[j]
    prox_in_place(linear_sum, x, step_size)
    alignment = 0.0
    for j in range(x.size):
        alignment += (y[j] - x[j]) * (x[j] - previous[j])
    return alignment > 0.0


@kernel_part
def _extrapolate(x: Vector, previous: Vector, extrapolation: float, y: Vector) -> None:
    for j in range(x.size):
        y[j] = x[j] + extrapolation * (x[j] - previous[j])


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
def _new_radius(
    radius: float, ratio: float, cut_ratio: float, quiet_until: int, now: int, n_components: int, window: float
) -> tuple[float, int, float]:
    """Return the radius, the visit before which it stays, and R at the last cut."""
    if ratio < TRUSTED and now >= quiet_until:
        return 4.0 * radius, now + max(int(min(window, n_components / 4.0)), 1), np.inf
    if ratio > DISTRUSTED and (now >= quiet_until or ratio > 2.0 * cut_ratio):
        return radius * max(0.05, 0.45 / ratio), now + n_components, ratio
    return radius, quiet_until, cut_ratio


@kernel
def _controlled_visits(
    linear_sum: LinearSum,
    order: Indices,
    n_probes: int,
    x: Vector,
    previous: Vector,
    surrogate: Surrogate,
    pending: Pending,
    control: Control,
    rule: Rule,
) -> tuple[Control, int, bool]:
    """Visit the components of `order`, in place; return the control, the visits (probes included) and if all is finite."""
    m = linear_sum.n_components
    direction, failure, movement = control.direction, control.failure, control.movement
    eigenvalue, t, ratio = control.eigenvalue, control.t, control.ratio
    n_compared, majorised = control.n_compared, control.majorised
    radius, quiet_until, cut_ratio = control.radius, control.quiet_until, control.cut_ratio
    now = control.n_visits
    y = np.zeros(direction.size)
    gradient = np.zeros(direction.size)
    start = np.empty(x.size)
    finite = True
    usual_failure = _norm(failure)
    interval = -(-m // 50)
    window = comparison_window(m)
    if n_probes > 0:
        window = min(max(0.1 * n_probes, 3.0), 50.0)
    n_visits = order.size + n_probes
    probes_done = 0
    for k in range(n_visits):
        if probes_done < n_probes and (probes_done + 1) * n_visits <= (k + 1) * n_probes and k > 0:
            component = order[(7919 * k + 104729) % (k - probes_done)]  # one that was visited in this pass
            probes_done += 1
        else:
            component = order[k - probes_done]
        extrapolation = 0.0
        t_next = 1.0
        if rule.accelerated and eigenvalue > 0.0:
            root = np.sqrt(min(rule.mu / eigenvalue, 1.0))
            t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            extrapolation = min((t - 1.0) / t_next, (1.0 - root) / (1.0 + root))
        _extrapolate(x, previous, extrapolation, y)
        was_visited = surrogate.visited[component]
        increase = _compared_visit(
            linear_sum,
            surrogate,
            pending,
            component,
            y,
            majorised,
            rule.has_majorant,
            usual_failure,
            1.0 - 1.0 / window,
            failure,
            movement,
            eigenvalue,
            direction,
        )
        if not np.isfinite(increase):
            finite = False
            break
        n_compared += 1 if was_visited else 0
        now += 1
        eigenvalue += increase
        if now <= 100 or now % interval == 0:
            n_steps = 8 if now <= 10 else 2
            estimate = _power_steps(surrogate, pending, direction, gradient, n_steps, eigenvalue)
            eigenvalue = max(estimate, SLOWEST_FALL * eigenvalue)
        if eigenvalue <= 0.0:
            continue
        n_steps = rule.model_steps
        if n_steps == 0:
            mu = max(rule.mu, eigenvalue * 1e-10)
            n_steps = min(max(1, int(np.ceil(8.0 * np.sqrt(eigenvalue / mu) / m))), MOST_MODEL_STEPS)
        start[:] = x
        for step in range(n_steps):
            if step > 0:
                root = np.sqrt(min(rule.mu / eigenvalue, 1.0))
                t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
                extrapolation = min((t - 1.0) / t_next, (1.0 - root) / (1.0 + root))
                _extrapolate(x, previous, extrapolation, y)
            restart = _model_step(
                linear_sum, surrogate, pending, x, previous, y, gradient, rule.step_factor / eigenvalue
            )
            t = t_next
            if restart or not rule.accelerated:
                t = 1.0
                previous[:] = x
        if not rule.has_majorant and _pull_back(x, start, radius):
            t = 1.0
            previous[:] = x
        if was_visited and n_compared >= 3:
            scale = _norm(movement)
            usual_failure = _norm(failure)
            if scale > 1e-15:
                ratio = usual_failure / scale
                if rule.has_majorant:
                    if ratio < TRUSTED:
                        majorised = False
                    elif ratio > DISTRUSTED:
                        majorised = True
                else:
                    new_radius, quiet_until, cut_ratio = _new_radius(
                        radius, ratio, cut_ratio, quiet_until, now, m, window if n_probes > 0 else np.inf
                    )
                    if new_radius < radius:
                        t = 1.0
                        previous[:] = x
                    radius = new_radius
    finish_visits(surrogate, pending)
    done = Control(
        direction,
        failure,
        movement,
        eigenvalue,
        t,
        ratio,
        n_compared,
        majorised,
        radius,
        quiet_until,
        cut_ratio,
        now,
    )
    return done, now - control.n_visits, finite


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
    n_probes = math.ceil(m * max(0.05, min(0.5, 10.0 / m))) if first and m > 1 else 0
    rule = Rule(
        accelerated=accelerated,
        step_factor=1.0 if accelerated else 1.8,
        model_steps=model_steps,
        mu=strong_convexity(problem),
        has_majorant=math.isfinite(problem.loss.majorant(0.0, 1.0)),
    )
    control, n_visits, _ = _controlled_visits(
        problem.view, order, n_probes, x, previous, surrogate, new_pending(problem), copy_control(control), rule
    )
    return control, n_visits


def free_certificate(problem: Problem, control: Control) -> float:
    """Return (m / h) ||E delta||, an estimate of the surrogate's error at the last iterate."""
    window = comparison_window(problem.n_components)
    return float(problem.n_components / window * np.linalg.norm(control.failure))
