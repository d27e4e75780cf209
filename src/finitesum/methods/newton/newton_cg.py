"""Newton-CG on a growing sample: for data so wide that no d x d matrix fits into memory.

At w the step is an approximate solution of H v = -g by conjugate gradients with a preconditioner,

    H = sum_i p_i phi''_i x_i x_i' + l2 I,    ||H v + g|| <= e ||g||,
    e = min(1/4, max(sqrt(||g|| / ||g_0||), 0.6 tol / ||g||))    [1, section 7.1]

with residuals in the norm of the inverse of a power of H's diagonal, as it was at a sample's first step, or of some rows'
Hessian that is shrunk to the diagonal, on dense rows with an l2 penalty alone where some directions vary much more than
others (`finitesum.methods.newton.row_metric`; its r rows are charged as Hessians), and g_0 the gradient where Newton's
steps begin: no step is solved more exactly than tol needs. A quadratic, in memory, is solved by steps from all rows that
are as exact as tol needs, most often one: conjugate gradients that go on gain more than those that begin again; on few
sparse rows the system is that of the rows where this takes fewer products (`finitesum.methods.newton.row_system`). A
product reads the rows once (of that system twice) and is charged as a pass of gradients. As long as steps are good it
reads, but for the first step, a copy in single precision, whose columns stand in the order of how often they are used:
those that most rows have lie close together, and stay in the cache; with many columns of sparse rows it reads the vector in
single precision, too. Acceptance of steps, majorants and growing samples are those of lazy Newton (see there). Memory: 4
bytes a row, 8 bytes an entry, O(d), and on dense rows r (r + d) numbers in single precision.

From 0, on sparse rows with an l2 penalty and no more rows than columns, and unless F is a quadratic or `first_rows` is
given, a run begins with epochs of stochastic dual coordinate ascent (`finitesum.methods.newton.sdca`, [4]): until tol is
met, or more than 300 are left, as the last few went. So it does where rows outnumber columns, with enough of the penalty
(q_i phi'' <= 3), 25 entries a row or more and a tol that leaves up to four digits; there until more than 30 are left. With
an intercept q_i phi'' has to be 0.02 or more, too. So it does, on one thread, on dense rows of few directions with enough
of the penalty (mean q_i phi'' <= 0.8) that are at most 12 times the columns, where tol leaves up to four digits; there
until more than 6 epochs are left. Newton's steps go on from there; where F is not below its start, they begin with samples.
An epoch makes as many visits as there are rows and is charged as a pass, but takes the time of two; 34 bytes a row while
they last. Epochs run on one thread, and on small data, whose sums need no kernel, only where theirs is on disk already.

On parts elsewhere the first pass takes the steps on samples of the largest part, and on the whole of it, by its worker
alone (`finitesum.methods.newton.one_part`); where F is higher there than at the start, the run goes on from the start.

A pass is an epoch or a product (on small data a few: a pass costs calls), a larger sample, or the end of a step.

With an l1 penalty the step is taken in the orthant into which F falls first [3]: coefficients keep their sign s_j,
those that are 0 take that of -g_j where |g_j| > l1, and stay 0 elsewhere. There F is smooth with the gradient
g + l1 s; after the step coefficients that lost their sign are set to 0, and the step is cut until F falls. All rows are
read from the start. The references are those of `NewtonCG`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.row_products import Copy, copy_for_products, gram_diagonal, gram_product, rounded_gram_product
from finitesum.evaluation.row_sums import Majorize, Vector32
from finitesum.evaluation.samples import Sample, sample_of
from finitesum.evaluation.whole_arrays import whole_arrays
from finitesum.methods.cost_model import takes_fewer_by_rows
from finitesum.methods.newton import one_part, row_metric, row_system, subsampling
from finitesum.methods.newton.dual_epochs import NUMBERS_OF_A_PASS, after_epochs
from finitesum.methods.newton.orthants import orthant_of
from finitesum.methods.newton.row_metric import RowMetric
from finitesum.methods.newton.sdca import DualState, first_epoch, have_machine_code
from finitesum.methods.newton.subsampling import End, SampledNewton, found_at
from finitesum.methods.parameters import Count, CountOrAuto
from finitesum.methods.subproblems.conjugate_gradients import (
    DIAGONAL_POWER,
    ConjugateGradients,
    advanced,
    begun,
    redirected,
)
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import n_entries

#: Products with H for one step, at most, and what they leave of the gradient that tol allows.
MOST_PRODUCTS, NEEDED = 500, 0.6

#: Steps on one sample but the last, and the fraction of its first gradient to which they are taken.
MOST_STEPS, ENOUGH = 10, 0.1

#: Products of a pass, at most, where they read few numbers.
FEW_PRODUCTS = 8


class NewtonCGState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for: no step is solved more exactly than it needs
    gradient: Vector  # of F's smooth part at x, over the sample
    curvatures: Vector32  # (n,)  of the rows, as the last pass found them
    squared_slopes: float = 0.0  # sum of p_i phi'_i^2 over the sample at x
    value: float = 0.0  # sum of p_i phi_i over the sample at x
    first_optimality: float = math.nan  # where Newton's steps began
    majorize: int = Majorize.MISCLASSIFIED  # whose curvatures are the majorant's
    diagonal: Vector = np.zeros(0)  # the power of H's that preconditions, at the sample's first step; empty before
    metric: RowMetric = RowMetric()  # by some rows, until curvatures change; empty where the diagonal is as good
    dual: DualState = DualState()  # of the epochs; empty before and after them
    cg: ConjugateGradients = ConjugateGradients()  # for the step that is being solved; empty between steps
    on_rows: ConjugateGradients = ConjugateGradients()  # for the system of the rows, of a quadratic; empty but for it
    order: Indices = np.zeros(0, dtype=np.int64)  # in which the components join the sample
    n_sampled: int = 0  # components of the sample
    n_steps: int = 0  # on this sample
    radius: float = math.inf  # of the trust region, on components given as functions
    enough: float = math.nan  # the optimality to which F is minimised on this sample
    optimality: float = math.nan  # at x, over the sample: exact once that is complete
    n_gradients: int = 0
    n_hessians: int = 0


@dataclass(frozen=True)
class NewtonCG(SampledNewton):
    """Newton's method by conjugate gradients, on a growing sample: no matrix, nothing to tune.

    w+ = w - t v,  H v = grad F(w) up to a residual that shrinks with the gradient    [1, section 7.1]

    Parameters
    ----------
    first_rows : int >= 1 or "auto"
        Rows of the first sample; n leaves sampling out. "auto" is 2000, or n where F is a quadratic, and lets a run begin
        with dual coordinate ascent [4], on sparse rows with an l2 penalty and another loss, if there are fewer of them than
        columns, or it is strong enough, rows have many entries and tol is loose.
    n_threads : int >= 1
        Threads that share a pass (not an epoch). The result depends on their number by rounding errors.

    References
    ----------
    .. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006.
    .. [2] R. H. Byrd, G. M. Chin, W. Neveitt, J. Nocedal, "On the use of stochastic Hessian information in optimization
       methods for machine learning", SIAM J. Optim. 21 (2011).
    .. [3] N. Keskar, J. Nocedal, F. Oztoprak, A. Waechter, "A second-order method for convex l1-regularized optimization
       with active-set prediction", Optim. Methods Softw. 31 (2016).
    .. [4] S. Shalev-Shwartz, T. Zhang, "Stochastic dual coordinate ascent methods for regularized loss minimization", JMLR
       14 (2013).
    """

    first_rows: CountOrAuto = "auto"
    n_threads: Count = 1

    is_straight: ClassVar[bool] = False
    state_type: ClassVar[type[NewtonCGState]] = NewtonCGState
    shortest: ClassVar[float] = 4e-6
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "weights", "parts", "components"})

    needs_hessians = True

    def template(self, problem: Problem, first: NewtonCGState, state: NewtonCGState) -> NewtonCGState:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        point, rows, order = np.zeros(problem.dim), np.zeros(problem.n_rows), subsampling.order_like(problem, state)
        r = min(state.metric.scale.size and state.metric.rows.shape[0], problem.n_rows)
        rests, on_rows = np.zeros(problem.n_rows, dtype=np.int8), not isinstance(problem, FiniteSum)
        return first._replace(
            diagonal=point if state.diagonal.size or (on_rows and state.cg.residual.size) else first.diagonal,
            metric=row_metric.of_shape(r, problem.dim, state.metric.rows.dtype) if r else first.metric,
            dual=DualState(rows, rows, rows, rows, rests, rests) if state.dual.slopes.size and order.size else first.dual,
            cg=ConjugateGradients(point, point, point) if state.cg.residual.size else first.cg,
            on_rows=ConjugateGradients(rows, rows, rows) if state.on_rows.residual.size else first.on_rows,
            order=order,
        )

    def blas_threads(self, problem: Problem) -> int | None:
        return 1  # products of vectors are not worth several

    def run_pass(self, problem: AnySum, state: NewtonCGState, order: Indices) -> NewtonCGState:
        """Return the state after an epoch, a larger sample, products of conjugate gradients, or the end of a step."""
        if isinstance(problem, FiniteSum):
            from finitesum.methods.newton import component_cg  # which imports this module

            return component_cg.run_pass(self, problem, state, order)  # type: ignore[no-any-return]
        with np.errstate(all="ignore"):  # a step that is too long shows in its slope
            if state.order.size == 0:
                may_begin = self.first_rows == "auto" and not state.x.any()
                may_begin &= problem.rows.is_sparse() or self.n_threads == 1  # which epochs are run on
                may_begin = may_begin and (whole_arrays(problem) is None or have_machine_code(problem))
                dual = first_epoch(problem, state.tol) if may_begin else DualState()
                state = state._replace(order=subsampling.permutation(order, problem.n_components), dual=dual)
            if state.dual.slopes.size > 0:
                after: NewtonCGState = after_epochs(problem, state, self.n_threads)
                return after
            is_complete = state.n_sampled == problem.n_components
            if state.n_sampled == 0 and self.first_rows == "auto" and one_part.is_worth_it(problem):
                return self._from_one_part(problem, state)
            if state.n_sampled == 0 or (_is_enough(state) and not is_complete):
                return self._grown(problem, state)
            sample = sample_of(problem, state.order[: state.n_sampled])
            is_first = state.n_steps == 0 and state.cg.residual.size == 0 and not state.x.any()
            if state.on_rows.residual.size > 0 or (is_first and takes_fewer_by_rows(problem)):
                return self._after_row_system(problem, state, sample)
            if state.cg.residual.size == 0:
                state = _begun(problem, state, sample)
            accuracy = accuracy_of(problem, state) if is_complete else 0.25
            if is_solved(state.cg, accuracy):
                return self._stepped(problem, state, sample, _found(problem, state))
            for _ in range(_products_a_pass(problem, sample)):
                state = _multiplied(problem, state, sample, self.n_threads)
                if is_solved(state.cg, accuracy):
                    break
            return state

    def estimate(self, problem: Problem, state: Any) -> float:
        """Return the optimality at the end of a step over all components, where it is known exactly; NaN elsewhere."""
        return math.nan if _run_of(state).residual.size > 0 else super().estimate(problem, state)

    def foreseen(self, problem: AnySum, state: Any) -> float:
        """Return about the optimality to which the products so far lead, of a quadratic; NaN elsewhere."""
        run = _run_of(state)
        is_known = run.residual.size > 0 and run.start > 0.0 and is_quadratic(problem)
        return state.optimality * math.sqrt(run.size / run.start) if is_known else math.nan

    def point_so_far(self, problem: AnySum, state: Any) -> Vector | None:
        """Return the point to which the products so far lead, of a quadratic; None elsewhere."""
        if not (isinstance(problem, Problem) and is_quadratic(problem) and _run_of(state).n_products > 0):
            return None
        if state.on_rows.residual.size > 0:
            return row_system.point_of(problem, state.on_rows)
        return np.asarray(state.x + _found(problem, state))

    def is_minimised(self, problem: Problem, state: NewtonCGState) -> bool:
        """Return whether F is minimised on all rows as far as on a sample of more."""
        return state.n_sampled == problem.n_components and _is_enough(state)

    def _from_one_part(self, problem: Problem, state: NewtonCGState) -> NewtonCGState:
        """Return the state on a sample at the minimiser over one part, or at the start where F is lower there."""
        on_part, start = NewtonCG(first_rows=subsampling.FIRST_ROWS), state.x
        found, n_rows = one_part.minimised_on_largest(on_part, problem, start)
        n_gradients = state.n_gradients + -(-found.n_read // (problem.batch_size or 1))
        if np.isfinite(found.w).all():
            at_part = state._replace(x=found.w, n_gradients=n_gradients, first_optimality=found.first_optimality)
            there = self._grown(problem, at_part, subsampling.GROWTH * n_rows)
            sample = sample_of(problem, there.order[: there.n_sampled])
            if subsampling.value_on(problem, sample, there.value, there.x) <= found.first:
                return there
            n_gradients = there.n_gradients
        return self._grown(problem, state._replace(n_gradients=n_gradients))

    def _grown(self, problem: Problem, state: NewtonCGState, n_first: int = subsampling.FIRST_ROWS) -> NewtonCGState:
        """Return the state on the next larger sample, with the gradient there: only new rows are read."""
        first = n_first if self.first_rows == "auto" else int(self.first_rows)
        has_one_step = self.first_rows == "auto" and is_quadratic(problem) and not is_parted(problem)
        if not problem.is_smooth or has_one_step:
            first = problem.n_rows
        state, _ = self.on_larger_sample(problem, state, first, state.majorize)
        if math.isnan(state.first_optimality):
            state = state._replace(first_optimality=state.optimality)
        return state._replace(diagonal=np.zeros(0), metric=RowMetric(), enough=ENOUGH * state.optimality)

    def point_at(self, problem: Problem, state: NewtonCGState, direction: Vector, t: float) -> Vector:
        """Return the point to which a part t of a step leads, with 0 where coefficients lose their signs."""
        end = super().point_at(problem, state, direction, t)
        if not problem.is_smooth:
            end[orthant_of(problem, state).signs * end < 0.0] = 0.0
        return end

    def _after_row_system(self, problem: Problem, state: NewtonCGState, sample: Sample) -> NewtonCGState:
        """Return the state after products of the system of the rows, or at its solution."""
        run, enough = state.on_rows, NEEDED * max(state.tol, subsampling.LEAST_TOL)
        if run.residual.size == 0:
            run = row_system.first_run(problem)
        if run.n_products >= MOST_PRODUCTS or row_system.is_solved(problem, run, state.optimality, enough):
            n_gradients = state.n_gradients + sample.components.size  # the residual's check and the point read rows, too
            state = state._replace(on_rows=ConjugateGradients(), n_gradients=n_gradients)
            direction = row_system.point_of(problem, run) - state.x
            if not -float(state.gradient @ direction) > 0.0:  # rounding errors
                return state._replace(n_steps=1)
            return self._stepped(problem, state, sample, direction)
        most, first = _products_a_pass(problem, sample), state.optimality
        after = row_system.advanced_by(problem, run, most, first, enough, self.n_threads)
        n_gradients = state.n_gradients + (after.n_products - run.n_products) * sample.components.size
        return state._replace(on_rows=after, n_gradients=n_gradients)

    def _stepped(self, problem: Problem, state: NewtonCGState, sample: Sample, direction: Vector) -> NewtonCGState:
        """Return the state after a step along what conjugate gradients found: the whole of it, or as far as F falls."""
        right = orthant_of(problem, state).right
        if not right @ direction > 0.0:  # nothing was found, or rounding errors
            direction = right / _own_diagonal(state)
        state = state._replace(cg=ConjugateGradients(), n_steps=state.n_steps + 1)
        end = self.step_along(problem, state, sample, direction)
        state = state._replace(n_gradients=state.n_gradients + end.n_passes * sample.components.size)
        if not (end.falls and np.isfinite(end.found.gradient).all()):
            return state._replace(majorize=Majorize.ALL)
        moved: NewtonCGState = found_at(problem, state, end.x, end.found, majorize=_majorize_after(problem, end))
        return moved


def is_quadratic(problem: AnySum) -> bool:
    """Return whether F is a quadratic, whose Hessian is the same everywhere: one step leads to its minimum."""
    return isinstance(problem, Problem) and problem.is_smooth and problem.has_quadratic_loss


def _run_of(state: NewtonCGState) -> ConjugateGradients:
    """Return the run for the step that is being solved; an empty one between steps."""
    return state.on_rows if state.on_rows.residual.size > 0 else state.cg


def accuracy_of(problem: AnySum, state: NewtonCGState) -> float:
    """Return what a step over all components may leave of the gradient."""
    if not (state.optimality > 0.0 and state.first_optimality > 0.0):
        return 0.25
    needed = NEEDED * max(state.tol, subsampling.LEAST_TOL) / state.optimality
    worthwhile = 0.0 if is_quadratic(problem) else math.sqrt(state.optimality / state.first_optimality)
    return min(0.25, max(worthwhile, needed))


def solved_direction(problem: Problem, state: NewtonCGState) -> Vector | None:
    """Return the step over all components that conjugate gradients have found, None before they have."""
    if state.cg.residual.size == 0 or not is_solved(state.cg, accuracy_of(problem, state)):
        return None
    return _found(problem, state)


def _found(problem: Problem, state: NewtonCGState) -> Vector:
    """Return what conjugate gradients have found so far, in the coordinates of an iterate."""
    direction = np.empty(problem.dim)
    direction[_read(problem, state).order] = state.cg.solution
    return direction


def _is_enough(state: NewtonCGState) -> bool:
    """Return whether a step has ended, and F is minimised on the sample."""
    return state.cg.residual.size == 0 and (state.n_steps == MOST_STEPS or state.optimality <= state.enough)


def _majorize_after(problem: Problem, end: End) -> int:
    """Return whose curvatures are the majorant's next."""
    if not problem.is_smooth:
        return Majorize(end.t < 1.0)
    return Majorize.ALL if end.t < 0.5 or end.ratio > 1.0 else Majorize(end.ratio > 0.5)


