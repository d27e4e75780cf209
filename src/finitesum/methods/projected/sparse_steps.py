"""Projected steps on sparse rows with deferred projections: a step costs what the row's stored entries do, not d.

Between two rows that touch a coordinate, projections alone move it, and they move all coordinates by one law::

    l1 ball    |z_j| = (K_j - L)_+ / kappa_j    L the sum of all thresholds so far, K_j a key fixed when j was last touched
    l2 ball     z_j  = rho u_j                  rho the product of all shrinkages so far                (Euclidean only)
    box, R^d    z_j  is constant

so that z_j is read in O(1), and so is the sum of z_j over the steps, from the running sums of L or rho: that sum is what
an average of iterates needs, and w of the averaged form,

    (t + 2) w_{t+1} = (t + 1) w_t + z_{t+1},

is one. The displaced form has no such law, because its momentum moves every coordinate differently.

*The l1 ball.* With N = sum |z_j| and C = sum 1/kappa_j over the coordinates that are not zero, a step that left N above
the radius raises L by (N - radius) / C; a coordinate whose key is passed becomes zero, is taken out of N and C, and the
rise is recomputed. They become zero in the order of their keys, from a heap: this is Michelot's variable fixing with an
order, exact, and a coordinate becomes zero at most once for each touch: a step costs O(nnz log d), amortised.

*Metrics.* The mean square of the subgradients is V_j(t) = P_t U_j, where P_t = prod_k (1 - gamma/k) is common to all, so
s_j(t) = kappa_j sqrt(P_t) with kappa_j fixed between touches, and thresholds are measured in units of sqrt(P_t). The
small number delta is thereby divided by t^(gamma/2) between touches instead of by t^(1/2): the same for gamma = 1, and
negligible for a coordinate that ever had a subgradient.

All of it is rebuilt from the vectors after each pass and each `STEPS_TO_REBUILD` steps, which takes back rounding errors.
"""

import math

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.core.jit import kernel, kernel_part
from finitesum.methods.projected import sparse_memory as deferred, steps
from finitesum.methods.projected.sparse_memory import FREE, INTERVALS, L1_BALL, L2_BALL, Domain, SparseMemory
from finitesum.methods.projected.steps import Memory, Rule, floor_at, length_at
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows
from finitesum.problems.view import View, first_row, last_row

#: Below this scale rho is rebuilt: sums over steps lose 1/rho to rounding.
_SMALLEST_SCALE = 1e-3


@kernel_part
def _iterate(rule: Rule, domain: Domain, sparse: SparseMemory, j: int, now: int, n_steps: int) -> float:
    """Return w_j."""
    if rule.form != steps.AVERAGED:
        return deferred.current(domain, sparse, j)
    return (float(sparse.total[j]) + deferred.pending(domain, sparse, j, now)) / (n_steps + 2)


@kernel_part
def _collect(view: View, rule: Rule, domain: Domain, sparse: SparseMemory, component: int, now: int, n_steps: int) -> int:
    """Write a component's subgradient to sparse.gradient and return how many coordinates it touches."""
    rows = view.rows
    count = 0
    intercept = 0.0
    for i in range(first_row(view, component), last_row(view, component)):
        prediction = view.offsets[i]
        start = rows.first(i)
        stop = start + rows.n_stored(i)
        for k in range(start, stop):
            prediction += rows.entry(i, k) * _iterate(rule, domain, sparse, rows.column(i, k), now, n_steps)
        for j in range(domain.n_constrained, sparse.value.size):
            prediction += _iterate(rule, domain, sparse, j, now, n_steps)
        slope = view.loss.d1(prediction, view.targets[i])
        if slope == 0.0:
            continue
        slope *= view.n_components * view.weights[i]
        intercept += slope
        for k in range(start, stop):
            j = rows.column(i, k)
            if sparse.is_touched[j] == 0:
                sparse.is_touched[j] = 1
                sparse.touched[count] = j
                count += 1
            sparse.gradient[j] += slope * rows.entry(i, k)
    for j in range(domain.n_constrained, sparse.value.size):
        sparse.gradient[j] = intercept
        sparse.touched[count] = j
        count += 1
    return count


@kernel_part
def _quotient(rule: Rule, sparse: SparseMemory, j: int, t: int, g: float) -> float:
    """Let g enter the metric; return g_j / s_j, and leave 1 / kappa_j in sparse.rate."""
    if rule.metric == steps.PLAIN:
        return g
    decay = sparse.figures[deferred.DECAY]
    weight = rule.metric_memory / t if rule.metric == steps.MEAN_SQUARE else 1.0
    sparse.second[j] += weight * g * g / decay
    metric = math.sqrt(decay * sparse.second[j]) + floor_at(rule, t)
    if metric < steps.SMALLEST_METRIC:
        g, metric = 0.0, steps.SMALLEST_METRIC
    if rule.is_weighted:
        sparse.rate[j] = math.sqrt(decay) / metric
    return g / metric


