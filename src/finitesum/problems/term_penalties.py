"""Penalties as kernels take them: an `ElasticNet`, one with weights, a `Separable` penalty or `Groups`.

`as_penalty` makes them of what users write, and checks it.
"""

import hashlib
import math
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np

from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.core.jit import compilable
from finitesum.problems.penalties import PENALTIES, ElasticNet, GroupLasso, Penalty, elastic_net, soft_threshold


class TermPenalty(Protocol):
    """What kernels may call on a penalty; one that is separable has ``prox_of(coordinate, step, j)`` besides."""

    def penalty_total(self, coefficients: Vector, start: float) -> float:
        """Return the penalty of all coefficients, added to start."""

    def apply_prox(self, coefficients: Vector, step: float) -> None:
        """Apply the prox of the part that is not quadratic to all coefficients, in place."""

    def ridge(self) -> float:
        """Return the strength of the quadratic part at weight 1."""

    def lasso(self) -> float:
        """Return the strength of the absolute values at weight 1, 0 where the prox is no threshold."""

    def has_prox(self) -> bool:
        """Return whether the prox is another map than the identity."""


@compilable
class WeightedElasticNet(NamedTuple):
    """sum_j weights_j (l1 u_j + l2/2 u_j^2), u_j = scale_j |w_j|: its quadratic part is smooth.

    The scale is what coefficients have been divided by (`finitesum.problems.scaled`), 1 for those as they are.
    """

    l1: float
    l2: float
    weights: Vector  # (n_columns,)
    scale: Vector  # (n_columns,)

    def penalty_total(self, coefficients: Vector, start: float) -> float:
        for j in range(coefficients.size):
            size = self.scale[j] * abs(coefficients[j])
            start += self.weights[j] * (self.l1 * size + 0.5 * self.l2 * size * size)
        return start

    def apply_prox(self, coefficients: Vector, step: float) -> None:
        for j in range(coefficients.size):
            coefficients[j] = soft_threshold(coefficients[j], step * self.l1 * self.weights[j] * self.scale[j])

    def by_prox(self) -> "Separable":
        """Return the same penalty with its quadratic part in the prox, for kernels that know one strength of it alone."""
        return Separable(ElasticNetByProx(self.l1, self.l2), self.weights, self.scale)

    def on_columns(self, columns: Indices) -> "WeightedElasticNet":
        return self._replace(weights=self.weights[columns], scale=self.scale[columns])

    def ridge(self) -> float:
        return self.l2

    def lasso(self) -> float:
        return self.l1

    def has_prox(self) -> bool:
        return self.l1 != 0.0


@compilable
class ElasticNetByProx(NamedTuple):
    """l1 |w_j| + l2/2 w_j^2, the quadratic part in the prox too."""

    l1: float
    l2: float

    def penalty_value(self, coordinate: float) -> float:
        return self.l1 * abs(coordinate) + 0.5 * self.l2 * coordinate * coordinate

    def prox_at(self, coordinate: float, step: float) -> float:
        """Return argmin_v l1 |v| + l2/2 v^2 + (v - w_j)^2 / (2 step)."""
        return soft_threshold(coordinate, step * self.l1) / (1.0 + step * self.l2)


