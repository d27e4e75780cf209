"""Losses with corners as hinge losses of more rows, for the method that knows the hinge.

With corners k_1 and k_2 of a row, and slopes low <= 0 <= high beside them, the loss is a sum of hinges::

    max(low (u - k), high (u - k)) = -low max(0, k - u) + high max(0, u - k)

A hinge max(0, 1 - y (x'w + b + o)) with y = 1 and o = 1 - k is the first, with y = -1 and o = -1 - k the second. So a row
has two, and F is the same function of the same (w, b).
"""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from finitesum.losses import Hinge
from finitesum.problems.linear import Problem, remembered
from finitesum.problems.partitioned import PartedRows
from finitesum.problems.rows import some_rows


def _repeated(rows: Any, times: int) -> Any:
    """Return rows some times over, one behind the other; of parts each again behind the last one, with the same data."""
    if not isinstance(rows, PartedRows):
        return some_rows(rows, np.tile(np.arange(rows.n_rows), times))
    repeated, n = copy(rows), rows.n_rows
    shifted = ((part, k * n) for k in range(times) for part in rows.parts)
    repeated.parts = tuple(part._replace(start=part.start + by, stop=part.stop + by) for part, by in shifted)
    repeated.values = rows.values._replace(size=times * rows.values.size)
    repeated.n_rows, repeated.square = times * n, times * rows.square
    repeated.stored_squares = times * rows.stored_squares
    return repeated


@remembered
def hinge_form(problem: Problem) -> Problem:
    """Return the problem with a hinge loss on (w, b) that has the same F; itself where it has one."""
    loss: Any = problem.loss
    if isinstance(loss, Hinge):
        return problem
    parts = []
    for low, high, point in loss.corners(problem.targets):
        for slope, sign in ((-low, 1.0), (high, -1.0)):
            if np.any(slope):
                offsets = problem.offsets + sign - point
                parts.append((np.full(problem.n_rows, sign), offsets, problem.weights * slope))
    signs, offsets, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    total = float(weights.sum())
    return replace(
        problem,
        rows=_repeated(problem.rows, len(parts)),
        targets=signs,
        offsets=offsets,
        weights=weights / total,
        loss=Hinge(total),
        batch_size=None,
    )
