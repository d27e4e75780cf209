"""Reads Parquet tables through pyarrow: columns of numbers, or one list of indices and one of values in each row."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.datasets.errors import DataError, NoRowsError, NotNumbersError, preview
from finitesum.datasets.formats.archive import require_finite
from finitesum.datasets.formats.collector import Array, Contents, RowCollector
from finitesum.datasets.formats.columns import Target, target_column
from finitesum.datasets.formats.streams import require_expansion
from finitesum.datasets.labels import Labels

#: How many rows are read at a time.
N_ROWS = 1 << 16

#: Bytes of each column that are read ahead.
BUFFER_BYTES = 1 << 20


def read_parquet(path: Path, collector: RowCollector, *, target: Target = None) -> Contents:
    """Return the rows of a Parquet file, gathered by a collector.

    Features are columns of numbers, or two columns of lists: the indices (whole numbers from 0) and the values of the
    entries of each row. `target` is that of `target_column`; the index that pandas keeps is no column.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet as pq
    except ImportError:
        raise DataError(
            f"{path}: reading Parquet needs pyarrow, which is not installed. Run: pip install 'finitesum[data]'"
        ) from None
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER_BYTES) as table:  # a whole row group else
            known = table.metadata
            groups = [known.row_group(i) for i in range(known.num_row_groups)]
            require_expansion(path, 8 * sum(g.column(j).num_values for g in groups for j in range(known.num_columns)))
            return read_table(table, path, collector, target)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {preview(str(error), 120)}.") from error
    finally:
        pa.default_memory_pool().release_unused()  # it keeps what a row group took


def read_table(table: Any, path: Path, collector: RowCollector, target: Target) -> Contents:
    """Return the rows of an open Parquet file, or of what has its schema and gives batches as it does."""
    from pyarrow import types

    if table.metadata.num_rows == 0:  # whatever types its columns have
        raise NoRowsError(f"{path} holds no rows. Is it the right file?")
    schema = table.schema_arrow
    names = [name for name in schema.names if not name.startswith("__index_level_")]
    if not names or len(set(names)) < len(names):
        raise DataError(f"{path}: the columns need names, each its own, got {names[:8]}.")
    kinds = {name: schema.field(name).type for name in names}
    lists = [name for name, kind in kinds.items() if types.is_list(kind) or types.is_large_list(kind)]
    plain = [name for name in names if name not in lists]
    # A single column beside the lists can only be that of the labels.
    n_columns = len(plain) + (1 if lists else 0)
    column = None if lists and not plain else target_column(plain, n_columns, target, path)
    if lists and column == len(plain):
        column -= 1
    label = None if column is None else plain[column]
    # Beside lists there is nothing but labels, which are not wanted where the target is False.
    features = [] if lists and target is False else [name for name in plain if name != label]
    if lists:
        indices, values = _entry_columns(lists, features, kinds, path)
        for batch, start in _batches(table, [indices, values], label):
            data, columns, lengths = _entries(batch.column(indices), batch.column(values), path, start)
            collector.add_sparse(data, columns, lengths, _labels(batch, label, path, start))
        return collector.finish(target_name=label)
    for name in features:
        kind = kinds[name]
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)):
            raise NotNumbersError(
                f"{path}, column {name!r}: {kind} is no type of numbers. Turn it into numbers first, "
                "or name the labels by target=."
            )
    single = all(str(kinds[name]) in ("float", "halffloat") for name in features)
    dtype = np.float32 if single and features else np.float64
    for batch, start in _batches(table, features, label):
        rows = np.empty((batch.num_rows, len(features)), dtype=dtype)
        for i, name in enumerate(features):
            rows[:, i] = _numbers(batch.column(name), f"{path}, column {name!r}", start)
        collector.add_dense(rows, _labels(batch, label, path, start))
    return collector.finish(tuple(features), label)


def _batches(table: Any, names: Sequence[str], label: str | None) -> Any:
    """Yield the table piece by piece, with the number of the first row of each piece."""
    start = 0
    for batch in table.iter_batches(batch_size=N_ROWS, columns=[*names, *([] if label is None else [label])]):
        yield batch, start
        start += batch.num_rows


