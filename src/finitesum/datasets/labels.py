"""Labels as they stand in files, and the numbers that methods work with."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from finitesum.datasets.errors import DataError, preview

Label = bool | int | float | str
Labels = npt.NDArray[Any]

#: More distinct values than this, some of them fractions, are taken for the target of a regression.
MOST_FRACTIONAL_CLASSES = 20


def label_array(labels: Any) -> Labels:
    """Return labels as an array of one axis that holds booleans, integers, floats or text, or raise what is wrong.

    They are anything NumPy makes an array of, shape (n,) or (n, 1), also Python objects, as pandas stores text.
    """
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"labels must have one axis, got shape {array.shape}. Give one label for each row.")
    # NumPy silently turns [1, "a"] into text: the items show whether a list mixes kinds.
    if array.dtype.kind == "O" or (array.dtype.kind == "U" and not isinstance(labels, np.ndarray)):
        _require_one_kind(np.asarray(labels, dtype=object).ravel())
        array = np.array(array.tolist())
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if array.dtype.kind not in "biufU":
        got = preview(array[0]) if array.dtype.kind == "O" else f"dtype {array.dtype}"
        raise DataError(f"labels must be numbers or text, got {got}. Convert them first.")
    return array


def _require_one_kind(array: Labels) -> None:
    """Raise where an array of Python objects has gaps, or holds text beside numbers."""
    text = np.array([isinstance(item, str) for item in array])
    for item in array[~text]:
        if item is None or item != item:  # a missing value, as pandas writes it
            raise DataError("labels have a missing value. Remove the rows without a label.")
        if text.any():
            raise DataError(
                f"labels mix numbers with text: {preview(array[text][0])} and {preview(item)}. "
                "Write all of them as numbers or all as text."
            )


def is_text(labels: Labels) -> bool:
    """Return whether an array that `label_array` returned holds text."""
    return bool(labels.dtype.kind == "U")


def require_numbers(labels: Labels, where: str) -> None:
    """Raise where the labels of a regression are text."""
    if is_text(labels):
        raise DataError(
            f"{where}: a regression needs numbers as labels, got {preview(str(labels[0]))} in the first row. "
            'Name another target, or use task="classification".'
        )


def are_whole(distinct: Labels) -> bool:
    """Return whether numbers are all integers, of whatever type."""
    return distinct.dtype.kind != "f" or bool(np.all(distinct == np.floor(distinct)))


@dataclass(frozen=True)
class LabelMap:
    """The classes of a problem, in order, and their codes.

    Two classes have the codes -1 (the smaller label) and +1 (the larger one); more classes have 0, 1, 2, ... in the
    order of the labels: numbers by size, text alphabetically.

    Parameters
    ----------
    classes
        The labels as the file has them, at least two, increasing.

    Raises
    ------
    DataError
        There are fewer than two classes, or they do not increase, or mix numbers with text.

    Examples
    --------
    >>> labels = LabelMap.from_labels(["spam", "ham", "spam"])
    >>> labels.classes
    ('ham', 'spam')
    >>> labels.encode(["spam", "ham"])
    array([ 1., -1.])
    >>> labels.decode([-1.0, 1.0])
    array(['ham', 'spam'], dtype='<U4')
    >>> LabelMap.from_json(labels.to_json()) == labels
    True
    """

    classes: tuple[Label, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise DataError(
                f"classes must be at least two, got {list(self.classes)!r}. "
                "A classifier needs rows of both classes: check which rows and which target were read."
            )
        ordered = label_array(np.array(self.classes, dtype=object))
        if not bool(np.all(ordered[1:] > ordered[:-1])):
            raise DataError(f"classes must increase, got {list(self.classes)!r}. Use LabelMap.from_labels.")

    @classmethod
    def from_labels(cls, labels: Any) -> "LabelMap":
        """Return the map of the classes that occur in labels, numbers or text of shape (n,).

        It is a DataError if they are empty, not finite, all equal, or look like a regression's: many distinct fractions.
        """
        array = label_array(labels)
        if array.size == 0:
            raise DataError("labels are empty. Give one label for each row.")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise DataError("labels have a value that is not finite (nan or inf). Remove those rows.")
        distinct = np.unique(array)
        whole = are_whole(distinct)
        if not whole and len(distinct) > MOST_FRACTIONAL_CLASSES:
            raise DataError(
                f"labels take {len(distinct)} distinct values with fractions, so they name no classes. "
                'This is a regression: use task="regression".'
            )
        if whole and distinct.dtype.kind == "f":
            largest = distinct[np.abs(distinct).argmax()]
            if abs(largest) >= 2.0**53:
                raise DataError(
                    f"labels reach {largest:.17g}, and from 2**53 on whole numbers become one another as floats. "
                    "Give the classes as text, or number them from 0."
                )
            distinct = distinct.astype(np.int64)
        return cls(tuple(distinct.tolist()))

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def is_binary(self) -> bool:
        """Whether there are exactly two classes."""
        return len(self.classes) == 2

    def encode(self, labels: Any) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
        """Return the codes of labels, numbers or text of shape (n,).

        They are float64 in {-1, +1} for two classes, int64 in {0, ..., n_classes - 1} for more. Labels that are none of the
        classes are a DataError, which names the first five of them.
        """
        array, classes = label_array(labels), np.array(self.classes)
        if is_text(array) != is_text(classes) and array.size:
            raise DataError(f"labels are {_kind(array)}, but the classes are {_kind(classes)}: {self._shown()}.")
        codes = np.searchsorted(classes, array).clip(max=len(classes) - 1).astype(np.int64)
        unseen = np.unique(array[classes[codes] != array]).tolist()
        if unseen:
            named = ", ".join(preview(label) for label in unseen[:5]) + (", ..." if len(unseen) > 5 else "")
            raise DataError(
                f"labels have {len(unseen)} unknown to this map: {named}. It knows the classes {self._shown()}."
            )
        return (2 * codes - 1).astype(np.float64) if self.is_binary else codes

    def decode(self, codes: Any) -> Labels:
        """Return the labels of codes that `encode` returned, shape (n,), of the kind they had in the file.

        A number that is no code of this map is a DataError.
        """
        given = np.asarray(codes)
        numbers = (given + 1) / 2 if self.is_binary else given
        known = np.isin(numbers, np.arange(len(self.classes)))
        if not known.all():
            allowed = "-1 and +1" if self.is_binary else f"0 to {len(self.classes) - 1}"
            raise DataError(f"codes must be {allowed}, got {preview(given[~known].flat[0].item())}.")
        return np.array(self.classes)[numbers.astype(np.int64)]

    def to_json(self) -> str:
        """Return the map as a line of JSON, to be kept in a model file."""
        return json.dumps({"classes": list(self.classes)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "LabelMap":
        """Return the map that `to_json` wrote; a DataError for any other text."""
        try:
            return cls(tuple(json.loads(text)["classes"]))
        except (json.JSONDecodeError, KeyError, TypeError):
            raise DataError(f"text is no label map, got {preview(text)}. Give what LabelMap.to_json wrote.") from None

    def _shown(self) -> str:
        shown = ", ".join(preview(label) for label in self.classes[:10])
        return shown + (", ..." if len(self.classes) > 10 else "")


def _kind(array: Labels) -> str:
    return "text" if is_text(array) else "numbers"
