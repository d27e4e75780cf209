"""Runs experiments one after the other and writes what came out: figures, tables, and one page for all of them.

What came out may be compared with recorded values: `references.json`, by experiment and size. Recorded are the outcomes of
verdicts that do not rest on seconds, and the values that an experiment names, each with the distance at which another
machine may find it: rounding differs, and a pass count jumps by one near a threshold.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitesum.papers.claims import tally
from finitesum.papers.experiment import Context, Experiment, Outcome, Size, Table, Value
from finitesum.reporting.files import write_bytes, write_csv, write_text
from finitesum.reporting.plots import to_png, to_svg
from finitesum.reporting.report import render

PAGE = "reproduce.html"

INTRO = {
    "quick": "The quick form: the same methods and steps as the full one, with fewer passes, seeds and data sets where "
    "those take long.",
    "full": "The full form: the papers' sizes and repeats, on the data that are on this machine.",
}

#: How the cells of a column of numbers begin.
_NUMBER = re.compile(r"[-–<>≈\d]")


class Check(NamedTuple):
    """What a comparison found."""

    n_compared: int  # values and verdicts that have a recorded counterpart
    differences: tuple[str, ...]  # a sentence for each that differs
    n_missing: int  # recorded ones that this run has not, because its data is not that of the record

    @property
    def sentence(self) -> str:
        """What it found, in words."""
        if self.n_compared + self.n_missing == 0:
            return "Nothing is recorded for this experiment and size, so that nothing was compared."
        if self.differences:
            return f"Differs from the recorded values: {' '.join(self.differences)}"
        rest = ""
        if self.n_missing:
            rest = f"; {self.n_missing} more could not be compared, because the data is not that of the record"
        if self.n_compared == 1:
            return f"The one value or verdict that is recorded was found again{rest}."
        return f"All {self.n_compared} values and verdicts agree with the recorded ones{rest}."


@dataclass(frozen=True)
class Finished:
    """An experiment that was run."""

    experiment: Experiment
    outcome: Outcome
    folder: Path  # of its files
    files: tuple[str, ...]  # their names
    check: Check | None = None  # how it compares with recorded values, where that was asked for


def run_experiments(
    experiments: Sequence[Experiment],
    out: Path,
    *,
    size: Size = "full",
    data_dir: Path | None = None,
    verbose: int = 0,
    checked: bool = False,
    record_to: Path | None = None,
    on_done: Callable[[Finished], None] | None = None,
    command: str = "",
) -> list[Finished]:
    """Return the experiments that were run, with their files written; the page is written again after each.

    The folder `out` gets a folder for each experiment, and the page, which shows the `command`; units of work that it holds
    are not done again. Outcomes may be `checked` against recorded values, or recorded in a file; `on_done` is called with
    each. The rest is as for `Context`.
    """
    done, sections = list[Finished](), list[dict[str, Any]]()
    for experiment in experiments:
        folder = out / experiment.slug
        context = Context(size, folder, data_dir, verbose, experiment.name)
        outcome = experiment.run(context)
        compared = check(outcome, recorded(experiment.name, size)) if checked else None
        if record_to is not None:
            record(record_to, experiment.name, size, outcome)
        finished = Finished(experiment, outcome, folder, _write_files(folder, size, outcome), compared)
        done.append(finished)
        sections.append({"done": finished, "drawings": _drawings(finished)})
        title = "The experiments of both papers" if len(done) > 1 else experiment.name
        content = {"title": title, "intro": INTRO[size], "sections": sections, "command": command}
        write_text(out / PAGE, render("papers.html.j2", **content, tally=tally, classes_of=classes_of))
        if on_done is not None:
            on_done(finished)
    return done


def _write_files(folder: Path, size: Size, outcome: Outcome) -> tuple[str, ...]:
    """Write the figures, the tables and the result; return the names of the files."""

    def or_none(values: Mapping[str, float]) -> dict[str, float | None]:
        return {name: value if math.isfinite(value) else None for name, value in values.items()}

    for drawing in outcome.drawings:
        write_bytes(folder / f"{drawing.name}.png", to_png(drawing.figure))
    for table in outcome.tables:
        write_csv(folder / f"{table.name}.csv", table.header, table.rows)
    verdicts = []
    for v in outcome.verdicts:
        verdicts.append({"claim": v.claim, "outcome": v.outcome, "findings": [f._asdict() for f in v.findings]})
    values = or_none({name: value.value for name, value in outcome.values.items()})
    figures = {"values": values, "timings": or_none(outcome.timings)}
    result = {"size": size, "verdicts": verdicts, **figures, "absent": dict(outcome.absent)}
    write_text(folder / "result.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return (*(f"{d.name}.png" for d in outcome.drawings), *(f"{t.name}.csv" for t in outcome.tables), "result.json")


def _drawings(finished: Finished) -> list[dict[str, Any]]:
    """Return figures as the page shows them: as SVG, with widths in pixels, so that all have letters of one size."""
    shown = []
    for _, caption, figure in finished.outcome.drawings:
        svg, width = to_svg(figure, f"{finished.experiment.name}: {caption}"), round(100.0 * figure.get_figwidth())
        shown.append({"svg": svg, "caption": caption, "width": width})
    return shown


def classes_of(table: Table) -> list[str]:
    """Return how the page sets each column: "name" for the first, "text" where most cells are words, "" for numbers."""
    columns = list(zip(*table.rows, strict=True)) if table.rows else [()] * len(table.header)
    texts = [sum(isinstance(cell, str) and not _NUMBER.match(cell) for cell in column) for column in columns]
    return ["name", *("text" if 2 * n > len(table.rows) else "" for n in texts[1:])]


def recorded(name: str, size: Size) -> dict[str, Any]:
    """Return the recorded values of an experiment: "verdicts" by claim and "values" by name; empty ones where none are."""
    text = resources.files("finitesum.papers").joinpath("references.json").read_text(encoding="utf-8")
    found = json.loads(text).get(name, {}).get(size, {})
    return {"verdicts": found.get("verdicts", {}), "values": found.get("values", {})}


def check(outcome: Outcome, references: Mapping[str, Any]) -> Check:
    """Return how an outcome compares with recorded values."""
    is_whole = outcome.is_usual and not outcome.absent
    differences: list[str] = []
    n_compared = n_missing = 0
    for key, reference in references["values"].items():
        value = outcome.values.get(key)
        if value is None:
            n_missing += 1
            if is_whole:
                differences.append(f"{key} is recorded, but was not found.")
            continue
        n_compared += 1
        expected = math.nan if reference is None else float(reference)
        if not agrees(value, expected):
            within = value.absolute + value.relative * abs(expected)
            differences.append(f"{key} is {value.value:.6g}, recorded is {expected:.6g} (within {within:.2g}).")
    verdicts = references["verdicts"]
    if not is_whole:  # the cases are not those that were recorded
        return Check(n_compared, tuple(differences), n_missing + len(verdicts))
    outcomes = {verdict.claim: verdict.outcome for verdict in outcome.verdicts}
    differences += [
        f"{claim!r}: {outcomes.get(claim)}, recorded is {expected}."
        for claim, expected in verdicts.items()
        if outcomes.get(claim) != expected
    ]
    return Check(n_compared + len(verdicts), tuple(differences), n_missing)


def agrees(value: Value, expected: float) -> bool:
    """Return whether a value agrees with the recorded one."""
    return bool(np.isclose(value.value, expected, value.relative, value.absolute, equal_nan=True))


def record(path: Path, name: str, size: Size, outcome: Outcome) -> None:
    """Write an outcome into a file of recorded values, in place of what it has of this experiment and size.

    Where data is absent, the values of the rest are recorded, and no verdicts, which depend on all cases. A ValueError says
    that the cases are not the usual ones, or that data is absent of which there are recorded values or verdicts.
    """
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    old = known.get(name, {}).get(size, {"verdicts": {}, "values": {}})
    loses = bool(outcome.absent) and (bool(old["verdicts"]) or not old["values"].keys() <= outcome.values.keys())
    if loses or not outcome.is_usual:
        raise ValueError(f"{name} lacks {', '.join(outcome.absent) or 'a stand-in'}: record it where its cases are usual.")
    verdicts = {v.claim: v.outcome for v in outcome.verdicts if not (v.noisy or outcome.absent)}
    rounded = {key: float(f"{value.value:.8g}") for key, value in outcome.values.items()}
    values = {key: None if math.isnan(number) else number for key, number in rounded.items()}
    known.setdefault(name, {})[size] = {"verdicts": verdicts, "values": values}
    write_text(path, json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
