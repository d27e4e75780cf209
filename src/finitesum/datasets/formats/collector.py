"""Gathers what readers find, block by block: in memory, or in files that are mapped into memory afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from finitesum.datasets.errors import DataError, NoRowsError
from finitesum.datasets.labels import Labels, is_text

Array = npt.NDArray[Any]

#: The largest int32: indices that do not exceed it are stored in four bytes.
LARGEST_INT32 = 2**31 - 1


class StorageError(Exception):
    """A file of the parsed copy cannot be written; the data themselves may be sound."""


@dataclass
class Contents:
    """All arrays of a data set, and what is to be remembered beside them."""

    arrays: dict[str, Array]  # dense: rows; CSR: data, indices, indptr; labels where there are any
    n_features: int
    feature_names: tuple[str, ...] | None = None
    target_name: str | None = None
    n_skipped: int = 0  # lines of text that hold no row: empty ones and comments


class _Growing:
    """An array that grows along its first axis, by parts: in memory, or in files until they become a single one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._parts: list[Any] = []  # arrays, or the paths of their files
        self._length = 0
        self._dtypes: set[np.dtype[Any]] = set()

    def append(self, array: Array) -> None:
        self._length += len(array)
        self._dtypes.add(array.dtype)
        self._tail = array.shape[1:]
        if self._path is None:
            self._parts.append(array)
            return
        self._parts.append(self._path.with_suffix(f".{len(self._parts)}.npy"))
        with _storage(self._parts[-1]):
            np.save(self._parts[-1], array)

    def finish(self, dtype: npt.DTypeLike | None = None) -> Array:
        wanted = np.result_type(*self._dtypes) if dtype is None else np.dtype(dtype)
        if self._path is None:
            whole = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
            self._parts = []
            return np.ascontiguousarray(whole, dtype=wanted)
        descr, shape = np.lib.format.dtype_to_descr(wanted), (self._length, *self._tail)
        with _storage(self._path):
            with self._path.open("wb") as file:
                header = {"descr": descr, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                for part in self._parts:
                    np.ascontiguousarray(np.load(part, mmap_mode="r"), dtype=wanted).tofile(file)
                    part.unlink()
            return np.load(self._path, mmap_mode="r")  # type: ignore[no-any-return]


@contextmanager
def _storage(path: Path) -> Iterator[None]:
    """Raise StorageError, which names the file, where the disk fails."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error


class RowCollector:
    """Takes rows block by block and returns them as one data set.

    Entries are written to `folder` as they come, so that a file larger than the memory can be read; None keeps all in
    memory. Labels and lengths of rows are kept in memory. Readers count lines without a row in `n_skipped`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.reset()

    def reset(self) -> None:
        """Forget all that was added."""
        for file in () if self.folder is None else self.folder.glob("*.npy"):
            file.unlink()
        self._growing: dict[str, _Growing] = {}
        self._labels: list[Labels] = []
        self._lengths: list[Array] = []
        self._n_rows = self._n_features = self.n_skipped = 0

    def add_dense(self, rows: Array, labels: Labels | None) -> None:
        """Add rows of shape (k, n_features), float32 or float64, with their labels."""
        self._append("rows", rows)
        self._n_features = rows.shape[1]
        self._add_labels(labels, len(rows))

    def add_sparse(self, data: Array, indices: Array, lengths: Array, labels: Labels | None, n_known: int = 0) -> None:
        """Add k rows, given by the values and columns (from 0) of their entries (nnz,) and how many each has (k,).

        `n_known` is the number of columns where it is known; it grows with the indices.
        """
        largest = int(indices.max()) if indices.size else -1
        self._append("data", data)
        self._append("indices", indices.astype(np.int32 if largest <= LARGEST_INT32 else np.int64, copy=False))
        self._lengths.append(lengths)
        self._n_features = max(self._n_features, n_known, largest + 1)
        self._add_labels(labels, len(lengths))

    def finish(self, feature_names: tuple[str, ...] | None = None, target_name: str | None = None) -> Contents:
        """Return all that was added, with what the reader knows about the columns; raise where that is nothing."""
        if self._n_rows == 0:
            raise NoRowsError("holds no rows. Is it the right file?")
        is_dense = "rows" in self._growing
        arrays = {"rows": self._growing["rows"].finish()} if is_dense else self._sparse_arrays()
        if self._labels:
            # Text of two widths is joined at the wider one; numbers of two kinds become float64.
            arrays["labels"] = self._saved("labels", np.concatenate(self._labels))
        return Contents(arrays, self._n_features, feature_names, target_name, self.n_skipped)

    def _sparse_arrays(self) -> dict[str, Array]:
        indptr = np.zeros(self._n_rows + 1, dtype=np.int64)
        np.cumsum(np.concatenate(self._lengths), out=indptr[1:])
        # SciPy wants one type for both: the narrow one wherever all fits.
        narrow = int(indptr[-1]) <= LARGEST_INT32 and self._n_features <= LARGEST_INT32
        dtype = np.int32 if narrow else np.int64
        return {
            "data": self._growing["data"].finish(),
            "indices": self._growing["indices"].finish(dtype),
            "indptr": self._saved("indptr", indptr.astype(dtype, copy=False)),
        }

    def _append(self, name: str, array: Array) -> None:
        if name not in self._growing:
            self._growing[name] = _Growing(self.folder and self.folder / f"{name}.npy")
        self._growing[name].append(array)

    def _add_labels(self, labels: Labels | None, n_rows: int) -> None:
        if labels is not None:
            if self._labels and is_text(labels) != is_text(self._labels[0]):
                raise DataError("labels mix numbers with text. Write all of them as numbers or all as text.")
            self._labels.append(labels)
        self._n_rows += n_rows

    def _saved(self, name: str, array: Array) -> Array:
        if self.folder is not None:
            file = self.folder / f"{name}.npy"
            with _storage(file):
                np.save(file, array)
        return array
