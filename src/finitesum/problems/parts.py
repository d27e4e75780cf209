"""Parts of the data: blocks of rows with their targets, weights and offsets, which need not be in memory at once.

A part is given as ``(X, y)``, ``(X, y, weight)`` or ``(X, y, weight, offset)``, or as what can be asked for that: a
function of no arguments, or a ``dask.delayed`` (by ``compute()``). `Part.load` returns the rows as kernels see them and
checks them; a first pass over all parts (`finitesum.problems.survey`) finds out which of them have rows, what they must
agree in, and a digest of each, by which a part that is loaded again is known.
"""

import hashlib
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.engine import PartError
from finitesum.core.in_memory import is_on_dask, require_in_memory
from finitesum.losses import Loss
from finitesum.problems.digests import digest_sums
from finitesum.problems.input import as_rows, checked_labels, checked_numbers, checked_values, is_of_labels, weights_of_rows
from finitesum.problems.rows import CSRRows, DenseRows

#: What a part's tuple may hold, in this order.
FIELDS = ("X", "y", "weight", "offset")


def require_some_rows(n_with_rows: int, n_parts: int) -> None:
    """Raise where no part has a row."""
    if n_with_rows == 0:
        raise ValueError(
            f"X must have at least one row, got none in all parts ({n_parts}). Check what the rows were filtered by."
        )


class PartData(NamedTuple):
    """A part in memory, or in mapped files."""

    rows: DenseRows | CSRRows
    targets: Any  # (n,) numbers, or places in the part's labels; (n, K) of several targets
    labels: Any  # of the part's rows, increasing; None where targets are numbers
    weights: Any  # (n,) s_i >= 0; None: all 1
    offsets: Any  # (n,) or (n, K); None: all 0
    digest: str = ""  # of the arrays, by which a part that is loaded again is known
    names: Any = None  # of the columns, (d,) of text, where they have any


@dataclass(frozen=True)
class Part:
    """One part of the data: where it comes from, and what is known of it."""

    number: int
    name: str  # how a message calls it
    source: Any  # a tuple, or a function that returns one
    loss: Loss
    intercept: bool

    @property
    def version(self) -> Any:
        """What changes where the data are written to, of a part that is mapped as it lies in a file of the caller."""
        return getattr(self.source, "version", None)

    @property
    def is_held(self) -> bool:
        """Whether the caller holds the arrays anyway."""
        return not callable(self.source)

    def load(self) -> PartData:
        """Return the data, checked; raise a PartError that names the part where something is wrong."""
        with errors_named(self.name):
            data = _read(self.source() if callable(self.source) else self.source, self)
        return data._replace(digest=digest_of(data))


@contextmanager
def errors_named(name: str) -> Iterator[None]:
    """Raise a PartError that names a part where something is wrong with it."""
    try:
        yield
    except Exception as error:
        raise PartError(f"{name}: {_in_words(error)}") from error


def _in_words(error: Exception) -> str:
    if isinstance(error, ValueError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def expanded(given: Any) -> Iterator[Any]:
    """Yield the parts that were given, those of files and of fragments in their place."""
    if is_on_dask(given):
        raise TypeError(
            "parts must be a list of parts, got a Dask collection: give each of its blocks as a dask.delayed of a tuple "
            "(X, y), or fit a class of finitesum.dask."
        )
    if isinstance(given, dict) or hasattr(given, "to_numpy"):
        raise TypeError(
            f"parts must be a list of tuples (X, y[, weight, offset]), of paths or of functions that return a tuple, got a "
            f"{type(given).__name__}. Rows in memory go to Problem.linear."
        )
    alone = isinstance(given, str | os.PathLike) or hasattr(given, "get_fragments")
    files = import_module("finitesum.datasets.parts")  # a room above, for those who have files
    for is_path, some in itertools.groupby([given] if alone else given, lambda one: isinstance(one, str | os.PathLike)):
        if is_path:  # together, so that each may lack the last columns of sparse rows
            yield from files.of_paths(some)
            continue
        for one in some:
            # an object that is delayed has any name
            is_fragment = hasattr(type(one), "to_table") or hasattr(type(one), "get_fragments")
            yield from files.of_fragments(one) if is_fragment else (one,)


def as_part(number: int, given: Any, loss: Loss, *, intercept: bool) -> Part:
    """Return one of the parts that a caller gave."""
    name = f"part {number}"
    described = getattr(given, "part_name", "") if callable(given) else ""
    if hasattr(type(given), "compute"):  # dask.delayed, which can be called, too
        given, described = given.compute, ""
    elif not isinstance(given, tuple | list) and not callable(given):
        raise TypeError(
            f"{name} must be a tuple (X, y[, weight, offset]), a path, or a function or delayed that returns a tuple, "
            f"got a {type(given).__name__}."
        )
    elif not callable(given):
        for field, one in zip(FIELDS, given, strict=False):
            require_in_memory(one, field, f"{name}: ")
    if described:
        name += f" ({described})"
    return Part(number, name, given, loss, intercept)


def _read(given: Any, part: Part) -> PartData:
    if not isinstance(given, tuple | list) or not 2 <= len(given) <= len(FIELDS):
        raise TypeError(f"a part is (X, y), (X, y, weight) or (X, y, weight, offset), got a {type(given).__name__}")
    X, y, weight, offset = (*given, None, None)[: len(FIELDS)]
    rows = as_rows(X, intercept=part.intercept, may_be_empty=True)
    n, loss, labels = rows.n_rows, part.loss, None
    if is_of_labels(loss):
        labels, targets = checked_labels(y, n, loss)
        targets = targets.astype(np.int8) if len(labels) < 128 else targets  # which are kept beside the rows
    else:
        targets = checked_values(y, n, loss)
    if weight is not None:
        weight = weights_of_rows(weight, n, "weight")
    if offset is not None:
        given_shape = np.shape(offset)
        offset = checked_numbers(offset, (n,) if len(given_shape) < 2 else (n, given_shape[1]), "offset")
    return PartData(rows, targets, labels, weight, offset, names=_names_of(X, part.source))


def _names_of(X: Any, source: Any) -> Any:
    """Return the names of the columns of a data frame, or those that a part's source knows; None where there are none."""
    names = getattr(X, "columns", None) if hasattr(X, "to_numpy") else getattr(source, "feature_names", None)
    return None if names is None else np.array([str(name) for name in names])


def digest_of(data: PartData) -> str:
    """Return a digest of a part's arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (*data.rows[:-3], *data[1:5]):
        if array is not None:
            is_text = array.dtype.kind not in "biuf"
            digest_sums(digest, np.ascontiguousarray(array.astype(str)).view(np.uint8) if is_text else array)
    return digest.hexdigest()
