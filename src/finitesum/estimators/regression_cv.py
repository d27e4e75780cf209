"""Regression whose penalty is chosen by folds or by an information criterion."""

from copy import copy
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.threads import map_tasks
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.choice import chosen, criteria_of, least, ratios_of
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.gram_paths import SharedPaths
from finitesum.estimators.mean_paths import solved_together
from finitesum.estimators.means import PoissonRegressor
from finitesum.estimators.regression_path import null_point, points_of, rows_of, solve_strengths, strengths_of
from finitesum.estimators.regressors import LinearRegressor
from finitesum.estimators.ridge import Ridge
from finitesum.estimators.scoring import losses_at, takes_weights, with_offset
from finitesum.estimators.tasks import with_callbacks
from finitesum.problems.linear import Problem


@estimator
class ChoiceMixin:
    """Chooses the strength of the penalty, and the l1 ratio, before it fits."""

    alphas: Any = 50
    l1_ratios: Any = None
    cv: Any = None
    criterion: str = "cv"
    rule: str = "best"
    scoring: Any = None
    alpha: float = field(default=0.0, init=False)

    _single: ClassVar[type[Any]]
    _takes_several_targets: ClassVar[bool] = False

    def _estimator(self, l1_ratio: float) -> Any:
        names = self._single._get_param_names()
        own: Any = self
        known = {name: getattr(own, name) for name in names if name not in ("alpha", "l1_ratio", "standard_errors")}
        return self._single(l1_ratio=l1_ratio, **known)

    @in_kind
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, groups: Any = None) -> Self:
        """Choose the penalty and fit the model to data as for `LinearRegressor.fit`.

        Rows of the same `groups`, shape (n,), are in one fold, where the splitter `cv` knows groups. Weight 2 means the
        same as the row written twice, in one fold; test rows are scored by their weights.
        """
        own: Any = self
        ratios = ratios_of(self)
        for name in ("alpha_", "l1_ratio_"):
            self.__dict__.pop(name, None)
        given = X
        problems, total, X, y = own._problems(X, y, sample_weight, offset)
        problem, estimators = problems[0], [self._estimator(ratio) for ratio in ratios]
        for name in ("n_features_in_", "feature_names_in_"):  # which bounds by name refer to
            for one in estimators if hasattr(self, name) else ():
                setattr(one, name, getattr(self, name))
        factor = self._factor(total)
        strengths = [strengths_of(self._scaled_alphas(factor), one, problem) for one in estimators]
        if self.criterion == "cv":
            data = X, y, None if sample_weight is None else problem.weights, None if offset is None else problem.offsets
            self.scores_, solvers = self._fold_scores(estimators, strengths, problem, total, data, groups)
            ratio, place = chosen(self.scores_, self.rule)
        else:
            solvers = None
            tables = [solve_strengths(one, problem, values) for one, values in zip(estimators, strengths, strict=True)]
            parts = zip(estimators, strengths, tables, strict=True)
            self.criteria_ = np.stack(
                [criteria_of(self.criterion, one, problem, values, path, total) for one, values, path in parts]
            )
            ratio, place = least(self.criteria_, problem)
            self._near = tables[ratio][place].x
        self.alphas_ = np.stack(strengths) / factor
        self.alpha_, self.l1_ratio_ = float(self.alphas_[ratio, place]), float(ratios[ratio])
        if solvers is not None and (solve := solvers[ratio]) is not None:
            self._near = solve(None, strengths[ratio][: place + 1])[0][-1]
        single: Any = super()
        single.fit(given, y, sample_weight, offset)  # with the names of the columns, and alpha_
        return self

    def _factor(self, total: float) -> float:
        """Return what alpha is times to stand against the mean of the losses: 1, but 1/S for Ridge."""
        return float(self._single(alpha=1.0)._alphas(1, total)[0])

    def _scaled_alphas(self, factor: float) -> Any:
        if isinstance(self.alphas, Integral | bool) or np.ndim(self.alphas) != 1:
            return self.alphas
        try:
            return np.asarray(self.alphas, dtype=np.float64) * factor
        except (TypeError, ValueError):
            return self.alphas

    def _term(self, alpha: float) -> dict[str, Any]:
        own: Any = super()
        term: dict[str, Any] = own._term(alpha)
        if "l1_ratio" in term and hasattr(self, "l1_ratio_"):
            term["l1_ratio"] = self.l1_ratio_
        return term

    def _fold_scores(self, estimators: Any, strengths: Any, problem: Problem, total: float, data: Any, groups: Any) -> Any:
        """Return the scores of the folds, (folds, ratios, m), and what solves each ratio's problems, or None for it.

        A score is minus the mean loss, or what `scoring` says.
        The data are the checked X and y, with weights and offsets or None for them. The alphas of Ridge stand against the
        sum, and so the more against the mean the fewer rows are fitted.
        """
        from sklearn.model_selection import check_cv  # which takes a while to load

        splitter = check_cv(self.cv)
        matrix = np.zeros((problem.n_rows, 1))
        folds = list(splitter.split(matrix, data[1], groups))

        own: Any = self
        trains = [np.arange(problem.n_rows)[train] for train, _ in folds]
        shared = SharedPaths(problem, trains, own.n_threads)
        for train in trains:
            if not problem.weights[train].any():
                rows_of(problem, train)  # raises
        parts = [self._factor(total * float(problem.weights[train].sum())) for train in trains]
        more = np.array(parts) / self._factor(total)
        null = null_point(problem)
        solvers = [
            shared.paths_of(one, float(values[0])) or solved_together(one, problem, trains, values, more, null, total)
            for one, values in zip(estimators, strengths, strict=True)
        ]

        def scores(k: int) -> Matrix:
            train, test = folds[k]
            of_test, tables = rows_of(problem, test), []
            part = None if all(solvers) else rows_of(problem, train)
            for one, values, solve in zip(estimators, strengths, solvers, strict=True):
                known = None if solve is None else solve(k, values * more[k])
                if part is None and known is not None and not (known[1] <= one.tol).all():
                    part = rows_of(problem, train)
                points = points_of(one, part or problem, values * more[k], known)
                tables.append(self._scores_at(one, of_test, data, points, test))
            return np.array(tables)

        return np.array(map_tasks(scores, range(len(folds)), own.n_threads)), solvers

    def _scores_at(self, estimator: Any, part: Problem, data: Any, points: Matrix, test: Any) -> Vector:
        """Return the scores of models on the test rows, which are the problem `part`."""
        if self.scoring is None:
            return -(part.weights @ losses_at(part, points))
        from sklearn.metrics import get_scorer

        scorer, model = get_scorer(self.scoring), copy(estimator)
        X, y, weights, offsets = (None if numbers is None else numbers[test] for numbers in data)
        model.n_features_in_ = part.rows.n_columns
        given = {} if weights is None or not takes_weights(scorer) else {"sample_weight": weights}
        scores = []
        for x in points:
            model.coef_, model.intercept_ = estimator._unpacked([x])
            scores.append(float(scorer(with_offset(model, offsets), X, y, **given)))
        return np.array(scores)

    def _starts(self, problems: list[Any]) -> list[Vector | None]:
        own: Any = super()
        starts: list[Vector | None] = own._starts(problems)
        near = self.__dict__.pop("_near", None)
        is_start = near is not None and starts[0] is None and bool(np.isfinite(near).all())
        return [near] if is_start else starts

    def _alphas(self, n_targets: int, total_weight: float) -> list[float]:
        return [getattr(self, "alpha_", 1.0) * self._factor(total_weight)] * n_targets


