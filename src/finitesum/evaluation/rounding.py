"""How far rounding errors may reach into an optimality: what a claim of convergence is confirmed by.

A gradient g = sum_i p_i phi'(u_i) x_i is computed with errors of its predictions u_i, of phi' and of the sum. With u the
unit of rounding and gamma_k = u min(k, 6 sqrt(k)), which sums of k numbers exceed with a probability below 1e-7 [1] ::

    |delta u_i| <= gamma_d s_i,    s_i = sum_j |x_ij w_j| + |u_i|
    |delta g_j| <= sum_i p_i |x_ij| ((gamma_n + 8 u) |phi'_i| + phi''_i |delta u_i|)

and the prox-gradient mapping changes by no more than the gradient. `confirmed` bounds this first by norms of the data,
which costs next to nothing and is enough where columns are of similar size, then by a pass over the rows; where the bound
is still not small beside tol the optimality itself is computed in extended precision (`numpy.longdouble`: 64 binary digits
in place of 53 on x86-64), with sums over dense rows as if in 106 digits (`finitesum.evaluation.double_double`).

References
----------
.. [1] N. J. Higham, T. Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019).
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from finitesum.constraints import Constraint
from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import MOST_NUMBERS, array_form, kernel
from finitesum.core.vectors import norm
from finitesum.evaluation.double_double import dot_rows, sum_of_rows
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.row_blocks import Block, sum_over_blocks, sum_over_problems
from finitesum.evaluation.row_products import sum_of_squares
from finitesum.losses import LOSSES, Hinge, Huber, Probit, SmoothedHinge, Squared, SquaredEpsilonInsensitive, SquaredHinge
from finitesum.losses.arrays import in_arrays
from finitesum.losses.classes import Multinomial, weighted
from finitesum.problems.beside import empty_by_row
from finitesum.problems.finite_sum import AnyProblem
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.partitioned import PartedRows
from finitesum.problems.rows import EVERY, CSRRows, products, rows_between, some_rows, to_matrix
from finitesum.problems.view import View, n_numbers

#: Units of rounding of float64 and of the extended format.
UNIT, EXTENDED_UNIT = float(np.finfo(np.float64).eps) / 2, float(np.finfo(np.longdouble).eps) / 2

#: Errors of a loss's derivative in units of rounding, of one that is linear in pieces, and of a projection relative to the
#: sum of the sizes.
OF_SLOPE, OF_LINEAR_SLOPE, OF_PROJECTION = 8.0, 3.0, 8.0

#: Losses whose derivative is linear in pieces.
PIECEWISE = (Squared, SquaredHinge, Hinge, SmoothedHinge, Huber, SquaredEpsilonInsensitive)

#: An optimality this many times above tol is not there by rounding errors of its own sum alone.
NEAR = 100.0

#: The fraction of an optimality from which its rounding errors matter.
NOISE = 0.1

#: Numbers of rows that are held in extended precision at a time, and of dense rows whose sums kernels compute.
BLOCK_SIZE, IN_KERNELS = 1 << 18, 1 << 21


def _of_sum(n: int, unit: float = UNIT) -> float:
    """Return gamma_n."""
    return unit * min(float(n), 6.0 * math.sqrt(n))


def _of_term(problem: Problem, w: Vector, gradient: Vector) -> float:
    """Return what the quadratic part and the mapping add in float64."""
    term = problem.term
    error = 4.0 * (norm(term.quadratic * w) + norm(gradient))
    if term.is_constrained:
        error += OF_PROJECTION * float(np.abs(term.coefficients(w)).sum())
    return UNIT * (error + _of_prox(problem, w))


def _of_prox(problem: Problem, w: Vector) -> float:
    """Return the error of the mapping in units of float64: 0 where its formula serves any precision."""
    term = problem.term
    if term.is_elastic_net and type(term.constraint).mapping is not Constraint.mapping:
        return 0.0
    return OF_PROJECTION * float(np.abs(term.coefficients(w)).sum()) / term.mapping_step


@remembered_of_rows
def _most_entries(problem: Problem) -> int:
    """Return the largest number of terms that a prediction is a sum of."""
    rows = problem.rows
    if isinstance(rows, PartedRows):
        return rows.most_stored + 2
    most = int(np.diff(rows.starts).max(initial=0)) if isinstance(rows, CSRRows) else rows.n_columns
    return most + 2


@remembered_of_rows
def _frobenius(problem: Problem) -> float:
    """Return a bound of the root of sum_i p_i ||x_i||^2."""
    return math.sqrt(float(problem.weights.max()) * sum_of_squares(problem))


def _by_norms(problem: Problem, w: Vector, found: Measures) -> float:
    """Return a bound of the optimality's error from the data's Frobenius norm, for losses >= 0 of bounded curvature."""
    bound = problem.loss.curvature_bound()
    if bound == math.inf or (type(problem.loss) not in LOSSES.values() and problem.n_outputs == 1):
        return math.inf
    slopes = math.sqrt(2.0 * bound * max(found.objective - problem.term.value(w), 0.0))  # phi'^2 <= 2 bound phi
    return _by_sizes(problem, w, found, slopes, bound)


def _by_sizes(problem: Problem, w: Vector, found: Measures, slopes: float, bound: float) -> float:
    """Return a bound of the optimality's error from the root of sum_i p_i phi'_i^2 and the largest phi''_i."""
    frobenius = _frobenius(problem)
    of_predictions = _of_sum(_most_entries(problem)) * frobenius * norm(w)
    if problem.has_offsets:
        of_predictions += UNIT * float(np.abs(problem.offsets).max())
    error = (_of_sum(problem.n_rows) + OF_SLOPE * UNIT) * slopes + bound * of_predictions
    return frobenius * error + _of_term(problem, w, found.gradient)


def _by_known_sizes(problem: Problem, w: Vector, found: Measures) -> float:
    """Return a bound of the optimality's error from the sizes of slopes and curvatures, infinite where they are unknown."""
    return math.inf if found.sizes is None else _by_sizes(problem, w, found, *found.sizes())


