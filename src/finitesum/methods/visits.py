"""What the visits of all methods have alike: the gradient of a component, and a step along a direction.

A component f_j is the mean of its rows' losses, m sum_{i in B_j} p_i loss_i, or a function. Rows of weight 0 count for
nothing: what overflows there must not show.
"""

from typing import Any

from finitesum.core.arrays import Vector
from finitesum.core.jit import compiled_form, kernel_part
from finitesum.core.vectors import axpy, is_finite
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.term import prox_in_place
from finitesum.problems.view import View, first_row, last_row

AnySum = Problem | FiniteSum


def prox_view(problem: AnySum) -> View:
    """Return the view for kernels that know one strength of the quadratic part: with weights it is in the prox."""
    penalty: Any = problem.term.penalty
    return problem.view._replace(penalty=penalty.by_prox()) if problem.term.has_weights else problem.view


def optimality_of(problem: AnySum, w: Vector, mean_gradient: Vector) -> float:
    """Return the optimality at w if the gradient of the mean loss were this one."""
    return problem.term.optimality(w, mean_gradient + problem.term.quadratic * w)


@kernel_part
def slope_at(view: View, i: int, w: Vector) -> Any:
    """Return the slope of row i's loss at w."""
    return view.loss.d1(view.rows.dot(i, w) + view.offsets[i], view.targets[i])


@kernel_part
def add_component_gradient(view: View, component: int, w: Vector, scale: float, out: Vector) -> bool:
    """Add scale sum_i p_i loss_i'(w) over a component's rows to `out`; return whether all is finite."""
    finite = True
    for i in range(first_row(view, component), last_row(view, component)):
        if view.weights[i] == 0.0:
            continue
        slope = slope_at(view, i, w)
        finite = finite and is_finite(slope)
        view.rows.add_to(i, scale * view.weights[i] * slope, out)
    return finite


@kernel_part
def add_gradient_change(
    view: View, component: int, w: Vector, slopes: Vector, scale: float, records: bool, out: Vector
) -> bool:
    """Add scale sum_i p_i (slope_i(w) - slopes_i) x_i over a component's rows to `out`; return whether all is finite.

    Where it `records`, the slopes at w take the place of those given.
    """
    finite = True
    for i in range(first_row(view, component), last_row(view, component)):
        if view.weights[i] == 0.0:
            continue
        slope = slope_at(view, i, w)
        finite = finite and is_finite(slope)
        view.rows.add_to(i, scale * view.weights[i] * (slope - slopes[i]), out)
        if records:
            slopes[i] = slope
    return finite


@kernel_part
def descend(view: View, w: Vector, gradient: Vector, step_size: float) -> None:
    """Step in place, w <- prox(w - step gradient), the gradient that of the whole smooth part; it may be longer than w."""
    axpy(-step_size, gradient[: w.size], w)
    prox_in_place(view, w, step_size)


def step_along(view: View, w: Vector, direction: Vector, step_size: float) -> None:
    """Step in place, w <- prox(w - step (direction + l2 w)); on a set the prox projects; an intercept only steps."""
    coefficients = w.reshape(view.n_blocks, -1)[:, : view.n_penalised]
    coefficients *= 1.0 - step_size * view.penalty.ridge()
    w -= step_size * direction
    prox_in_place(view, w, step_size)


@compiled_form(of=step_along)
def _step_along(view: View, w: Vector, direction: Vector, step_size: float) -> None:
    decay = 1.0 - step_size * view.penalty.ridge()
    for j in range(view.n_penalised):
        w[j] = decay * w[j] - step_size * direction[j]
    for j in range(view.n_penalised, w.size):
        w[j] -= step_size * direction[j]
    prox_in_place(view, w, step_size)
