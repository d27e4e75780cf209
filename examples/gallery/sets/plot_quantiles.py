"""
Quantiles: a band instead of a line
===================================

The quantile loss fits the line below which a given share of the targets lies. It is nonsmooth, and the optimum is
certified by a duality gap.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from finitesum import LinearRegressor
from finitesum.losses import Quantile

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.0, 4.0, 400))
y = 1.0 + x + (0.3 + 0.4 * x) * rng.gumbel(size=x.size)
X = np.column_stack([x, x**2])

plt.plot(x, y, ".", color="0.6", markersize=4)
for share in (0.05, 0.25, 0.5, 0.75, 0.95):
    model = LinearRegressor(loss=Quantile(share), alpha=1e-6, tol=1e-8).fit(X, y)
    line = model.predict(X)
    print(f"{share:.0%} quantile: {np.mean(y < line):.1%} of the targets lie below; duality gap {model.optimality_:.0e}")
    plt.plot(x, line, label=f"{share:.0%}")
plt.legend(title="quantile")
plt.xlabel("x")
plt.ylabel("y")
plt.tight_layout()
