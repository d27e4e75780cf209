"""Models in the ONNX format: skl2onnx's converters of scikit-learn's linear models, registered for these estimators."""

from typing import Any

import numpy as np

from finitesum import estimators
from finitesum.estimators.base import LinearEstimator
from finitesum.estimators.classification import LinearClassifierMixin
from finitesum.losses import Logistic, as_loss


def as_scikit_learn(model: LinearEstimator) -> Any:
    """Return a fitted estimator of scikit-learn that predicts what `model` does: from its coefficients, without offsets.

    It is a ValueError where scikit-learn has no such model: for probit and complementary log-log models, shares, and more
    than two ordered classes.

    Examples
    --------
    >>> from finitesum import Ridge
    >>> model = Ridge(alpha=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> as_scikit_learn(model).predict([[10.0]]).round(6)
    array([21.])
    """
    from sklearn import linear_model, svm

    known = {name: getattr(model, name) for name in ("coef_", "intercept_", "n_features_in_")}
    if hasattr(model, "feature_names_in_"):
        known["feature_names_in_"] = model.feature_names_in_
    if isinstance(model, LinearClassifierMixin):
        if hasattr(model, "n_labels_"):
            raise ValueError("scikit-learn has no linear classifier of several labels a row: convert one of each label.")
        known["classes_"] = model.classes_
        if isinstance(model, estimators.OrdinalLogisticRegression) and len(model.classes_) > 2:
            raise ValueError("scikit-learn has no classifier of ordered classes.")
        if not hasattr(model, "predict_proba"):
            return _with(svm.LinearSVC(), known)
        own = getattr(model, "loss", "logistic")
        if not isinstance(as_loss(own), Logistic):
            raise ValueError(f"scikit-learn has no classifier with the probabilities of the loss {own!r}.")  # noqa: TRY004
        if isinstance(model, estimators.LinearClassifier) and len(model.classes_) > 2:  # each against the rest
            known["multi_class"] = "ovr"
        return _with(linear_model.LogisticRegression(), known)
    loss: Any = model._loss() if hasattr(model, "_loss") else as_loss("squared")
    if not hasattr(loss, "mean_at"):
        return _with(linear_model.Ridge(), {**known, "intercept_": np.asarray(model.intercept_)})
    if loss.mean_at(0.0) != 1.0 or loss.mean_at(1.0) != np.exp(1.0):
        raise ValueError(f"scikit-learn has no regressor whose means are those of {loss!r}.")
    twin = linear_model.PoissonRegressor()
    return _with(twin, {**known, "_base_loss": twin._get_loss()})  # which its `predict` asks for the link


def _with(estimator: Any, attributes: dict[str, Any]) -> Any:
    vars(estimator).update(attributes)
    return estimator


def register_converters() -> None:
    """Let skl2onnx convert fitted estimators of this package, alone and in pipelines.

    ``skl2onnx.to_onnx(model, X[:1])`` works from then on, with the options that scikit-learn's classes have. It is an
    ImportError where skl2onnx is not installed.
    """
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator as shapes

    # importing it registers scikit-learn's own
    from skl2onnx.operator_converters import linear_classifier, linear_regressor  # noqa: F401

    of_classes = {"zipmap": [True, False, "columns"], "raw_scores": [True, False]}
    of_classes |= {"nocl": [True, False], "output_class_labels": [False, True]}
    for name in estimators.__all__:
        kind = getattr(estimators, name)
        if not isinstance(kind, type):
            continue
        is_classifier = issubclass(kind, LinearClassifierMixin)
        shape = "calculate_linear_classifier_output_shapes" if is_classifier else "calculate_linear_regressor_output_shapes"
        options = of_classes if is_classifier else None
        update_registered_converter(kind, f"Finitesum{name}", getattr(shapes, shape), _convert, options=options)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Convert the model of an operator by the converter of the estimator that stands in for it."""
    from skl2onnx._supported_operators import _get_sklearn_operator_name
    from skl2onnx.common._registration import get_converter

    model = operator.raw_operator
    twin = as_scikit_learn(model)
    if container.options and id(model) in container.options:
        of_model = container.options[id(model)]
        has_zipmap = hasattr(model, "predict_proba")
        container.options[id(twin)] = {name: of_model[name] for name in of_model if name != "zipmap" or has_zipmap}
    operator.raw_operator = twin
    try:
        get_converter(_get_sklearn_operator_name(type(twin)))(scope, operator, container)
    finally:
        operator.raw_operator = model
