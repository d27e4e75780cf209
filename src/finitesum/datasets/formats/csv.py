"""Reads CSV tables: one row per line, numbers in every column except that of the labels.

- The delimiter (comma, semicolon, tab or bar) is found in the first line. Cells may be quoted by ``"``.
- The first row is a header where ``target=`` names one of its cells; where all of its cells are text, the last of which
  does not recur as a label; where it has text above a number, and no number; and where one of its cells is called
  ``target``, ``label`` or ``class`` and the others have whole numbers for names, as pandas writes them. Where it has text
  above a number but beside one, or counts 0, 1, 2, ... above fractions, it may be a header or a row, which is an error.
  Else it is a row. A first column without a name, as pandas writes its index, is left out.
- The labels stand in the column that ``target=`` names, by its name or its number; without it in the usual place, see
  `finitesum.datasets.formats.columns.target_column`. They are numbers or text.
- Empty lines and lines that begin with ``#`` are skipped.
- A missing value or text among the features is an error that names the line and the column.

Blocks without quotes are read by pyarrow's parser where it is installed and they are large, or else by NumPy's. From the
first block on that has quotes, or that these refuse, cells are read one by one, which is slower and names what is wrong.
"""

import csv
import dataclasses
import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np

from finitesum.datasets.errors import DataError, NoRowsError, NotNumbersError, preview
from finitesum.datasets.formats.collector import Array, Contents, RowCollector
from finitesum.datasets.formats.columns import TARGET_NAMES, Target, target_column
from finitesum.datasets.formats.streams import Block, decoded, line_blocks, open_stream, text_lines, to_number
from finitesum.datasets.labels import Labels

DELIMITERS = ",;\t|"

#: What stands for a missing value in a column of numbers, in lower case.
MISSING = frozenset({"", "na", "n/a", "nan", "?", "null", "none"})

#: The same in a column of labels that are text, where "none" may well be the name of a class.
MISSING_LABELS = MISSING - {"none"}

#: Rows that the layout is found from.
N_SAMPLE_ROWS = 20

#: Bytes that are read at a time to find the layout.
HEAD_BYTES = 1 << 16

#: Rows that are collected at a time where cells are read one by one, and the cells that they have at most.
N_STRICT_ROWS, N_STRICT_CELLS = 4096, 1 << 22

#: The least bytes of a block that are worth the import of pyarrow, and the most columns.
ARROW_BYTES, ARROW_COLUMNS = 1 << 22, 10_000


class _LabelIsText(DataError):
    """A label is text where numbers were expected: unless this is a regression, the file must be read again."""


def read_csv(path: Path, collector: RowCollector, *, target: Target = None, regression: bool = False) -> Contents:
    """Return the rows of a CSV file, gathered by a collector.

    `target` is that of `target_column`; labels that are text are an error in a regression.
    """
    with open_stream(path) as stream:
        layout = find_layout(text_lines(line_blocks(stream, path, HEAD_BYTES), path), target, path)
    if regression:
        layout = dataclasses.replace(layout, text_labels=False)  # reading names the first such label
    try:
        _read(path, collector, layout)
    except _LabelIsText as error:
        if regression:
            raise NotNumbersError(str(error)) from None
        collector.reset()
        _read(path, collector, dataclasses.replace(layout, text_labels=True))
    return collector.finish(layout.feature_names, layout.target_name)


def _read(path: Path, collector: RowCollector, layout: "Layout") -> None:
    with open_stream(path) as stream:
        blocks = line_blocks(stream, path)
        for block in blocks:
            table = _plain_table(decoded(block, path), block.first_line, layout)
            if table is None:
                _read_strictly(itertools.chain([block], blocks), block.first_line, path, collector, layout)
                return
            n_lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
            n_below = n_lines - min(max(0, layout.n_header_lines + 1 - block.first_line), n_lines)
            collector.n_skipped += n_below - len(table[0])
            if len(table[0]):
                collector.add_dense(*table)


