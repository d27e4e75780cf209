"""Runs experiments one after the other and writes what came out: figures, tables, and one page for all of them."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finitesum.papers.claims import tally
from finitesum.papers.experiment import Context, Experiment, Outcome, Size, Table
from finitesum.papers.references import Check, check, record, recorded
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
    result = {
        "size": size,
        "verdicts": [
            {"claim": v.claim, "outcome": v.outcome, "findings": [f._asdict() for f in v.findings]}
            for v in outcome.verdicts
        ],
        "values": or_none({name: value.value for name, value in outcome.values.items()}),
        "timings": or_none(outcome.timings),
        "absent": dict(outcome.absent),
    }
    write_text(folder / "result.json", json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return (*(f"{d.name}.png" for d in outcome.drawings), *(f"{t.name}.csv" for t in outcome.tables), "result.json")


def _drawings(finished: Finished) -> list[dict[str, Any]]:
    """Return figures as the page shows them: as SVG, with widths in pixels, so that all have letters of one size."""
    name = finished.experiment.name
    return [
        {
            "svg": to_svg(drawing.figure, f"{name}: {drawing.caption}"),
            "caption": drawing.caption,
            "width": round(100.0 * drawing.figure.get_figwidth()),
        }
        for drawing in finished.outcome.drawings
    ]


def classes_of(table: Table) -> list[str]:
    """Return how the page sets each column: "name" for the first, "text" where most cells are words, "" for numbers."""
    columns = list(zip(*table.rows, strict=True)) if table.rows else [()] * len(table.header)
    texts = [sum(isinstance(cell, str) and not _NUMBER.match(cell) for cell in column) for column in columns]
    return ["name", *("text" if 2 * n > len(table.rows) else "" for n in texts[1:])]
