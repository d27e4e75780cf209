"""The state of lazy Newton, and a step of it: the way that the model asks for, and how far along it F falls.

What the steps rest on stands at the head of `finitesum.methods.newton.lazy_newton`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.row_sums import Majorize, Vector32
from finitesum.methods.newton.stale_hessian import LazyCurvature, apply_inverse, factor_of
from finitesum.methods.newton.subsampling import Look, Sample, falls, look, rise_bound, search, share_left, wants_search
from finitesum.methods.subproblems.lbfgs import Secants, no_secants, solve, with_pair
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.linear import Problem

#: The share of the gradient that a step may leave before misclassified rows take the majorant's curvature.
DOUBT = 0.3


class LazyNewtonState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for, which the choice of what to refresh saves for
    gradient: Vector  # of the smooth part of F at x, over the sample
    curvatures: Vector32  # (n,)  of the rows, as the last pass saw them
    curvature: LazyCurvature
    factor: Matrix  # Cholesky factor of H, shape (0, 0) before the first
    secants: Secants
    shift: float  # relative raise of H's diagonal
    remainder: float  # share of the gradient that the last step left, NaN before
    n_idle: int  # steps in a row that left more than half
    majorize: int  # a `Majorize`: whose curvatures are the majorant's
    squares: float  # sum of p_i phi'_i^2 over the sample at x
    loss: float  # sum of p_i phi_i over the sample at x
    n_sampled: int  # components of the sample; the method's passes begin when these are all
    optimality: float  # at x, exact once the sample is complete
    n_gradients: int
    n_hessians: float


def refactored(problem: Problem, state: LazyNewtonState, sample: Sample, shift: float) -> LazyNewtonState:
    """Return the state with H's factor made afresh, and its diagonal raised by the shift or by more, where that fails."""
    if not problem.is_smooth:  # steps come from the model itself
        return state._replace(factor=np.eye(1), shift=shift)
    factor, shift = factor_of(problem, state.curvature, sample.ridge, shift)
    return state._replace(factor=factor, shift=shift)


def way_of(problem: Problem, state: LazyNewtonState, sample: Sample) -> Vector:
    """Return the step that the model asks for."""
    if not problem.is_smooth:
        hessian = np.tril(state.curvature.sums) + np.tril(state.curvature.sums, -1).T
        hessian /= state.curvature.share or 1.0
        diagonal = np.arange(problem.dim)
        hessian[diagonal, diagonal] *= 1.0 + state.shift
        penalised = diagonal[: problem.rows.n_columns]
        hessian[penalised, penalised] += sample.ridge
        return minimise_model(problem.term, hessian, state.gradient, state.x, 1e-3 * state.optimality) - state.x
    way = -solve(state.secants, lambda right: apply_inverse(state.factor, right), state.gradient)
    if not way @ state.gradient < 0.0:  # rounding errors
        way = -apply_inverse(state.factor, state.gradient)
    return way


class _End(NamedTuple):
    """A point on the way, and what a pass found there."""

    t: float
    x: Vector
    seen: Look
    majorize: int  # of the pass
    slope: float  # of F along the way; with an l1 penalty or a set, a bound of the rise of F
    remainder: float


def stepped(
    problem: Problem, state: LazyNewtonState, sample: Sample, n_threads: int, way: Vector | None = None
) -> LazyNewtonState:
    """Return the state after a step: the whole of it, or as far as F falls."""
    way = way_of(problem, state, sample) if way is None else way
    end = _end_of(problem, state, sample, way, 1.0, state.majorize, n_threads)
    n_read = sample.components.size
    if not problem.is_smooth:
        while end.t > 1e-9 and not falls(
            problem, sample, state.x, end.x, rise=end.slope, left=end.remainder, n_threads=n_threads
        ):
            end = _end_of(problem, state, sample, way, 0.25 * end.t, Majorize.ALL, n_threads)
            n_read += sample.components.size
    else:
        first = float(state.gradient @ way)
        if wants_search(end.slope, first, end.remainder):
            t = search(problem, sample, state.x, way, first)
            n_read += 2 * sample.components.size
            end = _end_of(problem, state, sample, way, t, Majorize.ALL if t < 1.0 else state.majorize, n_threads)
    return _moved(problem, state, sample, end, n_read, n_threads)


