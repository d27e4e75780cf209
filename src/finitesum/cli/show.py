"""``finitesum show``: the coefficients of a model, and what was done to the columns of its data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from finitesum.cli.console import Console, console_options, text_table

if TYPE_CHECKING:
    from finitesum.estimators.model import LinearModel

#: Coefficients that `fit` prints at most: about what a screen holds.
MOST_SHOWN = 40


@click.command(short_help="Print the coefficients of a fitted MODEL.")
@click.argument("model", type=click.Path(path_type=Path))
@console_options
def show(*, console: Console, model: Path) -> None:
    """Print the table of coefficients of MODEL, a file model.npz or the folder of a fit.

    With standard errors, tests and intervals where these are known: for likelihoods without an l1 penalty.
    """
    from finitesum.estimators.model import load_model

    known = load_model(model)
    console.result(content_of(known), f"{_heading(known)}\n\n{table_of(known)}")


def content_of(model: "LinearModel") -> dict[str, Any]:
    """Return a model as plain values."""
    names = ("loss", "alpha", "l1_ratio", "objective", "optimality", "n_passes", "method", "n_rows", "version")
    prepared = None if model.preparation is None else model.preparation.to_json()
    known = {"target": model.target_name, "classes": model.classes, **{name: getattr(model, name) for name in names}}
    return {**known, "coefficients": rows_of(model), "preparation": prepared}


def rows_of(model: "LinearModel") -> list[dict[str, Any]]:
    """Return a row for each coefficient: its name, and what is known of it."""
    columns = {"coef": model.coefficients} if model.inference is None else model.inference.coef_table()
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [
        {"name": name, **dict(zip(columns, row, strict=True))}
        for name, row in zip(model.coefficient_names, values, strict=True)
    ]


def table_of(model: "LinearModel", most: int | None = None) -> str:
    """Return the table of coefficients as text; of more than `most` the largest ones."""
    names, values = model.coefficient_names, model.coefficients
    if model.inference is not None and (most is None or len(names) <= most):
        return repr(model.inference)
    order = range(len(names)) if most is None or len(names) <= most else abs(values).argsort(kind="stable")[::-1][:most]
    head = [] if len(order) == len(names) else [f"The {most} largest of {len(names)} coefficients:"]
    return "\n".join([*head, text_table([("", "coef"), *((names[j], f"{values[j]: .6g}") for j in order)])])


def _heading(model: "LinearModel") -> str:
    """Return what the model is of, and what was done to the columns."""
    of = "" if model.target_name is None else f" of {model.target_name!r}"
    classes = "" if model.classes is None else f" ({', '.join(map(str, model.classes))})"
    lines = [
        f"{model.loss} model{of}{classes}: {model.n_rows} rows, {model.n_features} features",
        f"alpha {model.alpha:.6g}, l1_ratio {model.l1_ratio:g}; objective {model.objective:.12g}, optimality "
        f"{model.optimality:.3g} (asked: {model.tol:.3g}); {model.method}",
    ]
    if model.preparation is not None:
        lines += [f"  {note}" for note in model.preparation.notes]
        beside = {"weights": model.preparation.weights, "offset": model.preparation.offset}
        lines += [f"  {what}: {name}" for what, name in beside.items() if name is not None]
    return "\n".join(lines)
