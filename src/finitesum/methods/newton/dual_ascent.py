"""Dual coordinate ascent for losses with corners, sharp or rounded, and an l2 penalty, ended by conjugate gradients.

A loss of two corners, sum_j max(low_j (u - k_j), high_j (u - k_j)) with low_j <= 0 <= high_j (the hinge: one corner, at y;
the epsilon-insensitive loss: two), has slopes s_i between the sums of the low_j and of the high_j. With u_i = x_i'w + b +
o_i, t_i = p_i s_i and w = -(1/l2) sum_i t_i x_i the dual of min sum_i p_i loss_i(u_i) + l2/2 ||w||^2 is ::

    max  sum_i (o_i t_i - p_i sum_j k_ij s_ij) - l2/2 ||w||^2    over  s_i = s_i1 + s_i2,  low_ij <= s_ij <= high_ij,
                                                                 sum_i t_i = 0

(the last only with an intercept). Its violation in s_i is the distance of u_i from the points where the loss has the slope
s_i: a corner, or an interval between two. The parts of a round:

1. *Sweeps* [1]. A row is visited by moving its slope to the best value, sum_j clip((u_i + q_i s_i - k_ij) / q_i, low_ij,
   high_ij) with q_i = p_i ||x_i||^2 / l2, and w with it. Rows whose slope is within an interval by more than any violation
   of the sweep before rest until the end of the round. Rows are visited in a random order, drawn for each sweep from a seed
   that is the first component of the pass's order; rows that follow each other stay together as in
   `finitesum.methods.newton.sdca`. An intercept is held by mu/2 (b - b_0)^2, where b_0 becomes
   b after as many visits as there are rows.
2. *A face*, if sweeps go on. Rows at a corner (mostly few, soon always the same) have u_i = k_ij at the optimum: a linear
   system in the gram matrix of these rows, which conjugate gradients solve in products with these rows alone, within the
   intervals of the slopes [2]: changes beyond them come back once they are likely to cost more than a product gains, those
   that would leave again rest at the end, and conjugate gradients begin again for the others. The step is taken as far as
   the dual function rises along it. While steps are short, or leave rows at ends, products are few, in each face of the
   round half as many more; a round that they make long ends, for its gap to be seen.
3. *The gap*, once no violation is larger than the round's accuracy, which falls from round to round as the gap and tol
   suggest, or once the gap seems to be within tol. For the gap is sum_i p_i (loss_i(u_i) + loss_i*(s_i) - s_i u_i), of
   which each visit meets a part. w is made of the slopes, so that rounding errors do not add up in it, and all u_i are
   computed, with the best intercept for it. Before, losses with sharp corners are solved for the rows at corners by a
   Cholesky factor, where that takes a part of the time so far: the exact end. The slopes bound the minimum from below. The
   iterate is the best t w so far, over rounds and factors t: where rows are nearly separable, rows that w just misses cost
   much, and w (1 + a bit) nothing.
   Unless passes ended the round, rows whose slope is within an interval by more than any violates there rest in the next
   one from the start.

A rounded corner (of the squared and the smoothed hinge, and the squared epsilon-insensitive loss) costs p_i width/2 s_i^2
more: it has the slope s_i at k_i + width s_i, visits divide by q_i + width, and a face has width/p_i on its diagonal. Such
losses are smooth: a round ends with the gradient's norm, and needs no w made of the slopes unless tol is near rounding
errors.

A pass is the sweeps before a face, or its products, as long as these read no more than all rows do, or the end of a round;
on small data all of them, for a pass costs calls.
Memory: d and some 4n numbers, and 5 for each row of the face; at the exact end up to 32 MB.

References
----------
.. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent method for
   large-scale linear SVM", ICML 2008.
.. [2] J. J. More, G. Toraldo, "On the solution of large quadratic programming problems with bound constraints", SIAM J.
   Optim. 1 (1991).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.vectors import norm
from finitesum.evaluation.certificates import slopes_bound
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.row_products import combination, predictions
from finitesum.losses import Cornered, RoundedCorner
from finitesum.methods.base import SumMethod
from finitesum.methods.newton import dual_arrays  # noqa: F401  which the kernels below run in on small data
from finitesum.methods.newton.dual_faces import advance, find_face, take_step
from finitesum.methods.newton.dual_metric import terms_of
from finitesum.methods.newton.dual_points import (
    count_at_corners,
    loss_of,
    measures_within,
    point_of,
    solved_at_corners,
    value_at,
    with_best_factor,
    with_best_intercept,
)
from finitesum.methods.newton.dual_sweeps import find_active, sweep
from finitesum.methods.newton.sdca import rows_together
from finitesum.methods.newton.subsampling import require_members
from finitesum.methods.parameters import Count
from finitesum.methods.subproblems.conjugate_gradients import ConjugateGradients, begun
from finitesum.methods.subproblems.line_search import is_enough, rounding_of
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered
from finitesum.problems.rows import n_entries

#: The accuracy of the first round, by the mean distance of predictions from corners; what the next one's is of it at most
#: and at least, and the fraction of tol that the gap is expected to fall to with it.
FIRST, MOST_OF_LAST, LEAST_OF_LAST, OF_TOL = 1.0, 0.7, 0.02, 0.8

#: The part of tol that parts of the gap that visits meet add up to at most where a round ends: the gap is often more, by
#: what visits change in other rows' parts afterwards.
SEEN_OF_TOL = 0.5

#: Passes of a round, and of products on faces that count as one: these see less of the gap, and may go on for long.
MOST_PASSES, OF_PRODUCTS = 20, 8

#: Products on a face while faces are not the last, of at most as many rows as columns, and of more, which depend linearly;
#: and how many times as many each next face of a round may have.
FEW_PRODUCTS, FEWEST_PRODUCTS, GROWTH = 20, 5, 1.5

#: The fraction of a face's residual, squared, that is left; and the shortest step along its solution.
LEFT, SHORTEST = 1e-4, 1e-3

#: Stored numbers that are read in about a millisecond: a pass goes on until it has read as many.
NUMBERS_OF_A_PASS = 1e6

#: Stored numbers that are read in the time of a call: sweeps before a face go on until they have read as many; and the
#: parts of passes that are counted.
OF_CALL, PARTS = 1e5, 4

#: Products of a factor's that take the time of a number read by visits, and the part of what visits read so far that a
#: factor of the rows at corners may take.
OF_FACTOR, OF_READ = 8.0, 0.25

#: Rounding errors of w, by its norm, that sweeps may add up to: of l2 w they are as much of the gradient.
DRIFT = 1e-12


class DualAscentState(NamedTuple):
    x: Vector  # the best iterate so far
    w: Vector  # that of the slopes, and the intercept
    slopes: Vector  # (n,)  s_i
    active: Indices  # rows that do not rest in this round
    violation: float  # the largest of the last sweep
    accuracy: float  # the violation that ends the round
    loose: float  # the one that does where the gap seems to be within tol
    value: float  # F at x
    bound: float  # of the minimum; minus infinity where the loss is smooth
    optimality: float  # at x: the duality gap, or where the loss is smooth the gradient's norm
    gradient: Vector  # at x where the loss is smooth
    tol: float
    n_sweeps: int  # since the round began, or the last face
    n_parts: int  # of this round: parts of passes that visits took, at least one a call, and some for products
    n_rounds: int
    length: float  # of the last step on a face, by the part of its rows that it leaves at corners
    n_faces: int  # of this round
    face: Indices  # rows at corners, while conjugate gradients run
    cg: ConjugateGradients
    n_gradients: int
    n_hessians: int


@remembered
def _used(problem: Problem) -> Indices:
    """Return the rows of positive weight."""
    return np.flatnonzero(problem.weights > 0.0)


def refusal_without_corners(name: str, problem: Problem, losses: Any = Cornered) -> str:
    """Return what is missing where a problem has no such loss with corners, or no l2 penalty; "" where nothing is."""
    if isinstance(problem.loss, losses) and problem.term.ridge > 0.0 and problem.n_outputs == 1:
        return ""
    got = f"{problem.loss!r} with {problem.penalty!r}"
    return f"{name} needs a loss with corners, such as the hinge, and alpha > 0, got {got}."


@dataclass(frozen=True)
class DualAscent(SumMethod):
    """Dual coordinate ascent for losses with corners, sharp or rounded, and an l2 penalty, with an exact end.

    s_i+ = sum_j clip((u_i + q_i s_i - k_ij) / q_i, low_ij, high_ij),  w = -(1/l2) sum_i p_i s_i x_i  [1]; then those at
    corners together [2]

    Parameters
    ----------
    epochs : int >= 1
        Sweeps of a round, between which the rows at corners are solved for together.

    Examples
    --------
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[-1.0], [0.0], [3.0]], [0, 0, 1], loss="hinge", alpha=0.1, fit_intercept=True)
    >>> result = minimize(problem, method=DualAscent(), tol=1e-12)
    >>> result.success, result.x.round(6)
    (True, array([ 0.666667, -1.      ]))

    References
    ----------
    .. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent method for
       large-scale linear SVM", ICML 2008.
    .. [2] J. J. More, G. Toraldo, "On the solution of large quadratic programming problems with bound constraints", SIAM J.
       Optim. 1 (1991).
    """

    epochs: Count = 5

    handles: ClassVar[frozenset[str]] = frozenset({"nonsmooth"})
    patience: ClassVar[None] = None
    falls_steadily: ClassVar[bool] = False  # the optimality, which the last faces bring down at once
    default_sampling: ClassVar[str] = "cyclic"  # whose first component seeds the sweeps' own orders

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem has a loss without corners, or no l2 penalty."""
        return refusal_without_corners(DualAscent.name, problem, (Cornered, RoundedCorner))

    def blas_threads(self, problem: Problem) -> int | None:
        return 1

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> DualAscentState:
        """Return the state before the first sweep: slopes 0, or from another start than 0 those of its subgradient."""
        u, w, slopes = problem.offsets, x0.copy(), np.zeros(problem.n_rows)
        if x0.any():
            u = predictions(problem, x0) + problem.offsets
            slopes = loss_of(problem).d1(u, problem.targets)
            w = point_of(problem, slopes, float(x0[-1]))
        none, value = np.zeros(0, dtype=np.int64), value_at(problem, x0, u)
        distance = float(problem.weights @ np.abs(u - loss_of(problem).corners(problem.targets)[0][2]))
        first = FIRST * distance if 0.0 < distance < math.inf else FIRST
        known = math.inf, first, math.inf, value, -math.inf, math.inf, np.zeros(problem.dim), tol
        rest: Any = 0, 0, 0, 0.0, 0, none, ConjugateGradients(), problem.n_components, 0
        return DualAscentState(x0.copy(), w, slopes, _used(problem), *known, *rest)

    def template(self, problem: Problem, first: DualAscentState, state: DualAscentState) -> DualAscentState:
        for name in ("face", "active"):
            require_members(name, getattr(state, name), problem.n_rows, is_sorted=True)
        if not np.isfinite(state.slopes).all():
            raise ValueError("slopes must be finite")
        active, face = (np.zeros(size, dtype=np.int64) for size in (state.active.size, state.face.size))
        return first._replace(active=active, face=face, cg=ConjugateGradients(*np.zeros((3, face.size))))

    def run_pass(self, problem: Problem, state: DualAscentState, order: Indices) -> DualAscentState:
        """Return the state after sweeps, after products on a face, or at the end of a round."""
        state = state._replace(x=state.x.copy())  # another one for whoever measures: the bound is another
        if state.face.size == 0:
            return _after_sweeps(problem, state, order, self.epochs)
        state, is_solved = _after_products(problem, state)
        if not is_solved:
            return state
        is_exact, state = not state.cg.size > LEFT * state.cg.start, _stepped(problem, state)
        state = state._replace(
            n_sweeps=0, n_faces=state.n_faces + 1, face=np.zeros(0, dtype=np.int64), cg=ConjugateGradients()
        )
        return _after_round(problem, state) if is_exact and state.length == 1.0 else state

    def is_about_to_end(self, problem: Problem, state: DualAscentState) -> bool:
        """Return whether few faces are likely to be left: rows at rounded corners that do not depend linearly."""
        return isinstance(problem.loss, RoundedCorner) and count_at_corners(problem, state.slopes) <= problem.dim

    def estimate(self, problem: Problem, state: DualAscentState) -> float:
        """Return the duality gap or the gradient's norm at x, as it was at the end of the last round."""
        return state.optimality

    def exact_measures(self, problem: Problem, state: DualAscentState) -> Measures | None:
        """Return what the end of the round that led to x found there; with sharp corners where that meets tol."""
        if state.optimality == math.inf:
            return None
        if not isinstance(problem.loss, Cornered):
            return Measures(state.value, state.optimality, state.gradient.copy())
        return measures_within(problem, state.x, state.bound, state.tol) if state.optimality <= state.tol else None

    def bound(self, problem: Problem, state: DualAscentState) -> float:
        """Return the bound of the minimum that the slopes have made so far."""
        return state.bound


