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
from finitesum.estimators.regression_path import null_point, points_of, rows_of, rows_of_each, solve_strengths, strengths_of
from finitesum.estimators.regressors import LinearRegressor
from finitesum.estimators.ridge import Ridge
from finitesum.estimators.scoring import OF_PREDICTIONS, losses_at, outputs_at, scores_of, takes_weights, with_offset
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
        estimators = [self._estimator(ratio) for ratio in ratios]
        for name in ("n_features_in_", "feature_names_in_"):  # which bounds by name refer to
            for one in estimators if hasattr(self, name) else ():
                setattr(one, name, getattr(self, name))
        factor = self._factor(total)
        alphas = self._scaled_alphas(factor)
        strengths = [np.max([strengths_of(alphas, one, of) for of in problems], axis=0) for one in estimators]
        if self.criterion == "cv":
            offsets = None if offset is None else np.stack([of.offsets for of in problems], axis=-1).reshape(y.shape)
            data = X, y, None if sample_weight is None else problems[0].weights, offsets
            self.scores_, solvers = self._fold_scores(estimators, strengths, problems, total, data, groups)
            ratio, place = chosen(self.scores_, self.rule)
        else:
            solvers, self.criteria_, tables = None, np.zeros((len(ratios), len(strengths[0]))), []
            for k, (one, values) in enumerate(zip(estimators, strengths, strict=True)):
                tables.append([solve_strengths(one, of, values) for of in problems])
                for of, path in zip(problems, tables[k], strict=True):
                    self.criteria_[k] += criteria_of(self.criterion, one, of, values, path, total)
            ratio, place = least(self.criteria_, problems[0])
            self._near = [path[place].x for path in tables[ratio]]
        self.alphas_ = np.stack(strengths) / factor
        self.alpha_, self.l1_ratio_ = float(self.alphas_[ratio, place]), float(ratios[ratio])
        if solvers is not None and all(solvers[ratio]):
            self._near = [solve(None, strengths[ratio][: place + 1])[0][-1] for solve in solvers[ratio]]
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

    def _fold_scores(
        self, estimators: Any, strengths: Any, problems: list[Problem], total: float, data: Any, groups: Any
    ) -> Any:
        """Return the scores of the folds, (folds, ratios, m), and what solves each ratio's and target's problems, or None.

        A score is minus the mean loss, of all targets, or what `scoring` says.
        The data are the checked X and y, with weights and offsets or None for them. The alphas of Ridge stand against the
        sum, and so the more against the mean the fewer rows are fitted.
        """
        from sklearn.model_selection import check_cv  # which takes a while to load

        splitter, problem = check_cv(self.cv), problems[0]
        matrix = np.zeros((problem.n_rows, 1))
        folds = list(splitter.split(matrix, data[1], groups))

        own: Any = self
        trains = [np.arange(problem.n_rows)[train] for train, _ in folds]
        shared = SharedPaths(problems, trains, own.n_threads)
        for train in trains:
            if not problem.weights[train].any():
                rows_of(problem, train)  # raises
        parts = [self._factor(total * float(problem.weights[train].sum())) for train in trains]
        more = np.array(parts) / self._factor(total)

        def solver(one: Any, values: Vector, t: int) -> Any:
            known = shared.paths_of(one, float(values[0]), t)
            return known or solved_together(one, problems[t], trains, values, more, null_point(problems[t]), total)

        n_targets, pairs = len(problems), list(zip(estimators, strengths, strict=True))
        solvers = [[solver(one, values, t) for t in range(n_targets)] for one, values in pairs]

        def scores(k: int) -> Matrix:
            train, test = folds[k]
            of_test, tables = rows_of_each(problems, test), []
            of_train: list[Problem] = []
            for (one, values), of_targets in zip(pairs, solvers, strict=True):
                points = []
                for t, solve in enumerate(of_targets):
                    known = None if solve is None else solve(k, values * more[k])
                    if not of_train and (known is None or not (known[1] <= one.tol).all()):
                        of_train = rows_of_each(problems, train)
                    points.append(points_of(one, of_train[t] if of_train else problems[t], values * more[k], known))
                tables.append(self._scores_at(one, of_test, data, points, test))
            return np.array(tables)

        return np.array(map_tasks(scores, range(len(folds)), own.n_threads)), solvers

    def _scores_at(self, estimator: Any, parts: list[Problem], data: Any, points: list[Matrix], test: Any) -> Vector:
        """Return the scores of models on the test rows, which are the problems `parts`, by their points for each target."""
        if self.scoring is None:
            losses = [of.weights @ losses_at(of, found) for of, found in zip(parts, points, strict=True)]
            return np.asarray(-np.mean(losses, axis=0))
        from sklearn.metrics import get_scorer

        scorer, model = get_scorer(self.scoring), copy(estimator)
        X, y, weights, offsets = (None if numbers is None else numbers[test] for numbers in data)
        targets, is_known = np.asarray(y), isinstance(self.scoring, str) and self.scoring in OF_PREDICTIONS
        if is_known and targets.ndim == 1 and (weights is None or np.any(weights)):
            predicted = outputs_at(parts[0], points[0], offsets)
            predicted = parts[0].loss.mean_at(predicted) if hasattr(parts[0].loss, "mean_at") else predicted
            return scores_of(self.scoring, predicted, targets, weights)
        model.n_features_in_ = parts[0].rows.n_columns
        given = {} if weights is None or not takes_weights(scorer) else {"sample_weight": weights}
        scores = []
        for of_targets in zip(*points, strict=True):
            model.coef_, model.intercept_ = estimator._unpacked(list(of_targets))
            scores.append(float(scorer(with_offset(model, offsets), X, y, **given)))
        return np.array(scores)

    def _starts(self, problems: list[Any]) -> list[Vector | None]:
        own: Any = super()
        starts: list[Vector | None] = own._starts(problems)
        near = self.__dict__.pop("_near", None)
        is_start = near is not None and starts[0] is None and all(np.isfinite(point).all() for point in near)
        return list(near) if is_start else starts

    def _alphas(self, n_targets: int, total_weight: float) -> list[float]:
        return [getattr(self, "alpha_", 1.0) * self._factor(total_weight)] * n_targets


@estimator
class LinearRegressorCV(ChoiceMixin, LinearRegressor):
    """`LinearRegressor` whose alpha and l1_ratio are chosen: by folds, AIC, BIC or EBIC.

    Several targets have one alpha and one l1_ratio, the best for all of them together: scores are means over targets,
    information criteria sums. With solver="auto" folds of the squared loss are solved to `tol` on Gram matrices, those of
    losses of a mean together, to 1e-6 of their standard errors; all others by a path each, to `tol`. The fit to all rows
    always reaches `tol`.

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
