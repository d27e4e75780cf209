"""Losses with corners as hinge losses, one or several for each row, for the method that knows the hinge.

With corners k_1 and k_2 of a row, and slopes low <= 0 <= high beside them, the loss is a sum of hinges::

    max(low (u - k), high (u - k)) = -low max(0, k - u) + high max(0, u - k)

A hinge max(0, 1 - y (x'w + b + o)) with y = 1 and o = 1 - k is the first, with y = -1 and o = -1 - k the second. So a row
has two of them, which read its entries once: sums over rows take the two together.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation.row_blocks import sum_over_problems
from finitesum.evaluation.row_products import combination
from finitesum.losses import Hinge
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered


class Hinges(NamedTuple):
    """The J hinge losses of each row: sum_j c_ij max(0, 1 - y_ij (x_i'w + b + o_ij)); numbers stand hinge by hinge."""

    signs: Matrix  # (1, n) or (J, 1)  y_ij
    costs: Matrix  # (J, n)  c_ij

    def of_rows(self, numbers: Vector) -> Vector:
        """Return y_ij u_i, shape (J n,), for numbers u_i of the rows, or (J, n) of the hinges."""
        return np.asarray((self.signs * numbers).reshape(-1))

    def total(self, loads: Vector) -> Vector:
        """Return sum_j l_ij, shape (n,), for loads of shape (J n,)."""
        return loads if len(self.costs) == 1 else np.asarray(loads.reshape(self.costs.shape).sum(axis=0))

    def signed_total(self, loads: Vector) -> Vector:
        """Return sum_j y_ij l_ij, shape (n,), for loads of shape (J n,)."""
        if len(self.costs) == 1:
            return np.asarray(loads * self.signs[0])
        return np.asarray(self.signs[:, 0] @ loads.reshape(self.costs.shape))

    def of_sign(self, sign: float, loads: Vector) -> Matrix:
        """Return the loads of the hinges with a sign, the others 0, shape (J, n)."""
        return np.where(self.signs == sign, loads.reshape(self.costs.shape), 0.0)


def _corners(loss: Any, targets: Any) -> Iterator[tuple[Any, float, Any]]:
    """Yield slope, sign and corner of each hinge; slopes that are 0 for every row there may be make none."""
    for low, high, point in loss.corners(targets):
        for slope, sign in ((-low, 1.0), (high, -1.0)):
            if np.ndim(slope) or slope:
                yield slope, sign, point


def n_hinges(problem: Problem) -> int:
    """Return J, the hinges of each row."""
    return 1 if isinstance(problem.loss, Hinge) else len(list(_corners(problem.loss, np.zeros(1))))


@remembered
def hinges_of(problem: Problem) -> Hinges:
    """Return the hinges of rows in memory."""
    if isinstance(problem.loss, Hinge):
        return Hinges(problem.targets[None], (problem.loss.scale * problem.weights)[None])
    found = list(_corners(problem.loss, problem.targets))
    signs = np.array([[sign] for _, sign, _ in found])
    return Hinges(signs, np.stack([problem.weights * slope for slope, _, _ in found]))


@remembered
def offsets_of_hinges(problem: Problem) -> Matrix:
    """Return o_ij of rows in memory, shape (J, n)."""
    if isinstance(problem.loss, Hinge):
        return problem.offsets[None]
    return np.stack([problem.offsets + sign - point for _, sign, point in _corners(problem.loss, problem.targets)])


def minorant_of(problem: Problem, multipliers: Vector) -> tuple[Vector, Matrix]:
    """Return the sums of `finitesum.evaluation.certificates.dual_minorant`, for multipliers brought to [0, 1].

    Of rows in memory; what stands behind the multipliers of their hinges is not read.
    """
    hinges, offsets = hinges_of(problem), offsets_of_hinges(problem)
    constants, slopes, costs = np.zeros(2), np.zeros((2, problem.dim)), hinges.costs.reshape(-1)
    loads = costs * np.clip(multipliers[: costs.size], 0.0, 1.0)
    for side, sign in ((0, 1.0), (1, -1.0)):
        part = hinges.of_sign(sign, loads)
        constants[side] = part.reshape(-1) @ (1.0 - sign * offsets).reshape(-1)
        slopes[side] = -sign * combination(problem, hinges.total(part.reshape(-1)))
    return constants, slopes


class Totals(NamedTuple):
    """What there is of all rows' hinges."""

    cost: float  # sum of c_ij
    n_used: int  # that are > 0


@remembered
def totals_of(problem: Problem) -> Totals:
    """Return the sum of all costs, and how many there are."""

    def of_part(part: Problem) -> Totals:
        costs = hinges_of(part).costs
        return Totals(float(costs.reshape(-1).sum()), int(np.count_nonzero(costs > 0.0)))

    found: Totals = sum_over_problems(of_part, problem)
    return found
