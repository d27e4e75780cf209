"""A Hessian that is summed over a part of the rows, and refreshed only where it moved.

Each row of a sample holds the curvature c_i that it was last summed with,

    A = sum_{i in sample} p_i c_i x_i x_i',    H ~ A / (sum of p_i over the sample) + l2 I,

while every gradient pass finds the row's curvature as it is now, h_i. Replacing c_i by h_i costs O(nnz_i^2) for each row,
so only rows that moved are worth it. What the others lack, left = sum_i p_i |h_i - c_i|, by now = sum_i p_i h_i, is about
the factor by which a step with this Hessian falls short of Newton's; so, of thresholds on p_i |h_i - c_i| that halve from
one to the next, `refreshed` takes the one that minimises

    rows replaced x cost of a Hessian's row + a factor's cost + passes to go x cost of a pass,
    passes to go = digits to go / -log10(c left / now + sqrt(d / rows of the sample)),

the last term only where rows are missing from the sample; c is 4, or 1/2 where rows are missing and the last step was
good all the same, because L-BFGS pairs make up for much of the error then. Where steps are slow all the same, all of
them are replaced. Rows that are classified well lose their curvature early and are never summed again. Memory: 4 bytes a
row and d^2.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import array_form, kernel
from finitesum.core.symmetric import mirrored
from finitesum.evaluation.hessian import LEAST_PIVOT, add_gram, is_precise
from finitesum.evaluation.row_blocks import Block, joined, sum_over_blocks
from finitesum.evaluation.row_sums import Vector32
from finitesum.evaluation.samples import Sample, others, sample_of
from finitesum.evaluation.whole_arrays import whole_arrays
from finitesum.methods.cost_model import costs_of, is_sample_too_small
from finitesum.methods.newton.subsampling import GROWTH
from finitesum.methods.subproblems.positive_definite import raised_factor
from finitesum.problems.beside import some_by_row, zeros_by_row
from finitesum.problems.linear import Problem
from finitesum.problems.view import View, chosen_rows, first_row, last_row, n_numbers

#: Thresholds that are compared: each half of the one before.
N_THRESHOLDS = 24

#: The factor c by which rows left out count more than their part of the curvature, as measured on real data: in general,
#: and where the Hessian is summed over a part of the rows and the last step was good all the same.
CAUTION, CAUTION_WHERE_GOOD = 4.0, 0.5

#: Curvatures that moved by more than this many times what the last step left are to blame for it, not the sample's size.
BLAME = 2.0

#: Hessians of rows that join the sample wait where they cost more than this many gradients of it: a step more is cheaper.
EXPENSIVE = 4.0


#: Nanoseconds of all rows' Hessians up to which they are summed again in each pass: deciding which of them costs as much.
NO_THOUGHT = 1e5


#: The fraction of rows from which, in whole arrays, all are summed again: those that are picked are gathered, sign by sign.
ALL_AGAIN = 0.4


class StaleHessian(NamedTuple):
    """The memory: a sum over the rows of some components, each with the curvature it had when it was last summed."""

    curvatures: Vector32 = np.zeros(0, dtype=np.float32)  # (n,)  c_i, 0 for rows that are not in the sum
    sums: Matrix = np.zeros((0, 0))  # (d, d)  A, its lower triangle
    members: Indices = np.zeros(0, dtype=np.int64)  # the components of the sample, increasing
    weight: float = 0.0  # sum of p_i over the sample
    largest_float32: Vector = np.zeros(0)  # (d,)  A's largest diagonal since rows were summed in float32, 0 before


def no_hessian(problem: Problem) -> StaleHessian:
    """Return the memory of an empty sample."""
    dim = problem.dim
    return StaleHessian(zeros_by_row(problem, np.float32), np.zeros((dim, dim)), largest_float32=np.zeros(dim))


@kernel
def _count_by_size(
    view: View, members: Indices, now: Vector32, summed: Vector32, unit: float, counts: Vector, sizes: Vector
) -> float:
    """Count and add up p_i |h_i - c_i| in classes [unit / 2^(k + 1), unit / 2^k); return sum p_i h_i.

    The class is read off the exponent's bits of the quotient by the unit.
    """
    total, by_unit = 0.0, 1.0 / unit
    last = np.int64(counts.size - 1)
    for component in members:
        for i in range(np.uint64(first_row(view, component)), np.uint64(last_row(view, component))):
            weight, curvature = view.weights[i], np.float64(now[i])
            total += weight * curvature
            size = weight * abs(curvature - np.float64(summed[i]))
            bits = np.float64(size * by_unit).view(np.int64)
            k = min(max(np.int64(1022) - (bits >> 52), np.int64(0)), last)
            counts[k] += 1.0
            sizes[k] += size
    return total


@array_form(_count_by_size, n_numbers)
def _count_in_arrays(
    view: View, members: Indices, now: Vector32, summed: Vector32, unit: float, counts: Vector, sizes: Vector
) -> float:
    weights, curvatures, moved = _moved_in_arrays(view, members, now, summed)
    bits = (moved * (1.0 / unit)).view(np.int64)
    k = np.clip(1022 - (bits >> 52), 0, counts.size - 1)
    counts += np.bincount(k, minlength=counts.size)
    sizes += np.bincount(k, weights=moved, minlength=counts.size)
    return float(weights @ curvatures)


def _moved_in_arrays(view: View, members: Indices, now: Vector32, summed: Vector32) -> tuple[Vector, Vector, Vector]:
    """Return p_i, h_i and p_i |h_i - c_i| of the members' rows."""
    chosen = chosen_rows(view, members)
    weights, curvatures = view.weights[chosen], now[chosen].astype(np.float64)
    return weights, curvatures, weights * np.abs(curvatures - summed[chosen])


