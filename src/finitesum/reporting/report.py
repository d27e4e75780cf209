"""Comparisons of methods, and their files: one HTML page that needs no network, PNG figures and CSV.

`run_methods` runs methods on one problem. A method that fails is a line of the table, with its message, and no crash.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from finitesum import __version__
from finitesum.methods import Method, as_method
from finitesum.methods.auto import choose
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows, DenseRows
from finitesum.reporting.files import show, write_bytes, write_csv, write_text
from finitesum.reporting.plots import Horizontal, optimality_figure, to_png, to_svg
from finitesum.running.driver import minimize
from finitesum.running.observers import Trace, TraceRow
from finitesum.running.scaled_columns import scales_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The optimalities for which the table gives passes and seconds.
LEVELS = (1e-4, 1e-6, 1e-8, 1e-10)


@dataclass(frozen=True)
class Outcome:
    """One method's run in a comparison."""

    name: str
    settings: str  # the method with its parameters
    trace: Trace
    success: bool
    message: str
    optimality: float = math.nan
    objective: float = math.nan
    n_passes: float = math.nan
    seconds: float = math.nan
    batch_size: int = 0
    x: Any = None

    @property
    def ended(self) -> str:
        """How it ended, in a few words; an error in full."""
        return self.message.split(":")[0].rstrip(".") if len(self.trace) else self.message

    def row(self) -> dict[str, Any]:
        """Return its line of the table, as plain values."""
        line: dict[str, Any] = {"method": self.name, "converged": self.success}
        for level in LEVELS:
            line[f"passes_to_{level:.0e}"] = self.trace.passes_to(level)
            line[f"seconds_to_{level:.0e}"] = self.trace.seconds_to(level)
        for name in ("optimality", "objective", "n_passes", "seconds", "batch_size", "message"):
            line[name] = getattr(self, name)
        return line


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods on one problem: a section of a report."""

    title: str
    tol: float
    outcomes: list[Outcome]
    facts: dict[str, str] = field(default_factory=dict)  # data and settings
    notes: list[str] = field(default_factory=list)  # sentences on what was found

    def ranked(self) -> list[Outcome]:
        """Return the outcomes, the best first: by passes those that converged, the others by how far they came."""

        def rank(outcome: Outcome) -> tuple[bool, float]:
            reached = outcome.optimality if math.isfinite(outcome.optimality) else math.inf
            passes = math.inf if math.isnan(outcome.n_passes) else outcome.n_passes
            return (not outcome.success, passes if outcome.success else reached)

        return sorted(self.outcomes, key=rank)

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame: a row for each run, with passes and seconds to each level."""
        import pandas as pd

        return pd.DataFrame([outcome.row() for outcome in self.outcomes]).set_index("method")

    def plot(self, *, x: Sequence[Horizontal] = ("n_passes", "seconds")) -> "Figure":
        """Return a figure of the optimality against passes, seconds, or both side by side."""
        curves = [(outcome.name, outcome.trace.to_dict()) for outcome in self.ranked() if len(outcome.trace)]
        return optimality_figure(curves, x, tol=self.tol, title=self.title if len(x) == 1 else "")

    def write(self, folder: str | Path) -> Path:
        """Write a page that opens offline, its figures and its tables to a folder, and return the page's path."""
        return write_report(Path(folder), [self], title=self.title)

    def __repr__(self) -> str:
        names = [outcome.name for outcome in self.outcomes]
        width = max(map(len, names), default=6)
        lines = [f"{'method':<{width}}  optimality    passes   seconds  ended"]
        for one in self.ranked():
            passes = "-" if math.isnan(one.n_passes) else f"{one.n_passes:.4g}"
            lines.append(f"{one.name:<{width}}  {one.optimality:10.1e}  {passes:>8}  {one.seconds:8.3g}  {one.ended}")
        return "\n".join([self.title, *lines, self.verdict()])

    def verdict(self) -> str:
        """Return a sentence on which method was first, by passes and by seconds."""
        reached = [outcome for outcome in self.outcomes if outcome.success]
        if not reached:
            return f"No method reached {self.tol:.0e}."
        by_passes = min(reached, key=lambda outcome: math.inf if math.isnan(outcome.n_passes) else outcome.n_passes)
        by_seconds = min(reached, key=lambda outcome: outcome.seconds)
        count = f"{len(reached)} of {len(self.outcomes)} methods reached {self.tol:.0e}"
        passes, seconds = f"{by_passes.n_passes:.4g}", f"{by_seconds.seconds:.3g} s"
        if by_passes is by_seconds:
            return f"{count}; {by_passes.name} first, after {passes} passes and {seconds}."
        fewest = f"{by_passes.name} with the fewest passes ({passes})"
        return f"{count}; {fewest} and {by_seconds.name} in the shortest time ({seconds})."


def run_methods(
    problem: Problem,
    methods: Sequence[str | Method],
    *,
    tol: float = 1e-10,
    max_iter: float = 100,
    options: dict[str, Any] | None = None,
    on_done: Callable[[Outcome], None] | None = None,
    time_limit: float | None = None,
    **settings: Any,
) -> list[Outcome]:
    """Run methods, given with parameters or by names, on a problem, one after the other, and return what each did.

    "auto" is a name, too. `options` are the parameters of methods given by names; the other settings are those of
    `finitesum.running.driver.minimize`. A method that raised an error has no trace, and the error as its message.
    """
    settings |= {"tol": tol, "max_iter": max_iter}
    outcomes = []
    for method in methods:
        own = options if isinstance(method, str) else None
        outcomes.append(_run(problem, method, own, settings, time_limit))
        if on_done is not None:
            on_done(outcomes[-1])
    return outcomes


