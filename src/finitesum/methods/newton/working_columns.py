"""The columns of a working set, copied once and kept with the problem, and sums over all columns."""

from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.row_products import combination
from finitesum.evaluation.whole_arrays import LEAST_DENSITY
from finitesum.methods.subproblems.scaled_columns import ScaledColumns, without_intercept
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.rows import (
    CSRRows,
    DenseRows,
    copy_columns,
    joined_rows,
    n_entries,
    products,
    some_rows,
    squares_of,
    to_matrix,
    turned,
)
from finitesum.problems.term import ConvexTerm

#: Entries of sparse rows from which those without many zeros are copied as dense ones.
LEAST_ENTRIES = 1e4


class WorkingColumns(NamedTuple):
    """The columns of a working set."""

    columns: Indices
    unscaled: ScaledColumns  # the columns as rows
    inside: Indices  # their coordinates, and the intercept's
    term: ConvexTerm
    memory: Matrix  # of copied columns, with room for more; none of sparse ones

    @property
    def rows(self) -> DenseRows | CSRRows:
        """The columns as rows."""
        return self.unscaled.columns


@remembered_of_rows
def _source(problem: Problem) -> DenseRows | CSRRows:
    """Return what columns are copied from: dense rows, or the columns of sparse ones as rows."""
    rows = problem.rows
    if isinstance(rows, CSRRows) and n_entries(rows) < max(LEAST_DENSITY * rows.n_rows * rows.n_columns, LEAST_ENTRIES):
        return turned(rows)
    return rows if isinstance(rows, DenseRows) else DenseRows(to_matrix(rows).toarray(), *rows[3:])


def combined(problem: Problem, slopes: Vector) -> Vector:
    """Return sum_i s_i x_i: of sparse rows by their columns."""
    columns = _source(problem)
    if isinstance(columns, DenseRows):
        return combination(problem, slopes)
    found = products(columns, slopes)
    return np.append(found, slopes.sum()) if problem.has_intercept else found


def curvatures_of_columns(problem: Problem, curvatures: Vector) -> Vector:
    """Return the curvature of the mean loss along each coefficient, given those of rows, where an intercept follows it."""
    columns = _source(problem)
    if isinstance(columns, CSRRows):
        squares, means = products(columns._replace(values=columns.values**2), curvatures), products(columns, curvatures)
    else:
        squares, means = np.einsum("ij,ij,i->j", columns.values, columns.values, curvatures), curvatures @ columns.values
    if not problem.has_intercept:
        return squares
    return without_intercept(squares, means, float(curvatures.sum()))


def of_columns(problem: Problem, columns: Indices) -> WorkingColumns:
    """Return the columns of a working set, which are copied once.

    What is known is taken away and put back, so that of two runs on one problem, in two threads, one has it.
    """
    known: WorkingColumns | None = problem.derived.pop("working_set_columns", None)
    if known is None or not np.array_equal(known.columns, columns):
        if known is not None and not np.array_equal(known.columns, columns[: known.columns.size]):
            known = None
        source, memory = _source(problem), np.zeros((0, 0))
        rows: DenseRows | CSRRows
        if isinstance(source, DenseRows):
            rows, memory = _dense_columns(source, columns, known)
        else:
            rows = _sparse_columns(source, columns, known)
        inside = np.concatenate([columns, np.arange(problem.rows.n_columns, problem.dim)])
        known = WorkingColumns(columns, _unscaled(rows, problem), inside, problem.term.on_columns(columns), memory)
    problem.derived["working_set_columns"] = known
    return known


def _unscaled(rows: DenseRows | CSRRows, problem: Problem) -> ScaledColumns:
    means = products(rows, np.ones(rows.n_columns)) if problem.has_intercept else np.zeros(rows.n_rows)
    return ScaledColumns(rows, squares_of(rows), means)


def _sparse_columns(source: CSRRows, columns: Indices, known: WorkingColumns | None) -> CSRRows:
    new: Any = some_rows(source, columns[0 if known is None else known.columns.size :])
    new = new._replace(values=new.values.astype(np.float64, copy=False))
    return new if known is None else joined_rows(known.rows, new)  # type: ignore[arg-type]


def _dense_columns(source: DenseRows, columns: Indices, known: WorkingColumns | None) -> tuple[DenseRows, Matrix]:
    """Return the columns, and the memory that they are in, with room for as many more."""
    n_before = 0 if known is None else known.columns.size
    if known is None or len(memory := known.memory) < columns.size:
        memory = np.empty((min(2 * columns.size, source.n_columns), source.n_rows))
        if known is not None:
            memory[:n_before] = known.rows.values
    copy_columns(source, columns[n_before:], memory[n_before : columns.size])
    return DenseRows(memory[: columns.size], columns.size, source.n_rows, 0), memory
