"""One projected step along a subgradient, and the loop over a pass, compiled once for all rules.

A step goes from w_t to w_{t+1}, t = 1, 2, ..., with a subgradient g_t, in this order::

    metric      s_t from the squares of the subgradients, or 1
    direction   q_t = g_t / s_t, or a mean of subgradients over s_t
    move        displaced      w_{t+1} = P(w_t - a_t q_t + b_t (w_t - w_{t-1}))
                averaged       z_{t+1} = P(z_t - a_t q_t),   w_{t+1} = w_t + c_t (z_{t+1} - w_t)
                extrapolated   y_t = w_t + b_t (w_t - w_{t-1}),   w_{t+1} = P(y_t - a_t q_t),   g_t taken at y_t
    projection  P in the metric s_t, or Euclidean; an intercept is left as it is

A `Rule` says which by numbers, so that one compiled loop serves all methods: compiling one for each would cost a minute.
Everything here is O(d) a step; `finitesum.methods.projected.sparse_steps` is the form for sparse rows.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.constraints.projections import Projection
from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.problems.view import View, first_row, last_row

# Forms of the move.
DISPLACED, AVERAGED, EXTRAPOLATED = 0, 1, 2
# Metrics: 1; the mean square with memory 1 - gamma/t; the sum; means that forget: plain, corrected for the start, largest.
PLAIN, MEAN_SQUARE, SQUARE_SUM, FORGETTING, CORRECTED, LARGEST = 0, 1, 2, 3, 4, 5
# Directions: the subgradient; a mean that forgets, plain or corrected; a sum that forgets.
GRADIENT, GRADIENT_MEAN, CORRECTED_MEAN, GRADIENT_SUM = 0, 1, 2, 3
# Step schedules: alpha / sqrt(t), alpha / sqrt(T), alpha / sqrt(T) (1 - (t - 1) / T), alpha.
DECAYING, HORIZON, LINEAR, CONSTANT = 0, 1, 2, 3
# Outputs.
LAST, AVERAGE, SUFFIX, POLYNOMIAL = 0, 1, 2, 3

SCHEDULES = {"sqrt": DECAYING, "horizon": HORIZON, "linear": LINEAR, "constant": CONSTANT}
OUTPUTS = {"last": LAST, "average": AVERAGE, "suffix": SUFFIX, "polynomial": POLYNOMIAL}

#: Stands for the momentum t / (t + 2).
VARYING = -1.0

#: Stands in the metric for 0, in coordinates that never had a subgradient (with delta 0).
SMALLEST_METRIC = 1e-150


class Rule(NamedTuple):
    """What kind of step it is."""

    form: int = DISPLACED
    momentum: float = 0.0  # constant, or VARYING
    metric: int = PLAIN
    metric_memory: float = 0.0  # gamma of MEAN_SQUARE, rho of the metrics that forget
    delta: float = 0.0  # added to the root: delta / sqrt(t) with MEAN_SQUARE, delta else
    is_weighted: bool = False  # whether the projection is in the metric
    direction: int = GRADIENT
    direction_memory: float = 0.0
    schedule: int = DECAYING
    output: int = LAST
    step_size: float = 0.0  # alpha
    horizon: int = 0  # T in steps; 0 where the schedule needs none


class Memory(NamedTuple):
    """The vectors of a run, each of shape (d,), or empty where the rule has no use for it."""

    iterate: Vector  # w
    companion: Vector  # the iterate before, or z of the averaged form
    direction: Vector  # the mean or sum of the subgradients
    second: Vector  # the mean or sum of their squares
    largest: Vector  # the largest that `second` was
    mean: Vector  # of the iterates: the output
    recent_mean: Vector  # of the newer iterates, with the output "suffix"


class Scratch(NamedTuple):
    """Room for a step: each of shape (d,)."""

    gradient: Vector
    metric: Vector
    point: Vector


# The factors of step t.


@kernel_part
def scheduled(rule: Rule, t: int) -> float:
    """Return the step length of the schedule."""
    if rule.schedule == DECAYING:
        return rule.step_size / math.sqrt(t)
    if rule.schedule == HORIZON:
        return rule.step_size / math.sqrt(rule.horizon)
    if rule.schedule == LINEAR:
        return rule.step_size / math.sqrt(rule.horizon) * max(1.0 - (t - 1) / rule.horizon, 0.0)
    return rule.step_size


@kernel_part
def length_at(rule: Rule, t: int) -> float:
    """Return a_t: the step length that the form makes of the schedule."""
    if rule.form == EXTRAPOLATED:
        return scheduled(rule, t + 1 if rule.schedule == DECAYING else t) / (t + 1)
    length = scheduled(rule, t)
    if rule.momentum < 0.0:
        return length / (t + 2) if rule.form == DISPLACED else length
    return length / (1.0 - rule.momentum) if rule.form == AVERAGED else length


@kernel_part
def momentum_at(rule: Rule, t: int) -> float:
    """Return b_t, the factor of the last displacement."""
    if rule.form == EXTRAPOLATED:
        return max(t - 2, 0) / (t + 1)
    return t / (t + 2) if rule.momentum < 0.0 else rule.momentum


@kernel_part
def floor_at(rule: Rule, t: int) -> float:
    """Return what is added to the roots in the metric."""
    return rule.delta / math.sqrt(t) if rule.metric == MEAN_SQUARE else rule.delta


@kernel_part
def _update_metric(rule: Rule, memory: Memory, gradient: Vector, metric: Vector, t: int) -> None:
    keep, weight, correction, floor = 1.0, 1.0, 1.0, floor_at(rule, t)
    if rule.metric == MEAN_SQUARE:
        weight = rule.metric_memory / t  # not 1 - keep: that cancels
        keep = 1.0 - weight
    elif rule.metric != SQUARE_SUM:
        keep = rule.metric_memory
        weight = 1.0 - keep
        if rule.metric == CORRECTED:
            correction = 1.0 / (1.0 - keep**t)
    for j in range(gradient.size):
        square = keep * memory.second[j] + weight * (gradient[j] * gradient[j])
        memory.second[j] = square
        if rule.metric == LARGEST:
            square = max(square, memory.largest[j])
            memory.largest[j] = square
        metric[j] = math.sqrt(correction * square) + floor


@kernel_part
def _update_direction(rule: Rule, memory: Memory, gradient: Vector, t: int) -> None:
    """Replace the subgradient by the direction."""
    keep = rule.direction_memory
    weight = 1.0 if rule.direction == GRADIENT_SUM else 1.0 - keep
    correction = 1.0 / (1.0 - keep**t) if rule.direction == CORRECTED_MEAN else 1.0
    for j in range(gradient.size):
        memory.direction[j] = keep * memory.direction[j] + weight * gradient[j]
        gradient[j] = correction * memory.direction[j]


@kernel_part
def _divide(gradient: Vector, metric: Vector) -> None:
    """Divide the direction by the metric; 0/0 is 0."""
    for j in range(gradient.size):
        if metric[j] < SMALLEST_METRIC:
            metric[j] = SMALLEST_METRIC
            gradient[j] = 0.0
        else:
            gradient[j] /= metric[j]


@kernel_part
def _project(rule: Rule, projection: Projection, n_constrained: int, x: Vector, metric: Vector) -> None:
    head = x[:n_constrained]
    if rule.is_weighted:
        projection.project_into(head, metric[:n_constrained], head)
    else:
        projection.project_euclidean_into(head, head)


@kernel_part
def _move(rule: Rule, memory: Memory, scratch: Scratch, t: int) -> None:
    """Step; the projection comes after."""
    w, companion, q = memory.iterate, memory.companion, scratch.gradient
    length = length_at(rule, t)
    if rule.form == AVERAGED:
        for j in range(w.size):
            companion[j] -= length * q[j]
    elif rule.form == EXTRAPOLATED:
        for j in range(w.size):
            companion[j] = w[j]
            w[j] = scratch.point[j] - length * q[j]
    elif companion.size == 0:
        for j in range(w.size):
            w[j] -= length * q[j]
    else:
        momentum = momentum_at(rule, t)
        for j in range(w.size):
            step = momentum * (w[j] - companion[j]) - length * q[j]
            companion[j] = w[j]
            w[j] += step


@kernel_part
def _record_mean(rule: Rule, memory: Memory, t: int) -> None:
    """Let w_t enter the means."""
    w, mean, recent = memory.iterate, memory.mean, memory.recent_mean
    if rule.output == SUFFIX:
        base = 1
        while 2 * base <= t:
            base *= 2
        if t == base:  # a power of two: the newer mean becomes the older
            for j in range(w.size):
                mean[j] = recent[j]
                recent[j] = 0.0
        for j in range(w.size):
            mean[j] += (w[j] - mean[j]) / (t - base // 2 + (1 if base > 1 else 0))
            recent[j] += (w[j] - recent[j]) / (t - base + 1)
    else:
        weight = 4.0 / (t + 3) if rule.output == POLYNOMIAL else 1.0 / t
        for j in range(w.size):
            mean[j] += weight * (w[j] - mean[j])


@kernel_part
def locate(rule: Rule, memory: Memory, t: int, point: Vector) -> None:
    """Write y_t, where the extrapolated form takes its subgradient, to point."""
    momentum = momentum_at(rule, t)
    for j in range(point.size):
        point[j] = memory.iterate[j] + momentum * (memory.iterate[j] - memory.companion[j])


@kernel_part
def advance(rule: Rule, projection: Projection, n_constrained: int, memory: Memory, scratch: Scratch, t: int) -> None:
    """Take step t along the subgradient in scratch.gradient, which is lost."""
    if rule.output != LAST:
        _record_mean(rule, memory, t)
    if rule.metric != PLAIN:
        _update_metric(rule, memory, scratch.gradient, scratch.metric, t)
    if rule.direction != GRADIENT:
        _update_direction(rule, memory, scratch.gradient, t)
    if rule.metric != PLAIN:
        _divide(scratch.gradient, scratch.metric)
    _move(rule, memory, scratch, t)
    if rule.form == AVERAGED:
        w, z = memory.iterate, memory.companion
        _project(rule, projection, n_constrained, z, scratch.metric)
        weight = 1.0 / (t + 2) if rule.momentum < 0.0 else 1.0 - rule.momentum  # c_t
        for j in range(w.size):
            w[j] += weight * (z[j] - w[j])
    else:
        _project(rule, projection, n_constrained, memory.iterate, scratch.metric)


# A pass over a linear model.


@kernel_part
def component_subgradient(view: View, component: int, point: Vector, out: Vector) -> None:
    """Write a subgradient of a component, the quadratic penalty included, to out."""
    ridge = view.penalty.ridge()
    for j in range(out.size):
        out[j] = ridge * point[j] if j < view.n_penalised else 0.0
    for i in range(first_row(view, component), last_row(view, component)):
        slope = view.loss.d1(view.rows.dot(i, point) + view.offsets[i], view.targets[i])
        if slope != 0.0:
            view.rows.add_to(i, view.n_components * view.weights[i] * slope, out)


@kernel_part
def _visit_all(view: View, order: Indices, rule: Rule, memory: Memory, scratch: Scratch, n_steps: int) -> int:
    t = n_steps
    for component in order:
        t += 1
        if rule.form == EXTRAPOLATED:
            locate(rule, memory, t, scratch.point)
            component_subgradient(view, component, scratch.point, scratch.gradient)
        else:
            component_subgradient(view, component, memory.iterate, scratch.gradient)
        advance(rule, view.projection, view.n_penalised, memory, scratch, t)
        if not np.isfinite(memory.iterate[0]):
            break
    return t - n_steps


@kernel
def projected_visits(view: View, order: Indices, rule: Rule, memory: Memory, n_steps: int) -> int:
    """Take a step for each component of `order`, in place, after n_steps steps; return how many (fewer on divergence)."""
    dim = memory.iterate.size
    scratch = Scratch(np.zeros(dim), np.ones(dim), np.zeros(dim if rule.form == EXTRAPOLATED else 0))
    return _visit_all(view, order, rule, memory, scratch, n_steps)


# The entries of a Python loop, for components given as callables.

projected_step = kernel(advance)
extrapolated_point = kernel(locate)
