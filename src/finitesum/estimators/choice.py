"""How a penalty is chosen: by scores of folds, within one standard error, or by a criterion of the fits to all rows."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln

from finitesum.core.arrays import Matrix, Vector
from finitesum.estimators.covariance import dispersion_at
from finitesum.estimators.freedom import active_in, degrees_of_freedom
from finitesum.estimators.likelihood import log_likelihood_and_deviance
from finitesum.estimators.path import with_alpha
from finitesum.problems.linear import Problem
from finitesum.running.driver import Result

CRITERIA = ("cv", "aic", "bic", "ebic")
RULES = ("best", "one_standard_error")


def ratios_of(estimator: Any) -> list[float]:
    """Return the l1 ratios that are tried, or raise what is wrong with criterion, rule or ratios."""
    if estimator.criterion not in CRITERIA or estimator.rule not in RULES:
        raise ValueError(
            f"criterion must be one of {', '.join(CRITERIA)} and rule best or one_standard_error, got "
            f"{estimator.criterion!r} and {estimator.rule!r}."
        )
    if estimator.rule != "best" and estimator.criterion != "cv":
        raise ValueError('rule="one_standard_error" goes with criterion="cv": other criteria have no folds.')
    if estimator.l1_ratios is None:
        return [estimator.l1_ratio]
    if np.ndim(estimator.l1_ratios) != 1 or len(estimator.l1_ratios) == 0:
        raise ValueError(f"l1_ratios must be a sequence of numbers in [0, 1], got {estimator.l1_ratios!r}.")
    return [float(ratio) for ratio in estimator.l1_ratios]


def chosen(scores: Matrix, rule: str) -> tuple[int, int]:
    """Return the places of the ratio and the strength of the best mean score, (folds, ratios, m), from strong to weak.

    By the rule of one standard error the strength is the strongest whose mean is at most one standard error below the best;
    what has no score in some fold is not chosen.
    """
    means = scores.mean(axis=0)
    n_unknown = int(np.isnan(means).sum())
    if n_unknown == means.size:
        raise ValueError(
            "no strength of the penalty has a score in every fold: all means are NaN. Check scoring, and that folds hold "
            "what it needs."
        )
    if n_unknown:
        warnings.warn(
            f"{n_unknown} of {means.size} strengths have no score in some fold, and are not chosen.", stacklevel=5
        )
    ratio, place = divmod(int(np.nanargmax(means)), means.shape[1])
    if rule == "one_standard_error" and len(scores) > 1:
        error = scores[:, ratio, place].std(ddof=1) / math.sqrt(len(scores))
        place = int(np.flatnonzero(means[ratio] >= means[ratio, place] - error)[0])
    return ratio, place


def least(criteria: Matrix, problem: Problem) -> tuple[int, int]:
    """Return the places of the ratio and the strength with the least criterion, (ratios, m)."""
    if np.isnan(criteria).all():
        name = type(problem.loss).__name__
        raise ValueError(f"the {name} loss has no log-likelihood that is known: use criterion='cv'.")
    ratio, place = divmod(int(np.nanargmin(criteria)), criteria.shape[1])
    return ratio, place


def criteria_of(
    name: str, estimator: Any, problem: Problem, strengths: Any, results: Sequence[Result], total: float
) -> Vector:
    """Return AIC, BIC or EBIC [1] of the models of a path, with the trace of H (H + l2)^-1 as degrees of freedom.

    References
    ----------
    .. [1] J. Chen, Z. Chen, "Extended Bayesian information criteria for model selection with large model spaces",
       Biometrika 95 (2008).
    """
    found = []
    d = problem.rows.n_columns * problem.n_outputs
    for alpha, result in zip(strengths, results, strict=True):
        here, x = with_alpha(estimator, problem, float(alpha)), result.x
        (active, k), freedom = active_in(here, x), degrees_of_freedom(here, x)
        dispersion = dispersion_at(problem, x, total, min(int(active.sum()), int(total) - 1))
        value = -2.0 * log_likelihood_and_deviance(problem, x, total, dispersion)[0]
        more = 2.0 * (gammaln(d + 1.0) - gammaln(k + 1.0) - gammaln(d - k + 1.0)) if name == "ebic" else 0.0
        found.append(value + freedom * (2.0 if name == "aic" else math.log(total)) + more)
    return np.array(found)
