"""IQN: the incremental quasi-Newton method, a BFGS matrix for every component and one inverse of their mean.

Component i has an anchor z_i, the gradient g_i there and a matrix B_i ~ nabla^2 f_i. A visit jumps to the minimiser of the
mean model and updates one component there [1, eqs. 13-21]; D is the inverse of the mean matrix:

    x <- x - damping D q,     q = (1/m) sum_i (g_i + B_i (x - z_i)),   the mean model's gradient
    s = x - z_i,   y = nabla f_i(x) - g_i
    B_i <- B_i + y y' / y's - B_i s s' B_i / s'B_i s,    z_i <- x,    g_i <- g_i + y
    D   <- the inverse of the new mean, by two Sherman-Morrison formulas

Memory m d^2: the reason why it does not scale; O(d^2) work a visit. An update is skipped where y's <= 1e-12 ||s||^2. q and
the mean matrix are kept up beside D, so that rounding errors in D cost steps, not accuracy; D is computed again at the
head of each pass. The penalty's quadratic part belongs to every component.

Deviations: the mean, not the sum. B_i starts not as I but as the component's Hessian at the start, with the loss's
majorant where there is one, plus a millionth of their mean diagonal (so that D exists): the convergence theory asks for
matrices near the Hessians, and with majorants the first jumps cannot overshoot. A number for `initial` gives number * I.

References
----------
.. [1] A. Mokhtari, M. Eisen, A. Ribeiro, "IQN: an incremental quasi-Newton method with local superlinear convergence rate",
   SIAM J. Optim. 28 (2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import kernel, kernel_part, reassociated_part
from finitesum.methods.base import Auto, Card, check_positive, with_general_form
from finitesum.methods.general.quasi_newton import IQNForm
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row

#: y's / s's below which a component's matrix stays as it is.
SMALLEST_CURVATURE = 1e-12

#: Components that the default batch size makes, where memory allows them.
COMPONENTS = 200


class IQNState(NamedTuple):
    x: Vector  # iterate
    anchors: Matrix  # (m, d)  z_i
    slopes: Vector  # (n,)  the loss's slope at the anchor of each row's component
    matrices: Matrix  # (m, d, d)  B_i
    gradient: Vector  # q at x
    failure: Vector  # a running sum of (y - B_i s) / m: what the models mispredicted
    n_gradients: int
    n_hessians: int


@reassociated_part
def _product(matrix: Matrix, vector: Vector, out: Vector) -> float:
    """Write M v to out; return v'M v."""
    square = 0.0
    for j in range(vector.size):
        row = matrix[j]
        total = 0.0
        for k in range(vector.size):
            total += row[k] * vector[k]
        out[j] = total
        square += total * vector[j]
    return square


@reassociated_part
def _add_square(matrix: Matrix, a: float, v: Vector) -> None:
    """Add a v v' to M."""
    for j in range(v.size):
        row = matrix[j]
        left = a * v[j]
        for k in range(v.size):
            row[k] += left * v[k]


@reassociated_part
def _add_squares(matrix: Matrix, a: float, v: Vector, b: float, w: Vector) -> None:
    """Add a v v' + b w w' to M."""
    for j in range(v.size):
        row = matrix[j]
        left, right = a * v[j], b * w[j]
        for k in range(v.size):
            row[k] += left * v[k] + right * w[k]


@kernel_part
def _component_change(
    linear_sum: LinearSum, component: int, x: Vector, slopes: Vector, step: Vector, change: Vector
) -> bool:
    """Write nabla f_i(x) - g_i to `change`, given x - z_i; move the slopes; return whether all is finite."""
    for j in range(x.size):
        change[j] = linear_sum.penalty.ridge() * step[j] if j < linear_sum.n_penalised else 0.0
    finite = True
    for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
        if linear_sum.weights[i] == 0.0:
            continue
        prediction = linear_sum.rows.dot(i, x) + linear_sum.offsets[i]
        slope = linear_sum.loss.d1(prediction, linear_sum.targets[i])
        finite = finite and np.isfinite(slope)
        scale = linear_sum.n_components * linear_sum.weights[i]
        linear_sum.rows.add_to(i, scale * (slope - slopes[i]), change)
        slopes[i] = slope
    return finite


@kernel_part
def _dot(a: Vector, b: Vector) -> float:
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@kernel_part
def _update(
    matrix: Matrix, mean: Matrix, inverse: Matrix, m: int, y: Vector, ys: float, bs: Vector, sbs: float, scratch: Vector
) -> None:
    """Update B_i, the mean matrix and the inverse of the mean, in place."""
    _add_squares(matrix, 1.0 / ys, y, -1.0 / sbs, bs)
    _add_squares(mean, 1.0 / (m * ys), y, -1.0 / (m * sbs), bs)
    square = _product(inverse, y, scratch)
    _add_square(inverse, -1.0 / (m * ys + square), scratch)
    square = _product(inverse, bs, scratch)
    _add_square(inverse, 1.0 / (m * sbs - square), scratch)


