"""The projection of several outputs: the coefficients of each of them lie in a set by themselves."""

from typing import Any

import numpy as np

from finitesum.constraints.projections import (
    BoxProjection,
    IntervalProjection,
    Projection,
    project_euclidean,
    project_in_metric,
)
from finitesum.constraints.whole_arrays import n_numbers
from finitesum.core.arrays import Vector
from finitesum.core.jit import Interpreted


class OutputsProjection(Interpreted):
    """A projection of the first n_columns numbers of each of n_outputs blocks of one length; the intercepts behind stay.

    Kernels of several outputs run as Python, and so does this; the projection of a block is compiled where it is long.
    """

    def __init__(self, one: Projection, n_outputs: int, n_columns: int) -> None:
        self.one, self.n_outputs, self.n_columns = one, n_outputs, n_columns

    def _blocks(self, x: Vector) -> Any:
        return x.reshape(self.n_outputs, -1)

    def n_numbers(self, x: Vector) -> float:
        """Return the numbers that are computed while x is projected by whole arrays."""
        return n_numbers(self.one, x)

    def project_into(self, x: Vector, metric: Vector, out: Vector) -> None:
        if isinstance(self.one, IntervalProjection | BoxProjection):
            self.project_euclidean_into(x, out)
            return
        d = self.n_columns
        if out is not x:
            out[:] = x
        for block, weights in zip(self._blocks(out), self._blocks(metric), strict=True):
            project_in_metric(self.one, block[:d], weights[:d], block[:d])

    def project_euclidean_into(self, x: Vector, out: Vector) -> None:
        d = self.n_columns
        if out is not x:
            out[:] = x
        blocks = self._blocks(out)[:, :d]
        if isinstance(self.one, IntervalProjection | BoxProjection):
            blocks[:] = np.minimum(np.maximum(blocks, self.one.lower), self.one.upper)
            return
        for block in blocks:
            project_euclidean(self.one, block, block)
