"""Covariance matrices that do not rest on the model's variances, and those of robust losses.

With s_i the weights (numbers of repetitions), S their sum, u_i the predictions, psi_i = dloss(y_i, u_i)/du, x_i with a 1
for the intercept and H the Hessian of F at the solution, the covariance matrix of the coefficients is by its `kind`

================  ==================================================================================================
``"model"``       phi (S H)^-1 with the mean curvature of the family and its dispersion phi: right where the model is
``"HC0"``         A^-1 (sum_i s_i psi_i^2 x_i x_i') A^-1 with A = S H: right where rows are independent [1]
``"HC1"``         the same times S / (S - p)
``"HC2"``         with psi_i^2 / (1 - h_i), h_i = c_i x_i' A^-1 x_i, c_i the curvature of the loss at row i
``"HC3"``         with psi_i^2 / (1 - h_i)^2
``"cluster"``     with the sum over groups g of the squares of sum_{i in g} s_i psi_i x_i, times
                  G / (G - 1) (S - 1) / (S - p)
================  ==================================================================================================

For the Huber loss, which is the likelihood of no model, "model" is k^2 (sum_i s_i psi_i^2 / (S - p)) / mean(psi')^2 (sum_i
s_i x_i x_i')^-1, k = 1 + p var(psi') / (S mean(psi')^2) [2, eq. 6.5].

References
----------
.. [1] J. G. MacKinnon, H. White, "Some heteroskedasticity-consistent covariance matrix estimators with improved finite
   sample properties", J. Econometrics 29 (1985).
.. [2] P. J. Huber, "Robust statistics", 1981, section 7.6.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from finitesum.core.arrays import Matrix, Vector
from finitesum.estimators.covariance import ROBUST, Covariance, covariance_at, hessian_of_outputs, inverse_and_rank
from finitesum.evaluation.hessian import hessian_at
from finitesum.evaluation.outputs import loss_of, scores_at
from finitesum.losses.arrays import in_arrays
from finitesum.problems.linear import Problem
from finitesum.problems.rows import products, to_matrix

#: Kinds of covariance matrices.
KINDS = ("model", "HC0", "HC1", "HC2", "HC3", "cluster")


class RowsAt:
    """The rows of a problem at a point: slopes, curvatures, matrix."""

    def __init__(self, problem: Problem, x: Vector, total: float) -> None:
        self.problem, self.x, self.total = problem, x, total
        self.weights = total * problem.weights
        known: Any = problem.one_output.rows
        self.matrix: Any = to_matrix(known)
        if problem.has_intercept:
            ones = np.ones((problem.n_rows, 1))
            is_dense = isinstance(self.matrix, np.ndarray)
            self.matrix = np.hstack([self.matrix, ones]) if is_dense else sp.hstack([self.matrix, ones]).tocsr()
        if problem.n_outputs > 1:
            self.slopes = np.asarray(loss_of(problem).d1(scores_at(problem, x), problem.targets))
            self.curvatures = np.zeros(0)
        else:
            u = products(problem.rows, x) + problem.offsets
            slopes, curvatures = in_arrays(problem.loss).d1_d2(u, problem.targets)
            self.slopes = np.broadcast_to(slopes, u.shape)[:, None]
            self.curvatures = np.broadcast_to(curvatures, u.shape)

    def inverse(self) -> tuple[Matrix, int]:
        """Return (S H)^-1 and the rank of H."""
        problem = self.problem
        if problem.n_outputs > 1:
            hessian = hessian_of_outputs(problem, self.x)
        else:
            hessian = hessian_at(problem, self.x)
        inverse, rank = inverse_and_rank(hessian)
        return inverse / self.total, rank

    def leverages(self, inverse: Matrix) -> Vector:
        """Return x_i' A^-1 x_i, shape (n,)."""
        return np.asarray((self.matrix * (self.matrix @ inverse)).sum(axis=1)).ravel()

    def squares(self, factors: Vector) -> Matrix:
        """Return sum_i f_i (psi_i x x_i)(psi_i x x_i)', class by class."""
        blocks = []
        for one in self.slopes.T:
            scaled = [_scaled(self.matrix, factors * one * other) for other in self.slopes.T]
            blocks.append([_dense(self.matrix.T @ part) for part in scaled])
        return np.block(blocks)

    def of_groups(self, groups: Any) -> Matrix:
        """Return sum_{i in g} s_i psi_i x_i of each group, shape (G, p)."""
        codes = np.unique(groups, return_inverse=True)[1]
        picks = [
            sp.csr_array((self.weights * one, (codes, np.arange(codes.size))), shape=(codes.max() + 1, codes.size))
            for one in self.slopes.T
        ]
        return np.hstack([_dense(pick @ self.matrix) for pick in picks])


def _scaled(matrix: Any, factors: Vector) -> Any:
    return matrix * factors[:, None] if isinstance(matrix, np.ndarray) else sp.diags_array(factors) @ matrix


def _dense(matrix: Any) -> Matrix:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def robust_covariance(problem: Problem, x: Vector, total: float, kind: str, groups: Any = None) -> Matrix:
    """Return the covariance matrix of a kind but "model", shape (p, p); see the table above."""
    rows = RowsAt(problem, x, total)
    inverse, rank = rows.inverse()
    if kind == "cluster":
        sums = rows.of_groups(groups)
        n_groups = len(sums)
        if n_groups < 2:
            raise ValueError(f"groups must hold two values or more, got {n_groups}: one group has no spread.")
        middle = sums.T @ sums * (n_groups / (n_groups - 1.0) * (total - 1.0) / (total - rank))
    else:
        factors = rows.weights
        if kind in ("HC2", "HC3"):
            if problem.n_outputs > 1:
                raise ValueError(f'kind="{kind}" is known for one output. Use "HC1" with several classes.')
            leverages = rows.leverages(inverse) * rows.curvatures
            factors = factors / np.maximum(1.0 - leverages, 1e-12) ** (1 if kind == "HC2" else 2)
        middle = rows.squares(factors)
        if kind == "HC1":
            middle = middle * (total / (total - rank))
    return inverse @ middle @ inverse


def model_covariance(problem: Problem, x: Vector, total: float) -> Covariance:
    """Return the covariance matrix of kind "model": of a likelihood, or of a robust loss."""
    known = covariance_at(problem, x, total)
    return known._replace(matrix=huber_covariance(problem, x, total)) if isinstance(problem.loss, ROBUST) else known


def huber_covariance(problem: Problem, x: Vector, total: float) -> Matrix:
    """Return the covariance matrix of an M-estimate by Huber's formula above."""
    rows = RowsAt(problem, x, total)
    inverse, rank = inverse_and_rank(_dense(rows.matrix.T @ _scaled(rows.matrix, rows.weights)))
    psi, inside = rows.slopes[:, 0], rows.curvatures
    share = float(rows.weights @ inside) / total
    spread = float(rows.weights @ (inside - share) ** 2) / total
    correction = 1.0 + rank * spread / (total * share**2)
    return correction**2 * float(rows.weights @ psi**2) / (total - rank) / share**2 * inverse
