"""The positive numbers of the interior-point method: what a step makes of those of some rows and sides.

Each hinge of a row, and each side, has a slack xi, a gap r, a multiplier a and 1 - a. `Inner` has those of rows that lie
together and of sides, and answers what is summed over all of them (`finitesum.methods.newton.interior_pieces`).
"""

import math
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.evaluation.hessian import gram
from finitesum.evaluation.row_products import combination, predictions
from finitesum.methods.newton.hinge_rows import Hinges, hinges_of, minorant_of, offsets_of_hinges
from finitesum.methods.newton.interior_records import (
    Ahead,
    Direction,
    Equations,
    Fixed,
    Numbers,
    Place,
    Report,
    Step,
    Targets,
)
from finitesum.methods.newton.interior_sides import Sides, sides_of
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered
from finitesum.problems.partitioned import is_parted


def _used(costs: Vector) -> Flags | None:
    used = costs > 0.0
    return None if used.all() else used


@remembered
def _fixed(problem: Problem) -> Fixed:
    """Return what stays of rows in memory, and of the sides behind them."""
    sides, costs = sides_of(problem), hinges_of(problem).costs.reshape(-1)
    if sides.costs.size == 0:
        return Fixed(costs, _used(costs), None)
    is_soft = np.concatenate([np.ones(costs.size, dtype=bool), sides.is_soft])
    costs = np.concatenate([costs, sides.costs])
    return Fixed(costs, _used(costs), None if is_soft.all() else is_soft)


def place_of_part(part: Problem, n_columns: int, size: int) -> Place:
    """Return the rows of a part, without sides."""
    hinges = hinges_of(part)
    costs = hinges.costs.reshape(-1)
    return Place(part, hinges, None, Fixed(costs, _used(costs), None), n_columns, size, 0.0)


def place_of_all(problem: Problem, sides: Sides, size: int, rows: Any) -> Place:
    """Return all rows in memory with the sides, or of rows in parts the sides alone."""
    more = sides.units.size, size, sides.radius
    if is_parted(problem):
        return Place(None, None, rows, Fixed(sides.costs, _used(sides.costs), sides.is_soft), *more)
    return Place(problem, hinges_of(problem), rows if rows.shape[0] else None, _fixed(problem), *more)


def n_wrong_of(loads: Vector) -> int:
    """Return how many numbers have left the range of floats or lost their sign."""
    return int(np.count_nonzero(~((loads >= 0.0) & (loads < np.inf))))


def curved(place: Place, step: Vector) -> float:
    """Return ||dw||^2 / (2 radius), by which an l2 ball's boundary falls away from its tangent."""
    w = step[: place.n_columns]
    return 0.5 * float(w @ w) / place.radius


