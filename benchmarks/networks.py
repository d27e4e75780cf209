"""The networks of the heavy-ball paper with its batches, and the page of what is there.

    python benchmarks/networks.py --data DIR [--hours 8] [--only cifar100_subset-cnn] [--device cuda]

Trains the runs of size "large" that are not there yet, one file each in benchmarks/results/networks/large/units, writes a
CSV file for each set of images, and the page. It may be stopped at any time: the run that was begun goes on from its last
epoch. With --hours 0 it writes the page alone, from the CSV files. The rows of size "cpu" are those of
`python -m finitesum.papers.networks --size cpu`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import click
import torch

from finitesum.papers.claims import Verdict
from finitesum.papers.experiment import Context
from finitesum.papers.networks import experiment
from finitesum.papers.networks.claims import Results, Row, verdicts
from finitesum.papers.networks.data import load_images
from finitesum.papers.networks.settings import METHODS, SIZES, Grid, Size
from finitesum.reporting.files import write_bytes, write_csv
from finitesum.reporting.plots import to_png

RESULTS = Path(__file__).parent / "results"
FOLDER = RESULTS / "networks" / "large"

#: Processor seconds of an epoch on one thread, tests included, of one core of a Xeon server that did other work: the CNN,
#: batches of 512.
CPU_SECONDS = {"cifar100_subset-cnn": 18.2, "cifar10_subset-cnn": 38.8, "mnist-cnn": 77.1}

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


LARGE = """\
What can be read:

- Of the methods with a constant alpha AdaHB with t = epoch has the lowest training loss on all three sets with alpha by
  training loss; every interval says so.
- On MNIST all methods but HB and t = step end between 98.9 and 99.3 % of the test images: no other claim of accuracies is
  decided there. With alpha by test accuracy, which then decides little between alphas, most losses are undecided, too.
- A part of the advantage is the built-in decay: with alpha / √epoch, too, RMSProp is level with AdaHB on CIFAR-10 and
  behind on CIFAR-100 (1.7 times AdaHB's loss) and on MNIST (1.2 times). Adam, AdaGrad, SGD and SGD-momentum end higher
  with that decay than with a constant alpha, but for Adam on MNIST, which ends at the same loss.
- AdaHB's mean test accuracy is the highest on both subsets of CIFAR, by 0.9 points (Adam / √epoch, CIFAR-10) and more. With
  three seeds most of these differences are undecided.
- With t = step, as the theorems count, the same method ends 6.2 (CIFAR-100), 4.7 (CIFAR-10) and 11 times (MNIST) higher.
- SGD and HB have their best alpha at the upper end of the grid: a fair grid would go on beyond 0.1 for them."""


WORDS = {True: "**yes**", False: "**no**", None: "undecided"}
COUNTED = {True: "hold", False: "do not hold", None: "are undecided"}


def results_of(size: Size, folder: Path, data: Path | None) -> list[Results]:
    """Return what is there of a size, from its CSV files."""
    found, whole, numbers = [], ("seed", "epoch"), ("alpha", "train_loss", "test_loss", "test_accuracy", "seconds")
    for grid in SIZES[size]:
        path = folder / f"{grid.name}.csv"
        if not path.is_file():
            continue
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                Row(**r)._replace(**{key: int(r[key]) for key in whole}, **{key: float(r[key]) for key in numbers})
                for r in csv.DictReader(file)
            ]
        n_test = grid.training.n_test or len(load_images(grid.training.data, data).test_labels)
        found.append(Results(grid, rows, n_test, len({(row.method, row.alpha, row.seed) for row in rows})))
    return found


def train(context: Context, grids: Sequence[Grid], device: torch.device, hours: float) -> None:
    """Train for some hours, and write the CSV file of each set of images of which a method was run with every alpha."""
    outcome = experiment.run(context, grids, device=device, seconds=3600.0 * hours)
    for found in outcome.tables:
        if not found.on_page and found.rows:
            rows = [[f"{x:.6g}" if isinstance(x, float) else str(x) for x in row] for row in found.rows]
            write_csv(context.folder / f"{found.name}.csv", found.header, rows)


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


def page_of_large(results: Sequence[Results]) -> list[str]:
    """Return what is there of size "large": how much of it, on what, the claims and the pictures."""
    by_name = {result.grid.name: result for result in results}
    rows = []
    for grid in SIZES["large"]:
        n = len(grid.methods) * len(grid.alphas) * len(grid.seeds)
        result = by_name.get(grid.name)
        devices = sorted({f"{row.device}, torch {row.torch}" for row in result.rows}) if result else []
        done, one = f"{result.n_done if result else 0} of {n}", CPU_SECONDS[grid.name]
        hours = n * grid.training.epochs * one / 3600.0
        rows.append([grid.name, done, "; ".join(devices) or "–", f"{hours:.0f} h", f"{one:.0f} s"])
    header = ("images", "runs that are there", "trained on", "all of them take a CPU", "an epoch on a CPU")
    lines = ["", *table(header, rows), ""]
    found = verdicts(results)
    if not found:
        return [*lines, "No method was run with all alphas yet beside AdaHB, so that nothing is claimed."]
    drawings = [drawing for result in results for drawing in experiment.drawings_of(result)]
    for drawing in drawings:
        write_bytes(FOLDER / f"{drawing.name}.png", to_png(drawing.figure))
    pictures = [f"![{drawing.caption}](networks/large/{drawing.name}.png)\n" for drawing in drawings]
    return [
        *lines, summary(found), "", LARGE, "", *claims_table(found, list(by_name)), "", *pictures,
        "The last epoch, alpha by training loss for losses and by test accuracy for accuracies:", "", *ends_table(results),
    ]  # fmt: skip


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Folder of images, searched first.")
@click.option("--hours", default=0.0, show_default=True, help="Train for this long; 0 writes the page alone.")
@click.option("--only", multiple=True, help="Sets of images; all when left out.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
def main(data: Path | None, hours: float, only: tuple[str, ...], device: str) -> None:
    """Train what is not there yet, and write the page."""
    if hours > 0.0:
        chosen = [grid for grid in SIZES["large"] if not only or grid.name in only]
        train(Context("full", FOLDER, data, 2, "networks"), chosen, torch.device(device), hours)
    small, large = results_of("cpu", RESULTS / "networks", data), results_of("large", FOLDER, data)
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
        "subsets of 20,000 of CIFAR-10 and 10,000 of CIFAR-100. The runs go on where they were. The",
        "statistics of batch normalisation move by the published 0.01 a step on MNIST, by 0.1 on the subsets, which have",
        "20 and 40 steps an epoch: with 0.01, eight first runs on CIFAR-100 (AdaHB and Adam, one seed, not counted here)",
        "had test accuracies of 1 to 24 % that had nothing to do with their training losses, at best 0.48 (AdaHB) and 0.57",
        "(Adam): presumably the statistics lagged behind the weights.",
        *page_of_large(large), "",
        "## With few images", "", f"`python -m finitesum.papers.networks --size cpu`. {'; '.join(about)}.", "", SMALL, "",
        summary(found), "", *claims_table(found, names), "",
        *(f"![Training loss and test accuracy by epoch, {name}](networks/{name}.png)\n" for name in names),
        "The last epoch, alpha by training loss for losses and by test accuracy for accuracies:", "",
        *ends_table(small), "",
    ]  # fmt: skip
    (RESULTS / "networks.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
