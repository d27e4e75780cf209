"""CIAG and A-CIAG: incremental steps on a curvature-aided surrogate of the full gradient.

A visit of component j at y = x + extrapolation (x - x_previous) moves the component's Taylor model to y and takes one
step on the gradient of the mean model [1, Algorithm 1]:

    y <- x + extrapolation (x - x_previous)            (14), (20a);  extrapolation 0 is CIAG
    (b, H) <- (b, H) with component j anchored at y     (15), (16);   see `finitesum.surrogate`
    x_previous <- x
    x <- prox(y - step (b + H y))                       (17), (20b)

Memory 3n + d^2, work O(d^2) a visit. Deviations from the paper: F is the mean, not the sum, so that L, mu and the step are
those of the mean; H starts as l2 I rather than 0 (the two agree after one pass); the prox or projection is
ours (the paper has the l2 penalty only, and names the rest as future work).

Step "auto" needs no constant at all: see `finitesum.surrogate_control`. The theory's constants are had by
``step_size="theory"``: CIAG 2 / (mu + L), A-CIAG 1 / (2 L) with the extrapolation of eq. 31. b and H are summed afresh from
the anchors every 50 passes, against rounding errors.

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

from finitesum.arrays import Indices, Vector
from finitesum.jit import kernel
from finitesum.measures import prox_in_place, surrogate_optimality
from finitesum.methods.base import Auto, Card, check_choice, check_fraction, check_positive
from finitesum.problem import LinearSum, Problem
from finitesum.smoothness import full_smoothness, momentum_limit, strong_convexity
from finitesum.surrogate import (
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
from finitesum.surrogate_control import Control, controlled_pass, free_certificate, new_control


class CIAGState(NamedTuple):
    x: Vector  # iterate
    previous: Vector  # the iterate before
    surrogate: Surrogate
    control: Control  # plays no role with a constant step
    step_size: float  # NaN under control
    extrapolation: float
    n_gradients: int
    n_hessians: int


#: Passes after which b and H are summed afresh.
REBUILD_EVERY = 50


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
) -> int:
    y = np.zeros(pending.vectors.shape[1])
    gradient = np.zeros(y.size)
    n_visits = 0
    for component in order:
        for j in range(x.size):
            y[j] = x[j] + extrapolation * (x[j] - previous[j])
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
    return n_visits


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
    initialisation : {"self", "full"}
        Whether components join at their first visit, or all at the start, by one full pass.
    model_steps : int >= 1 or "auto"
        Steps on the model between two visits, under step "auto"; 1 is the paper's method.
        "auto" is 1 for CIAG and ceil(8 sqrt(kappa) / m) for A-CIAG.

    Raises
    ------
    ValueError
        A parameter is out of range, or two contradict each other.

    Examples
    --------
    On a quadratic the surrogate is exact after one pass, and CIAG is the full gradient method:

    >>> from finitesum.problem import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared")
    >>> method = CIAG(step_size=1.0, initialisation="full")
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x
    array([1.])

    References
    ----------
    .. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
       curvature information", Comput. Optim. Appl. 76 (2020).
    """

    step_size: float | Literal["auto", "theory"] = "auto"
    extrapolation: float | Auto = 0.0
    initialisation: str = "self"
    model_steps: int | Auto = "auto"

    name: ClassVar[str] = "ciag"
    state_type: ClassVar[type[CIAGState]] = CIAGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint"})
    default_sampling: ClassVar[str] = "shuffled-once"
    card: ClassVar[Card] = Card(
        "curvature-aided incremental aggregated gradient",
        "m + d^2",
        "d^2",
        "kappa log 1/eps for small eps",
        "two derivatives",
        "Wai et al. 2020",
    )

    def __post_init__(self) -> None:
        if self.step_size != "theory":
            check_positive("step_size", self.step_size)
        check_fraction("extrapolation", self.extrapolation)
        check_choice("initialisation", self.initialisation, ("self", "full"))
        if self.model_steps != "auto" and not (self.model_steps == int(self.model_steps) and self.model_steps >= 1):
            raise ValueError(f'model_steps must be "auto" or a whole number >= 1, got {self.model_steps}.')
        if self.step_size == "auto" and self.extrapolation not in ("auto", 0.0):
            raise ValueError(
                f"extrapolation {self.extrapolation} goes with a constant step: give step_size, or leave extrapolation "
                'at 0 or "auto".'
            )

    def init(self, problem: Problem, x0: Vector) -> CIAGState:
        """Return the state before the first visit."""
        full = self.initialisation == "full"
        surrogate = full_surrogate(problem, x0) if full else empty_surrogate(problem)
        n_visits = problem.n_components if full else 0
        step_size, extrapolation = self._constants(problem)
        control = new_control(problem, x0)
        return CIAGState(x0.copy(), x0.copy(), surrogate, control, step_size, extrapolation, n_visits, n_visits)

    def _constants(self, problem: Problem) -> tuple[float, float]:
        """Return the constant step and extrapolation, NaN under control."""
        if self.step_size == "auto":
            return math.nan, math.nan
        mu = strong_convexity(problem)
        if self.step_size != "theory":
            step_size = float(self.step_size)
        elif self.extrapolation == 0.0:
            step_size = 2.0 / (mu + full_smoothness(problem))
        else:
            step_size = 0.5 / full_smoothness(problem)
        if self.extrapolation == "auto":
            return step_size, momentum_limit(mu, step_size)
        return step_size, float(self.extrapolation)

    def run_pass(self, problem: Problem, state: CIAGState, order: Indices) -> CIAGState:
        """Return the state after the visits of `order`."""
        x, previous, surrogate = state.x.copy(), state.previous.copy(), copy_surrogate(state.surrogate)
        control = state.control
        if self.step_size == "auto":
            accelerated = self.extrapolation == "auto"
            model_steps = (0 if accelerated else 1) if self.model_steps == "auto" else int(self.model_steps)
            control, n_visits = controlled_pass(
                problem, order, x, previous, surrogate, control, accelerated=accelerated, model_steps=model_steps
            )
        else:
            pending = new_pending(problem)
            n_visits = _visits(
                problem.view, order, x, previous, surrogate, pending, state.step_size, state.extrapolation
            )
        n_gradients = state.n_gradients + n_visits
        if n_gradients // problem.n_components % REBUILD_EVERY == REBUILD_EVERY - 1:
            surrogate = rebuilt(problem, surrogate)
        return state._replace(
            x=x,
            previous=previous,
            surrogate=surrogate,
            control=control,
            n_gradients=n_gradients,
            n_hessians=state.n_hessians + n_visits,
        )

    def estimate(self, problem: Problem, state: CIAGState) -> float:
        """Return what surrogate and free error signal say of the optimality, NaN before the first pass is over."""
        if state.n_gradients < problem.n_components:
            return math.nan
        error = free_certificate(problem, state.control) if self.step_size == "auto" else 0.0
        return error + surrogate_optimality(problem, state.x, model_gradient(state.surrogate, state.x))

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1 without acceleration, which large components slow down; with it, what balances data and product."""
        return 1 if self.extrapolation == 0.0 else balanced_batch_size(problem)


@dataclass(frozen=True)
class ACIAG(CIAG):
    """A-CIAG: CIAG with Nesterov's extrapolation; see `CIAG` for the recursion and the parameters.

    Examples
    --------
    >>> ACIAG().extrapolation
    'auto'
    """

    extrapolation: float | Auto = "auto"

    name: ClassVar[str] = "a-ciag"
    card: ClassVar[Card] = Card(
        "accelerated CIAG",
        "m + d^2",
        "d^2",
        "sqrt(kappa) log 1/eps for small eps",
        "two derivatives",
        "Wai et al. 2020",
    )
