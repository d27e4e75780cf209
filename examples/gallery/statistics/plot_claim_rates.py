"""
Rates of claims: exposures, ratios, clusters
============================================

Claims of policies that were insured for different times. The expected number is exposure times a rate, so that the
logarithm of the exposure is an *offset*: a known part of the linear predictor, with no coefficient to fit.
"""

# %%
# Policies of 60 brokers. Those of one broker have something in common that no column tells.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from finitesum import PoissonRegressor
from finitesum.plots import CoefficientDisplay, MeanCalibrationDisplay

rng = np.random.default_rng(0)
n = 4000
policies = pd.DataFrame(
    {
        "driver below 25": rng.random(n) < 0.15,
        "power (10 kW)": rng.gamma(6.0, 1.2, n),
        "urban": rng.random(n) < 0.4,
        "age of the car": rng.integers(0, 15, n),
    }
).astype(float)
broker = rng.integers(0, 60, n)
exposure = rng.uniform(0.1, 1.0, n)
rate = np.exp(policies.to_numpy() @ [0.5, 0.06, 0.25, -0.02] - 2.2 + rng.normal(0.0, 0.35, 60)[broker])
claims = rng.poisson(exposure * rate)

model = PoissonRegressor(alpha=0.0, standard_errors=True, tol=1e-9).fit(policies, claims, offset=np.log(exposure))
print(model.summary())

# %%
# The errors above take the policies for independent. With ``kind="cluster"`` they are right for policies that depend on
# others of their broker.
clustered = model.inference(policies, claims, offset=np.log(exposure), kind="cluster", groups=broker)
print(np.round(clustered.standard_errors / model.standard_errors_, 2))

# %%
# Ratios of rates, with the clustered intervals, and whether the predicted rates are those that are seen.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6))
CoefficientDisplay(clustered).plot(ax=left, exponentiated=True)
MeanCalibrationDisplay.from_estimator(model, policies, claims, offset=np.log(exposure), ax=right)
fig.tight_layout()
