"""What Theorems 1 and 2 of the curvature paper say of a small logistic regression: allowed steps, rates, bounds."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.datasets import make_logistic
from finitesum.evaluation.hessian import hessian_at
from finitesum.evaluation.smoothness import full_smoothness, momentum_limit
from finitesum.papers.runs import find_minimum
from finitesum.problems.linear import Problem
from finitesum.problems.rows import to_matrix

M, D, ALPHA, CONDITION = 40, 8, 2e-3, 30.0


class Constants(NamedTuple):
    """Of the problem, the mean taken: mu and L of F, L_H the mean Lipschitz constant of the components' Hessians."""

    mu: float
    smoothness: float
    hessian_lipschitz: float
    curvatures: Vector  # eigenvalues of the Hessian at the optimum
    optimum: Vector

    @property
    def kappa(self) -> float:
        """L / mu."""
        return self.smoothness / self.mu


@cache
def problem_of() -> Problem:
    """Return a small logistic regression whose classes overlap."""
    data = make_logistic(M, D, condition=CONDITION, noise=0.2, seed=0)
    return Problem.linear(data.rows, data.targets(), alpha=ALPHA, batch_size=1)


@cache
def constants() -> Constants:
    """Return what the theorems need of the problem."""
    problem = problem_of()
    optimum = np.array(find_minimum(problem)["x"])
    curvatures = np.asarray(np.linalg.eigvalsh(hessian_at(problem, optimum)), dtype=np.float64)
    lipschitz = float(np.mean(np.linalg.norm(to_matrix(problem.rows), axis=1) ** 3) / (6.0 * math.sqrt(3.0)))
    return Constants(ALPHA, full_smoothness(problem), lipschitz, curvatures, optimum)


def allowed_factor(distance: float) -> float:
    """Return c0, the fraction of 2 / (mu + L) that a sufficient condition of Theorem 1 allows from a start at a distance.

    With t = mu L / (2 (mu + L)), K = m and V the squared distance, the step is at most the least of 2 / (mu + L),
    (t / (K^2 L_H sqrt(V) (L^2 + 4 L_H^2 V)))^(1/2) and (t / (K^4 L_H^2 V (L^4 + 16 L_H^4 V^2)))^(1/5).
    """
    mu, big, hessian, _, _ = constants()
    v, t = distance**2, mu * big / (2.0 * (mu + big))
    first = t / (M**2 * hessian * math.sqrt(v) * (big**2 + 4.0 * hessian**2 * v))
    second = t / (M**4 * hessian**2 * v * (big**4 + 16.0 * hessian**4 * v**2))
    return float(min(1.0, min(first**0.5, second**0.2) * (mu + big) / 2.0))


def promised(distance: float, factor: float) -> float:
    """Return delta of Theorem 1: V(k) <= delta^ceil(k / (2 K + 1)) V(1)."""
    mu, big, hessian, _, _ = constants()
    step, v = 2.0 * factor / (mu + big), distance**2
    q = (
        2.0 * step**3 * M**2 * hessian * big**2,
        8.0 * step**3 * M**2 * hessian**3,
        2.0 * step**6 * M**4 * hessian**2 * big**4,
        32.0 * step**6 * M**4 * hessian**6,
    )
    powers = (0.5, 1.5, 1.0, 3.0)
    added = float(sum(a * v**p for a, p in zip(q, powers, strict=True)))
    return 1.0 - 2.0 * step * mu * big / (mu + big) + added


def asymptotic_rate(name: str, factor: float = 1.0) -> float:
    """Return the ratio of V that the full gradient method (or its accelerated form) has near the optimum.

    For each curvature h there: (1 - step h)^2, or the larger squared root of z^2 - (1 + a)(1 - step h) z + a (1 - step h).
    """
    mu, big, _, curvatures, _ = constants()
    if name == "CIAG":
        return float(np.max((1.0 - 2.0 * factor / (mu + big) * curvatures) ** 2))
    step = factor / (2.0 * big)
    a = momentum_limit(mu, step)
    roots = [np.roots([1.0, -(1.0 + a) * (1.0 - step * h), a * (1.0 - step * h)]) for h in curvatures]
    return float(np.max(np.abs(roots)) ** 2)


def bound(name: str, factor: float = 1.0) -> float:
    """Return the asymptotic rate of the theorem: 1 - 4 c0 kappa / (kappa + 1)^2, or 1 - sqrt(c1 / (2 kappa))."""
    kappa = constants().kappa
    return 1.0 - (4.0 * factor * kappa / (kappa + 1.0) ** 2 if name == "CIAG" else math.sqrt(factor / (2.0 * kappa)))
