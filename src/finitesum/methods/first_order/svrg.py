"""SVRG and AccSVRG: component gradients, corrected by a snapshot of the full one.

At a snapshot z, with g the gradient of the mean loss there, a visit of component j does

    SVRG       w <- prox(w - step (nabla f_j(w) - nabla f_j(z) + g + l2 w))        (Johnson, Zhang)
    AccSVRG    v = nabla f_j(y) - nabla f_j(z) + g + l2 y;   w+ = prox(y - step v);   y <- w+ + momentum (w+ - w)  (Nitanda)

and after `inner_passes` passes of visits the last w becomes the snapshot (AccSVRG: and y = w). The slopes at z are kept, so
that a visit evaluates one component gradient, not two (a snapshot evaluates m): memory 2n + 3d scalars for a linear model,
n d + 3d for components given as functions, d more with momentum. Work O(d) a visit; SVRG on sparse rows O(stored entries),
because the updates of untouched coordinates lag (`finitesum.methods.first_order.lagged_updates`). The extrapolation of
AccSVRG moves every coordinate: give it components large enough to pay for that.

Step "auto": the rule of `finitesum.methods.snapshot`, which compares consecutive snapshots and needs no constant. A
number is used as it is, and may diverge. Momentum "auto": (1 - sqrt(mu step)) / (1 + sqrt(mu step)), at most (T -
1) / (T + 3) with T visits between two snapshots, because it restarts at each of them.

Deviations from the papers: components come in the given order (a permutation by default), not with replacement; the
penalty is no part of the components; AccSVRG's mini-batches are fixed sets of rows.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel
from finitesum.core.vectors import axpy, copy, extrapolate, fill
from finitesum.evaluation.smoothness import momentum_limit
from finitesum.methods.base import SumMethod
from finitesum.methods.constants import strong_convexity
from finitesum.methods.first_order.gradient_table import Fixed, GradientTable, table_visits
from finitesum.methods.parameters import Count, Fraction, StepSize
from finitesum.methods.snapshot import Snapshot, expected_smoothness, next_snapshot, take_snapshot
from finitesum.methods.visits import AnySum, add_gradient_change, prox_view, step_along
from finitesum.problems.linear import Problem
from finitesum.problems.view import View


class SVRGState(NamedTuple):
    x: Vector  # iterate
    extrapolated: Vector  # y; empty without momentum
    snapshot: Snapshot
    step_size: float
    n_since: int  # passes of visits since the snapshot
    n_gradients: int
    n_hessians: int


@kernel
def _accelerated_visits(
    view: View, order: Indices, w: Vector, y: Vector, snapshot: Snapshot, step_size: float, momentum: float
) -> int:
    """Step along the components of `order`, in place; return how many were visited (fewer on divergence)."""
    change, previous, m = np.zeros(w.size), np.empty(w.size), float(view.n_components)
    for k, component in enumerate(order):
        finite = add_gradient_change(view, component, y, snapshot.slopes, m, False, change)
        axpy(1.0, snapshot.gradient, change)
        copy(w, previous)
        copy(y, w)
        step_along(view, w, change, step_size)
        extrapolate(w, previous, momentum, y)
        fill(change, 0.0)
        if not finite:
            return k + 1
    return order.size


class _Snapshots(SumMethod):
    """What the two have alike: visits from snapshot to snapshot."""

    step_size: float | str
    inner_passes: int

    extrapolates: ClassVar[bool] = False

    wants_scaled_columns: ClassVar[bool] = True

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> SVRGState:
        """Return the state before the first visit: a snapshot at the start."""
        snapshot, m = take_snapshot(problem, x0), problem.n_components
        y = x0.copy() if self.extrapolates else np.empty(0)
        if not isinstance(self.step_size, str):
            return SVRGState(x0.copy(), y, snapshot, float(self.step_size), 0, m, 0)
        smoothness, _, n_gradients, n_hessians = expected_smoothness(problem, snapshot)
        return SVRGState(x0.copy(), y, snapshot, 1.0 / smoothness, 0, m + n_gradients, n_hessians)

    @abstractmethod
    def _visit(self, problem: AnySum, state: SVRGState, order: Indices, w: Vector, y: Vector) -> int:
        """Visit the components of `order`, in place; return how many were visited (fewer on divergence)."""

    def run_pass(self, problem: AnySum, state: SVRGState, order: Indices) -> SVRGState:
        """Return the state after the visits of `order` and, after `inner_passes` passes, a new snapshot."""
        w, y = state.x.copy(), state.extrapolated.copy()
        snapshot, step_size, n_since = state.snapshot, state.step_size, state.n_since + 1
        n_gradients = state.n_gradients + self._visit(problem, state, order, w, y)
        if n_since >= self.inner_passes:
            snapshot, step_size = next_snapshot(problem, snapshot, w, step_size, adapt=self.step_size == "auto")
            w, n_since = snapshot.point, 0
            y = w if self.extrapolates else y
            n_gradients += problem.n_components
        return SVRGState(w, y, snapshot, step_size, n_since, n_gradients, state.n_hessians)

    def estimate(self, problem: AnySum, state: SVRGState) -> float:
        """Return the optimality of the last snapshot."""
        return state.snapshot.optimality


@dataclass(frozen=True)
class SVRG(_Snapshots):
    """Stochastic variance-reduced gradients: w+ = prox(w - step (nabla f_j(w) - nabla f_j(z) + grad F(z))).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" finds it by comparing snapshots: nothing to tune, from any start.
    inner_passes : int >= 1
        Passes of visits between two snapshots.

    Examples
    --------
    With one component there is no variance, and SVRG is the gradient method:

    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared", batch_size=2)
    >>> method = SVRG(step_size=0.5)
    >>> state = method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(1))
    >>> state.x, state.n_gradients
    (array([0.5]), 3)

    References
    ----------
    .. [1] R. Johnson, T. Zhang, "Accelerating stochastic gradient descent using predictive variance reduction", NIPS 2013.
    .. [2] L. Xiao, T. Zhang, "A proximal stochastic gradient method with progressive variance reduction", SIAM J. Optim.
       24 (2014).
    """

    step_size: StepSize = "auto"
    inner_passes: Count = 1

    def _visit(self, problem: AnySum, state: SVRGState, order: Indices, w: Vector, y: Vector) -> int:
        table = GradientTable(state.snapshot.slopes, state.snapshot.gradient, np.empty(0), np.empty((0, 0)))
        return table_visits(prox_view(problem), order, w, table, state.step_size, Fixed(float(problem.n_components)))


@dataclass(frozen=True)
class AccSVRG(_Snapshots):
    """SVRG with Nesterov's extrapolation between the visits from one snapshot to the next.

    v = nabla f_j(y) - nabla f_j(z) + grad F(z),   w+ = prox(y - step v),   y = w+ + momentum (w+ - w)    [1]

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" finds it by comparing snapshots: nothing to tune, from any start.
    momentum : float in [0, 1) or "auto"
        "auto" is (1 - sqrt(mu step)) / (1 + sqrt(mu step)), with less memory than there are visits between snapshots.
    inner_passes : int >= 1
        Passes of visits between two snapshots.

    References
    ----------
    .. [1] A. Nitanda, "Stochastic proximal gradient descent with acceleration techniques", NIPS 2014.
    """

    step_size: StepSize = "auto"
    momentum: Fraction = "auto"
    inner_passes: Count = 1

    extrapolates: ClassVar[bool] = True
    handles: ClassVar[frozenset[str]] = SumMethod.handles | {"constraint", "groups"}

    def _momentum(self, problem: AnySum, step_size: float) -> float:
        if not isinstance(self.momentum, str):
            return float(self.momentum)
        n_visits = problem.n_components * self.inner_passes
        return min(momentum_limit(strong_convexity(problem), step_size), (n_visits - 1.0) / (n_visits + 3.0))

    def _visit(self, problem: AnySum, state: SVRGState, order: Indices, w: Vector, y: Vector) -> int:
        momentum = self._momentum(problem, state.step_size)
        return _accelerated_visits(prox_view(problem), order, w, y, state.snapshot, state.step_size, momentum)

    def default_batch_size(self, problem: Problem) -> int:
        """Return 16, less on few rows."""
        return max(1, min(16, problem.n_rows // 32))
