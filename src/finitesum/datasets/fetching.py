"""Gets the files of public data sets, checks them, and loads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from finitesum.datasets.dataset import Dataset
from finitesum.datasets.download import download, recorded_checksum, sha256_of
from finitesum.datasets.errors import DataError
from finitesum.datasets.formats.archive import Part
from finitesum.datasets.formats.detect import find_format
from finitesum.datasets.home import home
from finitesum.datasets.loading import load
from finitesum.datasets.registry import Info, find, info, path, where_to_get


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`.

    Parameters
    ----------
    name
        The data set.
    path
        Its file.
    sha256
        The checksum of the file.
    known_from
        Where the checksum that it agrees with comes from: "registry", "first download", or "nowhere" for a file whose
        checksum is not known.
    counts_checked
        Whether the rows, features and classes were counted, too.
    """

    name: str
    path: Path
    sha256: str
    known_from: Literal["registry", "first download", "nowhere"]
    counts_checked: bool


def fetch(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    mirrors: Sequence[str] = (),
    progress: bool = False,
) -> Path:
    """Return the file of a data set, which is downloaded where it is not on this machine.

    Parameters
    ----------
    name
        A name of the registry: see `list_datasets`.
    data_dir
        A folder that is searched first.
    mirrors
        Addresses of folders (http, https, ftp or file) that are tried before the publisher's.
    progress
        Whether a bar is drawn on stderr.

    Returns
    -------
    Path
        A file in one of the folders of data; a download goes to ``FINITESUM_HOME/data``.

    Raises
    ------
    DataError
        The name is unknown, or the file cannot be downloaded; the message says where to get it and where to put it.
    """
    found = find(name, data_dir=data_dir)
    if found is not None:
        return found
    entry, root = info(name), home()
    if root is None:
        raise DataError(f"{name} cannot be stored: no home folder is known. Set FINITESUM_HOME.")
    failures: list[str] = []
    for file in entry.files:
        urls = [f"{mirror.rstrip('/')}/{file.name}" for mirror in mirrors] + list(file.urls)
        if not urls:
            continue
        try:
            return download(file.name, urls, root / "data", sha256=file.sha256, progress=progress)
        except DataError as error:
            failures.append(str(error))
    reason = " ".join(failures) if failures else f"{name} is not on this machine."
    raise DataError(f"{reason} {where_to_get(entry, data_dir)}")


def verify(name: str, *, data_dir: str | os.PathLike[str] | None = None, counts: bool = False) -> Verification:
    """Return the outcome of checking the file of a data set on this machine.

    Parameters
    ----------
    name
        A name of the registry.
    data_dir
        A folder that is searched first.
    counts
        Whether the file is read as well, to count its rows, features and classes.

    Raises
    ------
    DataError
        The file is not there, or it is not the one that was expected.
    """
    entry, file = info(name), path(name, data_dir=data_dir)
    found = sha256_of(file)
    expected = next((known.sha256 for known in entry.files if known.name == file.name), None)
    known_from: Literal["registry", "first download", "nowhere"] = "registry" if expected else "nowhere"
    if expected is None:
        expected = recorded_checksum(file.parent, file.name)
        known_from = "first download" if expected else "nowhere"
    if expected is not None and found != expected:
        raise DataError(
            f"{file}: the SHA-256 is {found}, not {expected} (from the {known_from}). "
            "The file is damaged or another one: remove it and fetch it again."
        )
    if counts:
        _require_counts(entry, load_dataset(entry.name, data_dir=data_dir, cache=False))
    return Verification(entry.name, file, found, known_from, counts)


def _require_counts(entry: Info, data: Dataset) -> None:
    n_classes = None if entry.n_classes is None else len(data.label_map())
    found = {"n_rows": data.n_rows, "n_features": data.n_features, "n_classes": n_classes}
    for what, value in found.items():
        if value != getattr(entry, what):
            raise DataError(f"{data.source}: {what} is {value}, but {entry.name} has {getattr(entry, what)}.")


def load_dataset(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    mirrors: Sequence[str] = (),
    progress: bool = False,
    cache: bool = True,
    memmap: bool = False,
) -> Dataset:
    """Return a data set of the registry, with its full number of features.

    Parameters
    ----------
    name
        A name of the registry: see `list_datasets`.
    data_dir, mirrors, progress
        As for `fetch`.
    cache, memmap
        As for `load`.

    Raises
    ------
    DataError
        What `fetch` and `load` raise.
    """
    entry = info(name)
    file = fetch(name, data_dir=data_dir, mirrors=mirrors, progress=progress)
    part: Part = entry.part if find_format(file) == "npz" else "train"
    data = load(file, n_features=entry.n_features, task=entry.task, part=part, cache=cache, memmap=memmap)
    return replace(data, name=entry.name)
