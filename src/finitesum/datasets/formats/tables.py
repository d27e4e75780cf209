"""Reads tables as people have them: named columns of numbers or text, with missing values.

- CSV: the first row names the columns. The delimiter (comma, semicolon, tab or bar) and the sign of decimals are found:
  where a column holds numbers with a comma only (``1,5``, ``1.234,5``) commas are the file's decimals, and points group
  thousands; else points are, and commas group thousands (``"1,234.5"``). Where both can be meant it is an error.
- Parquet: through pyarrow. Whole numbers, fractions, decimals and booleans are numbers; text and dictionaries are text.
- What `finitesum.datasets.formats.csv` takes for missing is missing.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.collector import Array
from finitesum.datasets.formats.csv import HEAD_BYTES, MISSING, MISSING_LABELS, Layout, find_layout, rows_of
from finitesum.datasets.formats.detect import find_format, plain_name
from finitesum.datasets.formats.streams import line_blocks, open_stream, require_file, text_lines, to_number

Decimals = Literal[".", ","]

#: Numbers with each sign of decimals, with groups of thousands by the other one.
_NUMBERS: dict[str, re.Pattern[str]] = {
    ",": re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d*)?([eE][+-]?\d+)?"),
    ".": re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?([eE][+-]?\d+)?"),
}

#: Rows of a CSV file that are converted at a time.
N_ROWS = 1 << 14


class HeaderError(DataError):
    """A CSV file does not name its columns."""


class Table(NamedTuple):
    """Named columns, each of shape (n,): float64 with NaN, objects that are str or None, or datetime64."""

    columns: dict[str, Array]
    name: str = ""
    source: Path | None = None
    n_skipped: int = 0  # empty lines and comments of the file

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))


def read_table(
    path: Path,
    *,
    format: str | None = None,
    text: Collection[str] = (),
    known: Collection[str] = (),
    decimal: Decimals | None = None,
) -> Table:
    """Return the table in a CSV or Parquet file; a DataError says what is wrong.

    The columns `text` are text also where they hold numbers; `known` are names by which a header is known.
    """
    require_file(path)
    found = find_format(path, format)
    if found == "csv":
        columns, n_skipped = _read_csv(path, frozenset(text), known, decimal)
    elif found == "parquet":
        columns, n_skipped = _read_parquet(path), 0
    else:
        raise DataError(f"{path} is {found}: tables of named columns are CSV or Parquet files.")
    columns = {name: as_text(values) if name in text else values for name, values in columns.items()}
    return Table(columns, plain_name(path), path, n_skipped)


def as_table(frame: Any) -> Table:
    """Return a table from a mapping of columns by name, or from a data frame of pandas or polars."""
    if isinstance(frame, Table):
        return frame
    names = list(frame) if isinstance(frame, Mapping) else list(getattr(frame, "columns", ()))
    if not names or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise DataError(f"a table needs columns with names, each its own, got {preview(names or type(frame).__name__)}.")
    columns = {name: _column(np.asarray(frame[name]), name) for name in names}
    if len({values.shape for values in columns.values()}) > 1 or next(iter(columns.values())).ndim != 1:
        raise DataError("the columns of a table must have one length.")
    return Table(columns)


def _column(values: Array, name: str) -> Array:
    """Return an array of any type as a column."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind == "M":
        return values
    items: list[Any] = values.tolist()
    gaps = [item is None or (not isinstance(item, str) and bool(item != item)) for item in _without_na(items)]
    known = [item for item, gap in zip(items, gaps, strict=True) if not gap]
    if known and all(isinstance(item, Real | Decimal) for item in known):
        return np.array([np.nan if gap else float(item) for item, gap in zip(items, gaps, strict=True)])
    if any(hasattr(item, "isoformat") for item in known):  # of dates and times
        return np.array([None if gap else str(item) for item, gap in zip(items, gaps, strict=True)], dtype="datetime64")
    if not all(isinstance(item, str | Real) for item in known):
        raise DataError(f"column {name!r} holds {preview(known[0])}: columns are numbers or text.")
    return np.array([None if gap else str(item) for item, gap in zip(items, gaps, strict=True)], dtype=object)


