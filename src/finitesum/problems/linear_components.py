"""The components of a linear model as objects of their own, each with value, gradient and Hessian."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from finitesum.core import symmetric
from finitesum.core.arrays import Matrix, Vector
from finitesum.losses import Loss
from finitesum.problems.linear import LinearSum, Problem
from finitesum.problems.rows import to_matrix


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
        slopes: Vector = (self.weights * self._derivatives(w)[:, 1]) @ self.rows
        return slopes

    def hessian(self, w: Vector) -> Matrix:
        """Return the Hessian at w."""
        whole: Matrix = (self.rows.T * (self.weights * self._derivatives(w)[:, 2])) @ self.rows
        return whole

    def smoothness(self, curvature_bound: float) -> float:
        """Return a bound on the gradient's Lipschitz constant."""
        return float(curvature_bound * self.weights @ (self.rows**2).sum(axis=1))


@dataclass(frozen=True, eq=False)
class ViewedComponent:
    """A component of several outputs, or a function, as an object of its own made of what kernels see of it."""

    view: LinearSum
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
