"""Residuals of a fitted model, and how much each row moves it.

With m_i the fitted mean, V the variance by the mean of the family, phi its dispersion, dev_i the deviance of a row, s_i its
weight, c_i the curvature of its loss (the family's mean one), A = sum_i s_i c_i x_i x_i' plus the penalty:

* response y_i - m_i; Pearson (y_i - m_i) / sqrt(V(m_i)); deviance sign(y_i - m_i) sqrt(dev_i), each times sqrt(s_i);
* leverage h_i = s_i c_i x_i' A^-1 x_i, the derivative of the fitted prediction in the row's own working target;
* standardised Pearson residual r_i / sqrt(phi (1 - h_i)), and Cook's distance (standardised)^2 h_i / ((1 - h_i) p) [1].

References
----------
.. [1] P. McCullagh, J. A. Nelder, "Generalized linear models", 2nd edition, 1989, chapter 12.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.estimators.covariance import covariance_at, information_at, require_inference
from finitesum.estimators.robust_errors import RowsAt
from finitesum.losses import Binomial, Logistic, Squared
from finitesum.problems.linear import Problem
from finitesum.problems.rows import products


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals by kind, each of shape (n,); see `finitesum.estimators.residuals`."""

    fitted: Vector  #: the means m_i
    response: Vector
    pearson: Vector
    deviance: Vector
    leverage: Vector
    standardised: Vector  #: Pearson's
    cooks: Vector  #: Cook's distances
    rank: int  #: p, the parameters that the data determine


def residuals_of(problem: Problem, x: Vector, total: float) -> Residuals:
    """Return the residuals of a problem of a family at its solution x, with weights that sum to `total`.

    Raises
    ------
    ValueError
        The loss is of no family with a mean (least squares, two classes, shares, a mean exp(u)), or nothing is known of the
        model's errors.
    """
    loss: Any = problem.loss
    y, u = problem.targets, products(problem.rows, x) + problem.offsets
    if isinstance(loss, Logistic):
        loss, y = Binomial(loss.scale), 0.5 * (y + 1.0)
    if isinstance(loss, Squared):
        mean, variance, deviances = u, np.ones(u.size), (y - u) ** 2
    elif hasattr(loss, "deviance_from"):
        mean = loss.mean_at(u)
        variance, deviances = loss.variance_of(mean), loss.deviance_from(y, mean)
    else:
        raise ValueError(f"{type(loss).__name__} has no mean to compare targets with: residuals are known for families.")
    require_inference(problem)
    weights = total * problem.weights
    known = covariance_at(problem, x, total)
    leverage = RowsAt(problem, x, total).leverages(known.inverse) * weights * information_at(problem, x)
    response, root = y - mean, np.sqrt(weights)
    pearson = root * response / np.sqrt(variance)
    rest = np.maximum(1.0 - leverage, 1e-12)
    standardised = pearson / np.sqrt(known.dispersion * rest)
    return Residuals(
        fitted=mean,
        response=response,
        pearson=pearson,
        deviance=np.sign(response) * root * np.sqrt(np.maximum(deviances, 0.0)),
        leverage=leverage,
        standardised=standardised,
        cooks=standardised**2 * leverage / (rest * known.rank),
        rank=known.rank,
    )
