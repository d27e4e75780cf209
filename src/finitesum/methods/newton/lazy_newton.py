"""Lazy Newton: Newton's method on a growing sample, with a stale Hessian that is refreshed only where it moved.

The memory is CIAG's: for each row a point from which its Taylor model is made [1, eq. 19]. CIAG refreshes slopes and
curvatures of a component together, at O(d^2) a row. Here slopes, which are cheap, are those of the present point, and
curvatures c_i, which cost O(nnz_i^2) to replace, stay at older points while that does little harm
(`finitesum.methods.newton.stale_hessian`). The mean of the models has the exact gradient g(w) and the stale Hessian

    H = A / P_A + l2 I,    A = sum_i p_i c_i x_i x_i',    P_A = sum_i p_i,  over the rows of a sample.

A step is w+ = w - t B g(w), with B the BFGS inverse made of the Cholesky factor of H when it last changed and the last
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
the model with its r (`finitesum.methods.subproblems.quadratic_models`), without pairs. Weights of the penalty multiply the
diagonal of l2 I.

A pass is one step, or one larger sample. Memory: 8 bytes a row, 2 d^2 + 40 d numbers, and 2 d^2 for each thread that sums
dense rows.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
.. [2] F. Roosta-Khorasani, M. W. Mahoney, "Sub-sampled Newton methods", Math. Program. 174 (2019).
.. [3] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006, chapters 3 and 7.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.hessian import MOST_SHARED, may_be_single
from finitesum.evaluation.row_sums import Majorize, Vector32
from finitesum.evaluation.samples import Evaluation, Sample, evaluate_on, sample_of
from finitesum.methods.cost_model import hessian_sample
from finitesum.methods.newton import stale_hessian as stale
from finitesum.methods.newton.subsampling import (
    LEAST_TOL,
    End,
    SampledNewton,
    first_rows,
    found_at,
    order_like,
    permutation,
    require_members,
)
from finitesum.methods.parameters import Count, CountOrAuto
from finitesum.methods.subproblems.lbfgs import MEMORY, Pairs, no_pairs, solve, with_pair
from finitesum.methods.subproblems.positive_definite import apply_inverse
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem

#: Newton steps on one sample but the last, at most.
MOST_STEPS = 25

#: The fraction of the gradient that a good step leaves at most, and from which misclassified rows keep their majorants.
GOOD, MAJORIZED = 0.4, 0.3

#: Columns of sparse rows up to which factors are not worth several threads of the linear algebra library. With dense ones
#: they are not where threads share the rows: the library's would wait for the next factor at full speed.
SMALL = 1000


class LazyNewtonState(NamedTuple):
    x: Vector  # iterate
    tol: float = 0.0  # the optimality asked for, which the choice of what to refresh saves for
    gradient: Vector = np.zeros(0)  # of the smooth part of F at x, over the sample
    curvatures: Vector32 = np.zeros(0, dtype=np.float32)  # (n,)  of the rows, as the last pass found them
    hessian: stale.StaleHessian = stale.StaleHessian()
    factor: Matrix = np.zeros((0, 0))  # Cholesky factor of H, shape (0, 0) before the first
    pairs: Pairs = no_pairs(0)
    shift: float = 0.0  # relative raise of H's diagonal
    gradient_ratio: float = math.nan  # what the last step left of the gradient, NaN before
    n_slow_steps: int = 0  # in a row, that left more than half
    majorize: int = Majorize.MISCLASSIFIED  # whose curvatures are the majorant's
    squared_slopes: float = 0.0  # sum of p_i phi'_i^2 over the sample at x
    value: float = 0.0  # sum of p_i phi_i over the sample at x
    order: Indices = np.zeros(0, dtype=np.int64)  # in which the components join the sample
    n_sampled: int = 0  # components of the sample
    n_steps: int = 0  # on this sample
    optimality: float = math.nan  # at x, over the sample: exact once that is complete
    n_gradients: int = 0
    n_hessians: float = 0.0


@dataclass(frozen=True)
class LazyNewton(SampledNewton):
    """Newton's method on a growing sample, with a Hessian that is refreshed only where it moved: nothing to tune.

    w+ = w - t B (grad F)(w),  B from a stale factor of the Hessian and L-BFGS pairs; see the module's text

    Parameters
    ----------
    hessian_rows : int >= 1 or "auto"
        Rows that the Hessian is summed over; "auto" weighs what they cost against the passes they save.
    first_rows : int >= 1 or "auto"
        Rows of the first sample; n leaves sampling out. "auto" is max(2000, 8 d), or max(0.09 n, 6 d)
        where that is less; all rows where they are not some three times as many.
    n_threads : int >= 1
        Threads that share a pass. The result depends on their number by rounding errors.

    Examples
    --------
    A quadratic is solved by one step:

    >>> from finitesum import Problem, minimize
    >>> problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss="squared")
    >>> result = minimize(problem, method=LazyNewton())
    >>> result.x, result.n_passes, result.n_hessian_passes
    (array([0.6]), 2.0, 1.0)
    """

    hessian_rows: CountOrAuto = "auto"
    first_rows: CountOrAuto = "auto"
    n_threads: Count = 1

    handles: ClassVar[frozenset[str]] = frozenset(
        {"l1", "constraint", "bounded-l1", "weights", "groups", "parts", "components"}
    )

    needs_hessians = True
    prefers_components: ClassVar[bool] = True  # where parts of the data are elsewhere: no numbers by row are sent then

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> LazyNewtonState:
        state: LazyNewtonState = super().init(problem, x0, tol)
        return state._replace(hessian=stale.no_hessian(problem), pairs=no_pairs(problem.dim))

    def init_at(self, problem: Problem, w: Vector, tol: float, known: Evaluation, order: Indices) -> LazyNewtonState:
        """Return the state at w where a pass over all rows has found this: there are no samples then."""
        order = permutation(order, problem.n_components)
        state: LazyNewtonState = found_at(problem, self.init(problem, w, tol), w.copy(), known)
        return state._replace(order=order, n_sampled=order.size, hessian=self._joined(problem, state.hessian, order))

    def template(self, problem: Problem, first: LazyNewtonState, state: LazyNewtonState) -> LazyNewtonState:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        members, factor = state.hessian.members, first.factor
        require_members("hessian.members", members, problem.n_components, is_sorted=True)
        if state.n_sampled > 0 and members.size == 0:
            raise ValueError("hessian.members is empty")
        if state.factor.size > 0:
            factor = np.eye(problem.dim if problem.is_smooth else 1)
        n_pairs = min(len(state.pairs.steps), MEMORY)
        return first._replace(
            hessian=first.hessian._replace(members=members),
            factor=factor,
            pairs=Pairs(*np.zeros((2, n_pairs, problem.dim))),
            order=order_like(problem, state),
        )

    def blas_threads(self, problem: Problem) -> int | None:
        is_sparse = problem.rows.is_sparse()
        return 1 if (problem.dim <= SMALL if is_sparse else self.n_threads > 1 and problem.dim <= MOST_SHARED) else None

    def run_pass(self, problem: AnySum, state: LazyNewtonState, order: Indices) -> LazyNewtonState:
        """Return the state after one step on the sample; on the next larger sample, where this one is minimised."""
        if isinstance(problem, FiniteSum):
            from finitesum.methods.newton import component_lazy  # which imports this module

            return component_lazy.run_pass(self, problem, state, order)  # type: ignore[no-any-return]
        with np.errstate(all="ignore"):  # long steps show in their slope
            if state.n_sampled == 0:
                return self._grown(problem, state._replace(order=permutation(order, problem.n_components)))
            sample = sample_of(problem, state.order[: state.n_sampled])
            state, direction = self._direction(problem, state, sample)
            if direction is None:
                return self._grown(problem, state)
            end = self.step_along(problem, state, sample, direction)
            n_gradients = state.n_gradients + end.n_passes * sample.components.size
            state = state._replace(n_steps=state.n_steps + 1, n_gradients=n_gradients)
            return self._moved(problem, state, sample, end)

    def _direction(self, problem: Problem, state: LazyNewtonState, sample: Sample) -> tuple[LazyNewtonState, Vector | None]:
        """Return the state with its Hessian refreshed, and a direction; None where F_A is minimised to its own accuracy."""
        if sample.is_complete(problem):
            state = self._refreshed(problem, state, sample)
            return state, direction_of(problem, state, sample)
        enough = 0.25 * stale.noise(problem, sample, state.curvatures, state.squared_slopes)
        if state.n_steps == MOST_STEPS:
            return state, None
        if state.factor.size > 0 and stale.is_expensive(problem, state.hessian.members.size, sample):
            if not -(state.gradient @ direction_of(problem, state, sample)) > enough:  # the old factor's costs less
                return state, None
            if state.gradient_ratio > GOOD or state.n_slow_steps > 0:
                state = state._replace(hessian=self._joined(problem, state.hessian, state.order[: state.n_sampled]))
        state = self._refreshed(problem, state, sample)
        direction = direction_of(problem, state, sample)
        return state, direction if -(state.gradient @ direction) > enough else None

    def _moved(self, problem: Problem, state: LazyNewtonState, sample: Sample, end: End) -> LazyNewtonState:
        """Return the state at the end of a step, with the pair that it gives."""
        is_stuck = (end.t < 1e-6 and end.ratio > 0.999) if problem.is_smooth else np.array_equal(end.x, state.x)
        if is_stuck or not (end.falls and np.isfinite(end.found.gradient).all()):
            return self._stayed(problem, state, sample)
        majorize, found, n_gradients = _majorize_after(problem, end), end.found, state.n_gradients
        if end.majorize == Majorize.ALL and _is_worth_reading_again(problem, majorize):
            found = evaluate_on(problem, sample, end.x, state.curvatures, majorize=majorize, n_threads=self.n_threads)
            n_gradients += sample.components.size
        is_slow, is_very_slow = end.ratio > 0.5 or end.t < 0.3, end.ratio > 0.9 or end.t < 0.3
        pairs = state.pairs
        if problem.is_smooth:
            pairs = with_pair(pairs, end.x - state.x, found.gradient - state.gradient)
        moved: LazyNewtonState = found_at(
            problem,
            state,
            end.x,
            found,
            pairs=pairs,
            gradient_ratio=end.ratio,
            n_slow_steps=state.n_slow_steps + (2 if is_very_slow else 1) if is_slow else 0,
            majorize=majorize,
            n_gradients=n_gradients,
        )
        if end.t < 0.01:
            return refactored(problem, moved, sample, max(1e-12, 10.0 * state.shift))
        if end.t > 0.3 and state.shift > 1e-14:
            return refactored(problem, moved, sample, 0.1 * state.shift)
        return moved

    def _stayed(self, problem: Problem, state: LazyNewtonState, sample: Sample) -> LazyNewtonState:
        """Return the state where no step was taken: with majorants, and where they did not help a raised diagonal."""
        found = evaluate_on(problem, sample, state.x, state.curvatures, majorize=Majorize.ALL, n_threads=self.n_threads)
        shift = max(1e-12, 100.0 * state.shift) if state.majorize == Majorize.ALL else state.shift
        state = refactored(problem, state, sample, shift)
        return found_at(  # type: ignore[no-any-return]
            problem,
            state,
            state.x,
            found,
            pairs=no_pairs(problem.dim),
            gradient_ratio=math.nan,
            n_slow_steps=state.n_slow_steps + 2,
            majorize=Majorize.ALL,
            n_gradients=state.n_gradients + sample.components.size,
        )

    def ratio_left(self, problem: Problem, state: LazyNewtonState, w: Vector, gradient: Vector) -> float:
        """Return what a gradient at w is relative to the one before: where F is smooth, in the norm of H^-1."""
        if not problem.is_smooth:
            return super().ratio_left(problem, state, w, gradient)
        size = gradient @ apply_inverse(state.factor, gradient)
        before = state.gradient @ apply_inverse(state.factor, state.gradient)
        return math.sqrt(max(float(size / before), 0.0)) if before > 0.0 else math.nan

    # -- larger samples, and the Hessian

    def _grown(self, problem: Problem, state: LazyNewtonState) -> LazyNewtonState:
        """Return the state on the next larger sample, with the gradient there: only new rows are read."""
        first = first_rows(problem) if self.first_rows == "auto" else int(self.first_rows)
        state, sample = self.on_larger_sample(problem, state, first, Majorize.MISCLASSIFIED)
        n_known, n_sampled = state.hessian.members.size, state.n_sampled
        state = state._replace(
            pairs=no_pairs(problem.dim),
            gradient_ratio=math.nan,
            n_slow_steps=0,
            majorize=max(state.majorize, Majorize.MISCLASSIFIED),
        )
        is_expensive = stale.is_expensive(problem, n_sampled - n_known, sample)
        if n_known == 0 or sample.is_complete(problem) or not is_expensive:
            return state._replace(hessian=self._joined(problem, state.hessian, state.order[:n_sampled]))
        # the rows wait, and the weight of the penalty is another
        return refactored(problem, state, sample, state.shift) if state.factor.size > 0 else state

    def _joined(self, problem: Problem, hessian: stale.StaleHessian, order: Indices) -> stale.StaleHessian:
        """Return the Hessian with the components that join its sample."""
        if not problem.is_smooth:
            rows = problem.n_rows  # no pairs make up for a sample's error
        else:
            rows = hessian_sample(problem) if self.hessian_rows == "auto" else int(self.hessian_rows)
        return stale.with_members(problem, hessian, order, -(-rows // (problem.batch_size or 1)))

    def _refreshed(self, problem: Problem, state: LazyNewtonState, sample: Sample) -> LazyNewtonState:
        """Return the state with the Hessian refreshed where that is worth it."""
        digits = 1.0
        if sample.is_complete(problem):
            digits = min(max(math.log10(max(state.optimality, 1e-300) / max(state.tol, LEAST_TOL)), 1.0), 12.0)
            if self.hessian_rows == "auto":
                hessian = stale.enlarged(
                    problem, state.hessian, state.order, state.curvatures, state.gradient_ratio, digits
                )
                state = state._replace(hessian=hessian)
        single = may_be_single(problem) and (
            state.factor.size == 0 or stale.is_well_posed(state.hessian, state.factor, state.shift)
        )
        after = self._with_hessian(problem, state, sample, digits, single_precision=single)
        if not after.hessian.largest_float32.any() or stale.is_well_posed(after.hessian, after.factor, after.shift):
            return after
        nothing = stale.no_hessian(problem)._replace(members=after.hessian.members, weight=after.hessian.weight)
        again = after._replace(hessian=nothing, factor=np.zeros((0, 0)), shift=state.shift)
        return self._with_hessian(problem, again, sample, digits, single_precision=False)

    def _with_hessian(
        self, problem: Problem, state: LazyNewtonState, sample: Sample, digits: float, *, single_precision: bool
    ) -> LazyNewtonState:
        hessian, n_replaced = stale.refreshed(
            problem,
            state.hessian,
            state.curvatures,
            n_read=sample.n_rows(problem),
            digits=digits,
            n_slow_steps=state.n_slow_steps,
            is_good=state.gradient_ratio <= GOOD,
            n_threads=self.n_threads,
            single_precision=single_precision,
        )
        if n_replaced == 0 and state.factor.size > 0:
            return state
        pairs = no_pairs(problem.dim) if hessian.members.size == sample.components.size else state.pairs
        n_hessians = state.n_hessians + n_replaced / (problem.batch_size or 1)
        state = state._replace(hessian=hessian, pairs=pairs, n_hessians=n_hessians)
        return refactored(problem, state, sample, state.shift)


def direction_of(problem: Problem, state: LazyNewtonState, sample: Sample) -> Vector:
    """Return the step that the model asks for: -B g, or to the minimiser of the model with its r."""
    if not problem.is_smooth:
        model = stale.model_of(problem, state.hessian, sample.ridge, state.shift)
        return minimise_model(problem.term, model, state.gradient, state.x, 1e-3 * state.optimality) - state.x
    direction = -solve(state.pairs, lambda right: apply_inverse(state.factor, right), state.gradient)
    if not direction @ state.gradient < 0.0:  # rounding errors
        direction = -apply_inverse(state.factor, state.gradient)
    return direction


def refactored(problem: Problem, state: LazyNewtonState, sample: Sample, shift: float) -> LazyNewtonState:
    """Return the state with H's factor computed again, its diagonal raised by the shift, or by more where that fails."""
    if not problem.is_smooth:  # steps come from the model itself
        return state._replace(factor=np.eye(1), shift=shift)
    factor, shift = stale.factor_of(problem, state.hessian, sample.ridge, shift)
    return state._replace(factor=factor, shift=shift)


def _is_worth_reading_again(problem: Problem, majorize: int) -> bool:
    """Return whether other curvatures are found with fewer majorants, where all rows had them, and are worth a pass."""
    fewer = (Majorize.NONE, Majorize.MISCLASSIFIED) if problem.loss.target_kind() == "sign" else (Majorize.NONE,)
    return problem.is_smooth and math.isfinite(problem.loss.curvature_bound()) and majorize in fewer


def _majorize_after(problem: Problem, end: End) -> int:
    """Return whose curvatures are the majorant's next.

    With an l1 penalty or a set the optimality may rest while F falls (a coefficient near 0 counts by its size): there the
    ends of steps say it, and one that could have been longer is no reason.
    """
    if not problem.is_smooth:
        return Majorize.ALL if end.t < 0.5 else Majorize(end.slope > 0.0)
    return Majorize.ALL if end.t < 0.5 or end.ratio > 0.9 else Majorize(end.ratio > MAJORIZED)
