"""The Taylor model: the memory of second order that CIAG, A-CIAG and NIM keep.

Each component is replaced by its Taylor model of second order at the point of its last visit, its anchor. The gradient of
their mean at y is ([1] of `finitesum.methods.curvature.ciag`, eqs. 19, 21)

    g(y) = b + H y,    b = sum_i p_i (phi'_i - phi''_i u_i) x_i,    H = l2 I + sum_i p_i phi''_i x_i x_i'

with u_i = x_i'(anchor of i) and both derivatives taken there; rows never visited contribute nothing. A visit replaces the
terms of one component [1, eqs. 26, 27]. The quadratic penalty never enters b: its Taylor model is exact.

H is a lower triangle (`finitesum.core.symmetric`). On dense rows up to eight outer products wait in an `OpenModel` before
they join H in one pass over it; products with H count them in. Memory: 3n + d^2 + O(d) numbers; a visit costs O(d^2) and
reading its rows.

The same equations hold for a component f_j given as a function, whose margin is the anchor itself, whose slope is its
gradient and whose curvature is its Hessian H_j (`finitesum.problems.components`):

    b = (1/n) sum_j (nabla f_j - H_j anchor_j),    H = diag(l2) + (1/n) sum_j H_j

Memory 2 n d + d^2: Hessians are not kept, that would be n d^2 numbers. A visit evaluates the one at the old anchor again,
and is charged for both. A component of several outputs keeps the scores and slopes of its rows, 2 n K numbers, by which
its curvatures are computed again without reading data (`finitesum.problems.outputs`).
"""

from typing import Any, NamedTuple

import numpy as np

from finitesum.core import symmetric
from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.core.jit import Interpreted, compiled_form, kernel, kernel_part, reassociated_part
from finitesum.core.symmetric import RANK, add_outer_products, multiply
from finitesum.core.vectors import axpy, is_finite, norm, reordered_dot
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.view import View, first_row, last_row

#: Passes after which b and H are summed again, against rounding errors.
REBUILD_EVERY = 50


class TaylorModel(NamedTuple):
    """The memory: what each row was at its anchor, and the sums b and H."""

    margins: Vector  # (n,)  u_i = x_i'anchor, without the offset; (m, b, K) of K outputs; (n, d), anchors, of functions
    slopes: Vector  # of the same shape: phi'_i at the anchor, 0 before the first visit
    curvatures: Vector  # (n,)  phi''_i at the anchor, 0 before the first visit; empty for outputs and functions
    visited: Flags  # (m,)  whether a component was visited
    linear: Vector  # (d,)  b
    hessian: Matrix  # H, a padded lower triangle: see `finitesum.core.symmetric`


class OpenModel(NamedTuple):
    """A model during a run of visits: its arrays, and outer products weights[k] v_k v_k' that are not yet in H."""

    margins: Vector
    slopes: Vector
    curvatures: Vector
    visited: Flags
    linear: Vector
    hessian: Matrix
    vectors: Matrix  # (8, padded d)
    weights: Vector  # (8,)
    n_waiting: Indices  # (1,)


def empty_model(problem: AnySum) -> TaylorModel:
    """Return the model before the first visit: b = 0 and H = l2 I on the penalised coordinates."""
    hessian = symmetric.allocate(problem.dim)
    diagonal = np.arange(problem.dim)
    hessian[diagonal, diagonal] = problem.term.quadratic
    visited = np.zeros(problem.n_components, dtype=np.bool_)
    is_scalar = isinstance(problem, Problem) and problem.n_outputs == 1
    curvatures = np.zeros(problem.n_rows if is_scalar else 0)
    margins, slopes = np.zeros(problem.slopes_shape), np.zeros(problem.slopes_shape)
    return TaylorModel(margins, slopes, curvatures, visited, np.zeros(problem.dim), hessian)


def copy_model(model: TaylorModel) -> TaylorModel:
    """Return a copy that may be written to."""
    margins, slopes, curvatures, visited, linear, hessian = model
    hessian = symmetric.copy(hessian, linear.size)  # on its boundaries, which NumPy's copy would not keep
    return TaylorModel(margins.copy(), slopes.copy(), curvatures.copy(), visited.copy(), linear.copy(), hessian)


def full_hessian(model: TaylorModel | OpenModel) -> Matrix:
    """Return H as a plain symmetric matrix, shape (d, d)."""
    return symmetric.full(model.hessian, model.linear.size)


def opened(model: TaylorModel) -> OpenModel:
    """Return the model for visits, which write to its arrays; `finish_visits` makes H complete."""
    waiting = symmetric.aligned_zeros(RANK, model.hessian.shape[1])
    return OpenModel(*model, waiting, np.zeros(RANK), np.zeros(1, dtype=np.int64))


# -- a row: numbers of a linear model, arrays of outputs and functions


def times(curvature: Any, change: Any) -> Any:
    """Return phi'' times a change of the margin: matrices times vectors for outputs and functions."""
    if np.ndim(curvature) == 0:
        return curvature * change
    return np.matmul(curvature, change[..., None])[..., 0]


