"""Row sums of linear models with several outputs: values, gradients and Hessians at a point, by blocks of rows.

An iterate is a table of shape (K, dim), row by row in one vector; scores are u_ik = x_i'w_k + b_k + o_ik. Data is read
through matrix products: float32 rows are widened a block at a time.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.evaluation.dense_outputs import sums_of_dense_rows
from finitesum.evaluation.row_blocks import Block, joined, sum_over_blocks, sum_over_problems
from finitesum.evaluation.sparse_outputs import combined, matrix_of, scores_of
from finitesum.losses.classes import ClassLoss, weighted
from finitesum.problems.beside import empty_by_row
from finitesum.problems.linear import Problem
from finitesum.problems.outputs import gram_of
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import rows_between, to_matrix

#: Numbers in a block of scores.
BLOCK_SIZE = 1 << 17

#: Numbers from which single precision saves time.
MANY_NUMBERS = 1 << 20

#: What keeps the mean over the outputs of coefficients on a set, by their curvature: it bounds what steps may add to all.
OF_SET = 1e-8

#: Blocks of sparse rows, at most.
MOST_BLOCKS = 8

#: Dense columns up to which all pairs of outputs are one product, and the numbers of a block of rows in it.
MOST_JOINT, NUMBERS_OF_PAIRS = 30, 1 << 20

#: Squares of entries that are held at a time.
SQUARES = 2**15


def loss_of(problem: Problem) -> ClassLoss:
    """Return the loss of several outputs."""
    return cast(ClassLoss, problem.loss)


def _matrices(problem: Problem, *, is_copied: bool = False) -> Iterator[tuple[slice, Any]]:
    """Yield the rows in blocks, where they stand and their matrix in float64: as one block where nothing is copied."""
    n, whole = problem.n_rows, matrix_of(problem)
    is_whole = whole.dtype == np.float64 and not is_copied
    size = n if is_whole else max(1, BLOCK_SIZE // max(problem.n_outputs, min(problem.rows.n_columns, 1024)))
    if not isinstance(whole, np.ndarray):  # each block's sum is of all columns
        size = max(size, -(-n // MOST_BLOCKS), int(BLOCK_SIZE * n / max(whole.nnz, 1)))
    for first in range(0, n, size):
        last = min(first + size, n)
        matrix = whole if size >= n else to_matrix(rows_between(problem.rows, first, last))
        yield slice(first, last), matrix.astype(np.float64, copy=False)


def score_changes(problem: Problem, v: Vector) -> Matrix:
    """Return x_i'v_k + v_k0, shape (n, K), for a direction: what a step along it adds to the scores.

    They lie in memory output by output: products of dense rows with their sums take half of the time so, and sums over the
    outputs, too.
    """
    changes: Matrix = sum_over_problems(lambda part: _score_changes(part, v), problem, add=joined)
    return changes


def changes_by_row(problem: Problem, v: Vector) -> Matrix:
    """Return what `score_changes` does; of parts, as numbers that stay beside them."""
    return by_row(problem, lambda part: _score_changes(part, v))


def curvatures_by_row(problem: Problem, scores: Matrix) -> Matrix:
    """Return the curvatures at given scores, shape (n, K); of parts, as numbers that stay beside them."""
    return by_row(problem, lambda part, here: loss_of(part).curvatures(here), scores)


def by_row(problem: Problem, function: Callable[..., Matrix], *reads: Any) -> Matrix:
    """Return function(problem, *reads), K numbers for each row; of parts, written beside each of them."""
    if not is_parted(problem):
        return function(problem, *reads)

    def of_part(part: Problem, *arrays: Matrix) -> None:
        arrays[-1][:] = function(part, *arrays[:-1])

    found: Matrix = empty_by_row(problem, np.float64, problem.n_outputs)
    sum_over_problems(of_part, problem, reads=reads, writes=(found,))
    return found


def _score_changes(problem: Problem, v: Vector) -> Matrix:
    table, d = v.reshape(problem.n_outputs, -1), problem.rows.n_columns
    if not v.any():  # where fits begin
        return np.zeros((problem.n_outputs, problem.n_rows)).T
    scores = np.empty((problem.n_outputs, problem.n_rows)).T
    for here, matrix in _matrices(problem):
        if matrix is matrix_of(problem) and problem.rows.is_sparse():
            scores[here] = scores_of(problem, table[:, :d])
        else:
            scores[here] = matrix @ table[:, :d].T if problem.rows.is_sparse() else (table[:, :d] @ matrix.T).T
    if problem.has_intercept:
        scores += table[:, d]
    return scores


def scores_at(problem: Problem, w: Vector) -> Matrix:
    """Return the scores u_ik, shape (n, K)."""
    scores = score_changes(problem, w)
    if problem.has_offsets:
        scores += problem.offsets
    return scores


def sum_of_rows(problem: Problem, scales: Matrix, *, squared: bool = False) -> Matrix:
    """Return sum_i r_ik x_i for each output k, shape (K, dim), for r of shape (n, K); if asked for, of squared entries."""
    total: Matrix = sum_over_problems(
        lambda part, of_rows: _sum_of_rows(part, of_rows, squared=squared), problem, reads=(scales,)
    )
    return total


def _sum_of_rows(problem: Problem, scales: Matrix, *, squared: bool) -> Matrix:
    d = problem.rows.n_columns
    out = np.zeros((problem.n_outputs, problem.rows.dim()))
    for here, matrix in _matrices(problem, is_copied=squared and problem.rows.is_sparse()):
        if not problem.rows.is_sparse():
            out[:, :d] += _sum_of_squares(scales[here].T, matrix) if squared else scales[here].T @ matrix
        elif matrix is matrix_of(problem) and not squared:
            out[:, :d] += combined(problem, scales)
        else:
            out[:, :d] += ((matrix**2 if squared else matrix).T @ scales[here]).T
    if problem.has_intercept:
        out[:, d] = scales.sum(axis=0)
    return out


def _sum_of_squares(scales: Matrix, matrix: Matrix) -> Matrix:
    """Return R (X o X) for scales R, shape (K, n), by blocks of rows whose squares stay in the cache."""
    n, d = matrix.shape
    size = max(16, SQUARES // d)
    total, squares = np.zeros((len(scales), d)), np.empty((min(size, n), d))
    for k in range(0, n, size):
        block = matrix[k : k + size]
        total += scales[:, k : k + size] @ np.multiply(block, block, out=squares[: len(block)])
    return total


def mean_loss(problem: Problem, scores: Matrix) -> float:
    """Return sum_i p_i loss_i, given the scores; rows of weight 0 count for nothing."""

    def of_part(part: Problem, here: Matrix) -> float:
        losses = loss_of(part).value(here, part.targets)
        losses[part.weights == 0.0] = 0.0
        return float(part.weights @ losses)

    return float(sum_over_problems(of_part, problem, reads=(scores,)))


def objective_at(problem: Problem, scores: Matrix, w: Vector) -> float:
    """Return F at w, given its scores."""
    return mean_loss(problem, scores) + problem.term.value(w)


def objectives_of_outputs(problem: Problem, w: Vector) -> Vector:
    """Return the part of F that each output has, shape (K,), of the squared loss and a penalty on each coefficient."""
    table, one, d = w.reshape(problem.n_outputs, -1), problem.one_output, problem.rows.n_columns
    losses = np.zeros(problem.n_outputs)
    for here, matrix in _matrices(problem, is_copied=True):
        residuals = matrix @ table[:, :d].T - problem.targets[here]
        if problem.has_intercept:
            residuals += table[:, d]
        if problem.has_offsets:
            residuals += problem.offsets[here]
        losses += problem.weights[here] @ np.square(residuals, out=residuals)
    losses *= 0.5 * loss_of(problem).scale
    return np.array([loss + one.term.value(part) for loss, part in zip(losses, table, strict=True)])


def objective_along(problem: Problem, w: Vector, direction: Vector, line: tuple[Matrix, Matrix], t: float) -> float:
    """Return F at w + t direction, given the scores at w and what the direction adds to them."""

    def of_part(part: Problem, here: Matrix, changes: Matrix) -> float:
        return mean_loss(part, here + t * changes)

    return float(sum_over_problems(of_part, problem, reads=line)) + problem.term.value(w + t * direction)


def weighted_slopes(problem: Problem, scores: Matrix) -> Matrix:
    """Return p_i times the gradient of row i's loss in its scores, shape (n, K)."""

    def of_part(part: Problem, here: Matrix) -> Matrix:
        slopes: Matrix = weighted(loss_of(part).d1(here, part.targets), part.weights)
        return slopes

    slopes: Matrix = sum_over_problems(of_part, problem, reads=(scores,), add=joined)
    return slopes


