"""Components given as functions, in the form in which kernels see rows of data.

A row x_i of a linear model enters a method by its margin x_i'w, the loss's slope and curvature there, two numbers, and
their products with x_i. A component f_i that is a function fits into the same equations: its margin is the point w
itself, its slope the gradient, its curvature the Hessian, and its "row" is the identity. What is a number per row for
a linear model is then a vector or a matrix, and kernels run as Python (`finitesum.core.jit.Interpreted`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import Interpreted

if TYPE_CHECKING:
    from finitesum.problems.finite_sum import FiniteSum


class FunctionRows(Interpreted):
    """Rows whose product with w is w: see `finitesum.problems.rows.DenseRows` for the verbs."""

    def __init__(self, n_rows: int, n_columns: int, intercept: int) -> None:
        self.n_rows, self.n_columns, self.intercept = n_rows, n_columns, intercept

    def dim(self) -> int:
        """Return the length of an iterate."""
        return self.n_columns + self.intercept

    def is_sparse(self) -> bool:
        """Return False: a component touches every coordinate."""
        return False

    def dot(self, i: int, w: Vector) -> Vector:
        """Return the point as it is."""
        return w[: self.dim()]

    def add_to(self, i: int, scale: Vector, out: Vector) -> None:
        """Add a gradient to out."""
        out[: self.dim()] += scale

    def gram_add(self, i: int, scale: Matrix, out: Matrix) -> None:
        """Add the lower triangle of a Hessian to out."""
        dim = self.dim()
        out[:dim, :dim] += np.tril(scale)


class FunctionLoss(Interpreted):
    """The functions as losses of w: the target is the number of the component."""

    def __init__(self, problem: FiniteSum) -> None:
        self._problem = problem

    def value(self, prediction: Vector, target: float) -> float:
        """Return f_i(w)."""
        return self._problem.component_value(prediction, int(target))

    def d1(self, prediction: Vector, target: float) -> Vector:
        """Return the gradient of f_i at w."""
        return self._problem.component_gradient(prediction, int(target))

    def d2(self, prediction: Vector, target: float) -> Matrix:
        """Return the Hessian of f_i at w."""
        return self._problem.component_hessian(prediction, int(target))

    def d2_times(self, prediction: Vector, target: float, v: Vector) -> Vector:
        """Return the Hessian of f_i at w times v."""
        return self._problem.component_product(prediction, int(target), v)

    def d1_d2(self, prediction: Vector, target: float) -> tuple[Vector, Matrix]:
        """Return the gradient and the Hessian of f_i at w."""
        return self.d1(prediction, target), self.d2(prediction, target)

    def majorant(self, prediction: Vector, target: float) -> float:
        """Return infinity: nothing is known that lies above a function."""
        return math.inf

    def curvature_bound(self) -> float:
        """Return infinity: nothing is known of the largest curvature."""
        return math.inf

    def is_smooth(self) -> bool:
        """Return True."""
        return True

    def target_kind(self) -> str:
        """Return that targets are numbers of components."""
        return "component"
