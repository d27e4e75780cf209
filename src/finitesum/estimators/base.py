"""What all estimators do alike: checks of the input, the runs, what is known of them afterwards, prediction."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from finitesum.constraints import Constraint
from finitesum.core.arrays import Data, Vector
from finitesum.core.in_memory import require_in_memory
from finitesum.core.indices import require_indices
from finitesum.core.threads import map_tasks
from finitesum.estimators.covariance import require_covariance
from finitesum.estimators.elsewhere import estimator, require_no_collection
from finitesum.estimators.inference import InferenceMixin
from finitesum.estimators.penalties import as_penalty_of, box_of
from finitesum.estimators.plain_input import (
    X_CHECKS,
    has_finite_entries,
    is_plain_table,
    is_plain_target,
    is_stored_plainly,
)
from finitesum.estimators.robust_errors import model_covariance
from finitesum.estimators.solvers import as_solver
from finitesum.estimators.tasks import CallbackSupportMixin, FitTasks
from finitesum.losses import Loss, LossName
from finitesum.methods import MethodName
from finitesum.methods.base import Choice, Method, identity_of
from finitesum.problems.input import as_rows, checked_numbers, in_order, stored_well
from finitesum.problems.linear import Problem
from finitesum.running.driver import Result, StopReason, as_seed, minimize
from finitesum.running.observers import Trace


class FitAttributes:
    """What a fit sets, with its types; no dataclass, so that these are no parameters."""

    coef_: Data
    intercept_: Any  # a number, or an array of one for each class or target
    n_iter_: Any
    n_passes_: float
    n_hessian_passes_: float
    optimality_: float
    objective_: float | Any  # an array where several problems were solved
    trace_: Trace | Any  # a list where several problems were solved
    solver_: str
    cov_params_: Data
    standard_errors_: Data
    n_features_in_: int
    feature_names_in_: Data


@estimator
class LinearEstimator(FitAttributes, CallbackSupportMixin, BaseEstimator, ABC):
    """A linear model fitted by `finitesum.minimize`; the classes below it say which problem.

    Their fields are the parameters, unchecked before `fit` as scikit-learn asks for.
    """

    l1_ratio: float = 0.0
    solver: MethodName | Method = "auto"
    step_size: float | str = "auto"
    max_iter: float = 1000
    tol: float = 1e-8
    fit_intercept: bool = True
    constraint: Constraint | None = None
    penalty: Any = None
    penalty_weights: Any = None
    groups: Any = None
    bounds: Any = None
    random_state: Any = 0
    verbose: int = 0
    warm_start: bool = False
    n_threads: int | None = None
    callback: Any = None
    measure_every: int = 0

    standard_errors = False  # a parameter of some classes

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit has ended: one that raised has the number of columns alone."""
        return hasattr(self, "coef_")

    @classmethod
    def from_formula(
        cls, formula: str, frame: Any, *, sample_weight: Any = None, offset: Any = None, **parameters: Any
    ) -> Self:
        """Return an estimator that is fitted to a data frame by a formula, which formulaic reads (extra `formula`).

        Its methods take frames with the formula's variables then, transformed as those of the fit were. Rows with a missing
        value among the variables are left out of the fit, and an error where they are to be predicted.

        Parameters
        ----------
        formula : str
            Such as ``"y ~ a * b + C(region)"``. There is an intercept, unless it ends with ``- 1``; text on the right
            becomes columns of 0 and 1 for all levels but the first; the target may be a column of labels.
        frame : DataFrame
        sample_weight, offset : str or array_like, shape (n,), optional
            A column of the frame, or a number for each of its rows.
        **parameters
            Those of the estimator, but for `fit_intercept`.

        Raises
        ------
        ValueError
            The formula cannot be evaluated.
        ImportError
            formulaic is not installed.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"y": [1.0, 3.0, 2.0, 5.0], "a": [0.0, 1.0, 0.0, 2.0], "town": ["A", "A", "B", "B"]})
        >>> from finitesum import LinearRegressor
        >>> model = LinearRegressor.from_formula("y ~ a + town", frame, alpha=0.0)
        >>> list(model.feature_names_in_), model.predict(frame).round(4)
        (['a', 'town[T.B]'], array([1.2, 2.8, 1.9, 5.1]))
        """
        from finitesum.estimators.formulas import fit_formula

        return fit_formula(cls, formula, frame, sample_weight, offset, parameters)  # type: ignore[no-any-return]

    # -- what a class below adds

    @abstractmethod
    def _unpacked(self, points: list[Vector]) -> tuple[Data, Any]:
        """Return coef_ and intercept_ of the solutions of all problems."""

    @abstractmethod
    def _packed(self, n_columns: int, n_points: int) -> list[Vector] | None:
        """Return the points that coef_ and intercept_ stand for, None where they do not fit."""

    # -- input

    def _check_parameters(self) -> None:
        """Raise a ValueError, as scikit-learn does, for parameters that neither the problem nor the run checks."""
        if self.n_threads is not None and (not isinstance(self.n_threads, Integral) or self.n_threads < 1):
            raise ValueError(f"n_threads must be a whole number >= 1 or None, got {self.n_threads!r}.")
        for name in ("fit_intercept", "warm_start", "standard_errors"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}.")  # noqa: TRY004
        if not isinstance(self.tol, Real) or not 0.0 <= float(self.tol) < math.inf:
            raise ValueError(f"tol must be a number >= 0 and finite, got {self.tol!r}.")
        if not isinstance(self.verbose, Integral):
            raise ValueError(f"verbose must be a whole number, got {self.verbose!r}: 0 is silent.")  # noqa: TRY004
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be callable or None, got {self.callback!r}.")

    def _checked_data(self, X: Any, y: Any, *, reset: bool = True, **checks: Any) -> tuple[Any, Any]:
        self._check_parameters()
        for name, one in (("X", X), ("y", y)):
            require_no_collection(one, name, type(self).__name__)
        require_indices(X)
        given = X
        if self._is_plain(X, reset=reset) and is_plain_target(y, X.shape[0]):
            if reset:
                self.n_features_in_ = X.shape[1]
        else:
            X, y = validate_data(self, X, y, reset=reset, **X_CHECKS, **checks)
        if X is not given:
            require_indices(X)
        X = stored_well(X)
        return in_order(X) if issparse(X) else X, y

    def _is_plain(self, X: Any, *, reset: bool) -> bool:
        """Return whether X needs no checks by scikit-learn, nor do names of columns."""
        if hasattr(self, "feature_names_in_") or not is_plain_table(X):
            return False
        return reset or X.shape[1] == self.n_features_in_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags

    # -- the runs

    def _require_errors(self, problem: Any) -> None:
        """Raise unless errors of the coefficients mean something."""
        require_covariance(problem)

    def _problem(
        self, X: Any, y: Any, weights: Vector | None, loss: LossName | Loss, alpha: float, offset: Any = None
    ) -> Problem:
        own: Any = {"fit_intercept": self.fit_intercept, **self._term(alpha)}
        rows = as_rows(X, is_checked=True)  # as checked data are
        return Problem.linear(rows, y, loss=loss, sample_weight=weights, offset=offset, **own)

    def _term(self, alpha: float) -> dict[str, Any]:
        """Return what `Problem.linear` takes as penalty and set, for a strength of the penalty."""
        term: dict[str, Any] = {"penalty_weights": self.penalty_weights, "constraint": self._set()}
        if self.penalty is None:
            return {**term, "alpha": alpha, "l1_ratio": self.l1_ratio, "groups": self.groups}
        return {**term, "penalty": as_penalty_of(self.penalty, alpha, self.l1_ratio), "groups": self.groups}

    def _set(self) -> Constraint | None:
        """Return the constraint, or the box that the bounds stand for."""
        if self.bounds is None:
            return self.constraint
        if self.constraint is not None:
            raise ValueError("bounds and constraint cannot be combined: give one of them.")
        return box_of(self.bounds, self.n_features_in_, getattr(self, "feature_names_in_", None))

    def _run(
        self,
        problems: list[Any],
        data: tuple[Any, Any, dict[str, Any]],
        starts: list[Vector | None] | None = None,
        earlier: Callable[[Method], Result | None] | None = None,
    ) -> list[Result]:
        """Solve the problems, set what is known of the runs, and warn of those that did not converge.

        The data are X, y and what the fit was given beside them, by name. `earlier` returns a run of a method that the one
        on the first problem goes on from, if there is one.
        """
        X, y, metadata = data
        if self.standard_errors:
            self._require_errors(problems[0])
        tasks = FitTasks(self, X, y, metadata, len(problems))
        n_inside = self.n_threads if len(problems) == 1 else None
        choices = [as_solver(self.solver, self.step_size, one, tol=self.tol, n_threads=n_inside) for one in problems]
        methods = [choice.method for choice in choices]
        memory = self._memory_for(problems, methods)
        if memory is None and starts is not None and earlier is not None and (known := earlier(methods[0])) is not None:
            memory = [known]
        if starts is None:
            starts = self._starts(problems)
        dtype = X.dtype

        def solve(k: int) -> Result:
            context = tasks.of_problem(k)
            watch = self._after_pass(tasks, context, dtype, single=len(problems) == 1)
            start, earlier = (starts[k], None) if memory is None else (None, memory[k])
            result = self._solve(problems[k], start, choices[k], callback=watch, earlier=earlier)
            tasks.end_of_problem(context)
            return result

        results = map_tasks(solve, range(len(problems)), self.n_threads)
        self._note(results, dtype)
        self.__dict__.pop("_memory", None)
        if self.warm_start:
            self._memory = [(problem.fingerprint, result) for problem, result in zip(problems, results, strict=True)]
        tasks.end(lambda: {"coef_": self.coef_, "intercept_": self.intercept_})
        for result in results:
            self._warn(result)
        return results

    def _solve(self, problem: Any, start: Vector | None, method: Method | Choice, **changes: Any) -> Result:
        """Return the result of one run, with the estimator's parameters but for the changes."""
        options: dict[str, Any] = {name: getattr(self, name) for name in ("tol", "max_iter", "measure_every")}
        options |= {"random_state": as_seed(self.random_state), "verbose": int(self.verbose)}
        return minimize(problem, start, method=method, **{**options, **changes})

    def _after_pass(self, tasks: FitTasks, context: Any, dtype: Any, *, single: bool) -> Callable[[Any], bool] | None:
        if self.callback is None and not tasks.are_watched:
            return None

        def attributes_of(x: Vector) -> dict[str, Any]:
            coef, intercept = self._unpacked([x])
            return {"coef_": coef.astype(dtype), "intercept_": intercept}

        def after_pass(report: Any) -> bool:
            answer = self.callback(report) if self.callback is not None else None
            stops = isinstance(answer, bool | np.bool_) and bool(answer)
            if tasks.are_watched:
                attributes = (lambda: attributes_of(report.x)) if single else None
                stops = tasks.after_pass(context, attributes) or stops
            return stops

        return after_pass

    def _note(self, results: list[Result], dtype: Any) -> None:
        """Set the attributes about the solutions and the runs."""
        coef, intercept = self._unpacked([result.x for result in results])
        self.coef_ = coef.astype(dtype)
        self.intercept_ = intercept.astype(dtype) if isinstance(intercept, np.ndarray) else intercept
        self.n_iter_ = self._n_iter([max(1, int(result.nit)) for result in results])
        self.n_passes_ = float(sum(result.n_passes for result in results))
        self.n_hessian_passes_ = float(sum(result.n_hessian_passes for result in results))
        self.optimality_ = float(max(result.optimality for result in results))
        self.objective_ = float(results[0].fun) if len(results) == 1 else np.array([result.fun for result in results])
        self.trace_ = results[0].trace if len(results) == 1 else [result.trace for result in results]
        self.solver_ = results[0].method.name

    def _note_errors(self, problems: list[Any], results: list[Result], total_weight: float) -> None:
        """Set the covariance matrix and the standard errors where they are asked for; those of an earlier fit go."""
        for name in ("cov_params_", "standard_errors_", "inference_"):
            self.__dict__.pop(name, None)
        if self.standard_errors:
            if len(problems) == 1 and problems[0].penalty.lasso() == 0.0 and isinstance(self, InferenceMixin):
                self.inference_ = self._infer(problems[0], results[0].x, total_weight)
                found = [self.inference_.covariance]
            else:
                pairs = zip(problems, results, strict=True)
                found = [model_covariance(one, result.x, total_weight).matrix for one, result in pairs]
            self.cov_params_ = np.stack(found) if len(found) > 1 else found[0]
            self.standard_errors_ = np.sqrt(np.diagonal(self.cov_params_, axis1=-2, axis2=-1))

    def _n_iter(self, counts: list[int]) -> Any:
        return counts[0] if len(counts) == 1 else np.array(counts, dtype=np.int32)

    def _warn(self, result: Result) -> None:
        if not result.success and result.reason is not StopReason.CALLBACK:
            warnings.warn(f"{type(self).__name__}: {result.message}", ConvergenceWarning, stacklevel=6)

    # -- warm starts

    def _starts(self, problems: list[Any]) -> list[Vector | None]:
        warm = self.warm_start and hasattr(self, "coef_")
        points = self._packed(problems[0].rows.n_columns, len(problems)) if warm else None
        if points is None or any(point.size != problem.dim for point, problem in zip(points, problems, strict=True)):
            return [None] * len(problems)
        return list(points)

    def _memory_for(self, problems: list[Problem], methods: list[Method]) -> list[Result] | None:
        """Return the runs to go on from: those on the same problems by the same methods, coefficients untouched."""
        memory = getattr(self, "_memory", None)
        if not self.warm_start or memory is None or len(memory) != len(problems):
            return None
        for (fingerprint, result), problem, method in zip(memory, problems, methods, strict=True):
            if identity_of(result.method) != identity_of(method) or fingerprint != problem.fingerprint:
                return None
        coef, intercept = self._unpacked([result.x for _, result in memory])
        untouched = np.array_equal(coef.astype(self.coef_.dtype), self.coef_) and np.allclose(
            intercept, self.intercept_, rtol=1e-6
        )
        return [result for _, result in memory] if untouched else None

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_memory"}  # as large as the data may be

    # -- prediction

    def _decision(self, X: Any, offset: Any = None) -> Data:
        """Return x'w + b + o of each row: a column for each of several outputs, a vector for one."""
        check_is_fitted(self)
        require_indices(X)
        scores = self._scores_of_plain(X)
        if scores is None:
            X = validate_data(self, X, reset=False, **{**X_CHECKS, "order": None})
            scores = np.asarray(X @ self.coef_.T + self.intercept_)
        if scores.ndim == 2 and scores.shape[1] == 1:
            scores = scores[:, 0]
        return scores if offset is None else scores + checked_numbers(offset, scores.shape, "offset").astype(scores.dtype)

    def _scores_of_plain(self, X: Any) -> Data | None:
        """Return x'w + b of plain rows whose entries are finite, None for others.

        A product of an entry that is not finite and a coefficient that is not 0 is not finite either: the rows are read
        once more only where a coefficient is 0, or a score is not finite.
        """
        if hasattr(self, "feature_names_in_") or not is_stored_plainly(X) or X.shape[1] != self.n_features_in_:
            return None
        with np.errstate(all="ignore"):
            scores = np.asarray(X @ self.coef_.T + self.intercept_)
            is_clean = bool(np.isfinite(scores.sum()))
        if is_clean and np.all(self.coef_):
            return scores
        if not has_finite_entries(X):
            return None
        return scores if is_clean else np.asarray(X @ self.coef_.T + self.intercept_)  # which warns of an overflow


def checked_weights(sample_weight: Any, X: Any) -> Vector | None:
    """Return sample weights as float64, None for None, or raise what is wrong with them."""
    if sample_weight is None:
        return None
    require_in_memory(sample_weight, "sample_weight")
    weights: Vector = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if not (weights >= 0.0).all():
        raise ValueError("sample_weight must be >= 0. Weight 0 leaves a row out.")
    if not weights.any():
        raise ValueError("sample_weight must have a positive sum, got zeros only. Leave it out for equal weights.")
    return weights


def alpha_of_C(C: Any, total_weight: float) -> float:
    """Return 1 / (C S), the strength against the mean that C > 0 means against the sum; 0 for an infinite C."""
    if not isinstance(C, Real) or not float(C) > 0.0:
        raise ValueError(f"C must be a number > 0, got {C!r}. Infinity is no penalty.")
    return 0.0 if math.isinf(C) else 1.0 / (float(C) * total_weight)
