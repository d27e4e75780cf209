"""The choice of a method for losses with corners: the hinge, absolute values, quantiles, intervals."""

import math
from typing import Any

from finitesum.core.arrays import in_one_line
from finitesum.evaluation.row_products import sum_of_squares
from finitesum.losses import Cornered, Hinge
from finitesum.methods import as_method, forecasts
from finitesum.methods.auto.sizes import MATRIX_UP_TO, MOST_BYTES, MOST_NUMBERS
from finitesum.methods.base import INSTEAD, Alternative, Choice, is_suited
from finitesum.methods.cost_model import costs_of
from finitesum.methods.newton.interior_factors import MOST_WORK
from finitesum.methods.newton.interior_rows import goes_by_rows
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.view import n_numbers

#: Numbers, and nanoseconds of methods without visits, up to which these are preferred to dual ascent, which visits few
#: numbers by calls from Python; and what it is charged for them.
FEW_NUMBERS, OF_VISITS = 3e4, 2e7

#: Losses with corners, as measured on generated rows: steps of interior points, nanoseconds of a row in one beside its
#: Hessian, of a row and two columns where the rows are brought to a triangle, and of a column and two rows in a basis of
#: few rows' span; passes of dual ascent: (least, by the coupling of rows, to this power), the latter by the root of rows by
#: columns where they are fewer; gradients of semismooth Newton's whole run, factors, rows' Hessians, nanoseconds of a row
#: beside, those of its calls, and of each of the first rows, for steps on samples see no more.
INTERIOR_STEPS, INTERIOR_ROW, TRIANGLE, SPAN, DUAL_PASSES = 14.0, 800.0, 0.5, 0.1, (15.0, 25.0, 0.4)
SEMISMOOTH_GRADIENTS, SEMISMOOTH_FACTORS, SEMISMOOTH_HESSIANS, SEMISMOOTH_ROW = 60.0, 50.0, 2.0, 1000.0
SEMISMOOTH_CALLS, SEMISMOOTH_FIRST, FIRST_ROWS = 8e6, 2000.0, 20_000


def for_corners(problem: Problem) -> Choice:
    name, dim, term = type(problem.loss).__name__, problem.dim, problem.term
    _require_elastic_net(problem)
    smaller = order = min(dim, problem.n_rows)
    if term.is_constrained or term.has_l1 or term.has_weights:  # no span of rows holds the solution
        order = dim + (dim if term.constraint.boundary == "l1-norm" else 0)
    exact = as_method("interior-point")
    fits = dim * smaller <= MOST_NUMBERS
    if order >= dim and is_suited(exact, problem) and goes_by_rows(problem):  # a matrix of the rows
        order, fits = problem.n_rows, n_numbers(problem.view) <= MOST_NUMBERS
    is_large = not fits or order > MATRIX_UP_TO
    is_hinge, on_planes = isinstance(problem.loss, Hinge), term.constraint.boundary == "planes"
    has_ridge = is_suited(as_method("semismooth-newton"), problem)
    known = _costs_with_ridge(problem, order, fits=not is_large) if has_ridge else []
    if known := [one for one in known if is_suited(as_method(one[1]), problem)]:
        (_, best, cost), *rest = sorted(known)
        if best != "interior-point":
            # interior points need few steps whatever the coupling of rows
            others = sorted(rest, key=lambda one: one[1] != "interior-point")[: best == "dual-ascent"]
            going_on = tuple(Alternative(as_method(name), 1e-9 * its) for _, name, its in others)
            return Choice(as_method(best), _why(problem, cost), 1e-9 * cost, others=going_on)
    elif isinstance(problem.loss, Cornered) and not is_suited(exact, problem) and (on_planes or not is_hinge):
        raise ValueError(
            f"{name} has exact methods on the sets of the library but a polyhedron without interior points, got "
            f"{in_one_line(term.constraint)}. Give another set, or name a method that approaches the minimum slowly: "
            'method="hb".'
        )
    kind = "quadratic" if term.ridge > 0.0 or term.constraint.boundary == "l2-norm" else "linear"
    by_program = Choice(exact, f"{name} with this penalty and set is a {kind} program")
    is_exact = is_suited(exact, problem) and fits
    if is_exact and order <= MATRIX_UP_TO:
        return by_program
    if is_parted(problem) and is_suited(exact, problem) and not (fits and order <= math.sqrt(MOST_BYTES / 16.0)):
        raise ValueError(
            f"{name} on rows in parts has exact methods up to some {MATRIX_UP_TO:,} columns, got {dim:,}: take a smooth "
            "loss, or a problem in memory, by Problem.linear."
        )
    by_steps = by_subgradients(problem, f"{name} is nonsmooth")
    if is_exact and order <= math.sqrt(MOST_BYTES / 16.0) and not is_suited(by_steps.method, problem):
        return by_program
    if fits and smaller <= MATRIX_UP_TO and is_suited(linear_program := as_method("linear-program"), problem):
        return Choice(linear_program, f"{name} on this set is a linear program in many columns")
    return by_steps


