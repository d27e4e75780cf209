"""States and passes of the projected methods: which of the three loops runs a pass, and with which step size.

* `projected_steps.projected_visits`: compiled, O(d) a step, for every linear model;
* `lazy_projection.lazy_visits`: compiled, O(nnz log d) a step, for sparse rows, where the rule and the set allow it and the
  rows are sparse enough to gain by it: the same iterates within rounding;
* a Python loop around `projected_steps.projected_step`, for components given as callables.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from finitesum.constraints.balls import L1Ball, L2Ball
from finitesum.constraints.base import Constraint
from finitesum.constraints.boxes import Box, LInfBall, NonNegative, Unconstrained
from finitesum.constraints.projections import BoxProjection, IntervalProjection
from finitesum.core.arrays import Indices, Vector
from finitesum.methods.projected.sparse_memory import FREE, INTERVALS, L1_BALL, L2_BALL, LazySet
from finitesum.methods.projected.sparse_steps import can_be_lazy, lazy_visits
from finitesum.methods.projected.steps import (
    AVERAGED,
    EXTRAPOLATED,
    GRADIENT,
    LARGEST,
    LAST,
    PLAIN,
    SUFFIX,
    Memory,
    Rule,
    Scratch,
    extrapolated_point,
    projected_step,
    projected_visits,
)
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows

#: The lazy loop is taken where a row's stored entries, this many times, are still fewer than the coordinates.
LAZY_OVERHEAD = 8

#: The heap form is rebuilt after so many steps, or d if that is more.
STEPS_TO_REBUILD = 10_000

AnyProblem = Problem | SubgradientProblem


class ProjectedState(NamedTuple):
    x: Vector  # the output: last iterate, or an average of them
    memory: Memory
    n_steps: int
    step_size: float  # alpha
    horizon: int  # T in steps; 0 where the schedule needs none
    n_gradients: int
    n_hessians: int


def start_state(rule: Rule, x: Vector, step_size: float, horizon: int = 0, n_gradients: int = 0) -> ProjectedState:
    """Return the state before the first step: w_0 = w_1 = z_1 = x, a point of the set, which the state takes over."""
    empty = np.zeros(0)
    has_companion = rule.form in (AVERAGED, EXTRAPOLATED) or rule.momentum != 0.0
    memory = Memory(
        iterate=x,
        companion=x.copy() if has_companion else empty,
        direction=empty if rule.direction == GRADIENT else np.zeros(x.size),
        second=empty if rule.metric == PLAIN else np.zeros(x.size),
        largest=np.zeros(x.size) if rule.metric == LARGEST else empty,
        mean=empty if rule.output == LAST else x.copy(),
        young_mean=np.zeros(x.size) if rule.output == SUFFIX else empty,
    )
    return ProjectedState(_output(rule, memory), memory, 0, step_size, horizon, n_gradients, 0)


def feasible(problem: AnyProblem, x0: Vector) -> Vector:
    """Return the point of the set nearest to x0, a new array; an intercept stays."""
    x = x0.copy()
    constraint = _constraint(problem)
    if not isinstance(constraint, Unconstrained):
        n = n_constrained(problem)
        x[:n] = constraint.project(x[:n])
    return x


def n_constrained(problem: AnyProblem) -> int:
    """Return how many coordinates, the first ones, the set is about."""
    return problem.rows.n_columns if isinstance(problem, Problem) else problem.dim


def _constraint(problem: AnyProblem) -> Constraint:
    assert problem.constraint is not None
    return problem.constraint


def _output(rule: Rule, memory: Memory) -> Vector:
    return memory.iterate if rule.output == LAST else memory.mean


def advanced(
    problem: AnyProblem, rule: Rule, state: ProjectedState, order: Indices, *, lazy: bool | None = None
) -> ProjectedState:
    """Return the state after a step for each component of `order`; `lazy` chooses the loop, None the faster one."""
    memory = Memory(*(vector.copy() for vector in state.memory))
    if isinstance(problem, SubgradientProblem):
        n_steps = _python_visits(problem, rule, memory, state, order)
    else:
        lazy_set = set_for_lazy_steps(problem, rule)
        if lazy if lazy is not None else lazy_set is not None and _is_worth_it(problem):
            assert lazy_set is not None
            n_steps = _lazy_visits(problem, rule, lazy_set, memory, state, order)
        else:
            n_steps = projected_visits(problem.view, order, rule, memory, state.step_size, state.horizon, state.n_steps)
    return state._replace(
        x=_output(rule, memory),
        memory=memory,
        n_steps=state.n_steps + n_steps,
        n_gradients=state.n_gradients + n_steps,
    )


def set_for_lazy_steps(problem: Problem, rule: Rule) -> LazySet | None:
    """Return the set as the lazy steps see it, or None where there is no lazy form."""
    if not isinstance(problem.rows, CSRRows) or problem.penalty.ridge() > 0.0:
        return None
    found = _lazy_set(problem.constraint, problem.rows.n_columns)
    return found if can_be_lazy(rule, found) else None


def _lazy_set(constraint: Constraint, dim: int) -> LazySet | None:
    empty = np.zeros(0)
    if isinstance(constraint, Unconstrained):
        return LazySet(FREE, 0.0, empty, empty)
    if isinstance(constraint, L1Ball) and constraint.weights is None:
        return LazySet(L1_BALL, constraint.radius, empty, empty)
    if isinstance(constraint, L2Ball):
        return LazySet(L2_BALL, constraint.radius, empty, empty)
    if isinstance(constraint, Box | LInfBall | NonNegative):
        intervals = constraint.compiled
        assert isinstance(intervals, IntervalProjection | BoxProjection)
        lower, upper = (np.broadcast_to(bound, dim).astype(np.float64) for bound in intervals)
        return LazySet(INTERVALS, 0.0, lower, upper)
    return None


def _is_worth_it(problem: Problem) -> bool:
    rows = problem.rows
    assert isinstance(rows, CSRRows)
    return LAZY_OVERHEAD * rows.values.size < rows.n_columns * problem.n_components


def _lazy_visits(
    problem: Problem, rule: Rule, lazy_set: LazySet, memory: Memory, state: ProjectedState, order: Indices
) -> int:
    stride = max(STEPS_TO_REBUILD, problem.dim)
    done = 0
    while done < order.size:
        piece = order[done : done + stride]
        before = state.n_steps + done
        done += lazy_visits(problem.view, piece, rule, lazy_set, memory, state.step_size, state.horizon, before)
        if not np.isfinite(memory.iterate).all():
            break
    return done


def _python_visits(
    problem: SubgradientProblem, rule: Rule, memory: Memory, state: ProjectedState, order: Indices
) -> int:
    dim = problem.dim
    projection = _constraint(problem).compiled
    point = memory.iterate if rule.form != EXTRAPOLATED else np.zeros(dim)
    metric = np.ones(dim)
    t = state.n_steps
    for component in order:
        t += 1
        if rule.form == EXTRAPOLATED:
            extrapolated_point(rule, memory, t, point)
        scratch = Scratch(problem.component_subgradient(point, component), metric, point)
        projected_step(projection, rule, memory, scratch, state.step_size, state.horizon, t)
        if not math.isfinite(memory.iterate[0]):
            break
    return t - state.n_steps
