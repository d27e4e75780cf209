"""``finitesum predict``: predictions of a model for new rows, in the labels that it was fitted to."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from finitesum.cli.console import Console, console_options
from finitesum.cli.errors import InputError
from finitesum.cli.inputs import read_data
from finitesum.cli.options import FILE, Settings, data_options

if TYPE_CHECKING:
    from finitesum.datasets import Dataset
    from finitesum.estimators.model import LinearModel


@click.command(short_help="Predict the labels of DATA by a fitted MODEL.")
@click.argument("model", type=click.Path(path_type=Path))
@data_options()
@click.option("--proba", is_flag=True, help="Give the probabilities of the two classes, too.")
@click.option("--no-labels", is_flag=True, help="The file has no column of labels (CSV, Parquet, npz).")
@click.option("--out", type=FILE, help="File for the predictions, CSV.")
@click.option("--force", is_flag=True, help="Replace the file --out.")
@console_options
def predict(
    *, console: Console, model: Path, proba: bool, no_labels: bool, out: Path | None, force: bool, **options: Any
) -> None:
    """Predict the labels of DATA by MODEL, a file model.npz or the folder of a fit.

    The predictions go to stdout as CSV, or to --out. Where DATA has labels, the fraction of right predictions (or the mean
    squared error) is written on stderr.
    """
    from finitesum.estimators.model import load_model
    from finitesum.reporting.files import as_csv, write_text

    if out is not None and out.exists() and not force:
        raise InputError(f"{out} exists. Use --force to replace it, or another file.")
    fitted = load_model(model)
    data = _read(Settings(**options), fitted, console, labels=not no_labels)
    columns: dict[str, Any] = {"prediction": fitted.predict(data.rows)}
    if proba:
        for label, probability in zip(fitted.classes or (), fitted.probabilities(data.rows).T, strict=True):
            columns[f"probability_{label}"] = probability
    scores = _scores(fitted, data, columns["prediction"])
    if scores:
        console.note(", ".join(f"{name} {value:.6g}" for name, value in scores.items()) + f" on {data.n_rows} rows")
    table = as_csv(columns, zip(*(values.tolist() for values in columns.values()), strict=True))
    if out is not None:
        write_text(out, table)
        console.note(f"wrote {out}")
    if console.json:
        console.result({"n_rows": data.n_rows, **scores, **columns, "out": out and str(out)}, "")
    elif out is None:
        click.echo(table, nl=False)


def _read(settings: Settings, model: "LinearModel", console: Console, *, labels: bool) -> "Dataset":
    """Return the rows, which must fit the model."""
    data = read_data(settings, console, task=None if model.classes else "regression", labels=labels)
    wanted, found = model.n_features, data.n_features
    if found > wanted or (found < wanted and not data.is_sparse):
        hint = ""
        if found == wanted - 1 and data.target_name is not None and labels:
            hint = f" Column {data.target_name!r} was taken for the labels: use --no-labels if the file has none."
        raise InputError(f"{data.name} has {found} features, but the model was fitted to {wanted}.{hint}")
    for here, there in zip(data.feature_names or (), model.feature_names or (), strict=False):
        if here != there:
            raise InputError(
                f"{data.name}: the column {here!r} stands where the model was fitted to {there!r}. "
                "Give the columns the names and the order of the data of the fit."
            )
    return data


def _scores(model: "LinearModel", data: "Dataset", predictions: Any) -> dict[str, float]:
    """Return how good predictions are where the file has labels; none where they are of another kind."""
    import numpy as np

    if data.labels is None:
        return {}
    if model.classes is not None:
        return {"accuracy": float(np.mean(data.labels == predictions))}
    return {"mse": float(np.mean((np.asarray(data.labels, dtype=np.float64) - predictions) ** 2))}
