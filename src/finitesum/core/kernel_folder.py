"""The folder of compiled kernels, and the marks there by which machine code is found without importing numba.

Why not numba's own cache as it is: it stamps a kernel's own file only, so that editing a loss in another file would run
the old machine code without a word, and it raises at import where nothing is writable. Here the folder is named by a
stamp of all kernel sources, and where no folder is writable kernels are compiled again in each process, with one warning.

A mark is an empty file that says that machine code of a kernel for arguments of some kinds is in the folder. What a process
finds when it first asks for a mark holds in the processes that go on with its checkpoints, and in this process until it has
compiled the kernel after all.
"""

import functools
import hashlib
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from finitesum.core.files import STALE_SECONDS, candidates, make_folders, prune, unsafe_part

PACKAGE = Path(__file__).parents[1]

#: Whether marks were in the folder, by their names, when this process first asked.
_FOUND: dict[str, bool] = {}

#: What takes back that a mark counts as found.
_TAKEN: dict[str, Callable[[], None]] = {}


@functools.cache
def source_stamp() -> str:
    """Return a digest of all sources that kernels are made of: two equal stamps mean equal machine code.

    Those are the modules that use `finitesum.core.jit`: another one can hold no kernel and no part of one.
    """
    digest = hashlib.sha256(version("numba").encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"finitesum.core.jit" in source or path in (PACKAGE / "core" / "jit.py", PACKAGE / "core" / "compiler.py"):
            digest.update(str(path.relative_to(PACKAGE)).encode())
            digest.update(source)
    return digest.hexdigest()[:16]


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder that keeps compiled kernels, or None where no folder is writable (warned of once).

    One whose machine code another user could replace is passed over: it would run as this user.
    """
    unsafe = ""
    for candidate in candidates():
        folder = candidate / source_stamp()
        try:
            is_new = not folder.exists()
            make_folders(folder)
            if (place := unsafe_part(folder)) is not None:
                unsafe += f" {candidate} is not used, because other users may write to {place}."
                continue
            folder = folder.resolve()
            with tempfile.TemporaryFile(dir=folder):
                pass
            if is_new:
                prune(folder, STALE_SECONDS)
            return folder
        except OSError:
            continue
    warnings.warn(
        "No folder is writable for compiled kernels, so each process compiles them again (seconds). "
        f"Set NUMBA_CACHE_DIR to a writable folder.{unsafe}",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def holds_mark(name: str) -> bool:
    """Return whether a mark was in the folder when this process first asked for it."""
    if name not in _FOUND:
        folder = cache_folder()
        _FOUND[name] = folder is not None and (folder / name).exists()
    return _FOUND[name]


def take_for_found(name: str, back: Callable[[], None]) -> None:
    """Let a mark count as found, until the checkpoint of a run that has not found it is resumed, which calls back first."""
    _FOUND[name], _TAKEN[name] = True, back


def leave_mark(name: str) -> None:
    """Leave a mark for later processes, where the folder can be written to."""
    folder = cache_folder()
    if folder is not None:
        with suppress(OSError):
            (folder / name).touch()


def found_on_disk() -> dict[str, bool]:
    """Return what this process has found when it asked for marks: a checkpoint's part, for `take_as_found`."""
    return dict(_FOUND)


def take_as_found(found: Any) -> None:
    """Let what another run has found hold in this process, too, where that has not asked yet, or has compiled since."""
    if isinstance(found, dict):
        for name, is_there in found.items():
            if not is_there and str(name) in _TAKEN:
                _TAKEN.pop(str(name))()
                _FOUND[str(name)] = False
            _FOUND.setdefault(str(name), bool(is_there))
