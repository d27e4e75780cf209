"""The choice of a method for several outputs: classes, or several targets."""

from finitesum.evaluation.outputs import loss_of
from finitesum.evaluation.row_space import is_wide
from finitesum.methods import as_method, forecasts
from finitesum.methods.auto.penalties import by_groups, by_prox
from finitesum.methods.auto.sets import for_set
from finitesum.methods.auto.sizes import ALL_COLUMNS, FEW_CALLS, MOST_BYTES, of_newton
from finitesum.methods.base import Alternative, Choice, Method, is_suited
from finitesum.methods.class_costs import (
    is_cheap,
    is_worth_epochs,
    is_worth_span,
    nanoseconds_of_factor,
    nanoseconds_of_pass,
)
from finitesum.methods.cost_model import are_squares_of_outputs, costs_of
from finitesum.methods.set_forecasts import SORTING
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import n_entries

#: Variables of several outputs up to which the last digits of each are looked for; without an l2 penalty, which leaves
#: nothing to bound the condition, multiplications of a Hessian up to which they are, too.
FEW_OF_OUTPUTS, FEW_MULTIPLICATIONS = 100, 1e8

#: Stored entries of sparse rows up to which forecasts of conjugate gradients hold where columns are more than rows: beyond,
#: they are left out where SDCA is worth its epochs, with which L-BFGS begins (the 20 classes of raw counts of news20, 1.3
#: million entries, need thousands of products).
MOST_SEEN = 1e6

#: Passes that L-BFGS takes for several targets with the squared loss, about.
USUAL_PASSES = 30.0

#: The methods. With few rows Newton's steps are in their span: there conjugate gradients were the fastest method on all of
#: 50 random problems, factors that take little apart.
EXACT, BY_PRODUCTS, LBFGS = "multinomial-newton exact", "multinomial-newton cg", "multinomial-lbfgs"

#: Nanoseconds of a Hessian of classes and its factor up to which Newton's steps are preferred: they are few.
LITTLE = 2e5


def with_label(label: str) -> Method:
    """Return the method that has this label: see `finitesum.methods.base.label_of`.

    Examples
    --------
    >>> with_label("multinomial-newton cg").solver
    'cg'
    """
    name, _, solver = label.partition(" ")
    return as_method(name, {"solver": solver} if solver else None)


def _has_forecasts(problem: Problem) -> bool:
    """Return whether methods are compared by forecasts: for classes with an l2 penalty on rows in memory."""
    return loss_of(problem).ignores_shifts() and problem.term.ridge > 0.0 and not is_parted(problem)


def _by_forecast(problem: Problem, what: str, tol: float, begun: str) -> Choice:
    """Return the method that is likely to be the fastest, and the others, for points to go on from."""
    has_span = is_worth_span(problem)
    is_little = (has_span or not is_wide(problem)) and nanoseconds_of_factor(problem, problem.n_rows) <= LITTLE
    last = (Alternative(with_label(LBFGS), 0.0),) if has_span else ()  # where steps end, or are too many
    if is_little and begun in ("", EXACT):
        reason = f"{what}: few numbers are fitted to the last digits by Newton's method"
        return Choice(with_label(EXACT), reason, others=last)
    if has_span and begun in ("", BY_PRODUCTS):
        reason = f"{what}, in {problem.dim:,} variables: conjugate gradients in the span of {problem.n_rows:,} rows"
        return Choice(with_label(BY_PRODUCTS), reason, others=last)
    features = forecasts.features_of(problem, tol)
    seconds = {name: forecasts.forecast(name, problem, tol, features) for name in forecasts.known_methods(problem)}
    others = sorted(seconds, key=lambda name: (seconds[name], name))
    if n_entries(problem.rows) > MOST_SEEN and problem.n_rows < problem.rows.n_columns and is_worth_epochs(problem):
        others = [name for name in others if name != BY_PRODUCTS or name == begun]
    others.remove(first := begun if begun in seconds else others[0])
    likely = ", ".join(f"{name} {seconds[name]:.2g} s" for name in (first, *others))
    found = tuple(Alternative(with_label(name), seconds[name]) for name in others)
    why = (
        "the fastest by its forecast"
        if seconds[first] == min(seconds.values())
        else "faster than others where their forecasts fail"
    )
    why = "so the run was begun" if first == begun else why
    reason = f"{what}, in {problem.dim:,} variables: {why} ({likely})"
    return Choice(with_label(first), reason, seconds[first], forecasts.traits_of(problem).optimality, found)


