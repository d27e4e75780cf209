"""The claims of Table 2 of the curvature paper, and those of ours, decided by passes and seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from finitesum.papers.ciag.real_data import (
    AUTOMATIC,
    LABELS,
    LAZY,
    METHODS,
    MODERATE,
    PROGRAM_STEPS,
    TOL,
    TUNED_STEPS,
)
from finitesum.papers.claims import Verdict, compared, or_inf
from finitesum.papers.runs import Run, Runs
from finitesum.reporting.files import show

Numbers = dict[str, dict[str, float]]


def passes_to(found: Run, level: float = TOL, gives: str = "passes") -> float:
    """Return the passes, or seconds, to a level of the largest entry of the gradient; NaN where it was not reached."""
    return found.first("largest", level, gives)


def verdicts(runs: Runs, titles: Sequence[str]) -> list[Verdict]:
    """Return what became of the paper's claims, and of ours."""

    def numbers(kind: str, gives: str = "passes", level: float = TOL) -> Numbers:
        """Return what each method needs on each data set, and as "NIM" the better of its two solvers."""
        found = {t: {m: or_inf(passes_to(runs[t, kind, m], level, gives)) for m in LABELS[kind]} for t in titles}
        return {
            t: row | {"NIM": min(row.get(f"NIM, {s}", math.inf) for s in ("inexact", "exact"))}
            for t, row in found.items()
        }

    def joined(labels: Sequence[str], gives: str) -> Numbers:
        """Return what methods need with tuned and with automatic steps."""
        kinds = {kind: numbers(kind, gives) for kind in (TUNED_STEPS, AUTOMATIC)}
        return {t: {f"{m}, {kind}": row[t][m] for m in labels for kind, row in kinds.items()} for t in titles}

    passes, seconds = numbers(TUNED_STEPS), numbers(TUNED_STEPS, "seconds")
    slow = ("CIAG", "SAG", "IAG")
    mnist = {title: row for title, row in passes.items() if title == "mnist"}
    steps = {
        title: {"automatic": row["A-CIAG"], "tuned": passes[title]["A-CIAG"]}
        for title, row in numbers(AUTOMATIC).items()
    }
    times = joined(("A-CIAG", "NIM"), "seconds")
    with_lazy = {
        title: {LAZY: row[LAZY], **times[title], "best": min(joined(METHODS, "seconds")[title].values())}
        for title, row in numbers(AUTOMATIC, "seconds").items()
    }
    found = [
        compared(
            "A-CIAG needs about as many passes as NIM (within a factor of 1.5)",
            passes,
            ("A-CIAG", "NIM"),
            lambda row: row["A-CIAG"] <= 1.5 * row["NIM"] < math.inf,
        ),
        compared(
            "A-CIAG needs no more passes than CIAG (within half a pass)",
            passes,
            ("A-CIAG", "CIAG"),
            lambda row: row["A-CIAG"] <= row["CIAG"] + 0.5,
        ),
        compared(
            "A-CIAG takes the least time of all",
            seconds,
            METHODS,
            lambda row: row["A-CIAG"] <= min(row[m] for m in METHODS),
            "s",
            noisy=True,
        ),
        compared(
            f"SAG reaches {show(MODERATE)} in less time than A-CIAG",
            numbers(TUNED_STEPS, "seconds", MODERATE),
            ("SAG", "A-CIAG"),
            lambda row: row["SAG"] < row["A-CIAG"],
            "s",
            noisy=True,
        ),
        compared(
            "A-CIAG needs fewer passes to 1e-10 than SAG and IAG",
            passes,
            ("A-CIAG", "SAG", "IAG"),
            lambda row: row["A-CIAG"] < min(row["SAG"], row["IAG"]),
        ),
        compared(
            "On mnist CIAG, SAG and IAG are slow (more than twice A-CIAG's passes)",
            mnist,
            ("A-CIAG", *slow),
            lambda row: min(row[m] for m in slow) > 2.0 * row["A-CIAG"],
        ),
        compared(
            "A-CIAG with its automatic step needs at most one pass more than with the best tuned one",
            steps,
            ("automatic", "tuned"),
            lambda row: row["automatic"] <= row["tuned"] + 1.1,
            of_paper=False,
        ),
        compared(
            "Lazy Newton, which is ours, takes less time than the fastest of the paper's methods, tuned or automatic",
            with_lazy,
            (LAZY, *next(iter(times.values()))),
            lambda row: row[LAZY] < row["best"],
            "s",
            of_paper=False,
            noisy=True,
        ),
        compared(
            "A-CIAG converges with the default of the authors' program",
            numbers(PROGRAM_STEPS),
            ("A-CIAG",),
            lambda row: row["A-CIAG"] < math.inf,
            of_paper=False,
        ),
    ]
    return [verdict for verdict in found if verdict.findings]
