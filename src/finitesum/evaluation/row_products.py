"""Products with the rows: predictions, gram products and their diagonal, minorants."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import MOST_NUMBERS, array_form, kernel
from finitesum.evaluation.row_blocks import Block, joined, sum_over_blocks, sum_over_problems
from finitesum.evaluation.whole_arrays import whole_arrays
from finitesum.losses.arrays import in_arrays
from finitesum.problems.beside import empty_by_row
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered, remembered_of_rows
from finitesum.problems.partitioned import PartedRows, is_parted
from finitesum.problems.rows import (
    EVERY,
    N_AT_A_TIME,
    CSRRows,
    DenseRows,
    add_combination,
    products,
    some_rows,
    squared_parts,
    squares_of,
    to_matrix,
)
from finitesum.problems.view import View, chosen_rows, first_row, last_row, n_numbers

#: Bytes of entries of which a copy in single precision is made.
MOST_BYTES = 1e9

#: Bytes of a vector from which it is read in single precision: this and the product are more than a core's own cache holds.
MOST_IN_CACHE = 1 << 19

#: Entries whose columns are counted for it: parts, spread evenly, and the entries of each; the columns whose coefficients
#: stay in the first cache, and the part of the entries that these have from which columns are brought in another order.
N_PARTS, N_OF_PART, N_IN_CACHE, MOSTLY = 64, 4096, 4096, 0.5


@kernel
def _predict(view: View, components: Indices, w: Vector, out: Vector) -> None:
    for component in components:
        for i in range(first_row(view, component), last_row(view, component)):
            out[i] = view.rows.dot(i, w)


@array_form(_predict, n_numbers)
def _predict_in_arrays(view: View, components: Indices, w: Vector, out: Vector) -> None:
    chosen = chosen_rows(view, components)
    out[chosen] = products(some_rows(view.rows, chosen), w)


def predictions(problem: Problem, w: Vector, components: Indices | None = None, n_threads: int = 1) -> Vector:
    """Return x_i'w of the rows of some components, or of all, without their offsets, shape (n,); others are undefined."""
    if components is None and (arrays := whole_arrays(problem)) is not None:
        return arrays.products(w)
    out: Vector = empty_by_row(problem)

    def predict(block: Block, of_rows: Vector) -> None:
        _predict(block.view, block.components, w, of_rows)

    sum_over_blocks(predict, problem, components, n_threads, writes=(out,))
    return out


@kernel
def _combine(view: View, components: Indices, coefficients: Vector, out: Vector) -> None:
    for component in components:
        for i in range(first_row(view, component), last_row(view, component)):
            if coefficients[i] != 0.0:
                view.rows.add_to(i, coefficients[i], out)


@array_form(_combine, n_numbers)
def _combine_in_arrays(view: View, components: Indices, coefficients: Vector, out: Vector) -> None:
    chosen = chosen_rows(view, components)
    add_combination(some_rows(view.rows, chosen), coefficients[chosen], out)


def combination(problem: Problem, coefficients: Vector, components: Indices | None = None, n_threads: int = 1) -> Vector:
    """Return sum_i c_i x_i over the rows of some components, or over all, shape (dim,)."""
    if components is None and (arrays := whole_arrays(problem)) is not None:
        return arrays.combination(coefficients)
    return _summed(_combine, problem, coefficients, components, n_threads)


def weighted_combination(problem: Problem, coefficients: Vector) -> Vector:
    """Return sum_i p_i c_i x_i over all rows, shape (dim,); the products p_i c_i are formed where the rows are."""
    if not is_parted(problem):
        return combination(problem, problem.weights * coefficients)

    def of_block(block: Block, of_rows: Vector) -> Vector:
        out = np.zeros(block.view.rows.dim())
        _combine(block.view, block.components, block.view.weights * of_rows, out)
        return out

    total: Vector = sum_over_blocks(of_block, problem, reads=(coefficients,))
    return total


def _summed(
    add_block: Callable[..., None], problem: Problem, numbers: Any, components: Indices | None, n_threads: int = 1
) -> Vector:
    """Return the sum of what a kernel adds to a vector of length dim for each block, given numbers of its rows."""

    def of_block(block: Block, of_rows: Any) -> Vector:
        out = np.zeros(block.view.rows.dim())
        add_block(block.view, block.components, of_rows, out)
        return out

    total: Vector = sum_over_blocks(of_block, problem, components, n_threads, reads=(numbers,))
    return total


@kernel
def _square(rows: DenseRows | CSRRows, out: Vector) -> None:
    for i in range(rows.n_rows):
        out[i] = rows.squared_norm(i)


@array_form(_square, lambda rows, out: float(rows.values.size))
def _square_in_arrays(rows: DenseRows | CSRRows, out: Vector) -> None:
    out[:] = squares_of(rows) + rows.intercept


