"""Where work on parts of the data runs: an engine of five functions, and sums over parts in a fixed order.

A *part* is placed once, and functions are sent to it. An engine decides where and when they run, and nothing else: what a
function returns depends on the part and the arguments alone, so that a lost result can be computed again. Sums of the
parts' results are taken in a binary tree by the parts' numbers, whoever was faster: their bits do not depend on how many
workers there are.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from finitesum.core.threads import limited_blas


class PartError(ValueError):
    """What is wrong with one part of the data, which the message names."""


class Placeable(Protocol):
    """What an engine is given to place: see `finitesum.problems.parts.Part`."""

    @property
    def is_held(self) -> bool:
        """Whether the caller holds the part's arrays in memory anyway, or they are mapped files."""

    def load(self) -> Any:
        """Return the part's data, each time the same."""


@runtime_checkable
class Engine(Protocol):
    """What runs functions on parts; futures have `result()`, `exception()`, `done()` and `cancel()`."""

    def place(self, part: Placeable) -> Any:
        """Return a handle to a part, whose data is loaded where and when it is needed, again where it was lost."""

    def submit(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return a future of function(data, *arguments); the handle, and an argument, may be a future that is done."""

    def as_completed(self, futures: Collection[Any]) -> Iterable[Any]:
        """Yield futures as they are done, failed ones included."""

    def recover(self, future: Any) -> Any:
        """Return a future of the same call where a future failed because something was lost; else raise its error."""

    def close(self) -> None:
        """Give back what the engine holds; it is not used any more."""


class _Placed:
    """A part in this process: its data where the caller holds it, else loaded each time."""

    def __init__(self, part: Placeable) -> None:
        self._part, self._data = part, None

    def data(self) -> Any:
        if self._data is not None:
            return self._data
        data = self._part.load()
        if self._part.is_held:
            self._data = data
        return data


def _value(argument: Any) -> Any:
    return argument.result() if isinstance(argument, Future) else argument


def _call(function: Callable[..., Any], handle: Any, arguments: tuple[Any, ...]) -> Any:
    data = handle.data() if isinstance(handle, _Placed) else _value(handle)
    with np.errstate(all="ignore"):  # what is not finite is seen by its result
        return function(data, *map(_value, arguments))


class Threads:
    """The engine that runs in this process: some threads, each with one part at a time.

    Parameters
    ----------
    n_workers : int >= 1, optional
        Left out, the processors that the process may use. Results do not depend on it.

    Raises
    ------
    ValueError
        n_workers is no whole number >= 1.

    Examples
    --------
    >>> engine = Threads(2)
    >>> engine.n_workers
    2
    >>> engine.close()
    """

    def __init__(self, n_workers: int | None = None) -> None:
        n = len(os.sched_getaffinity(0)) if n_workers is None and hasattr(os, "sched_getaffinity") else n_workers
        n = os.cpu_count() or 1 if n is None else n
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n_workers must be a whole number >= 1, got {n_workers!r}.")
        self.n_workers = int(n)
        self._pool = ThreadPoolExecutor(self.n_workers, thread_name_prefix="finitesum-part")

    def place(self, part: Placeable) -> Any:
        """Return a handle to a part."""
        return _Placed(part)

    def submit(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return a future of the function's result; what needs no part, but results that are there, is done at once."""
        if isinstance(handle, _Placed):
            return self._pool.submit(_call, function, handle, arguments)
        future: Future[Any] = Future()
        try:
            future.set_result(_call(function, handle, arguments))
        except BaseException as error:
            future.set_exception(error)
        return future

    def as_completed(self, futures: Collection[Any]) -> Iterable[Any]:
        """Yield futures as they are done."""
        return as_completed(futures)

    def recover(self, future: Any) -> Any:
        """Raise the future's error: nothing is lost between threads."""
        raise future.exception()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def __repr__(self) -> str:
        return f"Threads(n_workers={self.n_workers})"


class Call(NamedTuple):
    """A function for one part."""

    function: Callable[..., Any]
    handle: Any
    arguments: tuple[Any, ...]


def added(left: Any, right: Any) -> Any:
    """Return the sum of two results: arrays, numbers, tuples of such, or None."""
    if isinstance(left, tuple):
        sums = (added(*both) for both in zip(left, right, strict=True))
        return type(left)(*sums) if hasattr(left, "_fields") else tuple(sums)
    return None if left is None else left + right


def _parent(place: tuple[int, int]) -> tuple[int, int]:
    return place[0] + 1, place[1] // 2


class _Tree:
    """Results at the places of a binary tree: level 0 has those of the parts, in their order."""

    def __init__(self, engine: Engine, add: Callable[[Any, Any], Any], n_parts: int) -> None:
        self.engine, self.add, self.root = engine, add, None
        self.sizes, self.known = [n_parts], {}  # type: ignore[var-annotated]
        while self.sizes[-1] > 1:
            self.sizes.append(-(-self.sizes[-1] // 2))

    def join(self, future: Any, place: tuple[int, int]) -> tuple[Any, tuple[int, int]] | None:
        """Take a result that is there; return one that is still computed from it, with its place."""
        while place[0] < len(self.sizes) - 1:
            other = place[0], place[1] ^ 1
            if other[1] >= self.sizes[place[0]]:  # without a neighbour it goes up as it is
                place = _parent(place)
                continue
            if other not in self.known:
                self.known[place] = future
                return None
            neighbour = self.known.pop(other)
            left, right = (future, neighbour) if place[1] < other[1] else (neighbour, future)
            future, place = self.engine.submit(self.add, left, right), _parent(place)
            while future.done() and future.exception() is not None:
                future = self.engine.recover(future)
            if not future.done():
                return future, place
        self.root = future
        return None


def sum_of_parts(engine: Engine, calls: Sequence[Call], add: Callable[[Any, Any], Any] = added) -> Any:
    """Return the sum of the calls' results, in a tree by their order; the first error is raised, and ends the others."""
    with limited_blas(1):  # one part a worker, and the same bits for any number of them
        waiting = {engine.submit(call.function, call.handle, *call.arguments): (0, k) for k, call in enumerate(calls)}
        tree = _Tree(engine, add, len(calls))
        try:
            while waiting:
                waiting = dict(_next_round(engine, tree, waiting))
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
        return tree.root.result()  # type: ignore[attr-defined]


def _next_round(engine: Engine, tree: _Tree, waiting: dict[Any, tuple[int, int]]) -> Iterator[tuple[Any, tuple[int, int]]]:
    """Yield what is to be waited for once these futures are done."""
    for future in engine.as_completed(list(waiting)):
        place = waiting[future]
        if future.exception() is not None:
            yield engine.recover(future), place
        elif (more := tree.join(future, place)) is not None:
            yield more


def each_part(engine: Engine, calls: Iterable[Call]) -> list[Any]:
    """Return the calls' results in their order."""

    def listed(left: Any, right: Any) -> Any:
        return [*left, *right]

    wrapped = [Call(_in_list, call.handle, (call.function, *call.arguments)) for call in calls]
    return list(sum_of_parts(engine, wrapped, listed))


def _in_list(data: Any, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    return [function(data, *arguments)]
