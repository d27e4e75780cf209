"""
Logit, probit, complementary log-log
====================================

Three curves that turn a linear predictor into a probability. Insects on seven doses of a poison: how many of a batch
die? Shares of trials are fitted with the number of trials as sample weights.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from finitesum import LinearClassifier

dose = np.array([1.69, 1.72, 1.755, 1.784, 1.811, 1.837, 1.861, 1.884])
batch = np.array([59, 60, 62, 56, 63, 59, 62, 60])
dead = np.random.default_rng(0).binomial(batch, 1.0 - np.exp(-np.exp(22.0 * dose - 39.5)))

# %%
# Two rows for each dose: the dead and the survivors, weighted by their numbers.
X = np.repeat(dose, 2)[:, None]
y = np.tile([1, 0], dose.size)
weight = np.column_stack([dead, batch - dead]).ravel()
grid = np.linspace(1.68, 1.9, 100)[:, None]
for loss, style in (("logistic", "-"), ("probit", "--"), ("complementary-log-log", "-.")):
    model = LinearClassifier(loss=loss, alpha=0.0, standard_errors=True, tol=1e-9).fit(X, y, sample_weight=weight)
    slope, error = model.coef_.ravel()[0], model.standard_errors_.ravel()[0]
    print(f"{loss:22}  slope {slope:6.2f} +- {error:.2f}   AIC {model.summary().aic:.2f}")
    plt.plot(grid, model.predict_proba(grid)[:, 1], style, label=loss)
plt.plot(dose, dead / batch, "o", color="0.3", label="observed")
plt.xlabel("logarithm of the dose")
plt.ylabel("share that dies")
plt.legend()
plt.tight_layout()
