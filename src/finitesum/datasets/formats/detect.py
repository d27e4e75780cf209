"""Finds the format of a file by its name, or else by its first bytes."""

from pathlib import Path
from typing import Literal, get_args

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.csv import DELIMITERS
from finitesum.datasets.formats.streams import COMPRESSION_SUFFIXES, open_stream, to_number, without_mark

Format = Literal["svmlight", "csv", "npz", "npy", "parquet"]

FORMATS: tuple[Format, ...] = get_args(Format)

_OTHERS: dict[str, Format] = {".svm": "svmlight", ".libsvm": "svmlight", ".tsv": "csv", ".pq": "parquet"}
_SUFFIXES: dict[str, Format] = {**{f".{name}": name for name in FORMATS}, **_OTHERS}

_MAGIC: dict[bytes, Format] = {b"PK\x03\x04": "npz", b"\x93NUMPY": "npy", b"PAR1": "parquet"}


def _stripped(path: Path) -> Path:
    """Return a path without the suffix of its compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSION_SUFFIXES else path


def plain_name(path: Path) -> str:
    """Return the name of a file without the suffixes of its compression and format.

    Examples
    --------
    >>> plain_name(Path("folder/a9a.t.svm.xz"))
    'a9a.t'
    """
    path = _stripped(path)
    return path.stem if path.suffix.lower() in _SUFFIXES else path.name


def is_data_file(path: Path) -> bool:
    """Return whether a file has the suffix of a known format."""
    return path.is_file() and _stripped(path).suffix.lower() in _SUFFIXES


def find_format(path: Path, given: str | None = None) -> Format:
    """Return the format of a file: that which the caller names, or else by its suffix or its first bytes."""
    if given in FORMATS:
        return given
    if given is not None:
        raise DataError(f"format must be one of {', '.join(FORMATS)}, got {preview(given)}.")
    if by_name := _SUFFIXES.get(_stripped(path).suffix.lower()):
        return by_name
    with path.open("rb") as file:
        magic = file.read(8)
    for start, by_magic in _MAGIC.items():
        if magic.startswith(start):
            return by_magic
    with open_stream(path) as stream:
        by_text = _of_text(without_mark(stream.read(1 << 16), path))
    if by_text is None:
        raise DataError(f"{path}: the format is not recognised. Give format= as one of {', '.join(FORMATS)}.")
    return by_text


def _of_text(head: bytes) -> Format | None:
    """Return the format of text that begins so, or None."""
    lines = [line for line in head.decode("utf-8", errors="replace").split("\n") if line.strip()]
    lines = [line for line in lines if not line.startswith("#")][:20]
    # Rows without entries consist of a label alone: they show no format.
    if any(_is_svmlight(line) for line in lines):
        return "svmlight"
    if lines and any(mark in lines[0] for mark in DELIMITERS):
        return "csv"
    return "svmlight" if lines and all(to_number(line) is not None for line in lines) else None


def _is_svmlight(line: str) -> bool:
    tokens = line.split()
    if len(tokens) < 2 or to_number(tokens[0]) is None:
        return False
    index, colon, value = tokens[1].partition(":")
    return bool(colon) and (index == "qid" or index.isdigit()) and to_number(value) is not None
