"""Searches along Newton's steps: for the t at which the slope of F is nearly 0."""

from collections.abc import Callable

from finitesum.core.arrays import Vector
from finitesum.evaluation.lines import line_through, slope_along
from finitesum.evaluation.outputs import score_changes, scores_at, weighted_slopes
from finitesum.evaluation.rounding import extended_slopes
from finitesum.methods.subproblems.line_search import with_gentler_slope
from finitesum.methods.visits import AnySum
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem

#: The fraction of the first slope that a search leaves.
ACCURACY = 0.01


def _losses_along(problem: AnySum, w: Vector, direction: Vector) -> Callable[[float], float]:
    """Return t -> the slope of the mean loss along w + t direction."""
    if isinstance(problem, FiniteSum):
        return lambda t: float(problem.mean_value_and_gradient(w + t * direction)[1] @ direction)
    if problem.n_outputs > 1:
        scores, changes = scores_at(problem, w), score_changes(problem, direction)
        return lambda t: float((weighted_slopes(problem, scores + t * changes) * changes).sum())
    line = line_through(problem, w, direction)
    return lambda t: slope_along(problem, line, t)


def searched(
    problem: AnySum, w: Vector, direction: Vector, slopes: tuple[float, float | None], *, is_precise: bool = False
) -> tuple[float, int]:
    """Return t where the slope of F along the step is nearly 0, and how many slopes that took.

    `slopes` are those at t = 0 and, where it is known, at t = 1. Predictions of a linear model are linear in t, and no
    slope reads the rows.
    """
    term, n_slopes = problem.term, 0
    if is_precise and isinstance(problem, Problem) and problem.n_outputs == 1:
        of_losses = extended_slopes(problem, w, direction)
    else:
        of_losses = _losses_along(problem, w, direction)
    along = term.quadratic * direction
    linear, square = float(along @ w), float(along @ direction)

    def slope(t: float) -> float:
        nonlocal n_slopes
        n_slopes += 1
        return of_losses(t) + linear + t * square + term.slope(w + t * direction, direction)

    return with_gentler_slope(slope, slopes[0], ACCURACY, slopes[1]), n_slopes
