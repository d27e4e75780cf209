"""
Counts that vary more than Poisson's
====================================

Poisson regression takes the variance of a count to be its mean. Where it is larger, coefficients stay right and
standard errors are too small. The negative binomial model has a variance of mu + mu^2 / theta, and can estimate theta
as well.
"""

# %%
# Days of absence at school, drawn with theta = 1.25.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from finitesum import NegativeBinomialRegressor, PoissonRegressor
from finitesum.plots import ResidualDisplay

rng = np.random.default_rng(1)
n, theta = 1500, 1.25
pupils = pd.DataFrame({"distance": rng.gamma(2.0, 1.0, n), "mathematics": rng.normal(size=n), "older": rng.random(n) < 0.5})
mean = np.exp(0.15 * pupils["distance"] - 0.3 * pupils["mathematics"] + 0.2 * pupils["older"] + 1.0)
days = rng.negative_binomial(theta, theta / (theta + mean))

poisson = PoissonRegressor(alpha=0.0, standard_errors=True).fit(pupils, days)
overdispersed = NegativeBinomialRegressor(theta="estimate", alpha=0.0, standard_errors=True).fit(pupils, days)
print(f"theta is estimated as {overdispersed.theta_:.3f}")
errors = {"Poisson": poisson.standard_errors_, "negative binomial": overdispersed.standard_errors_}
print(pd.DataFrame(errors, index=poisson.summary().names).round(4))
print(f"AIC: {poisson.summary().aic:.0f} for Poisson, {overdispersed.summary().aic:.0f} for the negative binomial model")

# %%
# Deviance residuals of a right model lie mostly between -2 and 2.
fig, axes = plt.subplots(1, 2, figsize=(11, 3.8), sharey=True)
for ax, model, name in zip(axes, (poisson, overdispersed), ("Poisson", "negative binomial"), strict=True):
    ResidualDisplay.from_estimator(model, pupils, days, ax=ax)
    ax.set_title(name)
fig.tight_layout()
