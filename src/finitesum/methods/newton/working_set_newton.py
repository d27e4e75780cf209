"""Newton's method on working sets of columns: for sparse solutions on data so wide that no d x d matrix fits into memory.

With an l1 penalty, on an l1 ball, a simplex or the nonnegative orthant most coefficients are 0 at the minimum, and a column
whose coefficient stays 0 plays no part. At w a pass over the data gives the gradient g, and with it the columns that a
small proximal step would move,

    W = {j : w_j != 0} with the largest of {j : w_j = 0, prox(w - s g)_j != 0},

at most as many new ones as there are old ones, and some at first [1, 2]; groups of columns as a whole. F is then minimised
over the columns in W by lazy Newton (`finitesum.methods.newton.lazy_newton`), whose matrices have the size of W, until a
part of the optimality at w is left. Where W has all columns that violate the optimality conditions, and F is minimised on
it, w is optimal. F never rises from one working set to the next, because each holds the last one's solution.

Memory: 8 bytes a row, a copy of the entries of W's columns, and |W|^2. A pass over W's columns is charged by the
fraction of the entries that it reads. The references are those of `WorkingSetNewton`.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.row_sums import Vector32
from finitesum.evaluation.samples import Evaluation, evaluate_on, sample_of
from finitesum.methods.newton.lazy_newton import LazyNewton, LazyNewtonState
from finitesum.methods.newton.subsampling import LEAST_TOL, SampledNewton, found_at, require_members
from finitesum.methods.parameters import Count, CountOrAuto
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import columns_of, n_entries
from finitesum.problems.term_penalties import Groups

#: New columns in a working set, at least and at most.
FEWEST_NEW, MOST_NEW = 128, 2048

#: The fraction of the optimality that is left on a working set, and the steps that it may take.
LEFT, MOST_STEPS = 0.1, 30

#: Lazy Newton's state on no columns.
NO_INNER = LazyNewtonState(np.zeros(0))


class WorkingSetNewtonState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for: no working set is solved more exactly than it needs
    gradient: Vector  # of the smooth part of F where all columns were last read
    curvatures: Vector32  # (n,)  of the rows there
    squared_slopes: float = 0.0  # sum of p_i phi'_i^2 there
    value: float = 0.0  # sum of p_i phi_i there
    columns: Indices = np.zeros(0, dtype=np.int64)  # the working set; empty between two
    inner: LazyNewtonState = NO_INNER  # lazy Newton's on the working set
    n_inner: int = 0  # its steps over all rows
    n_before: int = 0  # component gradients before the working set
    n_sampled: int = 0  # components whose columns were all read at x: all of them, or 0
    optimality: float = math.nan  # where all columns were last read
    n_gradients: int = 0
    n_hessians: float = 0.0


@dataclass(frozen=True)
class WorkingSetNewton(SampledNewton):
    """Newton's method on the columns that matter, for sparse solutions on very wide data: nothing to tune.

    w+ = argmin {F(u) : u_j = 0 for j not in W},  W = supp(w) and the columns that violate optimality most

    Parameters
    ----------
    first_columns : int >= 1 or "auto"
        Columns of the first working set; "auto" is 128.
    n_threads : int >= 1
        Threads that share a pass. The result depends on their number by rounding errors.

    Examples
    --------
    >>> from finitesum import Problem, minimize
    >>> problem = Problem.linear([[1.0, 0.0], [3.0, 1.0]], [0.0, 2.0], loss="squared", alpha=0.5, l1_ratio=1.0)
    >>> minimize(problem, method="working-set-newton", tol=1e-12).x
    array([0.5, 0. ])

    References
    ----------
    .. [1] T. B. Johnson, C. Guestrin, "Blitz: a principled meta-algorithm for scaling sparse optimization", ICML 2015.
    .. [2] Q. Bertrand, Q. Klopfenstein, P.-A. Bannier, G. Gidel, M. Massias, "Beyond L1: faster and better sparse models
       with skglm", NeurIPS 2022.
    """

    first_columns: CountOrAuto = "auto"
    n_threads: Count = 1

    state_type: ClassVar[type[WorkingSetNewtonState]] = WorkingSetNewtonState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint", "bounded-l1", "weights", "groups", "parts"})

    def template(
        self, problem: Problem, first: WorkingSetNewtonState, state: WorkingSetNewtonState
    ) -> WorkingSetNewtonState:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        if state.inner.x.size == 0:
            return first
        require_members("columns", state.columns, problem.rows.n_columns, is_sorted=True)
        part, method = part_on(problem, state.columns), LazyNewton(n_threads=self.n_threads)
        inner = method.template(part, method.init(part, np.zeros(part.dim)), state.inner)
        return first._replace(columns=state.columns, inner=inner)

    def run_pass(self, problem: Problem, state: WorkingSetNewtonState, order: Indices) -> WorkingSetNewtonState:
        """Return the state after a pass over all columns, or a step on the working set."""
        with np.errstate(all="ignore"):  # a step that is too long shows in its slope
            if state.inner.x.size > 0:
                return self._stepped(problem, state, order)
            if state.n_sampled == 0:
                return self._read(problem, state)
            columns = working_set(problem, state.x, state.gradient, self._most_new(problem, state))
            if columns.size == 0 and problem.dim == problem.rows.n_columns:
                return self._read(problem, state)
            return self._stepped(problem, self._begun(problem, state, columns, order), order)

    def _most_new(self, problem: Problem, state: WorkingSetNewtonState) -> int:
        first = FEWEST_NEW if self.first_columns == "auto" else int(self.first_columns)
        return min(max(first, int(np.count_nonzero(state.x[: problem.rows.n_columns]))), MOST_NEW)

    def _read(self, problem: Problem, state: WorkingSetNewtonState) -> WorkingSetNewtonState:
        """Return the state with what a pass over all columns finds at x."""
        sample = sample_of(problem, np.arange(problem.n_components))
        found = evaluate_on(problem, sample, state.x, state.curvatures, n_threads=self.n_threads)
        state = found_at(problem, state, state.x, found)
        m = problem.n_components
        return state._replace(n_sampled=m, n_gradients=state.n_gradients + m)

    def _begun(
        self, problem: Problem, state: WorkingSetNewtonState, columns: Indices, order: Indices
    ) -> WorkingSetNewtonState:
        """Return the state before the first step on a working set, and the intercept."""
        part, inside = part_on(problem, columns), coordinates_on(problem, columns)
        method = LazyNewton(n_threads=self.n_threads)
        if state.x.any():
            known = Evaluation(state.gradient[inside], state.curvatures, state.squared_slopes, state.value)
            inner = method.init_at(part, state.x[inside], self._accuracy(state), known, order)
        else:  # samples are worth it far from the minimum alone
            inner = method.init(part, state.x[inside], self._accuracy(state))
        return state._replace(columns=columns, inner=inner, n_inner=0, n_before=state.n_gradients, n_sampled=0)

    def _accuracy(self, state: WorkingSetNewtonState) -> float:
        """Return the optimality to which F is minimised on a working set."""
        tol, accuracy = max(state.tol, LEAST_TOL), LEFT * state.optimality
        return max(accuracy, 0.5 * tol) if state.optimality > tol else accuracy

    def _stepped(self, problem: Problem, state: WorkingSetNewtonState, order: Indices) -> WorkingSetNewtonState:
        """Return the state after lazy Newton's next step on the working set; after its last one there is none."""
        part, method = part_on(problem, state.columns), LazyNewton(n_threads=self.n_threads)
        inner, n_hessians = method.run_pass(part, state.inner, order), state.n_hessians - state.inner.n_hessians
        w = state.x.copy()
        w[coordinates_on(problem, state.columns)] = inner.x
        fraction = n_entries(part.rows) / max(n_entries(problem.rows), 1)
        n_inner = state.n_inner + (inner.n_sampled == state.inner.n_sampled == problem.n_components)
        is_over = inner.n_sampled == problem.n_components and (
            n_inner == MOST_STEPS or not inner.optimality > self._accuracy(state)
        )
        return state._replace(
            x=w,
            columns=np.zeros(0, dtype=np.int64) if is_over else state.columns,
            inner=NO_INNER if is_over else inner,
            n_inner=n_inner,
            n_gradients=state.n_before + math.ceil(fraction * inner.n_gradients),
            n_hessians=n_hessians + inner.n_hessians,
        )