def _plain_table(text: str, first_line: int, layout: "Layout") -> tuple[Array, Labels | None] | None:
    """Return the rows and labels of a block by NumPy's parser, or None where something is unusual or wrong."""
    if '"' in text:
        return None
    lines = text.split("\n")[max(0, layout.n_header_lines + 1 - first_line) :]
    lines = [line for line in lines if (line.strip() or layout.delimiter in line) and not line.startswith("#")]
    if not lines:
        return np.empty((0, 0)), None
    if {line.count(layout.delimiter) for line in lines} != {layout.n_columns - 1}:
        return None
    numeric = layout.features if layout.text_labels or layout.target is None else (*layout.features, layout.target)
    table = _by_arrow(lines, numeric, layout) if len(text) >= ARROW_BYTES else None
    try:
        if table is None:
            table = np.loadtxt(lines, delimiter=layout.delimiter, usecols=numeric, comments=None, ndmin=2)
    except ValueError:
        return None
    if not np.isfinite(table).all():
        return None
    if layout.target is None:
        return table, None
    if not layout.text_labels:
        return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
    labels = [line.split(layout.delimiter)[layout.target].strip() for line in lines]
    return None if any(label.lower() in MISSING_LABELS for label in set(labels)) else (table, np.array(labels))


def _by_arrow(lines: list[str], columns: tuple[int, ...], layout: "Layout") -> Array | None:
    """Return columns of numbers by pyarrow's parser, or None where there is none or it refuses a cell."""
    try:
        import pyarrow as pa
        from pyarrow import csv as parser
    except ImportError:
        return None
    if not columns or layout.n_columns > ARROW_COLUMNS:
        return None
    names, data = [f"f{i}" for i in columns], "\n".join(lines).encode()
    try:
        table = parser.read_csv(
            pa.py_buffer(data),
            parser.ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=len(data) + 1),
            parser.ParseOptions(delimiter=layout.delimiter, quote_char=False, newlines_in_values=False),
            parser.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()), include_columns=names, null_values=[]),
        )
    except pa.ArrowException:
        return None
    if table.num_rows != len(lines):  # it ends lines at a CR, too
        return None
    return np.column_stack([column.to_numpy() for column in table.columns])


