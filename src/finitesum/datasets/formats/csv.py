"""Reads CSV tables: one row per line, numbers in every column except that of the labels.

- The delimiter (comma, semicolon, tab or bar) is found in the first line. Cells may be quoted by ``"``.
- The first row is a header where all of its cells are text, or where it has text above a number. A first column without
  a name, as pandas writes its index, is left out.
- The labels stand in the column that ``target=`` names, by its name or its number; without it in the usual place, see
  `finitesum.datasets.formats.columns.target_column`. They are numbers or text.
- Empty lines and lines that begin with ``#`` are skipped.
- A missing value or text among the features is an error that names the line and the column.

NumPy's parser does the work. Where it refuses a block, the file is read again cell by cell, which is slow and names what
is wrong.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import math
from pathlib import Path

import numpy as np

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.collector import Array, Header, RowCollector
from finitesum.datasets.formats.columns import Target
from finitesum.datasets.formats.csv_layout import MISSING_LABELS, Layout, detect_layout, is_missing, rows_of
from finitesum.datasets.formats.streams import Block, decoded, line_blocks, open_stream
from finitesum.datasets.labels import Labels

#: Bytes at the beginning of a file that its layout is found from; the rest of the last line is added.
HEAD_BYTES = 1 << 16

#: Rows that are collected at a time where cells are read one by one.
N_SLOW_ROWS = 4096


class _LabelsAreText(Exception):
    """A label is text where numbers were expected: the file must be read again."""


def read_csv(path: Path, collector: RowCollector, *, target: Target = None, regression: bool = False) -> Header:
    """Add the rows of a CSV file to a collector, and return the names of its columns.

    `target` is that of `target_column`; labels that are text are an error in a regression.
    """
    layout = _layout(path, target)
    if layout.text_labels and regression:
        layout = dataclasses.replace(layout, text_labels=False)  # reading will name the first such label
    try:
        _read(path, collector, layout, regression)
    except _LabelsAreText:
        layout = dataclasses.replace(layout, text_labels=True)
        collector.reset()
        _read(path, collector, layout, regression)
    return Header(layout.feature_names, layout.target_name)


def _layout(path: Path, target: Target) -> Layout:
    with open_stream(path) as stream:
        for block in line_blocks(stream, path, HEAD_BYTES):
            return detect_layout(list(io.StringIO(decoded(block, path), newline="\n")), target, path)
    raise DataError(f"{path} is empty. Is it the right file?")


def _read(path: Path, collector: RowCollector, layout: Layout, regression: bool) -> None:
    """Add all rows by the fast parser, or by the slow one where that refuses a block."""
    with open_stream(path) as stream:
        for block in line_blocks(stream, path):
            try:
                parsed = _parse_fast(decoded(block, path), block, layout)
            except ValueError as error:
                if isinstance(error, DataError):
                    raise
                break
            if parsed is not None:
                collector.add_dense(*parsed)
        else:
            return
    collector.reset()
    _read_cells(path, collector, layout, regression)


# -- by NumPy's parser


def _parse_fast(text: str, block: Block, layout: Layout) -> tuple[Array, Labels | None] | None:
    """Return the rows and labels of a block, or None where it holds no rows.

    Raises
    ------
    ValueError
        Something in the block is unusual or wrong.
    """
    lines = list(io.StringIO(text, newline="\n"))
    if block.first_line == 1:
        lines = lines[layout.n_header_lines :]
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    n_delimiters = sum(line.count(layout.delimiter) for line in lines)
    if n_delimiters != len(lines) * (layout.n_columns - 1):
        raise ValueError("a row has too few or too many cells, or cells hold delimiters")
    numeric = layout.features if layout.text_labels or layout.target is None else (*layout.features, layout.target)
    table: Array = np.loadtxt(lines, delimiter=layout.delimiter, usecols=numeric, comments=None, quotechar='"', ndmin=2)
    if not np.isfinite(table).all():
        raise ValueError("a cell is not finite")
    if layout.target is None:
        return table, None
    if not layout.text_labels:
        return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
    return table, _texts(lines, layout.delimiter, layout.target)


def _texts(lines: list[str], delimiter: str, column: int) -> Labels:
    cells: Labels = np.loadtxt(
        lines, delimiter=delimiter, usecols=[column], comments=None, quotechar='"', dtype=str, ndmin=1
    )
    labels = np.char.strip(cells)
    if any(label.lower() in MISSING_LABELS for label in np.unique(labels).tolist()):
        raise ValueError("a label is missing")
    return labels


# -- cell by cell


def _read_cells(path: Path, collector: RowCollector, layout: Layout, regression: bool) -> None:
    """Add the rows of a file to a collector; raise _LabelsAreText where the layout promises numbers and one is text."""
    dtype = str if layout.text_labels else np.float64
    with open_stream(path) as stream:
        blocks = (io.StringIO(decoded(block, path), newline="\n") for block in line_blocks(stream, path))
        rows = rows_of(itertools.chain.from_iterable(blocks), layout.delimiter)
        parsed = (_cells(*row, path, layout, regression) for row in rows if row[0] > layout.n_header_lines)
        try:
            while block := list(itertools.islice(parsed, N_SLOW_ROWS)):
                features, labels = zip(*block, strict=True)
                found = None if layout.target is None else np.array(labels, dtype=dtype)
                collector.add_dense(np.array(features, dtype=np.float64), found)
        except csv.Error as error:
            raise DataError(f"{path}: {error}. Is the file a CSV table?") from None


def _cells(
    line: int, cells: list[str], path: Path, layout: Layout, regression: bool
) -> tuple[list[float], float | str | None]:
    """Return the features and the label of a row."""
    where = f"{path}, line {line}"
    if len(cells) != layout.n_columns:
        raise DataError(
            f"{where}: the row has {len(cells)} cells, the first row has {layout.n_columns}. Correct the row."
        )
    try:
        features = [float(cells[i]) for i in layout.features]
    except ValueError:
        features = [math.nan]
    if not all(map(math.isfinite, features)):
        features = [_number(cells[i], f"{where}, {layout.called(i)}") for i in layout.features]  # names what is wrong
    if layout.target is None:
        return features, None
    place = f"{where}, {layout.called(layout.target)}"
    return features, _label(cells[layout.target], place, layout.text_labels, regression)


def _number(cell: str, where: str) -> float:
    """Return the number in a cell of a feature."""
    if is_missing(cell):
        raise DataError(f"{where}: the value is missing ({preview(cell)}). Fill it, or drop the row or the column.")
    try:
        value = float(cell)
    except ValueError:
        hint = "Turn text into numbers first (such as one column for each category), or name the labels by target=."
        if cell.count(",") == 1 and cell.strip().replace(",", "").lstrip("+-").isdigit():
            hint = "Write decimals with a point."
        raise DataError(f"{where}: {preview(cell)} is not a number. {hint}") from None
    if not math.isfinite(value):
        raise DataError(f"{where}: the value is {preview(cell)}, which is not finite. Fill it, or drop the row.")
    return value


def _label(cell: str, where: str, is_text: bool, regression: bool) -> float | str:
    """Return the label in a cell, as text or as a number."""
    missing = f"{where}: the label is missing ({preview(cell)}). Drop the rows without a label."
    is_gap = cell.strip().lower() in MISSING_LABELS
    if is_text:
        if is_gap:
            raise DataError(missing)
        return cell.strip()
    try:
        value = float(cell)
    except ValueError:
        if is_gap:
            raise DataError(missing) from None
        if not regression:
            raise _LabelsAreText from None
        raise DataError(
            f"{where}: the target {preview(cell)} of a regression is not a number. "
            'Name another column by target=, or use task="classification".'
        ) from None
    if not math.isfinite(value):
        raise DataError(f"{where}: the label is {preview(cell)}, which is not finite. Drop the rows without a label.")
    return value
