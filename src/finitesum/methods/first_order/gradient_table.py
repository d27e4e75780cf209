"""The table of component gradients, and the visit that steps along it: the memory of IAG, SAG, SAGA and SVRG.

For a linear model the table is one scalar per row, the loss's slope where the row was last evaluated; for components given
as functions it is a gradient each. g is the mean gradient that the table stands for. A visit of component j at w finds the
change D = (nabla f_j(w) - table_j) / m and steps

    w <- prox(w - step (g + innovation D + l2 w)),    then, where it records,    table_j <- nabla f_j(w),   g <- g + D.

innovation = 1 steps along the new mean (IAG, SAG: biased, small variance), innovation = m along an unbiased estimate of the
gradient (SAGA; SVRG, whose table is that of a snapshot and stays). On sparse rows a coordinate that no row touches sees the
same affine map again and again; those steps are lagged (`finitesum.methods.first_order.lagged_updates`), so that a visit
costs the row's stored entries only.
"""

from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import compilable, compiled_form, inlined_part, kernel, kernel_part
from finitesum.core.vectors import axpy, fill
from finitesum.methods.constants import curvature_between
from finitesum.methods.first_order import lagged_updates
from finitesum.methods.first_order.lagged_updates import LaggedSteps
from finitesum.methods.visits import AnySum, add_gradient_change, step_along
from finitesum.problems.term import prox_in_place
from finitesum.problems.view import View, first_row, last_row


class GradientTable(NamedTuple):
    """The gradient that each component had where it was last evaluated."""

    slopes: Vector  # (n,) the loss's slope at each row; (m, b, K) of K outputs; (n, d) of functions: gradients
    mean_gradient: Vector  # (d,)  g, without the penalty
    bounds: Vector  # (m,)  estimates of the components' smoothness, which visits raise; empty where it is known
    anchors: Matrix  # (m, d)  the points of the last visits, NaN before them; empty without estimates


@compilable
class Recording(NamedTuple):
    """The rule of IAG, SAG and SAGA: table and mean gradient follow the visits."""

    innovation: float
    scale: float = 1.0  # of D

    def records(self) -> bool:
        """Return whether the table follows the visits: what is compiled for False has no trace of it."""
        return True


@compilable
class Fixed(NamedTuple):
    """The rule of SVRG: the table is that of a snapshot, and stays."""

    scale: float  # of D: m, so that the direction is unbiased
    innovation: float = 1.0

    def records(self) -> bool:
        """Return whether the table follows the visits."""
        return False


TableRule = Recording | Fixed


def empty_table(problem: AnySum, bounds: Vector) -> GradientTable:
    """Return the table before the first visit: all gradients 0."""
    anchors = np.full((bounds.size, problem.dim), np.nan)
    return GradientTable(np.zeros(problem.slopes_shape), np.zeros(problem.dim), bounds, anchors)


@kernel_part
def _step_touched(
    view: View,
    lagged: LaggedSteps,
    component: int,
    now: int,
    w: Vector,
    mean_gradient: Vector,
    change: Vector,
    rule: TableRule,
) -> None:
    """Step the coordinates that a component's rows touch, and the intercept; `change` is D there and returns to 0."""
    rows = view.rows
    for i in range(first_row(view, component), last_row(view, component)):
        start = rows.first(i)
        for k in range(start, start + rows.n_stored(i)):
            j = rows.column(i, k)
            if lagged.done[j] == now:
                drift = lagged.step_size * (mean_gradient[j] + rule.innovation * change[j])
                w[j] = lagged_updates.one_step(view, j, w[j], drift, lagged.decay, lagged.step_size)
                if rule.records():
                    mean_gradient[j] += change[j]
                change[j] = 0.0
                lagged.done[j] = now + 1


def _step_all(view: View, lagged: LaggedSteps, w: Vector, mean_gradient: Vector, change: Vector, rule: TableRule) -> None:
    """Step every penalised coordinate; `change` is D."""
    step_along(view, w, mean_gradient + rule.innovation * change, lagged.step_size)
    if rule.records():
        axpy(1.0, change, mean_gradient)
    fill(change, 0.0)


@compiled_form(of=_step_all)
def _compiled_step_all(
    view: View, lagged: LaggedSteps, w: Vector, mean_gradient: Vector, change: Vector, rule: TableRule
) -> None:
    # Loops of one line each, with the values of tuples read before them, become SIMD code whatever stands around them.
    innovation, step_size, decay = rule.innovation, lagged.step_size, lagged.decay
    for j in range(view.n_penalised):
        w[j] = decay * w[j] - step_size * (mean_gradient[j] + innovation * change[j])
    if view.penalty.has_prox():
        prox_in_place(view, w, step_size)
    if rule.records():
        for j in range(view.n_penalised):
            mean_gradient[j] += change[j]
    for j in range(view.n_penalised):
        change[j] = 0.0
    _step_intercept(view, lagged, w, mean_gradient, change, rule)


@kernel_part
def _step_intercept(
    view: View, lagged: LaggedSteps, w: Vector, mean_gradient: Vector, change: Vector, rule: TableRule
) -> None:
    for j in range(view.n_penalised, w.size):
        w[j] -= lagged.step_size * (mean_gradient[j] + rule.innovation * change[j])
        if rule.records():
            mean_gradient[j] += change[j]
        change[j] = 0.0


