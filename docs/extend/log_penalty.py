"""A penalty of one's own: log(1 + |w| / epsilon), scaled to slope alpha at 0, which shrinks large coefficients less."""

import math
from typing import NamedTuple

import numpy as np

from finitesum import Problem, minimize


class LogSum(NamedTuple):
    """alpha epsilon log(1 + |w| / epsilon): the l1 penalty where |w| is small, nearly flat where it is large."""

    alpha: float
    epsilon: float

    def penalty_value(self, coordinate):
        return self.alpha * self.epsilon * math.log(1.0 + abs(coordinate) / self.epsilon)

    def prox_at(self, coordinate, step):
        """Return argmin_v penalty(v) + (v - coordinate)^2 / (2 step): 0, or the larger root of its derivative."""
        size = abs(coordinate)
        half = 0.5 * (size - self.epsilon)
        square = half * half + self.epsilon * (size - step * self.alpha)
        if square < 0.0:
            return 0.0
        root = half + math.sqrt(square)
        if root <= 0.0:
            return 0.0
        cost = self.alpha * self.epsilon * math.log(1.0 + root / self.epsilon) + 0.5 * (root - size) ** 2 / step
        if cost >= 0.5 * size**2 / step:
            return 0.0
        return root if coordinate > 0.0 else -root

    def weak_convexity(self):
        return self.alpha / self.epsilon


def main():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8))
    y = X @ np.array([3.0, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]) + 0.1 * rng.standard_normal(200)
    problem = Problem.linear(X, y, loss="squared", penalty=LogSum(alpha=0.2, epsilon=0.5))
    return minimize(problem, tol=1e-8)


if __name__ == "__main__":
    result = main()
    print(result.message)
    print(result.x.round(3))
