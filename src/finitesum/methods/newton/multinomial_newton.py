"""Newton's method for several outputs (classes or targets): exact for small K d, else by conjugate gradients.

At x, with g and H the gradient and Hessian of F, a step is x+ = x - t p with H p = g. t is the first of 1, 1/2, 1/4, ...
with F(x+) <= F(x) - t/10^4 g'p, up to rounding [1]; trials cost no data, because the scores are linear in t.

exact   the Hessian, K (K+1)/2 Gram matrices, and its Cholesky factor: m component Hessians a step
cg      conjugate gradients until the residual is at most min(1/2, sqrt(||g||)) ||g|| [2]; a product with H reads the data
        twice and is counted as a pass of component gradients. The preconditioner of class k is the Cholesky factor of

            sum_{i in I_k} c_ik z_i z_i' + diag(sum_{i not in I_k} c_ik z_ij^2) + l2 I,    c_ik = p_i P_ik (1 - P_ik)

        with I_k the 3 dim rows of largest curvature c_ik: near the optimum few rows have any. I_k is empty, which leaves a
        diagonal, for the first products, as many as the factors cost, and with more than 2000 columns.

Intercepts, and coefficients without a penalty, are determined up to one number for all classes; the exact solver pins
it by a term that no gradient sees, and steps keep the mean over the classes.

References
----------
.. [1] S. Boyd, L. Vandenberghe, "Convex optimization", 2004, section 9.5.
.. [2] J. Nocedal, S. Wright, "Numerical optimization", 2006, section 7.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.outputs import (
    full_hessian,
    hessian_product,
    loss_of,
    mean_gradient,
    objective_at,
    row_blocks,
    score_changes,
    scores_at,
    weighted_gram,
)
from finitesum.methods.base import Card, check_choice
from finitesum.methods.subproblems.active_set import solve_spd
from finitesum.methods.subproblems.conjugate_gradients import advanced, begun, redirected
from finitesum.methods.subproblems.line_search import halved
from finitesum.problems.linear import Problem
from finitesum.problems.rows import DenseRows

#: "auto" takes the exact solver up to this many variables.
EXACT_UP_TO = 200

#: Products with the diagonal preconditioner, at least, before the factors are made.
PLAIN_PRODUCTS = 10

#: Columns up to which the preconditioner has Cholesky factors.
FACTORED_UP_TO = 2000


class MultinomialState(NamedTuple):
    x: Vector  # iterate, (K dim,)
    scores: Matrix  # (n, K)
    gradient: Vector
    objective: float
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class MultinomialNewton:
    """Newton's method for linear models with several outputs: classes, or targets of the squared loss.

    Parameters
    ----------
    solver : {"auto", "exact", "cg"}
        How a step is found: by the Cholesky factor of the Hessian, O(n (K d)^2 / 2 + (K d)^3 / 3), or by conjugate
        gradients. "auto" is exact for at most 200 variables.

    Raises
    ------
    ValueError
        The solver is unknown.

    Examples
    --------
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[0.0], [1.0], [2.0]], ["a", "b", "c"], loss="multinomial", alpha=0.1)
    >>> result = minimize(problem, method=MultinomialNewton(), tol=1e-10)
    >>> result.success, result.x.round(6)
    (True, array([-0.757493,  0.182097,  0.575396]))
    """

    solver: str = "auto"

    name: ClassVar[str] = "newton"
    state_type: ClassVar[type[MultinomialState]] = MultinomialState
    handles: ClassVar[frozenset[str]] = frozenset({"outputs"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 25
    card: ClassVar[Card] = Card(
        "Newton's method for several outputs",
        "m K + (K d)^2 or K d^2",
        "m (K d)^2 / 2 + (K d)^3 / 3 a step, or m K d a product",
        "quadratic near the optimum",
        "several outputs",
        "classical",
    )

    def __post_init__(self) -> None:
        check_choice("solver", self.solver, ("auto", "exact", "cg"))

    def init(self, problem: Any, x0: Vector, tol: float = 0.0) -> MultinomialState:
        """Return the state before the first step: scores and gradient at the start.

        Raises
        ------
        ValueError
            The problem has one output.
        """
        if problem.n_outputs == 1:
            raise ValueError('this Newton\'s method is for several outputs, got one. Use method="newton".')
        return _state_at(problem, x0.copy(), scores_at(problem, x0), problem.n_components, 0)

    def run_pass(self, problem: Any, state: MultinomialState, order: Indices) -> MultinomialState:
        """Return the state after one step."""
        curvatures = loss_of(problem).curvatures(state.scores)
        exact = self.solver == "exact" or (self.solver == "auto" and problem.dim <= EXACT_UP_TO)
        if exact:
            direction, n_products = -_exact_step(problem, curvatures, state.gradient), 0
        else:
            direction, n_products = _cg_step(problem, curvatures, state.gradient)
        direction = _kept_mean(problem, direction)
        changes = score_changes(problem, direction)
        t = _step_size(problem, state, direction, changes)
        n_gradients = state.n_gradients + (n_products + 1) * problem.n_components
        n_hessians = state.n_hessians + (problem.n_components if exact else 0)
        x = state.x + t * direction
        return _state_at(problem, x, scores_at(problem, x), n_gradients, n_hessians)

    def estimate(self, problem: Any, state: MultinomialState) -> float:
        """Return the optimality at the iterate, which is known exactly."""
        return float(np.linalg.norm(state.gradient))

    def exact_measures(self, problem: Any, state: MultinomialState) -> Measures:
        """Return what the last pass found at its end, which is exact."""
        return Measures(state.objective, float(np.linalg.norm(state.gradient)), state.gradient.copy())

    def default_batch_size(self, problem: Any) -> int:
        """Return 1: components play no role."""
        return 1


def _state_at(problem: Problem, x: Vector, scores: Matrix, n_gradients: int, n_hessians: int) -> MultinomialState:
    with np.errstate(all="ignore"):  # after a divergence
        gradient = mean_gradient(problem, scores) + problem.term.quadratic * x
        objective = objective_at(problem, scores, x)
    return MultinomialState(x, scores, gradient, objective, n_gradients, n_hessians)


def _kept_mean(problem: Problem, direction: Vector) -> Vector:
    """Return a direction without the part that changes nothing: the mean over the classes of what is not penalised."""
    if not loss_of(problem).ignores_shifts():
        return direction
    table = direction.reshape(problem.n_outputs, -1)
    first = problem.rows.n_columns if problem.penalty.ridge() > 0.0 else 0
    table[:, first:] -= table[:, first:].mean(axis=0)
    return table.reshape(-1)


def _exact_step(problem: Problem, curvatures: Matrix, gradient: Vector) -> Vector:
    hessian = full_hessian(problem, curvatures)
    blocks = hessian.reshape(problem.n_outputs, problem.rows.dim(), problem.n_outputs, problem.rows.dim())
    first = problem.rows.n_columns if problem.penalty.ridge() > 0.0 else 0
    for j in range(first, problem.rows.dim()) if loss_of(problem).ignores_shifts() else ():
        blocks[:, j, :, j] += max(float(np.diagonal(blocks[:, j, :, j]).mean()), 1e-300)
    return solve_spd(hessian, gradient)


def _preconditioner(problem: Problem, curvatures: Matrix, *, factored: bool) -> list[Any]:
    """Return the factors of each class's block: a Cholesky factor or a diagonal."""
    d, dim, ridge = problem.rows.n_columns, problem.rows.dim(), problem.penalty.ridge()
    loss, outputs = loss_of(problem), range(problem.n_outputs)
    diagonal = np.stack([problem.weights * loss.curvature_entry(curvatures, k, k) for k in outputs], axis=1)
    penalty = np.zeros(dim)
    penalty[:d] = ridge
    n_chosen = min(3 * dim, problem.n_rows) if factored and dim <= FACTORED_UP_TO else 0
    rest = diagonal.copy()
    chosen = [np.argpartition(-diagonal[:, k], n_chosen - 1)[:n_chosen] for k in outputs if n_chosen]
    for k, rows in enumerate(chosen):
        rest[rows, k] = 0.0
    diagonals = _squares(problem, rest) + penalty
    floor = 1e-12 * float(diagonals.max()) or 1e-300
    if not chosen:
        return list(np.maximum(diagonals, floor))
    factors = []
    for k, rows in enumerate(chosen):
        gram = weighted_gram(problem, diagonal[:, k], np.sort(rows))
        gram[np.arange(dim), np.arange(dim)] += diagonals[k] + 1e-10 * float(np.diagonal(gram).max()) + floor
        factors.append(cho_factor(gram, overwrite_a=True, check_finite=False))
    return factors


