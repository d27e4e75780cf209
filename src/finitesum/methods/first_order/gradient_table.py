"""The table of last component gradients that IAG, SAG and SAGA share, and the visit that updates it.

For a linear model the table is one scalar per row, the loss's slope at the row's last visit; g is the mean gradient that
the table stands for. A visit of component j at x finds the change D = (nabla f_j(x) - table_j) / m and steps

    x <- prox(x - step (g + innovation D + l2 x)),    g <- g + D.

innovation = 1 steps along the new mean (IAG, SAG: biased, small variance), innovation = m along an unbiased estimate
(SAGA). On sparse rows a coordinate that no row touches sees the same affine map again and again; those steps are made up
for when the coordinate is next read (`finitesum.methods.first_order.lagged_updates`), so that a visit costs the row's
stored entries only.
"""

from __future__ import annotations

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import inlined_part, kernel, kernel_part
from finitesum.methods.first_order.lagged_updates import (
    TABLE_SIZE,
    LazySteps,
    catch_up,
    catch_up_all,
    one_step,
    overdue_steps,
    tabulate,
)
from finitesum.problems.linear import LinearSum, first_row, last_row


@kernel_part
def _step_touched(
    linear_sum: LinearSum,
    lazy: LazySteps,
    component: int,
    now: int,
    x: Vector,
    mean_gradient: Vector,
    change: Vector,
    innovation: float,
) -> None:
    """Step the coordinates that a component's rows touch; `change` is D there and returns to 0."""
    rows = linear_sum.rows
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        start = rows.first(i)
        for k in range(start, start + rows.n_stored(i)):
            j = rows.column(i, k)
            if lazy.done[j] == now:
                drift = lazy.step_size * (mean_gradient[j] + innovation * change[j])
                x[j] = one_step(linear_sum, x[j], drift, lazy.decay, lazy.step_size)
                mean_gradient[j] += change[j]
                change[j] = 0.0
                lazy.done[j] = now + 1


@kernel_part
def _step_all(
    linear_sum: LinearSum,
    lazy: LazySteps,
    x: Vector,
    mean_gradient: Vector,
    change: Vector,
    innovation: float,
) -> None:
    """Step every penalised coordinate; `change` is D and returns to 0."""
    for j in range(linear_sum.n_penalised):
        drift = lazy.step_size * (mean_gradient[j] + innovation * change[j])
        x[j] = one_step(linear_sum, x[j], drift, lazy.decay, lazy.step_size)
        mean_gradient[j] += change[j]
        change[j] = 0.0


@kernel_part
def _step_intercept(
    linear_sum: LinearSum, x: Vector, mean_gradient: Vector, change: Vector, step_size: float, innovation: float
) -> None:
    for j in range(linear_sum.n_penalised, x.size):
        x[j] -= step_size * (mean_gradient[j] + innovation * change[j])
        mean_gradient[j] += change[j]
        change[j] = 0.0


@kernel_part
def _record_slopes(linear_sum: LinearSum, component: int, x: Vector, slopes: Vector, change: Vector) -> bool:
    """Write the slopes at x of a component's rows, add D to `change`; return whether all is finite."""
    finite = True
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        prediction = linear_sum.rows.dot(i, x) + linear_sum.offsets[i]
        slope = linear_sum.loss.d1(prediction, linear_sum.targets[i]) if linear_sum.weights[i] > 0.0 else 0.0
        finite = finite and np.isfinite(slope)
        linear_sum.rows.add_to(i, linear_sum.weights[i] * (slope - slopes[i]), change)
        slopes[i] = slope
    return finite


