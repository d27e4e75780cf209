"""What reading rows costs: nanoseconds of a gradient, of a Hessian, of a factor, by the shape of the data.

The figures were measured once, on one core of an x86-64 server; what is decided by them (how many rows a Hessian is summed
over, which curvatures are worth a new look) depends on their ratios, which vary little between machines, and never
changes what a run converges to. No clock is read, so that a run can be repeated to the bit.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows

#: Accuracy that the choice of a Hessian's sample saves for, in digits.
DIGITS = 10.0


class Prices(NamedTuple):
    """Nanoseconds."""

    gradient: float  # of a row
    hessian: float  # of a row; of a dense one in single precision
    factor: float  # of one Cholesky factor, by which a Hessian becomes steps


#: Columns of sparse data are looked at in so many rows, in runs of so many.
ROWS_SEEN, ROWS_TOGETHER = 2048, 128

#: A Hessian's sample is to meet at least so many entries of a column; where it would not for more than such a share of the
#: columns, all rows are taken, unless they cost so many times as much.
ENTRIES_WANTED, MOST_RARE, WORTH_A_RISK = 100.0, 0.08, 1.5

#: The prices of the problems that are in use, and the samples of their Hessians.
_KNOWN: WeakKeyDictionary[Problem, Prices] = WeakKeyDictionary()
_SAMPLES: WeakKeyDictionary[Problem, int] = WeakKeyDictionary()


def prices_of(problem: Problem) -> Prices:
    """Return the prices of a problem's rows."""
    if problem not in _KNOWN:
        _KNOWN[problem] = _estimated(problem)
    return _KNOWN[problem]


def _estimated(problem: Problem) -> Prices:
    dim = float(problem.dim)
    factor = 1e4 + 2.0 * dim**2 + 0.02 * dim**3
    if isinstance(problem.rows, CSRRows):
        stored = np.diff(problem.rows.starts).astype(np.float64)
        row = 8.0 + 0.18 * float(stored @ stored) / stored.size
        return Prices(12.0 + 0.75 * stored.mean(), row, factor)
    return Prices(14.0 + 0.5 * dim, 10.0 + dim + 0.0125 * dim**2, factor)


def hessian_sample(problem: Problem) -> int:
    """Return how many rows a Hessian is best summed over.

    A Hessian of K rows leaves an error of about e = sqrt(d / K) in each direction where rows are alike, and steps by its
    factor, with secants, gain about that factor in a pass. K minimises 3 K hessian + n gradient (3 + DIGITS / log10(1/e)),
    against 2.5 n hessian + 9 n gradient for all rows: constants as they were seen on dense data of 500 and 717 columns.
    Where the rows turn out not to be alike, `is_sample_too_small` tells; where many columns have few entries, rows are not.
    """
    if problem not in _SAMPLES:
        n, prices = problem.n_rows, prices_of(problem)
        best, saved = _cheapest_sample(n, problem.dim, prices)
        if best < n and saved < WORTH_A_RISK and _has_rare_columns(problem, best):
            best = n
        _SAMPLES[problem] = best
    return _SAMPLES[problem]


def _cheapest_sample(n: int, dim: int, prices: Prices) -> tuple[int, float]:
    """Return how many rows cost least where rows are alike, and how many times as much all rows cost."""
    everything = n * (2.5 * prices.hessian + 9.0 * prices.gradient)
    sizes = dim * 2.0 ** np.arange(3, 12, 0.5)
    sizes = sizes[sizes < 0.7 * n]
    passes = 3.0 + DIGITS / np.log10(np.sqrt(sizes / dim))
    costs = 3.0 * sizes * prices.hessian + n * prices.gradient * passes
    if costs.size == 0 or costs.min() >= everything:
        return n, 1.0
    return int(sizes[costs.argmin()]), everything / float(costs.min())


def _has_rare_columns(problem: Problem, n_sampled: int) -> bool:
    """Tell whether a sample of so many rows would meet too few entries of too many columns of sparse data.

    The rows that a sample was fitted to are those that tell least of such columns' curvature at other rows.
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


def is_sample_too_small(n_rows: int, n_sampled: int, prices: Prices, remainder: float, digits: float) -> bool:
    """Tell whether a Hessian of four times as many rows pays, if it halves what a step leaves of the gradient."""
    remainder = min(max(remainder, 1e-3), 0.95)
    added = min(3 * n_sampled, n_rows - n_sampled)
    now = n_rows * prices.gradient * digits / -math.log10(remainder)
    then = n_rows * prices.gradient * digits / -math.log10(0.5 * remainder) + added * prices.hessian + prices.factor
    return then < now
