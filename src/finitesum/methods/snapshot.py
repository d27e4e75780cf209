"""The snapshot that SVRG, AccSVRG and SVRG2 take, and the rule that sets their step by comparing two of them.

A snapshot at w is one exact pass: the loss's slope and curvature at every row, the full gradient, objective and optimality.

The rule. An epoch of inner steps led from snapshot w to w+. With e = w - x*, w+ - x* = A e + noise: A is what the steps
were too short to remove, the noise is what random visits left behind. The slope of F along the way,

    <w+ - w, grad F(w+)>  ~  <noise, H noise> - <(I - A) e, H A e>    in the mean,

is negative where the second term dominates (longer steps would have got further) and positive where the noise does
(shorter steps would have got nearer). So the step grows by 5/4 after a negative slope, shrinks by 4/5 after another, and
settles where the two balance: it needs neither L nor mu, and follows the curvature as it changes along the way. An epoch
that raised F is undone and the step cut to a quarter. So no start and no data make the snapshots diverge. Where rounding
errors hide the change of F, it is taken from the gradients at both ends, which keep their digits:

    F(w+) - F(w)  ~  <w+ - w, grad F(w+) + grad F(w)> / 2,    up to the cube of the way.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import kernel
from finitesum.evaluation.row_sums import loss_sums
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import LinearSum, Problem

GROW, SHRINK, RETREAT = 1.25, 0.8, 0.25


class Snapshot(NamedTuple):
    """What one exact pass at a point found."""

    point: Vector  # (d,)  w
    slopes: Vector  # (n,)  phi'_i at w
    curvatures: Vector  # (n,)  phi''_i at w
    gradient: Vector  # (d,)  of the mean loss, without the penalty
    objective: float
    optimality: float


class ExactPoint(Protocol):
    """What the rule needs to know of a snapshot: be it one of a linear model or one of components that are callables."""

    @property
    def point(self) -> Vector: ...
    @property
    def gradient(self) -> Vector: ...
    @property
    def objective(self) -> float: ...
    @property
    def optimality(self) -> float: ...


S = TypeVar("S", bound=ExactPoint)


def smooth_gradient(problem: Problem | FiniteSum, snapshot: ExactPoint) -> Vector:
    """Return the gradient at a snapshot, that of the quadratic penalty included."""
    return snapshot.gradient + problem.term.quadratic * snapshot.point


def take_snapshot(problem: Problem, x: Vector) -> Snapshot:
    """Return the snapshot at x: one pass of component gradients (and second derivatives, which are had for free)."""
    slopes, curvatures = np.empty(problem.n_rows), np.empty(problem.n_rows)
    with np.errstate(all="ignore"):  # after a divergence
        gradient, _, value = loss_sums(problem, x, slopes=slopes, curvatures=curvatures)
        snapshot = Snapshot(x.copy(), slopes, curvatures, gradient, value + problem.term.value(x), math.nan)
        optimality = problem.term.optimality(x, smooth_gradient(problem, snapshot))
    return snapshot._replace(optimality=optimality)


@kernel
def _trace_and_largest(linear_sum: LinearSum, curvatures: Vector) -> tuple[float, float]:
    """Return sum_i p_i c_i ||z_i||^2 and max_i n p_i c_i ||z_i||^2."""
    total = 0.0
    largest = 0.0
    for i in range(linear_sum.rows.n_rows):
        term = linear_sum.weights[i] * curvatures[i] * linear_sum.rows.squared_norm(i)
        total += term
        largest = max(largest, term)
    return total, largest * linear_sum.rows.n_rows


def first_step(problem: Problem, start: Snapshot) -> float:
    """Return the inverse of the components' expected smoothness, as far as it is known at the start.

    For components of b rows drawn at random, (1 - 1/b) L + L_row / b [1]; L is bounded by the trace. A loss without a bound
    on its curvature lends the one at the start.

    References
    ----------
    .. [1] R. M. Gower et al., "SGD: general analysis and improved rates", ICML 2019, proposition 3.8.
    """
    bound = problem.loss.curvature_bound()
    curvatures = np.full(problem.n_rows, bound) if math.isfinite(bound) else start.curvatures
    trace, largest = _trace_and_largest(problem.view, curvatures)
    share = problem.n_components / problem.n_rows
    smoothness = (1.0 - share) * trace + share * largest + problem.penalty.ridge()
    return float(1.0 / smoothness) if smoothness > 0.0 else 1.0


def _is_worse(problem: Problem | FiniteSum, n_terms: int, last: ExactPoint, new: ExactPoint) -> bool:
    """Tell whether F rose, by its values or, where rounding errors hide that, by the slopes at both ends."""
    rounding = n_terms * float(np.finfo(np.float64).eps) * abs(last.objective)
    if not new.objective <= last.objective + rounding:  # NaN and infinity are worse, too
        return True
    hidden = new.objective > last.objective - rounding
    return hidden and _slope_along(problem, last, new, new) + _slope_along(problem, last, new, last) > 0.0


def _slope_along(problem: Problem | FiniteSum, last: ExactPoint, new: ExactPoint, at: ExactPoint) -> float:
    """Return the slope of F at an end of the way from the last snapshot to the new; of an l1 part, its mean on the way."""
    way = new.point - last.point
    return float(way @ smooth_gradient(problem, at) + problem.term.rise(last.point, new.point))


def end_of_epoch(
    problem: Problem, last: Snapshot, x: Vector, step_size: float, *, adapt: bool
) -> tuple[Snapshot, float]:
    """Return the snapshot to go on from and the step of the next epoch, after an epoch that led to x.

    Without `adapt` that is the snapshot at x and the same step.
    """
    new = take_snapshot(problem, x)
    return adapted(problem, problem.n_rows, last, new, step_size) if adapt else (new, step_size)


def adapted(problem: Problem | FiniteSum, n_terms: int, last: S, new: S, step_size: float) -> tuple[S, float]:
    """Return the snapshot to go on from and the step of the next epoch, by the rule; F is a sum of n_terms numbers."""
    if _is_worse(problem, n_terms, last, new):
        return last, RETREAT * step_size
    return new, step_size * (GROW if _slope_along(problem, last, new, new) < 0.0 else SHRINK)