@kernel_part
def _touch_l1(sparse: SparseMemory, j: int, old: float, old_rate: float, new: float) -> None:
    if sparse.place[j] >= 0:
        deferred.add_to(sparse, deferred.NORM, -abs(old))
        deferred.add_to(sparse, deferred.SLOPE, -old_rate)
    if new == 0.0:
        if sparse.place[j] >= 0:
            deferred.take_out(sparse, j)
        sparse.value[j] = 0.0
        return
    deferred.add_to(sparse, deferred.NORM, abs(new))
    deferred.add_to(sparse, deferred.SLOPE, sparse.rate[j])
    key = sparse.figures[deferred.LEVEL] + abs(new) / sparse.rate[j]
    sparse.value[j] = key if new > 0.0 else -key
    deferred.place_in_heap(sparse, j)


@kernel_part
def _touch(rule: Rule, domain: Domain, sparse: SparseMemory, j: int, now: int, t: int, length: float) -> None:
    """Step one coordinate."""
    deferred.settle(domain, sparse, j, now)
    old = deferred.current(domain, sparse, j)
    old_rate = sparse.rate[j]
    new = old - length * _quotient(rule, sparse, j, t, sparse.gradient[j])
    sparse.gradient[j] = 0.0
    sparse.is_touched[j] = 0
    if j >= domain.n_constrained or domain.kind == FREE:
        sparse.value[j] = new
    elif domain.kind == INTERVALS:
        sparse.value[j] = min(max(new, domain.lower[j]), domain.upper[j])
    elif domain.kind == L2_BALL:
        value = new / sparse.figures[deferred.LEVEL]
        deferred.add_to(sparse, deferred.NORM, value * value)
        deferred.add_to(sparse, deferred.NORM, -sparse.value[j] * sparse.value[j])
        sparse.value[j] = value
    else:
        _touch_l1(sparse, j, old, old_rate, new)


@kernel_part
def _onto_l1_ball(domain: Domain, sparse: SparseMemory, now: int) -> None:
    """Raise the level until the norm is the radius."""
    figures = sparse.figures
    excess = deferred.sum_of(sparse, deferred.NORM) - domain.radius
    if not excess > 0.0:
        return
    while figures[deferred.HEAP] > 1.0:
        j = sparse.heap[0]
        size = (deferred.key_of(sparse, j) - figures[deferred.LEVEL]) * sparse.rate[j]
        if size * deferred.sum_of(sparse, deferred.SLOPE) > excess * sparse.rate[j]:
            break
        deferred.settle(domain, sparse, j, now)
        deferred.take_out(sparse, j)
        sparse.value[j] = 0.0
        excess -= size
        deferred.add_to(sparse, deferred.SLOPE, -sparse.rate[j])
    figures[deferred.LEVEL] += excess / deferred.sum_of(sparse, deferred.SLOPE)
    figures[deferred.NORM] = domain.radius
    figures[deferred.NORM + deferred.LOST] = 0.0


@kernel_part
def _project(domain: Domain, sparse: SparseMemory, now: int) -> None:
    figures = sparse.figures
    if domain.kind == L1_BALL:
        _onto_l1_ball(domain, sparse, now)
    elif domain.kind == L2_BALL:
        norm = figures[deferred.LEVEL] * math.sqrt(max(deferred.sum_of(sparse, deferred.NORM), 0.0))
        if norm > domain.radius:
            figures[deferred.LEVEL] *= domain.radius / norm
    figures[deferred.PREFIX] += figures[deferred.LEVEL]


@kernel_part
def _visit_all(view: View, order: Indices, rule: Rule, domain: Domain, sparse: SparseMemory, n_before: int) -> int:
    now = 0
    for component in order:
        n_steps = n_before + now
        t = n_steps + 1
        count = _collect(view, rule, domain, sparse, component, now, n_steps)
        if rule.metric == steps.MEAN_SQUARE and t > rule.metric_memory:
            sparse.figures[deferred.DECAY] *= 1.0 - rule.metric_memory / t
        length = length_at(rule, t)
        for k in range(count):
            _touch(rule, domain, sparse, sparse.touched[k], now, t, length)
        _project(domain, sparse, now)
        now += 1
        if domain.kind == L2_BALL and not sparse.figures[deferred.LEVEL] > _SMALLEST_SCALE:
            break
    return now


# Building from the vectors, and writing them.


