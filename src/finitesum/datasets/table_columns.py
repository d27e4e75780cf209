"""Columns of a table, and the columns of numbers that become of each: see `finitesum.datasets.tables`."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.collector import Array
from finitesum.datasets.formats.streams import to_number
from finitesum.datasets.formats.tables import as_text

#: Levels that stand for the rare ones together, and for missing values.
OTHER, MISSING_LEVEL = "(other)", "(missing)"

_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(:\d{2}.*)?"
)


class NumberColumn(NamedTuple):
    """A column of numbers: (x - shift) / scale, with the mean in the place of missing values."""

    name: str
    mean: float  #: of the values that are known, by weight
    shift: float = 0.0
    scale: float = 1.0
    is_marked: bool = False  #: whether a second column says where values are missing
    n_missing: int = 0  #: in the rows of the fit

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features that become of the column."""
        return (self.name, f"{self.name} missing") if self.is_marked else (self.name,)

    def notes(self) -> list[str]:
        """Return what was done to the column, in sentences."""
        said = []
        if self.n_missing:
            marked = f", marked in {self.feature_names[1]!r}" if self.is_marked else ""
            said.append(f"{self.name}: {self.n_missing} missing, which get the mean {self.mean:.6g}{marked}")
        if self.scale != 1.0 or self.shift:
            said.append(f"{self.name}: standardised, ({self.name} - {self.shift:.6g}) / {self.scale:.6g}")
        return said

    def checked(self, values: Array, where: str) -> Array:
        """Return the values of another table's column, which must be numbers, too."""
        if values.dtype.kind == "f":
            return values
        wrong = next((value for value in values.tolist() if value is not None), None)
        if wrong is None:
            return np.full(len(values), np.nan)
        raise DataError(
            f"{where}, column {self.name!r}: {preview(wrong)} is no number, as all were when the model was fitted."
        )

    def transformed(self, values: Array) -> tuple[Array, list[str]]:
        """Return the features, shape (n, 1) or (n, 2), and what is to be said of them."""
        gaps = np.isnan(values)
        filled = (np.where(gaps, self.mean, values) - self.shift) / self.scale
        said = [f"{self.name}: {int(gaps.sum())} missing, which get the mean of the fit"] if gaps.any() else []
        return np.column_stack([filled, gaps] if self.is_marked else [filled]), said

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain values."""
        return {"kind": "number", **self._asdict()}


class TextColumn(NamedTuple):
    """A column of text: a feature of 0 and 1 for each level but the first, the reference."""

    name: str
    levels: tuple[str, ...]  #: the reference first
    pooled: tuple[str, ...] = ()  #: the rare ones, which together are the level "(other)"
    fill: str | None = None  #: the level that missing values get; None where there is no rule for them
    n_missing: int = 0

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features that become of the column."""
        return tuple(f"{self.name}={level}" for level in self.levels[1:])

    def notes(self) -> list[str]:
        """Return what was done to the column, in sentences."""
        if len(self.levels) == 1:
            return [f"{self.name}: left out, as it is {self.levels[0]!r} in all rows"]
        rare = f", {len(self.pooled)} rare ones pooled as {OTHER!r}" if self.pooled else ""
        n_levels = len(self.levels) + max(0, len(self.pooled) - 1) - (MISSING_LEVEL in self.levels)
        said = [f"{self.name}: text of {n_levels} levels{rare}, against {self.levels[0]!r}"]
        if self.n_missing:
            said.append(f"{self.name}: {self.n_missing} missing, which count as {self.fill!r}")
        return said

    def checked(self, values: Array, where: str) -> Array:
        """Return the values of another table's column as text."""
        return as_text(values)

    def transformed(self, values: Array) -> tuple[Any, list[str]]:
        """Return the features as CSR, shape (n, levels - 1), and what is to be said of them."""
        from sklearn.preprocessing import OneHotEncoder

        place = {level: level for level in self.levels} | dict.fromkeys(self.pooled, OTHER)
        rest = OTHER if self.pooled else self.levels[0]
        unseen = sorted({value for value in values.tolist() if value is not None and value not in place})
        known = np.array(
            [self.fill if value is None else place.get(value, rest) for value in values.tolist()], dtype=object
        )
        said = []
        if unseen:
            named = ", ".join(map(repr, unseen[:5])) + (", ..." if len(unseen) > 5 else "")
            said.append(f"{self.name}: {named} did not occur in the fit, and count as {rest!r}")
        levels = np.array(self.levels, dtype=object)
        encoder = OneHotEncoder(categories=[levels], drop="first", dtype=np.float64)
        if not len(known):
            return np.empty((0, len(self.levels) - 1)), said
        return encoder.fit(levels[:, None]).transform(known[:, None]), said

    def to_json(self) -> dict[str, Any]:
        """Return the column as plain values."""
        return {"kind": "text", **self._asdict()}


