"""Runs of methods on smooth problems, measured after every pass, for the experiments of the curvature paper.

Passes are component gradients evaluated by components. Measuring is neither counted nor timed, as in the authors' code, and
no pass is charged for confirming the end: `finitesum.minimize` does that.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import as_method
from finitesum.methods.base import Method
from finitesum.methods.curvature.taylor_model import rebuilt
from finitesum.problems.linear import Problem
from finitesum.reporting.plots import Curve
from finitesum.reporting.report import small_like
from finitesum.running.driver import minimize
from finitesum.running.sampling import order_of_pass

#: What is measured after every pass.
COLUMNS = ("passes", "hessian_passes", "seconds", "objective", "optimality", "largest")

#: A run whose optimality has grown so much has diverged.
DIVERGED = 1e8


@dataclass(frozen=True)
class Trial:
    """A method with its parameters, and how it is run.

    Parameters
    ----------
    label
        Its name in figures and tables.
    method
        A name of `finitesum.methods.METHODS`.
    options
        Its parameters.
    batch_size
        Rows in a component; None for the method's own choice.
    sampling
        The order of visits; None for the method's own.
    parts
        Measurements in a pass. Methods with snapshots take a snapshot there; the others are not changed by it, but for
        rounding errors.
    whole_first
        Whether the first pass is in one part: automatic steps plan it as a whole.
    counts_start
        Whether passes are counted that a method takes for its constants, before the first visit.
    """

    label: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | None = None
    sampling: str | None = None
    parts: int = 1
    whole_first: bool = True
    counts_start: bool = True

    def settings(self) -> dict[str, Any]:
        """Return all that its figures depend on."""
        return {**asdict(self), "options": dict(self.options)}


@dataclass(frozen=True)
class Run:
    """The figures of a run, a row for the start and one after each pass."""

    label: str
    columns: Mapping[str, Vector]
    batch_size: int

    def first(self, column: str, level: float, gives: str = "passes", minimum: float = 0.0) -> float:
        """Return the passes (or another column) at which a column, less a minimum, first was at most a level; else NaN."""
        reached = np.flatnonzero(self.columns[column] - minimum <= level)
        return float(self.columns[gives][reached[0]]) if reached.size else math.nan

    @property
    def diverged(self) -> bool:
        """Whether it was left when its gradient had grown, or, in the first pass already, was not finite."""
        largest = self.columns["largest"]
        return largest.size == 1 or not largest[-1] <= max(10.0 * largest[0], 1.0)

    def best(self, column: str) -> float:
        """Return the smallest entry of a column."""
        return float(np.min(self.columns[column]))


def run_trial(
    problem: Problem,
    trial: Trial,
    *,
    max_passes: float,
    tol: float = 0.0,
    seed: int = 0,
    x0: Vector | None = None,
) -> dict[str, Any]:
    """Return the figures of a run, as JSON can hold them.

    Parameters
    ----------
    problem
        What is minimised.
    trial
        By what.
    max_passes
        It ends after this many effective passes.
    tol
        It ends when the largest entry of the gradient is at most this.
    seed
        Of the order of visits.
    x0
        The start; 0 without it.
    """
    method = as_method(trial.method, dict(trial.options))
    problem = problem.batched(trial.batch_size or method.default_batch_size(problem))
    sampling = trial.sampling or method.default_sampling
    _load_kernels(problem, method)
    start = time.perf_counter()
    state = method.init(problem, np.zeros(problem.dim) if x0 is None else x0)
    seconds = time.perf_counter() - start
    free = 0 if trial.counts_start else state.n_gradients
    rows = [_row(problem, state, seconds, state.n_gradients)]  # what counts of it does so from the first pass on
    orders = _orders(trial, sampling, seed, problem.n_components)
    limit = DIVERGED * max(rows[0][-1], 1e-300)
    while rows[-1][0] < max_passes and tol < rows[-1][-1] < limit:
        order = next(orders)
        start = time.perf_counter()
        state = method.run_pass(problem, state, order)
        seconds += time.perf_counter() - start
        if not np.isfinite(state.x).all():
            break
        rows.append(_row(problem, state, seconds, free))
    columns = {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}
    return {"label": trial.label, "batch_size": problem.batch_size, "columns": columns}


def _orders(trial: Trial, sampling: str, seed: int, m: int) -> Iterator[Indices]:
    """Yield the components to be visited between two measurements, without end."""
    for k in itertools.count():
        order = order_of_pass(sampling, seed, k, m)
        parts = 1 if k == 0 and trial.whole_first else min(trial.parts, m)
        yield from np.array_split(order, parts)


def as_run(figures: Mapping[str, Any]) -> Run:
    """Return the run of figures."""
    columns = {name: np.array(values, dtype=np.float64) for name, values in figures["columns"].items()}
    return Run(str(figures["label"]), columns, int(figures["batch_size"]))


def _load_kernels(problem: Problem, method: Method) -> None:
    """Compile or load off the clock, on a tiny problem that goes through the same machine code."""
    small = small_like(problem).batched(1)
    state = method.init(small, np.zeros(small.dim))
    state = method.run_pass(small, state, np.arange(small.n_components))
    if hasattr(state, "surrogate"):  # NIM and CIAG recompute its sums now and then
        rebuilt(small, state.surrogate)


def _row(problem: Problem, state: Any, seconds: float, free: int) -> tuple[float, ...]:
    measures = evaluate(problem, state.x)
    spent = (state.n_gradients - free) / problem.n_components
    hessians = state.n_hessians / problem.n_components
    largest = float(np.abs(measures.gradient).max())
    return (float(spent), float(hessians), seconds, measures.objective, measures.optimality, largest)


def find_minimum(problem: Problem) -> dict[str, Any]:
    """Return minimiser and minimum by Newton's method, run until rounding errors end it."""
    result = minimize(problem, method="newton", tol=1e-15, max_iter=100)
    return {"x": result.x.tolist(), "minimum": float(result.fun), "optimality": float(result.optimality)}


