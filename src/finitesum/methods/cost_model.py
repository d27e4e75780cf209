"""What reading rows costs: nanoseconds of a gradient, of a Hessian, of a factor, by the shape of the data.

The figures were measured once, on one core of an x86-64 server; what is decided by them (the rows that a Hessian is summed
over, the curvatures that are refreshed) depends on their ratios, which vary little between machines, and never
changes what a run converges to. No clock is read, so that a run can be repeated to the bit.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from finitesum.evaluation.hessian import nanoseconds_in_arrays
from finitesum.evaluation.row_products import gram_diagonal
from finitesum.evaluation.row_space import is_wide, nanoseconds_of_products
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered, remembered_of_rows
from finitesum.problems.partitioned import PartedRows, is_parted
from finitesum.problems.rows import CSRRows, n_entries

#: Accuracy that the choice of a Hessian's sample saves for, in digits.
DIGITS = 10.0


class Costs(NamedTuple):
    """Nanoseconds."""

    gradient: float  # of a row
    hessian: float  # of a row; of a dense one in single precision
    factor: float  # of one Cholesky factor, by which a Hessian becomes steps


#: Rows of sparse data in which the entries of columns are counted, and the length of a run of them.
ROWS_SEEN, ROWS_TOGETHER = 2048, 128

#: Entries of a column that a Hessian's sample is to meet at least; the fraction of columns with fewer from which all rows
#: are taken, unless they cost this many times as much.
ENTRIES_WANTED, MOST_RARE, WORTH_A_RISK = 100.0, 0.08, 1.5


#: The order up to which matrices are not worth several threads of the linear algebra library.
SMALL = 500

#: Stored numbers of rows up to which no product with them is worth several threads of BLAS.
FEW_NUMBERS = 1e6

#: Columns of sparse rows, or rows, up to which methods of several outputs may factor matrices of them.
MOST_FACTORED = 2000

#: Least squares by rows take fewer products than by columns where (1 + q)^(3/2) (d / n)^(4/5) > 4 (1 + s), with q the mean
#: p_i k ||x_i||^2 / l2 of the rows, and s the mean of the columns' sums of p_i k x_ij^2 / l2, weighted by these sums. Half
#: of 240 random problems of six families were fitted to; of the others the choice takes more than 1.3 times the products
#: of the better one on 1%, columns alone on 36%.
OF_SUMS, POWER_OF_ROWS, POWER_OF_WIDTH = 4.0, 1.5, 0.8

#: The largest q and s that were seen: a larger q counts as this one, and with a larger s, of columns that differ much in
#: size, columns are taken.
MOST_OF_ROWS, MOST_OF_COLUMNS = 1e3, 1e5

#: Columns up to which Newton's method takes Hessians of all columns however few rows there are.
FEW_COLUMNS = 300

#: Nanoseconds of the calls of a step by products of rows, of a number of their matrix and of one of the n^3 of its factor,
#: and those that the steps of a pass may take in any case.
CALLS, OF_ENTRY, OF_FACTOR, LEAST_PASS = 2e5, 6.0, 0.008, 1e8


@remembered
def costs_of(problem: Problem) -> Costs:
    """Return what a problem's rows cost."""
    dim = float(problem.dim)
    factor = 1e4 + 2.0 * dim**2 + 0.02 * dim**3
    if isinstance(problem.rows, PartedRows) and problem.rows.is_sparse():
        n, rows = problem.n_rows, problem.rows
        return Costs(12.0 + 0.75 * rows.values.size / n, 8.0 + 0.18 * rows.stored_squares / n, factor)
    if isinstance(problem.rows, CSRRows):
        stored = np.diff(problem.rows.starts).astype(np.float64)
        in_arrays = nanoseconds_in_arrays(problem.rows)
        row = 8.0 + 0.18 * float(stored @ stored) / stored.size if in_arrays is None else in_arrays / stored.size
        n_outputs = problem.n_outputs
        return Costs(12.0 + 0.75 * n_outputs * stored.mean(), 0.5 * n_outputs * (n_outputs + 1) * row, factor)
    return Costs(14.0 + 0.5 * dim, 10.0 + dim + 0.0125 * dim**2, factor)


