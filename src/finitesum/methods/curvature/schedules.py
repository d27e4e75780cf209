"""Constant steps, and the paper's two ways to a start that its theory likes: a warm start by SAG, and restarts.

**Constant steps.** Theory allows 2 / (mu + L) without extrapolation [1, Theorem 1] and 1 / (2 L) with [1, Theorem 2].

**Warm start.** The step that theory allows grows as the start comes closer to the optimum. The memory's slopes are SAG's
table, so SAG can walk while the memory fills: the components visited join b and H as ever, and the step is

    x <- prox(x - (sum_i p_i slope_i z_i + l2 x) / L_max)        over the rows visited so far.

No visit is lost, and no product with H is needed.

**Restarts.** [1, section 4] begins with a short step and restarts from the iterate reached with a longer one, up to the
step of the asymptotic rate; the schedule is left open there. Here the worth of the models decides: R, see
`finitesum.methods.curvature.trust`, falls with the distance to the optimum as the error bound of the theory does. Where
it stayed below 1/2 since the last look, the step is doubled; where it went above 0.9, halved. The memory is kept: old
Taylor models stay valid wherever the iterate moves.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
"""

from __future__ import annotations

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.jit import kernel, kernel_part
from finitesum.evaluation.smoothness import component_smoothness, counted_smoothness, momentum_limit, strong_convexity
from finitesum.methods.curvature.automatic_steps import Control, copy_control
from finitesum.methods.curvature.taylor_model import Pending, Surrogate, finish_visits, full_hessian, new_pending, visit
from finitesum.methods.curvature.trust import DISTRUSTED, TRUSTED
from finitesum.methods.visits import prox_view
from finitesum.problems.linear import LinearSum, Problem, first_row, last_row
from finitesum.problems.term import prox_in_place


def constant_steps(problem: Problem, asked: float | str, *, plain: bool, restarts: bool) -> tuple[float, float, int]:
    """Return the step that was asked for, the longest that restarts may lead to, and the gradients that they cost.

    Parameters
    ----------
    problem : Problem
    asked : float > 0 or "theory"
    plain : bool
        Whether there is no extrapolation.
    restarts : bool
        Whether the step is reconsidered; else a step that is given costs nothing.

    Examples
    --------
    >>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared", alpha=1.0)
    >>> [round(constant_steps(problem, "theory", plain=plain, restarts=False)[0], 3) for plain in (True, False)]
    [0.667, 0.25]
    >>> constant_steps(problem, 0.1, plain=True, restarts=False)
    (0.1, 0.1, 0)
    """
    if asked != "theory" and not restarts:
        return float(asked), float(asked), 0
    smoothness, n_gradients = counted_smoothness(problem)
    theory = 2.0 / (strong_convexity(problem) + smoothness) if plain else 0.5 / smoothness
    step_size = theory if asked == "theory" else float(asked)
    return step_size, max(step_size, theory), n_gradients


def constant_extrapolation(problem: Problem, asked: float | str, step_size: float) -> float:
    """Return the extrapolation that was asked for: "auto" is (1 - sqrt(mu step)) / (1 + sqrt(mu step)) [1, eq. 31]."""
    return momentum_limit(strong_convexity(problem), step_size) if asked == "auto" else float(asked)


@kernel_part
def _add_slopes(
    linear_sum: LinearSum, surrogate: Surrogate, first: int, last: int, sign: float, gradient: Vector
) -> None:
    """Add sign times sum_i p_i slope_i z_i over some rows to a gradient."""
    for i in range(first, last):
        if surrogate.slopes[i] != 0.0:
            linear_sum.rows.add_to(i, sign * linear_sum.weights[i] * surrogate.slopes[i], gradient)


@kernel
def _sag_visits(
    linear_sum: LinearSum, order: Indices, x: Vector, surrogate: Surrogate, pending: Pending, step_size: float
) -> int:
    y = np.zeros(pending.vectors.shape[1])
    gradient = np.zeros(x.size)
    _add_slopes(linear_sum, surrogate, 0, linear_sum.rows.n_rows, 1.0, gradient)
    ridge = linear_sum.penalty.ridge()
    n_visits = 0
    for component in order:
        first, last = first_row(linear_sum, component), last_row(linear_sum, component)
        _add_slopes(linear_sum, surrogate, first, last, -1.0, gradient)
        for j in range(x.size):
            y[j] = x[j]
        finite = visit(linear_sum, surrogate, pending, component, y)
        _add_slopes(linear_sum, surrogate, first, last, 1.0, gradient)
        for j in range(x.size):
            x[j] -= step_size * (gradient[j] + (ridge * x[j] if j < linear_sum.n_penalised else 0.0))
        prox_in_place(linear_sum, x, step_size)
        n_visits += 1
        if not finite:
            break
    finish_visits(surrogate, pending)
    return n_visits


def warm_start_visits(problem: Problem, order: Indices, x: Vector, surrogate: Surrogate) -> int:
    """Take SAG's steps of length 1 / L_max while the memory fills, in place; return how many visits were made."""
    step_size = 1.0 / component_smoothness(problem)
    return int(_sag_visits(prox_view(problem), order, x, surrogate, new_pending(problem), step_size))


def with_bound(control: Control, surrogate: Surrogate, n_steps: int = 30) -> Control:
    """Return a control that knows lambda_max of an H which it has not seen grow, by the power iteration."""
    hessian = full_hessian(surrogate)
    direction = np.ones(hessian.shape[0]) + 0.1 * np.cos(np.arange(hessian.shape[0]))  # orthogonal to nothing of note
    largest = 0.0
    for _ in range(n_steps):
        product = hessian @ direction
        largest = float(np.linalg.norm(product))
        if largest == 0.0:
            return control
        direction = product / largest
    control = copy_control(control)
    control.direction[: direction.size] = direction
    return control._replace(eigenvalue=1.05 * largest)


@kernel_part
def larger_ratio(ratio: float, n_compared: int, failure: Vector, movement: Vector) -> float:
    """Return the larger of a ratio and R = ||E delta|| / ||E pi||, once three comparisons make R known; NaN before."""
    failed, moved = 0.0, 0.0
    for j in range(failure.size):
        failed += failure[j] * failure[j]
        moved += movement[j] * movement[j]
    if n_compared < 3 or moved <= 1e-30:
        return ratio
    now = np.sqrt(failed / moved)
    return now if np.isnan(ratio) or now > ratio else ratio


def next_step(step_size: float, ratio: float, longest: float) -> float:
    """Return the step after a look at R: longer up to a limit, shorter, or as it was where R says nothing.

    Examples
    --------
    >>> next_step(0.1, 0.3, 1.0), next_step(0.1, 0.7, 1.0), next_step(0.1, 2.0, 1.0), next_step(0.8, 0.3, 1.0)
    (0.2, 0.1, 0.05, 1.0)
    """
    if ratio < TRUSTED:  # not where it is NaN: nothing was compared
        return max(step_size, min(2.0 * step_size, longest))
    return 0.5 * step_size if ratio > DISTRUSTED else step_size