def _without_na(items: list[Any]) -> Iterator[Any]:
    """Yield the items, pandas' NA as None: it cannot be compared."""
    return (None if type(item).__name__ == "NAType" else item for item in items)


def as_text(values: Array) -> Array:
    """Return a column as text: whole numbers without a fraction."""
    if values.dtype.kind == "f":
        return np.array(
            [None if v != v else str(int(v)) if v == int(v) else repr(v) for v in values.tolist()], dtype=object
        )
    if values.dtype.kind == "M":
        return np.array([None if np.isnat(v) else str(v) for v in values], dtype=object)
    return values


# -- CSV


def _read_csv(
    path: Path, text: frozenset[str], known: Collection[str], decimal: Decimals | None
) -> tuple[dict[str, Array], int]:
    with open_stream(path) as stream:
        layout = find_layout(text_lines(line_blocks(stream, path, HEAD_BYTES), path), False, path, known)
    names = layout.feature_names
    if names is None:
        raise HeaderError(f"{path} has no header: put a first row above the others that names the columns.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path}: two columns are called {twice!r}. Give each a name of its own.")
    found = _Columns(path, layout, names, text)
    decimal = decimal or _decimals_of(path, found)
    doubtful = found.with_points if decimal == "," else frozenset[str]()
    if doubtful:
        found = _Columns(path, layout, names, found.text | doubtful)
    columns = {name: values if name in text else _numbers_of(values, decimal) for name, values in found.columns.items()}
    for name in doubtful:
        if columns[name].dtype.kind == "O":
            cell = next(cell for cell in found.columns[name] if cell is not None and not _NUMBERS[","].fullmatch(cell))
            raise DataError(
                f"{path}, column {name!r}: {preview(cell)} is no number where decimals are written with a comma, as other "
                "columns have them. Write all of them alike, or say which sign is meant by decimal= (--decimal)."
            )
    return columns, found.n_skipped


class _Columns:
    """The columns of a CSV file, read until it is known which of them are text."""

    def __init__(self, path: Path, layout: Layout, names: tuple[str, ...], text: frozenset[str]) -> None:
        self._path, self._layout, self._names = path, layout, names
        self.text, self.with_points = text, frozenset[str]()
        self.columns: dict[str, Array] = {}
        self.n_skipped = 0
        while not self._read():
            pass

    def _read(self) -> bool:
        """Read the file; return whether every column is what it was taken for."""
        parts: dict[str, list[Array]] = {name: [] for name in self._names}
        late: set[str] = set()
        points: set[str] = set()
        self.n_skipped = n_rows = 0
        seen: dict[str, str | None] = {}
        for batch in self._batches():
            cells_of = list(zip(*batch, strict=True))
            for name, k in zip(self._names, self._layout.features, strict=True):
                cells = cells_of[k]
                if name in self.text:
                    try:
                        parts[name].append(np.array([_text(cell, seen) for cell in cells], dtype=object))
                    except ValueError as error:
                        where = f"{self._path}, column {name!r}"
                        raise DataError(
                            f"{where}: {preview(str(error))} has a null character. Is the file damaged?"
                        ) from None
                    continue
                numbers = None if name in late else _numbers(cells)
                if numbers is None:
                    late.add(name)
                else:
                    parts[name].append(numbers)
                    points |= {name} if any("." in cell for cell in cells) else set()
            if late and not n_rows:
                break
            n_rows += len(batch)
        self.text |= late
        self.with_points = frozenset(points - late)
        if not late:
            self.columns = {name: np.concatenate(found) for name, found in parts.items() if found}
            if not self.columns:
                raise DataError(f"{self._path} holds no rows below its header. Is it the right file?")
        return not late

    def _batches(self) -> Iterator[list[list[str]]]:
        with open_stream(self._path) as stream:
            lines = text_lines(line_blocks(stream, self._path), self._path)
            rows = self._checked(rows_of(lines, self._layout.delimiter, self._path))
            while batch := list(itertools.islice(rows, N_ROWS)):
                yield batch

    def _checked(self, rows: Iterable[tuple[int, list[str]]]) -> Iterator[list[str]]:
        for line, cells in rows:
            if line <= self._layout.n_header_lines:
                continue
            if not cells:
                self.n_skipped += 1
            elif len(cells) != self._layout.n_columns:
                raise DataError(
                    f"{self._path}, line {line}: the row has {len(cells)} cells, the header {self._layout.n_columns}. "
                    "Correct the row."
                )
            else:
                yield cells