def _read(problem: Problem, state: NewtonCGState) -> Copy:
    """Return what products are taken with: a copy of the problem, unless curvatures are majorants."""
    return copy_for_products(problem) if state.majorize == Majorize.NONE else Copy(problem, slice(None))


def _begun(problem: Problem, state: NewtonCGState, sample: Sample) -> NewtonCGState:
    """Return the state with conjugate gradients begun for the next step."""
    if state.diagonal.size == 0:
        read, order = copy_for_products(problem)
        diagonal = np.empty(problem.dim)
        diagonal[order] = gram_diagonal(read, state.curvatures, sample.components) / sample.weight
        diagonal += sample.ridge * problem.term.weights
        diagonal[~(diagonal > 0.0)] = 1.0
        diagonal **= DIAGONAL_POWER
        state = state._replace(diagonal=diagonal, n_gradients=state.n_gradients + sample.components.size)
    if row_metric.has_changed(state.metric, problem, state.curvatures, sample):
        metric = row_metric.metric_at(problem, state.curvatures, sample, state.order, _own_diagonal(state))
        state = state._replace(metric=metric, n_hessians=state.n_hessians + metric.rows.shape[0])
    right = orthant_of(problem, state).right[_read(problem, state).order]
    return state._replace(cg=begun(right, _preconditioned(problem, state, right)))


