"""What methods of data are given: arrays of other libraries are brought over to NumPy, frames read by a model's formula.

Fits run in NumPy's memory on arrays of PyTorch, CuPy, JAX, ..., too. With ``sklearn.set_config(array_api_dispatch=True)``,
as scikit-learn has it, predictions and attributes of a fit are arrays of the library and on the device of X; else NumPy's.
"""

import functools
import inspect
from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

import numpy as np

from finitesum.estimators.elsewhere import require_no_collection
from finitesum.estimators.formulas import is_raw

Method = TypeVar("Method", bound=Callable[..., Any])

#: What an estimator notes beside its attributes where these are no arrays of NumPy.
_MARK = "_has_foreign_attributes"


def is_foreign(values: Any) -> bool:
    """Return whether these are an array of another library."""
    return not isinstance(values, np.ndarray | np.generic) and hasattr(values, "__dlpack__")


def as_numpy(values: Any) -> Any:
    """Return an array of another library as NumPy's, from whatever device; anything else as it is."""
    if not is_foreign(values):
        return values
    for step in ("detach", "cpu"):  # of PyTorch
        values = getattr(values, step)() if hasattr(values, step) else values
    if hasattr(values, "__array_namespace__"):
        from sklearn.utils._array_api import _convert_to_numpy  # which knows devices

        return _convert_to_numpy(values, values.__array_namespace__())
    return values.get() if hasattr(values, "get") else np.asarray(values)  # of CuPy, which is not converted by itself


def in_kind(method: Method) -> Method:
    """Return a method of (X, ...) that takes arrays of other libraries, and returns arrays as scikit-learn does."""

    changes = method.__name__ in ("fit", "partial_fit")
    names = tuple(inspect.signature(method).parameters)[1:]

    @functools.wraps(method)
    def call(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
        for name, one in (*zip(names, (X, *arguments), strict=False), *named.items()):
            require_no_collection(one, name, type(self).__name__, method.__name__)
        if "formula_" in self.__dict__:
            X = _of_formula(self, X, changes)
        has_foreign = _MARK in self.__dict__
        if not has_foreign and not any(is_foreign(one) for one in (X, *arguments, *named.values())):
            return method(self, X, *arguments, **named)
        from sklearn import config_context, get_config  # which models in files do without

        if has_foreign and not changes:
            _require_kind_of_fit(self, X, method.__name__)
        to_kind = _to_kind(X) if is_foreign(X) and get_config()["array_api_dispatch"] else None
        model = self if changes else copy(self)
        if has_foreign:
            _convert_attributes(model, as_numpy)
            del model.__dict__[_MARK]
        given = [as_numpy(one) for one in (X, *arguments)]
        with config_context(array_api_dispatch=False):
            found = method(model, *given, **{name: as_numpy(one) for name, one in named.items()})
        if to_kind is None:
            return found
        if changes:
            _convert_attributes(self, to_kind)
            setattr(self, _MARK, True)
            return found
        return to_kind(found)

    return call  # type: ignore[return-value]


def _of_formula(model: Any, X: Any, changes: bool) -> Any:
    """Return the rows that a model's formula makes of a frame; a fit to other data is not the formula's any more."""
    if changes:
        del model.formula_
        return X
    return model.formula_.rows(X) if is_raw(X, model.feature_names_in_) else X


def _require_kind_of_fit(model: Any, X: Any, method: str) -> None:
    """Raise, with scikit-learn's dispatch, where X is of another library or on another device than the X of the fit."""
    try:
        from sklearn.utils._array_api import check_same_namespace
    except ImportError:  # before scikit-learn 1.9
        return
    check_same_namespace(X, model, attribute="coef_", method=method)


def _to_kind(X: Any) -> Callable[[Any], Any]:
    """Return what turns NumPy's arrays of numbers into arrays like X."""
    from sklearn.utils._array_api import get_namespace_and_device

    xp, _, device = get_namespace_and_device(X)

    def convert(values: Any) -> Any:
        is_number = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
        return xp.asarray(np.ascontiguousarray(values), device=device) if is_number else values

    return convert


def _convert_attributes(model: Any, convert: Callable[[Any], Any]) -> None:
    """Convert the arrays among the attributes of a fit."""
    for name, value in list(vars(model).items()):
        if name.endswith("_") and not name.startswith("_"):
            setattr(model, name, convert(value))
