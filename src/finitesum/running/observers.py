"""What watches a run from outside: its trace and its progress bar. Neither changes an iterate."""

from __future__ import annotations

import csv
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np

from finitesum.core.arrays import Vector


class TraceRow(NamedTuple):
    """The figures after a pass; NaN where one was not measured."""

    n_passes: float  # effective passes: component gradients / number of components, and the exact checks before
    n_hessian_passes: float
    seconds: float  # without the time of measuring
    objective: float
    optimality: float
    estimate: float  # the method's own, free estimate of the optimality


class Trace:
    """The figures of a run, a row a pass; row 0 is the start.

    Examples
    --------
    >>> trace = Trace([TraceRow(0.0, 0.0, 0.0, 0.7, 1.0, math.nan)])
    >>> trace.append(TraceRow(1.0, 0.0, 0.1, 0.5, 0.2, 0.3))
    >>> trace.column("objective")
    array([0.7, 0.5])
    >>> len(trace)
    2
    """

    def __init__(self, rows: list[TraceRow] | None = None) -> None:
        self.rows: list[TraceRow] = list(rows or [])

    def append(self, row: TraceRow) -> None:
        """Add the figures of a pass."""
        self.rows.append(row)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TraceRow]:
        return iter(self.rows)

    def column(self, name: str) -> Vector:
        """Return one figure over all passes."""
        if name not in TraceRow._fields:
            raise KeyError(f"no column {name!r}; it has {', '.join(TraceRow._fields)}")
        position = TraceRow._fields.index(name)
        return np.array([row[position] for row in self.rows], dtype=np.float64)

    def to_dict(self) -> dict[str, Vector]:
        """Return all columns by name."""
        return {name: self.column(name) for name in TraceRow._fields}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame (pandas must be installed)."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as CSV."""
        with Path(path).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(TraceRow._fields)
            writer.writerows(self.rows)

    def passes_to(self, optimality: float) -> float:
        """Return the effective passes after which the measured optimality first was at most a value (else NaN)."""
        return self._first("n_passes", optimality)

    def seconds_to(self, optimality: float) -> float:
        """Return the seconds after which the measured optimality first was at most a value (else NaN)."""
        return self._first("seconds", optimality)

    def _first(self, name: str, optimality: float) -> float:
        reached = np.flatnonzero(self.column("optimality") <= optimality)
        return float(self.column(name)[reached[0]]) if reached.size else math.nan


class PassReport(NamedTuple):
    """What an observer is told after a pass."""

    n_passes: float
    max_iter: float
    optimality: float  # the best knowledge: measured, else the estimate
    start_optimality: float
    tol: float
    objective: float


class Observer(Protocol):
    """Is told of every pass."""

    def after_pass(self, report: PassReport) -> None: ...


def share_done(report: PassReport) -> float:
    """Return how much of a run seems done, in [0, 1]: by passes, or by the logarithm of the optimality if that is more."""
    by_passes = report.n_passes / report.max_iter
    start, now, tol = report.start_optimality, report.optimality, report.tol
    if not (start > now > 0.0 and start > tol > 0.0):
        return min(by_passes, 1.0)
    by_optimality = math.log(start / now) / math.log(start / tol)
    return min(max(by_passes, by_optimality, 0.0), 1.0)


def _describe(report: PassReport) -> str:
    return f"pass {report.n_passes:.6g}  optimality {report.optimality:.2e}  (asked {report.tol:.3g})"


class Lines:
    """Writes a line at most every so many seconds: for logs and terminals that draw nothing."""

    def __init__(self, stream: IO[str], every_seconds: float = 10.0) -> None:
        self._stream = stream
        self._every = every_seconds
        self._next = time.monotonic() + every_seconds

    def after_pass(self, report: PassReport) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            print(_describe(report), file=self._stream, flush=True)


class _Bar:
    """A rich progress bar that appears after two seconds, be the first pass over or not: kernels may be compiling."""

    def __init__(self, label: str, patience_seconds: float = 2.0) -> None:
        self._label = label
        self._lock = threading.Lock()
        self._closed = False
        self._progress: Any = None
        self._task: Any = None
        self._timer = threading.Timer(patience_seconds, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def _appear(self) -> None:
        bar = _make_bar()
        with self._lock:
            if self._closed:
                return
            bar.start()
            self._task = bar.add_task(self._label, total=None, figures="preparing; a first run compiles")
            self._progress = bar

    def after_pass(self, report: PassReport) -> None:
        if self._progress is not None:
            self._progress.update(self._task, total=1.0, completed=share_done(report), figures=_describe(report))

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._progress is not None:
                self._progress.stop()


def _make_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def tell(sentence: str) -> None:
    """Write a sentence on stderr."""
    print(sentence, file=sys.stderr, flush=True)


@contextmanager
def progress(label: str, verbose: int) -> Iterator[Observer | None]:
    """Yield what shows a run's progress on stderr: nothing for verbose 0, each pass for 2 and more.

    For verbose 1 a bar on a terminal, a line every ten seconds elsewhere and under NO_COLOR.
    """
    if verbose <= 0:
        yield None
    elif verbose >= 2:
        yield Lines(sys.stderr, every_seconds=0.0)
    elif not sys.stderr.isatty() or os.environ.get("NO_COLOR"):
        yield Lines(sys.stderr)
    else:
        bar = _Bar(label)
        try:
            yield bar
        finally:
            bar.close()
