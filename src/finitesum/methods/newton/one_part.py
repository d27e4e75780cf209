"""Newton-CG on one part of the data: what a run on parts elsewhere begins with.

A step on a small sample takes as many messages as one on all rows, and most workers would wait. So the worker that has the
largest part takes all steps on samples of that part, and on the whole of it, without a message.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import without_stand_ins
from finitesum.core.sums import fetched
from finitesum.core.threads import limited_blas
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.newton.subsampling import FIRST_ROWS, GROWTH
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import RowNumbers, ask, is_parted
from finitesum.problems.survey import bind


class OnPart(NamedTuple):
    """What is found on the rows of a part, with an l2 penalty that is stronger by as much as they are fewer."""

    w: Vector  # where F is minimal, to the accuracy of a sample's steps
    first: float  # F at the start
    first_optimality: float  # there, on the first sample
    n_read: int  # rows that were read, each time counted


def is_worth_it(problem: Problem) -> bool:
    """Return whether a run begins on one part: of several elsewhere, with room for a sample, of a smooth F."""
    if not (is_parted(problem) and problem.rows.is_elsewhere and problem.is_smooth and len(problem.rows.parts) > 1):
        return False
    return bool(max(part.stop - part.start for part in problem.rows.parts) >= GROWTH * FIRST_ROWS)


def minimised_on_largest(method: Any, problem: Problem, start: Vector) -> tuple[OnPart, int]:
    """Return what steps of a method find on the rows of the largest part, and how many these are."""
    sizes = [part.stop - part.start for part in problem.rows.parts]
    k = int(np.argmax(sizes))
    with limited_blas(1):
        found = fetched(problem.rows.engine, ask(_minimised, _alone(problem, k), method, start))[0]
    return found, sizes[k]


def _alone(problem: Problem, k: int) -> Problem:
    """Return a part as a problem, whose rows have the weights that they have in the whole."""
    part, numbers = problem.rows.parts[k], dict[str, Any]()
    n = part.stop - part.start
    for name in ("targets", "weights", "offsets"):
        given = getattr(problem, name)
        is_beside = isinstance(given, RowNumbers)
        numbers[name] = RowNumbers(name, (n, *given.shape[1:])) if is_beside else given[part.start : part.stop]
    rows: Any = problem.rows.only(k, slice(0, n), 1.0)
    own: dict[str, Any] = {"rows": rows, "batch_size": None, **numbers}
    return bind(replace(problem, **own))


def _minimised(part: Problem, method: Any, start: Vector) -> OnPart:
    size = method.default_batch_size(part)
    part = part.batched(size)
    state, order = method.init(part, start), np.random.default_rng(0).permutation(part.n_components)
    with without_stand_ins():
        while not method.is_minimised(part, state):
            state = method.run_pass(part, state, order)
    weight = float(part.weights.sum()) or 1.0
    first = evaluate(part, start).objective / weight
    return OnPart(state.x, first, state.first_optimality, (state.n_gradients + part.n_components) * size)