@kernel
def _add_errors(view: View, w: Vector, of_slopes: float, of_predictions: float, errors: Vector) -> None:
    """Add what the rows put into the bound of each entry's error."""
    rows = view.rows
    for i in range(rows.n_rows):
        if view.weights[i] == 0.0:
            continue
        prediction = rows.dot(i, w) + view.offsets[i]
        slope, curvature = view.loss.d1_d2(prediction, view.targets[i])
        first, size = rows.first(i), abs(prediction)
        for k in range(first, first + rows.n_stored(i)):
            size += abs(rows.entry(i, k) * w[rows.column(i, k)])
        error = view.weights[i] * (of_slopes * abs(slope) + of_predictions * curvature * size)
        for k in range(first, first + rows.n_stored(i)):
            errors[rows.column(i, k)] += error * abs(rows.entry(i, k))
        for j in range(rows.n_columns, rows.dim()):
            errors[j] += error


@array_form(_add_errors, n_numbers)
def _errors_in_arrays(view: View, w: Vector, of_slopes: float, of_predictions: float, errors: Vector) -> None:
    chosen = EVERY if view.equal_weight > 0.0 else np.flatnonzero(view.weights)
    rows = some_rows(view.rows, chosen)
    matrix, d = abs(to_matrix(rows).astype(np.float64, copy=False)), rows.n_columns
    prediction = products(rows, w) + view.offsets[chosen]
    slope, curvature = in_arrays(view.loss).d1_d2(prediction, view.targets[chosen])
    sizes = np.abs(prediction) + matrix @ np.abs(w[:d])
    error = view.weights[chosen] * (of_slopes * np.abs(slope) + of_predictions * curvature * sizes)
    errors[:d] += matrix.T @ error
    errors[d:] += error.sum()


