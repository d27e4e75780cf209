"""Newton-CG on components given as functions: products with Hessians, in a trust region, so that F need not be convex.

At w, with g the gradient of F's smooth part over a sample and H its Hessian (of residuals Gauss and Newton's),

    p ~ argmin m(p) = g'p + 1/2 p'H p,   ||p|| <= radius    [1, algorithm 7.2]

by conjugate gradients, which end at the boundary, or where a direction has no positive curvature: there they go on to the
boundary along it; while the radius is infinite, to where the curvature's size puts the minimum. With

    ratio = (F(w) - F(w + p)) / (m(0) - m(p))    [1, algorithm 4.1]

the step is taken where the ratio is above 1e-4. Below 1/4 the radius becomes ||p|| / 4, from 3/4 on it is 2 ||p|| at least.
So F never rises. Where rounding errors hide the change of F, the ratio is 1 if the optimality falls, and else 0. The first
radius is infinite: a convex sum may never meet it.

Samples, accuracies, the orthants of an l1 penalty and charges (a product is a pass of gradients) are those of
`finitesum.methods.newton.newton_cg`. There is no preconditioner. The references are those of `NewtonCG`.
"""

import math
from typing import Any

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.component_sums import hessian_product_on, mean_on, rows_per_component, worthwhile
from finitesum.methods.newton.newton_cg import ENOUGH, MOST_STEPS, accuracy_of, is_solved
from finitesum.methods.newton.orthants import orthant_of
from finitesum.methods.newton.subsampling import FIRST_ROWS, GROWTH, permutation
from finitesum.methods.subproblems.conjugate_gradients import ConjugateGradients, advanced_within, begun, redirected
from finitesum.methods.subproblems.line_search import rounding_of
from finitesum.problems.finite_sum import FiniteSum

#: The least ratio of a step that is taken, and those below and above which the radius changes, by these factors.
TAKEN, POOR, GOOD, SHORTER, LONGER = 1e-4, 0.25, 0.75, 0.25, 2.0


def run_pass(method: Any, problem: FiniteSum, state: Any, order: Indices) -> Any:
    """Return the state after a larger sample, a product of conjugate gradients, or the end of a step."""
    m = problem.n_components
    if state.order.size == 0:
        state = state._replace(order=permutation(order, m))
    is_complete, is_between = state.n_sampled == m, state.cg.residual.size == 0
    is_minimised = state.n_steps == MOST_STEPS or state.optimality <= state.enough
    if state.n_sampled == 0 or (is_between and is_minimised and not is_complete):
        first = first_sample(problem, method.first_rows, FIRST_ROWS)
        state = found_at(problem, state, state.x, next_sample(problem, state, first))
        known = state.first_optimality
        first_optimality = state.optimality if math.isnan(known) else known
        return state._replace(first_optimality=first_optimality, enough=ENOUGH * state.optimality)
    if is_between:
        right = orthant_of(problem, state).right
        state = state._replace(cg=begun(right, right))
    if is_solved(state.cg, accuracy_of(problem, state) if is_complete else 0.25):
        return _stepped(problem, state)
    return _multiplied(problem, state)


def next_sample(problem: FiniteSum, state: Any, first_rows: int) -> int:
    """Return the number of components of the sample after the state's."""
    m = problem.n_components
    n_next = GROWTH * state.n_sampled or -(-first_rows // rows_per_component(problem))
    return m if n_next > 0.4 * m else n_next


def first_sample(problem: FiniteSum, first_rows: int | str, usual: int) -> int:
    """Return the rows of the first sample: those given, or usual ones, unless all rows at once take less time."""
    if not isinstance(first_rows, str):
        return int(first_rows)
    size = rows_per_component(problem)
    return size * worthwhile(problem, -(-usual // size))


def found_at(problem: FiniteSum, state: Any, w: Vector, n_sampled: int) -> Any:
    """Return the state at w on a sample, with value and gradient there, which are charged."""
    value, gradient = mean_on(problem, np.sort(state.order[:n_sampled]), w)
    gradient = gradient + problem.term.quadratic * w
    return state._replace(
        x=w,
        value=value,
        gradient=gradient,
        optimality=problem.term.optimality(w, gradient),
        n_steps=state.n_steps + 1 if n_sampled == state.n_sampled else 0,
        n_sampled=n_sampled,
        n_gradients=state.n_gradients + n_sampled,
    )


def n_errors(problem: FiniteSum) -> int:
    """Return how many units of rounding a sum over all rows may be off by, where these are independent of each other."""
    return 4 * math.isqrt(problem.n_rows)


def objective_of(problem: FiniteSum, state: Any) -> float:
    """Return F on the sample."""
    return float(state.value + problem.term.value(state.x))


def _multiplied(problem: FiniteSum, state: Any) -> Any:
    """Return the state after a product with H."""
    sample, v = np.sort(state.order[: state.n_sampled]), state.cg.direction
    product = hessian_product_on(problem, sample, state.x, v) + problem.term.quadratic * v
    if not problem.is_smooth:
        product[~orthant_of(problem, state).free] = 0.0
    cg = advanced_within(state.cg, product, state.radius)
    if not cg.is_over:
        cg = redirected(cg, cg.residual)
    return state._replace(cg=cg, n_gradients=state.n_gradients + sample.size)


def _stepped(problem: FiniteSum, state: Any) -> Any:
    """Return the state after a step to what conjugate gradients found, or without it where F does not fall."""
    orthant, p, before = orthant_of(problem, state), state.cg.solution, objective_of(problem, state)
    falls_by, size = 0.5 * float(p @ (orthant.right + state.cg.residual)), float(np.linalg.norm(p))
    end = state.x + p
    if not problem.is_smooth:
        end[orthant.signs * end < 0.0] = 0.0
    with np.errstate(all="ignore"):  # a step that is too long
        there = found_at(problem, state, end, state.n_sampled)._replace(cg=ConjugateGradients())
        change = before - objective_of(problem, there)
    if falls_by > 10.0 * rounding_of(before, n_errors(problem)):
        ratio = change / falls_by
    else:
        ratio = float(there.optimality < state.optimality)
    radius = state.radius
    if not ratio >= POOR:  # NaN, too
        radius = SHORTER * size
    elif ratio >= GOOD:
        radius = max(radius, LONGER * size)
    if ratio > TAKEN and np.isfinite(there.gradient).all():
        return there._replace(radius=radius)
    counts = {"n_gradients": there.n_gradients, "n_steps": there.n_steps}
    return state._replace(cg=ConjugateGradients(), radius=radius, **counts)
