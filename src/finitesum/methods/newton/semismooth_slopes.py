"""Slopes of losses with corners that are rounded about a centre: see `finitesum.methods.newton.semismooth_newton`."""

from typing import Any

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import array_form, kernel, kernel_part
from finitesum.problems.rows import EVERY
from finitesum.problems.view import n_numbers


@kernel_part
def _slope(loss: Any, target: float, goal: float, width: float) -> tuple[float, float]:
    """Return s(u) for goal = u + h c, and how far it is from being within, in units of slopes: 0 there."""
    (low, high, point), (other_low, other_high, other_point) = loss.corners(target)
    one, two = (goal - point) / width, (goal - other_point) / width
    beyond = max(low - one, one - high)
    if other_low < other_high:
        beyond = min(beyond, max(other_low - two, two - other_high))
    return min(max(one, low), high) + min(max(two, other_low), other_high), max(beyond, 0.0)


@kernel
def find_slopes(view: Any, u: Vector, centre: Vector, width: float, slopes: Vector, beyond: Vector) -> float:
    """Write the slopes of all rows, and how far they are from being within; return the mean loss."""
    total = 0.0
    for i in range(view.rows.n_rows):
        slopes[i], beyond[i] = _slope(view.loss, view.targets[i], u[i] + width * centre[i], width)
        if view.weights[i] > 0.0:
            total += view.weights[i] * view.loss.value(u[i], view.targets[i])
    return total


@kernel
def slope_along(view: Any, u: Vector, change: Vector, centre: Vector, width: float, t: float) -> tuple[float, float]:
    """Return the slope and the curvature in t of the smoothed losses at u + t change."""
    slope, curvature = 0.0, 0.0
    for i in range(view.rows.n_rows):
        weighted = view.weights[i] * change[i]
        if weighted != 0.0:
            found, beyond = _slope(view.loss, view.targets[i], u[i] + t * change[i] + width * centre[i], width)
            slope += weighted * found
            if beyond == 0.0:
                curvature += weighted * change[i] / width
    return slope, curvature


def _slopes_in_arrays(loss: Any, targets: Vector, goals: Vector, width: float) -> tuple[Vector, Vector]:
    """Return what `_slope` does for many rows."""
    (low, high, point), (other_low, other_high, other_point) = loss.corners(targets)
    one = (goals - point) / width
    slopes, beyond = np.minimum(np.maximum(one, low), high), np.maximum(low - one, one - high)
    if other_low < other_high:
        two = (goals - other_point) / width
        beyond = np.minimum(beyond, np.maximum(other_low - two, two - other_high))
        slopes += np.minimum(np.maximum(two, other_low), other_high)
    return slopes, np.maximum(beyond, 0.0)


@array_form(find_slopes, n_numbers)
def _find_in_arrays(view: Any, u: Vector, centre: Vector, width: float, slopes: Vector, beyond: Vector) -> float:
    slopes[:], beyond[:] = _slopes_in_arrays(view.loss, view.targets, u + width * centre, width)
    used = EVERY if view.equal_weight > 0.0 else view.weights > 0.0
    return float(view.weights[used] @ view.loss.value(u[used], view.targets[used]))


@array_form(slope_along, n_numbers)
def _along_in_arrays(view: Any, u: Vector, change: Vector, centre: Vector, width: float, t: float) -> tuple[float, float]:
    weighted = view.weights * change
    slopes, beyond = _slopes_in_arrays(view.loss, view.targets, u + t * change + width * centre, width)
    return float(weighted @ slopes), float((weighted * change)[beyond == 0.0].sum()) / width
