"""The one exception of this package, and how it shows what was received."""

from typing import Any


class DataError(ValueError):
    """Data cannot be read or used: the message names the file or argument, what is wrong with it and what to do."""


class NoRowsError(DataError):
    """A file holds no rows: among several files it counts as absent."""


class NotNumbersError(DataError):
    """Features are text or missing, or written otherwise: `finitesum.datasets.tables` prepares such columns."""


def preview(value: Any, width: int = 40) -> str:
    """Return the repr of a value, cut to `width` characters, for use in a message."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="backslashreplace")
    text = repr(value)
    return text if len(text) <= width else text[: width - 3] + "..."
