"""Lazy Newton: Newton's method on a growing sample, with a stale Hessian that is refreshed only where it moved.

The memory is CIAG's: for each row a point from which its Taylor model is made [1, eq. 19]. CIAG refreshes slopes and
curvatures of a component together, at O(d^2) a row. Here slopes, which are cheap, are those of the present point, and
curvatures c_i, which cost O(nnz_i^2) to replace, stay at older points while that does little harm
(`finitesum.methods.newton.stale_hessian`). The mean of the models has the exact gradient g(x) and the stale Hessian

    H = A / P_A + l2 I,    A = sum_i p_i c_i x_i x_i',    P_A = sum_i p_i,  over the rows of a sample.

A step is x+ = x - t B g(x), with B the BFGS inverse made of the Cholesky factor of H when it last changed and the last
pairs of steps and gradient changes (`finitesum.methods.subproblems.lbfgs`). It needs no step size:

1. *Growing samples.* From x0 on, F is replaced by its mean over some thousand rows, until Newton's decrement g'B g falls
   below a quarter of what the sample itself puts into it, (d / n_A) sum_i p_i phi'_i^2 / sum_i p_i phi''_i; then the sample
   is four times as large (`finitesum.methods.newton.subsampling`). The first pass over all rows so starts from a point that
   is right to the sample's accuracy, for a third of a pass.
2. *Majorants.* While a step leaves more than 0.3 of the gradient (in the norm of H^-1), misclassified rows take the
   curvature of the loss's majorant: there the second derivative grows along the direction, and trusting it overshoots.
   While steps overshoot all the same, every row does, until a pass reads them again after a step that did not.
3. *Acceptance.* t = 1 is taken when F does not rise at the end of the step (which bounds F, because it is convex), or the
   gradient shrank. Else t is searched to a slope between -1/2 and 0 of the first; likewise when the slope fell by less than
   a third: then t > 1. So F falls with every step.
4. *Conditioning.* Where the factor fails or steps are cut to a hundredth, H is singular to rounding errors: its diagonal is
   raised in proportion, and lowered again when steps are taken.

With many columns the sample of H is a part of the rows (`finitesum.methods.cost_model.hessian_sample`), and the pairs make
up for its error; rows that join F's sample wait where their Hessians are expensive. Those of dense rows are summed in
single precision where the pivots show that it is enough. With l1 penalties and constraints a step leads to the minimiser of
the model with its r (`finitesum.methods.subproblems.quadratic_models`), without pairs.

A pass is one step, or one larger sample. Memory: 8 bytes a row, 2 d^2 + 40 d numbers, and 2 d^2 for each thread that sums
dense rows.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
.. [2] F. Roosta-Khorasani, M. W. Mahoney, "Sub-sampled Newton methods", Math. Program. 174 (2019).
.. [3] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006, chapters 3 and 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.threads import limited_blas
from finitesum.evaluation.hessian import MOST_SHARED
from finitesum.evaluation.row_sums import Majorize, Vector32
from finitesum.methods.base import Auto, Card
from finitesum.methods.cost_model import costs_of, hessian_sample, is_sample_too_small
from finitesum.methods.newton.stale_hessian import (
    CAUTION,
    StaleHessian,
    apply_inverse,
    factor_of,
    is_expensive,
    is_well_posed,
    may_be_single,
    moved_fraction,
    no_hessian,
    noise,
    refreshed,
    with_members,
)
from finitesum.methods.newton.subsampling import (
    GROWTH,
    LEAST_TOL,
    Evaluation,
    Sample,
    SampledNewton,
    evaluate_more,
    evaluate_on,
    falls,
    first_rows,
    next_size,
    permutation,
    ratio_left,
    rise_bound,
    sample_of,
    search,
)
from finitesum.methods.subproblems.lbfgs import Pairs, no_pairs, solve, with_pair
from finitesum.methods.subproblems.line_search import wants_search
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.linear import Problem

#: Newton steps on one sample but the last, at most.
MOST_STEPS = 25

#: The fraction of the gradient that a good step leaves at most, and from which misclassified rows keep their majorants.
GOOD, MAJORIZED = 0.4, 0.3

#: Columns of sparse rows up to which factors are not worth several threads of the linear algebra library. With dense ones
#: they are not where threads share the rows: the library's would wait for the next factor at full speed.
SMALL = 1000

#: Curvatures that moved by more than so many times what the last step left are to blame for it, not the sample's size.
BLAME = 2.0


class LazyNewtonState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for, which the choice of what to refresh saves for
    gradient: Vector  # of the smooth part of F at x, over the sample
    curvatures: Vector32  # (n,)  of the rows, as the last pass found them
    hessian: StaleHessian
    factor: Matrix  # Cholesky factor of H, shape (0, 0) before the first
    pairs: Pairs
    shift: float  # relative raise of H's diagonal
    gradient_ratio: float  # what the last step left of the gradient, NaN before
    n_slow_steps: int  # in a row, that left more than half
    majorize: int  # a `Majorize`: whose curvatures are the majorant's
    squared_slopes: float  # sum of p_i phi'_i^2 over the sample at x
    value: float  # sum of p_i phi_i over the sample at x
    order: Indices  # in which the components join the sample
    n_sampled: int  # components of the sample
    n_steps: int  # on this sample
    optimality: float  # at x, over the sample: exact once that is complete
    n_gradients: int
    n_hessians: float


@dataclass(frozen=True)
class LazyNewton(SampledNewton):
    """Newton's method on a growing sample, with a Hessian that is refreshed only where it moved: nothing to tune.

    x+ = x - t B (grad F)(x),  B from a stale factor of the Hessian and L-BFGS pairs; see the module's text

    Parameters
    ----------
    hessian_rows : int >= 1 or "auto"
        Rows that the Hessian is summed over; "auto" weighs what they cost against the passes they save.
    first_rows : int >= 1 or "auto"
        Rows of the first sample; n leaves sampling out. "auto" is max(2000, 8 d), or max(0.09 n, 6 d)
        where that is less; all rows where they are not some three times as many.
    n_threads : int >= 1
        Threads that share a pass. The result depends on their number by rounding errors.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    A quadratic is solved by one step:

    >>> from finitesum import Problem, minimize
    >>> problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss="squared")
    >>> result = minimize(problem, method=LazyNewton())
    >>> result.x, result.n_passes, result.n_hessian_passes
    (array([0.6]), 2.0, 1.0)
    """

    hessian_rows: int | Auto = "auto"
    first_rows: int | Auto = "auto"
    n_threads: int = 1

    name: ClassVar[str] = "lazy-newton"
    state_type: ClassVar[type[LazyNewtonState]] = LazyNewtonState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint"})
    card: ClassVar[Card] = Card(
        "Newton with a stale Hessian",
        "m + 2 d^2",
        "d; d^2 where the curvature moved",
        "superlinear near the optimum",
        "two derivatives",
        "this library",
    )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> LazyNewtonState:
        """Return the state before the first row is read."""
        return LazyNewtonState(
            x=x0.copy(),
            tol=tol,
            gradient=np.zeros(problem.dim),
            curvatures=np.zeros(problem.n_rows, dtype=np.float32),
            hessian=no_hessian(problem),
            factor=np.zeros((0, 0)),
            pairs=no_pairs(problem.dim),
            shift=0.0,
            gradient_ratio=math.nan,
            n_slow_steps=0,
            majorize=Majorize.MISCLASSIFIED,
            squared_slopes=0.0,
            value=0.0,
            order=np.zeros(0, dtype=np.int64),
            n_sampled=0,
            n_steps=0,
            optimality=math.nan,
            n_gradients=0,
            n_hessians=0.0,
        )

    def init_at(self, problem: Problem, x: Vector, tol: float, known: Evaluation, order: Indices) -> LazyNewtonState:
        """Return the state at x where a pass over all rows has found this: there are no samples then."""
        order = permutation(order, problem.n_components)
        state = self.init(problem, x, tol)._replace(order=order, n_sampled=problem.n_components)
        return _with(problem, state, known)._replace(hessian=self._joined(problem, state.hessian, order))

    def run_pass(self, problem: Problem, state: LazyNewtonState, order: Indices) -> LazyNewtonState:
        """Return the state after one step on the sample; on the next larger sample, where this one is minimised."""
        one_thread = (
            problem.dim <= SMALL if problem.rows.is_sparse() else self.n_threads > 1 and problem.dim <= MOST_SHARED
        )
        with (
            np.errstate(all="ignore"),  # a step that is too long shows in its slope
            limited_blas(1 if one_thread else None),
        ):
            if state.n_sampled == 0:
                return self._grown(problem, state._replace(order=permutation(order, problem.n_components)))
            sample = sample_of(problem, state.order[: state.n_sampled])
            if sample.is_complete(problem):
                state = self._refreshed(problem, state, sample)
                return self._stepped(problem, state, sample, direction_of(problem, state, sample))
            state, direction = self._direction_on_sample(problem, state, sample)
            return (
                self._grown(problem, state) if direction is None else self._stepped(problem, state, sample, direction)
            )

    # -- growing samples

    def _direction_on_sample(
        self, problem: Problem, state: LazyNewtonState, sample: Sample
    ) -> tuple[LazyNewtonState, Vector | None]:
        """Return the state with its Hessian refreshed, and a direction; None where F_A is minimised to its own accuracy."""
        enough = 0.25 * noise(problem, sample, state.curvatures, state.squared_slopes)
        if state.n_steps == MOST_STEPS:
            return state, None
        if state.factor.size > 0 and is_expensive(problem, state.hessian.members.size, sample):
            if not -(state.gradient @ direction_of(problem, state, sample)) > enough:  # the old factor's costs less
                return state, None
            if state.gradient_ratio > GOOD or state.n_slow_steps > 0:
                state = state._replace(hessian=self._joined(problem, state.hessian, state.order[: state.n_sampled]))
        state = self._refreshed(problem, state, sample)
        direction = direction_of(problem, state, sample)
        return state, direction if -(state.gradient @ direction) > enough else None

    def _grown(self, problem: Problem, state: LazyNewtonState) -> LazyNewtonState:
        """Return the state on the next larger sample, with the gradient there: only new rows are read."""
        first = first_rows(problem) if self.first_rows == "auto" else int(self.first_rows)
        n_next = next_size(problem, state.n_sampled, first)
        before, sample = (sample_of(problem, state.order[:size]) for size in (state.n_sampled, n_next))
        n_known = state.hessian.members.size
        joins = n_known == 0 or sample.is_complete(problem) or not is_expensive(problem, n_next - n_known, sample)
        known = Evaluation(state.gradient, state.curvatures, state.squared_slopes, state.value)
        found = evaluate_more(
            problem, before, sample, state.x, known, majorize=Majorize.MISCLASSIFIED, n_threads=self.n_threads
        )
        state = _with(problem, state, found)._replace(
            hessian=self._joined(problem, state.hessian, state.order[:n_next]) if joins else state.hessian,
            pairs=no_pairs(problem.dim),
            gradient_ratio=math.nan,
            n_slow_steps=0,
            majorize=max(state.majorize, Majorize.MISCLASSIFIED),
            n_sampled=n_next,
            n_steps=0,
            n_gradients=state.n_gradients + n_next - state.n_sampled,
        )
        if not joins and state.factor.size > 0:  # the penalty's weight is another
            state = refactored(problem, state, sample, state.shift)
        return state

    # -- the Hessian

    def _joined(self, problem: Problem, hessian: StaleHessian, order: Indices) -> StaleHessian:
        """Return the Hessian with the components that join its sample."""
        if not problem.is_smooth:
            rows = problem.n_rows  # no pairs make up for a sample's error
        else:
            rows = hessian_sample(problem) if self.hessian_rows == "auto" else int(self.hessian_rows)
        return with_members(problem, hessian, order, -(-rows // (problem.batch_size or 1)))

    def _refreshed(self, problem: Problem, state: LazyNewtonState, sample: Sample) -> LazyNewtonState:
        """Return the state with the Hessian refreshed where that is worth it."""
        digits = 1.0
        if sample.is_complete(problem):
            digits = min(max(math.log10(max(state.optimality, 1e-300) / max(state.tol, LEAST_TOL)), 1.0), 12.0)
            if self.hessian_rows == "auto":
                state = _enlarged(problem, state, digits)
        single = may_be_single(problem) and (
            state.factor.size == 0 or is_well_posed(state.hessian, state.factor, state.shift)
        )
        after = self._with_hessian(problem, state, sample, digits, single_precision=single)
        if after.hessian.largest_float32.any() and not is_well_posed(after.hessian, after.factor, after.shift):
            nothing = no_hessian(problem)._replace(members=after.hessian.members, weight=after.hessian.weight)
            again = after._replace(hessian=nothing, factor=np.zeros((0, 0)), shift=state.shift)
            return self._with_hessian(problem, again, sample, digits, single_precision=False)
        return after

    def _with_hessian(
        self, problem: Problem, state: LazyNewtonState, sample: Sample, digits: float, *, single_precision: bool
    ) -> LazyNewtonState:
        hessian, n_replaced = refreshed(
            problem,
            state.hessian,
            state.curvatures,
            costs_of(problem),
            n_read=sample.n_rows(problem),
            digits=digits,
            n_slow_steps=state.n_slow_steps,
            is_good=state.gradient_ratio <= GOOD,
            n_threads=self.n_threads,
            single_precision=single_precision,
        )
        if n_replaced == 0 and state.factor.size > 0:
            return state
        n_hessians = state.n_hessians + n_replaced / (problem.batch_size or 1)
        state = state._replace(hessian=hessian, n_hessians=n_hessians)
        if hessian.members.size == sample.components.size:
            state = state._replace(pairs=no_pairs(problem.dim))
        return refactored(problem, state, sample, state.shift)

    # -- the step

    def _stepped(self, problem: Problem, state: LazyNewtonState, sample: Sample, direction: Vector) -> LazyNewtonState:
        """Return the state after a step: the whole of it, or as far as F falls."""
        state = state._replace(n_steps=state.n_steps + 1)
        end = self._end_of(problem, state, sample, direction, 1.0, state.majorize)
        n_read = sample.components.size
        if not problem.is_smooth:
            while end.t > 1e-9 and not falls(
                problem, sample, state.x, end.x, rise=end.slope, ratio=end.ratio, n_threads=self.n_threads
            ):
                end = self._end_of(problem, state, sample, direction, 0.25 * end.t, Majorize.ALL)
                n_read += sample.components.size
        else:
            first = float(state.gradient @ direction)
            if wants_search(end.slope, first, end.ratio):
                t = search(problem, sample, state.x, direction, first)
                n_read += 2 * sample.components.size
                end = self._end_of(problem, state, sample, direction, t, Majorize.ALL if t < 1.0 else state.majorize)
        return self._moved(problem, state._replace(n_gradients=state.n_gradients + n_read), sample, end)

    def _end_of(
        self, problem: Problem, state: LazyNewtonState, sample: Sample, direction: Vector, t: float, majorize: int
    ) -> _End:
        """Return the point x + t direction."""
        x = state.x + t * direction
        found = evaluate_on(problem, sample, x, state.curvatures, majorize=majorize, n_threads=self.n_threads)
        if not problem.is_smooth:
            rise = rise_bound(problem, state.x, x, found.gradient)
            return _End(t, x, found, majorize, rise, ratio_left(problem, x, found.gradient, state.optimality))
        size = found.gradient @ apply_inverse(state.factor, found.gradient)
        before = state.gradient @ apply_inverse(state.factor, state.gradient)
        ratio = math.sqrt(max(float(size / before), 0.0)) if before > 0.0 else math.nan
        return _End(t, x, found, majorize, float(found.gradient @ direction), ratio)

    def _moved(self, problem: Problem, state: LazyNewtonState, sample: Sample, end: _End) -> LazyNewtonState:
        """Return the state at the end of a step, with the pair that it gives."""
        if not np.isfinite(end.found.gradient).all() or (end.t < 1e-6 and end.ratio > 0.999):
            raised = refactored(problem, state, sample, max(1e-12, 100.0 * state.shift))
            return raised._replace(
                pairs=no_pairs(problem.dim),
                gradient_ratio=math.nan,
                n_slow_steps=state.n_slow_steps + 2,
                majorize=Majorize.ALL,
            )
        majorize, found, n_gradients = _majorize_after(problem, end), end.found, state.n_gradients
        if end.majorize == Majorize.ALL and _is_worth_reading_again(problem, majorize):
            found = evaluate_on(problem, sample, end.x, state.curvatures, majorize=majorize, n_threads=self.n_threads)
            n_gradients += sample.components.size
        pairs = state.pairs
        if problem.is_smooth:
            pairs = with_pair(pairs, end.x - state.x, found.gradient - state.gradient)
        is_slow, is_very_slow = end.ratio > 0.5 or end.t < 0.3, end.ratio > 0.9 or end.t < 0.3
        state = _with(problem, state._replace(x=end.x), found)._replace(
            pairs=pairs,
            gradient_ratio=end.ratio,
            n_slow_steps=state.n_slow_steps + (2 if is_very_slow else 1) if is_slow else 0,
            majorize=majorize,
            n_gradients=n_gradients,
        )
        if end.t < 0.01:
            return refactored(problem, state, sample, max(1e-12, 10.0 * state.shift))
        if end.t > 0.3 and state.shift > 1e-14:
            return refactored(problem, state, sample, 0.1 * state.shift)
        return state


class _End(NamedTuple):
    """A point along the direction, and what a pass found there."""

    t: float
    x: Vector
    found: Evaluation
    majorize: int  # of the pass
    slope: float  # of F along the direction; with an l1 penalty or a set, a bound of the rise of F
    ratio: float  # what is left of the gradient


def _with(problem: Problem, state: LazyNewtonState, found: Evaluation) -> LazyNewtonState:
    """Return the state with what a pass at its iterate has found."""
    return state._replace(
        gradient=found.gradient,
        curvatures=found.curvatures,
        squared_slopes=found.squared_slopes,
        value=found.value,
        optimality=problem.term.optimality(state.x, found.gradient),
    )


def direction_of(problem: Problem, state: LazyNewtonState, sample: Sample) -> Vector:
    """Return the step that the model asks for: -B g, or to the minimiser of the model with its r."""
    if not problem.is_smooth:
        lower = state.hessian.sums
        matrix = np.tril(lower) + np.tril(lower, -1).T
        matrix /= state.hessian.weight or 1.0
        diagonal = np.arange(problem.dim)
        matrix[diagonal, diagonal] *= 1.0 + state.shift
        penalised = diagonal[: problem.rows.n_columns]
        matrix[penalised, penalised] += sample.ridge
        return minimise_model(problem.term, matrix, state.gradient, state.x, 1e-3 * state.optimality) - state.x
    direction = -solve(state.pairs, lambda right: apply_inverse(state.factor, right), state.gradient)
    if not direction @ state.gradient < 0.0:  # rounding errors
        direction = -apply_inverse(state.factor, state.gradient)
    return direction


def refactored(problem: Problem, state: LazyNewtonState, sample: Sample, shift: float) -> LazyNewtonState:
    """Return the state with H's factor computed again, its diagonal raised by the shift, or by more where that fails."""
    if not problem.is_smooth:  # steps come from the model itself
        return state._replace(factor=np.eye(1), shift=shift)
    factor, shift = factor_of(problem, state.hessian, sample.ridge, shift)
    return state._replace(factor=factor, shift=shift)


