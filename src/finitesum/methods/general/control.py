"""Steps on the second-order memory that need no step size: CIAG and A-CIAG with "auto" for components that are callables.

It follows `finitesum.methods.curvature.automatic_steps`, without its majorants, which belong to linear models:

* the step is factor / lambda, where lambda bounds lambda_max of the current H: the power iteration, and between its runs
  the Frobenius norm of every change of H. So no step can blow up on the model;
* momentum is Nesterov's sequence, with restarts, and between visits A-CIAG takes model steps that evaluate nothing;
* R = ||E delta|| / ||E pi|| compares, at each visit, what a component's model missed with what it predicted. The move of a
  visit is limited: to half of the limit and less, once a pass at most, when R > 0.9; to four times as much, once in a
  quarter of a pass at most, when R < 1/2 and moves come near the limit. An iterate where a component is not finite is
  taken back half of the way;
* where `smoothness` is given, visits take single steps of 1 / max(lambda, L) while R says that the models are bad: steps
  that F itself, whose curvature L bounds, would allow. (Models with the curvature L_j I in place of bad Hessians were tried
  as well: they are so much stiffer than their neighbours that the method went round in circles.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.evaluation.smoothness import momentum_limit
from finitesum.methods.constants import Constant, smoothness_from, strong_convexity
from finitesum.methods.curvature.accelerated_steps import MOST_MODEL_STEPS, SLOWEST_FALL
from finitesum.methods.curvature.automatic_steps import DISTRUSTED, TRUSTED, comparison_window, with_revisits
from finitesum.methods.general.memory import Memory, look, model_gradient, move
from finitesum.methods.general.points import moved
from finitesum.problems.finite_sum import FiniteSum


class Guard(NamedTuple):
    """What is known of the models' worth, and what follows from it."""

    ratio: float  # R, NaN before it is known
    n_compared: int  # comparisons up to now
    doubted: bool  # whether R says that the models are bad
    radius: float  # the largest move of a visit
    quiet_until: int  # the visit before which the radius is not changed again
    cut_ratio: float  # R at the last cut of the radius
    reached: float  # the longest move that a visit wished to make since the radius was last changed


class Control(NamedTuple):
    """What the control remembers."""

    direction: Vector  # (d,)  of the power iteration
    failure: Vector  # (d,)  E delta
    movement: Vector  # (d,)  E pi
    gradient: Vector  # (d,)  of the model, at the last step
    guard: Guard
    eigenvalue: float  # lambda
    t: float  # of Nesterov's sequence
    n_visits: int


def new_control(problem: FiniteSum, x0: Vector) -> Control:
    """Return the control before the first visit."""
    zeros = np.zeros(problem.dim)
    return Control(zeros, zeros.copy(), zeros.copy(), zeros.copy(), new_guard(problem, x0), 0.0, 1.0, 0)


def new_guard(problem: FiniteSum, x0: Vector) -> Guard:
    """Return the guard before the first visit: as if the way to the minimum were ten times ||x0|| long, and a pass."""
    reach = 10.0 * max(1.0, float(np.linalg.norm(x0))) / problem.n_components
    return Guard(math.nan, 0, False, reach, 0, math.inf, 0.0)


def overflowed(guard: Guard, now: int, n: int) -> Guard:
    """Return what the guard thinks after a visit where something was not finite."""
    return guard._replace(radius=0.1 * guard.radius, quiet_until=now + n, reached=0.0)


def free_certificate(problem: FiniteSum, control: Control) -> float:
    """Return (n / h) ||E delta||, an estimate of the surrogate's error at the last iterate."""
    n = problem.n_components
    return float(n / comparison_window(n) * np.linalg.norm(control.failure))


