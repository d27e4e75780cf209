"""Constant steps, and what the paper [1] of `ciag` does for a start that its theory likes: a warm start by SAG, restarts.

**Constant steps.** Theory allows 2 / (mu + L) without extrapolation [1, Theorem 1] and 1 / (2 L) with [1, Theorem 2].

**Warm start.** The step that theory allows grows as the start comes closer to the optimum. The slopes in memory are SAG's
table, so SAG can run while the memory fills: the components visited join b and H as ever, and the step is

    w <- prox(w - (sum_i p_i slope_i x_i + l2 w) / L_max)        over the rows visited up to now.

No visit is lost, and no product with H is needed.

**Restarts.** [1, section 4] begins with a short step and restarts from the iterate reached with a longer one, up to the
step of the asymptotic rate; the schedule is left open there. Here R decides, see `finitesum.methods.curvature.trust`: it
falls with the distance to the optimum as the error bound of the theory does. Where it stayed below 1/2 since the last
restart, the step is doubled; where it went above 0.9, halved. The memory is kept: old Taylor models stay valid wherever the
iterate goes.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.core.vectors import add_products, copy
from finitesum.evaluation.smoothness import momentum_limit
from finitesum.methods.constants import Constant, smoothness_at, strong_convexity
from finitesum.methods.curvature.taylor_model import OpenModel, TaylorModel, finish_visits, opened, visit
from finitesum.methods.curvature.trust import DISTRUSTED, TRUSTED
from finitesum.methods.visits import AnySum, descend
from finitesum.problems.view import View, first_row, last_row


class Schedule(NamedTuple):
    """Step size and extrapolation of the next visits, where they are not automatic, and what finding them has cost."""

    step_size: float  # NaN where it is automatic
    longest_step: float  # that restarts may lead to
    extrapolation: float
    largest_ratio: float  # the largest R since the last restart, NaN before it is known
    warm_step: float  # of a warm start by SAG, NaN without one
    n_gradients: int
    n_hessians: int


def new_schedule(
    problem: AnySum, w0: Vector, step_size: float | str, extrapolation: float | str, *, restarts: bool, by_sag: bool
) -> Schedule:
    """Return the schedule before the first visit, from w0, where functions of unknown smoothness are evaluated."""
    step = longest = factor = warm_step = math.nan
    n_gradients = n_hessians = 0
    if step_size == "theory" or restarts:
        smoothness, _, n_gradients, n_hessians = smoothness_at(problem, w0, Constant.MEAN)
        longest = 2.0 / (strong_convexity(problem) + smoothness) if extrapolation == 0.0 else 0.5 / smoothness
    if step_size != "auto":
        step = longest if step_size == "theory" else float(step_size)
        factor = _extrapolation(problem, extrapolation, step)
        longest = max(step, longest) if longest > 0.0 else step
    if by_sag:
        smoothness, _, more_gradients, more_hessians = smoothness_at(problem, w0, Constant.LARGEST)
        warm_step, n_gradients, n_hessians = 1.0 / smoothness, n_gradients + more_gradients, n_hessians + more_hessians
    return Schedule(step, longest, factor, math.nan, warm_step, n_gradients, n_hessians)


def _extrapolation(problem: AnySum, asked: float | str, step_size: float) -> float:
    """Return the extrapolation that was asked for: "auto" is (1 - sqrt(mu step)) / (1 + sqrt(mu step)) [1, eq. 31]."""
    return momentum_limit(strong_convexity(problem), step_size) if asked == "auto" else float(asked)


def restarted(problem: AnySum, schedule: Schedule, extrapolation: float | str) -> Schedule:
    """Return the schedule after a restart."""
    step_size = next_step(schedule.step_size, schedule.largest_ratio, schedule.longest_step)
    factor = _extrapolation(problem, extrapolation, step_size)
    return schedule._replace(step_size=step_size, extrapolation=factor, largest_ratio=math.nan)


def next_step(step_size: float, ratio: float, longest: float) -> float:
    """Return the step after a restart, given the largest R before it: longer up to a limit, shorter, or the same.

    Examples
    --------
    >>> next_step(0.1, 0.3, 1.0), next_step(0.1, 0.7, 1.0), next_step(0.1, 2.0, 1.0), next_step(0.8, 0.3, 1.0)
    (0.2, 0.1, 0.05, 1.0)
    """
    if ratio < TRUSTED:  # not where it is NaN: nothing was compared
        return max(step_size, min(2.0 * step_size, longest))
    return 0.5 * step_size if ratio > DISTRUSTED else step_size


@kernel_part
def _add_slopes(view: View, model: OpenModel, component: int, sign: float, gradient: Vector) -> None:
    """Add sign sum_i p_i slope_i x_i over a component's rows to a gradient."""
    if model.visited[component]:
        for i in range(first_row(view, component), last_row(view, component)):
            view.rows.add_to(i, sign * view.weights[i] * model.slopes[i], gradient)


@kernel
def _sag_visits(view: View, order: Indices, w: Vector, model: OpenModel, quadratic: Vector, step_size: float) -> int:
    y, gradient, direction = np.zeros(model.hessian.shape[1]), np.zeros(w.size), np.zeros(w.size)
    for component in range(view.n_components):
        _add_slopes(view, model, component, 1.0, gradient)
    n_visits = 0
    for component in order:
        _add_slopes(view, model, component, -1.0, gradient)
        copy(w, y)
        finite = visit(view, model, component, y)
        _add_slopes(view, model, component, 1.0, gradient)
        copy(gradient, direction)
        add_products(quadratic, w, direction)
        descend(view, w, direction, step_size)
        n_visits += 1
        if not finite:
            break
    finish_visits(model)
    return n_visits


def warm_start_visits(problem: AnySum, order: Indices, w: Vector, model: TaylorModel, step_size: float) -> int:
    """Take SAG's steps while the memory fills, in place; return how many visits were made."""
    return int(_sag_visits(problem.view, order, w, opened(model), problem.term.quadratic, step_size))
