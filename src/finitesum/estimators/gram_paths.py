"""Paths of the squared loss on a Gram matrix: all strengths and ratios of a fold at the cost of reading its rows once.

With the intercept at its best, b = mean_y - mean'w, the mean squared loss of some rows is a quadratic function of w,

    1/2 w'G w - r'w + constant,   G = sum_i p_i (x_i - mean)(x_i - mean)',   r = sum_i p_i (x_i - mean)(y_i - o_i - mean_y),

so that all fits of the rows are minimisers of models in d numbers. The sums of a fold are those of all rows less those of
the rows that it leaves out, unless these are nearly all of a column: folds that are a partition need one Gram matrix.
Columns are taken less their mean over all rows before they are multiplied, so that columns far from 0 lose no digits.
With an l2 penalty alone and fewer rows than columns the n x n matrix of the rows' products takes its place; with an l1
penalty G is made of dense rows that are not many fewer than their columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Data, Indices, Matrix, Vector
from finitesum.core.symmetric import mirrored
from finitesum.core.threads import limited_blas, map_tasks
from finitesum.estimators.covariance import centred_gram
from finitesum.estimators.gram_minimisers import FEW_COLUMNS, MANY_STRENGTHS, Family, Quadratic, minimisers_of
from finitesum.estimators.solvers import as_solver, is_auto
from finitesum.estimators.wide_paths import WidePaths
from finitesum.evaluation.hessian import add_gram
from finitesum.losses.regression import Squared
from finitesum.methods.subproblems.positive_definite import solve_spd
from finitesum.problems.given_term import convex_term
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows, DenseRows, add_combination, n_entries, some_rows, to_matrix
from finitesum.problems.term import ConvexTerm

#: Numbers of dense rows that are centred at a time.
NUMBERS_AT_ONCE = 500_000

#: Numbers of the matrices that are kept for the folds, at most.
MOST_KEPT = 20_000_000

#: Columns, or rows where these are fewer, at most: beyond, factors take longer than passes over the rows.
MOST_COLUMNS = 3000

#: Entries of a Gram matrix for each stored number of sparse rows, at most.
MOST_FOR_STORED = 16

#: Columns for each row of dense data with an l1 penalty, at most, where rows are fewer than columns: beyond, products of
#: few columns at a time take less time. Of few columns in all the same where there are fewer rows.
MOST_FOR_ROW, FEW_FOR_ROW, FEW_IN_ALL = 2, 5, 600

#: Rows up to which the products of few columns at a time take less time than runs.
MOST_ROWS = 1000

#: Numbers of dense rows of which a centred copy is made, at most.
MOST_COPIED = 100_000_000

#: The part of a column's square that a fold must keep for its sums to be a difference.
KEPT = 1e-3


class Sums(NamedTuple):
    """Weighted sums over rows, of columns and targets less those of the origin."""

    total: float
    first: Vector  # (d,)  sum_i p_i x_i
    target: Vector  # (K,)  sum_i p_i y_i, of each of K targets
    gram: Matrix  # (d, d)  sum_i p_i x_i x_i'
    pull: Matrix  # (d, K)  sum_i p_i x_i y_i'
    origin: Vector  # (d,)  that the columns were taken less

    def less(self, part: "Sums") -> "Sums":
        """Return the sums over the other rows."""
        pairs: Any = zip(self[:-1], part[:-1], strict=True)
        return Sums(*[of_all - of_part for of_all, of_part in pairs] + [self.origin])

    def plus(self, part: "Sums") -> "Sums":
        """Return the sums over both sets of rows."""
        pairs: Any = zip(self[:-1], part[:-1], strict=True)
        return Sums(*[one + other for one, other in pairs] + [self.origin])

    def variations(self) -> Vector:
        """Return sum_i p_i (x_ij - mean_j)^2 of the columns."""
        return np.asarray(np.diagonal(self.gram) - self.first**2 / self.total)


#: (fold or None, strengths) -> (points, optimality).
Solve = Callable[[int | None, Vector], tuple[Matrix, Vector]]


def _term(estimator: Any, problem: Problem, alpha: float) -> ConvexTerm:
    return convex_term(problem.rows.n_columns, 0, 1, **estimator._term(alpha))


def _may_have_paths(estimator: Any, problem: Problem) -> bool:
    is_known = isinstance(problem.loss, Squared) and isinstance(problem.rows, DenseRows | CSRRows)
    is_net = estimator.penalty is None and problem.term.is_elastic_net
    return is_auto(estimator.solver) and is_known and is_net and problem.n_outputs == 1 and estimator.tol > 0.0


def has_gram_paths(problem: Problem, method: Any) -> bool:
    """Return whether a matrix of products pays for the paths of the squared loss, which `method` would solve otherwise."""
    n, d, rows = problem.n_rows, problem.rows.n_columns, problem.rows
    if min(n, d) > MOST_COLUMNS:
        return False
    if n < d and not is_by_rows(problem):
        return problem.term.has_l1 and not rows.is_sparse() and d <= min(MOST_COLUMNS, _most_together(n))
    return method.name in ("newton", "lazy-newton") or not rows.is_sparse() or d * d <= MOST_FOR_STORED * n_entries(rows)


def is_by_rows(problem: Problem) -> bool:
    """Return whether the matrix of the rows' products takes the place of the Gram matrix."""
    term = problem.term
    return problem.n_rows < problem.rows.n_columns and term.is_smooth and not term.has_weights


