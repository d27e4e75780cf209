r"""What is run: the optimizers with the paper's constants, and the paper's grids beside two for an ordinary computer.

AdaHB's step falls like :math:`1/\sqrt{epoch}` by itself while the paper's other methods keep a constant one. A control that
the paper lacks gives the same decay to all, which separates the method's merit from the schedule's.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch.optim import Optimizer

from finitesum.torch import HB, AdaHB

Size = Literal["quick", "cpu", "large", "full"]

#: Makes an optimizer from the parameters, alpha and the number of steps in an epoch.
Make = Callable[[Iterable[torch.nn.Parameter], float, int], Optimizer]

#: The grid of the paper, for every method.
ALPHAS = (0.1, 0.01, 0.001, 0.0001)

EPSILON = 1e-8

#: The method that the paper is about, as it was run; and with t as the theorems count it.
OURS, OURS_BY_STEP = "adahb", "adahb-step"

#: What is appended to the name of a rival that gets the decay, too.
DECAYED = "/sqrt"


class Method(NamedTuple):
    """One row of the comparison."""

    label: str  # as it stands in figures and tables
    make: Make
    decays: bool = False  # whether alpha is divided by the square root of the epoch's number, from outside

    def alpha_in(self, epoch: int, alpha: float) -> float:
        """Return what alpha is in an epoch, counted from 1."""
        return alpha / math.sqrt(epoch) if self.decays else alpha


def _heavy_ball(optimizer: Callable[..., Optimizer], by_step: bool = False, **options: Any) -> Make:
    return lambda params, alpha, n: optimizer(params, lr=alpha, steps_per_epoch=1 if by_step else n, **options)


def _of_torch(optimizer: Callable[..., Optimizer], **options: Any) -> Make:
    return lambda params, alpha, _n_steps: optimizer(params, lr=alpha, **options)


#: What the paper compares with: each is named in a claim.
RIVALS = {
    "adam": Method("Adam", _of_torch(torch.optim.Adam, betas=(0.9, 0.999), eps=EPSILON)),
    "sgd": Method("SGD", _of_torch(torch.optim.SGD)),
    "sgd-momentum": Method("SGD-momentum", _of_torch(torch.optim.SGD, momentum=0.9)),
    "adagrad": Method("AdaGrad", _of_torch(torch.optim.Adagrad, eps=EPSILON)),
    "rmsprop": Method("RMSProp", _of_torch(torch.optim.RMSprop, alpha=0.9, eps=EPSILON)),
}

#: All methods by the names that stand in the results, in the order of the legends.
METHODS = {
    OURS: Method("AdaHB", _heavy_ball(AdaHB, gamma=0.1, delta=1e-8)),
    OURS_BY_STEP: Method("AdaHB, t = step", _heavy_ball(AdaHB, by_step=True, gamma=0.1, delta=1e-8)),
    "hb": Method("HB", _heavy_ball(HB)),
    **RIVALS,
    **{name + DECAYED: Method(f"{rival.label} / √epoch", rival.make, decays=True) for name, rival in RIVALS.items()},
}


@dataclass(frozen=True)
class Training:
    """How a network is trained, for every method."""

    data: str  # a name of `data.IMAGES`
    model: str = "cnn"  # a name of `models.MODELS`
    epochs: int = 100
    batch_size: int = 512  # the last, smaller batch of an epoch is used
    n_train: int | None = None  # the number of images, the first ones; None for all
    n_test: int | None = None
    bn_momentum: float = 0.01  # weight of a new batch in the statistics for testing; this is the published one

    @property
    def name(self) -> str:
        """The images and the network."""
        return f"{self.data}-{self.model}"

    def fingerprint(self) -> str:
        """Return a short text that differs between trainings that may differ in their figures."""
        return hashlib.blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=5).hexdigest()


@dataclass(frozen=True)
class Grid:
    """Which runs are made of a training: each method with each alpha and each seed."""

    training: Training
    methods: tuple[str, ...] = tuple(METHODS)
    alphas: tuple[float, ...] = ALPHAS
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    @property
    def name(self) -> str:
        """The name of its files."""
        return self.training.name


# With some hundred steps in all, statistics that move by a hundredth a step lag far behind the weights.
_short = partial(Training, batch_size=32, bn_momentum=0.1)

#: The grids of a size. "full" is the paper's and needs a GPU; "large" has the paper's batches, and takes days of one core
#: for each of its sets of images; "cpu" takes about ten minutes for each, "quick" less than a minute.
SIZES: dict[Size, tuple[Grid, ...]] = {
    "quick": (Grid(_short("digits", epochs=4, n_train=800, n_test=360), alphas=(0.1, 0.01, 0.001), seeds=(0,)),),
    "cpu": (
        Grid(_short("digits", epochs=12), seeds=(0, 1, 2)),
        Grid(_short("mnist", epochs=5, n_train=1000, n_test=1000), seeds=(0, 1)),
        Grid(_short("cifar10_subset", epochs=4, n_train=1000, n_test=1000), seeds=(0,)),
    ),
    "large": tuple(
        Grid(Training(images, epochs=20, bn_momentum=bn_momentum), seeds=(0, 1, 2))
        for images, bn_momentum in (("cifar100_subset", 0.1), ("cifar10_subset", 0.1), ("mnist", 0.01))
    ),
    "full": tuple(
        map(Grid, (Training("mnist"), Training("cifar10"), Training("cifar100"), Training("cifar10", model="resnet20")))
    ),
}
