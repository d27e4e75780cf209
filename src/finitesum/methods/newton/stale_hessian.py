"""A Hessian that is summed over part of the rows, and kept up only where it moved: what the flagship steps with.

Each row of a sample holds the curvature c_i that it was last summed with,

    A = sum_{i in sample} p_i c_i z_i z_i',    H ~ A / (sum of p_i over the sample) + l2 I,

while every gradient pass sees the row's curvature as it is now, h_i. Replacing c_i by h_i costs O(nnz_i^2) for each row,
so only rows that moved are worth it. What the others lack, left = sum_i p_i |h_i - c_i|, by now = sum_i p_i h_i, is about
the factor by which a step with this Hessian falls short of Newton's; so, of thresholds on p_i |h_i - c_i| that halve from
one to the next, `refreshed` takes the one that minimises

    rows replaced x price of a Hessian's row + a factor's price + passes to go x price of a pass,
    passes to go = digits to go / -log10(c left / now + sqrt(d / rows of the sample)),

the last term only where rows are missing from the sample; c is 4, or 1/2 where rows are missing and the last step was
good all the same, because secants make up for much of the error then. Where steps creep all the same, all of them are
replaced. Rows that are classified well lose their curvature early and are never summed again. Memory: n short numbers and
d^2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import bits_of, kernel, kernel_part
from finitesum.evaluation.hessian import add_gram
from finitesum.evaluation.row_sums import Vector32
from finitesum.methods.cost_model import Prices
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row

#: Thresholds that are compared: each half of the one before.
N_THRESHOLDS = 24

#: The factor c by which rows left out count more than their share of the curvature, as seen on real data: in general, and
#: where the Hessian is summed over a part of the rows and the last step was good all the same.
CAUTION, CAUTION_WHERE_GOOD = 4.0, 0.5


class LazyCurvature(NamedTuple):
    """The memory."""

    held: Vector32  # (n,)  c_i, 0 for rows that are not in the sum
    sums: Matrix  # (d, d)  A, its lower triangle
    members: Indices  # the components of the sample, increasing
    share: float  # sum of p_i over the sample
    rough: Vector  # (d,)  the largest diagonal of A since rows were summed in single precision, 0 where none were


def no_curvature(problem: Problem) -> LazyCurvature:
    """Return the memory of an empty sample."""
    n, dim = problem.n_rows, problem.dim
    nobody = np.zeros(0, dtype=np.int64)
    return LazyCurvature(np.zeros(n, dtype=np.float32), np.zeros((dim, dim)), nobody, 0.0, np.zeros(dim))


@kernel_part
def _count_by_size(
    linear_sum: LinearSum,
    members: Indices,
    now: Vector32,
    held: Vector32,
    unit: float,
    counts: Vector,
    sizes: Vector,
) -> float:
    """Count and add up p_i |h_i - c_i| in classes [unit / 2^(k + 1), unit / 2^k); return sum p_i h_i.

    The class is read off the exponent's bits of the quotient by the unit.
    """
    total, by_unit = 0.0, 1.0 / unit
    last = np.int64(counts.size - 1)
    for component in members:
        for i in range(np.uint64(first_row(linear_sum, component)), np.uint64(last_row(linear_sum, component))):
            weight, curvature = linear_sum.weights[i], np.float64(now[i])
            total += weight * curvature
            size = weight * abs(curvature - np.float64(held[i]))
            k = min(max(np.int64(1022) - (bits_of(size * by_unit) >> 52), np.int64(0)), last)
            counts[k] += 1.0
            sizes[k] += size
    return total


@kernel
def _sums(linear_sum: LinearSum, members: Indices, now: Vector32, held: Vector32) -> tuple[float, float]:
    """Return sum p_i h_i and sum p_i |h_i - c_i|."""
    total = moved = 0.0
    for component in members:
        for i in range(np.uint64(first_row(linear_sum, component)), np.uint64(last_row(linear_sum, component))):
            weight, curvature = linear_sum.weights[i], np.float64(now[i])
            total += weight * curvature
            moved += weight * abs(curvature - np.float64(held[i]))
    return total, moved


def moved_share(problem: Problem, memory: LazyCurvature, now: Vector32) -> float:
    """Return sum_i p_i |h_i - c_i| / sum_i p_i h_i over the rows of the Hessian's sample."""
    total, moved = _sums(problem.view, memory.members, now, memory.held)
    return moved / total if total > 0.0 else 0.0


def sample_curvature(problem: Problem, now: Vector32, components: Indices) -> float:
    """Return sum_i p_i h_i over the rows of some components."""
    return _sums(problem.view, components, now, now)[0]


@kernel
def _cheapest(
    linear_sum: LinearSum,
    members: Indices,
    now: Vector32,
    held: Vector32,
    unit: float,
    prices: tuple[float, float, float],
    sampling_error: float,
    caution: float,
    digits: float,
    scratch: Vector,
) -> tuple[int, float]:
    """Return how many classes to replace, and what share of the curvature moved.

    The prices are those of a row, of a factor, and of a pass.
    """
    counts, sizes = scratch[:N_THRESHOLDS], scratch[N_THRESHOLDS:]
    total = _count_by_size(linear_sum, members, now, held, unit, counts, sizes)
    of_row, of_factor, of_pass = prices
    moved = sizes.sum()
    best, least, replaced, left = 0, np.inf, 0.0, moved
    for k in range(N_THRESHOLDS + 1):
        if k > 0:
            replaced += counts[k - 1]
            left = max(left - sizes[k - 1], 0.0)
        remainder = (caution * left / total if total > 0.0 else 0.0) + sampling_error
        passes = max(1.0, digits / -math.log10(min(max(remainder, 1e-3), 0.95)))
        cost = replaced * of_row + passes * of_pass
        if replaced > 0.0:
            cost += of_factor
        if cost < least:
            best, least = k, cost
    return best, moved / total if total > 0.0 else 0.0


