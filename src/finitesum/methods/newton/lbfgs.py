"""L-BFGS on a growing sample: for smooth sums whose columns hardly depend on each other.

A step is w+ = w - t B g(w), with g the gradient of F and B the inverse that the BFGS formula makes of the last pairs of
a step s and a change y of the gradient [1], and of gamma D^-1 to begin with: D is the diagonal of the Hessian at a
sample's first step, and again where the sum of curvatures has become three times as large or small, with curvatures of
majorants (of some thousand rows where rows are dense), and gamma = s'y / y'D^-1 y of the last pair. A step reads the
rows once. t = 1 is taken where F falls and its slope at the end is at most 0.9 times the first one's size, also where
it could have been longer; else, and at the first step, which has no pair to know its length by, t is searched for on
the row predictions, which are linear in t: that costs a pass. Growing samples are those of lazy Newton
(`finitesum.methods.newton.lazy_newton`): a sample is left once Newton's decrement, by B, is below a quarter of what the
sample's own error makes of it, or after 25 steps. Pairs stay then: a sample's Hessian is a part of the next one's.

A pass is one step, or one larger sample. Memory: 4 bytes a row, and up to 80 d numbers.

References
----------
.. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006, section 7.2.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.row_products import gram_diagonal
from finitesum.evaluation.row_sums import Majorize, Vector32
from finitesum.evaluation.samples import Sample, sample_of
from finitesum.methods.newton import subsampling
from finitesum.methods.newton.stale_hessian import noise, total_curvature
from finitesum.methods.newton.subsampling import FIRST_ROWS, End, SampledNewton, found_at
from finitesum.methods.parameters import Count, CountOrAuto
from finitesum.methods.subproblems.lbfgs import MEMORY, Pairs, no_pairs, solve, with_pair
from finitesum.problems.linear import Problem
from finitesum.problems.rows import n_entries

#: Steps on one sample but the last, at most, and the part of what a sample puts into the decrement to which they are taken.
MOST_STEPS, ENOUGH = 25, 0.25

#: The slope of F at the end of a whole step, by the first one's size, up to which it is taken where F falls.
STEEPEST = 0.9

#: By what factor curvatures may change before the diagonal is made again.
CHANGED = 3.0

#: Pairs that are kept at least, and how many times as much their products may read as a pass does.
FEWEST_PAIRS, OF_A_PASS = 8, 0.5


class LBFGSState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for
    gradient: Vector  # of F at x, over the sample
    curvatures: Vector32  # (n,)  of the rows, as the last pass found them
    squared_slopes: float = 0.0  # sum of p_i phi'_i^2 over the sample at x
    value: float = 0.0  # sum of p_i phi_i over the sample at x
    majorize: int = Majorize.ALL  # curvatures are those of majorants, which say more of other points
    diagonal: Vector = np.zeros(0)  # of the Hessian where it was made; empty before a sample's first step
    curvature: float = 0.0  # sum of p_i c_i over the sample there
    pairs: Pairs = no_pairs(0)
    order: Indices = np.zeros(0, dtype=np.int64)  # in which the components join the sample
    n_sampled: int = 0  # components of the sample
    n_steps: int = 0  # on this sample
    optimality: float = np.nan  # at x, over the sample: exact once that is complete
    n_gradients: int = 0
    n_hessians: int = 0


@dataclass(frozen=True)
class LBFGS(SampledNewton):
    """L-BFGS with the Hessian's diagonal, on a growing sample: no matrix, nothing to tune.

    w+ = w - t B grad F(w),  B from the last steps and changes of the gradient    [1, algorithm 7.5]

    Parameters
    ----------
    first_rows : int >= 1 or "auto"
        Rows of the first sample; n leaves sampling out. "auto" is max(2000, 8 d), or max(0.09 n, 6 d)
        where that is less; all rows where they are not some three times as many.
    n_threads : int >= 1
        Threads that share a pass. The result depends on their number by rounding errors.

    References
    ----------
    .. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006.
    """

    first_rows: CountOrAuto = "auto"
    n_threads: Count = 1

    state_type: ClassVar[type[LBFGSState]] = LBFGSState
    handles: ClassVar[frozenset[str]] = frozenset({"weights", "parts"})

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> LBFGSState:
        state: LBFGSState = super().init(problem, x0, tol)
        return state._replace(pairs=no_pairs(problem.dim))

    def template(self, problem: Problem, first: LBFGSState, state: LBFGSState) -> LBFGSState:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        n_pairs = min(len(state.pairs.steps), memory_of(problem))
        return first._replace(
            diagonal=np.zeros(problem.dim) if state.diagonal.size else first.diagonal,
            pairs=Pairs(*np.zeros((2, n_pairs, problem.dim))),
            order=subsampling.order_like(problem, state),
        )

    def blas_threads(self, problem: Problem) -> int | None:
        return 1  # products of vectors are not worth several

    def run_pass(self, problem: Problem, state: LBFGSState, order: Indices) -> LBFGSState:
        """Return the state after one step on the sample; on the next larger sample, where this one is minimised."""
        with np.errstate(all="ignore"):  # long steps show in their slope
            if state.n_sampled == 0:
                state = state._replace(order=subsampling.permutation(order, problem.n_components))
                return self._grown(problem, state)
            sample = sample_of(problem, state.order[: state.n_sampled])
            now = total_curvature(problem, sample, state.curvatures)
            if state.diagonal.size == 0 or not state.curvature / CHANGED <= now <= CHANGED * state.curvature:
                state = _with_diagonal(problem, state._replace(curvature=now), sample)
            direction = direction_of(state)
            if not sample.is_complete(problem) and _is_enough(problem, state, sample, direction):
                return self._grown(problem, state)
            end = self._end(problem, state, sample, direction)
            n_gradients = state.n_gradients + end.n_passes * sample.components.size
            state = state._replace(n_steps=state.n_steps + 1, n_gradients=n_gradients)
            if not (end.falls and np.isfinite(end.found.gradient).all()):
                return state._replace(pairs=no_pairs(problem.dim), diagonal=np.zeros(0))
            pairs = with_pair(state.pairs, end.x - state.x, end.found.gradient - state.gradient, memory_of(problem))
            moved: LBFGSState = found_at(problem, state, end.x, end.found, pairs=pairs)
            return moved

    def _grown(self, problem: Problem, state: LBFGSState) -> LBFGSState:
        """Return the state on the next larger sample, with the gradient there: only new rows are read."""
        first = subsampling.first_rows(problem) if self.first_rows == "auto" else int(self.first_rows)
        state, _ = self.on_larger_sample(problem, state, first, state.majorize)
        return state._replace(diagonal=np.zeros(0))

    def _end(self, problem: Problem, state: LBFGSState, sample: Sample, direction: Vector) -> End:
        """Return the end of a whole step where there are pairs and F falls, else of one whose length is searched for."""
        first, n_passes = float(state.gradient @ direction), 1
        if len(state.pairs.steps):
            end = self.end_of(problem, state, sample, direction, 1.0, state.majorize)
            falls = subsampling.falls_at(problem, state, sample, end)
            if falls and end.slope <= STEEPEST * abs(first):
                return end
            n_passes = 2
        t = subsampling.search(problem, sample, state.x, direction, first)
        end = self.end_of(problem, state, sample, direction, t, state.majorize)
        falls = subsampling.falls_at(problem, state, sample, end)
        return end._replace(n_passes=n_passes + 1, falls=falls)


def memory_of(problem: Problem) -> int:
    """Return how many pairs are kept: as many as take part of the time of a pass."""
    return min(max(int(OF_A_PASS * n_entries(problem.rows) / problem.dim), FEWEST_PAIRS), MEMORY)


def _with_diagonal(problem: Problem, state: LBFGSState, sample: Sample) -> LBFGSState:
    """Return the state with the diagonal of the Hessian over the sample, or over some thousand of its dense rows."""
    members, weight = sample.components, sample.weight
    most = -(-FIRST_ROWS // (problem.batch_size or 1))
    if not problem.rows.is_sparse() and members.size > most:
        part = sample_of(problem, state.order[:most])
        members, weight = part.components, part.weight
    diagonal = gram_diagonal(problem, state.curvatures, members) / weight + sample.ridge * problem.term.weights
    diagonal[~(diagonal > 0.0)] = 1.0
    return state._replace(diagonal=diagonal, n_gradients=state.n_gradients + members.size)


def direction_of(state: LBFGSState) -> Vector:
    """Return -B g."""
    scale = 1.0
    if len(state.pairs.steps):
        step, change = state.pairs.steps[-1], state.pairs.changes[-1]
        scale = float((step @ change) / (change @ (change / state.diagonal)))
    direction = -solve(state.pairs, lambda left: scale * left / state.diagonal, state.gradient)
    if not direction @ state.gradient < 0.0:  # rounding errors
        direction = -state.gradient / state.diagonal
    return direction


def _is_enough(problem: Problem, state: LBFGSState, sample: Sample, direction: Vector) -> bool:
    """Return whether F is minimised on the sample as far as the sample itself is accurate."""
    if state.n_steps == MOST_STEPS:
        return True
    least = ENOUGH * noise(problem, sample, state.curvatures, state.squared_slopes)
    return not -(state.gradient @ direction) > least
