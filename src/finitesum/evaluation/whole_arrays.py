"""Sums over all rows of small data: a handful of NumPy's operations on whole arrays, prepared once for a problem.

What kernels compute for any rows, in blocks, some components at a time (`finitesum.evaluation.row_sums`), is the same up
to rounding errors. On small data the time is that of the calls, not of the numbers: so there are few, and rows in CSR
form are a matrix where its zeros cost less than its indices. The rows of a sample are copied once for all sums over it.
"""

import copy
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dgemv
from scipy.sparse._sparsetools import csr_todense

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import runs_in_arrays
from finitesum.losses.arrays import in_arrays
from finitesum.losses.base import Curved
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.rows import EVERY, CSRRows, DenseRows, add_combination, products, some_rows, to_matrix
from finitesum.problems.view import n_numbers

#: Rows whose losses are computed at a time: the arrays of a formula's steps stay in the cache.
N_IN_CACHE = 8192

#: The fraction of entries from which CSR rows are multiplied as a matrix with its zeros, as measured: where caches hold
#: that matrix, and elsewhere.
LEAST_DENSITY, DENSITY_OF_LARGE = 0.25, 0.5

#: Numbers of a matrix up to which a copy column by column is worth it: products with short rows take half the time, as
#: long as a cache holds both.
MOST_IN_COLUMNS = 2**17

#: Bytes of sparse rows with their zeros, at most, where many vectors are multiplied at once.
MOST_BYTES = 1 << 28

#: Numbers of rows that are weighted and multiplied at a time: they stay in the cache.
AT_A_TIME = 2**17

#: Multiplications up to which BLAS multiplies two matrices sooner than one by its transpose, as measured.
MOST_OF_SMALL = 1e6


class Losses(NamedTuple):
    """What the losses of rows are at their predictions."""

    slopes: Vector
    curvatures: Vector
    values: Vector


def losses_at(loss: Any, targets: Vector, predictions: Vector, majorize: int) -> Losses:
    """Return phi'_i, phi''_i (or, where that is asked for, the majorant's curvature) and phi_i of rows."""
    if predictions.size <= N_IN_CACHE:
        return _losses_of_some(loss, targets, predictions, majorize)
    out = np.empty((3, predictions.size))
    for first in range(0, predictions.size, N_IN_CACHE):
        some = slice(first, first + N_IN_CACHE)
        for row, part in zip(out, _losses_of_some(loss, targets[some], predictions[some], majorize), strict=True):
            row[some] = part
    return Losses(*out)


def _losses_of_some(loss: Any, targets: Vector, predictions: Vector, majorize: int) -> Losses:
    if isinstance(loss, Curved):
        values, slopes, curvatures = loss.value_d1_d2(predictions, targets)
    else:
        values, (slopes, curvatures) = loss.value(predictions, targets), loss.d1_d2(predictions, targets)
    if majorize > 0:
        bounds = loss.majorant(predictions, targets)
        replaces = np.less(bounds, np.inf) & ((majorize == 2) | (slopes * predictions > 0.0))
        curvatures = np.where(replaces, bounds, curvatures)
    found = slopes, curvatures, values  # a quadratic's curvature is a number
    return Losses(*(part if np.ndim(part) else np.full(predictions.size, float(part)) for part in found))


def common_number(scales: Vector) -> float | None:
    """Return the number that all scales are, None where they differ."""
    return float(scales[0]) if scales.size and (scales == scales[0]).all() else None


def product_of_equals(values: Matrix, scale: float, intercept: int) -> Matrix:
    """Return scale [X, 1]'[X, 1], shape (d + intercept, d + intercept), in the precision of the rows, shape (n, d).

    They are multiplied as they lie in memory.
    """
    d = values.shape[1]
    total = np.empty((d + intercept, d + intercept), dtype=values.dtype)
    total[:d, :d] = values.T @ values  # which sees that it is symmetric
    if intercept:
        total[d, :d] = total[:d, d] = values.sum(axis=0, dtype=np.float64)
        total[d, d] = len(values)
    total *= total.dtype.type(scale)
    return total


