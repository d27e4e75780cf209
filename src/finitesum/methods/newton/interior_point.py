"""A primal-dual interior-point method for the hinge loss with an l2 penalty: support vector machines to the last digits.

With weights c_i = scale p_i, margins m_i = y_i (x_i'w + b + o_i) and slacks xi_i >= 0 the problem and its optimality are

    min l2/2 ||w||^2 + sum_i c_i xi_i    over    r_i = m_i - 1 + xi_i >= 0
    l2 w = sum_i c_i a_i y_i x_i,    sum_i c_i a_i y_i = 0,    a_i r_i = 0,    xi_i (1 - a_i) = 0,    0 <= a_i <= 1

(the second only with an intercept). A step is Newton's on these equations with mu in place of the last two zeros, first
with mu = 0, then with the mu and the second-order terms that this first solution suggests [1]; xi, r, a, and 1 - a stay
positive. Eliminating all but (w, b) leaves one system for both [2]:

    (l2 I + sum_i c_i theta_i x_i x_i') dw = sum_i c_i (a_i + rho_i) y_i x_i - l2 w,    theta_i = a_i / (r_i + a_i xi_i
    / (1 - a_i))

Where there are fewer rows than columns the start is projected onto their span, which holds the optimum, and the system is
written in an orthonormal basis of it. A pass is one step: m component Hessians and two component gradients' worth of
reading, O(n d^2 + d^3) work, d^2 + 4n memory. The number of steps hardly depends on the data (15 to 40). Rows of weight
0 are left out. The multipliers a_i make a lower bound of the minimum (`finitesum.evaluation.certificates.dual_minorant`),
so that the optimality is a duality gap. The references are those of `InteriorPoint`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, qr

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.evaluation.certificates import Minorant, dual_minorant
from finitesum.evaluation.hessian import hessian_of
from finitesum.evaluation.row_products import combination, matrix_of_rows, predictions
from finitesum.losses import Hinge
from finitesum.methods.base import SumMethod
from finitesum.problems.linear import Problem

#: The least fraction of the distance to where the first of the positive numbers would vanish that a step goes.
FRACTION_TO_BOUNDARY = 0.995


class InteriorState(NamedTuple):
    x: Vector  # (w, b)
    slacks: Vector  # (n,)  xi
    gaps: Vector  # (n,)  r = m - 1 + xi
    multipliers: Vector  # (n,)  a
    complements: Vector  # (n,)  1 - a, which keeps its own digits
    basis: Matrix  # (d, n)  orthonormal, of the rows' span, where they are fewer than columns; else (0, 0)
    coordinates: Matrix  # (n, n)  of the rows in it
    n_gradients: int
    n_hessians: int


class _Direction(NamedTuple):
    """By what a whole step changes the numbers that a state begins with."""

    x: Vector
    slacks: Vector
    gaps: Vector
    multipliers: Vector


class _Centre(NamedTuple):
    """What one matrix serves: the factor, and the terms that do not change between predictor and corrector."""

    factor: Any
    shift: Vector  # r + a xi / (1 - a)
    theta: Vector


@dataclass(frozen=True)
class InteriorPoint(SumMethod):
    """Interior points for the hinge loss with an l2 penalty: support vector machines to the last digits.

    w+ = w + t dw,   (l2 I + sum_i c_i theta_i x_i x_i') dw = sum_i c_i (a_i + rho_i) y_i x_i - l2 w    [1, 2]

    Examples
    --------
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[-1.0], [0.0], [3.0]], [0, 0, 1], loss="hinge", alpha=0.1, fit_intercept=True)
    >>> result = minimize(problem, method=InteriorPoint(), tol=1e-12)
    >>> result.success, result.x.round(6)
    (True, array([ 0.666667, -1.      ]))

    References
    ----------
    .. [1] S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 2 (1992).
    .. [2] M. C. Ferris, T. S. Munson, "Interior-point methods for massive support vector machines", SIAM J. Optim. 13
       (2002).
    """

    name: ClassVar[str] = "interior-point"
    state_type: ClassVar[type[InteriorState]] = InteriorState
    handles: ClassVar[frozenset[str]] = frozenset({"nonsmooth"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 10

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem has not the hinge loss and an l2 penalty."""
        if isinstance(problem.loss, Hinge) and problem.term.ridge > 0.0:
            return ""
        return (
            f"interior-point needs the hinge loss and an l2 penalty, got {problem.loss!r} with {problem.penalty!r}. "
            "Set alpha > 0 and l1_ratio = 0, or choose another method."
        )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> InteriorState:
        """Return the state before the first step: slacks so that nothing is tight, multipliers 1/2."""
        x, (basis, coordinates) = x0.copy(), _span(problem)
        if basis.size:
            d = problem.rows.n_columns
            x[:d] = basis @ (basis.T @ x[:d])
        margins = _margins(problem, x) + problem.targets * problem.offsets
        slacks = np.maximum(1.0 - margins, 0.0) + 1.0
        halves = np.full(problem.n_rows, 0.5)
        gaps = margins - 1.0 + slacks
        return InteriorState(x, slacks, gaps, halves, halves, basis, coordinates, problem.n_components, 0)

    def run_pass(self, problem: Problem, state: InteriorState, order: Indices) -> InteriorState:
        """Return the state after one step."""
        used, m = problem.weights > 0.0, problem.n_components
        state = state._replace(x=state.x.copy(), n_gradients=state.n_gradients + 2 * m, n_hessians=state.n_hessians + m)
        centre = _centre(problem, state)
        if centre is None:  # the equations are solved to rounding errors
            return state
        mu, zeros = _mean_product(state, used), np.zeros(problem.n_rows)
        first = _direction(problem, state, centre, zeros, zeros)
        ahead = _moved(state, first, _length(state, first, used, 1.0))
        target = (_mean_product(ahead, used) / mu) ** 3 * mu
        second = _direction(
            problem, state, centre, target - first.multipliers * first.gaps, target + first.multipliers * first.slacks
        )
        return _moved(state, second, _length(state, second, used, max(FRACTION_TO_BOUNDARY, 1.0 - mu)))

    def estimate(self, problem: Problem, state: InteriorState) -> float:
        """Return the duality gap: that of the slacks and multipliers, and what the first equations lack in units of F."""
        d, ridge = problem.rows.n_columns, problem.term.ridge
        products = state.multipliers * state.gaps + state.complements * state.slacks
        rest = _pulled_back(problem, state.multipliers) - problem.term.quadratic * state.x
        gap = float(problem.loss.scale * (problem.weights @ products))  # type: ignore[attr-defined]
        gap += 0.5 / ridge * float(rest[:d] @ rest[:d])
        return gap + abs(float(rest[-1])) * (1.0 + abs(float(state.x[-1]))) if problem.has_intercept else gap

    def minorant(self, problem: Problem, state: InteriorState) -> Minorant:
        """Return the minorant of the mean loss that the multipliers make."""
        return dual_minorant(problem, np.clip(state.multipliers, 0.0, 1.0))


