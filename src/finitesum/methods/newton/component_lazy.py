"""Lazy Newton on components given as functions: growing samples, and a Hessian that is computed again where steps are poor.

Of functions no curvature is seen to move: what a step leaves of the gradient tells whether H is too old. At w, with g the
gradient of F's smooth part over a sample of the components,

    w+ = w - t B g,    B the BFGS inverse of the factor of H and the last pairs (`finitesum.methods.subproblems.lbfgs`),

or with an l1 penalty or a set w + t (z - w), z the minimiser of the model with H. t is halved until F falls.
H is the mean Hessian over some components at an older point. It is computed again

1. after a step that left more than 0.4 of the gradient (with pairs) or of the optimality (without), or was cut;
2. over four times as many components, where it was computed for the last step and is still that poor.

"auto" begins with `ROWS_PER_COLUMN` rows a column; without pairs H is over all components. A sum need not be convex: where
H is not positive definite, its eigenvalues are replaced by their sizes.

The sample A of n_A components is four times as large, at least 2000 rows at first, once the decrement g'H^-1 g is below a
quarter of what the sample itself puts into it, by the gradients g_j of its components,

    1 / (n_A (n_A - 1)) sum_j (g_j - g)' H^-1 (g_j - g).

A pass is one step, or one larger sample; component Hessians are charged as such.

*Parts of the data elsewhere.* A step on a sample would be a message, and most workers would wait. So the first pass is
lazy Newton's on the largest part: its worker finds the minimiser of F on its rows to the accuracy that these have, and the
Hessian there, over as many of them as take no longer than a gradient. From there on the sample is all parts. Where F is
higher there than on the part's rows at the start, the parts are unlike, and the run goes on from the start.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.component_sums import hessian_on, rows_per_component, values_and_gradients_on
from finitesum.evaluation.hessian import gram
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.part_components import PartSum
from finitesum.evaluation.row_sums import curvatures_at
from finitesum.evaluation.samples import Sample, sample_of
from finitesum.methods.newton import lazy_newton as lazy, stale_hessian as stale
from finitesum.methods.newton.component_cg import first_sample, found_at, n_errors, next_sample, objective_of
from finitesum.methods.newton.subsampling import FIRST_ROWS, GROWTH, permutation
from finitesum.methods.subproblems.lbfgs import no_pairs, with_pair
from finitesum.methods.subproblems.line_search import halved
from finitesum.methods.subproblems.positive_definite import apply_inverse, with_positive_eigenvalues
from finitesum.problems.chosen_rows import with_rows
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem

#: Passes of lazy Newton on one part, at most.
MOST_ON_PART = 50

#: Rows of the first Hessian for each column, as many as leave a tenth of its size as the error of its sample.
ROWS_PER_COLUMN = 100


def run_pass(method: Any, problem: FiniteSum, state: Any, order: Indices) -> Any:
    """Return the state after one step on the sample; on the next larger sample, where this one is minimised."""
    m = problem.n_components
    if state.order.size == 0:
        largest = np.argsort(-problem.sizes, kind="stable") if isinstance(problem, PartSum) else order
        state = state._replace(order=permutation(largest, m))
    is_complete = state.n_sampled == m
    is_minimised = state.n_steps == lazy.MOST_STEPS or not _decrement(problem, state) > 0.25 * state.squared_slopes
    if state.n_sampled == 0 and isinstance(problem, PartSum):
        return _from_one_part(method, problem, state)
    if state.n_sampled == 0 or (is_minimised and not is_complete):
        return _on_larger_sample(method, problem, state)
    return _stepped(problem, state, method)


class OnPart(NamedTuple):
    """What is found on the rows of one part."""

    w: Vector  # where F is minimal on them, to their accuracy
    first: float  # F at the start, over some of the rows
    hessian: Matrix  # of the mean loss at w, over these; of size 0 where F is not smooth
    n_gradients: int  # passes over the rows, the last one counted as whole
    n_hessians: float


def _found_on_part(part: Problem, start: Vector) -> OnPart:
    """Return the minimiser of F on a part's rows."""
    method, rng = lazy.LazyNewton(), np.random.default_rng(0)
    by_rows, part = part, part.batched(method.default_batch_size(part))
    m, state = part.n_components, method.init(part, start)
    order, everything = rng.permutation(m), sample_of(part, np.arange(m))
    for _ in range(MOST_ON_PART):
        state = method.run_pass(part, state, order)
        if state.n_sampled < m or state.factor.size == 0:
            continue
        noise = stale.noise(part, everything, state.curvatures, state.squared_slopes)
        if not -(state.gradient @ lazy.direction_of(part, state, everything)) > 0.25 * noise:
            break
    some, hessian, n = _some_rows(by_rows, rng), np.zeros((0, 0)), part.n_rows
    if part.is_smooth:
        hessian = gram(some, some.weights * curvatures_at(some, state.x))
    n_gradients = math.ceil(state.n_gradients / m + some.n_rows / n)
    n_hessians = state.n_hessians / m + (some.n_rows / n if hessian.size > 0 else 0.0)
    return OnPart(state.x, evaluate(some, start).objective, hessian, n_gradients, n_hessians)


