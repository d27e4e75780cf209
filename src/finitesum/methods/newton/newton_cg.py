"""Newton-CG on a growing sample: for so many columns that no d x d matrix can be had.

At x the step is an approximate solution of H v = -g by conjugate gradients, preconditioned by H's diagonal,

    H = sum_i p_i phi''_i x_i x_i' + l2 I,    ||H v + g|| <= e ||g||,
    e = min(1/4, max(sqrt(||g|| / ||g_0||), 0.6 tol / ||g||))    [1, section 7.1]

with residuals in the norm of the inverse of H's diagonal as it was at a sample's first step, and g_0 the gradient where
Newton's steps begin: no step is solved more exactly than tol needs. (Accuracies by what the last step's quadratic
model missed, as Eisenstat and Walker propose, need as many products.) A product with H reads the rows once and is charged
as a pass of gradients. As long as steps are good it reads a copy in single precision, whose columns stand in the order of
how often they are used: those that most rows have lie close together, and stay in the cache. Acceptance of steps,
majorants and the growing samples are those of lazy Newton (see there). Memory: 4 bytes a row, 8
bytes an entry, and O(d).

From 0, on sparse rows with enough of an l2 penalty (q_i phi'' <= 3; with an intercept, >= 0.02, too), and unless
`first_rows` is given, a run begins with epochs of stochastic dual coordinate ascent (`finitesum.methods.newton.sdca`, [4]):
until tol is met, or an epoch changes half of what the one before did or more, 50 at most. Newton's steps go on from there;
where F is not below its start, they begin with samples. An epoch reads the rows once and is charged as a pass, but takes
the time of two; 24 bytes a row while they last. Epochs run on one thread.

A pass is an epoch, a larger sample, a product, or the end of a step.

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
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Vector
from finitesum.core.threads import limited_blas
from finitesum.evaluation.row_products import gram_diagonal, gram_product, objective
from finitesum.evaluation.row_sums import Majorize, Vector32
from finitesum.methods.base import Auto, Card
from finitesum.methods.newton.sdca import DualState, first_epoch, next_epoch, no_epochs
from finitesum.methods.newton.subsampling import (
    FIRST_ROWS,
    LEAST_TOL,
    Evaluation,
    Sample,
    SampledNewton,
    evaluate_more,
    evaluate_on,
    falls,
    next_size,
    permutation,
    ratio_left,
    rise_bound,
    sample_of,
    search,
)
from finitesum.methods.subproblems.conjugate_gradients import ConjugateGradients, advanced, begun, no_run, redirected
from finitesum.methods.subproblems.line_search import wants_search
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows

#: Products with H for one step, at most.
MOST_PRODUCTS = 500

#: Bytes of entries of which a copy in single precision is made.
MOST_BYTES = 1e9

#: Epochs of dual ascent, at most, and the share of the changes that one must leave for conjugate gradients to be faster.
MOST_EPOCHS, SLOW = 50, 0.5

#: Shorter parts of a step than this are not tried.
SHORTEST = 1e-6

#: Steps on one sample but the last, and the share of its first gradient to which they are taken.
MOST_STEPS, ENOUGH = 10, 0.1


class NewtonCGState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for: no step is solved more exactly than it needs
    gradient: Vector  # of F at x, over the sample
    curvatures: Vector32  # (n,)  of the rows, as the last pass found them
    value: float  # sum of p_i phi_i over the sample at x
    first_optimality: float  # where Newton's steps began
    majorize: int  # as in lazy Newton
    diagonal: Vector  # of H, at the sample's first step; empty before
    dual: DualState  # of the epochs; empty before and after them
    cg: ConjugateGradients  # for the step that is being solved; empty between steps
    order: Indices  # in which the components join the sample
    n_sampled: int  # components of the sample
    n_steps: int  # on this sample
    enough: float  # the optimality to which F is minimised on this sample
    optimality: float  # at x, over the sample: exact once that is complete
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
        [4], on sparse rows with enough of an l2 penalty.
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
        return NewtonCGState(
            x=x0.copy(),
            tol=tol,
            gradient=np.zeros(problem.dim),
            curvatures=np.zeros(problem.n_rows, dtype=np.float32),
            value=0.0,
            first_optimality=math.nan,
            majorize=Majorize.MISCLASSIFIED,
            diagonal=np.zeros(0),
            dual=no_epochs(),
            cg=no_run(),
            order=np.zeros(0, dtype=np.int64),
            n_sampled=0,
            n_steps=0,
            enough=math.nan,
            optimality=math.nan,
            n_gradients=0,
            n_hessians=0,
        )

    def run_pass(self, problem: Problem, state: NewtonCGState, order: Indices) -> NewtonCGState:
        """Return the state after an epoch, a larger sample, a product of conjugate gradients, or the end of a step."""
        with (
            np.errstate(all="ignore"),  # a step that is too long shows in its slope
            limited_blas(1),  # products of vectors are not worth several threads
        ):
            if state.order.size == 0:
                may_begin = self.first_rows == "auto" and not state.x.any()
                dual = first_epoch(problem) if may_begin else no_epochs()
                state = state._replace(order=permutation(order, problem.n_components), dual=dual)
            if state.dual.slopes.size > 0:
                return self._after_epoch(problem, state)
            is_complete = state.n_sampled == problem.n_components
            is_between = state.cg.residual.size == 0
            is_minimised = state.n_steps == MOST_STEPS or state.optimality <= state.enough
            if state.n_sampled == 0 or (is_between and is_minimised and not is_complete):
                return self._grown(problem, state)
            sample = sample_of(problem, state.order[: state.n_sampled])
            if is_between:
                state = _begun(problem, state, sample)
            if _is_solved(state.cg, self._accuracy(state) if is_complete else 0.25):
                return _stepped(problem, state, sample, self.n_threads)
            return _multiplied(problem, state, sample, self.n_threads)

    def estimate(self, problem: Problem, state: Any) -> float:
        """Return the optimality at the end of a step over all components, where it is known exactly; NaN elsewhere."""
        return math.nan if state.cg.residual.size > 0 else super().estimate(problem, state)

    def _after_epoch(self, problem: Problem, state: NewtonCGState) -> NewtonCGState:
        """Return the state after an epoch: the last one where tol is met or conjugate gradients gain more."""
        m, tol, before = problem.n_components, max(state.tol, LEAST_TOL), state.dual.change
        x, dual = next_epoch(problem, state.x, state.dual, int(state.order[0]))
        is_slow = not dual.change < SLOW * before or dual.n_epochs == MOST_EPOCHS
        state = state._replace(x=x, dual=dual, n_gradients=state.n_gradients + m)
        if dual.after_change * dual.change > tol and not is_slow:
            return state
        found = evaluate_on(problem, sample_of(problem, state.order), x, state.curvatures, n_threads=self.n_threads)
        optimality = problem.term.optimality(x, found.gradient)
        state = state._replace(n_gradients=state.n_gradients + m)
        if optimality > tol and not is_slow:
            return state._replace(dual=dual._replace(after_change=1.2 * optimality / dual.change))
        state = state._replace(dual=no_epochs())
        if optimality > tol:
            state = state._replace(n_gradients=state.n_gradients + m)
            start = np.zeros(problem.dim)
            if not found.value + problem.term.value(x) < objective(problem, start, self.n_threads):
                return state._replace(x=start)
        return state._replace(
            gradient=found.gradient,
            curvatures=found.curvatures,
            value=found.value,
            first_optimality=optimality,
            majorize=Majorize.NONE,
            n_sampled=m,
            optimality=optimality,
        )

    def _accuracy(self, state: NewtonCGState) -> float:
        """Return what a step over all components may leave of the gradient."""
        if not (state.optimality > 0.0 and state.first_optimality > 0.0):
            return 0.25
        needed = 0.6 * max(state.tol, LEAST_TOL) / state.optimality
        return min(0.25, max(math.sqrt(state.optimality / state.first_optimality), needed))

    def _grown(self, problem: Problem, state: NewtonCGState) -> NewtonCGState:
        """Return the state on the next larger sample, with the gradient there: only new rows are read."""
        first = FIRST_ROWS if self.first_rows == "auto" else int(self.first_rows)
        n_next = next_size(problem, state.n_sampled, first if problem.is_smooth else problem.n_rows)
        before, sample = (sample_of(problem, state.order[:size]) for size in (state.n_sampled, n_next))
        known = Evaluation(state.gradient, state.curvatures, 0.0, state.value)
        found = evaluate_more(
            problem, before, sample, state.x, known, majorize=state.majorize, n_threads=self.n_threads
        )
        optimality = problem.term.optimality(state.x, found.gradient)
        return state._replace(
            gradient=found.gradient,
            curvatures=found.curvatures,
            value=found.value,
            first_optimality=optimality if math.isnan(state.first_optimality) else state.first_optimality,
            diagonal=np.zeros(0),
            n_sampled=n_next,
            n_steps=0,
            enough=ENOUGH * optimality,
            optimality=optimality,
            n_gradients=state.n_gradients + n_next - state.n_sampled,
        )


class Copy(NamedTuple):
    """A problem in other columns, which increase no more: for `gram_product` alone."""

    problem: Problem
    order: Indices | slice  # the coordinates of an iterate, as they stand in the copy


def copy_for_products(problem: Problem) -> Copy:
    """Return the problem with entries in float32 and often used columns of sparse rows first; itself if it is too large."""
    if problem.rows.values.nbytes > MOST_BYTES:
        return Copy(problem, slice(None))
    if "copy_for_products" not in problem.derived:
        problem.derived["copy_for_products"] = _copied(problem)
    found: Copy = problem.derived["copy_for_products"]
    return found


def _copied(problem: Problem) -> Copy:
    rows, order = problem.rows, slice(None)
    values = rows.values.astype(np.float32, copy=False)
    if not isinstance(rows, CSRRows):
        return Copy(replace(problem, rows=rows._replace(values=values)), order)
    used = np.bincount(rows.columns, minlength=rows.n_columns)
    by_use = np.concatenate([np.argsort(-used, kind="stable"), np.arange(rows.n_columns, rows.dim())])
    places = np.empty(rows.dim(), dtype=rows.columns.dtype)
    places[by_use] = np.arange(rows.dim())
    return Copy(replace(problem, rows=rows._replace(values=values, columns=places[rows.columns])), by_use)


def _read(problem: Problem, state: NewtonCGState) -> Copy:
    """Return what products are taken with: the copy, unless curvatures are majorants."""
    return copy_for_products(problem) if state.majorize == Majorize.NONE else Copy(problem, slice(None))


class _Face(NamedTuple):
    """Where F is smooth: where coefficients keep their signs."""

    signs: Vector  # of the coefficients, 0 for those that stay 0 and for an intercept
    free: npt.NDArray[np.bool_]  # the coordinates that move
    right: Vector  # minus the gradient there


def _face(problem: Problem, state: NewtonCGState) -> _Face:
    """Return where F falls first; everything without an l1 penalty."""
    if problem.is_smooth:
        return _Face(np.zeros(problem.dim), np.ones(problem.dim, dtype=bool), -state.gradient)
    x, gradient, n_columns, lasso = state.x, state.gradient, problem.rows.n_columns, problem.penalty.lasso()
    signs = np.sign(x)
    signs[x == 0.0] = -np.sign(gradient[x == 0.0]) * (np.abs(gradient[x == 0.0]) > lasso)
    free = signs != 0.0
    signs[n_columns:], free[n_columns:] = 0.0, True
    return _Face(signs, free, np.where(free, -(gradient + lasso * signs), 0.0))


def _begun(problem: Problem, state: NewtonCGState, sample: Sample) -> NewtonCGState:
    """Return the state with conjugate gradients begun for the next step, preconditioned by H's diagonal."""
    if state.diagonal.size == 0:
        diagonal = gram_diagonal(problem, state.curvatures, sample.components) / sample.weight
        diagonal[: problem.rows.n_columns] += sample.ridge
        diagonal[~(diagonal > 0.0)] = 1.0
        state = state._replace(diagonal=diagonal, n_gradients=state.n_gradients + sample.components.size)
    order = _read(problem, state).order
    right = _face(problem, state).right[order]
    return state._replace(cg=begun(right, right / state.diagonal[order]))


