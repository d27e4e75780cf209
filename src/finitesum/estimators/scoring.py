"""What scikit-learn's scorers are given: models that know offsets, weights where a scorer takes some; losses of rows."""

import inspect
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

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
        logs = -np.logaddexp(0.0, np.where(codes[:, None] == 1, -1.0, 1.0) * decisions[:, :, 0])
    else:
        own = np.take_along_axis(decisions, codes[:, None, None], axis=2)[:, :, 0]
        largest = decisions.max(axis=2)
        logs = own - largest - np.log(np.exp(decisions - largest[:, :, None]).sum(axis=2))
    least = float(np.finfo(np.float64).eps)
    return np.asarray(np.clip(logs, np.log(least), np.log1p(-least)))


def _squares(predictions: Matrix, targets: Vector, weights: Vector | None) -> Vector:
    return np.average((predictions - targets[:, None]) ** 2, axis=0, weights=weights)


def _explained(predictions: Matrix, targets: Vector, weights: Vector | None) -> Vector:
    """Return R^2, which is 0 where targets are one number that is missed, and 1 where it is met, as scikit-learn's."""
    errors, spread = _squares(predictions, targets, weights), targets - np.average(targets, weights=weights)
    square = float(np.average(spread**2, weights=weights))
    return 1.0 - errors / square if square > 0.0 else 1.0 * (errors == 0.0)


#: Scores of regressions by scikit-learn's names: of predictions (n, m), targets and weights, or None for these.
OF_PREDICTIONS: dict[str, Callable[[Matrix, Vector, Vector | None], Vector]] = {
    "neg_mean_squared_error": lambda *given: -_squares(*given),
    "neg_root_mean_squared_error": lambda *given: -np.sqrt(_squares(*given)),
    "neg_mean_absolute_error": lambda predictions, targets, weights: (
        -np.average(np.abs(predictions - targets[:, None]), axis=0, weights=weights)
    ),
    "r2": _explained,
}


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
