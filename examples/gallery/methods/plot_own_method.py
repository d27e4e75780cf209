"""
A method of your own beside the library's
=========================================

A function that yields points is compared with methods of the library and with scikit-learn, under one accounting: the
clock stops while points are measured.
"""

# %%
import numpy as np

from finitesum import Problem, compare
from finitesum.evaluation.optimality import evaluate
from finitesum.plots import TraceDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 20))
y = np.sign(X @ rng.normal(size=20) + rng.normal(size=2000))
problem = Problem.linear(X, y, loss="logistic", alpha=1e-3)


def barzilai_borwein(problem, x0):
    """Gradient steps whose size is that of the last step over the change of the gradient along it."""
    x, step = x0, 1.0
    gradient = evaluate(problem, x).gradient
    for _ in range(60):
        move = -step * gradient
        x = x + move
        change = evaluate(problem, x).gradient - gradient
        gradient = gradient + change
        step = move @ move / (move @ change)
        yield x


found = compare(problem, ["auto", "afg", "saga", barzilai_borwein], peers=["sklearn:lbfgs"], tol=1e-10, measure_every=1)
print(found)

# %%
display = TraceDisplay({one.name: one.trace for one in found.outcomes if len(one.trace)}).plot(x="seconds")
