"""CIAG, A-CIAG and NIM for components that are callables: steps on, and jumps to the minimiser of, the mean Taylor model.

A visit of component j at y = x + extrapolation (x - x_previous) moves its model there
(`finitesum.methods.general.memory`), and

    CIAG, A-CIAG    x+ = prox(y - step (b + H y))
    NIM             x+ = x + damping (argmin_v b'v + 1/2 v'H v + r(v) - x),    with y = x

Step "auto": CIAG and A-CIAG by `finitesum.methods.general.control`; NIM jumps all the way, as far as
the same guard lets it. b and H are summed again every 50 passes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.smoothness import momentum_limit
from finitesum.methods.constants import Constant, bounds_at, smoothness_from, strong_convexity
from finitesum.methods.curvature.automatic_steps import comparison_window
from finitesum.methods.general.control import (
    Control,
    ControlledPass,
    Guard,
    free_certificate,
    judged,
    new_control,
    new_guard,
    overflowed,
)
from finitesum.methods.general.memory import (
    Memory,
    copy_memory,
    empty_memory,
    full_memory,
    look,
    model_gradient,
    move,
    rebuilt,
)
from finitesum.methods.general.points import moved
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.finite_sum import FiniteSum

#: Passes after which b and H are summed again.
REBUILD_EVERY = 50


class CIAGState(NamedTuple):
    x: Vector  # iterate
    previous: Vector  # the iterate before
    memory: Memory
    control: Control  # plays no role with a constant step
    step_size: float  # NaN under control
    extrapolation: float
    n_passes: int
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class CIAGForm:
    """CIAG and A-CIAG."""

    step_size: float | str
    extrapolation: float | str
    is_full: bool  # whether all components join at the start
    model_steps: int  # 0: as many as the condition asks for

    state_type: ClassVar[type[CIAGState]] = CIAGState
    needs_hessians: ClassVar[bool] = True

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> CIAGState:
        """Return the state before the first visit."""
        problem.require_defined(x0)
        memory = full_memory(problem, x0) if self.is_full else empty_memory(problem)
        n_gradients = n_hessians = problem.n_components if self.is_full else 0
        step_size = extrapolation = math.nan
        if self.step_size != "auto":
            bounds, more_gradients, more_hessians = np.empty(0), 0, 0
            if self.step_size == "theory":
                bounds, more_gradients, more_hessians = bounds_at(problem, x0)
            step_size, extrapolation = self._constants(problem, bounds)
            n_gradients, n_hessians = n_gradients + more_gradients, n_hessians + more_hessians
        control = new_control(problem, x0)
        if self.is_full:
            largest = float(np.linalg.eigvalsh(memory.hessian)[-1]) if np.isfinite(memory.hessian).all() else math.inf
            control = control._replace(eigenvalue=1.05 * max(largest, 0.0))
        return CIAGState(x0.copy(), x0.copy(), memory, control, step_size, extrapolation, 0, n_gradients, n_hessians)

    def _constants(self, problem: FiniteSum, bounds: Vector) -> tuple[float, float]:
        mu = strong_convexity(problem)
        if not isinstance(self.step_size, str):
            step_size = float(self.step_size)
        elif self.extrapolation == 0.0:
            step_size = 2.0 / (mu + smoothness_from(problem, bounds, Constant.MEAN))
        else:
            step_size = 0.5 / smoothness_from(problem, bounds, Constant.MEAN)
        if isinstance(self.extrapolation, str):
            return step_size, momentum_limit(mu, step_size)
        return step_size, float(self.extrapolation)

    def run_pass(self, problem: FiniteSum, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after the visits of `order`."""
        memory = copy_memory(state.memory)
        if self.step_size == "auto":
            run = ControlledPass(
                problem,
                state.x,
                state.previous,
                memory,
                state.control,
                is_accelerated=self.extrapolation == "auto",
                model_steps=self.model_steps,
            )
            run.run(order)
            x, previous, control = run.x, run.previous, run.control()
            n_gradients, n_hessians = run.n_gradients, run.n_hessians
        else:
            x, previous, n_gradients, n_hessians = self._visits(problem, state, memory, order)
            control = state.control
        n_passes = state.n_passes + 1
        if n_passes % REBUILD_EVERY == 0:
            memory, more_hessians = rebuilt(problem, memory)
            n_hessians += more_hessians
        return state._replace(
            x=x,
            previous=previous,
            memory=memory,
            control=control,
            n_passes=n_passes,
            n_gradients=state.n_gradients + n_gradients,
            n_hessians=state.n_hessians + n_hessians,
        )

    def _visits(
        self, problem: FiniteSum, state: CIAGState, memory: Memory, order: Indices
    ) -> tuple[Vector, Vector, int, int]:
        """Return iterate, the one before, and the gradients and Hessians that the visits took."""
        x, previous, n_gradients, n_hessians = state.x, state.previous, 0, 0
        for j in order:
            y = x + state.extrapolation * (x - previous)
            n_hessians += 2 if memory.visited[j] else 1
            n_gradients += 1
            if move(problem, memory, j, y, look(problem, memory, j, y)) is None:
                return np.full_like(x, np.nan), x, n_gradients, n_hessians
            previous, x = x, moved(problem, y, model_gradient(memory, y), state.step_size)
        return x, previous, n_gradients, n_hessians

    def estimate(self, problem: FiniteSum, state: CIAGState) -> float:
        """Return what surrogate and free error signal say of the optimality, NaN before every component was seen."""
        if not state.memory.visited.all():
            return math.nan
        error = free_certificate(problem, state.control) if self.step_size == "auto" else 0.0
        return error + problem.term.optimality(state.x, model_gradient(state.memory, state.x))


