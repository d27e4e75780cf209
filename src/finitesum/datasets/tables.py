"""What is done to the columns of a table before a linear model is fitted, and again before it predicts.

Numbers stay, standardised where that is asked for; text becomes columns of 0 and 1 ("one-hot"), one for each level but the
reference; missing values are filled, marked, or their rows dropped. `TablePreparation` holds plain values only, so that a
model file can keep it (`to_json`). scikit-learn's StandardScaler and OneHotEncoder do the work.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from finitesum.datasets.dataset import Dataset, Task
from finitesum.datasets.errors import DataError
from finitesum.datasets.formats.collector import Array
from finitesum.datasets.formats.columns import target_column
from finitesum.datasets.formats.tables import Table, as_table, as_text
from finitesum.datasets.labels import Labels, require_numbers
from finitesum.datasets.table_columns import (
    NumberColumn,
    TextColumn,
    column_from,
    complaint,
    is_missing,
    number_columns,
    text_column,
)

Missing = Literal["drop", "mean", "indicator"]

#: Rows are sparse where fewer of their entries than this are stored, as scikit-learn's ColumnTransformer has it.
SPARSE_BELOW = 0.3

_LOG = re.compile(r"log\((.+)\)")


class Prepared(NamedTuple):
    """The rows of a table as a model takes them."""

    data: Dataset  #: of the complete rows, with weights and offsets where the preparation names them
    is_complete: Array  #: bool, shape (n,): which rows of the table these are
    notes: tuple[str, ...]  #: what a person should know of these rows


class TablePreparation(NamedTuple):
    """How rows of numbers are made of the named columns of a table.

    Make one by `fit`, and apply it by `transform`, to the same columns in any order. Tables are mappings of columns by
    name, or data frames of pandas or polars.

    Examples
    --------
    >>> table = {"age": [31.0, None, 45.0, 52.0], "town": ["A", "B", "B", "A"], "buys": ["no", "yes", "yes", "no"]}
    >>> preparation = TablePreparation.fit(table, target="buys", missing="indicator")
    >>> preparation.feature_names
    ('age', 'age missing', 'town=B')
    >>> data = preparation.transform(table).data
    >>> data.rows[:2].round(2).tolist(), data.labels.tolist()
    ([[31.0, 0.0, 0.0], [42.67, 1.0, 1.0]], ['no', 'yes', 'yes', 'no'])
    """

    columns: tuple[NumberColumn | TextColumn, ...]
    target: str | None = None
    weights: str | None = None
    offset: str | None = None  #: a name, or log(NAME)
    missing: Missing | None = None
    notes: tuple[str, ...] = ()  #: what was done to the columns, in sentences

    @classmethod
    def fit(
        cls,
        table: Any,
        *,
        target: str | int | None = None,
        drop: Collection[str] = (),
        keep: Collection[str] | None = None,
        categorical: Mapping[str, str | None] | Collection[str] = (),
        missing: Missing | None = None,
        weights: str | None = None,
        offset: str | None = None,
        standardise: bool = False,
        min_frequency: float = 0.01,
    ) -> "TablePreparation":
        """Return the preparation of a table's columns.

        Parameters
        ----------
        table : mapping, DataFrame or Table
        target : str or int, optional
            The column of labels: a name, or a number from 0. Without it: a column called ``target``, ``label`` or
            ``class``, or a first column called ``y``, or else the last one.
        drop, keep : collection of str
            The columns that are left out; or those that are features, and no others.
        categorical : mapping or collection of str
            Columns whose values are names of categories, also where they are numbers; a mapping may give the reference
            level of each, None for the first one. Columns of text are found without it.
        missing : {"drop", "mean", "indicator"}, optional
            What is done where values are missing. "drop": the row is left out. "mean": numbers get the mean of those that
            are known, text the most frequent level. "indicator": so do numbers, which a column "NAME missing" marks by 1;
            text gets a level of its own. None: it is an error. Rows without a label are always left out.
        weights, offset : str, optional
            The columns of the rows' weights, and of what is added to the predictions x'w + b; "log(NAME)" for exposures.
        standardise : bool
            Whether numbers are shifted and divided, to have mean 0 and standard deviation 1.
        min_frequency : float >= 0
            Levels of text in fewer rows are pooled: a share of the rows below 1, a number of rows from 1 on.

        Raises
        ------
        DataError
            A column is missing, holds dates, has missing values without `missing`, or says nothing: each text once.
        """
        known = as_table(table)
        if missing is not None and missing not in get_args(Missing):
            raise DataError(f"missing must be one of {', '.join(get_args(Missing))}, got {missing!r}.")
        if isinstance(min_frequency, bool) or not isinstance(min_frequency, Real) or not float(min_frequency) >= 0.0:
            raise DataError(f"min_frequency must be a number >= 0, got {min_frequency!r}.")
        references = dict(categorical) if isinstance(categorical, Mapping) else dict.fromkeys(categorical)
        beside = [name for name in (weights, _column_of(offset)) if name is not None]
        for name in (*drop, *(keep or ()), *references, *beside):
            _require(name, known)
        label = _label_name(known, target, {*drop, *(keep or ()), *beside})
        names = [name for name in known.columns if name not in {label, *drop, *beside} and (keep is None or name in keep)]
        if not names:
            raise DataError(f"{_called(known)}: no column is left for the features. Keep more of them.")
        columns = {name: as_text(known.columns[name]) if name in references else known.columns[name] for name in names}
        notes = [] if target is not None else [f"{label} is the target"]
        _require_usable(columns, references, missing, known)
        needed = [*(columns.values() if missing == "drop" else ()), *(known.columns[name] for name in beside)]
        complete = ~np.any([is_missing(values) for values in (*needed, known.columns[label])], axis=0)
        notes += _dropped(complete, missing)
        if not complete.any():
            raise DataError(
                f"{_called(known)}: every row lacks a value. Use --missing mean or indicator, or --drop columns."
            )
        columns = {name: values[complete] for name, values in columns.items()}
        weight = None if weights is None else _numbers(known, weights)[complete]
        if weight is not None and not (weight.min() >= 0.0 and weight.max() > 0.0):
            raise DataError(f"{_called(known)}, column {weights!r}: weights must be >= 0 and have a positive sum.")
        numbers = {name: values for name, values in columns.items() if values.dtype.kind == "f"}
        made: dict[str, NumberColumn | TextColumn] = dict(number_columns(numbers, weight, standardise, missing))
        for name, values in columns.items():
            if name not in numbers:
                made[name] = text_column(name, values, references, missing, float(min_frequency))
        used = tuple(made[name] for name in names)
        notes += [note for column in used for note in column.notes()]
        if not any(column.feature_names for column in used):
            raise DataError(f"{_called(known)}: the columns are the same in all rows, which leaves no features.")
        return cls(used, label, weights, offset, missing, tuple(notes))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in the order of the columns of the rows."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def text_names(self) -> tuple[str, ...]:
        """The columns that are read as text, also where they hold numbers."""
        return tuple(column.name for column in self.columns if isinstance(column, TextColumn))

    @property
    def input_names(self) -> tuple[str, ...]:
        """The columns that a table must have to be predicted."""
        offset = _column_of(self.offset)
        return (*(column.name for column in self.columns), *(() if offset is None else (offset,)))

    def transform(self, table: Any, *, task: Task | None = None, labels: bool = True) -> Prepared:
        """Return the rows of a table that are complete, as the model takes them.

        Columns are found by name; others than those of the fit are ignored. Labels and weights are read where they are
        wanted and the table has them. A DataError names the columns that are absent or of another kind.
        """
        known = as_table(table)
        absent = [name for name in self.input_names if name not in known.columns]
        if absent:
            raise DataError(
                f"{_called(known)} lacks the {_plural('column', absent)} {_shown(absent)} that the model was fitted to."
            )
        notes = []
        beside = {self.target, self.weights}
        extra = [name for name in known.columns if name not in self.input_names and name not in beside]
        if extra:
            notes.append(f"{_plural('column', extra)} {_shown(extra)} ignored: the model does not use them")
        columns = {column.name: column.checked(known.columns[column.name], _called(known)) for column in self.columns}
        target = self.target if labels and self.target in known.columns else None
        needed = {} if self.missing in ("mean", "indicator") else dict(columns)
        if self.offset is not None:
            needed["offset"] = _offsets(known, self.offset)
        weights = _numbers(known, self.weights) if self.weights in known.columns and target is not None else None
        if weights is not None:
            needed["weights"] = weights
        complete = np.ones(known.n_rows, dtype=bool)
        for values in (*needed.values(), *(() if target is None else (known.columns[target],))):
            complete &= ~is_missing(values)
        blocks = []
        for column in self.columns:
            made, said = column.transformed(columns[column.name][complete])
            blocks.append(made)
            notes += said
        data = Dataset(
            stacked(blocks),
            None if target is None else _labels(known, target, complete, task),
            known.name,
            known.source,
            self.feature_names,
            target,
            task,
            known.n_skipped,
            None if weights is None else weights[complete],
            None if self.offset is None else needed["offset"][complete],
        )
        return Prepared(data, complete, tuple(notes))

    def to_json(self) -> dict[str, Any]:
        """Return the preparation as plain values that JSON can hold."""
        return {**self._asdict(), "columns": [column.to_json() for column in self.columns]}

    @classmethod
    def from_json(cls, content: Any) -> "TablePreparation":
        """Return the preparation that `to_json` wrote; a ValueError for anything else."""
        if not isinstance(content, dict) or set(content) != set(cls._fields):
            raise ValueError(f"no preparation of columns has the parts {list(content)!s:.80}")
        names = [content[name] for name in ("target", "weights", "offset")]
        if not all(name is None or isinstance(name, str) for name in names) or not isinstance(content["notes"], list):
            raise ValueError(f"columns are named {names}")
        if content["missing"] not in (None, *get_args(Missing)):
            raise ValueError(f"missing is {content['missing']!r}")
        columns, notes = tuple(map(column_from, content["columns"])), tuple(map(str, content["notes"]))
        return cls(columns, content["target"], content["weights"], content["offset"], content["missing"], notes)


def stacked(blocks: Sequence[Any]) -> Any:
    """Return blocks of columns side by side: ndarray in C order, or CSR where few of their entries are not 0."""
    from scipy.sparse import csr_array, hstack, issparse

    n_entries = sum(block.nnz if issparse(block) else block.size for block in blocks)
    n_rows, n_columns = blocks[0].shape[0], sum(block.shape[1] for block in blocks)
    if n_entries < SPARSE_BELOW * n_rows * n_columns:
        return csr_array(hstack(blocks, format="csr"))
    return np.ascontiguousarray(np.hstack([block.toarray() if issparse(block) else block for block in blocks]))


# -- parts of `fit`


def _label_name(table: Table, target: str | int | None, others: Collection[str]) -> str:
    """Return the name of the column of labels: the one that is named, or that in the usual place among what is left."""
    path = table.source or Path(_called(table))
    names = list(table.columns) if target is not None else [name for name in table.columns if name not in others]
    if not names:
        raise DataError(f"{_called(table)}: which column holds the labels? Name it by target= (--target).")
    label = names[0 if len(names) == 1 and target is None else target_column(names, max(2, len(names)), target, path) or 0]
    if label in others:
        raise DataError(f"{_called(table)}: {label!r} is the target: it cannot be another column, too, nor be left out.")
    return label


def _require_usable(
    columns: Mapping[str, Array], references: Collection[str], missing: Missing | None, table: Table
) -> None:
    """Raise where columns are no numbers and name no categories, or values are missing without a rule for them."""
    texts = {name: values for name, values in columns.items() if values.dtype.kind != "f" and name not in references}
    wrong = {name: why for name, values in texts.items() if (why := complaint(name, values)) is not None}
    gaps = {name: int(is_missing(values).sum()) for name, values in columns.items() if name not in wrong}
    wrong |= {name: f"{name!r} has no values" for name, count in gaps.items() if count == table.n_rows}
    gaps = {name: count for name, count in gaps.items() if count and name not in wrong and missing is None}
    whys, options = list(wrong.values()), []
    if wrong:
        options.append(f"--drop {','.join(wrong)}")
    if gaps:
        shown = ", ".join(f"{name!r} {count}" for name, count in list(gaps.items())[:5])
        whys.append(f"of {table.n_rows} values some are missing: {shown}{', ...' if len(gaps) > 5 else ''}")
        options.append("--missing indicator (or mean, or drop)")
    if whys:
        also = "; --categorical NAME takes each text of a column for a category" if wrong else ""
        raise DataError(f"{_called(table)}: {'; '.join(whys)}. Use {' '.join(options)}{also}.")


def _dropped(complete: Array, missing: Missing | None) -> list[str]:
    n_dropped = int((~complete).sum())
    if not n_dropped:
        return []
    why = "with missing values" if missing == "drop" else "without a label"
    return [f"{n_dropped} of {complete.size} rows left out, {why}"]


# -- columns beside the features


def _require(name: str, table: Table) -> None:
    if name not in table.columns:
        target_column(list(table.columns), len(table.columns) + 1, name, table.source or Path(_called(table)))


def _column_of(offset: str | None) -> str | None:
    """Return the column that an offset is taken from."""
    found = None if offset is None else _LOG.fullmatch(offset)
    return offset if found is None else found[1]


def _numbers(table: Table, name: str) -> Array:
    values = table.columns[name]
    if values.dtype.kind != "f":
        raise DataError(f"{_called(table)}: column {name!r} must hold numbers to be used as weights or offsets.")
    return values


def _offsets(table: Table, offset: str) -> Array:
    name = _column_of(offset) or offset
    values = _numbers(table, name)
    if name == offset:
        return values
    if not (values[~np.isnan(values)] > 0.0).all():
        raise DataError(f"{_called(table)}: {offset} needs numbers > 0, but {name!r} has {np.nanmin(values):g}.")
    return np.log(values)


def _labels(table: Table, target: str, complete: Array, task: Task | None) -> Labels:
    labels = table.columns[target][complete]
    labels = labels.astype(str) if labels.dtype.kind == "O" else labels
    if labels.dtype.kind == "M":
        raise DataError(f"{_called(table)}: the target {target!r} holds dates. Name another column by target= (--target).")
    if task == "regression":
        require_numbers(labels, f"{_called(table)}, column {target!r}")
    return labels


def _called(table: Table) -> str:
    return str(table.source or table.name or "the table")


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _plural(word: str, names: Sequence[str]) -> str:
    return word if len(names) == 1 else f"{word}s"
