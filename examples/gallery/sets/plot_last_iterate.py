"""
The hinge loss on an l1 ball: the last iterate
==============================================

Of projected subgradient steps the average has the optimal rate, 1 / sqrt(t), and the last iterate is only known to come
within a factor log(t) of it. The heavy ball with the momentum t / (t + 2), and its adaptive form AdaHB, have the optimal
rate at their *last* iterate (Tao et al. 2021). What is proven of the worst case need not show on one problem: here all
four come down alike.
"""

# %%
# The optimum, by a linear program, and the gap of each method's iterates to it.
import numpy as np

from finitesum import Problem, minimize
from finitesum.constraints import L1Ball
from finitesum.plots import TraceDisplay

rng = np.random.default_rng(0)
n, d = 400, 50
X = rng.normal(size=(n, d))
y = np.sign(X[:, :5] @ [1.0, -1.0, 0.5, 0.5, -0.5] + rng.normal(size=n))
problem = Problem.linear(X, y, loss="hinge", constraint=L1Ball(2.0))
best = minimize(problem, tol=1e-9)
print(best.message)

# %%
runs = [minimize(problem, method=m, tol=0.0, max_iter=200, measure_every=4) for m in ("psg", "adagrad", "hb", "adahb")]
display = TraceDisplay.from_results(runs, y="gap", best=best.fun)
display.ax_.set_xscale("log")
