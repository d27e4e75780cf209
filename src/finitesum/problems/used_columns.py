"""Sparse rows without the columns that have no entry, as hashed features leave most of them.

The loss does not see the coefficient of such a column, and an l1 or l2 penalty is least where it is 0. So the problem in
the other columns has the same minimum, and passes that read the rows, which are few entries, do not go over vectors of a
million numbers. Rows keep their entries, in the same order; their indices are copied.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered, remembered_of_rows
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.rows import CSRRows

#: Columns from which unused ones are looked for, entries of a column at most, on average, and the part of columns with
#: entries up to which the others are left out.
LEAST_COLUMNS, MOST_ENTRIES, MOST_USED = 1000, 4.0, 0.7


@dataclass(frozen=True)
class UsedColumns:
    """A problem in the columns that have entries."""

    problem: Problem
    columns: Indices  # of those of all, increasing
    n_columns: int  # of all

    @property
    def dim(self) -> int:
        """The number of variables in all columns."""
        return int(self.n_columns + self.problem.rows.intercept) * self.problem.n_outputs

    @cached_property
    def places(self) -> Indices:
        """Where the variables of the problem are among those of all columns."""
        size, n = self.n_columns + self.problem.rows.intercept, self.problem.n_outputs
        of_one = np.append(self.columns, np.arange(self.n_columns, size))
        places: Indices = (size * np.arange(n)[:, None] + of_one).ravel()
        return places

    def outward(self, x: Vector) -> Vector:
        """Return a point, or a gradient, with 0 for the columns without entries."""
        found = np.zeros(self.dim)
        found[self.places] = x
        return found

    def inward(self, x: Vector) -> Vector:
        """Return a point in the used columns: the coefficients of others are left out, and so 0."""
        return np.asarray(x[self.places])


@remembered_of_rows
def _used_rows(problem: Problem) -> tuple[Indices, CSRRows] | None:
    """Return the columns with entries and the rows in them; None where they are most of all."""
    rows: CSRRows = problem.rows
    is_used = np.zeros(rows.n_columns, dtype=bool)
    is_used[rows.columns] = True
    columns = np.flatnonzero(is_used)
    if not 0 < columns.size <= MOST_USED * rows.n_columns:
        return None
    places = np.empty(rows.n_columns, dtype=rows.columns.dtype)
    places[columns] = np.arange(columns.size)
    return columns, rows._replace(columns=places[rows.columns], n_columns=columns.size)


@remembered
def in_used_columns(problem: Problem) -> UsedColumns | None:
    """Return the problem in the columns that have entries, None where these are most of all or others may be needed.

    That is for sparse rows in memory with an elastic net of some strength for all coefficients, and no set.

    Examples
    --------
    >>> import scipy.sparse
    >>> X = scipy.sparse.csr_array(([1.0, 2.0], ([0, 1], [7, 5000])), shape=(2, 10_000))
    >>> used = in_used_columns(Problem.linear(X, [0, 1], alpha=0.1))
    >>> used.columns, used.problem.dim
    (array([   7, 5000]), 2)
    """
    term, rows = problem.term, problem.rows
    if not isinstance(rows, CSRRows) or rows.n_columns < LEAST_COLUMNS:
        return None
    if rows.values.size > MOST_ENTRIES * rows.n_columns or term.is_constrained or term.has_weights:
        return None
    if not isinstance(problem.penalty, ElasticNet) or not (term.ridge > 0.0 or term.lasso > 0.0):
        return None
    if (known := _used_rows(problem)) is None:
        return None
    columns, fewer = known
    found = replace(problem, rows=fewer)
    vars(found)["of_rows"] = memory = problem.of_rows.setdefault("in_used_columns", {})
    memory["n_sharing"] = problem.n_sharing
    return UsedColumns(found, columns, rows.n_columns)
