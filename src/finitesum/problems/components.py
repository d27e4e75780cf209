"""Components of finite sums: functions as kernels see them, parts of linear models as objects, a check of derivatives.

A row x_i of a linear model enters a method by its margin x_i'w, the loss's slope and curvature there, two numbers, and
their products with x_i. A component f_i that is a function fits into the same equations: its margin is the point w
itself, its slope the gradient, its curvature the Hessian, and its "row" is the identity. What is a number per row for
a linear model is then a vector or a matrix, and kernels run as Python (`finitesum.core.jit.Interpreted`).
"""

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitesum.core import symmetric
from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import Interpreted
from finitesum.losses import Loss
from finitesum.losses.base import OfComponents
from finitesum.problems.linear import Problem
from finitesum.problems.rows import to_matrix
from finitesum.problems.term_penalties import described
from finitesum.problems.view import View

if TYPE_CHECKING:
    from finitesum.problems.finite_sum import FiniteSum


class FunctionRows(Interpreted):
    """Rows whose product with w is w: see `finitesum.problems.rows.DenseRows` for the verbs."""

    def __init__(self, n_rows: int, n_columns: int, intercept: int) -> None:
        self.n_rows, self.n_columns, self.intercept = n_rows, n_columns, intercept

    def dim(self) -> int:
        return self.n_columns + self.intercept

    def is_sparse(self) -> bool:
        return False  # a component touches every coordinate

    def dot(self, i: int, w: Vector) -> Vector:
        return w[: self.dim()]

    def add_to(self, i: int, scale: Vector, out: Vector) -> None:
        out[: self.dim()] += scale

    def gram_add(self, i: int, scale: Matrix, out: Matrix) -> None:
        dim = self.dim()
        out[:dim, :dim] += np.tril(scale)


class FunctionLoss(Interpreted, OfComponents):
    """The functions as losses of w, of whose curvature nothing is known."""

    def __init__(self, problem: "FiniteSum") -> None:
        self._problem = problem

    def value(self, prediction: Vector, target: float) -> float:
        return self._problem.component_value(prediction, int(target))

    def d1(self, prediction: Vector, target: float) -> Vector:
        return self._problem.component_gradient(prediction, int(target))

    def d2(self, prediction: Vector, target: float) -> Matrix:
        return self._problem.component_hessian(prediction, int(target))

    def d2_times(self, prediction: Vector, target: float, v: Vector) -> Vector:
        return self._problem.component_product(prediction, int(target), v)


