"""What the projected methods have in common: states, and the three loops that run a pass.

* `steps.projected_visits`: compiled, O(d) a step, for every linear model;
* `sparse_steps.deferred_visits`: compiled, O(nnz log d) a step, for sparse rows, where the rule and the set allow it and
  the rows are sparse enough to gain by it: the same iterates within rounding;
* a Python loop around `steps.projected_step`, for components given as callables.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finitesum.constraints import Unconstrained
from finitesum.core.arrays import Indices, Vector
from finitesum.methods.base import SumMethod
from finitesum.methods.projected import steps
from finitesum.methods.projected.options import StepSize, check_schedule, described
from finitesum.methods.projected.rules import rule_of
from finitesum.methods.projected.sparse_memory import Domain
from finitesum.methods.projected.sparse_steps import deferred_visits, domain_for
from finitesum.methods.projected.step_sizes import Scales, scales_at
from finitesum.methods.projected.steps import Memory, Rule, Scratch
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows

#: Projections are deferred where a row's stored entries, this many times, are still fewer than the coordinates.
DEFERRED_OVERHEAD = 8

#: The memory of deferred projections is rebuilt after this many steps, or d if that is more.
STEPS_TO_REBUILD = 10_000

AnyProblem = Problem | SubgradientProblem


class ProjectedState(NamedTuple):
    """What a projected method remembers."""

    x: Vector  # the output: last iterate, or an average of them
    memory: Memory
    n_steps: int
    step_size: float  # alpha
    horizon: int  # T in steps; 0 where the schedule needs none
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class ProjectedMethod(SumMethod, ABC):
    """A line of the table of rules: a subclass has options, and the step size that its bound is smallest for.

    The annotations of the options say how they are checked and described.
    """

    step_size: StepSize = "auto"

    name: ClassVar[str]
    handles: ClassVar[frozenset[str]] = frozenset({"constraint", "nonsmooth", "callables"})
    default_sampling: ClassVar[str] = "with-replacement"
    patience: ClassVar[None] = None

    def __init_subclass__(cls) -> None:
        if cls.__doc__:
            cls.__doc__ = described(cls, (cls.auto_step_size.__doc__ or "").removeprefix("Return "))
        super().__init_subclass__()

    def __post_init__(self) -> None:
        super().__post_init__()
        if "horizon" in vars(self):
            check_schedule(self.schedule, self.horizon)  # type: ignore[attr-defined]

    @abstractmethod
    def auto_step_size(self, scales: Scales) -> float:
        """Return the step size for "auto"."""

    def rule(self, problem: Any) -> Rule:
        """Return what kind of steps the method takes on a problem."""
        return rule_of(self, problem)

    def init(self, problem: Any, x0: Vector, tol: float = 0.0) -> ProjectedState:
        """Return the state before the first step: w_0 = w_1 = z_1, the point of the set nearest to x0."""
        rule, w = self.rule(problem), problem.term.project(x0.copy())
        step_size, n_gradients = self.step_size, 0
        if isinstance(step_size, str):
            scales = scales_at(problem, w)
            step_size, n_gradients = self.auto_step_size(scales), scales.n_gradients
            if rule.schedule == steps.CONSTANT and rule.metric == steps.PLAIN:  # as if the run were one pass long
                step_size /= math.sqrt(problem.n_components)
        n_passes = vars(self).get("horizon")
        horizon = 0 if n_passes is None else math.ceil(n_passes * problem.n_components)
        memory = start_memory(rule, w)
        return ProjectedState(_output(rule, memory), memory, 0, float(step_size), horizon, n_gradients, 0)

    def run_pass(self, problem: Any, state: ProjectedState, order: Indices) -> ProjectedState:
        """Return the state after a step for each component of `order`."""
        return advanced(problem, self.rule(problem), state, order)


def start_memory(rule: Rule, w: Vector) -> Memory:
    """Return the memory before the first step from w, which it takes over."""
    empty = np.zeros(0)
    has_companion = rule.form in (steps.AVERAGED, steps.EXTRAPOLATED) or rule.momentum != 0.0
    return Memory(
        iterate=w,
        companion=w.copy() if has_companion else empty,
        direction=empty if rule.direction == steps.GRADIENT else np.zeros(w.size),
        second=empty if rule.metric == steps.PLAIN else np.zeros(w.size),
        largest=np.zeros(w.size) if rule.metric == steps.LARGEST else empty,
        mean=empty if rule.output == steps.LAST else w.copy(),
        recent_mean=np.zeros(w.size) if rule.output == steps.SUFFIX else empty,
    )


def _output(rule: Rule, memory: Memory) -> Vector:
    return memory.iterate if rule.output == steps.LAST else memory.mean


def advanced(
    problem: AnyProblem, rule: Rule, state: ProjectedState, order: Indices, *, is_deferred: bool | None = None
) -> ProjectedState:
    """Return the state after a step for each component of `order`.

    `is_deferred` says whether projections are, which rule, set and rows must allow; None chooses the faster loop.
    """
    memory = Memory(*(vector.copy() for vector in state.memory))
    rule = rule._replace(step_size=state.step_size, horizon=state.horizon)
    if isinstance(problem, SubgradientProblem):
        n_steps = _python_visits(problem, rule, memory, state.n_steps, order)
    else:
        domain, rows = domain_for(problem, rule), problem.rows
        if is_deferred and domain is None:
            raise ValueError("projections cannot be deferred for this rule, set or rows. Leave is_deferred out.")
        if is_deferred is None and isinstance(rows, CSRRows):
            is_deferred = DEFERRED_OVERHEAD * rows.values.size < rows.n_columns * problem.n_components
        if domain is not None and is_deferred:
            n_steps = _deferred_visits(problem, rule, domain, memory, state.n_steps, order)
        else:
            n_steps = steps.projected_visits(problem.view, order, rule, memory, state.n_steps)
    return state._replace(
        x=_output(rule, memory), memory=memory, n_steps=state.n_steps + n_steps, n_gradients=state.n_gradients + n_steps
    )


def _deferred_visits(problem: Problem, rule: Rule, domain: Domain, memory: Memory, n_steps: int, order: Indices) -> int:
    view = problem.view._replace(projection=Unconstrained().compiled)  # the domain has the set: one kernel serves all
    stride = max(STEPS_TO_REBUILD, problem.dim)
    done = 0
    while done < order.size:
        done += deferred_visits(view, order[done : done + stride], rule, domain, memory, n_steps + done)
        if not np.isfinite(memory.iterate).all():
            break
    return done


def _python_visits(problem: SubgradientProblem, rule: Rule, memory: Memory, n_steps: int, order: Indices) -> int:
    projection = problem.term.constraint.compiled
    point = memory.iterate if rule.form != steps.EXTRAPOLATED else np.zeros(problem.dim)
    metric = np.ones(problem.dim)
    t = n_steps
    for component in order:
        t += 1
        if rule.form == steps.EXTRAPOLATED:
            steps.extrapolated_point(rule, memory, t, point)
        scratch = Scratch(problem.component_subgradient(point, component), metric, point)
        steps.projected_step(rule, projection, problem.dim, memory, scratch, t)
        if not math.isfinite(memory.iterate[0]):
            break
    return t - n_steps
