"""Components given as functions, in the form in which kernels see rows of data.

A row x_i of a linear model enters a method by its margin x_i'w, the loss's slope and curvature there, two numbers, and
their products with x_i. A component f_i that is a function fits into the same equations: its margin is the point w
itself, its slope the gradient, its curvature the Hessian, and its "row" is the identity. What is a number per row for
a linear model is then a vector or a matrix, and kernels run as Python (`finitesum.core.jit.Interpreted`).
"""

from typing import TYPE_CHECKING

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import Interpreted
from finitesum.losses.base import OfComponents

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