def _is_solved(cg: ConjugateGradients, accuracy: float) -> bool:
    """Return whether the residual is at most `accuracy` times what it was, in the norm of the preconditioner."""
    return cg.is_over or cg.n_products == MOST_PRODUCTS or not cg.size > accuracy**2 * cg.start


def _multiplied(problem: Problem, state: NewtonCGState, sample: Sample, n_threads: int) -> NewtonCGState:
    """Return the state after a product with H: a pass, in the coordinates of the copy that is read."""
    read, order = _read(problem, state)
    penalised = slice(problem.rows.n_columns)
    product = gram_product(read, state.curvatures, state.cg.direction, sample.components, n_threads)
    product /= sample.weight
    product[penalised] += sample.ridge * state.cg.direction[penalised]
    if not problem.is_smooth:
        product[~_face(problem, state).free[order]] = 0.0
    cg = advanced(state.cg, product)
    if not cg.is_over:
        cg = redirected(cg, cg.residual / state.diagonal[order])
    return state._replace(cg=cg, n_gradients=state.n_gradients + sample.components.size)


def _stepped(problem: Problem, state: NewtonCGState, sample: Sample, n_threads: int) -> NewtonCGState:
    """Return the state after a step along what conjugate gradients found: the whole of it, or as far as F falls."""
    order, face = _read(problem, state).order, _face(problem, state)
    direction = np.empty(problem.dim)
    direction[order] = state.cg.solution
    if not direction.any():
        direction = face.right / state.diagonal
    state = state._replace(cg=no_run(), n_steps=state.n_steps + 1)
    if not problem.is_smooth:
        return _stepped_on_face(problem, state, sample, direction, face.signs, n_threads)
    first, t, n_passes = float(state.gradient @ direction), 1.0, 1
    found = evaluate_on(
        problem, sample, state.x + direction, state.curvatures, majorize=state.majorize, n_threads=n_threads
    )
    ratio = ratio_left(problem, state.x + direction, found.gradient, state.optimality)
    if wants_search(float(found.gradient @ direction), first, ratio):
        t = search(problem, sample, state.x, direction, first)
        majorize = Majorize.ALL if t < 1.0 else state.majorize
        found = evaluate_on(problem, sample, state.x + t * direction, state.curvatures, majorize=majorize)
        n_passes += 3
    return _moved(problem, state, state.x + t * direction, found, n_passes * sample.components.size, is_cut=t < 0.5)


