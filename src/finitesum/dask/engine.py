"""The engine that runs on a Dask cluster, by its public futures: `submit`, `as_completed`, `cancel`.

A part is a future of its arrays, made from the collection's blocks by a worker; Dask makes it again from these where a
worker is lost. A call that failed because workers were lost, and not by itself, is submitted again.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from finitesum.core.engine import Call, PartError, called_here
from finitesum.core.sums import FIRST_WAIT, error_of
from finitesum.core.threads import limited_blas

try:
    import distributed
    from dask.delayed import Delayed
except ImportError as error:  # pragma: no cover - where the extra is not installed
    raise ImportError("finitesum.dask needs dask and distributed: pip install 'finitesum[dask]'.") from error

from finitesum.dask.packed import Packed, opened, packed
from finitesum.dask.workers import reported, workers_of
from finitesum.estimators.plain_input import frame_as_numbers

#: Addresses of arrays are multiples of it, as those of memory that was allocated here are: these are never copied.
ALIGNMENT = 16

#: How often a call is submitted again because workers were lost.
MOST_TRIES = 10

#: Seconds after which it is asked whether there are workers; after six times that without any, there are none: on a loaded
#: machine one takes some ten seconds to start.
PATIENCE, MOST_MISSES = 5.0, 6

#: Bytes from which a value that many calls share is sent to each worker once: else it goes with each call.
LARGE = 1 << 20

#: The priority of calls that need no part: they are short, and the client waits for them.
FIRST = 1

#: What is said then.
LOST = (
    "all workers of the Dask cluster are lost, or lost one after the other: start some (with more memory), and fit again."
)


class Blocks(NamedTuple):
    """The blocks of collections that a part is made of: delayed values or futures, None where there is none."""

    X: Any
    y: Any
    weight: Any = None
    offset: Any = None

    @property
    def part_name(self) -> str:
        """Return how a message calls the part."""
        return "a block of the collection"

    def __call__(self) -> Any:
        """Return the blocks' arrays, brought to this process."""
        import dask

        return of_blocks(*dask.compute(*self))


def of_blocks(X: Any, y: Any, weight: Any = None, offset: Any = None) -> tuple[Any, ...]:
    """Return blocks as a part has them: frames and series as arrays."""
    y, weight, offset = (None if one is None else np.asarray(one) for one in (y, weight, offset))
    if hasattr(X, "to_numpy"):
        X = frame_as_numbers(X)
    return X, y, weight, offset


def _load(part: Any, *blocks: Any) -> Any:
    """Return a part's data, from its blocks, or the tuple that was delayed, where there are some."""
    if blocks:
        part = replace(part, source=partial(of_blocks, *blocks) if len(blocks) > 1 else blocks[0])
    return part.load()


def _same(value: Any) -> Any:
    return value


def aligned(argument: Any) -> Any:
    """Return arrays, and tuples of arrays, at memory addresses that are multiples of 16.

    What came over the network lies anywhere, and arrays at an address that is no multiple of a number's bytes are
    multiplied in another order.
    """
    if isinstance(argument, np.ndarray) and argument.size and argument.ctypes.data % ALIGNMENT:
        room = np.empty(argument.nbytes + ALIGNMENT, dtype=np.uint8)
        first = -room.ctypes.data % ALIGNMENT
        copy = room[first : first + argument.nbytes].view(argument.dtype).reshape(argument.shape)
        copy[...] = argument
        return copy
    if isinstance(argument, tuple):
        parts = map(aligned, argument)
        return type(argument)(*parts) if hasattr(argument, "_fields") else tuple(parts)
    return argument


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    with np.errstate(all="ignore"), limited_blas(1):  # the same bits on any worker
        return function(*(opened(one) if isinstance(one, Packed) else aligned(one) for one in arguments))


def _each(functions: Sequence[Callable[[Any], Any] | None], *results: Any) -> list[Any]:
    """Return what functions make of results; None leaves one as it is."""
    return [result if function is None else function(result) for function, result in zip(functions, results, strict=True)]


