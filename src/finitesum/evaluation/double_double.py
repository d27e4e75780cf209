"""Predictions from dense rows, and sums of dense rows, in double-double arithmetic: pairs of float64 numbers.

The sum of two numbers is their rounded sum and its error, exactly; so is their product, whose factors are split into halves
of 26 digits. Sums of these errors, added at the end, make a dot product as accurate as one that is computed with twice the
digits, and rounded then [1].

References
----------
.. [1] T. Ogita, S. M. Rump, S. Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26 (2005).
"""

from typing import Any

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.jit import array_form, kernel, kernel_part

#: Multiplies a number to split it.
SPLITTER = 2.0**27 + 1.0

#: Sums that a row's products are added to in turn, so that they are SIMD code.
LANES = 16


@kernel_part
def _halves(number: Any) -> tuple[Any, Any]:
    """Return a number as the sum of two of 26 digits."""
    shifted = SPLITTER * number
    high = shifted - (shifted - number)
    return high, number - high


@kernel_part
def _error_of_sum(first: Any, second: Any, total: Any) -> Any:
    """Return first + second - total, where the total is their rounded sum."""
    change = total - first
    return (first - (total - change)) + (second - change)


@kernel_part
def _error_of_product(x: Any, high: Any, low: Any, product: Any) -> Any:
    """Return x (high + low) - product, where the product is the rounded one."""
    x_high, x_low = _halves(x)
    return ((x_high * high - product) + x_high * low + x_low * high) + x_low * low


@kernel
def _dot_rows(stored: Any, w: Vector, offsets: Vector, high: Vector, low: Vector, sizes: Vector) -> None:
    """Write x_i'w + o_i as high_i + low_i, and sum_j |x_ij w_j|; w may have an intercept at its end."""
    d = stored.shape[1]
    w_high, w_low = np.empty(d), np.empty(d)
    for j in range(d):
        w_high[j], w_low[j] = _halves(w[j])
    totals, rests, parts = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for i in range(np.uint64(stored.shape[0])):
        totals[:], rests[:], parts[:] = 0.0, 0.0, 0.0
        for first in range(0, d, LANES):
            for k in range(np.uint64(min(LANES, d - first))):
                at: Any = np.uint64(first) + np.uint64(k)
                x = np.float64(stored[i, at])
                product, before = x * w[at], totals[k]
                total = before + product
                error = _error_of_product(x, w_high[at], w_low[at], product)
                rests[k] += _error_of_sum(before, product, total) + error
                totals[k] = total
                parts[k] += abs(product)
        total, rest, size = offsets[i], 0.0, 0.0
        for k in range(LANES):
            after = total + totals[k]
            rest += _error_of_sum(total, totals[k], after) + rests[k]
            total, size = after, size + parts[k]
        if w.size > d:
            after = total + w[d]
            rest += _error_of_sum(total, w[d], after)
            total = after
        high[i] = total + rest
        low[i] = _error_of_sum(total, rest, high[i])
        sizes[i] = size


@array_form(_dot_rows, lambda stored, *_: float(stored.size))
def _dot_rows_in_arrays(stored: Any, w: Vector, offsets: Vector, high: Vector, low: Vector, sizes: Vector) -> None:
    d, entries = stored.shape[1], stored.astype(np.float64, copy=False)
    _write_dot(entries, w[:d], [offsets, *(np.full(len(offsets), end) for end in w[d:])], high, low)
    sizes[:] = np.abs(entries) @ np.abs(w[:d])


def _write_dot(entries: Any, w: Vector, more: list[Vector], high: Vector, low: Vector) -> None:
    """Write the sums of entries times w along the last axis, and of more numbers, as high + low."""
    products = entries * w
    rest = _error_of_product(entries, *_halves(w), products).sum(axis=1)
    terms = np.vstack([*more, products.T, np.zeros_like(rest)])
    while len(terms) > 1:
        first, second = terms[: len(terms) // 2], terms[len(terms) // 2 : len(terms) // 2 * 2]
        total = first + second
        rest += _error_of_sum(first, second, total).sum(axis=0)
        terms = np.vstack([total, terms[len(terms) // 2 * 2 :]])
    high[:] = terms[0] + rest
    low[:] = _error_of_sum(terms[0], rest, high)


@kernel
def _add_rows(stored: Any, high: Vector, low: Vector, errors: Vector, totals: Vector, rests: Vector, sizes: Vector) -> None:
    """Add sum_i (high_i + low_i) x_i to totals + rests, and sum_i errors_i |x_i| to the sizes; x_i may end in a 1."""
    d = stored.shape[1]
    for i in range(np.uint64(stored.shape[0])):
        s_high, s_low = _halves(high[i])
        for j in range(np.uint64(totals.size)):
            x = np.float64(stored[i, j]) if j < d else 1.0
            product, before = x * high[i], totals[j]
            total = before + product
            error = _error_of_product(x, s_high, s_low, product) + x * low[i]
            rests[j] += _error_of_sum(before, product, total) + error
            totals[j] = total
            sizes[j] += abs(x) * errors[i]


@array_form(_add_rows, lambda stored, *_: float(stored.size))
def _add_rows_in_arrays(
    stored: Any, high: Vector, low: Vector, errors: Vector, totals: Vector, rests: Vector, sizes: Vector
) -> None:
    entries = np.ones((len(high), totals.size))
    entries[:, : stored.shape[1]] = stored
    found, rest = np.empty(totals.size), np.empty(totals.size)
    _write_dot(entries.T, high, [totals], found, rest)
    totals[:] = found
    rests += rest + entries.T @ low
    sizes += np.abs(entries).T @ errors


def dot_rows(stored: Any, w: Vector, offsets: Any) -> tuple[Any, Vector]:
    """Return x_i'w + o_i of rows in extended precision, and sum_j |x_ij w_j|, for offsets that are float64 numbers.

    A w that is longer than the rows has an intercept at its end.
    """
    high, low, sizes = (np.empty(len(stored)) for _ in range(3))
    _dot_rows(stored, w, np.asarray(offsets, dtype=np.float64), high, low, sizes)
    return high.astype(np.longdouble) + low, sizes


def sum_of_rows(stored: Any, scales: Any, errors: Vector, n_columns: int) -> tuple[Any, Vector]:
    """Return sum_i s_i x_i for extended numbers s_i, in extended precision, and sum_i errors_i |x_i|.

    Where there is a column more than the rows have, their last entry is the 1 of an intercept.
    """
    high = scales.astype(np.float64)
    totals, rests, sizes = (np.zeros(n_columns) for _ in range(3))
    _add_rows(stored, high, (scales - high).astype(np.float64), errors, totals, rests, sizes)
    return totals.astype(np.longdouble) + rests, sizes
