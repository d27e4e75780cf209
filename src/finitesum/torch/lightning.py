"""Epochs of PyTorch Lightning for `AdaHB` and `HB`: a callback of its Trainer."""

from typing import Any

from lightning.pytorch.callbacks import Callback

from finitesum.torch.epochs import after_epoch


class EpochCallback(Callback):  # type: ignore[misc]
    """Makes t of `AdaHB` and `HB` the number of the epoch, in a Lightning Trainer.

    Where an optimizer was made with ``steps_per_epoch=None`` t grows by one after each epoch of training; where it has a
    length, that is compared with the epoch's, and an `EpochLengthWarning` says what differs.

    Examples
    --------
    ``Trainer(callbacks=[EpochCallback()])``, with ``AdaHB(self.parameters(), lr=1e-2, steps_per_epoch=None)`` in
    ``configure_optimizers``.
    """

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Advance t."""
        for optimizer in trainer.optimizers:
            after_epoch(optimizer)
