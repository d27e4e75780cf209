"""Collections that are fitted in this process: those whose rows are fewer bytes than what a fit would send.

A pass over parts elsewhere waits for a message, and moves a point to each part and a gradient back, 16 bytes for each
variable and part. A fit takes tens of passes. Where rows are few, or the variables as many as their entries (as with
several classes of text), all rows take less time to bring here than some of the passes do, and the fit is that in memory.
What is done depends on the data alone, so that a checkpoint is gone on from on any cluster.
"""

from typing import Any

import numpy as np
import scipy.sparse

from finitesum.core.sums import fetched
from finitesum.dask.workers import BANDWIDTH
from finitesum.problems.input import stored_well
from finitesum.problems.linear import Problem
from finitesum.problems.parts import PartData
from finitesum.problems.rows import to_matrix

#: Passes that a fit takes at least, and the seconds of a message there and back, as measured on one machine.
PASSES, LATENCY = 10.0, 0.01

#: Bytes of rows that this process has room for, as has any that works with a cluster.
MOST_BYTES = 1 << 29


def is_worth_bringing(problem: Problem) -> bool:
    """Return whether all rows of a problem in parts are fewer bytes than some passes send."""
    rows = problem.rows
    of_an_entry = rows.values.itemsize + (4 if rows.is_sparse() else 0)
    n_bytes = rows.values.size * of_an_entry + 8 * rows.n_rows
    of_a_pass = LATENCY * BANDWIDTH + 16.0 * problem.dim * len(rows.parts)
    return bool(n_bytes <= min(PASSES * of_a_pass, MOST_BYTES))


def brought_here(problem: Problem, **settings: Any) -> Problem:
    """Return a problem in parts as one in memory, of the same rows and settings."""
    engine = problem.rows.engine
    futures = [engine.submit(_as_given, part.handle) for part in problem.rows.parts]
    X, *vectors = zip(*[fetched(engine, future) for future in futures], strict=True)
    y, weight, offset = (None if one[0] is None else np.concatenate(one) for one in vectors)
    rows = scipy.sparse.vstack(X, format="csr") if scipy.sparse.issparse(X[0]) else np.concatenate(X)
    return Problem.linear(stored_well(rows), y, sample_weight=weight, offset=offset, **settings)


def _as_given(data: PartData) -> tuple[Any, Any, Any, Any]:
    """Return a part's rows, labels or targets, weights and offsets."""
    targets = data.targets if data.labels is None else np.asarray(data.labels)[data.targets]
    return to_matrix(data.rows), targets, data.weights, data.offsets