def _read_strictly(blocks: Iterable[Block], first: int, path: Path, collector: RowCollector, layout: "Layout") -> None:
    """Add the rows of all blocks cell by cell."""
    rows = rows_of(text_lines(blocks, path), layout.delimiter, path, first)
    below = (row for row in rows if row[0] > layout.n_header_lines)

    def full() -> Iterator[tuple[int, list[str]]]:
        for row in below:
            if row[1]:
                yield row
            else:
                collector.n_skipped += 1

    parsed = (_parsed(*row, path, layout) for row in full())
    n_rows = max(1, min(N_STRICT_ROWS, N_STRICT_CELLS // layout.n_columns))
    while batch := list(itertools.islice(parsed, n_rows)):
        features, labels = zip(*batch, strict=True)
        collector.add_dense(np.array(features), None if layout.target is None else np.array(labels))


def _parsed(line: int, cells: list[str], path: Path, layout: "Layout") -> tuple[list[float | None], float | str | None]:
    """Return the features and the label of a row."""
    where = f"{path}, line {line}"
    if len(cells) != layout.n_columns:
        raise DataError(f"{where}: the row has {len(cells)} cells, the first row has {layout.n_columns}. Correct the row.")
    features = [to_number(cells[i]) for i in layout.features]
    for i, value in zip(layout.features, features, strict=True):
        if value is None or not math.isfinite(value):
            raise NotNumbersError(f"{where}, {layout.called(i)}: {_wrong_feature(cells[i], value)}")
    if layout.target is None:
        return features, None
    return features, _label(cells[layout.target].strip(), f"{where}, {layout.called(layout.target)}", layout)


def _wrong_feature(cell: str, value: float | None) -> str:
    if cell.strip().lower() in MISSING:
        return f"the value is missing ({preview(cell)}). Fill it, or drop the row or the column."
    if value is not None:
        return f"the value is {preview(cell)}, which is not finite. Fill it, or drop the row."
    hint = "Turn text into numbers first (such as one column for each category), or name the labels by target=."
    if cell.count(",") == 1 and cell.strip().replace(",", "").lstrip("+-").isdigit():
        hint = "Write decimals with a point."
    return f"{preview(cell)} is not a number. {hint}"


def _label(cell: str, where: str, layout: "Layout") -> float | str:
    label = cell if layout.text_labels else to_number(cell)
    if not isinstance(label, float) and cell.lower() in MISSING_LABELS:
        raise NotNumbersError(f"{where}: the label is missing ({preview(cell)}). Drop the rows without a label.")
    if label is None:
        raise _LabelIsText(
            f"{where}: the target {preview(cell)} of a regression is not a number. "
            'Name another column by target=, or use task="classification".'
        )
    if isinstance(label, float) and not math.isfinite(label):
        raise DataError(f"{where}: the label is {preview(cell)}, which is not finite. Drop the rows without a label.")
    return label


# -- the layout


@dataclasses.dataclass(frozen=True)
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

    Empty lines, and lines between rows that begin with ``#``, have none.
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
            yield last, cells if len(cells) > 1 or any(cell.strip() for cell in cells) else []
    except csv.Error as error:
        raise DataError(
            f"{path}, line {last + 1}: the row that begins here cannot be cut into cells: {error}. Close each quote "
            'before a delimiter or line end, double those within a cell (""), and end lines by LF or CRLF.'
        ) from None


def find_layout(lines: Iterator[str], target: Target, path: Path, known: Collection[str] = ()) -> Layout:
    """Return the layout of a file from its first lines, with their ends; one of the names `known` makes a row a header."""
    before = []
    for line in lines:
        before.append(line)
        if line.strip() and not line.startswith("#"):
            break
    else:
        raise NoRowsError(f"{path} {'holds no rows' if before else 'is empty'}. Is it the right file?")
    delimiter = _delimiter(before[-1], target, path)
    rows = (row for row in rows_of(itertools.chain(before, lines), delimiter, path) if row[1])
    sample = list(itertools.islice(rows, N_SAMPLE_ROWS))
    (first_line, first), rest = sample[0], [cells for _, cells in sample[1:]]
    n_columns = len(first)
    names = tuple(cell.strip() for cell in first)
    has_header = (
        target in names or not set(known).isdisjoint(names) or _is_header(first, rest, f"{path}, line {first_line}")
    )
    column = target_column(names if has_header else None, n_columns, target, path)
    # pandas writes its index first, under no name: it is no feature.
    dropped = {column} | ({0} if has_header and not names[0] and n_columns > 2 else set())
    full = [cells for cells in ([] if has_header else [first]) + rest if len(cells) == n_columns]
    return Layout(
        delimiter=delimiter,
        names=names if has_header else None,
        n_header_lines=first_line if has_header else 0,
        n_columns=n_columns,
        features=tuple(i for i in range(n_columns) if i not in dropped),
        target=column,
        text_labels=column is not None and any(_is_text(cells[column]) for cells in full),
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
    """Return whether the first row names the columns, by the rules above."""
    texts = [i for i, cell in enumerate(first) if _is_text(cell)]
    others = [cell.strip() for i, cell in enumerate(first) if i not in texts]
    below = rest[0] if rest else []

    def recurs(i: int) -> bool:  # as the name of a class does
        return any(cells[i : i + 1] == [first[i]] and cells != first for cells in rest)

    if not others:
        return not recurs(texts[-1])
    counted = [str(i) for i in range(len(first))]  # as pandas names columns without names
    if len(first) > 2 and others == ["", *counted[:-1]]:
        return True
    above_numbers = [i for i in texts if i < len(below) and to_number(below[i]) is not None]
    if not any(others):  # columns without a name
        return bool(above_numbers)
    are_names = all(cell.isdigit() or not cell for cell in others)
    if are_names and any(first[i].strip().lower() in TARGET_NAMES and not recurs(i) for i in texts):
        return True
    ambiguity = None
    if above_numbers:
        ambiguity = f"{preview(first[above_numbers[0]])} stands above numbers, but beside {preview(others[0])}"
    elif len(first) > 2 and others == counted and below and not any(cell.strip().isdigit() for cell in below[:-1]):
        ambiguity = "it counts the columns, above numbers with fractions"
    if ambiguity is not None:
        raise DataError(
            f"{where}: this may be a header or a row: {ambiguity}. Name the column of the labels by target= where it is a "
            "header; else correct the row, or put a header above it."
        )
    return False
