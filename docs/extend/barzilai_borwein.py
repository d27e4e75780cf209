"""A method of one's own: full gradients with Barzilai and Borwein's step, the inverse of the curvature along the last move.

step = s's / s'y,   s = x - x_previous,   y = grad F(x) - grad F(x_previous),   x+ = x - step grad F(x)
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from finitesum import Problem, minimize
from finitesum.core.arrays import Vector
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.base import Card


class BBState(NamedTuple):
    """All that the method remembers: arrays and numbers, so that a checkpoint can hold it."""

    x: Vector
    gradient: Vector  # at x
    step_size: float
    optimality: float  # at x
    n_gradients: int
    n_hessians: int


@dataclass(frozen=True)
class BarzilaiBorwein:
    """Gradient steps as long as the inverse of the curvature that the last one met."""

    first_step: float = 1e-3

    name: ClassVar[str] = "bb"
    state_type: ClassVar[type] = BBState
    handles: ClassVar[frozenset[str]] = frozenset()  # smooth linear models, and nothing beyond
    default_sampling: ClassVar[str] = "cyclic"
    card: ClassVar[Card] = Card(
        "gradient with secant steps", "d", "d", "m kappa log 1/eps", "smooth, strongly convex", "Barzilai, Borwein 1988"
    )

    def init(self, problem, x0, tol=0.0):
        """Return the state before the first step: one pass for the gradient."""
        here = evaluate(problem, x0)
        return BBState(x0.copy(), here.gradient, self.first_step, here.optimality, problem.n_components, 0)

    def run_pass(self, problem, state, order):
        """Return the state after one step; the given state stays as it is."""
        x = state.x - state.step_size * state.gradient
        there = evaluate(problem, x)
        s, y = x - state.x, there.gradient - state.gradient
        step_size = float(s @ s / (s @ y)) if s @ y > 0.0 else state.step_size
        return BBState(x, there.gradient, step_size, there.optimality, state.n_gradients + problem.n_components, 0)

    def estimate(self, problem, state):
        """Return the optimality, which is known exactly: `minimize` confirms it once it is at most tol."""
        return state.optimality

    def default_batch_size(self, problem):
        return 1


def main():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(200))
    problem = Problem.linear(X, y, loss="logistic", alpha=1e-2)
    return minimize(problem, method=BarzilaiBorwein(), tol=1e-10)


if __name__ == "__main__":
    result = main()
    print(result.message)
