"""Newton's method on working sets of columns, with models that are minimised by coordinate descent: for sparse solutions.

With an l1 penalty or bounds at 0 most coefficients are 0 at the minimum, and a column whose coefficient stays 0 plays no
part. At w a pass over the data gives the gradient g of the smooth part of F. The working set W grows by the columns that a
proximal step would move most [1, 2]: at most as many new ones as there are coefficients other than 0, as rows, which bound
the coefficients of a solution, or as a quarter of the columns. F is then minimised in W by proximal Newton steps,

    z = argmin_v q(v),    w+ = w + t (z - w)    [3],

with q the model of F at w in the columns of W (`finitesum.methods.subproblems.column_models`), minimised by coordinate
descent to a tenth of the optimality on W; t = 1, or halved until F falls. Of the squared loss the model is F itself.
Columns of W are copied once. Predictions are kept, so that a step on W reads its columns alone. Once a tenth of the
optimality is left on W, all columns are read again. Where W has all columns that violate the optimality conditions, and F
is minimised on it, w is optimal. F never rises.

1. *Curvature.* Rows on a linear piece of their loss have theta times that of its majorant, as in
   `finitesum.methods.newton.newton`; all rows have the majorant's after a step that was halved twice.
2. *Passes.* Each read of all columns is a pass of gradients. A step on W is charged as two and as one of Hessians, by the
   fraction of the entries that W's columns have; as one of Hessians for each four reads of these columns that its model
   took, where they are more. A pass of this method goes on until some passes are charged.

Memory: 30 numbers a row, twice the entries of W's columns, and some matrices of up to 3,000 coefficients other than 0. The
references are those of `CoordinateDescent`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.row_products import combination, predictions
from finitesum.evaluation.row_sums import Majorize
from finitesum.evaluation.whole_arrays import LEAST_DENSITY, Losses, losses_at
from finitesum.losses.arrays import in_arrays
from finitesum.methods.base import SumMethod
from finitesum.methods.newton.subsampling import LEAST_TOL, require_members
from finitesum.methods.parameters import CountOrAuto
from finitesum.methods.subproblems.column_models import ColumnModel, column_model, minimised
from finitesum.methods.subproblems.line_search import halved
from finitesum.methods.subproblems.scaled_columns import ScaledColumns, scaled
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered_of_rows
from finitesum.problems.rows import (
    CSRRows,
    DenseRows,
    add_combination,
    copy_columns,
    joined_rows,
    n_entries,
    products,
    some_rows,
    squares_of,
    to_matrix,
    turned,
)
from finitesum.problems.term import ConvexTerm

#: New columns in a working set, at least, and which part of all: a round of passes over them takes a few over all.
FEWEST_NEW, PART_NEW = 100, 4

#: What is left of the optimality of all columns on a working set, and of that on a working set by a model's minimiser.
LEFT, OF_MODEL = 0.1, 0.1

#: A change of F is rounding errors, relative to F: then steps end that do not halve the optimality.
HIDDEN = 1e-15

#: Entries of sparse rows from which those without many zeros are copied as dense ones.
LEAST_ENTRIES = 1e4

#: theta at first, by what factor full steps lower and short ones raise it, and the least one.
FIRST_THETA, LOWER, RAISE, LEAST_THETA = 0.1, 0.1, 10.0, 1e-9

#: Newton's steps on a working set, at most.
MOST_STEPS = 50

#: Reads of the columns of a model that are charged as a Hessian.
READS = 4.0

#: Passes that one of this method is charged as, at least: on small data calls take longer.
SOME_PASSES = 4


class CoordinateDescentState(NamedTuple):
    x: Vector  # iterate
    tol: float  # the optimality asked for: nothing is solved more exactly than it needs
    gradient: Vector  # of the smooth part of F where all columns were last read
    predictions: Vector  # (n,)  of the rows at x, with their offsets
    value: float = 0.0  # the mean loss where all columns were last read
    optimality: float = math.nan  # there
    columns: Indices = np.zeros(0, dtype=np.int64)  # the working set, in the order in which it grew
    is_read: bool = False  # whether all columns were read at x
    n_steps: int = 0  # on the working set
    before: float = math.inf  # the optimality on it before the last one
    majorize: int = Majorize.NONE  # whose curvatures are the majorant's
    theta: float = FIRST_THETA  # what rows on a linear piece of their loss have of the majorant's curvature
    n_gradients: int = 0
    n_hessians: float = 0.0


class _WorkingSet(NamedTuple):
    """The columns of a working set."""

    columns: Indices
    unscaled: ScaledColumns  # the columns as rows
    inside: Indices  # their coordinates, and the intercept's
    term: ConvexTerm
    memory: Matrix  # of copied columns, with room for more; none of sparse ones

    @property
    def rows(self) -> DenseRows | CSRRows:
        """The columns as rows."""
        return self.unscaled.columns


@dataclass(frozen=True)
class CoordinateDescent(SumMethod):
    """Newton's method on the columns that matter, its models minimised by coordinate descent: nothing to tune.

    w+ = w + t (argmin {q(v) : v_j = 0 for j not in W} - w),  W = supp(w) and the columns that violate optimality most

    Parameters
    ----------
    first_columns : int >= 1 or "auto"
        Columns of the first working set; "auto" is max(100, n, d / 4).

    Examples
    --------
    >>> from finitesum import Problem, minimize
    >>> problem = Problem.linear([[1.0, 0.0], [3.0, 1.0]], [0.0, 2.0], loss="squared", alpha=0.5, l1_ratio=1.0)
    >>> minimize(problem, method="coordinate-descent", tol=1e-12).x
    array([0.5, 0. ])

    References
    ----------
    .. [1] M. Massias, A. Gramfort, J. Salmon, "Celer: a fast solver for the Lasso with dual extrapolation", ICML 2018.
    .. [2] Q. Bertrand, Q. Klopfenstein, P.-A. Bannier, G. Gidel, M. Massias, "Beyond L1: faster and better sparse models
       with skglm", NeurIPS 2022.
    .. [3] J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J.
       Optim. 24 (2014).
    """

    first_columns: CountOrAuto = "auto"

    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint", "weights"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 20

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where coordinates have no intervals of their own."""
        intervals = problem.term.intervals
        if intervals is None or intervals.sizes.size:
            return "coordinate-descent needs an elastic net, a box or signs: coordinates alone move nowhere on other sets."
        return ""

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> CoordinateDescentState:
        """Return the state before the first row is read."""
        return CoordinateDescentState(x0.copy(), tol, np.zeros(problem.dim), np.zeros(problem.n_rows))

    def template(
        self, problem: Problem, first: CoordinateDescentState, state: CoordinateDescentState
    ) -> CoordinateDescentState:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        require_members("columns", state.columns, problem.rows.n_columns, is_sorted=False)
        if not state.is_read and not np.isin(np.flatnonzero(state.x[: problem.rows.n_columns]), state.columns).all():
            raise ValueError("columns lacks some of those with coefficients")
        return first._replace(columns=state.columns)

    def blas_threads(self, problem: Problem) -> int | None:
        return 1

    def run_pass(self, problem: Problem, state: CoordinateDescentState, order: Indices) -> CoordinateDescentState:
        """Return the state after some steps on working sets, or where tol is met."""
        with np.errstate(all="ignore"):  # a step that is too long shows in F
            most, known = state.n_gradients + SOME_PASSES * problem.n_components, None
            if math.isnan(state.optimality):
                state, known = _read(problem, state._replace(predictions=_predictions(problem, state.x)))
                if not state.optimality > state.tol or not math.isfinite(state.value):
                    return state
            while state.n_gradients < most:
                if state.is_read:
                    columns = self._working_set(problem, state)
                    is_same = columns.size == state.columns.size
                    if state.optimality <= state.tol or (is_same and state.n_steps == MOST_STEPS):
                        break
                    before = state.before if is_same else math.inf
                    state = state._replace(columns=columns, is_read=False, n_steps=0, before=before)
                known = known or _losses(problem, state.predictions, state.majorize, state.theta)
                state, known = _stepped(problem, state, known)
            return state

    def _working_set(self, problem: Problem, state: CoordinateDescentState) -> Indices:
        """Return the working set with the columns that a proximal step would move most."""
        n_columns = problem.rows.n_columns
        w = state.x[:n_columns]
        moved = np.abs(problem.term.mapping(state.x, state.gradient)[:n_columns])
        moved[w != 0.0] = np.inf  # all of them belong to it
        moved[state.columns] = 0.0
        new = np.flatnonzero(moved)
        usual = max(FEWEST_NEW, n_columns // PART_NEW, problem.n_rows)
        most = max(usual if self.first_columns == "auto" else int(self.first_columns), int(np.count_nonzero(w)))
        if new.size > (most := most + int(np.isinf(moved[new]).sum())):
            new = np.sort(new[np.argpartition(moved[new], new.size - most)[new.size - most :]])
        return np.concatenate([state.columns, new])

    def exact_measures(self, problem: Problem, state: CoordinateDescentState) -> Measures | None:
        """Return what the last pass found at the iterate, where all columns were read there."""
        if not state.is_read:
            return None
        return Measures(state.value + problem.term.value(state.x), state.optimality, state.gradient.copy())

    def estimate(self, problem: Problem, state: CoordinateDescentState) -> float:
        """Return the optimality, which is known exactly where all columns were read; NaN elsewhere."""
        return state.optimality if state.is_read else math.nan


def _predictions(problem: Problem, w: Vector) -> Vector:
    found = predictions(problem, w) if w.any() else np.zeros(problem.n_rows)
    return found + problem.offsets if problem.has_offsets else found


def _losses(problem: Problem, at: Vector, majorize: int, theta: float) -> Losses:
    """Return slopes, curvatures and values of the rows at their predictions, times their weights."""
    loss, weights = in_arrays(problem.loss), problem.weights
    found = losses_at(loss, problem.targets, at, 0)
    curvatures = found.curvatures
    if majorize == Majorize.ALL or not curvatures.all():
        majorants = losses_at(loss, problem.targets, at, Majorize.ALL).curvatures
        is_bent = (curvatures != 0.0) | (found.slopes == 0.0)
        curvatures = majorants if majorize == Majorize.ALL else np.where(is_bent, curvatures, theta * majorants)
    parts = found.slopes, curvatures, found.values
    if not weights.all():  # what overflows must not show
        return Losses(*(np.where(weights > 0.0, weights * part, 0.0) for part in parts))
    return Losses(*(weights * part for part in parts))


def _read(problem: Problem, state: CoordinateDescentState) -> tuple[CoordinateDescentState, Losses]:
    """Return the state with what a pass over all columns finds at x."""
    known = _losses(problem, state.predictions, state.majorize, state.theta)
    gradient = _combined(problem, known.slopes)
    gradient += problem.term.quadratic * state.x
    found = state._replace(
        gradient=gradient,
        value=float(known.values.sum()),
        optimality=problem.term.optimality(state.x, gradient),
        is_read=True,
        n_gradients=state.n_gradients + problem.n_components,
    )
    return found, known


@remembered_of_rows
def _source(problem: Problem) -> DenseRows | CSRRows:
    """Return what columns are copied from: dense rows, or the columns of sparse ones as rows."""
    rows = problem.rows
    if isinstance(rows, CSRRows) and n_entries(rows) < max(LEAST_DENSITY * rows.n_rows * rows.n_columns, LEAST_ENTRIES):
        return turned(rows)
    return rows if isinstance(rows, DenseRows) else DenseRows(to_matrix(rows).toarray(), *rows[3:])


def _combined(problem: Problem, slopes: Vector) -> Vector:
    """Return sum_i s_i x_i: of sparse rows by their columns."""
    columns = _source(problem)
    if isinstance(columns, DenseRows):
        return combination(problem, slopes)
    found = products(columns, slopes)
    return np.append(found, slopes.sum()) if problem.has_intercept else found


def of_columns(problem: Problem, columns: Indices) -> _WorkingSet:
    """Return the columns of a working set, which are copied once.

    What is known is taken away and put back, so that of two runs on one problem, in two threads, one has it.
    """
    known: _WorkingSet | None = problem.derived.pop("working_set_columns", None)
    if known is None or not np.array_equal(known.columns, columns):
        if known is not None and not np.array_equal(known.columns, columns[: known.columns.size]):
            known = None
        source, memory = _source(problem), np.zeros((0, 0))
        rows: DenseRows | CSRRows
        if isinstance(source, DenseRows):
            rows, memory = _dense_columns(source, columns, known)
        else:
            rows = _sparse_columns(source, columns, known)
        inside = np.concatenate([columns, np.arange(problem.rows.n_columns, problem.dim)])
        known = _WorkingSet(columns, _unscaled(rows, problem), inside, problem.term.on_columns(columns), memory)
    problem.derived["working_set_columns"] = known
    return known


def _unscaled(rows: DenseRows | CSRRows, problem: Problem) -> ScaledColumns:
    means = products(rows, np.ones(rows.n_columns)) if problem.has_intercept else np.zeros(rows.n_rows)
    return ScaledColumns(rows, squares_of(rows), means)


def _sparse_columns(source: CSRRows, columns: Indices, known: _WorkingSet | None) -> CSRRows:
    new: Any = some_rows(source, columns[0 if known is None else known.columns.size :])
    new = new._replace(values=new.values.astype(np.float64, copy=False))
    return new if known is None else joined_rows(known.rows, new)  # type: ignore[arg-type]


def _dense_columns(source: DenseRows, columns: Indices, known: _WorkingSet | None) -> tuple[DenseRows, Matrix]:
    """Return the columns, and the memory that they are in, with room for as many more."""
    n_before = 0 if known is None else known.columns.size
    if known is None or len(memory := known.memory) < columns.size:
        memory = np.empty((min(2 * columns.size, source.n_columns), source.n_rows))
        if known is not None:
            memory[:n_before] = known.rows.values
    copy_columns(source, columns[n_before:], memory[n_before : columns.size])
    return DenseRows(memory[: columns.size], columns.size, source.n_rows, 0), memory


def _model(here: _WorkingSet, curvatures: Vector, gradient: Vector, w: Vector) -> ColumnModel:
    """Return the model at w in the columns of a working set; equal curvatures need no copy of the columns."""
    if (curvatures == curvatures[0]).all() and curvatures[0] > 0.0:
        return column_model(here.unscaled, float(curvatures.size), curvatures[0], gradient, w, here.term)
    return column_model(scaled(here.rows, np.sqrt(curvatures)), float(curvatures.sum()), 1.0, gradient, w, here.term)


def _stepped(
    problem: Problem, state: CoordinateDescentState, known: Losses
) -> tuple[CoordinateDescentState, Losses | None]:
    """Return the state after a step on the working set, or where it is minimised after a pass over all columns."""
    here, m, is_quadratic = of_columns(problem, state.columns), problem.n_components, problem.has_quadratic_loss
    w = state.x[here.inside]
    if state.n_steps == 0:  # all columns have just been read
        gradient = state.gradient[here.inside]
    else:
        gradient = np.append(products(here.rows, known.slopes), np.full(w.size - state.columns.size, known.slopes.sum()))
        gradient += here.term.quadratic * w
    optimality, tol = here.term.optimality(w, gradient), max(state.tol, LEAST_TOL)
    enough = LEFT * state.optimality
    if state.optimality > tol:
        enough = max(enough, 0.5 * tol)
    if optimality <= enough or state.n_steps == MOST_STEPS:  # changes have added up to rounding errors
        return _read(problem, state._replace(predictions=_predictions_on(problem, here, w), majorize=Majorize.NONE))
    accuracy = max(0.5 * enough if is_quadratic else OF_MODEL * optimality, 0.2 * enough)
    model = _model(here, known.curvatures, gradient, w)
    end = minimised(model, w[: state.columns.size], accuracy, is_exact=is_quadratic)
    step = np.append(end.w, w[state.columns.size :] + end.intercept) - w
    before = float(known.values.sum()) + here.term.value(w)
    predicted = float(gradient @ step) + here.term.rise(w, w + step)
    is_stuck = abs(predicted) <= HIDDEN * abs(before) and optimality > 0.5 * state.before
    x, fraction = state.x.copy(), n_entries(here.rows) / max(n_entries(problem.rows), 1)
    x[here.inside] = w + step
    state = state._replace(
        x=x,
        n_steps=MOST_STEPS if is_stuck else state.n_steps + 1,
        before=optimality,
        n_gradients=state.n_gradients + math.ceil(2 * fraction * m),
        n_hessians=state.n_hessians + max(end.n_reads / READS, 1.0) * fraction * m,
    )
    if is_quadratic:  # the model is F
        return _read(problem, state._replace(predictions=_predictions_on(problem, here, w + step)))
    return _searched(problem, here, state, (w, step), (before, min(predicted, 0.0)))


def _searched(
    problem: Problem,
    here: _WorkingSet,
    state: CoordinateDescentState,
    along: tuple[Vector, Vector],
    values: tuple[float, float],
) -> tuple[CoordinateDescentState, Losses | None]:
    """Return the state at the end of a step from w, or of as much of it as lets F fall, and the losses there.

    The state has n_steps and counts after the step, and the values are F at w and its predicted change.
    """
    (w, step), there, theta = along, None, max(LOWER * state.theta, LEAST_THETA)
    change = _predictions_on(problem, here, step) - problem.offsets

    def value(t: float) -> float:
        nonlocal there
        there = _losses(problem, state.predictions + t * change, Majorize.NONE, theta)
        return float(there.values.sum()) + here.term.value(w + t * step)

    t, n_halved = halved(value, *values, problem.n_rows)
    is_stuck = t == 0.0 and state.majorize == Majorize.ALL
    state.x[here.inside] = w + t * step
    state = state._replace(
        predictions=state.predictions + t * change,
        n_steps=MOST_STEPS if is_stuck else state.n_steps,
        majorize=Majorize.ALL if n_halved > 1 else Majorize.NONE,
        theta=theta if n_halved == 0 else min(RAISE * state.theta, 1.0),
    )
    return state, there if n_halved == 0 else None


def _predictions_on(problem: Problem, here: _WorkingSet, w: Vector) -> Vector:
    """Return predictions with their offsets at a point that is 0 outside of a working set."""
    k, found = here.columns.size, np.array(problem.offsets)
    add_combination(here.rows, w[:k], found)
    found += w[k:].sum()
    return found
