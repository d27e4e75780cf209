"""Where compiled kernels are kept between processes: folders that may be written to, and the removal of stale ones."""

import contextlib
import getpass
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from finitesum.core.files import unsafe_part

#: Kernels of other versions are removed when a new version makes its own, if nothing was written to them for this time.
STALE_SECONDS = 30 * 86_400.0


def candidates() -> Iterator[Path]:
    """Yield the folders that may keep kernels, the one asked for first."""
    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(folder)
    if home := os.environ.get("FINITESUM_HOME"):
        yield Path(home) / "kernels"
    try:
        import pooch

        folder_of_user = Path(pooch.os_cache("finitesum"))
        if folder_of_user.is_absolute():  # without a home folder it is "~/.cache", below the working folder
            yield folder_of_user / "kernels"
    except (ImportError, RuntimeError):  # no home folder can be found
        pass
    yield Path(tempfile.gettempdir()) / f"finitesum-{_user()}"


def prune(folder: Path, stale_seconds: float) -> tuple[int, int]:
    """Remove the folders beside a cache folder that other versions left and that were not written to for `stale_seconds`.

    Only folders of our own, named by a stamp, are touched; what cannot be removed stays. Returns their number and bytes.
    """
    removed = freed = 0
    with contextlib.suppress(OSError):
        for other in folder.parent.iterdir():
            if other == folder or not re.fullmatch(r"[0-9a-f]{16}", other.name):
                continue
            with contextlib.suppress(OSError):  # another process removes it as well, or it must not be removed
                if other.is_symlink() or not other.is_dir() or unsafe_part(other) is not None:
                    continue
                if time.time() - other.stat().st_mtime < stale_seconds:
                    continue
                size = sum(file.stat().st_size for file in other.rglob("*") if file.is_file())
                shutil.rmtree(other)
                removed, freed = removed + 1, freed + size
    return removed, freed


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "user"
