"""What the runs of a grid have reached: rows by epoch, the best alpha of each method and repeat, bands over repeats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from finitesum.papers.networks.settings import Grid

#: What an alpha is chosen by, at the end of a run.
By = Literal["test_accuracy", "train_loss"]

#: A run within a grid: (method, alpha, seed).
Key = tuple[str, float, int]


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
        final = final_rows(self.rows)
        return [
            final[name, alpha, seed] for (name, seed), alpha in best_alphas(self.rows, by).items() if name == method
        ]


def final_rows(rows: Iterable[Row]) -> dict[Key, Row]:
    """Return the last epoch of each run."""
    final: dict[Key, Row] = {}
    for row in rows:
        key = row[1:4]
        if key not in final or row.epoch > final[key].epoch:
            final[key] = row
    return final


def best_alphas(rows: Iterable[Row], by: By = "test_accuracy") -> dict[tuple[str, int], float]:
    """Return the best alpha for each method and seed, by the last epoch.

    Parameters
    ----------
    rows
        Of one grid.
    by
        "test_accuracy" is the rule of the authors' code, which uses the test set; of runs with equal accuracy the one
        with the lower training loss is taken. "train_loss" is the other rule that the paper names. A loss that is NaN
        is the worst.
    """
    best: dict[tuple[str, int], Row] = {}
    for row in final_rows(rows).values():
        key = (row.method, row.seed)
        if key not in best or _rank(row, by) < _rank(best[key], by):
            best[key] = row
    return {key: row.alpha for key, row in best.items()}


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
    """Return a method's figures at the alphas with the best final test accuracy; None where it was not run.

    Parameters
    ----------
    rows
        Of one grid.
    method
        Its name.
    column
        "train_loss", "test_loss" or "test_accuracy".
    """
    best = best_alphas(rows)
    chosen = [row for row in rows if row.method == method and best[method, row.seed] == row.alpha]
    epochs = sorted({row.epoch for row in chosen})
    if not epochs:
        return None
    values = [[getattr(row, column) for row in chosen if row.epoch == epoch] for epoch in epochs]
    summaries = [np.array([f(entry) for entry in values]) for f in (np.mean, np.min, np.max)]
    return Band(np.array(epochs, dtype=np.float64), *summaries)
