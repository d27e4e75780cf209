"""Newton's method with a line search: the baseline that shows what full Hessians buy.

At x, with g and H the gradient and Hessian of the smooth part of F and r the rest,

    z = argmin_v g'(v - x) + 1/2 (v - x)'H (v - x) + r(v),    x+ = x + t (z - x)    [1, 2]

t is the first of 1, 1/2, 1/4, ... with F(x+) <= F(x) + t/10^4 (g'(z - x) + r(z) - r(x)), up to rounding. A pass is one
such step: m component Hessians, m component gradients (2 m when t < 1; the trials in between cost n loss values each, on
kept margins), O(n d^2 + d^3) work, d^2 + 2n memory. A number for `step_size` is used as t and nothing is searched.

References
----------
.. [1] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, section 9.5.
.. [2] J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J. Optim.
   24 (2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.hessian import hessian_of
from finitesum.evaluation.row_products import line_through, value_along
from finitesum.methods.base import Auto, Card, check_positive, with_general_form
from finitesum.methods.general.newton import NewtonForm
from finitesum.methods.snapshot import Snapshot, smooth_gradient, take_snapshot
from finitesum.methods.subproblems.line_search import halved, is_enough
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.linear import Problem


class NewtonState(NamedTuple):
    x: Vector  # iterate
    snapshot: Snapshot  # at x
    step_size: float  # t of the last step, NaN before it
    n_gradients: int
    n_hessians: int


def _predicted(problem: Problem, snapshot: Snapshot, gradient: Vector, direction: Vector) -> float:
    """Return g'(z - x) + r(z) - r(x) <= 0."""
    n_penalised = problem.rows.n_columns
    x = snapshot.point[:n_penalised]
    rise = np.abs(x + direction[:n_penalised]).sum() - np.abs(x).sum()
    return float(gradient @ direction + problem.penalty.lasso() * rise)


def _halved(problem: Problem, here: Snapshot, direction: Vector, predicted: float) -> float:
    """Return the first t = 1/2, 1/4, ... that brings enough, 0 when none does."""
    line = line_through(problem, here.point, direction)

    def objective(t: float) -> float:
        return value_along(problem, line, t) + problem.term.value(here.point + t * direction)

    return halved(objective, here.objective, predicted, problem.n_rows, first=0.5)[0]


@with_general_form
@dataclass(frozen=True)
class Newton:
    """Newton's method, proximal for l1 penalties and constraints: x+ = x - t H^-1 grad F(x).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        t; "auto" searches along the line.

    Raises
    ------
    ValueError
        step_size is not positive.

    Examples
    --------
    A quadratic is solved at once:

    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss="squared")
    >>> method = Newton()
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([0.6])

    References
    ----------
    .. [1] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, section 9.5.
    .. [2] J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J.
       Optim. 24 (2014).
    """

    step_size: float | Auto = "auto"

    name: ClassVar[str] = "newton"
    state_type: ClassVar[type[NewtonState]] = NewtonState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 25
    card: ClassVar[Card] = Card(
        "Newton's method",
        "d^2; m + d^2 as built",
        "d^2, and d^3 a pass",
        "m log log 1/eps near the optimum (quadratic), worst case",
        "smooth, strongly convex, Lipschitz Hessian",
        "classical",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size, "Leave it out to search along the line.")

    def general(self) -> NewtonForm:
        """Return the method for components that are objects or callables."""
        return NewtonForm(self.step_size)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> NewtonState:
        """Return the state before the first step: the gradient at the start."""
        return NewtonState(x0.copy(), take_snapshot(problem, x0), float("nan"), problem.n_components, 0)

    def run_pass(self, problem: Problem, state: NewtonState, order: Indices) -> NewtonState:
        """Return the state after one step, the gradient at its end included."""
        m, here = problem.n_components, state.snapshot
        gradient = smooth_gradient(problem, here)
        direction = (
            minimise_model(problem.term, hessian_of(problem, here.curvatures), gradient, here.point, 0.0) - here.point
        )
        t = 1.0 if self.step_size == "auto" else float(self.step_size)
        there = take_snapshot(problem, here.point + t * direction)
        n_gradients = state.n_gradients + m
        predicted = _predicted(problem, here, gradient, direction)
        if self.step_size == "auto" and not is_enough(here.objective, there.objective, predicted, problem.n_rows):
            t = _halved(problem, here, direction, predicted)
            there = take_snapshot(problem, here.point + t * direction)
            n_gradients += m
        return NewtonState(there.point, there, t, n_gradients, state.n_hessians + m)

    def estimate(self, problem: Problem, state: NewtonState) -> float:
        """Return the optimality at the iterate, which is known exactly."""
        return state.snapshot.optimality

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1: components play no role."""
        return 1
