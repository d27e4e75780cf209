"""``finitesum predict``: predictions of a model for new rows, in the labels that it was fitted to."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from finitesum.cli.console import Console, console_options
from finitesum.cli.errors import InputError
from finitesum.cli.inputs import find_file, read_data
from finitesum.cli.options import FILE, Settings, column_of, data_options
from finitesum.cli.tables import read

if TYPE_CHECKING:
    from finitesum.datasets import Dataset
    from finitesum.datasets.tables import TablePreparation
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
    data, is_complete, labels = _read(Settings(**options), fitted, console, labels=not no_labels)
    columns: dict[str, Any] = {"prediction": fitted.predict(data.rows, data.offset)}
    if proba:
        for label, probability in zip(fitted.classes or (), fitted.probabilities(data.rows, data.offset).T, strict=True):
            columns[f"probability_{label}"] = probability
    scores, n_scored = _scores(fitted, labels, columns["prediction"])
    if scores:
        console.note(", ".join(f"{name} {value:.6g}" for name, value in scores.items()) + f" on {n_scored} rows")
    columns = {name: _at(values, is_complete) for name, values in columns.items()}
    table = as_csv(columns, zip(*(values.tolist() for values in columns.values()), strict=True))
    if out is not None:
        write_text(out, table)
        console.note(f"wrote {out}")
    if console.json:
        console.result({"n_rows": len(is_complete), **scores, **columns, "out": out and str(out)}, "")
    elif out is None:
        click.echo(table, nl=False)


def _read(settings: Settings, model: "LinearModel", console: Console, *, labels: bool) -> tuple["Dataset", Any, Any]:
    """Return the rows that can be predicted, which of the file's they are, and their labels or None."""
    import numpy as np

    from finitesum.datasets import DataError

    file = find_file(settings.file)
    if model.preparation is not None and file is not None:
        return _prepared(settings, file, model.preparation, console, labels=labels)
    by_name = model.feature_names is not None and file is not None
    try:
        data = read_data(settings, console, task=None if model.classes else "regression", labels=labels, prepares=False)
    except DataError:
        if not by_name:
            raise
        return _prepared(settings, file, _of_names(model), console, labels=labels)
    if by_name and data.feature_names not in (None, model.feature_names):
        return _prepared(settings, file, _of_names(model), console, labels=labels)
    wanted, found = model.n_features, data.n_features
    if found > wanted or (found < wanted and not data.is_sparse):
        hint = ""
        if found == wanted - 1 and labels:
            hint = " The last column was taken for the labels: use --no-labels if the file has none."
        raise InputError(f"{data.name} has {found} features, but the model was fitted to {wanted}.{hint}")
    return data, np.ones(data.n_rows, dtype=bool), data.labels


def _of_names(model: "LinearModel") -> "TablePreparation":
    """Return the preparation that takes the columns of numbers by name."""
    from finitesum.datasets.table_columns import NumberColumn
    from finitesum.datasets.tables import TablePreparation

    return TablePreparation(tuple(NumberColumn(name, 0.0) for name in model.feature_names or ()), model.target_name)


def _prepared(
    settings: Settings, file: Path | None, how: "TablePreparation", console: Console, *, labels: bool
) -> tuple["Dataset", Any, Any]:
    """Return the rows of a table, prepared as those of the fit were; their columns are found by name."""
    from finitesum.datasets.formats.columns import target_column
    from finitesum.datasets.table_columns import is_missing

    table = read(settings, Path(file or settings.file), text=how.text_names, known=how.input_names)
    target, names = how.target, list(table.columns)
    if labels and settings.target is not None:
        target = names[target_column(names, max(2, len(names)), column_of(settings.target), table.source or Path()) or 0]
    how = how._replace(target=target)
    rows = how.transform(table, labels=False)
    for note in rows.notes:
        console.note(note)
    n_left = int((~rows.is_complete).sum())
    if n_left:
        console.warn(f"{n_left} of {table.n_rows} rows have missing values, and no prediction.")
    found = table.columns.get(target) if labels and target is not None else None
    if found is None:
        return rows.data, rows.is_complete, None
    found = found[rows.is_complete]
    return rows.data, rows.is_complete, None if is_missing(found).all() else found


def _at(values: Any, is_complete: Any) -> Any:
    """Return the values of complete rows in the places of these rows, None elsewhere."""
    import numpy as np

    if is_complete.all():
        return values
    out = np.full(len(is_complete), None, dtype=object)
    out[is_complete] = values.tolist()
    return out


def _scores(model: "LinearModel", labels: Any, predictions: Any) -> tuple[dict[str, float], int]:
    """Return how good predictions are where the file has labels, and on how many rows; none where it has none."""
    import numpy as np

    from finitesum.datasets.table_columns import is_missing

    if labels is None:
        return {}, 0
    known = ~is_missing(labels) if labels.dtype.kind in "fOM" else np.ones(len(labels), dtype=bool)
    labels, predictions = labels[known], predictions[known]
    if model.classes is not None:
        return {"accuracy": float(np.mean(labels == predictions))}, len(labels)
    return {"mse": float(np.mean((np.asarray(labels, dtype=np.float64) - predictions) ** 2))}, len(labels)
