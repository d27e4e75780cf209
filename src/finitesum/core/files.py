"""Whom folders belong to, and files that are being written: their names, and what killed processes leave of them."""

import contextlib
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import time
from pathlib import Path

#: What another machine, or a process whose number was given again, left behind is removed after this time.
LEFT_SECONDS = 86_400.0


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
