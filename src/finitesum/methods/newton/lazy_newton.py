"""Lazy Newton: Newton's method on a growing sample, with a Hessian that is refreshed only where it moved.

The memory is CIAG's: for each row an anchor, from which the row's Taylor model is made [1, eq. 19]. CIAG refreshes slopes
and curvatures of a component together, at O(d^2) for each row. Here they are kept apart: slopes, which are cheap, are
those of the present point; curvatures c_i, which cost O(nnz_i^2) to replace, stay at older points while that does little
harm (`finitesum.methods.newton.stale_hessian`). The mean of the models then has the exact gradient g(x) and the lazy
Hessian

    H = A / S_A + l2 I,    A = sum_i p_i c_i z_i z_i',    S_A = sum_i p_i,  over the rows of a sample.

A step is x+ = x - t B g(x), with B the BFGS inverse of P^-1 and the last pairs of steps and gradient changes
(`finitesum.methods.subproblems.lbfgs`), P the Cholesky factor of H when it last changed. It needs no step size:

1. *Growing sample.* From x0 on, F is replaced by its mean over some thousand rows with the penalty's share of the sum,
   alpha / S, until Newton's decrement falls below a quarter of what the sample itself puts into it,
   (d / n_s) sum_i p_i phi'_i^2 / sum_i p_i phi''_i; then the sample is four times as large.
   The first pass over all rows so starts from a point that is right to the sample's accuracy, for a third of a pass.
2. *Doubtful curvatures.* While a step leaves more than 0.3 of the gradient (in the norm of P^-1), rows on the wrong side of
   the margin take the curvature of the loss's majorant: there the second derivative grows along the way, and trusting it
   overshoots. While steps overshoot all the same, every row does, until a pass looks again after a step that did not.
3. *Acceptance.* t = 1 is taken when F does not rise at its end along the way (which bounds F, because it is convex), or the
   gradient shrank. Else t is searched on the row predictions, which are linear in t, to a slope between -1/2 and 0 of
   the first; likewise when the slope fell by less than a third: then t > 1. So F falls with every step.
4. *Conditioning.* Where the factor fails or steps are cut to a hundredth, H is singular to rounding errors: its diagonal is
   raised in proportion, and lowered again when steps are taken.

With many columns the sample of H is a part of the rows (`finitesum.methods.cost_model.hessian_sample`; not where it
would meet sparse columns too seldom), and the secants make up for its error; rows that join F's sample wait where their
Hessians are dear. Those of dense rows are summed in single precision where their pivots show that it does. l1 penalties
and constraints take the minimiser of the model with its r (`finitesum.methods.subproblems.quadratic_models`), without
secants. The state's optimality is exact. Memory: 8 bytes a row, 2 d^2 + 40 d numbers, and 2 d^2 for each thread that
sums dense rows; n_threads share the rows.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
.. [2] F. Roosta-Khorasani, M. W. Mahoney, "Sub-sampled Newton methods", Math. Program. 174 (2019).
.. [3] J. Nocedal, S. J. Wright, "Numerical optimization", 2nd ed., 2006, chapters 3 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from finitesum.core.arrays import Indices, Vector
from finitesum.methods.base import Auto, Card
from finitesum.methods.newton.lazy_newton_passes import Settings, first_state, one_pass
from finitesum.methods.newton.lazy_newton_steps import LazyNewtonState
from finitesum.methods.newton.sampled_newton import SampledNewton
from finitesum.problems.linear import Problem


@dataclass(frozen=True)
class LazyNewton(SampledNewton):
    """Newton's method on a growing sample, with a Hessian that is refreshed only where it moved: nothing to tune.

    x+ = x - t B (grad F)(x),  B from a stale factor of the Hessian and secants; see the module's text

    Parameters
    ----------
    hessian_rows : int >= 1 or "auto"
        Rows that the Hessian is summed over; "auto" weighs what they cost against the passes they save.
    first_rows : int >= 1 or "auto"
        Rows of the first sample; n leaves sampling out. "auto" is max(2000, 8 d), or max(0.09 n, 6 d)
        where that is less; all rows where they are not some three times as many.
    n_threads : int >= 1
        Threads that share a pass. The result depends on their number by rounding errors.

    Raises
    ------
    ValueError
        A parameter is out of range.

    Examples
    --------
    A quadratic is solved by one step:

    >>> from finitesum import Problem, minimize
    >>> problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss="squared")
    >>> result = minimize(problem, method=LazyNewton())
    >>> result.x, result.n_passes, result.n_hessian_passes
    (array([0.6]), 2.0, 1.0)

    References
    ----------
    .. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
       curvature information", Comput. Optim. Appl. 76 (2020).
    .. [2] F. Roosta-Khorasani, M. W. Mahoney, "Sub-sampled Newton methods", Math. Program. 174 (2019).
    """

    hessian_rows: int | Auto = "auto"
    first_rows: int | Auto = "auto"
    n_threads: int = 1

    name: ClassVar[str] = "lazy-newton"
    state_type: ClassVar[type[LazyNewtonState]] = LazyNewtonState
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "constraint"})
    card: ClassVar[Card] = Card(
        "Newton with a lazy Hessian",
        "m + 2 d^2",
        "d; d^2 where the curvature moved",
        "superlinear near the optimum",
        "two derivatives",
        "this library",
    )

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> LazyNewtonState:
        """Return the state before the first row is read."""
        return first_state(problem, x0, tol)

    def run_pass(self, problem: Problem, state: LazyNewtonState, order: Indices) -> LazyNewtonState:
        """Return the state after one step over all rows; at first, after the growing samples."""
        return one_pass(problem, state, order, Settings(self.hessian_rows, self.first_rows, self.n_threads))
