"""A linear program as a method of one step: losses with corners and an l1 penalty, or on a polyhedron, solved exactly.

A loss of corners, sum_j max(low_j (u - k_j), high_j (u - k_j)), is the largest sum_j s_j (u - k_j) over low_j <= s_j <=
high_j. With loads l_ij = p_i s_ij, and rows r_k'w >= c_k and a linear part for what a penalty and a set add
(`finitesum.methods.newton.interior_sides`), the dual problem of min sum_i p_i loss_i(x_i'w + b + o_i) + sum_j t_j |w_j| is
::

    max  sum_ij l_ij (o_i - k_ij) + sum_k a_k c_k    over    p_i low_ij <= l_ij <= p_i high_ij,    a_k >= 0,
    sum_ij l_ij x_i - sum_k a_k r_k = linear part

where the a_k of thresholds are bounded, too. It has an equation for each coefficient, whose multiplier the coefficient is;
the problem in slacks has one for each row. A pass is one call of HiGHS, its interior point method with crossover [1]:
callbacks, checkpoints and limits act before and after it alone. It is charged as one pass of component gradients, which
says little of its work: some 10 to 50 steps, each with sparse factors, where `interior-point` has a dense matrix. The loads
make a lower bound of the minimum (`finitesum.methods.newton.hinge_rows`), which proves what was found.

`reference_optimum` can begin at a point near the solution. Of a row whose prediction is known to stay on one side of its
corners the loads are known. They are fixed for most rows; the problem of the rest lies below F everywhere, so that its
solution minimises F too once every row is found on the side where it was put. Rows that are not are freed, and the program
is solved again.

References
----------
.. [1] Q. Huangfu, J. A. J. Hall, "Parallelizing the dual revised simplex method", Math. Program. Comput. 10 (2018): HiGHS.
"""

import time
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse

from finitesum.core.arrays import Flags, Indices, Matrix, Vector, in_one_line
from finitesum.evaluation.certificates import lower_bound, minorant_around, minorant_at
from finitesum.evaluation.row_products import matrix_of_rows, predictions
from finitesum.losses import Cornered, Hinge
from finitesum.methods.base import SumMethod
from finitesum.methods.newton.dual_points import corners_in_place
from finitesum.methods.newton.hinge_rows import hinges_of, minorant_of, n_hinges
from finitesum.methods.newton.interior_sides import sides_of
from finitesum.problems.linear import Problem

#: Rows that are free at first, when a start is given: this number, or this fraction of all.
N_NEAR, NEAR_FRACTION = 1000, 0.05

#: The accuracy of HiGHS's equations, of loads that are about 1: the smallest that it takes.
ACCURACY = 1e-10


class Optimum(NamedTuple):
    """A minimum found by linear programming."""

    x: Vector
    value: float  # F(x): never below the minimum, but for rounding
    lower_bound: float  # by the dual variables: never above it
    multipliers: Vector  # (J n,)  the dual variables of each row's J hinges, in [0, 1]
    seconds: float


class _Program(NamedTuple):
    """The dual problem: max gains'v over lowest <= v <= highest, columns v = right; the loads of rows stand first."""

    columns: Any  # sparse (k, J n + m), x_i for each corner of each row, and those of the sides
    right: Vector  # (k,)
    gains: Vector  # (J n + m,)
    lowest: Vector
    highest: Vector
    places: Matrix  # (J, n)  predictions, without offsets, at the corners: less the gains of the loads
    kept: Indices  # (k,)  the coordinates that have an equation: those that may move
    units: Vector  # (k,)  what their equations are multiplied by
    held: Vector  # (dim,)  the others', and 0


