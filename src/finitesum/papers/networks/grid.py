"""All runs of a grid, their rows in a CSV file, and the best alpha of each method and repeat.

The file is written anew, under another name and renamed, after each run: an interrupted grid leaves whole runs behind and
goes on with the next one, which itself goes on from its checkpoint.
"""

from __future__ import annotations

import csv
import io
import math
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from finitesum.papers.networks.data import Images
from finitesum.papers.networks.settings import Grid
from finitesum.papers.networks.training import EpochRow, Run, best_device, images_for, train
from finitesum.running.checkpoint import write_atomically
from finitesum.running.observers import Report, steps

#: What an alpha is chosen by, at the end of a run.
By = Literal["test_accuracy", "train_loss"]

#: Checkpoints are this far apart: a run of a few seconds needs none.
CHECKPOINT_SECONDS = 20.0


class GridError(ValueError):
    """A file of rows that cannot be used: damaged, or of another training."""


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


#: A run within a grid: (method, alpha, seed).
Key = tuple[str, float, int]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a CSV file; none where there is no file.

    Raises
    ------
    GridError
        The file is no such table.
    """
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    if not lines or tuple(lines[0]) != Row._fields:
        raise GridError(f"{path} has not the columns {', '.join(Row._fields)}. Remove it, or name another folder.")
    try:
        return [_row(line) for line in lines[1:]]
    except ValueError as error:
        raise GridError(f"{path} is damaged: {error}. Remove it to start afresh.") from error


def _row(line: Sequence[str]) -> Row:
    training, method, alpha, seed, epoch, loss, test_loss, accuracy, seconds, device, version = line
    figures = float(loss), float(test_loss), float(accuracy), float(seconds)
    return Row(training, method, float(alpha), int(seed), int(epoch), *figures, device, version)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as CSV, atomically; numbers are written to the last bit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(rows)
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def run_grid(
    grid: Grid, images: Images, folder: Path, *, device: torch.device | None = None, verbose: int = 1
) -> list[Row]:
    """Return the rows of all runs of a grid, those of an earlier call among them.

    Parameters
    ----------
    grid
        What is run.
    images
        All images of the set; the grid takes as many as it wants.
    folder
        Where the rows (``NAME.csv``) and the checkpoints of unfinished runs are kept.
    device
        Where it runs; the GPU, if there is one, without it.
    verbose
        As for `progress`.

    Raises
    ------
    GridError
        The rows in the folder are damaged, or of another training.
    """
    device = device or best_device()
    file = folder / f"{grid.name}.csv"
    rows = _whole_runs(grid, file)
    done = {row[1:4] for row in rows}
    used = images_for(grid.training, images)
    with steps(grid.name, grid.n_runs * grid.training.epochs, verbose, "epochs") as report:
        for key in _keys(grid):
            if key in done:
                report("done before", grid.training.epochs)
                continue
            checkpoint = folder / "checkpoints" / f"{Run(grid.training, *key).name}.pt"
            rows += _rows_of(Run(grid.training, *key), used, checkpoint, device, report)
            write_rows(file, rows)
            checkpoint.unlink(missing_ok=True)
    wanted = set(_keys(grid))
    return [row for row in rows if row[1:4] in wanted]


def _whole_runs(grid: Grid, file: Path) -> list[Row]:
    """Return the rows of the runs in a file that have come to their end."""
    rows = read_rows(file)
    if any(row.training != grid.training.fingerprint() for row in rows):
        raise GridError(f"{file} has rows of another training of {grid.name}. Remove it, or name another folder.")
    done = {row[1:4] for row in rows if row.epoch == grid.training.epochs}
    return [row for row in rows if row[1:4] in done]


def _rows_of(run: Run, images: Images, checkpoint: Path, device: torch.device, report: Report) -> list[Row]:
    what = f"{run.method}, alpha {run.alpha:g}, seed {run.seed}"
    epochs = train(
        run,
        images,
        checkpoint=checkpoint,
        checkpoint_seconds=CHECKPOINT_SECONDS,
        device=device,
        after_epoch=lambda row: report(f"{what}: loss {row.train_loss:.3g}", 1),
    )
    return [_as_row(run, epoch, device) for epoch in epochs]


def _keys(grid: Grid) -> list[Key]:
    """Return the runs, one repeat after the other."""
    return [(method, alpha, seed) for seed in grid.seeds for method in grid.methods for alpha in grid.alphas]


def _as_row(run: Run, epoch: EpochRow, device: torch.device) -> Row:
    figures = epoch.train_loss, epoch.test_loss, epoch.test_accuracy, epoch.seconds
    identity = run.training.fingerprint(), run.method, run.alpha, run.seed
    return Row(*identity, epoch.epoch, *figures, device_name(device), torch.__version__)


def device_name(device: torch.device) -> str:
    """Return what a device is called in the results."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    n = torch.get_num_threads()
    return f"{device.type} {platform.machine()}, {n} thread{'s' if n > 1 else ''}"


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
        "test_accuracy" is the rule of the authors' code, which looks at the test set; runs of equal accuracy are told
        apart by their training loss. "train_loss" is the other rule that the paper names. A loss that is no number is
        the worst.
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
