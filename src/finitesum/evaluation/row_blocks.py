"""Sums over blocks of rows: the one place that knows where the rows of a problem lie.

A sum over rows is taken over *blocks*: consecutive rows that lie in memory, with their targets and weights, beside which
stands what belongs to them, such as their curvatures. A block is given to a kernel, and the blocks' sums are added in their
order. Threads share the components of a problem in memory out in blocks: a result depends on their number by rounding
errors, and on nothing else. Of a problem in parts (`finitesum.problems.partitioned`) each part is a block, wherever it is,
and the sums are added in a tree that does not depend on how many workers there are.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices
from finitesum.core.sums import added
from finitesum.core.threads import map_blocks
from finitesum.problems.beside import empty_by_row
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted, sum_over_parts
from finitesum.problems.rows import n_entries, rows_between
from finitesum.problems.view import View


class Block(NamedTuple):
    """Consecutive rows in memory, and those of their components that a sum is taken over."""

    view: View  # of these rows alone
    components: Indices  # increasing, counted from the block's first
    rows: slice  # of an array with one number per row of the problem


def _block(problem: Problem, components: Indices, leaves_out: float = 0.5) -> Block:
    """Return the rows from the first of the components to the last; all rows where that would leave a smaller part out."""
    if components.size == 0 or components[-1] + 1 - components[0] > (1.0 - leaves_out) * problem.n_components:
        return Block(problem.view_of_rows, components, slice(0, problem.n_rows))
    first, size = int(components[0]), problem.batch_size or 1
    rows = slice(first * size, min((int(components[-1]) + 1) * size, problem.n_rows))
    view = problem.view_of_rows._replace(
        rows=rows_between(problem.rows, rows.start, rows.stop),
        targets=problem.targets[rows],
        offsets=problem.offsets[rows],
        weights=problem.weights[rows],
        n_components=int(components[-1]) + 1 - first,
    )
    return Block(view, components - first, rows)


@functools.lru_cache(maxsize=2)
def _range(size: int) -> Indices:
    return np.arange(size)


def _every(n: int) -> Indices:
    """Return all of n components, in memory that all blocks share."""
    return _range(1 << max(n - 1, 1).bit_length())[:n]


def sum_over_blocks(
    function: Callable[..., Any],
    problem: Problem,
    components: Indices | None = None,
    n_threads: int = 1,
    *,
    numbers_a_row: float | None = None,
    by_component: Sequence[Any] = (),
    reads: Sequence[Any] = (),
    updates: Sequence[Any] = (),
    writes: Sequence[Any] = (),
    add: Callable[[Any, Any], Any] = added,
) -> Any:
    """Return the sum of function(block, *by_component, *reads, *updates, *writes) over blocks of some components' rows.

    The components increase; None are all. Arrays with a number for each of them, for each row, for each row that is read
    and written, and for each that is written alone are given as those of the block's. The work stands for that of reading
    `numbers_a_row` numbers for each row; left out, it reads the row's entries. A function sees nothing but its arguments
    and small things that it was made with: it may run in another process.
    """
    if is_parted(problem):

        def of_part(part: Problem, start: int, chosen: Indices | None, *arrays: Any) -> Any:
            n = part.n_rows
            block = Block(part.view_of_rows, _every(n) if chosen is None else chosen, slice(start, start + n))
            return function(block, *arrays)

        beside = {"by_component": by_component, "reads": reads, "updates": updates, "writes": writes}
        return sum_over_parts(of_part, problem, components, add=add, **beside)
    m = problem.n_components
    chosen = np.arange(m) if components is None else components

    def of_block(some: Indices) -> Any:
        block, first = _block(problem, some), 0 if some.size in (0, chosen.size) else np.searchsorted(chosen, some[0])
        numbers = (array[first : first + some.size] for array in by_component)
        return function(block, *numbers, *(array[block.rows] for array in (*reads, *updates, *writes)))

    if n_threads == 1:
        return of_block(chosen)
    n_read = n_entries(problem.rows) if numbers_a_row is None else problem.n_rows * numbers_a_row
    return functools.reduce(add, map_blocks(of_block, chosen, n_read * chosen.size / m, n_threads))


def sum_over_problems(
    function: Callable[..., Any],
    problem: Problem,
    *,
    reads: Sequence[Any] = (),
    writes: Sequence[Any] = (),
    add: Callable[[Any, Any], Any] = added,
) -> Any:
    """Return the sum of function(part, *reads, *writes) over the parts, each a problem; one in memory is its only part."""
    if not is_parted(problem):
        return function(problem, *reads, *writes)
    return sum_over_parts(
        lambda part, start, chosen, *arrays: function(part, *arrays), problem, reads=reads, writes=writes, add=add
    )


def by_row(function: Callable[..., Any], problem: Problem, *numbers: Any) -> Any:
    """Return function(view, *numbers), which has a number for each row; of rows in parts it is computed beside these."""
    if not is_parted(problem):
        return function(problem.view_of_rows, *numbers)
    out = empty_by_row(problem)

    def write(block: Block, *given: Any) -> None:
        given[-1][...] = function(block.view, *given[:-1])

    sum_over_blocks(write, problem, reads=numbers, writes=(out,))
    return out


def joined(left: Any, right: Any) -> Any:
    """Return one array behind the other: the sum of what stands by row."""
    return np.concatenate([left, right])
