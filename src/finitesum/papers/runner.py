"""Runs experiments one after the other and writes what came out: figures, tables, and one page for all of them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finitesum.papers.experiment import Context, Experiment, Outcome, Size, Table, Verdict
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
    """An experiment that was run.

    Parameters
    ----------
    experiment, outcome
        What was run, and what came out.
    folder
        Where its files are.
    files
        Their names.
    check
        How it compares with recorded values; None where that was not asked for.
    """

    experiment: Experiment
    outcome: Outcome
    folder: Path
    files: tuple[str, ...]
    check: Check | None = None


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

    Parameters
    ----------
    experiments
        Which.
    out
        The folder: a folder for each experiment, and the page. Units of work that it holds are not done again.
    size, data_dir, verbose
        As for `Context`.
    checked
        Whether the outcomes are compared with recorded values.
    record_to
        A file of recorded values that gets the outcomes.
    on_done
        Is called with each.
    command
        As the page shows it.
    """
    done: list[Finished] = []
    for experiment in experiments:
        folder = out / experiment.slug
        context = Context(size, folder, data_dir, verbose, experiment.name)
        outcome = experiment.run(context)
        compared = check(outcome, recorded(experiment.name, size)) if checked else None
        if record_to is not None:
            record(record_to, experiment.name, size, outcome)
        done.append(Finished(experiment, outcome, folder, _write_files(folder, size, outcome), compared))
        write_text(out / PAGE, _page(done, size, command))
        if on_done is not None:
            on_done(done[-1])
    return done


def _write_files(folder: Path, size: Size, outcome: Outcome) -> tuple[str, ...]:
    files = []
    for drawing in outcome.drawings:
        files.append(f"{drawing.name}.png")
        write_bytes(folder / files[-1], to_png(drawing.figure))
    for table in outcome.tables:
        files.append(f"{table.name}.csv")
        write_csv(folder / files[-1], table.header, table.rows)
    files.append("result.json")
    write_text(folder / files[-1], json.dumps(_as_plain(size, outcome), indent=1, ensure_ascii=False) + "\n")
    return tuple(files)


def _as_plain(size: Size, outcome: Outcome) -> dict[str, Any]:
    return {
        "size": size,
        "verdicts": [
            {"claim": v.claim, "outcome": v.outcome, "findings": [f._asdict() for f in v.findings]}
            for v in outcome.verdicts
        ],
        "values": {name: _or_none(value.value) for name, value in outcome.values.items()},
        "timings": {name: _or_none(seconds) for name, seconds in outcome.timings.items()},
        "absent": dict(outcome.absent),
    }


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _page(done: Sequence[Finished], size: Size, command: str) -> str:
    title = "The experiments of both papers" if len(done) > 1 else f"{done[0].experiment.name}"
    sections = [_section(finished) for finished in done]
    return render("papers.html.j2", title=title, intro=INTRO[size], sections=sections, command=command)


def _section(finished: Finished) -> dict[str, Any]:
    experiment, outcome = finished.experiment, finished.outcome
    return {
        "slug": experiment.slug,
        "name": experiment.name,
        "title": experiment.title,
        "source": ". ".join(part for part in (experiment.source, experiment.section) if part),
        "setting": experiment.setting,
        "notes": outcome.notes,
        "absent": outcome.absent,
        "tally": tally(outcome.verdicts),
        "drawings": [
            {
                "svg": to_svg(drawing.figure, f"{experiment.name}: {drawing.caption}"),
                "caption": drawing.caption,
                "width": round(
                    100.0 * drawing.figure.get_figwidth()
                ),  # in pixels, so that all have letters of one size
            }
            for drawing in outcome.drawings
        ],
        "tables": [
            {"caption": table.caption, "header": table.header, "rows": table.rows, "classes": classes_of(table)}
            for table in outcome.tables
            if table.on_page
        ],
        "verdicts": [_verdict(verdict) for verdict in outcome.verdicts],
        "check": "" if finished.check is None else finished.check.sentence,
        "folder": finished.folder.name,
        "files": finished.files,
    }


def _verdict(verdict: Verdict) -> Mapping[str, Any]:
    mood = {"holds": "good", "does not hold": "bad"}.get(verdict.outcome, "mixed")
    return {
        "claim": verdict.claim,
        "outcome": verdict.outcome,
        "findings": verdict.findings,
        "of_paper": verdict.of_paper,
        "mood": mood,
    }


def tally(verdicts: Sequence[Verdict]) -> str:
    """Return in a few words how many of the paper's claims hold; empty where it makes none.

    Examples
    --------
    >>> tally([Verdict("a", ()), Verdict("b", ()), Verdict("c", (), of_paper=False)])
    '2 claims: 2 hold in part or are undecided'
    """
    claims = [verdict for verdict in verdicts if verdict.of_paper]
    if not claims:
        return ""
    words = {
        "holds": ("holds", "hold"),
        "does not hold": ("does not hold", "do not hold"),
        "": ("holds in part or is undecided", "hold in part or are undecided"),
    }
    kinds = Counter(v.outcome if v.outcome in words else "" for v in claims)
    counts = ", ".join(f"{kinds[kind]} {several[kinds[kind] > 1]}" for kind, several in words.items() if kinds[kind])
    return f"{len(claims)} claim{'s' if len(claims) > 1 else ''}: {counts}"


def classes_of(table: Table) -> list[str]:
    """Return how the page sets each column: "name" for the first, "text" where most cells are words, "" for numbers.

    Examples
    --------
    >>> classes_of(Table("", "", ("data", "steps", "passes"), [["a9a", "tuned", "3.6"], ["w8a", "tuned", "–"]]))
    ['name', 'text', '']
    """
    columns = list(zip(*table.rows, strict=True)) if table.rows else [()] * len(table.header)
    texts = [sum(isinstance(cell, str) and not _NUMBER.match(cell) for cell in column) for column in columns]
    return ["name", *("text" if 2 * n > len(table.rows) else "" for n in texts[1:])]
