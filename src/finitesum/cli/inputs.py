"""What commands make of their options: data, a problem, a method."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from finitesum.cli.console import Console
from finitesum.cli.errors import InputError
from finitesum.cli.options import Settings, number_of, resolve_alpha

if TYPE_CHECKING:
    from finitesum.datasets import Dataset
    from finitesum.methods import Method
    from finitesum.problems.linear import Problem


def read_data(settings: Settings, console: Console, *, task: str | None = None, labels: bool = True) -> Dataset:
    """Return the data set that was asked for: a file, or a name of the registry or of scikit-learn's own data.

    The task is "regression" where labels must be numbers; the file may have no labels at all.
    """
    from finitesum import datasets

    with console.busy(f"reading {settings.data}"):
        file = find_file(settings.data)
        if file is None:
            return datasets.load_embedded(settings.data)  # type: ignore[arg-type]
        target: Any = settings.target if labels else False
        if labels and re.fullmatch(r"-?\d+", target or ""):
            target = int(target)
        names = ("format", "n_features", "zero_based", "memmap")
        options: dict[str, Any] = {name: getattr(settings, name) for name in names}
        data = datasets.load(file, target=target, task=task, **options)  # type: ignore[arg-type]
    if data.n_skipped:
        console.note(f"{data.name}: {data.n_rows} rows read, {data.n_skipped} empty lines or comments skipped")
    return data


def find_file(name: str) -> Path | None:
    """Return the file that a name means, or None for data that scikit-learn ships."""
    from finitesum.datasets import DataError, find, info
    from finitesum.datasets.builtin import Embedded

    path = Path(name).expanduser()
    if path.exists() or path.name != name:
        return path
    found = find(name)
    if found is not None or name in get_args(Embedded):
        return found
    try:
        info(name)
    except DataError:
        return path  # the reader reports its absence
    raise InputError(f"{name} is not on this machine. Get it by 'finitesum data fetch {name}'.")


def make_problem(settings: Settings, data: Dataset) -> tuple[Problem, tuple[Any, Any] | None]:
    """Return the problem, and the two labels behind -1 and +1 where there are classes."""
    from finitesum.losses import as_loss
    from finitesum.problems.linear import Problem

    loss = as_loss(settings.loss)
    classes = _two_classes(data, settings.loss) if loss.target_kind() == "sign" else None
    penalty: Any = {"alpha": resolve_alpha(settings.alpha, data.n_rows), "l1_ratio": settings.l1_ratio}
    problem = Problem.linear(data.rows, data.targets(), loss=loss, fit_intercept=settings.intercept, **penalty)
    return problem if settings.batch_size is None else problem.batched(settings.batch_size), classes


def _two_classes(data: Dataset, loss: str) -> tuple[Any, Any]:
    if data.labels is not None and data.inferred_task == "regression":
        raise InputError(
            f"{data.name}: the labels are numbers of many values, but the loss {loss} separates two classes. "
            "Use --loss squared, huber or poisson, or name another column by --target."
        )
    known = data.label_map().classes
    if len(known) != 2:
        seen = ", ".join(map(str, known[:5])) + (", ..." if len(known) > 5 else "")
        raise InputError(
            f"{data.name}: the loss {loss} separates two classes, but the labels have {len(known)}: {seen}. "
            "Keep the rows of two classes, or name another column by --target."
        )
    return known[0], known[1]


def task_of(settings: Settings) -> str | None:
    """Return the task that a loss means, as readers name it."""
    from finitesum.losses import as_loss

    return None if as_loss(settings.loss).target_kind() == "sign" else "regression"


def run_settings(settings: Settings) -> dict[str, Any]:
    """Return what `minimize` is asked for beside a problem and a method."""
    named = {name: getattr(settings, name) for name in ("tol", "max_iter", "sampling")}
    return {**named, "random_state": settings.seed}


def method_options(settings: Settings) -> dict[str, Any]:
    """Return the parameters of a method that were given."""
    return {} if settings.step_size == "auto" else {"step_size": number_of(settings.step_size)}


def require_sampling(settings: Settings) -> None:
    """Raise where the order of visits is unknown: before much time is spent on the data."""
    from finitesum.running.sampling import SAMPLINGS

    if settings.sampling is not None and settings.sampling not in SAMPLINGS:
        raise InputError(f"--sampling must be one of {', '.join(SAMPLINGS)}, got {settings.sampling!r}.")


def make_method(name: str, settings: Settings) -> Method | str:
    """Return the method of a name, with its parameters, or "auto"; the order of visits is checked, too."""
    from finitesum.methods import as_method

    require_sampling(settings)
    if name == "auto":
        if settings.step_size != "auto":
            raise InputError("--step-size belongs to a method: name one by --solver ('finitesum methods' lists them).")
        return name
    try:
        return as_method(name, method_options(settings))
    except TypeError as error:
        raise InputError(str(error)) from error
