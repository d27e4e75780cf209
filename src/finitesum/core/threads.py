"""Threads: of the linear algebra library, for blocks of one sum, for tasks of their own."""

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from finitesum.core.arrays import Indices

S = TypeVar("S")
T = TypeVar("T")

#: Fewer numbers than this, as read or multiplied, cost less than a second thread: a millisecond or two.
NUMBERS_OF_A_THREAD = 2_000_000


@functools.cache
def _blas_libraries() -> Any:
    from threadpoolctl import ThreadpoolController  # which takes a while to find the libraries, once

    return ThreadpoolController().select(user_api="blas")


class _Blas:
    """The linear algebra library's number of threads, which belongs to the process: the least that anybody asked for.

    What it was is restored when nobody asks any more, in whatever order they leave.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[int] = []
        self._granted: int | None = None
        self._before: list[tuple[Any, int]] = []  # the numbers of the libraries before anybody asked

    def ask(self, n_threads: int) -> None:
        """Ask for a number of threads."""
        with self._lock:
            self._asked.append(n_threads)
            self._grant()

    def _grant(self) -> None:
        """Set the least number that is asked for, unless it is the number there is: calls take microseconds."""
        wanted = min(self._asked)
        if wanted == self._granted:
            return
        if self._granted is None:
            self._before = [(library, library.num_threads) for library in _blas_libraries().lib_controllers]
        for library, number in self._before:
            if wanted != (number if self._granted is None else self._granted):
                library.set_num_threads(wanted)
        self._granted = wanted

    def leave(self, n_threads: int) -> None:
        """Take back one request for a number of threads."""
        with self._lock:
            if n_threads in self._asked:  # not in a child made by a fork in between
                self._asked.remove(n_threads)
            if self._asked:
                self._grant()
            else:
                self._restore()

    def _restore(self) -> None:
        for library, number in self._before:
            if number not in (None, self._granted):
                library.set_num_threads(number)
        self._granted, self._before = None, []

    def forget(self) -> None:
        """Forget all requests, in a forked child: those who asked are not there."""
        self._lock = threading.Lock()
        self._asked = []
        self._restore()


_BLAS = _Blas()


@contextmanager
def limited_blas(n_threads: int | None) -> Iterator[None]:
    """Limit the linear algebra library's threads inside, None: no limit. Entering takes microseconds.

    Where matrices are small and other work lies between its calls, its threads cost more than they give: they wait for the
    next call at full speed, and take the time of the cores' other threads.
    """
    if n_threads is None:
        yield
        return
    _BLAS.ask(n_threads)
    try:
        yield
    finally:
        _BLAS.leave(n_threads)


def blas_threads() -> int:
    """Return how many threads the linear algebra library has for a product now."""
    return max((int(library.num_threads or 1) for library in _blas_libraries().lib_controllers), default=1)


@functools.cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads - 1, thread_name_prefix="finitesum")


if hasattr(os, "register_at_fork"):  # a forked child has the pools without their threads, and would never return
    os.register_at_fork(after_in_child=_pool.cache_clear)
    os.register_at_fork(after_in_child=_BLAS.forget)


def map_blocks(function: Callable[[Indices], T], items: Indices, n_numbers: float, n_threads: int) -> list[T]:
    """Return the function's results for blocks of the items, one for each thread, in order.

    The items stand for reading `n_numbers` numbers in all. The threads wait for the next call, so that a call costs little.
    """
    n_blocks = max(1, min(n_threads, int(n_numbers // NUMBERS_OF_A_THREAD)))
    if n_blocks == 1:
        return [function(items)]
    return map_parts(function, np.array_split(items, n_blocks), n_threads)


def map_parts(function: Callable[[S], T], parts: Sequence[S], n_threads: int) -> list[T]:
    """Return the function's results for parts of some work, at most one for each thread, in order; the threads stay."""
    others = [_pool(n_threads).submit(function, part) for part in parts[1:]]
    return [function(parts[0]), *(other.result() for other in others)]


def map_tasks(function: Callable[[S], T], tasks: Iterable[S], n_threads: int | None) -> list[T]:
    """Return the function's results for all tasks, on `n_threads` threads (one for None), in order.

    Tasks that run at once have one thread of the linear algebra library each; a task that runs alone has them all.
    """
    todo = list(tasks)
    n_workers = min(n_threads or 1, len(todo))
    if n_workers <= 1:
        with limited_blas(n_threads):
            return [function(task) for task in todo]
    with limited_blas(1), ThreadPoolExecutor(n_workers) as pool:
        return list(pool.map(function, todo))
