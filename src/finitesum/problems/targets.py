"""Checks of what stands beside the rows of a linear model: targets, labels, offsets and weights."""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.losses import Loss, Squared, SquaredTargets


def checked_numbers(values: Any, shape: tuple[int, ...], name: str) -> Any:
    """Return the values as a float64 array of this shape, of our own, or raise what is wrong with them."""
    given = _as_array(values, name)
    if given.dtype.kind not in "biufOUS":
        raise ValueError(f"{name} must hold numbers, got {given.dtype}.")
    try:
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}.") from error
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to match the rows of X, got {array.shape}.")
    if not np.isfinite(array).all():
        position = np.argwhere(~np.isfinite(array))[0]
        where = f"position {position[0]}" if array.ndim == 1 else f"row {position[0]}, column {position[1]}"
        raise ValueError(
            f"{name} must be finite, got {array[tuple(position)]} at {where}. Impute or drop such rows first."
        )
    return array


def _as_array(values: Any, name: str) -> Any:
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must not have masked entries. Drop those rows first.")
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a vector: {error}.") from error


def checked_weights(sample_weight: Any, n: int) -> Vector:
    """Return the sample weights, scaled so that they sum to 1, or raise what is wrong with them."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weights = checked_numbers(sample_weight, (n,), "sample_weight")
    if (weights < 0.0).any():
        i = int(np.flatnonzero(weights < 0.0)[0])
        raise ValueError(f"sample_weight must be >= 0, got {weights[i]} at position {i}. Weight 0 leaves a row out.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if total == 0.0:
        raise ValueError("sample_weight must have a positive sum, got zeros only. Leave it out for equal weights.")
    if total == math.inf:
        raise ValueError("sample_weight must have a finite sum, got one beyond 1.8e308. Scale the weights down.")
    normalised: Vector = weights / total
    return normalised


class Targets(NamedTuple):
    """What a loss compares predictions with."""

    loss: Loss
    values: Any  # (n,): numbers, -1 and +1, or codes 0 to K - 1 of classes; (n, K) of several targets
    classes: Any  # the labels behind signs and codes, None where targets are numbers
    n_outputs: int  # predictions a row


def checked_targets(y: Any, n: int, loss: Loss, weights: Vector) -> Targets:
    """Return the targets, and the loss in the form that they ask for, or raise what is wrong with them."""
    labels = _as_array(y, "y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and isinstance(loss, Squared | SquaredTargets):
        values = checked_numbers(labels, (n, labels.shape[1]), "y")
        return Targets(SquaredTargets(loss.scale), values, None, labels.shape[1])
    if labels.shape != (n,):
        more = f" Several targets need loss='squared', got {type(loss).__name__}." if labels.ndim == 2 else ""
        raise ValueError(f"y must have shape ({n},) to match the rows of X, got {labels.shape}.{more}")
    if isinstance(loss, SquaredTargets):
        loss = Squared(loss.scale)
    if loss.target_kind() == "class":
        classes, codes = _codes(labels, weights)
        return Targets(loss, codes.astype(np.int64), classes, classes.size)
    if loss.target_kind() == "sign":
        return Targets(loss, *_signs(labels, loss, weights), 1)
    values = checked_numbers(labels, (n,), "y")
    if loss.target_kind() == "count" and (values < 0.0).any():
        i = int(np.flatnonzero(values < 0.0)[0])
        raise ValueError(f"y must be >= 0 for {type(loss).__name__}, got {values[i]} at position {i}.")
    return Targets(loss, values, None, 1)


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # what pandas' NA answers
        return True


def _labels(labels: Any) -> tuple[Any, Any]:
    """Return the classes in increasing order and the code of each label, or raise where one is missing."""
    kind = labels.dtype.kind
    if kind in "fc" and not np.isfinite(labels).all():
        i = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(f"y must be finite, got {labels[i]} at position {i}. Drop rows without a label first.")
    if kind in "OMm":
        i = next((i for i, label in enumerate(labels) if _is_missing(label)), -1)
        if i >= 0:
            raise ValueError(
                f"y must not lack labels, got {labels[i]} at position {i}. Drop rows without a label first."
            )
    if kind in "biuf" and labels.size and labels.min() < labels.max():  # two numbers need no sorting
        low, high = labels.min(), labels.max()
        if ((is_high := labels == high) | (labels == low)).all():
            return np.array([low, high]), is_high.astype(np.int64)
    try:
        return np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"y must hold labels of one kind: {error}. Convert them to strings first.") from error


def _signs(labels: Any, loss: Loss, weights: Vector) -> tuple[Vector, Any]:
    classes, codes = _labels(labels)
    if classes.size != 2:
        seen = ", ".join(repr(label.item() if hasattr(label, "item") else label) for label in classes[:5])
        what = "one class only" if classes.size == 1 else f"{classes.size} classes"
        more = ' loss="multinomial" takes more classes than two.' if classes.size > 2 else ""
        raise ValueError(
            f"y must hold two classes for {type(loss).__name__}, got {what}: {seen}. Check the label column.{more}"
        )
    totals = np.bincount(codes, weights=weights, minlength=2)
    if not totals.all():
        raise ValueError(f"y holds one class only: every row of class {classes[totals.argmin()]!r} has weight 0.")
    return np.where(codes == 1, 1.0, -1.0), classes


def _codes(labels: Any, weights: Vector) -> tuple[Any, Any]:
    classes, codes = _labels(labels)
    if classes.size < 2:
        raise ValueError("y must hold two classes or more, got one class only. Check the label column.")
    totals = np.bincount(codes, weights=weights, minlength=classes.size)
    if not (totals > 0.0).all():
        empty = classes[int(np.argmin(totals))].item()
        raise ValueError(f"every row of class {empty!r} has weight 0. Leave its rows out.")
    return classes, codes