class Inner:
    """The numbers of some rows and sides. What is computed is kept for later questions."""

    def __init__(self, place: Place, numbers: Numbers) -> None:
        self.place, self.numbers = place, numbers
        self._first: Direction | None = None
        self._second: Direction | None = None
        self._after: Inner | None = None
        self._wanted: tuple[float, Targets] | None = None
        self._corrected = [numbers.multipliers]  # after no correction, one, and so on

    # -- what the rows and sides are

    @property
    def n_of_rows(self) -> int:
        """The number of the rows' hinges, which are in front."""
        return 0 if self.place.hinges is None else self.place.hinges.costs.size

    def changes(self, step: Vector) -> Vector:
        """Return y_i x_i'w and what the sides make of (w, b) or (w, b, v)."""
        problem, hinges, sides, *_ = self.place
        if problem is None or hinges is None:
            return np.asarray(sides @ step[: self.place.size])
        of_rows = hinges.of_rows(predictions(problem, step[: problem.dim]))
        return of_rows if sides is None else np.concatenate([of_rows, sides @ step[: self.place.size]])

    def pulled(self, multipliers: Vector) -> Vector:
        """Return sum_i c_i a_i y_i x_i, and the same of the sides."""
        loads, n, (problem, hinges, sides, *_) = self.place.fixed.costs * multipliers, self.n_of_rows, self.place
        pull = np.zeros(self.place.size) if sides is None else sides.T @ loads[n:]
        if problem is not None and hinges is not None:
            pull[: problem.dim] += combination(problem, hinges.signed_total(loads[:n]))
        return np.asarray(pull)

    def scales(self, *, corrects: bool) -> Vector:
        """Return theta, or what stands in its place where multipliers are corrected."""
        return self.room if corrects else self.theta

    def scaled_changes(self, step: Vector, changes: Vector, *, corrects: bool = False) -> Vector:
        """Return the changes times theta, which may stand behind a step, with more digits."""
        return self.scales(corrects=corrects) * changes if step.size == self.place.size else step[self.place.size :]

    def response(self, step: Vector, *, corrects: bool) -> Vector:
        """Return sum_i c_i theta_i x_i x_i'dw, and the same of the sides."""
        return self.pulled(self.scales(corrects=corrects) * self.changes(step))

    def first_pull(self, *, corrects: bool) -> Vector:
        """Return the pull of a_i + rho_i of the first solution, whose targets are 0, or of a_i to be corrected."""
        multipliers = self.numbers.multipliers
        return self.pulled(multipliers if corrects else multipliers + self._gained_first)

    def _soft(self, numbers: Any) -> Any:
        """Return 0 where a side must hold."""
        return numbers if self.place.fixed.is_soft is None else np.where(self.place.fixed.is_soft, numbers, 0.0)

    def _where_used(self, numbers: Vector) -> Vector:
        return numbers if self.place.fixed.used is None else np.where(self.place.fixed.used, numbers, 0.0)

    @cached_property
    def theta(self) -> Vector:
        """a_i / (r_i + a_i xi_i / (1 - a_i))."""
        slacks, gaps, multipliers, free = self.numbers
        with np.errstate(all="ignore"):
            return self._where_used(multipliers / (gaps + multipliers * slacks / free))

    @cached_property
    def room(self) -> Vector:
        """min(a_i, 1 - a_i)."""
        return self._where_used(np.minimum(self.numbers.multipliers, self.numbers.complements))

    def loads(self, *, corrects: bool) -> Vector:
        """Return c_i theta_i."""
        return self.place.fixed.costs * self.scales(corrects=corrects)

    def loads_of_rows(self, loads: Vector) -> Vector:
        """Return what the loads of each row's hinges add up to."""
        return loads if self.place.hinges is None else self.place.hinges.total(loads[: self.n_of_rows])

    def equations(self, *, corrects: bool) -> Equations:
        """Return the sums of a step's equations: see `finitesum.methods.newton.interior_systems.system_at`."""
        loads, problem = self.loads(corrects=corrects), self.place.problem
        pull, n_wrong, matrix = self.first_pull(corrects=corrects), n_wrong_of(loads), np.zeros((1, 1))
        if problem is not None and n_wrong == 0:
            matrix = gram(problem, self.loads_of_rows(loads))
        return Equations(n_wrong, pull, matrix)

    # -- a step

    def _gained(self, target: Any, slack_target: Any) -> Vector:
        """Return rho: what multipliers gain by targets of a r and (1 - a) xi."""
        slacks, gaps, multipliers, free = self.numbers
        lacking = target - multipliers * gaps - multipliers * (slack_target / free - slacks)
        if (used := self.place.fixed.used) is None:
            return np.asarray(self.theta * lacking / multipliers)
        return np.asarray(np.divide(self.theta * lacking, multipliers, out=np.zeros(gaps.size), where=used))

    @cached_property
    def _gained_first(self) -> Vector:
        return self._gained(0.0, 0.0)

    def _direction(self, step: Vector, gained: Vector, slack_target: Any) -> Direction:
        """Return the direction that brings a r and (1 - a) xi to targets, up to products of its parts."""
        changes, free = self.changes(step), self.numbers.complements
        multipliers = gained - self.scaled_changes(step, changes)
        slacks = (slack_target - self.numbers.slacks * free + self.numbers.slacks * multipliers) / free
        return Direction(slacks, changes + slacks, multipliers)

    def first(self, step: Vector) -> Direction:
        """Return the direction of the first solution."""
        if self._first is None:
            self._first = self._direction(step, self._gained_first, 0.0)
        return self._first

    def aims(self, aim: float) -> Vector:
        """Return what an aim for c_i a_i r_i is for a_i r_i; 0 in rows of weight 0."""
        costs, used = self.place.fixed.costs, self.place.fixed.used
        return aim / costs if used is None else np.divide(aim, costs, out=np.zeros(costs.size), where=used)

    def _targets(self, first: Vector, aim: float) -> Targets:
        """Return what the second solution aims at, of equal products: less what the first one makes of them."""
        if self._wanted is None or self._wanted[0] != aim:
            slacks, gaps, multipliers = self.first(first)
            target = self.aims(aim)
            bent = target - multipliers * gaps
            if self.place.radius > 0.0:
                bent[-1] += self.numbers.multipliers[-1] * curved(self.place, first)
            slack_target = self._soft(target + multipliers * slacks)
            self._wanted = aim, Targets(bent, slack_target, self._gained(bent, slack_target))
        return self._wanted[1]

    def aiming(self, step: Step, products: Vector, slack_products: Vector) -> "Inner":
        """Return the same numbers where the second solution aims at these more than that of a step did."""
        before, other = self._targets(step.first, step.aim), copy(self)
        bent, slack_target = before.products + products, before.slacks + self._soft(slack_products)
        other._wanted, other._second = (step.aim, Targets(bent, slack_target, self._gained(bent, slack_target))), None
        return other

    def products_at(self, step: Step, length: float) -> tuple[Vector, Vector]:
        """Return a r and (1 - a) xi at some length of a step's second solution."""
        (slacks, gaps, multipliers, free), change = self.numbers, self.second(step.first, step.aim, step.second)
        at_gaps = (multipliers + length * change.multipliers) * (gaps + length * change.gaps)
        return at_gaps, (free - length * self._soft(change.multipliers)) * (slacks + length * change.slacks)

    def second_pull(self, first: Vector, aim: float) -> Vector:
        """Return the pull of a_i + rho_i of the second solution, which aims at products and sees those of the first."""
        return self.pulled(self.numbers.multipliers + self._targets(first, aim).gained)

    def second(self, first: Vector, aim: float, step: Vector) -> Direction:
        """Return the direction of the second solution."""
        if self._second is None:
            targets = self._targets(first, aim)
            self._second = self._direction(step, targets.gained, targets.slacks)
        return self._second

    def _length(self, direction: Direction, step: Vector, fraction: float) -> float:
        """Return the length <= 1 that keeps slacks, gaps, multipliers and 1 - multipliers positive in the rows in use."""
        length, used, fastest = 1.0, self.place.fixed.used, 0.0
        with np.errstate(all="ignore"):  # 0 / 0 of a slack that there is not
            for here, change in zip(self.numbers, (*direction, self._soft(-direction.multipliers)), strict=True):
                rates = change / here
                fastest = min(fastest, float(np.fmin.reduce(rates if used is None else rates[used], initial=0.0)))
        if fastest < 0.0:
            length = min(length, fraction / -fastest)
        if self.place.radius > 0.0 and (fall := curved(self.place, step)) > 0.0:  # gap + t change - t^2 fall > 0
            gap, change = self.numbers.gaps[-1], direction.gaps[-1]
            root = math.sqrt(change**2 + 4.0 * gap * fall)
            length = min(
                length, fraction * ((root + change) / (2.0 * fall) if change > 0.0 else 2.0 * gap / (root - change))
            )
        return length

    def ahead(self, step: Vector, aims: tuple[float, ...] = ()) -> Ahead:
        """Return how far the first solution may be gone, and what comes of the products on the way."""
        (slacks, gaps, multipliers, free), costs = self.numbers, self.place.fixed.costs
        direction = self.first(step)
        falling = self._soft(direction.multipliers)  # by what 1 - a decreases
        linear = costs @ (multipliers * direction.gaps + direction.multipliers * gaps)
        linear += costs @ (free * direction.slacks - falling * slacks)
        square, cube = costs @ (direction.multipliers * direction.gaps - falling * direction.slacks), 0.0
        if self.place.radius > 0.0:
            fall = costs[-1] * curved(self.place, step)
            square, cube = square - fall * multipliers[-1], -fall * direction.multipliers[-1]
        pulls = np.array([self.second_pull(step, aim) for aim in aims])
        return Ahead(self._length(direction, step, 1.0), np.array([linear, square, cube]), pulls)

    def length(self, first: Vector, aim: float, second: Vector, fraction: float) -> float:
        """Return how far the second solution may be gone, up to a fraction of the distance."""
        return self._length(self.second(first, aim, second), second, fraction)

    def moved(self, step: Step) -> "Inner":
        """Return the numbers after a step."""
        if self._after is None:
            (slacks, gaps, multipliers, free), t = self.numbers, step.length
            direction = self.second(step.first, step.aim, step.second)
            gaps = gaps + t * direction.gaps
            if self.place.radius > 0.0:
                gaps[-1] -= curved(self.place, step.second) * t * t
            after = Numbers(
                slacks + t * direction.slacks,
                gaps,
                multipliers + t * direction.multipliers,
                free - t * self._soft(direction.multipliers),
            )
            self._after = Inner(self.place, after)
        return self._after

    # -- what is known of them

    def products(self) -> float:
        """Return the sum of the products that vanish at the minimum, in units of F."""
        slacks, gaps, multipliers, free = self.numbers
        return float((self.place.fixed.costs * (multipliers * gaps + free * slacks)).sum())

    def minorant(self, multipliers: Vector) -> tuple[Vector, Matrix]:
        """Return the sums of `finitesum.evaluation.certificates.dual_minorant`, for multipliers brought to [0, 1]."""
        if self.place.problem is None:
            return np.zeros(2), np.zeros((2, 1))
        return minorant_of(self.place.problem, multipliers)

    def corrected(self, steps: tuple[Vector, ...]) -> Vector:
        """Return the multipliers after corrections."""
        for step in steps[len(self._corrected) - 1 :]:
            lost = self.scaled_changes(step, self.changes(step), corrects=True)
            self._corrected.append(self._corrected[-1] - lost)
        return np.asarray(self._corrected[len(steps)])

    def corrected_pull(self, steps: tuple[Vector, ...]) -> Vector:
        """Return the pull of the multipliers after corrections."""
        return self.pulled(self.corrected(steps))

    def corrected_minorant(self, steps: tuple[Vector, ...]) -> tuple[Vector, Matrix]:
        """Return the minorant's sums of the multipliers after corrections."""
        return self.minorant(self.corrected(steps))

    def report(self, points: tuple[Vector, ...]) -> Report:
        """Return the sums at the end of a step."""
        n, (problem, hinges, *_) = self.n_of_rows, self.place
        costs, at_points = self.place.fixed.costs[:n], np.zeros(len(points))
        losses = float(costs @ np.maximum(self.numbers.slacks[:n] - self.numbers.gaps[:n], 0.0))
        if problem is not None and hinges is not None:
            at_points[:] = [costs @ np.maximum(1.0 - _margins(problem, hinges, point), 0.0) for point in points]
        return Report(losses, self.products(), at_points, *self.minorant(self.numbers.multipliers))


def _margins(problem: Problem, hinges: Hinges, x: Vector) -> Vector:
    """Return m_i = y_i (x_i'w + b + o_i)."""
    return hinges.of_rows(predictions(problem, x) + offsets_of_hinges(problem))


def start_at(place: Place, z: Vector, beyond: Vector, mean_cost: float) -> Inner:
    """Return the numbers before the first step: slacks so that nothing is tight, multipliers 1/2."""
    (costs, used, is_soft), (problem, hinges, *_) = place.fixed, place
    margins = beyond
    if problem is not None and hinges is not None:
        of_rows = _margins(problem, hinges, z[: problem.dim]) - 1.0
        margins = np.concatenate([of_rows, beyond]) if beyond.size else of_rows
    units = np.divide(mean_cost, costs, out=np.ones(costs.size), where=True if used is None else used)
    soft = True if is_soft is None else is_soft
    slacks = np.where(soft, np.maximum(-margins, 0.0) + np.maximum(units, 1.0), 0.0)
    gaps = margins + slacks
    complements = np.where(soft, np.full(gaps.size, 0.5), 1.0)
    return Inner(place, Numbers(slacks, gaps, np.where(soft, 0.5, 0.5 * units / gaps), complements))
