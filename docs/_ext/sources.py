"""Finds pieces of the library's source by name, so that pages show the lines that run."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

SRC = Path(__file__).parents[2] / "src"


class Piece(NamedTuple):
    """Some lines of a module."""

    file: str
    first_line: int
    text: str


def piece_of(name: str, first: str | None = None, last: str | None = None) -> Piece:
    """Return the source of "package.module:Class.function", without decorators.

    Parameters
    ----------
    name : str
    first, last : str, optional
        Texts that the first and the last line to be shown hold; left out, the piece begins and ends with the object.

    Raises
    ------
    LookupError
        There is no such object, or no such line in it: a page has gone stale.
    """
    module, _, path = name.partition(":")
    file = SRC / (module.replace(".", "/") + ".py")
    if not file.exists():
        raise LookupError(f"{name}: there is no file {file}.")
    lines = file.read_text(encoding="utf-8").splitlines()
    node = ast.parse("\n".join(lines))
    for part in path.split("."):
        named = [child for child in node.body if getattr(child, "name", None) == part]
        if not named:
            raise LookupError(f"{name}: {module} has no {path}.")
        node = named[0]
    start, stop = node.lineno - 1, node.end_lineno
    if first is not None:
        start = _line_with(name, lines, first, start, stop)
    if last is not None:
        stop = _line_with(name, lines, last, start, stop) + 1
    shown = lines[start:stop]
    indent = min(len(line) - len(line.lstrip()) for line in shown if line.strip())
    text = "\n".join(line[indent:] for line in shown)
    return Piece(str(file.relative_to(SRC)), start + 1, text)


def _line_with(name: str, lines: list[str], text: str, start: int, stop: int) -> int:
    for i in range(start, stop):
        if text in lines[i]:
            return i
    raise LookupError(f"{name}: no line holds {text!r}.")


_FENCE = re.compile(r"^(?P<fence>`{3,}|:{3,})\{beside\} (?P<name>\S+)\n(?P<options>(?::\w+: .*\n)*)", re.MULTILINE)


def pieces_on(page: str) -> list[tuple[str, str | None, str | None]]:
    """Return name, first and last of all pieces that a page shows beside its equations."""
    found = []
    for match in _FENCE.finditer(page):
        options = dict(re.findall(r"^:(\w+): (.*)$", match["options"], re.MULTILINE))
        found.append((match["name"], options.get("from"), options.get("to")))
    return found