def mean_loss_and_slopes(problem: Problem, scores: Matrix) -> tuple[float, Matrix]:
    """Return what `mean_loss` and `weighted_slopes` do, by one exponential of each score."""
    values, slopes = loss_of(problem).value_d1(scores, problem.targets)
    values[problem.weights == 0.0] = 0.0
    return float(problem.weights @ values), cast(Matrix, weighted(slopes, problem.weights))


def mean_gradient(problem: Problem, scores: Matrix) -> Vector:
    """Return the gradient of the mean loss, given the scores."""
    return sum_of_rows(problem, weighted_slopes(problem, scores)).reshape(-1)


def has_single_rows(problem: Problem) -> bool:
    """Return whether rows in single precision save time: dense ones, and many, in memory."""
    return not is_parted(problem) and not problem.rows.is_sparse() and problem.rows.values.size >= MANY_NUMBERS


def measure(problem: Problem, w: Vector, *, is_single: bool = False, scores: Matrix | None = None) -> tuple[float, Vector]:
    """Return the mean loss and its gradient at w, by one read of the data, and write the scores where they are asked for.

    Dense rows are read in blocks that stay in the cache for both products. If asked for, products are in single
    precision, and errors of its rounding.
    """
    written, function = () if scores is None else (scores,), partial(_measured, w, is_single)
    total: tuple[float, Vector] = sum_over_problems(function, problem, writes=written)
    return total


