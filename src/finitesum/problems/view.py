"""What kernels see of a problem: a tuple of its rows and numbers, and the rows of its components."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitesum.constraints.projections import Projection
from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel_part
from finitesum.losses import Loss
from finitesum.losses.arrays import row_numbers
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.rows import EVERY, CSRRows, DenseRows

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem


class View(NamedTuple):
    """What kernels see of a problem: F is the mean of n_components functions, each of batch_size consecutive rows."""

    rows: DenseRows | CSRRows
    targets: Vector  # (n,)
    offsets: Vector  # (n,)  added to each margin
    weights: Vector  # (n,)  s_i / S: they sum to 1
    equal_weight: float  # 1 / n where all weights are equal, else 0: with it a visit need not fetch the weight
    has_offsets: bool  # False where all offsets are 0
    loss: Loss
    penalty: ElasticNet  # or Separable, or Groups, in its place
    projection: Projection  # onto the constraint set, of the first n_penalised coordinates; with several outputs of all
    is_constrained: bool
    n_penalised: int  # the first coordinates of a block; an intercept stands behind them
    n_blocks: int  # see `finitesum.problems.term.CompiledTerm`
    batch_size: int
    n_components: int


@kernel_part
def first_row(view: View, component: int) -> int:
    """Return the first row of a component."""
    return component * view.batch_size


@kernel_part
def last_row(view: View, component: int) -> int:
    """Return the row behind a component's last."""
    return min((component + 1) * view.batch_size, view.rows.n_rows)


def chosen_rows(view: View, components: Indices) -> Indices | slice:
    """Return the rows of some components, increasing; `EVERY` where they are all."""
    if components.size == view.n_components:
        return EVERY
    if view.batch_size == 1:
        return components
    rows = (components[:, None] * view.batch_size + np.arange(view.batch_size)).ravel()
    return rows[rows < view.rows.n_rows]


def n_numbers(view: "View | Problem", *_others: Any) -> float:
    """Return how many numbers a pass over all rows in arrays touches; infinity where the rows are none of data."""
    is_known = isinstance(view.rows, DenseRows | CSRRows)
    return float(view.rows.values.size + view.rows.n_rows * row_numbers(view.loss)) if is_known else math.inf
