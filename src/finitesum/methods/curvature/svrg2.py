"""SVRG2: SVRG whose snapshot knows second derivatives, whole or in part.

At a snapshot w, with g and H the gradient and Hessian of the smooth part of F there, and for each component j an
approximation A_j of its Hessian H_j at w whose mean over the components is A, a visit of component j does [1]

    v = x - w,    x <- prox(x - step (nabla f_j(x) - nabla f_j(w) - A_j v + g + A v))

and after a pass of visits the last x becomes the snapshot. What A_j leaves of H_j is the noise. The approximations:

======= ======================================================================== ================== ==================
full    H_j                                                                       d^2 a visit        d^2 memory
2D      diag H_j                                                                  d                  d
2Dsec   (s * H_j s + sigma diag H_j) / (s * s + sigma), s the way from the last   d                  d
        snapshot, sigma = 0.01; products and quotients entry by entry
CM      curvature matching: H S (S'HS)^-1 (S'H_j S) (S'HS)^-1 S'H                 d k                d k
AM      action matching: with R = S (S'HS)^-1/2 and Q = H R,                      d k                d k
        Q (H_j R)' (I - R Q') + (H_j R) Q', which acts as H_j does on S
======= ======================================================================== ================== ==================

S has k columns: Gaussian numbers, a function of the seed and the number of the snapshot ("gauss"), or the mean directions
of k stretches of the last epoch ("prev"; the first time "gauss"). A visit costs O(d) at least, on sparse rows too.

Slopes and curvatures at w are kept (2n numbers), so that a visit evaluates one component gradient and no Hessian; a
snapshot evaluates m of each. Step "auto": the rule of `finitesum.methods.snapshot`; "full" begins at 1 / lambda_max(H),
follows lambda_max from snapshot to snapshot and never exceeds its inverse. Deviations: components come in the given
order; the quadratic penalty enters exactly, but for S'HS.

References
----------
.. [1] R. M. Gower, N. Le Roux, F. Bach, "Tracking the gradients using the Hessian: a new look at variance reducing
   stochastic methods", AISTATS 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core import symmetric
from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import kernel, kernel_part, reassociated_part
from finitesum.methods.base import Auto, Card, check_choice, check_count, check_positive, with_general_form
from finitesum.methods.curvature.snapshot_curvature import (
    Curvature,
    add_diagonal,
    diagonal_hessian,
    sketched_hessian,
    whole_hessian,
)
from finitesum.methods.general.snapshots import SVRG2Form
from finitesum.methods.snapshot import Snapshot, end_of_epoch, first_step, take_snapshot
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row
from finitesum.problems.term import prox_in_place


class SVRG2State(NamedTuple):
    x: Vector  # iterate
    snapshot: Snapshot
    curvature: Curvature
    directions: Matrix  # (k, d)  mean directions of the stretches of the last epoch
    step_size: float
    n_snapshots: int
    n_gradients: int
    n_hessians: int


@kernel_part
def _step(linear_sum: LinearSum, x: Vector, direction: Vector, step_size: float) -> None:
    for j in range(x.size):
        x[j] -= step_size * direction[j]
    prox_in_place(linear_sum, x, step_size)


@kernel
def _full_visits(
    linear_sum: LinearSum, order: Indices, x: Vector, snapshot: Snapshot, hessian: Matrix, step_size: float
) -> int:
    """Visit the components of `order` with A_j = H_j, in place; return how many were visited (fewer on divergence)."""
    loss, point, gradient = linear_sum.loss, snapshot.point, snapshot.gradient
    slopes, curvatures = snapshot.slopes, snapshot.curvatures
    v, direction = np.zeros(hessian.shape[1]), np.zeros(hessian.shape[1])
    n_visits = 0
    for component in order:
        for j in range(x.size):
            v[j] = x[j] - point[j]
        symmetric.multiply(hessian, v, direction)
        for j in range(x.size):
            ridge = linear_sum.penalty.ridge() if j < linear_sum.n_penalised else 0.0
            direction[j] += gradient[j] + ridge * point[j]
        finite = True
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            if linear_sum.weights[i] == 0.0:
                continue
            slope = loss.d1(linear_sum.rows.dot(i, x) + linear_sum.offsets[i], linear_sum.targets[i])
            finite = finite and np.isfinite(slope)
            error = slope - slopes[i] - curvatures[i] * linear_sum.rows.dot(i, v)
            linear_sum.rows.add_to(i, linear_sum.n_components * linear_sum.weights[i] * error, direction)
        _step(linear_sum, x, direction, step_size)
        n_visits += 1
        if not finite:
            break
    return n_visits


@kernel
def _diagonal_visits(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    snapshot: Snapshot,
    way: Vector,
    diagonal: Vector,
    step_size: float,
) -> int:
    """Visit the components of `order` with diagonal A_j, in place; return how many were visited (fewer on divergence)."""
    loss, point, gradient = linear_sum.loss, snapshot.point, snapshot.gradient
    slopes, curvatures = snapshot.slopes, snapshot.curvatures
    v, direction = np.empty(x.size), np.empty(x.size)
    n_visits = 0
    for component in order:
        for j in range(x.size):
            ridge = linear_sum.penalty.ridge() if j < linear_sum.n_penalised else 0.0
            v[j] = x[j] - point[j]
            direction[j] = gradient[j] + diagonal[j] * v[j] + ridge * x[j]
        finite = True
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            if linear_sum.weights[i] == 0.0:
                continue
            slope = loss.d1(linear_sum.rows.dot(i, x) + linear_sum.offsets[i], linear_sum.targets[i])
            finite = finite and np.isfinite(slope)
            scale = linear_sum.n_components * linear_sum.weights[i]
            linear_sum.rows.add_to(i, scale * (slope - slopes[i]), direction)
            add_diagonal(linear_sum, i, -scale * curvatures[i], way, direction, v)
        _step(linear_sum, x, direction, step_size)
        n_visits += 1
        if not finite:
            break
    return n_visits


@reassociated_part
def _inner(a: Vector, b: Vector) -> float:
    total = 0.0
    for j in range(b.size):
        total += a[j] * b[j]
    return total


@kernel_part
def _add(vector: Vector, scale: float, out: Vector) -> None:
    """Add scale v to out."""
    for j in range(out.size):
        out[j] += scale * vector[j]


@kernel_part
def _combine(rows: Matrix, coefficients: Vector, out: Vector) -> None:
    """Add sum_k coefficients[k] rows[k] to out."""
    for k in range(coefficients.size):
        _add(rows[k], coefficients[k], out)


@kernel_part
def _add_component(
    linear_sum: LinearSum,
    component: int,
    x: Vector,
    snapshot: Snapshot,
    inside: Vector,
    outside: Vector,
    direction: Vector,
    acted_inside: Vector,
    acted_outside: Vector,
) -> bool:
    """Add nabla f_j(x) - nabla f_j(w) to the direction and H_j times two vectors to two others; penalty left out."""
    finite = True
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        if linear_sum.weights[i] == 0.0:
            continue
        slope = linear_sum.loss.d1(linear_sum.rows.dot(i, x) + linear_sum.offsets[i], linear_sum.targets[i])
        finite = finite and np.isfinite(slope)
        scale = linear_sum.n_components * linear_sum.weights[i]
        linear_sum.rows.add_to(i, scale * (slope - snapshot.slopes[i]), direction)
        scale *= snapshot.curvatures[i]
        linear_sum.rows.add_to(i, scale * linear_sum.rows.dot(i, inside), acted_inside)
        linear_sum.rows.add_to(i, scale * linear_sum.rows.dot(i, outside), acted_outside)
    return finite


@kernel
def _sketched_visits(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    snapshot: Snapshot,
    sketch: Matrix,
    image: Matrix,
    directions: Matrix,
    matches_action: bool,
    step_size: float,
) -> int:
    """Visit the components of `order` with A_j of low rank, in place; return how many were visited (fewer on divergence).

    With t = Q'v and r = R t, A v = Q t and A_j v = Q R'H_j r (CM) or Q R'H_j (v - r) + H_j r (AM).
    """
    rank, point, gradient = sketch.shape[0], snapshot.point, snapshot.gradient
    inside, outside, direction = np.empty(x.size), np.empty(x.size), np.empty(x.size)
    acted_inside, acted_outside = np.empty(x.size), np.empty(x.size)
    t, back = np.empty(rank), np.empty(rank)
    n_visits = 0
    for component in order:
        for j in range(x.size):
            inside[j] = 0.0
            outside[j] = x[j] - point[j]
        for k in range(rank):
            t[k] = _inner(image[k], outside)
        _combine(sketch, t, inside)
        for j in range(x.size):
            outside[j] -= inside[j]
            ridge = linear_sum.penalty.ridge() if j < linear_sum.n_penalised else 0.0
            direction[j] = gradient[j] + ridge * x[j]
            acted_inside[j] = ridge * inside[j]
            acted_outside[j] = ridge * outside[j]
        finite = _add_component(
            linear_sum, component, x, snapshot, inside, outside, direction, acted_inside, acted_outside
        )
        for k in range(rank):
            back[k] = t[k] - _inner(sketch[k], acted_outside if matches_action else acted_inside)
        _combine(image, back, direction)
        if matches_action:
            _add(acted_inside, -1.0, direction)
        _add(direction, 1.0, directions[n_visits * directions.shape[0] // order.size])
        _step(linear_sum, x, direction, step_size)
        n_visits += 1
        if not finite:
            break
    return n_visits


@with_general_form
@dataclass(frozen=True)
class SVRG2:
    """SVRG that tracks gradients by second derivatives at the snapshot.

    x+ = prox(x - step (nabla f_j(x) - nabla f_j(w) - A_j (x - w) + grad F(w) + A (x - w)))    [1]

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
        Gaussian numbers, or mean directions of the last epoch.
    seed : int >= 0
        Of the Gaussian numbers.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    With one component there is no variance, and SVRG2 is the gradient method:

    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared", batch_size=2)
    >>> method = SVRG2(hessian="2D", step_size=0.5)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(1)).x
    array([0.5])

    References
    ----------
    .. [1] R. M. Gower, N. Le Roux, F. Bach, "Tracking the gradients using the Hessian: a new look at variance reducing
       stochastic methods", AISTATS 2018.
    """

    hessian: str = "full"
    step_size: float | Auto = "auto"
    rank: int = 10
    sketch: str = "gauss"
    seed: int = 0

    name: ClassVar[str] = "svrg2"
    state_type: ClassVar[type[SVRG2State]] = SVRG2State
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint", "prox", "groups"})
    default_sampling: ClassVar[str] = "shuffled"
    card: ClassVar[Card] = Card(
        "SVRG with second derivatives",
        "d^2; m + d^2 as built",
        "d^2, and d^2 for each snapshot; d or d k with diagonals and sketches",
        "kappa log 1/eps at best, expected",
        "smooth, strongly convex, Hessian",
        "Gower, Le Roux, Bach 2018",
    )

    def __post_init__(self) -> None:
        check_choice("hessian", self.hessian, ("full", "2D", "2Dsec", "CM", "AM"))
        check_positive("step_size", self.step_size)
        check_count("rank", self.rank)
        check_choice("sketch", self.sketch, ("gauss", "prev"))
        if self.seed < 0 or self.seed != int(self.seed):
            raise ValueError(f"seed must be a whole number >= 0, got {self.seed!r}.")

    def _curvature(self, problem: Problem, snapshot: Snapshot, way: Vector, directions: Matrix, k: int) -> Curvature:
        """Return what snapshot k knows of H."""
        if self.hessian == "full":
            return whole_hessian(problem, snapshot)
        if self.hessian in ("2D", "2Dsec"):
            return diagonal_hessian(problem, snapshot, way if self.hessian == "2Dsec" else np.zeros(problem.dim))
        if self.sketch == "prev" and directions.any():
            return sketched_hessian(problem, snapshot, directions)
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, k])))
        return sketched_hessian(
            problem, snapshot, generator.standard_normal((min(self.rank, problem.dim), problem.dim))
        )

    def general(self) -> SVRG2Form:
        """Return the method for components that are objects or callables."""
        return SVRG2Form(self.hessian, self.step_size)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> SVRG2State:
        """Return the state before the first visit: a snapshot at the start."""
        m, dim = problem.n_components, problem.dim
        snapshot = take_snapshot(problem, x0)
        directions = np.zeros((min(self.rank, dim), dim) if self.hessian in ("CM", "AM") else (0, 0))
        curvature = self._curvature(problem, snapshot, np.zeros(dim), directions, 0)
        if self.step_size != "auto":
            step_size = float(self.step_size)
        elif curvature.eigenvalue > 0.0:
            step_size = 1.0 / curvature.eigenvalue
        else:
            step_size = first_step(problem, snapshot)
        return SVRG2State(x0.copy(), snapshot, curvature, directions, step_size, 1, m, m)

    def run_pass(self, problem: Problem, state: SVRG2State, order: Indices) -> SVRG2State:
        """Return the state after an epoch: the visits of `order`, and a new snapshot."""
        x, directions = state.x.copy(), np.zeros_like(state.directions)
        n_visits = self._visits(problem, state, order, x, directions)
        adapt = self.step_size == "auto"
        snapshot, step_size = end_of_epoch(problem, state.snapshot, x, state.step_size, adapt=adapt)
        curvature, m = state.curvature, problem.n_components
        if snapshot is not state.snapshot:  # the epoch was not undone
            way = snapshot.point - state.snapshot.point
            curvature = self._curvature(problem, snapshot, way, directions, state.n_snapshots)
            if adapt and curvature.eigenvalue > 0.0:
                followed = step_size * state.curvature.eigenvalue / curvature.eigenvalue
                step_size = min(followed, 1.0 / curvature.eigenvalue)
        return SVRG2State(
            snapshot.point,
            snapshot,
            curvature,
            directions,
            step_size,
            state.n_snapshots + 1,
            state.n_gradients + n_visits + m,
            state.n_hessians + m,
        )

    def _visits(self, problem: Problem, state: SVRG2State, order: Indices, x: Vector, directions: Matrix) -> int:
        view, snapshot, curvature, step_size = problem.view, state.snapshot, state.curvature, state.step_size
        if self.hessian == "full":
            return _full_visits(view, order, x, snapshot, curvature.hessian, step_size)
        if self.hessian in ("2D", "2Dsec"):
            return _diagonal_visits(view, order, x, snapshot, curvature.way, curvature.diagonal, step_size)
        sketch, image, acts = curvature.sketch, curvature.image, self.hessian == "AM"
        return _sketched_visits(view, order, x, snapshot, sketch, image, directions, acts, step_size)

    def estimate(self, problem: Problem, state: SVRG2State) -> float:
        """Return the optimality of the last snapshot."""
        return state.snapshot.optimality

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1."""
        return 1
