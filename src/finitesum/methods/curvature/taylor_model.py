"""The second-order memory that CIAG, A-CIAG and NIM share.

Each component is replaced by its Taylor model of second order at the point of its last visit, its anchor. The gradient of
their mean at y is [1, eqs. 19, 21]

    g(y) = b + H y,    b = sum_i p_i (phi'_i - phi''_i u_i) z_i,    H = l2 I + sum_i p_i phi''_i z_i z_i'

with u_i = z_i'(anchor of i) and both derivatives taken there; rows never visited contribute nothing. A visit replaces
one component's share [1, eqs. 26, 27]. The quadratic penalty never enters b: its Taylor model is exact.
H is a lower triangle (`finitesum.core.symmetric`). On dense rows up to eight outer products wait in `Pending` before
they join H in one sweep; products with H count them in. Memory: 3n + d^2 + O(d) numbers; a visit costs O(d^2) and
reading its rows.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from finitesum.core import symmetric
from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.core.jit import kernel, kernel_part, reassociated_part
from finitesum.core.symmetric import RANK, add_outer_products, multiply
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row


class Surrogate(NamedTuple):
    """The memory: an anchor's margin, slope and curvature per row, and the aggregates b and H."""

    margins: Vector  # (n,)  u_i = z_i'anchor, without the offset
    slopes: Vector  # (n,)  phi'_i at the anchor, 0 before the first visit
    curvatures: Vector  # (n,)  phi''_i at the anchor, 0 before the first visit
    visited: Flags  # (m,)  whether a component was visited
    linear: Vector  # (d,)  b
    hessian: Matrix  # H, a padded lower triangle: see `finitesum.core.symmetric`


class Pending(NamedTuple):
    """Scratch of a run of visits: outer products weights[k] v_k v_k' that are not yet in H."""

    vectors: Matrix  # (8, padded d)
    weights: Vector  # (8,)
    n_waiting: Indices  # (1,)


def empty_surrogate(problem: Problem) -> Surrogate:
    """Return the memory before the first visit: b = 0 and H = l2 I on the penalised coordinates."""
    n, dim = problem.n_rows, problem.dim
    hessian = symmetric.allocate(dim)
    diagonal = np.arange(dim)
    hessian[diagonal, diagonal] = problem.term.quadratic
    visited = np.zeros(problem.n_components, dtype=np.bool_)
    return Surrogate(np.zeros(n), np.zeros(n), np.zeros(n), visited, np.zeros(dim), hessian)


def copy_surrogate(surrogate: Surrogate) -> Surrogate:
    """Return a copy that may be written to."""
    margins, slopes, curvatures, visited, linear, hessian = surrogate
    hessian = symmetric.copy(hessian, linear.size)
    return Surrogate(margins.copy(), slopes.copy(), curvatures.copy(), visited.copy(), linear.copy(), hessian)


def full_hessian(surrogate: Surrogate) -> Matrix:
    """Return H as a plain symmetric matrix, shape (d, d)."""
    return symmetric.full(surrogate.hessian, surrogate.linear.size)


@kernel_part
def _join(surrogate: Surrogate, pending: Pending) -> None:
    """Add the outer products that wait to H."""
    if pending.n_waiting[0] > 0:
        for k in range(pending.n_waiting[0], RANK):
            pending.weights[k] = 0.0
        add_outer_products(surrogate.hessian, pending.vectors, pending.weights)
        pending.n_waiting[0] = 0


@kernel_part
def finish_visits(surrogate: Surrogate, pending: Pending) -> None:
    """Make H complete: to be called after the last visit of a run."""
    _join(surrogate, pending)


@kernel_part
def _raise_curvature(linear_sum: LinearSum, surrogate: Surrogate, pending: Pending, i: int, rise: float) -> None:
    """Add rise z_i z_i' to H, or let it wait."""
    if linear_sum.rows.is_sparse():
        linear_sum.rows.gram_add(i, rise, surrogate.hessian)
        return
    if pending.n_waiting[0] == RANK:
        _join(surrogate, pending)
    k = pending.n_waiting[0]
    linear_sum.rows.copy_to(i, pending.vectors[k])
    pending.weights[k] = rise
    pending.n_waiting[0] = k + 1


@kernel_part
def move_anchor(
    linear_sum: LinearSum,
    surrogate: Surrogate,
    pending: Pending,
    i: int,
    margin: float,
    slope: float,
    curvature: float,
) -> None:
    """Replace row i's Taylor model by the one with this margin, slope and curvature [1, eqs. 26, 27]."""
    weight = linear_sum.weights[i]
    old = surrogate.slopes[i] - surrogate.curvatures[i] * surrogate.margins[i]
    linear_sum.rows.add_to(i, weight * (slope - curvature * margin - old), surrogate.linear)
    rise = weight * (curvature - surrogate.curvatures[i])
    if rise != 0.0:
        _raise_curvature(linear_sum, surrogate, pending, i, rise)
    surrogate.margins[i] = margin
    surrogate.slopes[i] = slope
    surrogate.curvatures[i] = curvature


