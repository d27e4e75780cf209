"""CIAG and A-CIAG: incremental steps on a curvature-aided surrogate of the full gradient.

A visit of component j at y = x + extrapolation (x - x_previous) moves the component's Taylor model to y and takes one
step on the gradient of the mean model [1, Algorithm 1]:

    y <- x + extrapolation (x - x_previous)            (14), (20a);  extrapolation 0 is CIAG
    (b, H) <- (b, H) with component j anchored at y     (15), (16);   see `finitesum.methods.curvature.taylor_model`
    x_previous <- x
    x <- prox(y - step (b + H y))                       (17), (20b)

Memory 3n + d^2, work O(d^2) a visit. Deviations from the paper: F is the mean, not the sum, so that L, mu and the step are
those of the mean; H starts as l2 I rather than 0 (the two agree after one pass); the prox or projection is
ours (the paper has the l2 penalty only, and names the rest as future work): see the notes of `CIAG` and `ACIAG` for what
is proven of it and what is only measured.

Step "auto" needs no constant at all: see `finitesum.methods.curvature.automatic_steps`. The theory's constants are had by
``step_size="theory"``: CIAG 2 / (mu + L), A-CIAG 1 / (2 L) with the extrapolation of eq. 31. The paper's two ways to a
start that its theory likes, restarts with a longer step and a warm start by SAG, are options beside a constant step:
see `finitesum.methods.curvature.schedules`. b and H are summed again from the anchors every 50 passes, against
rounding errors.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel
from finitesum.methods.base import Auto, Card, check_choice, check_fraction, check_positive, with_general_form
from finitesum.methods.curvature.automatic_steps import (
    Control,
    controlled_pass,
    copy_control,
    free_certificate,
    new_control,
)
from finitesum.methods.curvature.schedules import (
    constant_extrapolation,
    constant_steps,
    larger_ratio,
    next_step,
    warm_start_visits,
    with_bound,
)
from finitesum.methods.curvature.taylor_model import (
    Pending,
    Surrogate,
    balanced_batch_size,
    copy_surrogate,
    empty_surrogate,
    finish_visits,
    full_surrogate,
    model_gradient,
    new_pending,
    rebuilt,
    surrogate_gradient,
    visit,
)
from finitesum.methods.curvature.trust import guarded_visit
from finitesum.methods.general.surrogates import CIAGForm
from finitesum.problems.linear import LinearSum, Problem
from finitesum.problems.term import prox_in_place


class CIAGState(NamedTuple):
    x: Vector  # iterate
    previous: Vector  # the iterate before
    surrogate: Surrogate
    control: Control  # with a constant step: the running sums, and the largest R since the last restart
    step_size: float  # NaN under control
    longest_step: float  # that restarts may lead to, NaN under control
    extrapolation: float
    n_start: int  # what finding the step size has cost, in gradients
    n_gradients: int
    n_hessians: int


#: Passes after which b and H are summed again.
REBUILD_EVERY = 50


def _n_visits(state: CIAGState) -> int:
    """Return how many visits there were, the first pass of full_surrogate included."""
    return state.n_gradients - state.n_start


def _counted(state: CIAGState, n_visits: int) -> CIAGState:
    """Return the state with some visits more on its counters."""
    return state._replace(n_gradients=state.n_gradients + n_visits, n_hessians=state.n_hessians + n_visits)


@kernel
def _visits(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    previous: Vector,
    surrogate: Surrogate,
    pending: Pending,
    step_size: float,
    extrapolation: float,
    compares: bool,
    failure: Vector,
    movement: Vector,
    n_compared: int,
    ratio: float,
) -> tuple[int, int, float]:
    """Visit the components of `order`, in place; return how many, how many were compared, and the largest R."""
    y = np.zeros(pending.vectors.shape[1])
    gradient = np.zeros(y.size)
    n_visits = 0
    for component in order:
        for j in range(x.size):
            y[j] = x[j] + extrapolation * (x[j] - previous[j])
        if compares:
            n_compared += 1 if surrogate.visited[component] else 0
            finite = guarded_visit(linear_sum, surrogate, pending, component, y, failure, movement, False)
            ratio = larger_ratio(ratio, n_compared, failure, movement)
        else:
            finite = visit(linear_sum, surrogate, pending, component, y)
        surrogate_gradient(surrogate, pending, y, gradient)
        for j in range(x.size):
            previous[j] = x[j]
            x[j] = y[j] - step_size * gradient[j]
        prox_in_place(linear_sum, x, step_size)
        n_visits += 1
        if not finite:
            break
    finish_visits(surrogate, pending)
    return n_visits, n_compared, ratio


@with_general_form
@dataclass(frozen=True)
class CIAG:
    """The curvature-aided incremental aggregated gradient method, plain or accelerated.

    x+ = prox(y - step (b + H y)),  y = x + extrapolation (x - x_previous)    [1, eqs. 18, 20]

    Parameters
    ----------
    step_size : float > 0, "auto" or "theory"
        "auto" adapts to the running H and is guarded against bad models: nothing to tune, from any start.
        "theory" is 2 / (mu + L) without extrapolation and 1 / (2 L) with.
    extrapolation : float in [0, 1) or "auto"
        0 is CIAG. "auto" is Nesterov's sequence with restarts under step "auto", and
        (1 - sqrt(mu step)) / (1 + sqrt(mu step)) [1, eq. 31] with a constant step.
    model_steps : int >= 1 or "auto"
        Steps on the model between two visits, under step "auto"; 1 is the paper's method.
        "auto" is 1 for CIAG and ceil(8 sqrt(kappa) / m) for A-CIAG.
    restart : int >= 0
        Passes after which a constant step is reconsidered: doubled where the models proved good, at most to the step of
        "theory" (or the one given, if longer), halved where they failed; the momentum then restarts. 0: never.
    warm_start_method : {"none", "full", "sag"}
        How the memory fills: "none", components join at their first visit; "full", all at the start, by one full pass;
        "sag", components join at their first visit, and the steps of the first pass are SAG's.

    Raises
    ------
    ValueError
        A parameter is out of range, or two contradict each other.

    Notes
    -----
    *Proven, smooth F* [1, Theorem 1]: with a constant step at most 2 / (mu + L), short enough for the start, and orders
    that visit every component within a bounded number of visits (not "with-replacement"), CIAG converges linearly, and the
    ratio of V(k) = ||x(k) - x*||^2 tends to at most p = 1 - 2 step mu L / (mu + L). Of step "auto" nothing is proven but
    that it cannot blow up on the model; that it converges from any start is measured (``benchmarks/results``).

    *Proven, l1 penalties and constraints*: the same from nearby starts. Let f be the smooth part of F, and M the mean of
    the Lipschitz constants of the components' Hessians. prox does not expand and x* = prox(x* - step grad f(x*)), so that

        ||x(k+1) - x*|| <= sqrt(p) ||x(k) - x*|| + step ||e(k)||

    with e(k) the surrogate's error, and by the paper's Lemma 1 ||e(k)|| <= M/2 max ||x(k) - anchor||^2 <= 2 M max V, over
    the visits since the oldest anchor. This is the recursion of [1, Proposition 5]: with every component anchored, and
    4 M sqrt(V) + 4 step M^2 V < 2 mu L / (mu + L) for all anchors, V falls linearly and its ratio tends to at most p.
    For quadratic losses e = 0 after one pass, and every visit is an exact proximal gradient step.

    *Only measured, l1 penalties and constraints*: starts far away, and step "auto".

    Examples
    --------
    On a quadratic the surrogate is exact after one pass, and CIAG is the full gradient method:

    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared")
    >>> method = CIAG(step_size=1.0, warm_start_method="full")
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([1.])

    References
    ----------
    .. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
       curvature information", Comput. Optim. Appl. 76 (2020).
    """

    step_size: float | Literal["auto", "theory"] = "auto"
    extrapolation: float | Auto = 0.0
    model_steps: int | Auto = "auto"
    restart: int = 0
    warm_start_method: str = "none"

    name: ClassVar[str] = "ciag"
    state_type: ClassVar[type[CIAGState]] = CIAGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "weights", "constraint", "prox", "groups"})
    default_sampling: ClassVar[str] = "shuffled-once"
    card: ClassVar[Card] = Card(
        "curvature-aided incremental aggregated gradient",
        "m + d^2",
        "d^2",
        "kappa log 1/eps for small eps, worst case",
        "smooth, strongly convex, Lipschitz Hessian",
        "Wai et al. 2020",
    )

    def __post_init__(self) -> None:
        if self.step_size != "theory":
            check_positive("step_size", self.step_size)
        check_fraction("extrapolation", self.extrapolation)
        check_choice("warm_start_method", self.warm_start_method, ("none", "full", "sag"))
        if self.model_steps != "auto" and not (self.model_steps == int(self.model_steps) and self.model_steps >= 1):
            raise ValueError(f'model_steps must be "auto" or a whole number >= 1, got {self.model_steps}.')
        if isinstance(self.restart, str) or not (self.restart >= 0 and self.restart == int(self.restart)):
            raise ValueError(f"restart must be a whole number of passes >= 0, got {self.restart!r}. 0 never restarts.")
        if self.step_size == "auto" and self.restart:
            raise ValueError(
                'restart goes with a constant step: give step_size ("theory", say), or leave restart at 0.'
            )
        if self.step_size == "auto" and self.extrapolation not in ("auto", 0.0):
            raise ValueError(
                f"extrapolation {self.extrapolation} goes with a constant step: give step_size, or leave extrapolation "
                'at 0 or "auto".'
            )

    def general(self) -> CIAGForm:
        """Return the method for components that are objects or callables.

        Raises
        ------
        ValueError
            Restarts, or a warm start by SAG, are asked for, which linear models have.
        """
        if self.restart or self.warm_start_method == "sag":
            raise ValueError(
                f"restart={self.restart} and warm_start_method={self.warm_start_method!r} need a linear model. For "
                'components given as functions leave restart at 0, and choose "none" or "full".'
            )
        return CIAGForm(self.step_size, self.extrapolation, self.warm_start_method == "full", self._model_steps())

    def _model_steps(self) -> int:
        """Return the steps on the model between two visits, 0 for as many as the condition asks for."""
        if self.model_steps == "auto":
            return 0 if self.extrapolation == "auto" else 1
        return int(self.model_steps)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> CIAGState:
        """Return the state before the first visit."""
        full = self.warm_start_method == "full"
        surrogate = full_surrogate(problem, x0) if full else empty_surrogate(problem)
        n_visits = problem.n_components if full else 0
        control = new_control(problem, x0)
        if full and self.step_size == "auto":
            control = with_bound(control, surrogate)
        step_size, longest, extrapolation, n_start = math.nan, math.nan, math.nan, 0
        if self.step_size != "auto":
            plain = self.extrapolation == 0.0
            step_size, longest, n_start = constant_steps(
                problem, self.step_size, plain=plain, restarts=self.restart > 0
            )
            extrapolation = constant_extrapolation(problem, self.extrapolation, step_size)
        constants = step_size, longest, extrapolation, n_start
        return CIAGState(x0.copy(), x0.copy(), surrogate, control, *constants, n_start + n_visits, n_visits)

    def run_pass(self, problem: Problem, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after the visits of `order`."""
        state = state._replace(
            x=state.x.copy(),
            previous=state.previous.copy(),
            surrogate=copy_surrogate(state.surrogate),
            control=copy_control(state.control),
        )
        if self.warm_start_method == "sag" and _n_visits(state) < problem.n_components:
            n_warm = problem.n_components - _n_visits(state)
            state, order = self._warm_started(problem, state, order[:n_warm]), order[n_warm:]
        if order.size:
            state = self._visited(problem, state, order)
        if _n_visits(state) // problem.n_components % REBUILD_EVERY == REBUILD_EVERY - 1:
            state = state._replace(surrogate=rebuilt(problem, state.surrogate))
        return state

    def _warm_started(self, problem: Problem, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after visits of the first pass with SAG's steps; arrays are written to."""
        n_visits = warm_start_visits(problem, order, state.x, state.surrogate)
        state.previous[:] = state.x
        state = _counted(state, n_visits)
        if self.step_size == "auto" and _n_visits(state) >= problem.n_components:
            state = state._replace(control=with_bound(state.control, state.surrogate))
        return state

    def _visited(self, problem: Problem, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after some visits; arrays are written to."""
        x, previous, surrogate, control = state.x, state.previous, state.surrogate, state.control
        if self.step_size == "auto":
            accelerated, model_steps = self.extrapolation == "auto", self._model_steps()
            control, n_visits = controlled_pass(
                problem, order, x, previous, surrogate, control, accelerated=accelerated, model_steps=model_steps
            )
            return _counted(state._replace(control=control), n_visits)
        n_visits, n_compared, ratio = _visits(
            problem.view,
            order,
            x,
            previous,
            surrogate,
            new_pending(problem),
            state.step_size,
            state.extrapolation,
            self.restart > 0,
            control.failure,
            control.movement,
            control.guard.n_compared,
            control.guard.ratio,
        )
        guard = control.guard._replace(n_compared=int(n_compared), ratio=float(ratio))
        after = _counted(state._replace(control=control._replace(guard=guard)), n_visits)
        length = self.restart * problem.n_components
        if self.restart and _n_visits(after) // length > _n_visits(state) // length:
            after = self._restarted(problem, after)
        return after

    def _restarted(self, problem: Problem, state: CIAGState) -> CIAGState:
        """Return the state with the step that the models' worth allows, and without momentum if that is another."""
        guard = state.control.guard
        step_size = next_step(state.step_size, guard.ratio, state.longest_step)
        state = state._replace(control=state.control._replace(guard=guard._replace(ratio=math.nan)))
        if step_size == state.step_size:
            return state
        extrapolation = constant_extrapolation(problem, self.extrapolation, step_size)
        return state._replace(previous=state.x.copy(), step_size=step_size, extrapolation=extrapolation)

    def estimate(self, problem: Problem, state: CIAGState) -> float:
        """Return what surrogate and free error signal say of the optimality, NaN before the first pass is over."""
        if _n_visits(state) < problem.n_components:
            return math.nan
        error = free_certificate(problem, state.control) if self.step_size == "auto" else 0.0
        return error + problem.term.optimality(state.x, model_gradient(state.surrogate, state.x))

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1 without acceleration, which large components slow down; with it, what balances data and product."""
        return 1 if self.extrapolation == 0.0 else balanced_batch_size(problem)


@dataclass(frozen=True)
class ACIAG(CIAG):
    """A-CIAG: CIAG with Nesterov's extrapolation; see `CIAG` for the recursion and the parameters.

    Notes
    -----
    *Proven, smooth F* [1, Theorem 2]: with a constant step at most 1 / (2 L), short enough for the start, the
    extrapolation of eq. 31 and orders as for CIAG, F - F* falls linearly, and its ratio tends to at most
    1 - sqrt(mu step). Of step "auto" nothing is proven but that it cannot blow up on the model.

    *Proven, l1 penalties and constraints*: for quadratic losses alone. There the surrogate is exact after one pass, and the
    method with a constant step is the accelerated proximal gradient method.

    *Only measured, l1 penalties and constraints*: all else (``benchmarks/results/robustness.md``). The paper's proof
    follows the objective along an estimating sequence of the gradient; a prox step asks for a new argument.

    Examples
    --------
    >>> ACIAG().extrapolation
    'auto'

    References
    ----------
    .. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
       curvature information", Comput. Optim. Appl. 76 (2020).
    """

    extrapolation: float | Auto = "auto"

    name: ClassVar[str] = "a-ciag"
    card: ClassVar[Card] = Card(
        "accelerated CIAG",
        "m + d^2",
        "d^2",
        "sqrt(kappa) log 1/eps for small eps, worst case",
        "smooth, strongly convex, Lipschitz Hessian",
        "Wai et al. 2020",
    )
