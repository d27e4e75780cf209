r"""Newton's method on the coefficients that matter, for several outputs with an l1 penalty, groups or a set.

With g and H the gradient and Hessian of F's smooth part at w, and t_j the thresholds of the l1 penalty, the subgradient of
least size is

    v_j = g_j + t_j sign(w_j)  where w_j != 0,    v_j = sign(g_j) max(|g_j| - t_j, 0)  where w_j = 0.

The working set A are the coefficients with w_j != 0 and those of largest |v_j|, at most as many new ones as there are old
ones, and some hundreds at first. A step is one of two kinds:

exact    A has at most 2000 coefficients: p minimises g'p + p'Hp / 2 + sum_j t_j |w_j + p_j| over A [1], with H_AA, one
         product of the columns of all of A's coefficients and one for each class, and w+ = w + t p with the first t = 1,
         1/2, 1/4, ... that brings F down enough
orthant  A has more: F is smooth where coefficients keep the signs s_j = sign(w_j), or -sign(v_j) where w_j = 0. H p = -v
         is solved by conjugate gradients with the diagonal of H until the residual is at most min(1/2, sqrt(||v||)) ||v||,
         and w+ has w_j + t p_j, or 0 where that has not the sign s_j; F falls by v'(w+ - w) / 10^4 [2]

Groups of columns are in A as a whole: those that are not 0, and those whose slope exceeds what their penalty holds most.
Every step is exact then, and the model has the groups' penalty (`finitesum.methods.subproblems.group_models`).

On a box, signs, an l1 ball or a simplex for each output A are the coefficients that do not rest at a bound or at 0
(`finitesum.methods.newton.outputs_at_rest`). Every step is exact: p minimises the model over the set's points that differ
from w in A alone (`finitesum.methods.subproblems.sums_models`). From a point with more than 3000 such coefficients, on a
simplex from one with most coefficients, a step goes along the projected gradient in the metric of H's diagonal, if that
leaves many more of them at 0. After a step with t < 0.2 a multiple of the columns' mean squares is added to H's diagonal,
more after each such step, and less after whole ones: rows that a step has gone too far for have no curvature any more, and
the model does not see how far away its minimiser is [3].

Products read the columns of A's coefficients alone, of which a copy is kept, and are charged by the fraction of the entries
that they read. An exact step is a pass; so is a product, and the end of a step in an orthant. Each step ends with the
gradient of all columns. Memory: n K, those columns, and |A|^2 or 6 numbers for each coefficient of theirs.

References
----------
.. [1] J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J.
   Optim. 24 (2014).
.. [2] R. H. Byrd, G. M. Chin, J. Nocedal, F. Oztoprak, "A family of second-order methods for convex l1-regularized
   optimization", Math. Program. 159 (2016).
.. [3] J. J. Moré, "The Levenberg-Marquardt algorithm: implementation and theory", Lecture Notes in Mathematics 630 (1978).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum.constraints import Unconstrained
from finitesum.core.arrays import Flags, Indices, Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.evaluation.optimality import Measures
from finitesum.losses.classes import weighted
from finitesum.methods.base import SumMethod
from finitesum.methods.cost_model import threads_for_factors
from finitesum.methods.newton.multinomial_newton import kept_mean
from finitesum.methods.newton.outputs_at_rest import (
    BOUNDARIES,
    MOST_WITHIN,
    curvatures_of,
    end_of_model,
    next_damping,
    not_at_rest,
    projected_step,
    squares_of,
)
from finitesum.methods.newton.subsampling import require_members
from finitesum.methods.newton.working_set_newton import part_on
from finitesum.methods.subproblems.conjugate_gradients import ConjugateGradients, advanced, begun, redirected
from finitesum.methods.subproblems.line_search import MOST_HALVINGS, halved, is_enough
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.linear import Problem
from finitesum.problems.rows import n_entries, to_matrix
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import Groups, WeightedElasticNet

#: Coefficients that may join at a step, at least, and those of a working set whose model is minimised exactly, at most.
FEWEST_NEW, MOST_EXACT = 256, 2000

#: Numbers of a block of rows.
BLOCK_SIZE = 1 << 20

#: The part of the optimality that may be left of the model.
EXACT = 1e-4

#: The part of the coefficients that may be left by a step of projected gradients which is taken to make them fewer.
FEWER = 0.9


class State(NamedTuple):
    x: Vector  # iterate, (K dim,)
    scores: Matrix  # (n, K)
    gradient: Vector  # of the smooth part of F
    objective: float
    n_gradients: int
    n_hessians: int
    damping: float = 0.0  # of the model on a set: what the columns' mean squares are added to H's diagonal by
    # what follows is empty between steps; it is in the coefficients of some columns, and the intercepts
    curvatures: Matrix = np.zeros((0, 0))  # (n, K)  at x
    columns: Indices = np.zeros(0, dtype=np.int64)
    is_free: Flags = np.zeros(0, dtype=bool)
    diagonal: Vector = np.zeros(0)  # of H
    size: float = 0.0  # ||v|| in the free coefficients
    cg: ConjugateGradients = ConjugateGradients()


@dataclass(frozen=True)
class MultinomialWorkingSet(SumMethod):
    """Newton's method on the coefficients that matter, for several outputs with an l1 penalty, groups or a set.

    w+ = w + t p,    p = argmin g'p + p'Hp / 2 + sum_j t_j |w_j + p_j|,    p_j = 0 outside of the working set

    Beyond 2,000 coefficients p is found by conjugate gradients within an orthant. Penalty weights are treated, too.

    Examples
    --------
    >>> from finitesum.running.driver import minimize
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], ["a", "b", "c"]
    >>> problem = Problem.linear(X, y, loss="multinomial", alpha=0.1, l1_ratio=1.0)
    >>> result = minimize(problem, method=MultinomialWorkingSet(), tol=1e-10)
    >>> result.success, result.x.round(6)
    (True, array([-1.356489,  0.69727 ,  0.      , -1.203973,  0.      ,  0.      ]))

    """

    handles: ClassVar[frozenset[str]] = frozenset({"outputs", "l1", "weights", "groups", "constraint", "bounded-l1"})
    default_sampling: ClassVar[str] = "cyclic"
    patience: ClassVar[int] = 50

    @staticmethod
    def refusal(problem: Problem) -> str:
        """Return what is missing where the problem has one output, or a set without bounds at which coefficients rest."""
        boundary = problem.term.constraint.boundary
        if problem.n_outputs > 1 and boundary not in ("nothing", *BOUNDARIES):
            what = type(problem.term.constraint).__name__
            return f'multinomial-working-set needs a box, signs, an l1 ball or a simplex, got {what}. Use method="newton".'
        if problem.n_outputs > 1:
            return ""
        return 'multinomial-working-set needs several outputs, got one. Use method="working-set-newton".'

    def blas_threads(self, problem: Problem) -> int | None:
        return threads_for_factors(problem)

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> State:
        """Return the state before the first step: scores and gradient at the start."""
        return _state_at(problem, x0.copy(), several.scores_at(problem, x0), problem.n_components)

    def template(self, problem: Problem, first: State, state: State) -> State:
        """Return a state of the shapes that one from a file must have: see `Method`."""
        if state.cg.residual.size == 0:
            return first
        require_members("columns", state.columns, problem.rows.n_columns, is_sorted=True)
        inside = np.zeros(problem.n_outputs * (state.columns.size + problem.has_intercept))
        cg = ConjugateGradients(inside, inside, inside)
        return first._replace(
            curvatures=first.scores, columns=state.columns, is_free=inside.astype(bool), diagonal=inside, cg=cg
        )

    def run_pass(self, problem: Problem, state: State, order: Indices) -> State:
        """Return the state after a product with H, or the end of a step."""
        with np.errstate(all="ignore"):  # a step that is too long shows in F
            if problem.is_constrained:
                return _set_step(problem, state)
            if state.cg.residual.size == 0:
                columns = _columns(problem, members := _working_set(problem, state))
                if np.count_nonzero(members) <= MOST_EXACT or isinstance(problem.penalty, Groups):
                    return _exact_step(problem, state, members, columns)
                state = _begun(problem, state, members, columns)
            return _stepped(problem, state) if _is_solved(state) else _multiplied(problem, state)

    def estimate(self, problem: Problem, state: State) -> float:
        """Return the optimality at the end of a step, where it is known exactly; NaN within one."""
        return math.nan if state.cg.residual.size > 0 else problem.term.optimality(state.x, state.gradient)

    def exact_measures(self, problem: Problem, state: State) -> Measures:
        """Return what the last step found at its end, which is exact."""
        return Measures(state.objective, problem.term.optimality(state.x, state.gradient), state.gradient.copy())


def _state_at(problem: Problem, w: Vector, scores: Matrix, n_gradients: int) -> State:
    """Return the state between two steps, given the scores."""
    with np.errstate(all="ignore"):  # after a divergence
        gradient = several.mean_gradient(problem, scores) + problem.term.quadratic * w
        return State(w, scores, gradient, several.objective_at(problem, scores, w), n_gradients, 0)


def least_subgradient(w: Vector, gradient: Vector, thresholds: Vector) -> Vector:
    """Return the subgradient of least size, given the gradient of the smooth part and the thresholds.

    Examples
    --------
    >>> least_subgradient(np.array([2.0, 0.0, 0.0]), np.array([-1.0, 3.0, 0.5]), np.ones(3))
    array([0., 2., 0.])
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - thresholds, 0.0)
    return np.where(w != 0.0, gradient + thresholds * np.sign(w), at_zero)


