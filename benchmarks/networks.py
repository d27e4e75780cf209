"""The networks of the heavy-ball paper with its batches on a CPU, over many sessions, and the page of what is there.

    python benchmarks/networks.py --data DIR [--hours 8] [--only cifar100_subset-cnn]

Trains the runs of size "large" that are not there yet, one file each in benchmarks/results/networks/large/units, and
writes the page. It may be stopped at any time: the run that was begun goes on from its last epoch. With --hours 0 it writes
the page alone. The rows of size "cpu" are those of `python -m finitesum.papers.networks --size cpu`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import click
import torch

from finitesum.papers.claims import Verdict
from finitesum.papers.experiment import Context
from finitesum.papers.networks import experiment
from finitesum.papers.networks.claims import Results, Row, verdicts
from finitesum.papers.networks.data import load_images
from finitesum.papers.networks.settings import METHODS, SIZES
from finitesum.reporting.files import write_bytes
from finitesum.reporting.plots import to_png

RESULTS = Path(__file__).parent / "results"
FOLDER = RESULTS / "networks" / "large"

#: Processor seconds of an epoch on one thread, tests included, of one core of a Xeon server that did other work: the CNN,
#: batches of 512.
EPOCH_SECONDS = {"cifar100_subset-cnn": 18.2, "cifar10_subset-cnn": 38.8, "mnist-cnn": 77.1}

HOW = """\
AdaHB against Adam, SGD, SGD-momentum, AdaGrad and RMSProp on the paper's four-layer CNN. A claim holds, or does not
hold, where the 95 % interval over the seeds of the difference to the other method says so; ties, and intervals that
contain 0, are undecided, and a single seed decides nothing (`finitesum.papers.networks.claims`). In brackets: AdaHB's
final training loss as a multiple of the other's, or the difference of test accuracies in points of per cent. Each
method has its best alpha of 0.1, 0.01, 0.001 and 0.0001 with each seed."""

SMALL = """\
The statistics of batch normalisation move by 0.1 a step instead of the published 0.01, because in so few steps they would
stay near their start. What can be read:

- The mean training loss of AdaHB with t = epoch is the lowest of all methods with a constant alpha on all three sets. The
  three seeds of the digits decide a part of it (below); two seeds decide little, and one nothing.
- With t = step, as the theorems count, the same method ends 7, 4 and 1.5 times higher.
- A part of the advantage is the built-in decay: with alpha / √epoch, too, RMSProp is level with AdaHB on digits, behind on
  MNIST and ahead on CIFAR-10.
- SGD and HB have their best alpha at the upper end of the grid: a fair grid would go on beyond 0.1 for them."""


WORDS = {True: "**yes**", False: "**no**", None: "undecided"}
COUNTED = {True: "hold", False: "do not hold", None: "are undecided"}


def small_results() -> list[Results]:
    """Return what is there of size "cpu"."""
    found, whole, numbers = [], ("seed", "epoch"), ("alpha", "train_loss", "test_loss", "test_accuracy", "seconds")
    for grid in SIZES["cpu"]:
        with (RESULTS / "networks" / f"{grid.name}.csv").open(encoding="utf-8", newline="") as file:
            rows = [
                Row(**r)._replace(**{key: int(r[key]) for key in whole}, **{key: float(r[key]) for key in numbers})
                for r in csv.DictReader(file)
            ]
        found.append(Results(grid, rows, grid.training.n_test or len(load_images(grid.training.data).test_labels)))
    return found


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def claims_table(found: Sequence[Verdict], names: Sequence[str]) -> list[str]:
    """Return a line for each claim, with the finding of each set of images."""
    rows = []
    for verdict in found:
        cells = {
            f.case: f"{ {True: '**yes**', False: '**no**', None: 'undecided'}[f.holds] }: {f.evidence}"
            for f in verdict.findings
        }
        rows.append([verdict.claim, *(cells.get(name, "–") for name in names)])
    return table(["claim", *names], rows)


def summary(found: Sequence[Verdict]) -> str:
    """Return how the paper's claims and the control came out, over all sets of images."""
    words = []
    for what, group in (
        ("the paper's claims", [v for v in found if v.of_paper]),
        ("the control, with the same decay for all", [v for v in found if "√epoch" in v.claim]),
    ):
        kinds = [f.holds for v in group for f in v.findings]
        counts = ", ".join(f"{kinds.count(kind)} {word}" for kind, word in COUNTED.items())
        words.append(f"{what}, set by set: {counts}")
    return f"Verdict: {'; '.join(words)}."