def gradient_rounding(problem: Problem, w: Vector) -> float:
    """Return a bound of the norm of the rounding errors in a linear model's gradient at w, by a pass over the rows."""
    of_slopes, of_predictions = _of_sum(problem.n_rows) + OF_SLOPE * UNIT, _of_sum(_most_entries(problem))
    if problem.n_outputs > 1:
        of_part = partial(_errors_of_outputs, w, _most_entries(problem), of_slopes, of_predictions)
        return float(np.linalg.norm(sum_over_problems(of_part, problem)))

    def errors_of(block: Block) -> Vector:
        errors = np.zeros(w.size)
        _add_errors(block.view, w, of_slopes, of_predictions, errors)
        return errors

    return float(np.linalg.norm(sum_over_blocks(errors_of, problem)))


def _errors_of_outputs(w: Vector, most: int, of_slopes: float, of_predictions: float, problem: Problem) -> Matrix:
    """Return what the rows put into the bound of each entry's error, output by output."""
    table, d, loss = w.reshape(problem.n_outputs, -1), problem.rows.n_columns, cast(Any, problem.loss)
    errors = np.zeros(table.shape)
    for here, stored, extended in _blocks(problem, most):
        matrix, fixed = stored.astype(np.float64), extended.astype(np.float64) + table[:, d:].sum(axis=1)
        sizes = abs(matrix)
        scores = matrix @ table[:, :d].T + fixed
        slopes = loss.d1(scores, problem.targets[here])
        reach = of_predictions * (sizes @ np.abs(table[:, :d]).T + np.abs(fixed) + np.abs(scores))
        change = _most_change(problem, slopes, reach) + of_slopes * np.abs(slopes)
        error = weighted(change, problem.weights[here])
        errors[:, :d] += (sizes.T @ error).T
        errors[:, d:] += error.sum(axis=0)[:, None]
    return errors


def _most_change(problem: Problem, slopes: Any, reach: Any) -> Any:
    """Return by how much the slopes of several outputs may change where predictions do by at most `reach`."""
    loss: Any = problem.loss
    return loss.most_change(slopes, reach) if isinstance(loss, Multinomial) else loss.curvature_bound() * reach


def _by_rows(problem: Problem, w: Vector, found: Measures) -> float:
    return gradient_rounding(problem, w) + _of_term(problem, w, found.gradient)


def _slopes(problem: Problem, predictions: Any, targets: Any) -> tuple[Any, float]:
    """Return the derivatives at extended predictions, and their relative error."""
    loss: Any = problem.loss
    if problem.n_outputs > 1:
        return loss.d1(predictions, targets), OF_SLOPE * EXTENDED_UNIT
    is_ours = type(loss) in LOSSES.values() and not isinstance(loss, Probit)  # whose erfc is one of float64
    of_slope = OF_LINEAR_SLOPE if isinstance(loss, PIECEWISE) else OF_SLOPE
    return in_arrays(loss).d1(predictions, targets), of_slope * (EXTENDED_UNIT if is_ours else UNIT)


def _predictions(problem: Problem, stored: Any, most: int, w: Vector, offsets: Any) -> tuple[Any, Any]:
    """Return offsets + the predictions of some rows at w, shape (rows, outputs), and bounds of their errors.

    They have at most this many entries, an intercept and an offset counted.
    """
    table, d = w.reshape(problem.n_outputs, -1), problem.rows.n_columns
    if isinstance(stored, np.ndarray):
        found, sizes = zip(*(dot_rows(stored, *of) for of in zip(table, offsets.T, strict=True)), strict=True)
        predictions = np.column_stack(found)
        of_sums = np.column_stack(sizes) + np.abs(offsets) + np.abs(table[:, d:]).sum(axis=1)
        return predictions, 2.0 * EXTENDED_UNIT * np.abs(predictions) + 4.0 * _of_sum(most) ** 2 * of_sums
    extended, of_rows = table.astype(np.longdouble), abs(stored).astype(np.float64) @ np.abs(table[:, :d]).T
    predictions = stored.astype(np.longdouble) @ extended[:, :d].T + offsets
    if problem.has_intercept:
        predictions += extended[:, d]
    return predictions, _of_sum(most, EXTENDED_UNIT) * (of_rows + np.abs(predictions))


