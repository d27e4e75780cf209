"""Options of several commands, as plain values that a file can hold."""

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from finitesum.cli.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])

FOLDER: Any = click.Path(path_type=Path, file_okay=False)
FILE: Any = click.Path(path_type=Path, dir_okay=False)

#: The method whose optimum the demonstration checks.
DEMO_SOLVER = "a-ciag"

#: What it compares: of the methods that visit components one by one, those that compile in seconds.
DEMO_SOLVERS = ("a-ciag", "ciag", "sarah", "lazy-newton", "newton", "newton-cg", "afg", "fg")

#: What is compared when no method is named: few enough for one picture.
USUAL_SOLVERS = ("a-ciag", "ciag", "saga", "sag", "iag", "afg", "fg", "ig")


@dataclass(frozen=True)
class Settings:
    """What a command was asked for: which rows are read, what is minimised, and how."""

    data: list[str] = field(default_factory=list)
    format: str | None = None
    target: str | None = None
    n_features: int | None = None
    zero_based: bool = False
    memmap: bool = False
    memory: str | None = None
    drop: str | None = None
    keep: str | None = None
    categorical: str | None = None
    missing: str | None = None
    weights: str | None = None
    offset: str | None = None
    standardise: bool = False
    min_frequency: float = 0.01
    decimal: str | None = None
    loss: str = "logistic"
    alpha: str = "1/n"
    l1_ratio: float = 0.0
    intercept: bool = True
    tol: float = 1e-6
    max_iter: float = 1000
    step_size: str = "auto"
    batch_size: int | None = None
    sampling: str | None = None
    seed: int = 0

    @property
    def file(self) -> str:
        """The file, or the name of a data set, where it is one."""
        return self.data[0]


def resolve_alpha(text: str, n_rows: float) -> float:
    """Return the number that an alpha such as "1e-4" or "1/n" stands for."""
    number, slash, rows = text.partition("/")
    value = number_of(number)
    if not 0.0 <= value < math.inf or (slash and rows != "n"):
        raise InputError(f"alpha must be a number >= 0, or one such as 1/n, got {text!r}")
    return value / n_rows if slash else value


#: Bytes of the units that sizes may be given in.
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def bytes_of(text: str) -> int:
    """Return the number of bytes that a size such as "2GB" or "500 MB" stands for."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)i?B?\s*", text, flags=re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < 1:
        raise InputError(f"a size must be a number of bytes such as 2GB or 500MB, got {text!r}")
    return size


def _memory(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Return the text of a size, which is checked."""
    try:
        return text if text is None or bytes_of(text) else None
    except InputError as error:
        raise click.BadParameter(str(error)) from None


memory_option = click.option(
    "--memory",
    metavar="SIZE",
    callback=_memory,
    help="Memory to use, such as 2GB: DATA is read in parts, which stay on disk.",
)


def column_of(text: str | None) -> str | int | None:
    """Return the column that an option names: by its name, or by its number."""
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else text


def number_of(text: str) -> float:
    """Return the number of a text, NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _alpha(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """Return the text of an alpha, which is checked."""
    text = text.replace(" ", "")
    try:
        resolve_alpha(text, 1)
    except InputError as error:
        raise click.BadParameter(str(error)) from None
    return text


def _step_size(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """Return the text of a step size, which is checked."""
    if text != "auto" and not number_of(text) > 0.0:
        raise click.BadParameter(f'the step size must be a number > 0, or "auto", got {text!r}')
    return text


def _complete_from(module: str, table: str, *more: str) -> Callable[..., list[str]]:
    """Return what gives a shell the words that an option may have: the keys of a table."""

    def complete(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
        names = [*more, *getattr(importlib.import_module(module), table)]
        return sorted(name for name in names if name.startswith(begun))

    return complete


def group_of(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return what adds options to a command, in their order."""

    def add(command: F) -> F:
        decorated: Any = command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return add


def shown(name: str, default: Any, help: str, **attributes: Any) -> Callable[[Any], Any]:
    """Return an option whose default the help shows."""
    return click.option(name, default=default, show_default=True, help=help, **attributes)


solver_option = shown(
    "--solver", "auto", "See finitesum methods.", shell_complete=_complete_from("finitesum.methods", "METHODS", "auto")
)


def _listed(_context: click.Context, _argument: click.Parameter, given: str | tuple[str, ...]) -> list[str] | None:
    """Return a path, or several, as a shell makes them of a pattern, in a list; None where there is none."""
    return ([given] if isinstance(given, str) else list(given)) or None


def data_options(*, several: bool = False) -> Callable[[F], F]:
    """Add the argument DATA, one or, as it may then be left out, several, and the options that say how it is read."""
    return group_of(
        click.argument("data", nargs=-1 if several else 1, callback=_listed),
        click.option("--format", help="svmlight, csv, npz, npy or parquet; detected when left out."),
        click.option("--target", help="The column of labels: a name, or a number from 0; -1 is the last."),
        click.option("--n-features", type=click.IntRange(min=1), help="Number of columns of a sparse file."),
        click.option("--zero-based", is_flag=True, help="Indices of an svmlight file count from 0."),
        click.option("--memmap", is_flag=True, help="Leave the rows on disk: for data larger than the memory."),
        click.option("--decimal", type=click.Choice([".", ","]), help="The sign of decimals in CSV. [default: found]"),
    )


_LOSSES = "logistic, squared, squared-hinge, smoothed-hinge, huber, poisson, gamma ... (a wrong name lists them all)."

problem_options = group_of(
    shown("--loss", "logistic", _LOSSES, shell_complete=_complete_from("finitesum.losses", "LOSSES")),
    shown("--alpha", "1/n", "Strength of the penalty.", metavar="NUMBER OR 1/N", callback=_alpha),
    shown("--l1-ratio", 0.0, "0: l2, 1: l1.", type=click.FloatRange(0.0, 1.0)),
    shown("--intercept/--no-intercept", True, "Fit a free intercept."),
)


table_options = group_of(
    click.option("--drop", metavar="NAMES", help="Columns to leave out, with commas between."),
    click.option("--keep", metavar="NAMES", help="Columns that are features, and no others."),
    click.option(
        "--categorical",
        metavar="NAMES",
        help="Columns of categories; NAME=LEVEL says against which one others are compared.",
    ),
    click.option("--missing", type=click.Choice(["drop", "mean", "indicator"]), help="What is done with missing values."),
    click.option("--weights", metavar="NAME", help="Column of the rows' weights."),
    click.option("--offset", metavar="NAME", help="Column added to the predictions; log(NAME) for exposures."),
    click.option("--standardise", is_flag=True, help="Shift and divide numbers: mean 0, standard deviation 1."),
    shown("--min-frequency", 0.01, "Rarer texts are pooled: share or number of rows.", type=click.FloatRange(min=0.0)),
)


def run_options(*, tol: float, max_iter: float) -> Callable[[F], F]:
    """Add the options of the run."""
    return group_of(
        shown("--tol", tol, "Optimality asked for.", type=click.FloatRange(min=0.0)),
        shown("--max-iter", max_iter, "Effective passes.", type=click.FloatRange(min=1.0)),
        shown("--step-size", "auto", "Of the method.", metavar="NUMBER OR AUTO", callback=_step_size),
        click.option("--batch-size", type=click.IntRange(min=1), help="Rows in a component. [default: the method's]"),
        click.option("--sampling", help="cyclic, shuffled-once, shuffled or with-replacement."),
        shown("--seed", 0, "Of the order of visits.", type=click.IntRange(min=0)),
        click.option("--threads", type=click.IntRange(min=1), help="Threads of the linear algebra library."),
    )
