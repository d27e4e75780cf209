"""The paper's claims about networks as measured statements.

"AdaHB reaches a lower training loss than the others, and a test accuracy that is at least as good" [1, section 5.2].
A claim is judged for each set of images by itself, then over all of them:

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
from typing import Literal, NamedTuple

from finitesum.papers.experiment import outcome_of
from finitesum.papers.networks.grid import By, Row, best_alphas, final_rows
from finitesum.papers.networks.methods import DECAYED, METHODS, OURS, OURS_BY_STEP, RIVALS
from finitesum.papers.networks.settings import Grid

Measure = Literal["loss", "accuracy"]


class Results(NamedTuple):
    """The rows of one grid."""

    grid: Grid
    rows: list[Row]
    n_test: int  # test images


@dataclass(frozen=True)
class Claim:
    """Says that one method is better than another.

    Parameters
    ----------
    topic
        What it is part of.
    mine, theirs
        The names of the methods.
    measure
        "loss": a lower training loss. "accuracy": a test accuracy at least as good.
    by
        How both methods' alphas are chosen.
    """

    topic: str
    mine: str
    theirs: str
    measure: Measure
    by: By

    @property
    def sentence(self) -> str:
        """The claim in words."""
        what = "a lower training loss than" if self.measure == "loss" else "a test accuracy at least as good as"
        return f"{METHODS[self.mine].label} reaches {what} {METHODS[self.theirs].label}"


@dataclass(frozen=True)
class Finding:
    """A claim on one set of images.

    Parameters
    ----------
    data
        The name of the grid.
    holds
        None where it is undecided.
    mine, theirs
        The figures that were compared: means over the repeats.
    n_wins, n_seeds
        In so many of the repeats the first was better (for an accuracy: at least as good).
    """

    data: str
    holds: bool | None
    mine: float
    theirs: float
    n_wins: int
    n_seeds: int


@dataclass(frozen=True)
class Statement:
    """A claim and what became of it over all sets of images."""

    claim: Claim
    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> str:
        """ "holds", "does not hold", "holds only for ...", or "undecided"."""
        return outcome_of((finding.data, finding.holds) for finding in self.findings)


def claims() -> tuple[Claim, ...]:
    """Return all claims: the paper's, those about the two schedules, and the control with the same decay for everybody."""
    paper: list[Claim] = []
    for measure, by in (("loss", "test_accuracy"), ("loss", "train_loss"), ("accuracy", "test_accuracy")):
        paper += [Claim("paper", OURS, rival, measure, by) for rival in RIVALS]  # type: ignore[arg-type]
    schedule = [
        Claim("schedule", OURS, OURS_BY_STEP, "loss", "train_loss"),
        Claim("schedule", OURS, OURS_BY_STEP, "accuracy", "test_accuracy"),
    ]
    control = [Claim("control", OURS, rival + DECAYED, "loss", "train_loss") for rival in RIVALS]
    control += [Claim("control", OURS, rival + DECAYED, "accuracy", "test_accuracy") for rival in RIVALS]
    return (*paper, *schedule, *control)


def judge(results: Sequence[Results]) -> list[Statement]:
    """Return what became of every claim; one whose methods were not run is left out."""
    statements = []
    for claim in claims():
        findings = tuple(finding for result in results if (finding := find(claim, result)) is not None)
        if findings:
            statements.append(Statement(claim, findings))
    return statements


def find(claim: Claim, result: Results) -> Finding | None:
    """Return what became of a claim on one grid, or None where a method was not run."""
    final, best = final_rows(result.rows), best_alphas(result.rows, claim.by)
    pairs = [
        (final[claim.mine, best[claim.mine, seed], seed], final[claim.theirs, best[claim.theirs, seed], seed])
        for seed in result.grid.seeds
        if (claim.mine, seed) in best and (claim.theirs, seed) in best
    ]
    if not pairs:
        return None
    return (_by_loss if claim.measure == "loss" else _by_accuracy)(result, pairs)


def _by_loss(result: Results, pairs: list[tuple[Row, Row]]) -> Finding:
    mine, theirs = ([_or_inf(pair[side].train_loss) for pair in pairs] for side in (0, 1))
    n_wins = sum(a < b for a, b in zip(mine, theirs, strict=True))
    holds = None if 0 < n_wins < len(pairs) else n_wins > 0
    return Finding(result.grid.name, holds, fmean(mine), fmean(theirs), n_wins, len(pairs))


def _or_inf(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf


def _by_accuracy(result: Results, pairs: list[tuple[Row, Row]]) -> Finding:
    mine, theirs = ([pair[side].test_accuracy for pair in pairs] for side in (0, 1))
    a, b = fmean(mine), fmean(theirs)
    error = math.sqrt((a * (1 - a) + b * (1 - b)) / result.n_test)  # the repeats share one test set
    holds = True if a >= b else False if a < b - 2.0 * error else None
    n_wins = sum(x >= y for x, y in zip(mine, theirs, strict=True))
    return Finding(result.grid.name, holds, a, b, n_wins, len(pairs))
