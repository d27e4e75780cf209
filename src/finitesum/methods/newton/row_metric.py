r"""Some rows' Hessian, shrunk to the diagonal of that of all, as a preconditioner for conjugate gradients on dense rows.

With the Hessian H = sum_i c_i x_i x_i' + l2 W of a sample of n rows, D_0 the diagonal of its sum, and r of the rows,

    P = (1 - e) A'A + D,    A'A = (n/r) sum_{i of r} c_i x_i x_i',    D = e D_0 + l2 W

takes directions in which rows vary much from few rows, and the others from the diagonal. e is Ledoit and Wolf's [1]: with
z_i = D_1^(-1/2) sqrt(n c_i) x_i, D_1 = D_0 + l2 W, S their mean of z_i z_i' over m rows and t its trace by dim,

    e = v/r / (s + v/r),   v/m = (sum_i ||z_i z_i'||^2 / m - ||S||^2) / (m - 1),   s = ||S||^2 - dim t^2 - v/m.

It is 1 where no direction is more than the others, which some of the rows, m, tell before the r are multiplied. By the
formula of Sherman, Morrison and Woodbury, B = (1 - e)^(1/2) A D^(-1/2),

    P^-1 = D^(-1/2) (I - B' (I + B B')^-1 B) D^(-1/2)

takes two products with B, shape (r, dim), and a Cholesky factor of r rows. r is what an eighth of the rows and the time of
some passes allow.

References
----------
.. [1] O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance matrices", J. Multivariate
   Anal. 88 (2004).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.row_products import copy_for_products
from finitesum.evaluation.samples import Sample
from finitesum.methods.cost_model import costs_of
from finitesum.methods.subproblems.positive_definite import apply_inverse, raised_factor
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.view import chosen_rows

#: Rows of a sample for each that is taken: so a solution costs a part of a pass; the fewest that are; and those of them,
#: by whom is seen whether the others pay.
ROWS_FOR_EACH, FEWEST_ROWS, SEEN = 8, 32, 4

#: Nanoseconds of a multiplication in the product of rows, and the passes that it may cost.
PRODUCT, WORTH_PASSES = 0.01, 2.0

#: The least and the largest e: beyond, rows tell more of noise than of H, and the diagonal alone is as good.
LEAST_SHRUNK, MOST_SHRUNK = 1e-3, 0.5

#: The largest trace of B B' with which it is in single precision.
MOST_SINGLE = 1e5

#: P is made again where the mean curvature is this many times as large or small as it was.
CHANGED = 2.0


class RowMetric(NamedTuple):
    """P; empty where it is a diagonal."""

    rows: Matrix = np.zeros((0, 0))  # (r, dim)  B
    factor: Matrix = np.zeros((0, 0))  # (r, r)  of I + B B'
    scale: Vector = np.zeros(0)  # (dim,)  D^(-1/2)
    curvature: float = math.nan  # mean of the sample's rows


def rows_that_pay(problem: Problem, n_sampled: int) -> int:
    """Return how many rows are taken of a sample; 0 where none are: of sparse rows, of few, and without an l2 penalty."""
    if problem.rows.is_sparse() or is_parted(problem) or not (problem.is_smooth and problem.term.ridge > 0.0):
        return 0
    by_time = math.sqrt(WORTH_PASSES * n_sampled * costs_of(problem).gradient / (PRODUCT * problem.dim))
    r = min(problem.dim, n_sampled // ROWS_FOR_EACH, int(by_time))
    return r if r >= FEWEST_ROWS else 0


def metric_at(problem: Problem, curvatures: Any, sample: Sample, order: Indices, diagonal: Vector) -> RowMetric:
    """Return P for a sample's rows of given curvatures, with the first components in an order, and the diagonal of H."""
    n_sampled = sample.n_rows(problem)
    r = rows_that_pay(problem, n_sampled)
    chosen = np.sort(order[: -(-r // (problem.batch_size or 1))])
    rows = np.arange(problem.n_rows)[chosen_rows(problem.view, chosen)]
    rows = rows[np.linspace(0, rows.size, r, endpoint=False).astype(np.int64)]
    weights = problem.weights[rows] * curvatures[rows] * (n_sampled / (rows.size * sample.weight))
    of_rows = copy_for_products(problem).problem.rows
    table = np.ones((rows.size, problem.dim), of_rows.values.dtype)
    table[:, : of_rows.n_columns] = of_rows.values[rows]
    table *= np.sqrt(weights)[:, None].astype(table.dtype)
    shrunk, trace = _shrinkage(table[::SEEN] / np.sqrt(diagonal).astype(table.dtype), rows.size)
    curvature = _mean_curvature(problem, curvatures, sample)
    if not shrunk <= MOST_SHRUNK:  # NaN, too
        return RowMetric(curvature=curvature)
    of_penalty = sample.ridge * problem.term.weights
    scale = 1.0 / np.sqrt(of_penalty + shrunk * np.maximum(diagonal - of_penalty, LEAST_SHRUNK * diagonal))
    kind = np.float32 if trace <= MOST_SINGLE * shrunk else np.float64
    table = (table * (math.sqrt(1.0 - shrunk) * scale)).astype(kind)
    product = table @ table.T
    product[np.diag_indices(rows.size)] += 1.0
    if not np.isfinite(product).all():
        return RowMetric(curvature=curvature)
    return RowMetric(table, raised_factor(product, 0.0)[0], scale, curvature)


def has_changed(metric: RowMetric, problem: Problem, curvatures: Any, sample: Sample) -> bool:
    """Return whether P is to be made where it pays: for the first time, or of curvatures that have changed."""
    if rows_that_pay(problem, sample.n_rows(problem)) == 0:
        return False
    now = _mean_curvature(problem, curvatures, sample)
    return not now / CHANGED <= metric.curvature <= CHANGED * now


def _mean_curvature(problem: Problem, curvatures: Any, sample: Sample) -> float:
    if sample.is_complete(problem):
        return float(problem.weights @ curvatures)
    rows = chosen_rows(problem.view, sample.components)
    return float(problem.weights[rows] @ curvatures[rows]) / sample.weight


def _shrinkage(table: Matrix, r: int) -> tuple[float, float]:
    """Return e for r rows, and the trace of their S, from some of them: shape (m, dim), of all n, divided by sqrt(r).

    e is 1 where none of them has curvature: nothing is known of S.
    """
    m, dim = table.shape
    product = (table @ table.T).astype(np.float64) * (r / m)
    square, trace = float(np.einsum("ij,ij->", product, product)), float(np.trace(product))
    noise = max(float((np.diagonal(product) ** 2).sum()) - square / m, 0.0) / (m - 1)  # of the m rows
    signal = max(square - trace**2 / dim - noise * m, 1e-12 * square)
    noise *= m * m / r
    if signal + noise == 0.0:
        return 1.0, trace
    return max(noise / (signal + noise), LEAST_SHRUNK), trace


def solved(metric: RowMetric, right: Vector) -> Vector:
    """Return P^-1 times a vector."""
    scaled = metric.scale * right
    kind = metric.rows.dtype
    inside = apply_inverse(metric.factor, metric.rows @ scaled.astype(kind))
    return np.asarray(metric.scale * (scaled - metric.rows.T @ inside), np.float64)


def of_shape(r: int, dim: int, kind: Any) -> RowMetric:
    """Return an empty P of r rows, in a precision."""
    kind = np.float32 if kind == np.float32 else np.float64
    return RowMetric(np.zeros((r, dim), kind), np.zeros((r, r), kind, "F"), np.zeros(dim))
