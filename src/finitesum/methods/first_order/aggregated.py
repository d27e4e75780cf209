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

With `max_delay` SAGA asks for visits ahead: g and the table are those of now, nabla f_j that of a point up to
`max_delay` visits ago (`finitesum.methods.delayed_visits`).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.engine import done
from finitesum.evaluation.part_components import Change
from finitesum.methods.base import SumMethod, copied
from finitesum.methods.constants import Constant, smoothness_at, smoothness_from, strong_convexity
from finitesum.methods.delayed_visits import AsksAhead, Delay, Limits, Visits, limits_of, new_delay
from finitesum.methods.first_order.gradient_table import (
    GradientTable,
    Recording,
    empty_table,
    exceeds_its_bound,
    table_visits,
)
from finitesum.methods.parameters import StepSize, check_count
from finitesum.methods.visits import AnySum, optimality_of, prox_view, step_along
from finitesum.problems.finite_sum import FiniteSum

#: Gradients that are asked for before the first of them is taken: with this number no step is shorter.
UNHARMED = 3


class AggregatedState(NamedTuple):
    x: Vector  # iterate
    table: GradientTable
    step_size: float
    n_start: int  # what finding the step size has cost, in gradients
    n_gradients: int
    n_hessians: int
    delay: Delay  # of visits that are asked for ahead


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

    def _limits(self, problem: AnySum) -> Limits:
        """Return how far ahead visits are asked for: not at all."""
        return Limits(0, 0)

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> AggregatedState:
        """Return the state before the first visit: an empty table."""
        delay = new_delay(problem, self._limits(problem), getattr(self, "mode", 0), has_hessians=False)
        if not isinstance(self.step_size, str):
            return AggregatedState(x0.copy(), empty_table(problem, np.empty(0)), float(self.step_size), 0, 0, 0, delay)
        value, bounds, n_gradients, n_hessians = smoothness_at(problem, x0, self.constant)
        step_size, table = self._longest_step(problem, value), empty_table(problem, bounds)
        return AggregatedState(x0.copy(), table, step_size, n_gradients, n_gradients, n_hessians, delay)

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


class _GradientVisits(Visits):
    """Visits for a component's gradient, in the order of the pass."""

    def __init__(self, problem: FiniteSum, delay: Delay, limits: Limits, order: Indices) -> None:
        super().__init__(problem, delay, limits, order)
        self._order, self._n_asked = order, 0

    def next_of(self, busy: set[int]) -> int:
        """Return the next component of the order, or the first behind it that is not busy."""
        j = int(self._order[self._n_asked % self._order.size])
        self._n_asked += 1
        while j in busy:
            j = (j + 1) % self.turns.size
        return j

    def key_of(self, j: int) -> tuple[bytes, ...]:
        """Return nothing: a gradient depends on its point alone."""
        return ()

    def asked(self, j: int, point: Vector) -> Any:
        """Return a future of the gradient at a point."""
        ask = getattr(self.problem.components[j], "ask_gradient", None)
        if ask is not None:
            return ask(point)
        return done((Change(self.problem.component_gradient(point, j), np.zeros(0), None, 0.0), ()))


@dataclass(frozen=True)
class SAGA(AsksAhead, SAG):
    """SAGA: an unbiased step on the table of last component gradients.

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is the longer of 1 / (3 L_max) and 1 / (2 (mu m + L_max)), the second only where the penalty gives a mu > 0;
        L_max is the largest smoothness of a component.
    max_delay : int >= 0 or "auto"
        Gradients of parts (or of components given as functions) are asked for ahead, so that workers work on several at a
        time: what one brings is at most that many visits old (`finitesum.methods.delayed_visits`), and older results are
        waited for. A step with a gradient of age k is 3 / (k + 1) times as long where that is less than 1: so the steps
        since it was asked for do not exceed 1 / L_max together [2]. 0: one visit after another. "auto": 2, which shortens
        no step; asynchronously, four passes.
    asynchronous : bool or "auto"
        With max_delay, whether gradients are taken as they come, as for `CIAG`.

    References
    ----------
    .. [1] A. Defazio, F. Bach, S. Lacoste-Julien, "SAGA: a fast incremental gradient method with support for
       non-strongly convex composite objectives", NIPS 2014.
    .. [2] X. Wu, S. Magnusson, H. R. Feyzmahdavian, M. Johansson, "Delay-adaptive step-sizes for asynchronous learning",
       ICML 2022.
    """

    max_delay: Annotated[int | Literal["auto"], partial(check_count, least=0, or_auto=True)] = 0
    asynchronous: Literal[True, False, "auto"] = "auto"

    is_unbiased: ClassVar[bool] = True

    def _limits(self, problem: AnySum) -> Limits:
        limits = limits_of(problem, self.max_delay)
        return limits._replace(most=min(problem.n_components, UNHARMED)) if self.max_delay == "auto" else limits

    def run_pass(self, problem: AnySum, state: AggregatedState, order: Indices) -> AggregatedState:
        """Return the state after a pass, of visits that were asked for ahead where there is a max_delay."""
        if not self.max_delay or not isinstance(problem, FiniteSum):
            return super().run_pass(problem, state, order)
        w, table, step_size, m = state.x.copy(), copied(state.table), state.step_size, problem.n_components
        visits, view = _GradientVisits(problem, state.delay, self._limits(problem), order), prox_view(problem)
        for j, point, found, is_finite, age in visits.each(order.size, w):
            change = (found.gradient - table.slopes[j]) / m
            step_along(view, w, table.mean_gradient + m * change, step_size * min(1.0, UNHARMED / (age + 1)))
            table.mean_gradient[:] += change
            table.slopes[j] = found.gradient
            if not is_finite:
                w[:] = np.nan
            if exceeds_its_bound(view, table, j, point, change):
                smoothness = smoothness_from(problem, table.bounds, self.constant)
                step_size = min(step_size, self._longest_step(problem, smoothness))
        if np.isfinite(visits.seconds).all():
            visits.decide()
        n_gradients = state.n_gradients + order.size
        return state._replace(x=w, table=table, step_size=step_size, n_gradients=n_gradients, delay=visits.delay)

    def _longest_step(self, problem: AnySum, smoothness: float) -> float:
        mu = strong_convexity(problem)
        return max(1.0 / (3.0 * smoothness), 0.5 / (mu * problem.n_components + smoothness) if mu > 0.0 else 0.0)
