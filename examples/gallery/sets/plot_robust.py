"""
Outliers: losses that do not square them
========================================

One target in ten is wrong. Least squares follows the wrong ones; losses that grow linearly hardly notice.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from finitesum import HuberRegressor, LinearRegressor

rng = np.random.default_rng(0)
x = np.linspace(0.0, 10.0, 80)
y = 1.0 + 0.5 * x + 0.3 * rng.normal(size=x.size)
wrong = rng.random(x.size) < 0.1
y[wrong & (x > 5.0)] += 12.0
X = x[:, None]

models = {
    "squared": LinearRegressor(alpha=0.0),
    "Huber, its scale estimated": HuberRegressor(alpha=0.0),
    "pseudo-Huber": LinearRegressor(loss="pseudo-huber", alpha=0.0),
    "log-cosh": LinearRegressor(loss="log-cosh", alpha=0.0),
    "epsilon-insensitive": LinearRegressor(loss="epsilon-insensitive", alpha=1e-6),
}
plt.plot(x, y, ".", color="0.5")
for name, model in models.items():
    model.fit(X, y)
    print(f"{name:28} slope {model.coef_[0]:.3f} (true: 0.5), optimality {model.optimality_:.0e}")
    plt.plot(x, model.predict(X), label=name)
plt.legend()
plt.tight_layout()
