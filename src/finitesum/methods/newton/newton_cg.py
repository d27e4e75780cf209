"""Newton-CG on a growing sample: for so many columns that no d x d matrix can be had.

At x the step is an approximate solution of H v = -g by conjugate gradients, preconditioned by H's diagonal,

    H = sum_i p_i phi''_i z_i z_i' + l2 I,    ||H v + g|| <= e ||g||,
    e = min(1/4, max(sqrt(||g|| / ||g_0||), 0.6 tol / ||g||))    [1, section 7.1]

with residuals in the norm of the inverse of H's diagonal as it was at a sample's first step, and g_0 the gradient where
Newton's steps begin: no step is solved more exactly than tol needs. (Accuracies by what the last step's quadratic
model missed, as Eisenstat and Walker propose, need as many products.) A product with H reads the rows once and is charged
as a pass of gradients. As long as steps are good it reads a copy in single precision, whose columns stand in the order of
how often they are used: those that most rows have lie close together, and stay in the cache. Acceptance of steps,
majorants and the growing samples are those of lazy Newton (see there). Memory: 4 bytes a row, 8
bytes an entry, and O(d).

From 0, on sparse rows with enough of an l2 penalty (q_i phi'' <= 3; with an intercept, >= 0.02, too), and unless
`first_rows` is given, the first pass of the run is one of epochs of dual coordinate ascent
(`finitesum.methods.newton.sdca`, [4]): until tol is met, or an epoch changes half of what the one before did or
more, 50 at most. Newton's steps go on from there; where F is not below its start, they begin with samples. An epoch
reads the rows once and is charged as a pass, but takes the time of two; it takes 24 bytes a row while it lasts. Epochs
run on one thread.

With an l1 penalty the step is taken on the face of the l1 norm that F falls to first [3]: coefficients keep their sign
s_j, those that are 0 take that of -g_j where |g_j| > l1, and stay 0 elsewhere. There F is smooth with the gradient
g + l1 s; after the step coefficients that lost their sign are set to 0, and the step is cut until F falls. All rows are
read from the start.

References
----------
.. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006.
.. [2] R. H. Byrd, G. M. Chin, W. Neveitt, J. Nocedal, "On the use of stochastic Hessian information in optimization methods
   for machine learning", SIAM J. Optim. 21 (2011).
.. [3] N. Keskar, J. Nocedal, F. Oztoprak, A. Waechter, "A second-order method for convex l1-regularized optimization with
   active-set prediction", Optim. Methods Softw. 31 (2016).
.. [4] S. Shalev-Shwartz, T. Zhang, "Stochastic dual coordinate ascent methods for regularized loss minimization", JMLR 14
   (2013).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.row_products import gram_diagonal, gram_product, objective
from finitesum.evaluation.row_sums import Majorize, Vector32
from finitesum.methods.base import Auto, Card
from finitesum.methods.newton.sampled_newton import LEAST_TOL, SampledNewton
from finitesum.methods.newton.sdca import Epoch, dual_epochs
from finitesum.methods.newton.subsampling import (
    FIRST_ROWS,
    Look,
    Sample,
    falls,
    look,
    look_at_more,
    next_size,
    permutation,
    rise_bound,
    sample_of,
    search,
    share_left,
    wants_search,
)
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows

#: Products with H for one step, at most.
MOST_PRODUCTS = 500

#: Bytes of entries of which a copy in single precision is made.
MOST_BYTES = 1e9

#: Epochs of dual ascent, at most, and the share of the changes that one must leave for conjugate gradients to be faster.
MOST_EPOCHS, SLOW = 50, 0.5

#: The gradient's norm after an epoch, by that of the changes in it.
AFTER_CHANGE = 2.0

#: Shorter parts of a step than this are not tried.
SHORTEST = 1e-6

#: Steps on one sample but the last, and the share of its first gradient to which they are taken.
MOST_STEPS, ENOUGH = 10, 0.1


class NewtonCGState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for: no step is solved more exactly than it needs
    gradient: Vector  # of F at x, over the sample
    curvatures: Vector32  # (n,)  of the rows, as the last pass saw them
    loss: float  # sum of p_i phi_i over the sample at x
    steepness: float  # the first gradient's norm over all rows
    majorize: int  # as in lazy Newton
    diagonal: Vector  # of H, as the sample's first step saw it; empty before
    n_sampled: int  # components of the sample
    optimality: float  # at x, exact once the sample is complete
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class NewtonCG(SampledNewton):
    """Newton's method by conjugate gradients, on a growing sample: no matrix, nothing to tune.

    x+ = x - t v,  H v = grad F(x) up to a residual that shrinks with the gradient    [1, section 7.1]

    Parameters
    ----------
    first_rows : int >= 1 or "auto"
        Rows of the first sample; n leaves sampling out. "auto" is 2000, and lets a run begin with dual coordinate ascent
        [4], on sparse rows with enough of an l2 penalty; its epochs, 50 at most, are then all in the first pass.
    n_threads : int >= 1
        Threads that share a pass (not an epoch). The result depends on their number by rounding errors.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> from finitesum import Problem, minimize
    >>> problem = Problem.linear([[1.0, 0.0], [3.0, 1.0]], [0.0, 2.0], loss="squared", alpha=0.1)
    >>> minimize(problem, method="newton-cg", tol=1e-12).success
    True

    References
    ----------
    .. [1] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006.
    .. [3] N. Keskar, J. Nocedal, F. Oztoprak, A. Waechter, "A second-order method for convex l1-regularized optimization
       with active-set prediction", Optim. Methods Softw. 31 (2016).
    .. [4] S. Shalev-Shwartz, T. Zhang, "Stochastic dual coordinate ascent methods for regularized loss minimization", JMLR
       14 (2013).
    """

    first_rows: int | Auto = "auto"
    n_threads: int = 1

    name: ClassVar[str] = "newton-cg"
    state_type: ClassVar[type[NewtonCGState]] = NewtonCGState
    handles: ClassVar[frozenset[str]] = frozenset({"l1"})
    card: ClassVar[Card] = Card(
        "Newton by conjugate gradients",
        "m + d",
        "d a product, sqrt(kappa) products a step",
        "superlinear near the optimum",
        "two derivatives",
        "Byrd et al. 2011",
    )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> NewtonCGState:
        """Return the state before the first row is read."""
        curvatures = np.zeros(problem.n_rows, dtype=np.float32)
        return NewtonCGState(
            x0.copy(), tol, np.zeros(problem.dim), curvatures, 0.0, math.nan, 1, np.zeros(0), 0, math.nan, 0, 0
        )

    def run_pass(self, problem: Problem, state: NewtonCGState, order: Indices) -> NewtonCGState:
        """Return the state after one step over all rows; at first, after epochs of dual ascent or the growing samples."""
        order = permutation(order, problem.n_components)
        with np.errstate(all="ignore"):  # a step that is too long is seen by its slope
            if state.n_sampled == 0 and self.first_rows == "auto" and not state.x.any():
                run = dual_epochs(problem, int(order[0]))
                if run is not None:
                    state = self._ascended(problem, state, order, run)
                    if state.n_sampled > 0:
                        return state
            while state.n_sampled < problem.n_components:
                state, sample = self._grown(problem, state, order)
                if sample.is_complete(problem):
                    return state
                enough = ENOUGH * state.optimality
                for _ in range(MOST_STEPS):
                    if state.optimality <= enough:
                        break
                    state = _stepped(problem, state, sample, 0.25, self.n_threads)
            sample = sample_of(problem, order)
            return _stepped(problem, state, sample, self._accuracy(state), self.n_threads)

    def _ascended(self, problem: Problem, state: NewtonCGState, order: Indices, run: Iterator[Epoch]) -> NewtonCGState:
        """Return the state after epochs of dual ascent, until tol is met or conjugate gradients gain more."""
        sample, before, after_change = sample_of(problem, order), math.inf, AFTER_CHANGE
        target = max(state.tol, LEAST_TOL)
        for k, (x, change) in enumerate(run, 1):
            is_slow = not change < SLOW * before or k == MOST_EPOCHS
            before = change
            state = state._replace(n_gradients=state.n_gradients + problem.n_components)
            if after_change * change > target and not is_slow:
                continue
            seen = look(problem, sample, x, state.curvatures, n_threads=self.n_threads)
            state = state._replace(n_gradients=state.n_gradients + problem.n_components)
            optimality = problem.term.optimality(x, seen.gradient)
            if optimality <= target or is_slow:
                break
            after_change = 1.2 * optimality / change
        if is_slow and optimality > target:
            state = state._replace(n_gradients=state.n_gradients + problem.n_components)
            if not seen.loss + problem.term.value(x) < objective(problem, state.x, self.n_threads):
                return state  # at the start, still
        return state._replace(
            x=x,
            gradient=seen.gradient,
            curvatures=seen.curvatures,
            loss=seen.loss,
            steepness=optimality,
            majorize=Majorize.NONE,
            n_sampled=problem.n_components,
            optimality=optimality,
        )

    def _accuracy(self, state: NewtonCGState) -> float:
        """Return what a step may leave of the gradient."""
        if not (state.optimality > 0.0 and state.steepness > 0.0):
            return 0.25
        needed = 0.6 * max(state.tol, LEAST_TOL) / state.optimality
        return min(0.25, max(math.sqrt(state.optimality / state.steepness), needed))

    def _grown(self, problem: Problem, state: NewtonCGState, order: Indices) -> tuple[NewtonCGState, Sample]:
        first = FIRST_ROWS if self.first_rows == "auto" else int(self.first_rows)
        first = first if problem.is_smooth else problem.n_rows
        n_next = next_size(problem, state.n_sampled, first)
        before, sample = sample_of(problem, order[: state.n_sampled]), sample_of(problem, order[:n_next])
        known = Look(state.gradient, state.curvatures, 0.0, state.loss)
        seen = look_at_more(problem, before, sample, state.x, known, majorize=state.majorize, n_threads=self.n_threads)
        optimality = problem.term.optimality(state.x, seen.gradient)
        state = state._replace(
            gradient=seen.gradient,
            curvatures=seen.curvatures,
            loss=seen.loss,
            steepness=optimality if math.isnan(state.steepness) else state.steepness,
            diagonal=np.zeros(0),
            n_sampled=n_next,
            optimality=optimality,
            n_gradients=state.n_gradients + n_next - state.n_sampled,
        )
        return state, sample


class Copy(NamedTuple):
    """A problem in other columns, which increase no more: for `gram_product` alone."""

    problem: Problem
    order: Indices | slice  # the coordinates of an iterate, as they stand in the copy


#: The problems in use, with their copies.
_COPIES: WeakKeyDictionary[Problem, Copy] = WeakKeyDictionary()


def copy_for_products(problem: Problem) -> Copy:
    """Return the problem with entries in float32 and often used columns of sparse rows first; itself if it is too large."""
    rows = problem.rows
    if rows.values.nbytes > MOST_BYTES:
        return Copy(problem, slice(None))
    if problem not in _COPIES:
        order: Indices | slice = slice(None)
        values = rows.values.astype(np.float32, copy=False)
        if isinstance(rows, CSRRows):
            used = np.bincount(rows.columns, minlength=rows.n_columns)
            order = np.concatenate([np.argsort(-used, kind="stable"), np.arange(rows.n_columns, rows.dim())])
            places = np.empty(rows.dim(), dtype=rows.columns.dtype)
            places[order] = np.arange(rows.dim())
            rows = rows._replace(values=values, columns=places[rows.columns])
        else:
            rows = rows._replace(values=values)
        _COPIES[problem] = Copy(replace(problem, rows=rows), order)
    return _COPIES[problem]


def conjugate_gradients(
    problem: Problem,
    sample: Sample,
    curvatures: Vector32,
    right: Vector,
    diagonal: Vector,
    free: npt.NDArray[np.bool_],
    accuracy: float,
    n_threads: int,
) -> tuple[Vector, int]:
    """Return v with H v = right on the free coordinates up to `accuracy` times its norm, and the products that this took.

    The others are 0 in `right`, and in v. The diagonal is the preconditioner.
    """
    penalised = slice(problem.rows.n_columns)
    solution, residual = np.zeros(right.size), right.copy()
    scaled = residual / diagonal
    size = start = residual @ scaled
    way = scaled
    for k in range(MOST_PRODUCTS + 1):
        if k == MOST_PRODUCTS or not size > accuracy**2 * start:
            break
        product = gram_product(problem, curvatures, way, sample.components, n_threads)
        product /= sample.share
        product[penalised] += sample.ridge * way[penalised]
        product[~free] = 0.0
        bend = way @ product
        if not bend > 0.0:
            break
        solution += size / bend * way
        residual -= size / bend * product
        scaled = residual / diagonal
        before, size = size, residual @ scaled
        way *= size / before
        way += scaled
    return (solution if solution.any() else right / diagonal), k


def _way(
    problem: Problem,
    state: NewtonCGState,
    sample: Sample,
    right: Vector,
    free: npt.NDArray[np.bool_],
    accuracy: float,
    n_threads: int,
) -> tuple[Vector, Vector, int]:
    """Return the solution of H v = right, H's diagonal and the passes: in float32 unless curvatures are majorants."""
    diagonal, n_passes = state.diagonal, 0
    if diagonal.size == 0:
        diagonal = gram_diagonal(problem, state.curvatures, sample.components) / sample.share
        diagonal[: problem.rows.n_columns] += sample.ridge
        diagonal[~(diagonal > 0.0)] = 1.0
        n_passes = 1
    read, order = copy_for_products(problem) if state.majorize == Majorize.NONE else Copy(problem, slice(None))
    found, n_products = conjugate_gradients(
        read, sample, state.curvatures, right[order], diagonal[order], free[order], accuracy, n_threads
    )
    way = np.empty_like(right)
    way[order] = found
    return way, diagonal, n_passes + n_products