def _require_elastic_net(problem: Problem) -> None:
    """Raise a ValueError unless the penalty is one that methods for nonsmooth losses know."""
    term: Any = problem.term
    unknown = [name for name in term.demands if name in ("prox", "groups")]
    if unknown:
        what = in_one_line(term.penalty.base) if unknown[0] == "prox" else "a group lasso"
        smooth = "huber" if problem.loss.target_kind() == "real" else "smoothed-hinge"
        raise ValueError(
            f"{type(problem.loss).__name__} is nonsmooth, and no method takes such a loss with {what}. Take a smooth loss, "
            f'such as loss="{smooth}", or give {INSTEAD[unknown[0]]}.'
        )


def _costs_with_ridge(problem: Problem, order: int, *, fits: bool) -> list[tuple[float, str, float]]:
    """Return what the methods for losses with corners and an l2 penalty are ranked by, their names and their nanoseconds.

    These are estimates, and the rank, but for few numbers, where methods without visits come first. The matrices of
    interior points are of this order; without their fitting, dual ascent is left.
    """
    n, dim, costs, (least, by_coupling, power) = problem.n_rows, problem.dim, costs_of(problem), DUAL_PASSES
    is_small = n_numbers(problem.view) <= FEW_NUMBERS
    coupling = (sum_of_squares(problem) - n * problem.has_intercept) / (n * n * problem.term.ridge)
    n_passes = least + by_coupling * min(math.sqrt(n / dim), 1.0) * coupling**power
    ascent = forecasts.DUAL_VISIT * n * costs.gradient * n_passes
    found = [("dual-ascent", ascent)]
    if fits and isinstance(problem.loss, Hinge):  # others have two hinges for each row there
        factor, work = costs.factor * (order / dim) ** 3, n * float(order) ** 2
        rows = TRIANGLE * work if work <= MOST_WORK else n * costs.hessian
        basis = SPAN * dim * n**2 if n < problem.rows.n_columns else 0.0
        found.append(("interior-point", basis + INTERIOR_STEPS * (n * INTERIOR_ROW + rows + factor)))
    if fits and dim <= (MATRIX_UP_TO if is_parted(problem) else min(n, MATRIX_UP_TO)):
        of_row = SEMISMOOTH_GRADIENTS * costs.gradient + SEMISMOOTH_HESSIANS * costs.hessian + SEMISMOOTH_ROW
        calls = SEMISMOOTH_CALLS + SEMISMOOTH_FIRST * min(n, FIRST_ROWS)
        found.append(("semismooth-newton", n * of_row + SEMISMOOTH_FACTORS * costs.factor + calls))
    is_first = [is_small and name != "dual-ascent" and cost <= OF_VISITS for name, cost in found]
    return [(cost - OF_VISITS * first, name, cost) for (name, cost), first in zip(found, is_first, strict=True)]


def _why(problem: Problem, cost: float) -> str:
    return (
        f"{type(problem.loss).__name__} with an l2 penalty has a dual problem in {problem.n_rows:,} bounded variables "
        f"(about {1e-9 * cost:.2g} s)"
    )


def by_subgradients(problem: Problem | SubgradientProblem, why: str) -> Choice:
    """Return the method that takes subgradients: with a metric of its own where the projection onto the set suits one."""
    return Choice(as_method("hb" if problem.term.constraint.needs_floor else "adahb"), why)
