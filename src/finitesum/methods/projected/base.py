"""What the projected methods have in common: states, passes, the automatic step size, and checks of schedules."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from finitesum.constraints.flats import HalfSpace, Simplex
from finitesum.core.arrays import Indices, Vector
from finitesum.methods.base import Auto, check_choice, check_positive
from finitesum.methods.projected.passes import ProjectedState, advanced, feasible, start_state
from finitesum.methods.projected.step_sizes import Scales, scales_at
from finitesum.methods.projected.steps import AVERAGED, CONSTANT, DISPLACED, PLAIN, SCHEDULES, VARYING, Rule
from finitesum.problems.rows import CSRRows

#: CSR rows with more columns are treated in the averaging form, which alone has a lazy form.
WIDE = 5000

#: The small number in the metric, where nothing else is asked for.
DELTA = 1e-8


class ProjectedMethod(ABC):
    """What all projected methods do alike; a method adds its rule and the step size that its bound likes best."""

    handles: ClassVar[frozenset[str]] = frozenset({"constraint", "nonsmooth", "callables"})
    default_sampling: ClassVar[str] = "with-replacement"
    state_type: ClassVar[type[ProjectedState]] = ProjectedState
    patience: ClassVar[None] = None

    @abstractmethod
    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes on a problem."""

    @abstractmethod
    def auto_step_size(self, scales: Scales) -> float:
        """Return the step size for "auto"."""

    def init(self, problem: Any, x0: Vector, tol: float = 0.0) -> ProjectedState:
        """Return the state before the first step."""
        rule, x = self.rule(problem), feasible(problem, x0)
        step_size, n_gradients = getattr(self, "step_size", "auto"), 0
        if step_size == "auto":
            scales = scales_at(problem, x)
            step_size, n_gradients = self.auto_step_size(scales), scales.n_gradients
            if rule.schedule == CONSTANT and rule.metric == PLAIN:  # as if the run were one pass long
                step_size /= math.sqrt(problem.n_components)
        n_passes = getattr(self, "horizon", None)
        horizon = 0 if n_passes is None else math.ceil(n_passes * problem.n_components)
        return start_state(rule, x, float(step_size), horizon, n_gradients)

    def run_pass(self, problem: Any, state: ProjectedState, order: Indices) -> ProjectedState:
        """Return the state after a step for each component of `order`."""
        return advanced(problem, self.rule(problem), state, order)

    def estimate(self, problem: Any, state: ProjectedState) -> float:
        """Return NaN: a stochastic subgradient tells nothing of the optimality."""
        return math.nan

    def default_batch_size(self, problem: Any) -> int:
        """Return 1: a step for each row."""
        return 1


def check_schedule(schedule: str, horizon: float | None) -> None:
    """Raise unless a schedule is known and has the horizon it needs, and no other."""
    check_choice("schedule", schedule, tuple(SCHEDULES))
    needs = schedule in ("horizon", "linear")
    if needs and horizon is None:
        raise ValueError(f'schedule="{schedule}" needs horizon, the number of passes that the run will have.')
    if horizon is not None:
        if not needs:
            raise ValueError(f'horizon goes with schedule="horizon" or "linear", got schedule="{schedule}".')
        check_positive("horizon", horizon, "It is the number of passes that the run will have.")


def check_momentum(momentum: float | str) -> None:
    """Raise unless a momentum is "varying" or a number in [0, 1)."""
    if isinstance(momentum, str):
        check_choice("momentum", momentum, ("varying",))
    elif not 0.0 <= momentum < 1.0:
        raise ValueError(f'momentum must be "varying", for t/(t+2), or lie in [0, 1), got {momentum}.')


def momentum_number(momentum: float | str) -> float:
    """Return what stands for a momentum in a rule."""
    return VARYING if isinstance(momentum, str) else float(momentum)


def chosen_form(form: str, momentum: float | str, problem: Any) -> int:
    """Return the form of a heavy ball on a problem: "auto" averages on wide sparse rows."""
    if form == "auto":
        rows = getattr(problem, "rows", None)
        wide = isinstance(rows, CSRRows) and rows.n_columns > WIDE
        return AVERAGED if wide and isinstance(momentum, str) else DISPLACED
    return AVERAGED if form == "averaging" else DISPLACED


def check_delta(delta: float | Auto) -> None:
    """Raise unless a delta is "auto" or a number >= 0."""
    if isinstance(delta, str):
        check_choice("delta", delta, ("auto",))
    elif not 0.0 <= delta < math.inf:
        raise ValueError(f'delta must be "auto" or a number >= 0, got {delta}.')


def chosen_delta(delta: float | Auto, problem: Any) -> float:
    """Return delta, or 1e-8 for "auto".

    Raises
    ------
    ValueError
        The set is a simplex or a half-space, where it must be given: coordinates without subgradients would otherwise
        take the whole of a projection's correction.
    """
    if not isinstance(delta, str):
        return float(delta)
    if type(problem.constraint) in (Simplex, HalfSpace):
        raise ValueError(
            f"delta must be given on a {type(problem.constraint).__name__}: the projection moves a coordinate by the "
            "inverse of its metric. Take about a thousandth of a typical entry of a subgradient."
        )
    return DELTA