def _entry_columns(lists: list[str], others: list[str], kinds: dict[str, Any], path: Path) -> tuple[str, str]:
    """Return the names of the columns of indices and of values."""
    from pyarrow import types

    whole = [name for name in lists if types.is_integer(kinds[name].value_type)]
    real = [name for name in lists if types.is_floating(kinds[name].value_type)]
    if len(lists) != 2 or len(whole) != 1 or len(real) != 1 or others:
        got = ", ".join(f"{name}: {kinds[name]}" for name in [*lists, *others][:8])
        raise DataError(
            f"{path}: sparse rows need one column of lists of whole numbers (the indices), one of lists of floats "
            f"(the values) and at most one of labels, got {got}."
        )
    return whole[0], real[0]


def _require_full(column: Any, where: str, start: int, error: type[DataError] = DataError) -> None:
    if column.null_count:
        row = start + int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise error(f"{where}: row {row} (from 0) has no value. Fill missing values, or drop the row.")


def _numbers(column: Any, where: str, start: int) -> Array:
    """Return a column of numbers, checked."""
    _require_full(column, where, start, NotNumbersError)
    values: Array = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise NotNumbersError(f"{where}: row {start + int(bad[0])} (from 0) is {values[bad[0]]}. Fill it, or drop the row.")
    return values


def _labels(batch: Any, name: str | None, path: Path, start: int) -> Labels | None:
    """Return the labels of a piece, numbers or text."""
    from pyarrow import types

    if name is None:
        return None
    column, where = batch.column(name), f"{path}, column {name!r}"
    _require_full(column, where, start, NotNumbersError)
    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return np.array(column.to_pylist(), dtype=str)
    if types.is_integer(kind) or types.is_boolean(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if types.is_floating(kind) or types.is_decimal(kind):
        return _numbers(column, where, start)
    raise DataError(f"{where}: labels must be numbers or text, got {kind}. Name another column by target=.")


def _entries(indices: Any, values: Any, path: Path, start: int) -> tuple[Array, Array, Array]:
    """Return the entries of a piece: values, columns, and the number of entries of each row."""
    for name, column in (("indices", indices), ("values", values)):
        _require_full(column, f"{path}, the list of {name}", start)
    lengths = np.diff(np.asarray(indices.offsets)).astype(np.int64)
    other = np.diff(np.asarray(values.offsets))
    if not np.array_equal(lengths, other):
        row = int(np.flatnonzero(lengths != other)[0])
        raise DataError(
            f"{path}: row {start + row} (from 0) has {lengths[row]} indices and {other[row]} values. "
            "Give one value for each index."
        )
    flat, entries = indices.flatten(), values.flatten()
    _require_full(flat, f"{path}, inside the list of indices", 0)
    _require_full(entries, f"{path}, inside the list of values", 0)
    columns: Array = np.asarray(flat).astype(np.int64)
    data: Array = np.asarray(entries)
    data = data.astype(np.float32 if data.dtype.itemsize <= 4 else np.float64)
    require_finite(data, f"{path}, the list of values")
    if columns.size and columns.min() < 0:
        raise DataError(f"{path}: index {columns.min()} is negative. Indices count from 0 in Parquet.")
    return _sorted_entries(data, columns, lengths, path, start)


def _sorted_entries(data: Array, columns: Array, lengths: Array, path: Path, start: int) -> tuple[Array, Array, Array]:
    """Return the entries with increasing columns in each row."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    same_row = rows[1:] == rows[:-1]
    if np.any(same_row & (columns[1:] < columns[:-1])):
        order = np.lexsort((columns, rows))
        data, columns = data[order], columns[order]
    twice = np.flatnonzero(same_row & (columns[1:] == columns[:-1]))
    if len(twice):
        raise DataError(
            f"{path}: row {start + int(rows[twice[0]])} (from 0) has index {columns[twice[0]]} twice. "
            "Give each feature of a row once."
        )
    return data, columns, lengths
