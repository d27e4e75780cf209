"""A primal-dual interior-point method for losses with corners and any elastic net, or on any set: exact linear models.

With weights c_i = scale p_i, margins m_i = y_i (x_i'w + b + o_i) and slacks xi_i >= 0 the problem and its optimality are

    min l2/2 ||w||^2 + sum_i c_i xi_i    over    r_i = m_i - 1 + xi_i >= 0
    l2 w = sum_i c_i a_i y_i x_i,    sum_i c_i a_i y_i = 0,    a_i r_i = 0,    xi_i (1 - a_i) = 0,    0 <= a_i <= 1

(the second only with an intercept). An l1 penalty and a set add rows to these, some of which must hold: they have no slack,
and a multiplier a_i >= 0 without a bound (`finitesum.methods.newton.interior_sides`). A step is Newton's on these equations
with mu / c_i in place of the last two zeros, first with mu = 0, then with the mu and the second-order terms that this first
solution suggests [1]; xi, r, a, and 1 - a stay positive. Eliminating all but (w, b) leaves one system for both [2]:

    (l2 I + sum_i c_i theta_i x_i x_i') dw = sum_i c_i (a_i + rho_i) y_i x_i - l2 w,    theta_i = a_i / (r_i + a_i xi_i
    / (1 - a_i))

Where there are fewer rows than columns, and no set or l1 penalty, the start is projected onto their span, which holds an
optimum, and the system is written in an orthonormal basis of it. Coefficients that belong at a bound, or at 0 under an l1
penalty, are put there in what is returned. A pass is one step: m component Hessians and five component gradients' worth of
reading, O(n d^2 + d^3) work, d^2 + 4n memory. The number of steps hardly depends on the data (6 to 30). Rows of weight 0
are left out. The multipliers a_i make a lower bound of the minimum (`finitesum.evaluation.certificates.dual_minorant`), so
that the optimality is a duality gap, with the best bound seen. In the last steps rounding errors of theta x_i'dw leave the
first equation short; where these hide the gap, the a_i are corrected for the bound, by a step with min(a_i, 1 - a_i) in the
place of theta. All of this is about the hinge loss; other losses with corners are hinge losses of two
rows for each (`finitesum.methods.newton.hinge_rows`). The references are those of `InteriorPoint`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.certificates import Minorant, dual_minorant, hinge_scale, lower_bound
from finitesum.losses import Cornered
from finitesum.methods.base import SumMethod
from finitesum.methods.cost_model import threads_for_factors
from finitesum.methods.newton.hinge_rows import hinge_form
from finitesum.methods.newton.interior_sides import Sides, sides_of, start_within
from finitesum.methods.newton.interior_systems import System, margins_at, pulled_back, span, system_at
from finitesum.problems.linear import Problem

#: The least fraction of the distance to where the first of the positive numbers would vanish that a step goes.
FRACTION_TO_BOUNDARY = 0.995

#: The least sum of the products that a step aims at, relative to tol and to the loss at 0: smaller ones would only make the
#: equations harder.
OF_TOL, OF_LOSS = 0.01, 1e-15

#: What F may rise by, relative to tol, where coefficients are moved to a bound or to 0.
OF_MOVE = 0.5

#: Corrections of the multipliers for the first equation, where its rounding errors hide the gap.
N_CORRECTIONS = 2

#: The strength of a proximal term, relative to a coefficient's size, which keeps steps from going far where nothing but
#: rounding errors leads them.
PROXIMAL = 1e-11


class InteriorState(NamedTuple):
    x: Vector  # (w, b), coefficients that are found to be at a bound or 0 put there
    z: Vector  # (w, b) in the interior; on an l1 ball (w, b, v), v bounds of the absolute values
    slacks: Vector  # (n + k,)  xi, of the rows and the sides behind them; 0 where a side must hold
    gaps: Vector  # (n + k,)  r = m - 1 + xi
    multipliers: Vector  # (n + k,)  a
    complements: Vector  # (n + k,)  1 - a, which keeps its own digits; 1 where a side must hold
    basis: Matrix  # (d, n)  orthonormal, of the rows' span, where they are fewer than columns; else (0, 0)
    coordinates: Matrix  # (n, n)  of the rows in it
    tol: float
    n_gradients: int
    n_hessians: int
    best_bound: float = -math.inf  # of the minimum, of those that multipliers have made
    radius: float = 0.0  # of the points that it bounds F at, in units of columns


class _Direction(NamedTuple):
    """By what a whole step changes the numbers that a state begins with."""

    z: Vector  # (w, b) or (w, b, v)
    slacks: Vector
    gaps: Vector
    multipliers: Vector


@dataclass(frozen=True)
class InteriorPoint(SumMethod):
    """Interior points for losses with corners and any elastic net, or on any set: linear models to the last digits.

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

    handles: ClassVar[frozenset[str]] = frozenset({"nonsmooth", "l1", "weights", "constraint", "parts"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 10

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem has another loss, or a set that is not known here."""
        constraint: Any = problem.constraint
        has_room = constraint.boundary != "" and (constraint.boundary != "planes" or constraint.has_interior)
        is_known = has_room and problem.term.is_elastic_net and problem.n_outputs == 1
        if isinstance(problem.loss, Cornered) and is_known:
            return ""
        return (
            "interior-point needs the hinge loss or another one with corners, alpha and l1_ratio alone, and a set of the "
            "library but a polyhedron without interior points, got "
            f"{problem.loss!r} with {problem.penalty!r} on {problem.constraint!r}. Choose another method."
        )

    def blas_threads(self, problem: Problem) -> int | None:
        return threads_for_factors(problem)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> InteriorState:
        """Return the state before the first step: slacks so that nothing is tight, multipliers 1/2."""
        n_components, problem = problem.n_components, hinge_form(problem)
        x, (basis, coordinates) = x0.copy(), span(problem)
        if basis.size:
            d = problem.rows.n_columns
            x[:d] = basis @ (basis.T @ x[:d])
        sides = sides_of(problem)
        z, beyond = start_within(problem, sides, x)
        margins = np.concatenate([margins_at(problem, z[: problem.dim]) - 1.0, beyond])
        mean = float(sides.costs[sides.used & sides.is_soft].mean())
        units = np.divide(mean, sides.costs, out=np.ones(sides.costs.size), where=sides.used)
        slacks = np.where(sides.is_soft, np.maximum(-margins, 0.0) + np.maximum(units, 1.0), 0.0)
        gaps = margins + slacks
        multipliers = np.where(sides.is_soft, 0.5, 0.5 * units / gaps)
        complements = np.where(sides.is_soft, 0.5, 1.0)
        inner = slacks, gaps, multipliers, complements
        return InteriorState(z[: problem.dim].copy(), z, *inner, basis, coordinates, tol, n_components, 0)

    def run_pass(self, problem: Problem, state: InteriorState, order: Indices) -> InteriorState:
        m, problem = problem.n_components, hinge_form(problem)
        state = state._replace(n_gradients=state.n_gradients + 5 * m, n_hessians=state.n_hessians + m)
        system = _system(problem, state)
        if system is None:  # the equations are solved to rounding errors
            return state
        sides, zeros = system.sides, np.zeros(state.gaps.size)
        mu, least = _mean_product(state, sides), max(OF_TOL * state.tol, OF_LOSS * hinge_scale(problem)) / zeros.size
        first = _direction(problem, state, system, zeros, zeros)
        ahead = _moved(state, sides, first, _length(state, sides, first, 1.0))
        aim = max((_mean_product(ahead, sides) / mu) ** 3 * mu, least)
        target = np.divide(aim, sides.costs, out=np.zeros(zeros.size), where=sides.used)
        bent = target - first.multipliers * first.gaps
        if sides.radius > 0.0:
            bent[-1] += state.multipliers[-1] * _curved(first, sides)
        slack_target = np.where(sides.is_soft, target + first.multipliers * first.slacks, 0.0)
        second = _direction(problem, state, system, bent, slack_target)
        state = _moved(state, sides, second, _length(state, sides, second, max(FRACTION_TO_BOUNDARY, 1.0 - mu)))
        return _bounded(problem, sides, state._replace(x=_reported(problem, sides, state)))

    def estimate(self, problem: Problem, state: InteriorState) -> float:
        """Return the duality gap, with the losses that the slacks and gaps mean."""
        problem = hinge_form(problem)
        return max(_value(problem, sides_of(problem), state) - state.best_bound, 0.0)

    def bound(self, problem: Problem, state: InteriorState) -> float:
        """Return the best bound of the minimum that multipliers have made."""
        return state.best_bound


def _value(problem: Problem, sides: Sides, state: InteriorState) -> float:
    n = problem.n_rows
    losses = np.maximum(state.slacks[:n] - state.gaps[:n], 0.0)
    return float(sides.costs[:n] @ losses) + problem.term.value(state.x)


def _bounded(problem: Problem, sides: Sides, state: InteriorState) -> InteriorState:
    """Return the state with the bound of its multipliers, or of corrected ones, or a better one of before."""
    n = problem.n_rows

    def minorant(multipliers: Vector) -> Minorant:
        return dual_minorant(problem, np.clip(multipliers[:n], 0.0, 1.0), state.x)

    made = minorant(state.multipliers)
    bound, enough = lower_bound(problem, made), _value(problem, sides, state) - state.tol
    if made.radius == state.radius:  # what held for points nearby says nothing of others
        bound = max(bound, state.best_bound)
    if bound < enough and _sum_of_products(state, sides) <= state.tol:
        bound = max(bound, lower_bound(problem, minorant(_corrected(problem, sides, state))))
    return state._replace(best_bound=bound, radius=made.radius)


def _corrected(problem: Problem, sides: Sides, state: InteriorState) -> Vector:
    """Return the multipliers nearest to these that meet the first equation, by their distance from 0 and 1.

    In the last steps theta is so large that rounding errors of x_i'dw become visible ones of a_i; the distances are not.
    """
    room = np.where(sides.used, np.minimum(state.multipliers, state.complements), 0.0)
    quadratic, z, multipliers = np.zeros(state.z.size), state.z, state.multipliers
    quadratic[: problem.dim] = problem.term.quadratic
    system = system_at(problem, sides, sides.rows_at(z), room, quadratic, (state.basis, state.coordinates))
    if system is None:
        return multipliers
    for _ in range(N_CORRECTIONS):
        right = pulled_back(problem, sides, system.rows, multipliers) + sides.linear - quadratic * z
        step, changes = system.solution(problem, right)
        z, multipliers = z + step, multipliers - room * changes
    return multipliers


def _reported(problem: Problem, sides: Sides, state: InteriorState) -> Vector:
    """Return the point of the set for z, with coefficients at their bounds or 0 where F does not suffer from it."""
    x = state.z[: problem.dim]
    snapped = np.concatenate([sides.snapped(state.z, problem.n_rows, state[2:6]), x[sides.units.size :]])
    points = [problem.term.project(x.copy()), problem.term.project(snapped)]
    inner, moved = (
        float(sides.costs[: problem.n_rows] @ np.maximum(1.0 - margins_at(problem, point), 0.0)) + problem.term.value(point)
        for point in points
    )
    return points[moved <= inner + OF_MOVE * state.tol]


def _sum_of_products(state: InteriorState, sides: Sides) -> float:
    """Return the sum of the products that vanish at the minimum, in units of F."""
    return float((sides.costs * (state.multipliers * state.gaps + state.complements * state.slacks)).sum())


def _mean_product(state: InteriorState, sides: Sides) -> float:
    """Return mu, the mean of these products."""
    return _sum_of_products(state, sides) / int(sides.used.sum() + (sides.used & sides.is_soft).sum())


def _moved(state: InteriorState, sides: Sides, direction: _Direction, t: float) -> InteriorState:
    """Return the state after a step of length t."""
    gaps = state.gaps + t * direction.gaps
    if sides.radius > 0.0:
        gaps[-1] -= _curved(direction, sides) * t * t
    return state._replace(
        z=state.z + t * direction.z,
        slacks=state.slacks + t * direction.slacks,
        gaps=gaps,
        multipliers=state.multipliers + t * direction.multipliers,
        complements=state.complements - t * np.where(sides.is_soft, direction.multipliers, 0.0),
    )


def _curved(direction: _Direction, sides: Sides) -> float:
    """Return ||dw||^2 / (2 radius), by which an l2 ball's boundary falls away from its tangent."""
    w = direction.z[: sides.units.size]
    return 0.5 * float(w @ w) / sides.radius


def _system(problem: Problem, state: InteriorState) -> System | None:
    sides = sides_of(problem)
    quadratic = np.zeros(state.z.size)
    quadratic[: problem.dim] = problem.term.quadratic
    lengths = np.maximum(sides.units, np.abs(state.z[: sides.units.size]))
    quadratic[: sides.units.size] += PROXIMAL * hinge_scale(problem) / lengths**2
    if sides.radius > 0.0:
        quadratic[: sides.units.size] += sides.costs[-1] * state.multipliers[-1] / sides.radius
    with np.errstate(all="ignore"):
        shift = state.gaps + state.multipliers * state.slacks / state.complements
        theta = np.where(sides.used, state.multipliers / shift, 0.0)
    return system_at(problem, sides, sides.rows_at(state.z), theta, quadratic, (state.basis, state.coordinates))


def _direction(problem: Problem, state: InteriorState, system: System, target: Vector, slack_target: Vector) -> _Direction:
    """Return the direction that brings a r to target and (1 - a) xi to slack_target, up to products of its parts."""
    slacks, gaps, multipliers, free = state.slacks, state.gaps, state.multipliers, state.complements
    sides, n = system.sides, problem.dim
    lacking = target - multipliers * gaps - multipliers * (slack_target / free - slacks)
    rho = np.divide(system.theta * lacking, multipliers, out=np.zeros(gaps.size), where=sides.used)
    right = pulled_back(problem, sides, system.rows, multipliers + rho) + sides.linear
    right[:n] -= problem.term.quadratic * state.z[:n]
    step, changes = system.solution(problem, right)
    multiplier = rho - system.theta * changes
    slack = (slack_target - slacks * free + slacks * multiplier) / free
    return _Direction(step, slack, changes + slack, multiplier)


def _length(state: InteriorState, sides: Sides, direction: _Direction, fraction: float) -> float:
    """Return the length <= 1 that keeps slacks, gaps, multipliers and 1 - multipliers positive in the rows in use."""
    length = 1.0
    for here, step in (
        (state.slacks, direction.slacks),
        (state.gaps, direction.gaps),
        (state.multipliers, direction.multipliers),
        (state.complements, np.where(sides.is_soft, -direction.multipliers, 0.0)),
    ):
        falling = sides.used & (step < 0.0)
        if falling.any():
            length = min(length, fraction * float((-here[falling] / step[falling]).min()))
    if sides.radius > 0.0 and (curved := _curved(direction, sides)) > 0.0:  # gap + t change - t^2 curved > 0
        gap, change = state.gaps[-1], direction.gaps[-1]
        length = min(length, fraction * 2.0 * gap / (math.sqrt(change**2 + 4.0 * gap * curved) - change))
    return length
