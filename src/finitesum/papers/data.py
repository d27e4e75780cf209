"""Data sets of the experiments: loaded where they are on this machine, and never fetched without being asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from finitesum.datasets import DataError, Dataset, find, info, load_dataset
from finitesum.datasets.registry import where_to_get


def load(name: str, data_dir: Path | None) -> Dataset:
    """Return a data set of the registry that is on this machine.

    Raises
    ------
    DataError
        It is not; the message says how to get it.
    """
    if find(name, data_dir=data_dir) is None:
        raise DataError(advice(name, data_dir))
    return load_dataset(name, data_dir=data_dir)


def missing(names: Iterable[str], data_dir: Path | None) -> dict[str, str]:
    """Return the data sets of some names that are not on this machine, and for each how to get it."""
    return {name: advice(name, data_dir) for name in names if find(name, data_dir=data_dir) is None}


def advice(name: str, data_dir: Path | None) -> str:
    """Return how to get a data set."""
    entry = info(name)
    if any(file.urls for file in entry.files):
        return (
            f"'finitesum data fetch {name}' gets it. Where the file is already on this machine, name its folder by --data, "
            "or put it into the folder 'data' in FINITESUM_HOME."
        )
    return f"{name} is not on this machine. {where_to_get(entry, data_dir)}"