def hessian_in_gradients(problem: Problem) -> float:
    """Return the price of a Hessian of all rows in gradients."""
    costs = costs_of(problem)
    return costs.hessian / costs.gradient


@remembered
def hessian_sample(problem: Problem) -> int:
    """Return how many rows a Hessian is best summed over.

    A Hessian of K rows leaves an error of about e = sqrt(d / K) in each direction where rows are alike, and steps by its
    factor, with L-BFGS pairs, gain about that factor in a pass. K minimises
    3 K hessian + n gradient (3 + DIGITS / log10(1/e)), against 2.5 n hessian + 9 n gradient for all rows: constants as
    they were seen on dense data of 500 and 717 columns. Where the rows turn out not to be alike, `is_sample_too_small` says
    so; where many columns have few entries, rows are not.
    """
    best, saved = _cheapest_sample(problem.n_rows, problem.dim, costs_of(problem))
    is_risky = best < problem.n_rows and saved < WORTH_A_RISK and _has_rare_columns(problem, best)
    return problem.n_rows if is_risky else best


def _cheapest_sample(n: int, dim: int, costs: Costs) -> tuple[int, float]:
    """Return how many rows cost least where rows are alike, and how many times as much all rows cost."""
    everything = n * (2.5 * costs.hessian + 9.0 * costs.gradient)
    sizes = dim * 2.0 ** np.arange(3, 12, 0.5)
    sizes = sizes[sizes < 0.7 * n]
    passes = 3.0 + DIGITS / np.log10(np.sqrt(sizes / dim))
    totals = 3.0 * sizes * costs.hessian + n * costs.gradient * passes
    if totals.size == 0 or totals.min() >= everything:
        return n, 1.0
    return int(sizes[totals.argmin()]), everything / float(totals.min())


