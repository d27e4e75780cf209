"""What the lazy steps remember: the coordinates between two touches, and the heap of those that are not zero.

See `finitesum.methods.projected.sparse_steps` for the laws.
"""

from __future__ import annotations

from typing import NamedTuple

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel_part

# Kinds of sets.
FREE, INTERVALS, L1_BALL, L2_BALL = 0, 1, 2, 3

# Places in `LazyMemory.figures`.
LEVEL, PREFIX, NORM, SLOPE, DECAY, HEAP = 0, 1, 2, 3, 4, 5
LOST = 6  # what rounding took from N and C stands so many places behind them


class LazySet(NamedTuple):
    """A constraint set as the lazy steps see it."""

    kind: int
    radius: float
    lower: Vector  # (n_penalised,) for INTERVALS, else empty
    upper: Vector


class LazyMemory(NamedTuple):
    """What is known of the coordinates; vectors of shape (d,)."""

    value: Vector  # l1 ball: the key with the sign of z; l2 ball: u; else z
    rate: Vector  # 1 / kappa of the projection's metric
    total: Vector  # the sum of z over the steps, settled up to `done`
    done: Indices  # how many steps are settled
    mark: Vector  # the prefix sum of L or rho at that time
    second: Vector  # U; empty without a metric
    heap: Indices  # the coordinates that are not zero, the smallest key first
    place: Indices  # where in the heap a coordinate stands, or -1
    gradient: Vector  # of a visit, at the coordinates it touches; zero in between
    touched: Indices
    is_touched: Indices
    figures: Vector  # L or rho; its sum over the steps; N (l2 ball: squared norm of u); C; P; size of the heap; losses


@kernel_part
def add_to(lazy: LazyMemory, which: int, value: float) -> None:
    """Add to N or C and keep what rounding loses: 1/kappa of a coordinate that was never seen is 1e8 times the others."""
    old = lazy.figures[which]
    new = old + value
    part = new - old
    lazy.figures[which] = new
    lazy.figures[which + LOST] += (old - (new - part)) + (value - part)


@kernel_part
def sum_of(lazy: LazyMemory, which: int) -> float:
    return float(lazy.figures[which] + lazy.figures[which + LOST])


# The heap: a binary tree in an array, which knows where each coordinate stands.


@kernel_part
def key_of(lazy: LazyMemory, j: int) -> float:
    return float(abs(lazy.value[j]))


@kernel_part
def _put(lazy: LazyMemory, k: int, j: int) -> None:
    lazy.heap[k] = j
    lazy.place[j] = k


@kernel_part
def _rise(lazy: LazyMemory, k: int) -> None:
    """Let the entry at k rise to its place."""
    j = lazy.heap[k]
    key = key_of(lazy, j)
    while k > 0:
        parent = (k - 1) // 2
        other = lazy.heap[parent]
        if key_of(lazy, other) <= key:
            break
        _put(lazy, k, other)
        k = parent
    _put(lazy, k, j)


@kernel_part
def _sink(lazy: LazyMemory, k: int, size: int) -> None:
    """Let the entry at k sink to its place."""
    j = lazy.heap[k]
    key = key_of(lazy, j)
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size and key_of(lazy, lazy.heap[child + 1]) < key_of(lazy, lazy.heap[child]):
            child += 1
        other = lazy.heap[child]
        if key_of(lazy, other) >= key:
            break
        _put(lazy, k, other)
        k = child
    _put(lazy, k, j)


@kernel_part
def place_in_heap(lazy: LazyMemory, j: int) -> None:
    """Take a coordinate in, or move it to where its new key belongs."""
    size = int(lazy.figures[HEAP])
    k = lazy.place[j]
    if k < 0:
        _put(lazy, size, j)
        lazy.figures[HEAP] = size + 1
        _rise(lazy, size)
    else:
        _rise(lazy, k)
        _sink(lazy, lazy.place[j], size)


@kernel_part
def take_out(lazy: LazyMemory, j: int) -> None:
    size = int(lazy.figures[HEAP]) - 1
    k = lazy.place[j]
    last = lazy.heap[size]
    lazy.place[j] = -1
    lazy.figures[HEAP] = size
    if last != j:
        _put(lazy, k, last)
        _rise(lazy, k)
        _sink(lazy, lazy.place[last], size)


# Reading and settling.


@kernel_part
def current(lazy_set: LazySet, lazy: LazyMemory, n_constrained: int, j: int) -> float:
    value = float(lazy.value[j])
    if j < n_constrained:
        if lazy_set.kind == L2_BALL:
            return float(lazy.figures[LEVEL]) * value
        if lazy_set.kind == L1_BALL:
            size = (abs(value) - float(lazy.figures[LEVEL])) * float(lazy.rate[j]) if lazy.place[j] >= 0 else 0.0
            return size if value > 0.0 else -size
    return value


@kernel_part
def pending(lazy_set: LazySet, lazy: LazyMemory, n_constrained: int, j: int, now: int) -> float:
    """Return the sum of z over the steps that are not settled."""
    value = float(lazy.value[j])
    n_steps = now - int(lazy.done[j])
    if j < n_constrained:
        passed = float(lazy.figures[PREFIX] - lazy.mark[j])
        if lazy_set.kind == L2_BALL:
            return value * passed
        if lazy_set.kind == L1_BALL:
            size = (abs(value) * n_steps - passed) * float(lazy.rate[j]) if lazy.place[j] >= 0 else 0.0
            return size if value > 0.0 else -size
    return value * n_steps


@kernel_part
def settle(lazy_set: LazySet, lazy: LazyMemory, n_constrained: int, j: int, now: int) -> None:
    if lazy.done[j] < now:
        lazy.total[j] += pending(lazy_set, lazy, n_constrained, j, now)
        lazy.done[j] = now
    lazy.mark[j] = lazy.figures[PREFIX]
