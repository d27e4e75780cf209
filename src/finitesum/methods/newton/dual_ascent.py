"""Dual coordinate ascent for the hinge loss with an l2 penalty, ended by conjugate gradients on the free dual variables.

With loads l_i = c_i a_i, c_i = scale p_i, margins m_i = y_i (x_i'w + b + o_i) and w = (1/l2) sum_i l_i y_i x_i the dual of
min l2/2 ||w||^2 + sum_i c_i max(0, 1 - m_i) is ::

    max  sum_i (1 - y_i o_i) l_i - 1/(2 l2) ||sum_i l_i y_i x_i||^2    over  0 <= l_i <= c_i,    sum_i l_i y_i = 0

(the last only with an intercept); the slope of minus this in l_i is m_i - 1. A round has three parts:

1. *Epochs* [1]. A row is visited by moving its load to the best value in [0, c_i], l_i - l2 (m_i - 1) / ||x_i||^2 before it
   is clipped, and w with it. Rows at a bound whose slope points outwards by more than any slope of the epoch before rest
   until the end of the round. An intercept is held by mu/2 (b - b_0)^2, where b_0 becomes b before each round.
2. *A face*. The loads strictly between their bounds (mostly few, soon always the same) have slope 0 at the optimum: a
   linear system in the gram matrix of their rows, which conjugate gradients solve in products with these rows alone, until
   a change is larger than its load's interval. The step is taken as far as the dual function rises along it, loads clipped
   to their bounds [2].
3. *The gap*. All margins are computed, and w from the loads, so that errors do not add up, with the best intercept for it;
   the loads bound the minimum from below. The iterate is the best w so far.

Once the face is the optimum's a round ends there, whatever the condition. A pass is an epoch, or products that read as many
rows, or the end of a round. Memory: d and some 4n numbers, and 5 for each row of the face.

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
from finitesum.core.jit import kernel
from finitesum.evaluation.certificates import Minorant, dual_minorant, hinge_scale, lower_bound
from finitesum.evaluation.row_products import combination, predictions, squares_of_rows
from finitesum.losses import Hinge
from finitesum.methods.base import SumMethod
from finitesum.methods.parameters import Count
from finitesum.methods.subproblems.conjugate_gradients import ConjugateGradients, advanced, begun, redirected
from finitesum.problems.linear import Problem, View, first_row, last_row, remembered

#: An intercept is held so much more than coefficients are, as a row sees it.
HOLD = 3.0

#: Products on a face that may be made whatever they cost; others read the rows so many times at most.
FEW_PRODUCTS, MOST_READ = 10, 20

#: The fraction of a face's residual, squared, that is left; and the shortest step along its solution.
LEFT, SHORTEST = 1e-4, 1e-3


class DualAscentState(NamedTuple):
    x: Vector  # the best iterate so far
    w: Vector  # that of the loads, and the intercept
    loads: Vector  # (n,)  l_i
    rests: Any  # (n,) of bool: at a bound, and not visited in this round
    low: float  # slopes of the last epoch at bounds, the least and the largest
    high: float
    value: float  # F at x
    bound: float  # of the minimum
    n_epochs: int  # of this round
    n_rounds: int
    length: float  # of the last step on a face
    face: Indices  # rows whose loads are free, while conjugate gradients run
    cg: ConjugateGradients
    n_gradients: int
    n_hessians: int


@kernel
def _epoch(
    view: View, order: Indices, state_w: Vector, loads: Vector, rests: Any, terms: Any, limits: tuple[float, float]
) -> tuple[float, float, int]:
    """Visit the rows of some components that do not rest; return the least and the largest slope met, and how many rows.

    The terms are c_i, ||x_i||^2 / l2 + 1 / mu, l2 and mu.
    """
    costs, couplings, ridge, hold = terms
    rows, low, high, n_visits = view.rows, 0.0, 0.0, 0
    for component in order:
        for i in range(first_row(view, component), last_row(view, component)):
            cost, load = costs[i], loads[i]
            if rests[i] or not cost > 0.0:
                continue
            n_visits += 1
            sign = view.targets[i]
            slope = sign * (rows.dot(i, state_w) + view.offsets[i]) - 1.0
            if (load == 0.0 and slope > limits[1]) or (load == cost and slope < limits[0]):
                rests[i] = True
                continue
            if (load == 0.0 and slope > 0.0) or (load == cost and slope < 0.0):
                continue
            low, high = min(low, slope), max(high, slope)
            target = load - slope / couplings[i] if couplings[i] > 0.0 else (cost if slope < 0.0 else 0.0)
            loads[i] = min(max(target, 0.0), cost)
            change = sign * (loads[i] - load)
            if change != 0.0:
                last = state_w[-1]
                rows.add_to(i, change / ridge, state_w)
                if rows.intercept:  # it is held by another strength
                    state_w[-1] = last + change / hold
    return low, high, n_visits


class _Terms(NamedTuple):
    """What does not change in a run."""

    costs: Vector  # c_i
    couplings: Vector  # ||x_i||^2 / l2 + 1 / mu
    ridge: float  # l2
    hold: float  # mu, infinite without an intercept


@remembered
def _terms(problem: Problem) -> _Terms:
    squares, ridge = squares_of_rows(problem), problem.term.ridge
    mean = float(problem.weights @ squares) or 1.0
    hold = HOLD * ridge / mean if problem.has_intercept else math.inf
    return _Terms(hinge_scale(problem) * problem.weights, squares / ridge + 1.0 / hold, ridge, hold)


@dataclass(frozen=True)
class DualAscent(SumMethod):
    """Dual coordinate ascent for the hinge loss with an l2 penalty, with an exact end: for wide and for long data.

    l_i+ = clip(l_i - l2 (m_i - 1) / ||x_i||^2, 0, c_i),  w = (1/l2) sum_i l_i y_i x_i  [1]; then the free l_i together [2]

    Parameters
    ----------
    epochs : int >= 1
        Epochs of a round, between which the free loads are solved for together.

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

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem has another loss, or no l2 penalty."""
        if isinstance(problem.loss, Hinge) and problem.term.ridge > 0.0 and problem.n_outputs == 1:
            return ""
        return f"dual-ascent needs the hinge loss with alpha > 0, got {problem.loss!r} with {problem.penalty!r}."

    def blas_threads(self, problem: Problem) -> int | None:
        return 1

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> DualAscentState:
        """Return the state before the first epoch: loads 0, or from another start than 0 those of its subgradient."""
        n, terms = problem.n_rows, _terms(problem)
        slopes = _slopes(problem, x0)
        loads = np.where(slopes < 0.0, terms.costs, 0.0) if x0.any() else np.zeros(n)
        w = _primal(problem, loads, float(x0[-1]))
        value = float(terms.costs @ np.maximum(-slopes, 0.0)) + problem.term.value(x0)
        rests, none = np.zeros(n, dtype=bool), np.zeros(0, dtype=np.int64)
        rest = (-math.inf, math.inf, value, 0.0, 0, 0, 1.0, none, ConjugateGradients(), problem.n_components, 0)
        return DualAscentState(x0.copy(), w, loads, rests, *rest)

    def template(self, problem: Problem, first: DualAscentState, state: DualAscentState) -> DualAscentState:
        face = state.face
        if face.size and not (face.ndim == 1 and (np.diff(face) > 0).all() and face[0] >= 0 and face[-1] < problem.n_rows):
            raise ValueError("face must hold increasing numbers of rows")
        return first._replace(face=face, cg=ConjugateGradients(*np.zeros((3, face.size))))

    def run_pass(self, problem: Problem, state: DualAscentState, order: Indices) -> DualAscentState:
        """Return the state after an epoch, after products on a face, or at the end of a round."""
        state = state._replace(x=state.x.copy())  # another one for whoever measures: the bound is another
        if state.face.size == 0:
            return _after_epoch(problem, state, order, self.epochs)
        state, is_solved = _after_products(problem, state)
        return _after_round(problem, _stepped(problem, state)) if is_solved else state

    def estimate(self, problem: Problem, state: DualAscentState) -> float:
        """Return the duality gap at x, as it was at the end of the last round."""
        return max(state.value - state.bound, 0.0)

    def minorant(self, problem: Problem, state: DualAscentState) -> Minorant:
        """Return the minorant of the mean loss that the loads make."""
        return _minorant(problem, state.loads, state.x)


def _slopes(problem: Problem, w: Vector, face: Indices | None = None) -> Vector:
    """Return m_i - 1 of all rows, or of a face's."""
    some = slice(None) if face is None else face
    products = predictions(problem.by_rows, w, face)[some]
    return np.asarray(problem.targets[some] * (products + problem.offsets[some]) - 1.0)


