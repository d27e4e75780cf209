"""A linear program as a method of one step: the hinge loss on an l1 ball or a box, solved exactly.

With weights p_i, scale c, margins m_i = y_i (x_i'w + b + o_i) and slacks xi_i the problem is

    min c sum_i p_i xi_i    over    xi_i >= 1 - m_i,    xi_i >= 0,    w in the set

A pass is one call of HiGHS, its interior point method with crossover [1]: callbacks, checkpoints and limits act before and
after it alone. It is charged as one pass of component gradients, which says little of its work: some 10 to 50 steps, each
with a sparse factor of order d. Its dual variables a_i make a lower bound of the minimum
(`finitesum.evaluation.certificates.dual_minorant`), which proves what was found.

`reference_optimum` can begin at a point near the solution. A row whose margin m_i is known to stay on one side of 1 needs
no variable: it costs 0, or p_i (1 - m_i), which is linear. Most rows are put on their side; the program of the rest lies
below F everywhere, so that its solution minimises F too once every row is found on the side where it was put. Rows that
are not get a variable, and the program is solved again. Half a million rows of 54 columns then take seconds in place of
half an hour.

References
----------
.. [1] Q. Huangfu, J. A. J. Hall, "Parallelizing the dual revised simplex method", Math. Program. Comput. 10 (2018): HiGHS.
"""

import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse

from finitesum.core.arrays import Flags, Indices, Vector, in_one_line
from finitesum.evaluation.certificates import dual_minorant, hinge_scale, lower_bound, minorant_at
from finitesum.evaluation.row_products import matrix_of_rows
from finitesum.losses import Hinge
from finitesum.methods.base import SumMethod
from finitesum.problems.linear import Problem

#: Rows that get a variable at first, when a start is given: this number, or this fraction of all.
N_NEAR, NEAR_FRACTION = 1000, 0.05


class Optimum(NamedTuple):
    """A minimum found by linear programming."""

    x: Vector
    value: float  # F(x): never below the minimum, but for rounding
    lower_bound: float  # by the dual variables: never above it
    multipliers: Vector  # the dual variables, in [0, 1]
    seconds: float


class _Rows(NamedTuple):
    """The rows as the program has them: m = signed (w, b) + shift."""

    signed: Any  # sparse (n, d + intercept)
    shift: Vector
    costs: Vector  # p_i times the scale of the loss


def _rows(problem: Problem, scale: float) -> _Rows:
    matrix = scipy.sparse.csr_array(matrix_of_rows(problem))
    if problem.has_intercept:
        matrix = scipy.sparse.hstack([matrix, np.ones((problem.n_rows, 1))], format="csr")
    signed = (scipy.sparse.diags_array(problem.targets) @ matrix).tocsr()
    return _Rows(signed, problem.targets * problem.offsets, scale * problem.weights)


def _solve(problem: Problem, rows: _Rows, loose: Flags, pressed: Flags, limit: float | None) -> tuple[Vector, Vector]:
    """Return the solution where only loose rows have a variable, and all dual variables."""
    from scipy.optimize import linprog

    if limit is not None and limit <= 0.0:
        raise RuntimeError("HiGHS found no optimum: the time limit was over before it began.")
    d, n = problem.rows.n_columns, int(loose.sum())
    signed, pull = rows.signed[loose], -(rows.signed[pressed].T @ rows.costs[pressed])
    ball: Any = problem.constraint if problem.constraint.boundary == "l1-norm" else None
    lower, upper = problem.constraint.intervals(d)
    if ball is not None:  # w = p - q with p, q >= 0
        lower, upper = np.zeros(2 * d), np.full(2 * d, np.inf)
        signed = scipy.sparse.hstack([signed[:, :d], -signed[:, :d], signed[:, d:]], format="csr")
        pull = np.concatenate([pull[:d], -pull[:d], pull[d:]])
    free = np.full(problem.rows.intercept, np.inf)
    bounds = np.concatenate([lower, -free, np.zeros(n)]), np.concatenate([upper, free, np.full(n, np.inf)])
    program = -scipy.sparse.hstack([signed, scipy.sparse.eye_array(n)], format="csr")
    right = rows.shift[loose] - 1.0
    if ball is not None:
        sizes = np.ones(d) if ball.weights is None else ball.weights
        norm = np.concatenate([sizes, sizes, np.zeros(program.shape[1] - 2 * d)])
        program = scipy.sparse.vstack([program, scipy.sparse.csr_array(norm[None, :])], format="csr")
        right = np.append(right, ball.radius)
    costs, options = np.concatenate([pull, rows.costs[loose]]), {} if limit is None else {"time_limit": limit}
    found = linprog(costs, program, right, bounds=np.stack(bounds, axis=1), method="highs-ipm", options=options)
    if found.x is None or found.status != 0:
        raise RuntimeError(f"HiGHS found no optimum: {found.message} Where columns of X are large or small, scale them.")
    x = found.x[: found.x.size - n]
    if ball is not None:
        x = np.concatenate([x[:d] - x[d : 2 * d], x[2 * d :]])
    multipliers = pressed.astype(np.float64)
    costs = rows.costs[loose]
    forces = np.divide(-found.ineqlin.marginals[:n], costs, out=np.zeros(n), where=costs > 0.0)
    multipliers[loose] = np.clip(forces, 0.0, 1.0)
    return np.ascontiguousarray(x), multipliers


