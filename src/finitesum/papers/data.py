"""Data sets of the experiments: loaded where they are on this machine, and never fetched without being asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from finitesum.datasets import DataError, Dataset, find, info, load_dataset
from finitesum.datasets.registry import where_to_get

_FETCH = (
    "'finitesum data fetch {}' gets it. Where the file is already on this machine, name its folder by --data, or put it "
    "into the folder 'data' in FINITESUM_HOME."
)


def load(name: str, data_dir: Path | None) -> Dataset:
    """Return a data set of the registry; a DataError with the advice of `missing` where it is not on this machine."""
    for advice in missing([name], data_dir).values():
        raise DataError(advice)
    return load_dataset(name, data_dir=data_dir)


def missing(names: Iterable[str], data_dir: Path | None) -> dict[str, str]:
    """Return the data sets of some names that are not on this machine, and for each how to get it."""
    absent = {}
    for name in names:
        entry = info(name)
        if find(name, data_dir=data_dir) is None:
            there = f"{name} is not on this machine. {where_to_get(entry, data_dir)}"
            absent[name] = _FETCH.format(name) if any(file.urls for file in entry.files) else there
    return absent
