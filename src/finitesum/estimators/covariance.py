"""Covariance matrices of estimates, from the Hessian at the solution.

The Hessian of the sum of the losses and the penalty is S times that of F, with the mean of a loss's second derivative over
targets in its place where the two differ (gamma, Tweedie, negative binomial). Its inverse, times the dispersion phi
(1 for logistic, binomial, Poisson and negative binomial; an estimate of the variance for least squares; for gamma and
Tweedie Pearson's, sum_i s_i (y_i - m_i)^2 / V(m_i) / (S - p)), is the covariance matrix of a maximum likelihood estimate;
with a penalty it is that of the posterior's normal approximation. Coefficients that an l1
penalty holds at 0 are not free: their rows and columns are NaN.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, qr

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.hessian import gram, hessian_of
from finitesum.evaluation.outputs import full_hessian, loss_of, scores_at
from finitesum.evaluation.row_products import combination, predictions
from finitesum.evaluation.row_sums import curvatures_at
from finitesum.losses import LIKELIHOODS, Huber, LogCosh, PseudoHuber, Squared
from finitesum.losses.classes import Multinomial
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import products

#: Eigenvalues of the scaled Hessian that are smaller than this times the largest are rounding errors of sums over the rows.
ROUNDING = 1e-13

#: Losses that are the likelihood of no model, whose errors are those of M-estimates.
ROBUST = (Huber, PseudoHuber, LogCosh)

#: Columns whose standard deviation is smaller than this times their mean are constant.
CONSTANT = 1e-12


def _scaled_eigen(matrix: Matrix) -> tuple[Vector, Vector, Matrix]:
    """Return a scale D and the eigenvalues and -vectors of D H D, whose diagonal holds ones (and zeros)."""
    roots = np.sqrt(np.diagonal(matrix))
    scale = np.divide(1.0, roots, out=np.ones_like(roots), where=roots > 0.0)
    values, vectors = eigh(matrix * np.outer(scale, scale))
    return scale, values, vectors


def inverse_and_rank(hessian: Matrix) -> tuple[Matrix, int]:
    """Return the pseudo-inverse of a symmetric matrix >= 0, and its rank.

    The diagonal is scaled to ones first, which distinguishes columns in any units from columns that depend on others. With
    an orthonormal basis N of the null space, H + N C N' has the inverse H^+ + N C^-1 N'.
    """
    scale, values, vectors = _scaled_eigen(hessian)
    missing = values <= ROUNDING * values.max(initial=0.0)
    outside = np.eye(values.size)
    if missing.any():
        null = qr(scale[:, None] * vectors[:, missing], mode="economic")[0]
        curvatures = np.diagonal(hessian) @ (null * null)
        curvatures[curvatures == 0.0] = 1.0
        scale, values, vectors = _scaled_eigen(hessian + (null * curvatures) @ null.T)
        outside -= null @ null.T
    roots = outside @ (scale[:, None] * vectors)
    return (roots / values) @ roots.T, int(values.size - missing.sum())


def centred_gram(gram: Matrix, mean: Vector, total: float) -> Matrix:
    """Return sum_i s_i (x_i - mean)(x_i - mean)' from sum_i s_i x_i x_i', with 0 where only rounding errors are left."""
    centred: Matrix = gram - total * np.outer(mean, mean)
    constant = np.diagonal(centred) <= ROUNDING * np.diagonal(gram)
    centred[constant], centred[:, constant] = 0.0, 0.0
    return centred


class Centred(NamedTuple):
    """The Hessian of the losses where columns are centred by the mean that makes the intercept independent of them."""

    gram: Matrix  # (d, d)
    mean: Vector  # (d,)
    curvature: float  # of the intercept


def with_intercept(centred: Centred, ridge: float | Vector) -> tuple[Matrix, int]:
    """Return the inverse Hessian of coefficients and intercept, with an l2 penalty on each of them, and its rank.

    Columns far from 0 lose no digits: for centred columns the intercept is b + mean'w, and independent of w.
    """
    gram, mean, curvature = centred.gram.copy(), centred.mean, centred.curvature
    constant = np.diagonal(gram) <= curvature * (CONSTANT * mean) ** 2
    gram[constant], gram[:, constant] = 0.0, 0.0
    hessian = gram + np.diag(np.broadcast_to(ridge, mean.size))
    inverse, rank = inverse_and_rank(hessian)
    if rank == mean.size and curvature > 0.0:
        cross = inverse @ mean
        corner = np.array([[1.0 / curvature + mean @ cross]])
        return np.block([[inverse, -cross[:, None]], [-cross[None, :], corner]]), rank + 1
    side = curvature * mean
    whole = np.block([[hessian + np.outer(side, mean), side[:, None]], [side[None, :], np.array([[curvature]])]])
    return inverse_and_rank(whole)


def predictions_at(problem: Problem, x: Vector) -> Vector:
    """Return u_i, offsets included, shape (n,)."""
    found = predictions(problem, x) if is_parted(problem) else products(problem.rows, x)
    return np.asarray(found + problem.offsets)


def _means(problem: Problem, x: Vector) -> Any:
    loss: Any = problem.loss
    return loss.mean_at(predictions_at(problem, x))


def information_at(problem: Problem, x: Vector) -> Vector:
    """Return the mean of each row's second derivative over targets of the model, shape (n,)."""
    loss: Any = problem.loss
    if hasattr(loss, "information_at"):
        return np.asarray(loss.scale * loss.information_at(_means(problem, x)))
    return curvatures_at(problem, x)


