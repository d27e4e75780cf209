"""Projected steps on sparse rows whose cost is that of the row's stored entries, not of d.

Between two rows that touch a coordinate, projections alone move it, and they move all coordinates by one law::

    l1 ball    |z_j| = (K_j - L)_+ / kappa_j    L the sum of all thresholds so far, K_j a key fixed when j was last touched
    l2 ball     z_j  = rho u_j                  rho the product of all shrinkages so far                (Euclidean only)
    box, R^d    z_j  is constant

so that z_j is read in O(1), and so is the sum of z_j over the steps, from the running sums of L or rho: that sum is what
an average of iterates needs, and w of the averaged form,

    (t + 2) w_{t+1} = (t + 1) w_t + z_{t+1},

is one. The displaced form has no such law, for its momentum moves every coordinate differently.

*The l1 ball.* With N = sum |z_j| and C = sum 1/kappa_j over the coordinates that are not zero, a step that left N above
the radius raises L by (N - radius) / C; a coordinate whose key is passed dies, is taken out of N and C, and the rise is
computed anew. The dying come in the order of their keys, from a heap: this is Michelot's variable fixing with an order,
exact, and a coordinate dies at most once for each time it was touched, so that a step costs O(nnz log d), amortised.

*Metrics.* The mean square of the subgradients is V_j(t) = P_t U_j, where P_t = prod_k (1 - gamma/k) is common to all, so
s_j(t) = kappa_j sqrt(P_t) with kappa_j fixed between touches, and thresholds are measured in units of sqrt(P_t). The
small number delta is thereby divided by t^(gamma/2) between touches instead of by t^(1/2): the same for gamma = 1, and
of no account for a coordinate that ever saw a subgradient.

All of it is rebuilt from the vectors after each pass and each `steps_to_rebuild` steps, which takes back rounding errors.
"""

from __future__ import annotations

import math

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.core.jit import kernel, kernel_part
from finitesum.methods.projected.sparse_memory import (
    DECAY,
    FREE,
    HEAP,
    INTERVALS,
    L1_BALL,
    L2_BALL,
    LEVEL,
    LOST,
    NORM,
    PREFIX,
    SLOPE,
    LazyMemory,
    LazySet,
    add_to,
    current,
    key_of,
    pending,
    place_in_heap,
    settle,
    sum_of,
    take_out,
)
from finitesum.methods.projected.steps import (
    AVERAGE,
    AVERAGED,
    MEAN_SQUARE,
    PLAIN,
    SMALLEST_METRIC,
    SQUARE_SUM,
    Memory,
    Rule,
    length_at,
)
from finitesum.problems.linear import LinearSum, first_row, last_row

#: A scale rho below it is rebuilt: sums over steps lose 1/rho to rounding.
_SMALLEST_SCALE = 1e-3


@kernel_part
def _iterate(
    rule: Rule, lazy_set: LazySet, lazy: LazyMemory, n_constrained: int, j: int, now: int, n_steps: int
) -> float:
    """Return w_j."""
    if rule.form != AVERAGED:
        return current(lazy_set, lazy, n_constrained, j)
    return (float(lazy.total[j]) + pending(lazy_set, lazy, n_constrained, j, now)) / (n_steps + 2)


# The step.


@kernel_part
def _collect(
    linear_sum: LinearSum,
    rule: Rule,
    lazy_set: LazySet,
    lazy: LazyMemory,
    component: int,
    now: int,
    n_steps: int,
) -> int:
    """Write a component's subgradient to lazy.gradient and return how many coordinates it touches."""
    rows = linear_sum.rows
    count = 0
    n_constrained = linear_sum.n_penalised
    intercept = 0.0
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        prediction = linear_sum.offsets[i]
        start = rows.first(i)
        stop = start + rows.n_stored(i)
        for k in range(start, stop):
            j = rows.column(i, k)
            prediction += rows.entry(i, k) * _iterate(rule, lazy_set, lazy, n_constrained, j, now, n_steps)
        for j in range(n_constrained, lazy.value.size):
            prediction += _iterate(rule, lazy_set, lazy, n_constrained, j, now, n_steps)
        slope = linear_sum.loss.d1(prediction, linear_sum.targets[i])
        if slope == 0.0:
            continue
        slope *= linear_sum.n_components * linear_sum.weights[i]
        intercept += slope
        for k in range(start, stop):
            j = rows.column(i, k)
            if lazy.is_touched[j] == 0:
                lazy.is_touched[j] = 1
                lazy.touched[count] = j
                count += 1
            lazy.gradient[j] += slope * rows.entry(i, k)
    for j in range(n_constrained, lazy.value.size):
        lazy.gradient[j] = intercept
        lazy.touched[count] = j
        count += 1
    return count