def _program(problem: Problem) -> _Program:
    sides, d, weights = sides_of(problem), problem.rows.n_columns, problem.weights
    constraint: Any = problem.constraint
    matrix = scipy.sparse.csr_array(matrix_of_rows(problem))
    if problem.has_intercept:
        matrix = scipy.sparse.hstack([matrix, np.ones((problem.n_rows, 1))], format="csr")
    matrix.resize(problem.n_rows, sides.linear.size)  # bounds of absolute values, on an l1 ball, stand behind
    held = np.zeros(problem.dim)
    held[:d][~sides.free[:d]] = constraint.intervals(d)[0][~sides.free[:d]]
    corners = corners_in_place(problem)
    places = np.stack([point - problem.offsets for *_, point in corners]) - predictions(problem, held)
    kept, units, beside = np.flatnonzero(sides.free), np.ones(sides.linear.size), sides.rows
    units[:d] = sides.units
    units[problem.dim :] = sides.units[: units.size - problem.dim]  # of bounds of absolute values
    gains, most = sides.limits, np.where(sides.is_soft, sides.costs, np.inf)
    least = np.zeros(most.size)
    if sides.total.size:
        beside = scipy.sparse.vstack([beside, sides.total[None, :]])
        gains, least, most = np.append(gains, constraint.total), np.append(least, -np.inf), np.append(most, np.inf)
    beside = beside @ scipy.sparse.diags_array(units)
    sizes = np.maximum(abs(beside).max(axis=1).toarray().reshape(-1), np.finfo(np.float64).tiny)  # of multipliers
    columns = scipy.sparse.hstack(
        [(matrix @ scipy.sparse.diags_array(units)).T] * len(corners)
        + [-(scipy.sparse.diags_array(1.0 / sizes) @ beside).T],
        format="csr",
    )
    return _Program(
        scipy.sparse.csc_array(columns[kept]),
        (units * sides.linear)[kept],
        np.concatenate([-places.reshape(-1), gains / sizes]),
        np.concatenate([*(weights * low for low, *_ in corners), least * sizes]),
        np.concatenate([*(weights * high for _, high, _ in corners), most * sizes]),
        places,
        kept,
        units[kept],
        held,
    )


def _solve(program: _Program, loads: Vector, is_fixed: Flags, limit: float | None) -> tuple[Vector, Vector]:
    """Return the solution where some loads are fixed, and all loads."""
    from scipy.optimize import linprog

    if limit is not None and limit <= 0.0:
        raise RuntimeError("HiGHS found no optimum: the time limit was over before it began.")
    free = np.ones(program.gains.size, dtype=bool)
    free[: loads.size] = ~is_fixed
    unit = float(np.abs(program.highest[: loads.size] - program.lowest[: loads.size]).mean())  # loads are about 1 in it
    right = program.right - program.columns[:, : loads.size] @ np.where(is_fixed, loads, 0.0)
    options: dict[str, Any] = {"primal_feasibility_tolerance": ACCURACY, "dual_feasibility_tolerance": ACCURACY}
    if limit is not None:
        options["time_limit"] = limit
    bounds = np.stack([program.lowest[free], program.highest[free]], axis=1) / unit
    columns, gains = program.columns[:, free], program.gains[free]
    found = linprog(-gains, A_eq=columns, b_eq=right / unit, bounds=bounds, method="highs-ipm", options=options)
    if found.x is None or found.status != 0:
        raise RuntimeError(f"HiGHS found no optimum: {found.message}")
    loads, n_free = loads.copy(), int(np.count_nonzero(~is_fixed))
    loads[~is_fixed] = unit * found.x[:n_free]
    w, dim = program.held.copy(), program.held.size
    w[program.kept[program.kept < dim]] = (program.units * found.eqlin.marginals)[program.kept < dim]
    return w, np.clip(loads, program.lowest[: loads.size], program.highest[: loads.size])


def _first_loads(problem: Problem, program: _Program, start: Any) -> tuple[Vector, Flags]:
    """Return the loads that rows have at a start, and which are fixed at first."""
    loads = np.zeros(program.places.size)
    if start is None or not problem.constraint.is_bounded or problem.has_intercept:
        return loads, np.zeros(loads.size, dtype=bool)
    excess = predictions(problem, np.asarray(start, dtype=np.float64)) - program.places
    distance = np.abs(excess).min(axis=0)
    n_near = min(problem.n_rows, max(N_NEAR, int(NEAR_FRACTION * problem.n_rows)))
    is_near = distance <= np.partition(distance, n_near - 1)[n_near - 1]
    loads = np.where(excess.reshape(-1) > 0.0, program.highest[: loads.size], program.lowest[: loads.size])
    return loads, np.tile(~is_near, len(program.places))


def _multipliers(problem: Problem, loads: Vector) -> Vector:
    """Return loads of corners as multipliers in [0, 1] of the hinges that losses are made of."""
    hinges, by_corner = hinges_of(problem), loads.reshape(-1, problem.n_rows)
    if isinstance(problem.loss, Hinge):
        parts = [np.abs(by_corner[0])]
    else:
        parts = [
            np.maximum(sign * of_corner, 0.0)
            for (low, high, _), of_corner in zip(corners_in_place(problem), by_corner, strict=True)
            for slopes, sign in ((low, -1.0), (high, 1.0))
            if slopes.any()
        ]
    costs = hinges.costs
    return np.clip(np.divide(parts, costs, out=np.zeros(costs.shape), where=costs > 0.0), 0.0, 1.0).reshape(-1)