def _is_worth_a_system(problem: Problem) -> bool:
    """Return whether the rows' Hessian and its factor take less than the passes that L-BFGS is likely to need."""
    costs, most = costs_of(problem.one_output), USUAL_PASSES * nanoseconds_of_pass(problem, is_single=False)
    is_small = 16.0 * problem.one_output.dim**2 <= MOST_BYTES
    return is_small and problem.n_rows * costs.hessian + costs.factor <= max(1e9 * FEW_CALLS, most)


def for_outputs(problem: Problem, tol: float, begun: str) -> Choice:
    """Return the method for several outputs."""
    what = f"{problem.n_outputs} outputs at once"
    if problem.is_constrained:
        sorts = problem.term.constraint.boundary in SORTING  # where working sets are small
        is_quadratic = problem.has_quadratic_loss and problem.dim <= ALL_COLUMNS and not sorts
        if is_quadratic or (problem.dim <= ALL_COLUMNS and of_newton(problem) <= FEW_CALLS):
            return Choice(as_method("newton"), f"{what}, in {problem.dim:,} variables, on a set")
        return for_set(problem, f"{what}, in {problem.dim:,} variables", {}, tol, begun)
    if are_squares_of_outputs(problem) and _is_worth_a_system(problem):
        return Choice(
            as_method("newton"), f"{what}: a quadratic is one step of Newton's method, by one Hessian of the rows"
        )
    if problem.is_smooth and not problem.term.has_weights:
        is_loose = not problem.term.ridge > 0.0 and problem.dim <= ALL_COLUMNS
        is_few = problem.dim <= FEW_OF_OUTPUTS or (is_loose and problem.n_rows * problem.dim**2 <= FEW_MULTIPLICATIONS)
        if _has_forecasts(problem):
            return _by_forecast(problem, what, tol, begun)
        is_slow = loss_of(problem).ignores_shifts() and nanoseconds_of_factor(problem, problem.n_rows) > LITTLE
        if is_slow and (problem.term.ridge > 0.0 or not is_few):
            reason = f"{what}, in {problem.dim:,} variables: a Hessian is made where steps become many"
            return Choice(as_method(LBFGS), reason)
        if not is_few and is_cheap(problem):
            return Choice(as_method("multinomial-newton"), f"{what}, in {problem.dim:,} variables, which a Hessian fits")
        if not is_few:
            return Choice(as_method(LBFGS), f"{what}: too many variables for a Hessian of all")
    if (of_groups := by_groups(problem, {})) is not None:
        return of_groups
    if not problem.term.is_elastic_net:
        saga = as_method("saga")
        reason = f"{what}, and a penalty that is known by its prox"
        return Choice(saga, reason) if is_suited(saga, problem) else by_prox(problem)
    if not problem.is_smooth or problem.term.has_weights:
        what += " with an l1 penalty" if problem.term.has_l1 else " with penalty weights"
    if problem.dim <= ALL_COLUMNS:
        return Choice(as_method("newton"), f"{what}, in {problem.dim:,} variables")
    working_set = as_method("multinomial-working-set")
    if is_suited(working_set, problem):
        return Choice(working_set, f"{what}, in {problem.dim:,} variables, of which a sparse solution needs few")
    return Choice(as_method("saga"), f"{what}: too many variables for a Hessian")
