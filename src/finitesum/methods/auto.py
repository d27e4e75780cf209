"""The choice of a method for a problem: what `method="auto"` runs, and why.

Least squares in few columns are one step of Newton's method. With any other smooth loss and an elastic net, Newton's
method, lazy Newton, Newton-CG and, with an l1 penalty, Newton on working sets, for hinges that are rounded at their corner
dual ascent where rows are few, are compared by forecasts of their seconds
(`finitesum.methods.forecasts`); the driver changes to another one in mid-run where the first does worse than its forecast
(`finitesum.running.handover`). On sets that couple coordinates a run begins with accelerated gradients where these may be
as fast as Newton's method, which goes on where they are not (`finitesum.methods.set_forecasts`); on boxes and signs it is
compared with coordinate descent. Functions of batches with Hessians go to lazy Newton, or to Newton-CG where they have many
variables or are not convex; components that are objects or callables to A-CIAG where they have Hessians, and to SVRG, whose
step is safe without constants, where they have not. Smooth problems of several outputs have a Newton's method and, in many
variables, an L-BFGS of their own, and working sets with an l1 penalty; on sets they begin with accelerated gradients, and
Newton's method goes on. Losses with corners and an l2 penalty go to dual
ascent, semismooth Newton or, the hinge, interior points, whichever is likely to be fastest; with any other elastic net or
set to interior points, up to some thousand columns or, where penalty or set leave no column alone, rows, and the hinge to a
linear program on a box of more columns; other nonsmooth losses, and functions that give subgradients, to the adaptive
heavy ball, or to the heavy ball without a metric on a simplex or a half-space. Groups go to Newton's methods, too, on
working sets in many variables. Other penalties that are known by their prox go to full proximal gradients, whose steps are
looked for where the penalty or the loss is not convex.
"""

import math
from typing import Any

from finitesum.core.arrays import in_one_line
from finitesum.evaluation.outputs import loss_of
from finitesum.evaluation.row_products import sum_of_squares
from finitesum.evaluation.row_space import is_wide, nanoseconds_of_row_space
from finitesum.losses import Cornered, Hinge
from finitesum.methods import as_method, forecasts, set_forecasts
from finitesum.methods.base import INSTEAD, Alternative, Choice, Method, is_suited
from finitesum.methods.cost_model import costs_of, has_few_rows
from finitesum.methods.newton.class_ascent import is_worth_epochs
from finitesum.methods.newton.class_factor import nanoseconds_of_factor, nanoseconds_of_pass
from finitesum.methods.newton.interior_factors import MOST_WORK
from finitesum.methods.newton.interior_rows import goes_by_rows
from finitesum.methods.newton.kronecker_factors import is_whole_cheap
from finitesum.methods.newton.multinomial_newton import is_cheap
from finitesum.methods.rounds import with_or_without_barrier
from finitesum.methods.subproblems.quadratic_models import FEW_COORDINATES
from finitesum.problems.batches import Batches
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.finite_sum import AnyProblem, FiniteSum
from finitesum.problems.linear import Problem, n_numbers
from finitesum.problems.partitioned import is_parted

#: The most memory that the Hessian and its factor may take, in bytes.
MOST_BYTES = 4e9

#: A forecast by the fastest one, and the seconds, within which Newton's method is preferred: it reaches the last digits.
NEAR, SOON = 1.15, 0.02

#: Methods that are compared by forecasts and have no matrix of all columns, and those that share no threads.
NO_MATRIX = "newton-cg", "working-set-newton", "coordinate-descent", "dual-ascent"
WITHOUT_THREADS = "newton", "coordinate-descent", "dual-ascent"

#: Columns (of nonsmooth losses: or rows) up to which a matrix of that size is factored whatever it costs, and the numbers
#: that such a matrix may hold.
MATRIX_UP_TO, MOST_NUMBERS = 3000, 5e7

#: Columns up to which all are treated at once on a set that makes zeros, and with several outputs.
ALL_COLUMNS = 500

#: Variables of several outputs up to which the last digits of each are looked for; without an l2 penalty, which leaves
#: nothing to bound the condition, multiplications of a Hessian up to which they are, too.
FEW_OF_OUTPUTS, FEW_MULTIPLICATIONS = 100, 1e8

#: Variables of several outputs up to which all groups are treated at once.
FEW_OF_GROUPS = 1000

#: Variables of a function up to which its Hessians are computed: one costs about as many gradients as there are variables.
MOST_OF_FUNCTION = 500

