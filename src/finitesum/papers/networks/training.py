"""One run: a network trained by one method with one alpha and one seed, and its figures epoch by epoch.

The order of the images and the dropout of an epoch are functions of (seed, epoch) alone, as
`finitesum.running.sampling` has it: a checkpoint needs no generator's state, and a resumed run gives the same numbers.
"""

import math
import pickle
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from finitesum.papers.networks.data import Images
from finitesum.papers.networks.models import MODELS, kernel_penalty
from finitesum.papers.networks.settings import METHODS, Training
from finitesum.running.checkpoint import CheckpointError, write_atomically

FORMAT = "finitesum-networks-1"

#: Test images evaluated at a time.
_TEST_BATCH = 1000


class EpochRow(NamedTuple):
    """The figures of an epoch."""

    epoch: int
    train_loss: float  # mean over the mini-batches while training, dropout on, as Keras reports it
    test_loss: float
    test_accuracy: float
    seconds: float  # of training, without testing


@dataclass(frozen=True)
class Run:
    """What makes a run what it is: the same run has the same figures on the same machine."""

    training: Training
    method: str
    alpha: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its checkpoint."""
        return f"{self.training.name}-{self.method.replace('/', '-')}-{self.alpha:g}-{self.seed}"


class _Tensors(NamedTuple):
    """The images where they are used."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


class _Trainee(NamedTuple):
    network: nn.Module
    optimizer: torch.optim.Optimizer
    rows: list[EpochRow]


def images_for(training: Training, images: Images) -> Images:
    """Return the images that a training uses: as many as it says, without their mean for the residual network."""
    cut = images.first(training.n_train, training.n_test)
    return cut.without_mean() if training.model == "resnet20" else cut


def train(
    run: Run, images: Images, *, device: torch.device, checkpoint: Path | None = None, checkpoint_seconds: float = 0.0
) -> Iterator[EpochRow]:
    """Yield the figures of a run on images that `images_for` gives, epoch by epoch; those before a checkpoint come first.

    A run whose loss is NaN or infinite ends there: the epochs left are rows of NaN, with the accuracy of the last test. The
    checkpoint is a file that is written after an epoch, with at least `checkpoint_seconds` between two writings, and from
    which the run continues if it exists; a CheckpointError says that it is damaged, or one of another run.
    """
    tensors = _Tensors(*(torch.from_numpy(getattr(images, name)).to(device) for name in _Tensors._fields))
    with _own_randomness(device):
        trainee = _start(run, images, device)
    if checkpoint is not None and checkpoint.is_file():
        _resume(checkpoint, run, trainee, device)
    yield from trainee.rows
    written = -math.inf
    while len(trainee.rows) < run.training.epochs:
        if trainee.rows and not math.isfinite(trainee.rows[-1].train_loss):
            last = trainee.rows[-1]
            lost = range(last.epoch + 1, run.training.epochs + 1)
            yield from (EpochRow(epoch, math.nan, math.nan, last.test_accuracy, 0.0) for epoch in lost)
            return
        with _own_randomness(device):
            trainee.rows.append(_epoch(run, len(trainee.rows) + 1, trainee, tensors))
        if checkpoint is not None and time.monotonic() - written >= checkpoint_seconds:
            _save(checkpoint, run, trainee)
            written = time.monotonic()
        yield trainee.rows[-1]


@contextmanager
def _own_randomness(device: torch.device) -> Iterator[None]:
    """Leave torch's generators as they were, and make cuDNN repeat itself."""
    devices = [device.index or 0] if device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=devices),
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True),
    ):
        yield


def _seeds(seed: int, epoch: int) -> tuple[int, np.random.Generator]:
    """Return the seed of dropout and the generator of the order, for one epoch (0: the initial weights)."""
    mixed = np.random.SeedSequence([seed, epoch])
    return int(mixed.generate_state(1)[0]), np.random.default_rng(mixed)