def _blocks(problem: Problem, most: int) -> Iterator[tuple[slice, Any, Any]]:
    """Yield the places of some rows of a problem in memory, their matrix and their offsets in extended precision."""
    is_dense = not problem.rows.is_sparse()
    size = max(1, (IN_KERNELS if is_dense and problem.n_rows * most > MOST_NUMBERS else BLOCK_SIZE) // most)
    for first in range(0, problem.n_rows, size):
        here = slice(first, min(first + size, problem.n_rows))
        offsets = np.asarray(problem.offsets)[here].reshape(here.stop - here.start, -1)
        yield here, to_matrix(rows_between(problem.rows, here.start, here.stop)), offsets.astype(np.longdouble)


def extended_slopes(problem: Problem, w: Vector, direction: Vector) -> Callable[[float], float]:
    """Return t -> the slope of the mean loss along w + t direction, of a model with one output, in extended precision."""
    most, starts, changes = _most_entries(problem), *(empty_by_row(problem, np.longdouble) for _ in range(2))

    def predict(part: Problem, start: Any, change: Any) -> None:
        for here, stored, offsets in _blocks(part, most):
            start[here] = _predictions(part, stored, most, w, offsets)[0][:, 0]
            change[here] = _predictions(part, stored, most, direction, np.zeros_like(offsets))[0][:, 0]

    sum_over_problems(predict, problem, writes=(starts, changes))

    def slope(t: float) -> float:
        def of_part(part: Problem, start: Any, change: Any) -> Any:
            slopes, _ = _slopes(part, start + t * change, part.targets)
            return weighted(np.array(slopes), part.weights) @ change

        return float(sum_over_problems(of_part, problem, reads=(starts, changes)))

    return slope


def extended_gradient(problem: Problem, w: Vector) -> tuple[Any, Vector]:
    """Return the gradient of the smooth part of F at w, summed in extended precision, and bounds of its entries' errors."""
    most, of_sum = _most_entries(problem), _of_sum(problem.n_rows, EXTENDED_UNIT)
    gradient, errors = sum_over_problems(lambda part: _extended_sums(part, w, most, of_sum), problem)
    return gradient.ravel() + problem.term.quadratic * w.astype(np.longdouble), errors.ravel()


def _extended_sums(problem: Problem, w: Vector, most: int, of_sum: float) -> tuple[Any, Any]:
    """Return the gradient of the mean loss, and bounds of its entries' errors; `of_sum` is that of all rows' sums."""
    d, n_outputs = problem.rows.n_columns, problem.n_outputs
    gradient, errors = (
        np.zeros((n_outputs, problem.rows.dim()), dtype=np.longdouble),
        np.zeros((n_outputs, problem.rows.dim())),
    )
    for here, stored, offsets in _blocks(problem, most):
        predictions, off = _predictions(problem, stored, most, w, offsets)
        if n_outputs == 1:
            predictions, off = predictions[:, 0], off[:, 0]
        targets, is_dense = problem.targets[here], isinstance(stored, np.ndarray)
        slopes, of_slope = _slopes(problem, predictions, targets)
        if n_outputs == 1:  # a convex loss's slope is monotone
            below, above = (_slopes(problem, predictions + sign * off, targets)[0] for sign in (-1, 1))
            error = np.maximum(above - slopes, slopes - below)
        else:
            error = _most_change(problem, slopes, off)
        error = error + ((2.0 * EXTENDED_UNIT if is_dense else of_sum) + of_slope) * np.abs(slopes)
        weights = problem.weights[here]
        slopes, error = (weighted(np.array(v), weights).reshape(-1, n_outputs) for v in (slopes, error))
        error = error.astype(np.float64)
        if is_dense:
            parts = [sum_of_rows(stored, *of, problem.rows.dim()) for of in zip(slopes.T, error.T, strict=True)]
            gradient += np.array([part for part, _ in parts])
            errors += np.array([part for _, part in parts])
            continue
        gradient[:, :d] += (stored.astype(np.longdouble).T @ slopes).T
        errors[:, :d] += (abs(stored).astype(np.float64).T @ error).T
        if problem.has_intercept:
            gradient[:, d] += slopes.sum(axis=0)
            errors[:, d] += error.sum(axis=0)
    return gradient, errors


@np.errstate(all="ignore")
def in_extended_precision(problem: Problem, w: Vector, found: Measures) -> Measures:
    """Return the measures with gradient and optimality in extended precision, and a bound of the latter's error."""
    smooth, bounds = extended_gradient(problem, w)
    gradient = smooth.astype(np.float64)
    point: Any = w.astype(np.longdouble)
    of_prox = UNIT * _of_prox(problem, w)
    if of_prox > 0.0:  # projections are in float64
        point, smooth = w, gradient
    mapping = problem.term.mapping(point, smooth)
    if problem.term.is_separable:  # what is at a bound hides the error of its slope
        bounds = bounds + 4.0 * EXTENDED_UNIT * np.abs(gradient)
        changes = [np.abs(problem.term.mapping(point, smooth + sign * bounds) - mapping) for sign in (1.0, -1.0)]
        bounds = np.maximum(*changes).astype(np.float64)
    rounding = float(np.linalg.norm(bounds)) + of_prox
    if not problem.term.is_separable:
        rounding += 4.0 * (UNIT if of_prox > 0.0 else EXTENDED_UNIT) * float(np.linalg.norm(gradient))
    rounding = math.inf if math.isnan(rounding) else rounding  # where slopes overflow
    return found._replace(optimality=float(np.sqrt(mapping @ mapping)), gradient=gradient, rounding=rounding)


def is_rounded(problem: Problem, w: Vector, found: Measures) -> bool:
    """Return whether rounding errors may be more than a tenth of the optimality of a model with one output.

    What is known of it has the sizes of the rows' slopes and curvatures at w.
    """
    most = NOISE * found.optimality
    with np.errstate(all="ignore"):
        return not (_by_known_sizes(problem, w, found) <= most or _by_rows(problem, w, found) <= most)


def is_rounded_by_norms(problem: Problem, w: Vector, found: Measures) -> bool:
    """Return whether rounding errors may be more than a tenth of the optimality, of a model with any number of outputs."""
    with np.errstate(all="ignore"):
        return not _by_norms(problem, w, found) <= NOISE * found.optimality


def is_confirmed(problem: Problem, w: Vector, found: Measures, tol: float) -> bool:
    """Return whether optimality <= tol is certain without a sum in extended precision."""
    with np.errstate(all="ignore"):
        return found.optimality + _by_norms(problem, w, found) <= tol


def confirmed(problem: AnyProblem, w: Vector, found: Measures, tol: float) -> Measures:
    """Return the measures that `evaluate` found at w, where optimality <= tol with a bound of its rounding error.

    What is claimed is optimality + rounding <= tol. Bounds are known for linear models with smooth losses; for others, and
    where the optimality is above tol by more than rounding errors, the measures are returned as they are.
    """
    if not isinstance(problem, Problem) or not problem.loss.is_smooth() or not found.optimality <= NEAR * tol:
        return found
    with np.errstate(all="ignore"):
        for bound in (_by_norms, _by_known_sizes, _by_rows):
            rounding = bound(problem, w, found)
            if found.optimality + rounding <= tol:
                return found._replace(rounding=rounding)
            if found.optimality - rounding > tol:
                return found
        return in_extended_precision(problem, w, found)
