"""
Bounds by name: effects whose sign is known
===========================================

A larger engine does not make a car cheaper, and age does not make it dearer. With few rows an estimate may say so all
the same. Bounds by the columns' names rule that out, and the rest of the model adapts.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from finitesum import LinearRegressor

rng = np.random.default_rng(3)
n = 40
power = rng.normal(size=n)
cars = pd.DataFrame(
    {
        "power": power,
        "engine": 0.95 * power + 0.3 * rng.normal(size=n),
        "age": rng.normal(size=n),
        "doors": rng.normal(size=n),
    }
)
price = 1.0 * cars["power"] + 0.2 * cars["engine"] - 0.5 * cars["age"] + 1.2 * rng.normal(size=n)

free = LinearRegressor(alpha=0.0).fit(cars, price)
signs = {"engine": (0.0, None), "power": (0.0, None), "age": (None, 0.0)}
bounded = LinearRegressor(alpha=0.0, bounds=signs).fit(cars, price)
table = pd.DataFrame({"free": free.coef_, "bounded": bounded.coef_, "true": [1.0, 0.2, -0.5, 0.0]}, index=cars.columns)
print(table.round(3))

# %%
table.plot.barh(figsize=(6, 3))
plt.xlabel("coefficient")
plt.tight_layout()
