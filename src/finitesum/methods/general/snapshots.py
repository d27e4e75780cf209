"""Snapshots of components that are callables, and the methods that rest on them: SVRG, AccSVRG and SVRG2.

A snapshot at w keeps the gradients of all components there, n d numbers, so that a visit evaluates one component gradient:

    SVRG       x <- prox(x - step (nabla f_j(x) - nabla f_j(w) + g + l2 x))
    AccSVRG    v = nabla f_j(y) - nabla f_j(w) + g + l2 y;   x+ = prox(y - step v);   y <- x+ + momentum (x+ - x)
    SVRG2      v = x - w;   x <- prox(x - step (nabla f_j(x) - nabla f_j(w) - A_j v + g + A v + l2 x))

with g the mean of the gradients at w, A_j an approximation of component j's Hessian at w and A the mean of the A_j. SVRG2
treats the approximations that need no more than H_j v or one matrix H_j at a visit: "full" is A_j = H_j, "2D" its diagonal,
"2Dsec" (s * H_j s + sigma diag H_j) / (s * s + sigma) with s the way from the last snapshot. Nothing of size n d^2 is kept:
a visit evaluates component j's Hessian at w, or its product with v, and is charged for it.

Step "auto" is the rule of `finitesum.methods.snapshot`, from 1 / L_max with the constants of
`finitesum.methods.general.constants`, or from 1 / lambda_max(A) for "full".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.optimality import with_penalty
from finitesum.evaluation.smoothness import momentum_limit
from finitesum.methods.curvature.snapshot_curvature import SIGMA
from finitesum.methods.general.constants import Constants, component_smoothness, constants_at, strong_convexity
from finitesum.methods.general.points import moved
from finitesum.methods.snapshot import adapted
from finitesum.problems.finite_sum import FiniteSum


class Snapshot(NamedTuple):
    """What one exact pass at a point found."""

    point: Vector  # (d,)  w
    table: Matrix  # (n, d)  the components' gradients at w
    gradient: Vector  # (d,)  their mean, without the penalty
    objective: float
    optimality: float


def take_snapshot(problem: FiniteSum, x: Vector) -> Snapshot:
    """Return the snapshot at x: one pass of component gradients."""
    if not np.isfinite(x).all():  # after a divergence
        nothing = np.full(x.size, np.nan)
        return Snapshot(x.copy(), np.tile(nothing, (problem.n_components, 1)), nothing, math.nan, math.nan)
    table = problem.component_gradients(x)
    gradient = table.mean(axis=0)
    measures = with_penalty(problem, x, problem.mean_value(x), gradient)
    return Snapshot(x.copy(), table, gradient, measures.objective, measures.optimality)


def _next(problem: FiniteSum, last: Snapshot, x: Vector, step_size: float, adapt: bool) -> tuple[Snapshot, float]:
    new = take_snapshot(problem, x)
    return adapted(problem, problem.n_components, last, new, step_size) if adapt else (new, step_size)


def _first_step(problem: FiniteSum, x: Vector, step_size: float | str) -> tuple[float, Constants]:
    """Return the step to begin with, and what it cost to find it."""
    if not isinstance(step_size, str):
        return float(step_size), Constants(np.empty(0), 0, 0)
    constants = constants_at(problem, x)
    return 1.0 / component_smoothness(problem, constants.bounds), constants


class SVRGState(NamedTuple):
    x: Vector  # iterate
    extrapolated: Vector  # y; the iterate itself without momentum
    snapshot: Snapshot
    step_size: float
    n_since: int  # passes of visits since the snapshot
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class SVRGForm:
    """SVRG, and with a momentum AccSVRG."""

    step_size: float | str
    momentum: float | str
    inner_passes: int

    state_type: ClassVar[type[SVRGState]] = SVRGState
    needs_hessians: ClassVar[bool] = False

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> SVRGState:
        """Return the state before the first visit: a snapshot at the start."""
        problem.require_defined(x0)
        snapshot = take_snapshot(problem, x0)
        step_size, cost = _first_step(problem, x0, self.step_size)
        n_gradients = problem.n_components + cost.n_gradients
        return SVRGState(x0.copy(), x0.copy(), snapshot, step_size, 0, n_gradients, cost.n_hessians)

    def _momentum(self, problem: FiniteSum, step_size: float) -> float:
        if not isinstance(self.momentum, str):
            return self.momentum
        n_visits = problem.n_components * self.inner_passes
        return min(momentum_limit(strong_convexity(problem), step_size), (n_visits - 1.0) / (n_visits + 3.0))

    def run_pass(self, problem: FiniteSum, state: SVRGState, order: Indices) -> SVRGState:
        """Return the state after the visits of `order` and, at the end of an epoch, a new snapshot."""
        x, y, snapshot, step_size = state.x, state.extrapolated, state.snapshot, state.step_size
        momentum, n_visits = self._momentum(problem, step_size), 0
        for j in order:
            change = problem.component_gradient(y, j) - snapshot.table[j]
            last, x = x, moved(problem, y, change + snapshot.gradient + problem.term.quadratic * y, step_size)
            y = x + momentum * (x - last) if momentum else x
            n_visits += 1
            if not np.isfinite(x).all():
                break
        n_gradients, n_since = state.n_gradients + n_visits, state.n_since + 1
        if n_since >= self.inner_passes:
            snapshot, step_size = _next(problem, snapshot, x, step_size, self.step_size == "auto")
            x = y = snapshot.point
            n_since = 0
            n_gradients += problem.n_components
        return SVRGState(x, y, snapshot, step_size, n_since, n_gradients, state.n_hessians)

    def estimate(self, problem: FiniteSum, state: SVRGState) -> float:
        """Return the optimality of the last snapshot."""
        return state.snapshot.optimality


class SVRG2State(NamedTuple):
    x: Vector  # iterate
    snapshot: Snapshot
    mean: Matrix  # A: (d, d), or its diagonal as (1, d)
    way: Vector  # (d,)  s, from the last snapshot to this one
    eigenvalue: float  # lambda_max(A) with the penalty, for "full"
    step_size: float
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class SVRG2Form:
    """SVRG with second derivatives at the snapshot."""

    kind: str  # "full", "2D" or "2Dsec"
    step_size: float | str

    state_type: ClassVar[type[SVRG2State]] = SVRG2State
    needs_hessians: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.kind not in ("full", "2D", "2Dsec"):
            raise ValueError(
                f'hessian "{self.kind}" needs a linear model. For components given as functions choose "full", "2D" or '
                '"2Dsec".'
            )

    def _diagonal(self, problem: FiniteSum, w: Vector, j: int, way: Vector) -> Vector:
        """Return the diagonal A_j."""
        hessian = problem.component_hessian(w, j)
        s = way if self.kind == "2Dsec" else np.zeros(problem.dim)
        robust: Vector = (s * (hessian @ s) + SIGMA * np.diagonal(hessian)) / (s * s + SIGMA)
        return robust

    def _mean(self, problem: FiniteSum, w: Vector, way: Vector) -> tuple[Matrix, float]:
        """Return A and, for "full", the largest eigenvalue of it and the penalty: one pass of Hessians."""
        if self.kind == "full":
            whole = problem.hessian(w)
            largest = float(np.linalg.eigvalsh(whole)[-1]) if np.isfinite(whole).all() else math.nan
            return whole - np.diag(problem.term.quadratic), largest
        total = np.zeros(problem.dim)
        for j in range(problem.n_components):
            total += self._diagonal(problem, w, j, way)
        return total[None, :] / problem.n_components, 0.0

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> SVRG2State:
        """Return the state before the first visit: a snapshot at the start."""
        problem.require_defined(x0)
        n, way = problem.n_components, np.zeros(problem.dim)
        snapshot = take_snapshot(problem, x0)
        mean, eigenvalue = self._mean(problem, x0, way)
        cost = Constants(np.empty(0), 0, 0)
        if self.step_size == "auto" and eigenvalue > 0.0:
            step_size = 1.0 / eigenvalue
        else:
            step_size, cost = _first_step(problem, x0, self.step_size)
        return SVRG2State(
            x0.copy(), snapshot, mean, way, eigenvalue, step_size, n + cost.n_gradients, n + cost.n_hessians
        )

    def run_pass(self, problem: FiniteSum, state: SVRG2State, order: Indices) -> SVRG2State:
        """Return the state after an epoch: the visits of `order`, and a new snapshot."""
        x, last, mean, n = state.x, state.snapshot, state.mean, problem.n_components
        n_visits = 0
        for j in order:
            v = x - last.point
            direction = problem.component_gradient(x, j) - last.table[j] + last.gradient + problem.term.quadratic * x
            if self.kind == "full":
                direction += mean @ v - problem.component_product(last.point, j, v)
            else:
                direction += (mean[0] - self._diagonal(problem, last.point, j, state.way)) * v
            x = moved(problem, x, direction, state.step_size)
            n_visits += 1
            if not np.isfinite(x).all():
                break
        adapt = self.step_size == "auto"
        snapshot, step_size = _next(problem, last, x, state.step_size, adapt)
        way, eigenvalue, n_hessians = state.way, state.eigenvalue, state.n_hessians + n_visits
        if snapshot is not last and np.isfinite(snapshot.point).all():  # the epoch was not undone
            way = snapshot.point - last.point
            mean, eigenvalue = self._mean(problem, snapshot.point, way)
            n_hessians += n
            if adapt and eigenvalue > 0.0:
                step_size = min(step_size * state.eigenvalue / eigenvalue, 1.0 / eigenvalue)
        n_gradients = state.n_gradients + n_visits + n
        return SVRG2State(snapshot.point, snapshot, mean, way, eigenvalue, step_size, n_gradients, n_hessians)

    def estimate(self, problem: FiniteSum, state: SVRG2State) -> float:
        """Return the optimality of the last snapshot."""
        return state.snapshot.optimality