def judged(guard: Guard, failure: float, movement: float, now: int, n: int) -> Guard:
    """Return what the guard thinks after one more comparison, given ||E delta|| and ||E pi||, at visit `now`."""
    guard = guard._replace(n_compared=guard.n_compared + 1)
    if guard.n_compared < 3 or not movement > 1e-15:
        return guard
    ratio = failure / movement
    doubted = ratio > DISTRUSTED or (guard.doubted and ratio >= TRUSTED)
    guard = guard._replace(ratio=ratio, doubted=doubted)
    if ratio < TRUSTED and now >= guard.quiet_until and guard.reached > 0.25 * guard.radius:
        quiet_until = now + max(n // 4, 1)
        return guard._replace(radius=4.0 * guard.radius, cut_ratio=math.inf, quiet_until=quiet_until, reached=0.0)
    if ratio > DISTRUSTED and (now >= guard.quiet_until or ratio > 2.0 * guard.cut_ratio):
        radius = guard.radius * max(0.05, 0.45 / ratio)
        return guard._replace(radius=radius, cut_ratio=ratio, quiet_until=now + n, reached=0.0)
    return guard


class ControlledPass:
    """The visits of one pass: iterate, memory and control, which change with each of them."""

    def __init__(
        self,
        problem: FiniteSum,
        x: Vector,
        previous: Vector,
        memory: Memory,
        control: Control,
        *,
        is_accelerated: bool,
        model_steps: int,
    ) -> None:
        self.problem, self.memory = problem, memory
        self.is_accelerated, self.model_steps = is_accelerated, model_steps
        self.x, self.previous, self.start = x, previous, x
        self.direction, self.failure, self.movement, self.gradient = control[:4]
        self.guard, self.eigenvalue, self.t, self.now = control[4:]
        self.mu = strong_convexity(problem)
        self.n_gradients, self.n_hessians = 0, 0

    def run(self, order: Indices) -> None:
        """Visit the components of `order`; the first pass of an empty memory makes some visits more, to supply R."""
        n = self.problem.n_components
        first = not bool(self.memory.visited.any())
        n_revisits = math.ceil(n * max(0.05, min(0.5, 10.0 / n))) if first and n > 1 else 0
        self.window = min(max(0.1 * n_revisits, 3.0), 50.0) if n_revisits else comparison_window(n)
        for component in with_revisits(order, n_revisits):
            self._visit(int(component))

    def control(self) -> Control:
        """Return the control after the visits."""
        vectors = self.direction, self.failure, self.movement, self.gradient
        return Control(*vectors, self.guard, self.eigenvalue, self.t, self.now)

    def _visit(self, j: int) -> None:
        compared = bool(self.memory.visited[j])
        t_next, extrapolation = self._momentum()
        y = self.x + extrapolation * (self.x - self.previous)
        increase = self._compared_move(j, y, compared)
        self.now += 1
        radius = self.guard.radius
        if not math.isfinite(increase):  # something overflowed: halfway back to where it did not, and smaller moves
            self.x = 0.5 * (self.x + self.start) if self.now > 1 else np.full_like(self.x, np.nan)
            self.guard = overflowed(self.guard, self.now, self.problem.n_components)
            self._restart()
            return
        self.eigenvalue = self._bounded(self.eigenvalue + increase)
        self.start = self.x
        if self.eigenvalue > 0.0:
            self._model_steps(y, t_next)
        length = float(np.linalg.norm(self.x - self.start))
        self.guard = self.guard._replace(reached=max(self.guard.reached, length))
        if compared:
            failure, movement = float(np.linalg.norm(self.failure)), float(np.linalg.norm(self.movement))
            self.guard = judged(self.guard, failure, movement, self.now, self.problem.n_components)
        if length > radius:
            self.x = self.start + radius / length * (self.x - self.start)
        if length > radius or self.guard.radius < radius:
            self._restart()

    def _restart(self) -> None:
        self.t, self.previous = 1.0, self.x

    def _momentum(self) -> tuple[float, float]:
        """Return the next t of Nesterov's sequence and the extrapolation."""
        if not self.is_accelerated or self.eigenvalue <= 0.0:
            return 1.0, 0.0
        t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.t**2))
        return t_next, min((self.t - 1.0) / t_next, momentum_limit(self.mu, 1.0 / self.eigenvalue))

    def _compared_move(self, j: int, y: Vector, compared: bool) -> float:
        """Move component j's anchor to y; return a bound on how much lambda_max of H rose, NaN if it is not finite."""
        n = self.problem.n_components
        self.n_gradients, self.n_hessians = self.n_gradients + 1, self.n_hessians + (2 if compared else 1)
        visit = look(self.problem, self.memory, j, y)
        change = move(self.problem, self.memory, j, y, visit)
        if change is None:
            return math.nan
        if compared:
            keep = 1.0 - 1.0 / self.window
            self.failure = keep * self.failure + visit.missed / n
            self.movement = keep * self.movement + visit.predicted / n
        increase = float(np.linalg.norm(change))
        if increase > 0.01 * self.eigenvalue:  # a new largest eigenvector may be in it
            column = change[:, int(np.argmax(np.abs(np.diagonal(change))))]
            length = float(np.linalg.norm(column))
            if length > 0.0:
                self.direction = self.direction + increase / (max(self.eigenvalue, increase) * length) * column
        return increase

    def _bounded(self, bound: float) -> float:
        """Return the bound on lambda_max(H) after this visit, sharpened from time to time by the power iteration.

        The last model gradient is mixed in: should a step ever have been too long, it points to the eigenvector missed.
        """
        if self.now > 100 and self.now % -(-self.problem.n_components // 50) != 0:
            return bound
        product = _unit(self.direction) + 0.3 * _unit(self.gradient)
        for _ in range(8 if self.now <= 10 else 2):
            if not product.any():
                return bound
            self.direction = _unit(product)
            product = self.memory.hessian @ self.direction
        largest = float(np.linalg.norm(product))
        if largest > 0.0:
            self.direction = product / largest
        return max(1.05 * largest, SLOWEST_FALL * bound)

    def _model_steps(self, y: Vector, t_next: float) -> None:
        """Take the model steps of a visit, the first from y."""
        smoothness, n_steps = self.problem.smoothness, self.model_steps
        step_size = (1.0 if self.is_accelerated else 1.8) / self.eigenvalue
        if self.guard.doubted and smoothness is not None:
            step_size, n_steps = 1.0 / max(self.eigenvalue, smoothness_from(self.problem, smoothness, Constant.MEAN)), 1
        elif n_steps == 0:
            kappa = self.eigenvalue / max(self.mu, 1e-10 * self.eigenvalue)
            n_steps = min(max(1, math.ceil(8.0 * math.sqrt(kappa) / self.problem.n_components)), MOST_MODEL_STEPS)
        for step in range(n_steps):
            if step > 0:
                t_next, extrapolation = self._momentum()
                y = self.x + extrapolation * (self.x - self.previous)
            self.gradient = model_gradient(self.memory, y)
            self.previous, self.x = self.x, moved(self.problem, y, self.gradient, step_size)
            self.t = t_next
            if not self.is_accelerated or np.dot(y - self.x, self.x - self.previous) > 0.0:
                self._restart()


def _unit(vector: Vector) -> Vector:
    """Return the vector at length 1, or 0."""
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0.0 else np.zeros_like(vector)