def with_zeros(problem: Problem) -> Problem:
    """Return the problem with CSR rows as a matrix with their zeros, where products with that take less time.

    For products with many vectors at once: of one of them `DENSITY_OF_LARGE` holds. The matrix has `MOST_BYTES` at most.
    """
    rows = problem.rows
    size = rows.n_rows * rows.n_columns
    if not isinstance(rows, CSRRows) or rows.values.size < LEAST_DENSITY * size or 8.0 * size > MOST_BYTES:
        return problem
    return replace(problem, rows=DenseRows(to_matrix(rows).toarray(), *rows[3:]))


class WholeArrays:
    """All rows of a problem with one output, or a sample of them, as arrays."""

    def __init__(self, problem: Problem) -> None:
        rows = problem.rows._replace(values=problem.rows.values.astype(np.float64, copy=False))
        size = rows.n_rows * rows.n_columns
        least = LEAST_DENSITY if size <= MOST_IN_COLUMNS else DENSITY_OF_LARGE
        #: Whether the rows are a matrix here.
        self.is_dense = isinstance(rows, DenseRows) or rows.values.size >= least * size
        self.n_columns, self.intercept = rows.n_columns, rows.intercept
        self._take_targets(problem)
        self.weights, self.equal_weight = problem.weights, problem.equal_weight
        self.sample: tuple[Indices, WholeArrays] | None = None  # the rows that were chosen last, and they as arrays
        self.room: dict[str, Vector] = {}  # for X' times weights of the rows, where nobody uses it; samples have the same
        self._prepare(lambda: rows)

    def _take_targets(self, problem: Problem) -> None:
        self.loss, self.targets, self._offsets = in_arrays(problem.loss), problem.targets, problem.offsets
        self.offsets = problem.offsets if problem.has_offsets else None

    def is_of(self, problem: Problem) -> bool:
        """Return whether targets and offsets are those of a problem."""
        return self.targets is problem.targets and self._offsets is problem.offsets

    def of_targets(self, problem: Problem) -> "WholeArrays":
        """Return the same rows with the targets and offsets of a problem."""
        found = copy.copy(self)
        found._take_targets(problem)
        found.sample = None
        return found

    def _prepare(self, rows: Callable[[], DenseRows | CSRRows]) -> None:
        #: Whether products are with columns in memory one by one.
        is_small = self.weights.size * self.n_columns <= MOST_IN_COLUMNS
        self.is_tall = self.is_dense and is_small and self.weights.size >= self.n_columns > 0
        self.lacks = None if self.equal_weight > 0.0 or self.weights.all() else self.weights == 0.0
        self.columns: dict[str, Matrix] = {}  # X' in a precision
        self.matrices: dict[str, Matrix] = {}  # sparse rows with their zeros in a precision
        self._given = rows

    @functools.cached_property
    def rows(self) -> DenseRows | CSRRows:
        """The rows: where products are with them, not with their columns, those of a matrix with its zeros."""
        rows = self._given()
        if isinstance(rows, CSRRows) and self.is_dense and not self.is_tall:
            return DenseRows(to_matrix(rows).toarray(), *rows[3:])
        return rows

    @functools.cached_property
    def transposed(self) -> Matrix | None:
        """The rows' matrix as LAPACK sees it, for products without the checks of a general one."""
        return self.rows.values.T if isinstance(self.rows, DenseRows) and self.rows.values.size else None

    def kept_sample(self, chosen: Indices) -> "WholeArrays | None":
        """Return the chosen rows as arrays where they are those that were chosen last."""
        kept = self.sample
        return kept[1] if kept is not None and np.array_equal(kept[0], chosen) else None

    def of_sample(self, chosen: Indices) -> "WholeArrays":
        """Return the chosen rows, increasing, as arrays; those of the last ones are kept."""
        if (kept := self.kept_sample(chosen)) is not None:
            return kept
        found = copy.copy(self)
        for name in ("rows", "transposed"):
            found.__dict__.pop(name, None)
        found.targets, found.weights = self.targets[chosen], self.weights[chosen]
        found.offsets, found.sample = None if self.offsets is None else self.offsets[chosen], None
        found._prepare(lambda: some_rows(self.rows, chosen))
        if found.is_tall:
            found.columns = {"d": self.columns_in(np.float64).take(chosen, axis=1)}
        self.sample = chosen, found
        return found

    def products(self, w: Vector) -> Vector:
        """Return x_i'w."""
        if self.is_tall:
            return np.asarray(dgemv(1.0, self.columns_in(np.float64).T, w))
        if not w.any():  # where fits begin
            return np.zeros(self.weights.size)
        if self.transposed is None:
            return products(self.rows, w)
        found: Vector = dgemv(1.0, self.transposed, w[: self.n_columns], trans=1)
        if self.intercept:
            found += w[self.n_columns]
        return found

    def combination(self, scales: Vector) -> Vector:
        """Return sum_i s_i x_i."""
        if self.is_tall:
            return np.asarray(dgemv(1.0, self.columns_in(np.float64).T, scales, trans=1))
        out = np.zeros(self.n_columns + self.intercept)
        if self.transposed is None:
            add_combination(self.rows, scales, out)
        else:
            out[: self.n_columns] = dgemv(1.0, self.transposed, scales)
            if self.intercept:
                out[-1] = scales.sum()
        return out

    def sums(
        self,
        w: Vector,
        majorize: int,
        curvatures: npt.NDArray[Any] | None,
        slopes: Vector | None,
        chosen: Indices | slice = EVERY,
    ) -> Any:
        """Return what `loss_sums` does, over chosen rows; what is written is written at their places."""
        if not isinstance(chosen, slice):
            return self.of_sample(chosen)._sums(w, majorize, curvatures, slopes, chosen)
        return self._sums(w, majorize, curvatures, slopes, chosen)

    def _sums(self, w: Vector, majorize: int, curvatures: Any, slopes: Vector | None, places: Indices | slice) -> Any:
        with np.errstate(all="ignore"):  # as machine code does
            predictions = self.products(w)
            if self.offsets is not None:
                predictions += self.offsets
            found = losses_at(self.loss, self.targets, predictions, majorize)
            if self.lacks is not None:
                for part in found:
                    part[self.lacks] = 0.0  # what overflows must not show
            if curvatures is not None:
                curvatures[places] = found.curvatures
            if slopes is not None:
                slopes[places] = found.slopes
            weighted = (self.equal_weight or self.weights) * found.slopes
            value = self.equal_weight * found.values.sum() if self.equal_weight > 0.0 else self.weights @ found.values
            return self.combination(weighted), float(weighted @ found.slopes), float(value)

    def along(self, what: str, line: tuple[Vector, Vector], t: float) -> Vector:
        """Return p_i times "value" or "d1" of the losses at the predictions starts + t changes."""
        with np.errstate(all="ignore"):
            predictions = line[0] + t * line[1]
            if self.offsets is not None:
                predictions += self.offsets
            found: Vector = self.weights * getattr(self.loss, what)(predictions, self.targets)
            if self.lacks is not None:
                found[self.lacks] = 0.0
        return found

    def gram(self, scales: Vector, dtype: Any = np.float64, every: int = 1) -> Matrix:
        """Return sum_i s_i x_i x_i' of all rows or every k-th, symmetric, s_i >= 0, by products in float64 or float32.

        Few columns lie in memory one by one, so that they are scaled by long loops; else some rows at a time are.
        """
        scales, common = scales[::every], common_number(scales[::every])
        if not self.is_tall:
            values = self._matrix_in(dtype)[::every]
            if common is not None and values.dtype == dtype and values.flags.c_contiguous:
                return product_of_equals(values, common, self.intercept)
            return self._gram_of_rows(values, np.sqrt(scales).astype(dtype)[:, None])
        key, columns = np.dtype(dtype).char, self.columns_in(dtype)[:, ::every]
        if common is not None:
            return np.asarray(columns @ columns.T) * columns.dtype.type(common)
        memory = self.room.pop(key, None)  # which other threads do not find then
        if memory is None or memory.size < columns.size:
            memory = np.empty(columns.size, dtype=dtype)
        scaled = memory[: columns.size].reshape(columns.shape)
        if len(columns) * columns.size <= MOST_OF_SMALL:
            np.multiply(columns, scales.astype(dtype, copy=False), out=scaled)
            found = scaled @ columns.T
            found = 0.5 * (found + found.T)
        else:
            np.multiply(columns, np.sqrt(scales).astype(dtype, copy=False), out=scaled)
            found = scaled @ scaled.T  # which sees that it is symmetric
        self.room[key] = memory
        return np.asarray(found)

    def _gram_of_rows(self, values: Matrix, roots: Matrix) -> Matrix:
        """Return the product of rows, each times its root in a column, with itself."""
        (n, d), dim = values.shape, self.n_columns + self.intercept
        n_together, total = max(AT_A_TIME // dim, 1), np.zeros((dim, dim), dtype=roots.dtype)
        room = np.empty((min(n, n_together), dim), dtype=roots.dtype)
        for first in range(0, n, n_together):
            some = slice(first, first + n_together)
            scaled = room[: len(roots[some])]
            scaled[:, :d], scaled[:, d:] = values[some], 1.0
            scaled *= roots[some]
            total += scaled.T @ scaled  # which sees that it is symmetric
        return total

    def _matrix_in(self, dtype: Any) -> Matrix:
        """Return the rows as a matrix without the intercept's ones, of sparse rows in a precision."""
        if isinstance(self.rows, DenseRows):
            return self.rows.values
        key = np.dtype(dtype).char
        if key not in self.matrices:
            rows, self.matrices[key] = self.rows, np.zeros((self.weights.size, self.n_columns), dtype=dtype)
            # what SciPy's array comes to, without a copy of its indices
            csr_todense(*self.matrices[key].shape, rows.starts, rows.columns, rows.values.astype(dtype), self.matrices[key])
        return self.matrices[key]

    def columns_in(self, dtype: Any) -> Matrix:
        """Return X' with the intercept's ones, with the zeros of sparse rows."""
        key = np.dtype(dtype).char
        if (columns := self.columns.get(key)) is None:
            if (known := self.columns.get("d")) is not None:
                columns = known.astype(dtype)
            else:
                matrix, d = to_matrix(self.rows), self.n_columns
                columns = np.empty((d + self.intercept, self.weights.size), dtype=dtype)
                columns[:d] = matrix.T if isinstance(matrix, np.ndarray) else matrix.T.toarray()
                columns[d:] = 1.0
            self.columns[key] = columns
        return columns


def whole_arrays(problem: Problem) -> WholeArrays | None:
    """Return a problem as arrays, None where it is not small or has several outputs, or where kernels are asked for."""
    if problem.n_outputs > 1 or not runs_in_arrays(_numbers_touched(problem)):
        return None
    return _as_arrays(problem)


@remembered_of_rows
def _numbers_touched(problem: Problem) -> float:
    return n_numbers(problem)


def _as_arrays(problem: Problem) -> WholeArrays:
    """Return the arrays that are kept, or, of problems that share their rows, those of other targets with these."""
    kept: WholeArrays | None = problem.of_rows.get("arrays")
    if kept is None or not kept.is_of(problem):
        problem.of_rows["arrays"] = kept = WholeArrays(problem) if kept is None else kept.of_targets(problem)
    return kept
