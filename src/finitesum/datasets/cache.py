"""Keeps parsed copies of files as NumPy arrays, so that text is parsed once.

A copy lies in ``parsed/<key>/`` of the folder `finitesum.datasets.home.home`: one ``.npy`` file for each array, and
``meta.json``, which describes them. The key is made from the path of the file, its size, the times it was changed, what the
reader was asked for, and the version of this layout: a changed file has another key, and its old copy is removed when the
new one is made.

A copy is written under another name and then renamed, so that a reader sees all of it or nothing, and two processes may
write the same one at the same time. A copy whose arrays are not as ``meta.json`` describes them is made again. Where
nothing can be written, data are read without a copy, and the logger ``finitesum`` gets a warning.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.datasets.formats.collector import Array, Contents, RowCollector, StorageError
from finitesum.datasets.home import LOGGER, home

#: To be raised whenever the layout of a copy changes, or a reader reads the same file differently.
VERSION = 3

_META = "meta.json"
_STALE_SECONDS = 86_400.0

Read = Callable[[RowCollector], Contents]


def cached(path: Path, options: Mapping[str, Any], read: Read, memmap: bool) -> Contents | None:
    """Return the contents of a file from its parsed copy, or None where none can be kept, which is logged.

    Where there is none `read` makes it, unless that raises; `options` are all that changes what is read. With `memmap` the
    arrays stay on disk, mapped copy-on-write: writing to them changes nothing there.
    """
    root = parsed_folder()
    if root is None:
        LOGGER.warning("No folder is known for parsed data, so %s is parsed every time. Set FINITESUM_HOME.", path)
        return None
    real = path.resolve()
    state = real.stat()
    parts = (str(real), [VERSION, state.st_size, state.st_mtime_ns, state.st_ctime_ns], options)
    folder = root / "-".join(_digest(json.dumps(part, sort_keys=True)) for part in parts)
    contents = _load(folder, memmap)
    if contents is None and _build(folder, read):
        contents = _load(folder, memmap)
    return contents


def parsed_folder() -> Path | None:
    """Return the folder of all parsed copies, or None where the system names none."""
    root = home()
    return None if root is None else root / "parsed"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()[:16]


def _load(folder: Path, memmap: bool) -> Contents | None:
    """Return the contents of a parsed copy; None where there is none, or a damaged one, which is removed."""
    if not folder.exists():
        return None
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        described = meta.pop("arrays")
        arrays = {name: _load_array(folder / f"{name}.npy", *described[name], memmap=memmap) for name in described}
        if meta.pop("version") != VERSION:
            raise ValueError("it is of another version")
        if "rows" not in arrays:
            _require_csr(arrays["data"], arrays["indices"], arrays["indptr"], meta["n_features"], memmap)
        names = meta.pop("feature_names")
        return Contents(arrays=arrays, feature_names=None if names is None else tuple(names), **meta)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError) as error:
        LOGGER.warning("The parsed copy %s is damaged (%s). It is made again.", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _require_csr(data: Array, indices: Array, indptr: Array, n_features: int, memmap: bool) -> None:
    """Raise unless the entries lie in the rows; mapped ones, which are not read before they are used, are only counted."""
    if indptr[-1] != len(data):
        raise ValueError("its entries do not fit its rows")
    if not memmap:
        from scipy.sparse import csr_array

        csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features)).check_format(full_check=True)


def _load_array(path: Path, shape: list[int], dtype: str, *, memmap: bool) -> Array:
    mapped = memmap and 0 not in shape  # an array without entries cannot be mapped
    array: Array = np.load(path, mmap_mode="c" if mapped else None, allow_pickle=False)
    if list(array.shape) != shape or array.dtype.str != dtype:
        raise ValueError(f"{path.name} holds another array")
    return array.view(np.ndarray)


def _build(folder: Path, read: Read) -> bool:
    """Parse a file into its copy; return whether there is one now."""
    root = folder.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=root, ignore_cleanup_errors=True) as work:
            copy = Path(work) / "copy"
            copy.mkdir()
            _write_meta(copy, read(RowCollector(copy)))
            try:
                copy.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process was faster
                    raise
        _remove_stale(folder)
    except (OSError, StorageError) as error:
        LOGGER.warning("No parsed copy can be written to %s (%s), so the file is parsed every time.", root, error)
        return False
    return True


def _write_meta(folder: Path, contents: Contents) -> None:
    meta = {
        "version": VERSION,
        "arrays": {name: (array.shape, array.dtype.str) for name, array in contents.arrays.items()},
        "n_features": contents.n_features,
        "feature_names": contents.feature_names,
        "target_name": contents.target_name,
    }
    (folder / _META).write_text(json.dumps(meta, indent=1), encoding="utf-8")


def _remove_stale(kept: Path) -> None:
    """Remove the copies of earlier states of the file, and what processes that were killed left behind."""
    file_key, state_key, _ = kept.name.split("-")
    for folder in kept.parent.iterdir():
        is_earlier = folder.name.startswith(f"{file_key}-") and not folder.name.startswith(f"{file_key}-{state_key}-")
        with contextlib.suppress(OSError):  # another process removed it
            is_left = folder.name.startswith(".") and time.time() - folder.stat().st_mtime > _STALE_SECONDS
            if is_earlier or is_left:
                shutil.rmtree(folder, ignore_errors=True)


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
