"""SAGA: an unbiased step on the table of last component gradients.

    j drawn at random,    x <- prox(x - step (nabla f_j(x) - table_j + mean of the table + l2 x)),
    table_j <- nabla f_j(old x)    [1]

Memory n + 2d scalars for a linear model, O(d) work a visit (O(nnz of the row) on sparse rows, where the steps of
untouched coordinates are made up for in closed form, the l1 prox included).

Step "auto": the longer of the two that [1] proves, 1 / (3 L_max) and, where mu > 0 is known, 1 / (2 (mu m + L_max)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.smoothness import component_smoothness, strong_convexity
from finitesum.methods.base import Auto, Card, check_positive, with_general_form
from finitesum.methods.first_order.gradient_table import table_visits
from finitesum.methods.general.tables import TableForm
from finitesum.problems.linear import Problem


class SAGAState(NamedTuple):
    x: Vector  # iterate
    slopes: Vector  # (n,)  the loss's slope at each row's last visit, 0 before
    mean_gradient: Vector  # (d,)  the mean gradient that the slopes stand for, without the penalty
    step_size: float
    n_gradients: int
    n_hessians: int


def _theory_step(problem: Problem) -> float:
    """Return the longer of 1 / (3 L_max) and 1 / (2 (mu m + L_max))."""
    smoothness, mu = component_smoothness(problem), strong_convexity(problem)
    if mu == 0.0:
        return 1.0 / (3.0 * smoothness)
    return max(1.0 / (3.0 * smoothness), 0.5 / (mu * problem.n_components + smoothness))


@with_general_form
@dataclass(frozen=True)
class SAGA:
    """SAGA: an unbiased step on the table of last component gradients.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is the longer of 1 / (3 L_max) and 1 / (2 (mu m + L_max)), the second only where the penalty gives a mu > 0;
        L_max is the largest smoothness of a component.

    Raises
    ------
    ValueError
        step_size is not positive.

    Examples
    --------
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared")
    >>> method = SAGA(step_size=0.5)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([1.])

    References
    ----------
    .. [1] A. Defazio, F. Bach, S. Lacoste-Julien, "SAGA: a fast incremental gradient method with support for
       non-strongly convex composite objectives", NIPS 2014.
    """

    step_size: float | Auto = "auto"

    name: ClassVar[str] = "saga"
    state_type: ClassVar[type[SAGAState]] = SAGAState
    handles: ClassVar[frozenset[str]] = frozenset({"l1"})
    default_sampling: ClassVar[str] = "with-replacement"
    card: ClassVar[Card] = Card(
        "SAGA",
        "m",
        "d",
        "(m + kappa_max) log 1/eps, expected",
        "smooth, strongly convex",
        "Defazio et al. 2014",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def general(self) -> TableForm:
        """Return the method for components that are objects or callables."""
        return TableForm(self.step_size, is_unbiased=True, rule="unbiased")

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> SAGAState:
        """Return the state before the first visit: an empty table."""
        step_size = _theory_step(problem) if self.step_size == "auto" else float(self.step_size)
        return SAGAState(x0.copy(), np.zeros(problem.n_rows), np.zeros(problem.dim), step_size, 0, 0)

    def run_pass(self, problem: Problem, state: SAGAState, order: Indices) -> SAGAState:
        """Return the state after the visits of `order`."""
        x, slopes, mean_gradient = state.x.copy(), state.slopes.copy(), state.mean_gradient.copy()
        n_visits = table_visits(
            problem.view, order, x, slopes, mean_gradient, state.step_size, float(problem.n_components)
        )
        return state._replace(x=x, slopes=slopes, mean_gradient=mean_gradient, n_gradients=state.n_gradients + n_visits)

    def estimate(self, problem: Problem, state: SAGAState) -> float:
        """Return the optimality that the table's mean gradient would mean, NaN before the first pass is over."""
        if state.n_gradients < problem.n_components:
            return float("nan")
        gradient = state.mean_gradient.copy()
        gradient[: problem.rows.n_columns] += problem.penalty.ridge() * state.x[: problem.rows.n_columns]
        return problem.term.optimality(state.x, gradient)

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1."""
        return 1
