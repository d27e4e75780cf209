"""One logistic regression, as a linear model, as a function in NumPy, and as one in PyTorch: the same iterates.

Run it: ``python examples/functions.py``. PyTorch is needed (``pip install 'finitesum[torch]'``).
"""

import numpy as np
import torch

from finitesum import FiniteSum, Problem, minimize

rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 10))
y = np.where(X @ rng.standard_normal(10) + rng.logistic(size=2000) > 0.0, 1.0, -1.0)


def losses(w, batch):  # PyTorch differentiates this
    X, y = batch
    return torch.nn.functional.softplus(-y * (X @ w))


def losses_and_gradients(w, indices):  # NumPy does not
    margins = y[indices] * (X[indices] @ w)
    slopes = -y[indices] / (1.0 + np.exp(margins))
    return np.logaddexp(0.0, -margins), slopes[:, None] * X[indices]


problems = {
    "linear model": Problem.linear(X, y, alpha=1e-3, batch_size=100),
    "torch": FiniteSum.from_function(losses, (X, y), dim=10, alpha=1e-3, batch_size=100),
    "numpy": FiniteSum.from_function(losses_and_gradients, 2000, dim=10, alpha=1e-3, batch_size=100, backend="numpy"),
}


def main():
    results = {}
    for method, options in (("saga", {"step_size": 0.5}), ("newton", {})):
        for name, problem in problems.items():
            if method == "newton" and name == "numpy":
                continue  # it has no Hessian
            found = results[method, name] = minimize(problem, method=method, options=options, tol=1e-9)
            print(f"{method:8}{name:14}{found.n_passes:6.1f} passes, {found.seconds:.3f} s, x[0] = {found.x[0]:.12f}")
    return results


if __name__ == "__main__":
    main()
