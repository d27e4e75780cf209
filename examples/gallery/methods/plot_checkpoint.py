"""
A run that was interrupted goes on to the same bits
===================================================

A checkpoint holds all that a method remembers. A run that ends early, by an error, a limit or Ctrl-C, goes on from
there as if nothing had happened.
"""

# %%
import tempfile
from pathlib import Path

import numpy as np

from finitesum import Problem, minimize
from finitesum.plots import TraceDisplay

rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 10))
y = np.sign(X @ rng.normal(size=10) + rng.normal(size=3000))
problem = Problem.linear(X, y, loss="logistic", alpha=1e-3)

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "run.npz"
    early = minimize(problem, method="saga", max_iter=10, measure_every=1, checkpoint=file)
    later = minimize(problem, method="saga", max_iter=40, measure_every=1, checkpoint=file, resume=True)
whole = minimize(problem, method="saga", max_iter=40, measure_every=1)
print(early.message)
print("the same bits:", np.array_equal(later.x, whole.x))

# %%
display = TraceDisplay.from_results({"in one go": whole, "until pass 10": early, "resumed": later})