def _stepped_on_face(
    problem: Problem, state: NewtonCGState, sample: Sample, direction: Vector, signs: Vector, n_threads: int
) -> NewtonCGState:
    """Return the state after a step that sets to 0 what loses its sign, cut until F falls."""
    t, majorize, n_passes = 1.0, state.majorize, 0
    while t > SHORTEST:
        end = state.x + t * direction
        end[signs * end < 0.0] = 0.0
        found = evaluate_on(problem, sample, end, state.curvatures, majorize=majorize, n_threads=n_threads)
        n_passes += 1
        rise = rise_bound(problem, state.x, end, found.gradient)
        ratio = ratio_left(problem, end, found.gradient, state.optimality)
        if falls(problem, sample, state.x, end, rise=rise, ratio=ratio, n_threads=n_threads):
            return _moved(problem, state, end, found, n_passes * sample.components.size, is_cut=t < 1.0)
        t, majorize = 0.25 * t, Majorize.ALL
    n_gradients = state.n_gradients + n_passes * sample.components.size
    return state._replace(majorize=Majorize.ALL, n_gradients=n_gradients)


def _moved(
    problem: Problem, state: NewtonCGState, x: Vector, found: Evaluation, n_read: int, *, is_cut: bool
) -> NewtonCGState:
    """Return the state at the end of a step, and what was found there."""
    optimality = problem.term.optimality(x, found.gradient)
    n_gradients = state.n_gradients + n_read
    if not math.isfinite(optimality):
        return state._replace(majorize=Majorize.ALL, n_gradients=n_gradients)
    ratio = optimality / state.optimality if state.optimality > 0.0 else 0.0
    majorize = Majorize(is_cut)
    if problem.is_smooth:
        majorize = Majorize.ALL if is_cut or ratio > 1.0 else Majorize(ratio > 0.5)
    return state._replace(
        x=x,
        gradient=found.gradient,
        curvatures=found.curvatures,
        value=found.value,
        majorize=majorize,
        optimality=optimality,
        n_gradients=n_gradients,
    )
