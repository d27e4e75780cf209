"""The path of a fold with several classes: solutions for falling strengths of an l2 penalty, to parts of a standard error.

Steps are those of `MultinomialLBFGS`. A strength begins with the iterate, scores and pairs of the one before, for which
what the penalty adds to the gradient and to the pairs' changes needs no data, or at the point to which the last two
solutions lead, on a line over the logarithm of the strength, if F is less there: where classes are separated solutions
are near such a line. Each strength has the factor of a Hessian, of its own rows or of all rows: rougher metrics do not
show how large an error is in standard errors. The sum over the rows is made again only where their curvatures have
changed by more than a tenth since a known one; else its factor with the new penalty is all that a strength costs. A
problem is solved by the rule of `finitesum.running.accuracy`, decisions being never taken by their size: Hessians are not
always the fold's own. The step that is then at hand leads to the point that is returned, while the next strength, whose
first step contains it, goes on from where it began, so that both share a gradient.

Where a Hessian takes long, steps have the Kronecker product of `MultinomialLBFGS`, to which a penalty adds a multiple of I,
of all rows or made again where curvatures have changed. Standard errors are then those of its metric with the pairs, which
are true to a small factor.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Matrix, Vector
from finitesum.evaluation import outputs as several
from finitesum.evaluation.class_hessians import hessian_of_differences, with_penalty
from finitesum.methods.class_costs import (
    MOST_COLUMNS,
    nanoseconds_of_factor,
    nanoseconds_of_pass,
    order_of_factor,
    passes_of_whole,
    steps_before_whole,
)
from finitesum.methods.newton.class_factor import LEAST_SINGLE, ClassFactor
from finitesum.methods.newton.kronecker_factors import KroneckerFactors, has_changed
from finitesum.methods.newton.multinomial_lbfgs import MADE_AT, MultinomialLBFGS, State, state_at, stepped
from finitesum.methods.subproblems.lbfgs import no_pairs
from finitesum.methods.subproblems.positive_definite import raised_factor
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import elastic_net
from finitesum.running.accuracy import ACCURACY, decrement_of, size_of_decisions
from finitesum.running.rough_paths import point_ahead
from finitesum.running.shared_hessians import SHARED

#: The most variables with which each strength has a Hessian, and the passes or nanoseconds that one may take.
MOST_VARIABLES, MOST_PASSES, MOST_NANOSECONDS = 1000, 20.0, 3e6

#: Steps by a Hessian of all rows, after which a fold has its own, and steps after which a strength is left to others.
SHARED_STEPS, MOST_STEPS = 12, 40

#: Steps of a strength before which its Hessian is looked at.
LOOKED_AT = 0, 3

#: The change of trace(C) after which a Kronecker product is made again, and the passes that one of all columns may take,
#: which all folds share.
REMADE, SHARED_PASSES = 1.5, 500.0

#: Rows for each column from which classes are rarely separated, so that Kronecker products lead to most solutions.
ROWS_OF_PRODUCTS = 8

#: Steps with which a state is past those before which its method makes a product whatever it has.
PAST = max(MADE_AT) + 1


class ClassPath(NamedTuple):
    """What was found, up to the first strength that is not solved."""

    points: Matrix  # (m, K dim)
    n_passes: Vector  # (m,)
    is_solved: npt.NDArray[np.bool_]  # (m,)
    factors: list[ClassFactor]  # of the last Hessian of each strength, empty where there are products
    products: list[KroneckerFactors]  # the last one of each strength, empty where there are Hessians


def has_cheap_hessian(problem: Problem) -> bool:
    """Return whether each strength may have a Hessian."""
    most = max(MOST_NANOSECONDS, MOST_PASSES * nanoseconds_of_pass(problem, is_single=False))
    is_small = order_of_factor(problem) <= MOST_VARIABLES
    return bool(is_small and nanoseconds_of_factor(problem, problem.n_rows) <= most)


def solve_classes(
    problems: list[Problem], total: float, tol: float, factors: Sequence[ClassFactor] = (), accuracy: float = ACCURACY
) -> ClassPath:
    """Return the solutions of problems that differ in the strength of the penalty, which falls.

    total is the sum of the rows' weights, in whose place their number is taken where that is larger; factors are of nearly
    the same Hessians.
    """
    method, hessians = MultinomialLBFGS("none"), _Hessians(problems[0])

    def solved(k: int, problem: Problem, state: State, enough: float) -> tuple[State, Vector, bool]:
        if k < len(factors) and factors[k].lower.size:
            state = state._replace(factor=factors[k], n_steps=-SHARED_STEPS)
        return _solved(method, hessians, problem, state, enough, accuracy, tol)

    return _path(method, problems, total, tol, accuracy, solved)


def solve_classes_roughly(
    problems: list[Problem], total: float, tol: float, products: Sequence[KroneckerFactors] = (), accuracy: float = ACCURACY
) -> ClassPath:
    """Return what `solve_classes` does by Kronecker products in the place of Hessians; those given are of nearly these."""
    method = MultinomialLBFGS("none" if len(products) else _kind_of(problems[0]))

    def solved(k: int, problem: Problem, state: State, enough: float) -> tuple[State, Vector, bool]:
        if k < len(products):
            state = state._replace(kronecker=products[k])
        elif state.kronecker.values.size and not has_changed(problem, state.kronecker, state.scores, REMADE):
            state = state._replace(n_steps=PAST)
        return _solved_roughly(method, problem, state, enough, accuracy, tol)

    return _path(method, problems, total, tol, accuracy, solved)


def _path(
    method: MultinomialLBFGS,
    problems: list[Problem],
    total: float,
    tol: float,
    accuracy: float,
    solved: Callable[[int, Problem, State, float], tuple[State, Vector, bool]],
) -> ClassPath:
    """Return what solves the problems one after the other: see `solve_classes`."""
    first, m = problems[0], len(problems)
    found = ClassPath(np.zeros((m, first.dim)), np.zeros(m), np.zeros(m, dtype=bool), [], [])
    enough = decrement_of(first, total, accuracy)
    last, n_known = first, 0
    state = method.init(first, np.zeros(first.dim), tol)
    while state.ascent.chances.size:
        state = method.run_pass(first, state, np.zeros(0, dtype=np.int64))
    for k, problem in enumerate(problems):
        state, last = _with_penalty(problem, last, state), problem
        if k >= 2:
            state = _further(problems[k - 2 : k + 1], state, found.points[k - 2 : k])
        state, found.points[k], found.is_solved[k] = solved(k, problem, state, enough)
        found.factors.append(state.factor)
        found.products.append(state.kronecker)
        found.n_passes[k] = (state.n_gradients - n_known) / problem.n_components
        n_known = state.n_gradients
        if not found.is_solved[k]:
            break
    return found


def _further(problems: list[Problem], state: State, points: Matrix) -> State:
    """Return the state at the point to which the last two solutions lead, if F is less there."""
    if (ahead := point_ahead(problems, points)) is None:
        return state
    with np.errstate(all="ignore"):  # of a point that is far too far
        there = state_at(problems[2], state._replace(x=ahead))
    is_less = np.isfinite(there.gradient).all() and there.objective < state.objective
    return there if is_less else state._replace(n_gradients=there.n_gradients)


def has_products(problem: Problem) -> bool:
    """Return whether a Kronecker product suits a path: with many rows for each column, and not too many of sparse ones."""
    is_known = not problem.rows.is_sparse() or _kind_of(problem) == "kronecker"
    return is_known and problem.n_rows >= ROWS_OF_PRODUCTS * problem.rows.dim()


def _kind_of(problem: Problem) -> Literal["diagonal", "kronecker", "low-rank"]:
    """Return which product suits a path."""
    if steps_before_whole(problem) > 0:
        return "diagonal"
    is_cheap = problem.rows.dim() <= MOST_COLUMNS and passes_of_whole(problem) <= SHARED_PASSES
    return "kronecker" if is_cheap else "low-rank"


def _solved_roughly(
    method: MultinomialLBFGS, problem: Problem, state: State, enough: float, accuracy: float, tol: float
) -> tuple[State, Vector, bool]:
    """Return what `_solved` does, by the method's own metric."""
    for _ in range(MOST_STEPS):
        state, direction = method.directed(problem, state)
        is_known = state.kronecker.values.size > 0 or len(state.pairs.steps) > 0
        is_small = is_known and 0.0 < -float(state.gradient @ direction) <= enough**2
        if is_small and size_of_decisions(problem, several.score_changes(problem, direction)) <= accuracy:
            return state, state.x + direction, True
        if float(np.linalg.norm(state.gradient)) <= tol:
            return state, state.x, True
        state = stepped(problem, state, direction)
    return state, state.x, False


