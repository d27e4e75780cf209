"""What a run in the columns that have entries found, in all columns, and back."""

from copy import copy
from typing import Any

from finitesum.problems.used_columns import UsedColumns
from finitesum.running.results import Result


def with_all_columns(found: Any, used: UsedColumns) -> Any:
    """Return a result, or what a callback is given, with 0 for the columns without entries; its state stays as it is."""
    found = copy(found)
    for name in ("x", "jac"):
        if name in found:
            found[name] = used.outward(found[name])
    return found


def within_used(earlier: Result, used: UsedColumns) -> Result | None:
    """Return the result of an earlier run as it was in the used columns; None where the run was in all."""
    is_within = earlier.x.size == used.dim and earlier.state.x.size == used.problem.dim
    if not is_within or (x := used.inward(earlier.x)) is None:
        return None
    earlier = copy(earlier)
    earlier.x = x
    return earlier
