"""The choice of a method for components that are objects, callables or functions of batches."""

from finitesum.methods import as_method
from finitesum.methods.auto.penalties import by_prox
from finitesum.methods.auto.sizes import MOST_BYTES
from finitesum.methods.base import Choice, is_suited
from finitesum.problems.batches import Batches
from finitesum.problems.finite_sum import FiniteSum

#: Variables of a function up to which its Hessians are computed: one costs about as many gradients as there are variables.
MOST_OF_FUNCTION = 500


def for_components(problem: FiniteSum) -> Choice:
    """Return the method for components that are objects or callables."""
    if not problem.term.is_convex:
        return by_prox(problem)
    has_hessians = all(problem.has_hessian(j) for j in range(problem.n_components))
    if has_hessians and isinstance(problem.components, Batches):
        return _for_batches(problem)
    if "bounded-l1" in problem.term.demands:  # what methods by visits do not treat
        fits = has_hessians and 16.0 * problem.dim**2 <= MOST_BYTES
        return Choice(as_method("newton" if fits else "afg"), "a penalty beside bounds, of components")
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
    without = "afg" if "bounded-l1" in problem.term.demands else "acc-svrg"
    return Choice(as_method(without), f"{shape}: a Hessian does not fit")
