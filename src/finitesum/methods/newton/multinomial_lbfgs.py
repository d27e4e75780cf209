r"""L-BFGS for several outputs (classes or targets), with the Kronecker factors of a Hessian, or it, as its preconditioner.

At w, with g the gradient of F, a step is w+ = w - t B g, with B the inverse that L-BFGS makes of the last pairs of a step
and a change of the gradient [1], and of the inverse of

    M = C (x) G + l2 I,    G = sum_i c_i x_i x_i' / sum_i c_i,    C = sum_i p_i C_i,    c_i = p_i trace(C_i)

to begin with: the Hessian is sum_i p_i C_i (x) x_i x_i' + l2 I, with C_i the second derivative of row i's loss in its K
scores, so that M is exact where all C_i are alike. With the eigenvectors of both factors a product with M^-1 takes
K d (K + d) multiplications. M is made at the start, from 8 d rows at most, and once more after some steps where C has
changed much. Where columns of dense rows hardly depend on each other, it has the diagonal of G for as many steps as the
factors would cost passes. Where its factors cost more than many passes, a multiple of the identity takes its place, and for
dense rows, once the steps that are left cost several times as much, one with a G of low rank
(`finitesum.methods.newton.kronecker_factors`). Where steps become many, the Hessian of classes takes the place of both
(`finitesum.methods.newton.class_factor`).

t is 1 where that brings F down enough and leaves 0.8 of the slope at most, and is searched for otherwise, until it brings F
down and leaves half: trials cost no data, because the scores are linear in t and those of both ends known. A step reads the
data once, or twice after a search.

Many sparse rows begin with epochs of dual coordinate ascent (`finitesum.methods.newton.class_ascent`), where there is an
l2 penalty; they may have a copy by columns (`finitesum.evaluation.sparse_outputs`). Many dense rows are read in single
precision at first, until its rounding errors show in the gradient: products take half of the time, and the steps that
remain start from there.

References
----------
.. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006, section 7.2.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.rounding import extended_gradient, is_confirmed
from finitesum.evaluation.row_blocks import sum_over_problems
from finitesum.evaluation.row_products import mean_square
from finitesum.losses.classes import weighted
from finitesum.methods.base import SumMethod
from finitesum.methods.class_costs import is_whole_cheap, order_of_factor, steps_before_whole
from finitesum.methods.cost_model import threads_for_classes
from finitesum.methods.newton.class_ascent import ClassAscent, first_ascent, next_epoch
from finitesum.methods.newton.class_factor import ClassFactor, divided, factor_at, rows_wanted, steps_left, with_size
from finitesum.methods.newton.kronecker_factors import (
    RANK_PASSES,
    KroneckerFactors,
    diagonal_factors,
    has_changed,
    low_rank_factors,
    rank_that_pays,
    solved,
    whole_factors,
)
from finitesum.methods.newton.multinomial_newton import kept_mean
from finitesum.methods.subproblems.lbfgs import Pairs, no_pairs, solve, with_pair
from finitesum.methods.subproblems.line_search import EPSILON, Trial, between, is_enough, rounding_of
from finitesum.problems.beside import empty_by_row
from finitesum.problems.linear import Problem

#: Steps before which the Kronecker product is made: the first, and others where the trace of C is `CHANGED` times as large
#: or small as it was; and those before which one of low rank is made again, by the same rule.
MADE_AT, LOW_RANK_AT, CHANGED = (0, 3), (8, 20, 50, 125, 300), 3.0

#: Steps that are left, for each pass that a product of low rank costs, from which it pays.
STEPS_FOR_EACH = 4.0

#: Variables above which pairs are kept in single precision.
MOST_DOUBLE = 200_000

#: Pairs that are kept, at least and at most: as many as take a small part of the time of a read of the data.
FEWEST_PAIRS, MOST_PAIRS = 8, 60

#: The largest slope at the end of a whole step, and of one that is searched for, by the first; trials for it at most.
FINE_CHANGE, LEAST_CHANGE, MOST_TRIALS = 0.8, 0.5, 20

#: Rows by which rounding errors of F in single precision grow, at most: sums go pair by pair.
MOST_SINGLE = 8192

#: The part of F, behind what rounding may do, that a search overlooks where no trial brings F down.
OVERLOOKED = 1e-7

#: A gradient's size, by the rounding errors of one of its terms and sqrt(n), that may be due to them.
ROUNDED = 4.0


class State(NamedTuple):
    x: Vector  # (K dim,)
    gradient: Vector
    objective: float
    scores: Matrix  # (n, K)  in the precision in which they were found; empty in an epoch
    pairs: Pairs
    kronecker: KroneckerFactors
    is_single: bool  # products are in single precision
    ascent: ClassAscent  # empty once its epochs are over
    factor: ClassFactor
    tol: float  # the optimality asked for, by which a factor pays
    n_steps: int
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class MultinomialLBFGS(SumMethod):
    """L-BFGS for linear models with several outputs: classes, or targets of the squared loss.

    w+ = w - t B grad F(w)

    with B from the last steps, 8 to 60, and a preconditioner: the inverse of the Kronecker product of two matrices of
    shape (K, K) and (d, d), or of a Hessian.

    Parameters
    ----------
    preconditioner : {"auto", "kronecker", "diagonal", "low-rank", "hessian", "none"}
        "auto" takes the Kronecker product where its factors cost less than 100 passes, for dense rows whose columns
        hardly depend on each other one with a diagonal for as many steps, or else for dense rows one of low rank once
        it pays, and for classes the Hessian of some or all rows once it pays, by the rate of the last steps; "hessian"
        takes that of all rows at steps 0 and 3.

    Examples
    --------
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[0.0], [1.0], [2.0]], ["a", "b", "c"], loss="multinomial", alpha=0.1)
    >>> result = minimize(problem, method=MultinomialLBFGS(), tol=1e-10)
    >>> result.success, result.x.round(6)
    (True, array([-0.757493,  0.182097,  0.575396]))
    """

    preconditioner: Literal["auto", "kronecker", "diagonal", "low-rank", "hessian", "none"] = "auto"

    handles: ClassVar[frozenset[str]] = frozenset({"outputs", "parts"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 50

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem has one output."""
        if problem.n_outputs > 1:
            return ""
        return 'multinomial-lbfgs needs several outputs, got one. Use method="newton-cg".'

    def blas_threads(self, problem: Problem) -> int | None:
        return threads_for_classes(problem)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> State:
        """Return the state before the first step: scores and gradient at the start."""
        pairs = no_pairs(problem.dim, np.float32 if problem.dim > MOST_DOUBLE else np.float64)
        is_single = several.has_single_rows(problem)
        ascent = first_ascent(problem, x0)
        nothing = np.zeros(problem.dim), 0.0, np.zeros((0, 0)), pairs, KroneckerFactors()
        state = State(x0.copy(), *nothing, is_single, ascent, ClassFactor(), tol, 0, 0, 0)
        return state if ascent.chances.size else state_at(problem, state)

    def template(self, problem: Problem, first: State, state: State) -> State:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        n_pairs = min(len(state.pairs.steps), _memory(problem))
        pairs = Pairs(*(np.zeros((n_pairs, problem.dim), kept.dtype) for kept in first.pairs))
        dim, n_outputs, kronecker, ascent = problem.rows.dim(), problem.n_outputs, KroneckerFactors(), ClassAscent()
        if state.kronecker.values.size:
            n_vectors = min(state.kronecker.values.shape[-1], dim) if state.kronecker.of_columns.size else 0
            rank = n_vectors or dim
            of_columns = np.zeros((dim, n_vectors), _float_of(state.kronecker.of_columns))
            small = np.zeros((n_outputs, n_outputs)), of_columns, np.zeros((n_outputs, rank)), np.zeros(n_outputs)
            kronecker = KroneckerFactors(*small)
        if state.ascent.chances.size:
            ascent = ClassAscent(np.zeros((problem.n_rows, n_outputs)), np.zeros(state.ascent.gaps.size))
        order = min(state.factor.lower.shape[0], order_of_factor(problem))
        factor = ClassFactor(np.zeros((order, order), _float_of(state.factor.lower) if order else np.float32, "F"))
        shape = (0, 0) if state.ascent.chances.size else (problem.n_rows, n_outputs)
        scores = np.zeros(shape, np.float32 if state.is_single and shape[0] else np.float64)
        return first._replace(pairs=pairs, kronecker=kronecker, ascent=ascent, factor=factor, scores=scores)

    def run_pass(self, problem: Problem, state: State, order: Indices) -> State:
        """Return the state after a step, or an epoch; the last epoch takes a pass more."""
        if state.ascent.chances.size:
            x, ascent = next_epoch(problem, state.x, state.ascent, state.tol)
            state = state._replace(x=x, ascent=ascent, n_gradients=state.n_gradients + problem.n_components)
            return state if ascent.chances.size else state_at(problem, state)
        state, direction = self.directed(problem, state)
        return stepped(problem, state, direction)

    def directed(self, problem: Problem, state: State) -> tuple[State, Vector]:
        """Return the state with the preconditioner of the next step, and that step's direction."""
        known = self._new_factors(problem, state)
        state = state if known is None else state._replace(kronecker=known)
        n_wanted = self._rows_wanted(problem, state)
        if n_wanted:
            factor, n_rows = factor_at(problem, state.scores.astype(np.float64, copy=False), n_wanted)
            pairs = no_pairs(problem.dim, state.pairs.steps.dtype)
            state = state._replace(factor=factor, pairs=pairs, n_hessians=state.n_hessians + n_rows)
        state = state._replace(factor=with_size(state.factor, float(np.linalg.norm(state.gradient))))
        right = state.gradient.astype(state.pairs.steps.dtype, copy=False)
        direction = -solve(state.pairs, lambda left: _preconditioned(problem, state, left), right).astype(np.float64)
        return state, kept_mean(problem, direction)

    def estimate(self, problem: Problem, state: State) -> float:
        """Return the optimality at the end of the last step, up to rounding errors of single precision; NaN in an epoch.

        A number above tol is returned where a step more costs less than the confirmation in extended precision.
        """
        size = math.nan if state.ascent.chances.size else float(np.linalg.norm(state.gradient))
        if 0.5 * state.tol < size <= state.tol and (known := self.exact_measures(problem, state)) is not None:
            is_small = is_confirmed(problem, state.x, known._replace(optimality=0.0), 0.5 * state.tol)
            if is_small and not is_confirmed(problem, state.x, known, state.tol):
                return math.nextafter(state.tol, math.inf)
        return size

    def exact_measures(self, problem: Problem, state: State) -> Measures | None:
        """Return what the last step found at its end; None where that was in single precision, or an epoch."""
        if state.is_single or state.ascent.chances.size:
            return None
        return Measures(state.objective, float(np.linalg.norm(state.gradient)), state.gradient.copy())

    def _rows_wanted(self, problem: Problem, state: State) -> int:
        if self.preconditioner == "hessian" and several.loss_of(problem).ignores_shifts():
            return problem.n_rows if state.n_steps in MADE_AT else 0
        if self.preconditioner == "auto":
            n_passes = state.n_gradients / problem.n_components
            return rows_wanted(problem, state.factor, state.tol, n_passes, is_single=state.is_single)
        return 0

    def _new_factors(self, problem: Problem, state: State) -> KroneckerFactors | None:
        """Return the Kronecker product that is made before the next step; None where that stays as it is."""
        kind: str = self.preconditioner
        step = state.n_steps
        if kind == "hessian" and not several.loss_of(problem).ignores_shifts():
            kind = "kronecker"  # a Hessian that is the same for all rows is that
        if kind == "auto":
            kind = _kind_at(problem, step)
        if kind == "low-rank":
            return _low_rank_again(problem, state, is_sure=self.preconditioner == kind)
        is_due = step in MADE_AT or (kind == "kronecker" and self.preconditioner == "auto")
        is_again = step == MADE_AT[-1] and state.kronecker.values.size > 0
        if kind == "none" or not is_due or (is_again and not has_changed(problem, state.kronecker, state.scores, CHANGED)):
            return None
        return (whole_factors if kind == "kronecker" else diagonal_factors)(problem, state.scores)


