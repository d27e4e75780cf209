"""Changes of the method in mid-run: where a run that "auto" chose does worse than its forecast, or ends short of tol.

A choice comes with a forecast of its seconds, and of what else could be run (`finitesum.methods.forecasts`). No clock is
watched, so that a run can be repeated to the bit: what was spent is the price of the passes, Hessians and steps so far.
With the optimality e_0 at 0, the least one so far e, or to which a step that is being solved leads, and the fraction of the
way that is done,

    f = log(e_0 / e) / log(e_0 / tol),

the run is expected to take another (1 - f) / f of what it has spent; of a method whose first digits come soonest, what its
passes since a quarter or a half of them say, if that is more. It changes to the other method with the least forecast once
it has spent `LATE` times its own forecast and is expected to take `SLOWER` times as long as the other one from 0; or, of a
method whose first digits come soonest, has spent the time of the other one and is not about to end; where it is expected to
need more passes than estimators allow, if the other one is not very much more expensive; and where it stalls or diverges,
if that is not much more expensive. Dual ascent, whose optimality says nothing before the last faces, is late once it has
spent `LATE` times the forecast of the other one; of rounded corners it is left to end while the rows at them are no more
than the columns. A linear program, which is one step, is left where it ends short of tol. The new method goes on from the
last point, over all rows, and is judged by what it has spent itself: it is not changed for being late, which the data are
then likely to be the reason of. Counts go on. `Loop` remembers which method runs, and with it a checkpoint.

Of rows in parts on other machines clocks are watched, too: where parts have become late, a run that waits for all of them
goes on without a barrier (`finitesum.methods.rounds`).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from finitesum.methods.base import Choice, label_of
from finitesum.methods.forecasts import LEAST_TOL, Counts, price
from finitesum.running.results import StopReason
from finitesum.running.run_memory import Loop

#: A run is late that has spent this many times its forecast; it changes if it is expected to take this many times
#: as long as the other method.
LATE, SLOWER = 2.0, 1.5

#: What a late run of a method that slows down may take beyond the time of the other method, by that time.
ALMOST = 0.3

#: The fraction of the way that is taken to be done where nothing is known of the optimality, and the least one.
UNKNOWN, LEAST = 0.5, 0.05

#: Passes from which their rate is looked at.
FEWEST_SEEN = 12

#: What another method may take, by what was spent, after a run that stalled; and seconds that it may take in any case.
AFTER_STALL, NO_MATTER = 3.0, 0.1

#: Passes after which it is seen that a run is likely to need too many, and these, which estimators allow as they come; what
#: another method may take then, by what was spent.
MANY_SEEN, MOST_PASSES, AFTER_MANY = 100.0, 1000.0, 10.0


class WithoutBarrier(NamedTuple):
    """How a run on rows in parts goes on where waiting for all of them takes longer than their changes as they come."""

    method: Any
    sampling: str
    problem: Callable[[], Any]  # the parts as components
    why: Callable[[float], str]  # given which fraction of the way is done; "" where the run is to wait on


def is_changed(
    choice: Choice, loop: Loop, counts: Counts, problem: Any, tol: float, reason: StopReason | None, state: Any = None
) -> bool:
    """Return whether the method is changed after a pass that ended the run for this reason, if for any."""
    if loop.n_changes >= len(choice.others) or reason not in (None, StopReason.STALLED, StopReason.DIVERGED):
        return False
    other = choice.others[loop.n_changes]
    running = choice if loop.n_changes == 0 else choice.others[loop.n_changes - 1]
    if getattr(running.method, "is_one_step", False):
        return reason is not None
    before = counts.passes
    if loop.n_changes > 0:
        passes, hessians = counts.passes - loop.changed_passes, counts.hessians - loop.changed_hessians
        counts = Counts(passes, hessians, loop.k - loop.changed_k)
    spent = price(label_of(running.method), problem, counts)
    slows_down = getattr(running.method, "slows_down", False)
    if reason is not None and slows_down:  # it was only tried, whatever the other one takes
        return True
    if reason is not None:
        return other.seconds <= max(AFTER_STALL * (spent if loop.n_changes == 0 else choice.seconds), NO_MATTER)
    is_steady = getattr(running.method, "falls_steadily", True)
    best = min(loop.best_estimate, _foreseen(running.method, problem, state))
    done = fraction_done(choice.optimality, best, tol) if is_steady else UNKNOWN
    to_go = (1.0 - done) / done
    if slows_down:
        to_go = max(to_go, to_go_as_of_late(loop, tol))
    expected = running.seconds if is_steady else min(running.seconds, other.seconds)
    is_late = loop.n_changes == 0 and spent > LATE * expected  # two that are late say that others will be, too
    is_long = counts.passes >= MANY_SEEN and before + counts.passes * to_go > MOST_PASSES
    if (is_late or is_long) and not is_steady and cast(Any, running.method).is_about_to_end(problem, state):
        return False
    if is_late and spent * to_go > SLOWER * other.seconds:
        return True
    if is_late and slows_down and spent > other.seconds and spent * to_go > ALMOST * other.seconds:
        return True
    return is_long and other.seconds <= AFTER_MANY * spent


def _foreseen(method: Any, problem: Any, state: Any) -> float:
    """Return the optimality to which the passes of an unfinished step lead; inf where that is unknown."""
    if not (hasattr(method, "foreseen") and isinstance(state, method.state_type)):
        return math.inf
    found = float(method.foreseen(problem, state))
    return math.inf if math.isnan(found) else found


def to_go_as_of_late(loop: Loop, tol: float) -> float:
    """Return what is to go by what was spent, at the rate since a quarter or a half of the passes; 0 where that is unknown.

    Examples
    --------
    >>> to_go_as_of_late(Loop(k=12, best_estimate=1e-3, early_k=4, early_estimate=1e-2), 1e-6)
    2.0
    """
    n_passes, best = loop.k - loop.changed_k, loop.best_estimate
    if n_passes < FEWEST_SEEN or not loop.early_estimate < math.inf or not 0.0 < best < math.inf:
        return 0.0
    gained, wanted = math.log10(loop.early_estimate / best), math.log10(best / max(tol, LEAST_TOL))
    if wanted <= 0.0:
        return 0.0
    return (n_passes - loop.early_k) * wanted / (n_passes * gained) if gained > 0.0 else math.inf


def fraction_done(first: float, now: float, tol: float) -> float:
    """Return which fraction of the digits from the first optimality to tol is reached; a larger one says nothing.

    Examples
    --------
    >>> fraction_done(1.0, 1e-2, 1e-8)
    0.25
    """
    if not (0.0 < first < math.inf and 0.0 < now < first):
        return UNKNOWN
    wanted = math.log(max(first / max(tol, LEAST_TOL), math.e))
    return min(max(math.log(first / now) / wanted, LEAST), 1.0)


def handed_over(method: Any, problem: Any, state: Any, tol: float) -> Any:
    """Return the first state of another method at the point of a state, whose counts go on."""
    first = method.init(problem, state.x, tol)
    return first._replace(
        n_gradients=int(state.n_gradients) + int(first.n_gradients),
        n_hessians=type(first.n_hessians)(math.ceil(state.n_hessians + first.n_hessians)),
    )
