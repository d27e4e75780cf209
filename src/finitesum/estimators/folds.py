"""The paths of a cross-validation: every fold's solutions for all strengths of the penalty, at the cost of few fits.

Folds are solved together where that is possible (`finitesum.running.together`): all at once, to parts of a standard error.
Elsewhere each fold has its own path, to `tol`, or with an l2 penalty to parts of a standard error, too: with few rows
(`finitesum.running.few_rows_paths`, `finitesum.running.factor_paths`), on many sparse columns
(`finitesum.running.rough_paths`), and with several classes (`finitesum.running.class_paths`,
`finitesum.running.class_products`), which is also how what is left elsewhere is solved.
Which of these it is depends on the method for the smallest penalty, but with an l1 penalty on few columns. The fit to all
rows begins at the mean of the folds' solutions, which is as near to its own as 1/n, where each fold's is as near as
sqrt(1/n).
"""

from copy import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.threads import limited_blas, map_tasks
from finitesum.estimators.base import alpha_of_C
from finitesum.estimators.classification import LabelledData
from finitesum.estimators.path import path_of_classes, with_alpha
from finitesum.estimators.solvers import as_solver, is_auto
from finitesum.evaluation.row_space import from_row_space, is_wide, products_of_rows, row_space
from finitesum.evaluation.samples import evaluate_on, sample_of
from finitesum.evaluation.whole_arrays import with_zeros
from finitesum.methods.base import Method, batch_size_for
from finitesum.methods.class_costs import is_worth_span, products_of_metric
from finitesum.methods.newton.class_factor import ClassFactor
from finitesum.methods.newton.coordinate_descent import CoordinateDescent
from finitesum.methods.newton.lazy_newton import LazyNewton
from finitesum.methods.newton.lbfgs import LBFGS
from finitesum.methods.newton.multinomial_lbfgs import MultinomialLBFGS
from finitesum.methods.newton.multinomial_newton import MultinomialNewton
from finitesum.methods.newton.newton import Newton
from finitesum.methods.newton.newton_cg import NewtonCG
from finitesum.methods.newton.stale_hessian import factor_of
from finitesum.methods.newton.working_set_newton import WorkingSetNewton
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.scaled import shift_of
from finitesum.running.accuracy import ACCURACY
from finitesum.running.class_paths import has_cheap_hessian, has_products, solve_classes, solve_classes_roughly
from finitesum.running.class_products import solve_classes_by_products
from finitesum.running.driver import Result, as_seed
from finitesum.running.factor_paths import has_hessians, solve_by_factors
from finitesum.running.few_rows_paths import has_few_rows, solve_few_rows, with_products
from finitesum.running.rough_paths import solve_roughly
from finitesum.running.sampling import order_of_pass
from finitesum.running.together import Family, Together, solve_together

#: Numbers that are held for each variable of a problem that is solved with others, and the most for all of them.
NUMBERS, MOST_NUMBERS = 20.0, 5e7

#: Rows for each variable from which folds are solved together: with fewer, classes are often nearly separated, and a fold's
#: Hessian is not near to that of all rows, which nothing makes up for with an l1 penalty.
ROWS, L1_ROWS = 5, 15

#: Variables up to which folds with an l1 penalty are solved together where a method on few columns suits a single problem:
#: steps by models of all columns take little time then.
L1_COLUMNS = 250

#: The error, in standard errors, of the points of all rows at which folds with several classes have their Hessians.
NEAR = 0.03

#: Products of conjugate gradients that one factor of all classes may take: where classes are nearly separated, many are.
#: On sparse rows, whose columns hardly depend on each other, a diagonal is often as good.
WORTH_PRODUCTS, WORTH_OF_SPARSE = 100.0, 30.0


class Fold(NamedTuple):
    """A split of the rows, and what is known of the labels and weights of the rows that are fitted."""

    train: Indices
    test: Indices
    part: LabelledData  # with the X of all rows


class Path(NamedTuple):
    """A fold's solutions for all strengths."""

    points: Matrix  # (m, dim)
    n_passes: Vector  # (m,)  over the rows of the fold
    results: list[Result]  # of the runs that there were


class Paths(NamedTuple):
    """The paths of all folds, and from where all rows are fitted."""

    of_folds: list[Path]
    starts: Matrix  # (m, dim)
    together: Together | None