def _span(problem: Problem) -> tuple[Matrix, Matrix]:
    """Return an orthonormal basis of the rows' span and their coordinates in it, where that has fewer dimensions."""
    if problem.n_rows >= problem.rows.n_columns:
        return np.zeros((0, 0)), np.zeros((0, 0))
    matrix = matrix_of_rows(problem)
    table = matrix.toarray() if problem.rows.is_sparse() else matrix
    basis, coordinates = qr(table.T, mode="economic", check_finite=False)
    return basis, np.ascontiguousarray(coordinates.T)


def _small_hessian(problem: Problem, coordinates: Matrix, curvatures: Vector) -> Matrix:
    """Return the Hessian in the coordinates of the rows' span, the intercept behind them."""
    weights = problem.weights * curvatures
    rows = coordinates
    if problem.has_intercept:
        rows = np.column_stack([coordinates, np.ones(problem.n_rows)])
    matrix: Matrix = rows.T @ (rows * weights[:, None])
    inside = np.arange(coordinates.shape[1])
    matrix[inside, inside] += problem.term.ridge
    return matrix


def _margins(problem: Problem, x: Vector) -> Vector:
    """Return y_i x_i'w."""
    return problem.targets * predictions(problem, x)


def _pulled_back(problem: Problem, multipliers: Vector) -> Vector:
    """Return sum_i c_i a_i y_i x_i."""
    return combination(problem, problem.loss.scale * problem.weights * multipliers * problem.targets)  # type: ignore[attr-defined]