def _run(
    problem: Problem,
    method: str | Method,
    options: dict[str, Any] | None,
    settings: dict[str, Any],
    time_limit: float | None,
) -> Outcome:
    """Return what a method did; an error of any kind is an outcome, too."""
    name = method if isinstance(method, str) else method.name
    try:
        chosen: Any = as_method(method, options) if method != "auto" else "auto"
        loaded = {**settings, "max_iter": 2, "verbose": 0, "callback": None}
        first = chosen if chosen != "auto" else choose(problem, float(settings["tol"])).method
        scales = scales_for(first, problem, settings.get("scale_columns", "auto"))
        loaded["scale_columns"] = scales is not None  # which takes kernels of its own
        minimize(small_like(problem), method=first, **loaded)  # kernels are loaded off the clock
        if time_limit is not None:
            settings = {**settings, "callback": _until(time.perf_counter() + time_limit, settings.get("callback"))}
        result = minimize(problem, method=chosen, **settings)
    except Exception as error:
        message = f"Failed: {error}" if isinstance(error, ValueError) else f"Failed: {type(error).__name__}: {error}"
        return Outcome(name, str(method), Trace(), False, message)
    alike = ("trace", "success", "message", "optimality", "n_passes", "seconds", "batch_size", "x")
    return Outcome(name, repr(result.method), objective=result.fun, **{key: result[key] for key in alike})


def _until(end: float, callback: Callable[[Any], Any] | None) -> Callable[[Any], bool]:
    """Return a callback that ends a run at a time, or where another one does."""

    def ends(report: Any) -> bool:
        answer = callback(report) if callback is not None else False
        return answer is True or time.perf_counter() >= end

    return ends


def small_like(problem: Problem) -> Problem:
    """Return a tiny problem that runs through the same machine code as a large one; components that are objects stay."""
    if isinstance(problem, FiniteSum):
        return problem
    rows, n = problem.rows, 4
    width = None if isinstance(rows, DenseRows) else rows.columns.dtype
    few = small_rows(rows.values.dtype, width, rows.intercept)
    targets = np.resize(problem.targets[:n], n)
    return replace(problem, rows=few, targets=targets, offsets=np.zeros(n), weights=np.full(n, 1 / n), batch_size=None)


def small_rows(dtype: Any, width: Any = None, intercept: int = 0) -> Any:
    """Return four rows of four columns: dense, or as CSR with indices of a given type."""
    n = 4
    if width is None:
        return DenseRows(np.eye(n, dtype=dtype), n, n, intercept)
    columns, starts = np.arange(n, dtype=width), np.arange(n + 1, dtype=width)
    return CSRRows(np.ones(n, dtype=dtype), columns, starts, n, n, intercept)


def write_report(folder: Path, sections: Sequence[Comparison], *, title: str, intro: str = "") -> Path:
    """Write a report of at least one section and return the path of its page.

    The folder gets ``report.html``, which holds its figures in itself, and for each section two figures as PNG,
    ``table.csv`` and ``curves.csv`` (their names begin with the section's title where there are several).
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for section in sections:
        words = "".join(c if c.isalnum() or c in "._" else " " for c in section.title.lower()).split()
        prefix = f"{'-'.join(words)[:60]}-" if len(sections) > 1 else ""
        pages.append(_write_section(folder, section, prefix))
    page = folder / "report.html"
    write_text(page, render("report.html.j2", levels=LEVELS, title=title, intro=intro, sections=pages))
    return page


def _write_section(folder: Path, section: Comparison, prefix: str) -> dict[str, Any]:
    """Write the figures and tables of a section; return what the page shows of it."""
    curves = [(outcome.name, outcome.trace.to_dict()) for outcome in section.ranked() if len(outcome.trace)]
    title = f"{section.facts.get('data', '').partition(':')[0]}: {section.title}".removeprefix(": ")
    for against, name in (("n_passes", "passes"), ("seconds", "seconds")):
        figure = optimality_figure(curves, [against], tol=section.tol, title=title)  # type: ignore[list-item]
        write_bytes(folder / f"{prefix}{name}.png", to_png(figure))
    both = optimality_figure(curves, ["n_passes", "seconds"], tol=section.tol)
    lines = [outcome.row() for outcome in section.outcomes]
    write_csv(folder / f"{prefix}table.csv", lines[0], (line.values() for line in lines))
    curve_rows = ((outcome.name, *row) for outcome in section.outcomes for row in outcome.trace)
    write_csv(folder / f"{prefix}curves.csv", ("method", *TraceRow._fields), curve_rows)
    return {
        "section": section,
        "figure": to_svg(both, f"{title}; optimality against passes and against seconds"),
        "files": [f"{prefix}{name}" for name in ("passes.png", "seconds.png", "table.csv", "curves.csv")],
    }


def render(template: str, **content: Any) -> str:
    """Return a page: a file of the folder of templates with its content; version and time are added."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    strict: Any = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    environment = Environment(loader=PackageLoader("finitesum.reporting", "templates"), autoescape=True, **strict)
    environment.filters.update(number=show, power=partial(show, spec=".1e"))
    written = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    return environment.get_template(template).render(version=__version__, written=written, **content)