def _has_rare_columns(problem: Problem, n_sampled: int) -> bool:
    """Return whether a sample of n_sampled rows would meet too few entries of too many columns of sparse data.

    The rows of a sample, at which F was minimised, say least of such columns' curvature at other rows.
    """
    rows = problem.rows
    if not isinstance(rows, CSRRows):
        return False
    n = problem.n_rows
    firsts = np.linspace(0, n, max(1, min(n, ROWS_SEEN) // ROWS_TOGETHER), endpoint=False, dtype=np.int64)
    stored = [rows.columns[rows.starts[first] : rows.starts[min(first + ROWS_TOGETHER, n)]] for first in firsts]
    entries = np.bincount(np.concatenate(stored), minlength=rows.n_columns)
    wanted = ENTRIES_WANTED * min(n, ROWS_TOGETHER * firsts.size) / n_sampled
    return bool(np.count_nonzero(entries < wanted) > MOST_RARE * rows.n_columns)


def is_sample_too_small(n_rows: int, n_sampled: int, costs: Costs, gradient_ratio: float, digits: float) -> bool:
    """Return whether a Hessian of four times as many rows pays, if it halves what a step leaves of the gradient."""
    gradient_ratio = min(max(gradient_ratio, 1e-3), 0.95)
    added = min(3 * n_sampled, n_rows - n_sampled)
    now = n_rows * costs.gradient * digits / -math.log10(gradient_ratio)
    then = n_rows * costs.gradient * digits / -math.log10(0.5 * gradient_ratio) + added * costs.hessian + costs.factor
    return then < now


class ProductCosts(NamedTuple):
    """Nanoseconds of Newton's method by the products of few rows."""

    once: float  # the products, 0 once they are known
    step: float
    reading: float  # the rows, at the end of a pass

    def steps_a_pass(self) -> int:
        """Return how many steps are taken in a pass: as long as reading the rows costs more, or they take no time."""
        return max(int(max(self.reading, LEAST_PASS) / self.step), 1)


def threads_for_factors(problem: Problem | FiniteSum) -> int | None:
    """Return how many threads suffice for matrices of the order of the rows or columns, whichever are fewer; None: any."""
    order = min(problem.n_rows, problem.dim) if isinstance(problem, Problem) else problem.dim
    return 1 if order <= SMALL else None


def threads_for_matrices(problem: Problem | FiniteSum) -> int | None:
    """Return how many threads suffice for matrices of all coefficients; None, any, for components' functions."""
    return threads_for_factors(problem) if isinstance(problem, Problem) else None


def threads_for_classes(problem: Problem) -> int | None:
    """Return how many threads suffice for factors of several outputs, which many sparse rows of many columns have not."""
    has_factors = not problem.rows.is_sparse() or min(problem.n_rows, problem.rows.dim()) <= MOST_FACTORED
    return threads_for_factors(problem) if has_factors else 1


def threads_for_products(problem: Any) -> int | None:
    """Return how many threads of BLAS suffice for products of the rows and of vectors; None: any.

    Sparse rows have products of their own, and on few numbers BLAS's threads gain less than waking them takes, which is
    milliseconds a product on a busy machine. Once awake, they wait for the next product at full speed for a tenth of a
    second, in the way of the threads that work.
    """
    if not isinstance(problem, Problem) or is_parted(problem):
        return None
    return 1 if problem.rows.is_sparse() or _are_few_numbers(problem) else None


def _are_few_numbers(problem: Problem) -> bool:
    return n_entries(problem.rows) <= FEW_NUMBERS and threads_for_factors(problem) == 1


def threads_of_blas(method: Any, problem: Any) -> int | None:
    """Return how many threads of BLAS a run of the method has, checks with it; None: any.

    A method's own `blas_threads` says it; without one it is what products of rows need. On few numbers it is 1 at most.
    """
    own = getattr(method, "blas_threads", None)
    if own is None:
        return threads_for_products(problem)
    asked: int | None = own(problem)
    is_whole = isinstance(problem, Problem) and not is_parted(problem)
    return 1 if asked is None and is_whole and _are_few_numbers(problem) else asked


def has_few_rows(problem: Problem) -> bool:
    """Return whether Newton's method takes its steps by the products of rows: one output, fewer rows than columns, l2."""
    return problem.n_outputs == 1 and problem.dim > FEW_COLUMNS and problem.convex and is_wide(problem)


def are_squares_of_outputs(problem: Problem | FiniteSum) -> bool:
    """Return whether Newton's step is one linear system for all of several outputs: those of squares with an l2 penalty."""
    if not isinstance(problem, Problem) or problem.n_outputs == 1:
        return False
    return problem.is_smooth and problem.has_quadratic_loss and not is_parted(problem)


def costs_by_products(problem: Problem) -> ProductCosts:
    """Return what Newton's method by the products of rows costs."""
    n = float(problem.n_rows)
    step = CALLS + OF_ENTRY * n**2 + OF_FACTOR * n**3
    return ProductCosts(nanoseconds_of_products(problem), step, CALLS + 4.0 * n_entries(problem.rows))


def takes_fewer_by_rows(problem: Problem) -> bool:
    """Return whether least squares take fewer products by rows (`finitesum.methods.newton.row_system`)."""
    is_quadratic = problem.has_quadratic_loss and problem.is_smooth and problem.term.ridge > 0.0
    is_wide = problem.rows.is_sparse() and problem.n_rows < problem.rows.n_columns
    if not (is_quadratic and is_wide) or problem.term.has_weights or is_parted(problem):
        return False
    factor, (of_rows, of_columns) = problem.loss.curvature_bound() / problem.term.ridge, _mean_sums(problem)
    q, s, width = min(factor * of_rows, MOST_OF_ROWS), factor * of_columns, problem.rows.n_columns / problem.n_rows
    if not s <= MOST_OF_COLUMNS:  # NaN, too
        return False
    return bool((1.0 + q) ** POWER_OF_ROWS * width**POWER_OF_WIDTH > OF_SUMS * (1.0 + s))


@remembered_of_rows
def _mean_sums(problem: Problem) -> tuple[float, float]:
    """Return the mean p_i ||x_i||^2 of the rows, and the mean of the columns' sums of p_i x_ij^2, weighted by them."""
    sums = gram_diagonal(problem, np.ones(problem.n_rows, dtype=np.float32))[: problem.rows.n_columns]
    total = float(sums.sum())
    return (total / problem.n_rows, float(sums @ sums) / total) if 0.0 < total < math.inf else (0.0, 0.0)
