"""Gram matrices of the rows, weighted with curvatures: Hessians of linear models."""

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy.linalg import lapack

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import MOST_NUMBERS, array_form, has_machine_code, kernel, kernel_part, without_stand_ins
from finitesum.core.symmetric import mirrored
from finitesum.evaluation.row_blocks import Block, sum_over_blocks
from finitesum.evaluation.row_sums import curvatures_at
from finitesum.evaluation.whole_arrays import WholeArrays, common_number, product_of_equals, whole_arrays
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import CSRRows, DenseRows, n_entries, some_rows, to_matrix

#: Numbers of dense rows that are weighted and multiplied at a time: they stay in the cache.
BLOCK = 2**16

#: Columns of dense rows up to which threads share the rows, each with sums of its own; beyond, the linear algebra library's
#: threads share a product.
MOST_SHARED = 2000

#: Columns of dense rows from which a Hessian is summed in single precision.
LEAST_COLUMNS = 32

#: The least pivot of a Hessian summed in single precision, relative to its diagonal, and to what the diagonal was before.
LEAST_PIVOT, MOST_FALLEN = 1e-2, 1e-4

#: Rows by columns from which a sum that was not precise enough costs little beside the factor that shows it.
MANY_ROWS = 8

#: Rows of a part that is as good as all where steps leave much, by columns; its least rows by all, and what it must save:
#: multiplications.
ENOUGH_ROWS, FEWER, WORTH_A_PART = 16, 2, 2**24

#: The largest diagonal entry is between this and its inverse, so that single precision has room.
LEAST_SUM = 1e-30


@kernel_part
def _add_grams(rows: CSRRows, picked: Indices, scales: Vector, lower: Matrix) -> None:
    for k in range(picked.size):
        rows.gram_add(picked[k], scales[k], lower)


@kernel
def _add_sparse(rows: CSRRows, picked: Indices, scales: Vector, lower: Matrix) -> None:
    _add_grams(rows, picked, scales, lower)


#: Nanoseconds that a Gram matrix of sparse rows may take longer in arrays than by the kernel where that is on disk, and
#: where it would be compiled; and that it may take in arrays.
MOST_LOST, MOST_TO_COMPILE, MOST_IN_ARRAYS = 2e6, 1e7, 2e7


def _gram_numbers(rows: CSRRows, picked: Indices, *_others: Any) -> float:
    """Return a number beyond `MOST_NUMBERS` where a Gram matrix is worth a kernel; the times are as measured."""
    lost, in_arrays = _lost_in_arrays(rows, picked)
    return MOST_NUMBERS * max(lost / MOST_TO_COMPILE, in_arrays / MOST_IN_ARRAYS)


def _stands_in(rows: CSRRows, picked: Indices, *_others: Any) -> bool:
    """Return whether the form over arrays gives way to machine code that is on disk."""
    return _lost_in_arrays(rows, picked)[0] > MOST_LOST


def _lost_in_arrays(rows: CSRRows, picked: Indices) -> tuple[float, float]:
    """Return how much longer a Gram matrix takes in arrays than by the kernel, and how long, in nanoseconds."""
    squares = _stored_squares(rows, picked)
    in_arrays = min(_as_dense(rows, picked), _as_sparse(rows, squares))
    return in_arrays - 0.6 * squares, in_arrays


def nanoseconds_in_arrays(rows: CSRRows) -> float | None:
    """Return about how long a Gram matrix of sparse rows takes in arrays; None where it is worth a kernel."""
    lost, in_arrays = _lost_in_arrays(rows, np.arange(rows.n_rows))
    is_worth_a_kernel = lost > min(MOST_LOST, MOST_TO_COMPILE) or in_arrays > MOST_IN_ARRAYS
    return None if is_worth_a_kernel else in_arrays


def _stored_squares(rows: CSRRows, picked: Indices) -> float:
    stored = (rows.starts[picked + 1] - rows.starts[picked]).astype(np.float64)
    return float(stored @ stored)


def _as_dense(rows: CSRRows, picked: Indices) -> float:
    """Return about how many nanoseconds a matrix product of the rows with their zeros takes."""
    return picked.size * rows.dim() * (2.0 + rows.dim() / 16.0) * 0.7


def _as_sparse(rows: CSRRows, squares: float) -> float:
    """Return about how many nanoseconds a product of sparse matrices takes, given the sum of squared entries a row."""
    return 8.5 * squares + 15.0 * float(rows.dim()) ** 2