def _first_sides(problem: Problem, rows: _Rows, start: Any) -> tuple[Flags, Flags]:
    """Return which rows get a variable at first, and which are put on the side where they cost."""
    if start is None or not problem.constraint.is_bounded or problem.has_intercept:
        return np.ones(problem.n_rows, dtype=bool), np.zeros(problem.n_rows, dtype=bool)
    slack = 1.0 - rows.signed @ np.asarray(start, dtype=np.float64) - rows.shift
    n_near = min(problem.n_rows, max(N_NEAR, int(NEAR_FRACTION * problem.n_rows)))
    loose = np.abs(slack) <= np.partition(np.abs(slack), n_near - 1)[n_near - 1]
    return loose, (slack > 0.0) & ~loose


def reference_optimum(problem: Problem, *, start: Any = None, time_limit: float | None = None) -> Optimum:
    """Return the minimum of a hinge loss on an l1 ball or a box, by an exact linear program.

    min sum_i p_i max(0, 1 - y_i (x_i'w + b + o_i))   over w in the set

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
    rows = _rows(problem, hinge_scale(problem))
    if problem.term.has_penalty:
        raise ValueError(f"a linear program has no quadratic penalty, but the problem has {in_one_line(problem.penalty)}.")
    if problem.constraint.boundary not in ("nothing", "signs", "bounds", "l1-norm"):
        raise ValueError(
            f"a linear program needs an l1 ball, a box or no constraint, got {in_one_line(problem.constraint)}."
        )
    loose, pressed = _first_sides(problem, rows, start)
    while True:
        limit = None if time_limit is None else time_limit - (time.perf_counter() - begin)
        x, multipliers = _solve(problem, rows, loose, pressed, limit)
        slack = 1.0 - rows.signed @ x - rows.shift
        wrong = ~loose & np.where(pressed, slack < 0.0, slack > 0.0)
        if not wrong.any():
            break
        loose |= wrong
        pressed &= ~loose
    d = problem.rows.n_columns
    x[:d] = problem.constraint.project(x[:d])
    value, _ = minorant_at(problem, x)
    bound = lower_bound(problem, dual_minorant(problem, multipliers, x))
    return Optimum(x, value, bound, multipliers, time.perf_counter() - begin)


class ProgramState(NamedTuple):
    x: Vector
    multipliers: Vector  # (n,)  dual variables
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class LinearProgram(SumMethod):
    """The exact minimiser of the hinge loss on an l1 ball or a box, by one call of HiGHS.

    min c sum_i p_i xi_i   over   xi_i >= 1 - y_i (x_i'w + b + o_i),   xi_i >= 0,   w in the set

    Examples
    --------
    >>> from finitesum.constraints import L1Ball
    >>> from finitesum.running.driver import minimize
    >>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge", constraint=L1Ball(1.0))
    >>> result = minimize(problem, method=LinearProgram(), tol=1e-10)
    >>> result.success, result.x
    (True, array([0.5]))
    """

    handles: ClassVar[frozenset[str]] = frozenset({"nonsmooth", "constraint"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 1

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem is no linear program."""
        is_polyhedral = problem.constraint.boundary in ("bounds", "l1-norm")
        if isinstance(problem.loss, Hinge) and is_polyhedral and not problem.term.has_penalty:
            return ""
        return (
            f"linear-program needs the hinge loss on an l1 ball or a box, and no penalty, got {problem.loss!r} with "
            f"{in_one_line(problem.penalty)} on {in_one_line(problem.constraint)}. Set alpha = 0 and the constraint, or "
            "choose another method."
        )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> ProgramState:
        return ProgramState(x0.copy(), np.zeros(problem.n_rows), 0, 0)

    def run_pass(self, problem: Problem, state: ProgramState, order: Indices) -> ProgramState:
        try:
            found = reference_optimum(problem)
        except RuntimeError as error:
            raise ValueError(f"{error} Scale the columns of X, or choose another method.") from error
        return ProgramState(found.x, found.multipliers, state.n_gradients + problem.n_components, state.n_hessians)

    def estimate(self, problem: Problem, state: ProgramState) -> float:
        """Return infinity before the step, then 0: what was found is to be checked."""
        return 0.0 if state.n_gradients else float("inf")

    def bound(self, problem: Problem, state: ProgramState) -> float:
        """Return the bound of the minimum that the dual variables make."""
        return lower_bound(problem, dual_minorant(problem, state.multipliers, state.x))
