"""CIAG and A-CIAG: incremental steps on the mean of the components' Taylor models.

A visit of component j at y = w + extrapolation (w - w_previous) moves the component's Taylor model to y and takes one
step on the gradient of the mean model [1, Algorithm 1]:

    y <- w + extrapolation (w - w_previous)            (14), (20a);  extrapolation 0 is CIAG
    (b, H) <- (b, H) with component j anchored at y     (15), (16);   see `finitesum.methods.curvature.taylor_model`
    w_previous <- w
    w <- prox(y - step (b + H y))                       (17), (20b)

Memory 3n + d^2, work O(d^2) a visit; 2 n d + d^2 for components given as functions. Deviations from the paper: F is the
mean, not the sum, so that L, mu and the step are those of the mean; H starts as l2 I rather than 0 (the two agree after one
pass); the prox or projection is ours (the paper has the l2 penalty only, and names the rest as future work): see the notes
of `CIAG` and `ACIAG` for what is proven of it and what is only measured.

Step "auto" needs no constant at all: see `finitesum.methods.curvature.automatic_steps`. ``step_size="theory"`` stands for
CIAG's 2 / (mu + L), A-CIAG's 1 / (2 L) with the extrapolation of eq. 31. What the paper does for a start that its theory
likes, restarts with a longer step and a warm start by SAG, are options beside a constant step: see
`finitesum.methods.curvature.schedules`. b and H are summed again from the anchors every 50 passes, against rounding errors.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel
from finitesum.core.vectors import extrapolate
from finitesum.methods.base import SumMethod, copied
from finitesum.methods.cost_model import threads_for_matrices
from finitesum.methods.curvature import taylor_model as taylor
from finitesum.methods.curvature.automatic_steps import (
    Control,
    controlled_pass,
    controlled_visits,
    model_step,
    new_control,
    step_rule,
    with_bound,
)
from finitesum.methods.curvature.delayed import ModelVisits, moved_model
from finitesum.methods.curvature.guard import Guard, guarded, new_guard
from finitesum.methods.curvature.schedules import Schedule, new_schedule, restarted, warm_start_visits
from finitesum.methods.curvature.taylor_model import OpenModel, TaylorModel
from finitesum.methods.curvature.trust import Trust, TrustRule, error_estimate, trust_rule, trusted_visit
from finitesum.methods.delayed_visits import AsksAhead, Delay, Visit, limits_of, new_delay
from finitesum.methods.parameters import CountOrAuto, Fraction, Seed, check_count, check_positive
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.view import View


class CIAGState(NamedTuple):
    x: Vector  # iterate
    previous: Vector  # the iterate before
    model: TaylorModel
    control: Control  # with a constant step: R alone
    schedule: Schedule
    guard: Guard  # of automatic steps
    n_gradients: int
    n_hessians: int
    delay: Delay  # of visits that are asked for ahead

    @property
    def n_visits(self) -> int:
        """How many visits there were, the first pass of a full model included."""
        return self.n_gradients - self.schedule.n_gradients


@kernel
def _visits(
    view: View,
    order: Indices,
    w: Vector,
    previous: Vector,
    model: OpenModel,
    schedule: Schedule,
    control: Control,
    rule: TrustRule,
    compares: bool,
) -> tuple[int, Trust, float]:
    """Visit the components of `order`, in place; return how many, the trust where it compares, and the largest R."""
    step_size, extrapolation, largest_ratio = schedule.step_size, schedule.extrapolation, schedule.largest_ratio
    comparison, trust = control.comparison, control.trust
    y, gradient = np.zeros(model.hessian.shape[1]), np.zeros(model.hessian.shape[1])
    n_visits = 0
    for component in order:
        extrapolate(w, previous, extrapolation, y)
        if compares:
            trust, increase = trusted_visit(view, model, component, y, comparison, trust, rule, np.inf, gradient)
            finite = np.isfinite(increase)
            largest_ratio = largest_ratio if largest_ratio >= trust.ratio else trust.ratio
        else:
            finite = taylor.visit(view, model, component, y)
        model_step(view, model, w, previous, y, gradient, step_size)
        n_visits += 1
        if not finite:
            break
    taylor.finish_visits(model)
    return n_visits, trust, largest_ratio


def _guarded(problem: AnySum, before: Vector, state: CIAGState) -> CIAGState:
    """Return the state after a pass of automatic steps, which is undone where it raised F."""
    control, schedule, rule = state.control, state.schedule, trust_rule(problem, acts=True, is_gradual=True)
    guard, back, n_more = guarded(problem, state.guard, before, state.x, state.model, control.trust, rule)
    n_more *= problem.n_components
    schedule = schedule._replace(n_gradients=schedule.n_gradients + n_more)
    state = state._replace(guard=guard, schedule=schedule, n_gradients=state.n_gradients + n_more)
    if back is None:
        return state
    control = new_control(problem, back.w, acts=True)._replace(comparison=back.comparison, trust=back.trust)
    n_hessians = state.n_hessians + problem.n_components
    state = state._replace(x=back.w, previous=back.w.copy(), model=back.model, n_hessians=n_hessians)
    return state._replace(control=with_bound(control, back.model))


@dataclass(frozen=True)
class CIAG(AsksAhead, SumMethod):
    """The curvature-aided incremental aggregated gradient method, plain or accelerated.

    w+ = prox(y - step (b + H y)),  y = w + extrapolation (w - w_previous)    [1, eqs. 18, 20]

    Parameters
    ----------
    step_size : float > 0, "auto" or "theory"
        "auto" follows the running H, with safeguards where models are bad: nothing to tune, from any start.
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
    max_delay : int >= 0 or "auto"
        Visits of parts (or of components given as functions) are asked for ahead, so that workers work on several at a
        time: the change that one brings is at most that many visits old (`finitesum.methods.delayed_visits`). 0: one
        visit after another. "auto": a quarter of a pass; asynchronously, four passes.
    asynchronous : bool or "auto"
        With max_delay, whether changes are taken as they come, so that a slow worker costs its own parts alone, and no
        two runs have the same bits. Else they are taken in the order in which they were asked for: the result has the same
        bits for any number of workers. "auto" decides by the seconds that each part took in the first pass; the result's
        message says how.

    Notes
    -----
    On a quadratic the model is exact after one pass, and CIAG is the full gradient method.

    With a constant step at most 2 / (mu + L), short enough for the start, and orders that visit every component within a
    bounded number of visits (not "with-replacement"), CIAG converges linearly [1, Theorem 1]; with l1 penalties and
    constraints, from nearby starts. Of step "auto" nothing is proven but that it cannot blow up on the model: that it
    converges from any start is measured. The page on the method has rates and arguments.

    References
    ----------
    .. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
       curvature information", Comput. Optim. Appl. 76 (2020).
    """

    step_size: Annotated[float | Literal["auto", "theory"], partial(check_positive, words=("auto", "theory"))] = "auto"
    extrapolation: Fraction = 0.0
    model_steps: CountOrAuto = "auto"
    restart: Seed = 0
    warm_start_method: Literal["none", "full", "sag"] = "none"
    max_delay: Annotated[int | Literal["auto"], partial(check_count, least=0, or_auto=True)] = 0
    asynchronous: Literal[True, False, "auto"] = "auto"

    wants_scaled_columns: ClassVar[bool] = True

    handles: ClassVar[frozenset[str]] = SumMethod.handles | {"constraint", "groups"}
    default_sampling: ClassVar[str] = "shuffled-once"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_size == "auto" and self.restart:
            raise ValueError('restart goes with a constant step: give step_size ("theory", say), or leave restart at 0.')
        if self.step_size == "auto" and self.extrapolation not in ("auto", 0.0):
            raise ValueError(
                f"extrapolation {self.extrapolation} goes with a constant step: give step_size, or leave extrapolation "
                'at 0 or "auto".'
            )

        if self.max_delay and (self.restart or self.warm_start_method != "none"):
            raise ValueError("max_delay goes without restart and warm_start_method: leave them out, or max_delay at 0.")

    needs_hessians = True  # at the anchors

    def blas_threads(self, problem: AnySum) -> int | None:
        return 1 if self.max_delay else threads_for_matrices(problem)

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> CIAGState:
        is_full, is_auto = self.warm_start_method == "full", self.step_size == "auto"
        model = taylor.full_model(problem, x0) if is_full else taylor.empty_model(problem)
        control = new_control(problem, x0, acts=is_auto)
        if is_full and is_auto:
            control = with_bound(control, model)
        by_sag = self.warm_start_method == "sag"
        steps = self.step_size, self.extrapolation
        schedule = new_schedule(problem, x0, *steps, restarts=self.restart > 0, by_sag=by_sag)
        n_visits = problem.n_components if is_full else 0
        counts = schedule.n_gradients + n_visits, schedule.n_hessians + n_visits
        delay = new_delay(problem, limits_of(problem, self.max_delay), self.mode, has_hessians=True)
        return CIAGState(x0.copy(), x0.copy(), model, control, schedule, new_guard(problem, model, x0), *counts, delay)

    def run_pass(self, problem: AnySum, state: CIAGState, order: Indices) -> CIAGState:
        before, m = state, problem.n_components
        model, control = taylor.copy_model(state.model), copied(state.control)
        state = state._replace(x=state.x.copy(), previous=state.previous.copy(), model=model, control=control)
        if self.max_delay and isinstance(problem, FiniteSum):
            return self._rebuilt(problem, self._delayed(problem, state, order))
        n_warm = max(m - before.n_visits, 0) if self.warm_start_method == "sag" else 0
        if n_warm:
            state = self._warm_started(problem, state, order[:n_warm])
        if order.size > n_warm:
            run = self._controlled if self.step_size == "auto" else self._stepped
            state = run(problem, state, order[n_warm:])
        n_hessians = taylor.hessians_of_visits(problem, state.n_visits - before.n_visits, before.model, state.model)
        state = state._replace(n_hessians=before.n_hessians + n_hessians)
        if self.step_size == "auto":
            state = _guarded(problem, before.x, state)
        return self._rebuilt(problem, state)

    def _rebuilt(self, problem: AnySum, state: CIAGState) -> CIAGState:
        """Return the state with b and H summed again where it is time."""
        m = problem.n_components
        if state.n_visits // m % taylor.REBUILD_EVERY == taylor.REBUILD_EVERY - 1:
            model, n_more = taylor.rebuilt(problem, state.model)
            state = state._replace(model=model, n_hessians=state.n_hessians + n_more)
            if self.max_delay:  # all Hessians are those at the anchors now
                state = state._replace(delay=state.delay._replace(curved_at=model.margins.copy()))
        return state

    def _warm_started(self, problem: AnySum, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after visits of the first pass with SAG's steps; arrays are written to."""
        n_visits = warm_start_visits(problem, order, state.x, state.model, state.schedule.warm_step)
        state.previous[:] = state.x
        state = state._replace(n_gradients=state.n_gradients + n_visits)
        if self.step_size == "auto" and state.n_visits >= problem.n_components:
            state = state._replace(control=with_bound(state.control, state.model))
        return state

    def _controlled(self, problem: AnySum, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after visits with automatic steps."""
        is_accelerated = self.extrapolation == "auto"
        model_steps = int(not is_accelerated) if self.model_steps == "auto" else int(self.model_steps)
        arrays = state.x, state.previous, state.model
        control, n_visits = controlled_pass(
            problem, order, *arrays, state.control, is_accelerated=is_accelerated, model_steps=model_steps
        )
        return state._replace(control=control, n_gradients=state.n_gradients + n_visits)

    def _delayed(self, problem: FiniteSum, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after as many visits as `order` has, which are asked for ahead; arrays are written to."""
        model, control, n = taylor.opened(state.model), state.control, order.size
        visits = ModelVisits(problem, model, state.delay, limits_of(problem, self.max_delay), order)
        is_auto, is_accelerated = self.step_size == "auto", self.extrapolation == "auto"
        model_steps = int(not is_accelerated) if self.model_steps == "auto" else int(self.model_steps)
        rule = step_rule(problem, is_accelerated=is_accelerated, model_steps=model_steps)
        w, previous, bound = state.x, state.previous, np.inf

        def moved(visit: Visit) -> float:
            """Move a component's model; return NaN where something overflowed."""
            nonlocal control
            given = control.comparison, control.trust, rule.trust, bound, control.direction
            trust, increase = moved_model(model, visit, *given)
            control = control._replace(trust=trust)
            return increase

        n_first = 0
        while n_first < n and not model.visited.all():
            n_first += 1
            if math.isnan(moved(next(visits.each(1, w)))):
                w[:] = np.nan  # there are no derivatives at the start
        if model.visited.all():
            visits.decide()
        if is_auto and n > n_first:
            control = with_bound(control, state.model) if control.eigenvalue == 0.0 else control
            control = controlled_visits(problem, visits.each(n - n_first, w), w, previous, model, control, rule)
        elif n > n_first:
            y = np.zeros(model.hessian.shape[1])
            gradient = y.copy()
            for visit in visits.each(n - n_first, w):
                moved(visit)
                extrapolate(w, previous, state.schedule.extrapolation, y)
                model_step(problem.view, model, w, previous, y, gradient, state.schedule.step_size)
        counts = state.n_gradients + order.size, state.n_hessians + visits.n_hessians
        return state._replace(control=control, delay=visits.delay, n_gradients=counts[0], n_hessians=counts[1])

    def _stepped(self, problem: AnySum, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after visits with a constant step."""
        control, schedule = state.control, state.schedule
        rule = trust_rule(problem, acts=False, is_gradual=True)
        given = state.x, state.previous, taylor.opened(state.model), schedule, control, rule
        n_visits, trust, largest_ratio = _visits(problem.view, order, *given, self.restart > 0)
        before, length = state, self.restart * problem.n_components
        control, schedule = control._replace(trust=trust), schedule._replace(largest_ratio=float(largest_ratio))
        state = state._replace(control=control, schedule=schedule, n_gradients=state.n_gradients + n_visits)
        if not length or state.n_visits // length == before.n_visits // length:
            return state
        after = restarted(problem, state.schedule, self.extrapolation)
        if after.step_size != schedule.step_size:  # without momentum
            state = state._replace(previous=state.x.copy())
        trust = state.control.trust._replace(ratio=math.nan)
        return state._replace(schedule=after, control=state.control._replace(trust=trust))

    def estimate(self, problem: AnySum, state: CIAGState) -> float:
        """Return the optimality of the model and its estimated error, NaN before the first pass is over."""
        if state.n_visits < problem.n_components:
            return math.nan
        error = error_estimate(problem, state.control.comparison.residual) if self.step_size == "auto" else 0.0
        return error + problem.term.optimality(state.x, taylor.model_gradient(state.model, state.x))

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1 without acceleration, which large components slow down; with it, what balances data and product."""
        return 1 if self.extrapolation == 0.0 else taylor.balanced_batch_size(problem)


@dataclass(frozen=True)
class ACIAG(CIAG):
    """A-CIAG: CIAG with Nesterov's extrapolation; see `CIAG` for the recursion and the parameters.

    Notes
    -----
    With a constant step at most 1 / (2 L), short enough for the start, the extrapolation of eq. 31 and orders as for CIAG,
    F - F* falls linearly [1, Theorem 2]; with l1 penalties and constraints that is proven for quadratic losses alone, and
    all else is measured. The page on the method has rates and arguments.

    Examples
    --------
    >>> ACIAG().extrapolation
    'auto'

    References
    ----------
    .. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
       curvature information", Comput. Optim. Appl. 76 (2020).
    """

    extrapolation: Fraction = "auto"