def _start(run: Run, images: Images, device: torch.device) -> _Trainee:
    training = run.training
    torch.manual_seed(_seeds(run.seed, 0)[0])
    network: Any = MODELS[training.model](images.shape, images.n_classes, training.bn_momentum).to(device)
    network = network.to(memory_format=torch.channels_last)  # a quarter faster, the same numbers up to rounding
    n_steps = len(_batches(torch.arange(len(images.train_labels)), training.batch_size))
    optimizer = METHODS[run.method].make(network.parameters(), run.alpha, n_steps)
    return _Trainee(network, optimizer, [])


def _epoch(run: Run, epoch: int, trainee: _Trainee, tensors: _Tensors) -> EpochRow:
    started = time.perf_counter()
    dropout_seed, generator = _seeds(run.seed, epoch)
    torch.manual_seed(dropout_seed)
    for group in trainee.optimizer.param_groups:
        group["lr"] = METHODS[run.method].alpha_in(epoch, run.alpha)
    order = torch.from_numpy(generator.permutation(len(tensors.train_labels))).to(tensors.train_labels.device)
    trainee.network.train()
    losses = [
        _step(trainee, tensors.train_images[batch], tensors.train_labels[batch])
        for batch in _batches(order, run.training.batch_size)
    ]
    train_loss = float(torch.stack(losses).double().mean())
    seconds = time.perf_counter() - started
    test_loss, accuracy = _test(trainee.network, tensors)
    return EpochRow(epoch, train_loss, test_loss, accuracy, seconds)


def _batches(order: Tensor, size: int) -> list[Tensor]:
    """Return the mini-batches; one image alone, which batch normalisation cannot take, joins the batch before."""
    parts = list(torch.split(order, size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    return parts


def _step(trainee: _Trainee, images: Tensor, labels: Tensor) -> Tensor:
    trainee.optimizer.zero_grad()
    loss = F.cross_entropy(trainee.network(images), labels)
    if (penalty := kernel_penalty(trainee.network)) is not None:
        loss = loss + penalty
    loss.backward()  # type: ignore[no-untyped-call]
    trainee.optimizer.step()
    return loss.detach()


@torch.no_grad()
def _test(network: nn.Module, tensors: _Tensors) -> tuple[float, float]:
    """Return the mean loss on the test images, without penalty, and the fraction of them that is recognised."""
    network.eval()
    logits = torch.cat([network(part) for part in torch.split(tensors.test_images, _TEST_BATCH)])
    hits = (logits.argmax(1) == tensors.test_labels).double().mean()
    return float(F.cross_entropy(logits.double(), tensors.test_labels)), float(hits)


def _identity(run: Run, device: torch.device) -> dict[str, Any]:
    return {"format": FORMAT, **asdict(run), "device": device.type}


def _save(path: Path, run: Run, trainee: _Trainee) -> None:
    device = next(trainee.network.parameters()).device
    states = {"network": trainee.network.state_dict(), "optimizer": trainee.optimizer.state_dict()}
    content = {"run": _identity(run, device), "rows": [list(row) for row in trainee.rows], **states}
    write_atomically(path, lambda file: torch.save(content, file))


def _resume(path: Path, run: Run, trainee: _Trainee, device: torch.device) -> None:
    try:
        content = torch.load(path, map_location=device, weights_only=True)
        theirs = content["run"]
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is no checkpoint of a network, or damaged: remove it to start again.") from error
    ours = _identity(run, device)
    other = [key for key in ours if theirs.get(key) != ours[key]]
    if other:
        raise CheckpointError(f"{path} is a checkpoint of another run: it differs in {', '.join(other)}. Remove it.")
    trainee.network.load_state_dict(content["network"])
    trainee.optimizer.load_state_dict(content["optimizer"])
    trainee.rows[:] = [EpochRow(int(row[0]), *row[1:]) for row in content["rows"]]
