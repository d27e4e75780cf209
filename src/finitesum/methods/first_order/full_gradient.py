"""FG and AFG: the full gradient method and Nesterov's acceleration of it.

    FG    w+ = prox(w - step grad f(w))
    AFG   y = w + momentum (w - w_previous),   w+ = prox(y - step grad f(y))

One step a pass, O(nnz) work, O(d) memory. With "auto": FG steps 2/(mu + L) on smooth strongly convex problems and 1/L
else; AFG steps 1/L and its momentum follows Nesterov's sequence (t - 1)/t+ below (1 - sqrt(mu step))/(1 + sqrt(mu step)),
and restarts when the step and the gradient disagree (gradient restart). A number for `momentum` is used as it is.

Where components are functions of which the caller knows no L, or the loss is not convex or has no bound on its curvature,
"auto" backtracks: with
v = w+ - y, a step is halved while

    <grad f(w+) - grad f(y), v>  >  ||v||^2 / step

or f is not finite at w+ (FG: or F has risen), and FG's step grows by a tenth after each pass. The first step is the inverse
of the curvature along the gradient at the start. Each trial is a full gradient, and charged: FG keeps that of the trial
that is taken for the next step, so that a pass without halving costs what it costs with a known L; AFG pays two.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.optimality import Measures, evaluate
from finitesum.evaluation.smoothness import momentum_limit
from finitesum.methods.base import SumMethod
from finitesum.methods.constants import Constant, curvature_between, difference_width, smoothness_at, strong_convexity
from finitesum.methods.parameters import Fraction, StepSize
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum

#: What backtracking does to a step that was too long, at most this often in a pass, and to one that was not.
SHORTER, MOST_HALVINGS, LONGER = 0.5, 60, 1.1


def _first_step(problem: AnySum, w: Vector, here: Measures) -> float:
    """Return the inverse of the curvature along the gradient at w, which takes a pass."""
    size = float(np.linalg.norm(here.gradient))
    if not 0.0 < size < math.inf:
        return 1.0
    step = difference_width(w) / size * here.gradient
    curvature = curvature_between(evaluate(problem, w + step).gradient - here.gradient, step, w)
    return 1.0 / curvature if 0.0 < curvature < math.inf else 1.0


def _is_short_enough(here: Measures, there: Measures, step: Vector, step_size: float) -> bool:
    """Return whether the curvature along a step was at most the inverse of the step size."""
    if not (math.isfinite(there.objective) and np.isfinite(there.gradient).all()):
        return False
    rise = float((there.gradient - here.gradient) @ step)
    rounding = 1e-14 * float(np.linalg.norm(here.gradient) * np.linalg.norm(step))
    return rise <= float(step @ step) / step_size * (1.0 + 1e-9) + rounding


def _search(
    problem: AnySum, y: Vector, here: Measures, step_size: float, most: float = math.inf
) -> tuple[Vector, Measures, float, int]:
    """Return the iterate after a step from y to an objective of at most `most`, measures there, step size, and trials."""
    n_trials, is_good = 0, False
    while not is_good and n_trials < MOST_HALVINGS:
        step_size *= SHORTER if n_trials else 1.0
        n_trials += 1
        w = problem.term.prox_step(y, here.gradient, step_size)
        there = evaluate(problem, w)
        is_good = there.objective <= most and _is_short_enough(here, there, w - y, step_size)
    return w, there, step_size, n_trials


class _FullGradient(SumMethod):
    """What the two have alike: components play no role."""

    step_size: float | str

    wants_scaled_columns: ClassVar[bool] = True
    sees_sums_only: ClassVar[bool] = True

    handles: ClassVar[frozenset[str]] = SumMethod.handles | {"constraint", "bounded-l1", "groups", "parts"}
    default_sampling: ClassVar[str] = "cyclic"

    def _searches(self, problem: AnySum) -> bool:
        if isinstance(problem, FiniteSum):
            is_unknown = problem.smoothness is None and problem.mean_smoothness is None
        else:
            is_unknown = not math.isfinite(problem.loss.curvature_bound())
        return self.step_size == "auto" and (is_unknown or not problem.convex)


class FGState(NamedTuple):
    x: Vector  # iterate
    gradient: Vector  # of the smooth part at x, under backtracking; else empty
    objective: float  # F(x), under backtracking; else NaN
    step_size: float
    last_optimality: float  # at the iterate before; at x under backtracking
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class FG(_FullGradient):
    """The full (proximal) gradient method: w+ = prox(w - step grad f(w)).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 2 / (mu + L) where F is smooth and strongly convex, 1 / L else.

    References
    ----------
    .. [1] Y. Nesterov, "Introductory lectures on convex optimization", 2004, section 2.1.
    """

    step_size: StepSize = "auto"

    handles: ClassVar[frozenset[str]] = _FullGradient.handles | {"nonconvex", "nonconvex-loss"}

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> FGState:
        if self._searches(problem):
            here, n = evaluate(problem, x0), problem.n_components
            step_size = _first_step(problem, x0, here)
            return FGState(x0.copy(), here.gradient, here.objective, step_size, here.optimality, 2 * n, 0)
        n_gradients = 0
        if isinstance(self.step_size, str):
            (smoothness, _, n_gradients, _), mu = smoothness_at(problem, x0, Constant.MEAN), strong_convexity(problem)
            step_size = 2.0 / (mu + smoothness) if mu > 0.0 and problem.is_smooth else 1.0 / smoothness
        else:
            step_size = float(self.step_size)
        return FGState(x0.copy(), np.empty(0), math.nan, step_size, math.nan, n_gradients, 0)

    def run_pass(self, problem: AnySum, state: FGState, order: Indices) -> FGState:
        m = problem.n_components
        if self._searches(problem):
            here = Measures(state.objective, state.last_optimality, state.gradient)
            most = here.objective + 1e-14 * abs(here.objective)
            w, there, step_size, n_trials = _search(problem, state.x, here, state.step_size, most)
            measures = there.gradient, there.objective, LONGER * step_size, there.optimality
            return FGState(w, *measures, state.n_gradients + n_trials * m, state.n_hessians)
        here = evaluate(problem, state.x)
        w = problem.term.prox_step(state.x, here.gradient, state.step_size)
        return state._replace(x=w, last_optimality=here.optimality, n_gradients=state.n_gradients + m)

    def exact_measures(self, problem: AnySum, state: FGState) -> Measures | None:
        """Return what a line search knows of its iterate."""
        if not self._searches(problem):
            return None
        return Measures(state.objective, state.last_optimality, state.gradient)


class AFGState(NamedTuple):
    x: Vector  # iterate
    previous: Vector  # the iterate before
    t: float  # of Nesterov's sequence
    step_size: float
    last_optimality: float  # at the last extrapolated point
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class AFG(_FullGradient):
    """Nesterov's accelerated (proximal) gradient method.

    y = w + momentum (w - w_previous), w+ = prox(y - step grad f(y))

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 1 / L.
    momentum : float in [0, 1) or "auto"
        "auto" is Nesterov's sequence below (1 - sqrt(mu step)) / (1 + sqrt(mu step)), with gradient restart.

    References
    ----------
    .. [1] Y. Nesterov, "Introductory lectures on convex optimization", 2004, section 2.2.
    """

    step_size: StepSize = "auto"
    momentum: Fraction = "auto"

    slows_down: ClassVar[bool] = True  # its first digits come soon: see `finitesum.running.handover`

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> AFGState:
        n_gradients = 0
        if self._searches(problem):
            step_size, n_gradients = _first_step(problem, x0, evaluate(problem, x0)), 2 * problem.n_components
        elif isinstance(self.step_size, str):
            smoothness, _, n_gradients, _ = smoothness_at(problem, x0, Constant.MEAN)
            step_size = 1.0 / smoothness
        else:
            step_size = float(self.step_size)
        return AFGState(x0.copy(), x0.copy(), 1.0, step_size, math.nan, n_gradients, 0)

    def run_pass(self, problem: AnySum, state: AFGState, order: Indices) -> AFGState:
        t, restarts = state.t, isinstance(self.momentum, str)
        if isinstance(self.momentum, str):
            t = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            momentum = min((state.t - 1.0) / t, momentum_limit(strong_convexity(problem), state.step_size))
        else:
            momentum = self.momentum
        y = state.x + momentum * (state.x - state.previous)
        here = evaluate(problem, y)
        step_size, n_trials = state.step_size, 0
        if self._searches(problem):
            if not math.isfinite(here.objective):  # the extrapolated point is too far out
                y, t, n_trials = state.x, 1.0, 1
                here = evaluate(problem, y)
            w, _, step_size, n_of_search = _search(problem, y, here, step_size)
            n_trials += n_of_search
        else:
            w = problem.term.prox_step(y, here.gradient, step_size)
        previous = state.x
        if restarts and np.dot(y - w, w - state.x) > 0.0:
            t, previous = 1.0, w
        n_gradients = state.n_gradients + (1 + n_trials) * problem.n_components
        return AFGState(w, previous, t, step_size, here.optimality, n_gradients, state.n_hessians)
