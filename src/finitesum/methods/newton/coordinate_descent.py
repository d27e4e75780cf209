"""Newton's method on working sets of columns, with models that are minimised by coordinate descent: for sparse solutions.

With an l1 penalty, groups, MCP, SCAD or bounds at 0 most coefficients are 0 at the minimum, and a column whose coefficient
stays 0 plays no part. At w a pass over the data gives the gradient g of the smooth part of F. The working set W grows by
the columns that a proximal step would move most [1, 2]: at most as many new ones as there are coefficients other than 0, as
rows, which bound the coefficients of a solution, or as a quarter of the columns; of groups, which are whole, as
coefficients. F is then minimised in W by proximal Newton steps,

    z = argmin_v q(v),    w+ = w + t (z - w)    [3],

with q the model of F at w in the columns of W (`finitesum.methods.subproblems.column_models`; `prox_models` there for
groups, and penalties of which the prox is all that is known), minimised by coordinate descent to a tenth of the optimality
on W; t = 1, or halved until F falls. Of the squared loss the model is F itself. Columns of W are copied once. Predictions
are kept, so that a step on W reads its columns alone. Once a tenth of the optimality is left on W, all columns are read
again. Where W has all columns that violate the optimality conditions, and F is minimised on it, w is optimal. F never
rises.

1. *Curvature.* Rows on a linear piece of their loss have theta times that of its majorant, as in
   `finitesum.methods.newton.newton`; all rows have the majorant's after a step that was halved twice.
2. *Penalties that are not convex.* F may rise along all of a step to another hollow of the model, however short. The
   curvatures of all rows are at least theta times those of majorants then, and theta is raised after a step that did not
   let F fall, which is not taken, and lowered by others. W grows by few columns, so that large coefficients, which such
   penalties do not shrink, explain what they can before others join; and with losses that grow on both sides of their
   targets by columns that are stationary at 0 where a step along them alone would lead to a lower F, until there are none.
3. *Passes.* Each read of all columns is a pass of gradients. A step on W is charged as two and as one of Hessians, by the
   fraction of the entries that W's columns have; as one of Hessians for each four reads of these columns that its model
   took, where they are more. A pass of this method goes on until some passes are charged.

Memory: 30 numbers a row, twice the entries of W's columns, and some matrices of up to 3,000 coefficients other than 0. The
references are those of `CoordinateDescent`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.optimality import Measures
from finitesum.evaluation.row_products import predictions
from finitesum.evaluation.row_sums import Majorize
from finitesum.evaluation.whole_arrays import Losses, losses_at
from finitesum.losses.arrays import in_arrays
from finitesum.methods.base import SumMethod
from finitesum.methods.newton.subsampling import LEAST_TOL, require_members
from finitesum.methods.newton.working_columns import WorkingColumns, combined, curvatures_of_columns, of_columns
from finitesum.methods.parameters import CountOrAuto
from finitesum.methods.subproblems import column_models, prox_models
from finitesum.methods.subproblems.column_models import Minimiser
from finitesum.methods.subproblems.line_search import halved, is_enough
from finitesum.methods.subproblems.scaled_columns import scaled
from finitesum.problems.linear import Problem
from finitesum.problems.rows import add_combination, n_entries, products
from finitesum.problems.term_penalties import Groups, Separable

#: New columns in a working set, at least, and which part of all: a round of passes over them takes a few over all.
FEWEST_NEW, PART_NEW = 100, 4

#: The same beside a penalty that is not convex: with few at once the point that is found is often a better one.
FEW_NEW = 10

#: What is left of the optimality of all columns on a working set, and of that on a working set by a model's minimiser.
LEFT, OF_MODEL = 0.1, 0.1

#: A change of F is rounding errors, relative to F: then steps end that do not halve the optimality.
HIDDEN = 1e-15

#: theta at first, by what factor full steps lower and short ones raise it, and the least one.
FIRST_THETA, LOWER, RAISE, LEAST_THETA = 0.1, 0.1, 10.0, 1e-9

#: The same beside a penalty that is not convex: by what factor steps that let F fall lower theta, and what others raise it
#: to, at least, and up to where.
LOWER_BESIDE, LEAST_RAISED, MOST_THETA = 0.3, 1e-3, 1e6

#: A step of the prox that moves a point of the penalty's domain by less than a part of its size.
TINY_STEP, FAR_MOVED = 1e-12, 1e-6

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


@dataclass(frozen=True)
class CoordinateDescent(SumMethod):
    """Newton's method on the columns that matter, its models minimised by coordinate descent: nothing to tune.

    w+ = w + t (argmin {q(v) : v_j = 0 for j not in W} - w),  W = supp(w) and the columns that violate optimality most

    Parameters
    ----------
    first_columns : int >= 1 or "auto"
        Columns of the first working set; "auto" is max(100, n, d / 4), with groups 100, beside penalties that are not
        convex 10.

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

    handles: ClassVar[frozenset[str]] = frozenset(
        {"l1", "constraint", "bounded-l1", "weights", "prox", "nonconvex", "groups"}
    )
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 20

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where coordinates have no intervals of their own."""
        intervals = problem.term.intervals
        if isinstance(problem.penalty, Separable | Groups):
            return ""
        if intervals is None or intervals.sizes.size:
            return (
                "coordinate-descent needs a separable penalty, groups, a box or signs: coordinates alone move nowhere else."
            )
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
                state = state._replace(x=_in_domain(problem, state.x))
                state, known = _read(problem, state._replace(predictions=_predictions(problem, state.x)))
                if not state.optimality > state.tol or not math.isfinite(state.value):
                    return state
            while state.n_gradients < most or _may_have_hollows(problem, state):
                known = known or _losses(problem, state.predictions, state.majorize, state.theta)
                if state.is_read:
                    if state.optimality <= state.tol and not _looks_for_hollows(problem):
                        break
                    columns = self._working_set(problem, state, known.curvatures)
                    is_same = columns.size == state.columns.size
                    if is_same and (state.optimality <= state.tol or state.n_steps == MOST_STEPS):
                        break
                    before = state.before if is_same else math.inf
                    state = state._replace(columns=columns, is_read=False, n_steps=0, before=before)
                state, known = _stepped(problem, state, known)
            return state

    def _working_set(self, problem: Problem, state: CoordinateDescentState, curvatures: Vector) -> Indices:
        """Return the working set with the columns that a proximal step would move most, given the rows' curvatures.

        Where hollows are looked for, a step along the coordinate alone may move one that is stationary at 0.
        """
        n_columns = problem.rows.n_columns
        w = state.x[:n_columns]
        moved = np.abs(problem.term.mapping(state.x, state.gradient)[:n_columns])
        if _looks_for_hollows(problem):
            of_columns = curvatures_of_columns(problem, curvatures)
            moved = np.maximum(moved, prox_models.pulls(cast(Separable, problem.penalty), w, state.gradient, of_columns))
        moved[w != 0.0] = np.inf  # all of them belong to it
        moved[state.columns] = 0.0
        new = np.flatnonzero(moved)
        usual = max(FEWEST_NEW, n_columns // PART_NEW, problem.n_rows) if problem.term.is_convex else FEW_NEW
        if isinstance(problem.penalty, Groups):  # whose passes take longer
            usual = FEWEST_NEW
        most = max(usual if self.first_columns == "auto" else int(self.first_columns), int(np.count_nonzero(w)))
        if new.size > (most := most + int(np.isinf(moved[new]).sum())):
            new = np.sort(new[np.argpartition(moved[new], new.size - most)[new.size - most :]])
        if isinstance(problem.penalty, Groups):
            new = np.setdiff1d(problem.penalty.whole(new), state.columns)
        return np.concatenate([state.columns, new])

    def exact_measures(self, problem: Problem, state: CoordinateDescentState) -> Measures | None:
        """Return what the last pass found at the iterate, where all columns were read there."""
        if not state.is_read:
            return None
        return Measures(state.value + problem.term.value(state.x), state.optimality, state.gradient.copy())

    def estimate(self, problem: Problem, state: CoordinateDescentState) -> float:
        """Return the optimality, which is known exactly where all columns were read; NaN elsewhere."""
        return state.optimality if state.is_read else math.nan


def _looks_for_hollows(problem: Problem) -> bool:
    """Return whether columns that are stationary at 0 are taken where a step along them alone leads to a lower F.

    That is beside a penalty that is not convex, with losses that grow on both sides of their target: of others F may fall
    for ever where classes are separable, as they are with more columns than rows, and the point that is wanted lies before.
    """
    return not problem.term.is_convex and problem.loss.target_kind() in ("real", "positive")


def _may_have_hollows(problem: Problem, state: CoordinateDescentState) -> bool:
    """Return whether a run would end here, and columns are to be looked for that lead lower from 0."""
    return state.is_read and state.optimality <= state.tol and _looks_for_hollows(problem)


def _in_domain(problem: Problem, w: Vector) -> Vector:
    """Return the point, or the nearest one where a separable penalty is finite: a tiny step of the prox moves it far."""
    if not isinstance(problem.penalty, Separable):
        return w
    nearest = problem.term.prox(w, TINY_STEP)
    return nearest if (np.abs(nearest - w) > FAR_MOVED * np.maximum(np.abs(w), 1.0)).any() else w


def _predictions(problem: Problem, w: Vector) -> Vector:
    found = predictions(problem, w) if w.any() else np.zeros(problem.n_rows)
    return found + problem.offsets if problem.has_offsets else found


def _losses(problem: Problem, at: Vector, majorize: int, theta: float) -> Losses:
    """Return slopes, curvatures and values of the rows at their predictions, times their weights."""
    loss, weights = in_arrays(problem.loss), problem.weights
    found = losses_at(loss, problem.targets, at, 0)
    curvatures = found.curvatures
    if not problem.term.is_convex and not problem.has_quadratic_loss:
        curvatures = np.maximum(curvatures, theta * losses_at(loss, problem.targets, at, Majorize.ALL).curvatures)
    elif majorize == Majorize.ALL or not curvatures.all():
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
    gradient = combined(problem, known.slopes)
    gradient += problem.term.quadratic * state.x
    found = state._replace(
        gradient=gradient,
        value=float(known.values.sum()),
        optimality=problem.term.optimality(state.x, gradient),
        is_read=True,
        n_gradients=state.n_gradients + problem.n_components,
    )
    return found, known


def _minimised(
    here: WorkingColumns, curvatures: Vector, gradient: Vector, w: Vector, accuracy: float, *, is_exact: bool
) -> Minimiser:
    """Return where the model at w in a working set's columns is least; equal curvatures need no copy of them."""
    is_equal = curvatures[0] > 0.0 and bool((curvatures == curvatures[0]).all())
    columns = here.unscaled if is_equal else scaled(here.rows, np.sqrt(curvatures))
    total, unit = (float(curvatures.size), float(curvatures[0])) if is_equal else (float(curvatures.sum()), 1.0)
    given, at = (columns, total, unit, gradient, w, here.term), w[: here.columns.size]
    if isinstance(here.term.penalty, Separable | Groups):
        return prox_models.minimised(prox_models.prox_model(*given), at, accuracy, is_exact=is_exact)
    return column_models.minimised(column_models.column_model(*given), at, accuracy, is_exact=is_exact)


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
    is_near = optimality <= enough and (state.n_steps > 0 or not _looks_for_hollows(problem))
    if is_near or state.n_steps == MOST_STEPS:  # changes have added up to rounding errors
        return _read(problem, state._replace(predictions=_predictions_on(problem, here, w), majorize=Majorize.NONE))
    accuracy = max(0.5 * enough if is_quadratic else OF_MODEL * optimality, 0.2 * enough)
    end = _minimised(here, known.curvatures, gradient, w, accuracy, is_exact=is_quadratic)
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
        after = _read(problem, state._replace(predictions=_predictions_on(problem, here, w + step)))
        if here.term.is_convex or is_enough(before, after[0].value + here.term.value(w + step), 0.0, problem.n_rows):
            return after
        state.x[here.inside] = w  # rounding errors of a model in coefficients that nothing holds
        last = state._replace(predictions=_predictions_on(problem, here, w), n_steps=MOST_STEPS)
        return _read(problem, last)
    take = _searched if here.term.is_convex else _tried
    return take(problem, here, state, (w, step), (before, min(predicted, 0.0)))


