"""Which worker a call for a part goes to, where some are slower than others: by the seconds that their last calls took.

Dask gives a call to the worker that has its data, and expects all to be equally fast; a worker that is slow would then hold
up the others. Each worker reports what its calls took. Where these differ, calls that are made in turn, a few at a time, go
to the worker that is expected to end them first, the time for bringing the part there included, and to no other. Of many
calls at once Dask decides, which balances them while they wait. The results are the same wherever they are computed.
"""

import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from dask.sizeof import sizeof
from distributed import get_worker

#: What workers report under.
TOPIC = "finitesum"

#: Calls of a worker of which the median says how fast it is: the first one compiles.
WINDOW = 3

#: Calls a worker, of all workers together, that say what the fastest takes at present.
RECENT = 2

#: The ratio of the slowest worker's seconds to the fastest one's from which calls are given to the one that ends first, and
#: the seconds of a call that these differ by at least: less is a matter of messages.
UNEVEN, LEAST = 1.5, 0.02

#: Bytes a second between workers: what Dask expects at first.
BANDWIDTH = 1e8

#: A worker that no call is given to may have become fast: with each call of another it is expected to be faster by this.
FORGETTING = 0.99


def reported(part: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns on a worker, which reports its seconds; without a part, the result is one."""
    started = time.perf_counter()
    result, worker = function(*arguments), get_worker()
    call = worker.get_current_task()
    found = {"worker": worker.address, "n_threads": worker.state.nthreads, "call": call, "part": part or call}
    spent = {"seconds": time.perf_counter() - started} if part else {"n_bytes": sizeof(result)}
    worker.log_event(TOPIC, found | spent)
    return result


class Workers:
    """What is known of the workers of a client."""

    def __init__(self, client: Any) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, deque[float]] = {}  # a byte of a part, of the last calls of each worker
        self._recent: deque[float] = deque()  # the same of the last calls of all
        self._kept: dict[str, float] = {}  # the fraction of them that is still expected
        self._n_threads: dict[str, int] = {}
        self._pending: dict[str, WeakSet[Any]] = {}  # futures of calls that were given to each
        self._places: dict[str, set[str]] = {}  # the workers that have a part
        self._n_bytes: dict[str, int] = {}  # of parts
        client.subscribe_topic(TOPIC, self._noted)

    def there(self, n_threads: dict[str, int]) -> list[Any]:
        """Note which workers there are: one of which nothing is known is expected to be as fast as the fastest.

        Others are forgotten, and the futures of calls that were given to them returned.
        """
        with self._lock:
            self._n_threads = dict(n_threads)
            for known in (self._seconds, self._kept):
                for worker in known.keys() - n_threads.keys():
                    del known[worker]
            gone = self._pending.keys() - n_threads.keys()
            return [future for worker in gone for future in self._pending.pop(worker) if not future.done()]

    def _noted(self, event: tuple[float, dict[str, Any]]) -> None:
        """Note what a worker reports."""
        of = event[1]
        worker, part = of["worker"], of["part"]
        with self._lock:
            self._places.setdefault(part, set()).add(worker)
            self._n_threads[worker] = of["n_threads"]
            for pending in self._pending.values():
                pending.difference_update([future for future in pending if future.key == of["call"]])
            if "n_bytes" in of:
                self._n_bytes[part] = max(of["n_bytes"], 1)
            elif part in self._n_bytes:
                seconds = of["seconds"] / self._n_bytes[part]
                self._seconds.setdefault(worker, deque(maxlen=WINDOW)).append(seconds)
                self._recent.append(seconds)
                while len(self._recent) > RECENT * len(self._n_threads):
                    self._recent.popleft()
                self._kept[worker] = 1.0

    def _expected(self) -> dict[str, float]:
        """Return the seconds a byte that are expected of each worker; none where nothing is known of any."""
        known = {worker: statistics.median(last) for worker, last in self._seconds.items() if len(last) == WINDOW}
        least = min(self._recent, default=0.0)  # what is known of a worker may be from before
        every = self._n_threads if known else ()
        return {worker: max(self._kept.get(worker, 1.0) * known.get(worker, least), least) for worker in every}

    @property
    def slowness(self) -> list[float]:
        """The seconds of the workers' threads relative to those of the fastest one."""
        with self._lock:
            expected = self._expected()
            least = min(expected.values(), default=1.0)
            return [each / least for worker, each in expected.items() for _ in range(self._n_threads[worker])]

    def choice(self, part: str) -> str | None:
        """Return the address of the worker that a call for a part goes to; None leaves it to Dask."""
        with self._lock:
            expected, n_bytes = self._expected(), self._n_bytes.get(part, 0)
            least, most = (function(expected.values(), default=0.0) for function in (min, max))
            if not n_bytes or most < UNEVEN * least or n_bytes * (most - least) < LEAST:
                return None
            places = self._places[part]

            def end(worker: str) -> tuple[float, bool]:
                n_before = sum(not future.done() for future in self._pending.get(worker, ()))
                n_rounds = 1 + n_before // self._n_threads[worker]
                is_elsewhere = worker not in places
                return n_rounds * n_bytes * expected[worker] + is_elsewhere * n_bytes / BANDWIDTH, is_elsewhere

            chosen = min(expected, key=end)
            for worker in self._kept:
                self._kept[worker] *= 1.0 if worker == chosen else FORGETTING
            return chosen

    def given(self, worker: str, future: Any) -> None:
        """Note that a call was given to a worker."""
        with self._lock:
            self._pending.setdefault(worker, WeakSet()).add(future)


_WORKERS: WeakKeyDictionary[Any, Workers] = WeakKeyDictionary()


def workers_of(client: Any) -> Workers:
    """Return what is known of the workers of a client: engines with the same client share it."""
    if client not in _WORKERS:
        _WORKERS[client] = Workers(client)
    return _WORKERS[client]