class DaskEngine:
    """An engine for `Problem.partitioned` that runs on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, optional
        The current one when left out.

    Raises
    ------
    TypeError
        The client is an address or a cluster, or something else.
    ValueError
        There is no client, or it is closed.

    Examples
    --------
    >>> DaskEngine(client)  # doctest: +SKIP
    DaskEngine('tcp://127.0.0.1:40000')
    """

    #: Workers share no memory with the caller: numbers that they wrote are not sent to them again.
    is_elsewhere = True

    def __init__(self, client: Any = None) -> None:
        try:
            self.client = distributed.get_client() if client is None else client
        except ValueError as error:
            raise ValueError("there is no Dask client: make one by distributed.Client(), or give client=.") from error
        if not isinstance(self.client, distributed.Client):
            raise TypeError(
                f"client must be a distributed.Client, got a {type(client).__name__}: give distributed.Client(...) of an "
                "address or a cluster."
            )
        if self.client.status in ("closing", "closed"):
            raise ValueError("client must be open, got one that is closed: make another one by distributed.Client(...).")
        self._calls: WeakKeyDictionary[Any, tuple[Call, int]] = WeakKeyDictionary()
        self._parts: WeakSet[Any] = WeakSet()
        self._workers = workers_of(self.client)
        self._alive()

    @property
    def slowness(self) -> list[float]:
        """The seconds that workers' threads take for a part relative to those of the fastest, of workers that are known."""
        return self._workers.slowness

    @property
    def n_workers(self) -> int:
        """How many calls run at a time: the workers' threads."""
        return max(int(sum(self.client.nthreads().values())), 1)

    def place(self, part: Any) -> Any:
        """Return a future of the part's data."""
        source = part.source
        if isinstance(source, Blocks):
            blocks = [None if one is None else self._future(one) for one in source]
            placed = self._submit(Call(_load, replace(part, source=None), tuple(blocks)))
        elif isinstance(delayed := getattr(source, "__self__", None), Delayed):
            placed = self._submit(Call(_load, replace(part, source=None), (self._future(delayed),)))
        else:
            placed = self._submit(Call(_load, part, ()))
        self._parts.add(placed)
        return placed

    def _future(self, block: Any) -> Any:
        return block if isinstance(block, distributed.Future) else self.client.compute(block)

    def submit(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return a future of ``function(data, *arguments)``; what is here is computed here."""
        if isinstance(handle, Future):  # of a result that was brought here, as all of them are then
            return called_here(function, handle, arguments)
        return self._submit(Call(function, handle, arguments))

    def submit_in_turn(self, function: Callable[..., Any], handle: Any, *arguments: Any) -> Any:
        """Return what `submit` does, for one of few calls at a time: it goes to the worker that will end it first."""
        return self._submit(Call(function, handle, arguments), in_turn=True)

    def share(self, value: Any, n_calls: int) -> Any:
        """Return a value as `n_calls` calls are given it: pickled once; a large one as a future, sent once to each worker.

        That is the result of a call, which is made again where its worker is lost: a scattered value would be lost, too.
        """
        one = packed(value)
        return self.client.submit(_same, one, pure=False) if n_calls > 1 and len(one.pickled) >= LARGE else one

    def submit_all(self, calls: Sequence[Call]) -> list[Any]:
        """Return futures of calls, which are sent in one message where they are alike."""
        is_alike = len({len(call.arguments) for call in calls}) == 1
        if not is_alike or not all(call.function is not _load and call.handle in self._parts for call in calls):
            return [self._submit(call) for call in calls]
        each = [(call.handle.key, _run, call.function, call.handle, *call.arguments) for call in calls]
        futures: list[Any] = self.client.map(reported, *zip(*each, strict=True), pure=False)
        for future, call in zip(futures, calls, strict=True):
            self._calls[future] = call, 0
        return futures

    def collect(self, futures: Sequence[Any], asked: Sequence[Callable[[Any], Any] | None]) -> list[Any]:
        """Return the results of futures that are done, or what functions make of them where they are: one call a worker."""
        found = self._gathered([future for future, one in zip(futures, asked, strict=True) if one is None])
        made = [k for k, one in enumerate(asked) if one is not None]
        places = self.client.who_has([futures[k] for k in made]) if made else {}
        by_worker: dict[Any, list[int]] = {}
        for k in made:
            by_worker.setdefault(places[futures[k].key][0], []).append(k)
        answers = []
        for worker, numbers in by_worker.items():
            given = [asked[k] for k in numbers], *(futures[k] for k in numbers)
            where = {"workers": [worker], "allow_other_workers": True}
            answers.append(self.client.submit(_each, *given, pure=False, priority=FIRST, **where))
        results: dict[int, Any] = {}
        for numbers, answer in zip(by_worker.values(), self._gathered(answers), strict=True):
            results |= zip(numbers, answer, strict=True)
        rest = iter(found)
        return [results[k] if k in results else next(rest) for k in range(len(futures))]

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """Return the results of futures, within some seconds."""
        if not futures:
            return []
        coming = self.client.gather(futures, asynchronous=True)
        found = asyncio.run_coroutine_threadsafe(coming, self.client.loop.asyncio_loop)
        try:
            return list(found.result(timeout=FIRST_WAIT))
        finally:
            found.cancel()

    def _submit(self, call: Call, n_tries: int = 0, *, in_turn: bool = False) -> Any:
        future = self._sent(call, in_turn=in_turn)
        self._calls[future] = call, n_tries
        return future

    def _sent(self, call: Call, *, in_turn: bool) -> Any:
        """Return a future of a call; one for a part is measured."""
        if call.function is not _load and call.handle not in self._parts:
            arguments = _run, call.function, call.handle, *call.arguments
            return self.client.submit(*arguments, pure=False, priority=FIRST)  # of results, which wait for no part
        part = "" if call.function is _load else call.handle.key
        worker = self._workers.choice(part) if in_turn else None
        arguments = part, _run, call.function, call.handle, *call.arguments
        future = self.client.submit(reported, *arguments, pure=False, workers=worker and [worker])
        if worker is not None:
            self._workers.given(worker, future)
        return future

    def as_completed(self, futures: Collection[Any]) -> Iterable[Any]:
        """Yield futures as they are done; raise a PartError where there is no worker left that could do them."""
        waiting, misses = set(futures), 0
        while waiting:
            try:
                for future in distributed.as_completed(waiting, timeout=PATIENCE):
                    misses = 0
                    waiting = waiting - {future}
                    yield future
            except TimeoutError:
                misses = 0 if self._alive() else misses + 1
                if misses >= MOST_MISSES:
                    raise PartError(LOST) from None

    def _alive(self) -> bool:
        """Return whether there are workers; calls that were given to one that is gone are cancelled, and so made again."""
        try:
            n_threads = self.client.nthreads()
        except Exception:  # the scheduler is gone, too
            return False
        for future in self._workers.there(n_threads):
            future.cancel()  # Dask would wait for that worker
        return bool(n_threads)

    def _comes_back(self) -> bool:
        """Return whether there are workers, or will be soon: those that died together are started again one by one."""
        deadline = time.monotonic() + MOST_MISSES * PATIENCE
        while not (is_alive := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.1 * PATIENCE)
        return is_alive

    def recover(self, future: Any) -> Any:
        """Return a future of the same call where workers were lost; else raise its error."""
        error = error_of(future) if not future.cancelled() else None
        is_lost = error is None or isinstance(error, _LOST)
        call, n_tries = self._calls.get(future, (None, MOST_TRIES))
        if error is not None and not is_lost:
            raise error
        if call is None or n_tries >= MOST_TRIES or not self._comes_back():
            raise PartError(LOST) from error
        return self._submit(call, n_tries + 1)

    def close(self) -> None:
        """Release parts and results, whoever still refers to them; the client is its owner's."""
        for future in list(self._calls):
            future.release()
        self._calls.clear()

    def __repr__(self) -> str:
        return f"DaskEngine({self.client.scheduler.address!r})"


_LOST: tuple[type[BaseException], ...] = (
    distributed.KilledWorker,
    distributed.CancelledError,
    distributed.comm.CommClosedError,
)
