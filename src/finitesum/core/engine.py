"""Where work on parts of the data runs: an engine of five functions, and sums over parts in a fixed order.

A *part* is placed once, and functions are sent to it. An engine decides where and when they run, and nothing else: what a
function returns depends on the part and the arguments alone, so that a lost result can be computed again. Sums of the
parts' results are taken in a binary tree by the parts' numbers, whoever was faster: their bits do not depend on how many
workers there are.
"""

import os
import shutil
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from finitesum.core.mapped import on_disk, read_ahead
from finitesum.core.threads import limited_blas


class PartError(ValueError):
    """What is wrong with one part of the data, which the message names."""


class Placeable(Protocol):
    """What an engine is given to place: see `finitesum.problems.parts.Part`."""

    @property
    def name(self) -> str:
        """How a message calls the part."""

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
        """Return a future of ``function(data, *arguments)``; the handle, and an argument, may be a future that it gave.

        It may also be one of a result that is here (`done`): where all are, the function is called here.
        """

    def as_completed(self, futures: Collection[Any]) -> Iterable[Any]:
        """Yield futures as they are done, failed ones included."""

    def recover(self, future: Any) -> Any:
        """Return a future of the same call where a future failed because something was lost; else raise its error."""

    def close(self) -> None:
        """Give back what the engine holds; it is not used any more."""


class _Placed:
    """A part in this process: loaded once, and kept in mapped files unless the caller holds it anyway."""

    def __init__(self, part: Placeable, folder: Callable[[], Path]) -> None:
        self._part, self._folder, self._lock = part, folder, threading.Lock()
        self._data: Any = None

    def data(self) -> Any:
        """Return the part's data, which are loaded when they are first asked for."""
        with self._lock:
            if self._data is None:
                data = self._part.load()
                self._data = data if self._part.is_held else self._kept(data)
            return self._data

    def _kept(self, data: Any) -> Any:
        try:
            return on_disk(data, self._folder())
        except OSError as error:
            raise PartError(
                f"{self._part.name}: its parsed copy cannot be kept: {error}. Name another folder by Threads(folder=...)."
            ) from error

    def read_ahead(self, argument: Any) -> None:
        """Ask the system for the part's mapped files, or for what a call's first argument says that it `reads` of them."""
        if self._data is not None:
            read_ahead(argument.reads(self._data) if hasattr(argument, "reads") else self._data)


class _Waiting:
    """A call that no thread has begun."""

    def __init__(self, handle: _Placed, argument: Any) -> None:
        self.handle, self.argument = handle, argument

    def read_ahead(self) -> None:
        """Ask the system for what the call will read."""
        self.handle.read_ahead(self.argument)


def _value(argument: Any) -> Any:
    return argument.result() if isinstance(argument, Future) else argument


def done(result: Any) -> Future[Any]:
    """Return a future of a result that is here."""
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def called_here(function: Callable[..., Any], handle: Any, arguments: tuple[Any, ...]) -> Future[Any]:
    """Return a future, which is done, of a call with results that are here."""
    future: Future[Any] = Future()
    try:
        future.set_result(_call(function, handle, arguments))
    except BaseException as error:
        future.set_exception(error)
    return future


def _call(function: Callable[..., Any], handle: Any, arguments: tuple[Any, ...]) -> Any:
    data = handle.data() if isinstance(handle, _Placed) else _value(handle)
    with np.errstate(all="ignore"):  # what is not finite is seen by its result
        return function(data, *map(_value, arguments))


