"""Functions given as callables, for what is no linear model.

`Component` is one smooth component of a `finitesum.problems.finite_sum.FiniteSum`.
`SubgradientProblem` is any convex f with a subgradient, whole or by components, over
a constraint set; the methods of `finitesum.methods` that treat "callables" accept it. `harvey` is one: the function on
which the projected subgradient method's last iterate is provably worse than an average by a factor log T.
"""

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from finitesum.constraints.balls import L2Ball
from finitesum.constraints.base import Constraint
from finitesum.core.arrays import Vector
from finitesum.problems.given_term import checked_constraint
from finitesum.problems.penalties import Zero
from finitesum.problems.term import ConvexTerm


@dataclass(frozen=True, eq=False)
class Component:
    """A smooth function f_i by callables, all for w of shape (d,) and float64. Any object with these methods will do, too.

    Parameters
    ----------
    value : callable
        ``value(w)`` returns f_i(w).
    gradient : callable
        ``gradient(w)`` returns the d partial derivatives.
    hessian : callable, optional
        ``hessian(w)`` returns the d x d matrix of second derivatives, an array or a scipy sparse matrix.
    hessian_product : callable, optional
        ``hessian_product(w, v)`` returns that matrix times v, shape (d,).

    Raises
    ------
    TypeError
        A callable is none.

    Examples
    --------
    >>> component = Component(lambda w: float(w[0] ** 4), lambda w: 4 * w**3)
    >>> component.value(np.array([2.0])), component.gradient(np.array([2.0]))
    (16.0, array([32.]))
    """

    value: Callable[[Vector], Any]
    gradient: Callable[[Vector], Any]
    hessian: Callable[[Vector], Any] | None = None
    hessian_product: Callable[[Vector, Vector], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("value", "gradient"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, got {getattr(self, name)!r}.")
        for name in ("hessian", "hessian_product"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function or left out, got {getattr(self, name)!r}.")


@dataclass(frozen=True, eq=False)
class SubgradientProblem:
    """A convex function f = mean of f_1, ..., f_m over a set, by callables.

    Parameters
    ----------
    dim : int >= 1
        The number of variables d.
    value : callable
        ``value(w)`` returns f(w), for w of shape (d,) and float64.
    subgradient : callable
        ``subgradient(w)`` returns a subgradient of f at w, shape (d,); with several components, ``subgradient(w, j)``
        returns one of f_j, j = 0, ..., n_components - 1. It must not depend on anything else, or runs cannot be repeated.
    constraint : Constraint, optional
        The set; the whole space when left out.
    n_components : int >= 1
        The number of components m; 1 is a deterministic oracle.
    lower_bound : float, optional
        A number that f is never below on the set. The optimality of a point is then at most f(w) - lower_bound.

    Raises
    ------
    TypeError
        A callable is none, or the constraint is no constraint.
    ValueError
        A number is out of range.

    Examples
    --------
    >>> from finitesum import minimize
    >>> from finitesum.constraints import Box
    >>> problem = SubgradientProblem(2, lambda w: abs(w[0] - 2) + abs(w[1]), lambda w: np.sign(w - [2, 0]), Box(-1, 1))
    >>> minimize(problem, method="hb", max_iter=50).x
    array([1., 0.])
    """

    dim: int
    value: Callable[[Vector], float]
    subgradient: Callable[..., Any]
    constraint: Constraint | None = None
    n_components: int = 1
    lower_bound: float | None = None

    batch_size: ClassVar[int] = 1  #: components are what the caller made them

    def __post_init__(self) -> None:
        for name in ("dim", "n_components"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
                raise ValueError(f"{name} must be a whole number >= 1, got {number!r}.")
        for name in ("value", "subgradient"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a function, got {getattr(self, name)!r}.")
        object.__setattr__(self, "constraint", self.term.constraint)
        if self.lower_bound is not None and not math.isfinite(self.lower_bound):
            raise ValueError(f"lower_bound must be finite, got {self.lower_bound}. Leave it out where none is known.")

    @property
    def is_constrained(self) -> bool:
        """Whether the variables are confined to a set."""
        return self.term.is_constrained

    @cached_property
    def term(self) -> ConvexTerm:
        """The set, on all variables; there is no penalty."""
        return ConvexTerm(Zero(), checked_constraint(self.constraint, self.dim, Zero()), self.dim)

    def component_subgradient(self, w: Vector, component: int) -> Vector:
        """Return a subgradient of a component at w, a new array."""
        point = w.copy()  # the caller may keep it
        result = self.subgradient(point) if self.n_components == 1 else self.subgradient(point, int(component))
        g = np.array(result, dtype=np.float64)
        if g.shape != (self.dim,):
            raise ValueError(f"subgradient must return {self.dim} numbers, got shape {g.shape}.")
        return g

    def full_subgradient(self, w: Vector) -> Vector:
        """Return the mean of the components' subgradients at w: one of f."""
        total = np.zeros(self.dim)
        for component in range(self.n_components):
            total += self.component_subgradient(w, component)
        return total / self.n_components

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the sizes, the set, and what the callables return at a fixed point of the set."""
        assert self.constraint is not None
        point = self.constraint.project(np.cos(np.arange(1.0, self.dim + 1.0)))
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((self.dim, self.n_components, self.constraint.to_dict(), self.lower_bound)).encode())
        digest.update(repr(float(self.value(point))).encode())
        digest.update(self.component_subgradient(point, self.n_components - 1).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class _Harvey:
    """The pieces h_1, ..., h_{T+1} of Harvey's function, in O(T) an evaluation."""

    a: Vector  # (T,)
    b: Vector  # (T,)

    def pieces(self, w: Vector) -> Vector:
        """Return <h_i, w> for all i."""
        before = np.concatenate([[0.0], np.cumsum(self.a * w)])
        before[:-1] -= self.b * w
        return before

    def value(self, w: Vector) -> float:
        """Return max_i <h_i, w>."""
        return float(np.max(self.pieces(w)))

    def subgradient(self, w: Vector) -> Vector:
        """Return h_i with the smallest i that attains the maximum: the adversary's choice."""
        i = int(np.argmax(self.pieces(w)))
        h = np.zeros(self.a.size)
        h[:i] = self.a[:i]
        if i < self.a.size:
            h[i] = -self.b[i]
        return h


def harvey(n_steps: int, c: float = 2.0) -> SubgradientProblem:
    """Return the function on which n_steps of the subgradient method with step c / sqrt(t) end badly [1]_.

    On the unit l2 ball of R^T, T = n_steps, with a_i = 1 / (8 c (T - i + 1)) and b_i = sqrt(i) / (2 c sqrt(T))::

        f(w) = max_{i <= T+1} <h_i, w>,   h_i = (a_1, ..., a_{i-1}, -b_i, 0, ..., 0),   h_{T+1} = (a_1, ..., a_T)

    and the oracle names the smallest i of the maximum. The minimum is 0, at 0; f is 0.53/c-Lipschitz. From 0, the
    projected subgradient method with step c / sqrt(t) has f(x_{T+1}) >= log(T) / (32 c sqrt(T)).

    Parameters
    ----------
    n_steps : int >= 1
        T, the number of variables and of steps.
    c : float >= 1
        The constant of the step size that the function is made against.

    Raises
    ------
    ValueError
        A number is out of range.

    References
    ----------
    .. [1] N. Harvey, C. Liaw, Y. Plan, S. Randhawa, "Tight analyses for non-smooth stochastic gradient descent", COLT
       2019.

    Examples
    --------
    >>> problem = harvey(100)
    >>> problem.value(np.zeros(100)), problem.dim
    (0.0, 100)
    """
    if isinstance(n_steps, bool) or not isinstance(n_steps, int | np.integer) or n_steps < 1:
        raise ValueError(f"n_steps must be a whole number >= 1, got {n_steps!r}.")
    if not 1.0 <= c < math.inf:
        raise ValueError(f"c must be a number >= 1, got {c}.")
    i = np.arange(1.0, n_steps + 1.0)
    pieces = _Harvey(1.0 / (8.0 * c * (n_steps - i + 1.0)), np.sqrt(i) / (2.0 * c * math.sqrt(n_steps)))
    return SubgradientProblem(int(n_steps), pieces.value, pieces.subgradient, L2Ball(1.0), lower_bound=0.0)


def checked_components(components: Any) -> tuple[Any, ...]:
    """Return the components of a finite sum, or raise where one has no value or gradient."""
    if not isinstance(components, Iterable):
        raise TypeError(f"components must be a sequence of functions with value and gradient, got {components!r}.")
    known = tuple(components)
    if not known:
        raise ValueError("components must hold one function at least, got none.")
    for j, component in enumerate(known):
        for name in ("value", "gradient"):
            if not callable(getattr(component, name, None)):
                raise TypeError(
                    f"component {j} must have {name}(w), got {component!r}. "
                    "Component(value, gradient, hessian) makes one of callables."
                )
    return known


def check_constant(name: str, value: Any) -> None:
    """Raise unless a constant is a number >= 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
        raise ValueError(f"{name} must be a number >= 0 and finite, got {value!r}. Leave it out where it is not known.")


def checked_smoothness(smoothness: Any, n: int) -> Vector:
    """Return n bounds on Lipschitz constants, or raise what is wrong with them."""
    try:
        bounds = np.array(smoothness, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"smoothness must be a number or {n} numbers: {error}.") from error
    if bounds.shape not in ((), (n,)):
        raise ValueError(f"smoothness must be a number or {n} numbers, got shape {bounds.shape}.")
    if not ((bounds >= 0.0) & (bounds < math.inf)).all():
        raise ValueError("smoothness must be >= 0 and finite. Leave it out where it is not known.")
    return np.full(n, bounds) if bounds.shape == () else bounds
