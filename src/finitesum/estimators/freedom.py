"""Degrees of freedom of a model with a penalty: the trace of H (H + Q)^-1 over the coefficients that are not 0.

H is the Hessian of the mean loss, Q the diagonal of the l2 penalty, with a 0 for each intercept; columns without a
coefficient are left out. With an l2 penalty of one strength and more columns than rows, once the intercept is eliminated,
H and S (X - m) (X - m)' S have the same eigenvalues but for zeros: S has the roots of the rows' curvatures on its diagonal,
and m is the mean row by these.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.evaluation.hessian import hessian_at
from finitesum.evaluation.outputs import full_hessian, loss_of, scores_at
from finitesum.evaluation.row_space import products_of_rows
from finitesum.evaluation.row_sums import curvatures_at
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows, DenseRows, columns_of


def active_in(problem: Problem, x: Vector) -> tuple[Flags, int]:
    """Return the coordinates that are not 0, or of an intercept, and how many of them are coefficients."""
    active = (x != 0.0).reshape(problem.n_outputs, -1)
    n_coefficients = int(np.count_nonzero(active[:, : problem.rows.n_columns]))
    active[:, problem.rows.n_columns :] = True
    return active.ravel(), n_coefficients


def degrees_of_freedom(problem: Problem, x: Vector) -> float:
    """Return the trace at a solution of the problem."""
    if isinstance(problem.rows, DenseRows | CSRRows):
        problem, x = _in_columns_of(problem, x)
        if _is_by_rows(problem):
            return _by_rows(problem, x)
    active, _ = active_in(problem, x)
    penalised = _hessian(problem, x)[np.ix_(active, active)]
    bare = penalised - np.diag(problem.term.quadratic[active])
    return float(np.trace(np.linalg.lstsq(penalised, bare, rcond=None)[0]))


def _hessian(problem: Problem, x: Vector) -> Matrix:
    if problem.n_outputs == 1:
        return hessian_at(problem, x)
    return full_hessian(problem, loss_of(problem).curvatures(scores_at(problem, x)))


def _in_columns_of(problem: Problem, x: Vector) -> tuple[Problem, Vector]:
    """Return the problem in the columns that have a coefficient, and the point there."""
    d, table = problem.rows.n_columns, x.reshape(problem.n_outputs, -1)
    columns = np.flatnonzero(table[:, :d].any(axis=0))
    if columns.size == 0:  # there are no rows without columns
        columns = np.zeros(1, dtype=columns.dtype)
    if columns.size == d:
        return problem, x
    term: Any = problem.term.on_columns(columns)
    rows = columns_of(problem.rows, columns)
    part = replace(problem, rows=rows, penalty=term.penalty, constraint=term.constraint)
    kept = np.append(columns, np.arange(d, table.shape[1]))
    return part, np.ascontiguousarray(table[:, kept]).ravel()


def _is_by_rows(problem: Problem) -> bool:
    """Return whether products of the rows are fewer numbers, with one l2 strength for all columns."""
    of_columns = problem.term.quadratic[: problem.rows.n_columns]
    is_one = of_columns.size > problem.n_rows and bool((of_columns == of_columns[0]).all())
    return problem.n_outputs == 1 and is_one and of_columns[0] > 0.0


def _by_rows(problem: Problem, x: Vector) -> float:
    products, curvatures = products_of_rows(problem), problem.weights * curvatures_at(problem, x)
    total, n_free = float(curvatures.sum()), int(problem.has_intercept)
    if problem.has_intercept and total > 0.0:
        first = products @ curvatures / total
        products = products - first[:, None] - first + float(first @ curvatures) / total
    roots, strength = np.sqrt(curvatures), float(problem.term.quadratic[0])
    values = np.maximum(np.linalg.eigvalsh(roots[:, None] * products * roots), 0.0)
    return n_free * float(total > 0.0) + float((values / (values + strength)).sum())