def _with_penalty(problem: Problem, last: Problem, state: State) -> State:
    """Return the last problem's state as one of a problem that differs in the strength of its penalty."""
    more, pairs = problem.term.quadratic - last.term.quadratic, state.pairs
    changes = (pairs.changes + more * pairs.steps).astype(pairs.changes.dtype, copy=False)
    kronecker, ridge, step = state.kronecker, problem.term.ridge, problem.term.ridge - last.term.ridge
    return state._replace(
        kronecker=kronecker._replace(
            values=np.maximum(kronecker.values + step, ridge), rest=np.maximum(kronecker.rest + step, ridge)
        ),
        gradient=state.gradient + more * state.x,
        objective=state.objective + 0.5 * float(more @ state.x**2),
        pairs=pairs._replace(changes=changes),
        n_steps=0,
    )


class _Hessians:
    """The sums over the rows that are known, without the penalty."""

    def __init__(self, problem: Problem) -> None:
        self._bare = problem.with_penalty(elastic_net(0.0, 0.0))
        self._known: list[tuple[Matrix, Matrix]] = []  # the chances of the classes, and the sum
        self._used = -1  # which of them the last factor is of

    def begin(self) -> None:
        """Forget which sum the last factor is of: it has another penalty."""
        self._used = -1

    def factor_at(self, problem: Problem, scores: Matrix) -> ClassFactor | None:
        """Return the factor at scores, None where the last one is as good as that."""
        chances = several.loss_of(problem).curvatures(scores.astype(np.float64, copy=False))
        weights = problem.weights[:, None]
        most = SHARED * float((weights * chances * (1.0 - chances)).sum())
        distances = [
            float((weights * np.abs(chances - known) * np.abs(1.0 - chances - known)).sum()) for known, _ in self._known
        ]
        nearest = int(np.argmin(distances)) if distances else -1
        if nearest < 0 or distances[nearest] > most:
            kind = np.float32 if order_of_factor(problem) >= LEAST_SINGLE else np.float64
            with np.errstate(all="ignore"):
                made = hessian_of_differences(self._bare, chances, None, None, kind)
            if kind is np.float32 and not np.isfinite(made).all():  # too large for single precision
                made = hessian_of_differences(self._bare, chances, None, None, np.float64)
            self._known.append((chances, made))
            nearest = len(self._known) - 1
        elif nearest == self._used:
            return None
        self._used = nearest
        matrix = with_penalty(problem, self._known[nearest][1].copy())
        return ClassFactor(raised_factor(matrix, 0.0)[0]) if np.isfinite(matrix).all() else ClassFactor()