#: Nanoseconds of a Hessian of classes and its factor up to which Newton's steps are preferred: they are few.
LITTLE = 2e5

#: Nanoseconds of a variable of several classes in a step of L-BFGS, and the part of a pass that those of all variables take
#: from which conjugate gradients, which work on fewer vectors, are preferred.
VECTORS, PART_OF_VECTORS = 12.0, 0.25

#: Passes of L-BFGS for classes, typical, less those of Newton's steps.
LBFGS_PASSES = 60.0

#: Passes, Hessians and factors of Newton's methods, typical of real data, and on sets the seconds of a Hessian from which
#: lazy Newton is taken.
NEWTON_PASSES, NEWTON_HESSIANS, NEWTON_FACTORS, MUCH_OF_HESSIAN = 10.0, 3.0, 8.0, 0.3

#: By how many times its forecast a run is late: see `finitesum.running.handover`, which is above this module.
LATE = 2.0

#: Seconds up to which calls take longer than numbers: below them Newton's method, with the fewest calls, is not compared.
FEW_CALLS = 0.002

#: Numbers, and nanoseconds of methods without kernels, up to which these are preferred to dual ascent: a process without
#: other kernels loads those of its visits and faces in more, and other processes wait for little.
FEW_NUMBERS, LOADING = 3e4, 2e7

#: Losses with corners, as measured on generated rows: steps of interior points, nanoseconds of a row in one beside its
#: Hessian, of a row and two columns where the rows are brought to a triangle, and of a column and two rows in a basis of
#: few rows' span; passes of dual ascent: (least, by the coupling of rows, to this power), the latter by the root of rows by
#: columns where they are fewer; gradients of semismooth Newton's whole run, factors, rows' Hessians, nanoseconds of a row
#: beside, those of its calls, and of each of the first rows, for steps on samples see no more.
INTERIOR_STEPS, INTERIOR_ROW, TRIANGLE, SPAN, DUAL_PASSES = 14.0, 800.0, 0.5, 0.1, (15.0, 25.0, 0.4)
SEMISMOOTH_GRADIENTS, SEMISMOOTH_FACTORS, SEMISMOOTH_HESSIANS, SEMISMOOTH_ROW = 60.0, 50.0, 2.0, 1000.0
SEMISMOOTH_CALLS, SEMISMOOTH_FIRST, FIRST_ROWS = 8e6, 2000.0, 20_000


def _for_nonsmooth(problem: Problem) -> Choice:
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
    by_steps = _by_subgradients(problem, f"{name} is nonsmooth")
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

    These are estimates, and the rank, but for few numbers, where methods without kernels come first. The matrices of
    interior points are of this order; without their fitting, dual ascent is left.
    """
    n, dim, costs, (least, by_coupling, power) = problem.n_rows, problem.dim, costs_of(problem), DUAL_PASSES
    is_small = n_numbers(problem.view) <= FEW_NUMBERS  # where all but dual ascent need no kernel
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
    is_first = [is_small and name != "dual-ascent" and cost <= LOADING for name, cost in found]
    return [(cost - LOADING * first, name, cost) for (name, cost), first in zip(found, is_first, strict=True)]


def _why(problem: Problem, cost: float) -> str:
    return (
        f"{type(problem.loss).__name__} with an l2 penalty has a dual problem in {problem.n_rows:,} bounded variables "
        f"(about {1e-9 * cost:.2g} s)"
    )


def _by_subgradients(problem: Problem | SubgradientProblem, why: str) -> Choice:
    """Return the method that takes subgradients: with a metric of its own where the projection onto the set suits one."""
    return Choice(as_method("hb" if problem.term.constraint.needs_floor else "adahb"), why)


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
        The method that a run was begun with, which is taken again where it is among those that are compared.

    Examples
    --------
    >>> problem = Problem.linear([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], alpha=0.1)
    >>> choose(problem).method.name
    'newton'
    """
    choice = _chosen(problem, tol, n_threads, begun)
    if isinstance(problem, Problem) and getattr(problem.rows, "is_elsewhere", False):
        return with_or_without_barrier(problem, choice, begun)
    return choice


