"""Synchronous or asynchronous rounds over parts of the data: what `method="auto"` decides by the times that it measured.

A method of sums waits in each round for the last of m parts. At the rate at which the first three quarters came, by t, all
would have come by (4/3) t; `lateness` is how many times later the last one came when parts were first read. Without a
barrier, A-CIAG waits for nobody, takes about as many passes, and in every other one a Hessian of each part. Which one is
likely to take less time decides.

A run that waits changes later, where each of its last rounds shows a part to be late, by the same measure and for the
rounds that are likely to be left.
"""

import math
from typing import Any

from finitesum.methods import as_method
from finitesum.methods.base import Choice, is_suited
from finitesum.methods.cost_model import costs_of
from finitesum.problems.arrivals import LEAST_SECONDS, N_ROUNDS
from finitesum.problems.linear import Problem

#: The fraction of the parts whose rate says when all would have come.
EARLY = 0.75

#: Parts of a worker from which their rate is seen. The last part must be late by `LEAST_SECONDS`, for less is noise.
PARTS_OF_WORKER = 2

#: Rounds of the methods that wait, and passes and Hessians of A-CIAG, on sets of the LIBSVM collection in 32 parts; the
#: fraction of the time that must be saved, because asynchronous rounds have other bits each time.
ROUNDS, PASSES, HESSIANS, LEAST_GAIN = 10.0, 10.0, 5.0, 0.1

#: Columns up to which changes of Hessians are sent: a part's message has as many numbers as their square.
MOST_COLUMNS = 500


def lateness(seconds: Any, n_workers: int) -> float:
    """Return how many times later the last part came than at the rate of the first ones, 1 where it is not known.

    Parameters
    ----------
    seconds : sequence of m floats
        When each part came, increasing.
    n_workers : int >= 1

    Examples
    --------
    >>> lateness([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0], 2), lateness([1.0, 2.0, 3.0, 10.0], 2)
    (1.0, 2.5)
    """
    m, early = len(seconds), math.ceil(EARLY * len(seconds))
    if n_workers < 2 or m < PARTS_OF_WORKER * n_workers:
        return 1.0
    expected = seconds[early - 1] * m / early
    return float(seconds[-1] / expected) if seconds[-1] - expected >= LEAST_SECONDS else 1.0


def with_or_without_barrier(problem: Problem, choice: Choice, begun: str = "") -> Choice:
    """Return a choice of a method of sums over parts, or A-CIAG in its place, with a remark on which of the two it is.

    A run that was `begun` with the one or the other goes on with it.
    """
    late = lateness(problem.rows.arrivals, int(getattr(problem.rows.engine, "n_workers", 1)))
    seen = f"when parts were first read, the last one came {late:.2g} times as late as at the rate of the others"
    if late == 1.0:
        seen = "when parts were first read, none came much later than the others"
    asynchronous = without_barrier()
    why = _why_not(problem, late, asynchronous) or ("so the run was begun" if begun else "")
    if begun == asynchronous.name or (late > 1.0 and not why):
        return Choice(asynchronous, f"asynchronous rounds: {seen}", remark=f"Rounds are asynchronous: {seen}.")
    but = f", though {seen}: {why}" if late > 1.0 and why else f": {seen}"
    return choice._replace(remark=f"Rounds are synchronous{but}.")


def later_without_barrier(problem: Problem, fraction: float) -> str:
    """Return why a run that waits, and has gone a fraction of its way, is to go on without a barrier; "" if it is not."""
    rounds = problem.rows.rounds
    if len(rounds.latest) < N_ROUNDS:
        return ""
    n_workers = int(getattr(problem.rows.engine, "n_workers", 1))
    late = min(lateness(seconds, n_workers) for seconds in rounds.latest)
    to_go = min(rounds.n_seen * (1.0 - fraction) / fraction, ROUNDS)
    if late == 1.0 or _why_not(problem, late, without_barrier(), to_go):
        return ""
    times = f"{late:.2g} times as late as at the rate of the others"
    return f"in the last {N_ROUNDS} rounds before, the last part came at least {times}"


def without_barrier() -> Any:
    """Return A-CIAG as it takes changes as they come."""
    return as_method("a-ciag", {"max_delay": "auto", "asynchronous": True})


def _why_not(problem: Problem, late: float, asynchronous: Any, n_rounds: float = ROUNDS) -> str:
    """Return why rounds that wait are taken where some parts are late, and as many are to come."""
    if problem.n_outputs > 1 or not problem.loss.is_smooth() or not is_suited(asynchronous, problem):
        return "a-ciag takes smooth losses of one output, and penalties and sets that it can treat"
    if problem.dim > MOST_COLUMNS:
        return f"a-ciag sends matrices of all columns, and takes up to {MOST_COLUMNS}"
    if problem.is_smooth and problem.has_quadratic_loss:
        return "a quadratic is one round"
    costs = costs_of(problem)
    waiting = n_rounds * late * costs.gradient
    if PASSES * costs.gradient + HESSIANS * costs.hessian > (1.0 - LEAST_GAIN) * waiting:
        return "Hessians of all parts, which a-ciag takes, are likely to cost more time"
    return ""
