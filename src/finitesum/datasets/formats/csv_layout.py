"""How a CSV file is laid out: delimiter, header, columns."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.columns import Target, target_column

DELIMITERS = ",;\t|"

#: What stands for a missing value in a column of numbers, in lower case.
MISSING = frozenset({"", "na", "n/a", "nan", "?", "null", "none"})

#: The same in a column of labels that are text, where "none" may well be the name of a class.
MISSING_LABELS = MISSING - {"none"}

#: Rows that the layout is found from.
N_SAMPLE_ROWS = 20


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number, finite or not."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_missing(cell: str) -> bool:
    """Return whether a cell of a column of numbers is empty, or says that its value is missing."""
    return cell.strip().lower() in MISSING


@dataclass(frozen=True)
class Layout:
    """How a CSV file is laid out."""

    delimiter: str
    names: tuple[str, ...] | None  # of all columns; None where the file has no header
    n_header_lines: int  # lines before the first row
    n_columns: int  # cells in each row
    features: tuple[int, ...]  # the numbers of the columns, from 0
    target: int | None  # the column of labels
    text_labels: bool

    def called(self, column: int) -> str:
        """Return how a column is called in messages."""
        if self.names is None or not self.names[column]:
            return f"column {column + 1}"
        return f"column {self.names[column]!r} (column {column + 1})"

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns of features, or None."""
        return None if self.names is None else tuple(self.names[i] or f"column {i + 1}" for i in self.features)

    @property
    def target_name(self) -> str | None:
        """The name of the column of labels, or None."""
        return None if self.names is None or self.target is None else self.names[self.target]


def rows_of(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row, with the number of the line where the row ends, from 1.

    Empty lines and lines that begin with ``#`` are left out.
    """
    reader = csv.reader(("\n" if line.startswith("#") else line for line in lines), delimiter=delimiter)
    for cells in reader:
        if cells and not (len(cells) == 1 and not cells[0].strip()):
            yield reader.line_num, cells


def detect_layout(head: list[str], target: Target, path: Path) -> Layout:
    """Return the layout of a file from its first lines, with their ends.

    Raises
    ------
    DataError
        No delimiter is found, or the target is not.
    """
    delimiter = _delimiter(head, target, path)
    sample = list(itertools.islice(rows_of(head, delimiter), N_SAMPLE_ROWS))
    if not sample:
        raise DataError(f"{path} holds no rows. Is it the right file?")
    first_line, first = sample[0]
    has_header = _is_header(first, [cells for _, cells in sample[1:]])
    names = tuple(cell.strip() for cell in first) if has_header else None
    n_columns = len(first)
    column = target_column(names, n_columns, target, path)
    # pandas writes its index first, under no name: it is no feature.
    dropped = {column} | ({0} if names and not names[0] and n_columns > 2 else set())
    features = tuple(i for i in range(n_columns) if i not in dropped)
    rows = [cells for _, cells in sample[has_header:] if len(cells) == n_columns]
    return Layout(
        delimiter=delimiter,
        names=names,
        n_header_lines=first_line if has_header else 0,
        n_columns=n_columns,
        features=features,
        target=column,
        text_labels=column is not None and any(_is_text(cells[column]) for cells in rows),
    )


def _is_text(cell: str) -> bool:
    return not is_number(cell) and not is_missing(cell)


def _delimiter(head: list[str], target: Target, path: Path) -> str:
    """Return the delimiter that cuts the first line into the most cells."""
    line = next((line for line in head if line.strip() and not line.startswith("#")), "")
    # Only delimiters outside of quotes count.
    counts = {mark: len(next(csv.reader([line], delimiter=mark), [])) if mark in line else 1 for mark in DELIMITERS}
    best = max(DELIMITERS, key=lambda mark: counts[mark])
    if counts[best] < 2 and target is not False and line:
        raise DataError(
            f"{path}: the first line holds no comma, semicolon, tab or bar between cells: {preview(line.strip())}. "
            "Give format= if the file is no CSV."
        )
    return best


def _is_header(first: list[str], rest: list[list[str]]) -> bool:
    """Return whether the first row names the columns: all its cells are text, or it has text above a number."""
    if all(_is_text(cell) for cell in first):
        return True
    return any(
        _is_text(cell) and len(cells) > i and is_number(cells[i]) for cells in rest[:1] for i, cell in enumerate(first)
    )
