"""Methods, own functions and other libraries on one problem: `finitesum.compare`."""

import importlib
import inspect
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.optimality import evaluate
from finitesum.losses import Logistic, Poisson, Squared
from finitesum.methods import Method
from finitesum.methods.base import SumMethod
from finitesum.problems.linear import Problem
from finitesum.problems.penalties import ElasticNet
from finitesum.problems.rows import to_matrix
from finitesum.reporting.report import Comparison, Outcome, run_methods
from finitesum.running.observers import Trace, TraceRow

#: What is compared where no methods are named.
USUAL = ("auto", "a-ciag", "saga", "svrg", "newton", "fg")

#: Tolerances that another library is run at, one after the other: each is a point of its curve.
TOLERANCES = tuple(10.0**-k for k in range(1, 13))


def compare(
    problem: Any,
    methods: Sequence[Any] = USUAL,
    *,
    peers: Sequence[str | Callable[..., Any]] = (),
    seeds: int | Sequence[int] = 1,
    time_limit: float | None = None,
    tol: float = 1e-8,
    max_iter: float = 200,
    title: str = "",
    on_done: Callable[[Outcome], None] | None = None,
    **settings: Any,
) -> Comparison:
    """Run methods on a problem, one after the other, and return what each did.

    Parameters
    ----------
    problem : Problem, FiniteSum, Dataset or tuple (X, y)
        For the last two the words of `Problem.linear` (loss, alpha, l1_ratio, fit_intercept ...) are given as `settings`.
    methods : sequence
        Names, methods with parameters, classes of methods, ``"package.module:Class"``, or functions of one's own:
        ``function(problem, x0)`` returns a point, or yields points, each of which is measured while the clock stops.
    peers : sequence
        "sklearn:SOLVER" runs scikit-learn's LogisticRegression, Ridge or PoissonRegressor at falling tolerances, where
        one of them minimises the same objective; the seconds of a point are those of its own fit.
    seeds : int or sequence of int
        Seeds of the order of visits, or how many; each method runs with each.
    time_limit : float > 0, optional
        Seconds after which a run ends, at the end of its pass.
    tol, max_iter
        As in `finitesum.minimize`.
    title : str
        Of the page and the pictures.
    on_done : callable, optional
        Called with each `Outcome`.
    **settings
        The other words of `finitesum.minimize`, or of `Problem.linear` where data are given.

    Returns
    -------
    Comparison
        ``print`` shows the table; `to_frame`, `plot` and `write` make a pandas DataFrame, a figure, a folder with a page.

    Raises
    ------
    ValueError
        A method or a peer is unknown, a seed or the limit out of range. A method that fails while it runs is a line of the
        table instead, with its message.

    Examples
    --------
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]], [0, 1, 0, 1]
    >>> found = compare((X, y), ["newton", "fg"], alpha=0.1, peers=["sklearn:newton-cholesky"])
    >>> [(outcome.name, outcome.success) for outcome in found.outcomes]
    [('newton', True), ('fg', True), ('scikit-learn newton-cholesky', True)]
    """
    problem, settings = _as_problem(problem, settings)
    numbers = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not numbers:
        raise ValueError(f"seeds must be a number >= 1, or hold one seed or more, got {seeds!r}.")
    if time_limit is not None and not time_limit > 0.0:
        raise ValueError(f"time_limit must be seconds > 0, got {time_limit!r}.")
    outcomes = []
    for method in [*map(resolved, methods), *(_peer(peer, problem) for peer in peers)]:
        for seed in numbers:
            words = {"tol": tol, "max_iter": max_iter, "random_state": seed, "time_limit": time_limit, **settings}
            if isinstance(method, str | Method):
                (outcome,) = run_methods(problem, [method], **words)
            else:
                outcome = _function_outcome(problem, method, tol, time_limit)
            if len(numbers) > 1:
                outcome = replace(outcome, name=f"{outcome.name}, seed {seed}")
            outcomes.append(outcome)
            if on_done is not None:
                on_done(outcome)
    return Comparison(title or _described(problem), tol, outcomes)