@kernel_part
def visit(linear_sum: LinearSum, surrogate: Surrogate, pending: Pending, component: int, y: Vector) -> bool:
    """Move the anchor of a component to y; return whether its derivatives are finite."""
    finite = True
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        if linear_sum.weights[i] == 0.0:
            continue  # it counts for nothing, and an overflow there would count
        margin = linear_sum.rows.dot(i, y)
        slope, curvature = linear_sum.loss.d1_d2(margin + linear_sum.offsets[i], linear_sum.targets[i])
        finite = finite and np.isfinite(slope) and np.isfinite(curvature)
        move_anchor(linear_sum, surrogate, pending, i, margin, slope, curvature)
    surrogate.visited[component] = True
    return finite


@reassociated_part
def _add_outer_product(vector: Vector, weight: float, y: Vector, out: Vector) -> None:
    """Add weight v (v'y) to out."""
    total = 0.0
    for j in range(y.size):
        total += vector[j] * y[j]
    total *= weight
    for j in range(y.size):
        out[j] += total * vector[j]


@kernel_part
def curvature_product(surrogate: Surrogate, pending: Pending, y: Vector, out: Vector) -> None:
    """Write H y to out; both have the padded length."""
    multiply(surrogate.hessian, y, out)
    for k in range(pending.n_waiting[0]):
        _add_outer_product(pending.vectors[k], pending.weights[k], y, out)


@kernel_part
def surrogate_gradient(surrogate: Surrogate, pending: Pending, y: Vector, out: Vector) -> None:
    """Write b + H y to out; both have the padded length."""
    curvature_product(surrogate, pending, y, out)
    for j in range(surrogate.linear.size):
        out[j] += surrogate.linear[j]


def new_pending(problem: Problem) -> Pending:
    """Return scratch with nothing waiting."""
    padded = symmetric.padded_size(problem.dim)
    return Pending(symmetric.aligned_zeros(RANK, padded), np.zeros(RANK), np.zeros(1, dtype=np.int64))


@kernel
def _anchor_all(linear_sum: LinearSum, surrogate: Surrogate, pending: Pending, y: Vector) -> bool:
    finite = True
    for component in range(linear_sum.n_components):
        finite = visit(linear_sum, surrogate, pending, component, y) and finite
    finish_visits(surrogate, pending)
    return finite


def full_surrogate(problem: Problem, x: Vector) -> Surrogate:
    """Return the memory with every component anchored at x: one pass of gradients and Hessians."""
    surrogate = empty_surrogate(problem)
    _anchor_all(problem.view, surrogate, new_pending(problem), x)
    return surrogate


@kernel
def _aggregate(linear_sum: LinearSum, surrogate: Surrogate, pending: Pending) -> None:
    for i in range(linear_sum.rows.n_rows):
        weight = linear_sum.weights[i]
        intercept = surrogate.slopes[i] - surrogate.curvatures[i] * surrogate.margins[i]
        linear_sum.rows.add_to(i, weight * intercept, surrogate.linear)
        if surrogate.curvatures[i] != 0.0:
            _raise_curvature(linear_sum, surrogate, pending, i, weight * surrogate.curvatures[i])
    finish_visits(surrogate, pending)


def rebuilt(problem: Problem, surrogate: Surrogate) -> Surrogate:
    """Return the memory with b and H summed again from the anchors: rounding errors of many visits are gone."""
    fresh = empty_surrogate(problem)
    fresh = surrogate._replace(linear=fresh.linear, hessian=fresh.hessian)
    _aggregate(problem.view, fresh, new_pending(problem))
    return fresh


@kernel
def _padded_product(hessian: Matrix, y: Vector, out: Vector) -> None:
    multiply(hessian, y, out)


def model_gradient(surrogate: Surrogate, y: Vector) -> Vector:
    """Return b + H y."""
    padded = symmetric.padded_size(y.size)
    argument, product = np.zeros(padded), np.zeros(padded)
    argument[: y.size] = y
    _padded_product(surrogate.hessian, argument, product)
    gradient: Vector = surrogate.linear + product[: y.size]
    return gradient


def balanced_batch_size(problem: Problem) -> int:
    """Return the component size at which reading the rows costs about what the product H y costs.

    b = d^2 / (mean stored entries)^2 within [16, n / 512] on sparse rows, 32 on dense ones: with fewer than some hundred
    components in a pass, models are replaced too rarely to be told good from bad.
    """
    n, dim = problem.n_rows, problem.dim
    if problem.rows.is_sparse():
        per_row = max(1.0, problem.rows.values.size / n)
        wanted = dim**2 / per_row**2
    else:
        wanted = 32.0
    return max(1, int(min(max(wanted, 16.0), n / 512)))
