"""Losses on whole arrays of predictions: as they are written where they take arrays, one row after the other elsewhere.

Ours do, and so does a loss of the user's that is written with NumPy, or without comparisons. Whether one does is found
out by asking it: its methods at some points at once must return what they return at each of them.
"""

import math
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from finitesum.losses.base import Loss

#: Predictions at which a loss is asked, far out and beside the usual corners, and targets that suit any kind.
_PREDICTIONS = np.array([-1000.0, -2.0, -0.75, 0.0, 0.25, 1.5, 3.0, 1000.0])
_TARGETS = {
    "sign": np.resize([-1.0, 1.0, 1.0], 8),
    "real": np.linspace(-2.0, 2.0, 8),
    "positive": np.arange(1.0, 9.0),
    "share": np.linspace(0.0, 1.0, 8),
    "count": np.arange(8.0),
}

#: Numbers of an array that are computed while a loss is at one row: by a method for arrays, and by one for numbers.
ARRAY_NUMBERS, ROW_NUMBERS = 10.0, 200.0

#: The classes that were asked.
_KNOWN: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


class OverRows:
    """A loss whose methods take numbers, called for one row after the other."""

    def __init__(self, loss: Any) -> None:
        self._loss = loss

    def value(self, prediction: Any, target: Any) -> Any:
        return _over_rows(self._loss.value, prediction, target)

    def d1(self, prediction: Any, target: Any) -> Any:
        return _over_rows(self._loss.d1, prediction, target)

    def d1_d2(self, prediction: Any, target: Any) -> Any:
        return _over_rows(self._loss.d1_d2, prediction, target, 2).T

    def majorant(self, prediction: Any, target: Any) -> Any:
        return _over_rows(self._loss.majorant, prediction, target)


def _over_rows(function: Callable[[float, float], Any], predictions: Any, targets: Any, n_results: int = 0) -> Any:
    """Return what a method returns for each row; where Python's mathematics raise, what machine code would return."""
    out = np.empty((predictions.size, n_results) if n_results else predictions.size)
    rows = zip(predictions.astype(np.float64).tolist(), targets.astype(np.float64).tolist(), strict=True)
    for i, (prediction, target) in enumerate(rows):
        try:
            out[i] = function(prediction, target)
        except OverflowError:
            out[i] = math.inf
        except (ValueError, ZeroDivisionError):
            out[i] = math.nan
    return out


def in_arrays(loss: Loss) -> Any:
    """Return a loss whose methods value, d1, d1_d2 and majorant take arrays, and return arrays or what serves all rows.

    Examples
    --------
    >>> from finitesum.losses import Hinge
    >>> in_arrays(Hinge()).value(np.array([-1.0, 0.5, 3.0]), np.ones(3))
    array([2. , 0.5, 0. ])
    """
    return loss if takes_arrays(loss) else OverRows(loss)


def log_likelihoods(loss: Any, scores: Any) -> Any:
    """Return log P(-1 | u) and log P(+1 | u) of scores (n,) by a loss of `finitesum.losses.LIKELIHOODS`, shape (n, 2).

    Examples
    --------
    >>> from finitesum.losses import Logistic
    >>> np.exp(log_likelihoods(Logistic(), np.array([0.0, 1000.0])))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    known = in_arrays(loss)
    return np.stack([-known.value(scores, np.full(scores.shape, sign)) / loss.scale for sign in (-1.0, 1.0)], axis=-1)


def takes_arrays(loss: Loss) -> bool:
    """Return whether the methods of a loss may be called with arrays."""
    known = _KNOWN.get(type(loss))
    if known is None:
        known = _KNOWN[type(loss)] = _is_the_same_in_arrays(loss)
    return known


def _is_the_same_in_arrays(loss: Any) -> bool:
    targets, by_rows = _TARGETS.get(loss.target_kind(), _TARGETS["count"]), OverRows(loss)
    try:
        with np.errstate(all="ignore"):
            for name in ("value", "d1", "d1_d2", "majorant"):
                at_once = getattr(loss, name)(_PREDICTIONS, targets)
                wanted = getattr(by_rows, name)(_PREDICTIONS, targets)
                if name != "d1_d2":
                    at_once, wanted = (at_once,), (wanted,)
                for found, right in zip(at_once, wanted, strict=True):
                    if not np.allclose(found, right, rtol=1e-9, atol=1e-300, equal_nan=True):
                        return False
    except Exception:
        return False
    return True


def row_numbers(loss: Loss) -> float:
    """Return the work of a loss at one row, in numbers of an array."""
    return ARRAY_NUMBERS if takes_arrays(loss) else ROW_NUMBERS
