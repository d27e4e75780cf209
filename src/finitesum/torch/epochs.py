"""Sets and checks t: the scheduler `EpochT`, and the warnings for an epoch length that does not match."""

import warnings
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import Optimizer

from finitesum.torch.loaders import TOLERATED, LoaderWatch

#: This many updates at one t, with nothing to move it, are taken for a forgotten scheduler.
PATIENCE = 5_000

#: The same with an `EpochT` at hand: no epoch is that long.
PATIENCE_SCHEDULED = 100_000

#: This many epochs of a single update each are taken for a scheduler stepped at every update.
SHORT_EPOCHS = 10


class EpochLengthWarning(UserWarning):
    """t does not count what it should: the epoch length given and the observed one differ."""


_warn = partial(warnings.warn, category=EpochLengthWarning)


def set_t(group: dict[str, Any], t: float) -> None:
    """Set t of a group, in place where it is a tensor."""
    if isinstance(group["t"], Tensor):
        group["t"].fill_(t)
    else:
        group["t"] = float(t)


class EpochT(LRScheduler):
    """Sets t of `AdaHB` and `HB` to the number of the epoch: 1 at first, one more at each ``step()``.

    For optimizers made with ``steps_per_epoch=None``, where the length of an epoch is not known beforehand or varies:
    call ``step()`` after every epoch. The learning rate stays as it is, so that it can be chained with any other
    scheduler. Saves and resumes as every scheduler of torch.

    Parameters
    ----------
    optimizer : AdaHB or HB
        Made with ``steps_per_epoch=None`` (in one group at least).
    last_epoch : int, default -1
        Number of epochs done less one, as in all schedulers of torch.

    Raises
    ------
    ValueError
        No param group of the optimizer leaves t to a scheduler.

    Warns
    -----
    EpochLengthWarning
        ``step()`` is called after every update, ten times in a row: t counts steps then.

    Examples
    --------
    >>> import torch
    >>> from finitesum.torch import AdaHB, EpochT
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = AdaHB([w], steps_per_epoch=None)
    >>> scheduler = EpochT(optimizer)
    >>> for epoch in range(3):
    ...     for _ in range(5):
    ...         optimizer.zero_grad()
    ...         w.square().sum().backward()
    ...         optimizer.step()
    ...     print(optimizer.epoch)
    ...     scheduler.step()
    1.0
    2.0
    3.0
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not any(_is_scheduled(group) for group in optimizer.param_groups):
            raise ValueError(
                "EpochT sets t, but the optimizer counts it from steps_per_epoch itself. "
                "Leave the scheduler out, or make the optimizer with steps_per_epoch=None."
            )
        self._updates_before = int(cast(Any, optimizer).n_updates)
        self._n_short = 0
        if isinstance(watch := getattr(optimizer, "_watch", None), Watch):
            watch.is_scheduled = True
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Return the learning rates as they are."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Advance t by one. Call it after each epoch."""
        super().step(epoch)
        self._write()
        updates = int(cast(Any, self.optimizer).n_updates)
        self._n_short = self._n_short + 1 if updates - self._updates_before == 1 else 0
        self._updates_before = updates
        if self._n_short == SHORT_EPOCHS:
            _warn(
                f"EpochT.step() was called after every single update, {SHORT_EPOCHS} times in a row, so t counts steps. "
                "Call it once an epoch, or use steps_per_epoch=1 if t is meant to count steps.",
                stacklevel=2,
            )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state, and set t as it was."""
        super().load_state_dict(state_dict)
        self._updates_before = int(cast(Any, self.optimizer).n_updates)
        self._write()

    def _write(self) -> None:
        for group in self.optimizer.param_groups:
            if _is_scheduled(group):
                set_t(group, self.last_epoch + 1)


def after_epoch(optimizer: Any) -> None:
    """Note the end of an epoch: t of groups that leave it to others grows by one, given lengths are compared.

    Optimizers of other kinds are left alone, and those that a library has wrapped as ``optimizer.optimizer`` are found.
    """
    while not isinstance(watch := getattr(optimizer, "_watch", None), Watch):
        if not hasattr(optimizer, "optimizer"):
            return
        optimizer = optimizer.optimizer
    watch.is_scheduled = True
    for group in optimizer.param_groups:
        if _is_scheduled(group):
            set_t(group, float(group["t"]) + 1.0)
    optimizer.epoch_end()


def _is_scheduled(group: dict[str, Any]) -> bool:
    return "steps_per_epoch" in group and group["steps_per_epoch"] is None


class Watch:
    """Notices a t that does not move although it should: one object an optimizer, kept out of its state."""

    def __init__(self) -> None:
        self.mark: int | None = 0  # updates at the last epoch_end(), None when not known
        self.t_at_mark: list[Any] = []
        self.is_scheduled = False
        self._t: list[Any] = []
        self._n_still = 0
        self._warned = False
        self._loader = LoaderWatch()

    def after_update(self, groups: list[dict[str, Any]]) -> None:
        """Warn once when t has stood still for very many updates and no scheduler is there to move it.

        Or when an epoch of the DataLoader had another length than was given.
        """
        if torch.compiler.is_compiling():
            return
        if said := self._loader.after_update({group["steps_per_epoch"] for group in groups} - {None, 1}):
            _warn(said, stacklevel=4)
        if self._warned:
            return
        now = times(groups)
        self._n_still = self._n_still + 1 if now == self._t else 1
        self._t = now
        if now and self._n_still >= (PATIENCE_SCHEDULED if self.is_scheduled else PATIENCE):
            self._warned = True
            _warn(
                f"t has stood still for {self._n_still} updates: steps_per_epoch=None leaves it to a scheduler. Call "
                "EpochT(optimizer).step() after each epoch, or give steps_per_epoch. Ignore this if an epoch is longer.",
                stacklevel=4,
            )

    def epoch_end(self, groups: list[dict[str, Any]], n_updates: int) -> int | None:
        """Compare the updates since the last call with what each group was given; return their number, if known."""
        before, self.mark = self.mark, n_updates
        t_before, self.t_at_mark = self.t_at_mark, times(groups)
        if before is None:
            return None
        n_observed = n_updates - before
        lengths = {group["steps_per_epoch"] for group in groups} - {None, 1}
        for expected in sorted(lengths):
            if abs(n_observed - expected) > TOLERATED * expected:
                _warn(
                    f"this epoch had {n_observed} updates, but steps_per_epoch={expected}: t does not count epochs. Give "
                    "the number of optimizer steps in an epoch: len(loader), or ceil(len(loader) / k) when gradients are "
                    "accumulated over k batches.",
                    stacklevel=3,
                )
        if t_before and t_before == self.t_at_mark:
            _warn("t is the same as one epoch ago. Call EpochT(optimizer).step() after each epoch.", stacklevel=3)
        return n_observed


def times(groups: list[dict[str, Any]]) -> list[Any]:
    """Return what identifies t of the groups that leave it to a scheduler; a tensor is not read, its version is."""
    scheduled = [group["t"] for group in groups if group["steps_per_epoch"] is None]
    return [t._version if isinstance(t, Tensor) else float(t) for t in scheduled]
