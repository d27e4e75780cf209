"""Log-likelihoods with all their constants, and deviances, of fitted models."""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from finitesum.core.arrays import Vector
from finitesum.estimators.covariance import predictions_at
from finitesum.evaluation.outputs import loss_of, scores_at
from finitesum.losses import LIKELIHOODS, Binomial, Gamma, InverseGaussian, NegativeBinomial, Poisson, Squared
from finitesum.losses.arrays import in_arrays
from finitesum.losses.classes import Multinomial, weighted
from finitesum.problems.linear import Problem


def _total(weights: Vector, numbers: Vector) -> float:
    """Return sum_i s_i n_i, whatever the numbers of rows without weight."""
    return float(weighted(np.array(numbers), weights).sum())


def log_likelihood_and_deviance(problem: Problem, x: Vector, total: float, dispersion: float) -> tuple[float, float]:
    """Return the log-likelihood, with all its constants, and the deviance; NaN where the loss is none's.

    Least squares have the likelihood at its best variance, gamma and inverse Gaussian ones at the dispersion: where these
    are 0, because the model fits exactly, it is infinite. That of Tweedie targets is an infinite series and not computed.
    """
    loss: Any = problem.loss
    s = total * problem.weights
    if isinstance(loss, (Multinomial, *LIKELIHOODS)):
        if problem.n_outputs > 1:
            losses = loss_of(problem).value(scores_at(problem, x), problem.targets)
        else:
            losses = in_arrays(loss).value(predictions_at(problem, x), problem.targets)
        value = -_total(s, losses) / loss.scale
        return value, -2.0 * value
    y, u = problem.targets, predictions_at(problem, x)
    if isinstance(loss, Squared):
        squares = _total(s, (y - u) ** 2)
        if squares == 0.0:
            return math.inf, squares
        return -0.5 * total * (math.log(2.0 * math.pi * squares / total) + 1.0), squares
    if not hasattr(loss, "deviance_from"):
        return math.nan, math.nan
    mean = loss.mean_at(u)
    deviance = _total(s, loss.deviance_from(y, mean))
    if isinstance(loss, Poisson):
        parts = y * u - mean - gammaln(y + 1.0)
    elif isinstance(loss, Gamma | InverseGaussian) and dispersion == 0.0:
        return math.inf, deviance
    elif isinstance(loss, Gamma):
        shape = 1.0 / dispersion
        parts = shape * (math.log(shape) - u - y / mean) + (shape - 1.0) * np.log(y) - gammaln(shape)
    elif isinstance(loss, InverseGaussian):
        parts = -0.5 * (loss.deviance_from(y, mean) / dispersion + np.log(2.0 * math.pi * dispersion * y**3))
    elif isinstance(loss, NegativeBinomial):
        theta = loss.theta
        parts = gammaln(y + theta) - gammaln(theta) - gammaln(y + 1.0)
        parts = parts + theta * np.log(theta / (theta + mean)) + xlogy(y, mean / (theta + mean))
    elif isinstance(loss, Binomial):
        parts = xlogy(y, mean) + xlogy(1.0 - y, 1.0 - mean)
        ways = gammaln(s + 1.0) - gammaln(s * y + 1.0) - gammaln(s * (1.0 - y) + 1.0)
        return _total(s, parts) + float(ways.sum()), deviance
    else:
        return math.nan, deviance
    return _total(s, parts), deviance
