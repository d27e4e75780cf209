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
optimum, and the system is written in an orthonormal basis of it; with one that leaves no coefficient alone the system is
one of the rows (`finitesum.methods.newton.interior_rows`). Coefficients that belong at a bound, or at 0 under an l1
penalty, are put there in what is returned. A pass is one step: m component Hessians and five component gradients' worth of
reading, two more for each correction of a short step (`finitesum.methods.newton.interior_correctors`), O(n d^2 + d^3) work,
d^2 + 4n memory. The number of steps hardly depends on the data (6 to 30). Rows of weight 0 are left out. The multipliers
a_i make a lower bound of the minimum (`finitesum.evaluation.certificates.dual_minorant`), so that the optimality is a
duality gap, with the best bound seen. In the last steps rounding errors of theta x_i'dw leave the first equation short;
where these hide the gap, the a_i are corrected for the bound, by a step with min(a_i, 1 - a_i) in the place of theta. All
of this is about the hinge loss; another loss with corners is the sum of two hinges of a row, which read it once
(`finitesum.methods.newton.hinge_rows`). Of rows in parts xi, r, a and 1 - a lie beside these, and a step is six rounds of
sums (`finitesum.methods.newton.interior_pieces`). The references are those of `InteriorPoint`.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector, in_one_line
from finitesum.evaluation.certificates import Minorant, lower_bound, minorant_around
from finitesum.evaluation.row_products import matrix_of_rows
from finitesum.losses import Cornered
from finitesum.methods.base import SumMethod
from finitesum.methods.cost_model import threads_for_factors
from finitesum.methods.newton.hinge_rows import minorant_of
from finitesum.methods.newton.interior_columns import (
    FAR,
    FEWEST_NEW,
    LEFT,
    first_columns,
    is_for_all,
    more_columns,
    takes_columns,
)
from finitesum.methods.newton.interior_correctors import centred
from finitesum.methods.newton.interior_numbers import Inner
from finitesum.methods.newton.interior_pieces import Pieces, begun
from finitesum.methods.newton.interior_records import Numbers, Report, Step
from finitesum.methods.newton.interior_rows import takes_one_thread
from finitesum.methods.newton.interior_sides import Sides, sides_of, start_within
from finitesum.methods.newton.interior_systems import has_span, span, system_at
from finitesum.methods.newton.subsampling import require_members
from finitesum.methods.newton.working_set_newton import coordinates_on, part_on
from finitesum.methods.parameters import CountOrAuto
from finitesum.problems.input import as_rows
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import n_entries

#: Steps on a working set, at most, until all columns are read, and what is kept when it grows.
MOST_STEPS, KEPT = 8, ("x", "losses", "best_bound", "radius", "n_gradients", "n_hessians")

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
    slacks: Vector  # (J n + k,)  xi, of the J hinges of each row, one hinge behind the other, and the sides behind them;
    # of rows in parts (n,) or (n, J), without the sides; 0 where a side must hold
    gaps: Vector  # the same  r = m - 1 + xi
    multipliers: Vector  # the same  a
    complements: Vector  # the same  1 - a, which keeps its own digits; 1 where a side must hold
    of_sides: Matrix  # (4, k)  those of the sides, where rows are in parts; else (4, 0)
    basis: Matrix  # (d, n)  orthonormal, of the rows' span, where they are fewer than columns; else (0, 0)
    coordinates: Matrix  # (n, n)  of the rows in it
    products: float  # the sum of those that vanish at the minimum, in units of F
    tol: float
    n_gradients: int
    n_hessians: int
    losses: float = math.inf  # that slacks and gaps mean
    best_bound: float = -math.inf  # of the minimum, of those that multipliers have made
    radius: float = 0.0  # of the points that it bounds F at, in units of columns
    columns: Indices = np.zeros(0, dtype=np.int64)  # the working set, increasing; empty: all. z and what follows are of it
    enough: float = 0.0  # the gap on the working set at which all columns are read
    set_bound: float = -math.inf  # of the minimum over the working set, and its radius
    set_radius: float = 0.0
    n_steps: int = 0  # since all columns were read


