"""Loads a data set from a file of any format, by its reader or from its parsed copy."""

import os
from pathlib import Path
from typing import Any, TypedDict, Unpack, get_args, overload

import numpy as np

from finitesum.datasets.cache import cached
from finitesum.datasets.dataset import Dataset, Task
from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.archive import Part, read_npy, read_npz
from finitesum.datasets.formats.collector import Array, Contents, RowCollector, StorageError
from finitesum.datasets.formats.columns import Target
from finitesum.datasets.formats.csv import read_csv
from finitesum.datasets.formats.detect import Format, find_format, plain_name
from finitesum.datasets.formats.parquet import read_parquet
from finitesum.datasets.formats.streams import require_file
from finitesum.datasets.formats.svmlight import read_svmlight
from finitesum.datasets.labels import require_numbers
from finitesum.datasets.parts import PART_BYTES, FileParts

#: Text takes long to parse, so that its parsed copy is always kept; the others are copied to be mapped only.
_TEXT: tuple[Format, ...] = ("svmlight", "csv")


def _check_given(path: Path, format: Format, target: Target, task: Task | None, part: Part, zero_based: bool) -> None:
    """Raise where an argument is wrong, or does not suit the format."""
    if task not in (None, *get_args(Task)):
        raise DataError(f'task must be "classification", "regression" or None, got {preview(task)}.')
    if part not in get_args(Part):
        raise DataError(f'part must be "train" or "test", got {preview(part)}.')
    if part == "test" and format != "npz":
        raise DataError(f'part="test" is for npz archives, but {path} is {format}. Load the file of the test rows.')
    if zero_based and format != "svmlight":
        raise DataError(f"zero_based=True is for svmlight files, but {path} is {format}. Leave it out.")
    if target not in (None, False) and format == "svmlight":
        raise DataError(f"target={preview(target)}: the rows of an svmlight file begin with their labels. Leave it out.")
    if isinstance(target, int) and not isinstance(target, bool) and format in ("npz", "npy"):
        where = "the name of an array" if format == "npz" else "the path of a file"
        raise DataError(f"target={target}: for {format} it must be {where}.")
    if target is True:
        raise DataError("target=True says nothing. Name the labels, or use target=False where there are none.")


class _Options(TypedDict, total=False):
    """The options of `load`."""

    format: Format | None
    n_features: int | None
    target: str | int | os.PathLike[str] | bool | None
    task: Task | None
    part: Part
    zero_based: bool
    cache: bool
    memmap: bool
    part_bytes: int | None


@overload
def load(path: str | os.PathLike[str], **options: Unpack[_Options]) -> Dataset: ...
@overload
def load(path: list[Any] | tuple[Any, ...], **options: Unpack[_Options]) -> FileParts: ...