def with_ridge(problem: Problem, state: LazyNewtonState, before: float) -> LazyNewtonState:
    """Return the state of a run over all rows on a problem that differs in its l2 penalty alone, which was `before`.

    Slopes and curvatures of the rows do not depend on the penalty: gradient, optimality and factor follow without them.
    """
    gradient, penalised = state.gradient.copy(), slice(problem.rows.n_columns)
    gradient[penalised] += (problem.penalty.ridge() - before) * state.x[penalised]
    factor, shift = factor_of(problem, state.hessian, problem.penalty.ridge(), state.shift)
    return state._replace(
        gradient=gradient,
        factor=factor,
        pairs=no_pairs(problem.dim),
        shift=shift,
        gradient_ratio=math.nan,
        optimality=problem.term.optimality(state.x, gradient),
    )


def _enlarged(problem: Problem, state: LazyNewtonState, digits: float) -> LazyNewtonState:
    """Return the state with a larger sample of the Hessian, where the last step shows that it pays."""
    members, ratio = state.hessian.members, state.gradient_ratio
    if members.size == state.order.size or not ratio > 0.0:
        return state
    if not is_sample_too_small(
        problem.n_rows, members.size * (problem.batch_size or 1), costs_of(problem), ratio, digits
    ):
        return state
    if CAUTION * moved_fraction(problem, state.hessian, state.curvatures) > BLAME * ratio:
        return state  # what the step left is not the sample's fault
    return state._replace(hessian=with_members(problem, state.hessian, state.order, GROWTH * members.size))


def _is_worth_reading_again(problem: Problem, majorize: int) -> bool:
    """Return whether other curvatures are found with fewer majorants, where all rows had them, and are worth a pass."""
    has_majorant = math.isfinite(problem.loss.curvature_bound())
    is_other = majorize == Majorize.NONE or (
        majorize == Majorize.MISCLASSIFIED and problem.loss.target_kind() == "sign"
    )
    return problem.is_smooth and has_majorant and is_other


def _majorize_after(problem: Problem, end: _End) -> int:
    """Return whose curvatures are the majorant's next.

    With an l1 penalty or a set the optimality may rest while F falls (a coefficient near 0 counts by its size): there the
    ends of steps say it, and one that could have been longer is no reason.
    """
    if not problem.is_smooth:
        return Majorize.ALL if end.t < 0.5 else Majorize(end.slope > 0.0)
    return Majorize.ALL if end.t < 0.5 or end.ratio > 0.9 else Majorize(end.ratio > MAJORIZED)