def _working_set(problem: Problem, state: State) -> Flags:
    """Return which coefficients are in the working set, shape (K dim,)."""
    if isinstance(problem.penalty, Groups):
        return _working_groups(problem, state)
    v = least_subgradient(state.x, state.gradient, problem.term.thresholds)
    is_old = (state.x != 0.0) | (problem.term.thresholds == 0.0)
    sizes = np.where(is_old, 0.0, np.abs(v))
    new, n_old = np.flatnonzero(sizes), int(np.count_nonzero(is_old))
    most = max(FEWEST_NEW, n_old if n_old >= MOST_EXACT else min(n_old, MOST_EXACT - n_old))
    if new.size > most:
        new = new[np.argpartition(sizes[new], new.size - most)[new.size - most :]]
    is_old[new] = True
    return np.asarray(is_old)


def _working_groups(problem: Problem, state: State) -> Flags:
    """Return the same with groups, which are in it as a whole: those that are not 0, and those that leave 0 most."""
    groups: Groups = problem.term.compiled.penalty  # type: ignore[assignment]
    sizes, is_old = np.diff(groups.starts), groups.sums(np.abs(state.x[groups.members])) > 0.0
    excess = np.where(is_old, 0.0, groups.excess(state.gradient))
    new, n_old = np.argsort(-excess)[: np.count_nonzero(excess > 0.0)], int(sizes[is_old].sum())
    most = max(FEWEST_NEW, min(n_old, MOST_EXACT))
    is_old[new[: max(1, np.searchsorted(np.cumsum(sizes[new]), most, side="right"))]] = True
    chosen = np.ones(problem.dim, dtype=bool)
    chosen[groups.members] = is_old[groups.of_member]
    return chosen