def solve_folds(estimator: Any, problem: Problem, data: LabelledData, folds: list[Fold], Cs: Vector) -> Paths:
    """Return the paths of all folds, and points near those of all rows; the problem is that of all rows at the last C."""
    choice = as_solver(estimator.solver, estimator.step_size, problem, tol=estimator.tol)
    is_free = is_auto(estimator.solver) and isinstance(problem.penalty, ElasticNet)
    if is_free and problem.n_outputs == 1 and problem.loss.is_smooth():
        if np.isfinite(Cs).all() and has_few_rows(problem, choice):
            return _few_rows(estimator, problem, data, folds, Cs)
        if may_be_together(choice.method, problem) and (problem.is_smooth or not problem.is_constrained):
            return _together(estimator, problem, data, folds, Cs)
    is_rough = is_free and isinstance(choice.method, LazyNewton | Newton | LBFGS | NewtonCG) and _may_be_rough(problem, Cs)
    is_free = is_free and isinstance(choice.method, MultinomialLBFGS | MultinomialNewton | Newton)
    is_free = is_free and problem.is_smooth and problem.n_outputs > 1
    is_free = is_free and bool(np.isfinite(Cs).all())  # without a penalty separated classes have no solution to be near to
    if is_free and is_worth_span(problem):
        paths = _of_classes_in_span(estimator, problem, data, folds, Cs)
    elif is_free and has_cheap_hessian(problem):
        paths = _of_classes(estimator, problem, data, folds, Cs)
    elif is_free and isinstance(choice.method, MultinomialLBFGS) and has_products(problem):
        paths = _of_classes_roughly(estimator, problem, data, folds, Cs)
    else:
        is_rough |= is_free
        by_itself = _roughly if is_rough else _alone
        paths = map_tasks(lambda fold: by_itself(estimator, data, fold, Cs), folds, estimator.n_threads)
    return Paths(paths, np.mean([path.points for path in paths], axis=0), None)


def may_be_together(method: Method, problem: Problem) -> bool:
    """Return whether folds of a smooth loss may be solved together, given the method for one problem of all rows."""
    if problem.n_rows < (ROWS if problem.is_smooth else L1_ROWS) * problem.dim:
        return False
    if isinstance(method, CoordinateDescent | WorkingSetNewton):
        return not problem.is_smooth and problem.dim <= L1_COLUMNS
    return isinstance(method, LazyNewton | Newton | LBFGS)


def _alone(estimator: Any, data: LabelledData, fold: Fold, Cs: Vector) -> Path:
    """Return the path of a fold."""
    part = copy(fold.part)
    part.X = data.X[fold.train]
    results = path_of_classes(estimator, part, Cs)
    return Path(np.array([result.x for result in results]), np.array([result.n_passes for result in results]), results)


def _of_fold(estimator: Any, data: LabelledData, fold: Fold, Cs: Vector) -> tuple[LabelledData, list[float], Problem]:
    """Return the data of a fold, the strengths of its penalties, and its problem with the first of them."""
    part = copy(fold.part)
    part.X = data.X[fold.train]
    alphas = [alpha_of_C(float(C), part.total_weight) for C in Cs]
    (first,) = estimator._problems(part, alphas[0])
    return part, alphas, first


def _mean_alphas(folds: list[Fold], Cs: Vector) -> list[float]:
    """Return the strengths of the penalties in the mean of the folds."""
    return [float(np.mean([alpha_of_C(float(C), fold.part.total_weight) for fold in folds])) for C in Cs]


def _may_be_rough(problem: Problem, Cs: Vector) -> bool:
    """Return whether paths of one output may end at parts of a standard error: with an l2 penalty throughout."""
    return problem.n_outputs == 1 and problem.is_smooth and problem.convex and bool(np.isfinite(Cs).all())


def _roughly(estimator: Any, data: LabelledData, fold: Fold, Cs: Vector, start: Vector | None = None) -> Path:
    """Return the path of a fold with an l2 penalty throughout to parts of a standard error, from a start or 0."""
    part, alphas, first = _of_fold(estimator, data, fold, Cs)
    worth = WORTH_OF_SPARSE if first.rows.is_sparse() else WORTH_PRODUCTS
    is_shared = first.n_outputs > 1 and products_of_metric(first) <= worth
    if first.n_outputs > 1 and not is_shared and shift_of(first)[0].any():  # columns far from 0, which a run centres
        return _alone(estimator, data, fold, Cs)
    problems = [with_alpha(estimator, with_zeros(first), alpha) for alpha in alphas]
    start, total, tol = np.zeros(first.dim) if start is None else start, part.total_weight, float(estimator.tol)
    with limited_blas(1):
        if first.n_outputs > 1:
            known = solve_classes_by_products(problems, start, total, tol, ACCURACY, is_shared=is_shared)
        else:
            solve = solve_by_factors if has_hessians(problems[0]) else solve_roughly
            known = solve(problems, start, total, tol, ACCURACY)
    path = Path(known.points, known.n_passes, [])
    if known.is_solved.all():
        return path
    return _joined(path, known.is_solved, _alone(estimator, data, fold, Cs[~known.is_solved]))