class NIMState(NamedTuple):
    x: Vector  # iterate
    memory: Memory
    failure: Vector  # (d,)  E delta
    movement: Vector  # (d,)  E pi
    guard: Guard
    peak: float  # the largest diagonal entry of H since b and H were summed again
    n_passes: int
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class NIMForm:
    """The Newton-type incremental method."""

    step_size: float | str
    is_exact: bool
    is_full: bool

    state_type: ClassVar[type[NIMState]] = NIMState
    needs_hessians: ClassVar[bool] = True

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> NIMState:
        """Return the state before the first visit."""
        problem.require_defined(x0)
        memory = full_memory(problem, x0) if self.is_full else empty_memory(problem)
        n_visits = problem.n_components if self.is_full else 0
        zeros = np.zeros(problem.dim)
        return NIMState(x0.copy(), memory, zeros, zeros.copy(), new_guard(problem, x0), 0.0, 0, n_visits, n_visits)

    def run_pass(self, problem: FiniteSum, state: NIMState, order: Indices) -> NIMState:
        """Return the state after the visits of `order`."""
        memory, n = copy_memory(state.memory), problem.n_components
        x, failure, movement, guard, start = state.x, state.failure, state.movement, state.guard, state.x
        now, n_hessians, guarded = state.n_gradients, state.n_hessians, isinstance(self.step_size, str)
        keep = 1.0 - 1.0 / comparison_window(n)
        for j in order:
            seen = bool(memory.visited[j])
            now, n_hessians = now + 1, n_hessians + (2 if seen else 1)
            visit = look(problem, memory, j, x)
            if move(problem, memory, j, x, visit) is None:
                if not guarded or x is start:
                    x = np.full_like(x, np.nan)
                    break
                x, guard = 0.5 * (x + start), overflowed(guard, now, n)
                continue
            if seen:
                failure = keep * failure + visit.missed / n
                movement = keep * movement + visit.predicted / n
                guard = judged(guard, float(np.linalg.norm(failure)), float(np.linalg.norm(movement)), now, n)
            step, start = self._minimiser(problem, memory, x) - x, x
            length = float(np.linalg.norm(step))
            guard = guard._replace(reached=max(guard.reached, length))
            share = 1.0 if isinstance(self.step_size, str) else self.step_size
            x = x + (min(1.0, guard.radius / length) if guarded and length > 0.0 else share) * step
        return self._finished(
            problem, NIMState(x, memory, failure, movement, guard, state.peak, state.n_passes + 1, now, n_hessians)
        )

    def _finished(self, problem: FiniteSum, state: NIMState) -> NIMState:
        """Return the state after a pass, b and H summed again where they need it."""
        size = float(np.diagonal(state.memory.hessian).max())
        peak = max(state.peak, size)
        if not (size < 0.1 * peak or state.n_passes % REBUILD_EVERY == 0):
            return state._replace(peak=peak)
        memory, more_hessians = rebuilt(problem, state.memory)
        return state._replace(memory=memory, peak=size, n_hessians=state.n_hessians + more_hessians)

    def _minimiser(self, problem: FiniteSum, memory: Memory, x: Vector) -> Vector:
        gradient, complete = model_gradient(memory, x), bool(memory.visited.all())
        if not self.is_exact and problem.is_smooth:
            size = float(np.abs(gradient).max())
            tolerance = min(1.0, math.sqrt(size)) * size if complete else 1.0
            return x + conjugate_gradients(memory.hessian, -gradient, tolerance)
        size = problem.term.optimality(x, gradient)
        tolerance = min(1.0, math.sqrt(size)) * size if complete else 1.0
        return minimise_model(problem.term, memory.hessian, gradient, x, 0.0 if self.is_exact else tolerance)

    def estimate(self, problem: FiniteSum, state: NIMState) -> float:
        """Return what model and free error signal say of the optimality, NaN before a tenth of a pass was compared."""
        if not state.memory.visited.all() or state.guard.n_compared < comparison_window(problem.n_components):
            return math.nan
        n = problem.n_components
        error = float(n / comparison_window(n) * np.linalg.norm(state.failure))
        return error + problem.term.optimality(state.x, model_gradient(state.memory, state.x))


def conjugate_gradients(matrix: Matrix, right: Vector, tolerance: float) -> Vector:
    """Return an approximate solution of H s = right: at least one and at most d steps from 0.

    Examples
    --------
    >>> conjugate_gradients(np.diag([1.0, 2.0]), np.array([1.0, 2.0]), 0.0).round(12)
    array([1., 1.])
    """
    solution, residual = np.zeros(right.size), right.copy()
    direction, square = residual.copy(), float(residual @ residual)
    for _ in range(right.size):
        product = matrix @ direction
        curvature = float(direction @ product)
        if not curvature > 0.0:
            break
        length = square / curvature
        solution += length * direction
        residual -= length * product
        if np.abs(residual).max() <= tolerance:
            break
        last, square = square, float(residual @ residual)
        direction = residual + square / last * direction
    return solution