def ends_table(results: Sequence[Results]) -> list[str]:
    rows = []
    for result in results:
        for method in METHODS:
            if by_loss := result.chosen(method, "train_loss"):
                by_accuracy = result.chosen(method)
                losses, accuracies = [row.train_loss for row in by_loss], [100.0 * row.test_accuracy for row in by_accuracy]
                alphas = ", ".join(f"{a:g}" for a in sorted({row.alpha for row in by_loss}, reverse=True))
                spread = [f"{min(part):.3g} to {max(part):.3g}" if len(part) > 1 else "–" for part in (losses, accuracies)]
                rows.append([
                    result.grid.name, METHODS[method].label, str(len(losses)), alphas, f"{fmean(losses):.3g}", spread[0],
                    f"{fmean(accuracies):.2f} %", spread[1],
                ])  # fmt: skip
    header = (
        "images",
        "method",
        "seeds",
        "alpha",
        "training loss",
        "least to largest",
        "test accuracy",
        "least to largest",
    )
    return table(header, rows)


def page_of_large(drawn: experiment.Outcome, n_done: dict[str, int]) -> list[str]:
    hours = {}
    for grid in SIZES["large"]:
        n = len(grid.methods) * len(grid.alphas) * len(grid.seeds)
        hours[grid.name] = (n, n * grid.training.epochs * EPOCH_SECONDS[grid.name] / 3600.0)
    rows = [
        [name, f"{n_done.get(name, 0)} of {n}", f"{seconds_hours:.0f} h", f"{EPOCH_SECONDS[name]:.0f} s"]
        for name, (n, seconds_hours) in hours.items()
    ]
    lines = ["", *table(["images", "runs that are there", "all of them take", "an epoch"], rows), ""]
    if not drawn.verdicts:
        return [*lines, "No method was run with all alphas yet beside AdaHB, so that nothing is claimed."]
    pictures = [f"![{drawing.caption}](networks/large/{drawing.name}.png)" for drawing in drawn.drawings]
    return [*lines, summary(drawn.verdicts), "", *pictures, "", *claims_table(drawn.verdicts, list(hours))]


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Folder of images, searched first.")
@click.option("--hours", default=0.0, show_default=True, help="Train for this long; 0 writes the page alone.")
@click.option("--only", multiple=True, help="Sets of images; all when left out.")
def main(data: Path | None, hours: float, only: tuple[str, ...]) -> None:
    """Train what is not there yet, and write the page."""
    context = Context("full", FOLDER, data, 2, "networks")
    cpu, chosen = torch.device("cpu"), [grid for grid in SIZES["large"] if not only or grid.name in only]
    if hours > 0.0:
        experiment.run(context, chosen, device=cpu, seconds=3600.0 * hours)
    drawn = experiment.run(replace(context, verbose=0), SIZES["large"], device=cpu, seconds=0.0)
    for drawing in drawn.drawings:
        write_bytes(FOLDER / f"{drawing.name}.png", to_png(drawing.figure))
    n_done = {grid.name: len(list((FOLDER / "units").glob(f"{grid.name}-*.json"))) for grid in SIZES["large"]}
    small = small_results()
    for drawing in (drawing for result in small for drawing in experiment.drawings_of(result)[:1]):
        write_bytes(RESULTS / "networks" / f"{drawing.name}.png", to_png(drawing.figure))
    names = [result.grid.name for result in small]
    about = [
        f"{r.grid.name}: {r.grid.training.n_train or 'all'} images, {r.n_test} for testing, batches of "
        f"{r.grid.training.batch_size}, {r.grid.training.epochs} epochs, {len(r.grid.seeds)} seed(s)"
        for r in small
    ]
    found = verdicts(small)
    lines = [
        "# Networks of the heavy-ball paper", "", HOW, "",
        "## With the paper's batches", "",
        "`python benchmarks/networks.py`: batches of 512, 20 epochs, 3 seeds, all methods; MNIST's 60,000 images, and",
        "subsets of 20,000 of CIFAR-10 and 10,000 of CIFAR-100. The runs are made one by one, over many hours. The",
        "statistics of batch normalisation move by the published 0.01 a step on MNIST, by 0.1 on the subsets, which have",
        "20 and 40 steps an epoch: with 0.01, eight first runs on CIFAR-100 (AdaHB and Adam, one seed, not counted here)",
        "had test accuracies of 1 to 24 % that had nothing to do with their training losses, at best 0.48 (AdaHB) and 0.57",
        "(Adam): presumably the statistics lagged behind the weights.",
        *page_of_large(drawn, n_done), "",
        "## With few images", "", f"`python -m finitesum.papers.networks --size cpu`. {'; '.join(about)}.", "", SMALL, "",
        summary(found), "", *claims_table(found, names), "",
        *(f"![Training loss and test accuracy by epoch, {name}](networks/{name}.png)\n" for name in names),
        "The last epoch, alpha by training loss for losses and by test accuracy for accuracies:", "",
        *ends_table(small), "",
    ]  # fmt: skip
    (RESULTS / "networks.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
