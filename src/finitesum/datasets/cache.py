"""Keeps parsed copies of files as NumPy arrays, so that text is parsed once.

A copy lies in ``parsed/<key>/`` of the folder `finitesum.datasets.home.home`: one ``.npy`` file for each array, and
``meta.json``, which describes them. The key is made from the path of the file, its size, inode, the times it was changed,
a hash of blocks from its head to its tail, what the reader was asked for, and the version of this layout: a changed file
has another key, and its old copy is removed when the new one is made. Where not everybody may read the file, nobody but
the user who made the copy may read that.

A copy is written under another name and then renamed, so that a reader sees all of it or nothing, and two processes may
write the same one at the same time. A copy whose arrays are not those that ``meta.json`` describes, by their checksums, is
made again. Where nothing can be written, data are read without a copy, and the logger ``finitesum`` gets a warning.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.core.files import remove_leftovers, writer_mark
from finitesum.core.indices import require_compressed
from finitesum.datasets.formats.collector import Array, Contents, RowCollector, StorageError
from finitesum.datasets.home import LOGGER, home

#: To be raised whenever the layout of a copy changes, or a reader reads the same file differently.
VERSION = 4

_META = "meta.json"

#: Blocks of a file that are hashed to know it again, and the bytes in each.
_N_BLOCKS, _BLOCK_BYTES = 17, 1 << 16

Read = Callable[[RowCollector], Contents]


def cached(path: Path, options: Mapping[str, Any], read: Read, memmap: bool) -> Contents | None:
    """Return the contents of a file from its parsed copy, or None where none can be kept, which is logged.

    Where there is none `read` makes it, unless that raises; `options` are all that changes what is read. With `memmap` the
    arrays stay on disk, mapped for reading only.
    """
    root = parsed_folder()
    if root is None:
        LOGGER.warning("No folder is known for parsed data, so %s is parsed every time. Set FINITESUM_HOME.", path)
        return None
    real = path.resolve()
    state, owner = _state(real), _owner(real)
    parts = (str(real), state, [dict(options), owner])
    folder = root / "-".join(_digest(json.dumps(part, sort_keys=True)) for part in parts)
    contents = _load(folder, memmap)
    if contents is None and _build(folder, real, state, read, is_private=owner is not None):
        contents = _load(folder, memmap)
    return contents


def _state(path: Path) -> list[Any]:
    """Return what tells the contents of a file from others that it had."""
    found, digest = path.stat(), hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        for k in range(_N_BLOCKS):
            file.seek(max(0, found.st_size - _BLOCK_BYTES) * k // (_N_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
    return [VERSION, found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, digest.hexdigest()]


def _owner(path: Path) -> int | None:
    """Return this user's number where a file may not be read by everybody, else None."""
    if not hasattr(os, "getuid"):
        return None
    is_public = path.stat().st_mode & stat.S_IROTH and all(p.stat().st_mode & stat.S_IXOTH for p in path.parents)
    return None if is_public else os.getuid()


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
        if meta.pop("checksum") != _digest(json.dumps(meta, sort_keys=True)):
            raise ValueError(f"{_META} has another checksum")
        described = meta.pop("arrays")
        arrays = {name: _load_array(folder / f"{name}.npy", *described[name], memmap=memmap) for name in described}
        if "rows" not in arrays:
            n_rows = len(arrays["indptr"]) - 1
            require_compressed(arrays["indptr"], arrays["indices"], len(arrays["data"]), n_rows, meta["n_features"])
        names = meta.pop("feature_names")
        return Contents(arrays=arrays, feature_names=None if names is None else tuple(names), **meta)
    except Exception as error:  # of damaged bytes NumPy raises a dozen kinds
        LOGGER.warning("The parsed copy %s is damaged (%s). It is made again.", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _load_array(path: Path, shape: list[int], dtype: str, checksum: int, *, memmap: bool) -> Array:
    mapped = memmap and 0 not in shape  # an array without entries cannot be mapped
    array: Array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    if list(array.shape) != shape or array.dtype.str != dtype or _checksum(array) != checksum:
        raise ValueError(f"{path.name} holds another array")
    return array.view(np.ndarray)


def _checksum(array: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _build(folder: Path, path: Path, state: list[Any], read: Read, *, is_private: bool) -> bool:
    """Parse a file into its copy; return whether there is one now."""
    root = folder.parent
    try:
        root.mkdir(parents=True, exist_ok=True)
        remove_leftovers(root, ".")
        with tempfile.TemporaryDirectory(prefix=f".new{writer_mark()}-", dir=root, ignore_cleanup_errors=True) as work:
            copy = Path(work) / "copy"
            copy.mkdir(mode=0o700 if is_private else 0o777)
            _write_meta(copy, read(RowCollector(copy)))
            if _state(path) != state:
                raise StorageError(f"{path} changed while it was read")
            for file in copy.iterdir() if is_private else ():
                file.chmod(0o600)
            try:
                copy.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process was faster
                    raise
        _remove_stale(folder)
    except (OSError, StorageError) as error:
        LOGGER.warning("No parsed copy can be written to %s (%s), so %s is parsed every time.", root, error, path)
        return False
    return True


def _write_meta(folder: Path, contents: Contents) -> None:
    arrays = {name: (array.shape, array.dtype.str, _checksum(array)) for name, array in contents.arrays.items()}
    kept = ("n_features", "feature_names", "target_name", "n_skipped")
    meta = {"arrays": arrays, **{name: getattr(contents, name) for name in kept}}
    checksum = _digest(json.dumps(meta, sort_keys=True))
    (folder / _META).write_text(json.dumps({**meta, "checksum": checksum}, indent=1), encoding="utf-8")


def _remove_stale(kept: Path) -> None:
    """Remove the copies of earlier states of the file."""
    file_key, state_key, _ = kept.name.split("-")
    for folder in kept.parent.iterdir():
        if folder.name.startswith(f"{file_key}-") and not folder.name.startswith(f"{file_key}-{state_key}-"):
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
