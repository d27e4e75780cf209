"""A convex term as intervals and thresholds of coordinates: what models with an l1 penalty, bounds or a sum are made of."""

from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Flags, Indices, Vector


class Intervals(NamedTuple):
    """A term as intervals and thresholds, and a bound on a weighted sum of the sizes of each output's coefficients."""

    lower: Vector
    upper: Vector
    thresholds: Vector  # of the l1 penalty
    has_sign: Flags  # coordinates whose size counts: their interval is that of their sign
    sizes: Vector  # weights of the sum; empty where it has no bound
    total: float  # its bound
    is_equal: bool  # whether the sum is always at its bound
    n_sums: int = 1  # the outputs, whose coordinates follow each other
    sum_of: Indices = np.zeros(0, dtype=np.int64)  # the sum of each coordinate; empty where all have as many of them

    def by_sum(self, numbers: Vector) -> Vector:
        """Return the numbers of coordinates, added up over those of each sum."""
        if self.sum_of.size:
            return np.bincount(self.sum_of, numbers, self.n_sums).astype(np.float64)
        return np.asarray(numbers.reshape(self.n_sums, -1).sum(axis=1))

    def spread(self, numbers: Any) -> Any:
        """Return a number of each sum for each of its coordinates."""
        return numbers[self.sum_of] if self.sum_of.size else np.repeat(numbers, self.lower.size // self.n_sums)

    def face(self, w: Vector) -> Vector:
        """Return 0 for free coordinates, with their sign where that counts, and other numbers for those at a bound."""
        at_bound = 2.0 * (w <= self.lower) + 3.0 * (w >= self.upper)
        return np.where(self.has_sign, 1.0 - np.sign(w) ** 2 + 8.0 * (w < 0.0), 0.0) + at_bound

    def without_signs(self, gradient: Vector) -> tuple["Intervals", Vector]:
        """Return the intervals and a model's gradient with the thresholds of coordinates of one sign in the gradient.

        A coordinate that is always 0 has no sign, and loses its threshold, too.
        """
        signs = 1.0 * (self.lower >= 0.0) - (self.upper <= 0.0)
        has_one = (self.thresholds > 0.0) & ((self.lower >= 0.0) | (self.upper <= 0.0))
        if not has_one.any():
            return self, gradient
        has_sign, thresholds = self.has_sign & ~has_one, np.where(has_one, 0.0, self.thresholds)
        return self._replace(has_sign=has_sign, thresholds=thresholds), gradient + self.thresholds * signs

    def on(self, chosen: Indices) -> "Intervals":
        """Return the same for some of the coordinates, where the others add nothing to the sums."""
        sum_of = self.spread(np.arange(self.n_sums))[chosen] if self.sizes.size else self.sum_of
        return self._replace(
            lower=self.lower[chosen],
            upper=self.upper[chosen],
            thresholds=self.thresholds[chosen],
            has_sign=self.has_sign[chosen],
            sizes=self.sizes[chosen] if self.sizes.size else self.sizes,
            sum_of=sum_of,
        )