def _kind_at(problem: Problem, step: int) -> str:
    """Return which Kronecker product suits a problem before a step; "none" where a known one stays."""
    n_before, is_cheap = steps_before_whole(problem), is_whole_cheap(problem)
    if step < n_before:
        return "diagonal"
    if not is_cheap:
        return "none" if n_before > 0 else "low-rank"
    return "kronecker" if step in ((n_before,) if n_before > 0 else MADE_AT) else "none"


def _low_rank_again(problem: Problem, state: State, *, is_sure: bool) -> KroneckerFactors | None:
    """Return a product of low rank where one is due, and pays: the first at step 0, if sure, or once many are left."""
    if is_sure and state.n_steps == 0:
        is_due = True
    elif state.kronecker.values.size:
        is_due = state.n_steps in LOW_RANK_AT and has_changed(problem, state.kronecker, state.scores, CHANGED)
    else:
        is_due = not is_sure and steps_left(state.factor, state.tol) > STEPS_FOR_EACH * RANK_PASSES
    rank = rank_that_pays(problem) if is_due else 0
    return low_rank_factors(problem, state.scores, rank) if rank else None


def _float_of(array: Matrix) -> Any:
    """Return single precision where an array has it, else double."""
    return np.float32 if array.dtype == np.float32 else np.float64


