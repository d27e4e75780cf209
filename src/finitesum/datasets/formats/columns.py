"""Which column of a table holds the labels."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from finitesum.datasets.errors import DataError, preview

#: Names that say by themselves that a column holds the labels.
TARGET_NAMES = ("target", "label", "class")

Target = str | int | bool | None


def target_column(names: Sequence[str] | None, n_columns: int, target: Target, path: Path) -> int | None:
    """Return the number of the column of labels, from 0; None for a table without labels.

    `target` is a name; a number, from 0 or, backwards, from -1; False for no labels at all; None for the usual place: the
    one column called ``target``, ``label`` or ``class`` (in any case), or a first column called ``y``, or else the last
    column. `names` is None where the table has none.
    """
    if target is False:
        return None
    if target is None or target is True:
        column = _usual(names, n_columns, path)
    elif isinstance(target, str):
        column = _named(names, target, path)
    elif -n_columns <= target < n_columns:
        column = target % n_columns
    else:
        raise DataError(f"{path}: target={target} names no column: there are {n_columns}, counted from 0.")
    if n_columns < 2:
        raise DataError(f"{path}: there is one column only, which leaves no features. Use target=False to read it so.")
    return column


def _usual(names: Sequence[str] | None, n_columns: int, path: Path) -> int:
    if names is None:
        return n_columns - 1
    found = [i for i, name in enumerate(names) if name.strip().lower() in TARGET_NAMES]
    if len(found) > 1:
        shown = ", ".join(repr(names[i]) for i in found)
        raise DataError(f"{path}: the columns {shown} may each hold the labels. Name one of them by target=.")
    if found:
        return found[0]
    return 0 if names[0].strip().lower() == "y" else n_columns - 1


def _named(names: Sequence[str] | None, target: str, path: Path) -> int:
    if names is None:
        raise DataError(f"{path}: target={target!r}, but the file has no header. Give the number of the column.")
    found = [i for i, name in enumerate(names) if name == target]
    if len(found) == 1:
        return found[0]
    if found:
        raise DataError(f"{path}: target={target!r} is the name of {len(found)} columns. Give the number of one.")
    close = difflib.get_close_matches(target, names, n=3) or list(names[:8])
    shown = ", ".join(repr(name) for name in close)
    raise DataError(f"{path}: target={preview(target)} names no column. Did you mean one of {shown}?")
