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
    """Return the result of an earlier run as it was in the used columns; None where its state has all."""
    if earlier.x.size != used.dim or earlier.state.x.size != used.problem.dim:
        return None
    earlier = copy(earlier)
    earlier.x = used.inward(earlier.x)
    return earlier