def squared_norms(problem: Problem, intercept: int) -> Vector:
    """Return ||x_i||^2 of all rows, shape (n,), with an intercept's 1 or without."""
    out: Vector = empty_by_row(problem)

    def square(block: Block, of_rows: Vector) -> None:
        _square(block.view.rows._replace(intercept=intercept), of_rows)

    sum_over_blocks(square, problem, writes=(out,))
    return out


def matrix_of_rows(problem: Problem) -> Any:
    """Return all rows without the intercept as an array or CSR array of float64: for what takes a matrix, and no sums."""

    def matrix(block: Block) -> Any:
        return to_matrix(block.view.rows).astype(np.float64, copy=False)

    def together(first: Any, second: Any) -> Any:
        return joined(first, second) if isinstance(first, np.ndarray) else scipy.sparse.vstack([first, second], "csr")

    return sum_over_blocks(matrix, problem, add=together)


@remembered_of_rows
def squares_of_rows(problem: Problem) -> Vector:
    """Return ||x_i||^2 of all rows, without an intercept's 1."""
    return squared_norms(problem, 0)


@remembered_of_rows
def mean_square(problem: Problem) -> float:
    """Return sum_i p_i ||x_i||^2, without an intercept's 1."""

    def of_part(part: Problem, squares: Vector) -> float:
        return float(part.weights @ squares)

    return float(sum_over_problems(of_part, problem, reads=(squares_of_rows(problem),)))


@remembered_of_rows
def sum_of_squares(problem: Problem) -> float:
    """Return sum_i ||x_i||^2 over all rows, the intercept included."""
    rows = problem.rows
    if isinstance(rows, PartedRows):
        return float(rows.square + rows.intercept * rows.n_rows)
    if squares_of_rows.__name__ in problem.one_output.of_rows:
        return float(squares_of_rows(problem.one_output).sum() + rows.intercept * rows.n_rows)
    numbers, total = rows.values.ravel(), float(rows.intercept * rows.n_rows)
    with np.errstate(over="ignore"):
        if numbers.dtype == np.float64:
            return total + float(np.dot(numbers, numbers))
        for first in range(0, numbers.size, N_AT_A_TIME):  # squares of single precision overflow, and lose digits
            some = numbers[first : first + N_AT_A_TIME].astype(np.float64)
            total += float(np.dot(some, some))
    return total


@kernel
def _multiply(view: View, components: Indices, curvatures: Any, v: Vector, out: Vector) -> None:
    for component in components:
        for i in range(first_row(view, component), last_row(view, component)):
            weight = view.weights[i] * curvatures[i]
            if weight != 0.0:
                view.rows.add_to(i, weight * view.rows.dot(i, v), out)


@array_form(_multiply, n_numbers)
def _multiply_in_arrays(view: View, components: Indices, curvatures: Any, v: Vector, out: Vector) -> None:
    chosen = chosen_rows(view, components)
    rows = some_rows(view.rows, chosen)
    add_combination(rows, view.weights[chosen] * curvatures[chosen] * products(rows, v), out)


def gram_product(
    problem: Problem, curvatures: Any, v: Vector, components: Indices | None = None, n_threads: int = 1
) -> Vector:
    """Return sum_i p_i c_i x_i x_i'v over the rows of some components, or of all, by one pass."""

    if components is None and (arrays := whole_arrays(problem)) is not None:
        return arrays.combination(problem.weights * curvatures * arrays.products(v))

    def product(block: Block, of_rows: Any) -> Vector:
        out = np.zeros(v.size)
        _multiply(block.view, block.components, of_rows, v, out)
        return out

    total: Vector = sum_over_blocks(product, problem, components, n_threads, reads=(curvatures,))
    return total


def rounded_gram_product(
    problem: Problem, curvatures: Any, v: Vector, components: Indices | None = None, n_threads: int = 1
) -> Vector:
    """Return `gram_product`; of sparse rows with many columns that of v in single precision, which is rounded to 1e-7 |v|.

    Entries wait for the coefficients of their columns, which then take half as much of a cache (and of a message).
    """
    if not problem.rows.is_sparse() or v.nbytes <= MOST_IN_CACHE:
        return gram_product(problem, curvatures, v, components, n_threads)
    # without this factor small numbers would vanish, and large ones overflow
    largest = max(float(v.max()), -float(v.min())) or 1.0
    rounded = np.divide(v, largest, out=np.empty(v.size, dtype=np.float32), casting="same_kind")
    product = gram_product(problem, curvatures, rounded, components, n_threads)
    product *= largest
    return product


class Copy(NamedTuple):
    """A problem in other columns, which increase no more: for `gram_product` alone."""

    problem: Problem
    order: Indices | slice  # the coordinates of an iterate, as they stand in the copy


