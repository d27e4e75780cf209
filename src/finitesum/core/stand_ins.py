"""How long forms over arrays have stood in for kernels: once that is longer than compiling takes, later runs have kernels.

Each fit of many small ones is over before a kernel would be compiled, and all of them together may take ten times as long
as with it. A run keeps what it began with, so that its bits do not depend on the time, and a checkpoint that is resumed has
what its run had. Runs at the same time, in threads, are as one.
"""

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds of one kernel's forms over arrays, as long as the import of the compiler and one kernel take.
ENOUGH = 2.0

_LOCK = threading.Lock()
_spent: dict[tuple[Any, Any], float] = {}
_n_runs = 0


@contextmanager
def standing_in(kernel: Any, kinds: Any) -> Iterator[None]:
    """Count the time of a block in which a form over arrays stands in for a kernel, for arguments of some kinds."""
    begin = time.thread_time()
    try:
        yield
    finally:
        seconds = time.thread_time() - begin
        with _LOCK:
            _spent[kernel, kinds] = _spent.get((kernel, kinds), 0.0) + seconds


@contextmanager
def _one_run(*, is_new: bool) -> Iterator[None]:
    global _n_runs
    with _LOCK:
        if is_new and _n_runs == 0:
            for kernel, kinds in [one for one, seconds in _spent.items() if seconds > ENOUGH]:
                kernel.end_stand_in(kinds)
                del _spent[kernel, kinds]
        _n_runs += 1
    try:
        yield
    finally:
        with _LOCK:
            _n_runs -= 1


def run_of_kernels(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function be a run, during which a kernel is never compiled in the place of what stands in for it."""

    @functools.wraps(function)
    def run(*args: P.args, **named: P.kwargs) -> R:
        with _one_run(is_new=not named.get("resume") and named.get("earlier") is None):
            return function(*args, **named)

    return run