@kernel
def _visits(
    linear_sum: LinearSum,
    order: Indices,
    x: Vector,
    anchors: Matrix,
    slopes: Vector,
    matrices: Matrix,
    gradient: Vector,
    failure: Vector,
    mean: Matrix,
    inverse: Matrix,
    damping: float,
) -> int:
    """Jump and update along `order`, in place; return how many components were visited (fewer on divergence)."""
    m = linear_sum.n_components
    keep = 1.0 - 1.0 / max(0.1 * m, 1.0)
    step, y, bs = np.empty(x.size), np.empty(x.size), np.empty(x.size)
    n_visits = 0
    for component in order:
        _product(inverse, gradient, step)
        for j in range(x.size):
            step[j] *= -damping
            x[j] += step[j]
        _product(mean, step, bs)
        for j in range(x.size):
            gradient[j] += bs[j]
            step[j] = x[j] - anchors[component, j]
            anchors[component, j] = x[j]
        finite = _component_change(linear_sum, component, x, slopes, step, y)
        n_visits += 1
        if not finite:
            x[:] = np.nan
            break
        sbs = _product(matrices[component], step, bs)
        for j in range(x.size):
            failure[j] = keep * failure[j] + (y[j] - bs[j]) / m
            gradient[j] += (y[j] - bs[j]) / m
        smallest = SMALLEST_CURVATURE * _dot(step, step)
        ys = _dot(y, step)
        if ys > smallest and sbs > smallest:
            _update(matrices[component], mean, inverse, m, y, ys, bs, sbs, step)
    return n_visits


@kernel
def _component_gradients(
    linear_sum: LinearSum, x: Vector, slopes: Vector, curvatures: Vector, majorised: bool, gradient: Vector
) -> None:
    """Write the slopes and curvatures at x, and add up the gradient of the mean loss."""
    for i in range(linear_sum.rows.n_rows):
        slopes[i], curvatures[i] = 0.0, 0.0
        if linear_sum.weights[i] == 0.0:
            continue
        prediction = linear_sum.rows.dot(i, x) + linear_sum.offsets[i]
        slope, curvature = linear_sum.loss.d1_d2(prediction, linear_sum.targets[i])
        slopes[i] = slope
        curvatures[i] = linear_sum.loss.majorant(prediction, linear_sum.targets[i]) if majorised else curvature
        linear_sum.rows.add_to(i, linear_sum.weights[i] * slope, gradient)


@kernel
def _add_component_grams(linear_sum: LinearSum, curvatures: Vector, matrices: Matrix) -> None:
    """Add m sum_{i in B_j} p_i c_i z_i z_i' to the lower triangle of matrix j."""
    for component in range(linear_sum.n_components):
        for i in range(first_row(linear_sum, component), last_row(linear_sum, component)):
            scale = linear_sum.n_components * linear_sum.weights[i] * curvatures[i]
            linear_sum.rows.gram_add(i, scale, matrices[component])


def _start_matrices(problem: Problem, curvatures: Vector, initial: float | Literal["hessian"]) -> Matrix:
    m, dim = problem.n_components, problem.dim
    if initial != "hessian":
        return np.tile(float(initial) * np.eye(dim), (m, 1, 1))
    matrices = np.zeros((m, dim, dim))
    _add_component_grams(problem.view, curvatures, matrices)
    size = float(np.einsum("ijj->", matrices)) / (m * dim)
    for matrix in matrices:
        matrix += np.tril(matrix, -1).T
    diagonal = np.arange(dim)
    matrices[:, diagonal, diagonal] += 1e-6 * size or 1.0
    penalised = diagonal[: problem.rows.n_columns]
    matrices[:, penalised, penalised] += problem.penalty.ridge()
    return matrices


