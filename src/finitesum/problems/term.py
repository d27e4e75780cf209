"""The convex term of an objective: a penalty and a set, on the first coordinates of an iterate.

    F(w) = f(w) + quadratic'w^2 / 2 + r(w),      f the mean loss

The quadratic part of the penalty joins the smooth function f, to which it lends its gradient and curvature. The rest, r,
is the part of the penalty that has a prox, or the indicator function of the set. An intercept stands behind the
coordinates that the term acts on, and is neither penalised nor constrained.

Whoever needs a prox takes a term, not a problem: every kind of problem has one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from finitesum.constraints import Constraint, Unconstrained
from finitesum.constraints.projections import Projection
from finitesum.core.arrays import Vector
from finitesum.core.jit import compiled_form, kernel
from finitesum.problems.penalties import ElasticNet


class CompiledTerm(NamedTuple):
    """What kernels see of a term; a `LinearSum` has the same fields and may stand in its place."""

    penalty: ElasticNet
    projection: Projection  # onto the set, of the first n_penalised coordinates
    is_constrained: bool
    n_penalised: int  # the first coordinates of a block; an intercept stands behind them
    n_blocks: int  # of equal length, one behind the other: more than one where there are several outputs


class HasTerm(Protocol):
    """A `CompiledTerm` or a `LinearSum`."""

    @property
    def penalty(self) -> ElasticNet: ...
    @property
    def projection(self) -> Projection: ...
    @property
    def is_constrained(self) -> bool: ...
    @property
    def n_penalised(self) -> int: ...


@kernel
def _prox(penalty: ElasticNet, w: Vector, step_size: float) -> None:
    for j in range(w.size):
        w[j] = penalty.prox_at(w[j], step_size)


@kernel
def _project(projection: Projection, w: Vector) -> None:
    projection.project_euclidean_into(w, w)


def prox_in_place(term: HasTerm, w: Vector, step_size: float) -> None:
    """Apply the prox of the penalty, or the projection; w has the length of an iterate and the intercept stays."""
    if term.is_constrained:
        _project(term.projection, w[: term.n_penalised])
    elif term.penalty.lasso() != 0.0:
        _prox(term.penalty, w[: term.n_penalised], step_size)


@compiled_form(of=prox_in_place)
def _prox_in_place(term: HasTerm, w: Vector, step_size: float) -> None:
    if term.is_constrained:
        coefficients = w[: term.n_penalised]
        term.projection.project_euclidean_into(coefficients, coefficients)
    else:
        for j in range(term.n_penalised):
            w[j] = term.penalty.prox_at(w[j], step_size)


@kernel
def _prox_step(term: CompiledTerm, w: Vector, gradient: Vector, step_size: float) -> Vector:
    moved = w - step_size * gradient
    size = w.size // term.n_blocks
    for block in range(term.n_blocks):
        prox_in_place(term, moved[block * size : (block + 1) * size], step_size)
    return moved


@kernel
def _add_penalty(term: CompiledTerm, w: Vector, gradient: Vector) -> float:
    """Add the gradient of the quadratic part to `gradient` and return the penalty."""
    total = 0.0
    ridge = term.penalty.ridge()
    for start in range(0, w.size, w.size // term.n_blocks):
        for j in range(start, start + term.n_penalised):
            total += term.penalty.penalty_value(w[j])
            gradient[j] += ridge * w[j]
    return total


@dataclass(frozen=True, eq=False)
class ConvexTerm:
    """A penalty and a set that act on the first coordinates of an iterate.

    Parameters
    ----------
    penalty : ElasticNet
    constraint : Constraint
        `Unconstrained` where there is none.
    n_columns : int >= 0
        The number of coordinates that the term acts on.
    n_free : int >= 0
        The number of coordinates behind them: 1 with an intercept.
    n_blocks : int >= 1
        How often these n_columns + n_free coordinates follow each other in an iterate: the number of classes.

    Examples
    --------
    >>> term = ConvexTerm(ElasticNet(1.0, 0.5), Unconstrained(), n_columns=2, n_free=1)
    >>> w = np.array([3.0, -0.5, 7.0])
    >>> term.value(w), term.prox(w, 1.0), term.quadratic
    (5.8125, array([2., 0., 7.]), array([0.5, 0.5, 0. ]))
    """

    penalty: ElasticNet
    constraint: Constraint
    n_columns: int
    n_free: int = 0
    n_blocks: int = 1

    @property
    def dim(self) -> int:
        """The length of an iterate."""
        return self.n_blocks * (self.n_columns + self.n_free)

    @property
    def is_constrained(self) -> bool:
        """Whether the coordinates are confined to a set."""
        return not isinstance(self.constraint, Unconstrained)

    @property
    def has_l1(self) -> bool:
        """Whether the penalty has an absolute value in it."""
        return self.penalty.lasso() > 0.0

    @property
    def is_smooth(self) -> bool:
        """Whether the term is its quadratic part: r = 0."""
        return not (self.is_constrained or self.has_l1)

    @cached_property
    def compiled(self) -> CompiledTerm:
        """What kernels take in place of the term."""
        return CompiledTerm(self.penalty, self.constraint.compiled, self.is_constrained, self.n_columns, self.n_blocks)

    @cached_property
    def quadratic(self) -> Vector:
        """The strength of the quadratic part by coordinates, shape (dim,): 0 for intercepts."""
        return self._on_coordinates(self.penalty.ridge())

    @cached_property
    def thresholds(self) -> Vector:
        """The strength of the absolute values by coordinates, shape (dim,): 0 for intercepts."""
        return self._on_coordinates(self.penalty.lasso())

    def _on_coordinates(self, strength: float) -> Vector:
        strengths = np.full(self.dim, strength)
        strengths.reshape(self.n_blocks, -1)[:, self.n_columns :] = 0.0
        return strengths

    def coefficients(self, w: Vector) -> Vector:
        """Return the coordinates that the term acts on, a view of w where there is one block."""
        return w[: self.n_columns] if self.n_blocks == 1 else w.reshape(self.n_blocks, -1)[:, : self.n_columns].ravel()

    def value(self, w: Vector) -> float:
        """Return the penalty at w, its quadratic part included; a point outside of the set has no other value."""
        coefficients = self.coefficients(w)
        penalty = self.penalty.lasso() * np.abs(coefficients).sum()
        return float(penalty + 0.5 * self.penalty.ridge() * (coefficients @ coefficients))

    def add_to(self, gradient: Vector, w: Vector) -> float:
        """Add the quadratic part's gradient at w to that of the mean loss, in place, and return the whole penalty."""
        return float(_add_penalty(self.compiled, w, gradient))

    def prox(self, v: Vector, step_size: float) -> Vector:
        """Return argmin_w r(w) + ||w - v||^2 / (2 step_size), a new array; on a set that is the projection."""
        return self.prox_step(v, np.zeros(v.size), step_size)

    def prox_step(self, w: Vector, gradient: Vector, step_size: float) -> Vector:
        """Return prox(w - step_size gradient), a new array: the intercept only steps."""
        return _prox_step(self.compiled, w, gradient, step_size)

    def project(self, w: Vector) -> Vector:
        """Return the nearest point whose coefficients lie in the set: w itself where there is no set."""
        return self.prox(w, 0.0) if self.is_constrained else w

    def optimality(self, w: Vector, gradient: Vector) -> float:
        """Return ||w - prox(w - gradient)||_2, given the gradient of the smooth part at w; its own norm where r = 0."""
        mapping = gradient if self.is_smooth else w - self.prox_step(w, gradient, 1.0)
        with np.errstate(over="ignore"):
            return math.sqrt(mapping @ mapping)

    def on_columns(self, columns: Any) -> ConvexTerm:
        """Return the term in some of the coefficients, where the others are 0; the intercept stays.

        Raises
        ------
        ValueError
            The set has no point whose other coefficients are 0.
        """
        constraint = self.constraint.on_columns(columns) if columns.size > 0 else Unconstrained()
        return ConvexTerm(self.penalty, constraint, int(columns.size), self.n_free, self.n_blocks)


def checked_constraint(constraint: Constraint | None, n_columns: int, penalty: ElasticNet) -> Constraint:
    """Return the set of a problem in n_columns variables, the whole space for None.

    Raises
    ------
    TypeError
        It is no set.
    ValueError
        It is made for another number of variables, or stands beside an l1 penalty.
    """
    if constraint is None:
        return Unconstrained()
    if not isinstance(constraint, Constraint):
        raise TypeError(
            f"constraint must be a set from finitesum.constraints such as L1Ball(10.0), got {constraint!r}."
        )
    constraint.check_dim(n_columns)
    if penalty.lasso() > 0.0 and not isinstance(constraint, Unconstrained):
        raise ValueError(
            "an l1 penalty and a constraint cannot be combined: set l1_ratio to 0 or leave constraint out."
        )
    return constraint