def _text(cell: str, seen: dict[str, str | None]) -> str | None:
    """Return the text of a cell, the same object for the same text, None where it is missing; a ValueError for a null."""
    if cell not in seen:
        if "\x00" in cell:
            raise ValueError(cell)
        plain = cell.strip()
        seen[cell] = None if plain.lower() in MISSING_LABELS else plain
    return seen[cell]


def _numbers(cells: tuple[str, ...]) -> Array | None:
    """Return cells as numbers, NaN where they are missing; None where one of them is neither."""
    try:
        found = np.array(cells, dtype=np.float64)
        if "_" not in "".join(cells):
            return found
    except ValueError:
        pass
    numbers = [np.nan if cell.strip().lower() in MISSING else to_number(cell) for cell in cells]
    return None if None in numbers else np.array(numbers)


def _decimals_of(path: Path, found: _Columns) -> Decimals:
    """Return the sign of decimals in a file, from columns that are no numbers with points."""
    comma: list[str] = []
    point: list[str] = []
    both: list[str] = []
    for name, values in found.columns.items():
        if values.dtype.kind == "O" and (cells := {cell for cell in values.tolist() if cell is not None}):
            by_comma, by_point = (all(map(_NUMBERS[sign].fullmatch, cells)) for sign in ",.")
            if any("," in cell for cell in cells) and (by_comma or by_point):
                (both if by_comma and by_point else comma if by_comma else point).append(name)
    if (comma and point) or (both and not comma and not point and not found.with_points):
        raise DataError(
            f"{path}, column {(both or comma)[0]!r}: commas may stand before decimals or between thousands. Say which sign "
            'decimals have by decimal="." or decimal="," (--decimal).'
        )
    return "," if comma else "."


def _numbers_of(values: Array, decimal: Decimals) -> Array:
    """Return a column of text as numbers where all of its cells are some, else as it is."""
    if values.dtype.kind != "O":
        return values
    pattern, grouping = _NUMBERS[decimal], "." if decimal == "," else ","
    known = {cell for cell in values.tolist() if cell is not None and cell.lower() not in MISSING}
    if not known or not all(map(pattern.fullmatch, known)):
        return values
    numbers = {cell: float(cell.replace(grouping, "").replace(decimal, ".")) for cell in known}
    return np.array([numbers.get(cell, np.nan) for cell in values.tolist()])


# -- Parquet


def _read_parquet(path: Path) -> dict[str, Array]:
    try:
        import pyarrow as pa
        from pyarrow import parquet as pq, types
    except ImportError:
        raise DataError(
            f"{path}: reading Parquet needs pyarrow, which is not installed. Run: pip install 'finitesum[data]'"
        ) from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {preview(str(error), 120)}.") from error
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    if not names or len(set(names)) < len(names) or not table.num_rows:
        raise DataError(f"{path}: a table needs rows, and columns with names, each its own, got {names[:8]}.")
    are_numbers: tuple[Callable[[Any], bool], ...] = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_decimal,
    )
    columns = {}
    for name in names:
        column = table.column(name)
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if any(check(column.type) for check in are_numbers):
            values = column.cast(pa.int8()) if types.is_boolean(column.type) else column
            columns[name] = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
        elif types.is_date(column.type) or types.is_timestamp(column.type):
            columns[name] = np.asarray(column.cast(pa.timestamp("us")).to_numpy())
        elif types.is_string(column.type) or types.is_large_string(column.type) or types.is_null(column.type):
            columns[name] = np.array(column.to_pylist(), dtype=object)
        else:
            raise DataError(
                f"{path}, column {name!r}: {column.type} is neither numbers nor text. Leave it out of the file."
            )
    return columns