def _measured(w: Vector, is_single: bool, problem: Problem, *written: Matrix) -> tuple[float, Vector]:
    with np.errstate(all="ignore"):  # after a divergence
        if problem.rows.is_sparse():
            scores = scores_at(problem, w)
            for out in written:
                out[:] = scores
            values, slopes = loss_of(problem).value_d1(scores, problem.targets)
            losses = float(problem.weights @ weighted(values, np.asarray(problem.weights > 0.0)))
            return losses, sum_of_rows(problem, weighted(slopes, problem.weights)).reshape(-1)
        return _measured_dense(problem, w, np.dtype(np.float32 if is_single else np.float64), *written)


def _measured_dense(problem: Problem, w: Vector, kind: np.dtype[Any], *written: Matrix) -> tuple[float, Vector]:
    loss, all_weights, counts = loss_of(problem), problem.weights.astype(kind), bool(problem.weights.all())

    def of_block(here: slice, scores: Matrix) -> tuple[float, Matrix]:
        if problem.has_offsets:
            scores += problem.offsets[here].T
        for whole in written:
            whole[here] = scores.T
        weights = all_weights[here]
        values, slopes = loss.value_d1(scores.T, problem.targets[here])
        if not counts:  # with weight 0, what overflows must not show
            values[weights == 0.0], slopes[weights == 0.0] = 0.0, 0.0
        changes = slopes.T
        changes *= weights
        return float(weights @ values), changes

    total, out = sums_of_dense_rows(problem, w, kind, of_block)
    return total, out.reshape(-1)


def hessian_product(problem: Problem, curvatures: Matrix, v: Vector) -> Vector:
    """Return the Hessian of the smooth part of F times v, given the curvatures at a point: two reads of sparse rows.

    (H V)_k = sum_i p_i (C_i a_i)_k x_i + l2 V_k,    a_ik = V_k'x_i
    """

    def of_part(part: Problem, curved: Matrix) -> Matrix:
        loss = loss_of(part)
        if part.rows.is_sparse():
            changes = loss.curvature_product(curved, _score_changes(part, v))
            return _sum_of_rows(part, weighted(changes, part.weights), squared=False)

        def of_block(here: slice, scores: Matrix) -> tuple[float, Matrix]:
            changes = weighted(loss.curvature_product(curved[here], scores.T), part.weights[here])
            return 0.0, changes.T

        return sums_of_dense_rows(part, v, np.float64, of_block)[1]

    products: Matrix = sum_over_problems(of_part, problem, reads=(curvatures,))
    return products.reshape(-1) + problem.term.quadratic * v


def _gram(problem: Problem, weights: Vector) -> Matrix:
    """Return sum_i c_i x_i x_i' over the rows in memory."""
    grams = (gram_of(matrix, weights[here], problem.has_intercept) for here, matrix in _matrices(problem, is_copied=True))
    return sum(grams, start=np.zeros((problem.rows.dim(), problem.rows.dim())))


def weighted_gram(problem: Problem, weights: Vector, chosen: Indices) -> Matrix:
    """Return sum_i c_i x_i x_i' over the chosen rows, shape (dim, dim)."""
    has_intercept = problem.has_intercept

    def gram(block: Block, of_rows: Vector) -> Matrix:
        matrix = to_matrix(block.view.rows)[block.components].astype(np.float64)
        return gram_of(matrix, of_rows[block.components], has_intercept)

    total: Matrix = sum_over_blocks(gram, problem.one_output.by_rows, chosen, reads=(weights,))
    return total