@inlined_part
def _visit_sparse_row(
    linear_sum: LinearSum,
    lazy: LazySteps,
    i: int,
    now: int,
    x: Vector,
    slopes: Vector,
    mean_gradient: Vector,
    change: Vector,
    innovation: float,
) -> bool:
    """Visit a component of one sparse row, reading its entries twice instead of four times; the intercept comes after."""
    rows = linear_sum.rows
    start = rows.first(i)
    stop = start + rows.n_stored(i)
    # This loop is where the time goes: no call without an l1 part, and unsigned indices, which need no look at their sign.
    has_prox = linear_sum.penalty.lasso() != 0.0
    step_size, decay = lazy.step_size, lazy.decay
    prediction = linear_sum.offsets[i] if linear_sum.has_offsets else 0.0
    for k in range(start, stop):
        j = np.uint64(rows.column(i, k))
        overdue = now - lazy.done[j]
        if has_prox or overdue >= lazy.powers.size:
            x[j] = overdue_steps(linear_sum, lazy, x[j], step_size * mean_gradient[j], overdue)
        else:  # no step overdue is not worth a branch: it is the identity
            x[j] = lazy.powers[np.uint64(overdue)] * x[j] - step_size * mean_gradient[j] * lazy.sums[np.uint64(overdue)]
        prediction += rows.entry(i, k) * x[j]
    for last in range(linear_sum.n_penalised, x.size):
        prediction += x[last]
    weight = linear_sum.equal_weight if linear_sum.equal_weight > 0.0 else linear_sum.weights[i]
    slope = linear_sum.loss.d1(prediction, linear_sum.targets[i]) if weight > 0.0 else 0.0
    rise = weight * (slope - slopes[i])
    slopes[i] = slope
    for k in range(start, stop):
        j = np.uint64(rows.column(i, k))
        difference = rise * rows.entry(i, k)
        x[j] = decay * x[j] - step_size * (mean_gradient[j] + innovation * difference)
        if has_prox:
            x[j] = linear_sum.penalty.prox_at(x[j], step_size)
        mean_gradient[j] += difference
        lazy.done[j] = now + 1
    for last in range(linear_sum.n_penalised, x.size):
        change[last] = rise
    return np.isfinite(slope)  # type: ignore[no-any-return]


@kernel_part
def _visit_component(
    linear_sum: LinearSum,
    lazy: LazySteps,
    component: int,
    now: int,
    x: Vector,
    slopes: Vector,
    mean_gradient: Vector,
    change: Vector,
    innovation: float,
) -> bool:
    sparse = linear_sum.rows.is_sparse()
    if sparse:
        catch_up(linear_sum, lazy, component, now, x, mean_gradient)
    finite = _record_slopes(linear_sum, component, x, slopes, change)
    if sparse:
        _step_touched(linear_sum, lazy, component, now, x, mean_gradient, change, innovation)
    else:
        _step_all(linear_sum, lazy, x, mean_gradient, change, innovation)
    return finite


@kernel_part
def _visit_all(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    slopes: Vector,
    mean_gradient: Vector,
    change: Vector,
    lazy: LazySteps,
    innovation: float,
) -> int:
    one_sparse_row = linear_sum.rows.is_sparse() and linear_sum.batch_size == 1
    now = 0
    for component in order:
        if one_sparse_row:
            finite = _visit_sparse_row(linear_sum, lazy, component, now, x, slopes, mean_gradient, change, innovation)
        else:
            finite = _visit_component(linear_sum, lazy, component, now, x, slopes, mean_gradient, change, innovation)
        _step_intercept(linear_sum, x, mean_gradient, change, lazy.step_size, innovation)
        now += 1
        if not finite:
            break
    catch_up_all(linear_sum, lazy, now, x, mean_gradient)
    return now


@kernel
def table_visits(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    slopes: Vector,
    mean_gradient: Vector,
    step_size: float,
    innovation: float,
) -> int:
    """Visit the components of `order`, in place; return how many were visited (fewer on divergence)."""
    sparse = linear_sum.rows.is_sparse()
    change = np.zeros(x.size)
    n_lazy = min(order.size, TABLE_SIZE) if sparse else 0
    done = np.zeros(linear_sum.n_penalised if sparse else 0, dtype=np.int64)
    decay = 1.0 - step_size * linear_sum.penalty.ridge()
    lazy = LazySteps(step_size, decay, np.empty(n_lazy + 1), np.empty(n_lazy + 1), done)
    tabulate(lazy)
    # A part of its own: in this function every look at `lazy` would count references, 70 ns a visit.
    return _visit_all(linear_sum, order, x, slopes, mean_gradient, change, lazy, innovation)
