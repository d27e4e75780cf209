"""The snapshot that SVRG, AccSVRG and SVRG2 take, and the rule that sets their step by comparing two of them.

A snapshot at w is one exact pass: slope and curvature of the loss at each row, full gradient, objective and optimality.

The rule. Steps led from snapshot w to w+. With e = w - x*, w+ - x* = A e + noise: A is what the steps
were too short to remove, the noise is what random visits left behind. The slope of F along w+ - w,

    <w+ - w, grad F(w+)>  ~  <noise, H noise> - <(I - A) e, H A e>    in the mean,

is negative where the second term dominates (longer steps would have got further) and positive where the noise does
(shorter steps would have got nearer). So the step grows by 5/4 after a negative slope, shrinks by 4/5 after another, and
settles where the two balance: it needs neither L nor mu, and follows the curvature as it changes. Steps
that raised F are undone and cut to a quarter. So no start and no data make the snapshots diverge. Where rounding
errors hide the change of F, it is taken from the gradients at both ends, which keep their digits:

    F(w+) - F(w)  ~  <w+ - w, grad F(w+) + grad F(w)> / 2,    up to the cube of the distance.

Where rounding errors hide these slopes as well, nothing is known of the step, and it stays. On a set that comes long before
the optimum is reached to rounding errors: the gradient does not vanish there, and projections round the points.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.hessian import hessian_of
from finitesum.evaluation.outputs import full_hessian, loss_of, mean_loss_and_slopes, measure, scores_at, sum_of_rows
from finitesum.evaluation.row_blocks import sum_over_problems
from finitesum.evaluation.row_products import squared_norms
from finitesum.evaluation.row_sums import Majorize, loss_sums
from finitesum.methods.constants import Constant, Smoothness, smoothness_at
from finitesum.methods.visits import AnySum, optimality_of
from finitesum.problems.beside import empty_by_row
from finitesum.problems.linear import Problem
from finitesum.problems.outputs import in_blocks

GROW, SHRINK, RETREAT = 1.25, 0.8, 0.25


class Snapshot(NamedTuple):
    """What one exact pass at a point found."""

    point: Vector  # (d,)  w
    slopes: Vector  # (n,)  phi'_i at w; (m, b, K) of K outputs; (n, d), gradients, of components given as functions
    curvatures: Vector  # (n,)  phi''_i at w; empty for functions and several outputs: n d^2 and n K^2 numbers
    gradient: Vector  # (d,)  of the mean loss, without the penalty
    objective: float
    optimality: float
    n_straight: int = 0  # rows without curvature
    n_sloped: int = 0  # those of them with a slope


def _sums(problem: AnySum, w: Vector, *, with_slopes: bool) -> tuple[Vector, Vector, Vector, float, int, int]:
    """Return slopes and curvatures of rows, gradient and value of the mean loss, and how many rows have no curvature."""
    if isinstance(problem, Problem) and problem.n_outputs > 1:
        if not with_slopes:
            value, gradient = measure(problem, w)
            return np.empty(0), np.empty(0), gradient, value, 0, 0
        scores = scores_at(problem, w)
        value, slopes = mean_loss_and_slopes(problem, scores)
        gradient = sum_of_rows(problem, slopes).reshape(-1)
        return in_blocks(problem.n_components * slopes, problem.batch_size or 1), np.empty(0), gradient, value, 0, 0
    if isinstance(problem, Problem):
        slopes, curvatures = empty_by_row(problem), empty_by_row(problem)
        found = loss_sums(problem, w, slopes=slopes, curvatures=curvatures, counts_straight=True)
        return slopes, curvatures, found.gradient, found.value, found.n_straight, found.n_sloped
    if not np.isfinite(w).all():  # after a divergence: the functions are not to be asked there
        nothing = np.full((problem.n_components, problem.dim), np.nan)
        return nothing, np.empty(0), nothing[0], math.nan, 0, 0
    values, gradients = problem.values_and_gradients(w)
    return gradients, np.empty(0), gradients.mean(axis=0), math.fsum(values) / values.size, 0, 0


def take_snapshot(problem: AnySum, w: Vector, *, with_slopes: bool = True) -> Snapshot:
    """Return the snapshot at w: one pass of component gradients (and, of a linear model, second derivatives).

    Slopes of several outputs, which are n K numbers, may be left out.
    """
    with np.errstate(all="ignore"):  # after a divergence
        slopes, curvatures, gradient, value, *straight = _sums(problem, w, with_slopes=with_slopes)
        objective, optimality = value + problem.term.value(w), optimality_of(problem, w, gradient)
    return Snapshot(w.copy(), slopes, curvatures, gradient, objective, optimality, *straight)


def smooth_gradient(problem: AnySum, snapshot: Snapshot) -> Vector:
    """Return the gradient at a snapshot, that of the quadratic penalty included."""
    gradient: Vector = snapshot.gradient + problem.term.quadratic * snapshot.point
    return gradient


def smooth_hessian(problem: AnySum, snapshot: Snapshot) -> Matrix:
    """Return the Hessian at a snapshot, that of the quadratic penalty included, shape (d, d)."""
    if not isinstance(problem, Problem):
        return problem.hessian(snapshot.point)
    if problem.n_outputs > 1:
        curvatures = loss_of(problem).curvatures(scores_at(problem, snapshot.point))
        return full_hessian(problem, curvatures, is_pinned=True)
    return hessian_of(problem, snapshot.curvatures)


def sizes_of(problem: Problem, snapshot: Snapshot) -> tuple[float, float]:
    """Return (sum_i p_i phi'_i^2)^(1/2) and the largest phi''_i at a snapshot of a model with one output."""

    def sizes(part: Problem, slopes: Vector, curvatures: Vector) -> tuple[float, float]:
        return float(part.weights @ (slopes * slopes)), float(curvatures.max())

    def both(left: tuple[float, float], right: tuple[float, float]) -> tuple[float, float]:
        return left[0] + right[0], max(left[1], right[1])

    squares, most = sum_over_problems(sizes, problem, reads=(snapshot.slopes, snapshot.curvatures), add=both)
    return math.sqrt(squares), most


def with_majorants(problem: Problem, snapshot: Snapshot, theta: float, *, where_zero: bool) -> Snapshot:
    """Return a snapshot with rows on a linear piece of their loss at theta times the curvature of the majorant.

    If asked for, so are rows where the loss has no slope.
    """

    def straight(curvatures: Vector, slopes: Vector) -> Any:
        return (curvatures == 0.0) if where_zero else (curvatures == 0.0) & (slopes != 0.0)

    def bend(_part: Problem, curvatures: Vector, slopes: Vector, majorants: Vector, bent: Vector) -> None:
        bent[:] = np.where(straight(curvatures, slopes), theta * majorants, curvatures)

    if not (snapshot.n_straight if where_zero else snapshot.n_sloped):
        return snapshot
    reads = snapshot.curvatures, snapshot.slopes
    majorants, bent = empty_by_row(problem), empty_by_row(problem)
    loss_sums(problem, snapshot.point, curvatures=majorants, majorize=Majorize.ALL)
    sum_over_problems(bend, problem, reads=(*reads, majorants), writes=(bent,))
    return snapshot._replace(curvatures=bent)


def expected_smoothness(problem: AnySum, start: Snapshot) -> Smoothness:
    """Return the components' expected smoothness, as far as it is known at the start; its inverse is the first step.

    For components of b rows drawn at random, (1 - 1/b) L + L_row / b (R. M. Gower et al., "SGD: general analysis and
    improved rates", ICML 2019, proposition 3.8); L is bounded by the trace. A loss without a bound on its curvature lends
    the one at the start; of functions, L_max is taken.
    """
    if not isinstance(problem, Problem):
        return smoothness_at(problem, start.point, Constant.LARGEST)
    bound = problem.loss.curvature_bound()
    curvatures = np.full(problem.n_rows, bound) if math.isfinite(bound) else start.curvatures
    rows = problem.one_output
    parts = rows.weights * curvatures * squared_norms(rows, rows.rows.intercept)
    fraction = problem.n_components / problem.n_rows
    smoothness = (1.0 - fraction) * parts.sum() + fraction * (parts.max() * problem.n_rows)
    smoothness += problem.term.largest_quadratic
    return Smoothness(float(smoothness) if smoothness > 0.0 else 1.0, np.empty(0), 0, 0)


def _slope_along(problem: AnySum, last: Snapshot, new: Snapshot, at: Snapshot) -> float:
    """Return the slope of F at an end of the segment from the last snapshot to the new; of an l1 part, its mean on it."""
    step = new.point - last.point
    return float(step @ smooth_gradient(problem, at) + problem.term.rise(last.point, new.point))


def _slope_rounding(problem: AnySum, last: Snapshot, new: Snapshot) -> float:
    """Return how far rounding errors may shift a slope; a projection onto a set rounds the points themselves."""
    gradients = np.abs(smooth_gradient(problem, last)) + np.abs(smooth_gradient(problem, new))
    distances = np.abs(new.point - last.point)
    if problem.is_constrained:
        distances += np.abs(last.point) + np.abs(new.point)
    return float(2.0 * np.finfo(np.float64).eps * distances @ gradients)


def next_snapshot(problem: AnySum, last: Snapshot, w: Vector, step_size: float, *, adapt: bool) -> tuple[Snapshot, float]:
    """Return the snapshot to go on from after visits that led to w, and the next step: by the rule where steps adapt."""
    new = take_snapshot(problem, w)
    if not adapt:
        return new, step_size
    rounding = problem.n_rows * float(np.finfo(np.float64).eps) * abs(last.objective)
    if not new.objective <= last.objective + rounding:  # NaN and infinity are worse, too
        return last, RETREAT * step_size
    slope = _slope_along(problem, last, new, new)
    if new.objective > last.objective - rounding:  # the change of F is hidden
        hidden = _slope_rounding(problem, last, new)
        if slope + _slope_along(problem, last, new, last) > hidden:
            return last, RETREAT * step_size
        if abs(slope) <= hidden:
            return new, step_size
    return new, step_size * (GROW if slope < 0.0 else SHRINK)
