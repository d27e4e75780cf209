"""What scikit-learn's scorers are given: models that know offsets, weights where a scorer takes some; losses of rows."""

import inspect
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit, log_softmax

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.losses.arrays import in_arrays
from finitesum.problems.linear import Problem
from finitesum.problems.rows import to_matrix


def takes_weights(scorer: Any) -> bool:
    """Return whether a scorer, of scikit-learn's or a function (model, X, y), takes sample weights."""
    known = inspect.signature(getattr(scorer, "_score_func", scorer)).parameters
    return "sample_weight" in known or any(one.kind is one.VAR_KEYWORD for one in known.values())


def with_offset(model: Any, offset: Any) -> Any:
    """Return a model that adds these offsets to its predictions of its rows, for scorers, which know none."""
    if offset is None:
        return model
    bound, name = copy(model), "decision_function" if hasattr(model, "decision_function") else "predict"
    predict = getattr(model, name)

    @wraps(predict)  # scikit-learn asks for its name
    def with_these(X: Any, _: Any = None) -> Any:
        return predict(X, offset)

    setattr(bound, name, with_these)
    return bound


def are_right(decisions: npt.NDArray[np.float64], codes: Indices) -> Matrix:
    """Return 1 where the class with the largest decision is the row's own, (n, m): decisions are (n, m, K) or (n, m, 1)."""
    predicted = decisions[:, :, 0] > 0.0 if decisions.shape[2] == 1 else decisions.argmax(axis=2)
    return np.asarray(predicted == codes[:, None], dtype=np.float64)


def log_chances(decisions: npt.NDArray[np.float64], codes: Indices) -> Matrix:
    """Return the logarithms of the probabilities of each row's own class, (n, m), which `log_loss` keeps away from 0 and 1.

    Examples
    --------
    >>> log_chances(np.array([[[0.0]], [[2.0]]]), np.array([0, 1])).round(3)
    array([[-0.693],
           [-0.127]])
    """
    if decisions.shape[2] == 1:
        logs = log_expit(np.where(codes[:, None] == 1, 1.0, -1.0) * decisions[:, :, 0])
    else:
        logs = np.take_along_axis(log_softmax(decisions, axis=2), codes[:, None, None], axis=2)[:, :, 0]
    least = float(np.finfo(np.float64).eps)
    return np.asarray(np.clip(logs, np.log(least), np.log1p(-least)))


#: What scikit-learn's scores of regressions are by its names: a function of `sklearn.metrics`, and a sign.
OF_PREDICTIONS = {
    "r2": ("r2_score", 1.0),
    "neg_mean_squared_error": ("mean_squared_error", -1.0),
    "neg_root_mean_squared_error": ("root_mean_squared_error", -1.0),
    "neg_mean_absolute_error": ("mean_absolute_error", -1.0),
}


def scores_of(name: str, predictions: Matrix, targets: Vector, weights: Vector | None) -> Vector:
    """Return a score of `OF_PREDICTIONS` of several models' predictions (n, m) of one target, (m,)."""
    from sklearn import metrics  # which takes a while to load

    function, sign = OF_PREDICTIONS[name]
    repeated = np.broadcast_to(targets[:, None], predictions.shape)
    found = getattr(metrics, function)(repeated, predictions, sample_weight=weights, multioutput="raw_values")
    return sign * np.asarray(found)


def outputs_at(problem: Problem, points: Matrix, offsets: Vector | None) -> Matrix:
    """Return x'w + b + o of each row at the points, (n, m), with these offsets o, or none."""
    d = problem.rows.n_columns
    outputs = np.asarray(to_matrix(problem.rows) @ points[:, :d].T)
    if offsets is not None:
        outputs = outputs + offsets[:, None]
    return outputs + points[:, d] if problem.has_intercept else outputs


def losses_at(problem: Problem, points: Matrix) -> Matrix:
    """Return each row's losses at the points, (n, m)."""
    outputs = outputs_at(problem, points, problem.offsets)
    losses = in_arrays(problem.loss).value(outputs, problem.targets[:, None])
    return np.broadcast_to(losses, outputs.shape)