def _few_rows(estimator: Any, problem: Problem, data: LabelledData, folds: list[Fold], Cs: Vector) -> Paths:
    """Return the paths of the folds with two classes and few rows, by the products of all rows."""
    products_of_rows(problem)  # before threads ask for them

    def solve(fold: Fold) -> Path:
        part, alphas, first = _of_fold(estimator, data, fold, Cs)
        first = with_products(first, problem, fold.train)
        known = solve_few_rows([with_alpha(estimator, first, alpha) for alpha in alphas], 0.0, part.total_weight, ACCURACY)
        return _with_rest(estimator, problem, data, fold, Cs, Path(known.points, known.n_passes, []), known.is_solved)

    paths = map_tasks(solve, folds, estimator.n_threads)
    return Paths(paths, np.mean([path.points for path in paths], axis=0), None)


def _with_rest(
    estimator: Any,
    problem: Problem,
    data: LabelledData,
    fold: Fold,
    Cs: Vector,
    path: Path,
    is_solved: npt.NDArray[np.bool_],
) -> Path:
    """Return a path with what is not solved, from the last solution where a part of a standard error is enough."""
    if is_solved.all():
        return path
    left = Cs[~is_solved]
    if not (_may_be_rough(problem, Cs) or problem.n_outputs > 1):
        return _joined(path, is_solved, _alone(estimator, data, fold, left))
    n = int(is_solved.argmin())  # the strengths before the first that is not solved
    start = path.points[n - 1] if n > 0 else None
    return _joined(path, is_solved, _roughly(estimator, data, fold, left, start))


def _joined(path: Path, is_solved: npt.NDArray[np.bool_], rest: Path) -> Path:
    """Return a path with the solutions of what is not solved."""
    path.points[~is_solved] = rest.points
    path.n_passes[~is_solved] += rest.n_passes
    return path._replace(results=rest.results)


def _of_classes(estimator: Any, problem: Problem, data: LabelledData, folds: list[Fold], Cs: Vector) -> list[Path]:
    """Return the paths of the folds with several classes and an l2 penalty.

    They share the Hessians of all rows, at points that are near enough; with few rows each has its own, in their span.
    """
    problem = with_zeros(problem)
    factors: list[ClassFactor] = []
    if not is_wide(problem):
        of_all = [with_alpha(estimator, problem, alpha) for alpha in _mean_alphas(folds, Cs)]
        factors = solve_classes(of_all, data.total_weight, estimator.tol, accuracy=NEAR).factors

    def solve(fold: Fold) -> Path:
        part, alphas, whole = _of_fold(estimator, data, fold, Cs)
        whole = with_zeros(whole)
        in_span = is_wide(whole)
        first = row_space(whole).inside if in_span else whole
        problems = [with_alpha(estimator, first, alpha) for alpha in alphas]
        known = solve_classes(problems, part.total_weight, estimator.tol, () if in_span else factors)
        points = np.array([from_row_space(whole, point) for point in known.points]) if in_span else known.points
        return _with_rest(estimator, problem, data, fold, Cs, Path(points, known.n_passes, []), known.is_solved)

    return map_tasks(solve, folds, estimator.n_threads)


def _of_classes_in_span(estimator: Any, problem: Problem, data: LabelledData, folds: list[Fold], Cs: Vector) -> list[Path]:
    """Return the same with few rows, by conjugate gradients in the span of each fold's rows."""
    products_of_rows(problem)  # before threads ask for them

    def solve(fold: Fold) -> Path:
        part, alphas, whole = _of_fold(estimator, data, fold, Cs)
        whole = with_products(whole, problem, fold.train)
        inside = row_space(whole).inside
        own = [with_alpha(estimator, inside, alpha) for alpha in alphas]
        start, total, tol = np.zeros(inside.dim), part.total_weight, float(estimator.tol)
        with limited_blas(1):
            known = solve_classes_by_products(own, start, total, tol, ACCURACY, is_shared=True)
        path = Path(np.array([from_row_space(whole, point) for point in known.points]), known.n_passes, [])
        return _with_rest(estimator, problem, data, fold, Cs, path, known.is_solved)

    return map_tasks(solve, folds, estimator.n_threads)


