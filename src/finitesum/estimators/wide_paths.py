"""Paths of the squared loss with an l1 penalty on fewer rows than columns: by the products of few columns at a time.

The path of the minimisers of some columns (`finitesum.methods.subproblems.gram_homotopy`) is that of all as long as the
slopes of the others stay within their thresholds. Where they do not, the columns that leave them come in, and the path goes
on from the last strength before. The slopes of all columns are read for some strengths at once.
"""

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import scipy.sparse

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.core.threads import limited_blas
from finitesum.estimators.gram_minimisers import Family
from finitesum.methods.subproblems.gram_homotopy import Lost, Path
from finitesum.problems.linear import Problem
from finitesum.problems.rows import to_matrix
from finitesum.problems.term import ConvexTerm

#: Strengths between two reads of all columns, at first and at most.
FIRST_AT_ONCE, MOST_AT_ONCE = 4, 32

#: A column comes in when its slope is this part of its threshold, where others leave theirs; and columns at once, at most,
#: or as many as there are rows where these are more.
NEAR, MOST_NEW = 0.9, 100

#: A column whose variation is less than this part of its mean is constant.
HIDDEN = 1e-12

#: Strengths that differ by this part are the same: with the first one of a path no coefficient is rounding errors.
SAME = 1e-12

#: Coefficients that are not 0 for each row, at most: beside an l2 penalty there may be more than one.
MOST_FREE = 2

#: Columns whose products are known, at most.
MOST_KNOWN = 5000


class WidePaths:
    """The solutions of folds for all strengths; the problems are those of all rows, whose weights sum to 1."""

    def __init__(self, problems: Sequence[Problem], trains: Sequence[Indices]) -> None:
        problem = self.problem = problems[0]
        self._trains = trains
        self._targets = np.stack([one.targets - one.offsets for one in problems], axis=1)
        self.values, self.origin = to_matrix(problem.rows), np.zeros(problem.rows.n_columns)
        if scipy.sparse.issparse(self.values):
            self.by_columns = scipy.sparse.csc_array(self.values, dtype=np.float64)
        else:
            if problem.has_intercept:
                self.origin = problem.weights @ self.values
            self.values = np.asarray(self.values, dtype=np.float64) - self.origin
            self.by_columns = self.values

    def solve(self, k: int | None, family: Family, strengths: Vector, tol: float, target: int = 0) -> tuple[Matrix, Vector]:
        """Return the minimisers of a target in fold k, or of all rows, for falling strengths, and the optimality of each.

        The points are those of the problem, (m, dim), with their intercepts. For strengths that the path does not reach
        they are NaN, and their optimality is infinite.
        """
        weights = self.problem.weights
        if k is not None:
            weights = np.bincount(self._trains[k], weights[self._trains[k]], weights.size).astype(np.float64)
            weights = weights / weights.sum()
        with limited_blas(1):
            fold = _Fold(self, weights, self._targets[:, target])
            coefs, optimality = _followed(fold, family.unit, strengths, tol)
            if not self.problem.has_intercept:
                return coefs, optimality
            return np.column_stack([coefs, fold.intercepts(coefs) - coefs @ self.origin]), optimality