def reference_optimum(problem: Problem, *, start: Any = None, time_limit: float | None = None) -> Optimum:
    """Return the minimum of a loss with corners and an l1 penalty, or on a polyhedron, by an exact linear program.

    min sum_i p_i loss_i(x_i'w + b + o_i) + sum_j t_j |w_j|   over w in the set

    by HiGHS's interior point method with crossover, in at most `time_limit` seconds; a RuntimeError where it finds none.
    Value and lower bound are recomputed from its solution and its dual variables, so that their difference is a proof. A
    start near the solution, the end of any method, makes the program small on bounded sets, without an intercept.

    Examples
    --------
    >>> from finitesum.constraints import L1Ball
    >>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge", constraint=L1Ball(1.0))
    >>> optimum = reference_optimum(problem)
    >>> optimum.x, optimum.value, optimum.lower_bound
    (array([0.5]), 0.75, 0.75)
    """
    begin = time.perf_counter()
    if refusal := LinearProgram.refusal(problem):
        raise ValueError(refusal)
    program = _program(problem)
    loads, is_fixed = _first_loads(problem, program, start)
    while True:
        limit = None if time_limit is None else time_limit - (time.perf_counter() - begin)
        x, loads = _solve(program, loads, is_fixed, limit)
        excess = predictions(problem, x) - predictions(problem, program.held) - program.places
        lowest, highest = program.lowest[: loads.size], program.highest[: loads.size]
        wrong = np.where(loads >= highest, excess.reshape(-1) < 0.0, excess.reshape(-1) > 0.0)
        wrong &= is_fixed & (lowest < highest)  # rows of weight 0 have no side
        if not wrong.any():
            break
        is_fixed &= ~wrong
    d, multipliers = problem.rows.n_columns, _multipliers(problem, loads)
    x[:d] = problem.constraint.project(x[:d])
    value = minorant_at(problem, x)[0] + problem.term.value(x)
    bound = lower_bound(problem, minorant_around(problem, x, *minorant_of(problem, multipliers)))
    return Optimum(x, value, bound, multipliers, time.perf_counter() - begin)


class ProgramState(NamedTuple):
    x: Vector
    multipliers: Vector  # (J n,)  dual variables
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class LinearProgram(SumMethod):
    """The exact minimiser of a loss with corners and an l1 penalty, or on a polyhedron, by one call of HiGHS.

    min sum_i p_i loss_i(x_i'w + b + o_i) + sum_j t_j |w_j|   over w in the set

    Examples
    --------
    >>> from finitesum.constraints import L1Ball
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge", constraint=L1Ball(1.0))
    >>> result = minimize(problem, method=LinearProgram(), tol=1e-10)
    >>> result.success, result.x
    (True, array([0.5]))
    """

    handles: ClassVar[frozenset[str]] = frozenset({"nonsmooth", "constraint", "bounded-l1", "l1", "weights"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 1
    is_one_step: ClassVar[bool] = True

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem is no linear program."""
        term = problem.term
        is_linear = term.is_elastic_net and term.largest_quadratic == 0.0 and problem.n_outputs == 1
        if isinstance(problem.loss, Cornered) and is_linear and term.constraint.boundary not in ("", "l2-norm"):
            return ""
        return (
            "linear-program needs the hinge loss or another one with corners, no penalty but l1, and a set of the library "
            f"that is a polyhedron, got {problem.loss!r} with {in_one_line(problem.penalty)} on "
            f"{in_one_line(problem.constraint)}. Set l1_ratio = 1 or alpha = 0, or choose another method."
        )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> ProgramState:
        return ProgramState(x0.copy(), np.zeros(n_hinges(problem) * problem.n_rows), 0, 0)

    def run_pass(self, problem: Problem, state: ProgramState, order: Indices) -> ProgramState:
        state = state._replace(n_gradients=state.n_gradients + problem.n_components)
        if state.n_gradients > problem.n_components:  # nothing is found a second time
            return state
        try:
            found = reference_optimum(problem)
        except RuntimeError as error:
            warnings.warn(f"{error} Scale the targets, or choose another method.", RuntimeWarning, stacklevel=2)
            return state
        return state._replace(x=found.x, multipliers=found.multipliers)

    def estimate(self, problem: Problem, state: ProgramState) -> float:
        """Return infinity before the step, then 0: what was found is to be checked."""
        return 0.0 if state.n_gradients else float("inf")

    def bound(self, problem: Problem, state: ProgramState) -> float:
        """Return the bound of the minimum that the dual variables make."""
        return lower_bound(problem, minorant_around(problem, state.x, *minorant_of(problem, state.multipliers)))
