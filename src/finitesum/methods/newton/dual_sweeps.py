"""Visits of the dual variables of a loss with corners: see `finitesum.methods.newton.dual_ascent`."""

from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.methods.newton.sdca import shuffle


@kernel_part
def _visit(view: Any, i: int, w: Vector, slopes: Vector, terms: Any, resting: float) -> float:
    """Visit a row; return the violation met, or -1 where the row is to rest."""
    couplings, ridge, hold = terms
    weight, slope = view.weights[i], slopes[i]
    prediction = view.rows.dot(i, w) + view.offsets[i]
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
    violation: float = max(first - prediction, prediction - last)
    if violation <= 0.0:
        return -1.0 if -violation > resting else 0.0
    coupling = weight * couplings[i]
    goal = prediction + coupling * slope
    new = min(max((goal - point) / coupling, low), high) + min(max((goal - other_point) / coupling, other_low), other_high)
    change = weight * (new - slope)
    if change != 0.0:
        slopes[i], last_one = new, w[-1]
        view.rows.add_to(i, -change / ridge, w)
        if view.rows.intercept:  # it is held by another strength
            w[-1] = last_one - change / hold
    return violation


@kernel
def sweep(
    view: Any, draws: Vector, w: Vector, slopes: Vector, rows: tuple[Indices, Indices, int], terms: Any, limits: Any
) -> tuple[int, float, int, int]:
    """Sweep over the active rows until all rows' number of visits is made, or no violation is above the accuracy.

    Groups of rows that follow each other are visited in an order that the draws give, one for each group or more.
    Return how many rows are still active (the first ones), the largest violation of the last sweep, the sweeps and visits.
    """
    active, order, n_together = rows
    resting, accuracy = limits
    n_active, n_sweeps, n_visits, n = active.size, 0, 0, view.rows.n_rows
    violation = resting
    while n_active > 0 and n_visits < n and not (n_sweeps > 0 and violation <= accuracy):
        n_groups, violation = (n_active + n_together - 1) // n_together, 0.0
        shuffle(order, n_groups, draws, n_visits)
        for k in range(n_groups):
            for place in range(order[k] * n_together, min((order[k] + 1) * n_together, n_active)):
                found = _visit(view, active[place], w, slopes, terms, resting)
                if found < 0.0:
                    active[place] = -1 - active[place]
                violation = max(violation, found)
        n_visits, n_sweeps, n_kept = n_visits + n_active, n_sweeps + 1, 0
        for place in range(n_active):
            if active[place] >= 0:
                active[n_kept] = active[place]
                n_kept += 1
        n_active, resting = n_kept, violation if violation > 0.0 else np.inf
    return n_active, violation, n_sweeps, n_visits
