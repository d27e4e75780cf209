"""Sizes up to which matrices are made, and what Newton's steps cost: for the choices of `finitesum.methods.auto`."""

from finitesum.methods.cost_model import costs_of
from finitesum.problems.linear import Problem

#: The most memory that the Hessian and its factor may take, in bytes.
MOST_BYTES = 4e9

#: Columns up to which all are treated at once on a set that makes zeros, and with several outputs.
ALL_COLUMNS = 500

#: Seconds up to which calls take longer than numbers: Newton's method, with the fewest calls, is compared with none then.
FEW_CALLS = 0.002

#: Passes, Hessians and factors of Newton's methods, typical of real data.
NEWTON_PASSES, NEWTON_HESSIANS, NEWTON_FACTORS = 10.0, 3.0, 8.0

#: By how many times its forecast a run is late: see `finitesum.running.handover`, which is above this module.
LATE = 2.0

#: Columns (of nonsmooth losses: or rows) up to which a matrix of that size is factored whatever it costs, and the numbers
#: that such a matrix may hold.
MATRIX_UP_TO, MOST_NUMBERS = 3000, 5e7


def of_newton(problem: Problem) -> float:
    """Return about what Newton's steps cost, without their calls."""
    n, costs = problem.n_rows, costs_of(problem)
    return 1e-9 * (n * (costs.gradient * NEWTON_PASSES + costs.hessian * NEWTON_HESSIANS) + costs.factor * NEWTON_FACTORS)
