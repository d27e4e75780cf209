"""FG, AFG and IG for components that are callables.

    FG    x+ = prox(x - step grad f(x))
    AFG   y = x + momentum (x - x_previous),   x+ = prox(y - step grad f(y))
    IG    x <- prox(x - step_e (nabla f_j(x) + l2 x)),    step_e = step_0 / e in pass e

Step "auto" with constants that were given: 2 / (mu + L) or 1 / L (FG), 1 / L (AFG), 1 / L_max (IG). Without, FG and AFG
backtrack: with v = x+ - y, a step is halved while

    <grad f(x+) - grad f(y), v>  >  ||v||^2 / step

or f is not finite at x+ (FG: or F has risen), and FG's step grows by a tenth after each pass. The first step is the inverse
of the curvature along the gradient at the start. Each trial is a full gradient, and charged: FG keeps that of the trial
that is taken for the next step, so that a pass without halving costs what it costs with a known L; AFG pays two. IG uses
the estimates of `finitesum.methods.general.constants`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.optimality import Measures, evaluate
from finitesum.evaluation.smoothness import momentum_limit
from finitesum.methods.general.constants import (
    component_smoothness,
    constants_at,
    difference_width,
    full_smoothness,
    seen_curvature,
    strong_convexity,
)
from finitesum.methods.general.points import moved
from finitesum.problems.finite_sum import FiniteSum

#: What backtracking does to a step that was too long, how often at most in a pass, and to one that was not.
SHORTER, MOST_HALVINGS, LONGER = 0.5, 60, 1.1


def _first_step(problem: FiniteSum, x: Vector) -> float:
    """Return the inverse of the curvature along the gradient at x, at the price of two passes."""
    here = evaluate(problem, x)
    size = float(np.linalg.norm(here.gradient))
    if not 0.0 < size < math.inf:
        return 1.0
    step = difference_width(x) / size * here.gradient
    curvature = seen_curvature(evaluate(problem, x + step).gradient - here.gradient, step, x)
    return 1.0 / curvature if 0.0 < curvature < math.inf else 1.0


def _short_enough(here: Measures, there: Measures, way: Vector, step_size: float) -> bool:
    """Tell whether the curvature along the way was at most the inverse of the step."""
    if not (math.isfinite(there.objective) and np.isfinite(there.gradient).all()):
        return False
    rise = float((there.gradient - here.gradient) @ way)
    rounding = 1e-14 * float(np.linalg.norm(here.gradient) * np.linalg.norm(way))
    return rise <= float(way @ way) / step_size * (1.0 + 1e-9) + rounding


class FGState(NamedTuple):
    x: Vector  # iterate
    gradient: Vector  # of the smooth part at x, under backtracking; else empty
    objective: float  # F(x), under backtracking
    step_size: float
    last_optimality: float  # at the iterate before
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class FGForm:
    """The full gradient method."""

    step_size: float | str

    state_type: ClassVar[type[FGState]] = FGState
    needs_hessians: ClassVar[bool] = False

    def _searches(self, problem: FiniteSum) -> bool:
        return self.step_size == "auto" and problem.smoothness is None and problem.mean_smoothness is None

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> FGState:
        """Return the state before the first step."""
        problem.require_defined(x0)
        n = problem.n_components
        if self._searches(problem):
            here = evaluate(problem, x0)
            step_size = _first_step(problem, x0)
            return FGState(x0.copy(), here.gradient, here.objective, step_size, here.optimality, 3 * n, 0)
        if isinstance(self.step_size, str):
            smoothness, mu = _given_smoothness(problem), strong_convexity(problem)
            step_size = 2.0 / (mu + smoothness) if mu > 0.0 and problem.is_smooth else 1.0 / smoothness
        else:
            step_size = float(self.step_size)
        return FGState(x0.copy(), np.empty(0), math.nan, step_size, math.nan, 0, 0)

    def run_pass(self, problem: FiniteSum, state: FGState, order: Indices) -> FGState:
        """Return the state after one step."""
        n = problem.n_components
        if self._searches(problem):
            return self._searched(problem, state)
        here = evaluate(problem, state.x)
        x = moved(problem, state.x, here.gradient, state.step_size)
        return state._replace(x=x, last_optimality=here.optimality, n_gradients=state.n_gradients + n)

    def _searched(self, problem: FiniteSum, state: FGState) -> FGState:
        here = Measures(state.objective, state.last_optimality, state.gradient)
        step_size, n_gradients = state.step_size, state.n_gradients
        for _ in range(MOST_HALVINGS):
            x = moved(problem, state.x, here.gradient, step_size)
            there = evaluate(problem, x)
            n_gradients += problem.n_components
            rounding = 1e-14 * abs(here.objective)
            if there.objective <= here.objective + rounding and _short_enough(here, there, x - state.x, step_size):
                break
            step_size *= SHORTER
        return FGState(
            x, there.gradient, there.objective, LONGER * step_size, there.optimality, n_gradients, state.n_hessians
        )

    def estimate(self, problem: FiniteSum, state: FGState) -> float:
        """Return the optimality of the iterate before the last step (under backtracking: of the iterate)."""
        return state.last_optimality


def _given_smoothness(problem: FiniteSum) -> float:
    return full_smoothness(problem, np.zeros(1) if problem.smoothness is None else problem.smoothness)


class AFGState(NamedTuple):
    x: Vector  # iterate
    previous: Vector  # the iterate before
    t: float  # of Nesterov's sequence
    step_size: float
    last_optimality: float  # at the last extrapolated point
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class AFGForm:
    """Nesterov's accelerated gradient method."""

    step_size: float | str
    momentum: float | str

    state_type: ClassVar[type[AFGState]] = AFGState
    needs_hessians: ClassVar[bool] = False

    def _searches(self, problem: FiniteSum) -> bool:
        return self.step_size == "auto" and problem.smoothness is None and problem.mean_smoothness is None

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> AFGState:
        """Return the state before the first step."""
        problem.require_defined(x0)
        step_size, n_gradients = self.step_size, 0
        if self._searches(problem):
            step_size, n_gradients = _first_step(problem, x0), 2 * problem.n_components
        elif isinstance(step_size, str):
            step_size = 1.0 / _given_smoothness(problem)
        return AFGState(x0.copy(), x0.copy(), 1.0, float(step_size), math.nan, n_gradients, 0)

    def run_pass(self, problem: FiniteSum, state: AFGState, order: Indices) -> AFGState:
        """Return the state after one step."""
        t = state.t
        if isinstance(self.momentum, str):
            t = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            limit = momentum_limit(strong_convexity(problem), state.step_size)
            momentum = min((state.t - 1.0) / t, limit)
        else:
            momentum = self.momentum
        y = state.x + momentum * (state.x - state.previous)
        here = evaluate(problem, y)
        step_size, n_trials = state.step_size, 0
        x = moved(problem, y, here.gradient, step_size)
        while self._searches(problem) and n_trials < MOST_HALVINGS:
            n_trials += 1
            if _short_enough(here, evaluate(problem, x), x - y, step_size):
                break
            step_size *= SHORTER
            x = moved(problem, y, here.gradient, step_size)
        previous = state.x
        if isinstance(self.momentum, str) and np.dot(y - x, x - state.x) > 0.0:
            t, previous = 1.0, x
        n_gradients = state.n_gradients + (1 + n_trials) * problem.n_components
        return AFGState(x, previous, t, step_size, here.optimality, n_gradients, state.n_hessians)

    def estimate(self, problem: FiniteSum, state: AFGState) -> float:
        """Return the optimality of the last extrapolated point."""
        return state.last_optimality


