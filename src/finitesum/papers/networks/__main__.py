"""``python -m finitesum.papers.networks``: runs the comparison of a size and writes rows, figures and a verdict."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click
import torch

from finitesum.cli.errors import INTERRUPTED, WRONG_INPUT, InputError, show_error
from finitesum.papers.networks.experiment import Outcome, run
from finitesum.papers.networks.methods import METHODS
from finitesum.papers.networks.settings import SIZES, Grid, Size

IMAGES = sorted({grid.name for grids in SIZES.values() for grid in grids})


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--size", type=click.Choice(list(SIZES)), default="quick", show_default=True, help="How much is run.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder of the results.")
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Folder of images, searched first.")
@click.option("--only", multiple=True, type=click.Choice(IMAGES), help="Run only this; may be repeated.")
@click.option("--method", multiple=True, type=click.Choice(list(METHODS)), help="Run only this; may be repeated.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of torch.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def main(
    size: Size,
    out: Path,
    data: Path | None,
    only: tuple[str, ...],
    method: tuple[str, ...],
    device: Literal["auto", "cpu", "cuda"],
    threads: int,
    quiet: bool,
) -> None:
    """Compare AdaHB with Adam, SGD, SGD-momentum, AdaGrad and RMSProp on networks.

    A run that was interrupted goes on where it was when the same command is given again. Images are looked for in the
    folder of --data, in those of FINITESUM_DATA, and in FINITESUM_HOME/data.
    """
    grids = [_with_methods(grid, method) for grid in SIZES[size] if not only or grid.name in only]
    shown = ["python -m finitesum.papers.networks --size", size, *_shown("--only", only), *_shown("--method", method)]
    try:
        if not grids:
            raise InputError(f"--size {size} has {', '.join(g.name for g in SIZES[size])} alone. Leave --only out.")
        outcome = run(
            grids,
            out,
            size=size,
            data_dir=data,
            device=_device(device),
            n_threads=threads,
            verbose=0 if quiet else 1,
            command=" ".join(shown),
        )
    except ValueError as error:
        show_error(str(error))
        sys.exit(WRONG_INPUT)
    except KeyboardInterrupt:
        show_error("interrupted. Give the same command again to go on.")
        sys.exit(INTERRUPTED)
    _tell(outcome)


def _tell(outcome: Outcome) -> None:
    for name, advice in outcome.absent.items():
        show_error(f"{name} was left out. {advice}")
    click.echo("\n".join(f"{s.outcome:>16}  {s.claim.sentence} ({s.claim.topic})" for s in outcome.statements))
    click.echo(f"written: {', '.join(str(file) for file in outcome.files)}")


def _device(name: str) -> torch.device | None:
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no GPU here. Leave it out to use the CPU.")
    return None if name == "auto" else torch.device(name)


def _with_methods(grid: Grid, methods: tuple[str, ...]) -> Grid:
    return replace(grid, methods=tuple(m for m in grid.methods if m in methods)) if methods else grid


def _shown(option: str, values: tuple[str, ...]) -> list[str]:
    return [f"{option} {value}" for value in values]


if __name__ == "__main__":
    main(prog_name="python -m finitesum.papers.networks")
