"""Rows in parts, written one after the other to a file that is mapped: a problem whose rows can be visited one by one.

A visit to a few rows of a part by its engine costs a call, which takes longer than the rows. Where the parts are in this
process, their rows lie in one file instead, with targets, weights and offsets: kernels see them as rows in memory, and the
system reads and forgets the file's pages as it has room. The file has no name, and goes with the problem.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.core.engine import PartError, Threads
from finitesum.core.mapped import LEAST_BYTES
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import PartedRows, sum_over_parts
from finitesum.problems.rows import CSRRows, DenseRows

#: Numbers of a component up to which a call of an engine takes longer than what is done with them.
FEW_NUMBERS = 1e5

#: Bytes of entries up to which components are visited in a method's own order, the file being in the system's cache; of
#: more those of a part follow each other.
MOST_AT_RANDOM = 1 << 30


def has_small_components(problem: Problem) -> bool:
    """Return whether components were asked for that are too small for a call each."""
    size, rows = problem.batch_size, problem.rows
    return size is not None and size * max(rows.values.size / rows.n_rows, 1.0) <= FEW_NUMBERS


def can_be_one_file(problem: Problem) -> bool:
    """Return whether the parts are in this process."""
    return isinstance(problem.rows.engine, Threads) and not problem.rows.is_elsewhere


def _mapped(shape: tuple[int, ...], dtype: Any, folder: Path | None) -> Any:
    """Return an array in a file without a name; room for all of it is taken at once, or an OSError says that it is not."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if n_bytes <= LEAST_BYTES:
        return np.zeros(shape, dtype=dtype)
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # else a full disk would end the process at the first write
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        else:
            file.truncate(n_bytes)
        return np.asarray(np.memmap(file, dtype=dtype, mode="r+", shape=shape))


def index_type(n_stored: int, n_columns: int) -> Any:
    """Return the type of index that numbers of entries and of columns need.

    Examples
    --------
    >>> index_type(10, 5), index_type(2**31, 5), index_type(10, 2**31)
    (<class 'numpy.int32'>, <class 'numpy.int64'>, <class 'numpy.int64'>)
    """
    return np.int32 if max(n_stored, n_columns) < 2**31 else np.int64


def _stored_before(problem: Problem) -> tuple[Indices, Any]:
    """Return the numbers of stored entries before each part, and the type of index that all need."""

    def of_part(part: Problem, start: int, chosen: Any) -> list[int]:
        return [part.rows.values.size]

    sizes: list[int] = sum_over_parts(of_part, problem)  # lists are added one behind the other
    before = np.cumsum([0, *sizes])
    return before, index_type(int(before[-1]), problem.rows.n_columns)


def in_one_file(problem: Problem) -> Problem:
    """Return a problem in parts as one with the same rows in a mapped file, in the parts' order.

    Raises
    ------
    PartError
        There is no room on the disk.
    """
    given: PartedRows = problem.rows
    n, d, engine = given.n_rows, given.n_columns, given.engine
    folder = engine.folder() if isinstance(engine, Threads) else None
    try:
        types = {"targets": np.int64 if problem.loss.target_kind() == "class" else np.float64}
        beside = {
            name: _mapped(getattr(problem, name).shape, types.get(name, np.float64), folder)
            for name in ("targets", "offsets", "weights")
        }
        if given.is_sparse():
            before, index = _stored_before(problem)
            values, columns = (_mapped((int(before[-1]),), dtype, folder) for dtype in (given.values.dtype, index))
            rows: Any = CSRRows(values, columns, _mapped((n + 1,), index, folder), n, d, given.intercept)
        else:
            before, rows = np.zeros(len(given.parts) + 1, dtype=np.int64), _dense(given, folder)
    except OSError as error:
        raise PartError(
            f"the rows of all parts do not fit into one file, in which this method visits them: {error}. Name a folder "
            "with more room by Threads(folder=...), or take a method that sums over parts, such as newton-cg."
        ) from error
    firsts = {part.start: k for k, part in enumerate(given.parts)}

    def write(part: Problem, start: int, chosen: Any) -> None:
        here = slice(start, start + part.n_rows)
        for name, numbers in beside.items():
            numbers[here] = getattr(part, name)
        if isinstance(part.rows, CSRRows):
            first = int(before[firsts[start]])
            stored = slice(first, first + part.rows.values.size)
            rows.values[stored], rows.columns[stored] = part.rows.values, part.rows.columns
            rows.starts[start + 1 : start + 1 + part.n_rows] = part.rows.starts[1:].astype(rows.starts.dtype) + first
        else:
            rows.values[here] = part.rows.values

    sum_over_parts(write, problem)
    found = replace(problem, rows=rows, **beside)
    if rows.values.nbytes > MOST_AT_RANDOM:
        found.derived["stops_of_parts"] = tuple(part.stop for part in given.parts)
    return found


def _dense(given: PartedRows, folder: Path | None) -> DenseRows:
    values = _mapped((given.n_rows, given.n_columns), given.values.dtype, folder)
    return DenseRows(values, given.n_rows, given.n_columns, given.intercept)