class IGState(NamedTuple):
    x: Vector  # iterate
    step_size: float  # of the first pass
    n_passes: int
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class IGForm:
    """The incremental gradient method."""

    step_size: float | str
    decays: bool

    state_type: ClassVar[type[IGState]] = IGState
    needs_hessians: ClassVar[bool] = False

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> IGState:
        """Return the state before the first visit."""
        problem.require_defined(x0)
        if not isinstance(self.step_size, str):
            return IGState(x0.copy(), float(self.step_size), 0, 0, 0)
        bounds, n_gradients, n_hessians = constants_at(problem, x0)
        return IGState(x0.copy(), 1.0 / component_smoothness(problem, bounds), 0, n_gradients, n_hessians)

    def run_pass(self, problem: FiniteSum, state: IGState, order: Indices) -> IGState:
        """Return the state after the visits of `order`."""
        x, n_visits = state.x, 0
        step_size = state.step_size / (state.n_passes + 1) if self.decays else state.step_size
        for j in order:
            gradient = problem.component_gradient(x, j) + problem.term.quadratic * x
            x = moved(problem, x, gradient, step_size)
            n_visits += 1
            if not np.isfinite(x).all():
                break
        return state._replace(x=x, n_passes=state.n_passes + 1, n_gradients=state.n_gradients + n_visits)

    def estimate(self, problem: FiniteSum, state: IGState) -> float:
        """Return NaN: nothing is known of the full gradient."""
        return math.nan
