"""Visits and faces of dual ascent on small data by operations on arrays, which need no kernel.

What `finitesum.methods.newton.dual_sweeps` and `finitesum.methods.newton.dual_faces` say in loops: a visit is a product
with a row and a multiple of it that is added to w, and what is done to all rows of a face, or to all rows, is done by
operations on whole arrays. Losses have two corners, (low, high, point) each.
"""

import itertools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas

from finitesum.core.arrays import Flags, Indices, Vector
from finitesum.core.jit import array_form, has_machine_code, runs_in_arrays
from finitesum.methods.newton import dual_faces, dual_sweeps
from finitesum.problems.linear import Problem
from finitesum.problems.rows import CSRRows, DenseRows, add_combination, products, some_rows, to_matrix

#: Numbers of sparse rows with their zeros up to which they are visited so.
MOST_WITH_ZEROS = 3e6

#: Numbers that count for a visit, of a row with its zeros and of one without: with them fits in arrays take less time than
#: compiling, and mostly up to twenty times that of machine code. As measured, to 10,000 and to 4,000 rows.
OF_VISIT, OF_SPARSE_VISIT = 100.0, 250.0


def n_numbers_of_visits(view: Any, *_others: Any) -> float:
    """Return the numbers of rows, at least what the calls of their visits cost."""
    rows = view.rows
    if not isinstance(rows, DenseRows | CSRRows):
        return np.inf
    return max(float(rows.values.size), rows.n_rows * (OF_VISIT if _has_zeros(rows) else OF_SPARSE_VISIT))


def have_machine_code(problem: Problem) -> bool:
    """Return whether visits of a problem's rows have machine code on disk."""
    numbers, places = np.zeros(0), np.zeros(0, dtype=np.int64)
    rows, terms, limits = (places, places, 1), (numbers, 1.0, 1.0), (1.0, (1.0, 1.0, 1.0), 1, (1, 1))
    return has_machine_code(dual_sweeps.sweep, problem.view_of_rows, numbers, numbers, numbers, rows, terms, limits)


def stand_in(problem: Problem) -> bool:
    """Return whether visits run in arrays for want of machine code, which would take a small part of their time."""
    return runs_in_arrays(n_numbers_of_visits(problem.view)) and not have_machine_code(problem)


def _has_zeros(rows: DenseRows | CSRRows) -> bool:
    """Return whether rows are visited with their zeros."""
    return isinstance(rows, DenseRows) or float(rows.n_rows) * rows.n_columns <= MOST_WITH_ZEROS


class _Corners(NamedTuple):
    """The two corners of some rows, an array a row."""

    first: tuple[Vector, Vector, Vector]
    other: tuple[Vector, Vector, Vector]

    def interval(self, slopes: Vector) -> tuple[Vector, Vector, Vector, Flags]:
        """Return that of the corners which slopes are at, and whether they are within it."""
        (low, high, point), (other_low, other_high, other_point) = self
        at_first = (low < slopes) & (slopes < high)
        low, high = np.where(at_first, low, other_low), np.where(at_first, high, other_high)
        return low, high, np.where(at_first, point, other_point), (low < slopes) & (slopes < high)


def _corners(view: Any, some: Indices | slice = slice(None)) -> _Corners:
    targets = view.targets[some]
    parts = [part for corner in view.loss.corners(targets) for part in corner]
    low, high, point, *other = (np.broadcast_to(part, targets.shape).astype(np.float64) for part in parts)
    return _Corners((low, high, point), (other[0], other[1], other[2]))


