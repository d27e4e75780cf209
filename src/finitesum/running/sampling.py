"""Visiting orders: which component comes when.

The order of pass k is a pure function of (seed, k): nothing is remembered, so a run that goes on from a checkpoint sees
what the uninterrupted run saw.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.problems.partitioned import parts_of_components, stops_of_parts


def _generator(seed: int, k: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, k])))


@functools.lru_cache(maxsize=4)
def _permutation(seed: int, n: int) -> Indices:
    return _generator(seed, 0).permutation(n).astype(np.int64, copy=False)


Sampling = Literal["cyclic", "shuffled-once", "shuffled", "with-replacement"]

#: The orders of pass k, given (seed, k, n), by the names that users write.
SAMPLINGS: dict[str, Callable[[int, int, int], Indices]] = {
    # file order, in each pass
    "cyclic": lambda seed, k, n: np.arange(n, dtype=np.int64),
    # one permutation, the same in each pass
    "shuffled-once": lambda seed, k, n: _permutation(seed, n).copy(),
    # a new permutation for each pass
    "shuffled": lambda seed, k, n: _generator(seed, k).permutation(n).astype(np.int64, copy=False),
    # independent uniform draws: some components come twice, about a third not at all
    "with-replacement": lambda seed, k, n: _generator(seed, k).integers(0, n, size=n, dtype=np.int64),
}


def order_of_pass(sampling: str, seed: int, k: int, n: int) -> Indices:
    """Return the n components in the order of their visits in pass k = 0, 1, ..., by the name of the order."""
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling must be one of {', '.join(SAMPLINGS)}, got {sampling!r}.")
    return SAMPLINGS[sampling](seed, k, n)


def order_for(problem: Any, sampling: str, seed: int, k: int) -> Indices:
    """Return the order of pass k on a problem; of rows in parts, and from parts, components of a part follow each other.

    The parts come in the order in which the sampling visits them first: a sample takes whole parts first. A component
    with rows of two parts comes with the later one, so that no part is read for a few of its rows before.
    """
    order = order_of_pass(sampling, seed, k, problem.n_components)
    stops = stops_of_parts(problem)
    if not stops:
        return order
    begins, ends = parts_of_components(problem)
    visited, first = np.unique(begins[order], return_index=True)
    places = np.zeros(len(stops), dtype=np.int64)
    places[visited] = first
    return order[np.argsort(np.maximum(places[begins], places[ends])[order], kind="stable")]


def as_seed(random_state: Any) -> int:
    """Return the whole number >= 0 that stands for a random state: itself, or one drawn from a generator or the system."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, int | np.integer) and random_state >= 0:
        return int(random_state)
    raise ValueError(f"random_state must be a whole number >= 0, a numpy generator or None, got {random_state!r}.")
