"""What is run: the paper's setting, and two that fit an ordinary computer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal

from finitesum.papers.networks.methods import METHODS

Size = Literal["quick", "cpu", "full"]

#: The grid of the paper, for every method.
ALPHAS = (0.1, 0.01, 0.001, 0.0001)


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

    def fingerprint(self) -> str:
        """Return a short text that differs between trainings that may differ in their figures.

        Examples
        --------
        >>> Training("mnist").fingerprint() == Training("mnist", epochs=99).fingerprint()
        False
        """
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
        return f"{self.training.data}-{self.training.model}"


# With some hundred steps in all, statistics that move by a hundredth a step would still be those of the first batches.
_FAST = 0.1

#: The grids of a size. "full" is the paper's and needs a GPU; "cpu" takes about ten minutes of one core for each of its
#: sets of images; "quick" takes less than a minute.
SIZES: dict[Size, tuple[Grid, ...]] = {
    "quick": (
        Grid(
            Training("digits", epochs=4, batch_size=32, n_train=800, n_test=360, bn_momentum=_FAST),
            alphas=(0.1, 0.01, 0.001),
            seeds=(0,),
        ),
    ),
    "cpu": (
        Grid(Training("digits", epochs=12, batch_size=32, bn_momentum=_FAST), seeds=(0, 1)),
        Grid(Training("mnist", epochs=5, batch_size=32, n_train=1000, n_test=1000, bn_momentum=_FAST), seeds=(0, 1)),
        Grid(
            Training("cifar10_subset", epochs=4, batch_size=32, n_train=1000, n_test=1000, bn_momentum=_FAST),
            seeds=(0,),
        ),
    ),
    "full": (
        Grid(Training("mnist")),
        Grid(Training("cifar10")),
        Grid(Training("cifar100")),
        Grid(Training("cifar10", model="resnet20")),
    ),
}