class _Fold:
    """A mean squared loss of weighted rows, its slopes in all columns, and the products of some, which grow in number."""

    def __init__(self, of_all: WidePaths, weights: Vector, targets: Vector) -> None:
        problem, values, by_columns = of_all.problem, of_all.values, of_all.by_columns
        self._origin = of_all.origin
        self._values, self._by_columns, self._weights = values, by_columns, weights
        self._has_intercept, loss = problem.has_intercept, problem.loss
        self._scale = float(loss.scale)  # type: ignore[attr-defined]
        self._rows = np.flatnonzero(weights > 0.0)
        self._roots = np.sqrt(self._scale * weights[self._rows])
        self.mean = np.asarray(weights @ values) if self._has_intercept else np.zeros(values.shape[1])
        self.target_mean = float(weights @ targets) if self._has_intercept else 0.0
        self._targets = targets
        self.n_rows = self._rows.size
        self.n_columns, self.columns = values.shape[1], np.zeros(0, dtype=np.int64)
        self._scaled, self.gram = np.zeros((0, self._rows.size)), np.zeros((0, 0))
        self.right = np.zeros(0)

    def intercepts(self, coefs: Matrix) -> Vector:
        return np.asarray(self.target_mean - coefs @ self.mean)

    def add(self, new: Indices) -> None:
        """Let columns be among those whose products are known."""
        scaled = np.ascontiguousarray(self._part(new).T)
        self._scaled = np.concatenate([self._scaled, scaled])
        across = self._scaled @ scaled.T
        n = self.columns.size
        self.gram = np.block([[self.gram, across[:n]], [across[:n].T, across[n:]]])
        targets = self._roots * (self._targets[self._rows] - self.target_mean)
        self.right = np.concatenate([self.right, scaled @ targets])
        self.columns = np.concatenate([self.columns, new])

    def has_variation(self, columns: Indices) -> Flags:
        """Return which of some columns are not constant."""
        sizes = np.linalg.norm(self._part(columns), axis=0)
        return np.asarray(sizes > HIDDEN * math.sqrt(self._scale) * (np.abs(self._origin) + np.abs(self.mean))[columns])

    def _part(self, columns: Indices) -> Matrix:
        """Return columns less their means, times the roots of the rows' weights."""
        part = self._by_columns[:, columns]
        part = (part.toarray() if scipy.sparse.issparse(part) else part)[self._rows]
        return np.asarray((part - self.mean[columns]) * self._roots[:, None])

    def whole(self, w: Matrix) -> Matrix:
        """Return the coefficients of all columns, given those of the known ones."""
        coefs = np.zeros((w.shape[0], self.n_columns))
        coefs[:, self.columns] = w
        return coefs

    def slopes(self, coefs: Matrix) -> Matrix:
        """Return the gradients of the loss at points, with the intercepts at their best."""
        some = np.flatnonzero(coefs.any(axis=0))
        predictions = np.asarray(self._by_columns[:, some] @ coefs[:, some].T).T
        left = predictions + self.intercepts(coefs)[:, None] - self._targets
        return np.asarray((self._values.T @ (self._scale * self._weights * left).T).T)


