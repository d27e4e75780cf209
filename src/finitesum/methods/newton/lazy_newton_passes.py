"""Passes of lazy Newton: growing samples, then steps over all rows, with the Hessian refreshed where that is worth it.

Why it is done so stands at the head of `finitesum.methods.newton.lazy_newton`.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.threads import limited_blas
from finitesum.evaluation.hessian import MOST_SHARED
from finitesum.evaluation.row_sums import Majorize
from finitesum.methods.cost_model import hessian_sample, is_sample_too_small, prices_of
from finitesum.methods.newton.lazy_newton_steps import LazyNewtonState, refactored, stepped, way_of
from finitesum.methods.newton.sampled_newton import LEAST_TOL
from finitesum.methods.newton.stale_hessian import (
    CAUTION,
    LazyCurvature,
    moved_share,
    no_curvature,
    refreshed,
    sample_curvature,
)
from finitesum.methods.newton.subsampling import (
    FIRST_ROWS,
    GROWTH,
    Look,
    Sample,
    look_at_more,
    next_size,
    others,
    permutation,
    sample_of,
)
from finitesum.methods.subproblems.lbfgs import no_secants
from finitesum.problems.linear import Problem

#: Newton steps on one sample, at most.
MOST_STEPS = 25

#: The share of all rows that the sample before all of them has, where the first one can be chosen for it.
LAST_SHARE = 0.36

#: Columns of sparse rows up to which factors are not worth several threads. With dense ones they are not where threads
#: share the rows out: the linear algebra library's would wait for the next factor at full speed.
SMALL = 1000

#: What a good step leaves of the gradient, at most.
GOOD = 0.4

#: Beyond so many times what a step left, curvatures that moved are to blame for it, and not the sample's size.
BLAME = 2.0

#: Beyond so many gradients of a sample, Hessians of rows that join it wait: a step more is cheaper.
DEAR = 4.0

#: The least columns of dense rows with which a Hessian is summed in single precision, and the least pivot, as a share of
#: the diagonal.
LEAST_COLUMNS, LEAST_PIVOT = 32, 1e-2

#: The share of what a Hessian's diagonal was, for pivots below which what was summed in single precision is summed again.
MOST_FALLEN = 1e-4

#: The largest sum is between this and its inverse, so that single precision has room.
LEAST_SUM = 1e-30


class Settings(NamedTuple):
    """How passes are run."""

    hessian_rows: int | Literal["auto"] = "auto"  # that the Hessian is summed over
    first_rows: int | Literal["auto"] = "auto"  # of the first sample
    n_threads: int = 1


def first_state(problem: Problem, x0: Vector, tol: float) -> LazyNewtonState:
    """Return the state before the first row is read."""
    dim = problem.dim
    curvatures = np.zeros(problem.n_rows, dtype=np.float32)
    return LazyNewtonState(
        x0.copy(),
        tol,
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


def state_at(
    problem: Problem, x: Vector, tol: float, seen: Look, order: Indices, settings: Settings
) -> LazyNewtonState:
    """Return the state at x after a pass over all rows that saw this, without the growing samples."""
    order = permutation(order, problem.n_components)
    state = first_state(problem, x, tol)
    return state._replace(
        gradient=seen.gradient,
        curvatures=seen.curvatures,
        curvature=_joined(problem, state.curvature, order, settings),
        squares=seen.squares,
        loss=seen.loss,
        n_sampled=problem.n_components,
        optimality=problem.term.optimality(x, seen.gradient),
    )


def one_pass(problem: Problem, state: LazyNewtonState, order: Indices, settings: Settings) -> LazyNewtonState:
    """Return the state after one step over all rows; at first, after the growing samples."""
    order = permutation(order, problem.n_components)
    dim, is_shared = problem.dim, settings.n_threads > 1
    one_does = dim <= SMALL if problem.rows.is_sparse() else is_shared and dim <= MOST_SHARED
    with (
        np.errstate(all="ignore"),  # a step that is too long is seen by its slope
        limited_blas(1 if one_does else None),
    ):
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
    is_dear = _is_dear(problem, state.curvature.members.size, sample)
    for _ in range(MOST_STEPS):
        decrement = 0.25 * _noise(problem, state, sample)
        if is_dear and state.factor.size > 0:  # a look at what the old factor says costs less
            if not -(state.gradient @ way_of(problem, state, sample)) > decrement:
                break
            if state.remainder > GOOD or state.n_idle > 0:
                state = state._replace(curvature=_joined(problem, state.curvature, order[: state.n_sampled], settings))
        state = _prepared(problem, state, sample, order, settings)
        way = way_of(problem, state, sample)
        if not -(state.gradient @ way) > decrement:
            break
        state = stepped(problem, state, sample, settings.n_threads, way)
    return state


def _is_dear(problem: Problem, n_components: int, sample: Sample) -> bool:
    """Tell whether the Hessians of so many components cost more than some gradients of the sample.

    Where no secants make up for rows that are missing they are worth any price.
    """
    prices = prices_of(problem)
    return problem.is_smooth and n_components * prices.hessian > DEAR * sample.components.size * prices.gradient


def _noise(problem: Problem, state: LazyNewtonState, sample: Sample) -> float:
    """Return what the sample itself puts into Newton's decrement, about."""
    curvature = sample_curvature(problem, state.curvatures, sample.components)
    return problem.dim / sample.n_rows(problem) * state.squares / max(curvature, 1e-300)


