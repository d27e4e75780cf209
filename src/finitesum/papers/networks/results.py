"""What the runs of a grid have reached: rows by epoch, the best alpha of each method and repeat, bands over repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from finitesum.papers.networks.settings import Grid

#: What an alpha is chosen by, at the end of a run.
By = Literal["test_accuracy", "train_loss"]


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

    def chosen(self, method: str, by: By = "test_accuracy") -> list[Row]:
        """Return the last epoch of a method at its best alpha, one row per repeat."""
        return [row for row in best_rows(self.rows, by).values() if row.method == method]


def best_rows(rows: Iterable[Row], by: By = "test_accuracy") -> dict[tuple[str, int], Row]:
    """Return the last epoch of the run with the best alpha for each method and seed.

    Parameters
    ----------
    rows
        Of one grid.
    by
        "test_accuracy" is the rule of the authors' code, which uses the test set; of runs with equal accuracy the one
        with the lower training loss is taken. "train_loss" is the other rule that the paper names. A loss that is NaN
        is the worst.
    """
    last = {row[1:4]: row for row in sorted(rows, key=lambda row: row.epoch)}
    best: dict[tuple[str, int], Row] = {}
    for row in last.values():
        key = (row.method, row.seed)
        best[key] = min(best.get(key, row), row, key=lambda row: _rank(row, by))
    return best


def _rank(row: Row, by: By) -> tuple[float, float]:
    """Return what sorts the better run first."""
    loss = row.train_loss if math.isfinite(row.train_loss) else math.inf
    return (-row.test_accuracy, loss) if by == "test_accuracy" else (loss, -row.test_accuracy)


class Band(NamedTuple):
    """One method's figure over the epochs: mean, least and largest over the repeats."""

    epochs: Any
    mean: Any
    low: Any
    high: Any


def band(rows: Sequence[Row], method: str, column: str) -> Band | None:
    """Return a column of a method at the alphas with the best final test accuracy; None where it was not run."""
    best = best_rows(rows)
    chosen = [row for row in rows if row.method == method and best[method, row.seed].alpha == row.alpha]
    epochs = sorted({row.epoch for row in chosen})
    if not epochs:
        return None
    values = [[getattr(row, column) for row in chosen if row.epoch == epoch] for epoch in epochs]
    summaries = [np.array([f(entry) for entry in values]) for f in (np.mean, np.min, np.max)]
    return Band(np.array(epochs, dtype=np.float64), *summaries)