def is_by_working_sets(problem: Problem) -> bool:
    """Return whether products of few columns at a time take the place of a matrix of all."""
    n, d, term = problem.n_rows, problem.rows.n_columns, problem.term
    if not term.has_l1 or term.is_constrained or np.count_nonzero(term.thresholds[:d]) < d - n // 2:
        return False
    is_worth = problem.rows.is_sparse() or min(MOST_COLUMNS, _most_together(n)) < d <= MOST_COPIED / n
    return bool(n < min(d, MOST_ROWS + 1) and is_worth)


def _most_together(n_rows: int) -> int:
    """Return the columns of dense rows up to which a matrix of all takes less time than few at a time."""
    few = FEW_IN_ALL if n_rows <= MOST_ROWS else MOST_COLUMNS
    return max(MOST_FOR_ROW * n_rows, min(FEW_FOR_ROW * n_rows, few))


class SharedPaths:
    """The paths of several estimators, which differ in their l1 ratio, in the folds of a problem and on all rows.

    The problems are those of several targets, which differ in targets and offsets alone, or a single one.
    """

    def __init__(self, problems: Sequence[Problem], trains: Sequence[Indices], n_threads: int | None = None) -> None:
        self._problems, self._trains, self._n_threads = problems, trains, n_threads
        self._by_rows: RowPaths | None = None
        self._by_columns: GramPaths | None = None
        self._by_working_sets: WidePaths | None = None

    def paths_of(self, estimator: Any, alpha: float, target: int = 0) -> Solve | None:
        """Return what solves an estimator's problems of a target, None where a matrix of products does not pay."""
        problem = self._problems[target]
        if not _may_have_paths(estimator, problem):
            return None
        problem = replace(problem, penalty=_term(estimator, problem, alpha).penalty)
        method = as_solver(estimator.solver, estimator.step_size, problem, tol=estimator.tol).method
        paths: RowPaths | GramPaths | WidePaths
        if is_by_working_sets(problem):
            paths = self._by_working_sets = self._by_working_sets or WidePaths(self._problems, self._trains)
        elif not has_gram_paths(problem, method):
            return None
        elif is_by_rows(problem):
            paths = self._by_rows = self._by_rows or RowPaths(self._problems, self._trains)
        else:
            paths = self._by_columns = self._by_columns or GramPaths(self._problems, self._trains, self._n_threads)

        family = Family(_term(estimator, problem, 1.0), lambda strength: _term(estimator, problem, strength))
        return lambda k, strengths: paths.solve(k, family, np.asarray(strengths), float(estimator.tol), target)