@compilable
class Separable(NamedTuple):
    """sum_j weights_j base(scale_j w_j): any separable penalty, by its prox alone."""

    base: Penalty
    weights: Vector  # (n_columns,)
    scale: Vector  # (n_columns,)  as that of `WeightedElasticNet`

    def prox_of(self, coordinate: float, step: float, j: int) -> float:
        """Return the prox of coordinate j: that of base, with a step that is weights_j scale_j^2 times as long."""
        weight, scale = self.weights[j], self.scale[j]
        if not weight > 0.0:
            return coordinate
        moved: float = self.base.prox_at(scale * coordinate, step * weight * scale * scale) / scale
        return moved

    def penalty_total(self, coefficients: Vector, start: float) -> float:
        for j in range(coefficients.size):
            start += self.weights[j] * self.base.penalty_value(self.scale[j] * coefficients[j])
        return start

    def apply_prox(self, coefficients: Vector, step: float) -> None:
        for j in range(coefficients.size):
            coefficients[j] = self.prox_of(coefficients[j], step, j)

    def total_beside_zeros(self, coefficients: Vector) -> float:
        """Return what `penalty_total` does, by one visit to all coefficients that are 0."""
        some = np.flatnonzero(coefficients)
        beside = (
            float(self.weights.sum() - self.weights[some].sum()) * self.base.penalty_value(0.0)
            if some.size < coefficients.size
            else 0.0
        )
        values = [self.base.penalty_value(number) for number in (self.scale * coefficients)[some].tolist()]
        return float(self.weights[some] @ np.array(values, dtype=np.float64)) + beside

    def size_of_parts(self) -> float:
        """Return 1: each coordinate is a part by itself."""
        return 1.0

    def has_derivatives(self) -> bool:
        """Return whether base knows its derivatives away from 0."""
        return hasattr(self.base, "slope_at") and hasattr(self.base, "curvature_at")

    def derivatives(self, coefficients: Vector) -> Matrix:
        """Return first and second derivatives at coefficients other than 0, shape (2, n_columns)."""
        base: Any = self.base
        at = (self.scale * coefficients).tolist()
        found = np.array([[base.slope_at(number) for number in at], [base.curvature_at(number) for number in at]])
        return found * self.weights * np.stack([self.scale, self.scale**2])

    def weak_convexity(self) -> float:
        """Return the smallest c such that penalty + c/2 ||w||^2 is convex, as far as base says it: 0 where it is convex."""
        of_base = getattr(self.base, "weak_convexity", None)
        return 0.0 if of_base is None else float(of_base() * (self.weights * self.scale**2).max(initial=0.0))

    def on_columns(self, columns: Indices) -> "Separable":
        return Separable(self.base, self.weights[columns], self.scale[columns])

    def ridge(self) -> float:
        return 0.0  # all of the penalty goes through the prox

    def lasso(self) -> float:
        return 0.0

    def has_prox(self) -> bool:
        return True

    def has_closed_form(self) -> bool:
        return False


@compilable
class Boxed(NamedTuple):
    """sum_j l1_j |w_j| + l2_j/2 w_j^2 on the box [lower, upper], by its prox: what a box is in scaled coefficients."""

    l1: Vector  # (n_columns,)
    l2: Vector
    lower: Vector
    upper: Vector

    def prox_of(self, coordinate: float, step: float, j: int) -> float:
        """Return the nearest point of the interval to the prox of the elastic net."""
        shrunk = soft_threshold(coordinate, step * self.l1[j]) / (1.0 + step * self.l2[j])
        return float(min(max(shrunk, self.lower[j]), self.upper[j]))

    def penalty_total(self, coefficients: Vector, start: float) -> float:
        for j in range(coefficients.size):
            size = abs(coefficients[j])
            start += self.l1[j] * size + 0.5 * self.l2[j] * size * size
        return start

    def apply_prox(self, coefficients: Vector, step: float) -> None:
        for j in range(coefficients.size):
            coefficients[j] = self.prox_of(coefficients[j], step, j)

    def ridge(self) -> float:
        return 0.0  # all of the penalty goes through the prox

    def lasso(self) -> float:
        return 0.0

    def has_prox(self) -> bool:
        return True

    def has_closed_form(self) -> bool:
        return False


