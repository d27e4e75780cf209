"""Logistic regression with its penalty chosen by cross-validation."""

import warnings
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.base import alpha_of_C
from finitesum.estimators.classification import LabelledData
from finitesum.estimators.covariance import require_covariance
from finitesum.estimators.folds import Fold, earlier_run, solve_folds
from finitesum.estimators.logistic import LogisticRegression, LogisticRegressionMixin
from finitesum.estimators.path import as_Cs, with_alpha
from finitesum.estimators.scoring import takes_weights, with_offset
from finitesum.estimators.tasks import with_callbacks
from finitesum.running.driver import as_seed


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegressionCV(LogisticRegressionMixin):
    """Logistic regression whose C is the one with the best mean score over the folds of a cross-validation.

    The model with the best C is fitted to all rows, to `tol`. Ties go to the smaller C. S is the sum of the fold's weights.

    With solver="auto", two classes and not too many columns (with an l1 penalty, a fifteenth of the rows) the folds are
    solved for all Cs together, to no more than a score needs: the error of a fold's decisions x'w + b is about 1e-3 of
    their standard errors, where H^-1 / S is the estimates' covariance matrix. All else (a set, several classes, many
    columns, a solver that is named) has a path for each fold, from strong to weak penalties, each from what the last one
    left (see `logistic_path`), and reaches `tol`: name the solver where you need the folds' coefficients to the last
    digits.

    Parameters
    ----------
    Cs : int or array_like
        Inverse strengths, or how many between 1e-4 and 1e4.
    cv : int, splitter or iterable of (train, test), optional
        What scikit-learn's `check_cv` takes; 5 stratified folds when left out.
    scoring : str or callable, optional
        What scikit-learn's `check_scoring` takes; the accuracy when left out. Test rows count by their sample weights,
        where the metric takes some. A C whose score is NaN in some fold is not chosen.
    l1_ratio, solver, step_size, max_iter, tol, fit_intercept, class_weight, constraint, penalty, \
penalty_weights, groups, bounds, random_state, verbose, warm_start, callback, measure_every, standard_errors
        As in `LogisticRegression`; callbacks watch the fit to all rows.
    n_threads : int, optional
        Folds that are solved at once, or threads that share the rows where folds are solved together.

    Attributes
    ----------
    C_ : float
        The best inverse strength.
    Cs_ : ndarray, shape (m,)
        All of them, rising.
    scores_ : ndarray, shape (folds, m)
    coefs_paths_ : ndarray, shape (folds, m, K, d), with K = 1 for two classes
    intercepts_paths_ : ndarray, shape (folds, m, K)
    n_passes_paths_ : ndarray, shape (folds, m)
        Gradients of all of the fold's training rows; 1 for solutions that were interpolated between other Cs. Where folds
        are solved together, one pass over the rows finds those of all of them.
    classes_, coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, \
solver_, cov_params_, standard_errors_
        Of the fit to all rows, as in `LogisticRegression`.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
    >>> model = LogisticRegressionCV(Cs=[1e-3, 1.0], cv=3).fit(X, y)
    >>> model.C_, model.scores_.shape
    (0.001, (3, 2))
    """

    Cs: Any = field(default=10, kw_only=False)
    cv: Any = None
    scoring: Any = None
    tol: float = 1e-8
    standard_errors: bool = False

    @in_kind
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, **params: Any) -> Self:
        """Choose C and fit the model to data as for `LogisticRegression.fit`.

        Weight 2 means the same as the row written twice, in one fold; test rows are scored with their offsets, too.
        `params` are for the splitter and the scorer, by metadata routing.
        """
        from sklearn.model_selection import check_cv  # which takes a while to load

        self.Cs_ = as_Cs(self.Cs)
        data = self._labelled(X, y, sample_weight, offset)
        (problem,) = self._problems(data, alpha_of_C(float(self.Cs_[0]), data.total_weight))
        if self.standard_errors:
            require_covariance(problem)  # before the folds are solved
        split_params, score_params = self._routed("fit", data.sample_weight, params)
        splitter = check_cv(self.cv, data.y, classifier=True)
        folds = [self._fold(data, *split) for split in splitter.split(data.X, data.y, **split_params)]
        paths = solve_folds(self, problem, data, folds, self.Cs_)
        self.scores_ = np.array(
            [
                self._scores(data, fold.test, path.points, score_params)
                for fold, path in zip(folds, paths.of_folds, strict=True)
            ]
        )
        best = _best(self.scores_.mean(axis=0))
        self.C_ = float(self.Cs_[best])
        unpacked = [[self._unpacked([x]) for x in path.points] for path in paths.of_folds]
        self.coefs_paths_ = np.array([[coef for coef, _ in path] for path in unpacked])
        self.intercepts_paths_ = np.array([[intercept for _, intercept in path] for path in unpacked])
        self.n_passes_paths_ = np.array([path.n_passes for path in paths.of_folds])
        for result in (result for path in paths.of_folds for result in path.results):
            self._warn(result)
        problem = with_alpha(self, problem, alpha_of_C(self.C_, data.total_weight))
        starts = None if self.warm_start and hasattr(self, "coef_") else [paths.starts[best]]
        metadata = {"sample_weight": sample_weight, "offset": offset}
        results = self._run(
            [problem],
            (data.X, y, metadata),
            starts,
            lambda method: earlier_run(problem, method, paths, best, self.tol, as_seed(self.random_state)),
        )
        self._warn_if_separated(data, problem)
        self._note_errors([problem], results, data.total_weight)
        return self

    def _alpha(self, data: Any) -> float:
        return alpha_of_C(self.C_, data.total_weight)

    @in_kind
    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, **params: Any) -> float:
        """Return the score of `scoring` on data as for `fit`; `params` are for the scorer, by metadata routing."""
        _, score_params = self._routed("score", sample_weight, params)
        return float(self._scorer()(with_offset(self, offset), X, y, **score_params))

    def get_metadata_routing(self) -> Any:
        """Return who receives which metadata: this estimator, the splitter, the scorer."""
        mapping = MethodMapping().add(caller="score", callee="score").add(caller="fit", callee="score")
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
            .add(scorer=self._scorer(), method_mapping=mapping)
        )

    # -- folds

    def _scorer(self) -> Any:
        from sklearn.metrics import get_scorer

        return get_scorer("accuracy" if self.scoring is None else self.scoring)

    def _routed(self, caller: str, sample_weight: Any, params: dict[str, Any]) -> tuple[Any, Any]:
        """Return what the splitter and the scorer are given: without metadata routing weights, where rows can have some."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, caller, sample_weight=sample_weight, **params)
            return routed.splitter.get("split", {}), routed.scorer.score
        if params:
            raise ValueError(f"{caller} has no parameter {', '.join(params)}. Switch metadata routing on to pass it on.")
        has_weights = sample_weight is not None and takes_weights(self._scorer())
        return {}, {"sample_weight": sample_weight} if has_weights else {}

    def _fold(self, data: LabelledData, train: Any, test: Any) -> Fold:
        """Return a split, with the labels and weights of the rows to fit."""
        rows = np.arange(data.y.shape[0])
        train, test = rows[train], rows[test]
        part = data.of_rows(self, train)
        if len(part.classes) != len(data.classes):
            missing = sorted(set(data.classes.tolist()) - set(part.classes.tolist()), key=str)
            raise ValueError(f"a fold's training rows lack the classes {missing}. Use fewer folds, or stratified ones.")
        return Fold(train, test, part)

    def _scores(self, data: LabelledData, test: Indices, points: Matrix, score_params: dict[str, Any]) -> Vector:
        """Return the scores of a path's models on the test rows."""
        offset = None if data.offset is None else data.offset[test]
        here = {name: _rows_of(value, test, data.X.shape[0]) for name, value in score_params.items()}
        X, y = data.X[test], data.y[test]
        tables = [self._unpacked([x]) for x in points]
        if self.scoring is None and set(here) <= {"sample_weight"}:
            return self._accuracies(X, data.codes[test], tables, offset, here.get("sample_weight"))
        model = LogisticRegression(l1_ratio=self.l1_ratio, fit_intercept=self.fit_intercept)
        model.classes_, model.n_features_in_ = data.classes, data.X.shape[1]
        scorer, scores = clone(self._scorer(), safe=False), []
        for model.coef_, model.intercept_ in tables:
            scores.append(float(scorer(with_offset(model, offset), X, y, **here)))
        return np.array(scores)

    def _accuracies(self, X: Any, codes: Indices, tables: list[Any], offset: Any, weights: Any) -> Vector:
        """Return the part of the rows, by weight, whose class each model predicts: what the scorer would return."""
        coef, intercept = np.stack([coef for coef, _ in tables]), np.stack([intercept for _, intercept in tables])
        decisions = np.asarray(X @ coef.reshape(-1, coef.shape[-1]).T).reshape(-1, *intercept.shape) + intercept
        if offset is not None:
            decisions += offset.reshape(len(codes), 1, -1)
        predicted = decisions[:, :, 0] > 0.0 if decisions.shape[2] == 1 else decisions.argmax(axis=2)
        return np.average(predicted == codes[:, None], axis=0, weights=weights)


def _best(means: Vector) -> int:
    """Return the place of the largest mean score; what has no score is not chosen."""
    n_unknown = int(np.isnan(means).sum())
    if n_unknown == means.size:
        raise ValueError(
            "no C has a score in every fold: all means are NaN. Check scoring, and that folds hold what it needs."
        )
    if n_unknown:
        warnings.warn(f"{n_unknown} of {means.size} Cs have no score in some fold, and are not chosen.", stacklevel=5)
    return int(np.nanargmax(means))


def _rows_of(value: Any, rows: Any, n: int) -> Any:
    """Return the entries of these rows, where there is one for each."""
    return np.asarray(value)[rows] if value is not None and np.ndim(value) and len(value) == n else value
