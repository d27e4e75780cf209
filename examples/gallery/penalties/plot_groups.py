"""
Groups of columns: categories that leave together
=================================================

The columns of one category (a region, a brand) are chosen or dropped as a whole by the group lasso. A label for each
column says to which group it belongs.
"""

# %%
# Four categorical columns with six levels each, of which two matter, and two numbers.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.preprocessing import OneHotEncoder

from finitesum import LinearRegressor

rng = np.random.default_rng(0)
n = 800
levels = pd.DataFrame({name: rng.integers(0, 6, n) for name in ("region", "brand", "month", "plan")})
numbers = rng.normal(size=(n, 2))
effect = rng.normal(size=(2, 6))
y = effect[0][levels["region"]] + effect[1][levels["plan"]] + 0.5 * numbers[:, 0] + rng.normal(size=n)
encoder = OneHotEncoder(sparse_output=False)
X = np.column_stack([encoder.fit_transform(levels), numbers])
groups = [*np.repeat(list(levels.columns), 6), "age", "noise"]

# %%
# The norm of each group's coefficients, by the strength of the penalty.
alphas = np.geomspace(0.5, 0.005, 15)
norms = {name: [] for name in dict.fromkeys(groups)}
for alpha in alphas:
    model = LinearRegressor(alpha=alpha, l1_ratio=0.0, groups=groups).fit(X, y)
    for name, norm in norms.items():
        norm.append(np.linalg.norm(model.coef_[np.array(groups) == name]))
for name, norm in norms.items():
    plt.plot(alphas, norm, label=name)
plt.xscale("log")
plt.gca().invert_xaxis()
plt.xlabel("alpha, the strength of the penalty")
plt.ylabel("norm of the group's coefficients")
plt.legend()
plt.tight_layout()
