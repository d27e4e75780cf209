"""Stochastic dual coordinate ascent for several classes: epochs over sparse rows that need no step size.

At the minimum of F(W) = sum_i p_i loss_i(u_i) + l2/2 ||W||^2, with u_i = W x_i + b + o_i the scores of row i, y_i its class
and P_i = softmax(u_i), coefficients are W = (1/l2) sum_i c_i (e_{y_i} - P_i) x_i', with c_i = scale p_i; the P_i are the
variables of the dual problem [1]. A row is visited by maximising the dual function in its P_i alone: with
r_i = c_i ||x_i||^2 / l2, the new one solves

    P = softmax(u_i + r_i (P_i - P))

which is P_k = omega(a_k - v + log r_i) / r_i with a = u_i + r_i P_i, Wright's omega function, and the v at which the P_k
sum to one, by Newton's method from v = 0, at which P is the old P_i where the row's equation holds already. The
intercepts b are held by mu/2 ||b - b_0||^2, and b_0 becomes b after each epoch. Rows are visited in an order that is
drawn for each epoch.

The sum of c_i KL(P_i, softmax(u_i)) as rows are met is about the duality gap. Epochs end where it falls slowly, or is at
most tol^2 / (2 L), with L >= ||H|| a Lipschitz constant of the gradient: ||grad F||^2 <= 2 L (F - min F).

References
----------
.. [1] S. Shalev-Shwartz, T. Zhang, "Accelerated proximal stochastic dual coordinate ascent for regularized loss
   minimization", Math. Program. 155 (2016).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.evaluation import outputs as several
from finitesum.evaluation.row_products import squares_of_rows
from finitesum.methods.class_costs import is_worth_epochs, passes_of_epoch
from finitesum.problems.linear import Problem

#: Intercepts are held so much more than coefficients are, as a row sees it.
HOLD = 30.0

#: Epochs over which the gap is compared, and what a pass of L-BFGS leaves of it: epochs that leave more for their time end.
COMPARED, LEFT = 5, 0.93

#: Newton steps for a row, at most, and how far its probabilities' sum may be from 1.
MOST_TRIES, MISSING = 50, 1e-10


class ClassAscent(NamedTuple):
    """The memory of the epochs; empty where there are none."""

    chances: Matrix = np.zeros((0, 0))  # (n, K)  P_i
    gaps: Vector = np.zeros(0)  # of the epochs so far


@kernel_part
def _omega(a: float) -> float:
    """Return the w > 0 with w + log w = a, to some 14 digits."""
    if a < -36.0:
        return math.exp(a)
    if a < -1.0:
        power = math.exp(a)
        w = power / (1.0 + power)
    elif a < 2.0:
        w = 0.567 + a * (0.362 + 0.0736 * a)
    else:
        w = a - math.log(a)
    for _ in range(3):
        rest = a - w - math.log(w)
        best = 2.0 * (1.0 + w) * (1.0 + w + 2.0 * rest / 3.0)
        w *= 1.0 + rest / (1.0 + w) * (best - rest) / (best - 2.0 * rest)
        if abs(rest) < 1e-4:
            break
    return w


@kernel_part
def _solve(scores: Vector, coupling: float, old: Vector, new: Vector) -> float:
    """Write the P that solves a row's equation to `new`, and return KL(old, softmax(scores)); the scores become a."""
    n, top, total, gap = scores.size, -np.inf, 0.0, 0.0
    for k in range(n):
        top = max(top, scores[k])
    for k in range(n):
        total += math.exp(scores[k] - top)
    normal = top + math.log(total)
    for k in range(n):
        scores[k] -= normal
        if old[k] > 0.0:
            gap += old[k] * (math.log(old[k]) - scores[k])
        new[k] = math.exp(scores[k])
    if not coupling > 1e-100:
        return gap
    shift, log_coupling = -np.inf, math.log(coupling)
    for k in range(n):
        scores[k] += coupling * old[k]
        shift = max(shift, scores[k])
    least = shift - coupling  # where the largest P_k is 1, and the sum is larger
    shift = max(least, 0.0)  # where the P_k are the old ones, near the end
    for _ in range(MOST_TRIES):
        total, slope = 0.0, 0.0
        for k in range(n):
            w = _omega(scores[k] - shift + log_coupling)
            new[k] = w / coupling
            total += new[k]
            slope += new[k] / (1.0 + w)
        shift = max(shift + (total - 1.0) / slope, least)  # the sum is convex: after a step it is at least 1, and falls
        if abs(total - 1.0) <= MISSING:
            break
    for k in range(n):
        new[k] /= total
    return gap


