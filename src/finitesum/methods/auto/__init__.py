"""The choice of a method for a problem: what `method="auto"` runs, and why.

Least squares in few columns are one step of Newton's method, or products where these are likely to take less than a
factor. With any other smooth loss and an elastic net, Newton's method, lazy Newton, Newton-CG, L-BFGS where dense columns
hardly depend on each other, with an l1 penalty coordinate descent and Newton on working sets, and for hinges that are
rounded at their corner dual ascent where rows are few, are compared by forecasts of their seconds
(`finitesum.methods.forecasts`); the driver changes to another one in
mid-run where the first does worse than its forecast (`finitesum.running.handover`). On sets that couple coordinates a
run begins with accelerated gradients where these may be as fast as Newton's method, which goes on where they are not
(`finitesum.methods.set_forecasts`); on boxes and signs it is compared with coordinate descent. Functions of batches
with Hessians go to lazy Newton, or to Newton-CG where they have many variables or are not convex; components that are
objects or callables to A-CIAG where they have Hessians, and to SVRG, whose step is safe without constants, where they
have not. Classes with an l2 penalty go to L-BFGS or to Newton's method of their own, with a factor or by conjugate
gradients, whichever is likely to be fastest, and change as other smooth losses do; several targets, and classes without
a penalty, to these two by the size of a Hessian; several outputs with an l1 penalty to working sets; on sets working
sets or, where these have none, Newton's method, or they begin with accelerated gradients where the columns' eigenvalues
and the digits that are asked for say that these may be faster. Losses with corners and an l2 penalty go to dual ascent,
semismooth Newton or interior points, whichever is likely to be fastest; with any other elastic net or set to interior
points, up to some thousand columns or, where penalty or set leave no column alone, rows, and the hinge to a linear
program on a box of more columns; other nonsmooth losses, and functions that give subgradients, to the adaptive heavy
ball, or to the heavy ball without a metric on a simplex or a half-space. Groups go to Newton's methods, too, on working
sets in many variables. Other penalties that are known by their prox go to full proximal gradients, whose steps are
looked for where the penalty or the loss is not convex.
"""

import math
from typing import Any

from finitesum.core.threads import limited_blas
from finitesum.methods import as_method, forecasts
from finitesum.methods.auto.components import for_components
from finitesum.methods.auto.corner_costs import IN_ARRAYS
from finitesum.methods.auto.corners import by_subgradients, for_corners
from finitesum.methods.auto.outputs import for_outputs
from finitesum.methods.auto.penalties import by_groups, by_prox
from finitesum.methods.auto.sets import for_set
from finitesum.methods.auto.sizes import FEW_CALLS, LATE as LATE, MATRIX_UP_TO, MOST_BYTES, of_newton
from finitesum.methods.base import Alternative, Choice, Method
from finitesum.methods.cost_model import costs_of, has_few_rows
from finitesum.methods.newton import dual_arrays
from finitesum.methods.rounds import with_or_without_barrier
from finitesum.methods.subproblems.model_descent import FEW_COORDINATES
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.finite_sum import AnyProblem, FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import n_entries
from finitesum.problems.used_columns import in_used_columns

#: A forecast by the fastest one, and the seconds, within which Newton's method is preferred: it reaches the last digits.
NEAR, SOON = 1.15, 0.02

#: Rows by columns up to which dual ascent is taken for rounded corners, whatever is forecast: in 315 draws it took at most
#: 2.3 times as long as Newton's method by conjugate gradients, 0.8 times in the middle, which took up to 20 times as long.
#: (Newton's steps in the span of few rows are forecast well: it took up to 30 times as long as these, in 37 draws.)
SURE = 1.5

#: Stored entries up to which dual ascent treats rounded corners however weakly rows are coupled, if there is machine code
#: for it: in 138 draws it took 0.4 to 1.4 times as long as Newton's method by conjugate gradients, 0.8 in the middle.
FEW_ENTRIES = 1e5

#: Passes that each of several targets takes beside the factor that they share.
OWN_PASSES = 3.0

#: Methods that are compared by forecasts and have no matrix of all columns, and those that share no threads.
NO_MATRIX = "newton-cg", "lbfgs", "working-set-newton", "coordinate-descent", "dual-ascent"
WITHOUT_THREADS = "newton", "coordinate-descent", "dual-ascent"


def choose(problem: AnyProblem, tol: float = 1e-10, n_threads: int = 1, begun: str = "") -> Choice:
    """Return the method that suits a problem best.

    Parameters
    ----------
    problem : Problem, FiniteSum or SubgradientProblem
    tol : float >= 0
        The optimality that will be asked for.
    n_threads : int >= 1
        Threads that the method may use, where it can use several.
    begun : str
        The method that a run was begun with, by its name and solver, which is taken again where it is among those that are
        compared.

    Examples
    --------
    >>> problem = Problem.linear([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], alpha=0.1)
    >>> choose(problem).method.name
    'newton'
    """
    if isinstance(problem, Problem) and (used := in_used_columns(problem)) is not None:
        problem = used.problem  # which runs are on
    with limited_blas(1):  # products of vectors alone
        choice = _chosen(problem, tol, n_threads, begun)
    if isinstance(problem, Problem) and getattr(problem.rows, "is_elsewhere", False):
        return with_or_without_barrier(problem, choice, begun)
    return choice


