r"""The Kronecker product of two small matrices in the place of a Hessian of several outputs, whole or of low rank.

    M = C (x) G + l2 I,    G = sum_i c_i x_i x_i' / sum_i c_i,    C = sum_i p_i C_i,    c_i = p_i trace(C_i)

with C_i the second derivative of row i's loss in its K scores. With C = U diag(c) U' and G = Q diag(g) Q',

    M^-1 = (U (x) Q) diag(1 / (c_k g_j + l2)) (U (x) Q)'.

Of many rows some are chosen, spread evenly. To the diagonal of their G comes what they lack of the second moments over all
rows of columns of which they have less than half: one that is 0 in all chosen rows would seem to have no curvature.

Where columns hardly depend on each other, the diagonal of G takes its place, and Q = I.

With many columns G is known in the directions in which it is largest [1]: Q, shape (dim, r), is an orthonormal basis of
X' D z for r random vectors z, D = diag(sqrt(c_i)), turned to the eigenvectors of Q'GQ, and the other directions have
the mean of what is left of the trace, at most the least g_j. That takes two products of the rows with r vectors, which
cost much less than r passes, and a product with M^-1 4 K dim r multiplications. r is what some passes pay for, and a
quarter of it where the directions beyond have less curvature than l2.

References
----------
.. [1] N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness", SIAM Review 53 (2011).
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.evaluation.hessian import add_gram
from finitesum.evaluation.row_blocks import sum_over_problems
from finitesum.evaluation.row_products import gram_diagonal, squares_of_rows
from finitesum.losses.classes import weighted
from finitesum.methods.class_costs import nanoseconds_of_pass
from finitesum.methods.newton.class_factor import LEAST_SINGLE
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows

#: Rows that G is made of for each column.
ROWS_FOR_EACH = 8

#: The part of a column's second moment from which chosen rows stand for all: columns far from 0 lack by chance what is much
#: by their variance.
SEEN = 0.5

#: Rows that a diagonal of G is made of, at most.
DIAGONAL_ROWS = 2000

#: Passes that G of low rank may cost, and those that a product with M^-1 may, and the least rank.
RANK_PASSES, SOLVE_PASSES, LEAST_RANK = 25.0, 0.25, 8

#: Nanoseconds, on one core: of a multiplication in a product of dense rows with many vectors, of one of the dim r^2 by
#: which a basis is made orthonormal, and of one of the 2 K dim r in a product with M^-1.
SKETCHED, ORTHONORMAL, SOLVED = 0.035, 0.5, 0.1

#: The least ridge, by the largest eigenvalue that M may have, with which its factors are in single precision.
SMALL_RIDGE = 1e-7


class KroneckerFactors(NamedTuple):
    """M^-1 in the eigenvectors of its factors; empty where there is none."""

    of_outputs: Matrix = np.zeros((0, 0))  # (K, K)  U
    of_columns: Matrix = np.zeros((0, 0))  # (dim, r)  Q; (dim, 0) where G is a diagonal
    values: Matrix = np.zeros((0, 0))  # (K, r)  c_k g_j + l2; (K, dim) of a diagonal
    rest: Vector = np.zeros(0)  # (K,)  the same of the directions that Q leaves out
    curvature: float = 0.0  # trace(C)


def rank_that_pays(problem: Problem) -> int:
    """Return the largest rank of G whose time is that of some passes; 0 where it would be too small, and for sparse rows.

    A pass over sparse rows takes little more time than the other work of a step, of which M^-1 would be a large part.
    """
    if problem.rows.is_sparse():
        return 0
    dim, a_pass = problem.rows.dim(), nanoseconds_of_pass(problem, is_single=False)
    linear = 2.0 * SKETCHED * problem.rows.values.size
    most = RANK_PASSES * a_pass
    rank = int(2.0 * most / (linear + math.sqrt(linear**2 + 4.0 * ORTHONORMAL * dim * most)))
    rank = min(rank, int(SOLVE_PASSES * a_pass / (2.0 * SOLVED * problem.n_outputs * dim)))
    return min(rank, dim, problem.n_rows) if rank >= LEAST_RANK else 0


def whole_factors(problem: Problem, scores: Matrix) -> KroneckerFactors:
    """Return M at given scores, of rows spread evenly over all; an empty one where it overflows."""
    dim = problem.rows.dim()
    n_chosen = min(problem.n_rows, ROWS_FOR_EACH * dim)
    chosen = np.linspace(0, problem.n_rows - 1, n_chosen).astype(np.int64)
    of_outputs, sizes = _curvatures(problem, scores, chosen)
    is_single = dim >= LEAST_SINGLE and not problem.rows.is_sparse()
    gram = _single_gram(problem, sizes, chosen) if is_single else several.weighted_gram(problem, sizes, chosen)
    if is_single and not problem.term.ridge >= SMALL_RIDGE * float(np.trace(gram)) * np.trace(of_outputs):
        gram = several.weighted_gram(problem, sizes, chosen)
    gram[np.diag_indices(dim)] += _left_out(problem, chosen)
    if not (np.isfinite(gram).all() and np.isfinite(of_outputs).all()):  # after an overflow
        return KroneckerFactors()
    of_rows, of_columns = scipy.linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    return _factors(problem, of_outputs, of_rows.astype(np.float64), of_columns, 0.0)


def diagonal_factors(problem: Problem, scores: Matrix) -> KroneckerFactors:
    """Return M at given scores with the diagonal of G, of rows spread evenly; an empty one where it overflows."""
    n_chosen = min(problem.n_rows, DIAGONAL_ROWS)
    chosen = np.linspace(0, problem.n_rows - 1, n_chosen).astype(np.int64)
    of_outputs, sizes = _curvatures(problem, scores, chosen)
    by_weight = np.divide(sizes, problem.weights, out=np.zeros(problem.n_rows), where=problem.weights > 0.0)
    squares = gram_diagonal(problem.one_output.by_rows, by_weight, chosen) + _left_out(problem, chosen)
    if not (np.isfinite(squares).all() and np.isfinite(of_outputs).all()):
        return KroneckerFactors()
    return _factors(problem, of_outputs, squares, np.zeros((squares.size, 0)), 0.0)


def low_rank_factors(problem: Problem, scores: Matrix, rank: int) -> KroneckerFactors:
    """Return M at given scores with G of this rank, or a quarter of it; an empty one where it overflows."""
    of_outputs, sizes = _curvatures(problem, scores, np.arange(problem.n_rows))
    if not (np.isfinite(sizes).all() and np.isfinite(of_outputs).all()):
        return KroneckerFactors()
    few, largest = max(rank // 4, min(LEAST_RANK, rank)), float(np.linalg.norm(of_outputs, 2))
    for r in (few, rank)[few == rank :]:
        values, basis = _largest_directions(problem, sizes, r)
        if not np.isfinite(values).all():
            return KroneckerFactors()
        if largest * values[0] <= problem.term.ridge:
            break
    n_left = min(problem.n_rows, problem.rows.dim()) - values.size
    trace = float(sizes @ (squares_of_rows(problem.one_output) + float(problem.has_intercept)))
    left = min(max(trace - float(values.sum()), 0.0) / n_left, float(values[0])) if n_left else 0.0
    return _factors(problem, of_outputs, values, basis, left)


def _curvatures(problem: Problem, scores: Matrix, chosen: Indices) -> tuple[Matrix, Vector]:
    """Return C of the chosen rows, and c_i / sum_i c_i, 0 for the others."""
    loss, outputs, sizes = several.loss_of(problem), range(problem.n_outputs), np.zeros(problem.n_rows)
    weights = problem.weights[chosen] * (problem.n_rows / chosen.size)
    curvatures = loss.curvatures(scores[chosen].astype(np.float64, copy=False))
    of_outputs = np.empty((problem.n_outputs, problem.n_outputs))
    for k in outputs:
        for other in range(k + 1):
            entries = weighted(loss.curvature_entry(curvatures, k, other).copy(), weights)
            of_outputs[k, other] = of_outputs[other, k] = entries.sum()
            if k == other:
                sizes[chosen] += entries
    total = float(sizes.sum())
    return of_outputs, sizes / total if total > 0.0 else sizes


def _left_out(problem: Problem, chosen: Indices) -> Vector:
    """Return what chosen rows lack of the second moments of columns that are mostly in other rows, shape (dim,)."""
    total = float(problem.weights[chosen].sum())
    if chosen.size == problem.n_rows or not total > 0.0:
        return np.zeros(problem.rows.dim())
    found = gram_diagonal(problem.one_output.by_rows, np.ones(problem.n_rows), chosen)
    moments = _second_moments(problem)
    with np.errstate(all="ignore"):  # after an overflow
        return np.where(found / total < SEEN * moments, moments - found / total, 0.0)


@remembered_of_rows
def _second_moments(problem: Problem) -> Vector:
    """Return sum_i p_i x_ij^2, shape (dim,), p summing to 1."""
    return gram_diagonal(problem.one_output.by_rows, np.ones(problem.n_rows))


def _single_gram(problem: Problem, weights: Vector, chosen: Indices) -> Matrix:
    """Return the Gram matrix of chosen dense rows, in single precision."""
    sums = np.zeros((problem.rows.dim(), problem.rows.dim()))
    add_gram(problem.one_output.by_rows, chosen, weights[chosen], sums, single_precision=True)
    return sums.astype(np.float32)


def _largest_directions(problem: Problem, sizes: Vector, rank: int) -> tuple[Vector, Matrix]:
    """Return r eigenvalues of G, increasing, as found on a random subspace, and their vectors, shape (dim, r)."""
    many, roots = replace(problem.one_output, n_outputs=rank), np.sqrt(sizes)[:, None]
    random = np.random.default_rng(0).standard_normal((problem.n_rows, rank))
    found = several.sum_of_rows(many, roots * random)
    if not np.isfinite(found).all():
        return np.full(rank, np.nan), found.T
    basis = scipy.linalg.qr(found.T, mode="economic", check_finite=False)[0]
    products = roots * several.score_changes(many, basis.T.reshape(-1))
    values, turned = np.linalg.eigh(products.T @ products)
    return values, basis @ turned


def _factors(problem: Problem, of_outputs: Matrix, of_rows: Vector, of_columns: Matrix, left: float) -> KroneckerFactors:
    """Return M of C, the eigenvalues of G and their vectors, and the eigenvalue of all other directions."""
    of_classes, turned = np.linalg.eigh(of_outputs)
    of_classes = np.maximum(of_classes, 0.0)
    values = np.outer(of_classes, np.append(np.maximum(of_rows, 0.0), left)) + problem.term.ridge
    values = np.maximum(values, 1e-10 * float(values.max()) or 1.0)
    return KroneckerFactors(turned, of_columns, values[:, :-1], values[:, -1], float(np.trace(of_outputs)))


def has_changed(problem: Problem, factors: KroneckerFactors, scores: Matrix, factor: float) -> bool:
    """Return whether trace(C) at given scores differs from what it was by more than this factor."""

    def trace(part: Problem, here: Matrix) -> float:
        loss = several.loss_of(part)
        curvatures = loss.curvatures(here.astype(np.float64, copy=False))
        entries = (loss.curvature_entry(curvatures, k, k) for k in range(part.n_outputs))
        return float(sum(part.weights @ entry for entry in entries))

    now = sum_over_problems(trace, problem, reads=(scores,))
    return not now / factor <= factors.curvature <= factor * now


def solved(factors: KroneckerFactors, right: Matrix) -> Matrix:
    """Return M^-1 times a vector, or times each of several; they stay as they are where there is no M."""
    outputs, columns, values, rest, _ = factors
    if values.size == 0:
        return right
    table = right.reshape(-1, outputs.shape[0], columns.shape[0])
    turned = (outputs.T @ table).astype(columns.dtype, copy=False)
    if columns.shape[1] == 0:
        found = turned / values
    elif columns.shape[0] == columns.shape[1]:
        found = _times((_times(turned, columns) / values).astype(columns.dtype, copy=False), columns.T)
    else:
        inside = _times(turned, columns)
        found = turned / rest[:, None]
        found += _times(inside / values - inside / rest[:, None], columns.T)
    return np.asarray((outputs @ found).reshape(right.shape), right.dtype)


def _times(tables: Matrix, matrix: Matrix) -> Matrix:
    """Return the products of all tables and a matrix, by one product."""
    return (tables.reshape(-1, tables.shape[-1]) @ matrix).reshape(*tables.shape[:-1], -1)