@inlined_part
def _visit_sparse_row(
    view: View, lagged: LaggedSteps, i: int, now: int, w: Vector, table: GradientTable, change: Vector, rule: TableRule
) -> bool:
    """Visit a component of one sparse row, reading its entries twice instead of four times; the intercept comes after."""
    rows, slopes, mean_gradient = view.rows, table.slopes, table.mean_gradient
    start = rows.first(i)
    stop = start + rows.n_stored(i)
    # Most of the time is spent in this loop: no call without a prox, and unsigned indices, whose sign is not checked.
    has_prox = view.penalty.has_prox()
    step_size, decay = lagged.step_size, lagged.decay
    prediction = view.offsets[i] if view.has_offsets else 0.0
    for k in range(start, stop):
        j: Any = np.uint64(rows.column(i, k))
        lag = now - lagged.done[j]
        if has_prox or lag >= lagged.powers.size:
            w[j] = lagged_updates.lagged_steps(view, lagged, j, w[j], step_size * mean_gradient[j], lag)
        else:  # a lag of 0 is not worth a branch: it is the identity
            w[j] = lagged.powers[np.uint64(lag)] * w[j] - step_size * mean_gradient[j] * lagged.sums[np.uint64(lag)]
        prediction += rows.entry(i, k) * w[j]
    for last in range(view.n_penalised, w.size):
        prediction += w[last]
    weight = view.equal_weight if view.equal_weight > 0.0 else view.weights[i]
    slope = view.loss.d1(prediction, view.targets[i]) if weight > 0.0 else 0.0
    rise = rule.scale * weight * (slope - slopes[i])
    if rule.records():
        slopes[i] = slope
    for k in range(start, stop):
        j = np.uint64(rows.column(i, k))
        difference = rise * rows.entry(i, k)
        w[j] = decay * w[j] - step_size * (mean_gradient[j] + rule.innovation * difference)
        if has_prox:
            w[j] = view.penalty.prox_of(w[j], step_size, j)
        if rule.records():
            mean_gradient[j] += difference
        lagged.done[j] = now + 1
    for last in range(view.n_penalised, w.size):
        change[last] = rise
    return np.isfinite(slope)  # type: ignore[no-any-return]


def exceeds_its_bound(view: View, table: GradientTable, component: int, w: Vector, change: Vector) -> bool:
    """Return whether a gradient changed faster than its bound allows, which is raised then; the last point is kept."""
    if table.bounds.size == 0:
        return False
    found = curvature_between(view.n_components * change, w - table.anchors[component], w)
    table.anchors[component] = w
    if not found > table.bounds[component]:
        return False
    table.bounds[component] = found
    return True


@compiled_form(of=exceeds_its_bound)
def _never(view: View, table: GradientTable, component: int, w: Vector, change: Vector) -> bool:
    return False


@kernel_part
def _visit_component(
    view: View,
    lagged: LaggedSteps,
    component: int,
    now: int,
    w: Vector,
    table: GradientTable,
    change: Vector,
    rule: TableRule,
) -> bool:
    mean_gradient = table.mean_gradient
    sparse = view.rows.is_sparse()
    if sparse:
        lagged_updates.catch_up(view, lagged, component, now, w, mean_gradient)
    finite = add_gradient_change(view, component, w, table.slopes, rule.scale, rule.records(), change)
    exceeds = exceeds_its_bound(view, table, component, w, change)
    if sparse:
        _step_touched(view, lagged, component, now, w, mean_gradient, change, rule)
        _step_intercept(view, lagged, w, mean_gradient, change, rule)
    else:
        _step_all(view, lagged, w, mean_gradient, change, rule)
    return finite and not exceeds


@kernel_part
def _visit_all(
    view: View, order: Indices, w: Vector, table: GradientTable, change: Vector, lagged: LaggedSteps, rule: TableRule
) -> int:
    one_sparse_row = view.rows.is_sparse() and view.batch_size == 1
    now = 0
    for component in order:
        if one_sparse_row:
            goes_on = _visit_sparse_row(view, lagged, component, now, w, table, change, rule)
            _step_intercept(view, lagged, w, table.mean_gradient, change, rule)
        else:
            goes_on = _visit_component(view, lagged, component, now, w, table, change, rule)
        now += 1
        if not goes_on:
            break
    lagged_updates.catch_up_all(view, lagged, now, w, table.mean_gradient)
    return now


@kernel
def table_visits(view: View, order: Indices, w: Vector, table: GradientTable, step_size: float, rule: TableRule) -> int:
    """Visit the components of `order`, in place; return how many were visited.

    That is fewer than asked for after a divergence, and where a component's smoothness was found to exceed its bound.
    """
    sparse = view.rows.is_sparse()
    n_tabulated = min(order.size, lagged_updates.TABLE_SIZE) if sparse else 0
    done = np.zeros(view.n_penalised if sparse else 0, dtype=np.int64)
    decay = 1.0 - step_size * view.penalty.ridge()
    lagged = LaggedSteps(step_size, decay, np.empty(n_tabulated + 1), np.empty(n_tabulated + 1), done)
    lagged_updates.tabulate(lagged)
    # A part of its own: in this function every use of `lagged` would count references, 70 ns a visit.
    return _visit_all(view, order, w, table, np.zeros(w.size), lagged, rule)