@kernel_part
def _quotient(rule: Rule, lazy: LazyMemory, j: int, t: int, g: float) -> float:
    """Let g enter the metric; return g_j / s_j, and leave 1 / kappa_j in lazy.rate."""
    if rule.metric == PLAIN:
        return g
    decay = lazy.figures[DECAY]
    floor = rule.delta
    if rule.metric == MEAN_SQUARE:
        lazy.second[j] += rule.metric_memory / t * g * g / decay
        floor = rule.delta / math.sqrt(t)
    else:
        lazy.second[j] += g * g
    metric = math.sqrt(decay * lazy.second[j]) + floor
    if metric < SMALLEST_METRIC:
        g, metric = 0.0, SMALLEST_METRIC
    if rule.is_weighted:
        lazy.rate[j] = math.sqrt(decay) / metric
    return g / metric


@kernel_part
def _touch_l1(lazy: LazyMemory, j: int, old: float, old_rate: float, new: float) -> None:
    if lazy.place[j] >= 0:
        add_to(lazy, NORM, -abs(old))
        add_to(lazy, SLOPE, -old_rate)
    if new == 0.0:
        if lazy.place[j] >= 0:
            take_out(lazy, j)
        lazy.value[j] = 0.0
        return
    add_to(lazy, NORM, abs(new))
    add_to(lazy, SLOPE, lazy.rate[j])
    key = lazy.figures[LEVEL] + abs(new) / lazy.rate[j]
    lazy.value[j] = key if new > 0.0 else -key
    place_in_heap(lazy, j)


@kernel_part
def _touch(
    linear_sum: LinearSum, rule: Rule, lazy_set: LazySet, lazy: LazyMemory, j: int, now: int, t: int, length: float
) -> None:
    """Step one coordinate."""
    n_constrained = linear_sum.n_penalised
    settle(lazy_set, lazy, n_constrained, j, now)
    old = current(lazy_set, lazy, n_constrained, j)
    old_rate = lazy.rate[j]
    new = old - length * _quotient(rule, lazy, j, t, lazy.gradient[j])
    lazy.gradient[j] = 0.0
    lazy.is_touched[j] = 0
    if j >= n_constrained or lazy_set.kind == FREE:
        lazy.value[j] = new
    elif lazy_set.kind == INTERVALS:
        lazy.value[j] = min(max(new, lazy_set.lower[j]), lazy_set.upper[j])
    elif lazy_set.kind == L2_BALL:
        value = new / lazy.figures[LEVEL]
        add_to(lazy, NORM, value * value)
        add_to(lazy, NORM, -lazy.value[j] * lazy.value[j])
        lazy.value[j] = value
    else:
        _touch_l1(lazy, j, old, old_rate, new)


@kernel_part
def _onto_l1_ball(lazy_set: LazySet, lazy: LazyMemory, n_constrained: int, now: int) -> None:
    """Raise the level until the norm is the radius."""
    figures = lazy.figures
    excess = sum_of(lazy, NORM) - lazy_set.radius
    if not excess > 0.0:
        return
    while figures[HEAP] > 1.0:
        j = lazy.heap[0]
        size = (key_of(lazy, j) - figures[LEVEL]) * lazy.rate[j]
        if size * sum_of(lazy, SLOPE) > excess * lazy.rate[j]:
            break
        settle(lazy_set, lazy, n_constrained, j, now)
        take_out(lazy, j)
        lazy.value[j] = 0.0
        excess -= size
        add_to(lazy, SLOPE, -lazy.rate[j])
    figures[LEVEL] += excess / sum_of(lazy, SLOPE)
    figures[NORM] = lazy_set.radius
    figures[NORM + LOST] = 0.0


@kernel_part
def _project(lazy_set: LazySet, lazy: LazyMemory, n_constrained: int, now: int) -> None:
    figures = lazy.figures
    if lazy_set.kind == L1_BALL:
        _onto_l1_ball(lazy_set, lazy, n_constrained, now)
        figures[PREFIX] += figures[LEVEL]
    elif lazy_set.kind == L2_BALL:
        norm = figures[LEVEL] * math.sqrt(max(sum_of(lazy, NORM), 0.0))
        if norm > lazy_set.radius:
            figures[LEVEL] *= lazy_set.radius / norm
        figures[PREFIX] += figures[LEVEL]


