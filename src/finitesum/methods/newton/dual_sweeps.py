"""Visits of the dual variables of a loss with corners: see `finitesum.methods.newton.dual_ascent`."""

from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part


@kernel_part
def shuffle(order: Indices, n: int, draws: Vector, first: int) -> None:
    """Write the numbers below n in an order that the draws, from the first on, give."""
    for k in range(n):
        order[k] = k
    place = (first + n - 1) % draws.size  # that of draw first + k
    for k in range(n - 1, 0, -1):
        other = int(draws[place] * (k + 1))
        order[k], order[other] = order[other], order[k]
        place = place - 1 if place > 0 else draws.size - 1


@kernel_part
def _violation(view: Any, i: int, slope: float, prediction: float) -> float:
    """Return the distance of a prediction from where the loss has this slope; below 0 how far within that it is."""
    (low, high, point), (other_low, other_high, other_point) = view.loss.corners(view.targets[i])
    first, last = -np.inf, np.inf  # where the loss has this slope
    if slope > low:
        first = point
    if slope < high:
        last = point
    if other_low < other_high:
        if slope > other_low and other_point > first:
            first = other_point
        if slope < other_high and other_point < last:
            last = other_point
    unrounded = prediction - view.loss.corner_width() * slope
    violation: float = max(first - unrounded, unrounded - last)
    return violation


@kernel_part
def _excess(corner: Any, slope: float, prediction: float) -> float:
    """Return by how much the loss of a corner is above its tangent with the part of a slope that it has."""
    low, high, point = corner
    part = min(max(slope, low), high)
    excess: float = max((high - part) * (prediction - point), (low - part) * (prediction - point))
    return excess


@kernel_part
def _visit(view: Any, i: int, w: Vector, slopes: Vector, terms: Any, resting: float) -> tuple[float, float]:
    """Visit a row; return the violation met, or -1 where the row is to rest, and its part of the gap (rounded: 0)."""
    couplings, ridge, hold = terms
    weight, slope, width = view.weights[i], slopes[i], view.loss.corner_width()
    prediction = view.rows.dot(i, w) + view.offsets[i]
    first, other = view.loss.corners(view.targets[i])
    (low, high, point), (other_low, other_high, other_point) = first, other
    violation = _violation(view, i, slope, prediction)
    if violation <= 0.0:
        return (-1.0 if -violation > resting else 0.0), 0.0
    gap = 0.0 if width > 0.0 else weight * (_excess(first, slope, prediction) + _excess(other, slope, prediction))
    coupling = weight * couplings[i]
    goal = prediction + coupling * slope
    total = coupling + width
    new = min(max((goal - point) / total, low), high) + min(max((goal - other_point) / total, other_low), other_high)
    change = weight * (new - slope)
    if change != 0.0:
        slopes[i], last_one = new, w[-1]
        view.rows.add_to(i, -change / ridge, w)
        if view.rows.intercept:  # it is held by another strength
            w[-1] = last_one - change / hold
    return violation, gap


@kernel
def find_active(view: Any, predictions: Vector, slopes: Vector, active: Indices) -> tuple[int, float]:
    """Write the rows whose slopes are not within an interval by more than any violates, increasing.

    Return how many there are and the largest violation, at the predictions with their offsets.
    """
    largest, size, violations = 0.0, 0, np.empty(predictions.size)
    for i in range(predictions.size):
        if view.weights[i] > 0.0:
            violations[i] = _violation(view, i, slopes[i], predictions[i])
            largest = max(largest, violations[i])
    for i in range(predictions.size):
        if view.weights[i] > 0.0 and violations[i] >= -largest:
            active[size] = i
            size += 1
    return size, largest


@kernel_part
def _intercept_shifted(view: Any, w: Vector, slopes: Vector, hold: float) -> float:
    """Let b_0 become b; return by how much b changes."""
    if not view.rows.intercept:
        return 0.0
    total = 0.0
    for i in range(view.rows.n_rows):
        total += view.weights[i] * slopes[i]
    w[-1] -= total / hold
    return -total / hold


@kernel
def sweep(
    view: Any, draws: Vector, w: Vector, slopes: Vector, rows: tuple[Indices, Indices, int], terms: Any, limits: Any
) -> tuple[int, float, bool, int, int]:
    """Sweep over the active rows until as many sweeps or visits as the limits say are made, or all is accurate.

    It is accurate where no violation is above the accuracy, or none above the loose one and the sum of the parts of the gap
    that visits met not above another limit. Groups of rows that follow each other are visited in an order that the draws
    give, one for each group or more. An intercept's b_0 becomes b before every n visits. Return how many rows are still
    active (the first ones), the largest violation of the last sweep, whether it and the intercept are accurate, the sweeps
    and the visits.
    """
    active, order, n_together = rows
    violation, (accuracy, loose, small), most_sweeps, (least_visits, most_visits) = limits
    n_active, n_sweeps, n_visits, n = active.size, 0, 0, view.rows.n_rows
    resting, is_accurate, is_met, goes_on = violation, False, False, True
    while goes_on:
        shift = _intercept_shifted(view, w, slopes, terms[2])
        last, is_met = n_visits + n, False
        while n_active > 0 and n_visits < last and not is_met and (n_sweeps < most_sweeps or n_visits < least_visits):
            n_groups, violation, gap = (n_active + n_together - 1) // n_together, 0.0, 0.0
            shuffle(order, n_groups, draws, n_visits)
            for k in range(n_groups):
                for place in range(order[k] * n_together, min((order[k] + 1) * n_together, n_active)):
                    found, part = _visit(view, active[place], w, slopes, terms, resting)
                    if found < 0.0:
                        active[place] = -1 - active[place]
                    violation, gap = max(violation, found), gap + part
            n_visits, n_sweeps, n_kept = n_visits + n_active, n_sweeps + 1, 0
            for place in range(n_active):
                if active[place] >= 0:
                    active[n_kept] = active[place]
                    n_kept += 1
            n_active, resting = n_kept, violation if violation > 0.0 else np.inf
            is_met = violation <= accuracy or (violation <= loose and gap <= small)
        is_accurate = (is_met or violation <= accuracy) and abs(shift) <= accuracy
        goes_on = n_active > 0 and not is_accurate and n_sweeps < most_sweeps and n_visits < most_visits
    return n_active, violation, is_accurate, n_sweeps, n_visits