def _by_size(
    problem: Problem, members: Indices, now: Vector32, summed: Vector32, unit: float = 1.0
) -> tuple[Vector, Vector, float]:
    """Return how many p_i |h_i - c_i| there are of each size, what they add up to, and sum p_i h_i."""

    def count(block: Block, here: Vector32, before: Vector32) -> tuple[Vector, Vector, float]:
        counts, sizes = np.zeros(N_THRESHOLDS), np.zeros(N_THRESHOLDS)
        total = _count_by_size(block.view, block.components, here, before, unit, counts, sizes)
        return counts, sizes, float(total)

    found: tuple[Vector, Vector, float] = sum_over_blocks(count, problem, members, reads=(now, summed))
    return found


@kernel
def _sums(view: View, members: Indices, now: Vector32, summed: Vector32) -> tuple[float, float]:
    total = moved = 0.0
    for component in members:
        for i in range(np.uint64(first_row(view, component)), np.uint64(last_row(view, component))):
            weight, curvature = view.weights[i], np.float64(now[i])
            total += weight * curvature
            moved += weight * abs(curvature - np.float64(summed[i]))
    return total, moved


@array_form(_sums, n_numbers)
def _sums_in_arrays(view: View, members: Indices, now: Vector32, summed: Vector32) -> tuple[float, float]:
    weights, curvatures, moved = _moved_in_arrays(view, members, now, summed)
    return float(weights @ curvatures), float(moved.sum())


def _total_and_moved(problem: Problem, members: Indices, now: Vector32, summed: Vector32) -> tuple[float, float]:
    """Return sum p_i h_i and sum p_i |h_i - c_i| over the rows of some components."""

    def sums(block: Block, here: Vector32, before: Vector32) -> tuple[float, float]:
        total, moved = _sums(block.view, block.components, here, before)
        return float(total), float(moved)

    found: tuple[float, float] = sum_over_blocks(sums, problem, members, reads=(now, summed))
    return found


def moved_fraction(problem: Problem, hessian: StaleHessian, now: Vector32) -> float:
    """Return sum_i p_i |h_i - c_i| / sum_i p_i h_i over the rows of the Hessian's sample."""
    total, moved = _total_and_moved(problem, hessian.members, now, hessian.curvatures)
    return moved / total if total > 0.0 else 0.0


def _cheapest(
    counts: Vector,
    sizes: Vector,
    total: float,
    costs: tuple[float, float, float],
    sampling_error: float,
    caution: float,
    digits: float,
) -> tuple[int, float]:
    """Return how many classes to replace, and what fraction of the curvature moved.

    The costs are those of a row, of a factor, and of a pass.
    """
    of_row, of_factor, of_pass = costs
    moved, replaced, gone = float(sizes.sum()), np.zeros(counts.size + 1), np.zeros(sizes.size + 1)
    np.cumsum(counts, out=replaced[1:])
    np.cumsum(sizes, out=gone[1:])
    by_total = 1.0 / total if total > 0.0 else 0.0
    ratios = caution * by_total * np.maximum(moved - gone, 0.0) + sampling_error
    passes = np.maximum(1.0, digits / -np.log10(np.clip(ratios, 1e-3, 0.95)))
    return int(np.argmin(replaced * of_row + passes * of_pass + of_factor * (replaced > 0.0))), moved * by_total