def _removed(folder: Path, process: int) -> None:
    """Remove a folder, unless this is a fork of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class Threads:
    """The engine that runs in this process: some threads, each with one part at a time.

    A part that is loaded from elsewhere is loaded once: its arrays are kept in files that are mapped, which count as no
    memory of the process. While a part is worked on, one more thread has the next one read ahead: all of it, or what the
    call's first argument returns by a method `reads` of the part's data.

    Parameters
    ----------
    n_workers : int >= 1, optional
        Left out, the processors that the process may use. Results do not depend on it.
    folder : path, optional
        Where parts are kept, in a folder of its own that goes with the engine. Left out, the system's folder for temporary
        files, which some systems hold in memory.

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

    def __init__(self, n_workers: int | None = None, folder: str | os.PathLike[str] | None = None) -> None:
        n = len(os.sched_getaffinity(0)) if n_workers is None and hasattr(os, "sched_getaffinity") else n_workers
        n = os.cpu_count() or 1 if n is None else n
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n_workers must be a whole number >= 1, got {n_workers!r}.")
        self.n_workers = int(n)
        self._root = folder
        self._own: Path | None = None
        self._start()
        _ENGINES.add(self)

    def _start(self) -> None:
        """Make the threads; they begin with the first calls."""
        self._pool = ThreadPoolExecutor(self.n_workers, thread_name_prefix="finitesum-part")
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="finitesum-ahead")
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()

    def _folder(self) -> Path:
        """Return the folder of kept parts, which is made when it is first asked for."""
        with self._lock:
            if self._own is None:
                self._own = Path(mkdtemp(prefix="finitesum-parts-", dir=self._root))
                self._remove = weakref.finalize(self, _removed, self._own, os.getpid())
            return self._own

    def place(self, part: Placeable) -> Any:
        """Return a handle to a part."""
        return _Placed(part, self._folder)

    def submit(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return a future of the function's result; what needs no part, but results that are there, is done at once."""
        if isinstance(handle, _Placed):
            waiting = _Waiting(handle, arguments[0] if arguments else None)
            self._waiting.append(waiting)
            of_part = self._pool.submit(self._work, waiting, function, handle, arguments)
            of_part.add_done_callback(lambda done: self._forget(waiting) if done.cancelled() else None)
            return of_part
        return called_here(function, handle, arguments)

    def _work(self, waiting: _Waiting, function: Callable[..., Any], handle: _Placed, arguments: tuple[Any, ...]) -> Any:
        """Call a function for a part, while a later one is read ahead."""
        following = self._forget(waiting)
        if following is not None:
            self._ahead.submit(following.read_ahead)
        return _call(function, handle, arguments)

    def _forget(self, waiting: _Waiting) -> _Waiting | None:
        """Return the call that will be begun when each thread has ended its own, once this one does not wait any more."""
        with self._lock:
            self._waiting.remove(waiting)
            return self._waiting[min(self.n_workers, len(self._waiting)) - 1] if self._waiting else None

    def as_completed(self, futures: Collection[Any]) -> Iterable[Any]:
        """Yield futures as they are done."""
        return as_completed(futures)

    def recover(self, future: Any) -> Any:
        """Raise the future's error: nothing is lost between threads."""
        raise future.exception()

    def close(self) -> None:
        """End the threads, and remove the files of kept parts."""
        self._pool.shutdown(cancel_futures=True)
        self._ahead.shutdown(cancel_futures=True)
        if self._own is not None:
            self._remove()

    def __repr__(self) -> str:
        return f"Threads(n_workers={self.n_workers})"


#: The engines that there are.
_ENGINES: weakref.WeakSet[Threads] = weakref.WeakSet()


def _start_again() -> None:
    """Give the engines threads, in a forked child: it has their pools without them, and would never return."""
    for engine in _ENGINES:
        engine._start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)


class Call(NamedTuple):
    """A function for one part."""

    function: Callable[..., Any]
    handle: Any
    arguments: tuple[Any, ...]


#: Seconds that a result of a future that is done may take to come, at first, before it is asked whether it is lost.
FIRST_WAIT = 10.0


def added(left: Any, right: Any) -> Any:
    """Return the sum of two results: arrays, numbers, tuples of such, or None."""
    if isinstance(left, tuple):
        sums = (added(*both) for both in zip(left, right, strict=True))
        return type(left)(*sums) if hasattr(left, "_fields") else tuple(sums)
    return None if left is None else left + right