def _chosen(problem: AnyProblem, tol: float, n_threads: int, begun: str) -> Choice:
    """Return the method that waits for all parts of the data in each round, where there are such."""
    if isinstance(problem, SubgradientProblem):
        return by_subgradients(problem, "the functions are callables that give subgradients")
    if isinstance(problem, FiniteSum):
        return for_components(problem)
    if problem.n_outputs > 1:
        return for_outputs(problem, tol, begun)
    if not problem.loss.is_smooth():
        return for_corners(problem, tol, begun)
    options: dict[str, Any] = {"n_threads": n_threads}
    if not problem.term.is_elastic_net:
        return by_groups(problem, options) or by_prox(problem)
    n, dim = problem.n_rows, problem.dim
    shape = f"{n:,} rows x {dim:,} columns"
    if not problem.convex:
        known = as_method("newton" if 16.0 * dim**2 <= MOST_BYTES else "fg")
        return Choice(known, f"{shape}: {type(problem.loss).__name__} is not convex, and no step of {known.name} raises F")
    if problem.is_smooth and problem.has_quadratic_loss and dim <= MATRIX_UP_TO:
        return _for_quadratic(problem, shape, options, tol, begun)
    needs_no_kernel = not problem.term.has_l1 or dim <= FEW_COORDINATES
    if needs_no_kernel and of_newton(problem) <= FEW_CALLS:
        return Choice(as_method("newton"), f"{shape}: few numbers are fitted to the last digits by Newton's method")
    if problem.is_constrained:
        return for_set(problem, shape, options, tol, begun)
    return _by_forecast(problem, shape, options, tol, begun)


def _for_quadratic(problem: Problem, shape: str, options: dict[str, Any], tol: float, begun: str) -> Choice:
    """Return one step of Newton's method, or conjugate gradients where a factor is likely to take longer."""
    by_one_step = Choice(as_method("newton"), f"{shape}: a quadratic is one step of Newton's method")
    costs = costs_of(problem)
    if 1e-9 * (problem.n_rows * costs.hessian + costs.factor) / problem.n_sharing <= FEW_CALLS or is_parted(problem):
        return by_one_step
    features = forecasts.features_of(problem, tol)
    of_step = forecasts.forecast("newton", problem, tol, features)
    if problem.n_sharing > 1:
        own = 1e-9 * (OWN_PASSES * problem.n_rows * costs.gradient + 2.0 * problem.dim**2)
        of_step = of_step / problem.n_sharing + own
    of_products = forecasts.forecast("newton-cg", problem, tol, features)
    if begun == "newton" or (of_step <= of_products and begun != "newton-cg"):
        return by_one_step
    why = f"{shape}: products are likely to take less time than a factor ({of_products:.2g} s, {of_step:.2g} s)"
    start = forecasts.traits_of(problem).optimality
    return Choice(as_method("newton-cg", options), why, of_products, start, (Alternative(as_method("newton"), of_step),))


def _by_forecast(problem: Problem, shape: str, options: dict[str, Any], tol: float, begun: str) -> Choice:
    """Return the method that is likely to be the fastest, and the others, for points to go on from."""
    seconds, features, names = {}, forecasts.features_of(problem, tol), forecasts.known_methods(problem)
    stand_in = "dual-ascent" in names and dual_arrays.stand_in(problem)
    can_visit = "dual-ascent" in names and not stand_in
    suits_visits = can_visit and (forecasts.is_coupled(problem) or _has_quick_visits(problem))
    begins_so = problem.rows.is_sparse() and not problem.has_intercept  # newton-cg, with visits
    if begins_so and not suits_visits and begun != "dual-ascent":
        names = [name for name in names if name != "dual-ascent"]
    for name in names:
        is_small = 16.0 * problem.dim**2 <= MOST_BYTES or (name == "newton" and has_few_rows(problem))
        if name in NO_MATRIX or is_small:
            seconds[name] = forecasts.forecast(name, problem, tol, features)
    if stand_in and "dual-ascent" in seconds:
        seconds["dual-ascent"] *= IN_ARRAYS
    rank, is_sure = dict(seconds), False
    by_rows = has_few_rows(problem) and suits_visits and seconds["newton"] < seconds["dual-ascent"]
    if suits_visits and not by_rows:  # which its own forecast knows less well
        rank["dual-ascent"] = min(seconds["dual-ascent"], seconds["newton-cg"])
        is_sure = problem.n_rows <= SURE * problem.dim  # rows at corners are likely to be no more than columns
    others = sorted(seconds, key=lambda name: (rank[name], name))
    first = "newton" if seconds.get("newton", math.inf) <= min(NEAR * seconds[others[0]], SOON) else others[0]
    first = "newton" if by_rows else "dual-ascent" if is_sure else first
    others.remove(first := begun if begun in seconds else first)
    if suits_visits:  # what Newton's steps are too many for, corners, they were made for
        others.sort(key=lambda name: name != "dual-ascent")
    likely = ", ".join(f"{name} {seconds[name]:.2g} s" for name in (first, *others))
    found = [Alternative(_going_on(name, problem, options), rank[name]) for name in others]
    method = as_method(first, options if first not in WITHOUT_THREADS else None)
    start = forecasts.traits_of(problem).optimality
    is_fastest = seconds[first] == min(seconds.values())
    why = "the fastest by its forecast" if is_fastest else "faster on such rows than its forecast"
    return Choice(method, f"{shape}: {why} ({likely})", seconds[first], start, tuple(found))


def _has_quick_visits(problem: Problem) -> bool:
    """Return whether visits of all rows take next to no time."""
    return n_entries(problem.rows) <= FEW_ENTRIES and dual_arrays.have_machine_code(problem)


def _going_on(name: str, problem: Problem, options: dict[str, Any]) -> Method:
    """Return a method that starts with all rows: from a point that samples would lead away from."""
    if name in WITHOUT_THREADS:
        return as_method(name)
    return as_method(name, options if name == "working-set-newton" else options | {"first_rows": problem.n_rows})
