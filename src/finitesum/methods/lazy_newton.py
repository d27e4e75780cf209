"""Lazy Newton: Newton's method on a growing sample, with a Hessian that is refreshed only where it moved.

The memory is CIAG's: for each row an anchor, from which the row's Taylor model is made [1, eq. 19]. CIAG refreshes slopes
and curvatures of a component together, at O(d^2) for each row. Here they are kept apart: slopes, which are cheap, are
those of the present point; curvatures c_i, which cost O(nnz_i^2) to replace, stay at older points while that does little
harm (`finitesum.lazy_curvature`). The mean of the models then has the exact gradient g(x) and the lazy Hessian

    H = A / S_A + l2 I,    A = sum_i p_i c_i z_i z_i',    S_A = sum_i p_i,  over the rows of a sample.

A step is x+ = x - t B g(x), with B the BFGS inverse of P^-1 and the last pairs of steps and gradient changes
(`finitesum.secants`), P the Cholesky factor of H when it last changed. It needs no step size:

1. *Growing sample.* From x0 on, F is replaced by its mean over some thousand rows with the penalty's share of the sum,
   alpha / S, until Newton's decrement falls below a quarter of what the sample itself puts into it,
   (d / n_s) sum_i p_i phi'_i^2 / sum_i p_i phi''_i; then the sample is four times as large.
   The first pass over all rows so starts from a point that is right to the sample's accuracy, for a third of a pass.
2. *Doubtful curvatures.* While a step leaves more than 0.3 of the gradient (in the norm of P^-1), rows on the wrong side of
   the margin take the curvature of the loss's majorant: there the second derivative grows along the way, and trusting it
   overshoots. While steps overshoot all the same, every row does.
3. *Acceptance.* t = 1 is taken when F does not rise at its end along the way (which bounds F, because it is convex), or the
   gradient shrank. Else t is searched on the row predictions, which are linear in t, to a slope between -1/2 and 0 of
   the first; likewise when the slope fell by less than a third: then t > 1. So F falls with every step.
4. *Conditioning.* Where the factor fails or steps are cut to a hundredth, H is singular to rounding errors: its diagonal is
   raised in proportion, and lowered again when steps are taken.

With many columns the sample of H is a part of the rows (`finitesum.prices.hessian_sample`), and the secants make up for its
error. l1 penalties and constraints take the minimiser of the model with its r (`finitesum.quadratics`), without secants.
The optimality in the state is exact. Memory: 8 bytes a row, 2 d^2 + 40 d numbers; n_threads share a pass's rows.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
.. [2] F. Roosta-Khorasani, M. W. Mahoney, "Sub-sampled Newton methods", Math. Program. 174 (2019).
.. [3] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006, chapters 3 and 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.arrays import Indices, Matrix, Vector
from finitesum.growing_sample import (
    FIRST_ROWS,
    Look,
    Sample,
    look,
    look_at_more,
    next_size,
    permutation,
    sample_of,
    search,
)
from finitesum.lazy_curvature import (
    LazyCurvature,
    apply_inverse,
    factor_of,
    no_curvature,
    refreshed,
    sample_curvature,
)
from finitesum.measures import Measures, surrogate_optimality
from finitesum.methods.base import Auto, Card, check_count, check_positive
from finitesum.prices import hessian_sample, is_sample_too_small, prices_of
from finitesum.problem import Problem
from finitesum.quadratics import minimise_model
from finitesum.secants import Secants, no_secants, solve, with_pair
from finitesum.sweeps import ShortVector, objective

#: The share of the gradient that a step may leave before curvatures are doubted.
DOUBT = 0.3

#: Newton steps on one sample, at most.
MOST_STEPS = 25


class LazyNewtonState(NamedTuple):
    x: Vector  # iterate
    gradient: Vector  # of the smooth part of F at x, over the sample
    curvatures: ShortVector  # (n,)  of the rows, as the last pass saw them
    curvature: LazyCurvature
    factor: Matrix  # Cholesky factor of H, shape (0, 0) before the first
    secants: Secants
    shift: float  # relative raise of H's diagonal
    remainder: float  # share of the gradient that the last step left, NaN before
    n_idle: int  # steps in a row that left more than half
    doubt: int  # whose curvatures are doubted: 2 all rows', 1 those on the wrong side, 0 none
    squares: float  # sum of p_i phi'_i^2 over the sample at x
    n_sampled: int  # components of the sample; the method's passes begin when these are all
    optimality: float  # at x, exact once the sample is complete
    n_gradients: int
    n_hessians: float


@dataclass(frozen=True)
class LazyNewton:
    """Newton's method on a growing sample, with a Hessian that is refreshed only where it moved: nothing to tune.

    x+ = x - t B (grad F)(x),  B from a stale factor of the Hessian and secants; see the module's text

    Parameters
    ----------
    target : float > 0
        The optimality that the choice of what to refresh saves for; any tol may be asked for.
    hessian_rows : int >= 1 or "auto"
        Rows that the Hessian is summed over; "auto" weighs what they cost against the passes they save.
    first_rows : int >= 1 or "auto"
        Rows of the first sample; n leaves sampling out. "auto" is max(2000, 8 d).
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

    References
    ----------
    .. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
       curvature information", Comput. Optim. Appl. 76 (2020).
    .. [2] F. Roosta-Khorasani, M. W. Mahoney, "Sub-sampled Newton methods", Math. Program. 174 (2019).
    """

    target: float = field(default=1e-10, repr=False)  # no part of the name by which a checkpoint knows the method
    hessian_rows: int | Auto = "auto"
    first_rows: int | Auto = "auto"
    n_threads: int = 1

    name: ClassVar[str] = "lazy-newton"
    state_type: ClassVar[type[LazyNewtonState]] = LazyNewtonState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint"})
    default_sampling: ClassVar[str] = "shuffled-once"
    patience: ClassVar[int] = 20
    card: ClassVar[Card] = Card(
        "Newton with a lazy Hessian",
        "m + 2 d^2",
        "d; d^2 where the curvature moved",
        "superlinear near the optimum",
        "two derivatives",
        "this library",
    )

    def __post_init__(self) -> None:
        check_positive("target", self.target)
        check_count("n_threads", self.n_threads)
        for name, value in (("hessian_rows", self.hessian_rows), ("first_rows", self.first_rows)):
            if value != "auto":
                check_count(name, value)

    def init(self, problem: Problem, x0: Vector) -> LazyNewtonState:
        """Return the state before the first row is read."""
        dim = problem.dim
        curvatures = np.zeros(problem.n_rows, dtype=np.float32)
        return LazyNewtonState(
            x0.copy(),
            np.zeros(dim),
            curvatures,
            no_curvature(problem),
            np.zeros((0, 0)),
            no_secants(dim),
            0.0,
            math.nan,
            0,
            1,
            0.0,
            0,
            math.nan,
            0,
            0.0,
        )

    def run_pass(self, problem: Problem, state: LazyNewtonState, order: Indices) -> LazyNewtonState:
        """Return the state after one step over all rows; at first, after the growing samples."""
        order = permutation(order, problem.n_components)
        with np.errstate(all="ignore"):  # a step that is too long is seen by its slope
            while state.n_sampled < problem.n_components:
                state = self._on_sample(problem, state, order)
                if state.n_sampled == problem.n_components:
                    return state
            sample = sample_of(problem, order)
            return _stepped(problem, self._prepared(problem, state, sample, order), sample, self.n_threads)

    def _on_sample(self, problem: Problem, state: LazyNewtonState, order: Indices) -> LazyNewtonState:
        """Return the state with the sample grown, and minimised on it to its own accuracy unless it is complete."""
        state, sample = self._grown(problem, state, order)
        if sample.is_complete(problem):
            return state
        n_rows = sample.n_rows(problem)
        for _ in range(MOST_STEPS):
            state = self._prepared(problem, state, sample, order)
            way = _way(problem, state, sample)
            curvature = sample_curvature(problem, state.curvatures, sample.components)
            noise = problem.dim / n_rows * state.squares / max(curvature, 1e-300)
            if not -(state.gradient @ way) > 0.25 * noise:
                break
            state = _stepped(problem, state, sample, self.n_threads, way)
        return state

    def _grown(self, problem: Problem, state: LazyNewtonState, order: Indices) -> tuple[LazyNewtonState, Sample]:
        """Return the state on the next larger sample, with the gradient there: only new rows are read."""
        first = max(FIRST_ROWS, 8 * problem.dim) if self.first_rows == "auto" else int(self.first_rows)
        n_next = next_size(problem, state.n_sampled, first)
        before, sample = sample_of(problem, order[: state.n_sampled]), sample_of(problem, order[:n_next])
        known = Look(state.gradient, state.curvatures, state.squares)
        seen = look_at_more(problem, before, sample, state.x, known, doubt=1, n_threads=self.n_threads)
        state = state._replace(
            gradient=seen.gradient,
            curvatures=seen.curvatures,
            curvature=self._joined(problem, state.curvature, order[:n_next]),
            secants=no_secants(problem.dim),
            remainder=math.nan,
            n_idle=0,
            doubt=max(state.doubt, 1),
            squares=seen.squares,
            n_sampled=n_next,
            optimality=surrogate_optimality(problem, state.x, seen.gradient),
            n_gradients=state.n_gradients + n_next - state.n_sampled,
        )
        return state, sample

    def _joined(self, problem: Problem, memory: LazyCurvature, order: Indices) -> LazyCurvature:
        """Return the memory with the components that join the Hessian's sample."""
        rows = hessian_sample(problem, prices_of(problem)) if self.hessian_rows == "auto" else int(self.hessian_rows)
        if not problem.is_smooth:
            rows = problem.n_rows  # no secants make up for a sample's error
        return _with_members(problem, memory, order, -(-rows // (problem.batch_size or 1)))

    def _enlarged(self, problem: Problem, state: LazyNewtonState, order: Indices, digits: float) -> LazyNewtonState:
        """Return the state with a larger sample of the Hessian, where the last step shows that it pays."""
        members = state.curvature.members
        if members.size == order.size or not state.remainder > 0.0:
            return state
        batch = problem.batch_size or 1
        if not is_sample_too_small(problem.n_rows, members.size * batch, prices_of(problem), state.remainder, digits):
            return state
        return state._replace(curvature=_with_members(problem, state.curvature, order, 4 * members.size))

    def _prepared(self, problem: Problem, state: LazyNewtonState, sample: Sample, order: Indices) -> LazyNewtonState:
        """Return the state with the Hessian refreshed where that is worth it."""
        digits = 1.0
        if sample.is_complete(problem):
            digits = min(max(math.log10(max(state.optimality, 1e-300) / self.target), 1.0), 12.0)
            if self.hessian_rows == "auto":
                state = self._enlarged(problem, state, order, digits)
        curvature, n_replaced = refreshed(
            problem,
            state.curvature,
            state.curvatures,
            prices_of(problem),
            n_seen=sample.n_rows(problem),
            digits=digits,
            n_idle=state.n_idle,
            n_threads=self.n_threads,
        )
        if n_replaced == 0 and state.factor.size > 0:
            return state
        state = state._replace(
            curvature=curvature, n_hessians=state.n_hessians + n_replaced / (problem.batch_size or 1)
        )
        if curvature.members.size == sample.components.size:
            state = state._replace(secants=no_secants(problem.dim))
        return _refactored(problem, state, sample, state.shift)

    def estimate(self, problem: Problem, state: LazyNewtonState) -> float:
        """Return the optimality, which is known exactly."""
        return state.optimality

    def exact_measures(self, problem: Problem, state: LazyNewtonState) -> Measures | None:
        """Return what the last pass found at x: it was an exact one. None before it."""
        if state.n_sampled < problem.n_components:
            return None
        return Measures(objective(problem, state.x, self.n_threads), state.optimality, state.gradient.copy())

    def default_batch_size(self, problem: Problem) -> int:
        """Return n / 1024: components are what samples are drawn of."""
        return max(1, problem.n_rows // 1024)


def _with_members(problem: Problem, memory: LazyCurvature, order: Indices, n_members: int) -> LazyCurvature:
    """Return the memory with a sample of so many components: those it has, and the first others of the order."""
    if n_members >= order.size:
        chosen = np.sort(order)
    else:
        others = order[~np.isin(order, memory.members)]
        chosen = np.sort(np.concatenate([memory.members, others[: max(0, n_members - memory.members.size)]]))
    return memory._replace(members=chosen, share=sample_of(problem, chosen).share)


def _refactored(problem: Problem, state: LazyNewtonState, sample: Sample, shift: float) -> LazyNewtonState:
    factor, shift = factor_of(problem, state.curvature, sample.ridge, shift)
    return state._replace(factor=factor, shift=shift)


def _way(problem: Problem, state: LazyNewtonState, sample: Sample) -> Vector:
    """Return the step that the model asks for."""
    if not problem.is_smooth:
        hessian = np.tril(state.curvature.sums) + np.tril(state.curvature.sums, -1).T
        hessian /= state.curvature.share or 1.0
        diagonal = np.arange(problem.dim)
        hessian[diagonal, diagonal] *= 1.0 + state.shift
        penalised = diagonal[: problem.rows.n_columns]
        hessian[penalised, penalised] += sample.ridge
        return minimise_model(problem, hessian, state.gradient, state.x, 1e-3 * state.optimality) - state.x
    way = -solve(state.secants, lambda right: apply_inverse(state.factor, right), state.gradient)
    if not way @ state.gradient < 0.0:  # rounding errors
        way = -apply_inverse(state.factor, state.gradient)
    return way


class _End(NamedTuple):
    """A point on the way, and what a pass found there."""

    t: float
    x: Vector
    gradient: Vector
    curvatures: ShortVector
    squares: float
    slope: float  # of F along the way; with an l1 penalty, a bound of the rise of F over t
    remainder: float


def _stepped(
    problem: Problem, state: LazyNewtonState, sample: Sample, n_threads: int, way: Vector | None = None
) -> LazyNewtonState:
    """Return the state after a step: the whole of it, or as far as F falls."""
    way = _way(problem, state, sample) if way is None else way
    end = _end_of(problem, state, sample, way, 1.0, state.doubt, n_threads)
    n_read = sample.components.size
    if not problem.is_smooth:
        while not (end.slope <= 0.0 or end.remainder < 0.9) and end.t > 1e-9:
            end = _end_of(problem, state, sample, way, 0.25 * end.t, 2, n_threads)
            n_read += sample.components.size
    else:
        first = float(state.gradient @ way)
        fine = end.slope <= 0.0 or (end.slope <= 0.5 * abs(first) and end.remainder < 0.9)
        if not fine or end.slope < 0.65 * first:
            t = search(problem, sample, state.x, way, first)
            n_read += 2 * sample.components.size
            end = _end_of(problem, state, sample, way, t, 2 if t < 1.0 else state.doubt, n_threads)
    return _moved(problem, state, sample, end, n_read)


def _moved(problem: Problem, state: LazyNewtonState, sample: Sample, end: _End, n_read: int) -> LazyNewtonState:
    """Return the state at the end of a step, with the pair it gives."""
    state = state._replace(n_gradients=state.n_gradients + n_read)
    if not np.isfinite(end.gradient).all() or (end.t < 1e-6 and end.remainder > 0.999):
        raised = _refactored(problem, state, sample, max(1e-12, 100.0 * state.shift))
        return raised._replace(secants=no_secants(problem.dim), remainder=math.nan, n_idle=state.n_idle + 2, doubt=2)
    secants = state.secants
    if problem.is_smooth:
        secants = with_pair(secants, end.x - state.x, end.gradient - state.gradient)
    state = state._replace(
        x=end.x,
        gradient=end.gradient,
        curvatures=end.curvatures,
        secants=secants,
        remainder=end.remainder,
        n_idle=state.n_idle + (2 if end.remainder > 0.9 or end.t < 0.3 else 1)
        if end.remainder > 0.5 or end.t < 0.3
        else 0,
        doubt=2 if end.t < 0.5 or end.remainder > 0.9 else int(end.remainder > DOUBT),
        squares=end.squares,
        optimality=surrogate_optimality(problem, end.x, end.gradient),
    )
    if end.t < 0.01:
        return _refactored(problem, state, sample, max(1e-12, 10.0 * state.shift))
    if end.t > 0.3 and state.shift > 1e-14:
        return _refactored(problem, state, sample, 0.1 * state.shift)
    return state


def _end_of(
    problem: Problem, state: LazyNewtonState, sample: Sample, way: Vector, t: float, doubt: int, n_threads: int
) -> _End:
    """Return the point x + t way."""
    x = state.x + t * way
    gradient, curvatures, squares = look(problem, sample, x, state.curvatures, doubt=doubt, n_threads=n_threads)
    n_penalised = problem.rows.n_columns
    slope = float(gradient @ way)
    if not problem.is_smooth:
        was, now = np.abs(state.x[:n_penalised]).sum(), np.abs(x[:n_penalised]).sum()
        slope = t * slope + problem.penalty.lasso() * (now - was)
        remainder = surrogate_optimality(problem, x, gradient) / state.optimality
        return _End(t, x, gradient, curvatures, squares, slope, remainder)
    size = gradient @ apply_inverse(state.factor, gradient)
    before = state.gradient @ apply_inverse(state.factor, state.gradient)
    remainder = math.sqrt(max(float(size / before), 0.0)) if before > 0.0 else math.nan
    return _End(t, x, gradient, curvatures, squares, slope, remainder)