@kernel
def _epoch(rows: Any, offsets: Matrix, order: Indices, table: Matrix, chances: Matrix, terms: Any) -> float:
    """Visit rows, and return the sum of c_i KL(P_i, softmax(u_i)).

    The terms are c_i, ||x_i||^2, l2 and mu; a table of coefficients has the shape (dim, K).
    """
    costs, squares, ridge, hold = terms
    n_outputs, total = table.shape[1], 0.0
    scores, new = np.empty(n_outputs), np.empty(n_outputs)
    for i in order:
        if not costs[i] > 0.0:
            continue
        scores[:] = 0.0
        for entry in range(rows.starts[i], rows.starts[i + 1]):
            column, value = rows.columns[entry], rows.values[entry]
            for k in range(n_outputs):
                scores[k] += value * table[column, k]
        coupling = costs[i] * squares[i] / ridge
        if rows.intercept:
            coupling += costs[i] / hold
            for k in range(n_outputs):
                scores[k] += table[rows.n_columns, k]
        if offsets.shape[0] > 0:
            for k in range(n_outputs):
                scores[k] += offsets[i, k]
        total += costs[i] * _solve(scores, coupling, chances[i], new)
        for k in range(n_outputs):
            scores[k] = costs[i] * (chances[i, k] - new[k])
            chances[i, k] = new[k]
        for entry in range(rows.starts[i], rows.starts[i + 1]):
            column, value = rows.columns[entry], rows.values[entry] / ridge
            for k in range(n_outputs):
                table[column, k] += value * scores[k]
        if rows.intercept:
            for k in range(n_outputs):
                table[rows.n_columns, k] += scores[k] / hold
    return total


def first_ascent(problem: Problem, w: Vector) -> ClassAscent:
    """Return the memory before the first epoch; an empty one where epochs are not worth it.

    They are with several classes, many sparse rows and an l2 penalty, from 0.
    """
    if w.any() or not is_worth_epochs(problem):
        return ClassAscent()
    chances = np.zeros((problem.n_rows, problem.n_outputs))
    chances[np.arange(problem.n_rows), problem.targets.astype(np.int64)] = 1.0  # to which W = 0 belongs
    return ClassAscent(chances)


def next_epoch(problem: Problem, w: Vector, memory: ClassAscent, tol: float) -> tuple[Vector, ClassAscent]:
    """Return iterate and memory after one more epoch; an empty memory after the last."""
    costs, squares = several.loss_of(problem).scale * problem.weights, squares_of_rows(problem.one_output)
    ridge, mean = problem.term.ridge, float(problem.weights @ squares)
    hold = HOLD * ridge / mean if mean > 0.0 else HOLD * ridge
    table, chances = np.ascontiguousarray(w.reshape(problem.n_outputs, -1).T), memory.chances.copy()
    if problem.has_intercept:
        slopes = -(costs @ chances)
        slopes += np.bincount(problem.targets.astype(np.int64), costs, problem.n_outputs)
        table[-1] += slopes / hold  # b_0 becomes b, and the dual variables stay
    offsets = problem.offsets if problem.has_offsets else np.zeros((0, problem.n_outputs))
    order = np.random.default_rng(memory.gaps.size).permutation(problem.n_rows)
    gap = _epoch(problem.rows, offsets, order, table, chances, (costs, squares, ridge, hold))
    gaps = np.append(memory.gaps, gap)
    w = np.ascontiguousarray(table.T).reshape(-1)
    is_slow = gaps.size > COMPARED and gap > LEFT ** (COMPARED * passes_of_epoch(problem)) * gaps[-1 - COMPARED]
    steepness = several.loss_of(problem).curvature_bound() * (mean + float(problem.has_intercept)) + ridge
    is_done = gap <= max(tol**2 / (2.0 * steepness), np.finfo(np.float64).eps)
    return w, ClassAscent() if is_slow or is_done else ClassAscent(chances, gaps)