def _columns(problem: Problem, members: Flags) -> Indices:
    """Return the columns that have coefficients in the working set."""
    return np.flatnonzero(members.reshape(problem.n_outputs, -1)[:, : problem.rows.n_columns].any(axis=0))


def _exact_step(problem: Problem, state: State, members: Flags, columns: Indices) -> State:
    """Return the state after a step to the minimiser of the model over the working set."""
    chosen, term = np.flatnonzero(members), problem.term
    if chosen.size == 0:  # nothing leaves 0
        return state._replace(n_gradients=state.n_gradients + problem.n_components)
    thresholds, start, penalty = term.thresholds[chosen], state.x[chosen], term.compiled.penalty
    some = WeightedElasticNet(1.0, 0.0, thresholds, np.ones(chosen.size))
    of_groups = penalty.on_columns(chosen) if isinstance(penalty, Groups) else some
    of_model = ConvexTerm(of_groups, Unconstrained(), chosen.size)
    hessian, gradient = _hessian(problem, state, members, columns), state.gradient[chosen]
    tolerance = EXACT * of_model.optimality(start, gradient)
    direction = np.zeros(problem.dim)
    direction[chosen] = minimise_model(of_model, hessian, gradient, start, tolerance) - start
    part, inside = part_on(problem, columns), _inside(problem, columns)
    changes = several.score_changes(part, direction[inside])
    predicted = float(state.gradient @ direction) + term.rise(state.x, state.x + direction)

    def objective(t: float) -> float:
        return several.objective_at(part, state.scores + t * changes, state.x[inside] + t * direction[inside])

    t, _ = halved(objective, state.objective, min(predicted, 0.0), problem.n_rows)
    w = state.x + t * direction
    n_gradients, m = state.n_gradients, problem.n_components
    after = _state_at(problem, w, several.scores_at(part, w[inside]), n_gradients + m)
    return after._replace(n_hessians=state.n_hessians + m)


