"""Where work on parts of the data runs: an engine of five functions.

A *part* is placed once, and functions are sent to it. An engine decides where and when they run, and nothing else: what a
function returns depends on the part and the arguments alone, so that a lost result can be computed again. Sums of the
parts' results are in `finitesum.core.sums`.
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

    @property
    def version(self) -> Any:
        """What changes where the data are written to, of a part that is mapped as it lies in a file; else None."""

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


@runtime_checkable
class EngineElsewhere(Engine, Protocol):
    """An engine whose workers share no memory with the caller, and have calls for many parts go in fewer messages."""

    def share(self, value: Any, n_calls: int) -> Any:
        """Return what stands for a value that is the same in a number of calls, which are given that in its place."""

    def submit_all(self, calls: Sequence["Call"]) -> list[Any]:
        """Return futures of calls."""

    def submit_in_turn(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return what `submit` does, for one of few calls at a time, for which the engine may choose the worker."""

    def collect(self, futures: Sequence[Any], asked: Sequence[Callable[[Any], Any] | None]) -> list[Any]:
        """Return the results of futures that are done, or what functions make of them where they are.

        Any error says that they are to be brought one by one.
        """


class _Placed:
    """A part in this process: loaded once, and kept in mapped files unless the caller holds it anyway."""

    def __init__(self, part: Placeable, folder: Callable[[], Path]) -> None:
        self._part, self._folder, self._lock = part, folder, threading.Lock()
        self._data: Any = None
        self._version: Any = None

    def data(self) -> Any:
        """Return the part's data, which are loaded when they are first asked for."""
        with self._lock:
            version = getattr(self._part, "version", None)  # which a part need not have
            if self._data is None:
                data = self._part.load()
                self._data, self._version = data if self._part.is_held else self._kept(data), version
            elif version != self._version:
                raise PartError(f"{self._part.name}: its file was written to since it was read. Make the problem again.")
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


class Call(NamedTuple):
    """A function for one part."""

    function: Callable[..., Any]
    handle: Any
    arguments: tuple[Any, ...]


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

    def folder(self) -> Path:
        """Return the folder of kept parts, which is made when it is first asked for."""
        with self._lock:
            if self._own is None:
                self._own = Path(mkdtemp(prefix="finitesum-parts-", dir=self._root))
                self._remove = weakref.finalize(self, _removed, self._own, os.getpid())
            return self._own

    def place(self, part: Placeable) -> Any:
        """Return a handle to a part."""
        return _Placed(part, self.folder)

    def submit(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return a future of the function's result; what needs no part, but results that are there, is done at once."""
        if isinstance(handle, _Placed):
            waiting = _Waiting(handle, arguments[0] if arguments else None)
            self._waiting.append(waiting)
            try:
                of_part = self._pool.submit(self._work, waiting, function, handle, arguments)
            except RuntimeError as error:
                raise PartError("the engine of the parts is closed. Make the problem with another one.") from error
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
