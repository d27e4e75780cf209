"""What the classifiers do alike: labels, class weights, one class against the rest, decisions."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, log_softmax
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets

from finitesum.core.arrays import Data, Indices, Vector
from finitesum.core.threads import limited_blas
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.base import LinearEstimator, alpha_of_C, checked_weights
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.multilabel import has_columns, indicators_of, offset_of_label
from finitesum.estimators.plain_input import is_plain_label
from finitesum.estimators.tasks import with_callbacks
from finitesum.losses import Logistic, Loss, LossName, Multinomial, classes
from finitesum.problems.input import as_rows, checked_numbers
from finitesum.problems.labels import classes_and_codes, codes_of_words
from finitesum.problems.linear import Problem


def class_weights(class_weight: Any, classes: Any, codes: Indices, weights: Vector) -> Vector:
    """Return the factor of each class.

    None is 1; "balanced" is S / (K S_k) with S_k the weight of class k, so that weights mean repetition here, too; a
    mapping gives factors >= 0 by label, 1 where a label is not in it; one that lacks a label has no unknown ones.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, weights=weights, minlength=len(classes))
        return np.asarray(weights.sum() / (len(classes) * totals))
    if not isinstance(class_weight, Mapping):
        raise ValueError(  # noqa: TRY004 - what scikit-learn raises
            f'class_weight must be None, "balanced" or a dict of factors by label, got {class_weight!r}.'
        )
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(f"class_weight has the labels {unknown}, which the data has not: its classes are {labels}.")
    factors = np.array([float(class_weight.get(label, 1.0)) for label in labels])
    if not (np.isfinite(factors) & (factors >= 0.0)).all():
        raise ValueError(f"class_weight must hold factors >= 0, got {dict(class_weight)!r}.")
    if not factors.all():
        raise ValueError("class_weight must be > 0 for the classes of the data. Drop the rows of a class instead.")
    return factors


class LabelledData:
    """Checked data of a classifier: what is left of the labels after rows of weight 0 are left out."""

    def __init__(self, estimator: LinearEstimator, X: Any, y: Any, sample_weight: Any) -> None:
        self.X, self.y = X, y
        self.sample_weight = checked_weights(sample_weight, X)
        self.codes: Indices
        words = codes_of_words(y)
        if words is None and (type(y) is not np.ndarray or y.ndim != 1 or y.dtype.kind not in "biufU"):
            check_classification_targets(y)
        self.classes: Data
        self.classes, self.codes = classes_and_codes(y) if words is None else words
        if not is_plain_label(y, self.classes.size, are_words=words is not None):
            check_classification_targets(y)
        self.offset: Any = None  # (n,) of two classes, (n, K) of several
        self._weigh(estimator)

    def _weigh(self, estimator: LinearEstimator) -> None:
        """Leave classes without weight out, and set the weights of the rows."""
        base = np.ones(self.codes.size) if self.sample_weight is None else self.sample_weight
        totals = np.bincount(self.codes, weights=base, minlength=self.classes.size)
        present = totals > 0.0  # a class without weight counts as absent
        if present.sum() < 2:
            raise ValueError(
                f"{type(estimator).__name__} needs two classes or more, but the data holds one class only: "
                f"{self.classes[present].tolist()}. Check the labels and weights."
            )
        self.classes = self.classes[present]
        self.codes = np.where(present, np.cumsum(present) - 1, 0)[self.codes]
        factors = class_weights(estimator.class_weight, self.classes, self.codes, base)
        self.weights: Vector = base * factors[self.codes]

    def of_rows(self, estimator: LinearEstimator, rows: Indices) -> "LabelledData":
        """Return the labels and weights of some rows; X stays that of all rows."""
        part = copy(self)
        part.y, part.codes = self.y[rows], self.codes[rows]
        part.sample_weight = None if self.sample_weight is None else self.sample_weight[rows]
        part.offset = None if self.offset is None else self.offset[rows]
        part._weigh(estimator)
        return part

    @property
    def total_weight(self) -> float:
        """S, the sum of all weights."""
        return float(self.weights.sum())


