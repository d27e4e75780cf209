"""Multinomial logistic regression as a finite sum: K classes, a row of coefficients and an intercept each.

    F(W, b) = (1/S) sum_i s_i (logsumexp_k u_ik - u_{i, y_i}) + alpha/2 ||W||^2,    u_ik = w_k'x_i + b_k

An iterate is the matrix (W, b), shape (K, dim) with dim = d + 1 where there is an intercept, row by row in one vector.
Adding one number to all K intercepts changes nothing; the solution that is found has intercepts of mean 0. The data is read
in blocks of rows through matrix products: float32 rows are widened a block at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from finitesum.constraints import Constraint, Unconstrained
from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.problems.linear import digest_array
from finitesum.problems.penalties import ElasticNet, elastic_net
from finitesum.problems.rows import CSRRows, DenseRows, as_rows, to_matrix
from finitesum.problems.targets import checked_weights
from finitesum.problems.term import ConvexTerm

#: Numbers in a block of scores.
BLOCK_SIZE = 1 << 17

#: Share of stored entries above which a sparse block's Gram matrix is formed from a dense copy.
DENSE_ENOUGH = 0.05


class Multinomial(NamedTuple):
    """The loss logsumexp(u) - u_y: named for what a problem says of itself, and evaluated in this module."""

    scale: float = 1.0

    def is_smooth(self) -> bool:
        """Return True."""
        return True


LOSS = Multinomial()


@dataclass(frozen=True, eq=False)
class MultinomialProblem:
    """Multinomial logistic regression with an l2 penalty; made by `MultinomialProblem.linear`.

    Attributes
    ----------
    rows : DenseRows or CSRRows
    codes : ndarray of int64, shape (n,)
        The class of each row, 0 to K - 1.
    weights : ndarray of float64, shape (n,)
        They sum to 1.
    n_classes : int >= 2
        K.
    penalty : ElasticNet
        Without an l1 part.
    classes : ndarray, shape (K,)
        The labels behind the codes.
    """

    rows: DenseRows | CSRRows
    codes: Indices
    weights: Vector
    n_classes: int
    penalty: ElasticNet
    classes: Any
    loss: Multinomial = LOSS

    @classmethod
    def linear(
        cls,
        X: Any,
        y: Any,
        *,
        alpha: float = 0.0,
        l1_ratio: float = 0.0,
        fit_intercept: bool = False,
        sample_weight: Any = None,
    ) -> MultinomialProblem:
        """Return the problem of a multinomial model.

        Parameters
        ----------
        X : array_like or scipy sparse, shape (n, d)
        y : array_like, shape (n,)
            Labels of any kind, two or more.
        alpha : float >= 0
            Strength of the l2 penalty, against the weighted mean of the losses.
        l1_ratio : float
            Only 0 is treated.
        fit_intercept : bool
            Whether each class has an intercept; intercepts are never penalised.
        sample_weight : array_like, shape (n,), optional
            Weights >= 0; weight 2 means the same as the row written twice.

        Raises
        ------
        ValueError
            Mismatched input, one class only, a class without weight, or parameters out of range.

        Examples
        --------
        >>> problem = MultinomialProblem.linear([[0.0], [1.0], [2.0]], ["a", "b", "c"], alpha=0.1, fit_intercept=True)
        >>> problem.n_classes, problem.dim
        (3, 6)
        """
        penalty = elastic_net(alpha, l1_ratio)
        if penalty.lasso() > 0.0:
            raise ValueError(
                f"an l1 penalty is not treated with several classes, got l1_ratio={l1_ratio}. Set l1_ratio to 0, or "
                "fit one class against the rest."
            )
        rows = as_rows(X, intercept=fit_intercept)
        labels = np.asarray(y)
        if labels.shape != (rows.n_rows,):
            raise ValueError(f"y must have shape ({rows.n_rows},) to match the rows of X, got {labels.shape}.")
        weights = checked_weights(sample_weight, rows.n_rows)
        classes, codes = np.unique(labels, return_inverse=True)
        if classes.size < 2:
            raise ValueError("y must hold two classes or more, got one class only. Check the label column.")
        shares = np.bincount(codes, weights=weights, minlength=classes.size)
        if not (shares > 0.0).all():
            empty = classes[int(np.argmin(shares))].item()
            raise ValueError(f"every row of class {empty!r} has weight 0. Leave its rows out.")
        return cls(rows, codes.astype(np.int64), weights, int(classes.size), penalty, classes)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.rows.n_rows

    @property
    def n_components(self) -> int:
        """The number of components: the rows."""
        return self.rows.n_rows

    @property
    def batch_size(self) -> int:
        """1: a component is a row."""
        return 1

    @property
    def dim(self) -> int:
        """The length of an iterate."""
        return self.n_classes * self.rows.dim()

    @property
    def constraint(self) -> Constraint:
        """The whole space."""
        return self.term.constraint

    @property
    def is_constrained(self) -> bool:
        """False."""
        return self.term.is_constrained

    @cached_property
    def term(self) -> ConvexTerm:
        """The penalty, on the coefficients of each class."""
        rows = self.rows
        return ConvexTerm(self.penalty, Unconstrained(), rows.n_columns, int(rows.intercept), self.n_classes)

    @property
    def is_smooth(self) -> bool:
        """True."""
        return True

    @cached_property
    def matrix(self) -> Any:
        """The rows without the intercept, as an ndarray or CSR array."""
        return to_matrix(self.rows)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the data and the penalty."""
        digest = hashlib.blake2b(digest_size=16)
        data = (
            (self.rows.values,)
            if isinstance(self.rows, DenseRows)
            else (self.rows.values, self.rows.columns, self.rows.starts)
        )
        for array in (*data, self.codes, self.weights):
            digest_array(digest, array)
        digest.update(repr((self.n_classes, self.penalty, self.rows[-3:])).encode())
        return digest.hexdigest()

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield the rows in blocks: where they lie, and their matrix in float64."""
        size = max(1, BLOCK_SIZE // max(self.n_classes, min(self.rows.n_columns, 64)))
        for start in range(0, self.n_rows, size):
            here = slice(start, min(start + size, self.n_rows))
            yield here, self.matrix[here].astype(np.float64, copy=False)


def scores_at(problem: MultinomialProblem, x: Vector) -> Matrix:
    """Return u_ik, shape (n, K), for an iterate or a direction."""
    table = x.reshape(problem.n_classes, -1)
    d = problem.rows.n_columns
    scores = np.empty((problem.n_rows, problem.n_classes))
    for here, block in problem.blocks():
        scores[here] = block @ table[:, :d].T
    if problem.rows.intercept:
        scores += table[:, d]
    return scores


def pulled_back(problem: MultinomialProblem, pressed: Matrix) -> Matrix:
    """Return sum_i r_ik z_i for each class k, shape (K, dim), for r of shape (n, K)."""
    d = problem.rows.n_columns
    out = np.zeros((problem.n_classes, problem.rows.dim()))
    for here, block in problem.blocks():
        out[:, :d] += (block.T @ pressed[here]).T
    if problem.rows.intercept:
        out[:, d] = pressed.sum(axis=0)
    return out


def probabilities(scores: Matrix) -> Matrix:
    """Return exp(u_ik) / sum_l exp(u_il)."""
    shifted: Matrix = np.exp(scores - scores.max(axis=1, keepdims=True))
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted


def objective_at(problem: MultinomialProblem, scores: Matrix, x: Vector) -> float:
    """Return F at x, given its scores."""
    top = scores.max(axis=1)
    losses = top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - scores[np.arange(problem.n_rows), problem.codes]
    coefficients = x.reshape(problem.n_classes, -1)[:, : problem.rows.n_columns]
    return float(problem.weights @ losses + 0.5 * problem.penalty.ridge() * np.vdot(coefficients, coefficients))


def gradient_at(problem: MultinomialProblem, shares: Matrix, x: Vector) -> Vector:
    """Return the gradient of F at x, given the probabilities there."""
    pressed = shares * problem.weights[:, None]
    pressed[np.arange(problem.n_rows), problem.codes] -= problem.weights
    gradient = pulled_back(problem, pressed)
    d = problem.rows.n_columns
    gradient[:, :d] += problem.penalty.ridge() * x.reshape(problem.n_classes, -1)[:, :d]
    return gradient.reshape(-1)


def hessian_product(problem: MultinomialProblem, shares: Matrix, v: Vector) -> Vector:
    """Return the Hessian of F, given the probabilities at a point, times v: two reads of the data.

    (H V)_k = sum_i p_i P_ik (a_ik - sum_l P_il a_il) z_i + l2 V_k,    a_ik = V_k'z_i
    """
    changes = scores_at(problem, v)
    changes -= (shares * changes).sum(axis=1, keepdims=True)
    changes *= shares
    changes *= problem.weights[:, None]
    product = pulled_back(problem, changes)
    d = problem.rows.n_columns
    product[:, :d] += problem.penalty.ridge() * v.reshape(problem.n_classes, -1)[:, :d]
    return product.reshape(-1)


def weighted_gram(problem: MultinomialProblem, curvatures: Vector, chosen: Indices | None = None) -> Matrix:
    """Return sum_i c_i z_i z_i' over all rows, or the chosen ones, shape (dim, dim)."""
    d, dim = problem.rows.n_columns, problem.rows.dim()
    out = np.zeros((dim, dim))
    parts = problem.blocks() if chosen is None else [(chosen, problem.matrix[chosen].astype(np.float64))]
    for here, block in parts:
        weights = curvatures[here]
        if isinstance(block, np.ndarray) or block.nnz > DENSE_ENOUGH * block.shape[0] * d:
            block = block if isinstance(block, np.ndarray) else block.toarray()
            scaled = block * weights[:, None]
            out[:d, :d] += block.T @ scaled
        else:
            scaled = block.multiply(weights[:, None]).tocsr()
            out[:d, :d] += (block.T @ scaled).toarray()
        if problem.rows.intercept:
            out[d, :d] += np.asarray(scaled.sum(axis=0)).reshape(-1)
            out[d, d] += weights.sum()
    out[:d, d:] = out[d:, :d].T
    return out