def follow(
    problem: Problem, method: Method, x0: Vector, optimum: Vector, *, every: int, max_visits: int, until: float = 0.0
) -> tuple[Vector, Vector]:
    """Return visits and ||w - w*||^2 after them, cyclic, from x0.

    Parameters
    ----------
    problem, method, x0
        What is run, and from where.
    optimum
        w*.
    every
        Visits between two measurements, a divisor of the number of components or a multiple of it.
    max_visits
        It ends after this many.
    until
        It ends when the squared distance is at most this.
    """
    m = problem.n_components
    state = method.init(problem, x0)
    visits, distances = [0], [float(np.sum((x0 - optimum) ** 2))]
    start = distances[0]
    while visits[-1] < max_visits and distances[-1] > until:
        order = np.arange(visits[-1], visits[-1] + every) % m
        state = method.run_pass(problem, state, order)
        visits.append(visits[-1] + every)
        distances.append(float(np.sum((state.x - optimum) ** 2)))
        if not distances[-1] < 1e12 * max(start, 1e-12):
            break
    return np.array(visits, dtype=np.float64), np.array(distances)


def gap_curve(run: Run, minimum: float, floor: float = 1e-15) -> Curve:
    """Return F - F* over the passes of a run, until rounding errors are all that is left of it."""
    gap = np.maximum(run.columns["objective"] - minimum, 0.1 * floor)
    below = np.flatnonzero(gap <= floor)
    end = int(below[0]) + 1 if below.size else gap.size
    return Curve(run.label, run.columns["passes"][:end], run.columns["seconds"][:end], gap[:end])


def slope(x: Vector, y: Vector) -> float:
    """Return the slope of the least-squares line."""
    return float(np.polyfit(x, y, 1)[0])


def or_inf(value: float) -> float:
    """Return a number, and infinity in place of NaN: what was not reached is worse than all that was."""
    return value if math.isfinite(value) else math.inf


def listed(numbers: Mapping[str, float], unit: str = "") -> str:
    """Return labels with their numbers as evidence, the unit behind the first number.

    Examples
    --------
    >>> listed({"A-CIAG": 4.1, "NIM, exact": 3.4, "IAG": math.inf}, "passes")
    'A-CIAG 4.1 passes, NIM exact 3.4, IAG not reached'
    """
    first = next((label for label, number in numbers.items() if math.isfinite(number)), None)
    parts = []
    for label, number in numbers.items():
        count = show(number) if math.isfinite(number) else "not reached"
        parts.append(f"{label.replace(', ', ' ')} {count}{f' {unit}' if unit and label == first else ''}")
    return ", ".join(parts)


def against(mine: float, theirs: float, unit: str = "passes") -> str:
    """Return two numbers as evidence.

    Examples
    --------
    >>> against(4.0, 5.5), against(44.0, math.inf)
    ('4 passes against 5.5', '44 passes against not reached')
    """
    words = [show(number) if math.isfinite(number) else "not reached" for number in (mine, theirs)]
    return f"{words[0]}{f' {unit}' if unit and math.isfinite(mine) else ''} against {words[1]}"


def show(value: float, digits: int = 3) -> str:
    """Return a number as tables show it: a dash where there is none."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "–"
