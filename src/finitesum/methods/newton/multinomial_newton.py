"""Newton's method for several outputs (classes or targets): exact for small K d, else by conjugate gradients.

At w, with g and H the gradient and Hessian of F, a step is w+ = w - t p with H p = g. t is the first of 1, 1/2, 1/4, ...
with F(w+) <= F(w) - t/10^4 g'p, up to rounding [1]; trials cost no data, because the scores are linear in t.

exact   the Hessian, K (K+1)/2 Gram matrices, and its Cholesky factor: m component Hessians a step, which is a pass; of
        classes it is that in the differences to the last one (`finitesum.evaluation.class_hessians`), with fewer rows than
        columns in the span of the rows (`finitesum.evaluation.row_space`)
cg      conjugate gradients until the residual is at most min(1/2, sqrt(||g||_1)) ||g|| [2], or 0.6 tol: no step is
        solved more exactly than tol needs. A product with H is charged as a pass of component gradients, and is a pass of
        the run; the end of a step is another. On small data a pass is up to eight products, with the end of their step.
        The preconditioner of class k is the Cholesky factor of

            sum_{i in I_k} c_ik x_i x_i' + diag(sum_{i not in I_k} c_ik x_ij^2) + l2 I,    c_ik = p_i P_ik (1 - P_ik)

        with I_k the 3 dim rows of largest curvature c_ik (as large a fraction of each part, where rows lie in parts):
        near the optimum few rows have any. I_k is empty, which leaves a diagonal, of which a power is taken, for the
        first products of a step, a hundred and as many as the factors cost, with more than 2000 columns, and where
        solving by the factors takes longer than a product: they leave out what couples the classes, and help where
        columns are far from 0 or differ much in size, not elsewhere. While a step is solved its state holds the
        curvatures, n K numbers, and the preconditioner, K d or K d^2. Sparse rows may have a copy by columns
        (`finitesum.evaluation.sparse_outputs`).

        With few rows for each column steps are in the span of the rows, where products take less time
        (`is_worth_span`): a factor of all classes, of the mean of their curvatures,

            sum_i c_i x_i x_i' + l2 I,    c_i = p_i mean_k P_ik (1 - P_ik)

        is the preconditioner there, made again where the last step took more time than it; products are 2 to 8 times
        fewer so. The last digits are those of steps in all columns.

Intercepts, and coefficients without a penalty, are determined up to one number for all classes; the exact solver pins
it by a term that no gradient sees, and steps keep the mean over the classes.

References
----------
.. [1] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, section 9.5.
.. [2] J. Nocedal, S. Wright, "Numerical optimization", 2006, section 7.1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.vectors import sum_of_squares
from finitesum.evaluation import outputs as several
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.rounding import extended_gradient, is_rounded_by_norms
from finitesum.evaluation.row_blocks import sum_over_problems
from finitesum.evaluation.row_space import from_row_space, into_row_space, is_wide, row_space
from finitesum.methods.base import SumMethod
from finitesum.methods.class_costs import is_cheap, is_worth_span, products_of_metric
from finitesum.methods.cost_model import MOST_FACTORED, threads_for_classes
from finitesum.methods.newton.class_factor import ClassFactor, class_hessian, divided
from finitesum.methods.subproblems.conjugate_gradients import (
    DIAGONAL_POWER,
    ConjugateGradients,
    advanced,
    begun,
    redirected,
)
from finitesum.methods.subproblems.line_search import halved, rounding_of
from finitesum.methods.subproblems.positive_definite import raised_factor, solve_spd
from finitesum.problems.beside import empty_by_row
from finitesum.problems.linear import Problem
from finitesum.problems.rows import n_entries

#: Products of a step with the diagonal preconditioner, at least, before the factors are made.
PLAIN_PRODUCTS = 100

#: What a step's residual may be, by the tolerance, so that the rest is for what the model misses, and by the gradient.
NEEDED, MOST_LEFT = 0.6, 0.25

#: Numbers, stored ones and variables, that products read in about a millisecond, and products of a pass at most:
#: a run may go that many passes over its limit.
NUMBERS_OF_A_PASS, MOST_AT_ONCE = 1e6, 8

#: What a step in the span of the rows leaves of a gradient, unless F falls by products that are not exhausted, or rounding
#: errors are what is left.
LEAST_FALL = 0.5

#: d^2 by the stored numbers of the rows, up to which solving by a factor takes less time than a product (161 problems).
NUMBERS_OF_FACTOR = 0.6

#: Diagonals of the outputs' blocks, shape (K, dim), or their Cholesky factors, (K, dim, dim), lower triangles; one for all
#: outputs has the shape (1, dim, dim).
Preconditioner = npt.NDArray[np.float64]


class MultinomialState(NamedTuple):
    x: Vector  # iterate, (K dim,)
    scores: Matrix  # (n, K)
    gradient: Vector
    objective: float
    n_gradients: int
    n_hessians: int
    tol: float = 0.0  # the optimality asked for
    within: Vector = np.zeros(0)  # the iterate in the span of the rows, where steps are there, and all but x is of there
    preconditioner: Preconditioner = np.zeros((0, 0))  # kept between steps where it is one of all outputs
    n_products: int = 0  # of the last step
    # what follows is empty between steps
    curvatures: Matrix = np.zeros((0, 0))  # (n, K)  at x, while conjugate gradients run
    direction: Vector = np.zeros(0)  # of the step, as far as the run with the diagonal preconditioner has found it
    cg: ConjugateGradients = ConjugateGradients()  # for the rest of the direction
    enough: float = 0.0  # what the residual may be


#: What makes a pass.
Stepped = Callable[[Problem, MultinomialState], MultinomialState]


@dataclass(frozen=True)
class MultinomialNewton(SumMethod):
    """Newton's method for linear models with several outputs: classes, or targets of the squared loss.

    w+ = w - t p,   H p = grad F(w)

    Parameters
    ----------
    solver : {"auto", "exact", "cg"}
        How a step is found: by the Cholesky factor of the Hessian, O(n (K d)^2 / 2 + (K d)^3 / 3), or by conjugate
        gradients. "auto" is exact for at most 200 variables, or where a step takes some 20 ms at most.

    Examples
    --------
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[0.0], [1.0], [2.0]], ["a", "b", "c"], loss="multinomial", alpha=0.1)
    >>> result = minimize(problem, method=MultinomialNewton(), tol=1e-10)
    >>> result.success, result.x.round(6)
    (True, array([-0.757493,  0.182097,  0.575396]))
    """

    solver: Literal["auto", "exact", "cg"] = "auto"

    handles: ClassVar[frozenset[str]] = frozenset({"outputs", "parts"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 25

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem has one output."""
        if problem.n_outputs > 1:
            return ""
        return 'multinomial-newton needs several outputs, got one. Use method="newton".'

    def blas_threads(self, problem: Problem) -> int | None:
        return threads_for_classes(problem)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> MultinomialState:
        """Return the state before the first step: scores and gradient at the start, or at its part in the rows' span."""
        if not (is_wide(problem) if self._is_exact(problem) else is_worth_span(problem)):
            return state_at(problem, x0.copy(), problem.n_components, 0)._replace(tol=tol)
        inside = row_space(problem).inside
        start = into_row_space(problem, x0) if x0.any() else np.zeros(inside.dim)
        first = state_at(inside, start, problem.n_components, 0)
        return first._replace(x=x0.copy(), within=first.x, tol=tol)

    def template(self, problem: Problem, first: MultinomialState, state: MultinomialState) -> MultinomialState:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        if not state.within.size:  # which a run leaves
            first = first._replace(within=np.zeros(0), gradient=first.x)
        n_outputs, dim = problem.n_outputs, first.gradient.size // problem.n_outputs
        is_shared = len(state.preconditioner) == 1
        if state.cg.residual.size == 0:
            return first._replace(preconditioner=np.zeros((1, dim, dim))) if is_shared else first
        point = first.gradient
        factored = (1 if is_shared else n_outputs, dim, dim)[: max(state.preconditioner.ndim, 2)]
        return first._replace(
            curvatures=first.scores,
            preconditioner=np.zeros(factored),
            direction=point,
            cg=ConjugateGradients(point, point, point),
        )

    def _is_exact(self, problem: Problem) -> bool:
        return self.solver == "exact" or (self.solver == "auto" and is_cheap(problem))

    def run_pass(self, problem: Problem, state: MultinomialState, order: Indices) -> MultinomialState:
        """Return the state after a step; by conjugate gradients, after a product or the end of a step."""
        stepped = _exactly if self._is_exact(problem) else _by_products
        return _within_span(problem, state, stepped) if state.within.size else stepped(problem, state)

    def estimate(self, problem: Problem, state: MultinomialState) -> float:
        """Return the optimality at the end of a step, where it is known exactly; NaN within one."""
        return math.nan if state.cg.residual.size > 0 else float(np.linalg.norm(state.gradient))

    def exact_measures(self, problem: Problem, state: MultinomialState) -> Measures | None:
        """Return what the last step found at its end, which is exact; None in the span of the rows, which is rounded."""
        if state.within.size:
            return None
        return Measures(state.objective, float(np.linalg.norm(state.gradient)), state.gradient.copy())


