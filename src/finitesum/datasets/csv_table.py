"""Reads CSV tables: one row a line, numbers in every column but that of the labels.

- The delimiter (comma, semicolon, tab or bar) is found in the first line. Cells may be quoted by ``"``.
- The first row is a header where all of its cells are text, or where it has text above a number. A first column without
  a name, as pandas writes its index, is left out.
- The labels stand in the column that ``target=`` names, by its name or its number; without it in the usual place, see
  `finitesum.datasets.columns.target_column`. They are numbers or text.
- Empty lines and lines that begin with ``#`` are skipped.
- A missing value or text among the features is an error that names the line and the column.

NumPy's parser does the work. Where it refuses a block, `finitesum.datasets.csv_scan` reads the file anew, cell by cell,
and names what is wrong.
"""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import numpy as np

from finitesum.datasets.collector import Array, Header, RowCollector
from finitesum.datasets.columns import Target
from finitesum.datasets.csv_layout import MISSING_LABELS, Layout, detect_layout
from finitesum.datasets.csv_scan import LabelsAreText, scan_table
from finitesum.datasets.errors import DataError
from finitesum.datasets.labels import Labels
from finitesum.datasets.streams import Block, decoded, line_blocks, open_stream

#: How much of the file is looked at to find its layout: so many bytes, and the rest of the line.
HEAD_BYTES = 1 << 16


def read_csv(path: Path, collector: RowCollector, *, target: Target = None, regression: bool = False) -> Header:
    """Add the rows of a CSV file to a collector.

    Parameters
    ----------
    path
        The file, plain or compressed by gz, bz2 or xz.
    collector
        Where the rows go.
    target
        Which column holds the labels: see `target_column`.
    regression
        Whether labels that are text are an error.

    Returns
    -------
    Header
        The names of the columns.

    Raises
    ------
    DataError
        A cell cannot be used, or a row has too few or too many; it is named by line and column.
    """
    layout = _layout(path, target)
    if layout.text_labels and regression:
        layout = dataclasses.replace(layout, text_labels=False)  # the scan will name the first such label
    try:
        _read(path, collector, layout, regression)
    except LabelsAreText:
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
    scan_table(path, collector, layout, regression)


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
    if any(line.startswith("#") for line in lines):
        lines = [line for line in lines if not line.startswith("#")]
    lines = [line for line in lines if line.strip()]
    if not lines:
        return None
    n_delimiters = sum(line.count(layout.delimiter) for line in lines)
    if n_delimiters != len(lines) * (layout.n_columns - 1):
        raise ValueError("a row has too few or too many cells, or cells hold delimiters")
    numeric = layout.features if layout.text_labels or layout.target is None else (*layout.features, layout.target)
    table = _numbers(lines, layout.delimiter, numeric)
    if layout.target is None:
        return table, None
    if not layout.text_labels:
        return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
    return table, _texts(lines, layout.delimiter, layout.target)


def _numbers(lines: list[str], delimiter: str, columns: tuple[int, ...]) -> Array:
    table: Array = np.loadtxt(lines, delimiter=delimiter, usecols=columns, comments=None, quotechar='"', ndmin=2)
    if not np.isfinite(table).all():
        raise ValueError("a cell is not finite")
    return table


def _texts(lines: list[str], delimiter: str, column: int) -> Labels:
    cells: Labels = np.loadtxt(
        lines, delimiter=delimiter, usecols=[column], comments=None, quotechar='"', dtype=str, ndmin=1
    )
    labels = np.char.strip(cells)
    if any(label.lower() in MISSING_LABELS for label in np.unique(labels).tolist()):
        raise ValueError("a label is missing")
    return labels
