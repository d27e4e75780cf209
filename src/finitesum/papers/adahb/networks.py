"""Figures 2 to 5 of the heavy-ball paper: networks, by `finitesum.papers.networks`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from statistics import fmean
from typing import TYPE_CHECKING

from finitesum.papers.experiment import (
    HEAVY_BALL_PAPER,
    Context,
    Drawing,
    Experiment,
    Finding,
    Outcome,
    Table,
    Value,
    Verdict,
)

if TYPE_CHECKING:
    from finitesum.papers.networks.settings import Size as NetworkSize
    from finitesum.papers.networks.verdict import Results, Statement

#: How the page tells claims that differ in nothing but how alpha was chosen.
_BY = {"test_accuracy": "alpha by final test accuracy", "train_loss": "alpha by training loss"}


def run(context: Context) -> Outcome:
    """Train the networks of a size: small ones on the CPU, the paper's where torch sees a GPU."""
    if find_spec("torch") is None:
        advice = "The networks need torch: pip install 'finitesum[torch]'."
        return Outcome(absent={"torch": advice}, is_usual=False)
    import torch

    from finitesum.datasets import DataError
    from finitesum.papers.networks import experiment, settings
    from finitesum.papers.networks.figures import figure_of

    has_gpu = torch.cuda.is_available()
    size: NetworkSize = "quick" if context.is_quick else "full" if has_gpu else "cpu"
    device = torch.device("cpu") if context.is_quick else None
    try:
        outcome = experiment.run(
            settings.SIZES[size],
            context.folder / size,
            size=size,
            data_dir=context.data_dir,
            device=device,
            verbose=context.verbose,
            command="finitesum reproduce adahb/networks",
        )
    except DataError as error:
        return Outcome(absent={"images": str(error)})
    drawings = [
        Drawing(
            result.grid.name,
            f"{result.grid.name}: training loss and test accuracy by epoch, alpha by final test accuracy; above with "
            f"constant alpha as in the paper, below with alpha / √epoch for everybody.",
            figure_of(result, result.grid.name),
        )
        for result in outcome.results
    ]
    return Outcome(
        drawings,
        [_table(outcome.results)],
        [_verdict(statement) for statement in outcome.statements],
        _values(outcome.results),
        _notes(size, has_gpu),
        outcome.absent,
        is_usual=context.is_quick,
    )


def _verdict(statement: Statement) -> Verdict:
    claim = statement.claim
    findings = tuple(
        Finding(f.data, f.holds, f"{f.mine:.4g} against {f.theirs:.4g}, {f.n_wins} of {f.n_seeds} repeats")
        for f in statement.findings
    )
    sentence = f"{claim.sentence} ({_BY[claim.by]})"
    return Verdict(sentence, findings, of_paper=claim.topic == "paper", noisy=True)


def _values(results: Sequence[Results]) -> dict[str, Value]:
    """Return AdaHB's best final training losses: sums in another order lead networks elsewhere, so that they are rough."""
    from finitesum.papers.networks.methods import METHODS, OURS

    return {
        f"final training loss, {METHODS[OURS].label}, {result.grid.name}": Value(_best_loss(result, OURS), relative=0.5)
        for result in results
    }


def _best_loss(result: Results, method: str) -> float:
    from finitesum.papers.networks.grid import best_alphas, final_rows

    final, best = final_rows(result.rows), best_alphas(result.rows, "train_loss")
    return fmean(final[name, alpha, seed].train_loss for (name, seed), alpha in best.items() if name == method)


def _table(results: Sequence[Results]) -> Table:
    from finitesum.papers.networks.grid import best_alphas, final_rows
    from finitesum.papers.networks.methods import METHODS
    from finitesum.papers.networks.page import accuracy_text, loss_text

    rows = []
    for result in results:
        final = final_rows(result.rows)
        for method in METHODS:
            best = {seed: alpha for (name, seed), alpha in best_alphas(result.rows).items() if name == method}
            if best:
                chosen = [final[method, alpha, seed] for seed, alpha in best.items()]
                alphas = ", ".join(f"{alpha:g}" for alpha in sorted(set(best.values())))
                loss, accuracy = (fmean(getattr(row, c) for row in chosen) for c in ("train_loss", "test_accuracy"))
                rows.append([result.grid.name, METHODS[method].label, alphas, loss_text(loss), accuracy_text(accuracy)])
    header = ("images and network", "method", "alpha", "training loss", "test accuracy")
    return Table("networks", "At the last epoch, alpha by final test accuracy; means over the repeats.", header, rows)


def _notes(size: str, has_gpu: bool) -> tuple[str, ...]:
    if size == "full":
        return ()
    told = {"quick": "The quick form", "cpu": "The form for a CPU"}[size]
    more = "" if has_gpu else " The paper's size wants a GPU."
    return (
        f"{told}: fewer images and epochs, smaller batches, and faster statistics of batch normalisation. It shows "
        f"tendencies."
        f"{more}",
    )


EXPERIMENT = Experiment(
    name="adahb/networks",
    title="Networks: AdaHB against Adam, SGD, SGD-momentum, AdaGrad and RMSProp",
    source=HEAVY_BALL_PAPER,
    section="Section 5.2, Figures 2 to 5",
    setting=(
        "A four-layer CNN on MNIST, CIFAR-10 and CIFAR-100, and a residual network of 20 layers (which the paper calls "
        "ResNet-18) on CIFAR-10: batches of 512, 100 epochs, five repeats, alpha in {0.1, 0.01, 0.001, 0.0001} "
        "constant in time for all but AdaHB, whose t counts epochs. alpha is chosen by final test accuracy.",
    ),
    data=("digits (embedded)", "mnist", "cifar10", "cifar100"),
    run=run,
)
