"""Solutions of logistic regression along a path of penalties, from strong to weak, each from what the last one left.

Every solver starts at the last solution. Lazy Newton, which "auto" takes where a Hessian pays, also keeps its rows'
curvatures and their sum: with the new penalty on the diagonal a factor makes them the Hessian of the next problem, so
that its first step reads no data for a Hessian. Newton-CG goes on with all rows, without steps on samples of them.
"""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Data, Matrix, Vector
from finitesum.core.threads import limited_blas
from finitesum.estimators.base import alpha_of_C
from finitesum.estimators.classification import LabelledData
from finitesum.estimators.logistic import LogisticRegression
from finitesum.estimators.solvers import as_solver, is_auto
from finitesum.methods.base import Alternative, Choice
from finitesum.methods.newton.lazy_newton import LazyNewton
from finitesum.methods.newton.newton import Newton
from finitesum.methods.newton.newton_cg import NewtonCGState
from finitesum.methods.newton.other_strength import PathState, with_strength
from finitesum.problems.given_term import convex_term
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.rows import CSRRows, DenseRows
from finitesum.problems.used_columns import in_used_columns
from finitesum.running.driver import Result

#: A method that goes on from the last problem's Hessian may take as many times as long as the fastest one for a fit by
#: itself: the problems after the first take half of that, or less.
CARRIED = 2.0

#: Parameters of `LogisticRegression` that would be ignored.
NOT_OF_A_PATH = ("C", "warm_start", "callback", "measure_every", "standard_errors")


class LogisticPath(NamedTuple):
    """What `logistic_path` found."""

    Cs: Vector  # (m,)  rising
    alphas: Vector  # (m,)  1 / (C S)
    coefs: Data  # (m, K, d), with K = 1 for two classes
    intercepts: Data  # (m, K)
    optimality: Vector  # (m,)  reached
    n_passes: Vector  # (m,)
    results: list[Result]


def as_Cs(Cs: Any) -> Vector:
    """Return inverse strengths > 0 in rising order: those given, or their number between 1e-4 and 1e4."""
    return positive_numbers(Cs, "Cs", lambda number: np.logspace(-4.0, 4.0, number))


def positive_numbers(given: Any, name: str, usual: Callable[[int], Vector]) -> Vector:
    """Return numbers > 0 in rising order: those given, or as many of the usual ones as a whole number says."""
    refusal = f"{name} must be a whole number >= 1 or a sequence of numbers > 0, got {given!r}."
    if isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 1:
        return usual(int(given))
    try:
        values = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(refusal) from error
    if values.ndim != 1 or values.size == 0 or isinstance(given, bool) or not (values > 0.0).all():
        raise ValueError(refusal)
    return np.unique(values)


def carried(problem: Any, last: Result) -> Result | None:
    """Return the last run as one on a problem that differs in its penalty, None for methods that carry nothing."""
    state = last.state
    if not isinstance(state, PathState) or state.n_sampled < problem.batched(last.batch_size).n_components:
        return None
    if is_parted(problem) and isinstance(state, NewtonCGState):  # whose numbers by row are elsewhere
        return None
    used = in_used_columns(problem) if state.x.size < problem.dim else None
    state = with_strength(problem if used is None else used.problem, state, last.ridge)
    x = state.x if used is None else used.outward(state.x)
    return Result(x=x, state=state, method=last.method, seed=last.seed, next_pass=last.next_pass)


def path_of_classes(estimator: Any, data: LabelledData, Cs: Vector, n_threads: int | None = None) -> list[Result]:
    """Return the results for rising inverse strengths."""
    alphas = [alpha_of_C(float(C), data.total_weight) for C in Cs]
    (first,) = estimator._problems(data, alphas[0])
    return solve_path(estimator, first, alphas, n_threads=n_threads)


