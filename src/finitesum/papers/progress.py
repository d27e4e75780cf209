"""Shows on stderr how far a series of runs has come: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

#: Is told what is being or has just been done, and how much at once.
Report = Callable[[str, int], None]


class _Lines:
    """Writes a line at most every so many seconds."""

    def __init__(self, label: str, total: int, noun: str, stream: IO[str], every_seconds: float) -> None:
        self._label, self._total, self._noun, self._done = label, total, noun, 0
        self._stream, self._every = stream, every_seconds
        self._next = time.monotonic() + every_seconds

    def __call__(self, what: str, n: int) -> None:
        self._done += n
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            told = f"{self._label}: {self._done} of {self._total} {self._noun}; {what}"
            print(told, file=self._stream, flush=True)


@contextmanager
def progress(label: str, total: int, verbose: int = 1, *, noun: str = "epochs") -> Iterator[Report]:
    """Yield what is told of every step: silent for verbose 0, else a bar, or a line every ten seconds without a terminal.

    Parameters
    ----------
    label
        What is being run.
    total
        The steps of all runs together.
    verbose
        0 for silence, 1 as above, 2 for a line a step.
    noun
        What a step is called.
    """
    if verbose <= 0:
        yield lambda what, n: None
    elif verbose >= 2 or not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        yield _Lines(label, total, noun, sys.stderr, 10.0 if verbose == 1 else 0.0)
    else:
        with _bar(label, total) as report:
            yield report


@contextmanager
def _bar(label: str, total: int) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, what="")
        yield lambda what, n: bar.update(task, advance=n, what=what)
