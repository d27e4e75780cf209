"""Runs in scaled columns: the method sees a problem in v with w = D v, and everybody else sees w.

`ScaledColumns` stands for the method in a run. Its states hold the method's own, in scaled coordinates, and beside them the
iterate in the user's units, which is what is checked, traced, given to callbacks, written to checkpoints and returned.
"""

import functools
from typing import Any, Literal, NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.core.mapped import mapping_of
from finitesum.methods.base import Method, identity_of
from finitesum.problems.digests import digest_of
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.scaled import (
    LEAST_SPREAD,
    Columns,
    ScaledProblem,
    can_scale,
    column_sums,
    scale_of,
    scaled_problem,
    shift_of,
)

ScaleColumns = bool | Literal["auto"]

#: The bytes of X's entries up to which "auto" copies them, and those of mapped files, which are there to take no memory.
MOST_BYTES, MOST_MAPPED = 4e9, 1 << 28


@functools.cache
def _state_type(inner: Any) -> Any:
    """Return the class of states around those of a method."""
    fields: Any = {"x": Vector, "inner": inner, "n_gradients": int, "n_hessians": float}
    return NamedTuple("ScaledState", list(fields.items()))


class ScaledColumns:
    """A method on a problem in scaled columns, for a run on the user's problem."""

    def __init__(self, method: Method, problem: ScaledProblem) -> None:
        self.method, self.problem = method, problem
        own: Any = method.state_type
        self.state_type = _state_type(own)

    def __getattr__(self, name: str) -> Any:
        """Return what else the method has: some functions in the user's units, all else as it is."""
        own = getattr(self.method, name)
        if name == "exact_measures":
            return self._exact_measures
        if name == "template":
            return lambda problem, first, state: first._replace(inner=own(self.problem, first.inner, state.inner))
        if name == "minorant":
            return lambda problem, state: own(self.problem, state.inner)
        if name == "blas_threads":
            return lambda problem: own(self.problem)
        return own

    def _exact_measures(self, problem: Problem, state: Any) -> Any:
        """Return what the method knows exactly, in the user's units; None of shifted columns, which are rounded."""
        known = self.method.exact_measures(self.problem, state.inner)  # type: ignore[attr-defined]
        if known is None or self.problem.columns.shift.any():
            return None
        term: Any = self.problem.term
        return known._replace(gradient=term.gradient_outward(state.inner.x, known.gradient))

    def _outer(self, state: Any) -> Any:
        return self.state_type(
            self.problem.columns.outward(state.x), state, int(state.n_gradients), float(state.n_hessians)
        )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> Any:
        """Return the state before the first visit."""
        return self._outer(self.method.init(self.problem, self.problem.columns.inward(x0), tol))

    def run_pass(self, problem: Problem, state: Any, order: Indices) -> Any:
        """Return the state after the visits of `order`."""
        return self._outer(self.method.run_pass(self.problem, state.inner, order))

    def estimate(self, problem: Problem, state: Any) -> float:
        """Return the method's estimate of the optimality, which its problem measures in the user's units."""
        return self.method.estimate(self.problem, state.inner)


def in_scaled_columns(method: Method, problem: Any, scale_columns: ScaleColumns, earlier: Any) -> Any:
    """Return the method to run, with columns scaled where that is asked for, or "auto" and of use."""
    columns = scales_for(method, problem, scale_columns, earlier)
    return method if columns is None else ScaledColumns(method, scaled_problem(problem, columns))


def scales_for(method: Method, problem: Any, scale_columns: ScaleColumns, earlier: Any = None) -> Columns | None:
    """Return the scales and shifts of the columns that a run has, or None.

    "auto" scales for methods with `wants_scaled_columns` that choose their steps, where the scales differ by at least
    `LEAST_SPREAD`, or columns are far from 0, and X is not too large to be copied. A run that goes on from an earlier one
    is in the columns of that one.
    """
    if scale_columns is True and (sentence := _refusal(method, problem)):
        raise ValueError(sentence)
    goes_on_scaled = earlier is not None and type(earlier.state).__name__ == "ScaledState"
    if scale_columns is False or (earlier is not None and not goes_on_scaled) or _refusal(method, problem):
        return None
    has_step = getattr(method, "step_size", "auto") != "auto"
    most_bytes = MOST_BYTES if mapping_of(problem.rows.values) is None else MOST_MAPPED
    if scale_columns == "auto" and (has_step or problem.rows.values.nbytes > most_bytes):
        return None
    sums = column_sums(problem)
    by_sums = getattr(method, "sees_sums_only", False) and problem.loss.is_smooth()
    shift, unstored = shift_of(problem, sums, by_sums=by_sums)
    columns = scale_of(problem, shift, sums, by_sums=by_sums)
    least = min(columns.min(initial=1.0), 1.0) if problem.has_intercept else columns.min(initial=1.0)
    most = max(columns.max(initial=1.0), 1.0) if problem.has_intercept else columns.max(initial=least)
    if not np.isfinite(most / least) or (scale_columns == "auto" and most < LEAST_SPREAD * least and not shift.any()):
        return None
    return Columns(columns, shift, problem.n_outputs, unstored, by_sums)


def _refusal(method: Method, problem: Any) -> str:
    """Return why columns cannot be scaled, "" where they can."""
    if not isinstance(problem, Problem):
        return "scale_columns needs a linear model: functions have no columns. Scale their variables, or leave it out."
    if is_parted(problem):
        return "scale_columns needs rows in memory: scale the columns of the parts, or leave it out."
    if not getattr(method, "wants_scaled_columns", False):
        return f"scale_columns is for methods with one step for all coordinates: leave it out for {method.name}."
    if not can_scale(problem.term):
        return (
            "scale_columns goes with penalties and boxes of one coefficient each: groups, balls, bounds for each output "
            "and other sets are others in scaled columns. Scale the columns of X, or leave scale_columns out."
        )
    return ""


def unscaled(method: Any) -> Any:
    """Return the method that the user named."""
    return method.method if isinstance(method, ScaledColumns) else method


def identity(method: Any) -> dict[str, Any]:
    """Return what identifies a method in a checkpoint, and the columns that it works on, where these are scaled."""
    if not isinstance(method, ScaledColumns):
        return identity_of(method)
    columns = method.problem.columns
    arrays = [part for part in (columns.scale, columns.shift, columns.unstored) if part is not None]
    return identity_of(method.method) | {"scale_columns": digest_of(arrays, (columns.by_sums,))}
