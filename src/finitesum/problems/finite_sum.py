"""A general finite sum: F(w) = (1/n) sum_i f_i(w) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2), w in a set.

The components f_i are objects or callables with values and derivatives (`finitesum.problems.callables.Component`), not
a linear model. The penalty is no part of them. Penalty and set are a `ConvexTerm`, as those of a linear model are, so
that proximal steps and the minimisers of quadratic models are the same code for both. All input is checked here; what
components return is checked for its shape, and at the start for its numbers.
"""

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from finitesum.constraints import Constraint
from finitesum.core.arrays import Matrix, Vector
from finitesum.problems.batches import Batches, backend_of, batches_of
from finitesum.problems.callables import SubgradientProblem, check_constant, checked_components, checked_smoothness
from finitesum.problems.components import (
    DerivativeCheck,
    FunctionLoss,
    FunctionRows,
    check_derivatives,
    checked_point,
    digest_of,
    linear_components,
    require_defined,
    require_hessians,
)
from finitesum.problems.given_term import convex_term
from finitesum.problems.linear import Problem
from finitesum.problems.term import ConvexTerm
from finitesum.problems.view import View


@dataclass(frozen=True, eq=False)
class FiniteSum:
    """A finite sum of smooth functions that are given as objects or callables.

    F(w) = (1/n) sum_i f_i(w) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    Parameters
    ----------
    components : sequence of n objects
        Each with ``value(w)``, ``gradient(w)`` and, for methods with second derivatives, ``hessian(w)`` or
        ``hessian_product(w, v)``; `Component` makes one of callables. They must not depend on anything else, or runs
        cannot be repeated.
    dim : int >= 1
        The number of variables d.
    alpha : float >= 0
        Strength of the penalty, against the mean of the components.
    l1_ratio : float in [0, 1]
        0 is the l2 penalty, 1 the l1 penalty.
    constraint : Constraint, optional
        A set from `finitesum.constraints` for all variables but the intercepts, of each block of `n_outputs` by itself. An
        elastic net may stand beside bounds, and an l2 penalty beside any set.
    penalty : MCP, SCAD or another from `finitesum.problems.penalties`, optional
        In the place of alpha and l1_ratio.
    penalty_weights : array_like, optional
        A number >= 0 for each variable but an intercept, that its penalty is multiplied with. 0 leaves it free.
    groups : array_like, optional
        A label for each variable but an intercept (of one block of `n_outputs`): the penalty is then the (sparse) group
        lasso of `Problem.linear`.
    smoothness : float or array_like of shape (n,), optional
        Bounds on the Lipschitz constants of the components' gradients. Left out, automatic step sizes estimate them.
    mean_smoothness : float, optional
        A bound on the Lipschitz constant of the mean's gradient; left out, the mean of `smoothness`.
    strong_convexity : float >= 0
        A lower bound on the curvature of the mean of the components, without the penalty.
    has_intercept : bool or int >= 0
        How many of the last variables are neither penalised nor constrained.
    n_outputs : int >= 1
        Into how many blocks of equal length the variables are divided; each of them has an intercept or none has.
    convex : bool
        Whether the sum is convex. Where it is not, a result says that it is a stationary point.

    Raises
    ------
    TypeError
        A component lacks value or gradient.
    ValueError
        A number is out of range.

    Examples
    --------
    >>> from finitesum import Component, minimize
    >>> def distance(a):
    ...     return Component(lambda w: np.cosh(w[0] - a), lambda w: np.sinh(w - a), lambda w: [[np.cosh(w[0] - a)]])
    >>> problem = FiniteSum([distance(0.0), distance(1.0), distance(2.0)], dim=1)
    >>> minimize(problem, method="a-ciag", tol=1e-10).x.round(9)
    array([1.])
    """

    components: Any
    dim: int
    alpha: float = 0.0
    l1_ratio: float = 0.0
    constraint: Constraint | None = None
    penalty: Any = None
    penalty_weights: Any = None
    groups: Any = None
    smoothness: Any = None
    mean_smoothness: float | None = None
    strong_convexity: float = 0.0
    has_intercept: int = False
    n_outputs: int = 1
    convex: bool = True

    batch_size: ClassVar[int] = 1  #: components are what the caller made them

    def __post_init__(self) -> None:
        if not isinstance(self.components, Batches):
            object.__setattr__(self, "components", checked_components(self.components))
        if isinstance(self.dim, bool) or not isinstance(self.dim, int | np.integer) or self.dim < 1:
            raise ValueError(f"dim must be a whole number >= 1, got {self.dim!r}.")
        if self.dim % self.n_outputs:
            raise ValueError(f"n_outputs must divide dim, got n_outputs={self.n_outputs}, dim={self.dim}.")
        if self.smoothness is not None:
            object.__setattr__(self, "smoothness", checked_smoothness(self.smoothness, len(self.components)))
        if self.mean_smoothness is not None:
            check_constant("mean_smoothness", self.mean_smoothness)
        check_constant("strong_convexity", self.strong_convexity)
        _ = self.term  # checks penalty and set

    @cached_property
    def term(self) -> ConvexTerm:
        """Penalty and set, on all variables but an intercept."""
        n_free = int(self.has_intercept)
        given = self.alpha, self.l1_ratio, self.constraint, self.penalty, self.penalty_weights, self.groups
        return convex_term(self.dim // self.n_outputs - n_free, n_free, self.n_outputs, *given)

    @classmethod
    def from_function(
        cls,
        f: Callable[..., Any],
        data: Any,
        *,
        dim: int | None = None,
        like: Any = None,
        batch_size: int | None = None,
        backend: str = "torch",
        residuals: bool = False,
        one_row: bool = False,
        dtype: str = "float64",
        hessian: Callable[..., Any] | None = None,
        hessian_product: Callable[..., Any] | None = None,
        **options: Any,
    ) -> "FiniteSum":
        """Return the mean of the losses that a function gives of the rows of data, with mini-batches as components.

        F(w) = (1/n) sum_i loss_i(w) + the penalty,    f(w, rows B) = (loss_i(w), i in B)

        Parameters
        ----------
        f : callable
            ``f(w, batch)`` returns the losses of a batch's rows, shape (b,), in operations of the backend, which
            differentiates them; with "numpy" ``(losses, gradients)``, of shape (b, d), or (d,) of the losses' sum.
        data : array, tensor, tuple, list or dict of them, or int
            Arrays with a row for each loss, whose slices are the batches; scipy's sparse ones for "numpy" only. An int n
            has row numbers in their place: ``f(w, indices)``.
        dim : int >= 1
            The length of w, a vector.
        like : dict, list or tuple of arrays, within each other, torch.nn.Module or its state_dict
            In the place of dim: f takes parameters of this form, `flatten` makes a vector of them, and `unflatten` gives
            them back. Buffers of a module and its tensors of integers stay as they are.
        batch_size : int >= 1
            Rows of a component, of which the last one may have fewer; left out, about n / 64.
        backend : {"torch", "jax", "numpy"}
            What differentiates f. Tensors stay on the device where they are.
        residuals : bool
            Whether f returns residuals r_i, shape (b,) or (b, k): a loss is ||r_i||^2 / 2, and Hessians are Gauss and
            Newton's, J'J with the Jacobian J of the residuals.
        one_row : bool
            Whether f takes one row and returns one loss; it is vectorised by vmap.
        dtype : {"float64", "float32"}
            That of all floating-point numbers in data and w; float32 leaves some 1e-4 of an optimality.
        hessian, hessian_product : callable, optional
            With "numpy": ``hessian(w, batch)`` and ``hessian_product(w, v, batch)``, of the sum of a batch's losses.
        **options
            The penalty, the set, constants and convex: see `FiniteSum`.

        Raises
        ------
        ModuleNotFoundError, TypeError, ValueError
            The backend is not installed; f or data is no such thing; f returns another shape, at its first call.

        Examples
        --------
        >>> def squares(w, indices):
        ...     residuals = w[0] - indices
        ...     return residuals**2 / 2, residuals[:, None]
        >>> from finitesum import minimize
        >>> problem = FiniteSum.from_function(squares, 5, dim=1, batch_size=2, backend="numpy")
        >>> minimize(problem, method="fg").x.round(6)
        array([2.])
        """
        form = {"dim": dim, "like": like, "dtype": dtype, "residuals": residuals, "one_row": one_row}
        derivatives = {"hessian": hessian, "hessian_product": hessian_product}
        components = batches_of(f, data, batch_size, backend, **form, **derivatives)
        return cls(components, components.backend.dim, **options)

    @classmethod
    def from_linear(cls, problem: Problem) -> "FiniteSum":
        """Return a linear model as a general sum: each of its components an object of its own.

        It is slow, and it is for comparisons: kernels run as Python.

        Raises
        ------
        ValueError
            The loss is nonsmooth.

        Examples
        --------
        >>> problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss="squared", alpha=0.1)
        >>> FiniteSum.from_linear(problem).components[1].gradient(np.zeros(1))
        array([-6.])
        """
        components, smoothness = linear_components(problem)
        term: Any = {"constraint": problem.constraint if problem.is_constrained else None, "penalty": problem.penalty}
        sizes: Any = {"has_intercept": problem.has_intercept, "n_outputs": problem.n_outputs}
        return cls(components, problem.dim, smoothness=smoothness, **term, **sizes)

    # -- what methods and the driver ask of any problem

    @property
    def n_components(self) -> int:
        """The number of components n."""
        return len(self.components)

    @property
    def n_rows(self) -> int:
        """The number of rows of data; a component that is an object counts for one."""
        return self.components.backend.n_rows if isinstance(self.components, Batches) else self.n_components

    @property
    def slopes_shape(self) -> tuple[int, ...]:
        """The shape of a table with what a slope is of every component: a gradient."""
        return (self.n_components, self.dim)

    @cached_property
    def rows(self) -> FunctionRows:
        """The components in the place of rows of data."""
        return FunctionRows(self.n_components, self.dim - int(self.has_intercept), int(self.has_intercept))

    @cached_property
    def loss(self) -> FunctionLoss:
        """The components in the place of a loss."""
        return FunctionLoss(copy(self))  # which knows no loss: nothing refers to itself

    @cached_property
    def view(self) -> View:
        """The problem as kernels see it, which then run as Python."""
        n = self.n_components
        targets = np.arange(n, dtype=np.float64)  # the components' numbers
        data = cast(Any, self.rows), targets, np.zeros(n), np.full(n, 1.0 / n), 1.0 / n, False, cast(Any, self.loss)
        return View(*data, *self.term.compiled, 1, n)

    @property
    def is_constrained(self) -> bool:
        """Whether the variables are confined to a set."""
        return self.term.is_constrained

    @property
    def is_smooth(self) -> bool:
        """Whether F is differentiable and nothing confines it."""
        return self.term.is_smooth

    @cached_property
    def fingerprint(self) -> str:
        """A digest of sizes and settings, and of what every component's value and gradient return at one fixed point.

        It costs a pass that is not charged, and only runs with a checkpoint ask for it.
        """
        return digest_of(self)

    # -- the components: each gets a copy of the point, which it may keep, and must return what the equations need

    def component_value(self, w: Vector, j: int) -> float:
        """Return f_j(w)."""
        value = np.asarray(self.components[j].value(w.copy()), dtype=np.float64)
        if value.size != 1:
            raise ValueError(f"component {j}: value must return one number, got shape {value.shape}.")
        return float(value.item())

    def component_gradient(self, w: Vector, j: int) -> Vector:
        """Return the gradient of f_j at w, a new array."""
        return self._vector(self.components[j].gradient(w.copy()), j, "gradient")

    def value_and_gradient(self, w: Vector, j: int) -> tuple[float, Vector]:
        """Return the value of f_j at w and its gradient, by one call of what gives both."""
        if isinstance(self.components, Batches):
            return self.components[j].value_and_gradient(w)  # type: ignore[no-any-return]
        return self.component_value(w, j), self.component_gradient(w, j)

    def component_hessian(self, w: Vector, j: int) -> Matrix:
        """Return the Hessian of f_j at w, a new array of shape (d, d): out of d products where it is not given itself."""
        component = self.components[j]
        if not callable(getattr(component, "hessian", None)):
            columns = [self.component_product(w, j, unit) for unit in np.eye(self.dim)]
            return np.stack(columns, axis=1)
        returned = component.hessian(w.copy())
        hessian = np.array(returned.toarray() if hasattr(returned, "toarray") else returned, dtype=np.float64)
        if hessian.shape != (self.dim, self.dim):
            raise ValueError(
                f"component {j}: hessian must return {self.dim} x {self.dim} numbers, got shape {hessian.shape}."
            )
        return hessian

    def component_product(self, w: Vector, j: int, v: Vector) -> Vector:
        """Return the Hessian of f_j at w times v, a new array."""
        component = self.components[j]
        if callable(getattr(component, "hessian_product", None)):
            return self._vector(component.hessian_product(w.copy(), v.copy()), j, "hessian_product")
        return np.asarray(self.component_hessian(w, j) @ v)

    def has_hessian(self, j: int) -> bool:
        """Return whether component j gives second derivatives."""
        return any(callable(getattr(self.components[j], name, None)) for name in ("hessian", "hessian_product"))

    def _vector(self, returned: Any, j: int, name: str) -> Vector:
        vector = np.array(returned, dtype=np.float64)
        if vector.shape != (self.dim,):
            raise ValueError(f"component {j}: {name} must return {self.dim} numbers, got shape {vector.shape}.")
        return vector

    def values_and_gradients(self, w: Vector) -> tuple[Vector, Matrix]:
        """Return the values and the gradients of all components at w, shapes (n,) and (n, d)."""
        found = [self.value_and_gradient(w, j) for j in range(self.n_components)]
        return np.array([value for value, _ in found]), np.stack([gradient for _, gradient in found])

    def mean_value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Return (1/n) sum_i f_i(w), without the penalty, and its gradient."""
        if isinstance(self.components, Batches):
            return self.components.mean_value_and_gradient(w)
        values, gradients = self.values_and_gradients(w)
        return math.fsum(values) / self.n_components, gradients.mean(axis=0)

    def hessian(self, w: Vector) -> Matrix:
        """Return the Hessian of the smooth part of F at w, the quadratic penalty included, shape (d, d)."""
        if isinstance(self.components, Batches):
            return self.components.mean_hessian(w) + np.diag(self.term.quadratic)
        total = np.zeros((self.dim, self.dim))
        for j in range(self.n_components):
            total += self.component_hessian(w, j)
        return total / self.n_components + np.diag(self.term.quadratic)

    # -- parameters of a function

    def flatten(self, parameters: Any) -> Vector:
        """Return parameters of the form that `from_function` was given as `like` as a vector, shape (d,)."""
        return np.asarray(backend_of(self.components).flatten(parameters))

    def unflatten(self, w: Any) -> Any:
        """Return a vector as the parameters that the function of `from_function` takes."""
        return backend_of(self.components).unflatten(checked_point(w, self.dim))

    # -- checks

    def require_hessians(self, method: str) -> None:
        """Raise unless every component has second derivatives."""
        require_hessians(self, method)

    def require_defined(self, w: Vector) -> None:
        """Raise unless all values and gradients are finite at a start; the pass that this takes is not charged."""
        require_defined(self, w)

    def check(self, w: Any, tolerance: float = 1e-5) -> DerivativeCheck:
        """Compare the derivatives of every component with central differences.

        Gradients are compared in every coordinate, Hessians (or products with them) along a direction; that costs 2 d
        values and 3 gradients a component.

        Parameters
        ----------
        w : array_like, shape (d,)
            Where; a point of no symmetry shows more than 0.
        tolerance : float > 0
            The largest relative error that passes.

        Returns
        -------
        DerivativeCheck
            With ``success``, ``message``, ``gradient_errors`` and ``hessian_errors``.

        Examples
        --------
        >>> from finitesum import Component
        >>> good = Component(lambda w: w @ w, lambda w: 2 * w)
        >>> bad = Component(lambda w: w @ w, lambda w: w)
        >>> FiniteSum([good, bad], dim=2).check([1.0, 2.0]).message
        'component 1: the gradient contradicts differences of the value (relative error 5.0e-01).'
        """
        return check_derivatives(self, w, tolerance)


AnyProblem = Problem | FiniteSum | SubgradientProblem
