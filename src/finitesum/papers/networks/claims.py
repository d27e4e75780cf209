"""The paper's claims about networks as measured statements.

"AdaHB reaches a lower training loss than the others, and a test accuracy that is at least as good" [1, section 5.2].
A claim is decided for each set of images by itself:

- a *loss* claim holds where AdaHB's final loss is lower in every repeat, does not hold where it is lower in none, and is
  undecided between;
- an *accuracy* claim holds where AdaHB's mean accuracy is at least the other's, does not hold where it is lower by more
  than two standard errors (binomial: the test set is finite), and is undecided between.

Every method has the alpha that suits it best, chosen for each repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from finitesum.papers.claims import Finding, Verdict, or_inf
from finitesum.papers.networks.methods import DECAYED, METHODS, OURS, OURS_BY_STEP, RIVALS
from finitesum.papers.networks.results import By, Results, Row, best_rows

Measure = Literal["loss", "accuracy"]

_BY: dict[By, str] = {"test_accuracy": "alpha by final test accuracy", "train_loss": "alpha by training loss"}


@dataclass(frozen=True)
class Claim:
    """Says that AdaHB is better than another method: has a lower training loss, or a test accuracy at least as good."""

    theirs: str  # the name of the other method
    measure: Measure
    by: By  # how both methods' alphas are chosen
    of_paper: bool = False

    @property
    def sentence(self) -> str:
        """The claim in words."""
        what = "a lower training loss than" if self.measure == "loss" else "a test accuracy at least as good as"
        return f"{METHODS[OURS].label} reaches {what} {METHODS[self.theirs].label} ({_BY[self.by]})"


def claims() -> tuple[Claim, ...]:
    """Return all claims: the paper's, those about the two schedules, and the control with the same decay for all."""
    paper: tuple[tuple[Measure, By], ...] = (
        ("loss", "test_accuracy"),
        ("loss", "train_loss"),
        ("accuracy", "test_accuracy"),
    )
    ours: tuple[tuple[Measure, By], ...] = (("loss", "train_loss"), ("accuracy", "test_accuracy"))
    return (
        *(Claim(rival, measure, by, of_paper=True) for measure, by in paper for rival in RIVALS),
        *(Claim(OURS_BY_STEP, measure, by) for measure, by in ours),
        *(Claim(rival + DECAYED, measure, by) for measure, by in ours for rival in RIVALS),
    )


def verdicts(results: Sequence[Results]) -> list[Verdict]:
    """Return what became of every claim; one whose methods were not run is left out."""
    found = []
    for claim in claims():
        findings = tuple(finding for result in results if (finding := find(claim, result)) is not None)
        if findings:
            found.append(Verdict(claim.sentence, findings, of_paper=claim.of_paper, noisy=True))
    return found


def find(claim: Claim, result: Results) -> Finding | None:
    """Return what became of a claim on one grid, or None where a method was not run."""
    best = best_rows(result.rows, claim.by)
    pairs = [
        (best[OURS, seed], best[claim.theirs, seed])
        for seed in result.grid.seeds
        if (OURS, seed) in best and (claim.theirs, seed) in best
    ]
    if not pairs:
        return None
    compare = _by_loss if claim.measure == "loss" else _by_accuracy
    holds, mine, theirs, n_wins = compare(pairs, result.n_test)
    evidence = f"{mine:.4g} against {theirs:.4g}, {n_wins} of {len(pairs)} repeats"
    return Finding(result.grid.name, holds, evidence)


#: What a comparison gives: whether the claim holds, both means over the repeats, and in how many the first was better.
_Compared = tuple[bool | None, float, float, int]


def _by_loss(pairs: list[tuple[Row, Row]], n_test: int) -> _Compared:
    mine, theirs = ([or_inf(pair[side].train_loss) for pair in pairs] for side in (0, 1))
    n_wins = sum(a < b for a, b in zip(mine, theirs, strict=True))
    holds = None if 0 < n_wins < len(pairs) else n_wins > 0
    return holds, fmean(mine), fmean(theirs), n_wins


def _by_accuracy(pairs: list[tuple[Row, Row]], n_test: int) -> _Compared:
    mine, theirs = ([pair[side].test_accuracy for pair in pairs] for side in (0, 1))
    a, b = fmean(mine), fmean(theirs)
    error = math.sqrt((a * (1 - a) + b * (1 - b)) / n_test)  # the repeats share one test set
    holds = True if a >= b else False if a < b - 2.0 * error else None
    return holds, a, b, sum(x >= y for x, y in zip(mine, theirs, strict=True))