def column_from(content: Any) -> NumberColumn | TextColumn:
    """Return the column that `to_json` wrote; a ValueError for anything else."""
    kinds: dict[Any, Any] = {"number": NumberColumn, "text": TextColumn}
    kind = kinds.get(content.get("kind")) if isinstance(content, dict) else None
    if kind is None or set(content) != {"kind", *kind._fields}:
        raise ValueError(f"no column is described by {content!s:.80}")
    given = {name: content[name] for name in kind._fields}
    sound = isinstance(given["name"], str) and isinstance(given["n_missing"], int)
    if kind is NumberColumn:
        numbers = [given[name] for name in ("mean", "shift", "scale")]
        sound &= all(isinstance(v, Real) and math.isfinite(v) for v in numbers) and isinstance(given["is_marked"], bool)
        if not sound or not given["scale"] > 0.0:
            raise ValueError(f"column {given['name']!r} has the numbers {numbers}")
        return NumberColumn(**given)
    texts = given["levels"], given["pooled"]
    sound &= all(isinstance(part, list | tuple) and all(isinstance(level, str) for level in part) for part in texts)
    if not sound or not texts[0] or not (given["fill"] is None or given["fill"] in texts[0]):
        raise ValueError(f"column {given['name']!r} has the levels {texts!s:.80}")
    return TextColumn(**{**given, "levels": tuple(texts[0]), "pooled": tuple(texts[1])})


# -- how columns are fitted


def is_missing(values: Array) -> Array:
    """Return which values of a column are missing."""
    if values.dtype.kind == "O":
        return np.array([value is None for value in values.tolist()], dtype=bool)
    return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)


def number_columns(
    columns: Mapping[str, Array], weights: Array | None, standardise: bool, missing: str | None
) -> dict[str, NumberColumn]:
    """Return the columns of numbers, with means and deviations by weight."""
    if not columns:
        return {}
    from sklearn.preprocessing import StandardScaler

    values = np.column_stack(list(columns.values()))
    for name, column in columns.items():
        if np.isinf(column).any():
            raise DataError(f"column {name!r} has infinite numbers. Correct them, or leave the column out (--drop).")
    scaler = StandardScaler().fit(values, sample_weight=weights)
    made = {}
    for j, (name, column) in enumerate(columns.items()):
        n_missing = int(np.isnan(column).sum())
        mean = float(scaler.mean_[j])
        if not math.isfinite(mean):
            raise DataError(f"column {name!r} has no values in rows that count, or too large ones. Leave it out (--drop).")
        shift, scale = (mean, float(scaler.scale_[j])) if standardise else (0.0, 1.0)
        made[name] = NumberColumn(name, mean, shift, scale, missing == "indicator" and n_missing > 0, n_missing)
    return made


def text_column(
    name: str, values: Array, references: Mapping[str, str | None], missing: str | None, min_frequency: float
) -> TextColumn:
    """Return the column of text; a DataError where all of its levels are rare."""
    from sklearn.preprocessing import OneHotEncoder

    known = np.array([value for value in values.tolist() if value is not None], dtype=object)
    n_missing = len(values) - len(known)
    needed = min_frequency * len(values) if min_frequency < 1.0 else min_frequency
    encoder = OneHotEncoder(min_frequency=max(1, math.ceil(needed))).fit(known[:, None])
    levels = encoder.categories_[0].tolist()
    rare = encoder.infrequent_categories_[0]
    reference = references.get(name)
    pooled = [] if rare is None or len(rare) < 2 else [level for level in rare.tolist() if level != reference]
    if len(pooled) == len(levels):
        raise DataError(
            f"column {name!r}: each of its {len(levels)} texts is rare. Leave it out (--drop {name}), or lower "
            "min_frequency (--min-frequency)."
        )
    levels = [level for level in levels if level not in pooled]
    if reference is not None and reference not in levels:
        raise DataError(f"column {name!r} has no level {reference!r}. It has {', '.join(map(repr, levels[:8]))}.")
    fill = None
    if n_missing:
        most = max(levels, key=Counter(known.tolist()).__getitem__)
        fill = MISSING_LEVEL if missing == "indicator" else most
    ordered = sorted(levels, key=lambda level: level != reference) if reference is not None else levels
    ordered += [OTHER] if pooled else []
    ordered += [MISSING_LEVEL] if fill == MISSING_LEVEL else []
    return TextColumn(name, tuple(ordered), tuple(pooled), fill, n_missing)


def complaint(name: str, values: Array) -> str | None:
    """Return why a column of text that nobody called categories is none, or None."""
    known = as_text(values[~is_missing(values)])
    texts = Counter(known.tolist())
    if not texts:
        return None
    if values.dtype.kind == "M" or all(_DATE.fullmatch(text) for text in texts):
        return f"{name!r} holds dates such as {known[0]}, which can be turned into numbers first (days since a day, month)"
    words = [text for text in texts if to_number(text) is None]
    if words and sum(texts[text] for text in words) < len(known) / 2:
        wrong = words[0]
        return f"{name!r} has {preview(wrong)} among numbers"
    if len(texts) > 2 and sum(count == 1 for count in texts.values()) > len(known) / 2:
        return f"{name!r} has {len(texts)} different texts in {len(known)} rows, such as {preview(known[0])}"
    return None