def _by_products(problem: Problem, state: MultinomialState) -> MultinomialState:
    """Return the state after a product, or some of small data, or the end of a step."""
    if state.cg.residual.size == 0:
        state = begun_step(problem, state, is_shared=state.within.size > 0)
    for _ in range(_products_a_pass(problem)):
        if is_solved(problem, state):
            direction = state.direction + state.cg.solution
            return stepped_along(problem, state, direction if direction.any() else state.cg.direction, 0)
        state = multiplied(problem, state)
    return state


def _exactly(problem: Problem, state: MultinomialState) -> MultinomialState:
    """Return the state after a step by the factor of the Hessian."""
    curvatures = several.curvatures_by_row(problem, state.scores)
    if several.loss_of(problem).ignores_shifts():
        hessian = class_hessian(problem, curvatures, None, None, np.float64)
        direction = -divided(problem, ClassFactor(raised_factor(hessian, 0.0)[0]), state.gradient)
    else:
        direction = -solve_spd(several.full_hessian(problem, curvatures), state.gradient)
    return stepped_along(problem, state, direction, problem.n_components)


def _within_span(problem: Problem, state: MultinomialState, stepped: Stepped) -> MultinomialState:
    """Return the state after a pass in the span of the rows.

    It is left where rounding errors are what is left, or a check in all columns did not confirm the optimality there.
    """
    inside = row_space(problem).inside
    found = stepped(inside, state._replace(x=state.within))
    if found.x is state.within:
        return found._replace(x=state.x)
    size, before = float(np.linalg.norm(found.gradient)), float(np.linalg.norm(state.gradient))
    falls = found.objective < state.objective and found.n_products < inside.dim
    is_finite = bool(np.isfinite(found.x).all()) and math.isfinite(found.objective)
    x = from_row_space(problem, found.x) if is_finite else state.x
    if is_finite and before > state.tol and (falls or size <= LEAST_FALL * before):
        return found._replace(x=x, within=found.x)
    counts = found.n_gradients + problem.n_components, found.n_hessians
    return state_at(problem, x, *counts)._replace(tol=state.tol)