def _stepped(problem: Problem, state: NewtonCGState, sample: Sample, accuracy: float, n_threads: int) -> NewtonCGState:
    """Return the state after a step: the whole of it, or as far as F falls."""
    if not problem.is_smooth:
        return _stepped_on_face(problem, state, sample, accuracy, n_threads)
    free = np.ones(problem.dim, dtype=bool)
    way, diagonal, n_passes = _way(problem, state, sample, -state.gradient, free, accuracy, n_threads)
    state = state._replace(diagonal=diagonal)
    first, t = float(state.gradient @ way), 1.0
    seen = look(problem, sample, state.x + way, state.curvatures, majorize=state.majorize, n_threads=n_threads)
    slope, n_passes = float(seen.gradient @ way), n_passes + 1
    if wants_search(slope, first, share_left(problem, state.x + way, seen.gradient, state.optimality)):
        t = search(problem, sample, state.x, way, first)
        seen = look(
            problem, sample, state.x + t * way, state.curvatures, majorize=Majorize.ALL if t < 1.0 else state.majorize
        )
        n_passes += 3
    return _moved(problem, state, state.x + t * way, seen, n_passes * sample.components.size, is_short=t < 0.5)


def _stepped_on_face(
    problem: Problem, state: NewtonCGState, sample: Sample, accuracy: float, n_threads: int
) -> NewtonCGState:
    """Return the state after a step on the face of the l1 norm that F falls to first, cut at its border."""
    x, gradient = state.x, state.gradient
    signs = np.sign(x)
    lasso = problem.penalty.lasso()
    signs[x == 0.0] = -np.sign(gradient[x == 0.0]) * (np.abs(gradient[x == 0.0]) > lasso)
    free = signs != 0.0
    signs[problem.rows.n_columns :], free[problem.rows.n_columns :] = 0.0, True
    right = np.where(free, -(gradient + lasso * signs), 0.0)
    way, diagonal, n_passes = _way(problem, state, sample, right, free, accuracy, n_threads)
    state = state._replace(diagonal=diagonal)
    t, majorize = 1.0, state.majorize
    while t > SHORTEST:
        end = x + t * way
        end[signs * end < 0.0] = 0.0
        seen = look(problem, sample, end, state.curvatures, majorize=majorize, n_threads=n_threads)
        n_passes += 1
        rise = rise_bound(problem, x, end, seen.gradient)
        left = share_left(problem, end, seen.gradient, state.optimality)
        if falls(problem, sample, x, end, rise=rise, left=left, n_threads=n_threads):
            return _moved(problem, state, end, seen, n_passes * sample.components.size, is_short=t < 1.0)
        t, majorize = 0.25 * t, Majorize.ALL
    return state._replace(majorize=Majorize.ALL, n_gradients=state.n_gradients + n_passes * sample.components.size)


def _moved(
    problem: Problem, state: NewtonCGState, x: Vector, seen: Look, n_read: int, *, is_short: bool
) -> NewtonCGState:
    """Return the state at the end of a step, and what was read there."""
    optimality = problem.term.optimality(x, seen.gradient)
    n_gradients = state.n_gradients + n_read
    if not math.isfinite(optimality):
        return state._replace(majorize=Majorize.ALL, n_gradients=n_gradients)
    left = optimality / state.optimality if state.optimality > 0.0 else 0.0
    return state._replace(
        x=x,
        gradient=seen.gradient,
        curvatures=seen.curvatures,
        loss=seen.loss,
        majorize=(2 if is_short or left > 1.0 else int(left > 0.5)) if problem.is_smooth else int(is_short),
        optimality=optimality,
        n_gradients=n_gradients,
    )
