"""Multipliers of linear inequalities: argmin {1/2 v'G v - right'v : v >= 0}.

They are found by the active-set method of Lawson and Hanson [1]: a multiplier joins those that are > 0 as long as one asks
for it, and leaves where it would become negative.

References
----------
.. [1] C. L. Lawson, R. J. Hanson, "Solving least squares problems", 1974, chapter 23.
"""

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.core.jit import array_form, kernel, kernel_part

#: Pivots of dependent inequalities, and wishes of multipliers, that count as 0, relative to what they are computed from.
DEPENDENT, SETTLED = 1e-12, 1e-14

#: Numbers of an array that are computed while Python does one operation of the active-set method.
PYTHON_NUMBERS = 100.0


class Memory(NamedTuple):
    """What a projection computes with: kernels do not allocate."""

    gram: Matrix  # (m, m)  A S^-1 A'
    factor: Matrix  # (m, m)
    right: Vector  # (m,)  A x - b
    values: Vector  # (m,)  the multipliers
    trial: Vector  # (m,)
    chosen: Flags  # (m,)  those that may be > 0
    barred: Flags  # (m,)


def memory_for(m: int) -> Memory:
    """Return the memory for m inequalities."""
    right, values, trial = np.zeros((3, m))
    chosen, barred = np.zeros((2, m), dtype=np.bool_)
    return Memory(np.zeros((m, m)), np.zeros((m, m)), right, values, trial, chosen, barred)


@kernel_part
def solved(gram: Matrix, right: Vector, chosen: Flags, factor: Matrix, out: Vector) -> int:
    """Solve for the chosen multipliers, others 0, by Cholesky's factor; return the first dependent one, or -1."""
    m = right.shape[0]
    for i in range(m):
        out[i] = 0.0
        if chosen[i]:
            for j in range(i + 1):
                if chosen[j]:
                    total = gram[i, j]
                    for k in range(j):
                        if chosen[k]:
                            total -= factor[i, k] * factor[j, k]
                    if j < i:
                        factor[i, j] = total / factor[j, j]
                    elif total > DEPENDENT * gram[i, i]:
                        factor[i, i] = math.sqrt(total)
                    else:
                        return i
    for i in range(m):
        if chosen[i]:
            total = right[i]
            for k in range(i):
                if chosen[k]:
                    total -= factor[i, k] * out[k]
            out[i] = total / factor[i, i]
    for back in range(m):
        i = m - 1 - back
        if chosen[i]:
            total = out[i]
            for k in range(i + 1, m):
                if chosen[k]:
                    total -= factor[k, i] * out[k]
            out[i] = total / factor[i, i]
    return -1


@kernel_part
def _wanted(memory: Memory) -> int:
    """Return the multiplier at 0 that asks the most to become > 0, or -1."""
    gram, values = memory.gram, memory.values
    m, best, most = values.shape[0], -1, 0.0
    for i in range(m):
        if not memory.chosen[i] and not memory.barred[i] and gram[i, i] > 0.0:
            slope, size = memory.right[i], abs(memory.right[i])
            for j in range(m):
                slope -= gram[i, j] * values[j]
                size += abs(gram[i, j] * values[j])
            gain = slope / math.sqrt(gram[i, i])
            if slope > SETTLED * size and gain > most:
                best, most = i, gain
    return best


@kernel_part
def _replaces(memory: Memory, joins: int) -> bool:
    """Let a multiplier that depends on the chosen ones take the place of the first that comes to 0; False if none does."""
    values, trial, chosen = memory.values, memory.trial, memory.chosen
    chosen[joins] = False
    solved(memory.gram, memory.gram[joins], chosen, memory.factor, trial)
    length, first = 0.0, -1
    for i in range(values.shape[0]):
        if chosen[i] and trial[i] > DEPENDENT and (first < 0 or values[i] < length * trial[i]):
            length, first = values[i] / trial[i], i
    if first < 0:
        return False
    for i in range(values.shape[0]):
        if chosen[i]:
            values[i] = max(values[i] - length * trial[i], 0.0)
    values[first], chosen[first] = 0.0, False
    values[joins], chosen[joins] = values[joins] + length, True
    return True


@kernel_part
def _step(memory: Memory) -> int:
    """Go to the solution for the chosen multipliers, or to where the first of them comes to 0; return that one, or -1."""
    values, trial, chosen = memory.values, memory.trial, memory.chosen
    length, first = 1.0, -1
    for i in range(values.shape[0]):
        if chosen[i] and trial[i] <= 0.0:
            until = values[i] / (values[i] - trial[i]) if values[i] > 0.0 else 0.0
            if first < 0 or until < length:
                length, first = until, i
    for i in range(values.shape[0]):
        if chosen[i]:
            values[i] += length * (trial[i] - values[i])
    if first >= 0:
        values[first], chosen[first] = 0.0, False
    return first


@kernel_part
def find(memory: Memory) -> None:
    """Write argmin {1/2 v'G v - right'v : v >= 0} to the values, for a symmetric G >= 0."""
    m, values, chosen, barred = memory.values.shape[0], memory.values, memory.chosen, memory.barred
    for i in range(m):
        values[i], chosen[i], barred[i] = 0.0, False, False
    for _ in range(10 * m + 10):
        joins = _wanted(memory)
        if joins < 0:
            return
        chosen[joins] = True
        for _ in range(10 * m + 10):
            if solved(memory.gram, memory.right, chosen, memory.factor, memory.trial) >= 0:
                if not _replaces(memory, joins):  # no point fulfils all
                    barred[joins] = True
                    break
                continue
            first = _step(memory)
            if first < 0:
                for i in range(m):
                    barred[i] = False
                break
            if first == joins:
                barred[joins] = True


@kernel
def _found(memory: Memory) -> None:
    find(memory)


@array_form(_found, lambda memory: PYTHON_NUMBERS * memory.right.size**3)
def _found_in_python(memory: Memory) -> None:
    find(memory)


def multipliers_of(gram: Matrix, right: Vector) -> Vector:
    """Return argmin {1/2 v'G v - right'v : v >= 0} for a symmetric G >= 0, shape (m, m)."""
    memory = memory_for(right.size)
    memory.gram[:], memory.right[:] = gram, right
    _found(memory)
    return memory.values
