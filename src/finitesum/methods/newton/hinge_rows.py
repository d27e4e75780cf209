"""Losses with corners as hinge losses of more rows, for the method that knows the hinge.

With corners k_1 and k_2 of a row, and slopes low <= 0 <= high beside them, the loss is a sum of hinges::

    max(low (u - k), high (u - k)) = -low max(0, k - u) + high max(0, u - k)

A hinge max(0, 1 - y (x'w + b + o)) with y = 1 and o = 1 - k is the first, with y = -1 and o = -1 - k the second. So a row
has two, and F is the same function of the same (w, b).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from finitesum.losses import Hinge
from finitesum.problems.linear import Problem, remembered
from finitesum.problems.rows import some_rows


@remembered
def hinge_form(problem: Problem) -> Problem:
    """Return the problem with a hinge loss on (w, b) that has the same F; itself where it has one."""
    loss: Any = problem.loss
    if isinstance(loss, Hinge):
        return problem
    chosen, parts = [], []
    for low, high, point in loss.corners(problem.targets):
        for slope, sign in ((-low, 1.0), (high, -1.0)):
            if np.any(slope):
                chosen.append(np.arange(problem.n_rows))
                offsets = problem.offsets + sign - point
                parts.append((np.full(problem.n_rows, sign), offsets, problem.weights * slope))
    signs, offsets, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    total = float(weights.sum())
    return replace(
        problem,
        rows=some_rows(problem.rows, np.concatenate(chosen)),
        targets=signs,
        offsets=offsets,
        weights=weights / total,
        loss=Hinge(total),
        batch_size=None,
    )
