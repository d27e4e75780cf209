"""Semismooth Newton steps on augmented Lagrangians for losses with corners and an l2 penalty: many rows of few columns.

With corners k_ij and slopes s_i as in `finitesum.methods.newton.dual_ascent`, a centre c_i of the slopes and a width h the
loss is replaced by the largest minorant whose slope costs h/2 (s - c_i)^2 more, which is smooth [1]:

    s_i(u) = sum_j clip((u + h c_i - k_ij) / h, low_ij, high_ij),    F_h(w) = sum_i p_i int s_i + l2/2 ||w||^2
    grad F_h = l2 w + sum_i p_i s_i(u_i) x_i,    H = l2 I + (1/h) sum_i p_i x_i x_i' over the rows where s_i is within

A step is Newton's, t (w+ - w) with t where F_h has the least value along it: the root of a piecewise linear function.
Once F_h is nearly at its minimum, by (1/2) grad' D^-1 grad with D = diag(l2) against the gap, the slopes become the
centre, and h is halved where that did not bring the gap down to a tenth. With the right rows within, such a step ends at
the minimum of F.

*Rows.* The first steps are taken on a sample of an eighth of the rows. Later ones see the rows that are within or nearest
to it, four times as many as are within, an eighth of all at least; the slopes of others stay as they are until F_h is
nearly at its minimum for these rows. Then all rows are evaluated, where F_h is least on the way to that point; twice as
many are chosen where this is not half of the way. H needs rows within alone: few, as h falls.

An intercept's place in D is mu as in dual ascent, or F_h's curvature in b where that is less. H has a thousandth of that
curvature more there, or 1/h where no row is within, at most mu: so it is regular. The slopes bound the minimum from below,
and the optimality is the gap to the best bound. The iterate is the best w so far, of those that all rows were evaluated at.
A pass is one step, with the evaluation that may end it. Memory: d^2, some 6n numbers, and a copy of the chosen rows.

References
----------
.. [1] X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for solving Lasso
   problems", SIAM J. Optim. 28 (2018).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.certificates import slopes_bound
from finitesum.evaluation.hessian import add_gram, gram_of_block
from finitesum.evaluation.row_blocks import Block, by_row, sum_over_blocks
from finitesum.evaluation.row_products import combination, predictions, weighted_combination
from finitesum.methods.base import SumMethod
from finitesum.methods.cost_model import threads_for_factors
from finitesum.methods.newton.dual_ascent import refusal_without_corners
from finitesum.methods.newton.dual_metric import in_metric
from finitesum.methods.newton.semismooth_slopes import find_slopes, slope_along
from finitesum.methods.newton.subsampling import require_members
from finitesum.problems.beside import empty_by_row, zeros_by_row
from finitesum.problems.chosen_rows import with_rows
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted

#: The first h, by the mean distance of predictions from corners: most rows are within.
START = 2.0

#: How near to its minimum F_h is brought, relative to the gap; what the gap is to fall to at a centre, and what h is
#: multiplied with where it does not.
ENOUGH, FALLS, NARROWER = 0.05, 0.1, 0.5

#: What is left of the slope along a step, evaluations of it, and how many times as far the next one may be; steps on
#: chosen rows.
LEFT, MOST_TRIES, LONGER, MOST_STEPS = 0.1, 30, 10.0, 12

#: Rows of the sample and the least rows that are chosen, of all; chosen ones by those within; fewer rows are never chosen.
FRACTION, BY_WITHIN, FEW_ROWS = 0.125, 4, 2000

#: What is added to F_h's curvature in an intercept, at most, relative to it; and a part of the weights that is none.
DAMPING, TINY = 1e-3, 1e-12

#: A shorter part of the way to the minimum over the chosen rows calls for twice as many.
FAR_ENOUGH = 0.5


class SemismoothState(NamedTuple):
    x: Vector  # the best iterate so far
    base: Vector  # where all rows were evaluated last
    predictions: Vector  # (n,)  u_i there, with their offsets
    downhill: Vector  # the gradient of F_h there
    w: Vector
    nearby: Vector  # (k,)  u_i at w of the chosen rows; empty where all are
    centre: Vector  # (n,)  c_i
    gradient: Vector  # of F_h at w, as the chosen rows have it
    rest: Vector  # the part of the losses' gradient that rows that are not chosen make
    chosen: Indices  # increasing; empty for all
    is_sample: bool  # whether these rows stand for all
    width: float  # h
    n_steps: int  # on the chosen rows
    fraction: float  # of all rows that are chosen at least
    gap: float  # where all rows were evaluated last
    gap_before: float  # when the centre was set
    value: float  # F at x
    bound: float  # of the minimum
    tol: float
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class SemismoothNewton(SumMethod):
    """Semismooth Newton steps on augmented Lagrangians, for losses with corners and an l2 penalty.

    w+ = w - t H^-1 (l2 w + sum_i p_i s_i x_i),  s_i = sum_j clip((u_i + h c_i - k_ij) / h, low_ij, high_ij)  [1]

    Examples
    --------
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[-1.0], [0.0], [3.0]], [0, 0, 1], loss="hinge", alpha=0.1, fit_intercept=True)
    >>> result = minimize(problem, method=SemismoothNewton(), tol=1e-12)
    >>> result.success, result.x.round(6)
    (True, array([ 0.666667, -1.      ]))

    References
    ----------
    .. [1] X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for solving Lasso
       problems", SIAM J. Optim. 28 (2018).
    """

    handles: ClassVar[frozenset[str]] = frozenset({"nonsmooth", "parts"})
    default_sampling: ClassVar[str] = "cyclic"

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem has a loss without corners, or no l2 penalty."""
        return refusal_without_corners(SemismoothNewton.name, problem)

    def blas_threads(self, problem: Problem) -> int | None:
        return threads_for_factors(problem)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> SemismoothState:
        """Return the state before the first step: slopes 0 as the centre, or from another start than 0 its subgradient."""
        loss: Any = problem.loss

        def distances(block: Block, of_rows: Vector) -> float:
            return float(block.view.weights @ np.abs(of_rows - loss.corners(block.view.targets)[0][2]))

        def slopes(view: Any, of_rows: Vector) -> Vector:
            return np.asarray(loss.d1(of_rows, view.targets))

        u = _predicted(problem, x0)
        centre = by_row(slopes, problem, u) if x0.any() else zeros_by_row(problem)
        distance = sum_over_blocks(distances, problem, reads=(u,))
        width = START * (distance if 0.0 < distance < math.inf else 1.0) / loss.largest_slope()
        none, zeros = np.zeros(0), np.zeros(problem.dim)
        vectors = x0.copy(), x0.copy(), u, zeros, x0.copy(), none, centre, zeros, zeros, none.astype(np.int64)
        numbers: Any = False, width, 0, FRACTION, math.inf, 0.0, math.inf, -math.inf, tol, problem.n_components, 0
        return _evaluated(problem, SemismoothState(*vectors, *numbers))[0]

    def template(self, problem: Problem, first: SemismoothState, state: SemismoothState) -> SemismoothState:
        rows = state.chosen
        require_members("chosen", rows, problem.n_rows, is_sorted=True)
        return first._replace(chosen=np.zeros(rows.size, dtype=np.int64), nearby=np.zeros(rows.size))

    def run_pass(self, problem: Problem, state: SemismoothState, order: Indices) -> SemismoothState:
        """Return the state after a step, and where it ends at the minimum over the chosen rows, an evaluation of all."""
        state = state._replace(x=state.x.copy())
        size, is_first = int(FRACTION * problem.n_rows), state.n_gradients == 2 * problem.n_components
        if is_first and size >= FEW_ROWS and not is_parted(problem):
            state = _on_sample(problem, state, size)
        is_part, part = state.chosen.size > 0, _part(problem, state)
        u, centre = (state.nearby, state.centre[state.chosen]) if is_part else (state.predictions, state.centre)
        beyond = _slopes_at(part, u, centre, state.width)[1]
        step, n_within = _step(part, state, beyond, in_metric(problem))
        change = predictions(part, step)
        t = _best_length(part, state, (u, centre, change), (state.w, state.gradient, step, state.rest))
        w = state.w + t * step
        n_gradients, n_hessians = (-(-n_read // (problem.batch_size or 1)) for n_read in (2 * part.n_rows, n_within))
        state = state._replace(
            w=w,
            n_steps=state.n_steps + 1,
            n_gradients=state.n_gradients + n_gradients,
            n_hessians=state.n_hessians + n_hessians,
        )
        if not is_part:
            return _with_all(problem, state)
        u = u + t * change
        slopes, beyond, loss = _slopes_at(part, u, centre, state.width)
        pulled, gap = combination(part, part.weights * slopes), state.value - state.bound
        if state.is_sample:
            value = loss + problem.term.value(w)
            gap = max(value - slopes_bound(part, slopes, pulled / -problem.term.ridge), 0.0)
        gradient = pulled + state.rest + problem.term.ridge * _penalised(problem, w)
        state = state._replace(nearby=u, gradient=gradient)
        within = float(part.weights[beyond == 0.0].sum())
        is_minimised = _left(problem, gradient, within, state.width) <= ENOUGH * max(gap, state.tol)
        return _with_all(problem, state) if is_minimised or state.n_steps >= MOST_STEPS else state

    def estimate(self, problem: Problem, state: SemismoothState) -> float:
        """Return the duality gap at x."""
        return max(state.value - state.bound, 0.0)

    def bound(self, problem: Problem, state: SemismoothState) -> float:
        """Return the bound of the minimum that the slopes have made so far."""
        return state.bound


def _penalised(problem: Problem, w: Vector) -> Vector:
    """Return w with 0 in the place of an intercept."""
    w = w.copy()
    w[problem.rows.n_columns :] = 0.0
    return w


def _left(problem: Problem, gradient: Vector, within: float, width: float) -> float:
    """Return about how far F_h is above its minimum, given the weights of the rows that are within."""
    metric, d = in_metric(problem).copy(), problem.rows.n_columns
    metric[d:] = np.minimum(metric[d:], max(within, TINY) / width)
    return 0.5 * float(gradient @ (gradient / metric))


def _part(problem: Problem, state: SemismoothState) -> Problem:
    """Return the problem of the chosen rows; their weights sum to 1 where they are a sample."""
    if state.chosen.size == 0:
        return problem.by_rows
    part = with_rows(problem, state.chosen)
    return replace(part, weights=part.weights / part.weights.sum()) if state.is_sample else part


def _on_sample(problem: Problem, state: SemismoothState, size: int) -> SemismoothState:
    """Return the state before steps on a sample, which is drawn from the seed 0."""
    chosen = np.sort(np.random.default_rng(0).permutation(problem.n_rows)[:size])
    if not problem.weights[chosen].any():
        return state
    state = state._replace(chosen=chosen, is_sample=True)
    part = _part(problem, state)
    u = state.predictions[chosen]
    slopes = _slopes_at(part, u, state.centre[chosen], state.width)[0]
    gradient = combination(part, part.weights * slopes) + problem.term.ridge * _penalised(problem, state.w)
    return state._replace(nearby=u, gradient=gradient)


def _predicted(problem: Problem, w: Vector) -> Vector:
    """Return u_i of all rows at w."""
    u = predictions(problem, w)
    return by_row(lambda view, of_rows: of_rows + view.offsets, problem, u) if problem.has_offsets else u


def _slopes_at(problem: Problem, u: Vector, centre: Vector, width: float) -> tuple[Vector, Vector, float]:
    """Return the slopes at u, how far they are from being within, and the mean loss."""

    def find(block: Block, of_rows: Vector, of_centre: Vector, *written: Vector) -> float:
        return float(find_slopes(block.view, of_rows, of_centre, width, *written))

    slopes, beyond = empty_by_row(problem), empty_by_row(problem)
    loss = sum_over_blocks(find, problem, reads=(u, centre), writes=(slopes, beyond))
    return slopes, beyond, loss


def _weight_within(problem: Problem, beyond: Vector) -> float:
    """Return the sum of p_i over the rows that are within."""

    def weight(block: Block, of_rows: Vector) -> float:
        return float(block.view.weights[of_rows == 0.0].sum())

    return float(sum_over_blocks(weight, problem, reads=(beyond,)))


def _evaluated(problem: Problem, state: SemismoothState) -> tuple[SemismoothState, Vector, Vector]:
    """Return the state with gradient, value, bound and gap at its base, the slopes and their distances from within."""
    slopes, beyond, loss = _slopes_at(problem, state.predictions, state.centre, state.width)
    pulled, value = weighted_combination(problem, slopes), loss + problem.term.value(state.base)
    bound = slopes_bound(problem, slopes, pulled / -problem.term.ridge)
    found = state._replace(
        x=state.base.copy() if value < state.value else state.x,
        gradient=pulled + problem.term.ridge * _penalised(problem, state.base),
        gap=max(value - bound, 0.0),
        value=min(value, state.value),
        bound=max(bound, state.bound),
        n_gradients=state.n_gradients + problem.n_components,
    )
    return found._replace(downhill=found.gradient), slopes, beyond


def _with_all(problem: Problem, state: SemismoothState) -> SemismoothState:
    """Return the state with all rows evaluated at w, or on the way to it where F_h is less.

    It has a new centre where F_h is at its minimum, and rows for the next steps.
    """
    w, u, m = state.w, _predicted(problem, state.w), problem.n_components
    state = state._replace(n_gradients=state.n_gradients + m)
    if state.chosen.size > 0:
        step, change = w - state.base, u - state.predictions
        line = state.predictions, state.centre, change
        t = _best_length(problem, state, line, (state.base, state.downhill, step, np.zeros(problem.dim)))
        if not state.is_sample:
            state = state._replace(fraction=2.0 * state.fraction if t < FAR_ENOUGH else max(FRACTION, 0.5 * state.fraction))
        if t != 1.0:
            w, u = state.base + t * step, state.predictions + t * change
    state, slopes, beyond = _evaluated(problem, state._replace(base=w, w=w, predictions=u))
    within = _weight_within(problem, beyond)
    if _left(problem, state.gradient, within, state.width) <= ENOUGH * max(state.value - state.bound, state.tol):
        width = state.width * (1.0 if state.gap <= FALLS * state.gap_before else NARROWER)
        moved, beyond, _ = _slopes_at(problem, u, slopes, width)
        gradient = state.gradient + _change_of_slopes(problem, slopes, moved)
        before = state.gap
        state = state._replace(centre=slopes, width=width, gap_before=before, gradient=gradient, downhill=gradient)
        state, slopes = state._replace(n_gradients=state.n_gradients + m), moved
    return _chosen(problem, state, slopes, beyond)


def _change_of_slopes(problem: Problem, slopes: Vector, moved: Vector) -> Vector:
    """Return sum_i p_i (s_i now - s_i before) x_i."""
    if is_parted(problem):
        return weighted_combination(problem, by_row(lambda _view, after, before: after - before, problem, moved, slopes))
    changed = np.flatnonzero(moved != slopes)
    return combination(problem.by_rows, problem.weights * (moved - slopes), changed)


def _chosen(problem: Problem, state: SemismoothState, slopes: Vector, beyond: Vector) -> SemismoothState:
    """Return the state with rows for the next steps, given the slopes of all and how far these are from being within."""
    n, rest, none = problem.n_rows, np.zeros(problem.dim), np.zeros(0)
    size = n if is_parted(problem) else max(BY_WITHIN * int(np.count_nonzero(beyond == 0.0)), int(state.fraction * n))
    if not FEW_ROWS <= size < n // 2:  # chosen rows of parts would come to the caller
        return state._replace(chosen=none.astype(np.int64), nearby=none, is_sample=False, n_steps=0, rest=rest)
    chosen = np.flatnonzero(beyond <= np.partition(beyond, size)[size])
    state = state._replace(chosen=chosen, nearby=state.predictions[chosen], is_sample=False, n_steps=0)
    part = _part(problem, state)
    pulled = combination(part, part.weights * slopes[chosen])
    rest = state.gradient - problem.term.ridge * _penalised(problem, state.w) - pulled
    return state._replace(rest=rest, n_gradients=state.n_gradients + -(-chosen.size // (problem.batch_size or 1)))


def _hessian_within(part: Problem, beyond: Vector, width: float) -> tuple[Matrix, int]:
    """Return (1/h) sum_i p_i x_i x_i' over the rows that are within, its lower triangle, and how many they are."""
    if is_parted(part):

        def sums(block: Block, of_rows: Vector) -> tuple[Matrix, int]:
            scales = np.where(of_rows == 0.0, block.view.weights / width, 0.0)
            return gram_of_block(block, scales), int(np.count_nonzero(scales))

        found: tuple[Matrix, int] = sum_over_blocks(sums, part, reads=(beyond,))
        return found
    picked = np.flatnonzero((beyond == 0.0) & (part.weights > 0.0))
    H = np.zeros((part.dim, part.dim))
    add_gram(part, picked, part.weights[picked] / width, H)
    return H, picked.size


def _step(part: Problem, state: SemismoothState, beyond: Vector, metric: Vector) -> tuple[Vector, int]:
    """Return Newton's step, and how many rows are within; a step without H where it has no factor."""
    H, n_within = _hessian_within(part, beyond, state.width)
    d = part.rows.n_columns
    curvatures = np.diagonal(H)[d:]
    damping = np.where(curvatures > 0.0, DAMPING * curvatures, 1.0 / state.width)
    metric = np.append(metric[:d], np.minimum(metric[d:], damping))
    H[np.diag_indices_from(H)] += metric
    try:
        return -cho_solve(cho_factor(H, lower=True, check_finite=False), state.gradient, check_finite=False), n_within
    except LinAlgError:
        return -state.gradient / metric, n_within


def _slope_at(part: Problem, line: tuple[Vector, Vector, Vector], width: float, t: float) -> tuple[float, float]:
    """Return the slope and the curvature in t of the smoothed losses on a line: u, their change, and the centre."""

    def along(block: Block, u: Vector, change: Vector, centre: Vector) -> tuple[float, float]:
        slope, curvature = slope_along(block.view, u, change, centre, width, t)
        return float(slope), float(curvature)

    found: tuple[float, float] = sum_over_blocks(along, part, reads=line)
    return found


def _best_length(part: Problem, state: SemismoothState, line: Any, point: Any) -> float:
    """Return the t >= 0 with the least F_h(w + t step), but for a tenth of the slope at 0.

    The line is u, their centre and their change; the point w, F_h's gradient there, the step, and the other rows' gradient.
    """
    (u, centre, change), (w, gradient, step, rest) = line, point
    d, ridge = part.rows.n_columns, part.term.ridge
    at_first = float(gradient @ step)
    linear, square = ridge * float(w[:d] @ step[:d]) + float(rest @ step), ridge * float(step[:d] @ step[:d])
    low, high, t = 0.0, math.inf, 1.0
    for _ in range(MOST_TRIES if at_first < 0.0 else 0):
        slope, curvature = _slope_at(part, (u, change, centre), state.width, t)
        slope, curvature = slope + linear + t * square, curvature + square
        if abs(slope) <= -LEFT * at_first:
            return t
        low, high = (low, t) if slope > 0.0 else (t, high)
        closer = t - slope / curvature if curvature > 0.0 else math.inf
        if not low < closer < high:
            closer = math.inf if high == math.inf else 0.5 * (low + high)
        t = min(closer, LONGER * t)  # no curvature here does not mean none farther on
    return low
