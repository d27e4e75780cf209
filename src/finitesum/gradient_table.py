"""The table of last component gradients that IAG, SAG and SAGA share, and the visit that updates it.

For a linear model the table is one scalar per row, the loss's slope at the row's last visit; g is the mean gradient that
the table stands for. A visit of component j at x finds the change D = (nabla f_j(x) - table_j) / m and steps

    x <- prox(x - step (g + innovation D + l2 x)),    g <- g + D.

innovation = 1 steps along the new mean (IAG, SAG: biased, small variance), innovation = m along an unbiased estimate
(SAGA). On sparse rows a coordinate that no row touches sees the same affine map again and again; those steps are made up
for when the coordinate is next read, in O(1) (`_overdue`), so that a visit costs the row's stored entries only.
"""

from __future__ import annotations

import numpy as np

from finitesum.arrays import Indices, Vector
from finitesum.jit import kernel, kernel_part
from finitesum.problem import LinearSum, first_row, last_row


@kernel_part
def _one_step(linear_sum: LinearSum, value: float, drift: float, decay: float, step_size: float) -> float:
    return linear_sum.penalty.prox_at(decay * value - drift, step_size)


@kernel_part
def _overdue(
    linear_sum: LinearSum,
    value: float,
    drift: float,
    step_size: float,
    n_steps: int,
    powers: Vector,
    sums: Vector,
) -> float:
    """Return v after n_steps of v <- prox(decay v - drift).

    powers[k] = decay^k and sums[k] = 1 + decay + ... + decay^(k-1). Between two changes of sign the prox only shifts, so
    k steps have a closed form; a bisection finds how many there are, and the step over zero is taken by itself. At zero
    v stays when |drift| is within the threshold. There are at most two changes of sign.
    """
    threshold = step_size * linear_sum.penalty.lasso()
    if threshold == 0.0:
        return float(powers[n_steps] * value - drift * sums[n_steps])
    while n_steps > 0:
        if value == 0.0 and abs(drift) <= threshold:
            return 0.0
        if value != 0.0:
            sign = 1.0 if value > 0.0 else -1.0
            shift = drift + sign * threshold
            low = 0  # so many steps keep the sign
            high = n_steps + 1
            while high - low > 1:
                middle = (low + high) // 2
                if sign * (powers[middle] * value - shift * sums[middle]) > 0.0:
                    low = middle
                else:
                    high = middle
            value = powers[low] * value - shift * sums[low]
            n_steps -= low
        if n_steps > 0:
            value = _one_step(linear_sum, value, drift, powers[1], step_size)
            n_steps -= 1
    return value


@kernel_part
def _catch_up(
    linear_sum: LinearSum,
    component: int,
    now: int,
    x: Vector,
    mean_gradient: Vector,
    steps_done: Indices,
    step_size: float,
    powers: Vector,
    sums: Vector,
) -> None:
    """Bring the coordinates that a component's rows touch up to date."""
    rows = linear_sum.rows
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        start = rows.first(i)
        for k in range(start, start + rows.n_stored(i)):
            j = rows.column(i, k)
            overdue = now - steps_done[j]
            if overdue > 0:
                x[j] = _overdue(linear_sum, x[j], step_size * mean_gradient[j], step_size, overdue, powers, sums)
                steps_done[j] = now


@kernel_part
def _step_touched(
    linear_sum: LinearSum,
    component: int,
    now: int,
    x: Vector,
    mean_gradient: Vector,
    change: Vector,
    steps_done: Indices,
    step_size: float,
    innovation: float,
    decay: float,
) -> None:
    """Step the coordinates that a component's rows touch; `change` is D there and returns to 0."""
    rows = linear_sum.rows
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        start = rows.first(i)
        for k in range(start, start + rows.n_stored(i)):
            j = rows.column(i, k)
            if steps_done[j] == now:
                drift = step_size * (mean_gradient[j] + innovation * change[j])
                x[j] = _one_step(linear_sum, x[j], drift, decay, step_size)
                mean_gradient[j] += change[j]
                change[j] = 0.0
                steps_done[j] = now + 1


@kernel_part
def _step_all(
    linear_sum: LinearSum,
    x: Vector,
    mean_gradient: Vector,
    change: Vector,
    step_size: float,
    innovation: float,
    decay: float,
) -> None:
    """Step every penalised coordinate; `change` is D and returns to 0."""
    for j in range(linear_sum.n_penalised):
        drift = step_size * (mean_gradient[j] + innovation * change[j])
        x[j] = _one_step(linear_sum, x[j], drift, decay, step_size)
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
        slope = linear_sum.loss.d1(prediction, linear_sum.targets[i])
        finite = finite and np.isfinite(slope)
        linear_sum.rows.add_to(i, linear_sum.weights[i] * (slope - slopes[i]), change)
        slopes[i] = slope
    return finite


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
    decay = 1.0 - step_size * linear_sum.penalty.ridge()
    change = np.zeros(x.size)
    n_lazy = order.size if sparse else 0
    powers = np.ones(n_lazy + 1)
    sums = np.zeros(n_lazy + 1)
    for k in range(n_lazy):
        powers[k + 1] = decay * powers[k]
        sums[k + 1] = decay * sums[k] + 1.0
    steps_done = np.zeros(linear_sum.n_penalised if sparse else 0, dtype=np.int64)
    now = 0
    for component in order:
        if sparse:
            _catch_up(linear_sum, component, now, x, mean_gradient, steps_done, step_size, powers, sums)
        finite = _record_slopes(linear_sum, component, x, slopes, change)
        if sparse:
            _step_touched(
                linear_sum, component, now, x, mean_gradient, change, steps_done, step_size, innovation, decay
            )
        else:
            _step_all(linear_sum, x, mean_gradient, change, step_size, innovation, decay)
        _step_intercept(linear_sum, x, mean_gradient, change, step_size, innovation)
        now += 1
        if not finite:
            break
    if sparse:
        for j in range(linear_sum.n_penalised):
            overdue = now - steps_done[j]
            x[j] = _overdue(linear_sum, x[j], step_size * mean_gradient[j], step_size, overdue, powers, sums)
    return now
