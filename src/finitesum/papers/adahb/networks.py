"""Figures 2 to 5 of the heavy-ball paper: networks, by `finitesum.papers.networks`."""

from dataclasses import replace
from importlib.util import find_spec

from finitesum.papers.experiment import Context, Outcome, captions


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
        form = "quick form" if context.is_quick else "form for a CPU"
        more = "" if has_gpu else " The paper's size needs a GPU."
        notes.append(captions("adahb/networks")["form"].format(form=form) + more)
    return replace(outcome, notes=notes, is_usual=context.is_quick)