def state_at(
    problem: Problem, w: Vector, n_gradients: int, n_hessians: int, *, is_extended: bool = False
) -> MultinomialState:
    """Return the state between two steps; its gradient is summed in extended precision if asked for."""
    with np.errstate(all="ignore"):  # after a divergence
        scores = empty_by_row(problem, np.float64, problem.n_outputs)
        mean, gradient = several.measure(problem, w, scores=scores)
        objective = mean + problem.term.value(w)
        if is_extended:
            gradient = extended_gradient(problem, w)[0].astype(np.float64)
        else:
            gradient += problem.term.quadratic * w
    return MultinomialState(w, scores, gradient, objective, n_gradients, n_hessians)


def begun_step(problem: Problem, state: MultinomialState, *, is_shared: bool = False) -> MultinomialState:
    """Return the state with conjugate gradients begun for the next step, by a diagonal or a factor of all outputs."""
    curvatures = several.curvatures_by_row(problem, state.scores)
    preconditioner = state.preconditioner
    if not is_shared:
        preconditioner = _preconditioner(problem, curvatures, is_factored=False)
    elif preconditioner.size == 0 or state.n_products > products_of_metric(problem):
        preconditioner = _shared_factor(problem, curvatures)
    cg = begun(-state.gradient, _preconditioned(preconditioner, -state.gradient))
    size = math.sqrt(sum_of_squares(state.gradient))
    enough = min(0.5, math.sqrt(float(np.abs(state.gradient).sum()))) * size
    enough = max(enough, min(NEEDED * state.tol, MOST_LEFT * size))
    none = np.zeros(problem.dim)
    return state._replace(curvatures=curvatures, preconditioner=preconditioner, direction=none, cg=cg, enough=enough)