def _of_classes_roughly(estimator: Any, problem: Problem, data: LabelledData, folds: list[Fold], Cs: Vector) -> list[Path]:
    """Return the same where a Hessian takes long, by Kronecker products of all rows where these lead to solutions."""
    problem = with_zeros(problem)
    problems = [with_alpha(estimator, problem, alpha) for alpha in _mean_alphas(folds, Cs)]
    of_all = solve_classes_roughly(problems, data.total_weight, estimator.tol, accuracy=NEAR)
    n = int(of_all.is_solved.sum())  # how many of the strongest penalties these solve

    def solve(fold: Fold) -> Path:
        part, alphas, first = _of_fold(estimator, data, fold, Cs)
        first = with_zeros(first)
        own = [with_alpha(estimator, first, alpha) for alpha in alphas]
        path, is_solved = Path(np.zeros((Cs.size, first.dim)), np.zeros(Cs.size), []), np.zeros(Cs.size, dtype=bool)
        if n > 0:
            known = solve_classes_roughly(own[:n], part.total_weight, estimator.tol, of_all.products)
            path.points[:n], path.n_passes[:n], is_solved[:n] = known.points, known.n_passes, known.is_solved
        return _with_rest(estimator, problem, data, fold, Cs, path, is_solved)

    return map_tasks(solve, folds, estimator.n_threads)


def _together(estimator: Any, problem: Problem, data: LabelledData, folds: list[Fold], Cs: Vector) -> Paths:
    method, problem = LazyNewton(), with_zeros(problem)
    problem = problem.batched(batch_size_for(method, problem))
    size = max(1, int(MOST_NUMBERS // (NUMBERS * Cs.size * problem.dim + problem.n_rows)))
    order = order_of_pass(method.default_sampling, as_seed(estimator.random_state), 0, problem.n_components)
    paths, starts = [], np.zeros((Cs.size, problem.dim))
    for first in range(0, len(folds), size):
        some = folds[first : first + size]
        with limited_blas(1):  # threads share blocks of rows, whose products are small
            found = solve_together(
                _family(estimator, problem, data, some, Cs), order, estimator.tol, estimator.n_threads or 1
            )
        starts += len(some) / len(folds) * found.starts
        for fold, points, n_passes, is_solved in zip(some, found.points, found.n_passes, found.is_solved, strict=True):
            paths.append(_with_rest(estimator, problem, data, fold, Cs, Path(points, n_passes, []), is_solved))
    return Paths(paths, starts, found)


def _family(estimator: Any, problem: Problem, data: LabelledData, folds: list[Fold], Cs: Vector) -> Family:
    """Return the problems of some folds for all strengths."""
    weights = np.zeros((len(folds), problem.n_rows))
    for of_rows, fold in zip(weights, folds, strict=True):
        np.add.at(of_rows, fold.train, fold.part.weights / fold.part.total_weight)
    totals = np.array([fold.part.total_weight for fold in folds])
    alphas = np.array([[alpha_of_C(float(C), total) for C in Cs] for total in [data.total_weight, *totals]])
    lassos, ridges = estimator.l1_ratio * alphas, (1.0 - estimator.l1_ratio) * alphas
    sizes = np.maximum(totals, np.count_nonzero(weights, axis=1))
    return Family(problem, weights, ridges[1:], ridges[0], lassos[1:], lassos[0], sizes)


def earlier_run(problem: Problem, method: Method, paths: Paths, k: int, tol: float, seed: int) -> Result | None:
    """Return what the paths know of all rows at strength k, as a method's run to go on from; None where it takes none."""
    if paths.together is None or not isinstance(method, LazyNewton) or not problem.is_smooth:
        return None
    problem = problem.batched(batch_size_for(method, problem))
    order = order_of_pass(method.default_sampling, seed, 0, problem.n_components)
    hessian, x = paths.together.hessians[int(paths.together.which[k])], paths.starts[k]
    sample = sample_of(problem, np.arange(problem.n_components))
    known = evaluate_on(problem, sample, x, np.zeros(problem.n_rows, dtype=np.float32), n_threads=method.n_threads)
    state = method.init_at(problem, x, tol, known, order)
    factor, shift = factor_of(problem, hessian, problem.term.ridge, 0.0)
    state = state._replace(hessian=hessian, factor=factor, shift=shift, n_gradients=problem.n_components)
    return Result(x=x, state=state, method=method, seed=seed, next_pass=0)