@kernel
def _replace(
    view: View, members: Indices, now: Vector32, summed: Vector32, least: float, picked: Indices, rises: Vector
) -> int:
    """Write the rows where p_i (h_i - c_i) is >= least in size, and these rises; replace their c_i; return how many."""
    n_picked = np.uint64(0)
    for component in members:
        for i in range(np.uint64(first_row(view, component)), np.uint64(last_row(view, component))):
            rise = view.weights[i] * (np.float64(now[i]) - np.float64(summed[i]))
            is_picked = rise != 0.0 and abs(rise) >= least
            picked[n_picked], rises[n_picked] = i, rise  # the next one writes over it if it is not: no branch to guess
            summed[i] = now[i] if is_picked else summed[i]
            n_picked += np.uint64(is_picked)
    return int(n_picked)


@array_form(_replace, n_numbers)
def _replace_in_arrays(
    view: View, members: Indices, now: Vector32, summed: Vector32, least: float, picked: Indices, rises: Vector
) -> int:
    chosen = chosen_rows(view, members)
    rise = view.weights[chosen] * (now[chosen].astype(np.float64) - summed[chosen])
    places = np.flatnonzero((rise != 0.0) & (np.abs(rise) >= least))
    rows = places if isinstance(chosen, slice) else chosen[places]
    picked[: rows.size], rises[: rows.size] = rows, rise[places]
    summed[rows] = now[rows]
    return rows.size


def refreshed(
    problem: Problem,
    hessian: StaleHessian,
    now: Vector32,
    *,
    n_read: int,  # rows that a gradient pass reads at present
    digits: float,  # of the optimality, that are to go
    n_slow_steps: int = 0,  # in a row, that gained little
    is_good: bool = False,  # whether the last step left as little of the gradient as can be hoped for
    n_threads: int = 1,
    single_precision: bool = False,  # whether dense rows are summed in float32
) -> tuple[StaleHessian, int]:
    """Return the memory with those rows replaced that are worth it, and how many they were; `now` are the members' h_i.

    From two slow steps on the Hessian is to blame, where more than a thousandth of the curvature is not what it was; from
    four on in any case.
    """
    members, costs = hessian.members, costs_of(problem)
    n_rows = min(problem.n_rows, members.size * (problem.batch_size or 1))
    unit = problem.loss.curvature_bound()
    scale = float(now.max(initial=0.0)) if not math.isfinite(unit) else unit
    unit = hessian.weight * scale / max(n_rows, 1)
    if not unit > 0.0:
        return hessian, 0
    if n_rows * costs.hessian <= NO_THOUGHT:
        return _summed_again(problem, hessian, now, n_threads=n_threads, single_precision=single_precision), n_rows
    error = math.sqrt(problem.dim / n_rows) if n_rows < n_read else 0.0
    caution = CAUTION_WHERE_GOOD if is_good and error > 0.0 else CAUTION
    expenses = (costs.hessian, costs.factor, n_read * costs.gradient)
    k, moved = _cheapest(*_by_size(problem, members, now, hessian.curvatures, unit), expenses, error, caution, digits)
    is_to_blame = error == 0.0 and (n_slow_steps >= 4 or (n_slow_steps >= 2 and moved > 1e-3))
    if is_to_blame or not np.diagonal(hessian.sums).any():  # without a Hessian there is no step
        k = N_THRESHOLDS
    if k == 0:
        return hessian, 0
    least = unit / 2.0**k if k < N_THRESHOLDS else 0.0
    curvatures, sums = some_by_row(problem, hessian.curvatures, members), hessian.sums.copy()

    def replace(block: Block, here: Vector32, summed: Vector32) -> tuple[Indices, Vector]:
        picked, rises = np.empty(here.size, dtype=np.int64), np.empty(here.size)
        n = _replace(block.view, block.components, here, summed, least, picked, rises)
        return picked[:n] + block.rows.start, rises[:n]

    def both(left: tuple[Indices, Vector], right: tuple[Indices, Vector]) -> tuple[Indices, Vector]:
        return joined(left[0], right[0]), joined(left[1], right[1])

    picked, rises = sum_over_blocks(replace, problem, members, reads=(now,), updates=(curvatures,), add=both)
    if picked.size > ALL_AGAIN * n_rows and whole_arrays(problem) is not None:
        return _summed_again(problem, hessian, now, n_threads=n_threads, single_precision=single_precision), n_rows
    add_gram(problem, picked, rises, sums, single_precision=single_precision, n_threads=n_threads)
    largest = hessian.largest_float32
    if single_precision:
        largest = np.maximum(largest, np.maximum(np.diagonal(hessian.sums), np.diagonal(sums)))
    return hessian._replace(curvatures=curvatures, sums=sums, largest_float32=largest), picked.size


