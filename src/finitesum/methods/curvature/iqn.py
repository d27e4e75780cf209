"""IQN: the incremental quasi-Newton method, a BFGS matrix for every component and one inverse of their mean.

Component i has an anchor z_i, the gradient g_i there and a matrix B_i ~ nabla^2 f_i. A visit steps to the minimiser of the
mean model and updates one component there [1, eqs. 13-21]; D is the inverse of the mean matrix:

    w <- w - damping D q,     q = (1/m) sum_i (g_i + B_i (w - z_i)),   the mean model's gradient
    s = w - z_i,   y = nabla f_i(w) - g_i
    B_i <- B_i + y y' / y's - B_i s s' B_i / s'B_i s,    z_i <- w,    g_i <- g_i + y
    D   <- the inverse of the new mean, by two Sherman-Morrison formulas

Memory m d^2: the reason why it does not scale; O(d^2) work a visit. An update is skipped where y's <= 1e-12 ||s||^2. q and
the mean matrix are updated beside D, so that rounding errors in D cost steps, not accuracy; D is computed again at the
head of each pass. The penalty's quadratic part belongs to every component. Of a linear model g_i is a slope by rows.

Deviations: the mean, not the sum. B_i starts not as I but as the component's Hessian at the start, with the loss's
majorant where a linear model of one output has one, plus a millionth of their mean diagonal (so that D exists): the
convergence theory asks for matrices near the Hessians, and with majorants the first steps cannot overshoot. A number for
`initial` gives number * I, which components without second derivatives need.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.jit import REASSOCIATE, compiled_form, kernel, kernel_part
from finitesum.core.vectors import add_products, add_square, axpy, copy, divide, dot, fill, scale
from finitesum.methods.base import SumMethod, copied
from finitesum.methods.cost_model import threads_for_matrices
from finitesum.methods.curvature.trust import error_estimate
from finitesum.methods.parameters import Damping, check_positive
from finitesum.methods.snapshot import smooth_gradient, take_snapshot
from finitesum.methods.subproblems.positive_definite import inverse_of
from finitesum.methods.visits import AnySum, add_gradient_change
from finitesum.problems.linear import Problem
from finitesum.problems.view import View, first_row, last_row

#: y's / s's below which a component's matrix stays as it is.
SMALLEST_CURVATURE = 1e-12

#: What to do where the mean of the components is not convex at the start.
NOT_CONVEX = (
    "iqn needs first matrices whose mean is positive definite. Give the option initial, a number near the components' "
    "curvature, or a penalty, or another x0."
)

#: Components that the default batch size makes, where memory allows them.
COMPONENTS = 200


class IQNState(NamedTuple):
    x: Vector  # iterate
    anchors: Matrix  # (m, d)  z_i
    slopes: Vector  # (n,)  the loss's slope at the anchor of each row's component; of functions gradients, (n, d)
    matrices: Matrix  # (m, d, d)  B_i
    gradient: Vector  # q at x
    residual: Vector  # a running sum of (y - B_i s) / m: what the models did not predict
    n_gradients: int
    n_hessians: int


def _multiply(matrix: Matrix, v: Vector, out: Vector) -> float:
    """Write M v to out; return v'M v."""
    out[:] = matrix @ v
    return float(v @ out)


@compiled_form(of=_multiply, fastmath=set(REASSOCIATE))
def _compiled_multiply(matrix: Matrix, v: Vector, out: Vector) -> float:
    square = 0.0
    for j in range(v.size):
        row = matrix[j]
        total = 0.0
        for k in range(v.size):
            total += row[k] * v[k]
        out[j] = total
        square += total * v[j]
    return square


def _add_squares(matrix: Matrix, a: float, v: Vector, b: float, u: Vector) -> None:
    """Add a v v' + b u u' to M."""
    matrix += np.outer(a * v, v) + np.outer(b * u, u)


@compiled_form(of=_add_squares, fastmath=set(REASSOCIATE))
def _compiled_add_squares(matrix: Matrix, a: float, v: Vector, b: float, u: Vector) -> None:
    for j in range(v.size):
        row = matrix[j]
        left, right = a * v[j], b * u[j]
        for k in range(v.size):
            row[k] += left * v[k] + right * u[k]