def first_rows(problem: Problem) -> int:
    """Return how many rows the first sample has: with few columns so many that there is a second one, too; few rows all."""
    n, dim = problem.n_rows, problem.dim
    usual = max(FIRST_ROWS, 8 * dim)
    return n if usual > LAST_SHARE * n else min(usual, max(int(LAST_SHARE / GROWTH * n), 6 * dim))


def _grown(
    problem: Problem, state: LazyNewtonState, order: Indices, settings: Settings
) -> tuple[LazyNewtonState, Sample]:
    """Return the state on the next larger sample, with the gradient there: only new rows are read."""
    first = first_rows(problem) if settings.first_rows == "auto" else int(settings.first_rows)
    n_next = next_size(problem, state.n_sampled, first)
    before, sample = sample_of(problem, order[: state.n_sampled]), sample_of(problem, order[:n_next])
    curvature, n_known = state.curvature, state.curvature.members.size
    joins = n_known == 0 or sample.is_complete(problem) or not _is_dear(problem, n_next - n_known, sample)
    if joins:
        curvature = _joined(problem, curvature, order[:n_next], settings)
    known = Look(state.gradient, state.curvatures, state.squares, state.loss)
    seen = look_at_more(
        problem, before, sample, state.x, known, majorize=Majorize.MISCLASSIFIED, n_threads=settings.n_threads
    )
    state = state._replace(
        gradient=seen.gradient,
        curvatures=seen.curvatures,
        curvature=curvature,
        secants=no_secants(problem.dim),
        remainder=math.nan,
        n_idle=0,
        majorize=max(state.majorize, Majorize.MISCLASSIFIED),
        squares=seen.squares,
        loss=seen.loss,
        n_sampled=n_next,
        optimality=problem.term.optimality(state.x, seen.gradient),
        n_gradients=state.n_gradients + n_next - state.n_sampled,
    )
    if not joins and state.factor.size > 0:  # the penalty's share is another
        state = refactored(problem, state, sample, state.shift)
    return state, sample


def _joined(problem: Problem, memory: LazyCurvature, order: Indices, settings: Settings) -> LazyCurvature:
    """Return the memory with the components that join the Hessian's sample."""
    if not problem.is_smooth:
        rows = problem.n_rows  # no secants make up for a sample's error
    else:
        rows = hessian_sample(problem) if settings.hessian_rows == "auto" else int(settings.hessian_rows)
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
        digits = min(max(math.log10(max(state.optimality, 1e-300) / max(state.tol, LEAST_TOL)), 1.0), 12.0)
        if settings.hessian_rows == "auto":
            state = _enlarged(problem, state, order, digits, settings)
    single_precision = _may_be_rough(problem) and (state.factor.size == 0 or is_well_posed(state))
    after = _refreshed(problem, state, sample, digits, settings, single_precision=single_precision)
    if after.curvature.rough.any() and not is_well_posed(after):
        emptied = no_curvature(problem)
        memory = after.curvature._replace(held=emptied.held, sums=emptied.sums, rough=emptied.rough)
        again = after._replace(curvature=memory, factor=np.zeros((0, 0)), shift=state.shift)
        return _refreshed(problem, again, sample, digits, settings, single_precision=False)
    return after


def _refreshed(
    problem: Problem,
    state: LazyNewtonState,
    sample: Sample,
    digits: float,
    settings: Settings,
    *,
    single_precision: bool,
) -> LazyNewtonState:
    """Return the state with the Hessian refreshed where that is worth it, and its factor."""
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
        single_precision=single_precision,
    )
    if n_replaced == 0 and state.factor.size > 0:
        return state
    state = state._replace(curvature=curvature, n_hessians=state.n_hessians + n_replaced / (problem.batch_size or 1))
    if curvature.members.size == sample.components.size:
        state = state._replace(secants=no_secants(problem.dim))
    return refactored(problem, state, sample, state.shift)


def _may_be_rough(problem: Problem) -> bool:
    """Tell whether sums in single precision save something, and cost no step.

    Where the loss has quadratic pieces an exact Hessian makes a step that ends the run.
    """
    jerk, steepest = problem.loss.d2_lipschitz(), problem.loss.curvature_bound()
    has_pieces = jerk == 0.0 or (jerk == math.inf and steepest < math.inf)
    return problem.is_smooth and not has_pieces and not problem.rows.is_sparse() and problem.dim >= LEAST_COLUMNS


def is_well_posed(state: LazyNewtonState) -> bool:
    """Tell whether half the digits do for the Hessian's sums, by its pivots, its scale, and what it was before.

    An error of the sums stays what it was while the curvature falls, and a raised diagonal hides it.
    """
    memory = state.curvature
    diagonal, before = (of / (memory.share or 1.0) for of in (np.diagonal(memory.sums), memory.rough))
    pivots = np.diagonal(state.factor) ** 2
    is_scaled = diagonal.min(initial=0.0) >= 0.0 and LEAST_SUM < diagonal.max(initial=0.0) < 1.0 / LEAST_SUM
    least = np.maximum(LEAST_PIVOT * diagonal, MOST_FALLEN * before)
    return bool(is_scaled and state.shift < 0.01 * LEAST_PIVOT and (pivots > least).all())


def _with_members(problem: Problem, memory: LazyCurvature, order: Indices, n_members: int) -> LazyCurvature:
    """Return the memory with a sample of so many components: those it has, and the first others of the order."""
    if n_members >= order.size:
        chosen = np.sort(order)
    else:
        joining = others(order, memory.members, problem.n_components)[: max(0, n_members - memory.members.size)]
        chosen = np.sort(np.concatenate([memory.members, joining]))
    return memory._replace(members=chosen, share=sample_of(problem, chosen).share)