@array_form(dual_sweeps.find_active, n_numbers_of_visits, stands_in=True)
def find_active_in_arrays(view: Any, predictions: Vector, slopes: Vector, active: Indices) -> tuple[int, float]:
    """Write the rows whose slopes are not within an interval by more than any violates, increasing."""
    (low, high, point), (other_low, other_high, other_point) = _corners(view)
    first, last = np.where(slopes > low, point, -np.inf), np.where(slopes < high, point, np.inf)
    has_other = other_low < other_high
    first = np.where(has_other & (slopes > other_low), np.maximum(first, other_point), first)
    last = np.where(has_other & (slopes < other_high), np.minimum(last, other_point), last)
    unrounded = predictions - view.loss.corner_width() * slopes
    violations, counts = np.maximum(first - unrounded, unrounded - last), view.weights > 0.0
    largest = max(float(violations[counts].max(initial=0.0)), 0.0)
    found = np.flatnonzero(counts & (violations >= -largest))
    active[: found.size] = found
    return found.size, largest


@array_form(dual_faces.find_face, n_numbers_of_visits, stands_in=True)
def find_face_in_arrays(view: Any, active: Indices, w: Vector, slopes: Vector, face: Indices, excesses: Vector) -> int:
    """Write the active rows at corners, and u_i less where the loss has the slope s_i; return how many there are."""
    _, _, points, is_at = _corners(view, active).interval(slopes[active])
    found, size = active[is_at], int(np.count_nonzero(is_at))
    face[:size] = found
    at_corner = points[is_at] + view.loss.corner_width() * slopes[found]
    excesses[:size] = products(some_rows(view.rows, found), w) + view.offsets[found] - at_corner
    return size


class _Face:
    """The rows of a face, and what is the same for all products with them."""

    def __init__(self, view: Any, face: Indices, terms: Any) -> None:
        self.rows, self.dim, (_, self.ridge, self.hold) = some_rows(view.rows, face), view.rows.dim(), terms
        self.intercept, self.widths = view.rows.intercept, view.loss.corner_width() / view.weights[face]

    def pull_back(self, changes: Vector) -> Vector:
        """Return what changes of p_i s_i change w by."""
        out = np.zeros(self.dim)
        add_combination(self.rows, changes / -self.ridge, out)
        if self.intercept:
            out[-1] *= self.ridge / self.hold
        return out

    def product(self, changes: Vector) -> Vector:
        """Return the face's system times changes."""
        return np.asarray(self.widths * changes - products(self.rows, self.pull_back(changes)))


@array_form(dual_faces.advance, n_numbers_of_visits, stands_in=True)
def advance_in_arrays(
    view: Any, face: Indices, slopes: Vector, run: tuple[Vector, Vector, Vector], sizes: Any, terms: Any, limits: Any
) -> tuple[float, int, bool]:
    """Go on with conjugate gradients for the change of p_i s_i on a face that meets all corners."""
    (solution, residual, direction), (size, least), (most_products, most_read) = run, sizes, limits
    system, weights, at = _Face(view, face, terms), view.weights[face], slopes[face]
    low, high, _, _ = _corners(view, face).interval(at)
    lowest, highest, metric = weights * (low - at), weights * (high - at), terms[0][face] + system.widths
    n_products, is_over = 0, not size > least
    while not is_over and n_products * face.size < most_read:
        product = system.product(direction)
        curvature, n_products = float(direction @ product), n_products + 1
        if not curvature > 0.0:
            return size, n_products, True
        step, before = size / curvature, size
        solution += step * direction
        residual -= step * product
        excess = np.maximum(np.maximum(lowest - solution, solution - highest), 0.0)
        is_inside = (lowest < solution) & (solution < highest)
        scaled = np.where(~is_inside & (direction == 0.0), 0.0, residual / metric)  # 0 where it rests
        size, beyond = float(residual @ scaled), float((excess * excess) @ metric)
        if beyond > dual_faces.COSTS * step * before or (beyond > 0.0 and not size > least):
            inside = np.minimum(np.maximum(solution, lowest), highest)
            residual -= system.product(inside - solution)
            solution[:] = inside
            rests = ((solution <= lowest) & (residual < 0.0)) | ((solution >= highest) & (residual > 0.0))
            direction[:] = np.where(rests, 0.0, residual / metric)
            size, n_products = float(residual @ direction), n_products + 1
        else:
            direction[:] = direction * (size / before) + scaled
        is_over = n_products >= most_products or not size > least
    return size, n_products, is_over


