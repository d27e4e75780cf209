"""
Files larger than memory
========================

A folder of files is a problem like any other: each file is a part, read when its turn comes. The same optimum is
found as in memory.
"""

# %%
import tempfile
from pathlib import Path

import numpy as np

from finitesum import Problem, minimize
from finitesum.plots import TraceDisplay

rng = np.random.default_rng(0)
truth = rng.normal(size=8)
with tempfile.TemporaryDirectory() as folder:
    blocks = []
    for k in range(6):
        X = rng.normal(size=(5000, 8))
        y = np.where(rng.random(5000) < 1.0 / (1.0 + np.exp(-X @ truth)), 1, -1)
        np.savez(Path(folder) / f"part-{k}.npz", X=X, y=y)
        blocks.append((X, y))
    parts = Problem.partitioned(f"{folder}/part-*.npz", loss="logistic", alpha=1e-4)
    from_files = minimize(parts, tol=1e-10, measure_every=1)
in_memory = minimize(
    Problem.linear(*map(np.concatenate, zip(*blocks, strict=True)), loss="logistic", alpha=1e-4), tol=1e-10, measure_every=1
)
print(from_files.message)
print(f"largest difference to the fit in memory: {abs(from_files.x - in_memory.x).max():.0e}")

# %%
display = TraceDisplay.from_results({"in memory": in_memory, "from six files": from_files})
