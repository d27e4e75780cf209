"""A data set in memory or on disk: rows, labels, and where they came from."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from finitesum.datasets.errors import DataError
from finitesum.datasets.labels import LabelMap, Labels, are_whole, require_numbers

Task = Literal["classification", "regression"]

#: An array, or SciPy's csr_array, which has no types.
Rows: TypeAlias = npt.NDArray[Any] | Any

#: Whole numbers with at most this many distinct values are taken for classes where the task is not given.
MOST_GUESSED_CLASSES = 20


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows with labels, as they were read.

    Parameters
    ----------
    rows
        ndarray in C order or ``scipy.sparse.csr_array``, shape (n_rows, n_features), float32 or float64.
    labels
        The labels as the file has them, shape (n_rows,), numbers or text; None where the file has none.
    name
        A short name, for titles.
    source
        The file that was read, or None.
    feature_names
        The names of the columns, or None.
    target_name
        The name of the column of labels, or None.
    task
        What the labels are for, or None where that is not given (see `inferred_task`).
    n_skipped
        Lines of the file that hold no row: empty ones and comments.
    sample_weight, offset
        The weights of the rows, and what is added to their predictions x'w + b, each of shape (n_rows,), or None.
    preparation
        How the rows were made of a table's columns, a `finitesum.datasets.tables.TablePreparation`, or None.

    Raises
    ------
    DataError
        The numbers of rows, labels and names do not fit together, or `task` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> data = Dataset(np.eye(3), np.array([1, 2, 1]), name="tiny")
    >>> data
    Dataset('tiny': 3 rows, 3 features, dense float64, classification)
    >>> data.targets()
    array([-1.,  1., -1.])
    >>> data.take([0, 1]).n_rows
    2
    >>> X, y = data
    """

    rows: Rows
    labels: Labels | None
    name: str = ""
    source: Path | None = None
    feature_names: tuple[str, ...] | None = None
    target_name: str | None = None
    task: Task | None = None
    n_skipped: int = 0
    sample_weight: npt.NDArray[np.float64] | None = None
    offset: npt.NDArray[np.float64] | None = None
    preparation: Any = None

    def __post_init__(self) -> None:
        if getattr(self.rows, "ndim", 0) != 2:
            raise DataError(f"rows must have two axes, got shape {getattr(self.rows, 'shape', None)}.")
        n_rows, n_features = self.rows.shape
        if self.labels is not None and self.labels.shape != (n_rows,):
            raise DataError(f"labels have shape {self.labels.shape}, but there are {n_rows} rows.")
        for name in ("sample_weight", "offset"):
            values = getattr(self, name)
            if values is not None and values.shape != (n_rows,):
                raise DataError(f"{name} has shape {values.shape}, but there are {n_rows} rows.")
        if self.feature_names is not None and len(self.feature_names) != n_features:
            raise DataError(f"feature_names has {len(self.feature_names)} names for {n_features} features.")
        if self.task not in (None, "classification", "regression"):
            raise DataError(f'task must be "classification", "regression" or None, got {self.task!r}.')

    @property
    def X(self) -> Rows:
        """The rows, by the name that scikit-learn has for them."""
        return self.rows

    @property
    def y(self) -> Labels | None:
        """The labels, as the file has them; `targets` returns the numbers that methods work with."""
        return self.labels

    def __iter__(self) -> Iterator[Any]:
        """Yield rows and labels: ``X, y = load(file)``."""
        return iter((self.rows, self.labels))

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.rows.shape[0])

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self.rows.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse (CSR)."""
        return not isinstance(self.rows, np.ndarray)

    @property
    def nnz(self) -> int:
        """The number of stored entries: of all entries where the rows are dense."""
        return int(self.rows.size if isinstance(self.rows, np.ndarray) else self.rows.nnz)

    @property
    def density(self) -> float:
        """The fraction of entries that are stored, in [0, 1]."""
        return self.nnz / max(1, self.n_rows * self.n_features)

    @property
    def is_memmapped(self) -> bool:
        """Whether the rows lie on disk and are read as they are used."""
        array = self.rows.data if self.is_sparse else self.rows
        while isinstance(array, np.ndarray):
            if isinstance(array, np.memmap):
                return True
            array = array.base
        return False

    @cached_property
    def inferred_task(self) -> Task:
        """The task that was given, or else the one that the labels look like.

        Text, booleans, two distinct numbers, and whole numbers of at most 20 distinct values mean classification;
        everything else means regression.
        """
        if self.task is not None:
            return self.task
        labels = self._labels()
        if labels.dtype.kind in "Ub":
            return "classification"
        distinct = np.unique(labels)
        few = len(distinct) <= 2 or (are_whole(distinct) and len(distinct) <= MOST_GUESSED_CLASSES)
        return "classification" if few else "regression"

    def label_map(self) -> LabelMap:
        """Return the map between the labels and the codes -1/+1 or 0, 1, 2, ...

        It is a DataError if there are no labels, only one class, or if they look like the target of a regression.
        """
        try:
            return LabelMap.from_labels(self._labels())
        except DataError as error:
            raise DataError(f"{self._called()}: {error}") from None

    def targets(self, label_map: LabelMap | None = None) -> npt.NDArray[np.float64] | npt.NDArray[np.int64]:
        """Return the numbers that methods work with, shape (n_rows,).

        For `inferred_task` "regression" they are the labels as float64; else -1/+1 (float64) for two classes and
        0, 1, 2, ... (int64) for more. The classes are those of the map, which a regression does not use; without it, those
        that occur in this data set. It is a DataError if there are no labels, or if they do not suit the task or the map.
        """
        if label_map is not None and self.task != "regression":
            return label_map.encode(self._labels())
        if self.inferred_task == "classification":
            return self.label_map().encode(self._labels())
        labels = self._labels()
        require_numbers(labels, self._called())
        return np.ascontiguousarray(labels, dtype=np.float64)

    def take(self, which: Any) -> "Dataset":
        """Return the data set of some rows, in the order asked for: by numbers, a slice or a mask, as NumPy takes them."""
        named = ("labels", "sample_weight", "offset")
        taken: dict[str, Any] = {name: None if (values := getattr(self, name)) is None else values[which] for name in named}
        return replace(self, rows=self.rows[which], n_skipped=0, **taken)

    def to_dense(self) -> "Dataset":
        """Return the data set with its rows as an ndarray in C order."""
        return self if isinstance(self.rows, np.ndarray) else replace(self, rows=self.rows.toarray(order="C"))

    def to_sparse(self) -> "Dataset":
        """Return the data set with its rows as a ``csr_array``."""
        if self.is_sparse:
            return self
        from scipy.sparse import csr_array

        return replace(self, rows=csr_array(self.rows))

    def astype(self, dtype: npt.DTypeLike) -> "Dataset":
        """Return the data set with the entries of its rows as float32 or float64; any other type is a DataError."""
        wanted = np.dtype(dtype)
        if wanted not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise DataError(f"dtype must be float32 or float64, got {wanted}.")
        return replace(self, rows=self.rows.astype(wanted, copy=False))

    def summary(self) -> dict[str, Any]:
        """Return what is known about the data set, as plain values that JSON can hold."""
        out: dict[str, Any] = {"name": self.name, "source": None if self.source is None else str(self.source)}
        out |= {name: getattr(self, name) for name in ("n_rows", "n_skipped", "n_features", "nnz", "density")}
        out |= {"sparse": self.is_sparse, "dtype": str(self.rows.dtype), "memmapped": self.is_memmapped}
        out |= {"target": self.target_name, "task": None if self.labels is None else self.inferred_task}
        if out["task"] == "classification" and self.labels is not None:
            values, counts = np.unique(self.labels, return_counts=True)
            out["classes"] = {str(value): int(count) for value, count in zip(values, counts, strict=True)}
        return out

    def __repr__(self) -> str:
        kind = f"sparse {self.rows.dtype}, {self.nnz} entries" if self.is_sparse else f"dense {self.rows.dtype}"
        task = "no labels" if self.labels is None else self.inferred_task
        skipped = f", {self.n_skipped} lines skipped" if self.n_skipped else ""
        return f"Dataset({self.name!r}: {self.n_rows} rows, {self.n_features} features, {kind}, {task}{skipped})"

    def _called(self) -> str:
        return str(self.source) if self.source is not None else (self.name or "the data set")

    def _labels(self) -> Labels:
        if self.labels is None:
            raise DataError(f"{self._called()} has no labels. Name where they are by target=.")
        return self.labels
