"""Public data sets by name: what they are, where they lie on this machine, and where to get them."""

import difflib
import functools
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from finitesum.datasets.dataset import Task
from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.archive import Part
from finitesum.datasets.formats.streams import COMPRESSION_SUFFIXES
from finitesum.datasets.home import Folder, search_folders

_FORMAT_SUFFIXES = (".svm", ".libsvm", ".svmlight", "", ".csv", ".npz", ".parquet")


@dataclass(frozen=True)
class DataFile:
    """A file that holds a data set."""

    name: str  #: in a folder of data
    sha256: str | None = None  #: where it is not known, the first download counts
    urls: tuple[str, ...] = ()  #: public addresses; none for a file that only mirrors have


@dataclass(frozen=True)
class Info:
    """What is known about a data set.

    Of several files that hold it the preferred one is first. Later ones come from the publisher, and may have another order
    of rows or other names for the classes.
    """

    name: str
    title: str  #: what it is
    task: Task
    n_rows: int
    n_features: int
    n_classes: int | None  #: the number of distinct labels; None for a regression
    nnz: int | None  #: the number of entries in the first of the files; None where it is not known
    files: tuple[DataFile, ...]
    aliases: tuple[str, ...] = ()  #: other names
    part: Part = "train"  #: of an archive of two parts
    remarks: str = ""  #: what one should know before using it


@functools.cache
def _registry() -> dict[str, Info]:
    import tomllib

    text = resources.files("finitesum.datasets").joinpath("registry.toml").read_text(encoding="utf-8")
    return {name: _info(name, table) for name, table in tomllib.loads(text).items()}


def _info(name: str, table: dict[str, Any]) -> Info:
    files = tuple(DataFile(f["name"], f.get("sha256"), tuple(f.get("urls", ()))) for f in table.pop("files"))
    known = {"n_classes": None, "nnz": None, **table, "aliases": tuple(table.get("aliases", ()))}
    return Info(name=name, files=files, **known)


def list_datasets() -> tuple[Info, ...]:
    """Return what is known about every data set of the registry, by name.

    Examples
    --------
    >>> [info.name for info in list_datasets() if info.n_features == 123]
    ['a1a', 'a9a', 'a9a.t']
    """
    return tuple(sorted(_registry().values(), key=lambda info: info.name.lower()))


def info(name: str) -> Info:
    """Return what is known about a data set; a DataError with the nearest names where the registry has none of this name.

    Examples
    --------
    >>> info("covtype").name
    'covtype.binary.scale'
    """
    known = _registry()
    if name in known:
        return known[name]
    for candidate in known.values():
        if name in candidate.aliases or name.lower() == candidate.name.lower():
            return candidate
    every = [*known, *(alias for candidate in known.values() for alias in candidate.aliases)]
    close = difflib.get_close_matches(name, every, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(repr(c) for c in close)}?" if close else "See list_datasets()."
    raise DataError(f"name={preview(name)} is no data set of the registry. {hint}")


def find(name: str, *, data_dir: Folder = None) -> Path | None:
    """Return the file of a data set on this machine, or None where there is none.

    The name is one of the registry, or that of any file in the folders of data, without its suffixes. A folder `data_dir`
    is searched before those of ``FINITESUM_DATA`` and ``FINITESUM_HOME/data``. In each a file of the registry's is taken
    first, then ``NAME.svm`` and its like, plain or compressed.
    """
    names = _file_names(name)
    for folder in search_folders(data_dir):
        for candidate in names:
            if (folder / candidate).is_file():
                return folder / candidate
    return None


def _file_names(name: str) -> list[str]:
    """Return the names that the file of a data set may have, the preferred one first."""
    try:
        entry = info(name)
    except DataError:
        names, stem = [], name
        if not name or Path(name).name != name:  # a path is no name
            return []
    else:
        names, stem = [file.name for file in entry.files], entry.name
        names += [Path(file).stem for file in names if Path(file).suffix in COMPRESSION_SUFFIXES]  # unpacked
        if entry.part == "test":  # it is in the archive of the training part
            return names
    return names + [stem + form + packed for form in _FORMAT_SUFFIXES for packed in ("", *COMPRESSION_SUFFIXES)]


def path(name: str, *, data_dir: Folder = None) -> Path:
    """Return the file of a data set on this machine, as `find`.

    Its absence is a DataError, which says where to get it and where to put it.
    """
    found = find(name, data_dir=data_dir)
    if found is None:
        raise DataError(f"{name} is not on this machine. {where_to_get(info(name), data_dir)}")
    return found


def where_to_get(entry: Info, data_dir: Folder) -> str:
    """Return the advice to those who lack a data set."""
    folders = " or ".join(str(folder) for folder in search_folders(data_dir)) or "the folder data_dir="
    sources = [url for file in entry.files for url in file.urls]
    if sources:
        kept = next(file.name for file in entry.files if file.urls)
        return f"Get it from {sources[0]} and put it, as {kept}, into {folders}."
    return f"No public address is known: put {entry.files[0].name} into {folders}. {entry.remarks}".strip()
