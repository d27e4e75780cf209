"""Some rows of a problem as a problem: what steps on these alone read."""

from dataclasses import replace

from finitesum.core.arrays import Indices
from finitesum.problems.linear import Problem
from finitesum.problems.rows import some_rows


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
