"""The Hessian of a linear model: the gram matrix of its rows, weighted with their curvatures."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import kernel
from finitesum.problems.linear import LinearSum, Problem
from finitesum.problems.rows import to_matrix

#: Rows of dense data that are weighted and multiplied at a time.
BLOCK = 2048


@kernel
def _add_grams(linear_sum: LinearSum, weights: Vector, lower: Matrix) -> None:
    for i in range(linear_sum.rows.n_rows):
        if weights[i] != 0.0:
            linear_sum.rows.gram_add(i, weights[i], lower)


def _dense_gram(problem: Problem, weights: Vector) -> Matrix:
    values = to_matrix(problem.rows)
    gram = np.zeros((problem.dim, problem.dim), order="F")
    for start in range(0, problem.n_rows, BLOCK):
        block = np.ones((min(BLOCK, problem.n_rows - start), problem.dim))
        block[:, : values.shape[1]] = values[start : start + BLOCK]
        block *= np.sqrt(weights[start : start + BLOCK, None])
        gram = blas.dsyrk(1.0, block.T, beta=1.0, c=gram, lower=True, overwrite_c=True)
    return np.ascontiguousarray(gram)


def hessian_of(problem: Problem, curvatures: Vector) -> Matrix:
    """Return sum_i p_i c_i z_i z_i' + l2 I on the penalised coordinates, symmetric, for curvatures c_i >= 0 of the rows."""
    weights = problem.weights * curvatures
    if problem.rows.is_sparse():
        gram = np.zeros((problem.dim, problem.dim))
        _add_grams(problem.view, weights, gram)
    else:
        gram = _dense_gram(problem, weights)
    penalised = np.arange(problem.rows.n_columns)
    gram[penalised, penalised] += problem.penalty.ridge()
    whole: Matrix = np.tril(gram) + np.tril(gram, -1).T
    return whole
