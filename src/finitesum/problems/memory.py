"""Functions of a problem whose results are kept beside it: of all of it, or of its rows alone, which several share."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem

T = TypeVar("T")


def remembered(function: "Callable[[Problem], T]") -> "Callable[[Problem], T]":
    """Return a function of a problem whose results are kept by its name, in `Problem.derived`, unless it is one itself."""
    return _kept_in("derived", function)


def remembered_of_rows(function: "Callable[[Problem], T]") -> "Callable[[Problem], T]":
    """Return the same of a function that sees rows, weights and loss alone, not targets: kept in `Problem.of_rows`."""
    return _kept_in("of_rows", function)


def _kept_in(place: str, function: "Callable[[Problem], T]") -> "Callable[[Problem], T]":
    @wraps(function)
    def from_memory(problem: "Problem", name: str = function.__name__) -> T:
        if name in (memory := getattr(problem, place)):
            return memory[name]  # type: ignore[no-any-return]
        found = function(problem)
        if found is not problem:  # which would stay, with its rows, until garbage is collected
            memory[name] = found
        return found

    return from_memory
