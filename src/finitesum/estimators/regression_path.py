"""Regression along a path of penalties."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.estimators.gram_paths import SharedPaths
from finitesum.estimators.path import positive_numbers, solve_path, with_alpha
from finitesum.estimators.regressors import LinearRegressor, best_constant
from finitesum.evaluation.optimality import evaluate
from finitesum.problems.linear import Problem
from finitesum.problems.rows import some_rows
from finitesum.running.driver import Result

#: What the strengths of a path fall to, relative to the first.
LEAST = 1e-3

#: The l1 ratio that stands for 0 where the first strength of a path is found.
SMALL_RATIO = 1e-3


class LinearPath(NamedTuple):
    """What `linear_path` found."""

    alphas: Vector  # (m,)  falling
    coefs: Matrix  # (m, d)
    intercepts: Vector  # (m,)
    optimality: Vector  # (m,)  reached
    n_passes: Vector  # (m,)
    results: list[Result]


def linear_path(
    X: Any,
    y: Any,
    *,
    loss: Any = "squared",
    alphas: Any = 50,
    sample_weight: Any = None,
    offset: Any = None,
    **parameters: Any,
) -> LinearPath:
    """Return the solutions of linear regression with a loss for several strengths of the penalty.

    Each is found from the last one, from strong to weak penalties, to the same optimality as a fit of its own.

    Parameters
    ----------
    X : array_like or sparse, shape (n, d)
    y : array_like, shape (n,)
    loss : str or Loss
        As in `LinearRegressor`.
    alphas : int or array_like
        Strengths > 0, or how many: from where an l1 penalty, groups, MCP or SCAD leave no coefficient (with l1_ratio 0 as
        for 0.001) down to a thousandth of that, in equal ratios.
    sample_weight, offset : array_like, shape (n,), optional
    **parameters
        Those of `LinearRegressor` but alpha.

    Examples
    --------
    >>> path = linear_path([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0], alphas=[1e-6, 1.0], l1_ratio=1.0)
    >>> path.alphas, path.coefs.round(3)
    (array([1.e+00, 1.e-06]), array([[0.5],
           [2. ]]))
    """
    if "alpha" in parameters:
        raise TypeError("linear_path has no alpha. alphas are the strengths; for one of them fit LinearRegressor.")
    estimator = LinearRegressor(loss, **parameters)
    problems, *_ = estimator._problems(X, y, sample_weight, offset)
    if len(problems) > 1:
        raise ValueError(f"linear_path takes one target, got {len(problems)}: call it for each of them.")
    strengths = strengths_of(alphas, estimator, problems[0])
    results = solve_strengths(estimator, problems[0], strengths)
    coefs, intercepts = estimator._unpacked([result.x for result in results])
    optimality, n_passes = (np.array([result[name] for result in results]) for name in ("optimality", "n_passes"))
    d = problems[0].rows.n_columns
    return LinearPath(strengths, np.reshape(coefs, (-1, d)), np.reshape(intercepts, -1), optimality, n_passes, results)


def strengths_of(alphas: Any, estimator: Any, problem: Problem) -> Vector:
    """Return strengths in falling order: those given, or a number of the usual ones."""

    def usual(number: int) -> Vector:
        slopes = np.abs(evaluate(problem, null_point(problem)).gradient[: problem.rows.n_columns])
        if estimator.penalty_weights is not None:
            weights = np.asarray(estimator.penalty_weights, dtype=np.float64)
            slopes = slopes[weights > 0.0] / weights[weights > 0.0]
        makes_zeros = estimator.penalty is not None or estimator.groups is not None
        first = float(slopes.max(initial=0.0)) / (1.0 if makes_zeros else max(float(estimator.l1_ratio), SMALL_RATIO))
        return (first or 1.0) * np.geomspace(LEAST, 1.0, number)

    return positive_numbers(alphas, "alphas", usual)[::-1]


def rows_of(problem: Problem, chosen: Any) -> Problem:
    """Return the problem of some rows, whose weights sum to 1 again."""
    indices = np.arange(problem.n_rows)[chosen]
    weights = problem.weights[indices]
    if not weights.sum() > 0.0:
        raise ValueError("a fold has no rows with weight. Use fewer folds, or leave rows without weight out.")
    return replace(
        problem,
        rows=some_rows(problem.rows, indices),
        targets=problem.targets[indices],
        offsets=problem.offsets[indices],
        weights=weights / weights.sum(),
    )


def rows_of_each(problems: Sequence[Problem], chosen: Any) -> list[Problem]:
    """Return the problems of some rows for several targets, which share them."""
    first, indices = rows_of(problems[0], chosen), np.arange(problems[0].n_rows)[chosen]
    others = [replace(first, targets=one.targets[indices], offsets=one.offsets[indices]) for one in problems[1:]]
    return [first, *others]


def null_point(problem: Problem) -> Vector:
    """Return the best model without columns: w = 0 and its intercept."""
    x, loss = np.zeros(problem.dim), problem.loss
    if problem.has_intercept and hasattr(loss, "link_of"):
        x[-1] = best_constant(loss, problem.targets, problem.weights, problem.offsets)
    elif problem.has_intercept:
        x[-1] = float(problem.weights @ (problem.targets - problem.offsets))
    return x


def solve_strengths(estimator: Any, problem: Problem, strengths: Vector) -> list[Result]:
    """Return the results for falling strengths, each from the one before, or from what a Gram matrix says."""
    first = with_alpha(estimator, problem, float(strengths[0]))
    solve = SharedPaths([problem], []).paths_of(estimator, float(strengths[0])) if len(strengths) > 1 else None
    starts = None if solve is None else solve(None, strengths)[0]
    if starts is None or not np.isfinite(starts[:1]).all():
        return solve_path(estimator, first, strengths, null_point(problem))
    n_known = int(np.argmin(np.append(np.isfinite(starts).all(axis=1), False)))
    results = solve_path(estimator, first, strengths[:n_known], starts=starts[:n_known])
    if n_known < len(strengths):
        rest = with_alpha(estimator, problem, float(strengths[n_known]))
        results += solve_path(estimator, rest, strengths[n_known:], results[-1].x)
    return results


def points_of(estimator: Any, problem: Problem, strengths: Vector, known: tuple[Matrix, Vector] | None) -> Matrix:
    """Return the solutions for falling strengths, (m, dim); known are points and their optimality, where there are some."""
    if known is None:
        return np.array([result.x for result in solve_strengths(estimator, problem, strengths)])
    points, optimality = known
    lacking = ~(optimality <= estimator.tol)
    if lacking.any():
        first = with_alpha(estimator, problem, float(strengths[lacking][0]))
        starts = points[lacking] if np.isfinite(points[lacking]).all() else None
        k = int(np.argmax(lacking))
        start = points[k - 1] if k > 0 else null_point(problem)
        results = solve_path(estimator, first, strengths[lacking], start, starts=starts)
        points[lacking] = [result.x for result in results]
    return points
