"""Newton's method with a line search: the baseline that shows what full Hessians buy.

At w, with g and H the gradient and Hessian of the smooth part of F and r the rest,

    z = argmin_v g'(v - w) + 1/2 (v - w)'H (v - w) + r(v),    w+ = w + t (z - w)    [1, 2]

t is the first of 1, 1/2, 1/4, ... with F(w+) <= F(w) + t/10^4 (g'(z - w) + r(z) - r(w)), up to rounding. A pass is one
such step: m component Hessians, m component gradients (2 m when t < 1), O(n d^2 + d^3) work, d^2 + 2n memory. Trials in
between cost n loss values each, on kept predictions; those of components given as functions are charged, a pass each. A
number for `step_size` is used as t and nothing is searched.

A sum of functions need not be convex: where its H is not positive definite, its eigenvalues are replaced by their sizes,
so that F falls along the direction. The references are those of `Newton`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.outputs import objective_at, score_changes, scores_at
from finitesum.evaluation.row_products import line_through, value_along
from finitesum.methods.base import SumMethod
from finitesum.methods.parameters import StepSize
from finitesum.methods.snapshot import Snapshot, smooth_gradient, smooth_hessian, take_snapshot
from finitesum.methods.subproblems.line_search import halved, is_enough, rounding_of
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum


class NewtonState(NamedTuple):
    x: Vector  # iterate
    snapshot: Snapshot  # at x
    step_size: float  # t of the last step, NaN before it
    n_gradients: int
    n_hessians: int


def _objective_along(problem: AnySum, w: Vector, direction: Vector) -> Callable[[float], float]:
    """Return t -> F(w + t direction); predictions of a linear model are linear in t, and no value reads the rows."""
    if isinstance(problem, FiniteSum):
        return lambda t: problem.mean_value(w + t * direction) + problem.term.value(w + t * direction)
    if problem.n_outputs > 1:
        scores, changes = scores_at(problem, w), score_changes(problem, direction)
        return lambda t: objective_at(problem, scores + t * changes, w + t * direction)
    line = line_through(problem, w, direction)
    return lambda t: value_along(problem, line, t) + problem.term.value(w + t * direction)


def _with_positive_eigenvalues(hessian: Matrix) -> Matrix:
    """Return H, or H with its eigenvalues replaced by their sizes where one of them is well below 0."""
    if not np.isfinite(hessian).all():
        return hessian
    values, vectors = np.linalg.eigh(hessian)
    if values[0] >= -1e-12 * max(values[-1], 0.0):
        return hessian
    sizes = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
    definite: Matrix = (vectors * sizes) @ vectors.T
    return definite


@dataclass(frozen=True)
class Newton(SumMethod):
    """Newton's method, proximal for l1 penalties and constraints: w+ = w - t H^-1 grad F(w).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        t; "auto" searches along the line.

    References
    ----------
    .. [1] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, section 9.5.
    .. [2] J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J.
       Optim. 24 (2014).
    """

    step_size: StepSize = "auto"

    name: ClassVar[str] = "newton"
    state_type: ClassVar[type[NewtonState]] = NewtonState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "weights", "constraint", "components", "outputs"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 25

    needs_hessians = True

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> NewtonState:
        """Return the state before the first step: the gradient at the start."""
        return NewtonState(x0.copy(), take_snapshot(problem, x0), float("nan"), problem.n_components, 0)

    def run_pass(self, problem: AnySum, state: NewtonState, order: Indices) -> NewtonState:
        """Return the state after one step, the gradient at its end included."""
        m, here = problem.n_components, state.snapshot
        w, gradient, hessian = here.point, smooth_gradient(problem, here), smooth_hessian(problem, here)
        if isinstance(problem, FiniteSum):
            hessian = _with_positive_eigenvalues(hessian)
        direction = minimise_model(problem.term, hessian, gradient, w, 0.0) - w
        t = 1.0 if isinstance(self.step_size, str) else float(self.step_size)
        predicted = float(gradient @ direction) + problem.term.rise(w, w + direction)
        is_hidden = -predicted <= rounding_of(here.objective, problem.n_rows)
        there = take_snapshot(problem, w + t * direction, is_extended=is_hidden)
        n_gradients = state.n_gradients + m
        if self.step_size == "auto" and not is_enough(here.objective, there.objective, predicted, problem.n_rows):
            objective = _objective_along(problem, w, direction)
            t, n_failed = halved(objective, here.objective, predicted, problem.n_rows, first=0.5)
            there = take_snapshot(problem, w + t * direction)
            n_gradients += m * (1 + n_failed if isinstance(problem, FiniteSum) else 1)
        return NewtonState(there.point, there, t, n_gradients, state.n_hessians + m)

    def estimate(self, problem: AnySum, state: NewtonState) -> float:
        """Return the optimality at the iterate, which is known exactly."""
        return state.snapshot.optimality
