"""Lagged updates: the steps of a coordinate that no sparse row touches are taken when it is next read.

A visit moves each penalised coordinate by v <- prox(decay v - drift), decay = 1 - step l2. On sparse rows most coordinates
see nothing of a visit but this map, with a drift that stays the same until a row touches them: k such steps have a closed
form, so that a visit costs its rows' stored entries, not d. IAG, SAG, SAGA and SVRG use it
(`finitesum.methods.first_order.gradient_table`).
"""

from typing import NamedTuple

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel_part
from finitesum.problems.view import View, first_row, last_row

#: At most this many steps are tabulated: the tables stay in the processor's cache, and longer lags take several turns.
TABLE_SIZE = 4096


class LaggedSteps(NamedTuple):
    """The steps of a pass, of one length; a kernel makes it with tables of at most TABLE_SIZE + 1 and calls `tabulate`."""

    step_size: float
    decay: float  # 1 - step l2
    powers: Vector  # (at most TABLE_SIZE + 1,)  decay^k
    sums: Vector  # (of the same size,)  1 + decay + ... + decay^(k-1)
    done: Indices  # (n_penalised,)  the number of steps that a coordinate has taken; empty for dense rows, which never lag


@kernel_part
def tabulate(lagged: LaggedSteps) -> None:
    """Fill in the powers of decay and their sums."""
    lagged.powers[0] = 1.0
    lagged.sums[0] = 0.0
    for k in range(lagged.powers.size - 1):
        lagged.powers[k + 1] = lagged.decay * lagged.powers[k]
        lagged.sums[k + 1] = lagged.decay * lagged.sums[k] + 1.0


@kernel_part
def one_step(view: View, j: int, value: float, drift: float, decay: float, step_size: float) -> float:
    """Return prox(decay v - drift) for coordinate j."""
    return view.penalty.prox_of(decay * value - drift, step_size, j)


@kernel_part
def _steps_one_by_one(view: View, lagged: LaggedSteps, j: int, value: float, drift: float, k: int) -> float:
    """Do as `lagged_steps` for a penalty without a closed form, until the steps rest at a point."""
    for _ in range(k):
        moved = one_step(view, j, value, drift, lagged.decay, lagged.step_size)
        if moved == value:
            break
        value = moved
    return value


@kernel_part
def lagged_steps(view: View, lagged: LaggedSteps, j: int, value: float, drift: float, n_steps: int) -> float:
    """Return v after n_steps of v <- prox(decay v - drift) for coordinate j."""
    if not view.penalty.has_closed_form():
        return _steps_one_by_one(view, lagged, j, value, drift, n_steps)
    most = lagged.powers.size - 1
    threshold = lagged.step_size * view.penalty.lasso()
    while n_steps > 0:
        turn = min(n_steps, most)
        if threshold > 0.0 and lagged.decay < 0.0:  # a step beyond 1 / l2 changes the sign each time: no closed form
            turn = 1
            value = one_step(view, j, value, drift, lagged.decay, lagged.step_size)
        elif threshold == 0.0:
            value = lagged.powers[turn] * value - drift * lagged.sums[turn]
        elif value == 0.0 and abs(drift) <= threshold:
            return 0.0
        else:
            value = _steps_with_prox(view, lagged, j, value, drift, threshold, turn)
        n_steps -= turn
    return value


@kernel_part
def _steps_with_prox(
    view: View, lagged: LaggedSteps, j: int, value: float, drift: float, threshold: float, n_steps: int
) -> float:
    """Do as `lagged_steps` for a number of steps that is tabulated.

    Between two changes of sign the prox only shifts, so k steps have a closed form; a bisection finds how many there are,
    and the step over zero is taken by itself. At zero v stays when |drift| is within the threshold. There are at most two
    changes of sign.
    """
    powers, sums = lagged.powers, lagged.sums
    while n_steps > 0:
        if value == 0.0 and abs(drift) <= threshold:
            return 0.0
        if value != 0.0:
            sign = 1.0 if value > 0.0 else -1.0
            shift = drift + sign * threshold
            low = 0  # this number of steps keeps the sign
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
            value = one_step(view, j, value, drift, lagged.decay, lagged.step_size)
            n_steps -= 1
    return value


@kernel_part
def catch_up(view: View, lagged: LaggedSteps, component: int, now: int, w: Vector, gradient: Vector) -> None:
    """Bring the coordinates that a component's rows touch to step `now`; `gradient` is their drift / step."""
    rows = view.rows
    for i in range(first_row(view, component), last_row(view, component)):
        start = rows.first(i)
        for k in range(start, start + rows.n_stored(i)):
            j = rows.column(i, k)
            lag = now - lagged.done[j]
            if lag > 0:
                w[j] = lagged_steps(view, lagged, j, w[j], lagged.step_size * gradient[j], lag)
                lagged.done[j] = now


@kernel_part
def catch_up_all(view: View, lagged: LaggedSteps, now: int, w: Vector, gradient: Vector) -> None:
    """Bring every coordinate to step `now`."""
    for j in range(lagged.done.size):
        lag = now - lagged.done[j]
        w[j] = lagged_steps(view, lagged, j, w[j], lagged.step_size * gradient[j], lag)
        lagged.done[j] = now