class _Progress:
    """The strengths that are solved, and the last point of the known columns."""

    def __init__(self, fold: _Fold, unit: ConvexTerm, strengths: Vector) -> None:
        self.points, self.optimality = np.zeros((strengths.size, fold.n_columns)), np.full(strengths.size, np.inf)
        self.n_solved = 0
        self._fold, self._unit, self._strengths = fold, unit, strengths
        self._w, slopes = _without_penalised(fold, np.flatnonzero(unit.thresholds == 0.0))
        penalised = np.flatnonzero(unit.thresholds > 0.0)
        self._strength = float((np.abs(slopes[penalised]) / unit.thresholds[penalised]).max(initial=0.0))
        self.extend(np.abs(slopes), self._strength * unit.thresholds)

    def path(self) -> Path:
        """Return the path of the known columns from the last strength on."""
        fold, start = self._fold, np.zeros(self._fold.columns.size)
        start[: self._w.size] = self._w
        at = self._unit.quadratic[fold.columns], self._unit.thresholds[fold.columns]
        return Path(fold.gram, fold.right, *at, self._strength, start)

    def followed(self, path: Path, n_most: int) -> Matrix:
        """Return the points of the next strengths, (k, known columns), as many as the path goes on for."""
        found: list[Vector] = []
        with suppress(Lost):
            for strength in self._strengths[self.n_solved : self.n_solved + n_most]:
                is_lower = strength < (1.0 - SAME) * self._strength
                found.append(path.at(float(strength) if is_lower else self._strength))
                if np.count_nonzero(found[-1]) > MOST_FREE * self._fold.n_rows:
                    break
        return np.array(found).reshape(len(found), self._fold.columns.size)

    def check(self, found: Matrix, tol: float) -> tuple[Matrix, Matrix]:
        """Take the first points that are minimisers; return slopes and thresholds of all columns at the others."""
        k, coefs = self.n_solved, self._fold.whole(found)
        strengths = self._strengths[k : k + len(found), None]
        slopes = self._fold.slopes(coefs) + strengths * (self._unit.quadratic * coefs)
        limits, moved = strengths * self._unit.thresholds, coefs - slopes
        left = np.linalg.norm(coefs - np.sign(moved) * np.maximum(np.abs(moved) - limits, 0.0), axis=1)
        n_new = int(np.argmin(np.append(left <= tol, False)))
        self.points[k : k + n_new], self.optimality[k : k + n_new] = coefs[:n_new], left[:n_new]
        beyond = np.abs(slopes[:n_new]) > (1.0 + SAME) * limits[:n_new]
        beyond[:, self._fold.columns] = False
        inside = np.flatnonzero(~beyond.any(axis=1))  # where a tol is loose others are outside of their thresholds
        if inside.size:
            self._w, self._strength = found[inside[-1]], min(float(strengths[inside[-1], 0]), self._strength)
        self.n_solved += n_new
        return np.abs(slopes[n_new:]), limits[n_new:]

    def extend(self, slopes: Matrix, limits: Matrix) -> bool:
        """Let columns near their thresholds, or beyond, be known; return whether there are new ones."""
        parts = np.divide(slopes, limits, out=np.zeros_like(slopes), where=limits > 0.0)
        parts = np.atleast_2d(parts).max(axis=0)
        parts[self._fold.columns] = 0.0
        most = max(MOST_NEW, self._fold.n_rows)
        new = np.flatnonzero(parts >= NEAR)
        if new.size > most:
            new = np.sort(new[np.argpartition(-parts[new], most)[:most]])
        if new.size:
            self._fold.add(new)
        return new.size > 0


def _without_penalised(fold: _Fold, free: Indices) -> tuple[Vector, Vector]:
    """Return the minimiser in the columns that have no threshold, which become known, and the slopes of all there."""
    w: Vector = np.zeros(0)
    free = free[fold.has_variation(free)]
    if free.size:
        fold.add(free)
        w = np.asarray(np.linalg.lstsq(fold.gram, fold.right, rcond=None)[0], dtype=np.float64)
    return w, fold.slopes(fold.whole(w[None]))[0]


def _followed(fold: _Fold, unit: ConvexTerm, strengths: Vector, tol: float) -> tuple[Matrix, Vector]:
    """Return minimisers for falling strengths, as far as the path goes, and their optimality."""
    progress, at_once, path, is_new = _Progress(fold, unit, strengths), FIRST_AT_ONCE, None, True
    while progress.n_solved < strengths.size:
        if path is None:
            try:
                path, is_new = progress.path(), True
            except Lost:
                break
        found = progress.followed(path, at_once)
        is_whole = len(found) == min(at_once, strengths.size - progress.n_solved)
        slopes, limits = progress.check(found, tol)
        if len(found) and np.count_nonzero(found[-1]) > MOST_FREE * fold.n_rows:
            break  # factors of their products take longer than passes
        if len(slopes):
            if fold.columns.size > MOST_KNOWN or not progress.extend(slopes, limits):
                break
            path, at_once = None, max(at_once // 2, FIRST_AT_ONCE)
        elif is_whole:
            at_once, is_new = min(2 * at_once, MOST_AT_ONCE), False
        elif is_new and not len(found):
            break
        else:
            path = None  # rounding errors of many pieces go
    progress.points[progress.n_solved :] = np.nan
    return progress.points, progress.optimality