@estimator
class LinearRegressorCV(ChoiceMixin, LinearRegressor):
    """`LinearRegressor` whose alpha and l1_ratio are chosen: by folds, AIC, BIC or EBIC.

    With solver="auto" folds of the squared loss are solved to `tol` on Gram matrices, those of losses of a mean together,
    to 1e-6 of their standard errors; all others by a path each, to `tol`. The fit to all rows always reaches `tol`.

    Parameters
    ----------
    alphas : int or array_like
        Strengths, or how many: see `linear_path`.
    l1_ratios : sequence of float, optional
        Those that are tried; l1_ratio alone when left out.
    cv : int, splitter or iterable of (train, test), optional
        What scikit-learn's `check_cv` takes; 5 folds when left out.
    criterion : {"cv", "aic", "bic", "ebic"}
        Folds, or an information criterion of the fit to all rows [1]_.
    rule : {"best", "one_standard_error"}
        The best mean score, or the strongest penalty within one standard error of it.
    scoring : str or callable, optional
        What scikit-learn's `check_scoring` takes; minus the mean loss of the test rows when left out. Test rows count by
        their sample weights, where the scorer takes some.
    loss, l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, groups, bounds, \
random_state, verbose, warm_start, n_threads, callback, measure_every, standard_errors
        As in `LinearRegressor`. `n_threads` folds are solved at once. The groups here are those of columns; those of rows
        go to `fit`.

    Attributes
    ----------
    alpha_, l1_ratio_ : float
        What was chosen.
    alphas_ : ndarray, shape (ratios, m)
        The strengths, falling.
    scores_ : ndarray, shape (folds, ratios, m)
        With folds; larger is better.
    criteria_ : ndarray, shape (ratios, m)
        With an information criterion; smaller is better.
    coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_, cov_params_, \
standard_errors_
        Of the fit to all rows, as in `LinearRegressor`. Errors do not know of the choice.

    References
    ----------
    .. [1] J. Chen, Z. Chen, "Extended Bayesian information criteria for model selection with large model spaces",
       Biometrika 95 (2008).

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0.1, 1.0, 1.9, 3.1, 4.0, 5.1]
    >>> model = LinearRegressorCV(alphas=[0.01, 10.0], cv=3).fit(X, y)
    >>> model.alpha_, model.scores_.shape
    (0.01, (3, 1, 2))
    """

    _single: ClassVar[type[Any]] = LinearRegressor


