"""Several files as one data set that need not fit into memory: parts of their rows, mapped from parsed copies.

Each file is parsed once, block by block, into its copy (`finitesum.datasets.cache`), and mapped from then on; a part is
some of its rows. `FileParts` are what `finitesum.Problem.partitioned` takes.
"""

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitesum.datasets.dataset import Dataset
from finitesum.datasets.errors import DataError, NoRowsError, preview
from finitesum.datasets.formats.detect import Format, find_format, is_data_file

#: The bytes of rows in a part, about: much of them at a time keep a processor busy, and little memory.
PART_BYTES = 1 << 26

Given = str | os.PathLike[str]


def find_files(given: Given | Iterable[Given]) -> list[Path]:
    """Return the files of a list of files, of folders, and of patterns such as ``data/*.parquet``, in order of names.

    Of a folder they are those with the suffix of a known format, without those whose names begin with a dot or underscore.

    Raises
    ------
    DataError
        A pattern or a folder has no such file.
    """
    files: list[Path] = []
    for one in [given] if isinstance(given, str | os.PathLike) else given:
        path = Path(one).expanduser().absolute()
        if path.is_dir():
            found = sorted(file for file in path.iterdir() if file.name[0] not in "._" and is_data_file(file))
        elif path.exists() or not has_pattern(path):
            found = [path]
        else:
            found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        if not found:
            raise DataError(f"{one} names no data file. Give files, a folder of them, or a pattern such as 'data/*.csv'.")
        files += found
    if not files:
        raise DataError("no file was given: give files, a folder of them, or a pattern such as 'data/*.csv'.")
    return files


def has_pattern(path: Given) -> bool:
    """Return whether a path has a character that stands for others."""
    return any(character in os.fspath(path) for character in "*?[")


class _Options(NamedTuple):
    """How files are read: see `finitesum.datasets.load`."""

    format: Format | None = None
    n_features: int | None = None
    target: Any = None
    task: Any = None
    zero_based: bool = False


@functools.lru_cache(maxsize=1024)
def _mapped(file: Path, options: _Options, _changed: int) -> Dataset:
    """Return a file's data set, mapped; it is opened once for all of its parts."""
    from finitesum.datasets.loading import load

    # NumPy's own arrays are mapped as they are, where they can be
    try:
        return load(file, memmap=True, **options._asdict())
    except DataError:
        if find_format(file, options.format) != "npy":
            raise
        return load(file, **options._asdict())


def _open(file: Path, options: _Options) -> Dataset:
    return _mapped(file, options, file.stat().st_mtime_ns if file.exists() else 0)


