"""Covariance matrices of estimates, from the Hessian at the solution.

The Hessian of the sum of the losses and the penalty is S times that of F. Its inverse, times the dispersion phi of the
family (1 for logistic and Poisson, an estimate of the variance for least squares), is the covariance matrix of a
maximum likelihood estimate; with a penalty it is that of the posterior's normal approximation. Coefficients that an l1
penalty holds at 0 are not free: their rows and columns are NaN.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import pinvh

from finitesum.arrays import Matrix, Vector
from finitesum.losses import Squared
from finitesum.multinomial import MultinomialProblem, full_hessian, probabilities, scores_at
from finitesum.problem import Problem
from finitesum.quadratics import hessian_of
from finitesum.snapshot import take_snapshot


def hessian_at(problem: Problem | MultinomialProblem, x: Vector) -> Matrix:
    """Return the Hessian of the smooth part of F at x, shape (dim, dim)."""
    if isinstance(problem, MultinomialProblem):
        return full_hessian(problem, probabilities(scores_at(problem, x)))
    return hessian_of(problem, take_snapshot(problem, x).curvatures)


def covariance_at(
    problem: Problem | MultinomialProblem, x: Vector, total_weight: float, dispersion: float = 1.0
) -> Matrix:
    """Return dispersion (S hessian)^-1 for the free variables, NaN elsewhere; a pseudo-inverse where it has none.

    Parameters
    ----------
    problem : Problem or MultinomialProblem
    x : ndarray of float64, shape (problem.dim,)
        The solution.
    total_weight : float > 0
        S, the sum of the weights: the number of observations.
    dispersion : float > 0

    Raises
    ------
    ValueError
        The problem has a constraint or a loss without second derivatives.

    Examples
    --------
    >>> problem = Problem.linear([[1.0], [2.0], [2.0]], [0.0, 1.0, 0.0], loss="squared")
    >>> covariance_at(problem, np.zeros(1), 3.0).round(6)
    array([[0.111111]])
    """
    if problem.is_constrained:
        raise ValueError("standard errors are not known with a constraint. Leave constraint out.")
    free = np.ones(problem.dim, dtype=bool)
    if problem.penalty.lasso() > 0.0:
        free[: problem.rows.n_columns] = x[: problem.rows.n_columns] != 0.0
    hessian = hessian_at(problem, x)[np.ix_(free, free)]
    covariance = np.full((problem.dim, problem.dim), np.nan)
    covariance[np.ix_(free, free)] = dispersion / total_weight * pinvh(hessian)
    return covariance


def dispersion_at(problem: Problem | MultinomialProblem, x: Vector, objective: float, total_weight: float) -> float:
    """Return the factor of the covariance: the residual variance for least squares, 1 for other losses.

    The variance is sum_i s_i r_i^2 / (S - p), with p the number of variables that are not 0.
    """
    if isinstance(problem, MultinomialProblem) or not isinstance(problem.loss, Squared):
        return 1.0
    d, penalty = problem.rows.n_columns, problem.penalty
    penalised = sum(penalty.penalty_value(float(value)) for value in x[:d])
    n_free = int(np.count_nonzero(x[:d])) + int(problem.has_intercept)
    if total_weight <= n_free:
        raise ValueError(
            f"standard errors need more than {n_free} observations for {n_free} variables, got {total_weight:.6g}. "
            "Leave standard_errors off."
        )
    return 2.0 * (objective - penalised) * total_weight / (total_weight - n_free)
