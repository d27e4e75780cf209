"""SVRG and AccSVRG: component gradients, corrected by a snapshot of the full one.

At a snapshot w, with g the gradient of the mean loss there, a visit of component j does

    SVRG       x <- prox(x - step (nabla f_j(x) - nabla f_j(w) + g + l2 x))                                   [1]
    AccSVRG    v = nabla f_j(y) - nabla f_j(w) + g + l2 y;   x+ = prox(y - step v);   y <- x+ + momentum (x+ - x)     [2]

and after `inner_passes` passes of visits the last x becomes the snapshot (AccSVRG: and y = x). Memory 2n + 3d scalars for a
linear model: the slopes at w are kept, so that a visit evaluates one component gradient, not two (a snapshot evaluates m).
Work O(d) a visit; SVRG on sparse rows O(stored entries), because the steps of untouched coordinates are made up for
later (`finitesum.methods.first_order.lagged_updates`). The extrapolation of AccSVRG moves every coordinate: give it
components large enough to pay for that.

Step "auto": the rule of `finitesum.methods.snapshot`, which compares consecutive snapshots and needs no constant. A
number is used as it is, and may diverge. Momentum "auto": (1 - sqrt(mu step)) / (1 + sqrt(mu step)) [2], at most (T -
1) / (T + 3) with T visits to an epoch, for it starts anew with each of them.

Deviations from the papers: components come in the given order (a permutation by default), not with replacement; the
penalty is no part of the components; AccSVRG's mini-batches are fixed sets of rows.

References
----------
.. [1] R. Johnson, T. Zhang, "Accelerating stochastic gradient descent using predictive variance reduction", NIPS 2013;
   L. Xiao, T. Zhang, "A proximal stochastic gradient method with progressive variance reduction", SIAM J. Optim. 24 (2014).
.. [2] A. Nitanda, "Stochastic proximal gradient descent with acceleration techniques", NIPS 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel
from finitesum.evaluation.smoothness import momentum_limit, strong_convexity
from finitesum.methods.base import Auto, Card, check_count, check_fraction, check_positive, with_general_form
from finitesum.methods.first_order.gradient_table import Fixed, GradientTable, table_visits
from finitesum.methods.general.snapshots import SVRGForm
from finitesum.methods.snapshot import Snapshot, end_of_epoch, first_step, take_snapshot
from finitesum.methods.visits import add_gradient_change
from finitesum.problems.linear import LinearSum, Problem
from finitesum.problems.term import prox_in_place


class SVRGState(NamedTuple):
    x: Vector  # iterate
    snapshot: Snapshot
    step_size: float
    n_since: int  # passes of visits since the snapshot
    n_gradients: int
    n_hessians: int


class AccSVRGState(NamedTuple):
    x: Vector  # iterate
    extrapolated: Vector  # y
    snapshot: Snapshot
    step_size: float
    n_since: int  # passes of visits since the snapshot
    n_gradients: int
    n_hessians: int


@kernel
def _accelerated_visits(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    y: Vector,
    slopes: Vector,
    gradient: Vector,
    step_size: float,
    momentum: float,
) -> int:
    """Step along the components of `order`, in place; return how many were visited (fewer on divergence)."""
    ridge = linear_sum.penalty.ridge()
    change = np.zeros(x.size)
    moved = np.empty(x.size)
    n_visits = 0
    for component in order:
        finite = add_gradient_change(linear_sum, component, y, slopes, float(linear_sum.n_components), False, change)
        for j in range(x.size):
            decay = 1.0 - step_size * ridge if j < linear_sum.n_penalised else 1.0
            moved[j] = decay * y[j] - step_size * (gradient[j] + change[j])
            change[j] = 0.0
        prox_in_place(linear_sum, moved, step_size)
        for j in range(x.size):
            y[j] = moved[j] + momentum * (moved[j] - x[j])
            x[j] = moved[j]
        n_visits += 1
        if not finite:
            break
    return n_visits


@with_general_form
@dataclass(frozen=True)
class SVRG:
    """Stochastic variance-reduced gradients: x+ = prox(x - step (nabla f_j(x) - nabla f_j(w) + grad F(w))).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" finds it by comparing snapshots: nothing to tune, from any start.
    inner_passes : int >= 1
        Passes of visits between two snapshots.

    Raises
    ------
    ValueError
        A parameter is out of range.

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

    step_size: float | Auto = "auto"
    inner_passes: int = 1

    name: ClassVar[str] = "svrg"
    state_type: ClassVar[type[SVRGState]] = SVRGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "prox"})
    default_sampling: ClassVar[str] = "shuffled"
    card: ClassVar[Card] = Card(
        "stochastic variance-reduced gradient",
        "d; m + d as built",
        "d",
        "(m + kappa_max) log 1/eps, expected",
        "smooth, strongly convex",
        "Johnson, Zhang 2013",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_count("inner_passes", self.inner_passes)

    def general(self) -> SVRGForm:
        """Return the method for components that are objects or callables."""
        return SVRGForm(self.step_size, 0.0, int(self.inner_passes))

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> SVRGState:
        """Return the state before the first visit: a snapshot at the start."""
        snapshot = take_snapshot(problem, x0)
        step_size = first_step(problem, snapshot) if self.step_size == "auto" else float(self.step_size)
        return SVRGState(x0.copy(), snapshot, step_size, 0, problem.n_components, 0)

    def run_pass(self, problem: Problem, state: SVRGState, order: Indices) -> SVRGState:
        """Return the state after the visits of `order` and, at the end of an epoch, a new snapshot."""
        x = state.x.copy()
        snapshot, step_size, n_since = state.snapshot, state.step_size, state.n_since + 1
        table = GradientTable(snapshot.slopes, snapshot.gradient, np.empty(0), np.empty((0, 0)))
        rule = Fixed(float(problem.n_components))
        n_gradients = state.n_gradients + table_visits(problem.view, order, x, table, step_size, rule)
        if n_since >= self.inner_passes:
            snapshot, step_size = end_of_epoch(problem, snapshot, x, step_size, adapt=self.step_size == "auto")
            x, n_since = snapshot.point, 0
            n_gradients += problem.n_components
        return state._replace(x=x, snapshot=snapshot, step_size=step_size, n_since=n_since, n_gradients=n_gradients)

    def estimate(self, problem: Problem, state: SVRGState) -> float:
        """Return the optimality of the last snapshot."""
        return state.snapshot.optimality

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1."""
        return 1


@with_general_form
@dataclass(frozen=True)
class AccSVRG:
    """SVRG with Nesterov's extrapolation between the visits of an epoch.

    v = nabla f_j(y) - nabla f_j(w) + grad F(w),   x+ = prox(y - step v),   y = x+ + momentum (x+ - x)    [1]

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" finds it by comparing snapshots: nothing to tune, from any start.
    momentum : float in [0, 1) or "auto"
        "auto" is (1 - sqrt(mu step)) / (1 + sqrt(mu step)), with less memory than an epoch is long.
    inner_passes : int >= 1
        Passes of visits between two snapshots.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared", batch_size=1)
    >>> method = AccSVRG(step_size=0.5, momentum=0.5)
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([0.875])

    References
    ----------
    .. [1] A. Nitanda, "Stochastic proximal gradient descent with acceleration techniques", NIPS 2014.
    """

    step_size: float | Auto = "auto"
    momentum: float | Auto = "auto"
    inner_passes: int = 1

    name: ClassVar[str] = "acc-svrg"
    state_type: ClassVar[type[AccSVRGState]] = AccSVRGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint", "prox", "groups"})
    default_sampling: ClassVar[str] = "shuffled"
    card: ClassVar[Card] = Card(
        "accelerated mini-batch SVRG",
        "d; m + d as built",
        "d",
        "(m + m kappa_max / (m + sqrt(kappa_max))) log 1/eps at the best batch, expected",
        "smooth, strongly convex",
        "Nitanda 2014",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_fraction("momentum", self.momentum)
        check_count("inner_passes", self.inner_passes)

    def general(self) -> SVRGForm:
        """Return the method for components that are objects or callables."""
        return SVRGForm(self.step_size, self.momentum, int(self.inner_passes))

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> AccSVRGState:
        """Return the state before the first visit: a snapshot at the start."""
        snapshot = take_snapshot(problem, x0)
        step_size = first_step(problem, snapshot) if self.step_size == "auto" else float(self.step_size)
        return AccSVRGState(x0.copy(), x0.copy(), snapshot, step_size, 0, problem.n_components, 0)

    def _momentum(self, problem: Problem, step_size: float) -> float:
        if self.momentum != "auto":
            return float(self.momentum)
        n_visits = problem.n_components * self.inner_passes
        return min(momentum_limit(strong_convexity(problem), step_size), (n_visits - 1.0) / (n_visits + 3.0))

    def run_pass(self, problem: Problem, state: AccSVRGState, order: Indices) -> AccSVRGState:
        """Return the state after the visits of `order` and, at the end of an epoch, a new snapshot."""
        x, y = state.x.copy(), state.extrapolated.copy()
        snapshot, step_size, n_since = state.snapshot, state.step_size, state.n_since + 1
        momentum = self._momentum(problem, step_size)
        n_gradients = state.n_gradients + _accelerated_visits(
            problem.view, order, x, y, snapshot.slopes, snapshot.gradient, step_size, momentum
        )
        if n_since >= self.inner_passes:
            snapshot, step_size = end_of_epoch(problem, snapshot, x, step_size, adapt=self.step_size == "auto")
            x, y, n_since = snapshot.point, snapshot.point, 0
            n_gradients += problem.n_components
        return AccSVRGState(x, y, snapshot, step_size, n_since, n_gradients, state.n_hessians)

    def estimate(self, problem: Problem, state: AccSVRGState) -> float:
        """Return the optimality of the last snapshot."""
        return state.snapshot.optimality

    def default_batch_size(self, problem: Problem) -> int:
        """Return 16, less on few rows."""
        return max(1, min(16, problem.n_rows // 32))