def _as_problem(given: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the problem, made from data where these are given, and the words that are left for `minimize`."""
    pair = given if isinstance(given, tuple) and len(given) == 2 else None
    if hasattr(given, "rows") and hasattr(given, "labels"):
        pair = given.rows, given.labels
    if pair is None:
        return given, settings
    words = set(inspect.signature(Problem.linear).parameters)
    own = {name: value for name, value in settings.items() if name in words}
    return Problem.linear(*pair, **own), {name: value for name, value in settings.items() if name not in words}


def _described(problem: Any) -> str:
    if not isinstance(problem, Problem):
        return type(problem).__name__
    return f"{type(problem.loss).__name__} loss, {problem.n_rows} x {problem.rows.n_columns}"


def resolved(method: Any) -> Any:
    """Return a method, its name or a function, of what was given."""
    if isinstance(method, str) and ":" in method:
        place, _, name = method.partition(":")
        try:
            method = getattr(importlib.import_module(place), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"no method {name!r} in the module {place!r}: {error}.") from error
    if isinstance(method, type) and issubclass(method, SumMethod):
        return method()
    if isinstance(method, str | Method) or callable(method):
        return method
    raise ValueError(f"a method must be a name, a method or a function(problem, x0), got {method!r}.")


def _function_outcome(problem: Any, function: Any, tol: float, time_limit: float | None) -> Outcome:
    """Return what a function did: the points that it returned or yielded, measured off the clock."""
    name = str(getattr(function, "name", None) or getattr(function, "__name__", type(function).__name__))
    starts_again = bool(getattr(function, "starts_again", False))
    trace, x, seconds = Trace(), np.zeros(problem.dim), 0.0

    def note(point: Vector) -> float:
        found = evaluate(problem, point)
        trace.append(TraceRow(math.nan, math.nan, seconds, found.objective, found.optimality, math.nan))
        return float(found.optimality)

    try:
        note(x)
        getattr(function, "prepare", lambda _: None)(problem)
        begin = time.perf_counter()
        for point in _points(function(problem, x.copy())):
            seconds = (0.0 if starts_again else seconds) + time.perf_counter() - begin
            x = np.array(point, dtype=np.float64).reshape(problem.dim)
            if note(x) <= tol or seconds >= (time_limit or math.inf):
                break
            begin = time.perf_counter()
    except Exception as error:
        return Outcome(name, repr(function), trace if len(trace) > 1 else Trace(), False, f"Failed: {error}")
    last = trace.rows[-1]
    success = last.optimality <= tol
    words = "Converged" if success else "Stopped"
    message = f"{words}: optimality {last.optimality:.3g} (asked: {tol:.3g})."
    ended = Outcome(name, repr(function), trace, success, message, last.optimality, last.objective, seconds=seconds)
    return replace(ended, x=x)


def _points(answer: Any) -> Iterable[Any]:
    return answer if isinstance(answer, Iterator) else [answer]


def _peer(peer: Any, problem: Any) -> Any:
    """Return a function that runs another library, or raise what is wrong with its name or the problem."""
    if callable(peer):
        return peer
    library, _, solver = str(peer).partition(":")
    if library not in ("sklearn", "scikit-learn") or not solver:
        raise ValueError(f'peers are functions, or "sklearn:SOLVER" such as "sklearn:newton-cholesky", got {peer!r}.')
    if not isinstance(problem, Problem) or not isinstance(problem.penalty, ElasticNet) or problem.is_constrained:
        raise ValueError(f"{peer} knows linear models with an elastic net and without a constraint: leave it out.")
    if problem.has_offsets or problem.n_outputs > 1 or not isinstance(problem.loss, Logistic | Squared | Poisson):
        raise ValueError(f"{peer} knows logistic, squared and Poisson losses of one output without offsets: leave it out.")
    if problem.penalty.lasso() > 0.0 and not isinstance(problem.loss, Logistic):
        raise ValueError(f"{peer} knows an l1 penalty with the logistic loss: leave it out.")
    return SklearnPeer(solver)


def _is_of_signs(problem: Any) -> bool:
    return bool(problem.loss.target_kind() == "sign")


class SklearnPeer:
    """scikit-learn's estimator of a problem, fitted at falling tolerances: each fit is a point."""

    #: Each point is a fit of its own.
    starts_again = True

    def __init__(self, solver: str) -> None:
        self.solver, self.name = solver, f"scikit-learn {solver}"

    def __repr__(self) -> str:
        return f"{self.name} at tol = 0.1, 0.01, ..."

    def prepare(self, problem: Any) -> None:
        """Load what the first fit would load."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._estimator(problem, 4, 0.1).fit(np.eye(4), [-1.0, 1.0, -1.0, 1.0] if _is_of_signs(problem) else np.ones(4))

    def __call__(self, problem: Any, x0: Vector) -> Iterator[Vector]:
        """Yield the coefficients of one tolerance after the other."""
        X, n = to_matrix(problem.rows), problem.n_rows
        weights = n * problem.weights
        for tol in TOLERANCES:
            estimator = self._estimator(problem, n, tol)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.fit(X, problem.targets, sample_weight=weights)
            yield np.append(np.ravel(estimator.coef_), np.ravel(estimator.intercept_) if problem.has_intercept else [])

    def _estimator(self, problem: Any, n: int, tol: float) -> Any:
        from sklearn import linear_model

        words: dict[str, Any] = {"tol": tol, "max_iter": 100_000, "fit_intercept": problem.has_intercept}
        ridge, lasso, scale = problem.penalty.ridge(), problem.penalty.lasso(), problem.loss.scale
        if isinstance(problem.loss, Logistic):
            alpha = ridge + lasso
            words |= {"C": scale / (alpha * n) if alpha else np.inf, "l1_ratio": lasso / alpha if alpha else 0.0}
            return linear_model.LogisticRegression(solver=self.solver, **words)
        if isinstance(problem.loss, Poisson):
            return linear_model.PoissonRegressor(alpha=ridge / scale, solver=self.solver, **words)
        return linear_model.Ridge(alpha=ridge * n / scale, solver=self.solver, **words)