def _own_diagonal(state: NewtonCGState) -> Vector:
    """Return the diagonal of H at the sample's first step."""
    return np.asarray(state.diagonal ** (1.0 / DIAGONAL_POWER))


def _preconditioned(problem: Problem, state: NewtonCGState, residual: Vector) -> Vector:
    """Return P^-1 times a residual, in the coordinates of the copy that is read: by some rows, or by H's diagonal."""
    if state.metric.scale.size:
        return row_metric.solved(state.metric, residual)
    return residual / state.diagonal[_read(problem, state).order]


def is_solved(cg: ConjugateGradients, accuracy: float) -> bool:
    """Return whether the residual is at most `accuracy` times what it was, in the norm of the preconditioner."""
    return cg.is_over or cg.n_products == MOST_PRODUCTS or not cg.size > accuracy**2 * cg.start


def _products_a_pass(problem: Problem, sample: Sample) -> int:
    """Return how many products a pass may take: one, and a few where these take no time."""
    if is_parted(problem):
        return 1
    n_read = n_entries(problem.rows) * sample.components.size / problem.n_components + problem.dim
    return min(max(int(NUMBERS_OF_A_PASS / max(n_read, 1.0)), 1), FEW_PRODUCTS)


def _multiplied(problem: Problem, state: NewtonCGState, sample: Sample, n_threads: int) -> NewtonCGState:
    """Return the state after a product with H, in the coordinates of the copy that is read."""
    read, order = _read(problem, state)
    multiply = rounded_gram_product if state.majorize == Majorize.NONE else gram_product
    chosen = None if sample.is_complete(problem) else sample.components
    product = multiply(read, state.curvatures, state.cg.direction, chosen, n_threads)
    product /= sample.weight
    product += sample.ridge * (problem.term.weights[order] * state.cg.direction)
    if not problem.is_smooth:
        product[~orthant_of(problem, state).free[order]] = 0.0
    cg = advanced(state.cg, product)
    if not cg.is_over:
        cg = redirected(cg, _preconditioned(problem, state, cg.residual))
    return state._replace(cg=cg, n_gradients=state.n_gradients + sample.components.size)
