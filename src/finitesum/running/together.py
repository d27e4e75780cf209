"""Many problems at once that differ in the weights of their rows and in the strength of an elastic net: folds and paths.

F_fk(w) = sum_i q_fi loss_i(w) + sum_j v_j (l2_fk/2 w_j^2 + l1_fk |w_j|),    f = 1, ..., F,  k = 1, ..., m

All have their gradients by one pass (`finitesum.evaluation.many_points`), and each has steps of L-BFGS by a preconditioner:

1. The m problems of all rows are solved on a sample to its own accuracy. Their Hessians are few: strengths share one as
   long as the curvatures of the rows differ by less than a tenth of their sum.
2. One pass over all rows at these points gives the gradients of all folds, whose first steps begin there. A fold's Hessian
   is that of the sample, with the folds' strength of the penalty.
3. Passes at the points of all folds follow until each problem is solved.
4. Where the penalty hardly counts, solutions are nearly linear in its strength: those between two strengths are
   interpolated, and solved on their own where the interpolation's error is not small enough.

With an l1 penalty steps lead to the minimisers of the quadratic models with it, by coordinate descent for all of them in
one kernel, and there are neither pairs nor interpolations.

A step is taken where F falls for certain (the slope at its end is not positive, because F is convex) or that slope is at
most half of the first; else it is cut to where the slopes at both ends put the minimum.

A problem is solved where what the last step leaves, by Newton's decrement sqrt(g'B g) and what of it the step before left,
is small by the rule of `finitesum.running.accuracy`, decisions being never taken by their size: the Hessian is not the
fold's own. Or where the optimality is at most tol.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.evaluation.many_points import gradients_at_each, gradients_of_all
from finitesum.methods.newton.stale_hessian import StaleHessian
from finitesum.problems.linear import Problem
from finitesum.problems.rows import DenseRows, to_matrix
from finitesum.running.accuracy import ACCURACY
from finitesum.running.shared_hessians import Preconditioner, SharedHessians

#: The part of that by which solutions of several strengths may differ to count as one.
MERGED = 0.3

#: What a step on the sample leaves of the decrement at least, where the next one has another Hessian.
SLOW = 0.3

#: Rows of the sample: at least this many, this fraction of all and this many times the variables; all where that is most.
#: With an l1 penalty no pairs make up for the sample's error.
SAMPLE_ROWS, SAMPLE_FRACTION, SAMPLE_TIMES, SAMPLE_TIMES_L1, MOST_OF_ALL = 2000, 0.1, 20, 60, 0.4

#: The part of the sample's own error, d/n_A in the squared decrement, to which problems on it are solved.
OF_NOISE = 0.02

#: Solutions are taken for linear in the strength where it moves them by at most this many times the accuracy, until two
#: more of them show what they are.
NEARLY_LINEAR = 200.0

#: What of the decrement is left by steps with an l1 penalty that are too slow, after this many passes.
HOPELESS, TRIED_PASSES = 0.7, 5

#: Pairs of each problem, and passes on the sample and on all rows, after which the rest is left to others.
N_PAIRS, SAMPLE_PASSES, MOST_PASSES = 8, 20, 15


class Family(NamedTuple):
    """Problems on the same rows."""

    problem: Problem  # of all rows
    weights: Matrix  # (F, n)  q: each row sums to 1
    ridges: Matrix  # (F, m)  alpha, falling
    ridges_of_all: Vector  # (m,)  of the problems of all rows
    lassos: Matrix  # (F, m)  strengths of an l1 penalty, or 0
    lassos_of_all: Vector  # (m,)
    sizes: Vector  # (F,)  S_f
    accuracy: float = ACCURACY
    start: Vector | None = None  # (dim,)  of the sample's problems; 0 when left out


class Together(NamedTuple):
    """What was found."""

    points: npt.NDArray[np.float64]  # (F, m, dim)
    is_solved: npt.NDArray[np.bool_]  # (F, m)
    n_passes: npt.NDArray[np.float64]  # (F, m)
    starts: Matrix  # (m, dim)  near to the solutions of all rows
    hessians: list[StaleHessian]  # of a sample of all rows
    which: Indices  # (m,)  the nearest Hessian of each strength


class _Steps:
    """Iterates of many problems, with their pairs."""

    def __init__(
        self,
        x: Matrix,
        ridge: Vector,
        lasso: Vector,
        weights: Vector,
        enough: Vector,
        tol: float,
        gram: Matrix | None = None,
        accuracy: float = ACCURACY,
    ) -> None:
        self.accuracy = accuracy
        self.gram = gram  # of the rows: what steps change decisions by, in the mean of squares
        self.thresholds = lasso[:, None] * weights if lasso.any() else None
        self.x, self.quadratic, self.enough, self.tol = x.copy(), ridge[:, None] * weights, enough, tol
        self.gradient, self.direction = np.zeros_like(x), np.zeros_like(x)
        self.t, self.slope = np.ones(len(x)), np.full(len(x), -np.inf)
        self.ratio = np.full(len(x), np.nan)  # what the last full step left of the decrement
        self.is_solved, self.n_passes = np.zeros(len(x), dtype=bool), np.zeros(len(x))
        self.steps, self.changes = np.zeros((2, N_PAIRS, *x.shape))
        self.inverse_products = np.zeros((N_PAIRS, len(x)))  # 1 / s'y, 0 where there is no pair
        self.n_rounds = 0

    def _rise(self, some: Indices, ends: Matrix) -> Any:
        """Return what the l1 penalty rises by from x to the ends."""
        if self.thresholds is None:
            return 0.0
        return (self.thresholds[some] * (np.abs(ends) - np.abs(self.x[some]))).sum(axis=1)

    def begin(self, loss_gradient: Matrix, precondition: Preconditioner) -> None:
        """Take the gradients of the losses at x, and choose directions."""
        self.gradient = loss_gradient + self.quadratic * self.x
        self._direct(np.arange(len(self.x)), precondition)

    def trials(self, some: Indices) -> Matrix:
        return np.asarray(self.x[some] + self.t[some, None] * self.direction[some])

    def advance(self, some: Indices, loss_gradient: Matrix, precondition: Preconditioner) -> None:
        """Take the steps whose ends have these gradients of the losses, or cut them."""
        ends = self.trials(some)
        gradient = loss_gradient + self.quadratic[some] * ends
        after = np.einsum("pj,pj->p", gradient, self.direction[some]) + self._rise(some, ends) / self.t[some]
        before, t = self.slope[some], self.t[some]
        falls = (after <= 0.0) | (np.abs(after) <= 0.5 * np.abs(before))  # NaN does not
        falls &= np.isfinite(gradient).all(axis=1)
        cut = some[~falls]
        with np.errstate(all="ignore"):
            part = before[~falls] / (before[~falls] - after[~falls])
        self.t[cut] *= np.clip(np.where(np.isfinite(part), part, 0.1), 0.1, 0.5)
        taken, ends, gradient = some[falls], ends[falls], gradient[falls]
        step, change = ends - self.x[taken], gradient - self.gradient[taken]
        product = np.einsum("pj,pj->p", step, change)
        place = self.n_rounds % N_PAIRS
        self.n_rounds += 1
        self.inverse_products[place] = 0.0
        self.steps[place, taken], self.changes[place, taken] = step, change
        with np.errstate(all="ignore"):
            self.inverse_products[place, taken] = np.where(product > 0.0, 1.0 / product, 0.0)
        self.x[taken], self.gradient[taken] = ends, gradient
        was_full, before = t[falls] == 1.0, before[falls]
        self.t[taken] = 1.0
        self._direct(taken, precondition)
        with np.errstate(all="ignore"):
            self.ratio[taken] = np.where(was_full, np.sqrt(self.slope[taken] / before), np.nan)
        self._judge(taken)

    def _direct(self, some: Indices, precondition: Preconditioner) -> None:
        """Choose directions by the two loops of L-BFGS, and remember the slopes along them: the squared decrements.

        With an l1 penalty they lead to the minimisers of the quadratic models with it.
        """
        if self.thresholds is not None:
            at = self.quadratic[some], self.thresholds[some], self.x[some], self.gradient[some]
            self.direction[some] = step = precondition.model_steps(some, *at)
            rise = self._rise(some, self.x[some] + step)
            self.slope[some] = np.einsum("pj,pj->p", self.gradient[some], step) + rise
            return
        left, coefficients = self.gradient[some].copy(), []
        places = [(self.n_rounds - 1 - i) % N_PAIRS for i in range(min(self.n_rounds, N_PAIRS))]
        for place in places:
            coefficient = np.einsum("pj,pj->p", self.steps[place, some], left) * self.inverse_products[place, some]
            left -= coefficient[:, None] * self.changes[place, some]
            coefficients.append(coefficient)
        result = precondition(some, left)
        for place, coefficient in zip(reversed(places), reversed(coefficients), strict=True):
            product = np.einsum("pj,pj->p", self.changes[place, some], result) * self.inverse_products[place, some]
            result += (coefficient - product)[:, None] * self.steps[place, some]
        self.direction[some] = -result
        self.slope[some] = -np.einsum("pj,pj->p", self.gradient[some], result)

    def _judge(self, some: Indices) -> None:
        decrement = np.sqrt(np.maximum(-self.slope[some], 0.0))
        left = np.where(self.ratio[some] < 0.5, self.ratio[some], 1.0)
        is_small = left * decrement <= self.enough[some]
        if self.gram is not None:
            is_small &= left * size_of(self.direction[some], self.gram) <= self.accuracy
        is_optimal = (np.linalg.norm(self.gradient[some], axis=1) <= self.tol) & (self.thresholds is None)
        solved = some[is_small | is_optimal]
        self.is_solved[solved] = True
        self.x[solved] += self.direction[solved]

    @property
    def open(self) -> Indices:
        """The problems that are not solved."""
        return np.flatnonzero(~self.is_solved)

    @property
    def hopeful(self) -> Indices:
        """Those of them whose last full step left less than `HOPELESS` of the decrement."""
        return np.flatnonzero(~self.is_solved & (self.ratio < HOPELESS))


def size_of(steps: Matrix, gram: Matrix) -> Vector:
    """Return the root of the mean square of what steps change the rows' decisions by."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("pj,pj->p", steps @ gram, steps), 0.0)))


