"""Steps of sparse rows that are made up for when a coordinate is next read.

A visit moves each penalised coordinate by v <- prox(decay v - drift), decay = 1 - step l2. On sparse rows most coordinates
see nothing of a visit but this map, with a drift that stays the same until a row touches them: k such steps have a closed
form, so that a visit costs its rows' stored entries, not d. IAG, SAG, SAGA
(`finitesum.methods.first_order.gradient_table`) and SVRG use it.
"""

from __future__ import annotations

from typing import NamedTuple

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel_part
from finitesum.problems.linear import LinearSum, first_row, last_row

#: So many steps are tabulated: the tables stay in the processor's fast memory, and later coordinates take several turns.
TABLE_SIZE = 4096


class LazySteps(NamedTuple):
    """What is known of steps to come; a kernel makes it with tables of at most TABLE_SIZE + 1 and calls `tabulate`."""

    step_size: float
    decay: float  # 1 - step l2
    powers: Vector  # (at most TABLE_SIZE + 1,)  decay^k
    sums: Vector  # (as many,)  1 + decay + ... + decay^(k-1)
    done: Indices  # (n_penalised,)  how many steps a coordinate has seen; empty for dense rows, which are never late


@kernel_part
def tabulate(lazy: LazySteps) -> None:
    """Fill in the powers of decay and their sums."""
    lazy.powers[0] = 1.0
    lazy.sums[0] = 0.0
    for k in range(lazy.powers.size - 1):
        lazy.powers[k + 1] = lazy.decay * lazy.powers[k]
        lazy.sums[k + 1] = lazy.decay * lazy.sums[k] + 1.0


@kernel_part
def one_step(linear_sum: LinearSum, value: float, drift: float, decay: float, step_size: float) -> float:
    """Return prox(decay v - drift)."""
    return linear_sum.penalty.prox_at(decay * value - drift, step_size)


@kernel_part
def overdue_steps(linear_sum: LinearSum, lazy: LazySteps, value: float, drift: float, n_steps: int) -> float:
    """Return v after n_steps of v <- prox(decay v - drift)."""
    most = lazy.powers.size - 1
    threshold = lazy.step_size * linear_sum.penalty.lasso()
    while n_steps > 0:
        turn = min(n_steps, most)
        if threshold > 0.0 and lazy.decay < 0.0:  # a step longer than 1 / l2 changes the sign each time: no closed form
            turn = 1
            value = one_step(linear_sum, value, drift, lazy.decay, lazy.step_size)
        elif threshold == 0.0:
            value = lazy.powers[turn] * value - drift * lazy.sums[turn]
        elif value == 0.0 and abs(drift) <= threshold:
            return 0.0
        else:
            value = _steps_with_prox(linear_sum, lazy, value, drift, threshold, turn)
        n_steps -= turn
    return value


@kernel_part
def _steps_with_prox(
    linear_sum: LinearSum, lazy: LazySteps, value: float, drift: float, threshold: float, n_steps: int
) -> float:
    """Do as `overdue_steps` for a number of steps that is tabulated.

    Between two changes of sign the prox only shifts, so k steps have a closed form; a bisection finds how many there are,
    and the step over zero is taken by itself. At zero v stays when |drift| is within the threshold. There are at most two
    changes of sign.
    """
    powers, sums = lazy.powers, lazy.sums
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
            value = one_step(linear_sum, value, drift, lazy.decay, lazy.step_size)
            n_steps -= 1
    return value


@kernel_part
def catch_up(linear_sum: LinearSum, lazy: LazySteps, component: int, now: int, x: Vector, gradient: Vector) -> None:
    """Bring the coordinates that a component's rows touch to step `now`; `gradient` is their drift / step."""
    rows = linear_sum.rows
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        start = rows.first(i)
        for k in range(start, start + rows.n_stored(i)):
            j = rows.column(i, k)
            overdue = now - lazy.done[j]
            if overdue > 0:
                x[j] = overdue_steps(linear_sum, lazy, x[j], lazy.step_size * gradient[j], overdue)
                lazy.done[j] = now


@kernel_part
def catch_up_all(linear_sum: LinearSum, lazy: LazySteps, now: int, x: Vector, gradient: Vector) -> None:
    """Bring every coordinate to step `now`."""
    for j in range(lazy.done.size):
        overdue = now - lazy.done[j]
        x[j] = overdue_steps(linear_sum, lazy, x[j], lazy.step_size * gradient[j], overdue)
        lazy.done[j] = now