@array_form(dual_faces.take_step, n_numbers_of_visits, stands_in=True)
def take_step_in_arrays(
    view: Any, face: Indices, solution: Vector, w: Vector, slopes: Vector, terms: Any, shortest: float
) -> tuple[float, int]:
    """Step along the changes of p_i s_i on a face as far as the dual function rises, slopes clipped."""
    system, weights, at, length = _Face(view, face, terms), view.weights[face], slopes[face], 1.0
    low, high, point, _ = _corners(view, face).interval(at)
    excesses = products(system.rows, w) + view.offsets[face] - point - view.loss.corner_width() * at
    while length >= shortest:
        ends = np.minimum(np.maximum(at + length * solution / weights, low), high)
        changes = weights * (ends - at)
        moved = system.pull_back(changes)
        of_columns = moved[: view.rows.n_columns]
        cost = float(system.widths @ (changes * changes)) + system.ridge * float(of_columns @ of_columns)
        if system.intercept:
            cost += system.hold * float(moved[-1]) ** 2
        if 0.5 * cost < float(excesses @ changes):
            slopes[face] = ends
            w += moved
            return length, int(np.count_nonzero((low < ends) & (ends < high)))
        length *= 0.5
    return 0.0, 0


def _shuffled(n: int, draws: Vector, first: int) -> list[int]:
    """Return what `finitesum.methods.newton.dual_sweeps.shuffle` writes."""
    order, places = list(range(n)), (first + np.arange(n - 1, 0, -1)) % draws.size
    others = (draws[places] * np.arange(n, 1, -1)).astype(np.int64).tolist()
    for k, other in zip(range(n - 1, 0, -1), others, strict=True):
        order[k], order[other] = order[other], order[k]
    return order


class _Visits:
    """Visits of rows one by one: numbers of rows are in lists, which Python reads sooner than arrays."""

    def __init__(self, view: Any, w: Vector, slopes: Vector, terms: Any) -> None:
        couplings, self.ridge, self.hold = terms
        self.width, self.w, self.offsets = float(view.loss.corner_width()), w, view.offsets.tolist()
        #: The part of w that rows see, and whether an intercept is beyond it.
        self.inner, self.has_intercept = w[: view.rows.n_columns], bool(view.rows.intercept)
        self.slopes, self.shared = slopes.tolist(), (view.weights * couplings).tolist()
        corners = [part for one in _corners(view) for part in one]
        #: Whether losses have a second corner, which is read for them alone.
        self.has_other = bool((corners[3] < corners[4]).any())
        self.corners = list(zip(*(part.tolist() for part in corners), strict=True))
        self.rows, self.of_weights = _entries(view.rows), view.weights.tolist()

    def sweep(self, order: Iterable[int], resting: float) -> tuple[float, float, set[int]]:
        """Visit rows; return the largest violation, their parts of the gap (rounded: 0), and the rows that are to rest."""
        rows, corners, offsets, slopes, shared = self.rows, self.corners, self.offsets, self.slopes, self.shared
        inner, width, ridge, hold, weights = self.inner, self.width, self.ridge, self.hold, self.of_weights
        daxpy, has_other, infinity, is_sharp = blas.daxpy, self.has_other, math.inf, not self.width > 0.0
        largest, gap, b = 0.0, 0.0, self.w.item(-1) if self.has_intercept else 0.0
        rest: set[int] = set()
        for i in order:
            low, high, point, other_low, other_high, other_point = corners[i]
            (places, row), slope = rows[i], slopes[i]
            prediction = float(row.dot(inner if places is None else inner[places])) + offsets[i] + b
            first, last = point if slope > low else -infinity, point if slope < high else infinity
            if has_other and other_low < other_high:
                first = other_point if slope > other_low and other_point > first else first
                last = other_point if slope < other_high and other_point < last else last
            unrounded = prediction - width * slope
            violation = first - unrounded
            if unrounded - last > violation:
                violation = unrounded - last
            if violation <= 0.0:
                if -violation > resting:
                    rest.add(i)
                continue
            if violation > largest:
                largest = violation
            if is_sharp:
                part = _excess(low, high, point, slope, prediction)
                if has_other:
                    part += _excess(other_low, other_high, other_point, slope, prediction)
                gap += weights[i] * part
            goal, total = prediction + shared[i] * slope, shared[i] + width
            new = (goal - point) / total
            new = low if new < low else (high if new > high else new)
            if has_other:
                new += min(max((goal - other_point) / total, other_low), other_high)
            change = weights[i] * (new - slope)
            if change != 0.0:
                slopes[i] = new
                if places is None:
                    daxpy(row, inner, a=-change / ridge)  # in place
                else:
                    inner[places] -= change / ridge * row
                b -= change / hold  # 0 without an intercept
        if self.has_intercept:
            self.w[-1] = b
        return largest, gap, rest