def _has_shifts(problem: Problem) -> Flags:
    """Return the coordinates to which one number may be added for all outputs without a change of F, sets apart, (dim,)."""
    dim, term = problem.rows.dim(), problem.term
    if not loss_of(problem).ignores_shifts():
        return np.zeros(dim, dtype=bool)
    has_shifts = (term.quadratic[:dim] == 0.0) & (term.thresholds[:dim] == 0.0)
    if not term.is_elastic_net:
        has_shifts[: term.n_columns] = False
    return np.asarray(has_shifts)


def free_coordinates(problem: Problem) -> Indices:
    """Return the coordinates to which one number may be added for all outputs at once without a change of F."""
    is_free = _has_shifts(problem)
    if problem.is_constrained:
        is_free[: problem.rows.n_columns] = False
    return np.flatnonzero(is_free)


def _gram_of_entry(problem: Problem, curvatures: Matrix, *, k: int, other: int) -> Matrix:
    """Return sum_i p_i C_ikl x_i x_i', or minus that where the losses ignore shifts: off the diagonal it is >= 0."""
    entries = problem.weights * loss_of(problem).curvature_entry(curvatures, k, other)
    return _gram(problem, -entries if loss_of(problem).ignores_shifts() else entries)


def _gram_of_pairs(problem: Problem, curvatures: Matrix) -> Matrix:
    """Return sum_i p_i f_ik f_il x_i x_i' of dense rows, shape (K dim, K dim), with the factors f of pairs of outputs."""
    loss, dim, matrix = loss_of(problem), problem.rows.dim(), matrix_of(problem)
    width = problem.n_outputs * dim
    out, size = np.zeros((width, width)), max(NUMBERS_OF_PAIRS // width, width)
    for first in range(0, problem.n_rows, size):
        here = slice(first, first + size)
        block = np.ones((curvatures[here].shape[0], dim))
        block[:, : problem.rows.n_columns] = matrix[here]
        factors = weighted(loss.pair_factors(curvatures[here]), np.sqrt(problem.weights[here]))
        products = (factors[:, :, None] * block[:, None, :]).reshape(-1, width)
        out += products.T @ products
    return out


def full_hessian(problem: Problem, curvatures: Matrix, *, is_pinned: bool = False) -> Matrix:
    """Return the Hessian of the smooth part of F, shape (K dim, K dim): K (K + 1) / 2 Gram matrices.

    Block (k, l) is sum_i p_i C_ikl x_i x_i', with C_i the second derivative of row i's loss. Where the same number
    added to all predictions of a row changes no loss, C_ikk = -sum_l C_ikl, and K (K - 1) / 2 matrices are enough; those
    of few dense columns are one product of rows of K dim numbers, which takes less time than many small ones. A pinned one
    has a term more that no gradient sees, which keeps the mean over the outputs where that changes nothing; on a set, where
    it may matter, a small one.
    """
    n_outputs, dim = problem.n_outputs, problem.rows.dim()
    out = np.empty((n_outputs, dim, n_outputs, dim))
    is_shared = loss_of(problem).ignores_shifts()
    if is_shared:
        for k in range(n_outputs):
            out[k, :, k, :] = 0.0
    is_joint = is_shared and dim <= MOST_JOINT and not problem.rows.is_sparse()
    if is_joint:
        pairs = sum_over_problems(_gram_of_pairs, problem, reads=(curvatures,)).reshape(out.shape)
    for k in range(n_outputs):
        for other in range(k if is_shared else k + 1):
            of_part = partial(_gram_of_entry, k=k, other=other)
            if is_joint:  # symmetric up to rounding errors
                gram = 0.5 * (pairs[k, :, other, :] + pairs[other, :, k, :])
            else:
                gram = sum_over_problems(of_part, problem, reads=(curvatures,))
            if is_shared:
                out[k, :, k, :] += gram
                out[other, :, other, :] += gram
                np.negative(gram, out=gram)
            out[k, :, other, :] = gram
            out[other, :, k, :] = gram
    for j in np.flatnonzero(_has_shifts(problem)) if is_pinned else ():
        part = OF_SET if problem.is_constrained and j < problem.rows.n_columns else 1.0
        out[:, j, :, j] += max(part * float(np.diagonal(out[:, j, :, j]).mean()), 1e-300)
    hessian = out.reshape(problem.dim, problem.dim)
    hessian[np.diag_indices(problem.dim)] += problem.term.quadratic
    return hessian