def _squares(problem: Problem, curvatures: Matrix) -> Matrix:
    """Return sum_i c_ik z_ij^2, shape (K, dim)."""
    d = problem.rows.n_columns
    out = np.zeros((problem.n_outputs, problem.rows.dim()))
    for here, block in row_blocks(problem):
        squared = block * block if isinstance(problem.rows, DenseRows) else block.multiply(block).tocsr()
        out[:, :d] += (squared.T @ curvatures[here]).T
    if problem.rows.intercept:
        out[:, d] = curvatures.sum(axis=0)
    return out


def _preconditioned(factors: list[Any], residual: Vector) -> Vector:
    rows = residual.reshape(len(factors), -1)
    solved = [
        cho_solve(factor, row, check_finite=False) if isinstance(factor, tuple) else row / factor
        for factor, row in zip(factors, rows, strict=True)
    ]
    return np.concatenate(solved)


def _cg_step(problem: Problem, curvatures: Matrix, gradient: Vector) -> tuple[Vector, int]:
    """Return p with H p = -g, to the accuracy that Newton's method needs here, and the products that it took."""
    size = float(np.linalg.norm(gradient))
    target = min(0.5, math.sqrt(size)) * size
    n_plain = PLAIN_PRODUCTS + int(0.3 * problem.rows.dim() ** 2 / problem.n_rows)
    step, n_products = np.zeros(problem.dim), 0
    for factored, most in ((False, n_plain), (True, problem.dim)):
        factors = _preconditioner(problem, curvatures, factored=factored)
        step, n_more, is_over = _conjugate(problem, curvatures, gradient, factors, step, target, most)
        n_products += n_more
        if is_over:
            break
    return step, n_products


