"""Newton's method for components that are callables: a full Hessian, and a search along the line, in each pass.

    z = argmin_v g'(v - x) + 1/2 (v - x)'H (v - x) + r(v),    x+ = x + t (z - x)

t is the first of 1, 1/2, 1/4, ... with F(x+) <= F(x) + t/10^4 (g'(z - x) + r(z) - r(x)), up to rounding. Where H is not
positive definite, which a sum that is not convex allows, its eigenvalues are replaced by their sizes, so that the way leads
down. Each trial is a pass of values and is charged as a pass of gradients, but for the one that is taken, whose gradients
are the next step's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.general.points import objective_at
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.finite_sum import FiniteSum

#: The share of the predicted decrease that a step must bring, and the halvings tried for it.
DECREASE, MOST_HALVINGS = 1e-4, 60


class NewtonState(NamedTuple):
    x: Vector  # iterate
    gradient: Vector  # of the smooth part at x
    objective: float
    optimality: float
    step_size: float  # t of the last step, NaN before it
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class NewtonForm:
    """Newton's method."""

    step_size: float | str

    state_type: ClassVar[type[NewtonState]] = NewtonState
    needs_hessians: ClassVar[bool] = True

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> NewtonState:
        """Return the state before the first step: the gradient at the start."""
        problem.require_defined(x0)
        here = evaluate(problem, x0)
        return NewtonState(
            x0.copy(), here.gradient, here.objective, here.optimality, float("nan"), problem.n_components, 0
        )

    def run_pass(self, problem: FiniteSum, state: NewtonState, order: Indices) -> NewtonState:
        """Return the state after one step, the gradient at its end included."""
        n = problem.n_components
        hessian = _definite(problem.hessian(state.x))
        way = minimise_model(problem.term, hessian, state.gradient, state.x, 0.0) - state.x
        t, n_trials = (1.0, 0) if isinstance(self.step_size, str) else (self.step_size, 0)
        if isinstance(self.step_size, str) and np.isfinite(way).all():
            t, n_trials = self._searched(problem, state, way)
        x = state.x + t * way
        if not np.isfinite(x).all():
            return state._replace(x=x, n_hessians=state.n_hessians + n)
        there = evaluate(problem, x)
        return NewtonState(
            x,
            there.gradient,
            there.objective,
            there.optimality,
            t,
            state.n_gradients + (1 + n_trials) * n,
            state.n_hessians + n,
        )

    def _searched(self, problem: FiniteSum, state: NewtonState, way: Vector) -> tuple[float, int]:
        """Return the share of the way that brings enough, 0 when none does, and the trials beyond the one taken."""
        coefficients = problem.term.coefficients
        rise = float(np.abs(coefficients(state.x + way)).sum() - np.abs(coefficients(state.x)).sum())
        predicted = float(state.gradient @ way) + problem.penalty.lasso() * rise
        rounding = problem.n_components * float(np.finfo(np.float64).eps) * abs(state.objective)
        t = 1.0
        for n_trials in range(MOST_HALVINGS):
            objective = objective_at(problem, state.x + t * way)
            if objective <= state.objective + DECREASE * t * predicted + rounding:
                return t, n_trials
            t *= 0.5
        return 0.0, MOST_HALVINGS

    def estimate(self, problem: FiniteSum, state: NewtonState) -> float:
        """Return the optimality at the iterate, which is known exactly."""
        return state.optimality


def _definite(hessian: Matrix) -> Matrix:
    """Return H, or H with its eigenvalues replaced by their sizes where one of them is well below 0."""
    if not np.isfinite(hessian).all():
        return hessian
    values, vectors = np.linalg.eigh(hessian)
    if values[0] >= -1e-12 * max(values[-1], 0.0):
        return hessian
    sizes = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    definite: Matrix = (vectors * sizes) @ vectors.T
    return definite
