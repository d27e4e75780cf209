"""Some rows of a problem as a problem, and rows without their entries: what steps on these alone read."""

from dataclasses import replace
from typing import Any

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.problems.linear import Problem, remembered
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import DenseRows, some_rows


def with_rows(problem: Problem, chosen: Indices) -> Problem:
    """Return the same problem with some rows alone, copied in increasing order, whose weights stay what they are.

    The last one that was made is kept for the same array of rows.
    """
    known = problem.derived.get("with_rows")
    if known is None or known[0] is not chosen:
        part = replace(
            problem,
            rows=some_rows(problem.rows, chosen),
            targets=problem.targets[chosen],
            offsets=problem.offsets[chosen],
            weights=problem.weights[chosen],
            batch_size=1,
        )
        problem.derived["with_rows"] = known = (chosen, part)
    found: Problem = known[1]
    return found


@remembered
def view_without_entries(problem: Problem) -> Any:
    """Return a view of targets and weights by row, brought together from rows in parts; entries only of rows in memory."""
    if not is_parted(problem):
        return problem.view_of_rows
    targets, weights, offsets = map(np.asarray, (problem.targets, problem.weights, problem.offsets))
    rows = DenseRows(np.zeros((problem.n_rows, 0)), problem.n_rows, 0, 0)
    return replace(problem, rows=rows, targets=targets, weights=weights, offsets=offsets).view_of_rows
