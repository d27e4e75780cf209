"""How a command ends when something is wrong: one line on stderr and an exit code, never a traceback.

Setting the environment variable ``FINITESUM_DEBUG`` shows the traceback after all.
"""

import os
import sys
from typing import Any

import click

OK, BROKEN, WRONG_INPUT, NOT_CONVERGED, INTERRUPTED = 0, 1, 2, 3, 130


class InputError(ValueError):
    """Wrong input that a command itself has found."""


def show_error(message: str) -> None:
    """Write a message as one line on stderr."""
    click.echo(f"finitesum: error: {' '.join(message.split())}", err=True)


class Program(click.Command):
    """A command that turns errors into messages and exit codes."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command and leave the process with its exit code."""
        run: Any = super().main
        if not standalone_mode:
            return run(*args, standalone_mode=False, **extra)
        try:
            code = run(*args, standalone_mode=False, **extra)
            sys.exit(code if isinstance(code, int) else OK)
        except click.Abort:
            click.echo("finitesum: interrupted.", err=True)
            sys.exit(INTERRUPTED)
        except click.exceptions.UsageError as error:
            if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
                error.show()  # the help itself
            else:
                help_at = "" if error.ctx is None else f" See '{error.ctx.command_path} --help'."
                show_error(f"{error.format_message().rstrip('.')}.{help_at}")
        except click.ClickException as error:
            show_error(error.format_message())
        except (ValueError, OSError, MemoryError) as error:
            if os.environ.get("FINITESUM_DEBUG"):
                raise
            show_error(_message(error))
        sys.exit(WRONG_INPUT)


class CommandLine(Program, click.Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added: the first ones first."""
        return list(self.commands)


def _message(error: Exception) -> str:
    """Return an error as a sentence; a system error with the name of the file."""
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {reason}." if error.filename is not None else f"{reason}."
    if isinstance(error, MemoryError):
        return f"not enough memory ({error or 'no figures known'}). --memmap leaves the rows on disk."
    return str(error)
