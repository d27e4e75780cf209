"""Paths of losses of a mean (Poisson, Gamma ...) in folds: all folds and strengths together, as logistic regression's.

With few rows and an l2 penalty each fold has a path by the products of all rows
(`finitesum.running.few_rows_paths`). Else `finitesum.running.together` solves them: a pass over the rows serves all folds,
few Hessians on a sample serve all strengths. Solutions are as near as `ACCURACY` standard errors, so that scores are those
of exact fits to 1e-6 or so.
"""

from functools import cache, partial
from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.threads import limited_blas
from finitesum.estimators.folds import MOST_NUMBERS, NUMBERS, may_be_together
from finitesum.estimators.gram_paths import Solve
from finitesum.estimators.path import with_alpha
from finitesum.estimators.regression_path import rows_of
from finitesum.estimators.solvers import as_solver, is_auto
from finitesum.evaluation.row_space import products_of_rows
from finitesum.evaluation.whole_arrays import with_zeros
from finitesum.methods.base import batch_size_for
from finitesum.methods.newton.lazy_newton import LazyNewton
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import ElasticNet
from finitesum.running.driver import as_seed
from finitesum.running.few_rows_paths import FewRowsPath, has_few_rows, solve_few_rows, with_products
from finitesum.running.sampling import order_of_pass
from finitesum.running.together import Family, solve_together

#: The error of a solution, in standard errors.
ACCURACY = 1e-5


def solved_together(
    estimator: Any, problem: Problem, trains: list[Indices], strengths: Vector, more: Vector, start: Vector, total: float
) -> Solve | None:
    """Return the solutions of all folds as what `SharedPaths.paths_of` returns, None where they go fold by fold.

    Parameters
    ----------
    estimator : LinearRegressor
        With the l1 ratio.
    problem : Problem
        Of all rows, whose weights sum to 1.
    trains : list of ndarray
        The rows of each fold.
    strengths, more : ndarray, shape (m,) and (F,)
        Strengths of all rows, falling, and what those of each fold are times them.
    start : ndarray, shape (dim,)
        The best model without columns.
    total : float
        The sum of all weights.
    """
    problem = with_alpha(estimator, problem, float(strengths[-1]))
    if not _is_kind(estimator, problem):
        return None
    choice = as_solver(estimator.solver, estimator.step_size, problem, tol=estimator.tol)
    if has_few_rows(problem, choice):
        return _few_rows(estimator, problem, trains, strengths, more, start, total)
    n_numbers = more.size * (NUMBERS * strengths.size * problem.dim + problem.n_rows)
    if n_numbers > MOST_NUMBERS or not may_be_together(choice.method, problem):
        return None
    weights = np.zeros((len(trains), problem.n_rows))
    for of_rows, train in zip(weights, trains, strict=True):
        np.add.at(of_rows, train, problem.weights[train])
    parts = weights.sum(axis=1)
    if not (parts > 0.0).all():
        return None
    sizes = np.maximum(total * parts, np.count_nonzero(weights, axis=1))
    ratio, alphas = float(estimator.l1_ratio), more[:, None] * strengths
    lassos, ridges = ratio * alphas, (1.0 - ratio) * alphas
    of_all = (1.0 - ratio) * strengths, ratio * strengths
    method, problem = LazyNewton(), with_zeros(problem)
    problem = problem.batched(batch_size_for(method, problem))
    order = order_of_pass(method.default_sampling, as_seed(estimator.random_state), 0, problem.n_components)
    family = Family(problem, weights / parts[:, None], ridges, of_all[0], lassos, of_all[1], sizes, ACCURACY, start)
    with limited_blas(1):
        found = solve_together(family, order, float(estimator.tol), estimator.n_threads or 1)

    def solve(k: int | None, some: Vector) -> tuple[Matrix, Vector]:
        if k is None:
            return found.starts[: len(some)], np.full(len(some), np.inf)
        return found.points[k].copy(), np.where(found.is_solved[k], 0.0, np.inf)

    return solve


def _few_rows(
    estimator: Any, problem: Problem, trains: list[Indices], strengths: Vector, more: Vector, start: Vector, total: float
) -> Solve:
    """Return the solutions of folds with few rows, each when it is first asked for."""
    products_of_rows(problem)  # before threads ask for them
    at = float(start[-1]) if problem.has_intercept else 0.0

    def of_fold(k: int) -> FewRowsPath:
        first = with_products(rows_of(problem, trains[k]), problem, np.arange(problem.n_rows)[trains[k]])
        problems = [with_alpha(estimator, first, float(strength)) for strength in more[k] * strengths]
        return solve_few_rows(problems, at, total * float(problem.weights[trains[k]].sum()), ACCURACY)

    found = [cache(partial(of_fold, k)) for k in range(len(trains))]

    def solve(k: int | None, some: Vector) -> tuple[Matrix, Vector]:
        if k is None:
            return np.mean([one().points for one in found], axis=0)[: len(some)], np.full(len(some), np.inf)
        return found[k]().points.copy(), np.where(found[k]().is_solved, 0.0, np.inf)

    return solve


def _is_kind(estimator: Any, problem: Problem) -> bool:
    """Return whether a loss of a mean with an elastic net is left to us."""
    is_mean = hasattr(problem.loss, "link_of") and problem.loss.is_smooth() and problem.convex
    is_net = estimator.penalty is None and isinstance(problem.penalty, ElasticNet) and not problem.is_constrained
    return is_auto(estimator.solver) and is_mean and is_net and problem.n_outputs == 1