def _summed_again(
    problem: Problem, hessian: StaleHessian, now: Vector32, *, n_threads: int, single_precision: bool
) -> StaleHessian:
    """Return the memory with all rows of the sample at their present curvatures."""
    curvatures, sums, chosen = zeros_by_row(problem, np.float32), np.zeros_like(hessian.sums), hessian.members
    if (problem.batch_size or 1) > 1 or chosen.size == problem.n_components:
        chosen = np.arange(problem.n_rows)[chosen_rows(problem.view, chosen)]
    curvatures[chosen] = now[chosen]
    add_gram(
        problem, chosen, problem.weights[chosen] * now[chosen], sums, single_precision=single_precision, n_threads=n_threads
    )
    largest = np.diagonal(sums).copy() if single_precision else np.zeros_like(hessian.largest_float32)
    return hessian._replace(curvatures=curvatures, sums=sums, largest_float32=largest)


def with_members(problem: Problem, hessian: StaleHessian, order: Indices, n_members: int) -> StaleHessian:
    """Return the memory with a sample of n_members components: those it has, and the first others of the order."""
    if n_members >= order.size:
        chosen = np.sort(order)
    else:
        joining = others(order, hessian.members, problem.n_components)[: max(0, n_members - hessian.members.size)]
        chosen = np.sort(np.concatenate([hessian.members, joining]))
    return hessian._replace(members=chosen, weight=sample_of(problem, chosen).weight)


def enlarged(
    problem: Problem, hessian: StaleHessian, order: Indices, now: Vector32, ratio: float, digits: float
) -> StaleHessian:
    """Return the memory with a larger sample, where what the last step left of the gradient shows that it pays."""
    n_rows = hessian.members.size * (problem.batch_size or 1)
    if hessian.members.size == order.size or not ratio > 0.0:
        return hessian
    if not is_sample_too_small(problem.n_rows, n_rows, costs_of(problem), ratio, digits):
        return hessian
    if CAUTION * moved_fraction(problem, hessian, now) > BLAME * ratio:
        return hessian  # what the step left is not the sample's fault
    return with_members(problem, hessian, order, GROWTH * hessian.members.size)


def model_of(problem: Problem, hessian: StaleHessian, ridge: float, shift: float) -> Matrix:
    """Return A / weight + shift diag + ridge I, symmetric."""
    matrix = mirrored(hessian.sums)
    matrix /= hessian.weight or 1.0
    diagonal = np.arange(problem.dim)
    matrix[diagonal, diagonal] *= 1.0 + shift
    matrix[diagonal, diagonal] += ridge * problem.term.weights
    return matrix


def factor_of(problem: Problem, hessian: StaleHessian, ridge: float, shift: float) -> tuple[Matrix, float]:
    """Return the Cholesky factor of A / weight + ridge I + shift diag, and the shift that it took."""
    matrix = hessian.sums / (hessian.weight or 1.0)
    diagonal = np.arange(problem.dim)
    matrix[diagonal, diagonal] += ridge * problem.term.weights
    return raised_factor(matrix, shift)


def is_well_posed(hessian: StaleHessian, factor: Matrix, shift: float) -> bool:
    """Return whether single precision is enough for the Hessian's sums."""
    weight, pivots = hessian.weight or 1.0, np.diagonal(factor) ** 2
    is_hidden = not shift < 0.01 * LEAST_PIVOT  # a raised diagonal hides errors
    return not is_hidden and is_precise(np.diagonal(hessian.sums) / weight, hessian.largest_float32 / weight, pivots)


def is_expensive(problem: Problem, n_components: int, sample: Sample) -> bool:
    """Return whether the Hessians of this many components cost more than some gradients of the sample.

    Where no pairs make up for rows that are missing they are worth any cost.
    """
    costs = costs_of(problem)
    return problem.is_smooth and n_components * costs.hessian > EXPENSIVE * sample.components.size * costs.gradient


def noise(problem: Problem, sample: Sample, curvatures: Vector32, squared_slopes: float) -> float:
    """Return what the sample itself puts into Newton's decrement, about."""
    total = total_curvature(problem, sample, curvatures)
    return problem.dim / sample.n_rows(problem) * squared_slopes / max(total, 1e-300)


def total_curvature(problem: Problem, sample: Sample, curvatures: Vector32) -> float:
    """Return sum_i p_i c_i over a sample."""
    return _total_and_moved(problem, sample.components, curvatures, curvatures)[0]
