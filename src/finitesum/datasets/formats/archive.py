"""Reads NumPy's own files: ``.npz`` archives of sparse rows, dense rows or images, and ``.npy`` arrays."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from finitesum.core.indices import require_indices
from finitesum.datasets.errors import DataError, NoRowsError, preview
from finitesum.datasets.formats.collector import Array, Contents, RowCollector, StorageError
from finitesum.datasets.formats.columns import Target
from finitesum.datasets.formats.streams import line_blocks, open_stream, require_expansion, text_lines, to_number
from finitesum.datasets.labels import Labels, label_array

Part = Literal["train", "test"]

_LABEL_NAMES = ("y", "target", "targets", "label", "labels")
_ROW_NAMES = ("x", "rows", "features")
_SPARSE_PARTS = ("data", "indices", "indptr", "shape")


def read_npz(path: Path, collector: RowCollector, *, target: Target = None, part: Part = "train") -> Contents:
    """Return the rows of an ``.npz`` archive, gathered by a collector.

    The archive has one of

    - what ``scipy.sparse.save_npz`` writes, or ``data``, ``indices``, ``indptr`` and ``shape`` of CSR rows;
    - dense rows as ``X`` (or ``rows``, ``features``), shape (n_rows, n_features);
    - ``x_train``, ``y_train``, ``x_test``, ``y_test``: `part` says which are read.

    Bytes (uint8) under ``x_train`` or ``x_test``, or with more than two axes, are images: they are flattened and divided by
    255. Labels stand beside the rows as ``y`` (or ``target``, ``label``), or as the array that `target` names; False is for
    none. Capital or small letters are the same.
    """
    try:
        with path.open("rb") as file:  # NumPy leaves a file open that it has opened itself and cannot read
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise DataError(f"{path} is one array. Use format='npy'.")
            require_expansion(path, sum(member.file_size for member in archive.zip.infolist()))
            return _read_arrays(archive, path, collector, target, part)
    except (DataError, StorageError):
        raise
    except Exception as error:  # of damaged bytes NumPy, SciPy, zipfile and what unpacks them raise a dozen kinds
        hint = "It holds Python objects, which are not read." if "pickle" in str(error) else "Is the file complete?"
        raise DataError(f"{path} cannot be read as an .npz archive: {_reason(error)}. {hint}") from error


def _reason(error: Exception) -> str:
    """Return what an error says, with its kind where that says more."""
    kind = "" if isinstance(error, ValueError | OSError | MemoryError) and str(error) else f"{type(error).__name__}: "
    return kind + preview(" ".join(str(error).split()), 120)


def _read_arrays(archive: Any, path: Path, collector: RowCollector, target: Target, part: Part) -> Contents:
    names = {name.lower(): name for name in archive.files}
    labels_name = _labels_name(archive.files, names, target, part, path)
    labels = None if labels_name is None else label_array(archive[labels_name])
    if {"data", "shape"} <= names.keys() and ("format" in names or set(_SPARSE_PARTS) <= names.keys()):
        _add_sparse(archive, path, labels, collector)
        return collector.finish(target_name=labels_name)
    key = next((names[k] for k in (f"x_{part}", *_ROW_NAMES) if k in names), None)
    if key is None:
        raise DataError(
            f"{path} has the arrays {_shown(archive.files)}, and none of them is known to hold rows"
            f"{' of the part ' + repr(part) if 'x_train' in names else ''}. Save them as X and y, or as "
            "x_train, y_train, x_test, y_test, or by scipy.sparse.save_npz."
        )
    rows = _as_rows(archive[key], f"{path}, array {key!r}", is_image_key=key.lower() == f"x_{part}")
    _require_length(rows.shape[0], labels, path)
    collector.add_dense(rows, labels)
    return collector.finish(target_name=labels_name)


def _shown(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _labels_name(files: list[str], names: dict[str, str], target: Target, part: Part, path: Path) -> str | None:
    """Return the name of the array of labels, or None where there is none."""
    if target is False:
        return None
    if isinstance(target, str):
        if target not in files:
            raise DataError(f"{path}: target={target!r} names no array. The archive has {_shown(files)}.")
        return target
    return next((names[k] for k in (f"y_{part}", *_LABEL_NAMES) if k in names), None)


def _require_length(n_rows: int, labels: Labels | None, path: Path) -> None:
    if labels is not None and len(labels) != n_rows:
        raise DataError(f"{path}: there are {n_rows} rows and {len(labels)} labels. Give one label for each row.")


def _add_sparse(archive: Any, path: Path, labels: Labels | None, collector: RowCollector) -> None:
    from scipy.sparse import csr_array, load_npz

    if "format" in archive.files:
        stored = load_npz(path)
    else:
        stored = csr_array((archive["data"], archive["indices"], archive["indptr"]), shape=tuple(archive["shape"]))
    require_indices(stored)
    rows = csr_array(stored)
    rows.has_canonical_format = rows.has_sorted_indices = False  # SciPy may have kept what the file says
    rows.sum_duplicates()
    data = as_floats(rows.data, f"{path}, array 'data'")
    require_finite(data, f"{path}, array 'data'")
    _require_length(rows.shape[0], labels, path)
    collector.add_sparse(data, rows.indices, np.diff(rows.indptr), labels, n_known=rows.shape[1])


def as_floats(array: Array, where: str) -> Array:
    """Return real numbers as float32 where they are so or narrower floats, else as float64."""
    if array.dtype.kind not in "biuf":
        raise DataError(f"{where}: the rows must hold real numbers, got dtype {array.dtype}. Convert them first.")
    narrow = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    return array.astype(np.float32 if narrow else np.float64, copy=False)


def require_finite(array: Array, where: str) -> None:
    """Raise where an array holds nan or inf; the first such entry is named."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum(dtype=np.float64)):  # one pass without a temporary; it may also overflow
            return
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = tuple(bad[0].tolist())
        what = f"row {place[0]}, column {place[1]}" if len(place) == 2 else f"entry {place[0]}"
        raise DataError(f"{where}: {what} (from 0) is {array[place]}. Fill missing values, or drop the row.")


