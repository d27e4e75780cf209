"""
Lasso, elastic net, MCP, SCAD: paths of coefficients
====================================================

How coefficients enter a linear model as the penalty gets weaker. An l1 penalty pulls large coefficients towards 0;
MCP and SCAD leave them alone, at the price of a function that is not convex.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from finitesum import linear_path
from finitesum.plots import PathDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
Z, names = StandardScaler().fit_transform(X), list(X.columns)
kinds = {
    "lasso": {"l1_ratio": 1.0},
    "elastic net, l1_ratio 0.5": {"l1_ratio": 0.5},
    "MCP": {"penalty": "mcp"},
    "SCAD": {"penalty": "scad"},
}
fig, axes = plt.subplots(2, 2, figsize=(12, 7), sharey=True)
for ax, (title, penalty) in zip(axes.flat, kinds.items(), strict=True):
    path = linear_path(Z, y, alphas=30, **penalty)
    PathDisplay.from_path(path, names=names, ax=ax, n_names=6)
    ax.set_title(f"{title}: {path.n_passes.sum():.0f} passes for 30 fits")
fig.tight_layout()
