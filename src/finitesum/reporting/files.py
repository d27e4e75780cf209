"""Files of reports and experiments, written whole or not at all, and numbers as they show them."""

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from finitesum.running.checkpoint import write_atomically


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, atomically."""
    write_atomically(path, lambda file: file.write(content))


def write_text(path: Path, content: str) -> None:
    """Write a file in UTF-8, atomically."""
    write_bytes(path, content.encode("utf-8"))


def as_csv(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as CSV; numbers are written to the last bit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table, atomically."""
    write_text(path, as_csv(header, rows))


def show(value: float, spec: str = ".3g", missing: str = "–") -> str:
    """Return a number as tables show it, in a format of Python's; a dash where there is none."""
    return f"{value:{spec}}" if math.isfinite(value) else missing
