"""IQN for components that are callables: the recursion of `finitesum.methods.curvature.iqn`, n (d^2 + 2 d) numbers.

The components' first matrices are their Hessians at the start plus a millionth of their mean diagonal, or, where components
have gradients only, a number times I: give `initial`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.problems.finite_sum import FiniteSum

#: y's / s's below which a component's matrix stays as it is.
SMALLEST_CURVATURE = 1e-12


class IQNState(NamedTuple):
    x: Vector  # iterate
    anchors: Matrix  # (n, d)  z_i
    gradients: Matrix  # (n, d)  g_i, penalty included
    matrices: Matrix  # (n, d, d)  B_i
    gradient: Vector  # q at x: the mean model's gradient
    failure: Vector  # a running sum of (y - B_i s) / n: what the models mispredicted
    n_passes: int
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class IQNForm:
    """The incremental quasi-Newton method."""

    damping: float
    initial: float | str
    most_components: int  # what memory allows, in dimension d: most_components // d^2

    state_type: ClassVar[type[IQNState]] = IQNState

    @property
    def needs_hessians(self) -> bool:
        """Whether the first matrices are Hessians."""
        return self.initial == "hessian"

    def init(self, problem: FiniteSum, x0: Vector, tol: float = 0.0) -> IQNState:
        """Return the state before the first visit: every component anchored at the start, by one full pass."""
        n, dim = problem.n_components, problem.dim
        if n > max(1, self.most_components // dim**2):
            raise ValueError(
                f"iqn needs {8e-9 * n * dim**2:.3g} GB for a {dim} x {dim} matrix for each of {n} components. Raise "
                'max_gigabytes, or use method="nim", which needs one matrix.'
            )
        problem.require_defined(x0)
        gradients = problem.component_gradients(x0) + problem.term.quadratic * x0
        matrices = self._first_matrices(problem, x0)
        n_hessians = n if self.needs_hessians else 0
        anchors = np.tile(x0, (n, 1))
        return IQNState(
            x0.copy(), anchors, gradients, matrices, gradients.mean(axis=0), np.zeros(dim), 0, n, n_hessians
        )

    def _first_matrices(self, problem: FiniteSum, x0: Vector) -> Matrix:
        n, dim = problem.n_components, problem.dim
        if self.initial != "hessian":
            return np.tile(float(self.initial) * np.eye(dim), (n, 1, 1))
        matrices = np.stack([problem.component_hessian(x0, j) for j in range(n)])
        size = float(np.einsum("ijj->", matrices)) / (n * dim)
        diagonal = np.arange(dim)
        matrices[:, diagonal, diagonal] += (1e-6 * abs(size) or 1.0) + problem.term.quadratic
        return matrices

    def run_pass(self, problem: FiniteSum, state: IQNState, order: Indices) -> IQNState:
        """Return the state after the visits of `order`."""
        x, anchors, gradients, matrices, gradient, failure = (array.copy() for array in state[:6])
        n, n_visits = problem.n_components, 0
        mean = matrices.mean(axis=0)
        inverse = _inverse(mean)
        keep = 1.0 - 1.0 / max(0.1 * n, 1.0)
        for i in order:
            jump = -self.damping * (inverse @ gradient)
            x = x + jump
            gradient += mean @ jump
            s = x - anchors[i]
            new = problem.component_gradient(x, i) + problem.term.quadratic * x
            n_visits += 1
            if not np.isfinite(new).all():
                x = np.full_like(x, np.nan)
                break
            y = new - gradients[i]
            anchors[i], gradients[i] = x, new
            bs = matrices[i] @ s
            failure = keep * failure + (y - bs) / n
            gradient += (y - bs) / n
            smallest, ys, sbs = SMALLEST_CURVATURE * (s @ s), y @ s, s @ bs
            if ys > smallest and sbs > smallest:
                change = np.outer(y, y) / ys - np.outer(bs, bs) / sbs
                matrices[i] += change
                mean += change / n
                inverse = _updated(inverse, n, y, float(ys), bs, float(sbs))
        return IQNState(
            x,
            anchors,
            gradients,
            matrices,
            gradient,
            failure,
            state.n_passes + 1,
            state.n_gradients + n_visits,
            state.n_hessians,
        )

    def estimate(self, problem: FiniteSum, state: IQNState) -> float:
        """Return what model and misprediction say of the optimality, NaN before the first pass is over."""
        if state.n_passes < 1:
            return math.nan
        n = problem.n_components
        error = n / max(0.1 * n, 1.0) * np.linalg.norm(state.failure)
        return float(error + np.linalg.norm(state.gradient))


def _inverse(mean: Matrix) -> Matrix:
    """Return the inverse of the mean matrix.

    Raises
    ------
    ValueError
        It is not positive definite: the components' mean is not convex at the start.
    """
    try:
        factor = cho_factor(mean, check_finite=False)
    except LinAlgError:
        raise ValueError(
            "iqn needs first matrices whose mean is positive definite. Give the option initial, a number near the "
            "components' curvature, or a penalty, or another x0."
        ) from None
    inverse: Matrix = cho_solve(factor, np.eye(mean.shape[0]), check_finite=False)
    return inverse


def _updated(inverse: Matrix, n: int, y: Vector, ys: float, bs: Vector, sbs: float) -> Matrix:
    """Return the inverse after the mean changed by (y y' / y's - B s (B s)' / s'B s) / n: two rank-one formulas."""
    v = inverse @ y
    inverse = inverse - np.outer(v, v) / (n * ys + y @ v)
    v = inverse @ bs
    updated: Matrix = inverse + np.outer(v, v) / (n * sbs - bs @ v)
    return updated