@kernel_part
def _add_error(y: Vector, bs: Vector, m: int, keep: float, missed: Vector, residual: Vector, gradient: Vector) -> None:
    """Add (y - B_i s) / m, which `missed` has room for, to the mean model's gradient and to the running sum."""
    copy(y, missed)
    axpy(-1.0, bs, missed)
    divide(missed, m, missed)
    scale(residual, keep)
    axpy(1.0, missed, residual)
    axpy(1.0, missed, gradient)


@kernel_part
def _update(
    matrix: Matrix, mean: Matrix, inverse: Matrix, m: int, y: Vector, ys: float, bs: Vector, sbs: float, scratch: Vector
) -> None:
    """Update B_i, the mean matrix and the inverse of the mean, in place."""
    _add_squares(matrix, 1.0 / ys, y, -1.0 / sbs, bs)
    _add_squares(mean, 1.0 / (m * ys), y, -1.0 / (m * sbs), bs)
    square = _multiply(inverse, y, scratch)
    add_square(inverse, -1.0 / (m * ys + square), scratch)
    square = _multiply(inverse, bs, scratch)
    add_square(inverse, 1.0 / (m * sbs - square), scratch)


@kernel
def _visits(
    view: View, order: Indices, state: IQNState, mean: Matrix, inverse: Matrix, quadratic: Vector, damping: float
) -> int:
    """Step and update along `order`, in place; return how many components were visited (fewer on divergence)."""
    w, anchors, slopes, matrices, gradient, residual, _, _ = state
    m = view.n_components
    keep = 1.0 - 1.0 / max(0.1 * m, 1.0)
    step, y, bs, missed = np.empty(w.size), np.empty(w.size), np.empty(w.size), np.empty(w.size)
    for k, component in enumerate(order):
        _multiply(inverse, gradient, step)
        scale(step, -damping)
        axpy(1.0, step, w)
        _multiply(mean, step, bs)
        axpy(1.0, bs, gradient)
        copy(w, step)
        axpy(-1.0, anchors[component], step)
        copy(w, anchors[component])
        fill(y, 0.0)
        add_products(quadratic, step, y)
        finite = add_gradient_change(view, component, w, slopes, float(m), True, y)
        if not finite:
            fill(w, np.nan)
            return k + 1
        sbs = _multiply(matrices[component], step, bs)
        _add_error(y, bs, m, keep, missed, residual, gradient)
        smallest = SMALLEST_CURVATURE * dot(step, step)
        ys = dot(y, step)
        if ys > smallest and sbs > smallest:
            _update(matrices[component], mean, inverse, m, y, ys, bs, sbs, step)
    return order.size


@kernel
def _add_component_hessians(view: View, w: Vector, majorised: bool, matrices: Matrix) -> None:
    """Add m sum_{i in B_j} p_i c_i x_i x_i' to the lower triangle of matrix j, c_i the curvature at w or the majorant's."""
    for component in range(view.n_components):
        for i in range(first_row(view, component), last_row(view, component)):
            if view.weights[i] == 0.0:
                continue
            prediction = view.rows.dot(i, w) + view.offsets[i]
            _, curvature = view.loss.d1_d2(prediction, view.targets[i])
            if majorised:
                curvature = view.loss.majorant(prediction, view.targets[i])
            view.rows.gram_add(i, view.n_components * view.weights[i] * curvature, matrices[component])


def _component_hessians(problem: AnySum, w: Vector) -> Matrix:
    """Return a component's Hessian at w or its majorant, and a bit more than the quadratic penalty, for each component."""
    m, dim = problem.n_components, problem.dim
    matrices = np.zeros((m, dim, dim))
    is_majorised = False
    if isinstance(problem, Problem) and problem.n_outputs == 1:
        is_majorised = math.isfinite(problem.loss.majorant(0.0, 1.0))
    _add_component_hessians(problem.view, w, is_majorised, matrices)
    size = float(np.einsum("ijj->", matrices)) / (m * dim)
    for matrix in matrices:
        matrix += np.tril(matrix, -1).T
    diagonal = np.arange(dim)
    matrices[:, diagonal, diagonal] += 1e-6 * abs(size) or 1.0
    matrices[:, diagonal, diagonal] += problem.term.quadratic
    return matrices


