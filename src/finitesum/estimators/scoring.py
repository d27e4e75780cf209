"""What scikit-learn's scorers are given: models that know their rows' offsets, and weights where a scorer takes some."""

import inspect
from copy import copy
from functools import wraps
from typing import Any


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
