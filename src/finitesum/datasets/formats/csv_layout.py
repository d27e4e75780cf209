"""How a CSV file is laid out: delimiter, header, columns."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.columns import TARGET_NAMES, Target, target_column
from finitesum.datasets.formats.streams import to_number

DELIMITERS = ",;\t|"

#: What stands for a missing value in a column of numbers, in lower case.
MISSING = frozenset({"", "na", "n/a", "nan", "?", "null", "none"})

#: The same in a column of labels that are text, where "none" may well be the name of a class.
MISSING_LABELS = MISSING - {"none"}

#: Rows that the layout is found from.
N_SAMPLE_ROWS = 20


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


def rows_of(lines: Iterable[str], delimiter: str, path: Path, first_line: int = 1) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row, with the number of the line where the row ends.

    Empty lines, and lines between rows that begin with ``#``, are left out.
    """
    begins = True

    def without_comments() -> Iterator[str]:
        nonlocal begins
        for line in lines:
            is_comment, begins = begins and line.startswith("#"), False
            yield "\n" if is_comment else line

    last = first_line - 1
    reader = csv.reader(without_comments(), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            begins, last = True, first_line - 1 + reader.line_num
            if cells and not (len(cells) == 1 and not cells[0].strip()):
                yield last, cells
    except csv.Error as error:
        raise DataError(
            f"{path}, line {last + 1}: the row that begins here cannot be cut into cells: {error}. Close each quote "
            'before a delimiter or line end, double those within a cell (""), and end lines by LF or CRLF.'
        ) from None


def find_layout(lines: Iterator[str], target: Target, path: Path) -> Layout:
    """Return the layout of a file from its first lines, with their ends.

    Raises
    ------
    DataError
        No delimiter is found, or the target is not, or the first row may be a header or not.
    """
    before = []
    for line in lines:
        before.append(line)
        if line.strip() and not line.startswith("#"):
            break
    else:
        raise DataError(f"{path} {'holds no rows' if before else 'is empty'}. Is it the right file?")
    delimiter = _delimiter(before[-1], target, path)
    sample = list(itertools.islice(rows_of(itertools.chain(before, lines), delimiter, path), N_SAMPLE_ROWS))
    (first_line, first), rest = sample[0], [cells for _, cells in sample[1:]]
    n_columns = len(first)
    names = tuple(cell.strip() for cell in first)
    has_header = target in names or _is_header(first, rest, f"{path}, line {first_line}")
    column = target_column(names if has_header else None, n_columns, target, path)
    # pandas writes its index first, under no name: it is no feature.
    dropped = {column} | ({0} if has_header and not names[0] and n_columns > 2 else set())
    rows = [cells for cells in ([] if has_header else [first]) + rest if len(cells) == n_columns]
    return Layout(
        delimiter=delimiter,
        names=names if has_header else None,
        n_header_lines=first_line if has_header else 0,
        n_columns=n_columns,
        features=tuple(i for i in range(n_columns) if i not in dropped),
        target=column,
        text_labels=column is not None and any(_is_text(cells[column]) for cells in rows),
    )


def _delimiter(line: str, target: Target, path: Path) -> str:
    """Return the delimiter that cuts the first line into the most cells."""
    unquoted = re.sub('"[^"]*("|$)', "", line)
    best = max(DELIMITERS, key=unquoted.count)
    if best not in unquoted and target is not False:
        raise DataError(
            f"{path}: the first line holds no comma, semicolon, tab or bar between cells: {preview(line.strip())}. "
            "Give format= if the file is no CSV."
        )
    return best


def _is_text(cell: str) -> bool:
    return to_number(cell) is None and cell.strip().lower() not in MISSING


def _is_header(first: list[str], rest: list[list[str]], where: str) -> bool:
    """Return whether the first row names the columns, by the rules that the module `csv` states."""
    texts = [i for i, cell in enumerate(first) if _is_text(cell)]
    others = [cell.strip() for i, cell in enumerate(first) if i not in texts]

    def recurs(i: int) -> bool:  # as the name of a class does
        return any(cells[i : i + 1] == [first[i]] and cells != first for cells in rest)

    if not texts or not others:
        return bool(texts) and not recurs(texts[-1])
    above_numbers = [i for i in texts for cells in rest[:1] if len(cells) > i and to_number(cells[i]) is not None]
    if not any(others):  # columns without a name
        return bool(above_numbers)
    are_names = all(cell.isdigit() or not cell for cell in others)
    if are_names and any(first[i].strip().lower() in TARGET_NAMES and not recurs(i) for i in texts):
        return True
    if above_numbers:
        cell = preview(first[above_numbers[0]])
        raise DataError(
            f"{where}: this may be a header or a row: {cell} stands above numbers, but beside {preview(others[0])}. "
            "Correct the row, or name the column of the labels by target= where it is a header."
        )
    return False
