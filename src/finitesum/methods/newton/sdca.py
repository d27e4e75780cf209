"""Stochastic dual coordinate ascent: visits of single rows that need no step size, most of them to rows that still change.

At the minimum of F(w) = sum_i p_i phi_i(x_i'w) + l2/2 ||w||^2 the coefficients are w = -(1/l2) sum_i p_i s_i x_i, where s_i
is the slope phi_i' at x_i'w; the s_i are the variables of the dual problem [1]. The memory keeps an s_i for each row, 0 at
first, and the w that belongs to them. A row is visited by maximising the dual function in s_i alone: with
q_i = p_i ||x_i||^2 / l2, the new slope is phi_i'(v) where

    v + q_i phi_i'(v) = x_i'w + q_i s_i,

which Newton's method solves until the residual is a tenth of v - x_i'w, and w moves by -p_i (s_i+ - s_i) x_i / l2. It
begins where the row's last visit ended, whose slope and curvature are remembered: most visits evaluate the loss once.

*Sweeps.* Rows are visited in sweeps, in a random order that is drawn for each sweep (in the same order each time the rate
is several times worse); 4 rows that follow each other stay together, as they do in memory (with 8, text may need half as
many epochs again), or as many as memory gives at once where no cache holds the data. A row whose visit changes w by
little, (p_i (s_i+ - s_i) ||x_i||)^2 at most 0.3 times the mean of the sweep before, rests in the next sweep, after
another such visit in the next 3, then 7 ... 63 [2]; one that changes more does not rest any more. An *epoch* is as many
visits as there are rows. On raw counts of words, where few rows change most, it does the work of five epochs over all
rows. Rows of one length change alike, and would rest long by chance: a visit after which a row is to rest for more than
r sweeps has to change it by (1 + k r)^2 times less, with k the 8th power of the participation ratio
(sum_i q_i)^2 / (n sum_i q_i^2) of q_i = ||x_i||^2 over the n rows that count, 1 where all are of one length. (On dense
rows k is 0: it was not seen to gain.)

*Dense rows* are visited as a copy in single precision gives them, where a run is not to go far and rows share little.

An unpenalised intercept b is held by mu/2 (b - b_0)^2, and b_0 becomes b after each epoch.

References
----------
.. [1] S. Shalev-Shwartz, T. Zhang, "Stochastic dual coordinate ascent methods for regularized loss minimization", JMLR 14
   (2013).
.. [2] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent method for
   large-scale linear SVM", ICML 2008, section 3.2: rows that are left out for a while.
.. [3] S. K. Park, K. W. Miller, P. K. Stockmeyer, "Technical correspondence", Commun. ACM 36 (1993), no. 7.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import MOST_NUMBERS, has_machine_code, kernel, kernel_part, marked
from finitesum.evaluation.row_products import copy_for_products, squares_of_rows
from finitesum.methods.base import copied
from finitesum.methods.forecasts import LEAST_TOL, traits_of
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.view import View, n_numbers

#: Sweeps, one number a row.
Rests = npt.NDArray[np.int8]

#: Rows that follow each other in memory and are visited so, too; bytes that caches hold, and those of rows that are visited
#: together in data beyond.
NEIGHBOURS, CACHE, AT_ONCE = 4, 2**25, 2**12

#: A row rests whose visit changes at most this fraction of what a sweep's visits do on average; for a number of sweeps.
LITTLE, LONGEST_REST = 0.3, 63

#: The power of the participation ratio by which rests are held: with 8, rows of one length alone (1) differ from raw
#: counts of words (below 0.1) and from what lies between (0.6: 0.02).
ALIKE = 8

#: Random numbers x <- MULTIPLIER x mod MODULUS [3], which a kernel draws in a nanosecond each, and how the first one of an
#: epoch is made from seed and number, so that those of epochs that follow each other are far apart.
MULTIPLIER, MODULUS, BY_SEED, BY_EPOCH = 48271, 2**31 - 1, 2_654_435_761, 1_640_531_527

#: Newton steps on a row's equation, at most, and the residual that may be left, by how far the visit moves the prediction,
#: or by the numbers in the equation.
MOST_TRIES, LEFT, ROUNDING = 100, 0.1, 1e-15

#: The weight of the last epoch in the mean rate of the last few, at least.
NEW = 0.1

#: The largest q_i phi'' with which epochs are worth it where rows outnumber columns: rows that are linear combinations of
#: others wait for each other. The least one with an intercept, which follows slowly then.
MOST_COUPLED, LEAST_COUPLED = 3.0, 0.02

#: Epochs that make the rate known, and the number of those left from which conjugate gradients are faster: where rows
#: outnumber columns, where they do not, and on dense rows.
ENDS, ENDS_WIDE, ENDS_DENSE = (5, 30.0), (20, 300.0), (3, 6.0)

#: Entries of a sparse row from which epochs are worth it where rows outnumber columns: a visit takes a hundred nanoseconds
#: beside them, so that an epoch over six entries a row takes the time of ten passes.
FEWEST_ENTRIES = 25.0

#: Digits of the optimality up to which epochs take less time than conjugate gradients, over dense rows and over sparse ones
#: that outnumber the columns.
MOST_DIGITS = 4.0

#: Dense rows, as measured on generated ones: the mean q_i phi'' and the rows by columns up to which they do, and the part
#: of the columns that rows vary in as if they were all.
MOST_COUPLED_DENSE, MOST_ROWS, MOST_VARIED = 0.8, 12.0, 0.3

#: Rows in which that part is seen.
ROWS_SEEN = 64

#: The intercept is held so much more than coefficients are, as a row sees it.
HOLD = 30.0

#: The gradient's norm after the first epoch, by that of the changes in it: of sparse rows, and of dense ones.
AFTER_CHANGE, AFTER_DENSE = 2.0, 4.0


class DualState(NamedTuple):
    """The memory beside the iterate; empty, as at first, where there are no epochs."""

    slopes: Vector = np.zeros(0)  # (n,)  s_i
    predictions: Vector = np.zeros(0)  # (n,)  the v of each row's last visit
    curvatures: Vector = np.zeros(0)  # (n,)  phi'' there; -1 before the first visit, where s_i is no slope yet
    squares: Vector = np.zeros(0)  # (n,)  ||x_i||^2, without the intercept
    rests: Rests = np.zeros(0, dtype=np.int8)  # (n,)  sweeps that a row rests for after another visit that changes little
    waits: Rests = np.zeros(0, dtype=np.int8)  # (n,)  sweeps that it still rests for
    hold: float = 0.0  # mu: how strongly the intercept is held
    slope: float = 0.0  # sum_i p_i s_i, of the intercept
    little: float = 0.0  # (p_i (s_i+ - s_i) ||x_i||)^2 of a visit that changes little
    likeness: float = 0.0  # k: 1 where all rows are of one length, near 0 where few are long
    #: The norm of the last epoch's changes of p_i s_i x_i, as if rows were orthogonal, and of sum_i p_i s_i for b.
    change: float = math.inf
    after_change: float = AFTER_CHANGE  # the gradient's norm after an epoch, by that change
    rate: float = math.nan  # what an epoch leaves of the change, on average over the last few
    n_epochs: int = 0

    def n_left(self, tol: float) -> float:
        """Return how many epochs are left until the gradient is at most tol, if they go on as the last few did."""
        missing = max(self.after_change * self.change / tol, 1.0)
        return math.log(missing) / -math.log(self.rate) if 0.0 < self.rate < 1.0 else math.inf


@kernel_part
def _solved(
    view: View, i: int, coupling: float, prediction: float, slope: float, v: float, curvature: float
) -> tuple[float, float, float]:
    """Return v with v + coupling phi'(v) = prediction + coupling slope, from v on, phi'(v) and phi''(v), -1 short of it.

    A curvature >= 0 is phi'' at the v that is given, where the slope is phi'. The left side rises by 1 at least, so that
    each trial bounds the root. Where a step of Newton's method only changes sides (between two pieces without curvature),
    or leaves the bounds, the middle is taken.
    """
    goal, low, high, before = prediction + coupling * slope, -np.inf, np.inf, 0.0
    is_known, is_met = curvature >= 0.0, False
    if is_known:  # the first trial: a step from there ends between v and the prediction, and nothing is evaluated
        low, high, before = min(v, prediction), max(v, prediction), v - prediction
        v -= before / (1.0 + coupling * curvature)
    for k in range(MOST_TRIES):
        slope, curvature = view.loss.d1_d2(v, view.targets[i])
        missing = v + coupling * slope - goal
        is_further = is_known or k > 0
        if abs(missing) <= LEFT * abs(v - prediction) or (is_further and abs(missing) <= ROUNDING * abs(goal)):
            is_met = True
            break
        if missing > 0.0:
            low, high = max(low, v - missing), min(high, v)
        else:
            low, high = max(low, v), min(high, v - missing)
        only_changes_sides = missing * before < 0.0 and abs(missing) > 0.5 * abs(before)
        v -= missing / (1.0 + coupling * curvature)
        if only_changes_sides or not low <= v <= high:
            v = 0.5 * (low + high)
        before = missing
    return v, slope, (curvature if is_met else -1.0)


@kernel_part
def _visit(view: View, i: int, ridge: float, little: float, w: Vector, memory: DualState) -> float:
    """Visit a row, and set for how many sweeps it rests; return (p_i (s_i+ - s_i) ||x_i||)^2."""
    weight, square = view.weights[i], memory.squares[i]
    change = 0.0
    if weight > 0.0:
        coupling = weight * square / ridge
        if view.rows.intercept:
            coupling += weight / memory.hold
        prediction = view.rows.dot(i, w) + view.offsets[i]
        known = memory.slopes[i], memory.predictions[i], memory.curvatures[i]
        v, slope, curvature = _solved(view, i, coupling, prediction, *known)
        change = weight * (slope - memory.slopes[i])
        memory.slopes[i], memory.predictions[i], memory.curvatures[i] = slope, v, curvature
    if change != 0.0:
        last_one = w[-1]
        view.rows.add_to(i, -change / ridge, w)
        if view.rows.intercept:  # it is held by another strength
            w[-1] = last_one - change / memory.hold
    size: float = change * change * square
    most = little / (1.0 + memory.likeness * memory.rests[i]) ** 2
    memory.rests[i] = min(2 * memory.rests[i] + 1, LONGEST_REST) if size <= most else 0
    memory.waits[i] = memory.rests[i]
    return size


@kernel_part
def _find_due(waits: Rests, due: Indices) -> int:
    """Write the rows that do not rest, in increasing order, and return how many there are; the others wait a sweep less."""
    n_due = 0
    for i in range(waits.size):
        if waits[i] == 0:
            due[n_due] = i
            n_due += 1
        else:
            waits[i] -= 1
    return n_due


@kernel_part
def _shuffle(order: Indices, n: int, draw: int) -> int:
    """Write the numbers below n in an order that the numbers behind a random one give; return the last of these."""
    for k in range(n):
        order[k] = k
    for k in range(n - 1, 0, -1):
        draw = draw * MULTIPLIER % MODULUS
        other = int(draw / MODULUS * (k + 1))
        order[k], order[other] = order[other], order[k]
    return draw


def rows_together(problem: Problem) -> int:
    """Return how many rows that follow each other are visited so."""
    size = sum(array.nbytes for array in problem.rows if isinstance(array, np.ndarray))
    return max(NEIGHBOURS, AT_ONCE * problem.n_rows // size) if size > CACHE else NEIGHBOURS


@marked
@kernel
def visit_rows(view: View, draw: int, ridge: float, w: Vector, memory: DualState, places: Any) -> tuple[float, float]:
    """Make as many visits as there are rows; return the sum of their sizes, and which size is little from now on."""
    due, order, n_together = places
    total, little, n_visits, n = 0.0, memory.little, 0, view.rows.n_rows
    while n_visits < n:
        n_due, size, n_before = _find_due(memory.waits, due), 0.0, n_visits
        n_groups = (n_due + n_together - 1) // n_together
        draw = _shuffle(order, n_groups, draw)
        for k in range(n_groups):
            for place in range(order[k] * n_together, min((order[k] + 1) * n_together, n_due)):
                if n_visits < n:  # rows that are not reached stay due
                    size += _visit(view, due[place], ridge, little, w, memory)
                    n_visits += 1
        if n_visits > n_before:
            total, little = total + size, LITTLE * size / (n_visits - n_before)
    return total, little


def have_machine_code(problem: Problem) -> bool:
    """Return whether epochs of a problem have machine code on disk; there is nothing else for them."""
    places = np.zeros(0, dtype=np.int64)
    return has_machine_code(visit_rows, _view_of(problem), 1, 1.0, np.zeros(0), DualState(), (places, places, 1))


def _view_of(problem: Problem) -> View:
    return problem.view if problem.rows.is_sparse() else copy_for_products(problem).problem.view


def is_wide(problem: Problem) -> bool:
    """Return whether there are no more rows than columns."""
    return bool(problem.n_rows <= problem.rows.n_columns)


def are_slow(problem: Problem, memory: DualState, tol: float) -> bool:
    """Return whether conjugate gradients are faster than the epochs that are left until the gradient is at most tol."""
    if not problem.rows.is_sparse():
        least_epochs, most_left = ENDS_DENSE
    else:
        least_epochs, most_left = ENDS_WIDE if is_wide(problem) else ENDS
    if memory.change == 0.0 or memory.n_epochs < least_epochs:
        return memory.change == 0.0
    return not memory.n_left(tol) <= most_left


def first_epoch(problem: Problem, tol: float = 0.0) -> DualState:
    """Return the memory before the first epoch, from 0; an empty one where epochs are not worth it.

    They are with a smooth loss but the squared one, an l2 penalty without an l1 penalty, weights or a constraint, on sparse
    rows that are no more than the columns, on longer ones with enough of the penalty and of entries where tol leaves them
    few digits, and on dense ones that are not small, where it does.
    """
    ridge, bound, n = problem.term.ridge, problem.loss.curvature_bound(), problem.n_rows
    is_suited = problem.is_smooth and not problem.term.has_weights and not is_parted(problem)
    if not (is_suited and ridge > 0.0 and math.isfinite(bound)):
        return DualState()
    if problem.has_quadratic_loss:  # one step of conjugate gradients
        return DualState()
    if not ((problem.rows.is_sparse() and is_wide(problem)) or _are_few(problem, tol)):
        return DualState()
    squares = squares_of_rows(problem)
    mean, largest = float(problem.weights @ squares), float((problem.weights * squares).max())
    coupling, least = largest * bound / ridge, LEAST_COUPLED if problem.rows.intercept else 0.0
    is_coupled = problem.rows.is_sparse() and coupling > MOST_COUPLED and not is_wide(problem)
    if is_coupled or not (least < coupling < math.inf):
        return DualState()
    rests, after = np.zeros((2, n), dtype=np.int8), AFTER_CHANGE if problem.rows.is_sparse() else AFTER_DENSE
    first = DualState(np.zeros(n), np.zeros(n), np.full(n, -1.0), squares, rests[0], rests[1], HOLD * ridge / mean)
    likeness = _participation(squares[problem.weights > 0.0]) if problem.rows.is_sparse() else 0.0
    return first._replace(after_change=after, likeness=likeness**ALIKE)


def _participation(squares: Vector) -> float:
    """Return (sum_i q_i)^2 / (n sum_i q_i^2) of n numbers q_i >= 0 that are not all 0: 1 where they are equal."""
    sizes = squares / squares.max()
    return float(sizes.sum() ** 2 / (sizes.size * (sizes @ sizes)))


def _are_few(problem: Problem, tol: float) -> bool:
    """Return whether tol leaves few digits, and rows allow for few epochs.

    Sparse ones have many entries; dense ones have a loss without quadratic pieces, and kernels see them.
    """
    traits = traits_of(problem)
    if not traits.optimality <= 10.0**MOST_DIGITS * max(tol, LEAST_TOL):  # NaN, too
        return False
    if problem.rows.is_sparse():
        return traits.entries >= FEWEST_ENTRIES
    is_curved = problem.loss.d2_lipschitz() < math.inf
    if not is_curved or n_numbers(problem.view) <= MOST_NUMBERS or problem.n_rows > MOST_ROWS * problem.dim:
        return False
    is_loose = traits.coupling <= MOST_COUPLED_DENSE * problem.n_rows
    return is_loose and _variety(problem) <= MOST_VARIED * problem.dim


def _variety(problem: Problem) -> float:
    """Return in about how many orthogonal directions dense rows vary: the inverse mean square of their pairs' cosines."""
    chosen = np.linspace(0, problem.n_rows, ROWS_SEEN, endpoint=False, dtype=np.int64)
    table = problem.rows.values[chosen].astype(np.float64)
    norms = np.linalg.norm(table, axis=1)
    table = table[norms > 0.0] / norms[norms > 0.0, None]
    m, square = len(table), float(((table @ table.T) ** 2).sum())
    return m * (m - 1) / (square - m) if square > m else math.inf


