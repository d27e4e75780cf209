"""What the runs of a grid have reached, and the paper's claims about networks as measured statements.

"AdaHB reaches a lower training loss than the others, and a test accuracy that is at least as good" [1, section 5.2].
A claim is decided for each set of images by itself, from the differences between AdaHB and the other method with the same
seed: of the logarithms of their final losses, or of their final accuracies. With n >= 2 seeds, mean d and deviation s, the
mean's interval is d -+ r, r = t s / sqrt(n) with Student's t for 95 %. What an accuracy is known by on a finite test set,
which all seeds share, widens it: r^2 = (t s)^2 / n + (1.96 e)^2, with e the standard error of the difference. The claim

- holds where the interval is on AdaHB's side of 0, does not hold where it is on the other side;
- is undecided where 0 is within, and with a single seed.

Every method has the alpha that suits it best, chosen for each repeat.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import t as student

from finitesum.core.arrays import Vector
from finitesum.papers.claims import Finding, Verdict, or_inf
from finitesum.papers.networks.settings import DECAYED, METHODS, OURS, OURS_BY_STEP, RIVALS, Grid

#: What an alpha is chosen by, at the end of a run.
By = Literal["test_accuracy", "train_loss"]

_BY: dict[By, str] = {"test_accuracy": "alpha by final test accuracy", "train_loss": "alpha by training loss"}

Measure = Literal["loss", "accuracy"]


class Row(NamedTuple):
    """An epoch of a run, as the CSV file has it."""

    training: str  # fingerprint
    method: str
    alpha: float
    seed: int
    epoch: int
    train_loss: float
    test_loss: float
    test_accuracy: float
    seconds: float
    device: str
    torch: str


class Results(NamedTuple):
    """The rows of one grid."""

    grid: Grid
    rows: list[Row]
    n_test: int  # test images
    n_done: int = 0  # of the grid's runs

    def chosen(self, method: str, by: By = "test_accuracy") -> list[Row]:
        """Return the last epoch of a method at its best alpha, one row per repeat."""
        return [row for row in best_rows(self.rows, by).values() if row.method == method]


def best_rows(rows: Iterable[Row], by: By = "test_accuracy") -> dict[tuple[str, int], Row]:
    """Return the last epoch of the run with the best alpha for each method and seed, from the rows of one grid.

    "test_accuracy" is the rule of the authors' code, which uses the test set; of runs with equal accuracy the one with the
    lower training loss is taken. "train_loss" is the other rule that the paper names. A loss that is NaN is the worst.
    """

    def rank(row: Row) -> tuple[float, float]:
        loss = or_inf(row.train_loss)
        return (-row.test_accuracy, loss) if by == "test_accuracy" else (loss, -row.test_accuracy)

    last = {row[1:4]: row for row in sorted(rows, key=lambda row: row.epoch)}
    best: dict[tuple[str, int], Row] = {}
    for row in last.values():
        key = (row.method, row.seed)
        best[key] = min(best.get(key, row), row, key=rank)
    return best


def band(rows: Sequence[Row], method: str, column: str) -> tuple[Any, Any, Any, Any] | None:
    """Return the epochs, and the mean, least and largest of a column over a method's repeats; None where it was not run.

    Alphas are those with the best final test accuracy.
    """
    best = best_rows(rows)
    chosen = [row for row in rows if row.method == method and best[method, row.seed].alpha == row.alpha]
    epochs = sorted({row.epoch for row in chosen})
    if not epochs:
        return None
    values = [[getattr(row, column) for row in chosen if row.epoch == epoch] for epoch in epochs]
    mean, low, high = (np.array([f(entry) for entry in values]) for f in (np.mean, np.min, np.max))
    return np.array(epochs, dtype=np.float64), mean, low, high


class Claim(NamedTuple):
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
    ours: tuple[tuple[Measure, By], ...] = (("loss", "train_loss"), ("accuracy", "test_accuracy"))
    paper: tuple[tuple[Measure, By], ...] = (("loss", "test_accuracy"), *ours)
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
    is_loss = claim.measure == "loss"
    numbers = [[or_inf(row.train_loss) if is_loss else row.test_accuracy for row in pair] for pair in pairs]
    mine, theirs = map(fmean, zip(*numbers, strict=True))
    n_wins = sum(our < their if is_loss else our > their for our, their in numbers)
    if is_loss:
        with np.errstate(all="ignore"):
            differences, error = np.diff(np.log(numbers))[:, 0], 0.0
    else:
        differences = -np.diff(numbers)[:, 0]
        error = math.sqrt((mine * (1 - mine) + theirs * (1 - theirs)) / result.n_test)
    low, high = interval(differences, error)
    holds = True if low > 0.0 else False if high < 0.0 else None
    evidence = f"{mine:.4g} against {theirs:.4g}"
    if math.isfinite(low) and is_loss:
        evidence += f" ({math.exp(-high):.2g} to {math.exp(-low):.2g} times)"
    elif math.isfinite(low):
        evidence += f" ({100.0 * low:+.2f} to {100.0 * high:+.2f} points)"
    return Finding(result.grid.name, holds, f"{evidence}, {n_wins} of {len(pairs)} repeats")


def interval(differences: Vector, error: float) -> tuple[float, float]:
    """Return the interval of a mean difference, where each also has a standard error in common.

    Infinite differences of one sign, where one method diverged with every seed, are an interval of their own; with one
    seed, or infinite ones beside others, it is the whole line.
    """
    n = differences.size
    if n > 1 and (np.isposinf(differences).all() or np.isneginf(differences).all()):
        return float(differences[0]), float(differences[0])
    if n < 2 or not np.isfinite(differences).all():
        return -math.inf, math.inf
    spread = float(student.ppf(0.975, n - 1)) * float(np.std(differences, ddof=1)) / math.sqrt(n)
    half, mean = math.hypot(spread, 1.96 * error), float(differences.mean())
    return mean - half, mean + half