def solve_together(family: Family, order: Indices, tol: float, n_threads: int = 1) -> Together:
    """Return the solutions of all folds, and points to begin with of all rows.

    The loss is smooth and there is no set; the problem has one output and a batch size; `order` is the one in which its
    components join the sample.
    """
    problem, (n_folds, m) = family.problem, family.ridges.shape
    sample, rows, components = _sampled(problem, order)
    hessians = SharedHessians(sample)
    points, which = _on_sample(sample, hessians, family.ridges_of_all, family.lassos_of_all, family.start)
    precondition = Preconditioner(hessians, which, family.ridges.mean(axis=0), np.arange(m))
    first = _first_weak(family, precondition, points)
    between = np.arange(first + 1, m - 1)
    leaders = np.setdiff1d(np.arange(m), between)
    gradients = gradients_of_all(problem, points[leaders], family.weights, n_threads)
    found, n_passes = np.repeat(points[None], n_folds, axis=0), np.ones((n_folds, m))
    is_solved = np.zeros((n_folds, m), dtype=bool)

    def solve(strengths: Indices, gradients: Matrix | None) -> None:
        """Solve the problems of all folds with some strengths, from the points found so far."""
        fold, strength = (each.ravel() for each in np.meshgrid(np.arange(n_folds), strengths, indexing="ij"))
        x, enough = found[fold, strength], family.accuracy / np.sqrt(family.sizes[fold])
        ridges, lassos = family.ridges[fold, strength], family.lassos[fold, strength]
        steps = _Steps(x, ridges, lassos, problem.term.weights, enough, tol, hessians.gram(), family.accuracy)
        precondition.strength = strength
        if gradients is None:
            gradients = gradients_at_each(problem, x, family.weights, fold, n_threads)
            steps.n_passes += 1.0
        steps.begin(gradients, precondition)
        for k in range(MOST_PASSES):
            some = steps.open if k < TRIED_PASSES or steps.thresholds is None else steps.hopeful
            if some.size == 0:
                break
            loss_gradient = gradients_at_each(problem, steps.trials(some), family.weights, fold[some], n_threads)
            steps.n_passes[some] += 1.0
            steps.advance(some, loss_gradient, precondition)
        found[fold, strength], is_solved[fold, strength] = steps.x, steps.is_solved
        n_passes[fold, strength] += steps.n_passes

    solve(leaders, gradients.reshape(-1, problem.dim))
    if between.size > 0:
        errors = _interpolate(family, precondition, found, first, hessians.gram())
        ends = is_solved[:, [first - 1, first, m - 1]].all(axis=1, keepdims=True)
        is_solved[:, between] = ends & (errors <= family.accuracy)
        if (rest := between[~is_solved[:, between].all(axis=0)]).size > 0:
            solve(rest, None)
    starts = _of_all_rows(family, precondition, found)
    part = float(problem.weights[rows].sum()) or 1.0
    handed = [_of_problem(problem, hessian, rows, components, part) for hessian in hessians.known]
    return Together(found, is_solved, n_passes, starts, handed, which)


