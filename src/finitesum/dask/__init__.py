"""The estimators on Dask collections: the same models, certificates and attributes as in memory, from a cluster.

``fit`` takes dask arrays and dataframes; predictions are lazy collections. The optional dependency is ``finitesum[dask]``.
Only public futures are used: nothing pins work to a worker, and the work of one that is lost is done again by others.
"""

import importlib
from typing import TYPE_CHECKING, Any

from finitesum.estimators.elsewhere import ON_DASK

if TYPE_CHECKING:
    from finitesum.dask.engine import DaskEngine as DaskEngine
    from finitesum.dask.estimators import (
        GammaRegressor as GammaRegressor,
        HuberRegressor as HuberRegressor,
        LinearClassifier as LinearClassifier,
        LinearRegressor as LinearRegressor,
        LinearSVC as LinearSVC,
        LogisticRegression as LogisticRegression,
        PoissonRegressor as PoissonRegressor,
        Ridge as Ridge,
        TweedieRegressor as TweedieRegressor,
    )

_HOMES = {"DaskEngine": "engine"} | dict.fromkeys(ON_DASK, "estimators")

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"finitesum.dask.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'finitesum.dask' has no attribute {name!r}")
