"""A guard against bad second-order models, for methods that jump to the model's minimiser.

When component j is visited at x its model predicted a slope at every row; with the true slope that gives, for free,

    delta = sum_i p_i (slope_i - predicted_i) z_i        the jump of the mean model's gradient at x
    pi    = sum_i p_i phi''_i (u_i - last u_i) z_i       the change that the model predicted

and R = ||E delta|| / ||E pi||, with running sums over a tenth of a pass, is the factor by which jumping to the minimiser
shrinks the gradient in a pass. R > 1 is Newton's overshooting. Then components take the curvature of the loss's quadratic
majorant instead of the second derivative, until R is small again: with majorants only, the mean model lies above F and
the jumps cannot diverge. Where the loss has no majorant, the length of a jump is limited instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import kernel_part
from finitesum.methods.curvature.taylor_model import Pending, Surrogate, move_anchor
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row

#: R below which the models are trusted, and above which they are not.
TRUSTED, DISTRUSTED = 0.5, 0.9


class Guard(NamedTuple):
    """What the guard remembers."""

    active: bool  # whether it acts on what it measures
    failure: Vector  # (d,)  E delta
    movement: Vector  # (d,)  E pi
    ratio: float  # R, NaN before it is known
    n_compared: int  # visits that R rests on
    majorised: bool  # whether visits take the majorant's curvature
    radius: float  # the longest jump, infinite where there is a majorant
    quiet_until: int  # the comparison before which the radius stays as it is
    trusted: float  # R below which second derivatives come back: halved each time that they failed


def no_guard(problem: Problem) -> Guard:
    """Return a guard that only measures: second derivatives always, jumps of any length."""
    return Guard(False, np.zeros(problem.dim), np.zeros(problem.dim), math.nan, 0, False, math.inf, 0, TRUSTED)


def new_guard(problem: Problem, x0: Vector) -> Guard:
    """Return the guard before the first visit."""
    has_majorant = math.isfinite(problem.loss.majorant(0.0, 1.0))
    reach = 10.0 * max(1.0, float(np.linalg.norm(x0))) / problem.n_components
    radius = math.inf if has_majorant else reach
    return no_guard(problem)._replace(active=True, majorised=has_majorant, radius=radius)


def copy_guard(guard: Guard) -> Guard:
    """Return a copy whose arrays may be written to."""
    return guard._replace(failure=guard.failure.copy(), movement=guard.movement.copy())


@kernel_part
def comparison_window(n_components: int) -> float:
    """Return h, the visits that the running sums look back on: a tenth of a pass."""
    return max(0.1 * n_components, 1.0)


@kernel_part
def guarded_visit(
    linear_sum: LinearSum,
    surrogate: Surrogate,
    pending: Pending,
    component: int,
    x: Vector,
    failure: Vector,
    movement: Vector,
    majorised: bool,
) -> bool:
    """Move a component's anchor to x, add delta and pi to the running sums; return whether all is finite."""
    rows, loss = linear_sum.rows, linear_sum.loss
    seen = surrogate.visited[component]
    if seen:
        keep = 1.0 - 1.0 / comparison_window(linear_sum.n_components)
        for j in range(failure.size):
            failure[j] *= keep
            movement[j] *= keep
    finite = True
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        target, offset, weight = linear_sum.targets[i], linear_sum.offsets[i], linear_sum.weights[i]
        if weight == 0.0:
            continue  # it counts for nothing, and an overflow there would count
        margin = rows.dot(i, x)
        slope, curvature = loss.d1_d2(margin + offset, target)
        finite = finite and np.isfinite(slope) and np.isfinite(curvature)
        if seen:
            predicted = loss.d2(surrogate.margins[i] + offset, target) * (margin - surrogate.margins[i])
            rows.add_to(i, weight * (slope - surrogate.slopes[i] - predicted), failure)
            rows.add_to(i, weight * predicted, movement)
        if majorised:
            curvature = loss.majorant(margin + offset, target)
        move_anchor(linear_sum, surrogate, pending, i, margin, slope, curvature)
    surrogate.visited[component] = True
    return finite


@kernel_part
def _norm(vector: Vector) -> float:
    total = 0.0
    for j in range(vector.size):
        total += vector[j] * vector[j]
    return np.sqrt(total)  # type: ignore[no-any-return]


@kernel_part
def judged(guard: Guard, n_components: int, was_seen: bool) -> tuple[float, int, bool, float, int, float]:
    """Return what follows the arrays in the guard after a visit; only components that were seen before can be compared."""
    n_compared = guard.n_compared + (1 if was_seen else 0)
    scale = _norm(guard.movement)
    ratio, majorised, radius, quiet_until = guard.ratio, guard.majorised, guard.radius, guard.quiet_until
    trusted = guard.trusted
    if was_seen and n_compared >= 3 and scale > 1e-15:
        ratio = _norm(guard.failure) / scale
        limited = radius < np.inf
        if not guard.active:
            pass
        elif ratio < trusted:
            majorised = False
            if limited and n_compared >= quiet_until:
                radius *= 4.0
                quiet_until = n_compared + max(n_components // 4, 1)
        elif ratio > DISTRUSTED:
            if not limited and not majorised:
                majorised = True
                trusted *= 0.5
            if limited and n_compared >= quiet_until:
                radius *= max(0.05, 0.45 / ratio)
                quiet_until = n_compared + n_components
    return ratio, n_compared, majorised, radius, quiet_until, trusted


def error_estimate(problem: Problem, guard: Guard) -> float:
    """Return (m / h) ||E delta||, an estimate of the model gradient's error at the last iterate."""
    window = comparison_window(problem.n_components)
    return float(problem.n_components / window * np.linalg.norm(guard.failure))
