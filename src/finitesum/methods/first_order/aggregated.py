"""IAG, SAG and SAGA: steps along a table of the last component gradients.

With g the mean of the table and D = (nabla f_j(w) - table_j) / m, a visit of component j does

    IAG, SAG    table_j <- nabla f_j(w),    w <- prox(w - step (mean of the table + l2 w))    (Blatt et al., eqs. 7, 8)
    SAGA        w <- prox(w - step (m D + g + l2 w)),    table_j <- nabla f_j(w)              (Defazio et al., eq. 1)

IAG visits the components in a fixed cycle, SAG and SAGA at random: that allows SAG a step that does not shrink with m, and
SAGA's direction is the gradient in the mean. The table starts empty and fills during the first pass. Memory n + 2d scalars
for a linear model, n d + 2d for components given as functions; O(d) work a visit (O(nnz of the row) on sparse rows).

Step "auto" is, with L the smoothness of F and L_max the largest one of a component, for IAG of the order that Vanli et al.
prove for delays up to m; for SAG longer than the proof's 1 / (16 L_max), as its authors recommend; for SAGA proven.

Where L and L_max are estimates, for functions of which the caller knows nothing, the points of the last visits are kept as
well (n d numbers more), and a visit that sees a gradient change faster than its estimate allows raises it and shortens the
step.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.methods.base import SumMethod, copied
from finitesum.methods.constants import Constant, smoothness_at, smoothness_from, strong_convexity
from finitesum.methods.first_order.gradient_table import GradientTable, Recording, empty_table, table_visits
from finitesum.methods.parameters import StepSize
from finitesum.methods.visits import AnySum, optimality_of, prox_view


class AggregatedState(NamedTuple):
    x: Vector  # iterate
    table: GradientTable
    step_size: float
    n_start: int  # what finding the step size has cost, in gradients
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class _Aggregated(SumMethod):
    """What the three have alike."""

    step_size: StepSize = "auto"

    default_sampling: ClassVar[str] = "with-replacement"
    is_unbiased: ClassVar[bool] = False
    constant: ClassVar[Constant] = Constant.LARGEST  # what step "auto" rests on

    wants_scaled_columns: ClassVar[bool] = True

    @abstractmethod
    def _longest_step(self, problem: AnySum, smoothness: float) -> float:
        """Return step "auto"."""

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> AggregatedState:
        """Return the state before the first visit: an empty table."""
        if not isinstance(self.step_size, str):
            return AggregatedState(x0.copy(), empty_table(problem, np.empty(0)), float(self.step_size), 0, 0, 0)
        value, bounds, n_gradients, n_hessians = smoothness_at(problem, x0, self.constant)
        step_size, table = self._longest_step(problem, value), empty_table(problem, bounds)
        return AggregatedState(x0.copy(), table, step_size, n_gradients, n_gradients, n_hessians)

    def run_pass(self, problem: AnySum, state: AggregatedState, order: Indices) -> AggregatedState:
        w, table, step_size = state.x.copy(), copied(state.table), state.step_size
        rule = Recording(float(problem.n_components) if self.is_unbiased else 1.0)
        n_visits = 0
        while n_visits < order.size and np.isfinite(w).all():
            n_visits += table_visits(prox_view(problem), order[n_visits:], w, table, step_size, rule)
            if table.bounds.size:
                smoothness = smoothness_from(problem, table.bounds, self.constant)
                step_size = min(step_size, self._longest_step(problem, smoothness))
        return state._replace(x=w, table=table, step_size=step_size, n_gradients=state.n_gradients + n_visits)

    def estimate(self, problem: AnySum, state: AggregatedState) -> float:
        """Return the optimality that the table's mean gradient would mean, NaN before the first pass is over."""
        if state.n_gradients - state.n_start < problem.n_components:
            return math.nan
        return optimality_of(problem, state.x, state.table.mean_gradient)


@dataclass(frozen=True)
class IAG(_Aggregated):
    """The incremental aggregated gradient method: step along the mean of the last component gradients.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 1 / (m L), with m components and L the smoothness of F.

    References
    ----------
    .. [1] D. Blatt, A. Hero, H. Gauchman, "A convergent incremental gradient method with a constant step size",
       SIAM J. Optim. 18 (2007).
    .. [2] N. D. Vanli, M. Gurbuzbalaban, A. Ozdaglar, "A stronger convergence result on the proximal incremental
       aggregated gradient method", arXiv 1611.08022.
    """

    default_sampling: ClassVar[str] = "cyclic"
    constant: ClassVar[Constant] = Constant.MEAN

    def _longest_step(self, problem: AnySum, smoothness: float) -> float:
        return 1.0 / (problem.n_components * smoothness)


@dataclass(frozen=True)
class SAG(_Aggregated):
    """The stochastic average gradient method: IAG with components drawn at random.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 1 / L_max, with L_max the largest smoothness of a component.

    References
    ----------
    .. [1] M. Schmidt, N. Le Roux, F. Bach, "Minimizing finite sums with the stochastic average gradient",
       Math. Program. 162 (2017).
    """

    def _longest_step(self, problem: AnySum, smoothness: float) -> float:
        return 1.0 / smoothness


@dataclass(frozen=True)
class SAGA(SAG):
    """SAGA: an unbiased step on the table of last component gradients.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is the longer of 1 / (3 L_max) and 1 / (2 (mu m + L_max)), the second only where the penalty gives a mu > 0;
        L_max is the largest smoothness of a component.

    References
    ----------
    .. [1] A. Defazio, F. Bach, S. Lacoste-Julien, "SAGA: a fast incremental gradient method with support for
       non-strongly convex composite objectives", NIPS 2014.
    """

    is_unbiased: ClassVar[bool] = True

    def _longest_step(self, problem: AnySum, smoothness: float) -> float:
        mu = strong_convexity(problem)
        return max(1.0 / (3.0 * smoothness), 0.5 / (mu * problem.n_components + smoothness) if mu > 0.0 else 0.0)
