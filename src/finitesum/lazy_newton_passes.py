"""Passes of lazy Newton: growing samples, then steps over all rows, with the Hessian refreshed where that is worth it.

Why it is done so stands at the head of `finitesum.methods.lazy_newton`.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from finitesum.arrays import Indices, Vector
from finitesum.growing_sample import FIRST_ROWS, Look, Sample, look_at_more, next_size, permutation, sample_of
from finitesum.lazy_curvature import CAUTION, LazyCurvature, moved_share, no_curvature, refreshed, sample_curvature
from finitesum.lazy_newton_steps import LazyNewtonState, refactored, stepped, way_of
from finitesum.measures import surrogate_optimality
from finitesum.prices import hessian_sample, is_sample_too_small, prices_of
from finitesum.problem import Problem
from finitesum.secants import no_secants
from finitesum.threads import limited_blas

#: Newton steps on one sample, at most.
MOST_STEPS = 25

#: Columns of sparse rows up to which factors are not worth several threads.
SMALL = 1000

#: What a good step leaves of the gradient, at most.
GOOD = 0.4

#: Beyond so many times what a step left, curvatures that moved are to blame for it, and not the sample's size.
BLAME = 2.0

#: The least pivot, as a share of the diagonal, with which a Hessian is summed in single precision.
LEAST_PIVOT = 1e-2


class Settings(NamedTuple):
    """How passes are run."""

    target: float  # the optimality that the choice of what to refresh saves for
    hessian_rows: int | Literal["auto"] = "auto"  # that the Hessian is summed over
    first_rows: int | Literal["auto"] = "auto"  # of the first sample
    n_threads: int = 1


def first_state(problem: Problem, x0: Vector) -> LazyNewtonState:
    """Return the state before the first row is read."""
    dim = problem.dim
    curvatures = np.zeros(problem.n_rows, dtype=np.float32)
    return LazyNewtonState(
        x0.copy(),
        np.zeros(dim),
        curvatures,
        no_curvature(problem),
        np.zeros((0, 0)),
        no_secants(dim),
        0.0,
        math.nan,
        0,
        1,
        0.0,
        0.0,
        0,
        math.nan,
        0,
        0.0,
    )


def state_at(problem: Problem, x: Vector, seen: Look, order: Indices, settings: Settings) -> LazyNewtonState:
    """Return the state at x after a pass over all rows that saw this, without the growing samples."""
    order = permutation(order, problem.n_components)
    state = first_state(problem, x)
    return state._replace(
        gradient=seen.gradient,
        curvatures=seen.curvatures,
        curvature=_joined(problem, state.curvature, order, settings),
        squares=seen.squares,
        loss=seen.loss,
        n_sampled=problem.n_components,
        optimality=surrogate_optimality(problem, x, seen.gradient),
    )


def one_pass(problem: Problem, state: LazyNewtonState, order: Indices, settings: Settings) -> LazyNewtonState:
    """Return the state after one step over all rows; at first, after the growing samples."""
    order = permutation(order, problem.n_components)
    is_small = problem.rows.is_sparse() and problem.dim <= SMALL
    with (
        np.errstate(all="ignore"),
        limited_blas(1 if is_small else None),
    ):  # a step that is too long is seen by its slope
        while state.n_sampled < problem.n_components:
            state = _on_sample(problem, state, order, settings)
            if state.n_sampled == problem.n_components:
                return state
        sample = sample_of(problem, order)
        return stepped(problem, _prepared(problem, state, sample, order, settings), sample, settings.n_threads)


def _on_sample(problem: Problem, state: LazyNewtonState, order: Indices, settings: Settings) -> LazyNewtonState:
    """Return the state with the sample grown, and minimised on it to its own accuracy unless it is complete."""
    state, sample = _grown(problem, state, order, settings)
    if sample.is_complete(problem):
        return state
    n_rows = sample.n_rows(problem)
    for _ in range(MOST_STEPS):
        state = _prepared(problem, state, sample, order, settings)
        way = way_of(problem, state, sample)
        curvature = sample_curvature(problem, state.curvatures, sample.components)
        noise = problem.dim / n_rows * state.squares / max(curvature, 1e-300)
        if not -(state.gradient @ way) > 0.25 * noise:
            break
        state = stepped(problem, state, sample, settings.n_threads, way)
    return state


def _grown(
    problem: Problem, state: LazyNewtonState, order: Indices, settings: Settings
) -> tuple[LazyNewtonState, Sample]:
    """Return the state on the next larger sample, with the gradient there: only new rows are read."""
    first = max(FIRST_ROWS, 8 * problem.dim) if settings.first_rows == "auto" else int(settings.first_rows)
    n_next = next_size(problem, state.n_sampled, first)
    before, sample = sample_of(problem, order[: state.n_sampled]), sample_of(problem, order[:n_next])
    known = Look(state.gradient, state.curvatures, state.squares, state.loss)
    seen = look_at_more(problem, before, sample, state.x, known, doubt=1, n_threads=settings.n_threads)
    state = state._replace(
        gradient=seen.gradient,
        curvatures=seen.curvatures,
        curvature=_joined(problem, state.curvature, order[:n_next], settings),
        secants=no_secants(problem.dim),
        remainder=math.nan,
        n_idle=0,
        doubt=max(state.doubt, 1),
        squares=seen.squares,
        loss=seen.loss,
        n_sampled=n_next,
        optimality=surrogate_optimality(problem, state.x, seen.gradient),
        n_gradients=state.n_gradients + n_next - state.n_sampled,
    )
    return state, sample


def _joined(problem: Problem, memory: LazyCurvature, order: Indices, settings: Settings) -> LazyCurvature:
    """Return the memory with the components that join the Hessian's sample."""
    rows = (
        hessian_sample(problem, prices_of(problem)) if settings.hessian_rows == "auto" else int(settings.hessian_rows)
    )
    if not problem.is_smooth:
        rows = problem.n_rows  # no secants make up for a sample's error
    return _with_members(problem, memory, order, -(-rows // (problem.batch_size or 1)))


def _enlarged(
    problem: Problem, state: LazyNewtonState, order: Indices, digits: float, settings: Settings
) -> LazyNewtonState:
    """Return the state with a larger sample of the Hessian, where the last step shows that it pays."""
    members = state.curvature.members
    if members.size == order.size or not state.remainder > 0.0:
        return state
    batch = problem.batch_size or 1
    if not is_sample_too_small(problem.n_rows, members.size * batch, prices_of(problem), state.remainder, digits):
        return state
    if CAUTION * moved_share(problem, state.curvature, state.curvatures) > BLAME * state.remainder:
        return state  # what the step left is not the sample's fault
    return state._replace(curvature=_with_members(problem, state.curvature, order, 4 * members.size))


def _prepared(
    problem: Problem, state: LazyNewtonState, sample: Sample, order: Indices, settings: Settings
) -> LazyNewtonState:
    """Return the state with the Hessian refreshed where that is worth it."""
    digits = 1.0
    if sample.is_complete(problem):
        digits = min(max(math.log10(max(state.optimality, 1e-300) / settings.target), 1.0), 12.0)
        if settings.hessian_rows == "auto":
            state = _enlarged(problem, state, order, digits, settings)
    curvature, n_replaced = refreshed(
        problem,
        state.curvature,
        state.curvatures,
        prices_of(problem),
        n_seen=sample.n_rows(problem),
        digits=digits,
        n_idle=state.n_idle,
        is_good=state.remainder <= GOOD,
        n_threads=settings.n_threads,
        in_short=curvature_is_rough(problem, state),
    )
    if n_replaced == 0 and state.factor.size > 0:
        return state
    state = state._replace(curvature=curvature, n_hessians=state.n_hessians + n_replaced / (problem.batch_size or 1))
    if curvature.members.size == sample.components.size:
        state = state._replace(secants=no_secants(problem.dim))
    return refactored(problem, state, sample, state.shift)


def curvature_is_rough(problem: Problem, state: LazyNewtonState) -> bool:
    """Tell whether the Hessian is summed over a part of the rows and so well conditioned that half the digits do."""
    n_members = state.curvature.members.size
    if n_members == problem.n_components or state.factor.size == 0:
        return False
    diagonal = np.diagonal(state.curvature.sums) / (state.curvature.share or 1.0)
    pivots = np.diagonal(state.factor) ** 2
    return bool((pivots > LEAST_PIVOT * diagonal).all())


def _with_members(problem: Problem, memory: LazyCurvature, order: Indices, n_members: int) -> LazyCurvature:
    """Return the memory with a sample of so many components: those it has, and the first others of the order."""
    if n_members >= order.size:
        chosen = np.sort(order)
    else:
        others = order[~np.isin(order, memory.members)]
        chosen = np.sort(np.concatenate([memory.members, others[: max(0, n_members - memory.members.size)]]))
    return memory._replace(members=chosen, share=sample_of(problem, chosen).share)