def _searched(
    problem: Problem,
    here: WorkingColumns,
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


def _tried(
    problem: Problem,
    here: WorkingColumns,
    state: CoordinateDescentState,
    along: tuple[Vector, Vector],
    values: tuple[float, float],
) -> tuple[CoordinateDescentState, Losses | None]:
    """Do the same beside a penalty that is not convex: F may rise along all of a step, and then none is taken."""
    (w, step), theta = along, max(LOWER_BESIDE * state.theta, LEAST_THETA)
    at = state.predictions + (_predictions_on(problem, here, step) - problem.offsets)
    there = _losses(problem, at, Majorize.NONE, theta)
    after = float(there.values.sum()) + here.term.value(w + step)
    if is_enough(values[0], after, values[1], problem.n_rows):
        return state._replace(predictions=at, theta=theta), there
    state.x[here.inside] = w
    is_stuck = state.theta >= MOST_THETA
    theta = max(RAISE * state.theta, LEAST_RAISED)
    return state._replace(theta=theta, n_steps=MOST_STEPS if is_stuck else state.n_steps), None


def _predictions_on(problem: Problem, here: WorkingColumns, w: Vector) -> Vector:
    """Return predictions with their offsets at a point that is 0 outside of a working set."""
    k, found = here.columns.size, np.array(problem.offsets)
    add_combination(here.rows, w[:k], found)
    found += w[k:].sum()
    return found