@kernel
def _pick(
    linear_sum: LinearSum,
    members: Indices,
    now: Vector32,
    held: Vector32,
    least: float,
    picked: Indices,
    rises: Vector,
) -> int:
    n_picked = 0
    for component in members:
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            rise = linear_sum.weights[i] * (np.float64(now[i]) - np.float64(held[i]))
            if rise != 0.0 and abs(rise) >= least:
                picked[n_picked], rises[n_picked] = i, rise
                held[i] = now[i]
                n_picked += 1
    return n_picked


def _replace(
    problem: Problem,
    members: Indices,
    now: Vector32,
    least: float,
    held: Vector32,
    sums: Matrix,
    n_threads: int,
    *,
    single_precision: bool,
) -> int:
    """Sum the rows that moved by `least` or more afresh; write to `held` and `sums`; return how many there were."""
    picked, rises = np.empty(problem.n_rows, dtype=np.int64), np.empty(problem.n_rows)
    n_picked = _pick(problem.view, members, now, held, least, picked, rises)
    picked, rises = picked[:n_picked], rises[:n_picked]
    add_gram(problem, picked, rises, sums, single_precision=single_precision, n_threads=n_threads)
    return n_picked


def refreshed(
    problem: Problem,
    memory: LazyCurvature,
    now: Vector32,
    prices: Prices,
    *,
    n_seen: int,
    digits: float,
    n_idle: int = 0,
    is_good: bool = False,
    n_threads: int = 1,
    single_precision: bool = False,
) -> tuple[LazyCurvature, int]:
    """Return the memory with the rows replaced that are worth it, and how many they were.

    Parameters
    ----------
    now : ndarray of float32, shape (n,)
        h_i at the rows of the members.
    n_seen : int
        Rows that a gradient pass reads at present.
    digits : float > 0
        Digits of the optimality that are to go.
    n_idle : int >= 0
        Steps in a row that made little of the Hessian: from 2 on it is to blame, where more than a thousandth of the
        curvature is not what it was, from 4 on in any case.
    is_good : bool
        Whether the last step left as little of the gradient as can be hoped for.
    """
    members = memory.members
    n_rows = min(problem.n_rows, members.size * (problem.batch_size or 1))
    unit = problem.loss.curvature_bound()
    scale = float(now.max(initial=0.0)) if not math.isfinite(unit) else unit
    unit = memory.share * scale / max(n_rows, 1)
    if not unit > 0.0:
        return memory, 0
    error = math.sqrt(problem.dim / n_rows) if n_rows < n_seen else 0.0
    k, moved = _cheapest(
        problem.view,
        members,
        now,
        memory.held,
        unit,
        (prices.hessian, prices.factor, n_seen * prices.gradient),
        error,
        CAUTION_WHERE_GOOD if is_good and error > 0.0 else CAUTION,
        digits,
        np.zeros(2 * N_THRESHOLDS),
    )
    is_to_blame = error == 0.0 and (n_idle >= 4 or (n_idle >= 2 and moved > 1e-3))
    if is_to_blame or not memory.sums.any():  # without a Hessian there is no step
        k = N_THRESHOLDS
    if k == 0:
        return memory, 0
    least = unit / 2.0**k if k < N_THRESHOLDS else 0.0
    held, sums = memory.held.copy(), memory.sums.copy()
    n_replaced = _replace(problem, members, now, least, held, sums, n_threads, single_precision=single_precision)
    rough = memory.rough
    if single_precision:
        rough = np.maximum(rough, np.maximum(np.diagonal(memory.sums), np.diagonal(sums)))
    return memory._replace(held=held, sums=sums, rough=rough), n_replaced


def factor_of(problem: Problem, memory: LazyCurvature, ridge: float, shift: float) -> tuple[Matrix, float]:
    """Return the Cholesky factor of A / share + ridge I + shift diag, for `apply_inverse`, and the shift that it took.

    The shift is relative to the diagonal, and raised until the matrix is positive definite.
    """
    hessian = memory.sums / memory.share if memory.share > 0.0 else memory.sums.copy()
    penalised = np.arange(problem.rows.n_columns)
    hessian[penalised, penalised] += ridge
    diagonal = np.diagonal(hessian).copy()
    diagonal[~(diagonal > 0.0)] = 1.0  # a column without curvature has no gradient either
    everywhere = np.arange(problem.dim)
    while True:
        hessian[everywhere, everywhere] = diagonal * (1.0 + shift)
        factor, info = lapack.dpotrf(hessian.T, lower=0, clean=0)
        if info == 0:
            return factor, shift
        if not shift < 1e12:  # NaN
            return np.asfortranarray(np.diag(np.sqrt(diagonal))), shift
        shift = max(1e-14, 100.0 * shift)


def apply_inverse(factor: Matrix, right: Vector) -> Vector:
    """Return the solution of H v = right by the factor of H."""
    solution: Vector = lapack.dpotrs(factor, right, lower=0)[0]
    return solution