def _products_a_pass(problem: Problem) -> int:
    """Return how many products a pass may take: one, and more where these take no time."""
    n = int(NUMBERS_OF_A_PASS / (problem.n_outputs * (n_entries(problem.rows) + problem.rows.dim())))
    return min(max(n, 1), MOST_AT_ONCE)


def is_solved(problem: Problem, state: MultinomialState) -> bool:
    """Return whether H p = -g is solved to the accuracy that Newton's method needs here, or cannot be solved better."""
    left = math.sqrt(sum_of_squares(state.cg.residual))
    return state.cg.is_over or state.cg.n_products == problem.dim or left <= state.enough


def multiplied(problem: Problem, state: MultinomialState) -> MultinomialState:
    """Return the state after a product with H; after some products the preconditioner is that with factors."""
    cg = advanced(state.cg, several.hessian_product(problem, state.curvatures, state.cg.direction))
    state = state._replace(cg=cg, n_gradients=state.n_gradients + problem.n_components)
    if is_solved(problem, state):
        return state
    dim = problem.rows.dim()
    n_plain = PLAIN_PRODUCTS + int(0.3 * dim**2 / problem.n_rows)
    if state.preconditioner.ndim == 2 and cg.n_products == n_plain and _has_small_factors(problem):
        factors = _preconditioner(problem, state.curvatures, is_factored=True)
        rest = begun(cg.residual, _preconditioned(factors, cg.residual))
        return state._replace(preconditioner=factors, direction=state.direction + cg.solution, cg=rest)
    return state._replace(cg=redirected(cg, _preconditioned(state.preconditioner, cg.residual)))


def _has_small_factors(problem: Problem) -> bool:
    dim = problem.rows.dim()
    return bool(dim <= MOST_FACTORED and dim**2 <= NUMBERS_OF_FACTOR * n_entries(problem.rows))


