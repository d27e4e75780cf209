"""Visits that are asked for ahead, of parts that workers have: what they remember, and in which order they are taken.

Some components are asked for their change at the iterate of that moment, w_{t-k}. Step t takes one change, of age
k <= max_delay, and asks another component at w_{t+1}: the one that was asked longest ago, where a method says no other.

* *Synchronous*: changes are taken in the order in which they were asked, each at the same age. The iterates then do not
  depend on how many workers there are, nor on how fast.
* *Asynchronous*: they are taken as they come, and a component that is slow is visited less often. One whose age would
  exceed max_delay is waited for.

What decides between the two is the time that each component took in its first visit, and how slow workers were where the
engine measures that, in a simulation of some passes.
"""

import heapq
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.sums import fetched
from finitesum.evaluation.part_components import ASKED_A_WORKER, Change
from finitesum.methods.cost_model import threads_for_products
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.partitioned import is_parted

#: Whether changes are taken as they come.
UNDECIDED, SYNCHRONOUS, ASYNCHRONOUS = -1, 0, 1

#: Asynchronous visits must promise to save this fraction of the time, because they are not the same bits each time.
LEAST_GAIN = 0.1


class Delay(NamedTuple):
    """What is remembered of visits that are asked for."""

    waiting: Indices  # (q,)  components that were asked and not yet taken, the oldest first; -1 behind them
    points: Matrix  # (q, d)  where
    since: Indices  # (q,)  the step before which they were asked
    turns: Indices  # (m,)  which visit that was asked for was a component's last; before it a number < 0, in the order
    seconds: Vector  # (m,)  that its last visit took; NaN before it
    curved_at: Matrix  # (m, d)  where the Hessians in H were evaluated; (m, 0) without Hessians
    n_steps: int
    mode: int


class Limits(NamedTuple):
    """How far ahead visits are asked for."""

    most: int  # visits that wait at a time, synchronously
    max_delay: int  # the age from which a change is waited for, asynchronously


