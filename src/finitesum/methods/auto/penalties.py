"""The choice of a method for groups of columns, and for other penalties that are known by their prox."""

import math
from typing import Any

from finitesum.methods import as_method
from finitesum.methods.auto.sizes import ALL_COLUMNS, FEW_CALLS, MOST_BYTES, of_newton
from finitesum.methods.base import Choice, is_suited
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.term_penalties import Separable

#: Variables of several outputs up to which all groups are treated at once.
FEW_OF_GROUPS = 1000

#: Entries of the rows, with those that are 0, from which models are minimised by passes over groups: on 24 random problems
#: they took 0.4 of the time of matrices, and as long on 39 smaller ones.
MANY_NUMBERS = 3e6


def by_groups(problem: Problem, options: dict[str, Any]) -> Choice | None:
    """Return the method for groups of a model with one output or several, None where the penalty is another."""
    if "groups" not in problem.term.demands:
        return None
    why, dim = f"groups in {problem.dim:,} variables, of which Newton's steps", problem.dim
    if dim <= ALL_COLUMNS or (problem.n_outputs > 1 and dim <= FEW_OF_GROUPS):
        is_long = problem.n_outputs == 1 and problem.convex and of_newton(problem) > FEW_CALLS
        known = as_method("lazy-newton", options) if is_long else as_method("newton")
        return Choice(known, f"{why} take all")
    known = as_method("working-set-newton", options) if problem.n_outputs == 1 else as_method("multinomial-working-set")
    descent, size = as_method("coordinate-descent"), float(problem.n_rows) * problem.rows.n_columns
    if problem.n_outputs == 1 and size >= MANY_NUMBERS and problem.convex and is_suited(descent, problem):
        known = descent
    fits = 16.0 * dim**2 <= MOST_BYTES  # a solution of several outputs may need them all
    if problem.convex and is_suited(known, problem) and (fits or problem.n_outputs == 1):
        return Choice(known, f"{why} take those that a sparse solution needs")
    return Choice(as_method("newton"), f"{why} take all") if fits else None


def by_prox(problem: Problem | FiniteSum) -> Choice:
    """Return the method for a penalty of which the prox is all that is known."""
    has_derivatives = isinstance(problem.term.penalty, Separable) and problem.term.penalty.has_derivatives()
    descent = as_method("coordinate-descent")
    if has_derivatives and isinstance(problem, Problem) and problem.convex and is_suited(descent, problem):
        return Choice(descent, "the penalty has a prox and derivatives: along one coordinate after the other")
    for is_convex, what in ((problem.term.is_convex, "penalty"), (problem.convex, "loss")):
        if not is_convex:
            return Choice(as_method("fg"), f"the {what} is not convex: proximal gradients find a stationary point")
    why = "the penalty is known by its prox"
    if math.isfinite(problem.loss.curvature_bound()):
        return Choice(as_method("afg"), f"{why}: accelerated proximal gradients")
    return Choice(as_method("acc-svrg"), f"{why}, and the loss has no bound on its curvature: a step that adapts")
