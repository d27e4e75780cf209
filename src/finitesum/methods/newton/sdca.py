"""Stochastic dual coordinate ascent: epochs that read the rows once, take two gradients' time and need no step size.

At the minimum of F(x) = sum_i p_i phi_i(z_i'x) + l2/2 ||x||^2 the coefficients are x = -(1/l2) sum_i p_i s_i z_i, where s_i
is the slope phi_i' at z_i'x; the s_i are the variables of the dual problem [1]. The memory keeps an s_i for each row, 0 at
first, and the x that belongs to them. A row is visited by maximising the dual function in s_i alone: with
q_i = p_i ||z_i||^2 / l2, the new slope is phi_i'(v) where

    v + q_i phi_i'(v) = z_i'x + q_i s_i,

which Newton's method solves to a thousandth, and x moves by -p_i (s_i+ - s_i) z_i / l2. Rows in a block of 16 see the
same x, so that none waits for the one before; in the equation 1.5 q_i stands for q_i because of it. Blocks are visited in
an order that is drawn for each epoch (in the same order each time the rate is several times worse). An unpenalised
intercept b is held by mu/2 (b - b_0)^2, and b_0 becomes b after each epoch.

Where q_i phi'' is at most about 1, as with text and alpha near 1/n, an epoch leaves a third of the gradient or less,
however ill-conditioned F is; with less regularisation conjugate gradients are faster.

References
----------
.. [1] S. Shalev-Shwartz, T. Zhang, "Stochastic dual coordinate ascent methods for regularized loss minimization", JMLR 14
   (2013).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.evaluation.row_products import squared_norms
from finitesum.problems.linear import LinearSum, Problem
from finitesum.problems.rows import CSRRows

#: Rows that see the same x, by how much their steps are shorter for it, and blocks that follow each other in memory.
BLOCK, CAUTION, NEIGHBOURS = 16, 1.5, 2

#: Looks at a row's equation, at most, and the share of its first residual that may be left.
MOST_LOOKS, LEFT = 20, 1e-3

#: The largest q_i phi'' with which epochs are worth it, and the least with an intercept, which follows slowly then.
MOST_COUPLED, LEAST_COUPLED = 3.0, 0.02

#: The intercept is held so much more than coefficients are, as a row sees it.
HOLD = 30.0


class Epoch(NamedTuple):
    """What an epoch led to."""

    x: Vector
    change: float  # norm of the epoch's changes of p_i s_i z_i, as if rows were orthogonal, and of sum_i p_i s_i for b


class _Memory(NamedTuple):
    x: Vector
    slopes: Vector  # (n,)  s_i
    predictions: Vector  # (n,)  the v of each row's last visit
    squares: Vector  # (n,)  ||z_i||^2, without the intercept


@kernel_part
def _solved(linear_sum: LinearSum, i: int, coupling: float, goal: float, v: float) -> tuple[float, float]:
    """Return v with v + coupling phi'(v) = goal, from v on, and phi'(v).

    The left side rises by 1 at least, so that each look bounds the root. Where a step of Newton's method only changes sides
    (between two pieces without curvature), the middle is taken.
    """
    low, high, first, before = -np.inf, np.inf, 0.0, 0.0
    slope = 0.0
    for k in range(MOST_LOOKS):
        slope, curvature = linear_sum.loss.d1_d2(v, linear_sum.targets[i])
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
def _visit(linear_sum: LinearSum, i: int, prediction: float, ridge: float, hold: float, memory: _Memory) -> float:
    """Return p_i (s_i+ - s_i), and remember s_i+."""
    weight = linear_sum.weights[i]
    if not weight > 0.0:
        return 0.0
    coupling = weight * memory.squares[i] / ridge
    if linear_sum.rows.intercept:
        coupling += weight / hold
    coupling *= CAUTION
    goal = prediction + coupling * memory.slopes[i]
    v, slope = _solved(linear_sum, i, coupling, goal, memory.predictions[i])
    change: float = weight * (slope - memory.slopes[i])
    memory.slopes[i], memory.predictions[i] = slope, v
    return change


@kernel
def _epoch(
    linear_sum: LinearSum, blocks: Indices, ridge: float, hold: float, memory: _Memory, changes: Vector
) -> float:
    """Visit all rows once; return sum_i (p_i (s_i+ - s_i) ||z_i||)^2."""
    rows, x, total = linear_sum.rows, memory.x, 0.0
    for block in blocks:
        first, last = block * BLOCK, min((block + 1) * BLOCK, rows.n_rows)
        for i in range(first, last):
            changes[i - first] = rows.dot(i, x) + linear_sum.offsets[i]
        for i in range(first, last):
            changes[i - first] = _visit(linear_sum, i, changes[i - first], ridge, hold, memory)
            total += changes[i - first] ** 2 * memory.squares[i]
        for i in range(first, last):
            if changes[i - first] != 0.0:
                last_one = x[-1]
                rows.add_to(i, -changes[i - first] / ridge, x)
                if rows.intercept:  # it is held by another strength
                    x[-1] = last_one - changes[i - first] / hold
    return total


def dual_epochs(problem: Problem, seed: int) -> Iterator[Epoch] | None:
    """Return a generator of the iterate after each epoch from 0, without end; None where epochs are not worth it.

    They are with sparse rows, a smooth loss, no l1 penalty and no constraint, and enough of an l2 penalty for each row.

    Parameters
    ----------
    problem : Problem
    seed : int
        Of the orders of visits.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> problem = Problem.linear(sp.csr_array([[1.0, 0.0], [0.0, 1.0]]), [0, 1], alpha=0.5)
    >>> run = dual_epochs(problem, 0)
    >>> found = [next(run) for _ in range(12)][-1]
    >>> (found.x / found.x[1]).round(6), found.change < 1e-6
    (array([-1.,  1.]), True)
    """
    ridge, bound = problem.penalty.ridge(), problem.loss.curvature_bound()
    if not (isinstance(problem.rows, CSRRows) and problem.is_smooth and ridge > 0.0 and math.isfinite(bound)):
        return None
    squares = squared_norms(problem)
    coupling = float((problem.weights * squares).max()) * bound / ridge
    least = LEAST_COUPLED if problem.rows.intercept else 0.0
    if not least < coupling <= MOST_COUPLED:
        return None
    return _epochs(problem, squares, seed)


def _epochs(problem: Problem, squares: Vector, seed: int) -> Iterator[Epoch]:
    n, ridge = problem.n_rows, problem.penalty.ridge()
    memory = _Memory(np.zeros(problem.dim), np.zeros(n), np.zeros(n), squares)
    hold = HOLD * ridge / float(problem.weights @ memory.squares)
    rng = np.random.default_rng(seed)
    n_blocks, changes = -(-n // BLOCK), np.empty(BLOCK)
    while True:
        starts = NEIGHBOURS * rng.permutation(-(-n_blocks // NEIGHBOURS))
        blocks = (starts[:, None] + np.arange(NEIGHBOURS)).ravel()
        square = _epoch(problem.view, blocks[blocks < n_blocks], ridge, hold, memory, changes)
        x = memory.x.copy()
        if problem.rows.intercept:
            slope = float(problem.weights @ memory.slopes)
            square += slope**2
            memory.x[-1] -= slope / hold  # b_0 becomes b, and the slopes stay
        yield Epoch(x, math.sqrt(square))