def _parent(place: tuple[int, int]) -> tuple[int, int]:
    return place[0] + 1, place[1] // 2


def error_of(future: Any, seconds: float = FIRST_WAIT) -> BaseException | None:
    """Return the error of a future that is done; None where there is none, or where its result is lost meanwhile."""
    try:
        error: BaseException | None = future.exception(timeout=seconds)
    except TimeoutError:
        return None
    return error


def settled(engine: Engine, future: Any) -> Any:
    """Return a future, or while it is lost already another of the same call."""
    while future.done() and error_of(future) is not None:
        future = engine.recover(future)
    return future


def fetched(engine: Engine, future: Any) -> Any:
    """Return a future's result, computed again where it was lost."""
    seconds = FIRST_WAIT
    while True:
        if not future.done():
            next(iter(engine.as_completed([future])))  # which notices that nobody is left to compute it
        try:
            return future.result(timeout=seconds)
        except TimeoutError:  # done, and lost before it came here; or large; or the call's own error
            seconds *= 2.0
            if error_of(future) is not None:
                future = engine.recover(future)
        except Exception:
            future = engine.recover(future)  # which raises an error of the call's own


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
            future = settled(self.engine, future)
            if not future.done():
                return future, place
        self.root = future
        return None


def sum_of_parts(
    engine: Engine,
    calls: Sequence[Call],
    add: Callable[[Any, Any], Any] = added,
    take: Callable[[int, Any], Any] | None = None,
    arrived: Callable[[], Any] | None = None,
    bring: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the sum of the calls' results, in a tree by their order; the first error is raised, and ends the others.

    If given, `take` is called with the number and the future of each result that is there, and returns a future of what is
    to be summed, which need not be there yet; before it `arrived` is called, as each of them comes. With `bring`, what it
    returns of each result is summed here. No result is kept longer than it is needed.
    """
    with limited_blas(1):  # one part a worker, and the same bits for any number of them
        waiting = {engine.submit(call.function, call.handle, *call.arguments): (_CALLED, k) for k, call in enumerate(calls)}
        tree = _Tree(engine, add, len(calls))
        try:
            while waiting:
                waiting.update(_next_round(engine, tree, waiting, take, arrived, bring))
        except BaseException:
            for future in waiting:
                future.cancel()
            raise
        return fetched(engine, tree.root)


#: The level of results that are not taken yet: below the tree's.
_CALLED = -1


def _next_round(
    engine: Engine,
    tree: _Tree,
    waiting: dict[Any, tuple[int, int]],
    take: Callable[[int, Any], Any] | None,
    arrived: Callable[[], Any] | None,
    bring: Callable[[Any], Any] | None,
) -> dict[Any, tuple[int, int]]:
    """Return what is to be waited for next; these futures wait no more."""
    following = {}
    for future in engine.as_completed(list(waiting)):
        level, k = waiting.pop(future)
        if error_of(future) is not None:
            following[engine.recover(future)] = level, k
            continue
        joining = future
        if level == _CALLED:
            level = 0
            if arrived is not None:
                arrived()
            if take is not None and not (joining := settled(engine, take(k, future))).done():
                following[joining] = level, k
                continue
        del future
        if bring is not None and level == 0:
            joining = done(bring(fetched(engine, joining)))
        if (more := tree.join(joining, (level, k))) is not None:
            following[more[0]] = more[1]
    return following


def each_part(engine: Engine, calls: Iterable[Call], arrived: Callable[[], Any] | None = None) -> list[Any]:
    """Return the calls' results in their order; if given, a function is called when each of them is there."""

    def listed(left: Any, right: Any) -> Any:
        return [*left, *right]

    return list(sum_of_parts(engine, list(calls), listed, arrived=arrived, bring=lambda result: [result]))