def _of_all_rows(family: Family, precondition: Preconditioner, found: npt.NDArray[np.float64]) -> Matrix:
    """Return points near the solutions of all rows: the means of the folds', (m, dim), with the strengths of all rows.

    The mean of the folds' F is that of all rows but for the strength, where each row is in as many folds.
    """
    if family.lassos.any():
        return np.asarray(found.mean(axis=0))
    means, more = found.mean(axis=0), family.ridges.mean(axis=0) - family.ridges_of_all
    precondition.strength = np.arange(len(means))
    pulls = more[:, None] * family.problem.term.weights * means
    return np.asarray(means + precondition(precondition.strength, pulls))


def _first_weak(family: Family, precondition: Preconditioner, points: Matrix) -> int:
    """Return the first strength from which on solutions may be near to linear in the strength; m - 1 if there is none."""
    m, enough = len(points), family.accuracy / math.sqrt(family.sizes.max())
    if family.lassos.any():
        return m - 1
    pulls = family.problem.term.weights * points
    lengths = np.sqrt(np.einsum("kj,kj->k", pulls, precondition(np.arange(m), pulls)))
    weak = np.flatnonzero(family.ridges_of_all * lengths <= NEARLY_LINEAR * enough)
    return int(weak[0]) if weak.size > 0 and weak[0] >= 1 else m - 1