def _some_rows(part: Problem, rng: np.random.Generator) -> Problem:
    """Return F on some rows of a part, of which a Hessian takes no longer than a gradient of all."""
    n, dim = part.n_rows, part.dim
    n_chosen = min(max(ROWS_PER_COLUMN * dim, n // dim), n)
    some = with_rows(part, np.sort(rng.choice(n, n_chosen, replace=False, shuffle=False)))
    return replace(some, weights=some.weights / (float(some.weights.sum()) or 1.0))


def _from_one_part(method: Any, problem: PartSum, state: Any) -> Any:
    """Return the state on all parts at the minimiser of one of them, unless F is higher there than at the start."""
    first, m, n_members = state.x, problem.n_components, _first_members(method, problem)
    if rows_per_component(problem) >= max(FIRST_ROWS, 8 * problem.dim):
        found: OnPart = problem.found_on(int(state.order[0]), _found_on_part, first)
        spent = {"n_gradients": state.n_gradients + found.n_gradients, "n_hessians": state.n_hessians + found.n_hessians}
        state = state._replace(**spent)
        there = found_at(problem, state, found.w, m) if np.isfinite(found.w).all() else None
        if there is not None and objective_of(problem, there) <= found.first:
            there = there._replace(pairs=no_pairs(problem.dim))
            if n_members == 1 and found.hessian.size > 0:
                return _with_sums(problem, there, found.hessian, state.order[:1])
            return _with_hessian(problem, there, n_members)
        state = state._replace(n_gradients=state.n_gradients + m * (there is not None))
    there = found_at(problem, state, first, m)
    return _with_hessian(problem, there._replace(pairs=no_pairs(problem.dim)), n_members)


def _all(problem: FiniteSum) -> Sample:
    return sample_of(problem, np.arange(problem.n_components))  # type: ignore[arg-type]


def _refactored(problem: FiniteSum, state: Any) -> Any:
    return lazy.refactored(problem, state, _all(problem), 0.0)  # type: ignore[arg-type]


def _decrement(problem: FiniteSum, state: Any) -> float:
    """Return g'H^-1 g, or where F is not smooth what stands for it, the square of the optimality."""
    if not problem.is_smooth or state.factor.size == 0:
        return float(state.optimality**2)
    return float(state.gradient @ apply_inverse(state.factor, state.gradient))


def _on_larger_sample(method: Any, problem: FiniteSum, state: Any) -> Any:
    """Return the state on the next larger sample, with a Hessian and, short of all components, the sample's noise."""
    first = first_sample(problem, method.first_rows, max(FIRST_ROWS, 8 * problem.dim))
    state = found_at(problem, state, state.x, next_sample(problem, state, first))
    state = state._replace(pairs=no_pairs(problem.dim), gradient_ratio=math.nan)
    if state.hessian.members.size == 0 or not problem.is_smooth:
        state = _with_hessian(problem, state, _first_members(method, problem))
    if state.n_sampled == problem.n_components:
        return state
    sample = np.sort(state.order[: state.n_sampled])
    _, gradients = values_and_gradients_on(problem, sample, state.x)
    errors = gradients - gradients.mean(axis=0)
    scaled = apply_inverse(state.factor, errors.T).T if problem.is_smooth else errors
    noise = float((errors * scaled).sum()) / (sample.size * max(sample.size - 1, 1))
    return state._replace(squared_slopes=noise, n_gradients=state.n_gradients + sample.size)


def _first_members(method: Any, problem: FiniteSum) -> int:
    """Return the number of components of the first Hessian."""
    if not problem.is_smooth:
        return problem.n_components
    size = rows_per_component(problem)
    rows = first_sample(problem, method.hessian_rows, ROWS_PER_COLUMN * problem.dim)
    return int(min(-(-rows // size), problem.n_components))


def _with_hessian(problem: FiniteSum, state: Any, n_members: int) -> Any:
    """Return the state with the Hessian at its iterate, over at most n_members components of the sample, and its factor."""
    members = np.sort(state.order[: min(n_members, state.n_sampled)])
    counted = state._replace(n_hessians=state.n_hessians + members.size)
    return _with_sums(problem, counted, hessian_on(problem, members, state.x), members)


def _with_sums(problem: FiniteSum, state: Any, sums: Matrix, members: Indices) -> Any:
    """Return the state with the Hessian of the mean of some components, or of some of their rows, and its factor."""
    if not problem.convex:
        quadratic = np.diag(problem.term.quadratic)
        sums = with_positive_eigenvalues(sums + quadratic) - quadratic
    hessian = state.hessian._replace(sums=sums, members=members, weight=1.0)
    state = state._replace(hessian=hessian, pairs=no_pairs(problem.dim), gradient_ratio=math.nan)
    return _refactored(problem, state)


def _stepped(problem: FiniteSum, state: Any, method: Any) -> Any:
    """Return the state after a step, with the Hessian computed again where the step was poor."""
    w, before, n_members = state.x, objective_of(problem, state), state.hessian.members.size
    is_new = math.isnan(state.gradient_ratio)  # the Hessian
    p = lazy.direction_of(problem, state, _all(problem))  # type: ignore[arg-type]
    predicted = min(float(state.gradient @ p) + problem.term.rise(w, w + p), 0.0)
    known: dict[float, Any] = {}

    def objective(t: float) -> float:
        known[t] = found_at(problem, state, w + t * p, state.n_sampled)
        return objective_of(problem, known[t])

    with np.errstate(all="ignore"):  # steps that are too long
        t, _ = halved(objective, before, predicted, n_errors(problem))
    n_gradients = state.n_gradients + len(known) * state.n_sampled
    if t == 0.0 or not np.isfinite(known[t].gradient).all():
        stayed = state._replace(n_gradients=n_gradients, n_steps=state.n_steps + 1)
        is_whole = n_members == state.n_sampled
        return stayed if is_new and is_whole else _with_hessian(problem, stayed, GROWTH * n_members)
    ratio = method.ratio_left(problem, state, known[t].x, known[t].gradient)
    there = known[t]._replace(n_gradients=n_gradients, gradient_ratio=ratio)
    if problem.is_smooth:
        there = there._replace(pairs=with_pair(state.pairs, there.x - w, there.gradient - state.gradient))
    if (ratio <= lazy.GOOD and t == 1.0) or there.optimality <= state.tol:
        return there
    return _with_hessian(problem, there, GROWTH * n_members if is_new else n_members)