def _chosen(problem: AnyProblem, tol: float, n_threads: int, begun: str) -> Choice:
    """Return the method that waits for all parts of the data in each round, where there are such."""
    if isinstance(problem, SubgradientProblem):
        return _by_subgradients(problem, "the functions are callables that give subgradients")
    if isinstance(problem, FiniteSum):
        return _for_components(problem)
    if problem.n_outputs > 1:
        return _for_outputs(problem, tol, begun)
    if not problem.loss.is_smooth():
        return _for_nonsmooth(problem)
    options: dict[str, Any] = {"n_threads": n_threads}
    if not problem.term.is_elastic_net:
        return _by_groups(problem, options) or _by_prox(problem)
    n, dim = problem.n_rows, problem.dim
    shape = f"{n:,} rows x {dim:,} columns"
    if not problem.convex:
        known = as_method("newton" if 16.0 * dim**2 <= MOST_BYTES else "fg")
        return Choice(known, f"{shape}: {type(problem.loss).__name__} is not convex, and no step of {known.name} raises F")
    if problem.is_smooth and problem.loss.d2_lipschitz() == 0.0 and dim <= MATRIX_UP_TO:
        return Choice(as_method("newton"), f"{shape}: a quadratic is one step of Newton's method")
    needs_no_kernel = not problem.term.has_l1 or dim <= FEW_COORDINATES
    if needs_no_kernel and _of_newton(problem) <= FEW_CALLS:
        return Choice(as_method("newton"), f"{shape}: few numbers are fitted to the last digits by Newton's method")
    if problem.is_constrained:
        return _for_set(problem, shape, options, tol, begun)
    return _by_forecast(problem, shape, options, tol, begun)


def _of_newton(problem: Problem) -> float:
    """Return about what Newton's steps cost, without their calls."""
    n, costs = problem.n_rows, costs_of(problem)
    return 1e-9 * (n * (costs.gradient * NEWTON_PASSES + costs.hessian * NEWTON_HESSIANS) + costs.factor * NEWTON_FACTORS)


def _by_forecast(problem: Problem, shape: str, options: dict[str, Any], tol: float, begun: str) -> Choice:
    """Return the method that is likely to be the fastest, and the others, for points to go on from."""
    seconds, features = {}, forecasts.features_of(problem, tol)
    for name in forecasts.known_methods(problem):
        is_small = 16.0 * problem.dim**2 <= MOST_BYTES or (name == "newton" and has_few_rows(problem))
        if name in NO_MATRIX or is_small:
            seconds[name] = forecasts.forecast(name, problem, tol, features)
    rank = dict(seconds)
    if "dual-ascent" in seconds:  # on such rows it is the faster of the two, which the forecasts know less well
        rank["dual-ascent"] = min(seconds["dual-ascent"], seconds["newton-cg"])
    others = sorted(seconds, key=lambda name: (rank[name], name))
    first = "newton" if seconds.get("newton", math.inf) <= min(NEAR * seconds[others[0]], SOON) else others[0]
    others.remove(first := begun if begun in seconds else first)
    likely = ", ".join(f"{name} {seconds[name]:.2g} s" for name in (first, *others))
    found = [Alternative(_going_on(name, problem, options), seconds[name]) for name in others]
    method = as_method(first, options if first not in WITHOUT_THREADS else None)
    start = forecasts.traits_of(problem).optimality
    why = "the fastest by its forecast" if rank[first] == seconds[first] else "faster on such rows than its forecast"
    return Choice(method, f"{shape}: {why} ({likely})", seconds[first], start, tuple(found))


def _going_on(name: str, problem: Problem, options: dict[str, Any]) -> Method:
    """Return a method that starts with all rows: from a point that samples would lead away from."""
    if name in WITHOUT_THREADS:
        return as_method(name)
    return as_method(name, options if name == "working-set-newton" else options | {"first_rows": problem.n_rows})


