"""Output of commands: data on stdout, notes and progress on stderr."""

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from finitesum.cli.options import group_of

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Console:
    """How much a command writes, and in which form."""

    verbose: int = 1  # 0 quiet, 1 progress, 2 a line a pass
    json: bool = False

    def note(self, text: str) -> None:
        """Write a note on stderr."""
        if self.verbose:
            click.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Write a warning on stderr."""
        click.echo(f"finitesum: warning: {text}", err=True)

    def result(self, content: Any, text: str) -> None:
        """Write the result on stdout: as JSON where that was asked for, else as text."""
        click.echo(to_json(content) if self.json else text)

    @property
    def draws(self) -> bool:
        """Whether something may move on stderr."""
        from finitesum.running.observers import can_draw

        return self.verbose == 1 and can_draw()

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show on a terminal, after two seconds, that something is being done."""
        from finitesum.running.observers import display

        with display(f"{what} ...", int(self.draws)):
            yield


def text_table(lines: Sequence[Sequence[Any]]) -> str:
    """Return lines of cells as columns of text; those that end with a number are set at the right."""
    columns = list(zip(*lines, strict=True))
    formats = [f"{'>' if isinstance(c[-1], int) else '<'}{max(len(str(cell)) for cell in c)}" for c in columns]
    cells = ([f"{cell!s:{spec}}" for cell, spec in zip(line, formats, strict=True)] for line in lines)
    return "\n".join("  ".join(row).rstrip() for row in cells)


def plain(content: Any) -> Any:
    """Return nested content as JSON can hold it: numbers that are not finite become null."""
    if isinstance(content, dict):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [plain(item) for item in content]
    if hasattr(content, "tolist"):
        return plain(content.tolist())
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content if isinstance(content, (str, int, float, bool, type(None))) else str(content)


def to_json(content: Any) -> str:
    """Return content as JSON."""
    return json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False)


class _Notes(logging.Handler):
    """Shows what the library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"finitesum: {record.levelname.lower()}: {record.getMessage()}", err=True)


def _make_console(quiet: bool, verbose: int, as_json: bool) -> Console:
    logger = logging.getLogger("finitesum")
    logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, _Notes)]
    logger.addHandler(_Notes(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING))
    if verbose and not quiet:
        logger.setLevel(logging.INFO)
    return Console(0 if quiet else 1 + verbose, as_json)


def console_options(command: F) -> F:
    """Add ``-q``, ``-v`` and ``--json`` to a command, which gets them as one argument `console`."""
    import functools

    @functools.wraps(command)
    def with_console(*args: Any, quiet: bool, verbose: int, as_json: bool, **options: Any) -> Any:
        return command(*args, console=_make_console(quiet, verbose, as_json), **options)

    add: Any = group_of(
        click.option("--json", "as_json", is_flag=True, help="Give the result as one JSON object on stdout."),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing on stderr but warnings and errors."),
        click.option("-v", "--verbose", count=True, help="Say more: a line for each pass."),
    )
    return add(with_console)  # type: ignore[no-any-return]
