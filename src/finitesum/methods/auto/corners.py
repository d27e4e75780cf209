"""The choice of a method for losses with corners: the hinge, absolute values, quantiles, intervals."""

import math
from typing import Any

from finitesum.core.arrays import in_one_line
from finitesum.losses import Cornered, Hinge
from finitesum.methods import as_method
from finitesum.methods.auto.corner_costs import program_is_faster, seconds_of
from finitesum.methods.auto.sizes import MATRIX_UP_TO, MOST_BYTES, MOST_NUMBERS
from finitesum.methods.base import INSTEAD, Alternative, Choice, is_suited
from finitesum.methods.newton.interior_columns import takes_columns, working_sets_fit
from finitesum.methods.newton.interior_rows import goes_by_rows
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.view import n_numbers

#: The largest order of a matrix of interior points, which may take minutes: where nothing else ends.
MOST_ORDER = math.sqrt(MOST_BYTES / 16.0)


def for_corners(problem: Problem, tol: float, begun: str = "") -> Choice:
    name, dim, term = type(problem.loss).__name__, problem.dim, problem.term
    _require_elastic_net(problem)
    exact, smaller = as_method("interior-point"), min(dim, problem.n_rows)
    order, fits = matrices_of(problem)
    is_large = not fits or order > MATRIX_UP_TO
    is_hinge, on_planes = isinstance(problem.loss, Hinge), term.constraint.boundary == "planes"
    has_ridge = is_suited(as_method("semismooth-newton"), problem)
    seconds = seconds_of(problem, tol, order, fits=fits and order <= MOST_ORDER) if has_ridge else {}
    suited = (name for name in seconds if is_suited(as_method(name), problem))
    if known := sorted(suited, key=lambda name: (seconds[name], name)):
        first = "dual-ascent" if is_large and "dual-ascent" in known else known[0]
        best = begun if begun in known else first
        others = [name for name in known if name != best][: best == "dual-ascent"]
        going_on = tuple(Alternative(as_method(name), seconds[name]) for name in others)
        return Choice(as_method(best), _why(problem, seconds[best]), seconds[best], others=going_on)
    linear_program = as_method("linear-program")
    if is_suited(linear_program, problem):
        if on_planes and not is_suited(exact, problem):
            return Choice(linear_program, f"{name} on a polyhedron without interior points is a linear program")
        if order <= MOST_ORDER and program_is_faster(problem, order):
            reason = f"{name} with this penalty and set is a linear program, of sparse rows"
            instead = (Alternative(exact, math.inf),) if is_suited(exact, problem) and fits else ()
            return Choice(linear_program, reason, others=instead)
    if isinstance(problem.loss, Cornered) and not is_suited(exact, problem) and (on_planes or not is_hinge):
        raise ValueError(
            f"{name} has exact methods on the sets of the library, on a polyhedron without interior points for rows in "
            f"memory without an l2 penalty alone, got {in_one_line(term.constraint)} with {in_one_line(term.penalty)}. Set "
            'alpha = 0, give another set, or name a method that approaches the minimum slowly: method="hb".'
        )
    kind = "quadratic" if term.ridge > 0.0 or term.constraint.boundary == "l2-norm" else "linear"
    by_program = Choice(exact, f"{name} with this penalty and set is a {kind} program")
    if is_suited(exact, problem) and takes_columns(problem) and working_sets_fit(problem):
        return Choice(exact, f"{name} with an l1 penalty is a {kind} program on working sets of columns")
    is_exact = is_suited(exact, problem) and fits
    if is_exact and order <= MATRIX_UP_TO:
        return by_program
    if is_parted(problem) and is_suited(exact, problem) and not (fits and order <= MOST_ORDER):
        raise ValueError(
            f"{name} on rows in parts has exact methods up to some {MATRIX_UP_TO:,} columns, got {dim:,}: take a smooth "
            "loss, or a problem in memory, by Problem.linear."
        )
    by_steps = by_subgradients(problem, f"{name} is nonsmooth")
    if is_exact and order <= MOST_ORDER and not is_suited(by_steps.method, problem):
        return by_program
    if fits and smaller <= MATRIX_UP_TO and is_suited(linear_program, problem):
        return Choice(linear_program, f"{name} on this set is a linear program in many columns")
    return by_steps


def matrices_of(problem: Problem) -> tuple[int, bool]:
    """Return the order of the matrices of interior points, and whether numbers in memory do not forbid them."""
    dim, term = problem.dim, problem.term
    smaller = order = min(dim, problem.n_rows)
    if term.is_constrained or term.has_l1 or term.has_weights:  # no span of rows holds the solution
        order = dim + (dim if term.constraint.boundary == "l1-norm" else 0)
    if order >= dim and is_suited(as_method("interior-point"), problem) and goes_by_rows(problem):  # a matrix of the rows
        return problem.n_rows, n_numbers(problem.view) <= MOST_NUMBERS
    return order, dim * smaller <= MOST_NUMBERS


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


def _why(problem: Problem, seconds: float) -> str:
    return (
        f"{type(problem.loss).__name__} with an l2 penalty has a dual problem in {problem.n_rows:,} bounded variables "
        f"(about {seconds:.2g} s)"
    )


def by_subgradients(problem: Problem | SubgradientProblem, why: str) -> Choice:
    """Return the method that takes subgradients: with a metric of its own where the projection onto the set suits one."""
    return Choice(as_method("hb" if problem.term.constraint.needs_floor else "adahb"), why)