def _rows_with(problem: Problem, n_numbers: float) -> int:
    """Return how many rows store this many numbers."""
    return int(n_numbers / max(n_entries(problem.rows), 1) * problem.n_rows)


def _rows_a_pass(problem: Problem) -> int:
    """Return how many rows a pass may read: all, and more where these take no time."""
    return max(problem.n_rows, _rows_with(problem, NUMBERS_OF_A_PASS))


def _after_sweeps(problem: Problem, state: DualAscentState, order: Indices, epochs: int) -> DualAscentState:
    """Return the state after sweeps, at the end of a round, or with conjugate gradients begun."""
    view, terms, w, slopes = problem.view_of_rows, terms_of(problem), state.w.copy(), state.slopes.copy()
    active, n_together = state.active.copy(), rows_together(problem)
    places = np.empty(active.size // n_together + 1, dtype=np.int64)
    draws = np.random.default_rng([int(order[0]), state.n_rounds, state.n_parts]).random(places.size)
    last = state.violation if state.violation > 0.0 else math.inf
    small = SEEN_OF_TOL * state.tol if isinstance(problem.loss, Cornered) else -math.inf
    accuracy = state.accuracy, state.loose, small
    visits = _rows_with(problem, OF_CALL), _rows_a_pass(problem)
    limits = last, accuracy, epochs - state.n_sweeps, visits
    found = sweep(view, draws, w, slopes, (active, places, n_together), tuple(terms), limits)
    n_active, violation, is_accurate, n_sweeps, n_visits = found
    state = state._replace(
        w=w,
        slopes=slopes,
        active=active[:n_active].copy(),
        violation=violation,
        n_sweeps=state.n_sweeps + n_sweeps,
        n_parts=state.n_parts + max(PARTS * n_visits // problem.n_rows, 1),
        n_gradients=state.n_gradients + -(-n_visits // (problem.batch_size or 1)),
    )
    if is_accurate or n_active == 0 or state.n_parts >= PARTS * MOST_PASSES:
        return _after_round(problem, state)
    if state.n_sweeps < epochs:
        return state
    face, right = np.empty(n_active, dtype=np.int64), np.empty(n_active)
    size = find_face(view, state.active, w, slopes, face, right)
    if size == 0:
        return state._replace(n_sweeps=0)
    face, right = face[:size].copy(), right[:size]
    metric = terms.couplings[face] + loss_of(problem).corner_width() / problem.weights[face]
    return state._replace(face=face, cg=begun(right, right / metric))


def _after_products(problem: Problem, state: DualAscentState) -> tuple[DualAscentState, bool]:
    """Return the state after products with a face that read as many rows as a pass may, and whether they are the last."""
    face, cg, most = state.face, state.cg, 2 * state.face.size
    if state.length < 1.0:  # the face may be another one
        few = FEW_PRODUCTS if face.size <= problem.dim else FEWEST_PRODUCTS
        most = int(min(most, few * GROWTH**state.n_faces))
    run = cg.solution.copy(), cg.residual.copy(), cg.direction.copy()
    limits, sizes = (most - cg.n_products, _rows_a_pass(problem)), (cg.size, LEFT * cg.start)
    found = advance(problem.view_of_rows, face, state.slopes, run, sizes, tuple(terms_of(problem)), limits)
    size, n_products, is_over = found
    cg = ConjugateGradients(*run, size, cg.start, cg.n_products + n_products, is_over)
    n_gradients = state.n_gradients + -(-n_products * face.size // (problem.batch_size or 1))
    before, now = (PARTS * n * face.size // (OF_PRODUCTS * problem.n_rows) for n in (state.cg.n_products, cg.n_products))
    n_parts = state.n_parts + now - before
    return state._replace(cg=cg, n_gradients=n_gradients, n_parts=n_parts), is_over


def _stepped(problem: Problem, state: DualAscentState) -> DualAscentState:
    """Return the state after a step to the solution on its face, as far as the dual function rises."""
    w, slopes, terms = state.w.copy(), state.slopes.copy(), tuple(terms_of(problem))
    length, n_inside = take_step(problem.view_of_rows, state.face, state.cg.solution, w, slopes, terms, SHORTEST)
    return state._replace(w=w, slopes=slopes, length=length * n_inside / state.face.size)


def _after_round(problem: Problem, state: DualAscentState) -> DualAscentState:
    """Return the state at the end of a round: w made of the slopes, the gap there, and rows resting by what was found."""
    is_near = isinstance(problem.loss, RoundedCorner) and DRIFT * problem.term.ridge * norm(state.w) <= state.tol
    w = state.w if is_near else point_of(problem, state.slopes, float(state.w[-1]))
    slopes, u = state.slopes, predictions(problem, w) + problem.offsets
    if isinstance(problem.loss, Cornered):
        n_read = state.n_gradients * (problem.batch_size or 1) * n_entries(problem.rows) / problem.n_rows
        slopes, w, u = solved_at_corners(problem, slopes, w, u, OF_FACTOR * (0.5 * NUMBERS_OF_A_PASS + OF_READ * n_read))
    w, u = with_best_intercept(problem, w, u)
    value, bound, optimality, end = value_at(problem, w, u), -math.inf, state.optimality, w
    better, gradient = value < state.value, state.gradient
    if isinstance(problem.loss, Cornered):
        bound = max(state.bound, slopes_bound(problem, slopes, w))
        if not min(value, state.value) - bound <= state.tol:
            scaled, there = with_best_factor(problem, w, u)
            if (less := value_at(problem, scaled, there)) < value:
                value, end = less, scaled
        better, optimality = value < state.value, max(min(value, state.value) - bound, 0.0)
    elif is_enough(state.value, value, 0.0, problem.n_rows):  # F loses its digits before its gradient does
        there = combination(problem, problem.weights * loss_of(problem).d1(u, problem.targets))
        problem.term.add_to(there, w)
        found = problem.term.optimality(w, there)
        better = found < optimality or value < state.value - rounding_of(state.value, problem.n_rows)
        optimality, gradient = (found, there) if better else (optimality, gradient)
    active, violation = _used(problem), math.inf
    if state.n_parts < PARTS * MOST_PASSES:
        active = np.empty(problem.n_rows, dtype=np.int64)
        n_active, violation = find_active(problem.view_of_rows, u, slopes, active)
        active = active[:n_active].copy()
    found_there = violation if violation > 0.0 else math.inf
    closer = min(max(OF_TOL * state.tol / optimality, LEAST_OF_LAST), MOST_OF_LAST) if optimality > 0.0 else 1.0
    return state._replace(
        x=end.copy() if better else state.x,
        w=w,
        slopes=slopes,
        active=active,
        violation=violation,
        accuracy=closer * min(state.accuracy, found_there),
        loose=MOST_OF_LAST * min(state.loose, found_there),
        value=min(value, state.value),
        bound=bound,
        optimality=optimality,
        gradient=gradient,
        n_sweeps=0,
        n_parts=0,
        n_faces=0,
        n_rounds=state.n_rounds + 1,
        n_gradients=state.n_gradients + problem.n_components * (1 + (slopes is not state.slopes)),
    )
