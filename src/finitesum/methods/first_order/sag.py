"""SAG: the stochastic average gradient method.

    j drawn at random,    table_j <- nabla f_j(x),    x <- prox(x - step (mean of the table + l2 x))    [1]

It is IAG with random visits, and that allows a step that does not shrink with m. Memory n + 2d scalars for a linear model,
O(d) work a visit (O(nnz of the row) on sparse rows).

Step "auto": 1 / L_max. The proof asks for 1 / (16 L_max); the authors recommend the longer step and so do we.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.smoothness import component_smoothness
from finitesum.methods.base import Auto, Card, check_positive, with_general_form
from finitesum.methods.first_order.gradient_table import table_visits
from finitesum.methods.general.tables import TableForm
from finitesum.problems.linear import Problem


class SAGState(NamedTuple):
    x: Vector  # iterate
    slopes: Vector  # (n,)  the loss's slope at each row's last visit, 0 before
    mean_gradient: Vector  # (d,)  the mean gradient that the slopes stand for, without the penalty
    step_size: float
    n_gradients: int
    n_hessians: int


@with_general_form
@dataclass(frozen=True)
class SAG:
    """The stochastic average gradient method: IAG with components drawn at random.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 1 / L_max, with L_max the largest smoothness of a component.

    Raises
    ------
    ValueError
        step_size is not positive.

    Examples
    --------
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared")
    >>> method = SAG(step_size=0.5)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([0.5])

    References
    ----------
    .. [1] M. Schmidt, N. Le Roux, F. Bach, "Minimizing finite sums with the stochastic average gradient",
       Math. Program. 162 (2017).
    """

    step_size: float | Auto = "auto"

    name: ClassVar[str] = "sag"
    state_type: ClassVar[type[SAGState]] = SAGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1"})
    default_sampling: ClassVar[str] = "with-replacement"
    card: ClassVar[Card] = Card(
        "stochastic average gradient",
        "m",
        "d",
        "(m + kappa_max) log 1/eps, expected",
        "smooth, strongly convex",
        "Schmidt et al. 2017",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def general(self) -> TableForm:
        """Return the method for components that are objects or callables."""
        return TableForm(self.step_size, is_unbiased=False, rule="largest")

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> SAGState:
        """Return the state before the first visit: an empty table."""
        step_size = 1.0 / component_smoothness(problem) if self.step_size == "auto" else float(self.step_size)
        return SAGState(x0.copy(), np.zeros(problem.n_rows), np.zeros(problem.dim), step_size, 0, 0)

    def run_pass(self, problem: Problem, state: SAGState, order: Indices) -> SAGState:
        """Return the state after the visits of `order`."""
        x, slopes, mean_gradient = state.x.copy(), state.slopes.copy(), state.mean_gradient.copy()
        n_visits = table_visits(problem.view, order, x, slopes, mean_gradient, state.step_size, 1.0)
        return state._replace(x=x, slopes=slopes, mean_gradient=mean_gradient, n_gradients=state.n_gradients + n_visits)

    def estimate(self, problem: Problem, state: SAGState) -> float:
        """Return the optimality that the table's mean gradient would mean, NaN before the first pass is over."""
        if state.n_gradients < problem.n_components:
            return float("nan")
        gradient = state.mean_gradient.copy()
        gradient[: problem.rows.n_columns] += problem.penalty.ridge() * state.x[: problem.rows.n_columns]
        return problem.term.optimality(state.x, gradient)

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1."""
        return 1
