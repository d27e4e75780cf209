"""Downloads data files: checked by SHA-256 where it is known, remembered at the first download where it is not."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.home import LOGGER
from finitesum.running.observers import DownloadBar

#: Remembers, in the folder of the files, the checksums of files whose publisher states none.
RECORD = "checksums.json"

_CHUNK = 1 << 16
_TIMEOUT_SECONDS = 30.0

Downloader = Callable[[str, str, None], Any]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recorded_checksum(folder: Path, name: str) -> str | None:
    """Return the checksum that was remembered when a file was first downloaded, or None."""
    value = _read_record(folder).get(name, {}).get("sha256")
    return None if value is None else str(value)


def _read_record(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _remember(folder: Path, name: str, url: str, checksum: str, size: int) -> None:
    record = _read_record(folder)
    record[name] = {"sha256": checksum, "bytes": size, "url": url}
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".record-", delete=False, encoding="utf-8") as file:
        json.dump(record, file, indent=1, sort_keys=True)
    Path(file.name).replace(folder / RECORD)


def _copy_file(url: str, output_file: str, _pooch: None) -> None:
    """Copy what a ``file:`` address names, as a mirror on a disk has it."""
    shutil.copyfile(url2pathname(urlparse(url).path), output_file)


def _downloader(url: str, bar: DownloadBar | None) -> Downloader:
    if urlparse(url).scheme == "file":
        return _copy_file
    import pooch

    if urlparse(url).scheme in ("http", "https"):
        downloader = pooch.HTTPDownloader(progressbar=bar or False, chunk_size=_CHUNK, timeout=_TIMEOUT_SECONDS)
    else:
        downloader = pooch.FTPDownloader(timeout=_TIMEOUT_SECONDS)
    return downloader  # type: ignore[no-any-return]


def download(
    name: str, urls: Sequence[str], folder: Path, *, sha256: str | None = None, progress: bool = False
) -> Path:
    """Return the path of a file after fetching it from the first address that gives it.

    Parameters
    ----------
    name, folder
        The file that is made, when it is complete and checked.
    urls
        Its addresses (http, https, ftp or file), tried in this order.
    sha256
        Its checksum, in hexadecimal; None where it is not known. It is then compared with the one that was remembered
        at the first download, if there was one, and remembered if not.
    progress
        Whether a bar is drawn on stderr.

    Raises
    ------
    DataError
        No address gives the file, it is not the one that was expected, or it cannot be stored.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".download-", dir=folder))
    except OSError as error:
        raise DataError(
            f"{name} cannot be stored in {folder}: {error}. Set FINITESUM_HOME to a folder that can be written to."
        ) from error
    failures: list[str] = []
    try:
        for url in urls:
            try:
                _fetch(url, work / "file", name, progress)
                _check(work / "file", url, name, folder, sha256)
            except (OSError, DataError) as error:  # requests' own errors are OSErrors
                failures.append(f"{url}: {preview(str(error) or type(error).__name__, 200)}")
                continue
            path = folder / name
            (work / "file").replace(path)
            return path
    finally:
        shutil.rmtree(work, ignore_errors=True)
    raise DataError(f"{name} could not be downloaded. " + "; ".join(failures or ["No address is known."]))


def _fetch(url: str, output: Path, name: str, progress: bool) -> None:
    LOGGER.info("Downloading %s from %s", name, url)
    bar = DownloadBar(name) if progress else None
    try:
        _downloader(url, bar)(url, os.fspath(output), None)
    finally:
        if bar is not None:
            bar.close()


def _check(file: Path, url: str, name: str, folder: Path, sha256: str | None) -> None:
    """Raise where a file is not the one that was expected; remember what it is where nothing is known."""
    found = sha256_of(file)
    known = sha256 or recorded_checksum(folder, name)
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
