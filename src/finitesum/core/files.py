"""Whom folders belong to, files that are being written and what killed processes leave of them, folders of kernels."""

import contextlib
import getpass
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

#: What another machine, or a process whose number was given again, left behind is removed after this time.
LEFT_SECONDS = 86_400.0

#: Kernels of other versions are removed when a new version makes its own, if nothing was written to them for this time.
STALE_SECONDS = 30 * 86_400.0


def unsafe_part(folder: Path) -> Path | None:
    """Return the first of a folder and its parents by which another user could replace what lies in it, or None.

    As ssh does with keys: each must belong to this user or root, and nobody else may write to it. A group of the user's own
    may, where it has the user's number, and anybody to a parent with the sticky bit, as /tmp.
    """
    if not hasattr(os, "getuid"):
        return None
    ours, real = os.getuid(), folder.resolve()
    for place in (real, *real.parents):
        try:
            found = place.stat()
        except OSError:
            return place
        others = stat.S_IWOTH | (0 if found.st_gid == ours else stat.S_IWGRP)
        is_sticky = place != real and found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, ours) or (found.st_mode & others and not is_sticky):
            return place
    return None


def make_folders(folder: Path) -> None:
    """Make a folder for this user alone, with the parents that are missing, to which nobody else may write."""
    for place in (*reversed(folder.parents), folder):
        if not place.exists():
            place.mkdir(mode=0o700 if place == folder else 0o755, exist_ok=True)


def writer_mark() -> str:
    """Return what names of files that this process is writing contain: the machine, the process, and a random number."""
    return f"-{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let no other process of this machine pass here with the same file at once, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with path.open("w") as file:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove files and folders of names with a `writer_mark` whose process is dead, and those that are old in any case."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if not path.name.startswith(prefix):
                continue
            with contextlib.suppress(OSError):  # another process removed it
                if _is_left(path):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _is_left(path: Path) -> bool:
    marks = re.findall(r"-([0-9a-f]{8})-(\d{1,9})-", path.name)
    if marks and marks[-1][0] == _machine() and hasattr(os, "getuid"):  # signal 0 is another one elsewhere
        try:
            os.kill(int(marks[-1][1]), 0)
        except ProcessLookupError:
            return True
        except OSError:  # a process of another user
            return False
        return False
    return time.time() - path.stat().st_mtime > LEFT_SECONDS


# -- where compiled kernels are kept between processes, and the removal of stale ones


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
