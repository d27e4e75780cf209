"""``python -m finitesum.papers.networks``: adahb/networks with grids, methods and a device of one's choice."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from finitesum.cli.errors import WRONG_INPUT, InputError, Program, show_error
from finitesum.cli.options import FOLDER, shown
from finitesum.papers.experiment import experiment
from finitesum.papers.networks.experiment import run
from finitesum.papers.networks.settings import METHODS, SIZES, Size
from finitesum.papers.runner import PAGE, run_experiments

IMAGES = sorted({grid.name for grids in SIZES.values() for grid in grids})


@click.command(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@shown("--size", "quick", "How much is run.", type=click.Choice(list(SIZES)))
@click.option("--out", type=FOLDER, required=True, help="Folder of the results.")
@click.option("--data", type=FOLDER, help="Folder of images, searched first.")
@click.option("--only", multiple=True, type=click.Choice(IMAGES), help="Run only this; may be repeated.")
@click.option("--method", multiple=True, type=click.Choice(list(METHODS)), help="Run only this; may be repeated.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--hours", type=click.FloatRange(min=0.0), help="Stop after this long, and show what is there.")
@shown("--threads", 1, "Threads of torch.", type=click.IntRange(min=1))
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@click.pass_context
def main(
    ctx: click.Context, /, *, size: Size, out: Path, only: tuple[str, ...], method: tuple[str, ...], **options: Any
) -> None:
    """Compare AdaHB with Adam, SGD, SGD-momentum, AdaGrad and RMSProp on networks.

    Writes what 'finitesum reproduce adahb/networks' writes. An interrupted run continues where it was when the same
    command is given again. Images are looked for in the folder of --data, in those of FINITESUM_DATA, and in
    FINITESUM_HOME/data.
    """
    device = options["device"]
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no GPU here. Leave it out to use the CPU.")
    grids = [grid for grid in SIZES[size] if not only or grid.name in only]
    if method:
        grids = [replace(grid, methods=tuple(m for m in grid.methods if m in method)) for grid in grids]
    if not grids:
        raise InputError(f"--size {size} has only {', '.join(g.name for g in SIZES[size])}. Leave --only out.")
    hours = math.inf if options["hours"] is None else options["hours"]
    where = None if device == "auto" else torch.device(device)
    command = ["python -m finitesum.papers.networks --size", size]
    command += [f"--only {name}" for name in only] + [f"--method {name}" for name in method]
    work = partial(run, grids=grids, device=where, n_threads=options["threads"], seconds=3600.0 * hours)
    form: Any = {"size": "quick" if size == "quick" else "full", "verbose": int(not options["quiet"])}
    wanted = replace(experiment("adahb/networks"), run=work)
    (done,) = run_experiments([wanted], out, data_dir=options["data"], command=" ".join(command), **form)
    for name, advice in done.outcome.absent.items():
        show_error(f"{name} was left out. {advice}")
    if not done.outcome.drawings:
        ctx.exit(WRONG_INPUT)
    click.echo("\n".join(f"{verdict.outcome:>16}  {verdict.claim}" for verdict in done.outcome.verdicts))
    click.echo(f"wrote {out / PAGE}, and in {done.folder}: {', '.join(done.files)}")


if __name__ == "__main__":
    main(prog_name="python -m finitesum.papers.networks")
