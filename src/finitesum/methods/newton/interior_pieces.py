"""The positive numbers of the interior-point method, wherever rows lie: sums of what their pieces answer.

Rows in memory and the sides behind them are one piece; of rows in parts each part is one, beside which its numbers stay,
and the sides are another where the method runs. There a step is six rounds, each of one call for every part: what an
earlier one found is computed again, so that only the last writes numbers by row.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.sums import added
from finitesum.evaluation.row_blocks import sum_over_problems
from finitesum.methods.newton.hinge_rows import n_hinges
from finitesum.methods.newton.interior_numbers import Inner, place_of_all, place_of_part, start_at
from finitesum.methods.newton.interior_records import Ahead, Numbers, Report, Step
from finitesum.methods.newton.interior_sides import sides_of
from finitesum.problems.beside import empty_by_row
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted


def _flat(numbers: Any) -> Vector:
    """Return a part's numbers hinge by hinge."""
    return np.asarray(numbers.T.reshape(-1))


def _write(inner: Inner, written: Any) -> None:
    for out, numbers in zip(written, inner.numbers, strict=True):
        out.T[...] = numbers.reshape(out.T.shape)


def _by_row(problem: Problem) -> Any:
    n = n_hinges(problem)
    return [empty_by_row(problem, np.float64, n if n > 1 else 0) for _ in Numbers._fields]


def _with_least_length(left: Ahead, right: Ahead) -> Ahead:
    return Ahead(min(left.length, right.length), *added(left[1:], right[1:]))


class Pieces:
    """All numbers at a point z: with those of rows in memory the sides' are one piece, of rows in parts one beside them."""

    def __init__(self, problem: Problem, z: Vector, numbers: Numbers, of_sides: Matrix) -> None:
        self.problem, self.numbers, self.sides, self.size = problem, numbers, sides_of(problem), z.size
        place = place_of_all(problem, self.sides, z.size, self.sides.rows_at(z))
        self.here = Inner(place, Numbers(*of_sides) if is_parted(problem) else numbers)

    def sum(self, ask: Callable[..., Any], add: Callable[[Any, Any], Any] = added, written: Any = ()) -> Any:
        """Return the sum of what is asked of each piece, and what is written of it: of parts where they are, in a tree."""
        if not is_parted(self.problem):
            return ask(self.here)
        n_columns, size, n = self.sides.units.size, self.size, len(self.numbers)

        def of_part(part: Problem, *arrays: Any) -> Any:
            numbers = Numbers(*map(_flat, arrays[:n]))
            return ask(Inner(place_of_part(part, n_columns, size), numbers), *arrays[n:])

        total = sum_over_problems(of_part, self.problem, reads=self.numbers, writes=written, add=add)
        return add(total, ask(self.here)) if self.sides.costs.size else total

    def with_inner(self, here: Inner) -> "Pieces":
        """Return the same with other targets of what is here."""
        other = copy(self)
        other.here = here
        return other

    def ahead(self, first: Vector, aim: float) -> Ahead:
        """Return what the first solution promises; of rows in parts with pulls of the second for the aims 0 and this."""
        if not is_parted(self.problem):
            return self.here.ahead(first)
        found: Ahead = self.sum(lambda inner: inner.ahead(first, (0.0, aim)), _with_least_length)
        return found

    def second_pull(self, first: Vector, aim: float, known: Ahead, of_known: float) -> Vector:
        """Return the pull of the second solution for an aim, which is linear in it: between those that are known."""
        if not is_parted(self.problem):
            return self.here.second_pull(first, aim)
        at_zero, at_known = known.pulls
        return np.asarray(at_zero + aim / of_known * (at_known - at_zero))

    def length(self, first: Vector, aim: float, second: Vector, fraction: float) -> float:
        """Return how far the second solution may be gone."""
        return float(self.sum(lambda inner: inner.length(first, aim, second, fraction), min))

    def sides_after(self, step: Step) -> Any:
        """Return the sides' numbers after a step."""
        n = self.here.n_of_rows
        return Numbers(*(numbers[n:] for numbers in self.here.moved(step).numbers))

    def moved(self, step: Step, points: tuple[Vector, ...]) -> tuple[Numbers, Matrix, Report]:
        """Return the numbers after a step, those of sides beside parts, and sums, with the losses at some points."""

        def ask(inner: Inner, *written: Any) -> Report:
            after = inner.moved(step)
            if written:
                _write(after, written)
            return after.report(points)

        if not is_parted(self.problem):
            return self.here.moved(step).numbers, np.zeros((len(self.numbers), 0)), self.sum(ask)
        written = _by_row(self.problem)
        found = self.sum(ask, written=written)
        return Numbers(*written), np.stack(self.sides_after(step)), found


def begun(problem: Problem, z: Vector, beyond: Vector) -> tuple[Numbers, Matrix, float]:
    """Return the numbers before the first step, those of sides beside parts, and the sum of the products.

    `beyond` is how far the sides are from being tight at z, shape (k,).
    """
    sides = sides_of(problem)
    n_columns, size, mean_cost = sides.units.size, z.size, sides.mean_cost
    here = start_at(place_of_all(problem, sides, size, sides.rows_at(z)), z, beyond, mean_cost)
    if not is_parted(problem):
        return here.numbers, np.zeros((len(here.numbers), 0)), here.products()

    def of_part(part: Problem, *written: Any) -> float:
        inner = start_at(place_of_part(part, n_columns, size), z, np.zeros(0), mean_cost)
        _write(inner, written)
        return inner.products()

    written = _by_row(problem)
    products = sum_over_problems(of_part, problem, writes=written) + here.products()
    return Numbers(*written), np.stack(here.numbers), products