_check_initial = partial(check_positive, advice='Leave it out to start from "hessian".', words=("hessian",))
_check_memory = partial(check_positive, advice="It bounds the memory of the matrices.", words=())


@dataclass(frozen=True)
class IQN(SumMethod):
    """The incremental quasi-Newton method: NIM with BFGS matrices in place of Hessians.

    w+ = w - damping D q,   D = ((1/m) sum_i B_i)^-1,   q = (1/m) sum_i (g_i + B_i (w - z_i))    [1]

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

    References
    ----------
    .. [1] A. Mokhtari, M. Eisen, A. Ribeiro, "IQN: an incremental quasi-Newton method with local superlinear convergence
       rate", SIAM J. Optim. 28 (2018).
    """

    step_size: Damping = "auto"
    initial: Annotated[float | Literal["hessian"], _check_initial] = "hessian"
    max_gigabytes: Annotated[float, _check_memory] = 1.0

    handles: ClassVar[frozenset[str]] = frozenset({"weights", "components", "outputs"})
    default_sampling: ClassVar[str] = "shuffled-once"

    @property
    def needs_hessians(self) -> bool:
        """Whether the first matrices are Hessians."""
        return self.initial == "hessian"

    def _most_components(self, dim: int) -> int:
        return max(1, int(self.max_gigabytes * 1e9 / (8 * dim**2)))

    def _require_memory(self, problem: AnySum) -> None:
        m, dim, most = problem.n_components, problem.dim, self._most_components(problem.dim)
        if m <= most:
            return
        instead = "Raise max_gigabytes"
        if isinstance(problem, Problem):
            instead = f"Use a batch_size of at least {-(-problem.n_rows // most)}"
        raise ValueError(
            f"iqn needs {8e-9 * m * dim**2:.3g} GB for a {dim} x {dim} matrix for each of {m} components, and "
            f'max_gigabytes is {self.max_gigabytes:g}. {instead}, or method="nim", which needs one matrix.'
        )

    def blas_threads(self, problem: AnySum) -> int | None:
        return threads_for_matrices(problem)

    def init(self, problem: AnySum, x0: Vector, tol: float = 0.0) -> IQNState:
        """Return the state before the first visit: every component anchored at the start, by one full pass."""
        self._require_memory(problem)
        m, dim = problem.n_components, problem.dim
        start = take_snapshot(problem, x0)
        if isinstance(self.initial, str):
            matrices, n_hessians = _component_hessians(problem, x0), m
        else:
            matrices, n_hessians = np.tile(float(self.initial) * np.eye(dim), (m, 1, 1)), 0
        gradient, anchors = smooth_gradient(problem, start), np.tile(x0, (m, 1))
        return IQNState(x0.copy(), anchors, start.slopes, matrices, gradient, np.zeros(dim), m, n_hessians)

    def run_pass(self, problem: AnySum, state: IQNState, order: Indices) -> IQNState:
        state = copied(state)
        mean, damping = state.matrices.mean(axis=0), 1.0 if isinstance(self.step_size, str) else float(self.step_size)
        inverse = inverse_of(mean, NOT_CONVEX)
        n_visits = _visits(problem.view, order, state, mean, inverse, problem.term.quadratic, damping)
        return state._replace(n_gradients=state.n_gradients + n_visits)

    def estimate(self, problem: AnySum, state: IQNState) -> float:
        """Return what model and residual say of the optimality, NaN before the first pass is over."""
        if state.n_gradients < 2 * problem.n_components:
            return math.nan
        return error_estimate(problem, state.residual) + float(np.linalg.norm(state.gradient))

    def default_batch_size(self, problem: Problem) -> int:
        """Return the size that makes 200 components, or as many as their matrices have memory for."""
        return -(-problem.n_rows // min(COMPONENTS, self._most_components(problem.dim)))
