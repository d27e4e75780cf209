"""The table of last component gradients for components that are callables: IAG, SAG and SAGA.

A visit of component j at x finds the change D = (nabla f_j(x) - table_j) / n and steps

    x <- prox(x - step (g + innovation D + l2 x)),    table_j <- nabla f_j(x),    g <- g + D

with g the mean of the table, innovation 1 (IAG, SAG) or n (SAGA). Memory n d + 2 d numbers.

Step "auto" is the method's own, with the constants of `finitesum.methods.general.constants`: 1 / (n L) by the rule
"mean" (IAG), 1 / L_max by "largest" (SAG), the longer of 1 / (3 L_max) and, where mu > 0, 1 / (2 (mu n + L_max)) by
"unbiased" (SAGA). Where they are estimates, the points of the last visits are kept, too (n d numbers more), and a visit
that sees a component's gradient change faster than its estimate allows raises it, and shortens the step for good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.methods.general.constants import (
    component_smoothness,
    constants_at,
    full_smoothness,
    seen_curvature,
    strong_convexity,
)
from finitesum.methods.general.points import moved, optimality_of
from finitesum.problems.finite_sum import FiniteSum


class TableState(NamedTuple):
    x: Vector  # iterate
    table: Matrix  # (n, d)  each component's gradient at its last visit, 0 before
    mean_gradient: Vector  # (d,)  the mean of the table
    step_size: float
    bounds: Vector  # (n,)  estimated L_j; empty where they are given or not needed
    anchors: Matrix  # (n, d)  where the estimates compare gradients; empty without estimates
    visited: Flags  # (n,)
    n_visits: int
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class TableForm:
    """A step on the table of last component gradients."""

    step_size: float | str
    is_unbiased: bool  # innovation n in place of 1
    rule: str  # "mean", "largest" or "unbiased": what "auto" is

    state_type: ClassVar[type[TableState]] = TableState
    needs_hessians: ClassVar[bool] = False

    def _auto_step(self, problem: FiniteSum, bounds: Vector) -> float:
        n, mu = problem.n_components, strong_convexity(problem)
        if self.rule == "mean":
            return 1.0 / (n * full_smoothness(problem, bounds))
        smoothness = component_smoothness(problem, bounds)
        if self.rule == "largest":
            return 1.0 / smoothness
        return max(1.0 / (3.0 * smoothness), 0.5 / (mu * n + smoothness) if mu > 0.0 else 0.0)

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> TableState:
        """Return the state before the first visit: an empty table."""
        problem.require_defined(x0)
        n, dim = problem.n_components, problem.dim
        bounds, anchors = np.empty(0), np.empty((0, dim))
        n_gradients = n_hessians = 0
        if isinstance(self.step_size, str):
            bounds, n_gradients, n_hessians = constants_at(problem, x0)
            step_size = self._auto_step(problem, bounds)
            if problem.smoothness is None:
                anchors = np.zeros((n, dim))
            else:
                bounds = np.empty(0)
        else:
            step_size = float(self.step_size)
        visited = np.zeros(n, dtype=np.bool_)
        table = np.zeros((n, dim))
        return TableState(
            x0.copy(), table, np.zeros(dim), step_size, bounds, anchors, visited, 0, n_gradients, n_hessians
        )

    def run_pass(self, problem: FiniteSum, state: TableState, order: Indices) -> TableState:
        """Return the state after the visits of `order`."""
        x, table, mean_gradient = state.x, state.table.copy(), state.mean_gradient.copy()
        bounds, anchors, visited = state.bounds.copy(), state.anchors.copy(), state.visited.copy()
        step_size, n_visits = state.step_size, 0
        innovation = float(problem.n_components) if self.is_unbiased else 1.0
        for j in order:
            gradient = problem.component_gradient(x, j)
            change = gradient - table[j]
            if bounds.size:
                if visited[j] and (seen := seen_curvature(change, x - anchors[j], x)) > bounds[j]:
                    bounds[j] = seen
                    step_size = min(step_size, self._auto_step(problem, bounds))
                anchors[j] = x
            table[j], visited[j] = gradient, True
            change /= problem.n_components
            x = moved(problem, x, mean_gradient + innovation * change + problem.term.quadratic * x, step_size)
            mean_gradient += change
            n_visits += 1
            if not np.isfinite(x).all():
                break
        return TableState(
            x,
            table,
            mean_gradient,
            step_size,
            bounds,
            anchors,
            visited,
            state.n_visits + n_visits,
            state.n_gradients + n_visits,
            state.n_hessians,
        )

    def estimate(self, problem: FiniteSum, state: TableState) -> float:
        """Return the optimality that the table's mean gradient would mean, NaN before the first pass is over."""
        if state.n_visits < problem.n_components:
            return math.nan
        return optimality_of(problem, state.x, state.mean_gradient)