def _set_step(problem: Problem, state: State) -> State:
    """Return the state after a step to the minimiser of the model over the coefficients that do not rest in the set."""
    diagonal = curvatures_of(problem, state.scores)
    members = not_at_rest(problem, state.x, state.gradient, diagonal)
    columns, chosen = _columns(problem, members), np.flatnonzero(members)
    if chosen.size == 0:  # nothing leaves its bound, or 0
        return state._replace(n_gradients=state.n_gradients + problem.n_components)
    # a simplex has no start at 0, and a model that begins in its middle gives up coefficients one by one
    is_within = problem.term.constraint.boundary == "sum" and 2 * np.count_nonzero(state.x) > problem.dim > FEWEST_NEW
    if (chosen.size > MOST_WITHIN or is_within) and (shorter := _projected_step(problem, state, diagonal)) is not None:
        return shorter
    hessian = _hessian(problem, state, members, columns)
    if state.damping > 0.0:
        hessian[np.diag_indices(chosen.size)] += state.damping * squares_of(problem)[chosen]
    end = end_of_model(problem.term, hessian, state.x, state.gradient, chosen, EXACT)
    part, inside = part_on(problem, columns), _inside(problem, columns)
    direction = (end - state.x)[inside]
    changes = several.score_changes(part, direction)

    def objective(t: float) -> float:
        return several.objective_at(part, state.scores + t * changes, state.x[inside] + t * direction)

    predicted = float(state.gradient[inside] @ direction) + problem.term.rise(state.x, end)
    t, _ = halved(objective, state.objective, min(predicted, 0.0), problem.n_rows)
    damping = next_damping(state.damping, t)
    w, m = end if t == 1.0 else problem.term.project(state.x + t * (end - state.x)), problem.n_components
    after = _state_at(problem, w, several.scores_at(problem, w), state.n_gradients + m)
    return after._replace(n_hessians=state.n_hessians + m, damping=damping)


def _projected_step(problem: Problem, state: State, diagonal: Vector) -> State | None:
    """Return the state after a step of projected gradients, None where it does not leave many more coefficients at 0."""
    w, t, n_before = state.x, 1.0, np.count_nonzero(state.x)
    for _ in range(MOST_HALVINGS):
        end = projected_step(problem.term, w, state.gradient, diagonal, t)
        scores = several.scores_at(problem, end)
        slope = float(state.gradient @ (end - w)) + problem.term.rise(w, end)
        if is_enough(state.objective, several.objective_at(problem, scores, end), slope, problem.n_rows):
            break
        t *= 0.5
    if np.count_nonzero(end) > FEWER * n_before:
        return None
    after = _state_at(problem, end, scores, state.n_gradients + problem.n_components)
    return after._replace(n_hessians=state.n_hessians, damping=state.damping)


