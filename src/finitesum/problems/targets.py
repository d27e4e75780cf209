"""Checks of what stands beside the rows of a linear model: targets, labels, offsets and weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.losses import Loss


def checked_vector(values: Any, n: int, name: str) -> Vector:
    """Return the values as a float64 vector of length n of our own, or raise what is wrong with them."""
    given = _as_array(values, name)
    if given.dtype.kind not in "biufOUS":
        raise ValueError(f"{name} must hold numbers, got {given.dtype}.")
    try:
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}.") from error
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},) to match the rows of X, got {array.shape}.")
    if not np.isfinite(array).all():
        i = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[i]} at position {i}. Impute or drop such rows first.")
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
    weights = checked_vector(sample_weight, n, "sample_weight")
    if (weights < 0.0).any():
        i = int(np.flatnonzero(weights < 0.0)[0])
        raise ValueError(f"sample_weight must be >= 0, got {weights[i]} at position {i}. Weight 0 leaves a row out.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if total == 0.0:
        raise ValueError("sample_weight must have a positive sum, got zeros only. Leave it out for equal weights.")
    if total == math.inf:
        raise ValueError("sample_weight must have a finite sum, got one beyond 1.8e308. Scale the weights down.")
    weights /= total
    return weights


def checked_targets(y: Any, n: int, loss: Loss, weights: Vector) -> tuple[Vector, Any]:
    labels = _as_array(y, "y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ValueError(f"y must have shape ({n},) to match the rows of X, got {labels.shape}.")
    if loss.target_kind() == "sign":
        return _signs(labels, loss, weights)
    targets = checked_vector(labels, n, "y")
    if loss.target_kind() == "count" and (targets < 0.0).any():
        i = int(np.flatnonzero(targets < 0.0)[0])
        raise ValueError(f"y must be >= 0 for {type(loss).__name__}, got {targets[i]} at position {i}.")
    return targets, None


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # what pandas' NA answers
        return True


def _signs(labels: Any, loss: Loss, weights: Vector) -> tuple[Vector, Any]:
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
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"y must hold labels of one kind: {error}. Convert them to strings first.") from error
    if classes.size != 2:
        seen = ", ".join(repr(label.item() if hasattr(label, "item") else label) for label in classes[:5])
        what = "one class only" if classes.size == 1 else f"{classes.size} classes"
        raise ValueError(
            f"y must hold two classes for {type(loss).__name__}, got {what}: {seen}. Check the label column."
        )
    for code in (0, 1):
        if not (weights[codes == code] > 0.0).any():
            raise ValueError(f"y holds one class only: every row of class {classes[code]!r} has weight 0.")
    return np.where(codes == 1, 1.0, -1.0), classes
