"""Shows on stderr how far a grid of runs has come: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

#: Is told what has just been done, and how many epochs at once.
Report = Callable[[str, int], None]


class _Lines:
    """Writes a line at most every so many seconds."""

    def __init__(self, label: str, n_epochs: int, stream: IO[str], every_seconds: float) -> None:
        self._label, self._total, self._done = label, n_epochs, 0
        self._stream, self._every = stream, every_seconds
        self._next = time.monotonic() + every_seconds

    def __call__(self, what: str, n: int) -> None:
        self._done += n
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            print(f"{self._label}: {self._done} of {self._total} epochs; {what}", file=self._stream, flush=True)


@contextmanager
def progress(label: str, n_epochs: int, verbose: int = 1) -> Iterator[Report]:
    """Yield what is told of every epoch: silent for verbose 0, else a bar, or a line every ten seconds without a terminal.

    Parameters
    ----------
    label
        What is being run.
    n_epochs
        The epochs of all runs together.
    verbose
        0 for silence, 1 as above, 2 for a line an epoch.
    """
    if verbose <= 0:
        yield lambda what, n: None
    elif verbose >= 2 or not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        yield _Lines(label, n_epochs, sys.stderr, 10.0 if verbose == 1 else 0.0)
    else:
        with _bar(label, n_epochs) as report:
            yield report


@contextmanager
def _bar(label: str, n_epochs: int) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=n_epochs, what="")
        yield lambda what, n: bar.update(task, advance=n, what=what)