def _moved(
    problem: Problem, state: LazyNewtonState, sample: Sample, end: _End, n_read: int, n_threads: int
) -> LazyNewtonState:
    """Return the state at the end of a step, with the pair it gives."""
    state = state._replace(n_gradients=state.n_gradients + n_read)
    if not np.isfinite(end.seen.gradient).all() or (end.t < 1e-6 and end.remainder > 0.999):
        raised = refactored(problem, state, sample, max(1e-12, 100.0 * state.shift))
        return raised._replace(
            secants=no_secants(problem.dim), remainder=math.nan, n_idle=state.n_idle + 2, majorize=Majorize.ALL
        )
    majorize = _majorize_after(problem, end)
    if end.majorize == Majorize.ALL and _is_worth_another_look(problem, majorize):
        seen = look(problem, sample, end.x, state.curvatures, majorize=majorize, n_threads=n_threads)
        end = end._replace(seen=seen)
        state = state._replace(n_gradients=state.n_gradients + sample.components.size)
    secants = state.secants
    if problem.is_smooth:
        secants = with_pair(secants, end.x - state.x, end.seen.gradient - state.gradient)
    state = state._replace(
        x=end.x,
        gradient=end.seen.gradient,
        curvatures=end.seen.curvatures,
        secants=secants,
        remainder=end.remainder,
        n_idle=state.n_idle + (2 if end.remainder > 0.9 or end.t < 0.3 else 1)
        if end.remainder > 0.5 or end.t < 0.3
        else 0,
        majorize=majorize,
        squares=end.seen.squares,
        loss=end.seen.loss,
        optimality=problem.term.optimality(end.x, end.seen.gradient),
    )
    if end.t < 0.01:
        return refactored(problem, state, sample, max(1e-12, 10.0 * state.shift))
    if end.t > 0.3 and state.shift > 1e-14:
        return refactored(problem, state, sample, 0.1 * state.shift)
    return state


def _is_worth_another_look(problem: Problem, majorize: int) -> bool:
    """Tell whether curvatures of fewer majorants, where all rows had them, are others, and worth a pass."""
    has_majorant = math.isfinite(problem.loss.curvature_bound())
    differs = majorize == Majorize.NONE or (majorize == Majorize.MISCLASSIFIED and problem.loss.target_kind() == "sign")
    return problem.is_smooth and has_majorant and differs


def _majorize_after(problem: Problem, end: _End) -> int:
    """Return whose curvatures are the majorant's next.

    With an l1 penalty or a set the optimality may rest while F falls (a coefficient near 0 counts by its size): there
    steps tell by their ends, and one that could have been longer is no reason for it.
    """
    if not problem.is_smooth:
        return 2 if end.t < 0.5 else int(end.slope > 0.0)
    return 2 if end.t < 0.5 or end.remainder > 0.9 else int(end.remainder > DOUBT)


def _end_of(
    problem: Problem, state: LazyNewtonState, sample: Sample, way: Vector, t: float, majorize: int, n_threads: int
) -> _End:
    """Return the point x + t way."""
    x = state.x + t * way
    seen = look(problem, sample, x, state.curvatures, majorize=majorize, n_threads=n_threads)
    if not problem.is_smooth:
        rise = rise_bound(problem, state.x, x, seen.gradient)
        left = share_left(problem, x, seen.gradient, state.optimality)
        return _End(t, x, seen, majorize, rise, left)
    size = seen.gradient @ apply_inverse(state.factor, seen.gradient)
    before = state.gradient @ apply_inverse(state.factor, state.gradient)
    remainder = math.sqrt(max(float(size / before), 0.0)) if before > 0.0 else math.nan
    return _End(t, x, seen, majorize, float(seen.gradient @ way), remainder)
