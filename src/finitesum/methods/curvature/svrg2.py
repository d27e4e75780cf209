"""SVRG2: SVRG whose snapshot knows second derivatives, whole or in part.

At a snapshot z, with g and H the gradient and Hessian of the smooth part of F there, and for each component j an
approximation A_j of its Hessian H_j at z whose mean over the components is A, a visit of component j does [1]

    v = w - z,    w <- prox(w - step (nabla f_j(w) - nabla f_j(z) - A_j v + g + A v))

and after a pass of visits the last w becomes the snapshot. What A_j leaves of H_j is the noise. The approximations:

======= ======================================================================== ================== ==================
full    H_j                                                                       d^2 a visit        d^2 memory
2D      diag H_j                                                                  d                  d
2Dsec   (s * H_j s + sigma diag H_j) / (s * s + sigma), s the step from the last  d                  d
        snapshot, sigma = 0.01; products and quotients entry by entry
CM      curvature matching: H S (S'HS)^-1 (S'H_j S) (S'HS)^-1 S'H                 d k                d k
AM      action matching: with R = S (S'HS)^-1/2 and Q = H R,                      d k                d k
        Q (H_j R)' (I - R Q') + (H_j R) Q', which acts as H_j does on S
======= ======================================================================== ================== ==================

S has k columns: Gaussian numbers, a function of the seed and the number of the snapshot ("gauss"), or the mean directions
of k stretches of the last pass ("prev"; the first time "gauss"). A visit costs O(d) at least, on sparse rows too.

Slopes and curvatures at z are kept (2n numbers), so that a visit evaluates one component gradient and no Hessian; a
snapshot evaluates m of each. Of components given as functions the gradients are kept (n d numbers) and the Hessians are
not: a visit evaluates one again, and is charged for it.

Step "auto": the rule of `finitesum.methods.snapshot`; "full" begins at 1 / lambda_max(H), follows lambda_max from snapshot
to snapshot and never exceeds its inverse. Deviations: components come in the given order; the quadratic penalty enters
exactly, but for S'HS.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from finitesum.core import symmetric
from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import compiled_form, kernel, kernel_part
from finitesum.core.vectors import add_products, axpy, copy, fill, is_finite, reordered_dot
from finitesum.methods.base import SumMethod
from finitesum.methods.cost_model import threads_for_matrices
from finitesum.methods.curvature import snapshot_curvature as known
from finitesum.methods.curvature.snapshot_curvature import Curvature
from finitesum.methods.parameters import Count, Seed, StepSize
from finitesum.methods.snapshot import Snapshot, expected_smoothness, next_snapshot, smooth_gradient, take_snapshot
from finitesum.methods.visits import AnySum, add_gradient_change, descend, slope_at
from finitesum.problems.view import View, first_row, last_row


class SVRG2State(NamedTuple):
    x: Vector  # iterate
    snapshot: Snapshot
    curvature: Curvature
    directions: Matrix  # (k, d)  mean directions of the stretches of the last pass
    step_size: float
    n_snapshots: int
    n_gradients: int
    n_hessians: int


@kernel_part
def _add_error(view: View, component: int, w: Vector, v: Vector, snapshot: Snapshot, direction: Vector) -> bool:
    """Add nabla f_j(w) less its Taylor model at the snapshot to the direction; return whether all is finite."""
    finite = True
    for i in range(first_row(view, component), last_row(view, component)):
        if view.weights[i] == 0.0:
            continue
        slope = slope_at(view, i, w)
        finite = finite and is_finite(slope)
        error = slope - snapshot.slopes[i] - known.times_curvature(view, snapshot, i, v)
        view.rows.add_to(i, view.n_components * view.weights[i] * error, direction)
    return finite


@kernel
def _full_visits(view: View, order: Indices, w: Vector, state: SVRG2State, gradient: Vector) -> int:
    """Visit the components of `order` with A_j = H_j, in place; return how many were visited (fewer on divergence).

    `gradient` is that of the whole smooth part at the snapshot.
    """
    snapshot, hessian, step_size = state.snapshot, state.curvature.hessian, state.step_size
    v, direction = np.zeros(hessian.shape[1]), np.zeros(hessian.shape[1])
    for k, component in enumerate(order):
        copy(w, v)
        axpy(-1.0, snapshot.point, v)
        symmetric.multiply(hessian, v, direction)
        axpy(1.0, gradient, direction)
        finite = _add_error(view, component, w, v, snapshot, direction)
        descend(view, w, direction, step_size)
        if not finite:
            return k + 1
    return order.size


@kernel
def _diagonal_visits(view: View, order: Indices, w: Vector, state: SVRG2State, quadratic: Vector) -> int:
    """Visit the components of `order` with diagonal A_j, in place; return how many were visited (fewer on divergence)."""
    snapshot, step, diagonal = state.snapshot, state.curvature.step, state.curvature.diagonal
    m, step_size = float(view.n_components), state.step_size
    v, direction = np.empty(w.size), np.empty(w.size)
    for k, component in enumerate(order):
        copy(w, v)
        axpy(-1.0, snapshot.point, v)
        copy(snapshot.gradient, direction)
        add_products(diagonal, v, direction)
        add_products(quadratic, w, direction)
        finite = add_gradient_change(view, component, w, snapshot.slopes, m, False, direction)
        for i in range(first_row(view, component), last_row(view, component)):
            if view.weights[i] > 0.0:
                known.add_diagonal(view, snapshot, i, -m * view.weights[i], step, v, direction)
        descend(view, w, direction, step_size)
        if not finite:
            return k + 1
    return order.size


def _products(rows: Matrix, v: Vector, out: Vector) -> None:
    """Write the products of some rows with v to out."""
    out[:] = rows @ v


@compiled_form(of=_products)
def _compiled_products(rows: Matrix, v: Vector, out: Vector) -> None:
    for k in range(out.size):
        out[k] = reordered_dot(rows[k], v)


@kernel_part
def _combine(rows: Matrix, coefficients: Vector, out: Vector) -> None:
    """Add sum_k coefficients[k] rows[k] to out."""
    for k in range(coefficients.size):
        axpy(coefficients[k], rows[k], out)


@kernel
def _sketched_visits(
    view: View, order: Indices, w: Vector, state: SVRG2State, quadratic: Vector, directions: Matrix, matches_action: bool
) -> int:
    """Visit the components of `order` with A_j of low rank, in place; return how many were visited (fewer on divergence).

    With t = Q'v and r = R t, A v = Q t and A_j v = Q R'H_j r (CM) or Q R'H_j (v - r) + H_j r (AM).
    """
    snapshot, sketch, image = state.snapshot, state.curvature.sketch, state.curvature.image
    rank, m, step_size = sketch.shape[0], float(view.n_components), state.step_size
    parts, products, direction = np.empty((2, w.size)), np.empty((2, w.size)), np.empty(w.size)
    inside, outside = parts[0], parts[1]  # r and v - r
    t, back = np.empty(rank), np.empty(rank)
    for k, component in enumerate(order):
        copy(w, outside)
        axpy(-1.0, snapshot.point, outside)
        _products(image, outside, t)
        fill(inside, 0.0)
        _combine(sketch, t, inside)
        axpy(-1.0, inside, outside)
        copy(snapshot.gradient, direction)
        add_products(quadratic, w, direction)
        for part in range(2):
            fill(products[part], 0.0)
            add_products(quadratic, parts[part], products[part])
        finite = add_gradient_change(view, component, w, snapshot.slopes, m, False, direction)
        for i in range(first_row(view, component), last_row(view, component)):
            if view.weights[i] > 0.0:
                known.add_curvature_products(view, snapshot, i, m * view.weights[i], parts, products)
        _products(sketch, products[1] if matches_action else products[0], back)
        for column in range(rank):
            back[column] = t[column] - back[column]
        _combine(image, back, direction)
        if matches_action:
            axpy(-1.0, products[0], direction)
        axpy(1.0, direction, directions[k * directions.shape[0] // order.size])
        descend(view, w, direction, step_size)
        if not finite:
            return k + 1
    return order.size


@dataclass(frozen=True)
class SVRG2(SumMethod):
    """SVRG that tracks gradients by second derivatives at the snapshot.

    w+ = prox(w - step (nabla f_j(w) - nabla f_j(z) - A_j (w - z) + grad F(z) + A (w - z)))    [1]

    Parameters
    ----------
    hessian : {"full", "2D", "2Dsec", "CM", "AM"}
        The approximation A_j: whole Hessians, diagonals, diagonals robust to the secant, low rank by matching the curvature
        or the action on a sketch.
    step_size : float > 0 or "auto"
        "auto" finds it by comparing snapshots: nothing to tune, from any start.
    rank : int >= 1
        The columns of the sketch.
    sketch : {"gauss", "prev"}
        Gaussian numbers, or mean directions of the last pass.
    seed : int >= 0
        Of the Gaussian numbers.

    References
    ----------
    .. [1] R. M. Gower, N. Le Roux, F. Bach, "Tracking the gradients using the Hessian: a new look at variance reducing
       stochastic methods", AISTATS 2018.
    """

    hessian: Literal["full", "2D", "2Dsec", "CM", "AM"] = "full"
    step_size: StepSize = "auto"
    rank: Count = 10
    sketch: Literal["gauss", "prev"] = "gauss"
    seed: Seed = 0

    wants_scaled_columns: ClassVar[bool] = True

    handles: ClassVar[frozenset[str]] = SumMethod.handles | {"constraint", "groups"}

    needs_hessians = True  # at the snapshot

    def _curvature(self, problem: AnySum, snapshot: Snapshot, step: Vector, directions: Matrix, k: int) -> Curvature:
        """Return what snapshot k knows of H."""
        if self.hessian == "full":
            return known.whole_hessian(problem, snapshot)
        if self.hessian in ("2D", "2Dsec"):
            return known.diagonal_hessian(problem, snapshot, step if self.hessian == "2Dsec" else np.zeros(problem.dim))
        if self.sketch == "prev" and directions.any():
            return known.sketched_hessian(problem, snapshot, directions)
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, k])))
        return known.sketched_hessian(
            problem, snapshot, generator.standard_normal((min(self.rank, problem.dim), problem.dim))
        )

    def blas_threads(self, problem: AnySum) -> int | None:
        return threads_for_matrices(problem)

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> SVRG2State:
        """Return the state before the first visit: a snapshot at the start."""
        m, dim = problem.n_components, problem.dim
        snapshot = take_snapshot(problem, x0)
        directions = np.zeros((min(self.rank, dim), dim) if self.hessian in ("CM", "AM") else (0, 0))
        curvature = self._curvature(problem, snapshot, np.zeros(dim), directions, 0)
        n_gradients = n_hessians = m
        if not isinstance(self.step_size, str):
            step_size = float(self.step_size)
        elif curvature.eigenvalue > 0.0:
            step_size = 1.0 / curvature.eigenvalue
        else:
            smoothness, _, more_gradients, more_hessians = expected_smoothness(problem, snapshot)
            step_size, n_gradients, n_hessians = 1.0 / smoothness, m + more_gradients, m + more_hessians
        return SVRG2State(x0.copy(), snapshot, curvature, directions, step_size, 1, n_gradients, n_hessians)

    def run_pass(self, problem: AnySum, state: SVRG2State, order: Indices) -> SVRG2State:
        """Return the state after the visits of `order` and a new snapshot."""
        w, directions = state.x.copy(), np.zeros_like(state.directions)
        n_visits = self._visits(problem, state, order, w, directions)
        adapt, is_linear = self.step_size == "auto", state.snapshot.curvatures.size > 0
        snapshot, step_size = next_snapshot(problem, state.snapshot, w, state.step_size, adapt=adapt)
        curvature, m = state.curvature, problem.n_components
        n_hessians = state.n_hessians + (0 if is_linear else n_visits)  # of functions, those at the snapshot again
        is_new = snapshot is not state.snapshot and bool(np.isfinite(snapshot.point).all())  # neither undone nor lost
        if is_new:
            step = snapshot.point - state.snapshot.point
            curvature = self._curvature(problem, snapshot, step, directions, state.n_snapshots)
            if adapt and curvature.eigenvalue > 0.0:
                followed = step_size * state.curvature.eigenvalue / curvature.eigenvalue
                step_size = min(followed, 1.0 / curvature.eigenvalue)
        n_gradients, n_hessians = state.n_gradients + n_visits + m, n_hessians + (m if is_linear or is_new else 0)
        found = snapshot.point, snapshot, curvature, directions, step_size
        return SVRG2State(*found, state.n_snapshots + 1, n_gradients, n_hessians)

    def _visits(self, problem: AnySum, state: SVRG2State, order: Indices, w: Vector, directions: Matrix) -> int:
        given = problem.view, order, w, state
        if self.hessian == "full":
            return _full_visits(*given, smooth_gradient(problem, state.snapshot))
        if self.hessian in ("2D", "2Dsec"):
            return _diagonal_visits(*given, problem.term.quadratic)
        return _sketched_visits(*given, problem.term.quadratic, directions, self.hessian == "AM")

    def estimate(self, problem: AnySum, state: SVRG2State) -> float:
        """Return the optimality of the last snapshot."""
        return state.snapshot.optimality