@estimator
class LinearClassifierMixin(ClassifierMixin, LinearEstimator):
    """Decisions u = x'w + b of one class against the rest, or of the second of two classes."""

    tol: float = 1e-10
    class_weight: Any = None

    #: Whether targets may be a column of 0 and 1 for each label.
    takes_labels: ClassVar[bool] = False

    @abstractmethod
    def _problems(self, data: LabelledData, alpha: float) -> list[Any]:
        """Return the problems of the classes, for a strength of the penalty."""

    def _alpha(self, data: LabelledData) -> float:
        return alpha_of_C(self.C, data.total_weight)

    @in_kind
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array_like or sparse, shape (n, d)
        y : array_like, shape (n,) or (n, K), or sparse
            Labels of any kind; or for several labels a row a column of 0 and 1 for each, which is fitted by itself:
            `coef_` is (K, d) then, and predictions, decisions and probabilities are (n, K).
        sample_weight : array_like, shape (n,), optional
            Weights >= 0; weight 2 means the same as the row written twice.
        offset : array_like, shape (n,), or (n, K) for K > 2 classes or K labels a row, optional
            Added to each decision x'w + b; give those of the rows in question when you predict, too.
        """
        if self.takes_labels and has_columns(y):
            return self._fit_labels(X, y, sample_weight, offset)
        self.__dict__.pop("n_labels_", None)
        data = self._labelled(X, y, sample_weight, offset)
        problems = self._problems(data, self._alpha(data))
        results = self._run(problems, (data.X, y, {"sample_weight": sample_weight, "offset": offset}))
        self._warn_if_separated(data, problems[0])
        self._note_errors(problems, results, data.total_weight)
        return self

    def _fit_labels(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Self:
        """Fit each column of 0 and 1 by itself, on the same rows."""
        if self.standard_errors:
            raise ValueError("standard_errors are those of one target: leave them out, or fit a model for each label.")
        X, y = self._checked_data(X, indicators_of(y), multi_output=True)
        self.n_labels_, self.classes_ = y.shape[1], self._numbered(y.shape[1])
        labels = [LabelledData(self, X, y[:, k], sample_weight) for k in range(self.n_labels_)]
        problems = []
        for k, data in enumerate(labels):
            data.offset = offset_of_label(offset, y.shape, k)
            problems += LinearClassifierMixin._one_against_the_rest(self, data, self._label_loss(), self._alpha(data))
        self._run(problems, (X, y, {"sample_weight": sample_weight, "offset": offset}))
        self._note_errors(problems, [], 0.0)
        return self

    @staticmethod
    def _numbered(n: int) -> Data:
        """Return the numbers of the labels, which stand for their names."""
        return np.arange(n)

    def _label_loss(self) -> LossName | Loss:
        """Return the loss of one label."""
        return "logistic"

    def _posed(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[list[Problem], float]:
        """Return the problems that these data pose with the model's parameters, and the sum of the weights."""
        data = self._labelled(X, y, sample_weight, offset, reset=False)
        return self._problems(data, self._alpha(data)), data.total_weight

    def _labelled(self, X: Any, y: Any, sample_weight: Any, offset: Any, *, reset: bool = True) -> LabelledData:
        X, y = self._checked_data(X, y, reset=reset)
        data = LabelledData(self, X, y, sample_weight)
        if reset:
            self.classes_ = data.classes
        elif not np.array_equal(self.classes_, data.classes):
            raise ValueError(f"y must hold the classes of the fit, {self.classes_.tolist()}, got {data.classes.tolist()}.")
        if offset is not None:
            shape = (X.shape[0],) if self._n_outputs() == 1 else (X.shape[0], self._n_outputs())
            data.offset = checked_numbers(offset, shape, "offset")
        return data

    def _one_against_the_rest(self, data: LabelledData, loss: LossName | Loss, alpha: float) -> list[Any]:
        """Return the problem of the second class, or one for each of several."""
        rows, n_classes = as_rows(data.X, is_checked=True), len(data.classes)
        problems = []
        for k in [1] if n_classes == 2 else range(n_classes):
            offset = data.offset if data.offset is None or n_classes == 2 else data.offset[:, k]
            signs = np.where(data.codes == k, 1.0, -1.0)
            problems.append(self._problem(rows, signs, data.weights, loss, alpha, offset))
        return problems

    def _warn_if_separated(self, data: LabelledData, problem: Problem) -> None:
        """Warn where a logistic model classifies all rows correctly and is not penalised: larger ones are better still."""
        if not isinstance(problem.loss, Logistic | Multinomial):
            return  # other losses of correctly classified rows are 0 from some size on
        with limited_blas(1):
            is_bounded = problem.is_constrained or problem.term.value(np.ones(problem.dim)) > 0.0
        if is_bounded:
            return
        counted = data.weights > 0.0
        scores, codes = np.asarray(data.X @ self.coef_.T + self.intercept_)[counted], data.codes[counted]
        own = codes[:, None] == (np.arange(scores.shape[1]) if scores.shape[1] > 1 else 1)
        if problem.n_outputs == 1:  # of one class against the rest, each
            separated = (np.where(own, scores, -scores) > 0.0).all(axis=0).any()
        else:
            separated = (scores[own] > np.where(own, -np.inf, scores).max(axis=1)).all()
        if separated:
            warnings.warn(
                f"{type(self).__name__}: the classes are separated and the coefficients not penalised, so that the larger "
                "ones are the better: those found depend on tol, and standard errors mean nothing. Penalise them.",
                ConvergenceWarning,
                stacklevel=5,
            )

    @property
    def _has_labels(self) -> bool:
        """Whether a row may have several labels."""
        return hasattr(self, "n_labels_")

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 and not self._has_labels else len(self.classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.takes_labels
        return tags

    def _unpacked(self, points: list[Vector]) -> tuple[Any, Any]:
        table = np.concatenate(points).reshape(self._n_outputs(), -1)
        return (table[:, :-1], table[:, -1]) if self.fit_intercept else (table, np.zeros(len(table)))

    def _packed(self, n_columns: int, n_points: int) -> list[Vector] | None:
        if np.shape(self.coef_) != (self._n_outputs(), n_columns):
            return None
        table = np.asarray(self.coef_, dtype=np.float64)
        if self.fit_intercept:
            table = np.column_stack([table, self.intercept_])
        return list(table.reshape(n_points, -1))

    def _n_iter(self, counts: list[int]) -> Any:
        return np.array(counts, dtype=np.int32)

    @in_kind
    def decision_function(self, X: Any, offset: Any = None) -> Data:
        """Return the decisions of rows X, shape (n, d): for K classes a column each, shape (n, K).

        For two classes they are x'w + b, shape (n,), positive for the second; of several labels a row, positive for those
        that it has. Offsets, of the same shape, are added.
        """
        return self._decision(X, offset)

    @in_kind
    def predict(self, X: Any, offset: Any = None) -> Data:
        """Return the label of each row of X, shape (n, d): that of the largest decision, offsets included.

        Of several labels a row, (n, K) numbers: 1 for those with a positive decision, else 0.
        """
        scores = self.decision_function(X, offset)
        if self._has_labels:
            return np.asarray(scores > 0.0, dtype=np.int64)
        codes = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_.take(codes)

    @in_kind
    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the accuracy, by weight, on data as for `fit`: of several labels a row, of rows with all of them right."""
        from sklearn.metrics import accuracy_score  # which takes a while to load

        return float(accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight))


def log_probabilities(scores: Data) -> Data:
    """Return the logarithms of the probabilities of two classes, from decisions (n,), or of several, from scores (n, K).

    Examples
    --------
    >>> np.exp(log_probabilities(np.array([0.0, 1000.0])))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    if scores.ndim > 1:
        return np.asarray(log_softmax(scores, axis=1))
    # log expit(u) = min(u, 0) - log(1 + exp(-|u|)): one logarithm serves both classes.
    found: Data = np.stack([-scores, scores], axis=1)
    np.minimum(found, 0.0, out=found)
    found -= np.log1p(np.exp(-np.abs(scores)))[:, None]
    return found


def probabilities(scores: Data) -> Data:
    """Return the probabilities of two classes, from decisions (n,), or of several, from scores (n, K).

    Examples
    --------
    >>> probabilities(np.array([0.0, 1000.0]))
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    if scores.ndim > 1:
        return classes.probabilities(scores)
    found = np.empty((scores.size, 2), dtype=scores.dtype)
    expit(-scores, out=found[:, 0])
    expit(scores, out=found[:, 1])
    return found