def _excess(low: float, high: float, point: float, slope: float, prediction: float) -> float:
    part, distance = low if slope < low else (high if slope > high else slope), prediction - point
    return (high - part) * distance if distance > 0.0 else (low - part) * distance


def _entries(rows: DenseRows | CSRRows) -> list[tuple[Any, Vector]]:
    """Return the places in w and the values of each row; without places where zeros cost less."""
    if isinstance(rows, DenseRows):
        return [(None, row) for row in rows.values.astype(np.float64, copy=False)]
    if _has_zeros(rows):
        return [(None, row) for row in to_matrix(rows).toarray().astype(np.float64, copy=False)]
    values, ends = rows.values.astype(np.float64, copy=False), itertools.pairwise(rows.starts.tolist())
    return [(rows.columns[first:last], values[first:last]) for first, last in ends]


@array_form(dual_sweeps.sweep, n_numbers_of_visits, stands_in=True)
def sweep_in_arrays(
    view: Any, draws: Vector, w: Vector, slopes: Vector, rows: tuple[Indices, Indices, int], terms: Any, limits: Any
) -> tuple[int, float, bool, int, int]:
    """Sweep over the active rows until as many sweeps or visits as the limits say are made, or all is accurate."""
    active, _, n_together = rows
    violation, (accuracy, loose, small), most_sweeps, (least_visits, most_visits) = limits
    left, visits, n_sweeps, n_visits, n = active.tolist(), _Visits(view, w, slopes, terms), 0, 0, view.rows.n_rows
    resting, is_accurate, goes_on = violation, False, True
    while goes_on:
        shift = 0.0
        if visits.has_intercept:
            shift = -float(view.weights @ np.array(visits.slopes)) / visits.hold
            w[-1] += shift
        last, is_met = n_visits + n, False
        while left and n_visits < last and not is_met and (n_sweeps < most_sweeps or n_visits < least_visits):
            groups = _shuffled(-(-len(left) // n_together), draws, n_visits)
            parts = (left[k * n_together : (k + 1) * n_together] for k in groups)
            violation, gap, rest = visits.sweep(itertools.chain.from_iterable(parts), resting)
            n_visits, n_sweeps = n_visits + len(left), n_sweeps + 1
            left = [i for i in left if i not in rest] if rest else left
            resting = violation if violation > 0.0 else np.inf
            is_met = violation <= accuracy or (violation <= loose and gap <= small)
        is_accurate = (is_met or violation <= accuracy) and abs(shift) <= accuracy
        goes_on = bool(left) and not is_accurate and n_sweeps < most_sweeps and n_visits < most_visits
    slopes[:] = visits.slopes
    active[: len(left)] = left
    return len(left), violation, is_accurate, n_sweeps, n_visits
