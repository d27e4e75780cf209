"""What scikit-learn's scorers are given: models that know offsets, weights where a scorer takes some; losses of rows."""

import inspect
from copy import copy
from functools import wraps
from typing import Any

import numpy as np

from finitesum.core.arrays import Matrix
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


def losses_at(problem: Problem, points: Matrix) -> Matrix:
    """Return each row's losses at the points, (n, m)."""
    d = problem.rows.n_columns
    outputs = np.asarray(to_matrix(problem.rows) @ points[:, :d].T) + problem.offsets[:, None]
    if problem.has_intercept:
        outputs += points[:, d]
    losses = in_arrays(problem.loss).value(outputs, problem.targets[:, None])
    return np.broadcast_to(losses, outputs.shape)
