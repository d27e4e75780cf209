"""Gets the files of public data sets, checks them, and loads them.

A file is checked by its SHA-256 where that is known; where it is not, the one of the first download is remembered.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse
from urllib.request import url2pathname

from finitesum.core.files import remove_leftovers, writer_mark
from finitesum.datasets.dataset import Dataset
from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.archive import Part
from finitesum.datasets.formats.detect import find_format
from finitesum.datasets.home import LOGGER, Folder, home
from finitesum.datasets.loading import load
from finitesum.datasets.registry import Info, find, info, path, where_to_get
from finitesum.running.checkpoint import write_atomically
from finitesum.running.observers import DownloadBar

#: Remembers, in the folder of the files, the checksums of files whose publisher states none.
RECORD = "checksums.json"

_CHUNK = 1 << 16
_TIMEOUT_SECONDS = 30.0

KnownFrom = Literal["registry", "first download", "nowhere"]


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`: the file agrees with the checksum that is known from the registry or the first download."""

    name: str  #: of the data set
    path: Path  #: of its file
    sha256: str  #: of the file
    known_from: KnownFrom  #: "registry", "first download", or "nowhere" for a file whose checksum is not known
    counts_checked: bool  #: whether the rows, features and classes were counted, too


def fetch(name: str, *, data_dir: Folder = None, mirrors: Sequence[str] = (), progress: bool = False) -> Path:
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
            return _download(file.name, urls, root / "data", file.sha256, progress)
        except DataError as error:
            failures.append(str(error))
    reason = " ".join(failures) if failures else f"{name} is not on this machine."
    raise DataError(f"{reason} {where_to_get(entry, data_dir)}")


def verify(name: str, *, data_dir: Folder = None, counts: bool = False) -> Verification:
    """Return the outcome of checking the file of a data set on this machine, found as by `path`.

    With `counts` the file is read as well, to count its rows, features and classes. A DataError says that the file is not
    there, or that it is not the one that was expected.
    """
    entry, file = info(name), path(name, data_dir=data_dir)
    found = _sha256_of(file)
    published = next((known.sha256 for known in entry.files if known.name == file.name), None)
    expected = published or _recorded_checksum(file.parent, file.name)
    known_from: KnownFrom = "registry" if published else "first download" if expected else "nowhere"
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
    data_dir: Folder = None,
    mirrors: Sequence[str] = (),
    progress: bool = False,
    cache: bool = True,
    memmap: bool = False,
) -> Dataset:
    """Return a data set of the registry, with its full number of features.

    Parameters and errors are those of `fetch`, and with `cache` and `memmap` those of `load`.
    """
    entry = info(name)
    file = fetch(name, data_dir=data_dir, mirrors=mirrors, progress=progress)
    part: Part = entry.part if find_format(file) == "npz" else "train"
    data = load(file, n_features=entry.n_features, task=entry.task, part=part, cache=cache, memmap=memmap)
    return replace(data, name=entry.name)


def _sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _recorded_checksum(folder: Path, name: str) -> str | None:
    """Return the checksum that was remembered when a file was first downloaded, or None."""
    value = _read_record(folder).get(name, {}).get("sha256")
    return None if value is None else str(value)


def _read_record(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = record.items() if isinstance(record, dict) else ()
    return {name: entry for name, entry in entries if isinstance(entry, dict)}


def _remember(folder: Path, name: str, url: str, checksum: str, size: int) -> None:
    record = _read_record(folder) | {name: {"sha256": checksum, "bytes": size, "url": url}}
    text = json.dumps(record, indent=1, sort_keys=True)
    write_atomically(folder / RECORD, lambda file: file.write(text.encode("utf-8")))


def _transfer(url: str, file: Path, bar: DownloadBar | None) -> None:
    """Write what an address gives to a file."""
    address = urlparse(url)
    if address.scheme == "file":  # a mirror on a disk
        shutil.copyfile(url2pathname(address.path), file)
        return
    import pooch

    if address.scheme in ("http", "https"):
        downloader = pooch.HTTPDownloader(progressbar=bar or False, chunk_size=_CHUNK, timeout=_TIMEOUT_SECONDS)
    else:
        downloader = pooch.FTPDownloader(timeout=_TIMEOUT_SECONDS)
    downloader(url, os.fspath(file), None)


def _download(name: str, urls: Sequence[str], folder: Path, sha256: str | None, progress: bool) -> Path:
    """Return the path of a file in the folder after fetching it from the first address that gives the right one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for prefix in (".download-", f".{RECORD}-"):  # of killed processes
            remove_leftovers(folder, prefix)
        work = tempfile.TemporaryDirectory(prefix=f".download{writer_mark()}-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise DataError(
            f"{name} cannot be stored in {folder}: {error}. Set FINITESUM_HOME to a folder that can be written to."
        ) from error
    failures = []
    with work:
        file = Path(work.name) / "file"
        for url in urls:
            try:
                LOGGER.info("Downloading %s from %s", name, url)
                with contextlib.closing(DownloadBar(name)) if progress else contextlib.nullcontext() as bar:
                    _transfer(url, file, bar)
                _check(file, url, name, folder, sha256)
                return file.replace(folder / name)
            except (OSError, DataError) as error:  # requests' own errors are OSErrors
                failures.append(f"{url}: {preview(str(error) or type(error).__name__, 200)}")
    raise DataError(f"{name} could not be downloaded. " + "; ".join(failures))


def _check(file: Path, url: str, name: str, folder: Path, sha256: str | None) -> None:
    """Raise where a file is not the one that was expected; remember what it is where nothing is known."""
    found = _sha256_of(file)
    known = sha256 or _recorded_checksum(folder, name)
    if known is not None and found != known:
        whose = "expected" if sha256 else "of the first download"
        raise DataError(f"the SHA-256 is {found}, not {known} ({whose})")
    with file.open("rb") as stream:
        head = stream.read(64)
    if known is None and (not head or head.lstrip().startswith(b"<")):
        raise DataError("it is an empty file or a web page, no data")
    if known is None:
        LOGGER.info("The checksum of %s is not published; %s is remembered.", name, found)
        _remember(folder, name, url, found, file.stat().st_size)
