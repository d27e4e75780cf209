"""A constraint of one's own: the band {y : |sum of y| <= width}, whose projection in a metric has a closed form."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from finitesum import Problem, minimize
from finitesum.constraints import Constraint
from finitesum.core.jit import compilable


@compilable
class BandProjection(NamedTuple):
    """What kernels see: two verbs that write to out, which may be x itself."""

    width: float

    def project_into(self, x, metric, out):
        total, inverse_total = 0.0, 0.0
        for i in range(x.shape[0]):
            total += x[i]
            inverse_total += 1.0 / metric[i]
        excess = total - min(max(total, -self.width), self.width)
        for i in range(x.shape[0]):
            out[i] = x[i] - excess / (inverse_total * metric[i])

    def project_euclidean_into(self, x, out):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i]
        excess = total - min(max(total, -self.width), self.width)
        for i in range(x.shape[0]):
            out[i] = x[i] - excess / x.shape[0]


@dataclass(frozen=True, eq=False)
class Band(Constraint):
    """The set {y : |sum_i y_i| <= width}: coefficients that nearly balance."""

    width_of_sum: float

    @property
    def compiled(self):
        return BandProjection(float(self.width_of_sum))

    @property
    def is_bounded(self):
        return False

    def support(self, direction):
        """Return sup <g, y>: finite only where all g_i are the same."""
        g = np.asarray(direction, dtype=float)
        flat = np.allclose(g, g[0], rtol=1e-9, atol=0.0)
        return self.width_of_sum * abs(float(g[0])) if flat else math.inf

    def contains(self, x, tolerance=1e-12):
        x = np.asarray(x, dtype=float)
        return bool(abs(x.sum()) <= self.width_of_sum + tolerance * max(1.0, np.abs(x).sum()))

    def diameter(self, dim):
        return 2.0 * self.width_of_sum if dim == 1 else math.inf

    def width(self):
        return math.inf


def main():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = X @ np.arange(1.0, 6.0)
    problem = Problem.linear(X, y, loss="squared", constraint=Band(1.0))
    return minimize(problem, method="fg", tol=1e-8)


if __name__ == "__main__":
    result = main()
    print(result.message)
    print(result.x.round(3), "sum", result.x.sum().round(6))
