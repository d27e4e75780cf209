"""A loss of one's own: quadratic near the target, linear far out: sqrt(1 + u^2) - 1 with u = prediction - target."""

import math
from typing import NamedTuple

import numpy as np

from finitesum import Problem, minimize
from finitesum.core.jit import compilable


@compilable
class PseudoHuber(NamedTuple):
    """sqrt(1 + (u - y)^2) - 1: all derivatives are bounded, and outliers weigh no more than their sign."""

    scale: float = 1.0  # a loss needs a field at least: it is a NamedTuple that kernels see

    def value(self, prediction: float, target: float) -> float:
        error = prediction - target
        return self.scale * (np.hypot(1.0, error) - 1.0)

    def d1(self, prediction: float, target: float) -> float:
        error = prediction - target
        return self.scale * error / np.hypot(1.0, error)

    def d2(self, prediction: float, target: float) -> float:
        return self.scale / np.hypot(1.0, prediction - target) ** 3

    def d1_d2(self, prediction: float, target: float) -> tuple[float, float]:
        error = prediction - target
        root = np.hypot(1.0, error)
        return self.scale * error / root, self.scale / root**3

    def majorant(self, prediction: float, target: float) -> float:
        # The value is concave in error^2: its tangent there lies above it, and is a parabola in the prediction.
        return self.scale / np.hypot(1.0, prediction - target)

    def curvature_bound(self) -> float:
        return self.scale

    def d2_lipschitz(self) -> float:
        return self.scale * 48.0 / (25.0 * math.sqrt(5.0))  # of 3 u / (1 + u^2)^(5/2), at u = 1/2

    def target_kind(self) -> str:
        return "real"

    def is_smooth(self) -> bool:
        return True


def main():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = X @ np.arange(1.0, 6.0)
    y[::10] += 100.0  # outliers
    problem = Problem.linear(X, y, loss=PseudoHuber(), alpha=1e-6)
    return minimize(problem, method="fg", tol=1e-8)


if __name__ == "__main__":
    result = main()
    print(result.message)
    print(result.x.round(3))