@estimator
class RidgeCV(ChoiceMixin, Ridge):
    """`Ridge` whose alpha is chosen: by folds, AIC, BIC or EBIC.

    Parameters
    ----------
    alphas, l1_ratios, cv, criterion, rule, scoring
        As in `LinearRegressorCV`; alphas stand against the sum of the squares, as in `Ridge`.
    l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, groups, bounds, \
random_state, verbose, warm_start, n_threads, callback, measure_every, standard_errors
        As in `Ridge`.

    Attributes
    ----------
    alpha_, l1_ratio_, alphas_, scores_, criteria_, coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, \
objective_, trace_, solver_, cov_params_, standard_errors_
        As in `LinearRegressorCV`.
    """

    _single: ClassVar[type[Any]] = Ridge


@estimator
class PoissonRegressorCV(ChoiceMixin, PoissonRegressor):
    """`PoissonRegressor` whose alpha is chosen: by folds, AIC, BIC or EBIC.

    Parameters
    ----------
    alphas, l1_ratios, cv, criterion, rule, scoring
        As in `LinearRegressorCV`.
    l1_ratio, solver, step_size, max_iter, tol, fit_intercept, constraint, penalty, penalty_weights, groups, bounds, \
random_state, verbose, warm_start, n_threads, callback, measure_every, standard_errors
        As in `PoissonRegressor`.

    Attributes
    ----------
    alpha_, l1_ratio_, alphas_, scores_, criteria_, coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, \
objective_, trace_, solver_, cov_params_, standard_errors_
        As in `LinearRegressorCV`.
    """

    _single: ClassVar[type[Any]] = PoissonRegressor