@with_general_form
@dataclass(frozen=True)
class IQN:
    """The incremental quasi-Newton method: NIM with BFGS matrices in place of Hessians.

    x+ = x - damping D q,   D = ((1/m) sum_i B_i)^-1,   q = (1/m) sum_i (g_i + B_i (x - z_i))    [1]

    Parameters
    ----------
    step_size : float in (0, 1] or "auto"
        The damping; "auto" is 1.
    initial : float > 0 or "hessian"
        The components' first matrices: a multiple of I, or their Hessians (majorants) at the start.
    max_gigabytes : float > 0
        What the matrices may take: 8 m d^2 bytes. While a pass runs, twice that is needed.

    Raises
    ------
    ValueError
        A parameter is out of range, or the matrices need more memory than allowed.

    Examples
    --------
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss="squared", alpha=0.1)
    >>> method = IQN()
    >>> method.run_pass(problem, method.init(problem, np.zeros(1)), np.arange(2)).x.round(6)
    array([0.588235])

    References
    ----------
    .. [1] A. Mokhtari, M. Eisen, A. Ribeiro, "IQN: an incremental quasi-Newton method with local superlinear convergence
       rate", SIAM J. Optim. 28 (2018).
    """

    step_size: float | Auto = "auto"
    initial: float | Literal["hessian"] = "hessian"
    max_gigabytes: float = 1.0

    name: ClassVar[str] = "iqn"
    state_type: ClassVar[type[IQNState]] = IQNState
    handles: ClassVar[frozenset[str]] = frozenset()
    default_sampling: ClassVar[str] = "shuffled-once"
    card: ClassVar[Card] = Card(
        "incremental quasi-Newton method",
        "m d^2",
        "d^2",
        "o(log 1/eps) near the optimum (superlinear), worst case",
        "smooth, strongly convex, Lipschitz Hessian (read at the start only)",
        "Mokhtari, Eisen, Ribeiro 2018",
    )

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        if self.step_size != "auto" and self.step_size > 1.0:
            raise ValueError(
                f"step_size must be at most 1, got {self.step_size}: a jump ends at the model's minimiser."
            )
        if self.initial != "hessian":
            check_positive("initial", self.initial, 'Leave it out to start from "hessian".')
        check_positive("max_gigabytes", self.max_gigabytes, "It bounds the memory of the matrices.")

    def _most_components(self, dim: int) -> int:
        return max(1, int(self.max_gigabytes * 1e9 / (8 * dim**2)))

    def general(self) -> IQNForm:
        """Return the method for components that are objects or callables."""
        damping = 1.0 if self.step_size == "auto" else float(self.step_size)
        return IQNForm(damping, self.initial, int(self.max_gigabytes * 1e9 / 8))

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> IQNState:
        """Return the state before the first visit: every component anchored at the start, by one full pass."""
        n, m, dim = problem.n_rows, problem.n_components, problem.dim
        if m > self._most_components(dim):
            raise ValueError(
                f"iqn needs {8e-9 * m * dim**2:.3g} GB for a {dim} x {dim} matrix for each of {m} components, and "
                f"max_gigabytes is {self.max_gigabytes:g}. Use a batch_size of at least "
                f'{-(-n // self._most_components(dim))}, or method="nim", which needs one matrix.'
            )
        slopes, curvatures, gradient = np.empty(n), np.empty(n), np.zeros(dim)
        majorised = math.isfinite(problem.loss.majorant(0.0, 1.0))
        _component_gradients(problem.view, x0, slopes, curvatures, majorised, gradient)
        n_penalised = problem.rows.n_columns
        gradient[:n_penalised] += problem.penalty.ridge() * x0[:n_penalised]
        matrices = _start_matrices(problem, curvatures, self.initial)
        n_hessians = m if self.initial == "hessian" else 0
        return IQNState(x0.copy(), np.tile(x0, (m, 1)), slopes, matrices, gradient, np.zeros(dim), m, n_hessians)

    def run_pass(self, problem: Problem, state: IQNState, order: Indices) -> IQNState:
        """Return the state after the visits of `order`."""
        x, anchors, slopes, matrices, gradient, failure = (array.copy() for array in state[:6])
        mean = matrices.mean(axis=0)
        factor = cho_factor(mean, check_finite=False)
        inverse = np.ascontiguousarray(cho_solve(factor, np.eye(problem.dim), check_finite=False))
        damping = 1.0 if self.step_size == "auto" else float(self.step_size)
        n_gradients = state.n_gradients + _visits(
            problem.view, order, x, anchors, slopes, matrices, gradient, failure, mean, inverse, damping
        )
        return IQNState(x, anchors, slopes, matrices, gradient, failure, n_gradients, state.n_hessians)

    def estimate(self, problem: Problem, state: IQNState) -> float:
        """Return what model and misprediction say of the optimality, NaN before the first pass is over."""
        if state.n_gradients < 2 * problem.n_components:
            return math.nan
        window = max(0.1 * problem.n_components, 1.0)
        error = problem.n_components / window * np.linalg.norm(state.failure)
        return float(error + np.linalg.norm(state.gradient))

    def default_batch_size(self, problem: Problem) -> int:
        """Return the size that makes 200 components, or as many as their matrices have memory for."""
        return -(-problem.n_rows // min(COMPONENTS, self._most_components(problem.dim)))
