"""Newton's method on working sets of columns: for sparse solutions among so many columns that no d x d matrix can be had.

With an l1 penalty, on an l1 ball, a simplex or the nonnegative orthant most coefficients are 0 at the minimum, and a column
whose coefficient stays 0 plays no part. At x a pass over the data gives the gradient g, and with it the columns that a
small proximal step would move,

    W = {j : x_j != 0} with the largest of {j : x_j = 0, prox(x - s g)_j != 0},

at most as many new ones as there are old ones, and some at first [1, 2]. F is then minimised over the columns in W by lazy
Newton (`finitesum.methods.newton.lazy_newton`), whose matrices have the size of W, until a part of the optimality at x
is left. Where W has all columns that violate the optimality conditions, and F is minimised on it, x is optimal. F never
rises from one working set to the next, because each holds the last one's solution.

Memory: 8 bytes a row, a copy of the entries of W's columns, and |W|^2. A pass over W's columns is charged by the share of
the entries that it reads.

References
----------
.. [1] T. B. Johnson, C. Guestrin, "Blitz: a principled meta-algorithm for scaling sparse optimization", ICML 2015.
.. [2] Q. Bertrand, Q. Klopfenstein, P.-A. Bannier, G. Gidel, M. Massias, "Beyond L1: faster and better sparse models with
   skglm", NeurIPS 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.constraints import Unconstrained
from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.row_sums import Vector32
from finitesum.methods.base import Auto, Card
from finitesum.methods.newton.lazy_newton_passes import Settings, first_state, one_pass, state_at
from finitesum.methods.newton.sampled_newton import LEAST_TOL, SampledNewton
from finitesum.methods.newton.subsampling import Look, look, permutation, sample_of
from finitesum.problems.linear import Problem
from finitesum.problems.rows import columns_of, n_entries

#: New columns in a working set, at least and at most.
FEWEST_NEW, MOST_NEW = 128, 2048

#: The share of the optimality that is left on a working set, and the steps that it may take.
LEFT, MOST_STEPS = 0.1, 30


class WorkingSetNewtonState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for: no working set is solved more exactly than it needs
    gradient: Vector  # of the smooth part at x
    curvatures: Vector32  # (n,)  of the rows at x
    squares: float  # sum of p_i phi'_i^2 at x
    loss: float  # sum of p_i phi_i at x
    n_sampled: int  # components read at x: all of them, 0 before the first pass
    optimality: float  # at x, exact
    n_gradients: int
    n_hessians: float


@dataclass(frozen=True)
class WorkingSetNewton(SampledNewton):
    """Newton's method on the columns that matter, for sparse solutions on very wide data: nothing to tune.

    x+ = argmin {F(u) : u_j = 0 for j not in W},  W = supp(x) and the columns that violate optimality most

    Parameters
    ----------
    first_columns : int >= 1 or "auto"
        Columns of the first working set; "auto" is 128.
    n_threads : int >= 1
        Threads that share a pass. The result depends on their number by rounding errors.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    >>> from finitesum import Problem, minimize
    >>> problem = Problem.linear([[1.0, 0.0], [3.0, 1.0]], [0.0, 2.0], loss="squared", alpha=0.5, l1_ratio=1.0)
    >>> minimize(problem, method="working-set-newton", tol=1e-12).x
    array([0.5, 0. ])

    References
    ----------
    .. [1] T. B. Johnson, C. Guestrin, "Blitz: a principled meta-algorithm for scaling sparse optimization", ICML 2015.
    """

    first_columns: int | Auto = "auto"
    n_threads: int = 1

    name: ClassVar[str] = "working-set-newton"
    state_type: ClassVar[type[WorkingSetNewtonState]] = WorkingSetNewtonState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint"})
    card: ClassVar[Card] = Card(
        "Newton on working sets",
        "2 m + |W|^2",
        "d a pass; |W|^2 a Hessian's row",
        "superlinear on the last working set",
        "two derivatives; sparse solutions",
        "this library",
    )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> WorkingSetNewtonState:
        """Return the state before the first row is read."""
        curvatures = np.zeros(problem.n_rows, dtype=np.float32)
        return WorkingSetNewtonState(x0.copy(), tol, np.zeros(problem.dim), curvatures, 0.0, 0.0, 0, math.nan, 0, 0.0)

    def run_pass(self, problem: Problem, state: WorkingSetNewtonState, order: Indices) -> WorkingSetNewtonState:
        """Return the state after a working set was solved; the first time, after a look at the start before it."""
        order = permutation(order, problem.n_components)
        with np.errstate(all="ignore"):  # a step that is too long is seen by its slope
            if state.n_sampled == 0:
                state = self._read(problem, state)
            columns = working_set(problem, state.x, state.gradient, self._most_new(problem, state))
            return self._read(problem, self._solved(problem, state, columns, order))

    def _most_new(self, problem: Problem, state: WorkingSetNewtonState) -> int:
        first = FEWEST_NEW if self.first_columns == "auto" else int(self.first_columns)
        return min(max(first, int(np.count_nonzero(state.x[: problem.rows.n_columns]))), MOST_NEW)

    def _read(self, problem: Problem, state: WorkingSetNewtonState) -> WorkingSetNewtonState:
        """Return the state with what a pass over all columns finds at x."""
        sample = sample_of(problem, np.arange(problem.n_components))
        seen = look(problem, sample, state.x, state.curvatures, n_threads=self.n_threads)
        return state._replace(
            gradient=seen.gradient,
            curvatures=seen.curvatures,
            squares=seen.squares,
            loss=seen.loss,
            n_sampled=problem.n_components,
            optimality=problem.term.optimality(state.x, seen.gradient),
            n_gradients=state.n_gradients + problem.n_components,
        )

    def _solved(
        self, problem: Problem, state: WorkingSetNewtonState, columns: Indices, order: Indices
    ) -> WorkingSetNewtonState:
        """Return the state with F minimised over the columns of a working set, and the intercept."""
        if columns.size == 0 and problem.dim == problem.rows.n_columns:
            return state
        part = on_columns(problem, columns)
        inside = np.concatenate([columns, np.arange(problem.rows.n_columns, problem.dim)])
        accuracy = LEFT * state.optimality
        target = max(state.tol, LEAST_TOL)
        if state.optimality > target:
            accuracy = max(accuracy, 0.5 * target)
        settings = Settings(n_threads=self.n_threads)
        if state.x.any():
            seen = Look(state.gradient[inside], state.curvatures, state.squares, state.loss)
            inner = state_at(part, state.x[inside], accuracy, seen, order, settings)
        else:  # samples are worth it far from the minimum alone
            inner = one_pass(part, first_state(part, state.x[inside], accuracy), order, settings)
        for _ in range(MOST_STEPS):
            if not inner.optimality > accuracy:
                break
            inner = one_pass(part, inner, order, settings)
        x = state.x.copy()
        x[inside] = inner.x
        share = n_entries(part.rows) / max(n_entries(problem.rows), 1)
        return state._replace(
            x=x,
            n_gradients=state.n_gradients + math.ceil(share * inner.n_gradients),
            n_hessians=state.n_hessians + inner.n_hessians,
        )


def working_set(problem: Problem, x: Vector, gradient: Vector, most_new: int) -> Indices:
    """Return the columns with coefficients, and those that a small proximal step would move most, increasing."""
    n_columns = problem.rows.n_columns
    steepest = float(np.abs(gradient[:n_columns]).max(initial=0.0))
    size = 1e-3 * (float(np.abs(x[:n_columns]).max(initial=0.0)) or 1.0)
    step_size = size / steepest if steepest > 0.0 else 1.0
    moved = np.abs(problem.term.prox_step(x, gradient, step_size)[:n_columns])
    old = np.flatnonzero(x[:n_columns])
    moved[old] = 0.0
    new = np.flatnonzero(moved)
    if new.size > most_new:
        new = new[np.argpartition(moved[new], new.size - most_new)[new.size - most_new :]]
    return np.sort(np.concatenate([old, new]))


def on_columns(problem: Problem, columns: Indices) -> Problem:
    """Return the problem in the coefficients of some columns, the others 0; the intercept stays."""
    constraint = problem.constraint.on_columns(columns) if columns.size > 0 else Unconstrained()
    return replace(problem, rows=columns_of(problem.rows, columns), constraint=constraint)
