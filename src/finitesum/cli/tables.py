"""Tables with text, missing values and columns beside the features: prepared as the options say, or as a model was."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from finitesum.cli.console import Console
from finitesum.cli.errors import InputError
from finitesum.cli.options import Settings, column_of

if TYPE_CHECKING:
    from finitesum.datasets import Dataset
    from finitesum.datasets.formats.tables import Table

#: The settings that only a table has.
_OF_TABLES = ("drop", "keep", "categorical", "missing", "weights", "offset", "standardise", "min_frequency", "decimal")


def wants_table(settings: Settings) -> bool:
    """Return whether an option was given that only tables have."""
    return any(getattr(settings, name) != getattr(Settings, name) for name in _OF_TABLES)


def require_no_table(settings: Settings, why: str) -> None:
    """Raise where an option of tables goes with data that are none."""
    if wants_table(settings):
        given = next(name for name in _OF_TABLES if getattr(settings, name) != getattr(Settings, name))
        raise InputError(f"--{given.replace('_', '-')} is for one CSV or Parquet file that is read into memory: {why}.")


def names_of(text: str | None) -> list[str]:
    """Return names with commas between; one with a comma of its own stands in quotes."""
    rows = [] if text is None else list(csv.reader([text], skipinitialspace=True))
    return [name.strip() for row in rows for name in row if name.strip()]


def read_prepared(settings: Settings, file: Path, console: Console, *, task: Any) -> Dataset:
    """Return the data set of a table, with its preparation, and say on stderr what was done to its columns."""
    from dataclasses import replace

    from finitesum.datasets.tables import TablePreparation

    if settings.memmap or settings.n_features is not None:
        raise InputError("--memmap and --n-features are for tables of numbers: leave them out.")
    pairs = [name.partition("=") for name in names_of(settings.categorical)]
    categorical = {name: level if sign else None for name, sign, level in pairs}
    named = [name for name in (settings.target, settings.weights, *names_of(settings.drop), *categorical) if name]
    table = read(settings, file, text=categorical, known=named)
    preparation = TablePreparation.fit(
        table,
        target=column_of(settings.target),
        drop=names_of(settings.drop),
        keep=None if settings.keep is None else names_of(settings.keep),
        categorical=categorical,
        missing=settings.missing,  # type: ignore[arg-type]
        weights=settings.weights,
        offset=settings.offset,
        standardise=settings.standardise,
        min_frequency=settings.min_frequency,
    )
    data = preparation.transform(table, task=task).data
    for note in preparation.notes:
        console.note(note)
    return replace(data, preparation=preparation)


def read(settings: Settings, file: Path, *, text: Any = (), known: Any = ()) -> Table:
    """Return the columns of a file."""
    from finitesum.datasets.formats.tables import read_table

    return read_table(file, format=settings.format, text=text, known=known, decimal=settings.decimal)  # type: ignore[arg-type]