def first_draw(seed: int, n_epochs: int) -> int:
    """Return a number from 1 to MODULUS - 1, behind which an epoch's random ones are."""
    return (BY_SEED * seed + BY_EPOCH * (n_epochs + 1)) % (MODULUS - 1) + 1


def next_epoch(problem: Problem, w: Vector, memory: DualState, seed: int) -> tuple[Vector, DualState]:
    """Return iterate and memory after one more epoch from w, where the last one led to (0 at first).

    Its draws depend on the seed and its number alone.
    """
    w, n = w.copy(), problem.n_rows
    if problem.rows.intercept:
        w[-1] -= memory.slope / memory.hold  # b_0 becomes b, and the slopes stay
    memory = copied(memory)
    places = np.empty((2, n), dtype=np.int64)
    among = places[0], places[1], rows_together(problem)
    square, little = visit_rows(_view_of(problem), first_draw(seed, memory.n_epochs), problem.term.ridge, w, memory, among)
    if problem.rows.intercept:
        memory = memory._replace(slope=float(problem.weights @ memory.slopes))
        square += memory.slope**2
    change = math.sqrt(square)
    rate = change / memory.change if 0.0 < memory.change < math.inf else math.nan
    if memory.rate > 0.0:
        new = max(1.0 / memory.n_epochs, NEW)
        rate = memory.rate ** (1.0 - new) * rate**new
    return w, memory._replace(change=change, little=little, rate=rate, n_epochs=memory.n_epochs + 1)