def gram_of(rows: CSRRows) -> Matrix:
    """Return sum_i x_i x_i' of sparse rows, shape (dim, dim)."""
    lower = np.zeros((rows.dim(), rows.dim()))
    _add_sparse(rows, np.arange(rows.n_rows), np.ones(rows.n_rows), lower)
    return mirrored(lower)


@array_form(_add_sparse, _gram_numbers, stands_in=_stands_in)
def _sparse_in_arrays(rows: CSRRows, picked: Indices, scales: Vector, lower: Matrix) -> None:
    some: Any = some_rows(rows, picked)
    d = rows.n_columns
    is_dense = _as_dense(rows, picked) < _as_sparse(rows, _stored_squares(rows, picked))
    if is_dense and scales.min(initial=0.0) >= 0.0:  # the stored numbers are fewer than those of a block
        roots = np.sqrt(scales)
        block = to_matrix(some._replace(values=some.values * np.repeat(roots, np.diff(some.starts)))).toarray()
        lower[:d, :d] += np.tril(block.T @ block)
        if rows.intercept:
            lower[d, :d] += roots @ block
            lower[d, d] += scales.sum()
        return
    matrix = to_matrix(some).astype(np.float64, copy=False)
    if is_dense:
        dense = DenseRows(matrix.toarray(), picked.size, d, 0)
        total = _sum_dense(dense, np.arange(picked.size), scales, None, single_precision=False)
        lower[:d, :d] += np.tril(total)
    else:
        scaled = matrix.copy()
        scaled.data *= np.repeat(scales, np.diff(matrix.indptr))
        lower[:d, :d] += np.tril((matrix.T @ scaled).toarray())
    if rows.intercept:
        lower[d, :d] += matrix.T @ scales
        lower[d, d] += scales.sum()


@kernel
def _scale_rows(values: Any, picked: Indices, scales: Vector, centre: Vector, out: Any) -> None:
    """Write s_k^(1/2) (x_i - c), i = picked[k], and in a last column, where there is one, s_k^(1/2); c may be empty."""
    d = values.shape[1]
    for k in range(np.uint64(picked.size)):
        i, root = np.uint64(picked[k]), math.sqrt(scales[k])
        if centre.size > 0:
            for j in range(np.uint64(d)):
                out[k, j] = root * (np.float64(values[i, j]) - centre[j])
        else:
            for j in range(np.uint64(d)):
                out[k, j] = root * np.float64(values[i, j])
        for j in range(np.uint64(d), np.uint64(out.shape[1])):
            out[k, j] = root


@array_form(_scale_rows, lambda values, *_: float(values.size))
def _scale_rows_in_arrays(values: Any, picked: Indices, scales: Vector, centre: Vector, out: Any) -> None:
    d, roots = values.shape[1], np.sqrt(scales)[:, None]
    if not centre.size and out.shape[1] == d and out.dtype == values.dtype:
        values.take(picked, axis=0, out=out, mode="clip")  # no copy in between
        out *= roots
        return
    stored = values[picked] - centre if centre.size else values[picked]
    np.multiply(stored, roots, out=out[:, :d], casting="same_kind")
    out[:, d:] = roots


