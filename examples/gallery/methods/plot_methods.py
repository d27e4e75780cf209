"""
Incremental methods, with and without curvature
===============================================

Passes over the data until the gradient has a norm of 1e-12. Methods that keep a gradient for each row (SAG, SAGA)
converge linearly, at a rate that the condition number spoils; curvature-aided ones (CIAG, A-CIAG) follow a gradient
that they correct by Hessians, and need few passes (Wai et al. 2020).
"""

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from finitesum import Problem, minimize
from finitesum.plots import TraceDisplay

X, y = load_breast_cancer(return_X_y=True)
problem = Problem.linear(StandardScaler().fit_transform(X), y, loss="logistic", alpha=1e-3, fit_intercept=True)
methods = ["fg", "afg", "sag", "saga", "svrg", "ciag", "a-ciag", "newton"]
runs = {name: minimize(problem, method=name, tol=1e-12, max_iter=60, measure_every=1) for name in methods}
for name, run in runs.items():
    print(f"{name:8} {run.n_passes:5.1f} passes, {run.n_hessian_passes:5.1f} of Hessians, optimality {run.optimality:.0e}")

# %%
display = TraceDisplay.from_results(runs)
