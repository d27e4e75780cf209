"""Figures 2 to 5 of the heavy-ball paper: networks, by `finitesum.papers.networks`."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from finitesum.papers.experiment import HEAVY_BALL_PAPER, Context, Experiment, Outcome


def run(context: Context) -> Outcome:
    """Train the networks of a size: small ones on the CPU, the paper's where torch sees a GPU."""
    if find_spec("torch") is None:
        advice = "The networks need torch: pip install 'finitesum[torch]'."
        return Outcome(absent={"torch": advice}, is_usual=False)
    import torch

    from finitesum.papers.networks import experiment
    from finitesum.papers.networks.settings import SIZES

    has_gpu = torch.cuda.is_available()
    grids = SIZES["quick" if context.is_quick else "full" if has_gpu else "cpu"]
    outcome = experiment.run(context, grids, device=torch.device("cpu") if context.is_quick else None)
    notes = list(outcome.notes)
    if context.is_quick or not has_gpu:
        more = "" if has_gpu else " The paper's size needs a GPU."
        notes.append(
            f"The {'quick form' if context.is_quick else 'form for a CPU'}: fewer images and epochs, smaller batches, and "
            "batch normalisation whose statistics move by 0.1 a step instead of the published 0.01, because in so few "
            f"steps they would stay near their start. It shows tendencies.{more}"
        )
    return replace(outcome, notes=notes, is_usual=context.is_quick)


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
