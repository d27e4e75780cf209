"""The whole experiment: run the grids, draw the figures, judge the claims, write the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from finitesum.datasets import DataError
from finitesum.papers.networks.data import Folder, Images, load_images
from finitesum.papers.networks.figures import figure_of
from finitesum.papers.networks.grid import run_grid
from finitesum.papers.networks.page import page
from finitesum.papers.networks.settings import Grid
from finitesum.papers.networks.verdict import Results, Statement, judge
from finitesum.reporting.plots import to_png
from finitesum.running.checkpoint import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Outcome:
    """What came out.

    Parameters
    ----------
    results
        The rows of each grid.
    statements
        The claims and what became of them.
    absent
        For each set of images that is not on this machine, what to do about it.
    files
        What was written: the page first, then a CSV file and a figure for each grid, and the statements as JSON.
    """

    results: tuple[Results, ...]
    statements: tuple[Statement, ...]
    absent: dict[str, str]
    files: tuple[Path, ...]


def run(
    grids: Sequence[Grid],
    out: Path,
    *,
    size: str = "custom",
    data_dir: Folder = None,
    device: torch.device | None = None,
    n_threads: int | None = 1,
    verbose: int = 1,
    command: str = "",
) -> Outcome:
    """Return what came out of the grids, and write it into a folder. What is there already is not run again.

    Parameters
    ----------
    grids, out
        A value of `settings.SIZES`, or grids of one's own; the folder.
    size, command
        As the page shows them.
    data_dir, device, verbose
        As for `data.load_images` and `grid.run_grid`.
    n_threads
        Threads of torch: figures agree to the bit only between runs with the same number. None for torch's own.

    Raises
    ------
    DataError
        None of the images are on this machine.
    finitesum.papers.networks.grid.GridError
        The folder has rows of another training.
    """
    results, absent, files = list[Results](), dict[str, str](), list[Path]()
    with _threads(n_threads):
        for grid in grids:
            try:
                images = load_images(grid.training.data, data_dir)
            except DataError as error:
                absent[grid.name] = str(error)
                continue
            results.append(_results_of(grid, images, out, device, verbose))
            files += [out / f"{grid.name}.csv", _write(out / f"{grid.name}.png", to_png(_figure(results[-1]), dpi=110))]
    if not results:
        raise DataError(" ".join(absent.values()) or "no grid was given.")
    statements = judge(results)
    text = page(results, statements, command=command, absent=absent, size=size)
    files.insert(0, _write(out / "networks.md", text.encode()))
    files.append(_write(out / "statements.json", _as_json(statements).encode()))
    return Outcome(tuple(results), tuple(statements), absent, tuple(files))


def _results_of(grid: Grid, images: Images, out: Path, device: torch.device | None, verbose: int) -> Results:
    rows = run_grid(grid, images, out, device=device, verbose=verbose)
    return Results(grid, rows, n_test=grid.training.n_test or len(images.test_labels))


@contextmanager
def _threads(n_threads: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        if n_threads is not None:
            torch.set_num_threads(n_threads)
        yield
    finally:
        torch.set_num_threads(before)


def _figure(results: Results) -> Figure:
    training = results.grid.training
    n = "all" if training.n_train is None else str(training.n_train)
    return figure_of(results, f"{results.grid.name}: {n} training images, batches of {training.batch_size}")


def _write(path: Path, content: bytes) -> Path:
    write_atomically(path, lambda file: file.write(content))
    return path


def _as_json(statements: Sequence[Statement]) -> str:
    content = [
        {
            "sentence": s.claim.sentence,
            "outcome": s.outcome,
            **asdict(s.claim),
            "findings": [asdict(finding) for finding in s.findings],
        }
        for s in statements
    ]
    return json.dumps(content, indent=1) + "\n"