class GramPaths:
    """The solutions of folds for all strengths; the problems are those of all rows, whose weights sum to 1."""

    def __init__(self, problems: Sequence[Problem], trains: Sequence[Indices], n_threads: int | None = None) -> None:
        problem = self.problem = problems[0]
        self.trains = trains
        d, has_intercept = problem.rows.n_columns, problem.has_intercept
        self._targets = _targets_of(problems)
        self._origin, self._shift = np.zeros(d), np.zeros(len(problems))
        if has_intercept:
            self._shift = problem.weights @ self._targets
            self._targets = self._targets - self._shift
            if not problem.rows.is_sparse():
                self._origin = _combination(problem.rows, problem.weights)
        self._known: dict[int | None, list[Quadratic]] = {}
        self._keeps = (len(trains) + 1) * d * d <= MOST_KEPT
        self._rests = [_rest(problem.n_rows, train) for train in trains]
        self._of_rests: list[Sums] | None = None
        counts = np.zeros(problem.n_rows, dtype=np.int64)
        for rest in self._rests:
            counts[[] if rest is None else rest] += 1
        with limited_blas(1):
            if trains and (counts == 1).all() and self._keeps:
                self._of_rests = map_tasks(self._sums, self._rests, n_threads)
                self._all = self._of_rests[0]
                for part in self._of_rests[1:]:
                    self._all = self._all.plus(part)
            else:
                self._all = self._sums(np.arange(problem.n_rows))

    def _sums(self, chosen: Any, origin: Vector | None = None) -> Sums:
        """Return the sums over some rows; dense ones less an origin, which is the mean of all when left out."""
        origin = self._origin if origin is None else origin
        problem, d = self.problem, self.problem.rows.n_columns
        weights, targets = problem.weights[chosen], self._targets[chosen]
        if isinstance(problem.rows, DenseRows):
            gram, first, pull = np.zeros((d, d)), np.zeros(d), np.zeros((d, targets.shape[1]))
            size = max(1, NUMBERS_AT_ONCE // d)
            for k in range(0, len(chosen), size):
                roots = np.sqrt(weights[k : k + size])
                scaled = (problem.rows.values[chosen[k : k + size]] - origin) * roots[:, None]
                gram += scaled.T @ scaled
                first += roots @ scaled
                pull += scaled.T @ (roots[:, None] * targets[k : k + size])
        else:
            gram = np.zeros((problem.dim, problem.dim))
            picked, places = np.unique(chosen, return_inverse=True)
            add_gram(problem, picked, np.bincount(places, weights, picked.size).astype(float), gram)
            gram, rows = mirrored(gram)[:d, :d], some_rows(problem.rows, np.asarray(chosen))
            first = _combination(rows, weights)
            pull = np.stack([_combination(rows, weights * one) for one in targets.T], axis=1)
        return Sums(float(weights.sum()), first, weights @ targets, gram, pull, origin)

    def _of_rows(self, k: int | None) -> list[Quadratic]:
        """Return the functions of the targets in the rows of fold k, or in all."""
        if k in self._known:
            return self._known[k]
        found = self._quadratics(self._all if k is None else self._of_fold(k))
        if self._keeps:
            self._known[k] = found
        return found

    def _of_fold(self, k: int) -> Sums:
        rest, of_all = self._rests[k], self._all
        if rest is None or 2 * rest.size > self.problem.n_rows:
            return self._of_train(self.trains[k])
        found = of_all.less(self._sums(rest) if self._of_rests is None else self._of_rests[k])
        if not found.total >= KEPT * of_all.total:
            return self._of_train(self.trains[k])
        kept, before = found.variations(), np.diagonal(of_all.gram)
        if ((kept < KEPT * before) & (np.diagonal(found.gram) != 0.0)).any():  # a difference of nearly equal numbers
            return self._of_train(self.trains[k])
        return found

    def _of_train(self, train: Indices) -> Sums:
        """Return the sums over some rows, columns less their mean over these."""
        problem, origin = self.problem, self._origin
        if problem.has_intercept and not problem.rows.is_sparse():
            weights = np.bincount(train, problem.weights[train], problem.n_rows)
            origin = _combination(problem.rows, weights / weights.sum())
        return self._sums(train, origin)

    def _quadratics(self, sums: Sums) -> list[Quadratic]:
        scale, mean, target_means = _scale(self.problem) / sums.total, np.zeros_like(sums.first), np.zeros_like(sums.target)
        gram, right = sums.gram, sums.pull
        if self.problem.has_intercept:
            mean, target_means = sums.first / sums.total, sums.target / sums.total
            gram = centred_gram(gram, mean, sums.total)
            right = np.where(np.diagonal(gram)[:, None] > 0.0, right - np.outer(sums.first, target_means), 0.0)
            mean, target_means = mean + sums.origin, target_means + self._shift
        gram, right = scale * gram, scale * right
        spectrum = cache(lambda: np.linalg.eigh(gram))
        return [Quadratic(gram, one, mean, float(at), spectrum) for one, at in zip(right.T, target_means, strict=True)]

    def solve(self, k: int | None, family: Family, strengths: Vector, tol: float, target: int = 0) -> tuple[Matrix, Vector]:
        """Return the minimisers of a target in fold k, or of all rows, for falling strengths, and the optimality of each.

        The points are those of the problem, (m, dim), with their intercepts.
        """
        with limited_blas(1):
            quadratic = self._of_rows(k)[target]
            coefs, optimality = minimisers_of(quadratic, family, strengths, tol)
        if not self.problem.has_intercept:
            return coefs, optimality
        return np.column_stack([coefs, quadratic.target_mean - coefs @ quadratic.mean]), optimality


def _targets_of(problems: Sequence[Problem]) -> Matrix:
    """Return targets less offsets, (n, K)."""
    return np.stack([problem.targets - problem.offsets for problem in problems], axis=1)


def _scale(problem: Problem) -> float:
    loss: Any = problem.loss
    return float(loss.scale)


def _rest(n_rows: int, train: Indices) -> Indices | None:
    """Return the rows that a fold leaves out; None where it has some twice."""
    counts = np.bincount(train, minlength=n_rows)
    return None if counts.max(initial=0) > 1 else np.flatnonzero(counts == 0)


def _combination(rows: Any, scales: Vector) -> Vector:
    """Return sum_i s_i x_i without the intercept's."""
    out = np.zeros(rows.dim())
    add_combination(rows, scales, out)
    return out[: rows.n_columns]


class RowPaths:
    """The same with an l2 penalty and fewer rows than columns: by the products of all rows with each other."""

    def __init__(self, problems: Sequence[Problem], trains: Sequence[Indices]) -> None:
        problem = self.problem = problems[0]
        self.trains, self._targets = trains, _targets_of(problems)
        self._spectra: dict[int | None, Any] = {}
        self._keeps = len(problems) > 1 and (len(trains) + 1) * problem.n_rows**2 <= MOST_KEPT
        values = to_matrix(problem.rows)
        if not problem.rows.is_sparse():
            origin = _combination(problem.rows, problem.weights) if problem.has_intercept else 0.0
            values = np.asarray(values, dtype=np.float64) - origin
        else:
            values = values.astype(np.float64)
        self._values = values
        with limited_blas(1):
            products: Any = values @ values.T
        self._products: Matrix = products.toarray() if problem.rows.is_sparse() else products

    def solve(self, k: int | None, family: Family, strengths: Vector, tol: float, target: int = 0) -> tuple[Matrix, Vector]:
        """Return what `GramPaths.solve` returns."""
        problem, strengths = self.problem, float(family.unit.ridge) * strengths
        chosen = np.arange(problem.n_rows) if k is None else np.asarray(self.trains[k])
        p = problem.weights[chosen]
        p, scale = p / p.sum(), _scale(problem)
        targets = self._targets[chosen, target]
        products, target_mean = self._products[np.ix_(chosen, chosen)], 0.0
        if problem.has_intercept:
            target_mean = float(p @ targets)
            first = products @ p
            products = products - first[:, None] - first + float(p @ first)
        roots, m = np.sqrt(scale * p), len(strengths)
        matrix, right = roots[:, None] * products * roots, roots * (targets - target_mean)
        duals = np.empty((m, chosen.size))
        with limited_blas(1):
            if m >= MANY_STRENGTHS or chosen.size <= FEW_COLUMNS:
                values, basis = self._spectra.get(k) or np.linalg.eigh(matrix)
                if self._keeps:
                    self._spectra[k] = values, basis
                inverses = np.maximum(values, 0.0) + strengths[:, None]
                duals = ((right @ basis) / inverses) @ basis.T
                duals += (((right - duals @ matrix - strengths[:, None] * duals) @ basis) / inverses) @ basis.T
            else:
                for j, strength in enumerate(strengths):
                    duals[j] = solve_spd(matrix + strength * np.eye(chosen.size), right)
            return self._points(chosen, duals * roots, p, targets, target_mean, strengths)

    def _points(
        self, chosen: Indices, scales: Matrix, p: Vector, targets: Vector, target_mean: float, strengths: Vector
    ) -> tuple[Matrix, Vector]:
        """Return sum_i s_i (x_i - mean) with intercepts, and the norms of the gradients there."""
        problem, rows = self.problem, self._values[chosen]
        coefs = _times(scales, rows)
        mean = _times(p[None, :], rows)[0] if problem.has_intercept else np.zeros(rows.shape[1])
        coefs -= scales.sum(axis=1)[:, None] * mean
        lacking = np.asarray(rows @ coefs.T).T - (coefs @ mean)[:, None] - (targets - target_mean)
        slopes = _scale(problem) * p * lacking
        gradients = _times(slopes, rows) - slopes.sum(axis=1)[:, None] * mean + strengths[:, None] * coefs
        optimality = np.linalg.norm(gradients, axis=1)
        if not problem.has_intercept:
            return coefs, optimality
        origin = 0.0 if problem.rows.is_sparse() else _combination(problem.rows, problem.weights)
        return np.column_stack([coefs, target_mean - coefs @ (mean + origin)]), optimality


def _times(scales: Matrix, rows: Data) -> Matrix:
    return np.asarray((rows.T @ scales.T).T)