def _hessian(problem: Problem, state: State, members: Flags, columns: Indices) -> Matrix:
    """Return H on the working set, symmetric, with a term that no gradient sees where shifts change nothing."""
    part, loss, n_outputs = part_on(problem, columns), several.loss_of(problem), problem.n_outputs
    curvatures, table = loss.curvatures(state.scores), members[_inside(problem, columns)].reshape(n_outputs, -1)
    own, ends = [np.flatnonzero(row) for row in table], np.cumsum([0, *table.sum(axis=1)])
    spans, stored = [slice(*ends[k : k + 2]) for k in range(n_outputs)], to_matrix(part.rows)
    hessian, sums = np.zeros((ends[-1], ends[-1])), [np.zeros((size, size)) for size in np.diff(ends)]
    size = max(BLOCK_SIZE // max(part.rows.dim(), ends[-1]), ends[-1])
    for first in range(0, problem.n_rows, size):
        here = slice(first, first + size)
        rows, roots = stored[here], np.sqrt(problem.weights[here])
        block = np.ones((roots.size, part.rows.dim()))
        block[:, : columns.size] = rows if isinstance(rows, np.ndarray) else rows.toarray()
        factors, of_pairs = weighted(loss.pair_factors(curvatures[here]), roots), np.empty((roots.size, ends[-1]))
        for k, span in enumerate(spans):
            of_class = block[:, own[k]]
            np.multiply(of_class, factors[:, k, None], out=of_pairs[:, span])
            of_class *= weighted(np.sqrt(loss.curvature_entry(curvatures[here], k, k)), roots)[:, None]
            sums[k] += of_class.T @ of_class
        if factors.any():
            hessian -= of_pairs.T @ of_pairs  # of all pairs at once, of which half is computed
    for k, span in enumerate(spans):
        hessian[span, span] = sums[k]
    hessian[np.diag_indices(ends[-1])] += problem.term.quadratic[members]
    places = np.full(problem.dim, -1)
    places[members] = np.arange(ends[-1])
    for j in several.free_coordinates(problem):
        same = places.reshape(n_outputs, -1)[:, j]
        hessian[np.ix_(same, same)] += max(float(np.diagonal(hessian)[same].mean()), 1e-300)
    return hessian


def _begun(problem: Problem, state: State, members: Flags, columns: Indices) -> State:
    """Return the state with conjugate gradients begun in an orthant of the working set."""
    inside, part = _inside(problem, columns), part_on(problem, columns)
    loss, outputs = several.loss_of(problem), range(problem.n_outputs)
    curvatures = loss.curvatures(state.scores)
    of_rows = np.stack([problem.weights * loss.curvature_entry(curvatures, k, k) for k in outputs], axis=1)
    diagonal = several.sum_of_rows(part, of_rows, squared=True).reshape(-1) + part.term.quadratic
    diagonal = np.maximum(diagonal, 1e-12 * float(diagonal.max(initial=0.0)) or 1e-300)
    v = least_subgradient(state.x, state.gradient, problem.term.thresholds)
    right = np.where(members, -v, 0.0)[inside]
    cg = begun(right, right / diagonal)
    found = {"curvatures": curvatures, "columns": columns, "is_free": members[inside], "diagonal": diagonal}
    return state._replace(**found, size=float(np.linalg.norm(right)), cg=cg)


def _inside(problem: Problem, columns: Indices) -> Indices:
    """Return the coordinates of some columns' coefficients and the intercepts, output by output."""
    dim = problem.rows.dim()
    some = np.concatenate([columns, np.arange(problem.rows.n_columns, dim)])
    return np.asarray((np.arange(problem.n_outputs)[:, None] * dim + some).reshape(-1))


def _is_solved(state: State) -> bool:
    """Return whether H p = -v is solved to the accuracy that Newton's method needs here, or cannot be solved better."""
    run, size, left = state.cg, state.size, float(np.linalg.norm(state.cg.residual))
    is_long = run.n_products >= int(np.count_nonzero(state.is_free))
    return run.is_over or is_long or left <= min(0.5, math.sqrt(size)) * size


def _multiplied(problem: Problem, state: State) -> State:
    """Return the state after a product with H."""
    part = part_on(problem, state.columns)
    product = several.hessian_product(part, state.curvatures, state.cg.direction)
    cg = advanced(state.cg, np.where(state.is_free, product, 0.0))
    fraction = n_entries(part.rows) / max(n_entries(problem.rows), 1)
    n_gradients = state.n_gradients + math.ceil(fraction * problem.n_components)
    return state._replace(cg=redirected(cg, cg.residual / state.diagonal), n_gradients=n_gradients)


def _stepped(problem: Problem, state: State) -> State:
    """Return the state after a step within the orthant."""
    part, inside = part_on(problem, state.columns), _inside(problem, state.columns)
    start, thresholds = state.x[inside], part.term.thresholds
    v = least_subgradient(start, state.gradient[inside], thresholds)
    signs = np.where(start != 0.0, np.sign(start), -np.sign(v))
    direction = kept_mean(part, (state.cg.solution if state.cg.solution.any() else state.cg.direction).copy())
    t = 1.0
    for _ in range(MOST_HALVINGS):
        end = start + t * direction
        end[(thresholds > 0.0) & (end * signs <= 0.0)] = 0.0
        objective = several.objective_at(part, state.scores + several.score_changes(part, end - start), end)
        if is_enough(state.objective, objective, float(v @ (end - start)), problem.n_rows):
            break
        t *= 0.5
    else:
        end = start
    w = state.x.copy()
    w[inside] = end
    after = _state_at(problem, w, several.scores_at(part, end), state.n_gradients + problem.n_components)
    return after._replace(n_hessians=state.n_hessians)
