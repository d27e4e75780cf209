"""
Which rows matter? Leverages, Cook's distances, and leaving rows out
====================================================================

At an *exact* optimum the effect of a row on the coefficients follows from one linear system: the influence function.
Where the optimum is approximate, the error of the optimum hides it.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from finitesum import GammaRegressor
from finitesum.plots import LeverageDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = (X - X.mean()) / X.std()
model = GammaRegressor(alpha=0.0, standard_errors=True, tol=1e-12).fit(X, y)
display = LeverageDisplay.from_estimator(model, X, y)

# %%
# One step of Newton's method predicts what a fit without a row gives. We compare it with fits without each of the 40
# rows of the largest Cook's distance.
Z = np.column_stack([X, np.ones(len(X))])
mean = model.predict(X)
slope, curvature = 1.0 - y.to_numpy() / mean, y.to_numpy() / mean
inverse = np.linalg.inv(Z.T @ (curvature[:, None] * Z))
step = Z @ inverse * slope[:, None] / (1.0 - curvature * np.einsum("ij,jk,ik->i", Z, inverse, Z))[:, None]

rows = np.argsort(model.residuals(X, y).cooks)[-40:]
refitted = []
for row in rows:
    left = np.ones(len(X))
    left[row] = 0.0  # a row of weight 0 does not count
    refitted.append(GammaRegressor(alpha=0.0, tol=1e-12).fit(X, y, sample_weight=left).coef_ - model.coef_)
predicted, refitted = step[rows, :-1], np.array(refitted)

plt.figure(figsize=(5, 5))
plt.plot(refitted.ravel(), predicted.ravel(), ".", alpha=0.5)
plt.axline((0.0, 0.0), slope=1.0, color="0.5", linewidth=0.8)
plt.xlabel("change of a coefficient when the row is left out")
plt.ylabel("as the influence function predicts")
plt.tight_layout()
print(f"correlation: {np.corrcoef(refitted.ravel(), predicted.ravel())[0, 1]:.5f}")