def limits_of(problem: Any, max_delay: int | str) -> Limits:
    """Return the limits: of "auto" a quarter of a pass, and four passes."""
    m = problem.n_components
    return Limits(1 + m // 4, 4 * m) if isinstance(max_delay, str) else Limits(min(m, max_delay + 1), max_delay)


def new_delay(problem: Any, limits: Limits, mode: int, *, has_hessians: bool) -> Delay:
    """Return what is remembered before the first visit; arrays without entries where visits are not asked for ahead."""
    m = problem.n_components if limits.max_delay else 0
    q = min(m, limits.max_delay + 1)
    waiting, since = np.full(q, -1), np.zeros(q, dtype=np.int64)
    of_components = np.arange(-m, 0), np.full(m, np.nan), np.zeros((m, problem.dim if has_hessians else 0))
    return Delay(waiting, np.zeros((q, problem.dim)), since, *of_components, 0, mode)


# -- asking


class _Asked:
    """The futures of a problem's visits that were asked for: not part of a state, because they can be asked for again."""

    def __init__(self) -> None:
        self.futures: dict[Any, Any] = {}

    def __del__(self) -> None:
        for future in self.futures.values():
            if isinstance(future, Future):  # others are their engine's, which sees that nobody has them any more
                future.cancel()


_ASKED: weakref.WeakKeyDictionary[FiniteSum, _Asked] = weakref.WeakKeyDictionary()


class Visit(NamedTuple):
    """A visit that is taken."""

    component: int
    point: Vector  # where
    change: Change  # of the component's model
    is_finite: bool
    age: int  # of the point, in visits that were taken since


class _Asking(NamedTuple):
    """A visit that was asked for."""

    component: int
    point: Vector
    since: int


class Visits(ABC):
    """The visits of a pass, some of which were asked for before it."""

    def __init__(self, problem: FiniteSum, delay: Delay, limits: Limits, order: Indices) -> None:
        self.problem, self.limits = problem, limits
        self.engine = _engine_of(problem)
        self.n_workers = int(getattr(self.engine, "n_workers", 1))
        self._futures = _ASKED.setdefault(problem, _Asked()).futures
        given = zip(delay.waiting.tolist(), delay.points, delay.since.tolist(), strict=True)
        self.waiting = [_Asking(j, point.copy(), since) for j, point, since in given if j >= 0]
        self.turns, self.seconds, self.curved_at = delay.turns.copy(), delay.seconds.copy(), delay.curved_at.copy()
        self.n_steps, self.mode, self.n_hessians = delay.n_steps, delay.mode, 0
        if self.turns.max() < 0 and order.size == self.turns.size:
            self.turns[order] = np.arange(-order.size, 0)

    @property
    def delay(self) -> Delay:
        """What is to be remembered."""
        kept = new_delay(self.problem, self.limits, self.mode, has_hessians=self.curved_at.shape[1] > 0)
        for k, visit in enumerate(self.waiting):
            kept.waiting[k], kept.points[k], kept.since[k] = visit
        kept = kept._replace(turns=self.turns, seconds=self.seconds, curved_at=self.curved_at)
        return kept._replace(n_steps=self.n_steps)

    @abstractmethod
    def key_of(self, j: int) -> tuple[bytes, ...]:
        """Return what a visit of a component depends on beside its point."""

    @abstractmethod
    def asked(self, j: int, point: Vector) -> Any:
        """Return a future of the change of a component, in a pair with ()."""

    def next_of(self, busy: set[int]) -> int:
        """Return the component that is asked next, none of those that are busy: the one that was asked longest ago."""
        return int(np.argmin(np.where(np.isin(np.arange(self.turns.size), list(busy)), np.inf, self.turns)))

    def _future(self, visit: _Asking) -> Any:
        """Return the future of a visit, which is asked for unless it is known."""
        key = visit.component, visit.point.tobytes(), *self.key_of(visit.component)
        if key not in self._futures:
            self._futures[key] = self.asked(visit.component, visit.point)
        return self._futures[key]

    def ask(self, w: Vector) -> None:
        """Ask for visits at w, until as many wait as may."""
        for visit in self.waiting:
            self._future(visit)
        for _ in range(most_waiting(self.turns.size, self.limits, self.n_workers, self.mode) - len(self.waiting)):
            j = self.next_of({visit.component for visit in self.waiting})
            self.turns[j] = max(int(self.turns.max()) + 1, 0)
            self.waiting.append(_Asking(j, w.copy(), self.n_steps))
            self._future(self.waiting[-1])

    def each(self, n: int, w: Vector) -> Iterator[Visit]:
        """Yield the next n visits, which are asked for at what w is by then."""
        for _ in range(n):
            self.ask(w)
            yield self.take()

    def take(self) -> Visit:
        """Return the next visit."""
        futures, k = [self._future(visit) for visit in self.waiting], 0
        if self.mode == ASYNCHRONOUS and self.engine is not None:
            n = n_allowed([self.n_steps - visit.since for visit in self.waiting], self.limits.max_delay)
            k = futures.index(next(iter(self.engine.as_completed(futures[:n]))))
        change: Change = (futures[k].result() if self.engine is None else fetched(self.engine, futures[k]))[0]
        for key in [key for key, future in self._futures.items() if future is futures[k]]:
            del self._futures[key]
        j, point, since = self.waiting.pop(k)
        age = self.n_steps - since
        self.seconds[j] = change.seconds
        self.n_steps += 1
        self.n_hessians += change.rise is not None
        is_finite = all(bool(np.isfinite(one).all()) for one in change[:3] if one is not None)
        if change.rise is not None and is_finite:
            self.curved_at[j] = point
        return Visit(j, point, change, is_finite, age)

    def decide(self) -> None:
        """Decide between the modes, once all components were visited, unless that is done."""
        if self.mode == UNDECIDED:
            slowness = np.ones(self.n_workers)
            known = getattr(self.engine, "slowness", [])[: self.n_workers]
            slowness[: len(known)] = known
            of_modes = (self.seconds, self.n_workers, self.limits)
            times = [seconds_of_visits(*of_modes, mode, slowness=slowness) for mode in (SYNCHRONOUS, ASYNCHRONOUS)]
            self.mode = ASYNCHRONOUS if times[ASYNCHRONOUS] < (1.0 - LEAST_GAIN) * times[SYNCHRONOUS] else SYNCHRONOUS


def most_waiting(m: int, limits: Limits, n_workers: int, mode: int) -> int:
    """Return how many visits wait at a time."""
    return min(m, limits.max_delay + 1, ASKED_A_WORKER * n_workers) if mode == ASYNCHRONOUS else limits.most


def n_allowed(ages: list[int], max_delay: int) -> int:
    """Return how many of the waiting visits, the oldest first, may be taken next, so that none will be too old."""
    late = (k + 1 for k, age in enumerate(ages) if age + 1 + k > max_delay)
    return next(late, len(ages))


def seconds_of_visits(
    seconds: Vector, n_workers: int, limits: Limits, mode: int, n_passes: int = 3, slowness: Vector | None = None
) -> float:
    """Return what some passes of visits would take, by a simulation from each component's seconds.

    If given, a worker takes `slowness` times as long as the others.
    """
    m, now = seconds.size, 0.0
    slow = np.ones(n_workers) if slowness is None else slowness
    free, turns = [(0.0, worker) for worker in range(n_workers)], deque(range(m))  # who is free when, and who comes next
    waiting: list[tuple[float, int, int]] = []  # when it is done, of whom, and since which step
    for step in range(n_passes * m):
        while len(waiting) < most_waiting(m, limits, n_workers, mode):
            j = turns.popleft()
            since, worker = heapq.heappop(free)
            end = max(since, now) + float(seconds[j] * slow[worker])
            heapq.heappush(free, (end, worker))
            waiting.append((end, j, step))
        n = n_allowed([step - since for *_, since in waiting], limits.max_delay) if mode == ASYNCHRONOUS else 1
        taken = min(waiting[:n])
        waiting.remove(taken)
        now = max(now, taken[0])
        turns.append(taken[1])
    return now


def _engine_of(problem: Any) -> Any:
    return getattr(problem.components[0], "engine", None)


def remark_on(problem: Any, delay: Delay) -> str:
    """Return how changes were taken, and why, in sentences."""
    if delay.mode == ASYNCHRONOUS:
        how = "as they came (asynchronous)"
    else:
        how = "in the order in which they were asked for (synchronous)"
    if not np.isfinite(delay.seconds).all():
        return ""
    middle, most = float(np.median(delay.seconds)), float(delay.seconds.max())
    remark = f"Visits of parts were taken {how}: one takes {middle:.2g} s, the slowest {most:.2g} s."
    slowest = max(getattr(_engine_of(problem), "slowness", []), default=1.0)
    return remark + (f" The slowest worker takes {slowest:.2g} times as long as the fastest." if slowest > 1.5 else "")


class AsksAhead:
    """What methods with `max_delay` and `asynchronous` have alike."""

    max_delay: Any
    asynchronous: Any

    @property
    def mode(self) -> int:
        """Whether changes are taken as they come, as it is known at the start."""
        return UNDECIDED if self.asynchronous == "auto" else int(self.asynchronous)

    def refusal(self, problem: Any) -> str:
        """Return why visits of this problem are not asked for ahead."""
        if not self.max_delay or isinstance(problem, FiniteSum) or is_parted(problem):
            return ""
        return "max_delay is for rows in parts and for components given as functions: leave it at 0 for rows in memory."

    def blas_threads(self, problem: Any) -> int | None:
        """Return 1 where parts are worked on beside each other, and else what products of rows need."""
        return 1 if self.max_delay else threads_for_products(problem)

    def remark(self, problem: Any, state: Any) -> str:
        """Return how changes of parts were taken."""
        return remark_on(problem, state.delay) if self.max_delay else ""
