"""The choice of a method for several outputs: classes, or several targets."""

from finitesum.evaluation.outputs import loss_of
from finitesum.evaluation.row_space import is_wide, nanoseconds_of_row_space
from finitesum.methods import as_method
from finitesum.methods.auto.penalties import by_groups, by_prox
from finitesum.methods.auto.sets import for_set
from finitesum.methods.auto.sizes import ALL_COLUMNS, FEW_CALLS, NEWTON_PASSES, of_newton
from finitesum.methods.base import Choice, is_suited
from finitesum.methods.newton.class_ascent import is_worth_epochs
from finitesum.methods.newton.class_factor import nanoseconds_of_factor, nanoseconds_of_pass
from finitesum.methods.newton.kronecker_factors import is_whole_cheap
from finitesum.methods.newton.multinomial_newton import is_cheap
from finitesum.methods.set_forecasts import SORTING
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import n_entries

#: Variables of several outputs up to which the last digits of each are looked for; without an l2 penalty, which leaves
#: nothing to bound the condition, multiplications of a Hessian up to which they are, too.
FEW_OF_OUTPUTS, FEW_MULTIPLICATIONS = 100, 1e8

#: Nanoseconds of a Hessian of classes and its factor up to which Newton's steps are preferred: they are few.
LITTLE = 2e5

#: Stored entries of sparse rows up to which conjugate gradients were measured: beyond, dual ascent of classes and L-BFGS
#: come first where it is worth its epochs (the 20 classes of raw counts of news20, 1.3 million, need thousands of them).
MOST_SEEN = 1e6

#: Passes of L-BFGS for classes, typical, less those of Newton's steps.
LBFGS_PASSES = 60.0


def _is_short(problem: Problem) -> bool:
    """Return whether Newton's steps in the span of few rows are likely to take less time than L-BFGS."""
    if not loss_of(problem).ignores_shifts() or not is_wide(problem):
        return False
    once = nanoseconds_of_row_space(problem)
    of_steps = NEWTON_PASSES * (nanoseconds_of_factor(problem, problem.n_rows) - once)
    return bool(once + of_steps <= LBFGS_PASSES * nanoseconds_of_pass(problem, is_single=False))


def _suits_products(problem: Problem) -> bool:
    """Return whether conjugate gradients are likely to be the fastest for classes.

    They are on sparse rows where no Kronecker factor pays, with which L-BFGS needs few steps: of 248 random problems they
    took 0.6 times as long as L-BFGS there, in the middle, and 1.8 times where one does.
    """
    if not problem.rows.is_sparse() or is_parted(problem) or not loss_of(problem).ignores_shifts():
        return False
    if is_whole_cheap(problem) or not problem.term.ridge > 0.0:
        return False
    return n_entries(problem.rows) <= MOST_SEEN or not is_worth_epochs(problem)


def for_outputs(problem: Problem, tol: float, begun: str) -> Choice:
    """Return the method for several outputs."""
    what = f"{problem.n_outputs} outputs at once"
    if problem.is_constrained:
        sorts = problem.term.constraint.boundary in SORTING  # where working sets are small
        is_quadratic = problem.loss.d2_lipschitz() == 0.0 and problem.dim <= ALL_COLUMNS and not sorts
        if is_quadratic or (problem.dim <= ALL_COLUMNS and of_newton(problem) <= FEW_CALLS):
            return Choice(as_method("newton"), f"{what}, in {problem.dim:,} variables, on a set")
        return for_set(problem, f"{what}, in {problem.dim:,} variables", {}, tol, begun)
    if problem.is_smooth and not problem.term.has_weights:
        is_loose = not problem.term.ridge > 0.0 and problem.dim <= ALL_COLUMNS
        is_few = problem.dim <= FEW_OF_OUTPUTS or (is_loose and problem.n_rows * problem.dim**2 <= FEW_MULTIPLICATIONS)
        has_many_rows = loss_of(problem).ignores_shifts() and nanoseconds_of_factor(problem, problem.n_rows) > LITTLE
        if _is_short(problem):
            reason = f"{what}, in {problem.dim:,} variables: a Hessian in the span of {problem.n_rows:,} rows is small"
            return Choice(as_method("multinomial-newton", {"solver": "exact"}), reason)
        if _suits_products(problem):
            reason = f"{what}, in {problem.dim:,} variables: products of few entries cost less than a matrix of the columns"
            return Choice(as_method("multinomial-newton", {"solver": "cg"}), reason)
        if has_many_rows and (problem.term.ridge > 0.0 or not is_few):
            reason = f"{what}, in {problem.dim:,} variables: a Hessian is made where steps become many"
            return Choice(as_method("multinomial-lbfgs"), reason)
        if not is_few and is_cheap(problem):
            return Choice(as_method("multinomial-newton"), f"{what}, in {problem.dim:,} variables, which a Hessian fits")
        if not is_few:
            return Choice(as_method("multinomial-lbfgs"), f"{what}: too many variables for a Hessian of all")
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
