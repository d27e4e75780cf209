"""Files of the experiments: written whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from finitesum.running.checkpoint import write_atomically


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, atomically."""
    write_atomically(path, lambda file: file.write(content))


def write_text(path: Path, content: str) -> None:
    """Write a file in UTF-8, atomically."""
    write_bytes(path, content.encode("utf-8"))


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table, atomically; numbers are written to the last bit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())
