"""Gradients and curvatures of the mean loss at many points at once, for several weightings of the rows.

A pass reads each block of rows once: its predictions at all points are one matrix product, the slopes of the loss are
elementwise, and the gradients are another product. So a point costs a fraction of a pass of its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import array_form, kernel, kernel_part
from finitesum.core.threads import map_blocks
from finitesum.evaluation.whole_arrays import N_IN_CACHE
from finitesum.losses import LOSSES
from finitesum.losses.arrays import in_arrays
from finitesum.problems.linear import Problem
from finitesum.problems.rows import DenseRows, n_entries, rows_between, to_matrix
from finitesum.problems.view import n_numbers

#: Predictions that are held at a time: they stay in the cache.
N_TOGETHER = 2**16


@kernel_part
def _weigh_slopes(loss: Any, targets: Vector, weights: Vector, predictions: Vector) -> None:
    for i in range(np.uint64(targets.size)):
        slope, weight = loss.d1(predictions[i], targets[i]), weights[i]
        predictions[i] = weight * slope if weight > 0.0 else 0.0  # with weight 0, what overflows must not show


@kernel
def _to_slopes(loss: Any, targets: Vector, weights: Matrix, which: Indices, predictions: Matrix, size: float) -> None:
    """Replace the predictions at point j, row j, by the slopes of the loss, times the weights of row which[j].

    The size is that of the whole problem, in numbers: on small data a form over arrays runs.
    """
    for j in range(which.size):
        _weigh_slopes(loss, targets, weights[which[j]], predictions[j])


def _points_together(predictions: Matrix, *, is_ours: bool) -> Sequence[slice | int]:
    """Return points whose losses are computed at a time: the arrays of a formula's steps stay in the cache.

    Losses of users, who may have thought of one array, are given one point at a time.
    """
    if not is_ours:
        return range(len(predictions))
    size = max(1, N_IN_CACHE // max(predictions.shape[1], 1))
    return [slice(first, first + size) for first in range(0, len(predictions), size)]


@array_form(_to_slopes, lambda loss, targets, weights, which, predictions, size: size)
def _to_slopes_in_arrays(
    loss: Any, targets: Vector, weights: Matrix, which: Indices, predictions: Matrix, size: float
) -> None:
    takes, has_all = in_arrays(loss), bool((weights > 0.0).all())
    for some in _points_together(predictions, is_ours=takes is loss and type(loss) in LOSSES.values()):
        slopes, scales = takes.d1(predictions[some], targets), weights[which[some]]
        predictions[some] = scales * slopes if has_all else np.where(scales > 0.0, scales * slopes, 0.0)


@kernel_part
def _bend(loss: Any, targets: Vector, predictions: Vector) -> None:
    for i in range(np.uint64(targets.size)):
        predictions[i] = loss.d2(predictions[i], targets[i])


@kernel
def _to_curvatures(loss: Any, targets: Vector, predictions: Matrix, size: float) -> None:
    """Replace predictions, a row for each point, by the second derivatives of the loss; the size is as above."""
    for j in range(predictions.shape[0]):
        _bend(loss, targets, predictions[j])


@array_form(_to_curvatures, lambda loss, targets, predictions, size: size)
def _to_curvatures_in_arrays(loss: Any, targets: Vector, predictions: Matrix, size: float) -> None:
    takes = in_arrays(loss)
    for some in _points_together(predictions, is_ours=takes is loss and type(loss) in LOSSES.values()):
        predictions[some] = takes.d1_d2(predictions[some], targets)[1]


def _predictions(problem: Problem, rows: Any, some: slice, points: Matrix) -> Matrix:
    """Return x_i'w + b + o_i of some rows, a row for each point."""
    d = problem.rows.n_columns
    coefficients = points[:, :d]
    if isinstance(rows, DenseRows):
        found = coefficients @ to_matrix(rows).T
    else:
        found = np.ascontiguousarray((to_matrix(rows) @ np.ascontiguousarray(coefficients.T)).T)
    if problem.has_intercept:
        found += points[:, d:]
    if problem.has_offsets:
        found += problem.offsets[some]
    return np.ascontiguousarray(found)


def _add_products(problem: Problem, rows: Any, slopes: Matrix, gradients: Matrix) -> None:
    """Add sum_i slopes_ji x_i to the gradient of each point j."""
    d = problem.rows.n_columns
    if isinstance(rows, DenseRows):
        gradients[:, :d] += slopes @ to_matrix(rows)
    else:
        gradients[:, :d] += (to_matrix(rows).T @ np.ascontiguousarray(slopes.T)).T
    if problem.has_intercept:
        gradients[:, d] += slopes.sum(axis=1)


def gradients_at_each(problem: Problem, points: Matrix, weights: Matrix, which: Indices, n_threads: int = 1) -> Matrix:
    """Return sum_i weights[which_j, i] phi'_i x_i at each point j, shape (p, dim); the weights have shape (f, n)."""
    size = n_numbers(problem.view)

    def add(rows: Any, some: slice, gradients: Matrix) -> None:
        found = _predictions(problem, rows, some, points)
        _to_slopes(problem.loss, problem.targets[some], np.ascontiguousarray(weights[:, some]), which, found, size)
        _add_products(problem, rows, found, gradients)

    return _summed(problem, add, len(points), len(points), n_threads)


def gradients_of_all(problem: Problem, points: Matrix, weights: Matrix, n_threads: int = 1) -> npt.NDArray[np.float64]:
    """Return the gradients at each point for all weightings of the rows, shape (f, p, dim)."""
    n_weightings, n_points = len(weights), len(points)
    ones, first = np.ones((1, problem.n_rows)), np.zeros(n_points, dtype=np.int64)
    size = n_numbers(problem.view)

    def add(rows: Any, some: slice, gradients: Matrix) -> None:
        slopes = _predictions(problem, rows, some, points)
        _to_slopes(problem.loss, problem.targets[some], np.ascontiguousarray(ones[:, some]), first, slopes, size)
        weighted = (weights[:, None, some] * slopes).reshape(n_weightings * n_points, -1)
        _add_products(problem, rows, weighted, gradients)

    sums = _summed(problem, add, n_weightings * n_points, n_points, n_threads)
    return sums.reshape(n_weightings, n_points, -1)


def _summed(problem: Problem, add: Any, n_sums: int, n_points: int, n_threads: int) -> Matrix:
    """Return the sums of blocks of rows, to which `add` adds a block's."""
    n, size = problem.n_rows, max(128, N_TOGETHER // n_points)

    def sum_of(chosen: Indices) -> Matrix:
        total = np.zeros((n_sums, problem.dim))
        for start in range(int(chosen[0]), int(chosen[-1]) + 1, size):
            stop = min(start + size, int(chosen[-1]) + 1)
            add(rows_between(problem.rows, start, stop), slice(start, stop), total)
        return total

    with np.errstate(all="ignore"):  # long steps show in the gradient
        parts = map_blocks(sum_of, np.arange(n), 0.1 * n_points * n_entries(problem.rows), n_threads)
    return parts[0] if len(parts) == 1 else np.asarray(sum(parts))


def curvatures_at_each(problem: Problem, points: Matrix) -> Matrix:
    """Return phi''_i of all rows at each point, shape (p, n)."""
    n, size = problem.n_rows, max(128, N_TOGETHER // len(points))
    found = np.empty((len(points), n))
    for start in range(0, n, size):
        some = slice(start, min(start + size, n))
        part = _predictions(problem, rows_between(problem.rows, some.start, some.stop), some, points)
        _to_curvatures(problem.loss, problem.targets[some], part, n_numbers(problem.view))
        found[:, some] = part
    return found
