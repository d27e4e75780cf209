"""Logistic regression with its penalty chosen by cross-validation or by an information criterion."""

from copy import copy
from dataclasses import field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.base import alpha_of_C
from finitesum.estimators.choice import chosen, criteria_of, least, ratios_of
from finitesum.estimators.classification import LabelledData
from finitesum.estimators.covariance import require_covariance
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.folds import Fold, Paths, earlier_run, solve_folds
from finitesum.estimators.logistic import LogisticRegression, LogisticRegressionMixin
from finitesum.estimators.path import as_Cs, path_of_classes, with_alpha
from finitesum.estimators.scoring import are_right, log_chances, takes_weights, with_offset
from finitesum.estimators.tasks import with_callbacks
from finitesum.running.driver import as_seed


@estimator
class LogisticRegressionCV(LogisticRegressionMixin):
    """Logistic regression whose C and l1_ratio are chosen: by the best mean score over folds, by AIC, BIC or EBIC.

    The model with the best C is fitted to all rows, to `tol`. Ties go to the smaller C. S is the sum of the fold's weights.

    With solver="auto" and two classes the folds are solved to no more than a score needs: the error of a fold's decisions
    x'w + b is about 1e-3 of their standard errors, where H^-1 / S is the estimates' covariance matrix, and in the root of
    the mean square of 1 or of their size, whichever is larger; or their optimality is at most `tol`. With few rows and an
    l2 penalty that is by the products of rows where these take less time, else with five rows or more for each column (with
    an l1 penalty, fifteen) for all folds and Cs together. All else has a path for each fold, from strong to weak penalties,
    each from what the last one left (see `logistic_path`): with an l2 penalty to the same part of standard errors, with
    several classes to some thousandths of them, otherwise (a set, an l1 penalty on many columns, C = inf, a named solver)
    to `tol`. Name the solver where you need the folds' coefficients to the last digits.

    Parameters
    ----------
    Cs : int or array_like
        Inverse strengths, or how many between 1e-4 and 1e4.
    l1_ratios : sequence of float, optional
        Those that are tried; l1_ratio alone when left out.
    cv : int, splitter or iterable of (train, test), optional
        What scikit-learn's `check_cv` takes; 5 stratified folds when left out.
    criterion : {"cv", "aic", "bic", "ebic"}
        Folds, or an information criterion of the fits to all rows, as in `LinearRegressorCV`.
    rule : {"best", "one_standard_error"}
        The best mean score, or the smallest C within one standard error of it.
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
    C_, l1_ratio_ : float
        What was chosen.
    Cs_ : ndarray, shape (m,)
        All of them, rising.
    scores_ : ndarray, shape (folds, m), or (folds, ratios, m) where `l1_ratios` are given
    criteria_ : ndarray, shape (ratios, m)
        With an information criterion, instead of scores; smaller is better.
    coefs_paths_ : ndarray, shape (folds, m, K, d), with K = 1 for two classes
        Of the chosen ratio, as are the next two.
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
    l1_ratios: Any = None
    cv: Any = None
    criterion: str = "cv"
    rule: str = "best"
    scoring: Any = None
    tol: float = 1e-8
    standard_errors: bool = False

    @in_kind
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, **params: Any) -> Self:
        """Choose C and fit the model to data as for `LogisticRegression.fit`.

        Weight 2 means the same as the row written twice, in one fold; test rows are scored with their offsets, too.
        Rows of the same `groups`, shape (n,), are in one fold, where the splitter `cv` knows groups. Other `params` are for
        the splitter and the scorer, by metadata routing.
        """
        ratios = ratios_of(self)
        for name in ("C_", "l1_ratio_"):
            self.__dict__.pop(name, None)
        self.Cs_ = as_Cs(self.Cs)
        data = self._labelled(X, y, sample_weight, offset)
        alphas = [alpha_of_C(float(C), data.total_weight) for C in self.Cs_]
        (problem,) = self._problems(data, alphas[0])
        if self.standard_errors:
            require_covariance(problem)  # before the folds are solved
        estimators = [self._with_ratio(ratio) for ratio in ratios]
        paths: Paths | None = None
        if self.criterion == "cv":
            found, scores = self._paths(estimators, problem, data, params)
            self.scores_ = scores if self.l1_ratios is not None else scores[:, 0]
            ratio, best = chosen(scores, self.rule)
            paths = found[ratio]
            start = paths.starts[best]
            self._note_paths(paths)
        else:
            tables = [
                (one, with_alpha(one, problem, alphas[0]), path_of_classes(one, data, self.Cs_)) for one in estimators
            ]
            total = data.total_weight
            self.criteria_ = np.stack(
                [criteria_of(self.criterion, one, known, alphas, path, total) for one, known, path in tables]
            )
            ratio, best = least(self.criteria_, problem)
            start = tables[ratio][2][best].x
        self.C_, self.l1_ratio_ = float(self.Cs_[best]), float(ratios[ratio])
        problem = with_alpha(self, problem, alphas[best])
        starts = None if self.warm_start and hasattr(self, "coef_") else [start]
        metadata = {"sample_weight": sample_weight, "offset": offset}
        results = self._run(
            [problem],
            (data.X, y, metadata),
            starts,
            lambda method: (
                None if paths is None else earlier_run(problem, method, paths, best, self.tol, as_seed(self.random_state))
            ),
        )
        self._warn_if_separated(data, problem)
        self._note_errors([problem], results, data.total_weight)
        return self

    def _alpha(self, data: Any) -> float:
        return alpha_of_C(self.C_, data.total_weight)

    def _with_ratio(self, ratio: float) -> Any:
        one = copy(self)
        one.l1_ratio = ratio
        return one

    def _term(self, alpha: float) -> dict[str, Any]:
        term = super()._term(alpha)
        if "l1_ratio" in term and hasattr(self, "l1_ratio_"):
            term["l1_ratio"] = self.l1_ratio_
        return term

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

    def _paths(self, estimators: list[Any], problem: Any, data: LabelledData, params: Any) -> tuple[list[Paths], Any]:
        """Return the paths of the folds for each ratio, and their scores, shape (folds, ratios, m)."""
        from sklearn.model_selection import check_cv  # which takes a while to load

        split_params, score_params = self._routed("fit", data.sample_weight, params)
        splitter = check_cv(self.cv, data.y, classifier=True)
        folds = [self._fold(data, *split) for split in splitter.split(data.X, data.y, **split_params)]
        found, scores = [], []
        weakest = float(([C for C in self.Cs_ if np.isfinite(C)] or self.Cs_)[-1])  # where the time goes
        for one in estimators:
            here = with_alpha(one, problem, alpha_of_C(weakest, data.total_weight))
            paths = solve_folds(one, here, data, folds, self.Cs_)
            pairs = zip(folds, paths.of_folds, strict=True)
            scores.append([self._scores(data, fold.test, path.points, score_params) for fold, path in pairs])
            found.append(paths)
        for result in (result for paths in found for path in paths.of_folds for result in path.results):
            self._warn(result)
        return found, np.array(scores).transpose(1, 0, 2)

    def _note_paths(self, paths: Paths) -> None:
        unpacked = [[self._unpacked([x]) for x in path.points] for path in paths.of_folds]
        self.coefs_paths_ = np.array([[coef for coef, _ in path] for path in unpacked])
        self.intercepts_paths_ = np.array([[intercept for _, intercept in path] for path in unpacked])
        self.n_passes_paths_ = np.array([path.n_passes for path in paths.of_folds])

    def _scorer(self) -> Any:
        from sklearn.metrics import get_scorer

        if self.scoring is not None:
            return get_scorer(self.scoring)
        usual = get_scorer("accuracy")
        return usual.set_score_request(sample_weight=True) if get_config()["enable_metadata_routing"] else usual

    def _routed(self, caller: str, sample_weight: Any, params: dict[str, Any]) -> tuple[Any, Any]:
        """Return what the splitter and the scorer are given: without metadata routing weights, where rows can have some."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, caller, sample_weight=sample_weight, **params)
            return routed.splitter.get("split", {}), routed.scorer.score
        split = {"groups": params.pop("groups")} if caller == "fit" and "groups" in params else {}
        if params:
            raise ValueError(f"{caller} has no parameter {', '.join(params)}. Switch metadata routing on to pass it on.")
        has_weights = sample_weight is not None and takes_weights(self._scorer())
        return split, {"sample_weight": sample_weight} if has_weights else {}

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
        known = SCORES.get(self.scoring or "accuracy") if self.scoring is None or isinstance(self.scoring, str) else None
        if known is not None and set(here) <= {"sample_weight"}:
            codes, weights = data.codes[test], here.get("sample_weight")
            if weights is not None and not np.any(weights):
                what = "the rows that a fold predicts all have weight 0"
                raise ValueError(f"{what}: give other folds as cv, or leave them out.")
            return np.average(known(_decisions(X, codes, tables, offset), codes), axis=0, weights=weights)
        model = LogisticRegression(l1_ratio=self.l1_ratio, fit_intercept=self.fit_intercept)
        model.classes_, model.n_features_in_ = data.classes, data.X.shape[1]
        scorer, scores = clone(self._scorer(), safe=False), []
        for model.coef_, model.intercept_ in tables:
            scores.append(float(scorer(with_offset(model, offset), X, y, **here)))
        return np.array(scores)


def _decisions(X: Any, codes: Indices, tables: list[Any], offset: Any) -> npt.NDArray[np.float64]:
    """Return the decisions of all models at once, shape (n, m, K), or (n, m, 1) of two classes."""
    coef, intercept = np.stack([coef for coef, _ in tables]), np.stack([intercept for _, intercept in tables])
    decisions = np.asarray(X @ coef.reshape(-1, coef.shape[-1]).T, dtype=np.float64).reshape(-1, *intercept.shape)
    decisions += intercept
    if offset is not None:
        decisions += offset.reshape(len(codes), 1, -1)
    return decisions


#: What models are scored by, row by row, without a scorer of scikit-learn's for each of them: these return the same.
SCORES = {"accuracy": are_right, "neg_log_loss": log_chances}


def _rows_of(value: Any, rows: Any, n: int) -> Any:
    """Return the entries of these rows, where there is one for each."""
    return np.asarray(value)[rows] if value is not None and np.ndim(value) and len(value) == n else value