@compiled_form(of=times)
def _times(curvature: float, change: float) -> float:
    return curvature * change


def curvature_at_anchor(view: View, model: OpenModel, i: int) -> Any:
    """Return the curvature that row i has in H; what is not kept is evaluated again at the anchor."""
    if model.curvatures.size:
        return model.curvatures[i]
    if not model.visited[i]:
        return 0.0
    return view.loss.d2(model.margins[i] + view.offsets[i], view.targets[i])


@compiled_form(of=curvature_at_anchor)
def _curvature_at_anchor(view: View, model: OpenModel, i: int) -> float:
    return model.curvatures[i]  # type: ignore[no-any-return]


def predicted_change(view: View, model: OpenModel, i: int, margin: Any, last: Any) -> Any:
    """Return phi'' at the anchor times the change of row i's margin; H has `last` in its place, maybe a majorant's."""
    if model.curvatures.size == 0:
        return times(last, margin - model.margins[i])
    return _predicted_change(view, model, i, margin, last)


@compiled_form(of=predicted_change)
def _predicted_change(view: View, model: OpenModel, i: int, margin: float, last: float) -> float:
    curvature = view.loss.d2(model.margins[i] + view.offsets[i], view.targets[i])
    return curvature * (margin - model.margins[i])  # type: ignore[no-any-return]


@kernel_part
def move_anchor(view: View, model: OpenModel, i: int, margin: Any, slope: Any, curvature: Any, last: Any) -> None:
    """Replace row i's term of b [1, eq. 26] and what is kept of it; `last` is the curvature that it had."""
    old = model.slopes[i] - times(last, model.margins[i])
    view.rows.add_to(i, view.weights[i] * (slope - times(curvature, margin) - old), model.linear)
    model.margins[i] = margin
    model.slopes[i] = slope
    if model.curvatures.size > 0:
        model.curvatures[i] = curvature


def raise_curvature(view: View, model: OpenModel, i: int, rise: Any) -> None:
    """Add rise x_i x_i' to H [1, eq. 27], or let it wait."""
    if isinstance(view.rows, Interpreted):
        view.rows.gram_add(i, rise, model.hessian)
    else:
        _raise_curvature(view, model, i, rise)


@compiled_form(of=raise_curvature)
def _raise_curvature(view: View, model: OpenModel, i: int, rise: float) -> None:
    if rise == 0.0:
        return
    if view.rows.is_sparse():
        view.rows.gram_add(i, rise, model.hessian)
        return
    if model.n_waiting[0] == RANK:
        finish_visits(model)
    k = model.n_waiting[0]
    view.rows.copy_to(i, model.vectors[k])
    model.weights[k] = rise
    model.n_waiting[0] = k + 1


def raise_bounded_curvature(view: View, model: OpenModel, i: int, rise: Any, eigenvalue: float, direction: Vector) -> float:
    """Do as `raise_curvature`, and return a bound on what lambda_max(H) has risen by: trace, or norm for functions.

    A rise that is large beside `eigenvalue` may bring a new largest eigenvector: it is mixed into the `direction` of the
    power iteration, which would take long to turn there by itself.
    """
    if not isinstance(view.rows, Interpreted):
        return _raise_bounded_curvature(view, model, i, rise, eigenvalue, direction)
    dim = view.rows.dim()
    change = np.zeros((dim, dim))
    view.rows.gram_add(i, rise, change)
    model.hessian[:dim, :dim] += change
    change += np.tril(change, -1).T
    return bound_of_rise(change, eigenvalue, direction)


def bound_of_rise(change: Matrix, eigenvalue: float, direction: Vector) -> float:
    """Return the norm of what is added to H; mix what may be a new largest eigenvector into the direction."""
    increase = norm(change.reshape(-1))
    if increase > 0.01 * eigenvalue:
        column = change[int(np.argmax(np.abs(np.diagonal(change))))]
        length = norm(column)
        if length > 0.0:
            axpy(increase / (max(eigenvalue, increase) * length), column, direction)
    return increase


@compiled_form(of=raise_bounded_curvature)
def _raise_bounded_curvature(
    view: View, model: OpenModel, i: int, rise: float, eigenvalue: float, direction: Vector
) -> float:
    increase = 0.0
    if rise > 0.0:
        square = view.rows.squared_norm(i)
        increase = rise * square
        if increase > 0.01 * eigenvalue:
            view.rows.add_to(i, rise * np.sqrt(square) / max(eigenvalue, increase), direction)
    raise_curvature(view, model, i, rise)
    return increase


# -- visits and sums


