"""Runs the grids of networks: a unit of work for each run, a figure, a table and rows for each grid, and the claims."""

import itertools
import math
import platform
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from finitesum.datasets import DataError
from finitesum.papers.experiment import Context, Drawing, Outcome, Table, Unit, Value, captions
from finitesum.papers.networks.claims import Results, Row, band, verdicts
from finitesum.papers.networks.data import Images, load_images
from finitesum.papers.networks.settings import DECAYED, METHODS, OURS, RIVALS, Grid, Training
from finitesum.papers.networks.training import FORMAT, Run, images_for, train
from finitesum.reporting.plots import Line, Panel, Style, panels_figure

#: Checkpoints are this far apart: a run of a few seconds needs none.
CHECKPOINT_SECONDS = 20.0

_SOLID, _DASHED, _DOTTED = "-", (0, (5, 1.5)), (0, (1.2, 1.2))

#: A rival looks the same with and without the decay.
_STYLES = {
    "adahb": Style("#D55E00", _SOLID, "o"),
    "adahb-step": Style("#C98A00", _DASHED, "o"),
    "hb": Style("#777777", _DOTTED, "x"),
    "adam": Style("#0072B2", _SOLID, "s"),
    "sgd": Style("#222222", _DOTTED, "+"),
    "sgd-momentum": Style("#009E73", _DASHED, "^"),
    "adagrad": Style("#3E9BD0", _DASHED, "v"),
    "rmsprop": Style("#A5427F", _SOLID, "D"),
}

#: What a figure shows: the methods with constant alpha, and AdaHB beside the rivals with its decay.
_FIGURES = {
    "": ([name for name in METHODS if not name.endswith(DECAYED)], "constant alpha, as in the paper"),
    "-control": ([OURS, *(rival + DECAYED for rival in RIVALS)], "control: alpha / √epoch for all methods"),
}


def run(
    context: Context,
    grids: Sequence[Grid],
    *,
    device: torch.device | None = None,
    n_threads: int = 1,
    seconds: float = math.inf,
) -> Outcome:
    """Return what came out of the grids, trained on a device: the GPU, if there is one, where none is given.

    Figures agree to the bit only between runs with the same number of torch's threads. After some `seconds` it ends, and a
    method counts with the seeds for which it was run with every alpha; the same call goes on from there.
    """
    until = time.monotonic() + seconds
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results, absent = list[Results](), dict[str, str]()
    with _threads(n_threads):
        for grid in grids:
            try:
                _images(grid.training, context.data_dir)
            except DataError as error:
                absent[grid.name] = str(error)
                continue
            results.append(_results(grid, context.complete([_unit(run, context, device) for run in _runs(grid)], until)))
    _images.cache_clear()
    if not results:
        return Outcome(absent=absent)
    values = {  # rough, because sums in another order lead networks elsewhere
        f"final training loss, {METHODS[OURS].label}, {result.grid.name}": Value(
            fmean(row.train_loss for row in best), relative=0.5
        )
        for result in results
        if (best := result.chosen(OURS, "train_loss"))
    }
    drawings = [drawing for result in results for drawing in drawings_of(result)]
    tables = [_table(results), *(Table(r.grid.name, "", Row._fields, r.rows, on_page=False) for r in results)]
    return Outcome(drawings, tables, verdicts(results), values, [_note(results)], absent)