def copy_for_products(problem: Problem) -> Copy:
    """Return the problem with entries in float32, and often used columns of sparse rows first where that is a few of them.

    Itself where it is too large for a copy, or so small that products are NumPy's, which widen entries each time.
    """
    is_small = n_numbers(problem.view) <= MOST_NUMBERS
    return (
        Copy(problem, slice(None))
        if is_small or is_parted(problem) or problem.rows.values.nbytes > MOST_BYTES
        else _copied(problem)
    )


@remembered
def _copied(problem: Problem) -> Copy:
    rows, order = problem.rows, slice(None)
    values = rows.values.astype(np.float32, copy=False)
    if not isinstance(rows, CSRRows):
        return Copy(replace(problem, rows=rows._replace(values=values)), order)
    firsts = np.linspace(0, max(rows.columns.size - N_OF_PART, 0), N_PARTS, dtype=np.int64)
    seen = np.concatenate([rows.columns[first : first + N_OF_PART] for first in firsts])
    used = np.bincount(seen, minlength=rows.n_columns)
    by_use = np.argsort(-used, kind="stable")
    if used[by_use[:N_IN_CACHE]].sum() < MOSTLY * seen.size:
        return Copy(replace(problem, rows=rows._replace(values=values)), order)
    by_use = np.concatenate([by_use, np.arange(rows.n_columns, rows.dim())])
    places = np.empty(rows.dim(), dtype=rows.columns.dtype)
    places[by_use] = np.arange(rows.dim())
    return Copy(replace(problem, rows=rows._replace(values=values, columns=places[rows.columns])), by_use)


@kernel
def _add_squares(view: View, components: Indices, curvatures: Any, out: Vector) -> None:
    for component in components:
        for i in range(first_row(view, component), last_row(view, component)):
            view.rows.add_squares_to(i, view.weights[i] * curvatures[i], out)


@array_form(_add_squares, n_numbers)
def _squares_in_arrays(view: View, components: Indices, curvatures: Any, out: Vector) -> None:
    chosen = chosen_rows(view, components)
    scales = view.weights[chosen] * curvatures[chosen]
    for here, part in squared_parts(some_rows(view.rows, chosen)):
        add_combination(part, scales[here], out)


def gram_diagonal(problem: Problem, curvatures: Any, components: Indices | None = None) -> Vector:
    """Return the diagonal of sum_i p_i c_i x_i x_i' over the rows of some components, or of all."""
    return _summed(_add_squares, problem, curvatures, components)


@kernel
def _add_minorants(view: View, w: Vector, constants: Vector, slopes: Matrix) -> float:
    total = 0.0
    for i in range(view.rows.n_rows):
        weight = view.weights[i]
        if weight > 0.0:
            linear_part = view.rows.dot(i, w)
            prediction = linear_part + view.offsets[i]
            loss = view.loss.value(prediction, view.targets[i])
            slope = view.loss.d1(prediction, view.targets[i])
            total += weight * loss
            side = 1 if slope > 0.0 else 0
            constants[side] += weight * (loss - slope * linear_part)
            view.rows.add_to(i, weight * slope, slopes[side])
    return total


@array_form(_add_minorants, n_numbers)
def _minorants_in_arrays(view: View, w: Vector, constants: Vector, slopes: Matrix) -> float:
    chosen = EVERY if view.equal_weight > 0.0 else np.flatnonzero(view.weights)
    weights, targets, loss = view.weights[chosen], view.targets[chosen], in_arrays(view.loss)
    rows = some_rows(view.rows, chosen)
    linear_part = products(rows, w)
    prediction = linear_part + view.offsets[chosen]
    value, slope = loss.value(prediction, targets), loss.d1(prediction, targets)
    for side, is_here in enumerate((~(slope > 0.0), slope > 0.0)):
        scales = np.where(is_here, weights * slope, 0.0)
        constants[side] += weights @ np.where(is_here, value, 0.0) - scales @ np.where(is_here, linear_part, 0.0)
        add_combination(rows, scales, slopes[side])
    return float(weights @ value)


def minorant_sums(problem: Problem, w: Vector) -> tuple[float, Vector, Matrix]:
    """Return the mean loss at w, and constants and slopes of the linear functions that touch the losses there.

    Those of rows with a slope <= 0 are added up in constants[0] and slopes[0], the others in constants[1] and slopes[1].
    """

    def minorants(block: Block) -> tuple[float, Vector, Matrix]:
        constants, slopes = np.zeros(2), np.zeros((2, w.size))
        return float(_add_minorants(block.view, w, constants, slopes)), constants, slopes

    total: tuple[float, Vector, Matrix] = sum_over_blocks(minorants, problem)
    return total
