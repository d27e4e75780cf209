"""What commands make of their options: data, a problem, a method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from finitesum.cli.console import Console
from finitesum.cli.errors import InputError
from finitesum.cli.options import Settings, column_of, number_of, resolve_alpha
from finitesum.cli.tables import read_prepared, require_no_table, wants_table

if TYPE_CHECKING:
    from finitesum.datasets import Dataset
    from finitesum.methods import Method
    from finitesum.problems.linear import Problem


def read_data(
    settings: Settings, console: Console, *, task: str | None = None, labels: bool = True, prepares: bool = True
) -> Dataset:
    """Return the data set that was asked for: a file, or a name of the registry or of scikit-learn's own data.

    The task is "regression" where labels must be numbers; the file may have no labels at all. Where the columns of a table
    are no numbers, or options of tables were given, they are prepared, unless a model says how (`prepares`).
    """
    from finitesum import datasets
    from finitesum.datasets.errors import NotNumbersError
    from finitesum.datasets.formats.tables import HeaderError

    with console.busy(f"reading {settings.file}"):
        file = find_file(settings.file)
        if file is None:
            require_no_table(settings, f"{settings.file} is shipped with scikit-learn")
            return datasets.load_embedded(settings.file)  # type: ignore[arg-type]
        if prepares and wants_table(settings):
            return read_prepared(settings, file, console, task=task)
        target: Any = column_of(settings.target) if labels else False
        names = ("format", "n_features", "zero_based", "memmap")
        options: dict[str, Any] = {name: getattr(settings, name) for name in names}
        try:
            data = datasets.load(file, target=target, task=task, **options)  # type: ignore[arg-type]
        except NotNumbersError as error:
            if not prepares:
                raise
            try:
                return read_prepared(settings, file, console, task=task)
            except HeaderError:
                raise error from None
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


def make_problem(settings: Settings, data: Dataset) -> tuple[Problem, tuple[Any, ...] | None]:
    """Return the problem, and the labels of the classes in the order of their codes, where there are any.

    The logistic loss of more than two classes is the multinomial one.
    """
    from finitesum.losses import as_loss
    from finitesum.problems.linear import Problem

    loss: Any = as_loss(settings.loss)
    classes = None if loss.target_kind() not in ("sign", "class") else _classes(data, settings.loss)
    if classes is not None and len(classes) > 2 and settings.loss == "logistic":
        loss = "multinomial"
    weight = 0.0 if data.sample_weight is None else float(data.sample_weight.sum())  # which counts as repetition
    alpha = resolve_alpha(settings.alpha, weight if weight > 0.0 else data.n_rows)
    penalty: Any = {"alpha": alpha, "l1_ratio": settings.l1_ratio}
    rows: Any = {"sample_weight": data.sample_weight, "offset": data.offset}
    problem = Problem.linear(data.rows, data.targets(), loss=loss, fit_intercept=settings.intercept, **rows, **penalty)
    return problem if settings.batch_size is None else problem.batched(settings.batch_size), classes


def _classes(data: Dataset, loss: str) -> tuple[Any, ...]:
    if data.labels is not None and data.inferred_task == "regression":
        raise InputError(
            f"{data.name}: the labels are numbers of many values, but the loss {loss} separates classes. "
            "Use --loss squared, huber or poisson, or name another column by --target."
        )
    known = data.label_map().classes
    if len(known) > 2 and loss not in ("logistic", "multinomial"):
        seen = ", ".join(map(str, known[:5])) + (", ..." if len(known) > 5 else "")
        raise InputError(
            f"{data.name}: the loss {loss} separates two classes, but the labels have {len(known)}: {seen}. "
            "Use --loss logistic, keep the rows of two classes, or name another column by --target."
        )
    if len(known) > 2 and data.offset is not None:
        raise InputError("--offset is for two classes, or for numbers: of several classes each would need its own.")
    return known


def task_of(settings: Settings) -> str | None:
    """Return the task that a loss means, as readers name it."""
    from finitesum.losses import as_loss

    return None if as_loss(settings.loss).target_kind() in ("sign", "class") else "regression"


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
