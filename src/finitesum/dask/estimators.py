"""Estimators whose `fit` takes Dask collections; everything else is what the class in memory says."""

import contextlib
import math
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from finitesum import estimators as local
from finitesum.dask.brought import brought_here, is_worth_bringing
from finitesum.dask.collections import (
    Score,
    as_parts,
    is_collection,
    is_frame,
    mapped,
    n_columns_of,
    of_rows,
    require_one_target,
    totals_of,
    weighted,
    with_labels,
)
from finitesum.dask.engine import DaskEngine, of_blocks
from finitesum.estimators.base import LinearEstimator, alpha_of_C
from finitesum.estimators.classification import class_weights
from finitesum.estimators.covariance import ROBUST, predictions_at
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.path import with_alpha
from finitesum.estimators.solvers import as_solver
from finitesum.evaluation.row_blocks import joined, sum_over_problems
from finitesum.evaluation.row_sums import loss_sums
from finitesum.losses import Huber, as_loss
from finitesum.problems.linear import Problem
from finitesum.running.checkpoint import begun_with


@estimator
class OnCollections:
    """What the classes here do alike; `client` is the current one of Dask when left out.

    `checkpoint` is a file that a fit is written to every minute, at its end, and where all workers are lost. A fit of the
    same collections with the same parameters goes on from it where it is there, on a cluster of any size.
    """

    client: Any = None
    checkpoint: Any = None

    _local: ClassVar[type[LinearEstimator]]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model to collections.

        Parameters
        ----------
        X : dask array, shape (n, d), or dataframe
            Blocks of an array may be sparse CSR matrices. A block of rows should take a worker 50 ms or more.
        y, sample_weight, offset : dask array or series, or array_like, shape (n,)

        Returns
        -------
        self
            With the attributes of the class in memory.
        """
        own: Any = self
        own._check_parameters()
        self._note_columns(X)
        require_one_target(y)  # before anything is computed
        # without an end, parts would stay with the workers until garbage is collected
        with contextlib.closing(DaskEngine(self.client)) as engine:
            problem, total = self._problem_of_fit(engine, X, y, sample_weight, offset)
            if problem.classes is not None:
                own.classes_ = np.asarray(problem.classes)
            start = own._packed(problem.rows.n_columns, 1) if own.warm_start and hasattr(own, "coef_") else None
            self._fit_problem(problem, total, None if start is None else start[0])
        return self

    def _fit_problem(self, problem: Problem, total: float, start: Any) -> None:
        """Set what is known of the solution of a problem with a penalty of strength 1, given the sum of the weights."""
        own: Any = self
        problem = with_alpha(own, problem, self._strength(total))
        result = self._solved(problem, start, own.tol)
        own._note([result], problem.rows.values.dtype)
        own._note_errors([problem], [result], total)
        own._warn(result)

    def _solved(self, problem: Problem, start: Any, tol: float, **changes: Any) -> Any:
        own: Any = self
        begun = "" if self.checkpoint is None else begun_with(self.checkpoint)
        method = as_solver(own.solver, own.step_size, problem, tol=tol, begun=begun)
        kept = {} if self.checkpoint is None else {"checkpoint": self.checkpoint, "resume": True}
        return own._solve(problem, start, method, tol=tol, callback=own.callback, **{**kept, **changes})

    def _problem_of_fit(self, engine: DaskEngine, *given: Any) -> tuple[Problem, float]:
        """Return the problem with a penalty of strength 1, which it takes a pass to find the right one for.

        Beside it stands the sum of the weights. Where the rows are few bytes the problem is in memory.

        The collections are computed together, so that what blocks of X and y are both made from is computed once.
        """
        own: Any = self
        which = [one for one in given if is_collection(one)]
        persisted = iter(engine.client.persist(which) if which else ())
        X, y, sample_weight, offset = (next(persisted) if is_collection(one) else one for one in given)
        parts, loss = self._posed_by(as_parts(X, y, sample_weight, offset))
        if getattr(own, "standard_errors", False) and isinstance(as_loss(loss), ROBUST):
            raise ValueError(
                "standard_errors of a robust loss are not known for collections: fit the class in memory to a sample."
            )
        settings = {"loss": loss, "fit_intercept": own.fit_intercept, **own._term(1.0)}
        problem = Problem.partitioned(parts, engine=engine, **settings)
        total = float(problem.rows.total)
        return (brought_here(problem, **settings) if is_worth_bringing(problem) else problem), total

    def _posed_by(self, parts: Any) -> tuple[Any, Any]:
        """Return the parts with the labels and weights that the model gives them, and the loss."""
        return parts, self._loss_of_fit(None)

    def _note_columns(self, X: Any) -> None:
        own: Any = self
        own.__dict__.pop("feature_names_in_", None)
        own.n_features_in_ = n_columns_of(X)
        if is_frame(X):
            own.feature_names_in_ = np.asarray(X.columns, dtype=object)

    def _loss_of_fit(self, classes: Any) -> Any:
        own: Any = self
        return own._loss()

    def _strength(self, total: float) -> float:
        """Return alpha against the mean of the losses."""
        own: Any = self
        return float(own._alphas(1, total)[0])

    def to_local(self) -> Any:
        """Return the fitted model as an estimator in memory, which knows nothing of Dask."""
        check_is_fitted(self)
        names = set(self._local._get_param_names())
        model = self._local(**{name: getattr(self, name) for name in names})
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}
        model.__dict__.update(deepcopy(fitted))
        return model

    def __sklearn_clone__(self) -> Any:
        """Return an estimator with copies of the parameters, but with the same client."""
        bare: Any = copy(self)
        bare.client = None  # which cannot be copied
        made = BaseEstimator.__sklearn_clone__(bare)
        made.client = self.client
        return made

    def _lazily(self, name: str, X: Any, offset: Any, *, width: int, dtype: Any) -> Any:
        model = self.to_local()
        if not is_collection(X):
            return getattr(model, name)(X, offset)
        if offset is not None:
            raise ValueError("offset is not known for predictions of collections: use to_local() on their blocks.")
        return mapped(X, getattr(model, name), width=width, dtype=dtype)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return predictions: lazily for a collection, at once for an array."""
        own: Any = self
        check_is_fitted(own)
        dtype = own.classes_.dtype if hasattr(own, "classes_") else np.float64
        return self._lazily("predict", X, offset, width=0, dtype=dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Return what the class in memory says is the score, as a delayed number for collections.

        scikit-learn's searches and validations compute it.

        Accuracy of a classifier; of a regressor R^2, or D^2 for losses of a mean: by sums over blocks.
        """
        own: Any = self
        model = self.to_local()
        if not is_collection(X):
            return model.score(X, y, sample_weight, offset)
        import dask

        blocks = as_parts(X, y, sample_weight)
        first = dask.delayed(_added)([dask.delayed(_moments)(model, *block) for block in blocks])
        if hasattr(own, "classes_"):
            return Score.of(dask.delayed(_share)(first))
        lacks = [dask.delayed(_lacks)(model, first, *block) for block in blocks]
        return Score.of(dask.delayed(_explained)(dask.delayed(_added)(lacks)))


def _checked(model: Any, X: Any, y: Any, weight: Any, offset: Any) -> tuple[Any, Any, Any]:
    """Return weights, targets and predictions of a block."""
    _, y, weight, _ = of_blocks(None, y, weight, offset)
    predicted = np.asarray(of_rows(X, model.predict, width=0, dtype=y.dtype))
    return np.ones(y.shape[0]) if weight is None else weight.astype(np.float64), y, predicted


def _moments(model: Any, *block: Any) -> Any:
    """Return the sum of the weights, and that of the hits of a classifier or the targets of a regressor."""
    weights, y, predicted = _checked(model, *block)
    return np.array([weights.sum(), weights @ (y == predicted if hasattr(model, "classes_") else y)])


def _lacks(model: Any, moments: Any, *block: Any) -> Any:
    """Return the sums of squares, or of deviances, from the predictions and from the mean."""
    weights, y, predicted = _checked(model, *block)
    mean = np.full(y.shape, moments[1] / moments[0])
    loss = model._loss() if hasattr(model, "_loss") else None
    lack = getattr(loss, "deviance_from", lambda target, other: (target - other) ** 2)
    return np.array([weights @ lack(y, predicted), weights @ lack(y, mean)])


def _added(parts: Any) -> Any:
    return np.sum(parts, axis=0)


def _share(sums: Any) -> float:
    return float(sums[1] / sums[0])


def _explained(sums: Any) -> float:
    return 1.0 - float(sums[0] / sums[1]) if sums[1] > 0.0 else float(sums[0] == 0.0)


class Classifies(OnCollections):
    """Probabilities and decisions beside labels."""

    def _posed_by(self, parts: Any) -> tuple[Any, Any]:
        own: Any = self
        labels, totals = totals_of(parts)
        check_classification_targets(labels)
        classes, totals_of_classes = labels[totals > 0.0], totals[totals > 0.0]
        if len(classes) < len(labels):  # a class without weight counts as absent
            parts = with_labels(parts, classes)
        loss = self._loss_of_fit(classes)
        if own.class_weight is not None:
            factors = class_weights(own.class_weight, classes, np.arange(len(classes)), totals_of_classes)
            parts = weighted(parts, classes, factors)
        return parts, loss

    def _width(self) -> int:
        own: Any = self
        return 0 if len(own.classes_) == 2 else len(own.classes_)

    def decision_function(self, X: Any, offset: Any = None) -> Any:
        """Return decisions, lazily for a collection: (n,) for two classes, (n, K) for K."""
        check_is_fitted(self)
        return self._lazily("decision_function", X, offset, width=self._width(), dtype=np.float64)

    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """Return probabilities, lazily for a collection, shape (n, K)."""
        check_is_fitted(self)
        own: Any = self
        return self._lazily("predict_proba", X, offset, width=len(own.classes_), dtype=np.float64)

    def predict_log_proba(self, X: Any, offset: Any = None) -> Any:
        """Return the logarithms of the probabilities, lazily for a collection, shape (n, K)."""
        check_is_fitted(self)
        own: Any = self
        return self._lazily("predict_log_proba", X, offset, width=len(own.classes_), dtype=np.float64)

    def _strength(self, total: float) -> float:
        own: Any = self
        return float(own.alpha) if not hasattr(own, "C") else alpha_of_C(own.C, total)


@estimator
class LogisticRegression(Classifies, local.LogisticRegression):
    """`finitesum.LogisticRegression` on Dask collections, of two or more classes.

    The classes are found by a first pass over y, and are the same on all blocks. The parameters and attributes are those of
    the class in memory, and `client`, a Dask client in the place of the current one.
    """

    _local: ClassVar[type[LinearEstimator]] = local.LogisticRegression

    def _loss_of_fit(self, classes: Any) -> Any:
        return "logistic" if len(classes) <= 2 else "multinomial"


class OfTwoClasses(Classifies):
    """One problem of signs."""

    def _loss_of_fit(self, classes: Any) -> Any:
        own: Any = self
        if len(classes) > 2:
            raise ValueError(f"{type(self).__name__} takes two classes, got {len(classes)}: LogisticRegression takes more.")
        return own.loss


@estimator
class LinearClassifier(OfTwoClasses, local.LinearClassifier):
    """`finitesum.LinearClassifier` of two classes on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.LinearClassifier


@estimator
class LinearSVC(OfTwoClasses, local.LinearSVC):
    """`finitesum.LinearSVC` of two classes on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.LinearSVC


@estimator
class LinearRegressor(OnCollections, local.LinearRegressor):
    """`finitesum.LinearRegressor` of one target on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.LinearRegressor


@estimator
class Ridge(OnCollections, local.Ridge):
    """`finitesum.Ridge` on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.Ridge


@estimator
class HuberRegressor(OnCollections, local.HuberRegressor):
    """`finitesum.HuberRegressor` on Dask collections, and `client`; outliers_ is an array in memory, a byte a row.

    With scale="joint" a checkpoint is not kept: each scale is a run of its own.
    """

    _local: ClassVar[type[LinearEstimator]] = local.HuberRegressor

    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model to collections: see `LinearRegressor`."""
        self._is_joint = self._checked_scale()
        if self._is_joint and self.checkpoint is not None:
            raise ValueError('checkpoint is not known with scale="joint": leave it out, or give the scale.')
        return super().fit(X, y, sample_weight, offset)

    def _loss_of_fit(self, classes: Any) -> Any:
        return Huber(float(self.epsilon) * (1.0 if self._is_joint else float(self.scale)))

    def _strength(self, total: float) -> float:
        return float(self.alpha)

    def _fit_problem(self, problem: Problem, total: float, start: Any) -> None:
        if self._is_joint:
            self._fit_scale(problem, start)
        else:
            self.scale_ = float(self.scale)
            super()._fit_problem(problem, total, start)
        w, most = np.append(self.coef_, [self.intercept_] * self.fit_intercept), self.epsilon * self.scale_

        def beyond(part: Problem) -> Any:
            return np.abs(part.targets - predictions_at(part, w)) > most

        self.outliers_ = sum_over_problems(beyond, problem, add=joined)

    def _fit_scale(self, problem: Problem, start: Any) -> None:
        def solve(sigma: float, start: Any) -> Any:
            there = replace(problem, loss=Huber(float(self.epsilon * sigma)))
            return self._solved(with_alpha(self, there, 0.5 * self.alpha * sigma), start, 0.25 * self.tol * sigma)

        def slope_of(sigma: float, result: Any) -> float:
            return 1.0 - _mean_square(replace(problem, loss=Huber(float(self.epsilon * sigma))), result.x) / sigma**2

        mean = sum_over_problems(lambda part: part.weights @ (part.targets - part.offsets), problem)
        spread = sum_over_problems(lambda part: part.weights @ (part.targets - part.offsets - mean) ** 2, problem)
        size = math.sqrt(float(spread)) or 1.0
        self._search(size, size if start is None else self.scale_, start, solve, slope_of, problem.rows.values.dtype)


def _mean_square(problem: Problem, w: Any) -> float:
    """Return sum_i p_i phi'_i^2 at w: of the Huber loss the mean square of the residuals, each at most delta."""

    def of_part(part: Problem) -> Any:
        slopes = np.empty(part.n_rows)
        loss_sums(part, w, slopes=slopes)
        return part.weights @ slopes**2

    return float(sum_over_problems(of_part, problem))


@estimator
class PoissonRegressor(OnCollections, local.PoissonRegressor):
    """`finitesum.PoissonRegressor` on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.PoissonRegressor


@estimator
class GammaRegressor(OnCollections, local.GammaRegressor):
    """`finitesum.GammaRegressor` on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.GammaRegressor


@estimator
class TweedieRegressor(OnCollections, local.TweedieRegressor):
    """`finitesum.TweedieRegressor` on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.TweedieRegressor
