"""Epochs of Hugging Face's Trainer for `AdaHB` and `HB`: a callback of it."""

from typing import Any

from transformers import TrainerCallback

from finitesum.torch.epochs import after_epoch


class EpochCallback(TrainerCallback):  # type: ignore[misc]
    """Makes t of `AdaHB` and `HB` the number of the epoch, in a Trainer of transformers.

    Where an optimizer was made with ``steps_per_epoch=None`` t grows by one after each epoch of training; where it has a
    length, that is compared with the epoch's, and an `EpochLengthWarning` says what differs.

    Examples
    --------
    ``Trainer(model, args, optimizers=(AdaHB(model.parameters(), lr=1e-2, steps_per_epoch=None), None),
    callbacks=[EpochCallback()])``.
    """

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Advance t."""
        after_epoch(kwargs["optimizer"])