def coordinates_on(problem: Problem, columns: Indices) -> Indices:
    """Return the coordinates of a working set: its columns and the intercept."""
    return np.concatenate([columns, np.arange(problem.rows.n_columns, problem.dim)])


def part_on(problem: Problem, columns: Indices) -> Problem:
    """Return the problem on a working set, which is copied once for all steps on it."""
    known = problem.derived.get("working_set")
    if known is None or not np.array_equal(known[0], columns):
        problem.derived["working_set"] = known = (columns, on_columns(problem, columns))
    part: Problem = known[1]
    return part


def working_set(problem: Problem, w: Vector, gradient: Vector, most_new: int) -> Indices:
    """Return the columns with coefficients, and those that a small proximal step would move most; groups are whole."""
    n_columns = problem.rows.n_columns
    steepest = float(np.abs(gradient[:n_columns]).max(initial=0.0))
    size = 1e-3 * (float(np.abs(w[:n_columns]).max(initial=0.0)) or 1.0)
    step_size = size / steepest if steepest > 0.0 else 1.0
    moved = np.abs(problem.term.prox_step(w, gradient, step_size)[:n_columns])
    old = np.flatnonzero(w[:n_columns])
    moved[old] = 0.0
    new = np.flatnonzero(moved)
    if new.size > most_new:
        new = new[np.argpartition(moved[new], new.size - most_new)[new.size - most_new :]]
    columns: Indices = np.sort(np.concatenate([old, new]))
    return problem.penalty.whole(columns) if isinstance(problem.penalty, Groups) else columns


def on_columns(problem: Problem, columns: Indices) -> Problem:
    """Return the problem in the coefficients of some columns, the others 0; the intercept stays."""
    term = problem.term.on_columns(columns)
    rows = problem.rows.on_columns(columns) if is_parted(problem) else columns_of(problem.rows, columns)
    return replace(problem, rows=rows, penalty=term.penalty, constraint=term.constraint)