def full_hessian(problem: MultinomialProblem, shares: Matrix) -> Matrix:
    """Return the Hessian of F, shape (K dim, K dim), given the probabilities: K (K + 1) / 2 Gram matrices.

    Block (k, l) is sum_i p_i P_ik ([k = l] - P_il) z_i z_i'.
    """
    n_classes, dim = problem.n_classes, problem.rows.dim()
    out = np.empty((n_classes, dim, n_classes, dim))
    for k in range(n_classes):
        for other in range(k + 1):
            curvatures = problem.weights * shares[:, k] * (float(k == other) - shares[:, other])
            gram = weighted_gram(problem, curvatures)
            if k == other:
                penalised = np.arange(problem.rows.n_columns)
                gram[penalised, penalised] += problem.penalty.ridge()
            out[k, :, other, :] = gram
            out[other, :, k, :] = gram
    return out.reshape(problem.dim, problem.dim)


def measure(problem: MultinomialProblem, x: Vector) -> tuple[float, Vector]:
    """Return objective and gradient at x, by one exact pass.

    Examples
    --------
    >>> problem = MultinomialProblem.linear([[1.0], [-1.0]], [0, 1])
    >>> objective, gradient = measure(problem, np.zeros(2))
    >>> round(objective, 6), gradient
    (0.693147, array([-0.5,  0.5]))
    """
    scores = scores_at(problem, x)
    return objective_at(problem, scores, x), gradient_at(problem, probabilities(scores), x)
