"""Estimators whose `fit` takes Dask collections; everything else is what the class in memory says."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from finitesum import estimators as local
from finitesum.dask.collections import as_parts, is_collection, is_frame, labels_of, mapped, n_columns_of
from finitesum.dask.engine import DaskEngine, of_blocks
from finitesum.estimators.base import LinearEstimator, alpha_of_C
from finitesum.estimators.path import with_alpha
from finitesum.estimators.solvers import as_solver
from finitesum.problems.linear import Problem


@dataclass(kw_only=True, eq=False, repr=False)
class OnCollections:
    """What the classes here do alike; `client` is the current one of Dask when left out."""

    client: Any = None

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
        if getattr(own, "standard_errors", False) or getattr(own, "class_weight", None) is not None:
            raise ValueError("standard_errors and class_weight are not known for collections: leave them out.")
        self._note_columns(X)
        problem = self._problem_of_fit(DaskEngine(self.client), X, y, sample_weight, offset)
        if problem.classes is not None:
            own.classes_ = np.asarray(problem.classes)
        problem = with_alpha(own, problem, self._strength(float(problem.rows.total)))
        method = as_solver(own.solver, own.step_size, problem, tol=own.tol)
        start = own._packed(problem.rows.n_columns, 1) if own.warm_start and hasattr(own, "coef_") else None
        result = own._solve(problem, None if start is None else start[0], method, callback=own.callback)
        own._note([result], problem.rows.values.dtype)
        own._warn(result)
        return self

    def _problem_of_fit(self, engine: DaskEngine, *given: Any) -> Problem:
        """Return the problem with a penalty of strength 1, which it takes a pass to find the right one for.

        The collections are computed together, so that what blocks of X and y are both made from is computed once.
        """
        own: Any = self
        which = [one for one in given if is_collection(one)]
        persisted = iter(engine.client.persist(which) if which else ())
        X, y, sample_weight, offset = (next(persisted) if is_collection(one) else one for one in given)
        settings = {"loss": self._loss_of_fit(y), "fit_intercept": own.fit_intercept, "engine": engine}
        return Problem.partitioned(as_parts(X, y, sample_weight, offset), **settings, **own._term(1.0))

    def _note_columns(self, X: Any) -> None:
        own: Any = self
        own.__dict__.pop("feature_names_in_", None)
        own.n_features_in_ = n_columns_of(X)
        if is_frame(X):
            own.feature_names_in_ = np.asarray(X.columns, dtype=object)

    def _loss_of_fit(self, y: Any) -> Any:
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
            return dask.delayed(_share)(first)
        lacks = [dask.delayed(_lacks)(model, first, *block) for block in blocks]
        return dask.delayed(_explained)(dask.delayed(_added)(lacks))


def _checked(model: Any, X: Any, y: Any, weight: Any, offset: Any) -> tuple[Any, Any, Any]:
    """Return weights, targets and predictions of a block."""
    _, y, weight, _ = of_blocks(None, y, weight, offset)
    return np.ones(y.shape[0]) if weight is None else weight.astype(np.float64), y, np.asarray(model.predict(X))


def _moments(model: Any, *block: Any) -> Any:
    """Return the sum of the weights, and that of the hits of a classifier or the targets of a regressor."""
    weights, y, predicted = _checked(model, *block)
    return np.array([weights.sum(), weights @ (y == predicted if hasattr(model, "classes_") else y)])


def _lacks(model: Any, moments: Any, *block: Any) -> Any:
    """Return the sums of squares, or of deviances, from the predictions and from the mean."""
    weights, y, predicted = _checked(model, *block)
    loss, mean = model._loss(), np.full(y.shape, moments[1] / moments[0])
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

    def _strength(self, total: float) -> float:
        own: Any = self
        return float(own.alpha) if not hasattr(own, "C") else alpha_of_C(own.C, total)


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(Classifies, local.LogisticRegression):
    """`finitesum.LogisticRegression` on Dask collections, of two or more classes.

    The classes are found by a first pass over y, and are the same on all blocks. The parameters and attributes are those of
    the class in memory, and `client`, a Dask client in the place of the current one.
    """

    _local: ClassVar[type[LinearEstimator]] = local.LogisticRegression

    def _loss_of_fit(self, y: Any) -> Any:
        n_classes = len(labels_of(y))
        if n_classes > 2 and (self.constraint is not None or self.bounds is not None):
            raise ValueError("a constraint is not treated with several classes. Leave constraint and bounds out.")
        return "logistic" if n_classes <= 2 else "multinomial"


class OfTwoClasses(Classifies):
    """One problem of signs."""

    def _loss_of_fit(self, y: Any) -> Any:
        own: Any = self
        classes = labels_of(y)
        if len(classes) > 2:
            raise ValueError(f"{type(self).__name__} takes two classes, got {len(classes)}: LogisticRegression takes more.")
        return own.loss


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(OfTwoClasses, local.LinearClassifier):
    """`finitesum.LinearClassifier` of two classes on Dask collections, with a smooth loss, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.LinearClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVC(OfTwoClasses, local.LinearSVC):
    """`finitesum.LinearSVC` of two classes with the squared hinge on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.LinearSVC


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegressor(OnCollections, local.LinearRegressor):
    """`finitesum.LinearRegressor` of one target on Dask collections, with a smooth loss, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.LinearRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class Ridge(OnCollections, local.Ridge):
    """`finitesum.Ridge` on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.Ridge


@dataclass(kw_only=True, eq=False, repr=False)
class PoissonRegressor(OnCollections, local.PoissonRegressor):
    """`finitesum.PoissonRegressor` on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.PoissonRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class GammaRegressor(OnCollections, local.GammaRegressor):
    """`finitesum.GammaRegressor` on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.GammaRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class TweedieRegressor(OnCollections, local.TweedieRegressor):
    """`finitesum.TweedieRegressor` on Dask collections, and `client`."""

    _local: ClassVar[type[LinearEstimator]] = local.TweedieRegressor