def _interpolate(
    family: Family, precondition: Preconditioner, found: npt.NDArray[np.float64], first: int, gram: Matrix
) -> Matrix:
    """Write the solutions between the strength `first` and the last, and return their errors, (F, number of them).

    They are quadratic in the strength, through those solutions and the one before. As w(alpha) is a sum of c / (lambda +
    alpha) over eigenvalues, it bends most at 0, where the difference of the two slopes that are known underestimates it by
    up to the ratio of their strengths: the error is that difference over the whole distance, in standard errors or as
    a change of decisions.
    """
    m, alphas = found.shape[1], family.ridges[:, :, None]
    before, here, last = alphas[:, first - 1], alphas[:, first], alphas[:, m - 1]
    slope = (found[:, first] - found[:, m - 1]) / (here - last)
    change = (found[:, first - 1] - found[:, first]) / (before - here) - slope
    in_errors = np.sqrt(family.sizes) * np.linalg.norm(change @ np.tril(precondition.factor(first).T), axis=1)
    change_size = np.maximum(in_errors, size_of(change, gram))
    errors = np.empty((len(found), m - 2 - first))
    for i, k in enumerate(range(first + 1, m - 1)):
        alpha = alphas[:, k]
        found[:, k] = (
            found[:, m - 1] + slope * (alpha - last) + change * ((alpha - last) * (alpha - here) / (before - last))
        )
        errors[:, i] = change_size * ((alpha - last) * (here - alpha) / (here - last))[:, 0]
    return errors


