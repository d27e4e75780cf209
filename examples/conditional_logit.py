"""A conditional logit model, which is no generalised linear model, as a finite sum of components.

Travellers choose among four ways to travel. Traveller i sees the attributes A_i (one row for each way: cost, time, comfort,
...) and takes way c_i with probability softmax(A_i w)_{c_i}. The weights w of the attributes minimise

    F(w) = (1/n) sum_i [log sum_k exp(A_ik'w) - A_{i c_i}'w] + alpha/2 ||w||^2

Each component is an object with value, gradient and Hessian. Run it: ``python examples/conditional_logit.py``.
"""

import numpy as np
from scipy.optimize import minimize as scipy_minimize
from scipy.special import logsumexp, softmax

from finitesum import FiniteSum, minimize

ATTRIBUTES = ("cost", "time", "changes", "comfort", "delay", "walk")
METHODS = ("a-ciag", "nim", "newton", "saga", "svrg")


class Choice:
    """One traveller: -log softmax(A w)_c."""

    def __init__(self, attributes, chosen):
        self.attributes, self.chosen = attributes, chosen

    def value(self, w):
        utilities = self.attributes @ w
        return logsumexp(utilities) - utilities[self.chosen]

    def gradient(self, w):
        shares = softmax(self.attributes @ w)
        return shares @ self.attributes - self.attributes[self.chosen]

    def hessian(self, w):
        shares = softmax(self.attributes @ w)
        mean = shares @ self.attributes
        return (self.attributes.T * shares) @ self.attributes - np.outer(mean, mean)


def travellers(n=300, seed=0):
    """Return what n travellers chose, and the weights behind their choices."""
    rng = np.random.default_rng(seed)
    weights = np.array([-1.5, -1.0, -0.5, 0.8, -0.3, -0.2])
    attributes = rng.standard_normal((n, 4, len(ATTRIBUTES))) * [1.0, 1.0, 1.0, 1.0, 0.5, 0.5]
    utilities = attributes @ weights + rng.gumbel(size=(n, 4))
    return [Choice(a, int(c)) for a, c in zip(attributes, utilities.argmax(axis=1), strict=True)], weights


def main():
    choices, truth = travellers()
    problem = FiniteSum(choices, dim=len(ATTRIBUTES), alpha=1e-3)
    print(f"{problem.n_components} travellers, {problem.dim} attributes. {problem.check(truth).message}\n")

    print(f"{'method':10}{'passes':>8}{'Hessian passes':>16}{'optimality':>12}")
    results = {}
    for method in METHODS:
        results[method] = result = minimize(problem, method=method, tol=1e-8, max_iter=200)
        print(f"{method:10}{result.n_passes:8.1f}{result.n_hessian_passes:16.1f}{result.optimality:12.1e}")

    def objective(w):
        return np.mean([c.value(w) for c in choices]) + 0.5e-3 * w @ w

    def gradient(w):
        return np.mean([c.gradient(w) for c in choices], axis=0) + 1e-3 * w

    expected = scipy_minimize(objective, np.zeros(problem.dim), jac=gradient, method="BFGS", options={"gtol": 1e-9}).x
    print(f"\n{'weight of':10}{'estimate':>10}{'scipy':>10}{'truth':>8}")
    for name, estimate, other, true in zip(ATTRIBUTES, results["a-ciag"].x, expected, truth, strict=True):
        print(f"{name:10}{estimate:10.4f}{other:10.4f}{true:8.1f}")
    worst = max(float(np.abs(result.x - expected).max()) for result in results.values())
    print(f"\nLargest difference of any method to scipy.optimize: {worst:.1e}")
    return results, expected


if __name__ == "__main__":
    main()
