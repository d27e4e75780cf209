"""Options of several commands, as plain values that a file can hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from finitesum.cli.errors import InputError

if TYPE_CHECKING:
    TextType = click.ParamType[str]
else:  # older versions of click do not know which type an option has
    TextType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound="Settings")

#: The method whose optimum the demonstration checks, and with which the doctor checks that fits work.
DEMO_SOLVER = "a-ciag"

#: What is compared when no method is named: few enough for one picture.
USUAL_SOLVERS = ("a-ciag", "ciag", "saga", "sag", "iag", "afg", "fg", "ig")


@dataclass(frozen=True)
class Settings:
    """A group of options."""

    @classmethod
    def take(cls: type[S], options: dict[str, Any]) -> S:
        """Return the group, taken out of all options by name."""
        return cls(**{field.name: options[field.name] for field in fields(cls)})


@dataclass(frozen=True)
class DataSettings(Settings):
    """Which rows are read, and how."""

    data: str
    format: str | None
    target: str | None
    n_features: int | None
    zero_based: bool
    memmap: bool


@dataclass(frozen=True)
class ProblemSettings(Settings):
    """What is minimised."""

    loss: str
    alpha: str
    l1_ratio: float
    intercept: bool


@dataclass(frozen=True)
class RunSettings(Settings):
    """How it is minimised, but for the method's name."""

    tol: float
    max_iter: float
    step_size: str
    batch_size: int | None
    sampling: str | None
    seed: int


# -- options that have their own syntax


class AlphaType(TextType):
    """A number >= 0, or one divided by the number of rows: ``1/n``."""

    name = "number or 1/n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, which is checked."""
        text = str(value).replace(" ", "")
        try:
            resolve_alpha(text, 1)
        except InputError as error:
            self.fail(str(error), param, ctx)
        return text


def resolve_alpha(text: str, n_rows: int) -> float:
    """Return the number that an alpha stands for.

    Examples
    --------
    >>> resolve_alpha("1e-4", 10), resolve_alpha("1/n", 10)
    (0.0001, 0.1)
    """
    number, slash, rows = text.partition("/")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (value >= 0.0 and math.isfinite(value)) or (slash and rows != "n"):
        raise InputError(f"alpha must be a number >= 0, or one such as 1/n, got {text!r}")
    return value / n_rows if slash else value


class StepType(TextType):
    """A number > 0, or "auto"."""

    name = "number or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, which is checked."""
        text = str(value)
        try:
            good = text == "auto" or float(text) > 0.0
        except ValueError:
            good = False
        if not good:
            self.fail(f'the step size must be a number > 0, or "auto", got {text!r}', param, ctx)
        return text


def _complete(source: Callable[[], list[str]]) -> Callable[..., list[str]]:
    """Return what gives a shell the words that an option may have."""
    return lambda _context, _option, begun: [name for name in source() if name.startswith(begun)]


def _method_names() -> list[str]:
    from finitesum.methods import METHODS

    return ["auto", *METHODS]


def _loss_names() -> list[str]:
    from finitesum.losses import LOSSES

    return sorted(LOSSES)


solver_option = click.option(
    "--solver",
    default="auto",
    show_default=True,
    shell_complete=_complete(_method_names),
    help="See finitesum methods.",
)


def _apply(command: F, options: list[Callable[..., Any]]) -> F:
    decorated: Any = command
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def data_options(*, required: bool = True) -> Callable[[F], F]:
    """Add the argument DATA and the options that say how it is read."""
    options = [
        click.argument("data", required=required),
        click.option("--format", help="svmlight, csv, npz, npy or parquet; detected when left out."),
        click.option("--target", help="The column of labels: a name, or a number from 0; -1 is the last."),
        click.option("--n-features", type=click.IntRange(min=1), help="Number of columns of a sparse file."),
        click.option("--zero-based", is_flag=True, help="Indices of an svmlight file count from 0."),
        click.option("--memmap", is_flag=True, help="Leave the rows on disk: for data larger than the memory."),
    ]
    return lambda command: _apply(command, options)


def problem_options(command: F) -> F:
    """Add the options of the problem."""
    options = [
        click.option(
            "--loss",
            default="logistic",
            show_default=True,
            shell_complete=_complete(_loss_names),
            help="logistic, squared, squared-hinge, smoothed-hinge, huber or poisson.",
        ),
        click.option("--alpha", type=AlphaType(), default="1/n", show_default=True, help="Strength of the penalty."),
        click.option(
            "--l1-ratio", type=click.FloatRange(0.0, 1.0), default=0.0, show_default=True, help="0: l2, 1: l1."
        ),
        click.option("--intercept/--no-intercept", default=True, show_default=True, help="Fit a free intercept."),
    ]
    return _apply(command, options)


def run_options(*, tol: float, max_iter: float) -> Callable[[F], F]:
    """Add the options of the run."""
    options = [
        click.option(
            "--tol", type=click.FloatRange(min=0.0), default=tol, show_default=True, help="Optimality asked for."
        ),
        click.option(
            "--max-iter", type=click.FloatRange(min=1.0), default=max_iter, show_default=True, help="Effective passes."
        ),
        click.option("--step-size", type=StepType(), default="auto", show_default=True, help="Of the method."),
        click.option("--batch-size", type=click.IntRange(min=1), help="Rows in a component. [default: the method's]"),
        click.option("--sampling", help="cyclic, shuffled-once, shuffled or with-replacement."),
        click.option(
            "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the order of visits."
        ),
        click.option("--threads", type=click.IntRange(min=1), help="Threads of the linear algebra library."),
    ]
    return lambda command: _apply(command, options)