@kernel_part
def visit(view: View, model: OpenModel, component: int, y: Vector) -> bool:
    """Move the anchor of a component to y; return whether its derivatives are finite."""
    finite = True
    for i in range(first_row(view, component), last_row(view, component)):
        weight = view.weights[i]
        if weight == 0.0:
            continue  # it counts for nothing, and an overflow there would count
        margin = view.rows.dot(i, y)
        slope, curvature = view.loss.d1_d2(margin + view.offsets[i], view.targets[i])
        finite = finite and is_finite(slope) and is_finite(curvature)
        last = curvature_at_anchor(view, model, i)
        raise_curvature(view, model, i, weight * (curvature - last))
        move_anchor(view, model, i, margin, slope, curvature, last)
    model.visited[component] = True
    return finite


@kernel_part
def finish_visits(model: OpenModel) -> None:
    """Make H complete, by the outer products that wait: to be called after the last visit of a run."""
    if model.n_waiting[0] > 0:
        for k in range(model.n_waiting[0], RANK):
            model.weights[k] = 0.0
        add_outer_products(model.hessian, model.vectors, model.weights)
        model.n_waiting[0] = 0


@kernel
def _anchor_all(view: View, model: OpenModel, w: Vector) -> None:
    for component in range(view.n_components):
        visit(view, model, component, w)
    finish_visits(model)


def full_model(problem: AnySum, w: Vector) -> TaylorModel:
    """Return the model with every component anchored at w: one pass of gradients and Hessians."""
    model = empty_model(problem)
    _anchor_all(problem.view, opened(model), w)
    return model


@kernel
def _sum_again(view: View, model: OpenModel) -> None:
    for component in range(view.n_components):
        if model.visited[component]:
            for i in range(first_row(view, component), last_row(view, component)):
                weight, curvature = view.weights[i], curvature_at_anchor(view, model, i)
                constant = model.slopes[i] - times(curvature, model.margins[i])
                view.rows.add_to(i, weight * constant, model.linear)
                raise_curvature(view, model, i, weight * curvature)
    finish_visits(model)


def rebuilt(problem: AnySum, model: TaylorModel) -> tuple[TaylorModel, int]:
    """Return the model with b and H summed again from the anchors, and the Hessians of functions that this took.

    The rounding errors of many visits are gone then.
    """
    empty = empty_model(problem)
    again = model._replace(linear=empty.linear, hessian=empty.hessian)
    _sum_again(problem.view, opened(again))
    return again, int(model.visited.sum()) if isinstance(problem, FiniteSum) else 0


def hessians_of_visits(problem: AnySum, n_visits: int, before: TaylorModel, after: TaylorModel) -> int:
    """Return the Hessians that some visits took: one each, of functions the one at the old anchor as well."""
    n_again = n_visits - int(after.visited.sum()) + int(before.visited.sum()) if isinstance(problem, FiniteSum) else 0
    return n_visits + n_again


# -- the mean model


@reassociated_part
def _add_outer_product(vector: Vector, weight: float, y: Vector, out: Vector) -> None:
    """Add weight v (v'y) to out."""
    factor = weight * reordered_dot(vector, y)
    for j in range(y.size):
        out[j] += factor * vector[j]


def _add_outer_products(vectors: Matrix, weights: Vector, n: int, y: Vector, out: Vector) -> None:
    """Add sum_k weight_k v_k (v_k'y) over the first n vectors to out."""
    if n > 0:
        first = vectors[:n, : y.size]
        out += (weights[:n] * (first @ y)) @ first


@compiled_form(of=_add_outer_products)
def _compiled_outer_products(vectors: Matrix, weights: Vector, n: int, y: Vector, out: Vector) -> None:
    for k in range(n):
        _add_outer_product(vectors[k], weights[k], y, out)


@kernel_part
def curvature_product(model: OpenModel, y: Vector, out: Vector) -> None:
    """Write H y to out; both have the padded length."""
    multiply(model.hessian, y, out)
    _add_outer_products(model.vectors, model.weights, model.n_waiting[0], y, out)


@kernel_part
def gradient_into(model: OpenModel, y: Vector, out: Vector) -> None:
    """Write b + H y to out; both have the padded length."""
    curvature_product(model, y, out)
    axpy(1.0, model.linear, out)


@kernel
def _product(hessian: Matrix, y: Vector, out: Vector) -> None:
    multiply(hessian, y, out)


def model_gradient(model: TaylorModel | OpenModel, y: Vector) -> Vector:
    """Return b + H y."""
    padded = symmetric.padded_size(y.size)
    argument, product = np.zeros(padded), np.zeros(padded)
    argument[: y.size] = y
    _product(model.hessian, argument, product)
    return np.asarray(model.linear + product[: y.size])


def balanced_batch_size(problem: Problem) -> int:
    """Return the component size at which reading the rows costs about what the product H y costs.

    b = d^2 / (mean stored entries)^2 within [16, n / 512] on sparse rows, 32 on dense ones: with fewer than some hundred
    components in a pass, models are replaced too rarely to see whether they are good.
    """
    n, dim = problem.n_rows, problem.dim
    if problem.rows.is_sparse():
        per_row = max(1.0, problem.rows.values.size / n)
        wanted = dim**2 / per_row**2
    else:
        wanted = 32.0
    return max(1, int(min(max(wanted, 16.0), n / 512)))
