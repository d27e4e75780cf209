"""Few Hessians for many points and strengths of a penalty, and the steps that they give."""

import numpy as np
import numpy.typing as npt

from finitesum.core.arrays import Indices, Matrix, Vector
from finitesum.core.symmetric import mirrored
from finitesum.evaluation.hessian import add_gram, may_be_single
from finitesum.evaluation.many_points import curvatures_at_each
from finitesum.methods.newton.stale_hessian import StaleHessian, factor_of
from finitesum.methods.subproblems.many_models import Hessians, model_steps, without_last
from finitesum.methods.subproblems.positive_definite import apply_inverse
from finitesum.problems.linear import Problem

#: The part of the curvature that may differ where a Hessian is shared.
SHARED = 0.1


class SharedHessians:
    """Few Hessians for many points: one is added for a point whose rows' curvatures differ from those of all others."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.single = problem, may_be_single(problem)
        self.known: list[StaleHessian] = []
        self._made = self._with_reduced(np.zeros((0, problem.dim, problem.dim)))

    def nearest(self, points: Matrix) -> Indices:
        """Return which Hessian is nearest to that of each point."""
        now = curvatures_at_each(self.problem, points) * self.problem.weights
        totals = np.maximum(now.sum(axis=1), 1e-300)
        distances = np.array([self._distance(now, hessian) for hessian in self.known]).reshape(-1, len(points))
        while not self.known or (distances.min(axis=0) > SHARED * totals).any():
            far = int((distances.min(axis=0) / totals).argmax()) if self.known else len(points) // 2
            self._add(now[far])
            distances = np.vstack([distances, self._distance(now, self.known[-1])])
        return np.asarray(distances.argmin(axis=0))

    def made(self) -> Hessians:
        """Return the Hessians of the losses as whole matrices; each is made once."""
        if (n_made := len(self._made.whole)) < len(self.known):
            new = self._with_reduced(np.stack([mirrored(hessian.sums) for hessian in self.known[n_made:]]))
            self._made = Hessians(*(np.concatenate(parts) for parts in zip(self._made, new, strict=True)))
        return self._made

    def gram(self) -> Matrix:
        """Return the mean of x_i x_i', by the first Hessian, whose curvatures differ little where it is at 0."""
        first = self.known[0]
        total = float(first.curvatures @ self.problem.weights)
        return mirrored(first.sums) / (total or 1.0)

    def _with_reduced(self, whole: npt.NDArray[np.float64]) -> Hessians:
        return without_last(whole) if self.problem.has_intercept else Hessians.of_all(whole)

    def _distance(self, now: Matrix, hessian: StaleHessian) -> Vector:
        return np.asarray(np.abs(now - hessian.curvatures * self.problem.weights).sum(axis=1))

    def _add(self, weighted: Vector) -> None:
        n, dim = self.problem.n_rows, self.problem.dim
        sums = np.zeros((dim, dim))
        add_gram(self.problem, np.arange(n), weighted, sums, single_precision=self.single)
        with np.errstate(all="ignore"):
            curvatures = np.where(self.problem.weights > 0.0, weighted / self.problem.weights, 0.0).astype(np.float32)
        largest = np.diagonal(sums).copy() if self.single else np.zeros(dim)
        self.known.append(StaleHessian(curvatures, sums, np.arange(n), 1.0, largest))


class Preconditioner:
    """Inverses of the Hessians with the strengths of the penalty, made when they are first needed."""

    def __init__(self, hessians: SharedHessians, which: Indices, ridges: Vector, strength: Indices) -> None:
        self.hessians, self.which, self.ridges, self.strength = hessians, which, ridges, strength
        self._factors: dict[tuple[int, int], Matrix] = {}

    def __call__(self, some: Indices, right: Matrix) -> Matrix:
        result = np.empty_like(right)
        strengths = self.strength[some]
        for k in np.unique(strengths):
            chosen = strengths == k
            result[chosen] = apply_inverse(self.factor(int(k)), np.asfortranarray(right[chosen].T)).T
        return result

    def model_steps(self, some: Indices, *at: Matrix) -> Matrix:
        """Return the steps to the minimisers of the models with an l1 penalty: see `many_models`."""
        return model_steps(self.hessians.made(), self.which[self.strength[some]], *at)

    def factor(self, k: int) -> Matrix:
        place = int(self.which[k]), k
        if place not in self._factors:
            problem, hessian = self.hessians.problem, self.hessians.known[place[0]]
            self._factors[place] = factor_of(problem, hessian, float(self.ridges[k]), 0.0)[0]
        return self._factors[place]
