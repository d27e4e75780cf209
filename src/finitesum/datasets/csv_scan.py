"""Reads a CSV table cell by cell: slow, but it names the line and the column that are wrong."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

from finitesum.datasets.collector import RowCollector
from finitesum.datasets.csv_layout import MISSING_LABELS, Layout, is_missing, rows_of
from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.streams import open_stream, text_lines

#: How many rows are handed over at a time.
N_ROWS = 4096


class LabelsAreText(Exception):
    """A label is text where numbers were expected: the file is to be read anew."""


def scan_table(path: Path, collector: RowCollector, layout: Layout, regression: bool) -> None:
    """Add the rows of a CSV file to a collector.

    Parameters
    ----------
    path
        The file.
    collector
        Where the rows go.
    layout
        How the file is laid out.
    regression
        Whether a label that is text is an error.

    Raises
    ------
    DataError
        A cell cannot be used, or a row has too few or too many.
    LabelsAreText
        The layout promises numbers as labels, but one is text, and `regression` is false.
    """
    features: list[list[float]] = []
    labels: list[float | str] = []

    def hand_over() -> None:
        if features:
            dtype = str if layout.text_labels else np.float64
            collector.add_dense(
                np.array(features, dtype=np.float64), None if layout.target is None else np.array(labels, dtype=dtype)
            )
            features.clear()
            labels.clear()

    with open_stream(path) as stream:
        rows = rows_of(text_lines(stream, path), layout.delimiter)
        try:
            for line, cells in rows:
                if line <= layout.n_header_lines:
                    continue
                where = f"{path}, line {line}"
                _require_cells(cells, layout, where)
                features.append([_number(cells[i], layout, i, where) for i in layout.features])
                if layout.target is not None:
                    labels.append(_label(cells[layout.target], layout, layout.target, where, regression))
                if len(features) == N_ROWS:
                    hand_over()
        except csv.Error as error:
            raise DataError(f"{path}: {error}. Is the file a CSV table?") from None
    hand_over()


def _require_cells(cells: list[str], layout: Layout, where: str) -> None:
    if len(cells) != layout.n_columns:
        raise DataError(f"{where}: the row has {len(cells)} cells, the first row has {layout.n_columns}. Mend the row.")


def _number(cell: str, layout: Layout, column: int, where: str) -> float:
    """Return the number in a cell of a feature."""
    where = f"{where}, {layout.called(column)}"
    if is_missing(cell):
        raise DataError(f"{where}: the value is missing ({preview(cell)}). Fill it, or drop the row or the column.")
    try:
        value = float(cell)
    except ValueError:
        hint = (
            "Write decimals with a point."
            if _has_decimal_comma(cell)
            else ("Turn text into numbers first (such as one column for each category), or name the labels by target=.")
        )
        raise DataError(f"{where}: {preview(cell)} is not a number. {hint}") from None
    if not math.isfinite(value):
        raise DataError(f"{where}: the value is {preview(cell)}, which is not finite. Fill it, or drop the row.")
    return value


def _has_decimal_comma(cell: str) -> bool:
    return cell.count(",") == 1 and cell.strip().replace(",", "").lstrip("+-").isdigit()


def _label(cell: str, layout: Layout, column: int, where: str, regression: bool) -> float | str:
    """Return the label in a cell, as text or as a number, as the layout has it."""
    where = f"{where}, {layout.called(column)}"
    if layout.text_labels:
        if cell.strip().lower() in MISSING_LABELS:
            raise DataError(f"{where}: the label is missing ({preview(cell)}). Drop the rows without a label.")
        return cell.strip()
    try:
        value = float(cell)
    except ValueError:
        if cell.strip().lower() in MISSING_LABELS:
            raise DataError(
                f"{where}: the label is missing ({preview(cell)}). Drop the rows without a label."
            ) from None
        if not regression:
            raise LabelsAreText from None
        raise DataError(
            f"{where}: the target {preview(cell)} of a regression is not a number. "
            'Name another column by target=, or use task="classification".'
        ) from None
    if not math.isfinite(value):
        raise DataError(f"{where}: the label is {preview(cell)}, which is not finite. Drop the rows without a label.")
    return value
