"""FG and AFG: the full gradient method and Nesterov's acceleration of it.

    FG    x+ = prox(x - step grad f(x))
    AFG   y = x + momentum (x - x_previous),   x+ = prox(y - step grad f(y))

One step a pass, O(nnz) work, O(d) memory. With "auto": FG steps 2/(mu + L) on smooth strongly convex problems and 1/L
else; AFG steps 1/L and its momentum follows Nesterov's sequence (t - 1)/t+ below (1 - sqrt(mu step))/(1 + sqrt(mu step)),
and starts anew when the step and the gradient disagree (gradient restart). A number for `momentum` is used as it is.

References
----------
.. [1] Y. Nesterov, "Introductory lectures on convex optimization", 2004, section 2.2.
.. [2] B. O'Donoghue, E. Candes, "Adaptive restart for accelerated gradient schemes", Found. Comput. Math. 15 (2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.smoothness import counted_smoothness, momentum_limit, strong_convexity
from finitesum.methods.base import Auto, Card, check_fraction, check_positive, with_general_form
from finitesum.methods.general.steps import AFGForm, FGForm
from finitesum.problems.linear import Problem


class FGState(NamedTuple):
    x: Vector  # iterate
    step_size: float
    last_optimality: float  # at the iterate before
    n_gradients: int
    n_hessians: int


@with_general_form
@dataclass(frozen=True)
class FG:
    """The full (proximal) gradient method: x+ = prox(x - step grad f(x)).

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 2 / (mu + L) where F is smooth and strongly convex, 1 / L else.

    Raises
    ------
    ValueError
        step_size is not positive.

    Examples
    --------
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared")
    >>> method = FG(step_size=1.0)
    >>> state = method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2))
    >>> state.x, state.n_gradients
    (array([1.]), 2)

    References
    ----------
    .. [1] Y. Nesterov, "Introductory lectures on convex optimization", 2004, section 2.1.
    """

    step_size: float | Auto = "auto"

    name: ClassVar[str] = "fg"
    state_type: ClassVar[type[FGState]] = FGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint", "prox", "groups", "nonconvex"})
    default_sampling: ClassVar[str] = "cyclic"
    card: ClassVar[Card] = Card(
        "full gradient",
        "d",
        "d",
        "m kappa log 1/eps, worst case",
        "smooth, strongly convex",
        "Nesterov 2004",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def general(self) -> FGForm:
        """Return the method for components that are objects or callables."""
        return FGForm(self.step_size)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> FGState:
        """Return the state before the first step."""
        step_size, n_gradients = self.step_size, 0
        if step_size == "auto":
            (smoothness, n_gradients), mu = counted_smoothness(problem), strong_convexity(problem)
            step_size = 2.0 / (mu + smoothness) if mu > 0.0 and problem.is_smooth else 1.0 / smoothness
        return FGState(x0.copy(), float(step_size), math.nan, n_gradients, 0)

    def run_pass(self, problem: Problem, state: FGState, order: Indices) -> FGState:
        """Return the state after one step."""
        measures = evaluate(problem, state.x)
        x = problem.term.prox_step(state.x, measures.gradient, state.step_size)
        return state._replace(
            x=x, last_optimality=measures.optimality, n_gradients=state.n_gradients + problem.n_components
        )

    def estimate(self, problem: Problem, state: FGState) -> float:
        """Return the optimality of the iterate before the last step."""
        return state.last_optimality

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1: components play no role."""
        return 1


class AFGState(NamedTuple):
    x: Vector  # iterate
    previous: Vector  # the iterate before
    t: float  # of Nesterov's sequence
    step_size: float
    momentum_limit: float
    last_optimality: float  # at the last extrapolated point
    n_gradients: int
    n_hessians: int


@with_general_form
@dataclass(frozen=True)
class AFG:
    """Nesterov's accelerated (proximal) gradient method.

    y = x + momentum (x - x_previous), x+ = prox(y - step grad f(y))

    Parameters
    ----------
    step_size : float > 0 or "auto"
        "auto" is 1 / L.
    momentum : float in [0, 1) or "auto"
        "auto" is Nesterov's sequence below (1 - sqrt(mu step)) / (1 + sqrt(mu step)), with gradient restart.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> AFG(momentum=1.5)
    Traceback (most recent call last):
    ...
    ValueError: momentum must lie in [0, 1), got 1.5.

    References
    ----------
    .. [1] Y. Nesterov, "Introductory lectures on convex optimization", 2004, section 2.2.
    """

    step_size: float | Auto = "auto"
    momentum: float | Auto = "auto"

    name: ClassVar[str] = "afg"
    state_type: ClassVar[type[AFGState]] = AFGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint", "prox", "groups"})
    default_sampling: ClassVar[str] = "cyclic"
    card: ClassVar[Card] = Card(
        "accelerated full gradient",
        "d",
        "d",
        "m sqrt(kappa) log 1/eps, worst case",
        "smooth, strongly convex",
        "Nesterov 2004",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_fraction("momentum", self.momentum)

    def general(self) -> AFGForm:
        """Return the method for components that are objects or callables."""
        return AFGForm(self.step_size, self.momentum)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> AFGState:
        """Return the state before the first step."""
        step_size, n_gradients = self.step_size, 0
        if step_size == "auto":
            smoothness, n_gradients = counted_smoothness(problem)
            step_size = 1.0 / smoothness
        if self.momentum == "auto":
            limit = momentum_limit(strong_convexity(problem), float(step_size))
        else:
            limit = float(self.momentum)
        return AFGState(x0.copy(), x0.copy(), 1.0, float(step_size), limit, math.nan, n_gradients, 0)

    def run_pass(self, problem: Problem, state: AFGState, order: Indices) -> AFGState:
        """Return the state after one step."""
        t, momentum = state.t, state.momentum_limit
        if self.momentum == "auto":
            t = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.t**2))
            momentum = min((state.t - 1.0) / t, momentum)
        y = state.x + momentum * (state.x - state.previous)
        measures = evaluate(problem, y)
        x = problem.term.prox_step(y, measures.gradient, state.step_size)
        previous = state.x
        if self.momentum == "auto" and np.dot(y - x, x - state.x) > 0.0:
            t, previous = 1.0, x
        return state._replace(
            x=x,
            previous=previous,
            t=t,
            last_optimality=measures.optimality,
            n_gradients=state.n_gradients + problem.n_components,
        )

    def estimate(self, problem: Problem, state: AFGState) -> float:
        """Return the optimality of the last extrapolated point."""
        return state.last_optimality

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1: components play no role."""
        return 1