def _on_sample(
    sample: Problem, hessians: SharedHessians, ridges: Vector, lassos: Vector, start: Vector | None
) -> tuple[Matrix, Indices]:
    """Return points of all strengths that minimise F on the sample to its own accuracy, and which Hessian is nearest."""
    m, dim, of_all = ridges.size, sample.dim, sample.weights[None]
    noise = math.sqrt(OF_NOISE * dim / sample.n_rows)
    at = np.zeros((1, dim)) if start is None else start[None]
    precondition = Preconditioner(hessians, hessians.nearest(at).repeat(m), ridges, np.arange(m))
    begin = gradients_at_each(sample, at, of_all, np.zeros(1, dtype=np.int64))
    pull = sample.term.weights * precondition(np.array([m - 1]), begin)
    length = math.sqrt(max(float(pull[0] @ precondition(np.array([m - 1]), pull)[0]), 0.0))
    leads = (
        (ridges - ridges[-1]) * length > MERGED * noise
    ) | lassos.any()  # the others' solutions differ by less than is asked for here
    leads[-1] = True
    chosen = np.flatnonzero(leads)
    weights, enough = sample.term.weights, np.full(chosen.size, noise)
    steps = _Steps(np.repeat(at, chosen.size, axis=0), ridges[chosen], lassos[chosen], weights, enough, 0.0)
    precondition = Preconditioner(hessians, precondition.which[chosen], ridges[chosen], np.arange(chosen.size))
    steps.begin(begin, precondition)
    for _ in range(SAMPLE_PASSES):
        some = steps.open
        if some.size == 0:
            break
        found = gradients_at_each(sample, steps.trials(some), of_all, np.zeros(some.size, dtype=np.int64))
        if (slow := some[~(steps.ratio[some] <= SLOW)]).size > 0 and steps.n_rounds > 0:
            precondition.which[slow] = hessians.nearest(steps.trials(slow))
        steps.advance(some, found, precondition)
        if (steps.t[some] < 1e-6).all():
            break
    of_chosen = np.searchsorted(chosen, np.arange(m))
    return steps.x[of_chosen], hessians.nearest(steps.x)[of_chosen]


def _sampled(problem: Problem, order: Indices) -> tuple[Problem, Indices, Indices]:
    """Return the problem on a sample, which rows these are, and which components."""
    n, m, size = problem.n_rows, problem.n_components, problem.batch_size or 1
    times = SAMPLE_TIMES if problem.is_smooth else SAMPLE_TIMES_L1
    wanted = max(SAMPLE_ROWS, SAMPLE_FRACTION * n, times * problem.dim)
    components = np.arange(m) if wanted > MOST_OF_ALL * n else np.sort(order[: math.ceil(wanted / size)])
    if components.size == m:
        return problem, np.arange(n), components
    rows = (components[:, None] * size + np.arange(size)).ravel()
    rows = rows[rows < n]
    weights = problem.weights[rows]
    chosen: Any
    if isinstance(problem.rows, DenseRows):
        chosen = problem.rows._replace(values=problem.rows.values[rows], n_rows=rows.size)
    else:
        matrix = to_matrix(problem.rows)[rows]
        chosen = problem.rows._replace(values=matrix.data, columns=matrix.indices, starts=matrix.indptr, n_rows=rows.size)
    own = replace(
        problem,
        rows=chosen,
        targets=problem.targets[rows],
        offsets=problem.offsets[rows],
        weights=weights / (weights.sum() or 1.0),
        batch_size=None,
    )
    return own, rows, components


def _of_problem(problem: Problem, hessian: StaleHessian, rows: Indices, components: Indices, part: float) -> StaleHessian:
    """Return a Hessian of the sample as one of the problem's."""
    curvatures = np.zeros(problem.n_rows, dtype=np.float32)
    curvatures[rows] = hessian.curvatures
    return StaleHessian(curvatures, part * hessian.sums, components, part, part * hessian.largest_float32)