@kernel_part
def _visit_all(
    linear_sum: LinearSum,
    order: Indices,
    rule: Rule,
    lazy_set: LazySet,
    lazy: LazyMemory,
    step_size: float,
    horizon: int,
    n_before: int,
) -> int:
    now = 0
    for component in order:
        n_steps = n_before + now
        t = n_steps + 1
        count = _collect(linear_sum, rule, lazy_set, lazy, component, now, n_steps)
        if rule.metric == MEAN_SQUARE and t > rule.metric_memory:
            lazy.figures[DECAY] *= 1.0 - rule.metric_memory / t
        length = length_at(rule, step_size, horizon, t)
        for k in range(count):
            _touch(linear_sum, rule, lazy_set, lazy, lazy.touched[k], now, t, length)
        _project(lazy_set, lazy, linear_sum.n_penalised, now)
        now += 1
        if lazy_set.kind == L2_BALL and not lazy.figures[LEVEL] > _SMALLEST_SCALE:
            break
    return now


# Building from the vectors, and writing them.


@kernel_part
def _build(rule: Rule, lazy_set: LazySet, lazy: LazyMemory, memory: Memory, n_constrained: int, n_before: int) -> None:
    figures = lazy.figures
    figures[:] = 0.0
    figures[DECAY] = 1.0
    if lazy_set.kind == L2_BALL:
        figures[LEVEL] = 1.0
    floor = rule.delta / math.sqrt(max(n_before, 1)) if rule.metric == MEAN_SQUARE else rule.delta
    for j in range(lazy.value.size):
        z = memory.companion[j] if rule.form == AVERAGED else memory.iterate[j]
        lazy.total[j] = (n_before + 2) * memory.iterate[j] if rule.form == AVERAGED else 0.0
        lazy.value[j] = z
        lazy.place[j] = -1
        if rule.metric != PLAIN:
            lazy.second[j] = memory.second[j]
            if rule.is_weighted:
                lazy.rate[j] = 1.0 / max(math.sqrt(memory.second[j]) + floor, SMALLEST_METRIC)
        if j < n_constrained and lazy_set.kind == L2_BALL:
            add_to(lazy, NORM, z * z)
        if j < n_constrained and lazy_set.kind == L1_BALL and z != 0.0:
            add_to(lazy, NORM, abs(z))
            add_to(lazy, SLOPE, lazy.rate[j])
            lazy.value[j] = z / lazy.rate[j]
            place_in_heap(lazy, j)


@kernel_part
def _write(
    rule: Rule, lazy_set: LazySet, lazy: LazyMemory, memory: Memory, n_constrained: int, n_before: int, now: int
) -> None:
    n_steps = n_before + now
    for j in range(lazy.value.size):
        settle(lazy_set, lazy, n_constrained, j, now)
        z = current(lazy_set, lazy, n_constrained, j)
        if rule.metric != PLAIN:
            memory.second[j] = lazy.figures[DECAY] * lazy.second[j]
        if rule.form == AVERAGED:
            memory.companion[j] = z
            memory.iterate[j] = lazy.total[j] / (n_steps + 2)
            continue
        if rule.output == AVERAGE:  # of the points before the steps
            total = lazy.total[j] + memory.iterate[j] - z
            memory.mean[j] += (total - now * memory.mean[j]) / n_steps
        memory.iterate[j] = z


@kernel
def lazy_visits(
    linear_sum: LinearSum,
    order: Indices,
    rule: Rule,
    lazy_set: LazySet,
    memory: Memory,
    step_size: float,
    horizon: int,
    n_before: int,
) -> int:
    """Take a step for each component of `order`, in place, after n_before steps; return how many (fewer to rebuild)."""
    dim = memory.iterate.size
    n_heap = linear_sum.n_penalised if lazy_set.kind == L1_BALL else 0
    lazy = LazyMemory(
        np.zeros(dim),
        np.ones(dim),
        np.zeros(dim),
        np.zeros(dim, dtype=np.int64),
        np.zeros(dim),
        np.zeros(0 if rule.metric == PLAIN else dim),
        np.zeros(n_heap, dtype=np.int64),
        np.zeros(dim, dtype=np.int64),
        np.zeros(dim),
        np.zeros(dim, dtype=np.int64),
        np.zeros(dim, dtype=np.int64),
        np.zeros(12),
    )
    _build(rule, lazy_set, lazy, memory, linear_sum.n_penalised, n_before)
    now = _visit_all(linear_sum, order, rule, lazy_set, lazy, step_size, horizon, n_before)
    _write(rule, lazy_set, lazy, memory, linear_sum.n_penalised, n_before, now)
    return now


def can_be_lazy(rule: Rule, lazy_set: LazySet | None) -> bool:
    """Return whether a rule has a lazy form on a set (None: a set without one)."""
    if lazy_set is None or rule.direction != 0 or rule.metric not in (PLAIN, MEAN_SQUARE, SQUARE_SUM):
        return False
    if lazy_set.kind == L2_BALL and rule.is_weighted:
        return False
    if rule.form == AVERAGED:
        return rule.momentum < 0.0 and rule.output == 0
    return rule.form == 0 and rule.momentum == 0.0 and rule.output in (0, AVERAGE)