def _as_rows(array: Array, where: str, is_image_key: bool) -> Array:
    """Return dense rows, or images as rows."""
    if array.ndim < 2:
        raise DataError(f"{where}: rows need two axes, got shape {array.shape}.")
    is_image = array.dtype == np.uint8 and (is_image_key or array.ndim > 2)
    rows = np.ascontiguousarray(as_floats(array.reshape(len(array), math.prod(array.shape[1:])), where))
    if is_image:
        rows /= 255.0
    else:
        require_finite(rows, where)
    return rows


def read_npy(path: Path, *, target: Target = None, memmap: bool = False) -> Contents:
    """Return the rows of an ``.npy`` file of shape (n_rows, n_features), with labels from a second file.

    `target` is the path of the labels, an ``.npy`` file or text with one label a line; None or False for no labels. Rows
    that stay on disk (`memmap`, read-only) are not checked, and must need no conversion.
    """
    rows = _load_npy(path, memmap)
    if rows.ndim != 2:
        raise DataError(f"{path}: rows need two axes, got shape {rows.shape}.")
    if not len(rows):
        raise NoRowsError(f"{path} holds no rows. Is it the right file?")
    wanted = as_floats(rows[:0], str(path)).dtype.newbyteorder("=")
    if memmap and not (rows.dtype == wanted and rows.flags.c_contiguous):
        order = "C" if rows.flags.c_contiguous else "Fortran"
        raise DataError(
            f"{path}: only float32 or float64 in C order can be mapped, got {rows.dtype} in {order} order. "
            "Use memmap=False, or save np.ascontiguousarray(rows, dtype=float)."
        )
    if not memmap:
        rows = np.ascontiguousarray(rows, dtype=wanted)
        require_finite(rows, str(path))
    arrays = {"rows": rows.view(np.ndarray)}
    if isinstance(target, str):
        arrays["labels"] = _read_labels(Path(target))
        _require_length(len(rows), arrays["labels"], path)
    return Contents(arrays, rows.shape[1])


def _load_npy(path: Path, memmap: bool = False) -> Array:
    try:
        with path.open("rb") as file:
            array = np.load(path if memmap else file, mmap_mode="r" if memmap else None, allow_pickle=False)
    except Exception as error:
        raise DataError(f"{path} cannot be read as an .npy array: {_reason(error)}.") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} is an archive of several arrays. Use format='npz'.")
    return array


def _read_labels(path: Path) -> Labels:
    """Return labels from a file of their own."""
    if path.suffix == ".npy":
        return label_array(_load_npy(path))
    with open_stream(path) as stream:
        cells = [line.strip() for line in text_lines(line_blocks(stream, path), path) if line.strip()]
    numbers = [to_number(cell) for cell in cells]
    return np.array(cells if None in numbers else numbers)
