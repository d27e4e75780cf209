"""What Newton's methods on samples of rows, or of columns, have in common: settings, and what their states tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Protocol

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.optimality import Measures
from finitesum.methods.base import check_count
from finitesum.problems.linear import Problem

#: The least optimality that a choice is made for: below are rounding errors.
LEAST_TOL = 1e-14


class SampledState(Protocol):
    """What the states have in common."""

    @property
    def x(self) -> Vector: ...
    @property
    def gradient(self) -> Vector: ...
    @property
    def loss(self) -> float: ...
    @property
    def n_sampled(self) -> int: ...
    @property
    def optimality(self) -> float: ...


class SampledNewton(ABC):
    """What these methods do alike: a pass ends with the exact gradient at its iterate once all components are read.

    A method is a dataclass with the field `n_threads`, and counts that may be "auto".
    """

    n_threads: int

    default_sampling: ClassVar[str] = "shuffled-once"
    patience: ClassVar[int] = 20

    def __post_init__(self) -> None:
        for count in fields(self):  # type: ignore[arg-type]
            value = getattr(self, count.name)
            if not (value == "auto" == count.default):
                check_count(count.name, value)

    @abstractmethod
    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> Any:
        """Return the state before the first row is read."""

    @abstractmethod
    def run_pass(self, problem: Problem, state: Any, order: Indices) -> Any:
        """Return the state after a pass."""

    def estimate(self, problem: Problem, state: SampledState) -> float:
        """Return the optimality, which is known exactly."""
        return state.optimality

    def exact_measures(self, problem: Problem, state: SampledState) -> Measures | None:
        """Return what the last pass found at x: it was an exact one. None before it."""
        if state.n_sampled < problem.n_components:
            return None
        return Measures(state.loss + problem.term.value(state.x), state.optimality, state.gradient.copy())

    def default_batch_size(self, problem: Problem) -> int:
        """Return n / 1024: components are what samples are drawn of."""
        return max(1, problem.n_rows // 1024)