def _mean_product(state: InteriorState, used: Flags) -> float:
    """Return mu, the mean of the products that vanish at the minimum, over the rows in use."""
    products = state.multipliers * state.gaps + state.complements * state.slacks
    return float(products[used].sum()) / (2 * int(used.sum()))


def _moved(state: InteriorState, direction: _Direction, t: float) -> InteriorState:
    """Return the state after a step of length t."""
    return state._replace(
        x=state.x + t * direction.x,
        slacks=state.slacks + t * direction.slacks,
        gaps=state.gaps + t * direction.gaps,
        multipliers=state.multipliers + t * direction.multipliers,
        complements=state.complements - t * direction.multipliers,
    )


def _centre(problem: Problem, state: InteriorState) -> _Centre | None:
    shift = state.gaps + state.multipliers * state.slacks / state.complements
    theta = state.multipliers / shift
    curvatures = problem.loss.scale * theta  # type: ignore[attr-defined]
    if state.basis.size:
        matrix = _small_hessian(problem, state.coordinates, curvatures)
    else:
        matrix = hessian_of(problem, curvatures)
    factor = _factor(matrix)
    return None if factor is None else _Centre(factor, shift, theta)


def _factor(matrix: Matrix) -> Any:
    """Return the Cholesky factor of a matrix, scaled to a diagonal of ones; None where it has none."""
    diagonal = np.diagonal(matrix)
    if not (np.isfinite(diagonal).all() and (diagonal > 0.0).all()):
        return None
    scale = 1.0 / np.sqrt(diagonal)
    try:
        return cho_factor(matrix * scale * scale[:, None], lower=True, overwrite_a=True, check_finite=False), scale
    except LinAlgError:
        return None


def _direction(
    problem: Problem, state: InteriorState, centre: _Centre, target: Vector, slack_target: Vector
) -> _Direction:
    """Return the direction that brings a r to target and (1 - a) xi to slack_target, up to products of its parts."""
    x, slacks, gaps, multipliers = state[:4]
    free = state.complements
    rho = (target - multipliers * gaps - multipliers * (slack_target / free - slacks)) / centre.shift
    right = _pulled_back(problem, multipliers + rho)
    right -= problem.term.quadratic * x
    step = _solved(problem, state.basis, centre.factor, right)
    margins = _margins(problem, step)
    multiplier = rho - centre.theta * margins
    slack = (slack_target - slacks * free + slacks * multiplier) / free
    return _Direction(step, slack, margins + slack, multiplier)


def _solved(problem: Problem, basis: Matrix, scaled_factor: Any, right: Vector) -> Vector:
    """Return the step of (w, b), within the rows' span."""
    factor, scale = scaled_factor
    if not basis.size:
        return np.asarray(scale * cho_solve(factor, scale * right, check_finite=False))
    d = problem.rows.n_columns
    inside = basis.T @ right[:d]
    small = scale * cho_solve(factor, scale * np.concatenate([inside, right[d:]]), check_finite=False)
    return np.concatenate([basis @ small[: inside.size], small[inside.size :]])


def _length(state: InteriorState, direction: _Direction, used: Flags, fraction: float) -> float:
    """Return the length <= 1 that keeps slacks, gaps, multipliers and 1 - multipliers positive in the rows in use."""
    length = 1.0
    for here, step in (
        (state.slacks, direction.slacks),
        (state.gaps, direction.gaps),
        (state.multipliers, direction.multipliers),
        (state.complements, -direction.multipliers),
    ):
        falling = used & (step < 0.0)
        if falling.any():
            length = min(length, fraction * float((-here[falling] / step[falling]).min()))
    return length