@dataclass(frozen=True, eq=False)
class LinearComponent:
    """A component of a linear model, n sum_{i in B} p_i loss(y_i, x_i'w + o_i), as an object of its own."""

    rows: Matrix  # (b, d)  x_i, an intercept's 1 included
    targets: Vector  # (b,)
    offsets: Vector  # (b,)
    weights: Vector  # (b,)  n p_i
    loss: Loss

    def _derivatives(self, w: Vector) -> Vector:
        """Return value, first and second derivative of the loss by rows, shape (b, 3); 0 where the weight is 0."""
        found = np.zeros((self.targets.size, 3))
        for i, prediction in enumerate(self.rows @ w + self.offsets):
            if self.weights[i] > 0.0:
                target = float(self.targets[i])
                found[i] = self.loss.value(prediction, target), *self.loss.d1_d2(prediction, target)
        return found

    def value(self, w: Vector) -> float:
        """Return the value at w."""
        return float(self.weights @ self._derivatives(w)[:, 0])

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient at w."""
        return np.asarray((self.weights * self._derivatives(w)[:, 1]) @ self.rows)

    def hessian(self, w: Vector) -> Matrix:
        """Return the Hessian at w."""
        return np.asarray((self.rows.T * (self.weights * self._derivatives(w)[:, 2])) @ self.rows)

    def smoothness(self, curvature_bound: float) -> float:
        """Return a bound on the gradient's Lipschitz constant."""
        return float(curvature_bound * self.weights @ (self.rows**2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class ViewedComponent:
    """A component of several outputs, or a function, as an object of its own made of what kernels see of it."""

    view: View
    number: int

    def scores(self, w: Vector) -> Any:
        """Return what the loss takes at w: the scores of a block of rows, or the point for a function."""
        return self.view.rows.dot(self.number, w) + self.view.offsets[self.number]

    def value(self, w: Vector) -> float:
        """Return the value at w."""
        return self.view.loss.value(self.scores(w), self.number)

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient at w."""
        out = np.zeros(self.view.rows.dim())
        self.view.rows.add_to(self.number, self.view.loss.d1(self.scores(w), self.number), out)
        return out

    def hessian(self, w: Vector) -> Matrix:
        """Return the Hessian at w."""
        lower = np.zeros((self.view.rows.dim(), self.view.rows.dim()))
        self.view.rows.gram_add(self.number, self.view.loss.d2(self.scores(w), self.number), lower)
        return symmetric.full(lower, lower.shape[0])


def linear_component(problem: Problem, j: int) -> LinearComponent:
    """Return component j of a linear model."""
    size = problem.batch_size or 1
    block = slice(j * size, min((j + 1) * size, problem.n_rows))
    stored = to_matrix(problem.rows)[block]
    values = np.asarray(stored.toarray() if hasattr(stored, "toarray") else stored, dtype=np.float64)
    rows = np.ones((values.shape[0], problem.dim))
    rows[:, : values.shape[1]] = values
    weights = problem.n_components * problem.weights[block]
    return LinearComponent(rows, problem.targets[block], problem.offsets[block], weights, problem.loss)


def linear_components(problem: Problem) -> tuple[list[Any], list[float] | None]:
    """Return the components of a linear model as objects, and bounds on the Lipschitz constants of their gradients."""
    if not problem.loss.is_smooth():
        raise ValueError(
            f'{type(problem.loss).__name__} is nonsmooth, and components must be smooth: see "smoothed-hinge".'
        )
    n, bound = problem.n_components, problem.loss.curvature_bound()
    parts = [linear_component(problem.one_output, j) for j in range(n)]  # of several outputs, for their size alone
    smoothness = [part.smoothness(bound) for part in parts] if math.isfinite(bound) else None
    return (parts if problem.n_outputs == 1 else [ViewedComponent(problem.view, j) for j in range(n)]), smoothness


class DerivativeCheck(NamedTuple):
    """How far the derivatives of the components are from differences of what they are derivatives of."""

    gradient_errors: Vector  # (n,)  relative; NaN where something was not finite
    hessian_errors: Vector  # (n,)  relative; 0 where there are no second derivatives
    tolerance: float

    @property
    def success(self) -> bool:
        """Whether all errors are at most the tolerance."""
        errors = np.concatenate([self.gradient_errors, self.hessian_errors])
        return bool((errors <= self.tolerance).all())

    @property
    def message(self) -> str:
        """What was found, in a sentence for each component that is off, at most five."""
        off = []
        for errors, what, of in ((self.gradient_errors, "gradient", "value"), (self.hessian_errors, "Hessian", "gradient")):
            off += [
                f"component {j}: the {what} contradicts differences of the {of} (relative error {errors[j]:.1e})."
                for j in np.flatnonzero(~(errors <= self.tolerance))
            ]
        more = [f"And {len(off) - 5} more."] if len(off) > 5 else []
        return " ".join([*off[:5], *more]) if off else "All derivatives agree with differences."


def relative_error(given: Any, expected: Any, scale: float) -> float:
    """Return the norm of the difference over the larger of `scale` and the norm of what was expected."""
    return float(np.linalg.norm(given - expected) / max(float(np.linalg.norm(expected)), scale))


def checked_point(w: Any, dim: int) -> Vector:
    """Return a point as a new array, or raise unless it has the length dim."""
    point = np.array(w, dtype=np.float64)
    if point.shape != (dim,):
        raise ValueError(f"w must have shape ({dim},), got {point.shape}.")
    return point


def require_hessians(problem: "FiniteSum", method: str) -> None:
    """Raise unless every component has second derivatives."""
    for j in range(problem.n_components):
        if not problem.has_hessian(j):
            raise ValueError(
                f"{method} needs hessian(w) or hessian_product(w, v) of every component, and component {j} has "
                "neither. Give one of them, or choose a method that needs gradients only, such as saga (or iqn with a "
                "number for initial)."
            )


def require_defined(problem: "FiniteSum", w: Vector) -> None:
    """Raise unless the values and gradients of all components are finite at a start."""
    for j, (value, gradient) in enumerate(zip(*problem.values_and_gradients(w), strict=True)):
        for name, numbers in (("value", value), ("gradient", gradient)):
            if not np.isfinite(numbers).all():
                raise ValueError(
                    f"component {j}: {name} is not finite at the start. Give an x0 where all components are defined, "
                    "or see problem.check(x0)."
                )


def check_derivatives(problem: "FiniteSum", w: Any, tolerance: float) -> DerivativeCheck:
    """Return how the derivatives of every component compare with differences at w: see `FiniteSum.check`."""
    point = checked_point(w, problem.dim)
    width = 6e-6 * max(1.0, float(np.abs(point).max()))  # the cube root of the rounding error
    direction = np.cos(np.arange(1.0, problem.dim + 1.0))
    first, second, value = np.zeros(problem.n_components), np.zeros(problem.n_components), problem.component_value
    for j in range(problem.n_components):
        gradient = problem.component_gradient(point, j)
        rounding = 1e-6 * (1.0 + abs(value(point, j)))
        sides = ((point + width * unit, point - width * unit) for unit in np.eye(problem.dim))
        slopes = [(value(up, j) - value(down, j)) / (2.0 * width) for up, down in sides]
        first[j] = relative_error(gradient, np.array(slopes), rounding)
        if problem.has_hessian(j) and not getattr(problem.components[j], "is_gauss_newton", False):
            up, down = point + width * direction, point - width * direction
            change = (problem.component_gradient(up, j) - problem.component_gradient(down, j)) / (2.0 * width)
            product = problem.component_product(point, j, direction)
            second[j] = relative_error(product, change, 1e-6 * (1.0 + float(np.linalg.norm(gradient))))
    return DerivativeCheck(first, second, tolerance)


def digest_of(problem: "FiniteSum") -> str:
    """Return a digest of sizes and settings, and of what every component's value and gradient return at one fixed point."""
    digest = hashlib.blake2b(digest_size=16)
    term = problem.term
    settings = (
        problem.dim,
        problem.n_components,
        described(term.penalty),
        term.constraint.to_dict(),
        problem.has_intercept,
    )
    constants = (None if problem.smoothness is None else problem.smoothness.tolist(), problem.mean_smoothness)
    digest.update(repr((settings, constants, problem.strong_convexity)).encode())
    point = 0.5 + 0.25 * np.cos(np.arange(1.0, problem.dim + 1.0))
    point = term.project(point)
    with np.errstate(all="ignore"):
        for j in range(problem.n_components):
            try:
                value, gradient = problem.value_and_gradient(point, j)
                digest.update(np.float64(value).tobytes())
                digest.update(gradient.tobytes())
            except ArithmeticError as error:  # it is not defined there
                digest.update(type(error).__name__.encode())
    return digest.hexdigest()