def _solved(
    method: MultinomialLBFGS,
    hessians: _Hessians,
    problem: Problem,
    state: State,
    enough: float,
    accuracy: float,
    tol: float,
) -> tuple[State, Vector, bool]:
    """Return the state before the step that leads to the solution, the solution, and whether it is one."""
    before = math.nan  # the squared decrement before the last step, where that was a whole one
    hessians.begin()
    for _ in range(MOST_STEPS):
        if state.n_steps in LOOKED_AT and (factor := hessians.factor_at(problem, state.scores)) is not None:
            state = state._replace(factor=factor, pairs=no_pairs(problem.dim, state.pairs.steps.dtype))
        state, direction = method.directed(problem, state)
        squared = max(-float(state.gradient @ direction), 0.0)
        ratio = math.sqrt(squared / before)
        left = ratio if ratio < 0.5 else 1.0
        is_small = left * math.sqrt(squared) <= enough
        if is_small and left * size_of_decisions(problem, several.score_changes(problem, direction)) <= accuracy:
            return state, state.x + direction, True
        if float(np.linalg.norm(state.gradient)) <= tol:
            return state, state.x, True
        after = stepped(problem, state, direction)
        is_whole = squared > 0.0 and np.array_equal(after.x, state.x + direction)
        state, before = after, squared if is_whole else math.nan
    return state, state.x, False