@dataclass(frozen=True)
class InteriorPoint(SumMethod):
    """Interior points for losses with corners and any elastic net, or on any set: linear models to the last digits.

    w+ = w + t dw,   (l2 I + sum_i c_i theta_i x_i x_i') dw = sum_i c_i (a_i + rho_i) y_i x_i - l2 w    [1, 2]

    Parameters
    ----------
    first_columns : int >= 1 or "auto"
        Columns of the first working set, with an l1 penalty on all columns of rows in memory.
        "auto" is 128 where there are at least 512 columns, and 400 rows or more; else steps take all columns.

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
    .. [3] J. Gondzio, "Multiple centrality corrections in a primal-dual method for linear programming", Comput. Optim.
       Appl. 6 (1996).
    """

    first_columns: CountOrAuto = "auto"

    handles: ClassVar[frozenset[str]] = frozenset({"nonsmooth", "l1", "weights", "constraint", "bounded-l1", "parts"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 20

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
            f"{problem.loss!r} with {in_one_line(problem.penalty)} on {in_one_line(problem.constraint)}. Choose another "
            "method."
        )

    def blas_threads(self, problem: Problem) -> int | None:
        return 1 if takes_one_thread(problem) else threads_for_factors(problem)

    def template(self, problem: Problem, first: InteriorState, state: InteriorState) -> InteriorState:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        if state.columns.size == 0:  # of all columns, from the start or after working sets
            of_all = _begun(problem, np.zeros(problem.dim), 0.0) if first.columns.size else first
            return of_all._replace(x=first.x)
        require_members("columns", state.columns, problem.rows.n_columns, is_sorted=True)
        part = part_on(problem, state.columns)
        return _begun(part, np.zeros(part.dim), 0.0)._replace(x=first.x, columns=state.columns)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> InteriorState:
        """Return the state before the first step: slacks so that nothing is tight, multipliers 1/2."""
        m, problem = problem.n_components, _at_hand(problem)
        if takes_columns(problem, is_asked=self.first_columns != "auto"):
            columns, value = first_columns(problem, x0, self._fewest_columns)
            if columns.size and not is_for_all(problem, columns):
                there = _begun(part_on(problem, columns), x0[coordinates_on(problem, columns)], tol)
                return _on_columns(problem, there, columns)._replace(n_gradients=2 * m, enough=LEFT * value)
        return _begun(problem, x0, tol)._replace(n_gradients=m)

    @property
    def _fewest_columns(self) -> int:
        return FEWEST_NEW if self.first_columns == "auto" else int(self.first_columns)

    def run_pass(self, problem: Problem, state: InteriorState, order: Indices) -> InteriorState:
        problem = _at_hand(problem)
        if state.columns.size == 0:
            return _stepped(problem, state, problem.n_components)
        part, places = part_on(problem, state.columns), coordinates_on(problem, state.columns)
        here = state._replace(x=state.x[places], best_bound=state.set_bound, radius=state.set_radius)
        charged = max(problem.n_components * n_entries(part.rows) // max(n_entries(problem.rows), 1), 1)
        there = _stepped(part, here, charged)
        state = _on_columns(problem, there, state.columns)._replace(
            best_bound=state.best_bound,
            radius=state.radius,
            set_bound=there.best_bound,
            set_radius=there.radius,
            n_steps=state.n_steps + 1,
        )
        gap = _value(problem, state) - state.set_bound
        return self._read(problem, state, gap) if gap <= state.enough or state.n_steps == MOST_STEPS else state

    def _read(self, problem: Problem, state: InteriorState, gap_on_set: float) -> InteriorState:
        """Return the state with a bound of the minimum over all columns, on a larger working set where that is why."""
        made = minorant_around(problem, state.x, *minorant_of(problem, state.multipliers))
        state = _with_bound(state, lower_bound(problem, made), made.radius)
        gap, m = _value(problem, state) - state.best_bound, problem.n_components
        state = state._replace(n_gradients=state.n_gradients + 2 * m, n_steps=0)
        if gap <= state.tol or gap_on_set > max(state.enough, state.tol):
            return state
        if gap > FAR * gap_on_set:
            columns = more_columns(problem, state.columns, state.x, made, self._fewest_columns)
            if columns.size > state.columns.size:
                if is_for_all(problem, columns):
                    columns, there, x = state.columns[:0], problem, state.x
                else:
                    there, x = part_on(problem, columns), state.x[coordinates_on(problem, columns)]
                kept = {name: getattr(state, name) for name in KEPT}
                return _begun(there, x, state.tol)._replace(**kept, columns=columns, enough=LEFT * gap)
        return state._replace(enough=LEFT * max(gap_on_set, state.tol))

    def estimate(self, problem: Problem, state: InteriorState) -> float:
        """Return the duality gap, with the losses that the slacks and gaps mean."""
        return max(_value(problem, state) - state.best_bound, 0.0)

    def bound(self, problem: Problem, state: InteriorState) -> float:
        """Return the best bound of the minimum that multipliers have made."""
        return state.best_bound


def _begun(problem: Problem, x0: Vector, tol: float) -> InteriorState:
    """Return the state before the first step."""
    x, (basis, coordinates) = x0.copy(), span(problem)
    if basis.size:
        d = problem.rows.n_columns
        x[:d] = basis @ (basis.T @ x[:d])
    z, beyond = start_within(problem, sides_of(problem), x)
    numbers, of_sides, products = begun(problem, z, beyond)
    x = z[: problem.dim].copy()
    return InteriorState(x, z, *numbers, of_sides, basis, coordinates, products, tol, 0, 0)


def _on_columns(problem: Problem, of_part: InteriorState, columns: Indices) -> InteriorState:
    """Return the state on a working set as one of the whole problem."""
    x = np.zeros(problem.dim)
    x[coordinates_on(problem, columns)] = of_part.x
    return of_part._replace(x=x, columns=columns)


def _stepped(problem: Problem, state: InteriorState, m: int) -> InteriorState:
    """Return the state after a step, charged by m components."""
    pieces = _pieces(problem, state)
    sides, system = pieces.sides, system_at(pieces, _quadratic(pieces, state), (state.basis, state.coordinates))
    state = state._replace(n_gradients=state.n_gradients + 5 * m, n_hessians=state.n_hessians + m)
    if system is None:  # the equations are solved to rounding errors
        return state
    mu = state.products / sides.n_products
    first = system.solution(_right(pieces, state, system.pull))
    ahead = pieces.ahead(first, mu)
    left = (state.products + float(ahead.terms @ ahead.length ** np.arange(1, 4))) / sides.n_products
    aim = max((left / mu) ** 3 * mu, max(OF_TOL * state.tol, OF_LOSS * sides.scale) / sides.n_inner)
    second = system.solution(_right(pieces, state, pieces.second_pull(first, aim, ahead, mu)))
    fraction = max(FRACTION_TO_BOUNDARY, 1.0 - mu)
    step = Step(first, aim, second, pieces.length(first, aim, second, fraction))
    pieces, step, n_tried = centred(pieces, step, fraction, lambda pull: system.solution(_right(pieces, state, pull)))
    z = state.z + step.length * step.second[: state.z.size]
    points = _points(problem, sides, z, pieces.sides_after(step))
    numbers, of_sides, report = pieces.moved(step, points)
    inside, moved = (loss + problem.term.value(point) for loss, point in zip(report.at_points, points, strict=True))
    state = state._replace(
        x=points[int(moved <= inside + OF_MOVE * state.tol)],
        z=z,
        n_gradients=state.n_gradients + 2 * m * n_tried,
        **numbers._asdict(),
        of_sides=of_sides,
        products=report.products,
        losses=report.losses,
    )
    return _bounded(problem, state, report)


@remembered
def _at_hand(problem: Problem) -> Problem:
    """Return the problem; of fewer rows in parts than columns, whose span is in memory, one with the rows in memory."""
    if not is_parted(problem) or not has_span(problem):
        return problem
    targets, offsets, weights = map(np.ascontiguousarray, (problem.targets, problem.offsets, problem.weights))
    rows = as_rows(matrix_of_rows(problem), intercept=problem.has_intercept)
    return replace(problem, rows=rows, targets=targets, offsets=offsets, weights=weights)


def _value(problem: Problem, state: InteriorState) -> float:
    return state.losses + problem.term.value(state.x)


def _pieces(problem: Problem, state: InteriorState) -> Pieces:
    numbers = Numbers(state.slacks, state.gaps, state.multipliers, state.complements)
    return Pieces(problem, state.z, numbers, state.of_sides)


def _right(pieces: Pieces, state: InteriorState, pull: Vector) -> Vector:
    """Return the right-hand side of a step, given the pull of the rows and sides."""
    right, term = pull + pieces.sides.linear, pieces.problem.term
    right[: term.quadratic.size] -= term.quadratic * state.z[: term.quadratic.size]
    return right


def _bounded(problem: Problem, state: InteriorState, report: Report) -> InteriorState:
    """Return the state with the bound of its multipliers, or of corrected ones, or a better one of before."""
    made = minorant_around(problem, state.x, report.constants, report.slopes)
    state, enough = _with_bound(state, lower_bound(problem, made), made.radius), _value(problem, state) - state.tol
    if state.best_bound < enough and state.products <= state.tol:
        bound = lower_bound(problem, _corrected(problem, state, made))
        state = state._replace(best_bound=max(state.best_bound, bound))
    return state


def _with_bound(state: InteriorState, bound: float, radius: float) -> InteriorState:
    """Return the state with the best bound for points within a radius: what held nearby says nothing of others."""
    return state._replace(best_bound=max(bound, state.best_bound) if radius == state.radius else bound, radius=radius)


def _corrected(problem: Problem, state: InteriorState, made: Minorant) -> Minorant:
    """Return the minorant of the multipliers nearest to these that meet the first equation, by their distance from 0 and 1.

    In the last steps theta is so large that rounding errors of x_i'dw become visible ones of a_i; the distances are not.
    """
    pieces, quadratic, z = _pieces(problem, state), np.zeros(state.z.size), state.z
    quadratic[: problem.dim] = problem.term.quadratic
    system = system_at(pieces, quadratic, (state.basis, state.coordinates), corrects=True)
    if system is None:
        return made
    pull = system.pull
    steps: list[Vector] = []
    for k in range(N_CORRECTIONS):
        if k > 0:
            pull = pieces.sum(partial(Inner.corrected_pull, steps=tuple(steps)))
        steps.append(system.solution(pull + pieces.sides.linear - quadratic * z))
        z = z + steps[-1][: z.size]
    return minorant_around(problem, state.x, *pieces.sum(partial(Inner.corrected_minorant, steps=tuple(steps))))


def _points(problem: Problem, sides: Sides, z: Vector, of_sides: Numbers) -> tuple[Vector, Vector]:
    """Return the points of the set for z, and with coefficients at their bounds or at 0."""
    x = z[: problem.dim]
    snapped = np.concatenate([sides.snapped(z, of_sides), x[sides.units.size :]])
    return problem.term.project(x.copy()), problem.term.project(snapped)


def _quadratic(pieces: Pieces, state: InteriorState) -> Vector:
    """Return the diagonal of a step's system that penalty, proximal term and an l2 ball's multiplier make."""
    sides, quadratic, d = pieces.sides, np.zeros(state.z.size), pieces.sides.units.size
    quadratic[: pieces.problem.dim] = pieces.problem.term.quadratic
    lengths = np.maximum(sides.units, np.abs(state.z[:d]))
    quadratic[:d] += PROXIMAL * sides.scale / lengths**2
    if sides.radius > 0.0:
        quadratic[:d] += sides.costs[-1] * pieces.here.numbers.multipliers[-1] / sides.radius
    return quadratic
