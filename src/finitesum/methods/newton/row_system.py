r"""Least squares with an l2 penalty on fewer rows than columns: conjugate gradients for the n x n system of the rows.

The minimiser of F(w, b) = sum_i p_i k (x_i'w + b + c_i)^2 / 2 + l2 ||w||^2 / 2, with phi'_i = k c_i at 0, is

    w = X'R (I - u u') v / l2,    (A A' + I) v = -(I - u u') R c,    A = (I - u u') R X / sqrt(l2),    R = diag(p_i k)^(1/2)

with u = diag(R) / ||diag(R)||, and 0 where there is no intercept; b is the best one for w. A residual r of the system
is the gradient -X'R r, so that the gradient falls with it. A A' has the eigenvalues of A'A but the d - n that are 0, which
no preconditioner by columns leaves together with the penalty's: where the penalty is weak, conjugate gradients in d
variables take two to ten times as many products with one as without, and rows are a preconditioner in their place, the
diagonal of A A' + I. A product reads the rows twice. It is for runs from 0: the system knows of no other point. It
is taken where this takes fewer products (`finitesum.methods.cost_model.takes_fewer_by_rows`).
"""

import math

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.row_products import combination, predictions, squares_of_rows
from finitesum.losses.arrays import in_arrays
from finitesum.methods.subproblems.conjugate_gradients import ConjugateGradients, advanced, begun, redirected
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered, remembered_of_rows


def first_run(problem: Problem) -> ConjugateGradients:
    """Return the run before its first product, from v = 0."""
    slopes = in_arrays(problem.loss).d1(problem.offsets, problem.targets)
    right = -_centred(problem, _roots_of_rows(problem) * slopes / problem.loss.curvature_bound())
    return begun(right, right / _diagonal_of_system(problem))


def multiplied(problem: Problem, run: ConjugateGradients, n_threads: int = 1) -> ConjugateGradients:
    """Return the run after a product."""
    run = advanced(run, _product(problem, run.direction, n_threads))
    return run if run.is_over else redirected(run, run.residual / _diagonal_of_system(problem))


def advanced_by(
    problem: Problem, run: ConjugateGradients, n: int, first: float, enough: float, n_threads: int
) -> ConjugateGradients:
    """Return the run after up to n products, fewer where it is over or near (see `is_near`)."""
    for _ in range(n):
        run = multiplied(problem, run, n_threads)
        if run.is_over or is_near(run, first, enough):
            break
    return run


def is_near(run: ConjugateGradients, first: float, enough: float) -> bool:
    """Return whether the residual has fallen as far as the gradient has to, from a first norm to what is enough."""
    return first * math.sqrt(run.size / run.start) <= enough if run.start > 0.0 else True


def is_solved(problem: Problem, run: ConjugateGradients, first: float, enough: float) -> bool:
    """Return whether the gradient is small enough, or products lead no further."""
    return run.is_over or (is_near(run, first, enough) and _gradient_norm(problem, run) <= enough)


def _gradient_norm(problem: Problem, run: ConjugateGradients) -> float:
    """Return the norm of the gradient at the point that a run has found."""
    return float(np.linalg.norm(_coefficients(problem, run.residual)))


def point_of(problem: Problem, run: ConjugateGradients) -> Vector:
    """Return the point (w, b) that a run has found."""
    point = _coefficients(problem, run.solution) / problem.term.ridge
    if problem.has_intercept:
        slopes = in_arrays(problem.loss).d1(predictions(problem, point) + problem.offsets, problem.targets)
        curvature = problem.loss.curvature_bound()
        point[-1] = -float(problem.weights @ slopes) / (curvature * float(problem.weights.sum()))
    return point


@remembered_of_rows
def _roots_of_rows(problem: Problem) -> Vector:
    """Return the diagonal of R."""
    return np.asarray(np.sqrt(problem.loss.curvature_bound() * problem.weights))


def _centred(problem: Problem, numbers: Vector) -> Vector:
    """Return (I - u u') times a vector, which may be changed."""
    if problem.has_intercept:
        roots = _roots_of_rows(problem)
        numbers -= (float(roots @ numbers) / float(roots @ roots)) * roots
    return numbers


def _coefficients(problem: Problem, numbers: Vector, n_threads: int = 1) -> Vector:
    """Return X'R (I - u u') times a vector, with 0 for the intercept."""
    found = combination(problem, _roots_of_rows(problem) * _centred(problem, numbers.copy()), n_threads=n_threads)
    found[problem.rows.n_columns :] = 0.0
    return found


def _product(problem: Problem, numbers: Vector, n_threads: int) -> Vector:
    """Return (A A' + I) times a vector."""
    along = predictions(problem, _coefficients(problem, numbers, n_threads), n_threads=n_threads)
    return numbers + _centred(problem, _roots_of_rows(problem) * along) / problem.term.ridge


@remembered
def _diagonal_of_system(problem: Problem) -> Vector:
    """Return the diagonal of A A' + I, with an intercept but for what u u' takes of it by rows of much weight."""
    squares = squares_of_rows(problem)
    if problem.has_intercept:
        mean = combination(problem, problem.weights / problem.weights.sum())
        mean[problem.rows.n_columns :] = 0.0
        squares = np.maximum(squares - 2.0 * predictions(problem, mean) + float(mean @ mean), 0.0)
    found = 1.0 + _roots_of_rows(problem) ** 2 * squares / problem.term.ridge
    found[~np.isfinite(found)] = math.inf
    return np.asarray(found)