def _pulled_back(problem: Problem, face: Indices, changes: Vector) -> Vector:
    """Return what some changes of a face's loads change w by: (1/l2) sum_i d_i y_i x_i, and (1/mu) sum_i d_i y_i for b."""
    terms, coefficients = _terms(problem), np.zeros(problem.n_rows)
    coefficients[face] = changes * problem.targets[face]
    change = combination(problem.by_rows, coefficients, face) / terms.ridge
    if problem.has_intercept:
        change[-1] *= terms.ridge / terms.hold
    return np.asarray(change)


def _primal(problem: Problem, loads: Vector, intercept: float) -> Vector:
    """Return w = (1/l2) sum_i l_i y_i x_i, with this intercept."""
    w = combination(problem, loads * problem.targets) / problem.term.ridge
    if problem.has_intercept:
        w[-1] = intercept
    return w


def _minorant(problem: Problem, loads: Vector, w: Vector) -> Minorant:
    costs = _terms(problem).costs
    return dual_minorant(problem, np.divide(loads, costs, out=np.zeros(loads.size), where=costs > 0.0), w)


def _after_epoch(problem: Problem, state: DualAscentState, order: Indices, epochs: int) -> DualAscentState:
    """Return the state after an epoch, with conjugate gradients begun after the last one of a round."""
    terms, w = _terms(problem), state.w.copy()
    loads, rests = state.loads.copy(), state.rests.copy()
    if problem.has_intercept and state.n_epochs == 0:
        w[-1] += float(problem.targets @ loads) / terms.hold  # b_0 becomes b
    limits = (state.low if state.low < 0.0 else -math.inf, state.high if state.high > 0.0 else math.inf)
    low, high, n_visits = _epoch(problem.view, order, w, loads, rests, tuple(terms), limits)
    state = state._replace(
        w=w,
        loads=loads,
        rests=rests,
        low=low,
        high=high,
        n_epochs=state.n_epochs + 1,
        n_gradients=state.n_gradients + -(-n_visits // (problem.batch_size or 1)),
    )
    if state.n_epochs < epochs:
        return state
    face = np.flatnonzero((loads > 0.0) & (loads < terms.costs) & (terms.couplings > 0.0))
    if face.size == 0:
        return _after_round(problem, state)
    right = -_slopes(problem, w, face)
    return state._replace(face=face, cg=begun(right, right / terms.couplings[face]))


def _product(problem: Problem, face: Indices, changes: Vector) -> Vector:
    """Return the change of the slopes of a face, of which the loads change."""
    change = _pulled_back(problem, face, changes)
    return np.asarray(problem.targets[face] * predictions(problem.by_rows, change, face)[face])


def _after_products(problem: Problem, state: DualAscentState) -> tuple[DualAscentState, bool]:
    """Return the state after products that read about as many rows as there are, and whether the face is solved."""
    face, cg, n_read = state.face, state.cg, 0
    costs = _terms(problem).costs[face]
    most = min(2 * face.size, max(FEW_PRODUCTS, MOST_READ * problem.n_rows // face.size))
    is_over: bool = not cg.size > LEFT * cg.start
    while not is_over and n_read < problem.n_rows:
        cg = advanced(cg, _product(problem, face, cg.direction))
        n_read += face.size
        is_over = cg.is_over or cg.n_products >= most or bool((np.abs(cg.solution) > costs).any())
        if not is_over:
            cg = redirected(cg, cg.residual / _terms(problem).couplings[face])
            is_over = not cg.size > LEFT * cg.start
    n_gradients = state.n_gradients + -(-n_read // (problem.batch_size or 1))
    return state._replace(cg=cg, n_gradients=n_gradients), is_over


def _stepped(problem: Problem, state: DualAscentState) -> DualAscentState:
    """Return the state after a step to the solution on its face, as far as the dual function rises."""
    terms, face, length = _terms(problem), state.face, 1.0
    before, slopes = state.loads[face], _slopes(problem, state.w, face)
    strengths = np.full(problem.dim, terms.ridge)
    strengths[problem.rows.n_columns :] = terms.hold
    while length >= SHORTEST:
        after = np.clip(before + length * state.cg.solution, 0.0, terms.costs[face])
        change = _pulled_back(problem, face, after - before)
        if slopes @ (after - before) + 0.5 * (strengths @ change**2) < 0.0:
            loads = state.loads.copy()
            loads[face] = after
            return state._replace(loads=loads, w=state.w + change, length=length)
        length *= 0.5
    return state._replace(length=0.0)


def _with_best_intercept(problem: Problem, w: Vector) -> Vector:
    """Return w with the intercept of the least loss: where the costs of rows that want more and less of it are the same.

    Of an interval of such intercepts it is the middle.
    """
    if not problem.has_intercept:
        return w
    costs, signs, w = _terms(problem).costs, problem.targets, w.copy()
    wanted = w[-1] - signs * _slopes(problem, w)  # where m_i = 1
    order = np.argsort(wanted)
    less, at_first = (np.cumsum(costs[order]), costs[signs > 0.0].sum())  # of rows that want less; more, at minus infinity
    ends = np.searchsorted(less, [(1.0 - 1e-12) * at_first, (1.0 + 1e-12) * at_first])
    w[-1] = wanted[order[np.minimum(ends, order.size - 1)]].mean()
    return w


def _after_round(problem: Problem, state: DualAscentState) -> DualAscentState:
    """Return the state at the end of a round: w made of the loads, the gap there, and no row resting."""
    w = _with_best_intercept(problem, _primal(problem, state.loads, float(state.w[-1])))
    value = float(_terms(problem).costs @ np.maximum(-_slopes(problem, w), 0.0)) + problem.term.value(w)
    better = value < state.value
    return state._replace(
        x=w.copy() if better else state.x,
        w=w,
        rests=np.zeros(state.rests.size, dtype=bool),
        low=-math.inf,
        high=math.inf,
        value=value if better else state.value,
        bound=max(state.bound, lower_bound(problem, _minorant(problem, state.loads, w))),
        n_epochs=0,
        n_rounds=state.n_rounds + 1,
        face=np.zeros(0, dtype=np.int64),
        cg=ConjugateGradients(),
        n_gradients=state.n_gradients + problem.n_components,
    )
