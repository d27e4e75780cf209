"""Labels of rows: the classes that there are, the code of each row's, and what is wrong with them."""

from typing import Any

import numpy as np

from finitesum.losses import Loss

#: Whole numbers are counted, not sorted, where the largest is at most this many times the number of labels above the least.
WIDEST = 4


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # what pandas' NA answers
        return True


def codes_of_words(labels: Any) -> tuple[Any, Any] | None:
    """Return the classes in increasing order and the codes of labels that are str in an array of objects, else None.

    Examples
    --------
    >>> classes, codes = codes_of_words(np.array(["b", "a", "b"], dtype=object))
    >>> classes.tolist(), codes.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    if type(labels) is not np.ndarray or labels.dtype.kind != "O" or labels.ndim != 1:
        return None
    words = labels.tolist()
    try:
        distinct = set(words)
    except TypeError:  # of what has no hash
        return None
    if not all(isinstance(word, str) for word in distinct):
        return None
    ordered = sorted(distinct)
    place = {word: code for code, word in enumerate(ordered)}
    classes = np.empty(len(ordered), dtype=object)
    classes[:] = ordered
    return classes, np.fromiter(map(place.__getitem__, words), np.int64, count=len(words))


def _codes_of_numbers(labels: Any) -> tuple[Any, Any] | None:
    """Return the classes and codes of two numbers, or of whole ones that are not far apart; None for others."""
    low, high = labels.min(), labels.max()
    if low < high and ((is_high := labels == high) | (labels == low)).all():
        return np.array([low, high]), is_high.astype(np.int64)
    if labels.dtype.kind == "b" or not -(2.0**53) < float(low) <= float(high) < 2.0**53:
        return None
    if int(high) - int(low) > WIDEST * labels.size or (labels.dtype.kind == "f" and (labels != np.floor(labels)).any()):
        return None
    codes = labels.astype(np.int64) - int(low)
    counts = np.bincount(codes)
    present = np.flatnonzero(counts)
    classes = (present + int(low)).astype(labels.dtype)
    return classes, codes if present.size == counts.size else (np.cumsum(counts > 0) - 1)[codes]


def classes_and_codes(labels: Any) -> tuple[Any, Any]:
    """Return the classes in increasing order and the code of each label, shape (n,): most need no sorting."""
    if labels.ndim == 1 and labels.size:
        found = _codes_of_numbers(labels) if labels.dtype.kind in "biuf" else codes_of_words(labels)
        if found is not None:
            return found
    return np.unique(labels, return_inverse=True)


def labels_and_codes(labels: Any) -> tuple[Any, Any]:
    """Return the classes in increasing order and the code of each label, or raise where one is missing."""
    if (found := codes_of_words(labels)) is not None:
        return found
    kind = labels.dtype.kind
    if kind in "fc" and not np.isfinite(labels).all():
        i = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(f"y must be finite, got {labels[i]} at position {i}. Drop rows without a label first.")
    if kind in "OMm":
        i = next((i for i, label in enumerate(labels) if _is_missing(label)), -1)
        if i >= 0:
            raise ValueError(f"y must not lack labels, got {labels[i]} at position {i}. Drop rows without a label first.")
    try:
        return classes_and_codes(labels)
    except TypeError as error:
        raise ValueError(f"y must hold labels of one kind: {error}. Convert them to strings first.") from error


def require_classes(classes: Any, totals: Any, loss: Loss) -> None:
    """Raise unless there are two classes, or two or more where the loss takes them, of which each has a row that counts."""
    if loss.target_kind() == "class":
        if classes.size < 2:
            raise ValueError("y must hold two classes or more, got one class only. Check the label column.")
        if not (totals > 0.0).all():
            empty = classes[int(np.argmin(totals))].item()
            raise ValueError(f"every row of class {empty!r} has weight 0. Leave its rows out.")
        return
    if classes.size != 2:
        seen = ", ".join(repr(label.item() if hasattr(label, "item") else label) for label in classes[:5])
        what = "one class only" if classes.size == 1 else f"{classes.size} classes"
        more = ' loss="multinomial" takes more classes than two.' if classes.size > 2 else ""
        raise ValueError(
            f"y must hold two classes for {type(loss).__name__}, got {what}: {seen}. Check the label column.{more}"
        )
    if not totals.all():
        raise ValueError(f"y holds one class only: every row of class {classes[totals.argmin()]!r} has weight 0.")