@kernel_part
def _build(rule: Rule, domain: Domain, sparse: SparseMemory, memory: Memory, n_before: int) -> None:
    sparse.figures[deferred.DECAY] = 1.0
    if domain.kind == L2_BALL:
        sparse.figures[deferred.LEVEL] = 1.0
    floor = floor_at(rule, max(n_before, 1))
    for j in range(sparse.value.size):
        z = memory.companion[j] if rule.form == steps.AVERAGED else memory.iterate[j]
        sparse.total[j] = (n_before + 2) * memory.iterate[j] if rule.form == steps.AVERAGED else 0.0
        sparse.value[j] = z
        sparse.place[j] = -1
        if rule.metric != steps.PLAIN:
            sparse.second[j] = memory.second[j]
            if rule.is_weighted:
                sparse.rate[j] = 1.0 / max(math.sqrt(memory.second[j]) + floor, steps.SMALLEST_METRIC)
        if j < domain.n_constrained and domain.kind == L2_BALL:
            deferred.add_to(sparse, deferred.NORM, z * z)
        if j < domain.n_constrained and domain.kind == L1_BALL and z != 0.0:
            deferred.add_to(sparse, deferred.NORM, abs(z))
            deferred.add_to(sparse, deferred.SLOPE, sparse.rate[j])
            sparse.value[j] = z / sparse.rate[j]
            deferred.place_in_heap(sparse, j)


@kernel_part
def _write(rule: Rule, domain: Domain, sparse: SparseMemory, memory: Memory, n_before: int, now: int) -> None:
    n_steps = n_before + now
    for j in range(sparse.value.size):
        deferred.settle(domain, sparse, j, now)
        z = deferred.current(domain, sparse, j)
        if rule.metric != steps.PLAIN:
            memory.second[j] = sparse.figures[deferred.DECAY] * sparse.second[j]
        if rule.form == steps.AVERAGED:
            memory.companion[j] = z
            memory.iterate[j] = sparse.total[j] / (n_steps + 2)
            continue
        if rule.output == steps.AVERAGE:  # of the points before the steps
            total = sparse.total[j] + memory.iterate[j] - z
            memory.mean[j] += (total - now * memory.mean[j]) / n_steps
        memory.iterate[j] = z


@kernel
def deferred_visits(view: View, order: Indices, rule: Rule, domain: Domain, memory: Memory, n_before: int) -> int:
    """Take a step for each component of `order`, in place, after n_before steps; return how many (fewer to rebuild)."""
    dim = memory.iterate.size
    n_heap = domain.n_constrained if domain.kind == L1_BALL else 0
    sparse = SparseMemory(
        np.zeros(dim),
        np.ones(dim),
        np.zeros(dim),
        np.zeros(dim, dtype=np.int64),
        np.zeros(dim),
        np.zeros(0 if rule.metric == steps.PLAIN else dim),
        np.zeros(n_heap, dtype=np.int64),
        np.zeros(dim, dtype=np.int64),
        np.zeros(dim),
        np.zeros(dim, dtype=np.int64),
        np.zeros(dim, dtype=np.int64),
        np.zeros(deferred.N_FIGURES),
    )
    _build(rule, domain, sparse, memory, n_before)
    now = _visit_all(view, order, rule, domain, sparse, n_before)
    _write(rule, domain, sparse, memory, n_before, now)
    return now


KINDS = {"nothing": FREE, "signs": INTERVALS, "bounds": INTERVALS, "l1-norm": L1_BALL, "l2-norm": L2_BALL}


def domain_for(problem: Problem, rule: Rule) -> Domain | None:
    """Return the set as deferred projections see it, or None where the rule, the set or the rows do not allow them."""
    if not isinstance(problem.rows, CSRRows) or problem.penalty.ridge() > 0.0:
        return None
    if rule.direction != steps.GRADIENT or rule.metric not in (steps.PLAIN, steps.MEAN_SQUARE, steps.SQUARE_SUM):
        return None
    is_averaged = rule.form == steps.AVERAGED and rule.momentum < 0.0 and rule.output == steps.LAST
    is_plain = rule.form == steps.DISPLACED and rule.momentum == 0.0 and rule.output in (steps.LAST, steps.AVERAGE)
    if not (is_averaged or is_plain):
        return None
    constraint, n_constrained = problem.constraint, problem.rows.n_columns
    kind, has_weights = KINDS.get(constraint.boundary), getattr(constraint, "weights", None) is not None
    if kind is None or has_weights or (kind == L2_BALL and rule.is_weighted):
        return None
    lower, upper = constraint.intervals(n_constrained if kind == INTERVALS else 0)
    return Domain(kind, n_constrained, getattr(constraint, "radius", 0.0), lower, upper)
