"""What watches a run from outside: its trace, and the only progress bar of the library. Neither changes an iterate.

A bar (rich) is drawn on a terminal; elsewhere, and under ``NO_COLOR``, a line is written every ten seconds.
"""

import csv
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector

#: What takes less time shows nothing; lines are this far apart.
PATIENCE_SECONDS, LINE_SECONDS = 2.0, 10.0


class TraceRow(NamedTuple):
    """The figures after a pass; NaN where one was not measured."""

    n_passes: float  # effective passes: component gradients / number of components, and the exact checks before
    n_hessian_passes: float
    seconds: float  # without the time of measuring
    objective: float
    optimality: float
    estimate: float  # the method's own, free estimate of the optimality


class Trace:
    """The figures of a run, one row per pass; row 0 is the start.

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
    """What a display receives after a pass."""

    n_passes: float
    max_iter: float
    optimality: float  # the best knowledge: measured, else the estimate
    start_optimality: float
    tol: float


def is_stopped_by(callback: Callable[[Any], Any], report: Any) -> bool:
    """Call a user's function, and return whether it ends the run: by returning True, or raising StopIteration."""
    try:
        answer = callback(report)
    except StopIteration:
        return True
    return isinstance(answer, bool | np.bool_) and bool(answer)


def fraction_done(report: PassReport) -> float:
    """Return the part of a run that seems done, in [0, 1]: by passes, or by the logarithm of the optimality if larger."""
    by_passes = report.n_passes / report.max_iter
    start, now, tol = report.start_optimality, report.optimality, report.tol
    if not (start > now > 0.0 and start > tol > 0.0):
        return min(by_passes, 1.0)
    by_optimality = math.log(start / now) / math.log(start / tol)
    return min(max(by_passes, by_optimality, 0.0), 1.0)


class Display:
    """Shows how far some work has come. This one shows nothing."""

    def show(self, text: str, fraction: float | None) -> None:
        """Show what was reached, and the fraction of the work that is done: None where that is unknown."""

    def after_pass(self, report: PassReport) -> None:
        """Show what a run has reached."""
        reached = f"pass {report.n_passes:.6g}  optimality {report.optimality:.2e}  (asked {report.tol:.3g})"
        self.show(reached, fraction_done(report))

    def close(self) -> None:
        """Remove what was drawn."""


class Lines(Display):
    """Writes a line once in a number of seconds at most, and one at least: for logs, and where nothing is to be drawn."""

    def __init__(self, stream: IO[str], every_seconds: float = LINE_SECONDS, prefix: str = "") -> None:
        self._stream = stream
        self._every = every_seconds
        self._prefix = prefix
        self._next = time.monotonic() + every_seconds
        self._last = ""
        self._has_written = False

    def show(self, text: str, fraction: float | None) -> None:
        self._last = text
        if time.monotonic() >= self._next:
            self._write()

    def _write(self) -> None:
        self._next, self._has_written = time.monotonic() + self._every, True
        print(f"{self._prefix}{self._last}", file=self._stream, flush=True)

    def close(self) -> None:
        if self._last and not self._has_written:
            self._write()


class Bar(Display):
    """A bar on stderr that appears after some seconds, whether or not anything was shown before."""

    def __init__(self, label: str, waiting: str = "", patience_seconds: float | None = None, *, keep: bool = False) -> None:
        self._label = label
        self._keep = keep  # whether the last picture stays
        self._lock = threading.Lock()
        self._closed = False
        self._last: tuple[str, float | None] = (waiting, None)
        self._progress: Any = None
        self._task: Any = None
        patience = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._timer = threading.Timer(patience, self.appear)
        self._timer.daemon = True
        if patience > 0.0:
            self._timer.start()
        else:
            self.appear()

    def appear(self) -> None:
        """Draw the bar, unless it was closed before."""
        progress = _make_bar(transient=not self._keep)
        with self._lock:
            if not self._closed:
                self._progress = progress
                self._task = self._progress.add_task(self._label, total=None, text="")
                self._progress.start()
                self._update()

    def show(self, text: str, fraction: float | None) -> None:
        with self._lock:
            self._last = (text, fraction)
            if self._progress is not None:
                self._update()

    def _update(self) -> None:
        text, fraction = self._last
        total, completed = (None, 0.0) if fraction is None else (1.0, fraction)
        self._progress.update(self._task, total=total, completed=completed, text=text)

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._progress is not None:
                self._progress.stop()


def _make_bar(transient: bool) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn()
    return Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=transient)


class DownloadBar:
    """A bar in the shape that pooch wants of one: it sets ``total`` and gives the size of each piece, in bytes."""

    def __init__(self, label: str) -> None:
        self.total = 0
        self._done = 0
        self._start = time.monotonic()
        self._bar = Bar(label, patience_seconds=0.0, keep=True)

    def update(self, n_bytes: int) -> None:
        """Advance by a number of bytes."""
        self._done += n_bytes
        rate = self._done / max(time.monotonic() - self._start, 1e-3)
        whole = f" of {self.total / 1e6:.1f}" if self.total else ""
        fraction = min(self._done / self.total, 1.0) if self.total else None
        self._bar.show(f"{self._done / 1e6:.1f}{whole} MB, {rate / 1e6:.1f} MB/s", fraction)

    def reset(self) -> None:
        """Start again from zero."""
        self._done = 0

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def can_draw() -> bool:
    """Return whether stderr is a terminal on which something may move."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


def print_line(text: str) -> None:
    """Write a line on stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def display(label: str, verbose: int, *, waiting: str = "", prefix: str = "") -> Iterator[Display]:
    """Yield what shows progress on stderr: nothing for verbose 0, a bar or lines for 1, every line for 2 and more.

    A bar begins with the label, and shows `waiting` before anything is known; lines begin with the prefix.
    """
    shown: Display
    if verbose <= 0:
        shown = Display()
    elif verbose >= 2:
        shown = Lines(sys.stderr, 0.0, prefix)
    else:
        shown = Bar(label, waiting) if can_draw() else Lines(sys.stderr, prefix=prefix)
    try:
        yield shown
    finally:
        shown.close()


@contextmanager
def progress(label: str, verbose: int) -> Iterator[Display | None]:
    """Yield what shows a run's progress on stderr; None for verbose 0, so that nothing need be measured for it."""
    with display(label, verbose, waiting="preparing; a first run compiles") as shown:
        yield shown if verbose > 0 else None


#: Is called with what is being done, or was just done, and with how many steps that completes.
Report = Callable[[str, int], None]


@contextmanager
def steps(label: str, total: int, verbose: int, noun: str = "steps") -> Iterator[Report]:
    """Yield a function that shows how many of `total` steps are done."""
    done = 0
    with display(label, verbose, prefix=f"{label}: ") as shown:

        def report(text: str, n_steps: int) -> None:
            nonlocal done
            done += n_steps
            shown.show(f"{done} of {total} {noun}; {text}", done / total)

        yield report
