"""Where data lies on this machine: the user's folders of data files and the folder of parsed copies."""

import logging
import os
from pathlib import Path

#: A folder of data files that is searched first, or None.
Folder = str | os.PathLike[str] | None

LOGGER = logging.getLogger("finitesum")
LOGGER.addHandler(logging.NullHandler())


def home() -> Path | None:
    """Return the folder that finitesum may write to, or None where the system names none.

    It is the environment variable ``FINITESUM_HOME`` where that is set, else the user's cache folder of the system.
    """
    if folder := os.environ.get("FINITESUM_HOME"):
        return Path(folder).expanduser().absolute()
    try:
        import pooch

        return Path(pooch.os_cache("finitesum"))
    except (ImportError, RuntimeError):  # a user without a home folder
        return None


def search_folders(data_dir: Folder = None) -> list[Path]:
    """Return the folders that are searched for data files, the first one first.

    They are `data_dir`, the folders of the environment variable ``FINITESUM_DATA`` (separated as in ``PATH``), and
    ``data`` in `home`.
    """
    folders = [] if data_dir is None else [Path(data_dir).expanduser()]
    folders += [Path(part).expanduser() for part in os.environ.get("FINITESUM_DATA", "").split(os.pathsep) if part]
    root = home()
    return folders if root is None else [*folders, root / "data"]