def _for_set(problem: Problem, shape: str, options: dict[str, Any], tol: float, begun: str) -> Choice:
    """Return the method for a smooth loss on a set, and what goes on where accelerated gradients turn out to be slow.

    Where columns have intervals of their own, coordinate descent is compared, too, and gradients are not.
    """
    features, by_columns = forecasts.features_of(problem, tol), is_suited(as_method("coordinate-descent"), problem)
    has_matrix = 16.0 * problem.dim**2 <= MOST_BYTES if problem.n_outputs == 1 else problem.dim <= MATRIX_UP_TO
    makes_zeros = (by_columns or problem.term.constraint.makes_zeros) and problem.dim > ALL_COLUMNS
    names = [*["newton"] * has_matrix, *["coordinate-descent"] * by_columns]
    names += ["working-set-newton"] * (makes_zeros and not by_columns and problem.n_outputs == 1)
    seconds = {name: set_forecasts.forecast(name, problem, features) for name in names}
    best, likely = min(seconds, key=lambda name: seconds[name], default=""), min(seconds.values(), default=math.inf)
    accelerated = as_method("afg")
    gradients = set_forecasts.forecast("afg", problem, features)
    is_tried = not by_columns and is_suited(accelerated, problem) and gradients <= set_forecasts.WORTH_TRYING * likely
    if (is_tried and begun in ("", "afg")) or not best:
        later = (Alternative(_on_set(best, problem, options), likely),) if best else ()
        tried = min(gradients, set_forecasts.TRIED * likely) / LATE
        why = f"{shape}, on a set: accelerated gradients (about {gradients:.2g} s)" + f", then {best}" * bool(best)
        return Choice(accelerated, why, tried, forecasts.traits_of(problem).optimality, later)
    found = ", ".join(f"{name} {cost:.2g} s" for name, cost in sorted(seconds.items(), key=lambda item: item[1]))
    others: tuple[Alternative, ...] = ()
    if best == "coordinate-descent" and has_matrix:
        others = (Alternative(_on_set("newton", problem, options), seconds["newton"]),)
    elif not by_columns and is_suited(accelerated, problem):
        others = (Alternative(accelerated, set_forecasts.UNSURE * gradients),)
    start = forecasts.traits_of(problem).optimality
    why = f"{shape}, on a set: the fastest by its forecast ({found})"
    return Choice(_on_set(best, problem, options), why, likely, start, others)


def _on_set(name: str, problem: Problem, options: dict[str, Any]) -> Method:
    """Return a method of Newton's kind for a set: where Hessians are expensive, one that shares or saves them."""
    if name == "newton":
        of_hessian = 1e-9 * problem.n_rows * costs_of(problem).hessian
        saves = of_hessian > MUCH_OF_HESSIAN and is_suited(as_method("lazy-newton"), problem)
        return as_method("lazy-newton", options) if saves else as_method(name)
    return as_method(name, options if name == "working-set-newton" else None)


def _by_groups(problem: Problem, options: dict[str, Any]) -> Choice | None:
    """Return the method for groups of a model with one output or several, None where the penalty is another."""
    if "groups" not in problem.term.demands:
        return None
    why, dim = f"groups in {problem.dim:,} variables, of which Newton's steps", problem.dim
    if dim <= ALL_COLUMNS or (problem.n_outputs > 1 and dim <= FEW_OF_GROUPS):
        is_long = problem.n_outputs == 1 and problem.convex and _of_newton(problem) > FEW_CALLS
        known = as_method("lazy-newton", options) if is_long else as_method("newton")
        return Choice(known, f"{why} take all")
    known = as_method("working-set-newton", options) if problem.n_outputs == 1 else as_method("multinomial-working-set")
    fits = 16.0 * dim**2 <= MOST_BYTES  # a solution of several outputs may need them all
    if problem.convex and is_suited(known, problem) and (fits or problem.n_outputs == 1):
        return Choice(known, f"{why} take those that a sparse solution needs")
    return Choice(as_method("newton"), f"{why} take all") if fits else None


def _by_prox(problem: Problem | FiniteSum) -> Choice:
    """Return the method for a penalty of which the prox is all that is known."""
    for is_convex, what in ((problem.term.is_convex, "penalty"), (problem.convex, "loss")):
        if not is_convex:
            return Choice(as_method("fg"), f"the {what} is not convex: proximal gradients find a stationary point")
    why = "the penalty is known by its prox"
    if math.isfinite(problem.loss.curvature_bound()):
        return Choice(as_method("afg"), f"{why}: accelerated proximal gradients")
    return Choice(as_method("acc-svrg"), f"{why}, and the loss has no bound on its curvature: a step that adapts")


def _is_short(problem: Problem) -> bool:
    """Return whether Newton's steps in the span of few rows are likely to take less time than L-BFGS."""
    if not loss_of(problem).ignores_shifts() or not is_wide(problem):
        return False
    once = nanoseconds_of_row_space(problem)
    of_steps = NEWTON_PASSES * (nanoseconds_of_factor(problem, problem.n_rows) - once)
    return bool(once + of_steps <= LBFGS_PASSES * nanoseconds_of_pass(problem, is_single=False))


def _is_text(problem: Problem) -> bool:
    """Return whether conjugate gradients are the fastest for classes: wide sparse rows that are too few for dual ascent."""
    if not problem.rows.is_sparse() or is_parted(problem) or not loss_of(problem).ignores_shifts():
        return False
    of_vectors = VECTORS * problem.dim
    is_wide = of_vectors >= PART_OF_VECTORS * nanoseconds_of_pass(problem, is_single=False)
    return is_wide and not is_cheap(problem) and not is_whole_cheap(problem) and not is_worth_epochs(problem)