def load(
    path: str | os.PathLike[str] | list[Any] | tuple[Any, ...],
    *,
    format: Format | None = None,
    n_features: int | None = None,
    target: str | int | os.PathLike[str] | bool | None = None,
    task: Task | None = None,
    part: Part = "train",
    zero_based: bool = False,
    cache: bool = True,
    memmap: bool = False,
    part_bytes: int | None = None,
) -> Dataset | FileParts:
    """Return the data set in a file, or the parts of several files.

    Text is parsed once: a binary copy is kept in the folder ``FINITESUM_HOME`` (without it, the user's cache folder)
    and used from then on, until the file changes.

    Parameters
    ----------
    path
        A list of files, of folders and of patterns such as ``data/*.parquet`` gives `finitesum.datasets.FileParts`, for
        `finitesum.Problem.partitioned`: their rows are always mapped. Else a file in svmlight (LIBSVM) or CSV format, plain
        or compressed by gz, bz2 or xz; or ``.npz``, ``.npy`` or Parquet. `svmlight`, `csv`, `archive` and `parquet` of
        `finitesum.datasets.formats` say what each takes.
    format
        "svmlight", "csv", "npz", "npy" or "parquet"; without it, the format is found by the suffix, or else by the
        first bytes of the file.
    n_features
        The number of columns. Sparse rows get this many, at least as many as occur; a test set needs it where it lacks
        the last features of the training set. For dense rows it is checked.
    target
        Where the labels are. CSV and Parquet: the name or number of a column (from 0; -1 is the last), False for none.
        Without it: a column called ``target``, ``label`` or ``class``, or a first column called ``y``, or else the last
        column. npz: the name of an array, ``y`` by default. npy: the path of a second file. Not for svmlight, whose
        rows begin with their labels.
    task
        What the labels are for. With "regression", labels that are no numbers are an error.
    part
        Which part of an ``.npz`` archive of two parts (``x_train``, ``x_test``) is read.
    zero_based
        Whether the indices of an svmlight file count from 0.
    cache
        Whether a parsed copy is kept and used. Of npz and Parquet, which are read fast, one is kept only for `memmap`.
    memmap
        Whether the rows stay on disk, to be read as they are used, so that they may exceed the memory. They are mapped
        read-only, which counts as no memory of the process. The entries of a mapped ``.npy`` file are not checked.
    part_bytes
        Of several files: the bytes of rows in a part, about; 64 MB when left out.

    Returns
    -------
    Dataset or FileParts
        Rows are float64, or float32 where the file holds that: dense in C order, or CSR, with int32 indices wherever
        they fit. Labels are as they stand in the file.

    Raises
    ------
    DataError
        The file cannot be read, or an argument does not suit it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "tiny.svm"
    >>> _ = file.write_text("+1 1:0.5 3:2\\n-1 2:1\\n")
    >>> data = load(file, cache=False)
    >>> data
    Dataset('tiny': 2 rows, 3 features, sparse float64, 3 entries, classification)
    >>> data.rows.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]])
    >>> data.targets()
    array([ 1., -1.])
    >>> folder.cleanup()
    """
    if not isinstance(path, str | os.PathLike):
        if part != "train" or not cache:
            raise DataError('part="test" and cache=False are for one file. Leave them out for a list.')
        named = {"format": format, "n_features": n_features, "target": target, "task": task, "zero_based": zero_based}
        return FileParts(path, part_bytes=PART_BYTES if part_bytes is None else part_bytes, **named)
    file = Path(path).expanduser().absolute()
    require_file(file)
    found = find_format(file, format)
    column = os.fspath(target) if isinstance(target, os.PathLike) else target
    _check_given(file, found, column, task, part, zero_based)
    if n_features is not None and n_features < 1:
        raise DataError(f"n_features must be at least 1, got {n_features}. Leave it out to take it from the file.")
    if found == "npy":
        return as_dataset(read_npy(file, target=column, memmap=memmap), file, n_features, task)
    if memmap and not cache:
        raise DataError("memmap=True maps the parsed copy of the file. Use cache=True with it.")

    def read(collector: RowCollector) -> Contents:
        try:
            if found == "svmlight":
                return read_svmlight(file, collector, zero_based=zero_based)
            if found == "csv":
                return read_csv(file, collector, target=column, regression=task == "regression")
            if found == "npz":
                return read_npz(file, collector, target=column, part=part)
            return read_parquet(file, collector, target=column)
        except DataError as error:
            if str(file) in str(error):
                raise
            raise type(error)(f"{file}: {error}") from None
        except (StorageError, OSError, MemoryError):
            raise
        except Exception as error:  # of a file that no test has thought of
            raise DataError(f"{file} cannot be read as {found}: {type(error).__name__}: {error!s:.300}.") from error

    contents = None
    if cache and (memmap or found in _TEXT):
        options = {"format": found, "target": column, "part": part, "zero_based": zero_based}
        contents = cached(file, options, read, memmap)
    return as_dataset(contents or read(RowCollector()), file, n_features, task)


def as_dataset(contents: Contents, path: Path, n_features: int | None = None, task: Task | None = None) -> Dataset:
    """Return what a reader found as a data set, checked."""
    arrays = contents.arrays
    labels = arrays.get("labels")
    if task == "regression" and labels is not None:
        require_numbers(labels, str(path))
    is_dense = "rows" in arrays
    rows = arrays["rows"] if is_dense else _csr(arrays, contents.n_features, n_features, path)
    if is_dense and n_features not in (None, contents.n_features):
        raise DataError(f"{path} has {contents.n_features} features, but n_features={n_features}. Is it the right file?")
    known = contents.feature_names, contents.target_name, task, contents.n_skipped
    return Dataset(rows, labels, plain_name(path), path, *known)


def _csr(arrays: dict[str, Array], n_found: int, n_features: int | None, path: Path) -> Any:
    from scipy.sparse import csr_array

    data, indices, indptr = (arrays[name] for name in ("data", "indices", "indptr"))
    if n_features is not None and n_found > n_features:
        beyond = np.flatnonzero(indices >= n_features)[:1]
        row = np.searchsorted(indptr, beyond, side="right")
        where = f"{path}: row {row[0]} has feature {int(indices[beyond[0]]) + 1} (both from 1)" if len(beyond) else path
        raise DataError(f"{where}, but n_features={n_features}. The file has {n_found} features: give that or more.")
    rows = csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features or n_found), copy=False)
    # All readers sort the entries of a row and keep each once: SciPy need not check.
    rows.has_sorted_indices = True
    rows.has_canonical_format = True
    return rows
