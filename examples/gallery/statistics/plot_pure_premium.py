"""
What a policy costs: Tweedie's and the gamma family
===================================================

The cost of a policy is 0 for most, and a positive amount with a long tail for the others. Tweedie's family with a
power between 1 and 2 is a Poisson number of gamma-distributed claims, and fits the cost at once; a gamma model fits
the amounts alone.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from finitesum import GammaRegressor, PoissonRegressor, TweedieRegressor
from finitesum.plots import MeanCalibrationDisplay

rng = np.random.default_rng(0)
n = 6000
X = pd.DataFrame(
    {"driver below 25": 1.0 * (rng.random(n) < 0.2), "power": rng.normal(size=n), "urban": 1.0 * (rng.random(n) < 0.4)}
)
number = rng.poisson(np.exp(X.to_numpy() @ [0.5, 0.2, 0.3] - 1.2))
amount = np.exp(X.to_numpy() @ [0.2, 0.3, 0.0] + 6.5)
cost = rng.gamma(2.0 * np.maximum(number, 1), amount / 2.0) * (number > 0)
train, test = np.arange(n) < 4000, np.arange(n) >= 4000

# %%
# The two-part model: frequency times severity. Severities are means of several claims, and weigh as many.
some = train & (number > 0)
frequency = PoissonRegressor(alpha=0.0).fit(X[train], number[train])
severity = GammaRegressor(alpha=0.0).fit(X[some], cost[some] / number[some], sample_weight=number[some])
tweedie = TweedieRegressor(power=1.5, alpha=0.0).fit(X[train], cost[train])
table = pd.DataFrame({"frequency + severity": frequency.coef_ + severity.coef_, "Tweedie": tweedie.coef_}, index=X.columns)
print(table.round(3))

# %%
# Both are calibrated on policies that they have not seen: in each tenth of the policies, sorted by predicted cost, the
# costs have the predicted mean.
fig, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
predicted = {
    "frequency times severity": frequency.predict(X[test]) * severity.predict(X[test]),
    "Tweedie": tweedie.predict(X[test]),
}
for ax, (name, mean) in zip(axes, predicted.items(), strict=True):
    MeanCalibrationDisplay.from_predictions(cost[test], mean, ax=ax)
    ax.set_title(name)
fig.tight_layout()
