"""``finitesum show``: the coefficients of a model, and what was done to the columns of its data."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from finitesum.cli.console import Console, console_options, text_table
from finitesum.cli.errors import InputError
from finitesum.cli.options import FILE

if TYPE_CHECKING:
    from finitesum.estimators.inference import Inference
    from finitesum.estimators.model import LinearModel

#: Coefficients that `fit` prints at most: about what a screen holds.
MOST_SHOWN = 40

#: Coefficients that the figure of a page has at most, and the largest logarithm of a ratio that its axis shows.
MOST_DRAWN, MOST_LOGARITHM = 60, 100.0


@click.command(short_help="Print the coefficients of a fitted MODEL.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--out", type=FILE, help="File for a page with the table and a figure, HTML.")
@click.option("--force", is_flag=True, help="Replace the file --out.")
@console_options
def show(*, console: Console, model: Path, out: Path | None, force: bool) -> None:
    """Print the table of coefficients of MODEL, a file model.npz or the folder of a fit.

    With standard errors, tests and intervals where these are known: for likelihoods without an l1 penalty. The page --out
    opens offline, with a figure of the intervals.
    """
    from finitesum.estimators.model import load_model

    if out is not None and out.exists() and not force:
        raise InputError(f"{out} exists. Use --force to replace it, or another file.")
    known = load_model(model)
    console.result(content_of(known), "\n\n".join(["\n".join([*_heading(known), *_notes(known)]), table_of(known)]))
    if out is not None:
        write_page(out, known)
        console.note(f"wrote {out}")


def write_page(path: Path, model: "LinearModel") -> None:
    """Write a page with what was done to the columns, the coefficients, and a figure of their intervals where known."""
    from finitesum.reporting.files import write_text
    from finitesum.reporting.report import render

    title, fit = _heading(model)
    known = model.inference
    header, rows = (["coef"], [[f"{value:.6g}"] for value in model.coefficients]) if known is None else known.cells(0.95)
    figure = None if known is None or len(rows) > MOST_DRAWN else _intervals(known)
    named = list(zip(model.coefficient_names, rows, strict=True))
    content = {"title": title, "fit": fit, "notes": _notes(model), "figure": figure, "header": header, "rows": named}
    write_text(path, render("model.html.j2", **content, facts=[] if known is None else known.facts()))


def _intervals(known: "Inference") -> str | None:
    """Return a figure of confidence intervals, as ratios where they are some; None where they reach too far to be drawn."""
    import numpy as np
    from matplotlib.figure import Figure

    from finitesum.estimators.inference import OF_RATIOS
    from finitesum.plots import CoefficientDisplay
    from finitesum.reporting.plots import to_svg

    display, is_ratio = CoefficientDisplay(known), known.family in OF_RATIOS
    n, reach = len(display.names), np.abs(display.intervals).max(initial=0.0)
    if not n or not reach < (MOST_LOGARITHM if is_ratio else np.inf):
        return None
    figure = Figure(figsize=(7.5, max(2.0, 0.32 * n + 1.0)), layout="constrained")
    display.plot(ax=figure.subplots(), exponentiated=is_ratio)
    return to_svg(figure, "Coefficients with their 95 % confidence intervals")


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


def _heading(model: "LinearModel") -> list[str]:
    """Return what the model is of, and how it was fitted."""
    of = "" if model.target_name is None else f" of {model.target_name!r}"
    classes = "" if model.classes is None else f" ({', '.join(map(str, model.classes))})"
    return [
        f"{model.loss} model{of}{classes}: {model.n_rows} rows, {model.n_features} features",
        f"alpha {model.alpha:.6g}, l1_ratio {model.l1_ratio:g}; objective {model.objective:.12g}, optimality "
        f"{model.optimality:.3g} (asked: {model.tol:.3g}); {model.method}",
    ]


def _notes(model: "LinearModel") -> list[str]:
    """Return what was done to the columns."""
    if model.preparation is None:
        return []
    beside = {"weights": model.preparation.weights, "offset": model.preparation.offset}
    return [*model.preparation.notes, *(f"{what}: {name}" for what, name in beside.items() if name is not None)]
