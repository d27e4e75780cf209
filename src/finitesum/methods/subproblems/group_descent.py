"""Passes over groups of columns beside a group penalty: what `finitesum.methods.subproblems.prox_models` does by groups.

With L_g the largest eigenvalue of the block of a model's Hessian in group g, a step of a group is to the prox of the
penalty, with the step 1 / L_g, at w_g - s_g / L_g, s_g the slope there.
"""

import itertools
import math

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import array_form, kernel
from finitesum.methods.subproblems.column_models import NEARER, PASSES
from finitesum.methods.subproblems.scaled_columns import HIDDEN, n_numbers
from finitesum.problems.penalties import soft_threshold
from finitesum.problems.rows import CSRRows, DenseRows, products, to_matrix
from finitesum.problems.term_penalties import Groups

#: By how much more than the largest eigenvalue a step's curvature is, for the rounding errors of both.
MARGIN = 1.0 + 1e-12


@kernel
def descend(
    columns: DenseRows | CSRRows,
    groups: Groups,
    figures: Matrix,
    total: float,
    w: Vector,
    r: Vector,
    shift: Vector,
    history: Matrix,
    tolerance: float,
) -> int:
    """Make a round of passes over groups: see `finitesum.methods.subproblems.prox_models`."""
    slopes, curvatures, steps, means = figures[0], figures[1], figures[2], figures[3]
    n_kept, ends = history.shape[0], np.empty(w.size)
    for k in range(PASSES):
        square = 0.0
        for g in range(groups.strengths.size):
            first, last = groups.starts[g], groups.starts[g + 1]
            is_zero = True
            for i in range(first, last):
                is_zero &= w[groups.members[i]] == 0.0
            length, curvature = steps[groups.members[first]], curvatures[groups.members[first]]
            if is_zero and (k > 0 or not curvature > 0.0):
                continue
            size = 0.0
            for i in range(first, last):
                j = groups.members[i]
                target = w[j]
                if curvature > 0.0:
                    target -= (slopes[j] + columns.dot(j, r) + shift[0] * means[j]) / curvature
                ends[j] = soft_threshold(target, length * groups.l1)
                size += ends[j] * ends[j]
            size, threshold = math.sqrt(size), length * groups.strengths[g]
            factor = 0.0 if size <= threshold else 1.0 - threshold / size
            for i in range(first, last):
                j = groups.members[i]
                step = factor * ends[j] - w[j]
                if step != 0.0:
                    w[j] = factor * ends[j]
                    columns.add_to(j, step, r)
                    if total > 0.0:
                        shift[0] -= step * means[j] / total
                    square += (curvature * step) ** 2
        if k + n_kept >= PASSES:
            history[k + n_kept - PASSES] = w
        if k == 0 and square <= tolerance**2:
            return 1
        if square <= (NEARER * tolerance) ** 2:
            return -k - 1
    return PASSES


@array_form(descend, n_numbers, stands_in=True)
def _descend_in_arrays(
    columns: DenseRows | CSRRows,
    groups: Groups,
    figures: Matrix,
    total: float,
    w: Vector,
    r: Vector,
    shift: Vector,
    history: Matrix,
    tolerance: float,
) -> int:
    """Do the same, but for groups that are 0 and not asked to leave it when a pass begins: it leaves them out."""
    slopes, curvatures, steps, means = figures
    n_kept, found, matrix = history.shape[0], PASSES, to_matrix(columns)
    blocks = [groups.members[first:last] for first, last in itertools.pairwise(groups.starts.tolist())]
    parts, units = [matrix[members] for members in blocks], np.zeros(w.size)
    np.divide(1.0, steps * curvatures, out=units, where=curvatures > 0.0)
    for k in range(PASSES):
        square, moves = 0.0, groups.sums(w[groups.members] != 0.0) > 0.0
        if k == 0:
            moves |= groups.excess(units * (slopes + products(columns, r) + shift[0] * means)) > 0.0
        for g in np.flatnonzero(moves).tolist():
            members, part = blocks[g], parts[g]
            curvature, length, end = curvatures[members[0]], steps[members[0]], w[members]
            if curvature > 0.0:
                end = end - (slopes[members] + part @ r + shift[0] * means[members]) / curvature
            end = np.sign(end) * np.maximum(np.abs(end) - length * groups.l1, 0.0)
            size, threshold = math.sqrt(float(end @ end)), length * groups.strengths[g]
            end *= 0.0 if size <= threshold else 1.0 - threshold / size
            step = end - w[members]
            if step.any():
                w[members] = end
                r += step @ part
                if total > 0.0:
                    shift[0] -= float(step @ means[members]) / total
                square += curvature**2 * float(step @ step)
        if k + n_kept >= PASSES:
            history[k + n_kept - PASSES] = w
        if k == 0 and square <= tolerance**2:
            found = 1
            break
        if square <= (NEARER * tolerance) ** 2:
            found = -k - 1
            break
    return found


def curvatures_of_groups(columns: DenseRows | CSRRows, means: Vector, total: float, groups: Groups) -> Vector:
    """Return L_g for each column of the groups, an intercept of curvature total following them; 0 for columns of zeros."""
    found, sizes, matrix = np.zeros(columns.n_rows), np.diff(groups.starts), to_matrix(columns)
    for size in np.unique(sizes):
        which = groups.starts[:-1][sizes == size]
        members = groups.members[which[:, None] + np.arange(size)]
        if isinstance(columns, DenseRows):
            parts = columns.values[members]
            blocks = parts @ parts.transpose(0, 2, 1)
        else:
            blocks = np.stack([(matrix[some] @ matrix[some].T).toarray() for some in members])
        squares = np.einsum("gii->g", blocks)
        if total > 0.0:
            across = means[members]
            blocks -= across[:, :, None] * across[:, None, :] / total
        largest = np.linalg.eigvalsh(blocks)[:, -1]
        found[members] = np.where(largest > HIDDEN * squares, MARGIN * largest, 0.0)[:, None]
    return found