def _for_outputs(problem: Problem, tol: float, begun: str) -> Choice:
    """Return the method for several outputs."""
    what = f"{problem.n_outputs} outputs at once"
    if problem.is_constrained:
        is_quadratic = problem.loss.d2_lipschitz() == 0.0 and problem.dim <= ALL_COLUMNS
        if is_quadratic or (problem.dim <= ALL_COLUMNS and _of_newton(problem) <= FEW_CALLS):
            return Choice(as_method("newton"), f"{what}, in {problem.dim:,} variables, on a set")
        return _for_set(problem, f"{what}, in {problem.dim:,} variables", {}, tol, begun)
    if problem.is_smooth and not problem.term.has_weights:
        is_loose = not problem.term.ridge > 0.0 and problem.dim <= ALL_COLUMNS
        is_few = problem.dim <= FEW_OF_OUTPUTS or (is_loose and problem.n_rows * problem.dim**2 <= FEW_MULTIPLICATIONS)
        has_many_rows = loss_of(problem).ignores_shifts() and nanoseconds_of_factor(problem, problem.n_rows) > LITTLE
        if _is_short(problem):
            reason = f"{what}, in {problem.dim:,} variables: a Hessian in the span of {problem.n_rows:,} rows is small"
            return Choice(as_method("multinomial-newton", {"solver": "exact"}), reason)
        if _is_text(problem) and problem.term.ridge > 0.0:
            reason = f"{what}, in {problem.dim:,} variables: passes over few entries cost less than other vectors"
            return Choice(as_method("multinomial-newton", {"solver": "cg"}), reason)
        if has_many_rows and (problem.term.ridge > 0.0 or not is_few):
            reason = f"{what}, in {problem.dim:,} variables: a Hessian is made where steps become many"
            return Choice(as_method("multinomial-lbfgs"), reason)
        if not is_few and is_cheap(problem):
            return Choice(as_method("multinomial-newton"), f"{what}, in {problem.dim:,} variables, which a Hessian fits")
        if not is_few:
            return Choice(as_method("multinomial-lbfgs"), f"{what}: too many variables for a Hessian of all")
    if (of_groups := _by_groups(problem, {})) is not None:
        return of_groups
    if not problem.term.is_elastic_net:
        saga = as_method("saga")
        reason = f"{what}, and a penalty that is known by its prox"
        return Choice(saga, reason) if is_suited(saga, problem) else _by_prox(problem)
    if not problem.is_smooth or problem.term.has_weights:
        what += " with an l1 penalty" if problem.term.has_l1 else " with penalty weights"
    if problem.dim <= ALL_COLUMNS:
        return Choice(as_method("newton"), f"{what}, in {problem.dim:,} variables")
    working_set = as_method("multinomial-working-set")
    if is_suited(working_set, problem):
        return Choice(working_set, f"{what}, in {problem.dim:,} variables, of which a sparse solution needs few")
    return Choice(as_method("saga"), f"{what}: too many variables for a Hessian")


def _for_components(problem: FiniteSum) -> Choice:
    """Return the method for components that are objects or callables."""
    if not problem.term.is_convex:
        return _by_prox(problem)
    has_hessians = all(problem.has_hessian(j) for j in range(problem.n_components))
    if has_hessians and isinstance(problem.components, Batches):
        return _for_batches(problem)
    if has_hessians and 16.0 * problem.dim**2 <= MOST_BYTES:
        return Choice(as_method("a-ciag"), "components with second derivatives: few passes, and no constants are needed")
    why = f"a Hessian of {problem.dim:,} x {problem.dim:,}" if has_hessians else "components without second derivatives"
    return Choice(as_method("acc-svrg" if problem.is_constrained else "svrg"), f"{why}: gradients alone, from snapshots")


def _for_batches(problem: FiniteSum) -> Choice:
    """Return the method for a function of batches with second derivatives: sums over all of them take few calls."""
    newton_cg, shape = as_method("newton-cg"), f"a function of {problem.dim:,} variables"
    if is_suited(newton_cg, problem) and (problem.dim > MOST_OF_FUNCTION or not problem.convex):
        return Choice(newton_cg, f"{shape}: products with Hessians, in a trust region")
    if 16.0 * problem.dim**2 <= MOST_BYTES and is_suited(lazy_newton := as_method("lazy-newton"), problem):
        return Choice(lazy_newton, f"{shape}: few Hessians, on growing samples")
    return Choice(as_method("acc-svrg"), f"{shape}: a Hessian does not fit")