def _conjugate(
    problem: Problem,
    curvatures: Matrix,
    gradient: Vector,
    factors: list[Any],
    step: Vector,
    target: float,
    most: int,
) -> tuple[Vector, int, bool]:
    """Return the step after conjugate gradients from one, the products, and whether the target or a limit was met."""
    residual, n_products = -gradient, 0
    if step.any():
        residual, n_products = residual - hessian_product(problem, curvatures, step), 1
    run = begun(residual, _preconditioned(factors, residual))
    first = run.direction
    while n_products < most:
        run = advanced(run, hessian_product(problem, curvatures, run.direction))
        n_products += 1
        if run.is_over:
            found = step + run.solution
            return (found if found.any() else first), n_products, True
        if float(np.linalg.norm(run.residual)) <= target:
            return step + run.solution, n_products, True
        run = redirected(run, _preconditioned(factors, run.residual))
    return step + run.solution, n_products, False


def _step_size(problem: Problem, here: MultinomialState, direction: Vector, changes: Matrix) -> float:
    """Return the first t = 1, 1/2, 1/4, ... that brings F down enough, 0 when none does."""

    def objective(t: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return objective_at(problem, here.scores + t * changes, here.x + t * direction)

    return halved(objective, here.objective, float(here.gradient @ direction), problem.n_rows)[0]