def solve_path(
    estimator: Any,
    first: Problem,
    alphas: Any,
    start: Vector | None = None,
    n_threads: int | None = None,
    starts: Matrix | None = None,
) -> list[Result]:
    """Return the results for falling strengths, the first of which is the problem's, from one start or from one each.

    The method is that for the last one > 0, where the time goes, and treats all of them; in the place of Newton's method,
    with an l1 penalty and fewer rows than columns, one that has Hessians of the columns of a solution alone; and of smooth
    problems lazy Newton, which has the last problem's Hessian, unless another takes much less time.
    """
    results: list[Result] = []
    last = with_alpha(estimator, first, float(([alpha for alpha in alphas if alpha > 0.0] or alphas)[-1]))
    method = as_solver(estimator.solver, estimator.step_size, last, tol=estimator.tol, n_threads=n_threads)
    if is_auto(estimator.solver) and len(alphas) > 1 and isinstance(method.method, Newton) and _is_sparse_and_wide(last):
        name = "coordinate-descent" if math.isfinite(last.loss.curvature_bound()) else "working-set-newton"
        on_columns = as_solver(name, "auto", last, tol=estimator.tol, n_threads=n_threads)
        others = Alternative(method.method, method.seconds), *method.others
        reason = f"a path with an l1 penalty on fewer rows than columns, for the last strength: {method.reason}"
        method = on_columns._replace(reason=reason, others=others)
    if is_auto(estimator.solver) and len(alphas) > 1 and starts is None and last.is_smooth:
        method = _with_carried_state(method)
    for k, alpha in enumerate(alphas):
        problem = with_alpha(estimator, first, float(alpha))
        earlier = carried(problem, results[-1]) if results and starts is None else None
        if starts is not None:
            start = starts[k]
        elif results:
            start = results[-1].x if earlier is None else None
        result = estimator._solve(problem, start, method, earlier=earlier, measure_every=0)
        result.ridge = problem.penalty.ridge()
        if results:
            results[-1].state = None  # a memory as large as the data, and of no more use
        results.append(result)
    return results


def _with_carried_state(choice: Choice) -> Choice:
    """Return lazy Newton, whose state is carried from strength to strength, unless a fit by it takes much longer."""
    for other in choice.others:
        if isinstance(other.method, LazyNewton) and other.seconds <= CARRIED * choice.seconds:
            others = Alternative(choice.method, choice.seconds), *(one for one in choice.others if one is not other)
            reason = f"a path, whose states are carried; for the last strength alone: {choice.reason}"
            return choice._replace(method=other.method, seconds=other.seconds, reason=reason, others=others)
    return choice


def _is_sparse_and_wide(problem: Problem) -> bool:
    """Return whether a smooth convex loss has an l1 penalty, and fewer rows than columns, in memory."""
    is_net = isinstance(problem.penalty, ElasticNet) and not (problem.is_smooth or problem.is_constrained)
    is_known = isinstance(problem.rows, DenseRows | CSRRows) and problem.n_outputs == 1
    return is_net and is_known and problem.convex and problem.loss.is_smooth() and problem.n_rows < problem.rows.n_columns


def with_alpha(estimator: Any, problem: Problem, alpha: float) -> Any:
    """Return the problem with another strength of the estimator's penalty: the data is not read."""
    term = convex_term(problem.rows.n_columns, int(problem.has_intercept), problem.n_outputs, **estimator._term(alpha))
    return problem.with_penalty(term.penalty)


def logistic_path(
    X: Any, y: Any, *, Cs: Any = 10, sample_weight: Any = None, offset: Any = None, **parameters: Any
) -> LogisticPath:
    """Return the solutions of logistic regression for several strengths of the penalty.

    Each is found from the last one, from strong to weak penalties, to the same optimality as a fit of its own.

    Parameters
    ----------
    X : array_like or sparse, shape (n, d)
    y : array_like, shape (n,)
        Labels of any kind.
    Cs : int or array_like
        Inverse strengths, or how many between 1e-4 and 1e4.
    sample_weight : array_like, shape (n,), optional
    offset : array_like, shape (n,), or (n, K) for K > 2 classes, optional
        Added to each decision x'w + b.
    **parameters
        Those of `LogisticRegression`, but for C, warm_start, callback, measure_every and standard_errors.

    Raises
    ------
    ValueError
        Cs are not positive, or what `LogisticRegression` raises.
    TypeError
        A parameter means nothing for a path.

    Examples
    --------
    >>> path = logistic_path([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], Cs=[0.1, 1.0])
    >>> path.coefs[:, 0, 0].round(4)
    array([0.0889, 0.4529])
    """
    meaningless = [name for name in NOT_OF_A_PATH if name in parameters]
    if meaningless:
        raise TypeError(f"logistic_path has no {', '.join(meaningless)}. Cs are the strengths; for the rest fit one model.")
    estimator = LogisticRegression(**parameters)
    inverse = as_Cs(Cs)
    data = estimator._labelled(X, y, sample_weight, offset)
    with limited_blas(estimator.n_threads):
        results = path_of_classes(estimator, data, inverse, estimator.n_threads)
    for result in results:
        estimator._warn(result)
    unpacked = [estimator._unpacked([result.x]) for result in results]
    alphas = np.array([alpha_of_C(float(C), data.total_weight) for C in inverse])
    coefs, intercepts = (np.stack(parts) for parts in zip(*unpacked, strict=True))
    optimality, n_passes = (np.array([result[name] for result in results]) for name in ("optimality", "n_passes"))
    return LogisticPath(inverse, alphas, coefs, intercepts, optimality, n_passes, results)
