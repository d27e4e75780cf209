"""
Weights that sum to one: a mixture of forecasts
===============================================

Five forecasts are to be mixed. Weights on the simplex, at least 0 and with the sum 1, cannot overfit as free
coefficients do, and say which forecasts are of use.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from finitesum import LinearRegressor
from finitesum.constraints import Simplex

rng = np.random.default_rng(0)
n = 60
truth = np.cumsum(rng.normal(size=2 * n))
noise = [0.5, 0.6, 2.0, 3.0, 4.0]
forecasts = np.column_stack([truth + s * rng.normal(size=2 * n) for s in noise])
past, future = slice(0, n), slice(n, None)

mixed = LinearRegressor(alpha=0.0, fit_intercept=False, constraint=Simplex(1.0)).fit(forecasts[past], truth[past])
free = LinearRegressor(alpha=0.0).fit(forecasts[past], truth[past])
print("weights on the simplex:", mixed.coef_.round(3), "sum", mixed.coef_.sum().round(12))
errors = {
    "mean of all": forecasts[future].mean(axis=1) - truth[future],
    "free coefficients": free.predict(forecasts[future]) - truth[future],
    "simplex": mixed.predict(forecasts[future]) - truth[future],
}
errors |= {f"forecast {k + 1}": forecasts[future, k] - truth[future] for k in range(5)}

# %%
plt.figure(figsize=(6, 3.2))
plt.barh(list(errors), [np.sqrt(np.mean(error**2)) for error in errors.values()])
plt.xlabel("root of the mean squared error on later days")
plt.tight_layout()