def _sum_dense(
    rows: DenseRows, picked: Indices, scales: Vector, centre: Vector | None, *, single_precision: bool
) -> Matrix:
    """Return sum_k s_k x_i x_i', i = picked[k]; those of s_k < 0 apart, because BLAS squares what it multiplies."""
    dim, dtype = rows.dim(), np.float32 if single_precision else np.float64
    if centre is None and rows.values.dtype == dtype and picked.size == picked[-1:].sum() - picked[:1].sum() + 1:
        values, common = rows.values[picked[0] : picked[-1] + 1], common_number(scales)
        if common is not None and values.flags.c_contiguous:
            return product_of_equals(values, common, rows.intercept)
    total, product = np.zeros((dim, dim), dtype=dtype), np.empty((dim, dim), dtype=dtype)
    n_together, less = min(max(1, BLOCK // dim, dim // 4), 4096), np.empty(0) if centre is None else centre
    room = np.empty((min(n_together, picked.size), dim), dtype=dtype)
    for sign, add in ((1.0, np.add), (-1.0, np.subtract)):
        chosen = np.flatnonzero(~(sign * scales <= 0.0))  # NaN too: it must show
        for start in range(0, chosen.size, n_together):
            some = chosen[start : start + n_together]
            block = room[: some.size]
            _scale_rows(rows.values, picked[some], sign * scales[some], less, block)
            np.matmul(block.T, block, out=product)  # which sees that it is symmetric
            add(total, product, out=total)
    return total


@remembered_of_rows
def _is_dense_product(problem: Problem) -> bool:
    """Return whether the Gram matrix of sparse rows is best the product of a matrix with their zeros, which is kept."""
    rows, everything = problem.rows, np.arange(problem.n_rows)
    if not isinstance(rows, CSRRows) or _gram_numbers(rows, everything) > MOST_NUMBERS:
        return False
    if _stands_in(rows, everything) and has_machine_code(_add_sparse, rows, everything, np.zeros(0), np.zeros((0, 0))):
        return False
    return _as_dense(rows, everything) < _as_sparse(rows, _stored_squares(rows, everything))


def _dense_arrays(problem: Problem) -> WholeArrays | None:
    """Return small data as arrays, where its Gram matrices are best products of a matrix."""
    arrays = whole_arrays(problem)
    return arrays if arrays is not None and (arrays.is_dense or _is_dense_product(problem)) else None


def _in_arrays(
    problem: Problem, picked: Indices | None, scales: Vector, *, single_precision: bool = False, every: int = 1
) -> Matrix | None:
    """Return sum_k s_k x_i x_i', i = picked[k], over every k-th row of small data (picked is None), or the last sample's.

    None for other data and rows, and for negative s_k.
    """
    arrays = _dense_arrays(problem)
    if arrays is not None and picked is not None and picked.size < problem.n_rows:
        arrays = arrays.kept_sample(picked)
    if arrays is None or not scales.min(initial=0.0) >= 0.0:
        return None
    with np.errstate(all="ignore"):  # what is too large for single precision is seen by its factor
        return arrays.gram(scales, np.float32 if single_precision else np.float64, every)


def add_gram(
    problem: Problem,
    picked: Indices,
    scales: Vector,
    sums: Matrix,
    *,
    centre: Vector | None = None,
    single_precision: bool = False,
    n_threads: int = 1,
) -> None:
    """Add sum_k s_k x_i x_i', i = picked[k] (increasing), s_k of any sign, to the lower triangle of `sums`.

    Dense rows are taken less the `centre`, shape (d,), the intercept's 1 as it is; they may be summed in float32.
    """
    is_sparse, is_parts = problem.rows.is_sparse(), is_parted(problem)
    whole = None if is_parts else sums
    if centre is None and (found := _in_arrays(problem, picked, scales, single_precision=single_precision)) is not None:
        sums += found
        return

    def sum_of(block: Block, of_picked: Vector) -> Matrix:
        rows, some = block.view.rows, block.components
        if isinstance(rows, DenseRows):
            with np.errstate(all="ignore"):  # what is too large for single precision is seen by its factor
                return _sum_dense(rows, some, of_picked, centre, single_precision=single_precision)
        part = np.zeros((rows.dim(), rows.dim())) if whole is None or some.size < picked.size else whole
        with without_stand_ins() if is_parts else nullcontext():
            _add_sparse(rows, some, of_picked, part)
        return part

    stored = n_entries(problem.rows) / problem.n_rows if is_sparse else problem.dim
    n_numbers = stored**2 / 8.0 if is_sparse else stored + stored**2 / 64.0  # SIMD, no gathering
    n_threads = n_threads if is_sparse or problem.dim <= MOST_SHARED else 1
    total = sum_over_blocks(sum_of, problem.by_rows, picked, n_threads, numbers_a_row=n_numbers, by_component=(scales,))
    if total is not whole:
        sums += total


def may_be_single(problem: Problem) -> bool:
    """Return whether sums in single precision save time, and cost no step of Newton's method.

    Where the loss has quadratic pieces an exact Hessian makes a step that ends the run.
    """
    if not problem.is_smooth or _has_pieces(problem) or problem.dim < LEAST_COLUMNS:
        return False
    return not problem.rows.is_sparse() or _dense_arrays(problem) is not None


def _has_pieces(problem: Problem) -> bool:
    """Return whether the loss is quadratic, or has quadratic pieces."""
    lipschitz, bound = problem.loss.d2_lipschitz(), problem.loss.curvature_bound()
    return lipschitz == 0.0 or (lipschitz == math.inf and bound < math.inf)


def is_precise(diagonal: Vector, before: Vector, pivots: Vector) -> bool:
    """Return whether single precision was enough for a sum of rows, by its diagonal and the pivots of its factor.

    An error stays what it was while the curvature falls: `before` is the largest diagonal since rows were summed so.
    """
    is_scaled = diagonal.min(initial=0.0) >= 0.0 and LEAST_SUM < diagonal.max(initial=0.0) < 1.0 / LEAST_SUM
    return bool(is_scaled and (pivots > np.maximum(LEAST_PIVOT * diagonal, MOST_FALLEN * before)).all())


def gram(
    problem: Problem, scales: Vector, centre: Vector | None = None, *, single_precision: bool = False, every: int = 1
) -> Matrix:
    """Return sum_i s_i x_i x_i' over all rows or every k-th, shape (dim, dim), symmetric; rows with s_i = 0 are not read.

    Those of dense rows may be summed in float32.
    """
    in_arrays = (
        None if centre is not None else _in_arrays(problem, None, scales, single_precision=single_precision, every=every)
    )
    if in_arrays is not None:
        return in_arrays.astype(np.float64, copy=False)
    sums = np.zeros((problem.dim, problem.dim))
    picked = every * np.flatnonzero(scales[::every])
    add_gram(problem, picked, scales[picked], sums, centre=centre, single_precision=single_precision)
    return mirrored(sums)


def gram_of_block(block: Block, scales: Vector) -> Matrix:
    """Return sum_i s_i x_i x_i' over a block's rows, its lower triangle; rows with s_i = 0 are not read."""
    rows, picked = block.view.rows, np.flatnonzero(scales)
    if isinstance(rows, DenseRows):
        return _sum_dense(rows, picked, scales[picked], None, single_precision=False)
    part = np.zeros((rows.dim(), rows.dim()))
    with without_stand_ins():  # a part of the data
        _add_sparse(rows, picked, scales[picked], part)
    return part


def _gram_of_parts(problem: Problem, curvatures: Vector) -> Matrix:
    """Return sum_i p_i c_i x_i x_i', of rows in parts: the products p_i c_i are formed where the rows are."""

    def sum_of(block: Block, of_rows: Vector) -> Matrix:
        return gram_of_block(block, block.view.weights * of_rows)

    return mirrored(sum_over_blocks(sum_of, problem, reads=(curvatures,)))


def hessian_of(problem: Problem, curvatures: Vector) -> Matrix:
    """Return sum_i p_i c_i x_i x_i' + l2 I on the penalised coordinates, symmetric, for curvatures c_i >= 0 of the rows."""
    hessian = _gram_of_parts(problem, curvatures) if is_parted(problem) else gram(problem, problem.weights * curvatures)
    hessian.flat[:: problem.dim + 1] += problem.term.quadratic
    return hessian


def is_single(problem: Problem) -> bool:
    """Return whether many dense rows are worth a try of `hessian_in_single`."""
    return problem.n_rows >= MANY_ROWS * problem.dim and not is_parted(problem) and may_be_single(problem)


def is_part_enough(problem: Problem) -> bool:
    """Return whether far from the minimum the Hessian of a part of the rows is as good as that of all, and saves time."""
    n, dim = problem.n_rows, problem.dim
    is_plain = problem.is_smooth and not _has_pieces(problem) and not is_parted(problem)
    return is_plain and n >= FEWER * ENOUGH_ROWS * dim and n * dim**2 >= WORTH_A_PART


def hessian_in_single(problem: Problem, curvatures: Vector, every: int = 1) -> tuple[Matrix, Matrix] | None:
    """Return what `hessian_of` does, dense rows summed in single precision, and its Cholesky factor for `apply_inverse`.

    None where the factor's pivots show that single precision is not enough. Rows may be some of all, a few rows each
    from the next, which then stand for all.
    """
    scales = problem.weights * curvatures
    if every > 1:
        scales /= float(problem.weights[::every].sum()) or 1.0
    hessian = gram(problem, scales, single_precision=True, every=every)
    diagonal = np.diagonal(hessian).copy()
    hessian.flat[:: problem.dim + 1] += problem.term.quadratic
    factor, info = lapack.dpotrf(hessian.T, lower=0, clean=0)
    is_enough = info == 0 and is_precise(diagonal, np.zeros(problem.dim), np.diagonal(factor) ** 2)
    return (hessian, factor) if is_enough else None


def hessian_at(problem: Problem, w: Vector) -> Matrix:
    """Return the Hessian at w of the smooth part of F, shape (dim, dim)."""
    return hessian_of(problem, curvatures_at(problem, w))
