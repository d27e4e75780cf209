"""Tables 2 and 3 and Figure 2 of the curvature paper: logistic regressions on real data, passes and seconds to 1e-10."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from finitesum.papers.ciag import real_data
from finitesum.papers.ciag.claims import passes_to, verdicts
from finitesum.papers.ciag.real_data import (
    AUTOMATIC,
    LABELS,
    LAZY,
    MODERATE,
    PROGRAM_STEPS,
    SETS,
    TOL,
    TUNED_STEPS,
    DataSet,
    problem_of,
)
from finitesum.papers.data import missing
from finitesum.papers.experiment import Context, Drawing, Outcome, Table, Value
from finitesum.papers.runs import Plan, Run, Runs, curves_table
from finitesum.reporting.files import show
from finitesum.reporting.plots import Line, Panel, panels_figure

_STYLES = {**real_data.NAMES, "NIM, exact": "iqn"}


def run(context: Context) -> Outcome:
    """Run all methods on all data sets that are there."""
    wanted = [entry for entry in SETS if entry.is_quick or not context.is_quick]
    lacking = missing((entry.name for entry in wanted), context.data_dir)
    generated = [entry.name for entry in wanted if entry.has_stand_in and entry.name in lacking]
    absent = {name: how for name, how in lacking.items() if name not in generated}
    replaced = [f"{name} is absent, and a generated problem takes its place. {lacking[name]}" for name in generated]
    place = (context.is_quick, context.data_dir)
    cases = {entry.title(*place): entry for entry in wanted if entry.name not in absent}
    if not cases:
        return Outcome(absent=absent)
    runs, constants = Plan(
        cases=cases,
        labels=LABELS,
        problem=lambda entry: problem_of(entry, *place),
        trial=real_data.trial_of,
        limit=lambda entry, label: entry.max_passes["CIAG" not in label and "NIM" not in label],
        facts=real_data.smoothness_of,
        tol=TOL,
    ).run(context)
    problem_of.cache_clear()
    curves = ("data", "steps", "method", "passes", "seconds", "max |dF|")
    return Outcome(
        drawings=[
            Drawing("fig2", "Figure 2, with tuned steps: the largest gradient entry.", _figure(runs, TUNED_STEPS)),
            Drawing(
                "fig2-automatic",
                "The same with automatic steps: nothing was tuned. IAG begins where it has found L.",
                _figure(runs, AUTOMATIC),
            ),
        ],
        tables=[_table2(runs), _table3(runs, constants, cases), curves_table("fig2", curves, runs, "largest")],
        verdicts=verdicts(runs, list(cases)),
        values={  # lazy Newton is measured at whole passes: a step more or less
            f"passes, {label}, {title}, {kind}": Value(passes_to(found), 0.05, 1.01 if label == LAZY else 0.51)
            for (title, kind, label), found in runs.items()
        },
        notes=replaced,
        absent=absent,
        is_usual=not absent and len(replaced) == sum(entry.has_stand_in for entry in SETS),
        timings={
            f"seconds to {level:.0e}, {label}, {title}, {kind}": passes_to(found, level, "seconds")
            for (title, kind, label), found in runs.items()
            for level in (MODERATE, TOL)
        },
    )


def _figure(runs: Runs, kind: str) -> Any:
    panels = []
    for title in dict.fromkeys(title for title, _, _ in runs):
        for column, axis in (("passes", "effective passes"), ("seconds", "seconds, measuring not counted")):
            columns = {label: runs[title, kind, label].columns for label in LABELS[kind]}
            lines = [Line(label, c[column], c["largest"], _STYLES[label]) for label, c in columns.items()]
            panels.append(Panel(title, axis, "max |∂F|", lines, x_scale="log", y_limits=(0.3 * TOL, 3.0)))
    return panels_figure(panels, n_columns=2, height=2.6)


def _cell(found: Run | None) -> str:
    """Return passes / seconds; how far it came, where it came no further; a dash where nothing was run."""
    if found is None:
        return "–"
    passes, seconds = passes_to(found), passes_to(found, gives="seconds")
    if math.isfinite(passes):
        return f"{show(passes)} / {show(seconds)}"
    if found.diverged:
        return "diverges"
    return f"> {show(found.columns['passes'][-1])} ({found.columns['largest'].min():.0e})"


def _table2(runs: Runs) -> Table:
    labels = LABELS[AUTOMATIC]
    rows = [
        [title, kind, *(_cell(runs.get((title, kind, label))) for label in labels)]
        for title, kind in dict.fromkeys(key[:2] for key in runs)
    ]
    caption = (
        f"Table 2: effective passes / seconds to a largest gradient entry of {TOL:.0e}. In brackets: how far a run "
        f"came that did not get there. Automatic CIAG and A-CIAG visit some components twice in the first pass, and "
        f"automatic IAG finds L by some twenty products with the data first: both are counted."
    )
    return Table("table2", caption, ("data", "steps", *labels), rows)


def _table3(runs: Runs, constants: Mapping[str, Mapping[str, float]], cases: Mapping[str, DataSet]) -> Table:
    steps = [(label, kind) for label in ("A-CIAG", "CIAG") for kind in (TUNED_STEPS, PROGRAM_STEPS)]
    shown = [f"{label}: {'tuned' if kind == TUNED_STEPS else 'program'}" for label, kind in steps]
    rows = []
    for title, entry in cases.items():
        tuned = [runs[title, TUNED_STEPS, label].options["step_size"] for label in ("A-CIAG", "CIAG", "IAG")]
        program = [runs[title, PROGRAM_STEPS, label].options["step_size"] for label in ("A-CIAG", "CIAG")]
        (multiple, extrapolation), (slow,), (iag,) = entry.tuned
        rows.append(
            [
                title,
                f"{constants[title]['tight']:.4g}",
                f"{constants[title]['trace']:.4g}",
                f"{tuned[0]:.3g} = {multiple:g}/L, {extrapolation:g}",
                f"{program[0]:.3g}, {entry.program[1]:g}",
                f"{tuned[1]:.3g} = {slow:g}/L",
                f"{program[1]:.3g}",
                f"{tuned[2]:.3g} = {iag:g}/(mL)",
            ]
        )
    caption = (
        "Table 3: step sizes for the mean (and the extrapolation of A-CIAG). The paper's values are not known to us. "
        "'Tuned' is the best of our grids, 'program' the default of the authors' program, or its example where it has "
        "one (a9a). NIM has step 1, SAG 1 / (trace bound); automatic steps need no entry."
    )
    return Table("table3", caption, ("data", "L", "trace bound", *shown, "IAG: tuned"), rows)