def _memory(problem: Problem) -> int:
    """Return how many pairs are kept."""
    return min(max(int(problem.rows.values.size) // (8 * problem.dim), FEWEST_PAIRS), MOST_PAIRS)


def state_at(problem: Problem, state: State) -> State:
    """Return a state with the gradient and the objective of its iterate: a pass, or two where single precision ends.

    A gradient that may be little more than rounding errors is summed in a higher precision.
    """
    w, counts = state.x, state.n_gradients + problem.n_components
    kind = np.float32 if state.is_single else np.float64
    scores = empty_by_row(problem, kind, problem.n_outputs)
    mean, gradient = several.measure(problem, w, is_single=state.is_single, scores=scores)
    gradient += problem.term.quadratic * w
    noise = _noise(problem, mean, kind)
    if float(np.linalg.norm(gradient)) <= noise:
        if state.is_single:
            return state_at(problem, state._replace(is_single=False, n_gradients=counts))
        gradient = extended_gradient(problem, w)[0].astype(np.float64)
    objective = mean + problem.term.value(w)
    return state._replace(gradient=gradient, objective=objective, scores=scores, n_gradients=counts)


def _noise(problem: Problem, mean: float, kind: type[np.floating[Any]]) -> float:
    """Return the size of a gradient that may be due to rounding errors alone."""
    size = math.sqrt(several.loss_of(problem).curvature_bound() * max(mean, 0.0))  # of slopes, on average
    of_rows = math.sqrt(mean_square(problem.one_output) + 1.0)
    return float(ROUNDED * np.finfo(kind).eps * size * of_rows)


def _preconditioned(problem: Problem, state: State, right: Vector) -> Vector:
    """Return M^-1 times a vector, with M multiplied by the number that the last pair shows; M = I without factors."""
    if state.factor.lower.size:  # a Hessian, which needs no multiple
        return divided(problem, state.factor, right)
    if not len(state.pairs.steps):
        is_scaled = state.kronecker.values.size > 0
        return solved(state.kronecker, right) if is_scaled else right / max(float(np.abs(right).sum()), 1e-300)
    step, change = state.pairs.steps[-1], state.pairs.changes[-1]
    found, of_change = solved(state.kronecker, np.stack([right, change]))
    return np.asarray(found * float((step @ change) / (change @ of_change)), right.dtype)


def stepped(problem: Problem, state: State, direction: Vector) -> State:
    """Return the state after a step along the direction; where it leads nowhere, without a step and what led there."""
    first = float(state.gradient @ direction)
    new = state_at(problem, state._replace(x=state.x + direction))
    if not _is_fine(problem, state, new, direction, first):
        spent = state._replace(n_gradients=new.n_gradients, is_single=new.is_single)
        t = _length(problem, state, new, direction, first) if first < 0.0 else 0.0
        if not t > 0.0:
            return state_at(problem, _without_metric(problem, spent))
        new = state_at(problem, spent._replace(x=state.x + t * direction))
    kind, most = state.pairs.steps.dtype, _memory(problem)
    step, change = (new.x - state.x).astype(kind), (new.gradient - state.gradient).astype(kind)
    return new._replace(pairs=with_pair(state.pairs, step, change, most), n_steps=state.n_steps + 1)


def _without_metric(problem: Problem, state: State) -> State:
    """Return the state without its pairs; without factors, too, where there were none, so that no step is tried twice."""
    if not len(state.pairs.steps):
        state = state._replace(factor=ClassFactor(), kronecker=KroneckerFactors())
    return state._replace(pairs=no_pairs(problem.dim, state.pairs.steps.dtype))


def _is_fine(problem: Problem, state: State, new: State, direction: Vector, first: float) -> bool:
    """Return whether a whole step brings F down enough and changes the slope enough."""
    is_gentle = abs(float(new.gradient @ direction)) <= FINE_CHANGE * -first
    return is_gentle and _is_down(problem, state, new.objective, first)


def _is_down(problem: Problem, state: State, objective: float, predicted: float) -> bool:
    """Return whether F came down by a fraction of what was predicted, up to the rounding errors of the scores.

    Losses of classes grow as a line behind their minimum, and slopes there are gentle, wherever a step ends.
    """
    return is_enough(state.objective, objective, predicted, _n_terms(problem, state))


def _n_terms(problem: Problem, state: State) -> float:
    """Return of how many terms a sum in double precision has the rounding errors that F has, by its scores."""
    if state.scores.dtype == np.float64:
        return problem.n_rows
    return min(problem.n_rows, MOST_SINGLE) * float(np.finfo(state.scores.dtype).eps) / EPSILON


def _length(problem: Problem, state: State, whole: State, direction: Vector, first: float) -> float:
    """Return t > 0 that leaves half of the slope at most and brings F down, 0 where there is none. It seldom reads data.

    Where rounding errors hide what F falls by, t may be one at which F is a little higher, by `OVERLOOKED` of it at most.
    """
    precision, changes = np.finfo(whole.scores.dtype).eps, empty_by_row(problem, np.float64, problem.n_outputs)

    def change(_part: Problem, here: Matrix, there: Matrix, changed: Matrix) -> tuple[float, float]:
        np.subtract(there, here, out=changed, dtype=np.float64)
        return float(np.linalg.norm(changed)) ** 2, float(np.linalg.norm(here)) ** 2

    with np.errstate(all="ignore"):
        moved, size = sum_over_problems(change, problem, reads=(state.scores, whole.scores), writes=(changes,))
    if not moved > precision * size:  # rounding leaves little of them
        changes = several.score_changes(problem, direction)
    quadratic, term = problem.term.quadratic, problem.term.value(state.x)
    linear, square = float((quadratic * state.x) @ direction), float((quadratic * direction) @ direction)

    def at(t: float) -> Trial:
        def of_part(part: Problem, here: Matrix, changed: Matrix) -> tuple[float, float]:
            scores = here.astype(np.float64, copy=False) + t * changed
            values, slopes = several.loss_of(part).value_d1(scores, part.targets)
            slope = np.einsum("ik,ik->", weighted(slopes, part.weights), changed)
            return float(weighted(values, part.weights).sum()), float(slope)

        with np.errstate(all="ignore"):
            value, slope = sum_over_problems(of_part, problem, reads=(state.scores, changes))
        return Trial(t, value + term + t * (linear + 0.5 * t * square), slope + linear + t * square)

    rounding = rounding_of(state.objective, _n_terms(problem, state))
    low, high = Trial(0.0, state.objective, first), Trial(math.inf, math.inf, math.inf)
    nearest, t = low._replace(value=state.objective + rounding + OVERLOOKED * abs(state.objective)), 1.0
    for _ in range(MOST_TRIALS):
        here = at(t)
        is_gentle = abs(here.slope) <= LEAST_CHANGE * -first
        if is_gentle and _is_down(problem, state, here.value, t * first):
            return t
        nearest = here if is_gentle and here.value < nearest.value else nearest
        if here.slope < 0.0:
            low = here
        else:  # NaN, too
            high = here
        t = 4.0 * t if high.t == math.inf else between(low, high, rounding)
    return low.t or nearest.t