@compilable
class Groups(NamedTuple):
    """sum_g strengths_g ||w_g|| + l1 ||w||_1: the prox shrinks each coordinate, then each group.

    With several outputs kernels see `over_outputs`, on whole iterates: a group has the coefficients of its columns for all
    outputs.
    """

    l1: float
    strengths: Vector  # (n_groups,)
    members: Indices  # (n_columns,)  the columns, group by group
    starts: Indices  # (n_groups + 1,)  where groups begin among the members
    of_member: Indices  # (n_columns,)  the group of each member

    def penalty_total(self, coefficients: Vector, start: float) -> float:
        for g in range(self.strengths.size):
            square = 0.0
            for k in range(self.starts[g], self.starts[g + 1]):
                value = coefficients[self.members[k]]
                square += value * value
                start += self.l1 * abs(value)
            start += self.strengths[g] * math.sqrt(square)
        return start

    def apply_prox(self, coefficients: Vector, step: float) -> None:
        for g in range(self.strengths.size):
            square = 0.0
            for k in range(self.starts[g], self.starts[g + 1]):
                value = soft_threshold(coefficients[self.members[k]], step * self.l1)
                coefficients[self.members[k]] = value
                square += value * value
            threshold = step * self.strengths[g]
            norm = math.sqrt(square)
            factor = 0.0 if norm <= threshold else 1.0 - threshold / norm  # NaN stays NaN
            for k in range(self.starts[g], self.starts[g + 1]):
                coefficients[self.members[k]] *= factor

    def sums(self, numbers: Vector | Flags) -> Vector:
        """Return the sum over each group of a number for each member, group by group."""
        return np.bincount(self.of_member, numbers, self.strengths.size).astype(np.float64, copy=False)

    def excess(self, gradient: Vector) -> Vector:
        """Return by how much the slope of each group at 0 is more than its penalty holds: > 0 where it leaves 0."""
        pull = np.maximum(np.abs(gradient[self.members]) - self.l1, 0.0)
        return np.asarray(np.sqrt(self.sums(pull * pull)) - self.strengths)

    def slope(self, end: Vector, direction: Vector) -> float:
        """Return the slope of the penalty along a direction, at its end or from it on: at 0 that of what grows."""
        at, along = end[self.members], direction[self.members]
        norms, sizes = np.sqrt(self.sums(at * at)), np.sqrt(self.sums(along * along))
        of_norms = np.divide(self.sums(at * along), norms, out=sizes, where=norms > 0.0)
        of_sizes = float(np.where(at == 0.0, np.abs(along), np.sign(at) * along).sum())
        return float(self.strengths @ of_norms) + self.l1 * of_sizes

    def whole(self, columns: Indices) -> Indices:
        """Return the columns of all groups that some columns are in, increasing."""
        is_in = np.zeros(self.members.max(initial=-1) + 1, dtype=bool)
        is_in[columns] = True
        return np.sort(self.members[(self.sums(is_in[self.members]) > 0.0)[self.of_member]])

    def on_columns(self, columns: Indices) -> "Groups":
        """Return the groups of some coordinates, increasing, which keep their strengths; others may be without a group."""
        places = np.full(max(self.members.max(initial=-1), columns.max(initial=-1)) + 1, -1)
        places[columns] = np.arange(columns.size)
        found = places[self.members]
        sizes = self.sums(found >= 0).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
        return groups_of(self.l1, self.strengths[sizes > 0], found[found >= 0], starts)

    def has_derivatives(self) -> bool:
        """Return True: away from 0 there are derivatives."""
        return True

    def size_of_parts(self) -> float:
        """Return how many coordinates a group has, on average."""
        return max(self.members.size, 1) / max(self.strengths.size, 1)

    def over_outputs(self, n_outputs: int, dim: int) -> "Groups":
        """Return the groups of an iterate of n_outputs blocks of length dim, sqrt(n_outputs) times as strong."""
        members = (np.arange(n_outputs)[:, None] * dim + self.members).ravel()
        by_group = np.argsort(np.tile(self.of_member, n_outputs), kind="stable")
        return groups_of(self.l1, math.sqrt(n_outputs) * self.strengths, members[by_group], n_outputs * self.starts)

    def ridge(self) -> float:
        return 0.0

    def lasso(self) -> float:
        return 0.0

    def has_prox(self) -> bool:
        return True


def groups_of(l1: float, strengths: Vector, members: Indices, starts: Indices) -> Groups:
    """Return groups whose members begin at `starts`: one more number than there are groups."""
    of_member = np.repeat(np.arange(strengths.size), np.diff(starts))
    return Groups(l1, strengths, members.astype(np.int64), starts.astype(np.int64), of_member)


def group_total(groups: Groups, coefficients: Vector, start: float) -> float:
    """Return what `Groups.penalty_total` does, by array operations."""
    values = coefficients[groups.members]
    return start + float(groups.l1 * np.abs(values).sum() + groups.strengths @ np.sqrt(groups.sums(values * values)))


