"""Elementwise work on vectors: NumPy's operations when Python calls them, loops when kernels do.

A recursion that is written with these costs microseconds a visit where it runs as Python, for components given as
functions, and is compiled to plain loops everywhere else. Sums of the compiled forms run in order, entry by entry.
"""

import math
from typing import Any

import numpy as np
from scipy.linalg.blas import ddot

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import REASSOCIATE, compiled_form, kernel_part


def dot(a: Vector, b: Vector) -> float:
    """Return a'b."""
    return float(a @ b)


@compiled_form(of=dot)
def _dot(a: Vector, b: Vector) -> float:
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


def sum_of_squares(a: Vector) -> float:
    """Return a'a; it overflows, after a divergence, without a warning."""
    return float(ddot(a, a)) if a.size else 0.0


def reordered_dot(a: Vector, b: Vector) -> float:
    """Return a'b, summed in whatever order is fast; a may be longer."""
    return float(a[: b.size] @ b)


@compiled_form(of=reordered_dot, fastmath=set(REASSOCIATE))
def _reordered_dot(a: Vector, b: Vector) -> float:
    total = 0.0
    for j in range(b.size):
        total += a[j] * b[j]
    return total


@kernel_part
def norm(a: Vector) -> float:
    """Return the 2-norm of a."""
    return math.sqrt(dot(a, a))


def largest(a: Vector) -> float:
    """Return the largest absolute value of an entry, 0 where there is none."""
    return float(np.abs(a).max(initial=0.0))


@compiled_form(of=largest)
def _largest(a: Vector) -> float:
    size = 0.0
    for j in range(a.size):
        size = max(size, abs(a[j]))
    return size


def fill(a: Vector, value: float) -> None:
    """Write a number to all entries of a."""
    a.fill(value)


@compiled_form(of=fill)
def _fill(a: Vector, value: float) -> None:
    for j in range(a.size):
        a[j] = value


def copy(a: Vector, out: Vector) -> None:
    """Write a to the first entries of out."""
    out[: a.size] = a


@compiled_form(of=copy)
def _copy(a: Vector, out: Vector) -> None:
    for j in range(a.size):
        out[j] = a[j]


def scale(a: Vector, factor: float) -> None:
    """Multiply a with a number."""
    a *= factor


@compiled_form(of=scale)
def _scale(a: Vector, factor: float) -> None:
    for j in range(a.size):
        a[j] *= factor


def divide(a: Vector, divisor: float, out: Vector) -> None:
    """Write a / divisor to the first entries of out."""
    out[: a.size] = a / divisor


@compiled_form(of=divide)
def _divide(a: Vector, divisor: float, out: Vector) -> None:
    for j in range(a.size):
        out[j] = a[j] / divisor


def axpy(factor: float, a: Vector, out: Vector) -> None:
    """Add factor a to the first entries of out."""
    out[: a.size] += factor * a


@compiled_form(of=axpy)
def _axpy(factor: float, a: Vector, out: Vector) -> None:
    for j in range(a.size):
        out[j] += factor * a[j]


def add_products(a: Vector, b: Vector, out: Vector) -> None:
    """Add a b, entry by entry, to the first entries of out; b may be longer than a."""
    out[: a.size] += a * b[: a.size]


@compiled_form(of=add_products)
def _add_products(a: Vector, b: Vector, out: Vector) -> None:
    for j in range(a.size):
        out[j] += a[j] * b[j]


def add_square(matrix: Matrix, factor: float, v: Vector) -> None:
    """Add factor v v' to a square matrix."""
    matrix += np.outer(factor * v, v)


@compiled_form(of=add_square, fastmath=set(REASSOCIATE))
def _add_square(matrix: Matrix, factor: float, v: Vector) -> None:
    for j in range(v.size):
        row, left = matrix[j], factor * v[j]
        for k in range(v.size):
            row[k] += left * v[k]


def extrapolate(a: Vector, previous: Vector, factor: float, out: Vector) -> None:
    """Write a + factor (a - previous) to the first entries of out."""
    out[: a.size] = a + factor * (a - previous)


@compiled_form(of=extrapolate)
def _extrapolate(a: Vector, previous: Vector, factor: float, out: Vector) -> None:
    for j in range(a.size):
        out[j] = a[j] + factor * (a[j] - previous[j])


def is_finite(value: Any) -> bool:
    """Return whether a number, or each entry of an array, is finite."""
    return bool(np.isfinite(value).all())


@compiled_form(of=is_finite)
def _is_finite(value: Any) -> bool:
    return np.isfinite(value)  # type: ignore[no-any-return]