@dataclass(frozen=True)
class FilePart:
    """Some rows of a file; calling it returns them with their labels, as often as it is asked."""

    file: Path
    options: _Options
    start: int
    stop: int

    @property
    def part_name(self) -> str:
        """How messages call the part."""
        return f"{self.file}, rows {self.start} to {self.stop - 1}"

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns, where the file has some."""
        return _open(self.file, self.options).feature_names

    @property
    def version(self) -> tuple[int, int] | None:
        """What changes where the file is written to, of one that is mapped as it is; None of one that has a parsed copy."""
        if find_format(self.file, self.options.format) != "npy" or not self.file.exists():
            return None
        known = self.file.stat()
        return known.st_mtime_ns, known.st_size

    def __call__(self) -> tuple[Any, Any]:
        """Return rows and labels."""
        data = _open(self.file, self.options)
        if data.labels is None:
            raise DataError(f"{self.file} has no labels. Name where they are by target=.")
        return _rows_between(data.rows, self.start, self.stop), data.labels[self.start : self.stop]


def _rows_between(rows: Any, start: int, stop: int) -> Any:
    """Return consecutive rows over the same memory."""
    if isinstance(rows, np.ndarray):
        return rows[start:stop]
    first, last = int(rows.indptr[start]), int(rows.indptr[stop])
    kept = rows.data[first:last], rows.indices[first:last], rows.indptr[start : stop + 1] - rows.indptr[start]
    part = type(rows)(kept, shape=(stop - start, rows.shape[1]), copy=False)
    part.has_sorted_indices = part.has_canonical_format = True
    return part


class FileParts(Sequence[FilePart]):
    """The rows of several files in parts: what `finitesum.datasets.load` returns for a list.

    Attributes
    ----------
    files, empty_files : list of Path
        Those with rows, and those without, which count as absent.
    n_rows, n_features, n_skipped : int
        Rows, columns, and lines that hold no row.
    feature_names : tuple of str or None

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> for k in range(2):
    ...     _ = (pathlib.Path(folder.name) / f"{k}.csv").write_text("a,b,y\\n1,2,0\\n3,4,1\\n")
    >>> parts = FileParts(folder.name)
    >>> parts.n_rows, parts.n_features, len(parts)
    (4, 2, 2)
    >>> folder.cleanup()
    """

    def __init__(self, given: Given | Iterable[Given], *, part_bytes: int = PART_BYTES, **options: Any) -> None:
        self.files, asked = find_files(given), _Options(**options)
        targets, opened = self._opened(asked)
        first, self.n_features = opened[0], max(data.n_features for data in opened)
        if (
            any(data.n_features < self.n_features for data in opened) and first.is_sparse
        ):  # of which a file may lack the last columns
            asked = asked._replace(n_features=self.n_features)
        for file, data in zip(self.files, opened, strict=True):
            self._require_alike(file, data, first)
        self.n_rows, self.n_skipped = sum(data.n_rows for data in opened), sum(data.n_skipped for data in opened)
        self.feature_names, self.target_name = first.feature_names, first.target_name
        self.is_sparse, self.dtype, self.nnz = first.is_sparse, first.rows.dtype, sum(data.nnz for data in opened)
        self.name = self.files[0].parent.name if len(self.files) > 1 else first.name
        self._parts = [
            FilePart(file, asked._replace(target=target), start, min(start + size, data.n_rows))
            for file, target, data in zip(self.files, targets, opened, strict=True)
            for size in [max(1, int(part_bytes // max(1, _row_bytes(data))))]
            for start in range(0, data.n_rows, size)
        ]

    def _opened(self, asked: _Options) -> tuple[list[Any], list[Dataset]]:
        """Return where the labels of each file with rows are, and its data set; files without rows are left out."""
        found: list[tuple[Path, Any, Dataset]] = []
        self.empty_files: list[Path] = []
        for file, target in zip(self.files, self._targets(asked), strict=True):
            try:
                found.append((file, target, _open(file, asked._replace(target=target))))
            except NoRowsError:
                self.empty_files.append(file)
        if not found:
            first, n = self.files[0], len(self.files)
            raise NoRowsError(f"{first}{f' and {n - 1} others' if n > 1 else ''} hold no rows. Are these the right files?")
        self.files = [file for file, _, _ in found]
        return [target for _, target, _ in found], [data for _, _, data in found]

    def _targets(self, asked: _Options) -> list[Any]:
        """Return where the labels of each file are: of .npy files a list or a pattern names files of their own."""
        target = asked.target
        is_path = isinstance(target, str | os.PathLike)
        has_own_file = is_path and len(self.files) > 1 and find_format(self.files[0], asked.format) == "npy"
        is_several = isinstance(target, list | tuple) or has_own_file or (isinstance(target, str) and has_pattern(target))
        if not is_several:
            return [target] * len(self.files)
        found = [str(file) for file in find_files(target)]
        if len(found) != len(self.files):
            raise DataError(f"target={preview(target)} names {len(found)} files, and there are {len(self.files)} of rows.")
        return found

    @staticmethod
    def _require_alike(file: Path, data: Dataset, first: Dataset) -> None:
        if data.feature_names != first.feature_names:
            raise DataError(f"{file}: its columns are not those of {first.source}, by name and order. Write them alike.")
        if data.is_sparse != first.is_sparse or (not data.is_sparse and data.n_features != first.n_features):
            raise DataError(f"{file} has {data.n_features} columns, and {first.source} has {first.n_features}.")

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, k: Any) -> Any:
        return self._parts[k]

    def __iter__(self) -> Iterator[FilePart]:
        return iter(self._parts)

    def summary(self) -> dict[str, Any]:
        """Return what is known about the data, as plain values that JSON can hold."""
        out: dict[str, Any] = {"name": self.name, "source": [str(file) for file in self.files]}
        out |= {name: getattr(self, name) for name in ("n_rows", "n_skipped", "n_features", "nnz")}
        return out | {"sparse": self.is_sparse, "dtype": str(self.dtype), "parts": len(self), "target": self.target_name}

    def __repr__(self) -> str:
        kind = f"sparse {self.dtype}" if self.is_sparse else f"dense {self.dtype}"
        files = f"{len(self.files)} files" + (f", {len(self.empty_files)} without rows" if self.empty_files else "")
        return f"FileParts({files}: {self.n_rows} rows, {self.n_features} features, {kind}, {len(self)} parts)"


def _row_bytes(data: Dataset) -> float:
    """Return the bytes of a row, on average, with its label."""
    width = data.rows.dtype.itemsize + (0 if isinstance(data.rows, np.ndarray) else data.rows.indices.dtype.itemsize)
    return float(data.nnz * width / max(1, data.n_rows) + 8.0)


class _Table:
    """A table in memory with what a reader asks of a Parquet file."""

    def __init__(self, table: Any) -> None:
        self._table, self.schema_arrow, self.metadata = table, table.schema, table

    def iter_batches(self, batch_size: int, columns: list[str]) -> Iterator[Any]:
        """Yield the table piece by piece."""
        yield from self._table.select(columns).to_batches(max_chunksize=batch_size)


class Fragment:
    """A fragment of a ``pyarrow`` data set as a part; its columns are found as those of a Parquet file."""

    def __init__(self, fragment: Any, target: Any = None) -> None:
        self._fragment, self._target = fragment, target
        self.part_name = str(getattr(fragment, "path", "a fragment"))
        self.feature_names: tuple[str, ...] | None = None  # once it was read

    def __call__(self) -> tuple[Any, Any]:
        """Return rows and labels."""
        from finitesum.datasets.formats.collector import RowCollector
        from finitesum.datasets.formats.parquet import read_table
        from finitesum.datasets.loading import as_dataset

        table, name = _Table(self._fragment.to_table()), Path(self.part_name)
        try:
            data = as_dataset(read_table(table, name, RowCollector(), self._target), name)
        except NoRowsError:
            return _no_rows()
        if data.labels is None:
            raise DataError(f"{name} has no labels.")
        self.feature_names = data.feature_names
        return data.rows, data.labels


def _no_rows() -> tuple[Any, Any]:
    """Return an empty part."""
    return np.empty((0, 0)), np.empty(0)


def of_paths(given: Iterable[Given]) -> list[Any]:
    """Return the parts of files, folders and patterns."""
    try:
        return list(FileParts(given))
    except NoRowsError:
        return [_no_rows]


def of_fragments(given: Any) -> list[Fragment]:
    """Return a fragment, or those of a ``pyarrow`` data set, as parts."""
    return [Fragment(one) for one in (given.get_fragments() if hasattr(given, "get_fragments") else [given])]
