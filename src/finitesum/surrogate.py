"""The second-order memory that CIAG, A-CIAG and NIM share.

Each component is replaced by its Taylor model of second order at the point of its last visit, its anchor. The gradient of
their mean at y is [1, eqs. 19, 21]

    g(y) = b + H y,    b = sum_i p_i (phi'_i - phi''_i u_i) z_i,    H = l2 I + sum_i p_i phi''_i z_i z_i'

with u_i = z_i'(anchor of i) and both derivatives taken there; rows never visited contribute nothing. A visit replaces
one component's share [1, eqs. 26, 27]. The quadratic penalty never enters b: its Taylor model is exact.
Only the lower triangle of H is kept up. Memory: 3n + d^2 + O(d) numbers; a visit costs O(d^2) and the component's rows.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from finitesum.arrays import Matrix, Vector
from finitesum.jit import kernel, kernel_part, reassociated_part
from finitesum.problem import LinearSum, Problem, first_row, last_row


class Surrogate(NamedTuple):
    """The memory: an anchor's margin, slope and curvature per row, and the aggregates b and H."""

    margins: Vector  # (n,)  u_i = z_i'anchor, without the offset
    slopes: Vector  # (n,)  phi'_i at the anchor, 0 before the first visit
    curvatures: Vector  # (n,)  phi''_i at the anchor, 0 before the first visit
    linear: Vector  # (d,)  b
    hessian: Matrix  # (d, d)  H, its lower triangle


def empty_surrogate(problem: Problem) -> Surrogate:
    """Return the memory before the first visit: b = 0 and H = l2 I on the penalised coordinates."""
    n, dim = problem.n_rows, problem.dim
    hessian = np.zeros((dim, dim))
    diagonal = np.arange(problem.rows.n_columns)
    hessian[diagonal, diagonal] = problem.penalty.ridge()
    return Surrogate(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(dim), hessian)


def copy_surrogate(surrogate: Surrogate) -> Surrogate:
    """Return a copy that may be written to."""
    return Surrogate(*(array.copy() for array in surrogate))


def symmetric(lower: Matrix) -> Matrix:
    """Return the full matrix of a lower triangle."""
    return np.tril(lower) + np.tril(lower, -1).T


@kernel_part
def visit(linear_sum: LinearSum, surrogate: Surrogate, component: int, y: Vector) -> bool:
    """Move the anchor of a component to y; return whether its derivatives are finite [1, eqs. 26, 27]."""
    finite = True
    rows = linear_sum.rows
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        margin = rows.dot(i, y)
        slope, curvature = linear_sum.loss.d1_d2(margin + linear_sum.offsets[i], linear_sum.targets[i])
        finite = finite and np.isfinite(slope) and np.isfinite(curvature)
        weight = linear_sum.weights[i]
        old = surrogate.slopes[i] - surrogate.curvatures[i] * surrogate.margins[i]
        rows.add_to(i, weight * (slope - curvature * margin - old), surrogate.linear)
        rise = weight * (curvature - surrogate.curvatures[i])
        if rise != 0.0:
            rows.gram_add(i, rise, surrogate.hessian)
        surrogate.margins[i] = margin
        surrogate.slopes[i] = slope
        surrogate.curvatures[i] = curvature
    return finite


@reassociated_part
def _row_product(row: Vector, size: int, y: Vector, weight: float, out: Vector) -> float:
    """Return row[:size]'y[:size] and add weight row[:size] to out."""
    total = 0.0
    for j in range(size):
        total += row[j] * y[j]
        out[j] += weight * row[j]
    return total


@kernel_part
def multiply(hessian: Matrix, y: Vector, out: Vector) -> None:
    """Write H y to out, reading the lower triangle once."""
    for j in range(y.size):
        out[j] = 0.0
    for j in range(y.size):
        row = hessian[j]
        out[j] += _row_product(row, j, y, y[j], out) + row[j] * y[j]


@kernel_part
def surrogate_gradient(surrogate: Surrogate, y: Vector, out: Vector) -> None:
    """Write b + H y to out."""
    multiply(surrogate.hessian, y, out)
    for j in range(y.size):
        out[j] += surrogate.linear[j]


@kernel
def _anchor_all(linear_sum: LinearSum, surrogate: Surrogate, y: Vector) -> bool:
    finite = True
    for component in range(linear_sum.n_components):
        finite = visit(linear_sum, surrogate, component, y) and finite
    return finite


def full_surrogate(problem: Problem, x: Vector) -> Surrogate:
    """Return the memory with every component anchored at x: one pass of gradients and Hessians."""
    surrogate = empty_surrogate(problem)
    _anchor_all(problem.view, surrogate, x)
    return surrogate


@kernel
def _aggregate(linear_sum: LinearSum, surrogate: Surrogate) -> None:
    for i in range(linear_sum.rows.n_rows):
        intercept = surrogate.slopes[i] - surrogate.curvatures[i] * surrogate.margins[i]
        linear_sum.rows.add_to(i, linear_sum.weights[i] * intercept, surrogate.linear)
        if surrogate.curvatures[i] != 0.0:
            linear_sum.rows.gram_add(i, linear_sum.weights[i] * surrogate.curvatures[i], surrogate.hessian)


def rebuilt(problem: Problem, surrogate: Surrogate) -> Surrogate:
    """Return the memory with b and H summed afresh from the anchors: rounding errors of many visits are gone."""
    fresh = empty_surrogate(problem)
    fresh = surrogate._replace(linear=fresh.linear, hessian=fresh.hessian)
    _aggregate(problem.view, fresh)
    return fresh


@kernel
def _gradient(surrogate: Surrogate, y: Vector) -> Vector:
    out = np.empty(y.size)
    surrogate_gradient(surrogate, y, out)
    return out


def model_gradient(surrogate: Surrogate, y: Vector) -> Vector:
    """Return b + H y."""
    return _gradient(surrogate, y)


def balanced_batch_size(problem: Problem) -> int:
    """Return the component size at which reading the rows costs about what the product H y costs.

    b = d^2 / (mean stored entries)^2 within [16, n / 32] on sparse rows, 32 on dense ones.
    """
    n, dim = problem.n_rows, problem.dim
    if problem.rows.is_sparse():
        per_row = max(1.0, problem.rows.values.size / n)
        wanted = dim**2 / per_row**2
    else:
        wanted = 32.0
    return max(1, int(min(max(wanted, 16.0), n / 32)))
