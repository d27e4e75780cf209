"""The curvature paper's two remedies for a start far from the optimum: restarts with a longer step, and a warm start."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitesum.datasets import make_logistic
from finitesum.evaluation.smoothness import full_smoothness, strong_convexity
from finitesum.papers.claims import Verdict, no_more, or_inf
from finitesum.papers.experiment import Context, Drawing, Outcome, Table, Value, load, missing
from finitesum.papers.runs import NAMES, Plan, Runs, Trial, find_minimum
from finitesum.problems.linear import Problem
from finitesum.reporting.files import show
from finitesum.reporting.plots import Line, Panel, panels_figure

#: What the tables ask for, the part of the theory's step that the schedule begins with, and its length in passes.
LEVEL, SHORT, LENGTH = 1e-10, 1.0 / 64.0, 1
MAX_PASSES = {"quick": 60, "full": 300}
METHODS = ("CIAG", "A-CIAG")


class Case(NamedTuple):
    """A problem and a start."""

    title: str
    data: str  # of the registry; empty for generated rows
    scale: float  # of the start's normal numbers
    batch_size: int


CASES = (
    Case("generated", "", 0.0, 1),
    Case("generated (far start)", "", 10.0, 1),
    Case("mushrooms", "mushrooms", 0.0, 5),
    Case("a9a", "a9a", 0.0, 5),
)

SHORT_STEP, THEORY, RESTARTED = "1/64 of the theory's step", "the theory's step", "restarts from 1/64"
WARM, BOTH, AUTOMATIC = "the theory's, warm start", "restarts and warm start", "automatic"
_STYLES = {SHORT_STEP: "fg", THEORY: "ciag", RESTARTED: "a-ciag", WARM: "iag", BOTH: "sag", AUTOMATIC: "nim"}


@lru_cache(maxsize=2)
def problem_of(case: Case, data_dir: Path | None) -> Problem:
    """Return the logistic regression of a case."""
    data = load(case.data, data_dir) if case.data else make_logistic(500, 51, noise=0.05, seed=0)
    return Problem.linear(data.rows, data.targets(), alpha=1.0 / data.n_rows, batch_size=case.batch_size)


def trial_of(_case: Case, problem: Problem, kind: str, label: str) -> Trial:
    """Return a method with one of the schedules."""
    smoothness, mu = full_smoothness(problem), strong_convexity(problem)
    longest = 2.0 / (mu + smoothness) if label == "CIAG" else 0.5 / smoothness
    options: dict[str, Any] = {} if label == "CIAG" else {"extrapolation": "auto"}
    if kind in (THEORY, WARM):
        options["step_size"] = "theory"
    elif kind != AUTOMATIC:
        options["step_size"] = SHORT * longest
    if kind in (RESTARTED, BOTH):
        options["restart"] = LENGTH
    if kind in (WARM, BOTH):
        options["warm_start_method"] = "sag"
    return Trial(NAMES[label], options, problem.batch_size, counts_start=False)


def run(context: Context) -> Outcome:
    """Run CIAG and A-CIAG with all schedules."""
    absent = missing([case.data for case in CASES if case.data], context.data_dir)
    limit = MAX_PASSES[context.size]
    runs, _ = Plan(
        cases={case.title: case for case in CASES if case.data not in absent},
        labels=dict.fromkeys(_STYLES, METHODS),
        problem=lambda case: problem_of(case, context.data_dir),
        trial=trial_of,
        limit=lambda _case, _label: limit,
        facts=find_minimum,
        start=lambda case, problem: case.scale * np.random.default_rng(0).standard_normal(problem.dim),
    ).run(context)
    needed = {key: found.first("gap", LEVEL) for key, found in runs.items()}
    titles = list(dict.fromkeys(title for title, _, _ in runs))
    values = {
        f"passes, {label}, {kind}, {title}": Value(passes, relative=0.1, absolute=1.01)
        for (title, kind, label), passes in needed.items()
    }
    drawing = Drawing("restart", "F − F* by effective passes, with each schedule.", _figure(runs, titles, limit))
    return Outcome([drawing], [_table(needed, titles)], _verdicts(needed, titles), values, absent=absent)


def _figure(runs: Runs, titles: Sequence[str], limit: int) -> Any:
    panels = []
    for title in titles:
        for label in METHODS:
            lines = [Line(kind, *runs[title, kind, label].gap_curve(), style) for kind, style in _STYLES.items()]
            name, axis, right = f"{label}: {title}", "effective passes", min(limit, 60)
            panels.append(Panel(name, axis, "F − F*", lines, x_limits=(0.0, right), y_limits=(1e-15, 1e2)))
    return panels_figure(panels, n_columns=2, height=2.7)


def _table(needed: Mapping[Any, float], titles: Sequence[str]) -> Table:
    header = ("method", "schedule", *titles)
    rows = [[label, kind, *(show(needed[t, kind, label]) for t in titles)] for label in METHODS for kind in _STYLES]
    return Table("passes", f"Effective passes to F − F* ≤ {LEVEL:.0e}. A dash: not reached.", header, rows)


def _verdicts(needed: Mapping[Any, float], titles: Sequence[str]) -> list[Verdict]:
    def faster(claim: str, mine: str, theirs: Sequence[str], slack: float = 1.0, of_paper: bool = True) -> Verdict:
        reached = {key: or_inf(passes) for key, passes in needed.items()}
        pairs = {
            f"{label} on {title}": (reached[title, mine, label], min(reached[title, kind, label] for kind in theirs))
            for label in METHODS
            for title in titles
        }
        # Noisy: whole passes are counted, where one more or less changes the outcome.
        return no_more(claim, pairs, slack, of_paper=of_paper, noisy=True)

    schedules = [kind for kind in _STYLES if kind != AUTOMATIC]
    return [
        faster("Restarts with a longer step need no more passes than the short step alone", RESTARTED, [SHORT_STEP]),
        faster("Restarts lose at most a fifth against the theory's step from the start", RESTARTED, [THEORY], 1.2, False),
        faster("A warm start by SAG needs no more passes than none", WARM, [THEORY], of_paper=False),
        faster(
            "The automatic step needs no more passes than the best schedule (within 5 %)",
            AUTOMATIC,
            schedules,
            1.05,
            of_paper=False,
        ),
    ]
