"""Reads CSV tables: one row per line, numbers in every column except that of the labels.

- The delimiter (comma, semicolon, tab or bar) is found in the first line. Cells may be quoted by ``"``.
- The first row is a header where ``target=`` names one of its cells; where all of its cells are text, none of which recurs
  as a label; where it has text above a number, and no number; and where one of its cells is called ``target``, ``label`` or
  ``class`` and the others have whole numbers for names, as pandas writes them. Text above a number, but beside one, is an
  error. A first row of numbers is always a row. A first column without a name, as pandas writes its index, is left out.
- The labels stand in the column that ``target=`` names, by its name or its number; without it in the usual place, see
  `finitesum.datasets.formats.columns.target_column`. They are numbers or text.
- Empty lines and lines that begin with ``#`` are skipped.
- A missing value or text among the features is an error that names the line and the column.

NumPy's parser reads blocks without quotes. From the first block on that has some, or that it refuses, cells are read one by
one, which is slower and names what is wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.collector import Array, Contents, RowCollector
from finitesum.datasets.formats.columns import Target
from finitesum.datasets.formats.csv_layout import MISSING, MISSING_LABELS, Layout, find_layout, rows_of
from finitesum.datasets.formats.streams import Block, decoded, line_blocks, open_stream, text_lines, to_number
from finitesum.datasets.labels import Labels

#: Bytes that are read at a time to find the layout.
HEAD_BYTES = 1 << 16

#: Rows that are collected at a time where cells are read one by one.
N_STRICT_ROWS = 4096


class _LabelsAreText(Exception):
    """A label is text where numbers were expected: the file must be read again."""


def read_csv(path: Path, collector: RowCollector, *, target: Target = None, regression: bool = False) -> Contents:
    """Return the rows of a CSV file, gathered by a collector.

    `target` is that of `target_column`; labels that are text are an error in a regression.
    """
    with open_stream(path) as stream:
        layout = find_layout(text_lines(line_blocks(stream, path, HEAD_BYTES), path), target, path)
    if regression:
        layout = dataclasses.replace(layout, text_labels=False)  # reading names the first such label
    try:
        _read(path, collector, layout, regression)
    except _LabelsAreText:
        collector.reset()
        _read(path, collector, dataclasses.replace(layout, text_labels=True), regression)
    return collector.finish(layout.feature_names, layout.target_name)


def _read(path: Path, collector: RowCollector, layout: Layout, regression: bool) -> None:
    with open_stream(path) as stream:
        blocks = line_blocks(stream, path)
        for block in blocks:
            table = _plain_table(decoded(block, path), block.first_line, layout)
            if table is None:
                _read_strictly(itertools.chain([block], blocks), block.first_line, path, collector, layout, regression)
            elif len(table[0]):
                collector.add_dense(*table)


def _plain_table(text: str, first_line: int, layout: Layout) -> tuple[Array, Labels | None] | None:
    """Return the rows and labels of a block by NumPy's parser, or None where something is unusual or wrong."""
    if '"' in text:
        return None
    lines = text.split("\n")[max(0, layout.n_header_lines + 1 - first_line) :]
    lines = [line for line in lines if line.strip() and not line.startswith("#")]
    if not lines:
        return np.empty((0, 0)), None
    if {line.count(layout.delimiter) for line in lines} != {layout.n_columns - 1}:
        return None
    numeric = layout.features if layout.text_labels or layout.target is None else (*layout.features, layout.target)
    try:
        table: Array = np.loadtxt(lines, delimiter=layout.delimiter, usecols=numeric, comments=None, ndmin=2)
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


def _read_strictly(
    blocks: Iterable[Block], first_line: int, path: Path, collector: RowCollector, layout: Layout, regression: bool
) -> None:
    """Add the rows of all blocks cell by cell; raise _LabelsAreText where numbers were promised and a label is text."""
    rows = rows_of(text_lines(blocks, path), layout.delimiter, path, first_line)
    parsed = (_parsed(*row, path, layout, regression) for row in rows if row[0] > layout.n_header_lines)
    while batch := list(itertools.islice(parsed, N_STRICT_ROWS)):
        features, labels = zip(*batch, strict=True)
        collector.add_dense(np.array(features), None if layout.target is None else np.array(labels))


def _parsed(
    line: int, cells: list[str], path: Path, layout: Layout, regression: bool
) -> tuple[list[float | None], float | str | None]:
    """Return the features and the label of a row."""
    where = f"{path}, line {line}"
    if len(cells) != layout.n_columns:
        raise DataError(
            f"{where}: the row has {len(cells)} cells, the first row has {layout.n_columns}. Correct the row."
        )
    features = [to_number(cells[i]) for i in layout.features]
    for i, value in zip(layout.features, features, strict=True):
        if value is None or not math.isfinite(value):
            raise DataError(f"{where}, {layout.called(i)}: {_wrong_feature(cells[i], value)}")
    if layout.target is None:
        return features, None
    cell = cells[layout.target].strip()
    label = cell if layout.text_labels else to_number(cell)
    if label is None and not regression and cell.lower() not in MISSING_LABELS:
        raise _LabelsAreText
    if wrong := _wrong_label(cell, label):
        raise DataError(f"{where}, {layout.called(layout.target)}: {wrong}")
    return features, label


def _wrong_feature(cell: str, value: float | None) -> str:
    if cell.strip().lower() in MISSING:
        return f"the value is missing ({preview(cell)}). Fill it, or drop the row or the column."
    if value is not None:
        return f"the value is {preview(cell)}, which is not finite. Fill it, or drop the row."
    hint = "Turn text into numbers first (such as one column for each category), or name the labels by target=."
    if cell.count(",") == 1 and cell.strip().replace(",", "").lstrip("+-").isdigit():
        hint = "Write decimals with a point."
    return f"{preview(cell)} is not a number. {hint}"


def _wrong_label(cell: str, label: float | str | None) -> str | None:
    """Return what is wrong with a label, or None."""
    if not isinstance(label, float) and cell.lower() in MISSING_LABELS:
        return f"the label is missing ({preview(cell)}). Drop the rows without a label."
    if label is None:
        return (
            f"the target {preview(cell)} of a regression is not a number. "
            'Name another column by target=, or use task="classification".'
        )
    if isinstance(label, float) and not math.isfinite(label):
        return f"the label is {preview(cell)}, which is not finite. Drop the rows without a label."
    return None
