r"""The optimizers that the paper compares, with its constants, and the control that it lacks.

AdaHB's step falls like :math:`1/\sqrt{epoch}` by itself while the paper's other methods keep a constant one. The control
gives the same decay to everybody, which tells the method's merit from the schedule's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

from finitesum.torch import HB, AdaHB

#: Makes an optimizer from the parameters, alpha and the number of steps in an epoch.
Make = Callable[[Iterable[torch.nn.Parameter], float, int], Optimizer]

GAMMA, DELTA, EPSILON = 0.1, 1e-8, 1e-8


@dataclass(frozen=True)
class Method:
    """One row of the comparison.

    Parameters
    ----------
    name
        As it stands in the results.
    label
        As it stands in figures and tables.
    make
        Makes the optimizer.
    decays
        Whether alpha is divided by the square root of the epoch's number, from outside.
    """

    name: str
    label: str
    make: Make
    decays: bool = False

    def alpha_in(self, epoch: int, alpha: float) -> float:
        """Return what alpha is in an epoch, counted from 1."""
        return alpha / math.sqrt(epoch) if self.decays else alpha


def _adahb(params: Iterable[torch.nn.Parameter], alpha: float, n_steps: int) -> Optimizer:
    return AdaHB(params, lr=alpha, steps_per_epoch=n_steps, gamma=GAMMA, delta=DELTA)


def _adahb_by_step(params: Iterable[torch.nn.Parameter], alpha: float, n_steps: int) -> Optimizer:
    return AdaHB(params, lr=alpha, steps_per_epoch=1, gamma=GAMMA, delta=DELTA)


def _hb(params: Iterable[torch.nn.Parameter], alpha: float, n_steps: int) -> Optimizer:
    return HB(params, lr=alpha, steps_per_epoch=n_steps)


def _adam(params: Iterable[torch.nn.Parameter], alpha: float, n_steps: int) -> Optimizer:
    return torch.optim.Adam(params, lr=alpha, betas=(0.9, 0.999), eps=EPSILON)


def _sgd(params: Iterable[torch.nn.Parameter], alpha: float, n_steps: int) -> Optimizer:
    return torch.optim.SGD(params, lr=alpha)


def _sgd_momentum(params: Iterable[torch.nn.Parameter], alpha: float, n_steps: int) -> Optimizer:
    return torch.optim.SGD(params, lr=alpha, momentum=0.9)


def _adagrad(params: Iterable[torch.nn.Parameter], alpha: float, n_steps: int) -> Optimizer:
    return torch.optim.Adagrad(params, lr=alpha, eps=EPSILON)


def _rmsprop(params: Iterable[torch.nn.Parameter], alpha: float, n_steps: int) -> Optimizer:
    return torch.optim.RMSprop(params, lr=alpha, alpha=0.9, eps=EPSILON)


#: The method that the paper is about, as it was run.
OURS = "adahb"

#: The method with t as the theorems count it.
OURS_BY_STEP = "adahb-step"

#: What the paper compares with: each is named in a claim.
RIVALS = ("adam", "sgd", "sgd-momentum", "adagrad", "rmsprop")

#: What is appended to the name of a rival that gets the decay, too.
DECAYED = "/sqrt"

_RIVALS = (
    Method("adam", "Adam", _adam),
    Method("sgd", "SGD", _sgd),
    Method("sgd-momentum", "SGD-momentum", _sgd_momentum),
    Method("adagrad", "AdaGrad", _adagrad),
    Method("rmsprop", "RMSProp", _rmsprop),
)

_ALL = (
    Method(OURS, "AdaHB", _adahb),
    Method(OURS_BY_STEP, "AdaHB, t = step", _adahb_by_step),
    Method("hb", "HB", _hb),
    *_RIVALS,
    *(Method(rival.name + DECAYED, f"{rival.label} / √epoch", rival.make, decays=True) for rival in _RIVALS),
)

#: All methods by name, in the order of the legends.
METHODS: dict[str, Method] = {method.name: method for method in _ALL}
