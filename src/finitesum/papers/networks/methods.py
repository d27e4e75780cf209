r"""The optimizers that the paper compares, with its constants, and the control that it lacks.

AdaHB's step falls like :math:`1/\sqrt{epoch}` by itself while the paper's other methods keep a constant one. The control
gives the same decay to all, which separates the method's merit from the schedule's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from finitesum.torch import HB, AdaHB

Params = Iterable[torch.nn.Parameter]

#: Makes an optimizer from the parameters, alpha and the number of steps in an epoch.
Make = Callable[[Params, float, int], Optimizer]

GAMMA, DELTA, EPSILON = 0.1, 1e-8, 1e-8


@dataclass(frozen=True)
class Method:
    """One row of the comparison."""

    name: str  # as it stands in the results
    label: str  # as it stands in figures and tables
    make: Make
    decays: bool = False  # whether alpha is divided by the square root of the epoch's number, from outside

    def alpha_in(self, epoch: int, alpha: float) -> float:
        """Return what alpha is in an epoch, counted from 1."""
        return alpha / math.sqrt(epoch) if self.decays else alpha


#: The method that the paper is about, as it was run.
OURS = "adahb"

#: The method with t as the theorems count it.
OURS_BY_STEP = "adahb-step"

#: What the paper compares with: each is named in a claim.
RIVALS = ("adam", "sgd", "sgd-momentum", "adagrad", "rmsprop")

#: What is appended to the name of a rival that gets the decay, too.
DECAYED = "/sqrt"


def _by_epoch(params: Params, alpha: float, n_steps: int) -> Optimizer:
    return AdaHB(params, lr=alpha, steps_per_epoch=n_steps, gamma=GAMMA, delta=DELTA)


def _by_step(params: Params, alpha: float, n_steps: int) -> Optimizer:
    return AdaHB(params, lr=alpha, steps_per_epoch=1, gamma=GAMMA, delta=DELTA)


def _hb(params: Params, alpha: float, n_steps: int) -> Optimizer:
    return HB(params, lr=alpha, steps_per_epoch=n_steps)


def _of_torch(optimizer: Callable[..., Optimizer], **options: Any) -> Make:
    return lambda params, alpha, n_steps: optimizer(params, lr=alpha, **options)


_RIVALS = (
    Method("adam", "Adam", _of_torch(torch.optim.Adam, betas=(0.9, 0.999), eps=EPSILON)),
    Method("sgd", "SGD", _of_torch(torch.optim.SGD)),
    Method("sgd-momentum", "SGD-momentum", _of_torch(torch.optim.SGD, momentum=0.9)),
    Method("adagrad", "AdaGrad", _of_torch(torch.optim.Adagrad, eps=EPSILON)),
    Method("rmsprop", "RMSProp", _of_torch(torch.optim.RMSprop, alpha=0.9, eps=EPSILON)),
)

_ALL = (
    Method(OURS, "AdaHB", _by_epoch),
    Method(OURS_BY_STEP, "AdaHB, t = step", _by_step),
    Method("hb", "HB", _hb),
    *_RIVALS,
    *(Method(rival.name + DECAYED, f"{rival.label} / √epoch", rival.make, decays=True) for rival in _RIVALS),
)

#: All methods by name, in the order of the legends.
METHODS: dict[str, Method] = {method.name: method for method in _ALL}