def shrink_groups(groups: Groups, coefficients: Vector, step: float) -> None:
    """Do what `Groups.apply_prox` does, by array operations."""
    values, thresholds = coefficients[groups.members], step * groups.strengths
    values = np.where(np.abs(values) <= step * groups.l1, 0.0, values - np.copysign(step * groups.l1, values))
    norms = np.sqrt(groups.sums(values * values))
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = np.where(norms <= thresholds, 0.0, 1.0 - thresholds / norms)  # NaN stays NaN
    coefficients[groups.members] = values * factors[groups.of_member]


def as_penalty(penalty: Any, n_columns: int, penalty_weights: Any = None) -> Any:
    """Return what kernels take in place of a penalty of n_columns coefficients, or raise what is wrong with it.

    The weights, not with groups, are n_columns numbers >= 0 that the penalties of the coefficients are multiplied with.
    """
    if isinstance(penalty, GroupLasso):
        if penalty_weights is not None:
            raise ValueError("penalty_weights must be left out with groups, whose strengths follow from their sizes.")
        return _grouped(penalty, n_columns)
    if isinstance(penalty, WeightedElasticNet | Separable | Groups):
        return penalty
    checked = _checked_parameters(penalty)
    if isinstance(checked, ElasticNet):
        if penalty_weights is None:
            return checked
        return WeightedElasticNet(*checked, _checked_weights(penalty_weights, n_columns), np.ones(n_columns))
    weights = np.ones(n_columns) if penalty_weights is None else _checked_weights(penalty_weights, n_columns)
    return Separable(checked, weights, np.ones(n_columns))


def _checked_parameters(penalty: Any) -> Any:
    """Return a separable penalty with all its numbers as floats: one machine code for 2 and 2.0."""
    if not isinstance(penalty, tuple) or not isinstance(penalty, ElasticNet | Penalty):
        raise TypeError(
            f"penalty must be one such as MCP(0.1) (a NamedTuple with penalty_value and prox_at), got {penalty!r}. "
            "The elastic net goes by alpha and l1_ratio."
        )
    known: Any = penalty
    name = type(known).__name__
    cls, above = PENALTIES.get(name, (None, {}))
    if cls is not type(known):  # a class of the user's
        compilable(type(known))
    for field, number in known._asdict().items():
        if isinstance(number, np.ndarray):
            continue
        bound = f"> {above[field]:g} and finite" if field in above else "a finite number"
        if not isinstance(number, Real) or not above.get(field, -math.inf) < float(number) < math.inf:
            raise ValueError(f"{field} of {name} must be {bound}, got {number!r}.")
        if field in ("alpha", "l1", "l2") and float(number) < 0.0:
            raise ValueError(f"{field} of {name} must be >= 0, got {number!r}. 0 is no penalty.")
        known = known._replace(**{field: float(number)})
    return known


def _checked_weights(penalty_weights: Any, n_columns: int) -> Vector:
    try:
        weights = np.array(penalty_weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"penalty_weights must hold {n_columns} numbers: {error}.") from error
    if weights.shape != (n_columns,):
        raise ValueError(f"penalty_weights must have shape ({n_columns},), a weight a column, got {weights.shape}.")
    if not ((weights >= 0.0) & (weights < math.inf)).all():
        bad = weights[~((weights >= 0.0) & (weights < math.inf))][0]
        raise ValueError(f"penalty_weights must be >= 0 and finite, got {bad}. 0 leaves a coefficient free.")
    return weights


def _grouped(penalty: GroupLasso, n_columns: int) -> Groups:
    l1 = elastic_net(penalty.alpha, penalty.l1_ratio).l1
    labels = np.asarray(penalty.groups)
    if labels.shape != (n_columns,):
        raise ValueError(f"groups must have shape ({n_columns},), a label a column, got {labels.shape}.")
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    strengths = (float(penalty.alpha) - l1) * np.sqrt(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return groups_of(l1, strengths, np.argsort(codes, kind="stable"), starts)


def described(penalty: Any) -> str:
    """Return the repr of a penalty with a digest in the place of each array: equal for equal penalties alone."""
    if isinstance(penalty, ElasticNet):
        return repr(penalty)
    parts = [
        hashlib.blake2b(part.tobytes(), digest_size=16).hexdigest() if isinstance(part, np.ndarray) else repr(part)
        for part in penalty
    ]
    return f"{type(penalty).__module__}.{type(penalty).__name__}({', '.join(parts)})"
