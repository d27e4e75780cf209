"""IAG: the incremental aggregated gradient method.

    table_j <- nabla f_j(x),    x <- prox(x - step (mean of the table + l2 x))    [1, eqs. 7, 8]

The components come in a fixed cycle. The table starts empty and fills during the first pass. Memory n + 2d scalars for a
linear model, O(d) work a visit (O(nnz of the row) on sparse rows).

Step "auto": 1 / (m L), the order of what [2] proves for delays up to m; a pass then gains what a gradient step gains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.smoothness import counted_smoothness
from finitesum.methods.base import Auto, Card, check_positive, with_general_form
from finitesum.methods.first_order.gradient_table import table_visits
from finitesum.methods.general.tables import TableForm
from finitesum.problems.linear import Problem


class IAGState(NamedTuple):
    x: Vector  # iterate
    slopes: Vector  # (n,)  the loss's slope at each row's last visit, 0 before
    mean_gradient: Vector  # (d,)  the mean gradient that the slopes stand for, without the penalty
    step_size: float
    n_start: int  # what finding the step size has cost, in gradients
    n_gradients: int
    n_hessians: int


@with_general_form
@dataclass(frozen=True)
class IAG:
    """The incremental aggregated gradient method: step along the mean of the last component gradients.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 1 / (m L), with m components and L the smoothness of F.

    Raises
    ------
    ValueError
        step_size is not positive.

    Examples
    --------
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared")
    >>> method = IAG(step_size=0.5)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([0.5])

    References
    ----------
    .. [1] D. Blatt, A. Hero, H. Gauchman, "A convergent incremental gradient method with a constant step size",
       SIAM J. Optim. 18 (2007).
    .. [2] N. D. Vanli, M. Gurbuzbalaban, A. Ozdaglar, "A stronger convergence result on the proximal incremental
       aggregated gradient method", arXiv 1611.08022.
    """

    step_size: float | Auto = "auto"

    name: ClassVar[str] = "iag"
    state_type: ClassVar[type[IAGState]] = IAGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1"})
    default_sampling: ClassVar[str] = "cyclic"
    card: ClassVar[Card] = Card(
        "incremental aggregated gradient",
        "m",
        "d",
        "m kappa log 1/eps, worst case",
        "smooth, strongly convex",
        "Blatt et al. 2007; rate: Vanli et al. 2018",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def general(self) -> TableForm:
        """Return the method for components that are objects or callables."""
        return TableForm(self.step_size, is_unbiased=False, rule="mean")

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> IAGState:
        """Return the state before the first visit: an empty table."""
        step_size, n_start = self.step_size, 0
        if step_size == "auto":
            smoothness, n_start = counted_smoothness(problem)
            step_size = 1.0 / (problem.n_components * smoothness)
        table, mean_gradient = np.zeros(problem.n_rows), np.zeros(problem.dim)
        return IAGState(x0.copy(), table, mean_gradient, float(step_size), n_start, n_start, 0)

    def run_pass(self, problem: Problem, state: IAGState, order: Indices) -> IAGState:
        """Return the state after the visits of `order`."""
        x, slopes, mean_gradient = state.x.copy(), state.slopes.copy(), state.mean_gradient.copy()
        n_visits = table_visits(problem.view, order, x, slopes, mean_gradient, state.step_size, 1.0)
        return state._replace(x=x, slopes=slopes, mean_gradient=mean_gradient, n_gradients=state.n_gradients + n_visits)

    def estimate(self, problem: Problem, state: IAGState) -> float:
        """Return the optimality that the table's mean gradient would mean, NaN before the first pass is over."""
        if state.n_gradients - state.n_start < problem.n_components:
            return float("nan")
        gradient = state.mean_gradient.copy()
        gradient[: problem.rows.n_columns] += problem.penalty.ridge() * state.x[: problem.rows.n_columns]
        return problem.term.optimality(state.x, gradient)

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1."""
        return 1
