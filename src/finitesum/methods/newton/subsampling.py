"""Steps on a growing sample of the components: what lazy Newton, Newton-CG and Newton on working sets have in common.

From x0 on, F is replaced by its mean over a sample of the components (`finitesum.evaluation.samples`), which grows. A step
w + t direction is taken with t = 1 where F falls for certain, as the gradient at its end shows because F is convex; else t
is searched for.
"""

import math
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.lines import line_through, slope_along
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.row_sums import Majorize, Vector32
from finitesum.evaluation.samples import Evaluation, Sample, evaluate_on, sample_of
from finitesum.evaluation.whole_arrays import whole_arrays
from finitesum.methods.base import SumMethod
from finitesum.methods.subproblems.line_search import wants_search, with_gentler_slope
from finitesum.problems.beside import zeros_by_row
from finitesum.problems.linear import Problem

#: Rows of the first sample, and by what factor a sample is larger than the one before.
FIRST_ROWS, GROWTH = 2000, 4

#: The fraction of all rows that the sample before all of them has, where the first one can be chosen for it.
LAST_FRACTION = 0.36

#: By how much sums over n rows may differ where F is the same, relatively and by sqrt(n): some units of rounding.
ROUNDING = 1e-15

#: How much more a number may be than in single precision, relatively.
SINGLE = 1.0 + 2.0**-23

#: The least optimality that a choice is made for: below are rounding errors.
LEAST_TOL = 1e-14


def permutation(order: Indices, m: int) -> Indices:
    """Return all components in the order of their first visit, those without one at the end."""
    if order.size == m and np.bincount(order, minlength=m).max() == 1:
        return order
    visited, first = np.unique(order, return_index=True)
    return np.concatenate([order[np.sort(first)], np.setdiff1d(np.arange(m), visited)])


def require_members(name: str, members: Indices, size: int, *, is_sorted: bool) -> None:
    """Raise unless an array of a state that was read from a file holds different numbers from 0 to below a size."""
    is_whole = members.ndim == 1 and members.dtype == np.int64
    ordered = members if is_sorted else np.sort(members)
    is_within = is_whole and (members.size == 0 or (ordered[0] >= 0 and ordered[-1] < size))
    if not (is_within and (ordered[1:] > ordered[:-1]).all()):
        kind = "increasing" if is_sorted else "different"
        raise ValueError(f"{name} must hold {kind} whole numbers from 0 to {size - 1}")


def order_like(problem: Problem, state: Any) -> Indices:
    """Return an order as that of a state that was read from a file must be, or raise."""
    m = problem.n_components if state.order.size else 0
    require_members("order", state.order, m, is_sorted=False)
    if not 0 <= state.n_sampled <= m:
        raise ValueError(f"n_sampled must be from 0 to {m}, got {state.n_sampled}")
    return np.arange(m)


def first_rows(problem: Problem) -> int:
    """Return the rows of the first sample: all of few; with few columns, of a size that leaves room for a second one."""
    n, dim = problem.n_rows, problem.dim
    usual = max(FIRST_ROWS, 8 * dim)
    return n if usual > LAST_FRACTION * n else min(usual, max(int(LAST_FRACTION / GROWTH * n), 6 * dim))


