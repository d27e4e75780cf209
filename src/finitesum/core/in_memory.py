"""Dask collections that are given to what works in memory: they are refused, not brought there. Dask is not imported."""

from typing import Any


def is_on_dask(given: Any) -> bool:
    """Return whether something is a Dask collection, which NumPy would bring into memory."""
    return hasattr(type(given), "__dask_graph__") and given.__dask_graph__() is not None


def require_in_memory(given: Any, name: str, where: str = "") -> None:
    """Raise where an argument is a Dask collection, and say where to go instead."""
    if is_on_dask(given):
        raise TypeError(
            f"{where}{name} is a Dask collection, which would be brought into memory: give its blocks to "
            "Problem.partitioned, each as a dask.delayed of a tuple (X, y), fit a class of finitesum.dask, or give "
            f"{name}.compute() where that fits into memory."
        )
