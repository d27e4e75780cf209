"""Notices, without any call, that epochs of the DataLoader behind the updates have another length than was given.

The iterator of a DataLoader counts the batches that it has yielded. It is found among the objects that Python keeps track
of: the one that yields from one update to the next. When it ends, the updates since its first batch are an epoch. This
takes two looks at all objects, a tenth of a second each, at the first two updates of an epoch, for `EPOCHS` epochs.
"""

import gc
import sys
import weakref
from typing import Any, NamedTuple

#: Epochs that are compared.
EPOCHS = 2

#: AMP skips an update now and then: an epoch may be shorter or longer by this fraction.
TOLERATED = 0.01


class _Seen(NamedTuple):
    iterator: Any  # a weak reference
    n_batches: int  # that it yielded


def _iterators() -> list[Any]:
    """Return the iterators of DataLoaders that are alive."""
    module = sys.modules.get("torch.utils.data.dataloader")
    cls = getattr(module, "_BaseDataLoaderIter", None)
    kinds = [] if cls is None else [cls, *cls.__subclasses__()]
    return [one for one in gc.get_referrers(*kinds) if type(one) in kinds]  # an object refers to its class


def _yielded(iterator: Any) -> int:
    return int(getattr(iterator, "_num_yielded", 0))


class LoaderWatch:
    """Compares the epochs of the loader behind an optimizer's updates with the length that was given."""

    def __init__(self) -> None:
        self._n_compared = 0
        self._candidates: list[_Seen] | None = None
        self._current: _Seen | None = None
        self._n_batches = 0  # of an epoch, as the loader says
        self._n_updates = 0  # since the epoch's first one
        self._is_over = False

    def after_update(self, lengths: set[int]) -> str:
        """Take note of an update; return what is wrong where an epoch that has ended had none of these lengths."""
        if self._is_over or not lengths:
            return ""
        self._n_updates += 1
        if self._current is None:
            self._look()
            return ""
        iterator = self._current.iterator()
        n_batches = 0 if iterator is None else _yielded(iterator)
        if n_batches >= self._current.n_batches and iterator is not None:
            self._current = self._current._replace(n_batches=n_batches)
            return ""
        said = self._compared(self._n_updates - 1, lengths)  # this update is the first one of the next epoch
        self._candidates, self._current, self._n_updates = None, None, 1
        if not self._is_over:
            self._look()
        return said

    def _look(self) -> None:
        """Find the iterator that yields from one update to the next."""
        if self._candidates is None:
            self._candidates = [_Seen(weakref.ref(one), _yielded(one)) for one in _iterators()]
            self._is_over = not self._candidates
            return
        for known in self._candidates:
            iterator = known.iterator()
            if iterator is not None and _yielded(iterator) > known.n_batches:
                self._current = _Seen(known.iterator, _yielded(iterator))
                try:
                    self._n_batches = len(iterator)
                except TypeError:  # an iterable data set
                    self._n_batches = 0
                return
        self._is_over = True

    def _compared(self, n_observed: int, lengths: set[int]) -> str:
        left = self._n_batches - (0 if self._current is None else self._current.n_batches)
        if left * n_observed > self._n_batches:  # ended before its loader did, by more than the batches of an update
            return ""
        self._n_compared += 1
        self._is_over = self._n_compared >= EPOCHS
        wrong = [n for n in sorted(lengths) if abs(n_observed - n) > TOLERATED * n]
        if not wrong:
            return ""
        self._is_over = True
        return (
            f"this epoch of the DataLoader had {n_observed} updates, but steps_per_epoch={wrong[0]}: t does not count "
            f"epochs. Give the number of optimizer steps in an epoch, {n_observed} here: len(loader), or "
            "ceil(len(loader) / k) when gradients are accumulated over k batches."
        )
