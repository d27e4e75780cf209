"""Stochastic dual coordinate ascent: epochs that read the rows once, take two gradients' time and need no step size.

At the minimum of F(w) = sum_i p_i phi_i(x_i'w) + l2/2 ||w||^2 the coefficients are w = -(1/l2) sum_i p_i s_i x_i, where s_i
is the slope phi_i' at x_i'w; the s_i are the variables of the dual problem [1]. The memory keeps an s_i for each row, 0 at
first, and the w that belongs to them. A row is visited by maximising the dual function in s_i alone: with
q_i = p_i ||x_i||^2 / l2, the new slope is phi_i'(v) where

    v + q_i phi_i'(v) = x_i'w + q_i s_i,

which Newton's method solves to a thousandth, and w moves by -p_i (s_i+ - s_i) x_i / l2. Rows in a block of 16 see the
same w, so that none waits for the one before; in the equation 1.5 q_i stands for q_i because of it. Blocks are visited in
an order that is drawn for each epoch (in the same order each time the rate is several times worse). An unpenalised
intercept b is held by mu/2 (b - b_0)^2, and b_0 becomes b after each epoch.

Where q_i phi'' is at most about 1, as with text and alpha near 1/n, an epoch leaves a third of the gradient or less,
however ill-conditioned F is; with less regularisation conjugate gradients are faster.

References
----------
.. [1] S. Shalev-Shwartz, T. Zhang, "Stochastic dual coordinate ascent methods for regularized loss minimization", JMLR 14
   (2013).
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.evaluation.row_products import squares_of_rows
from finitesum.problems.linear import Problem, View
from finitesum.problems.rows import CSRRows

#: Rows that see the same w, by how much their steps are shorter for it, and blocks that follow each other in memory.
BLOCK, CAUTION, NEIGHBOURS = 16, 1.5, 2

#: Newton steps on a row's equation, at most, and the fraction of its first residual that may be left.
MOST_TRIES, LEFT = 20, 1e-3

#: The largest q_i phi'' with which epochs are worth it, and the least with an intercept, which follows slowly then.
MOST_COUPLED, LEAST_COUPLED = 3.0, 0.02

#: The intercept is held so much more than coefficients are, as a row sees it.
HOLD = 30.0

#: The gradient's norm after the first epoch, by that of the changes in it.
AFTER_CHANGE = 2.0


class DualState(NamedTuple):
    """The memory beside the iterate; empty, as at first, where there are no epochs."""

    slopes: Vector = np.zeros(0)  # (n,)  s_i
    predictions: Vector = np.zeros(0)  # (n,)  the v of each row's last visit
    squares: Vector = np.zeros(0)  # (n,)  ||x_i||^2, without the intercept
    hold: float = 0.0  # mu: how strongly the intercept is held
    slope: float = 0.0  # sum_i p_i s_i, of the intercept
    #: The norm of the last epoch's changes of p_i s_i x_i, as if rows were orthogonal, and of sum_i p_i s_i for b.
    change: float = math.inf
    after_change: float = AFTER_CHANGE  # the gradient's norm after an epoch, by that change
    n_epochs: int = 0


@kernel_part
def _solved(view: View, i: int, coupling: float, goal: float, v: float) -> tuple[float, float]:
    """Return v with v + coupling phi'(v) = goal, from v on, and phi'(v).

    The left side rises by 1 at least, so that each trial bounds the root. Where a step of Newton's method only changes
    sides (between two pieces without curvature), the middle is taken.
    """
    low, high, first, before = -np.inf, np.inf, 0.0, 0.0
    slope = 0.0
    for k in range(MOST_TRIES):
        slope, curvature = view.loss.d1_d2(v, view.targets[i])
        missing = v + coupling * slope - goal
        if k == 0:
            first = abs(missing)
        elif abs(missing) <= LEFT * first:
            break
        if missing > 0.0:
            low, high = max(low, v - missing), min(high, v)
        else:
            low, high = max(low, v), min(high, v - missing)
        only_changes_sides = missing * before < 0.0 and abs(missing) > 0.5 * abs(before)
        v = 0.5 * (low + high) if only_changes_sides else v - missing / (1.0 + coupling * curvature)
        before = missing
    return v, slope


@kernel_part
def _visit(view: View, i: int, prediction: float, ridge: float, memory: DualState) -> float:
    """Return p_i (s_i+ - s_i), and remember s_i+."""
    weight = view.weights[i]
    if not weight > 0.0:
        return 0.0
    coupling = weight * memory.squares[i] / ridge
    if view.rows.intercept:
        coupling += weight / memory.hold
    coupling *= CAUTION
    goal = prediction + coupling * memory.slopes[i]
    v, slope = _solved(view, i, coupling, goal, memory.predictions[i])
    change: float = weight * (slope - memory.slopes[i])
    memory.slopes[i], memory.predictions[i] = slope, v
    return change


@kernel
def _epoch(view: View, blocks: Indices, ridge: float, w: Vector, memory: DualState, changes: Vector) -> float:
    """Visit all rows once; return sum_i (p_i (s_i+ - s_i) ||x_i||)^2."""
    rows, total = view.rows, 0.0
    for block in blocks:
        first, last = block * BLOCK, min((block + 1) * BLOCK, rows.n_rows)
        for i in range(first, last):
            changes[i - first] = rows.dot(i, w) + view.offsets[i]
        for i in range(first, last):
            changes[i - first] = _visit(view, i, changes[i - first], ridge, memory)
            total += changes[i - first] ** 2 * memory.squares[i]
        for i in range(first, last):
            if changes[i - first] != 0.0:
                last_one = w[-1]
                rows.add_to(i, -changes[i - first] / ridge, w)
                if rows.intercept:  # it is held by another strength
                    w[-1] = last_one - changes[i - first] / memory.hold
    return total


def first_epoch(problem: Problem) -> DualState:
    """Return the memory before the first epoch, from 0; an empty one where epochs are not worth it.

    They are with sparse rows, a smooth loss, no l1 penalty, weights of it or constraint, and enough of an l2 penalty.
    """
    ridge, bound, n = problem.term.ridge, problem.loss.curvature_bound(), problem.n_rows
    is_suited = isinstance(problem.rows, CSRRows) and problem.is_smooth and not problem.term.has_weights
    if not (is_suited and ridge > 0.0 and math.isfinite(bound)):
        return DualState()
    squares = squares_of_rows(problem)
    coupling = float((problem.weights * squares).max()) * bound / ridge
    least = LEAST_COUPLED if problem.rows.intercept else 0.0
    if not least < coupling <= MOST_COUPLED:
        return DualState()
    hold = HOLD * ridge / float(problem.weights @ squares)
    return DualState(np.zeros(n), np.zeros(n), squares, hold)


def _order(problem: Problem, seed: int, k: int) -> Indices:
    """Return the blocks in the order of epoch k, which depends on seed and k alone: neighbours stay together."""
    n_blocks, rng, n_drawn = -(-problem.n_rows // BLOCK), np.random.default_rng(seed), 0
    last, generator = problem.derived.get("sdca_generator", (None, None))  # epochs before need not be drawn again
    if last == (seed, k - 1):
        rng.bit_generator.state, n_drawn = generator, k
    for _ in range(n_drawn, k + 1):
        starts = NEIGHBOURS * rng.permutation(-(-n_blocks // NEIGHBOURS))
    problem.derived["sdca_generator"] = ((seed, k), rng.bit_generator.state)
    blocks: Indices = (starts[:, None] + np.arange(NEIGHBOURS)).ravel()
    return blocks[blocks < n_blocks]


def next_epoch(problem: Problem, w: Vector, memory: DualState, seed: int) -> tuple[Vector, DualState]:
    """Return iterate and memory after one more epoch from w, where the last one led to (0 at first)."""
    w = w.copy()
    if problem.rows.intercept:
        w[-1] -= memory.slope / memory.hold  # b_0 becomes b, and the slopes stay
    memory = memory._replace(slopes=memory.slopes.copy(), predictions=memory.predictions.copy())
    order = _order(problem, seed, memory.n_epochs)
    square = _epoch(problem.view, order, problem.term.ridge, w, memory, np.empty(BLOCK))
    if problem.rows.intercept:
        memory = memory._replace(slope=float(problem.weights @ memory.slopes))
        square += memory.slope**2
    return w, memory._replace(change=math.sqrt(square), n_epochs=memory.n_epochs + 1)
