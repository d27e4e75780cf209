"""What deferred projections remember: the coordinates between two touches, and the heap of those that are not zero.

See `finitesum.methods.projected.sparse_steps` for the laws.
"""

from typing import NamedTuple

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel_part

# Kinds of sets.
FREE, INTERVALS, L1_BALL, L2_BALL = 0, 1, 2, 3

# Places in `SparseMemory.figures`.
LEVEL, PREFIX, NORM, SLOPE, DECAY, HEAP = 0, 1, 2, 3, 4, 5
LOST = 6  # what rounding took from N and C stands this many places behind them
N_FIGURES = 12


class Domain(NamedTuple):
    """A constraint set as deferred projections see it; coordinates behind the first n_constrained are free."""

    kind: int
    n_constrained: int
    radius: float
    lower: Vector  # (n_constrained,) for INTERVALS, else empty
    upper: Vector


class SparseMemory(NamedTuple):
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
def add_to(sparse: SparseMemory, which: int, value: float) -> None:
    """Add to N or C and keep what rounding loses: 1/kappa without any subgradient yet is 1e8 times the others."""
    old = sparse.figures[which]
    new = old + value
    part = new - old
    sparse.figures[which] = new
    sparse.figures[which + LOST] += (old - (new - part)) + (value - part)


@kernel_part
def sum_of(sparse: SparseMemory, which: int) -> float:
    """Return N or C."""
    return float(sparse.figures[which] + sparse.figures[which + LOST])


# The heap: a binary tree in an array, in which each coordinate's place is known.


@kernel_part
def key_of(sparse: SparseMemory, j: int) -> float:
    return float(abs(sparse.value[j]))


@kernel_part
def _put(sparse: SparseMemory, k: int, j: int) -> None:
    sparse.heap[k] = j
    sparse.place[j] = k


@kernel_part
def _raise_entry(sparse: SparseMemory, k: int) -> None:
    """Move the entry at k up to its place."""
    j = sparse.heap[k]
    key = key_of(sparse, j)
    while k > 0:
        parent = (k - 1) // 2
        other = sparse.heap[parent]
        if key_of(sparse, other) <= key:
            break
        _put(sparse, k, other)
        k = parent
    _put(sparse, k, j)


@kernel_part
def _lower_entry(sparse: SparseMemory, k: int, size: int) -> None:
    """Move the entry at k down to its place."""
    j = sparse.heap[k]
    key = key_of(sparse, j)
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size and key_of(sparse, sparse.heap[child + 1]) < key_of(sparse, sparse.heap[child]):
            child += 1
        other = sparse.heap[child]
        if key_of(sparse, other) >= key:
            break
        _put(sparse, k, other)
        k = child
    _put(sparse, k, j)


@kernel_part
def place_in_heap(sparse: SparseMemory, j: int) -> None:
    """Take a coordinate in, or move it to where its new key belongs."""
    size = int(sparse.figures[HEAP])
    k = sparse.place[j]
    if k < 0:
        _put(sparse, size, j)
        sparse.figures[HEAP] = size + 1
        _raise_entry(sparse, size)
    else:
        _raise_entry(sparse, k)
        _lower_entry(sparse, sparse.place[j], size)


@kernel_part
def take_out(sparse: SparseMemory, j: int) -> None:
    """Take a coordinate out of the heap."""
    size = int(sparse.figures[HEAP]) - 1
    k = sparse.place[j]
    last = sparse.heap[size]
    sparse.place[j] = -1
    sparse.figures[HEAP] = size
    if last != j:
        _put(sparse, k, last)
        _raise_entry(sparse, k)
        _lower_entry(sparse, sparse.place[last], size)


@kernel_part
def _law(domain: Domain, sparse: SparseMemory, j: int, n_steps: int, level: float) -> float:
    """Return the sum of z_j over some steps, from the sum of L or rho over them."""
    value = float(sparse.value[j])
    if j < domain.n_constrained:
        if domain.kind == L2_BALL:
            return value * level
        if domain.kind == L1_BALL:
            size = (abs(value) * n_steps - level) * float(sparse.rate[j]) if sparse.place[j] >= 0 else 0.0
            return size if value > 0.0 else -size
    return value * n_steps


@kernel_part
def current(domain: Domain, sparse: SparseMemory, j: int) -> float:
    """Return z_j."""
    return _law(domain, sparse, j, 1, sparse.figures[LEVEL])


@kernel_part
def pending(domain: Domain, sparse: SparseMemory, j: int, now: int) -> float:
    """Return the sum of z_j over the steps that are not settled."""
    return _law(domain, sparse, j, now - sparse.done[j], sparse.figures[PREFIX] - sparse.mark[j])


@kernel_part
def settle(domain: Domain, sparse: SparseMemory, j: int, now: int) -> None:
    """Add the steps since the last touch to the sum of z_j."""
    if sparse.done[j] < now:
        sparse.total[j] += pending(domain, sparse, j, now)
        sparse.done[j] = now
    sparse.mark[j] = sparse.figures[PREFIX]