def stepped_along(problem: Problem, state: MultinomialState, direction: Vector, n_hessians: int) -> MultinomialState:
    """Return the state after a step along the direction: the first t = 1, 1/2, 1/4, ... that brings F down enough, or 0."""
    direction = kept_mean(problem, direction)
    line = state.scores, several.changes_by_row(problem, direction)

    def objective(t: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return several.objective_along(problem, state.x, direction, line, t)

    predicted = float(state.gradient @ direction)
    t, _ = halved(objective, state.objective, predicted, problem.n_rows)
    is_hidden = -predicted <= rounding_of(state.objective, problem.n_rows)
    counts = state.n_gradients + problem.n_components, state.n_hessians + n_hessians
    after = state_at(problem, state.x + t * direction, *counts)
    found = Measures(after.objective, float(np.linalg.norm(after.gradient)), after.gradient)
    if is_hidden and not state.within.size and is_rounded_by_norms(problem, after.x, found):
        after = state_at(problem, after.x, *counts, is_extended=True)
    kept = state.preconditioner if len(state.preconditioner) == 1 else after.preconditioner
    return after._replace(tol=state.tol, preconditioner=kept, n_products=state.cg.n_products)


def kept_mean(problem: Problem, direction: Vector) -> Vector:
    """Return a direction without the part that changes nothing: the mean over the classes of what is not penalised."""
    table, free = direction.reshape(problem.n_outputs, -1), several.free_coordinates(problem)
    if free.size:
        table[:, free] -= table[:, free].mean(axis=0)
    return table.reshape(-1)


def _diagonal(part: Problem, curvatures: Matrix, k: int) -> Vector:
    """Return p_i times entry k, k of the rows' curvatures."""
    return np.asarray(part.weights * several.loss_of(part).curvature_entry(curvatures, k, k))


def _largest(numbers: Vector, n_chosen: int, n_rows: int) -> Indices:
    """Return where the largest ones are, increasing: as large a fraction of them as n_chosen are of n_rows."""
    n = -(-n_chosen * numbers.size // n_rows)
    return np.sort(np.argpartition(-numbers, n - 1)[:n])


def _preconditioner(problem: Problem, curvatures: Matrix, *, is_factored: bool) -> Preconditioner:
    """Return the diagonals of the outputs' blocks, or Cholesky factors that see some rows as they are.

    Of a problem in parts these rows are as large a fraction of each of them.
    """
    dim, outputs = problem.rows.dim(), range(problem.n_outputs)
    penalty = problem.term.quadratic[:dim]
    n_rows = problem.n_rows
    n_chosen = min(3 * dim, n_rows)

    def rest(part: Problem, here: Matrix) -> Matrix:
        numbers = np.stack([_diagonal(part, here, k) for k in outputs], axis=1)
        for k in outputs if is_factored else ():
            numbers[_largest(numbers[:, k], n_chosen, n_rows), k] = 0.0
        return several.sum_of_rows(part, numbers, squared=True)

    diagonals = np.asarray(sum_over_problems(rest, problem, reads=(curvatures,))) + penalty
    floor = 1e-12 * float(diagonals.max()) or 1e-300
    if not is_factored:
        return np.asarray(np.maximum(diagonals, floor) ** DIAGONAL_POWER)
    factors = np.empty((problem.n_outputs, dim, dim))
    for k in outputs:

        def chosen(part: Problem, here: Matrix, k: int = k) -> Matrix:
            diagonal = _diagonal(part, here, k)
            return several.weighted_gram(part, diagonal, _largest(diagonal, n_chosen, n_rows))

        gram = sum_over_problems(chosen, problem, reads=(curvatures,))
        gram[np.arange(dim), np.arange(dim)] += diagonals[k] + 1e-10 * float(np.diagonal(gram).max()) + floor
        factors[k] = cho_factor(gram, overwrite_a=True, check_finite=False)[0].T  # so that its rows lie one by one
    return factors


def _shared_factor(problem: Problem, curvatures: Matrix) -> Preconditioner:
    """Return the Cholesky factor of a block of the mean of the outputs' curvatures, which stands for each of them."""
    means = np.mean([_diagonal(problem, curvatures, k) for k in range(problem.n_outputs)], axis=0)
    gram = several.weighted_gram(problem, means, np.arange(problem.n_rows))
    diagonal = np.diagonal(gram) + problem.term.quadratic[: len(gram)]
    np.fill_diagonal(gram, diagonal + 1e-12 * float(diagonal.max()))
    return np.asarray(cho_factor(gram, overwrite_a=True, check_finite=False)[0].T[None])


def _preconditioned(preconditioner: Preconditioner, residual: Vector) -> Vector:
    """Return M^-1 times a residual."""
    rows = residual.reshape(-1, preconditioner.shape[-1])
    if preconditioner.ndim == 2:
        return (rows / preconditioner).reshape(-1)
    if len(preconditioner) == 1:
        return np.asarray(cho_solve((preconditioner[0].T, False), rows.T, check_finite=False).T.reshape(-1))
    solved = [cho_solve((lower.T, False), row, check_finite=False) for lower, row in zip(preconditioner, rows, strict=True)]
    return np.concatenate(solved)