@contextmanager
def _threads(n_threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _images(training: Training, data_dir: Path | None) -> Images:
    return images_for(training, load_images(training.data, data_dir))


def _runs(grid: Grid) -> list[Run]:
    """Return the runs, one repeat after the other."""
    choices = itertools.product(grid.seeds, grid.methods, grid.alphas)
    return [Run(grid.training, method, alpha, seed) for seed, method, alpha in choices]


def _unit(run: Run, context: Context, device: torch.device) -> Unit:
    checkpoint = context.folder / "checkpoints" / f"{run.name}.pt"
    images = partial(_images, run.training, context.data_dir)  # a function: where the images are changes no figures
    return Unit(run.name, partial(_train, run, images, device, checkpoint), checkpoint, FORMAT)


def _train(run: Run, load: Callable[[], Images], device: torch.device, file: Path) -> Generator[str, None, dict[str, Any]]:
    images, rows = load(), []
    for row in train(run, images, checkpoint=file, checkpoint_seconds=CHECKPOINT_SECONDS, device=device):
        rows.append(row)
        yield f"epoch {row.epoch} of {run.training.epochs}, loss {row.train_loss:.3g}"
    n = torch.get_num_threads()
    name = f"{device.type} {platform.machine()}, {n} thread{'s' if n > 1 else ''}"
    if device.type == "cuda":
        name = str(torch.cuda.get_device_name(device))
    return {"rows": rows, "n_test": len(images.test_labels), "device": name, "torch": torch.__version__}


def _results(grid: Grid, figures: dict[str, Any]) -> Results:
    """Return the rows of each method and seed that was run with every alpha: of others the best one is not known."""
    rows: list[Row] = []
    for _, group in itertools.groupby(_runs(grid), key=lambda run: (run.seed, run.method)):
        runs = list(group)
        if all(run.name in figures for run in runs):
            for run in runs:
                found = figures[run.name]
                identity = grid.training.fingerprint(), run.method, run.alpha, run.seed
                rows += [Row._make((*identity, *epoch, found["device"], found["torch"])) for epoch in found["rows"]]
    return Results(grid, rows, max((found["n_test"] for found in figures.values()), default=0), len(figures))


def drawings_of(result: Results) -> list[Drawing]:
    """Return the figures of a grid: lines are means over the repeats, bands go from the least to the largest."""
    run, found = {row.method for row in result.rows}, []
    for suffix, (names, title) in _FIGURES.items():
        if len(run.intersection(names)) > bool(suffix):  # a control of AdaHB alone shows nothing
            caption = f"{result.grid.name}: training loss and test accuracy by epoch, alpha by final test accuracy."
            found.append(Drawing(f"{result.grid.name}{suffix}", caption, _figure(result, names, title)))
    return found


def _figure(result: Results, names: Sequence[str], title: str) -> Any:
    """Return the training loss and the test accuracy of some methods by epoch."""
    panels = []
    for column, label in (("train_loss", "training loss"), ("test_accuracy", "test accuracy")):
        bands = {name: found for name in names if (found := band(result.rows, name, column)) is not None}
        lines = [
            Line(METHODS[name].label, epochs, mean, _STYLES[name.removesuffix(DECAYED)], low, high)
            for name, (epochs, mean, low, high) in bands.items()
        ]
        panels.append(Panel("", "epoch", label, lines))
    limits = _without_the_start([float(line.y[-1]) for line in lines])
    panels = [replace(panels[0], title=title), replace(panels[1], y_scale="linear", y_limits=limits)]
    return panels_figure(panels, height=3.5)


def _without_the_start(ends: Sequence[float]) -> tuple[float, float]:
    """Return limits of accuracies between which the last epochs differ visibly: the first ones lie far below."""
    top = max(ends)
    room = max(2.0 * (top - min((end for end in ends if end > 0.5 * top), default=0.0)), 0.05)
    return max(0.0, top - 1.5 * room), min(1.0, top + 0.25 * room) + 0.005


def _table(results: Sequence[Results]) -> Table:
    by_accuracy, by_loss = ("alpha by accuracy", "training loss", "test accuracy"), ("alpha by loss", "training loss")
    header = ("images and network", "method", *by_accuracy, *by_loss, "seconds/epoch")
    rows = [line for result in results for method in METHODS if (line := _line(result, method))]
    return Table("networks", captions("adahb/networks")["networks"], header, rows)


def _line(result: Results, method: str) -> list[str]:
    by_accuracy, by_loss = result.chosen(method), result.chosen(method, "train_loss")
    if not by_accuracy:
        return []
    ends = min(result.grid.alphas), max(result.grid.alphas)

    def alphas(rows: list[Row]) -> str:
        return ", ".join(f"{a:g}{'*' if a in ends else ''}" for a in sorted({row.alpha for row in rows}, reverse=True))

    return [
        result.grid.name,
        METHODS[method].label,
        alphas(by_accuracy),
        f"{fmean(row.train_loss for row in by_accuracy):.3g}",
        f"{100.0 * fmean(row.test_accuracy for row in by_accuracy):.2f} %",
        alphas(by_loss),
        f"{fmean(row.train_loss for row in by_loss):.3g}",
        f"{fmean(row.seconds for row in result.rows if row.method == method):.2f}",
    ]


def _note(results: Sequence[Results]) -> str:
    """Return what was trained, where, and for how long."""
    trained = []
    for result in results:
        training, n, n_runs = result.grid.training, len(result.grid.seeds), len(_runs(result.grid))
        alphas = ", ".join(f"{alpha:g}" for alpha in result.grid.alphas)
        repeats = f"{n} repeats" if n > 1 else "a single repeat, which decides nothing"
        if result.n_done < n_runs:
            repeats += f" (of which {result.n_done} of {n_runs} runs are done)"
        trained.append(
            f"{result.grid.name}: {training.n_train or 'all'} training images, {result.n_test} test images, batches of "
            f"{training.batch_size}, {training.epochs} epochs, alpha in {{{alphas}}}, {repeats}"
        )
    rows = [row for result in results for row in result.rows]
    devices, versions = (", ".join(sorted(set(names))) for names in ([r.device for r in rows], [r.torch for r in rows]))
    minutes = sum(row.seconds for row in rows) / 60.0
    return f"{'; '.join(trained)}. {devices}, torch {versions}: {minutes:.1f} minutes of training, by the clock."
