"""Keeps parsed copies of files as NumPy arrays, so that text is parsed once.

A copy lies in ``parsed/<key>/`` of the folder `finitesum.datasets.home.home`: one ``.npy`` file for each array, and
``meta.json``, which lists the sizes of the others. The key is made from the path of the file, its size, the time it was
changed, what the reader was asked for, and the version of this layout: a changed file has another key, and its old copy
is removed when the new one is made.

A copy is written under another name and then renamed, so that a reader sees all of it or nothing, and two processes may
write the same one at the same time. A copy whose files have other sizes or shapes than ``meta.json`` says is made again.
Where nothing can be written, data are read without a copy, and the logger ``finitesum`` gets a warning.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.datasets.formats.collector import Array, Contents, RowCollector, StorageError
from finitesum.datasets.home import LOGGER, home

#: To be raised whenever the layout of a copy changes, or a reader reads the same file differently.
VERSION = 1

_META = "meta.json"
_ARRAYS = {"dense": ("rows",), "csr": ("data", "indices", "indptr")}
_STALE_SECONDS = 86_400.0

Read = Callable[[RowCollector], Contents]


@dataclass(frozen=True)
class Entry:
    """The place of a parsed copy.

    Parameters
    ----------
    root
        The folder of all copies.
    file_key
        A digest of the path of the file: copies of its earlier states begin with it, too.
    state_key
        A digest of the state of the file.
    options_key
        A digest of what the reader was asked for.
    """

    root: Path
    file_key: str
    state_key: str
    options_key: str

    @property
    def folder(self) -> Path:
        """The folder of this copy."""
        return self.root / f"{self.file_key}-{self.state_key}-{self.options_key}"


class _Damaged(Exception):
    """A parsed copy is not what its description says."""


def parsed_folder() -> Path | None:
    """Return the folder of all parsed copies, or None where the system names none."""
    root = home()
    return None if root is None else root / "parsed"


def find_entry(path: Path, options: Mapping[str, Any]) -> Entry | None:
    """Return the place of the parsed copy of a file, or None where there is none to be.

    Parameters
    ----------
    path
        The file.
    options
        What the reader is asked for: all that changes what is read.
    """
    root = parsed_folder()
    if root is None:
        LOGGER.warning("No folder is known for parsed data, so %s is parsed every time. Set FINITESUM_HOME.", path)
        return None
    real = path.resolve()
    state = real.stat()
    return Entry(
        root,
        _digest(str(real)),
        _digest(json.dumps([VERSION, state.st_size, state.st_mtime_ns])),
        _digest(json.dumps(options, sort_keys=True)),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()[:16]


def load_entry(entry: Entry, memmap: bool) -> Contents | None:
    """Return the contents of a parsed copy, or None where there is none, or a damaged one.

    Parameters
    ----------
    entry
        The place of the copy.
    memmap
        Whether the arrays stay on disk. They are mapped copy-on-write: writing to them changes nothing on disk.
    """
    if not entry.folder.exists():
        return None
    try:
        meta = json.loads((entry.folder / _META).read_text(encoding="utf-8"))
        return _load(entry.folder, meta, memmap)
    except (_Damaged, OSError, ValueError, KeyError, TypeError, AttributeError, EOFError) as error:
        LOGGER.warning("The parsed copy %s is damaged (%s). It is made again.", entry.folder, error)
        return None


def _load(folder: Path, meta: dict[str, Any], memmap: bool) -> Contents:
    kind, described = meta["kind"], meta["arrays"]
    if meta["version"] != VERSION or set(_ARRAYS[kind]) - described.keys():
        raise _Damaged("arrays are missing")
    arrays = {name: _load_array(folder / f"{name}.npy", wanted, memmap) for name, wanted in described.items()}
    n_rows = len(arrays["rows"]) if kind == "dense" else len(arrays["indptr"]) - 1
    if "labels" in arrays and len(arrays["labels"]) != n_rows:
        raise _Damaged("rows and labels do not fit")
    if kind == "csr" and not (arrays["indptr"][0] == 0 and arrays["indptr"][-1] == len(arrays["data"])):
        raise _Damaged("the entries do not fit the rows")
    names = meta["feature_names"]
    return Contents(kind, arrays, meta["n_features"], None if names is None else tuple(names), meta["target_name"])


def _load_array(path: Path, wanted: Mapping[str, Any], memmap: bool) -> Array:
    size = path.stat().st_size
    if size != wanted["bytes"]:
        raise _Damaged(f"{path.name} has {size} bytes instead of {wanted['bytes']}")
    # An array without entries cannot be mapped.
    mapped = memmap and 0 not in wanted["shape"]
    array: Array = np.load(path, mmap_mode="c" if mapped else None, allow_pickle=False)
    if list(array.shape) != wanted["shape"] or array.dtype.str != wanted["dtype"]:
        raise _Damaged(f"{path.name} holds another array")
    return array


def build_entry(entry: Entry, read: Read) -> bool:
    """Parse a file into its copy.

    Parameters
    ----------
    entry
        The place of the copy.
    read
        Reads the file into a collector and returns what it gathered.

    Returns
    -------
    bool
        Whether there is a copy now; False where it cannot be written, which is logged.

    Raises
    ------
    DataError
        What `read` raises. No copy is made then.
    """
    collector = RowCollector()
    work: Path | None = None
    try:
        entry.root.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".new-{entry.file_key}-", dir=entry.root))
        collector.folder = work
        _write_meta(work, read(collector))
        _publish(work, entry)
        _remove_stale(entry)
        return True
    except (OSError, StorageError) as error:
        LOGGER.warning("No parsed copy can be written to %s (%s), so the file is parsed every time.", entry.root, error)
        return False
    finally:
        collector.close()
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)


def _write_meta(folder: Path, contents: Contents) -> None:
    described = {
        name: {
            "bytes": (folder / f"{name}.npy").stat().st_size,
            "shape": list(array.shape),
            "dtype": array.dtype.str,
        }
        for name, array in contents.arrays.items()
    }
    meta = {
        "version": VERSION,
        "kind": contents.kind,
        "arrays": described,
        "n_features": contents.n_features,
        "feature_names": contents.feature_names,
        "target_name": contents.target_name,
    }
    (folder / _META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _publish(work: Path, entry: Entry) -> None:
    """Give a finished copy its name, unless another process was faster."""
    work.chmod(0o755)
    try:
        work.rename(entry.folder)
        return
    except OSError:
        if not entry.folder.is_dir():
            raise
    if load_entry(entry, memmap=True) is not None:
        return
    # What is there is damaged: it is moved out of the way in one step, because others may be reading it.
    damaged = Path(tempfile.mkdtemp(prefix=".old-", dir=entry.root))
    try:
        entry.folder.rename(damaged / "copy")
        work.rename(entry.folder)
    except OSError:
        if load_entry(entry, memmap=True) is None:
            raise
    finally:
        shutil.rmtree(damaged, ignore_errors=True)


def _remove_stale(entry: Entry) -> None:
    """Remove the copies of earlier states of the file, and what processes that were killed left behind."""
    for folder in entry.root.glob(f"{entry.file_key}-*"):
        if not folder.name.startswith(f"{entry.file_key}-{entry.state_key}-"):
            shutil.rmtree(folder, ignore_errors=True)
    for folder in [*entry.root.glob(".new-*"), *entry.root.glob(".old-*")]:
        try:
            if time.time() - folder.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # another process removed it
            continue


def clear_cache() -> int:
    """Remove all parsed copies and return how many bytes they took.

    Data files are left alone. Copies are made again when they are needed.
    """
    root = parsed_folder()
    if root is None or not root.is_dir():
        return 0
    freed = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
    for folder in root.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
    return freed


def cached(path: Path, options: Mapping[str, Any], read: Read, memmap: bool) -> Contents | None:
    """Return the contents of a file from its parsed copy, which is made where there is none.

    Parameters
    ----------
    path
        The file.
    options
        All that changes what is read.
    read
        Reads the file into a collector and returns what it gathered.
    memmap
        Whether the arrays stay on disk.

    Returns
    -------
    Contents or None
        None where no copy can be kept.

    Raises
    ------
    DataError
        What `read` raises.
    """
    try:
        entry = find_entry(path, options)
    except OSError as error:
        LOGGER.warning("The parsed copy of %s cannot be looked up (%s).", path, error)
        return None
    if entry is None:
        return None
    contents = load_entry(entry, memmap)
    if contents is None and build_entry(entry, read):
        contents = load_entry(entry, memmap)
    return contents
