"""The claims of Table 2 of the curvature paper, and those of ours, decided by passes and seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from finitesum.papers.experiment import Verdict, verdict
from finitesum.papers.runs import Run, listed, or_inf, show

#: The largest entry of the gradient that runs end at, and what counts as a moderate accuracy.
TOL, MODERATE = 1e-10, 1e-3

PROGRAM_STEPS, TUNED_STEPS, AUTOMATIC = "the program's step", "tuned", "automatic"
KINDS = (TUNED_STEPS, AUTOMATIC, PROGRAM_STEPS)
METHODS = ("A-CIAG", "CIAG", "NIM, inexact", "NIM, exact", "SAG", "IAG")
LAZY = "Lazy Newton"
LABELS = {TUNED_STEPS: METHODS, AUTOMATIC: (*METHODS, LAZY), PROGRAM_STEPS: METHODS[:2]}

#: Runs by data set, kind of step and label of the method.
Runs = dict[tuple[str, str, str], Run]


def passes_to(found: Run, level: float = TOL, gives: str = "passes") -> float:
    """Return the passes, or seconds, to a level of the largest entry of the gradient; NaN where it was not reached."""
    return found.first("largest", level, gives)


def verdicts(runs: Runs, titles: Sequence[str]) -> list[Verdict]:
    """Return what became of the paper's claims, and of ours."""

    def of(title: str, label: str, kind: str = TUNED_STEPS, gives: str = "passes", level: float = TOL) -> float:
        if label == "NIM":  # the better of its two solvers
            return min(of(title, f"NIM, {solver}", kind, gives, level) for solver in ("inexact", "exact"))
        return or_inf(passes_to(runs[title, kind, label], level, gives))

    slow = ("CIAG", "SAG", "IAG")
    return [
        verdict(
            "A-CIAG needs about as many passes as NIM (within a factor of 1.5)",
            titles,
            lambda t: of(t, "A-CIAG") <= 1.5 * of(t, "NIM") < math.inf,
            lambda t: listed({"A-CIAG": of(t, "A-CIAG"), "NIM": of(t, "NIM")}, "passes"),
        ),
        verdict(
            "A-CIAG needs no more passes than CIAG (within half a pass)",
            titles,
            lambda t: of(t, "A-CIAG") <= of(t, "CIAG") + 0.5,
            lambda t: listed({m: of(t, m) for m in ("A-CIAG", "CIAG")}, "passes"),
        ),
        verdict(
            "A-CIAG takes the least time of all",
            titles,
            lambda t: of(t, "A-CIAG", gives="seconds") <= min(of(t, m, gives="seconds") for m in METHODS[1:]),
            lambda t: listed({m: of(t, m, gives="seconds") for m in METHODS}, "s"),
            noisy=True,
        ),
        verdict(
            f"SAG reaches {show(MODERATE)} in less time than A-CIAG",
            titles,
            lambda t: of(t, "SAG", gives="seconds", level=MODERATE) < of(t, "A-CIAG", gives="seconds", level=MODERATE),
            lambda t: listed({m: of(t, m, gives="seconds", level=MODERATE) for m in ("SAG", "A-CIAG")}, "s"),
            noisy=True,
        ),
        verdict(
            "A-CIAG needs fewer passes to 1e-10 than SAG and IAG",
            titles,
            lambda t: of(t, "A-CIAG") < min(of(t, "SAG"), of(t, "IAG")),
            lambda t: listed({m: of(t, m) for m in ("A-CIAG", "SAG", "IAG")}, "passes"),
        ),
        *[
            verdict(
                "On mnist CIAG, SAG and IAG are slow (more than twice A-CIAG's passes)",
                [title],
                lambda t: min(of(t, m) for m in slow) > 2.0 * of(t, "A-CIAG"),
                lambda t: listed({m: of(t, m) for m in ("A-CIAG", *slow)}, "passes"),
            )
            for title in titles
            if title == "mnist"
        ],
        verdict(
            "A-CIAG with its automatic step needs at most one pass more than with the best tuned one",
            titles,
            lambda t: of(t, "A-CIAG", AUTOMATIC) <= of(t, "A-CIAG") + 1.1,
            lambda t: listed({"automatic": of(t, "A-CIAG", AUTOMATIC), "tuned": of(t, "A-CIAG")}, "passes"),
            of_paper=False,
        ),
        verdict(
            "Lazy Newton, which is ours, takes less time than the fastest of the paper's methods, tuned or automatic",
            titles,
            lambda t: (
                of(t, LAZY, AUTOMATIC, "seconds") < min(of(t, m, k, "seconds") for m in METHODS for k in KINDS[:2])
            ),
            lambda t: listed(
                {LAZY: of(t, LAZY, AUTOMATIC, "seconds")}
                | {f"{m}, {k}": of(t, m, k, "seconds") for m in ("A-CIAG", "NIM") for k in KINDS[:2]},
                "s",
            ),
            of_paper=False,
            noisy=True,
        ),
        verdict(
            "A-CIAG converges with the default of the authors' program",
            titles,
            lambda t: of(t, "A-CIAG", PROGRAM_STEPS) < math.inf,
            lambda t: listed({"A-CIAG": of(t, "A-CIAG", PROGRAM_STEPS)}, "passes"),
            of_paper=False,
        ),
    ]
