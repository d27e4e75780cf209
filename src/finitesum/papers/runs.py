"""Runs of methods on smooth problems, measured after every pass, for the experiments of the curvature paper.

Passes are component gradients evaluated by components. Measuring is neither counted nor timed, as in the authors' code, and
no pass is charged for confirming the end: `finitesum.minimize` does that.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import as_method
from finitesum.methods.base import Method
from finitesum.methods.curvature.taylor_model import rebuilt
from finitesum.papers.experiment import Context, Table, Unit
from finitesum.problems.linear import Problem
from finitesum.reporting.report import small_like
from finitesum.running.driver import minimize
from finitesum.running.sampling import order_of_pass

#: The names of methods by their labels in figures and tables.
_LABELS = ["A-CIAG", "CIAG", "NIM", "IQN", "SVRG2", "SAG", "AccSVRG", "IAG", "SAGA", "Newton", "Lazy Newton", "AFG"]
NAMES = {label: label.lower().replace(" ", "-") for label in _LABELS} | {"AccSVRG": "acc-svrg"}

#: What is measured after every pass.
COLUMNS = ("passes", "seconds", "objective", "largest")

#: A run whose largest entry of the gradient has grown by this factor has diverged.
DIVERGED = 1e8

#: F - F* at which rounding errors are all that is left.
ROUNDING = 1e-15


@dataclass(frozen=True)
class Trial:
    """A method with its parameters, and how it is run.

    `parts` does not change methods without snapshots, but for rounding errors; the others take a snapshot in each part.
    """

    method: str  # a name of `finitesum.methods.METHODS`
    options: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | None = None  # rows in a component; None for the method's own choice
    sampling: str | None = None  # the order of visits; None for the method's own
    parts: int = 1  # measurements in a pass
    whole_first: bool = True  # whether the first pass is in one part: automatic steps plan it as a whole
    counts_start: bool = True  # whether passes are counted that a method takes for its constants before the first visit


class Run(NamedTuple):
    """The figures of a run, a row for the start and one after each pass; "gap" is the objective less the minimum."""

    columns: Mapping[str, Vector]
    options: Mapping[str, Any]  # the method's numbers

    def first(self, column: str, level: float, gives: str = "passes") -> float:
        """Return the passes (or another column) at which a column first was at most a level; else NaN."""
        reached = np.flatnonzero(self.columns[column] <= level)
        return float(self.columns[gives][reached[0]]) if reached.size else math.nan

    @property
    def diverged(self) -> bool:
        """Whether it was left when its gradient had grown, or, in the first pass already, was not finite."""
        largest = self.columns["largest"]
        return largest.size == 1 or not largest[-1] <= max(10.0 * largest[0], 1.0)

    def gap_curve(self) -> tuple[Vector, Vector]:
        """Return passes and F - F* until rounding errors are all that is left of it."""
        gap = np.maximum(self.columns["gap"], 0.1 * ROUNDING)
        below = np.flatnonzero(gap <= ROUNDING)
        end = int(below[0]) + 1 if below.size else gap.size
        return self.columns["passes"][:end], gap[:end]


#: Runs by the title of the case, the kind of settings and the label of the method.
Runs = dict[tuple[str, str, str], Run]


class Plan(NamedTuple):
    """Runs of several methods on several problems."""

    cases: Mapping[str, Any]  # by title: what the following functions are given
    labels: Mapping[str, Sequence[str]]  # of the methods, by kind of settings
    problem: Callable[[Any], Problem]
    trial: Callable[[Any, Problem, str, str], Trial]  # for a case, its problem, a kind of settings and a label
    limit: Callable[[Any, str], float]  # effective passes at most, for a case and a label
    facts: Callable[[Problem], dict[str, Any]]  # what is to be known beside the runs, such as the minimum
    start: Callable[[Any, Problem], Vector | None] = lambda _case, _problem: None  # None: 0
    seed: Callable[[Any], int] = lambda _case: 0  # of the order of visits
    tol: float = 0.0  # as for `run_trial`

    def run(self, context: Context) -> tuple[Runs, dict[str, dict[str, Any]]]:
        """Return all runs, and the facts of each problem by its title; each is a unit of work."""
        settings = [(kind, label) for kind, labels in self.labels.items() for label in labels]
        units = []
        for title, case in self.cases.items():
            units.append(Unit(f"{title}-facts", partial(self._facts, case)))
            for kind, label in settings:
                work = partial(self._run, case, kind, label, self.limit(case, label), self.tol)
                units.append(Unit(f"{title}-{kind}-{label}", work))
        results = context.complete(units)
        facts = {title: results[f"{title}-facts"] for title in self.cases}
        runs = {
            (title, kind, label): as_run(results[f"{title}-{kind}-{label}"], facts[title].get("minimum", 0.0))
            for title in self.cases
            for kind, label in settings
        }
        return runs, facts

    def _facts(self, case: Any) -> dict[str, Any]:
        return self.facts(self.problem(case))

    def _run(self, case: Any, kind: str, label: str, max_passes: float, tol: float) -> dict[str, Any]:
        problem = self.problem(case)
        trial, x0 = self.trial(case, problem, kind, label), self.start(case, problem)
        return run_trial(problem, trial, max_passes=max_passes, tol=tol, seed=self.seed(case), x0=x0)


def curves_table(name: str, header: tuple[str, ...], runs: Runs, column: str) -> Table:
    """Return key, passes, seconds and another column of runs, by the measurement."""
    rows: list[list[str | float]] = []
    for key, run in runs.items():
        other = np.maximum(run.columns[column], 0.0)
        rows += [[*key, *row] for row in zip(run.columns["passes"], run.columns["seconds"], other, strict=True)]
    return Table(name, "", header, rows, on_page=False)


def run_trial(
    problem: Problem, trial: Trial, *, max_passes: float, tol: float = 0.0, seed: int = 0, x0: Vector | None = None
) -> dict[str, Any]:
    """Return the figures of a run from `x0`, or from 0, as JSON can hold them.

    It ends after `max_passes` effective passes, or when the largest entry of the gradient is at most `tol`; the order of
    visits has the `seed`.
    """
    method = as_method(trial.method, dict(trial.options))
    problem = problem.batched(trial.batch_size or method.default_batch_size(problem))
    _load_kernels(problem, method)
    start = time.perf_counter()
    state = method.init(problem, np.zeros(problem.dim) if x0 is None else x0)
    seconds = time.perf_counter() - start
    free = 0 if trial.counts_start else state.n_gradients
    rows = [_row(problem, state, seconds, state.n_gradients)]  # what counts of it does so from the first pass on
    orders = _orders(trial, trial.sampling or method.default_sampling, seed, problem.n_components)
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
    numbers = {name: value for name, value in trial.options.items() if isinstance(value, float)}
    return {"batch_size": problem.batch_size, "columns": columns, "options": numbers}


def _orders(trial: Trial, sampling: str, seed: int, m: int) -> Iterator[Indices]:
    """Yield the components to be visited between two measurements, without end."""
    for k in itertools.count():
        order = order_of_pass(sampling, seed, k, m)
        parts = 1 if k == 0 and trial.whole_first else min(trial.parts, m)
        yield from np.array_split(order, parts)


def _load_kernels(problem: Problem, method: Method) -> None:
    """Compile or load off the clock, on a tiny problem that goes through the same machine code."""
    small = small_like(problem).batched(1)
    state = method.init(small, np.zeros(small.dim))
    state = method.run_pass(small, state, np.arange(small.n_components))
    if hasattr(state, "model"):  # NIM and CIAG recompute its sums now and then
        rebuilt(small, state.model)


def _row(problem: Problem, state: Any, seconds: float, free: int) -> tuple[float, ...]:
    measures = evaluate(problem, state.x)
    passes = (state.n_gradients - free) / problem.n_components
    return float(passes), seconds, measures.objective, float(np.abs(measures.gradient).max())


def as_run(figures: Mapping[str, Any], minimum: float = 0.0) -> Run:
    """Return the run of figures, and of the minimum of the objective."""
    columns = {name: np.array(values, dtype=np.float64) for name, values in figures["columns"].items()}
    return Run({**columns, "gap": columns["objective"] - minimum}, figures.get("options", {}))


def find_minimum(problem: Problem) -> dict[str, Any]:
    """Return minimiser and minimum by Newton's method, run until rounding errors end it."""
    result = minimize(problem, method="newton", tol=1e-15, max_iter=100)
    return {"x": result.x.tolist(), "minimum": float(result.fun), "optimality": float(result.optimality)}


def follow(
    problem: Problem, method: Method, x0: Vector, optimum: Vector, every: int, max_visits: int, until: float = 0.0
) -> tuple[Vector, Vector]:
    """Return visits and ||w - w*||^2 after them, cyclic, from x0.

    It is measured after `every` visits, a divisor of the number of components or a multiple of it, and ends after
    `max_visits`, or when it is at most `until`.
    """
    m = problem.n_components
    state = method.init(problem, x0)
    visits, distances = [0], [float(np.sum((x0 - optimum) ** 2))]
    while visits[-1] < max_visits and distances[-1] > until:
        order = np.arange(visits[-1], visits[-1] + every) % m
        state = method.run_pass(problem, state, order)
        visits.append(visits[-1] + every)
        distances.append(float(np.sum((state.x - optimum) ** 2)))
        if not distances[-1] < 1e12 * max(distances[0], 1e-12):
            break
    return np.array(visits, dtype=np.float64), np.array(distances)


def slope(x: Vector, y: Vector) -> float:
    """Return the slope of the least-squares line."""
    return float(np.polyfit(x, y, 1)[0])