def next_size(problem: Problem, n_sampled: int, first_rows: int) -> int:
    """Return the number of components of the sample after one of n_sampled."""
    m = problem.n_components
    n_next = -(-first_rows // (problem.batch_size or 1)) if n_sampled == 0 else GROWTH * n_sampled
    return m if n_next > 0.4 * m else n_next


def found_at(problem: Problem, state: Any, w: Vector, found: Evaluation, **others: Any) -> Any:
    """Return the state at w, with what a pass has found there, and with other fields replaced."""
    return state._replace(x=w, optimality=problem.term.optimality(w, found.gradient), **found._asdict(), **others)


def search(problem: Problem, sample: Sample, w: Vector, direction: Vector, first: float) -> float:
    """Return t > 0 where the slope of F_A along w + t direction is between -1/2 and 0 of the first."""
    line = line_through(problem, w, direction, sample.components)
    term = problem.term
    square = sample.ridge * term.weighted_dot(direction, direction)
    linear = sample.ridge * term.weighted_dot(direction, w)
    has_sizes = term.has_l1 or not (term.is_smooth or term.is_constrained)

    def slope(t: float) -> float:
        of_sizes = term.slope(w + t * direction, direction) if has_sizes else 0.0
        return slope_along(problem, line, t) / sample.weight + linear + t * square + of_sizes

    return with_gentler_slope(slope, first)


def _sizes(squared_slopes: float, curvatures: Vector32) -> tuple[float, float]:
    return math.sqrt(squared_slopes), SINGLE * float(curvatures.max())


class End(NamedTuple):
    """A point along a direction, and what a pass found there."""

    t: float
    x: Vector
    found: Evaluation
    majorize: int  # of the pass
    slope: float  # of F along the direction; where r is not 0, a bound of the rise of F
    ratio: float  # what is left of the gradient, or of the optimality
    n_passes: int = 1  # that were spent to find it
    falls: bool = True  # whether F does


class SampledNewton(SumMethod):
    """Newton's methods on samples: once all components are sampled, a step ends with the exact gradient at its iterate.

    A method is a dataclass with the field `n_threads`, and counts that may be "auto". Its states begin with x, tol,
    gradient and curvatures; they have the other fields of `Evaluation`, and majorize, n_sampled, n_steps, optimality and
    n_gradients.
    """

    n_threads: int

    default_sampling: ClassVar[str] = "shuffled-once"
    patience: ClassVar[int] = 20
    #: Whether parts of a step lie on a line, also where F is not smooth.
    is_straight: ClassVar[bool] = True
    #: A step is not cut further than to this t.
    shortest: ClassVar[float] = 1e-9

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> Any:
        """Return the state before the first row is read."""
        return self.state_type(x0.copy(), tol, np.zeros(problem.dim), zeros_by_row(problem, np.float32))

    def estimate(self, problem: Problem, state: Any) -> float:
        """Return the optimality, which is known exactly at the end of a step over all components; NaN elsewhere."""
        return float(state.optimality) if state.n_sampled == problem.n_components else math.nan

    def exact_measures(self, problem: Problem, state: Any) -> Measures | None:
        """Return what the last pass found at the iterate, where that was an exact one."""
        if state.n_sampled < problem.n_components:
            return None
        value, sizes = state.value + problem.term.value(state.x), partial(_sizes, state.squared_slopes, state.curvatures)
        return Measures(value, state.optimality, state.gradient.copy(), sizes=sizes)

    def default_batch_size(self, problem: Problem) -> int:
        """Return n / 1024: components are what samples are drawn of."""
        return max(1, problem.n_rows // 1024)

    def on_larger_sample(self, problem: Problem, state: Any, first_rows: int, majorize: int) -> tuple[Any, Sample]:
        """Return the state on the next larger sample, with the gradient there.

        Only new rows are read, but of small data, where copying them apart from the others takes longer.
        """
        n_next = next_size(problem, state.n_sampled, first_rows)
        n_before = 0 if whole_arrays(problem) is not None else state.n_sampled
        before, sample = (sample_of(problem, state.order[:size]) for size in (n_before, n_next))
        known = Evaluation(state.gradient, state.curvatures, 0.0, 0.0)
        if n_before > 0:
            known = known._replace(squared_slopes=state.squared_slopes, value=state.value)
        found = evaluate_on(problem, sample, state.x, known, before=before, majorize=majorize, n_threads=self.n_threads)
        n_gradients = state.n_gradients + n_next - n_before
        after = found_at(problem, state, state.x, found, n_sampled=n_next, n_steps=0, n_gradients=n_gradients)
        return after, sample

    def point_at(self, problem: Problem, state: Any, direction: Vector, t: float) -> Vector:
        """Return the point to which a part t of a step leads."""
        end: Vector = state.x + t * direction
        return end

    def ratio_left(self, problem: Problem, state: Any, w: Vector, gradient: Vector) -> float:
        """Return the optimality that a gradient at w means, relative to the one before; 0 if that was 0."""
        return problem.term.optimality(w, gradient) / state.optimality if state.optimality != 0.0 else 0.0

    def end_of(self, problem: Problem, state: Any, sample: Sample, direction: Vector, t: float, majorize: int) -> End:
        """Return what a pass finds at the end of a part t of a step."""
        w = self.point_at(problem, state, direction, t)
        found = evaluate_on(problem, sample, w, state.curvatures, majorize=majorize, n_threads=self.n_threads)
        if problem.is_smooth:
            slope = float(found.gradient @ direction)
        else:  # g'(end - w) + r(end) - r(w) with the gradient g at the end is at least F's rise
            slope = float(found.gradient @ (w - state.x)) + problem.term.rise(state.x, w)
        return End(t, w, found, majorize, slope, self.ratio_left(problem, state, w, found.gradient))

    def step_along(self, problem: Problem, state: Any, sample: Sample, direction: Vector) -> End:
        """Return the end of a step: the whole of it, or as far as F falls on the sample."""
        end = self.end_of(problem, state, sample, direction, 1.0, state.majorize)
        n_passes, first = 1, float(state.gradient @ direction)
        if problem.is_smooth:
            is_searched = wants_search(end.slope, first, end.ratio)
        else:
            is_searched = self.is_straight and not falls_at(problem, state, sample, end)
            first += problem.term.rise(state.x, state.x + direction)  # at least the slope
        if is_searched and first < 0.0:  # it is not where a singular Hessian's rounding errors are the step
            t = search(problem, sample, state.x, direction, first)
            majorize = Majorize.ALL if t < 1.0 else state.majorize
            end, n_passes = self.end_of(problem, state, sample, direction, t, majorize), 3
        while not (falls := falls_at(problem, state, sample, end)) and end.t > self.shortest:
            end = self.end_of(problem, state, sample, direction, 0.25 * end.t, Majorize.ALL)
            n_passes += 1
        return end._replace(n_passes=n_passes, falls=falls)


def falls_at(problem: Problem, state: Any, sample: Sample, end: End) -> bool:
    """Return whether F is lower at the end of a step: where the slope there does not say it, the values do."""
    if end.slope <= 0.0:
        return True
    before = value_on(problem, sample, state.value, state.x)
    after = value_on(problem, sample, end.found.value, end.x)
    return after <= before + ROUNDING * math.sqrt(problem.n_rows) * abs(before)


def value_on(problem: Problem, sample: Sample, losses: float, w: Vector) -> float:
    """Return F on the sample, where the sum of its losses is known."""
    term = problem.term
    more_ridge = sample.ridge - term.ridge
    return float(losses / sample.weight + term.value(w) + 0.5 * more_ridge * term.weighted_dot(w, w))