def _centred_at(problem: Problem, x: Vector) -> Centred:
    weights = problem.weights * information_at(problem, x)
    total, d = float(weights.sum()), problem.rows.n_columns
    mean = combination(problem, weights)[:d] * (1.0 / total if total > 0.0 else 0.0)
    if problem.rows.is_sparse():  # their columns are mostly 0: not far from 0
        return Centred(centred_gram(gram(problem, weights)[:d, :d], mean, total), mean, total)
    return Centred(gram(problem, weights, centre=mean)[:d, :d], mean, total)


def _inverse_at(problem: Problem, x: Vector, free: Any) -> tuple[Matrix, int]:
    """Return the inverse Hessian of the free variables and its rank."""
    if problem.has_intercept and problem.n_outputs == 1:
        whole, mean, curvature = _centred_at(problem, x)
        some = free[:-1]
        return with_intercept(Centred(whole[np.ix_(some, some)], mean[some], curvature), problem.term.quadratic[:-1][some])
    if problem.n_outputs == 1:
        hessian = hessian_of(problem, information_at(problem, x))
    else:
        hessian = hessian_of_outputs(problem, x)
    return inverse_and_rank(hessian[np.ix_(free, free)])


def hessian_of_outputs(problem: Problem, x: Vector) -> Matrix:
    """Return the Hessian of several outputs; of classes, whose coefficients sum to 0, along such directions alone.

    A penalty has a curvature where all classes change alike, but there the data say nothing and nothing varies: it counts
    neither as an error nor as a parameter. With an l1 penalty coefficients do not sum to 0.
    """
    loss = loss_of(problem)
    hessian = full_hessian(problem, loss.curvatures(scores_at(problem, x)))
    if loss.ignores_shifts() and problem.penalty.lasso() == 0.0:
        blocks = hessian.reshape(2 * (problem.n_outputs, problem.rows.dim()))
        for axis in (0, 2):
            blocks = blocks - blocks.mean(axis=axis, keepdims=True)
        hessian = blocks.reshape(hessian.shape)
    return hessian


class Covariance(NamedTuple):
    """The covariance matrix of the coefficients, and what it was made of."""

    matrix: Matrix  # (p, p), NaN for coefficients that an l1 penalty holds at 0
    inverse: Matrix  # (S hessian)^-1, which the matrix is phi times
    rank: int  # of the Hessian
    dispersion: float


def covariance_at(problem: Problem, x: Vector, total_weight: float) -> Covariance:
    """Return phi (S hessian)^-1 for the free variables, NaN elsewhere; a pseudo-inverse where it has none.

    S, the total weight, is the number of observations.
    """
    free = np.ones(problem.dim, dtype=bool)
    if problem.penalty.lasso() > 0.0:
        free = (x != 0.0) | (problem.term.thresholds == 0.0)
    inverse, rank = _inverse_at(problem, x, free)
    dispersion = dispersion_at(problem, x, total_weight, rank)
    whole = np.full((problem.dim, problem.dim), np.nan)
    whole[np.ix_(free, free)] = inverse / total_weight
    return Covariance(dispersion * whole, whole, rank, dispersion)


def dispersion_at(problem: Problem, x: Vector, total_weight: float, rank: int) -> float:
    """Return phi: sum_i s_i (y_i - m_i)^2 / V(m_i) / (S - rank), V = 1 for least squares; 1 for families that have none."""
    loss: Any = problem.loss
    if isinstance(loss, Squared):
        squares = (problem.targets - predictions_at(problem, x)) ** 2
    elif hasattr(loss, "has_dispersion") and loss.has_dispersion():
        means = _means(problem, x)
        squares = (problem.targets - means) ** 2 / loss.variance_of(means)
    else:
        return 1.0
    return residual_variance(float(problem.weights @ squares) * total_weight, total_weight, rank)


def residual_variance(squares: float, total_weight: float, rank: int) -> float:
    """Return the weighted sum of squared residuals, divided by S - rank, which must be > 0."""
    if total_weight <= rank:
        raise ValueError(
            f"standard errors need more than {rank} observations for {rank} variables, got {total_weight:.6g}. "
            "Leave standard_errors off."
        )
    return squares / (total_weight - rank)


def require_covariance(problem: Problem) -> None:
    """Raise unless errors mean something: a likelihood or a robust loss, an elastic net, and no set."""
    if problem.is_constrained:
        raise ValueError("standard errors are not known with a constraint. Leave constraint and bounds out.")
    if not problem.term.is_elastic_net:
        raise ValueError("standard errors are known with alpha and penalty_weights alone. Leave groups and penalty out.")
    loss: Any = problem.loss
    if isinstance(loss, ROBUST) and problem.penalty.lasso() > 0.0:
        raise ValueError(
            f"standard errors are not known for the {type(loss).__name__} loss with l1_ratio > 0. Leave it out."
        )
    if not (isinstance(loss, (*LIKELIHOODS, Multinomial, Squared, *ROBUST)) or hasattr(loss, "deviance_from")):
        raise ValueError(
            f"standard errors are not known for the {type(loss).__name__} loss, the likelihood of no model. Resample rows "
            "instead."
        )


def require_inference(problem: Problem) -> None:
    """Raise unless errors mean something and no coefficient was selected by the same rows."""
    require_covariance(problem)
    if problem.penalty.lasso() > 0.0:
        raise ValueError(
            "standard errors say nothing after an l1 penalty has selected coefficients. Fit with l1_ratio=0, on rows that "
            "did not select."
        )
