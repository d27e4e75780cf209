"""
How strong a penalty? Folds, one standard error, and criteria
=============================================================

Cross-validation takes the penalty with the best score on rows that a fit has not seen. The one-standard-error rule
prefers the strongest penalty that is not clearly worse, and AIC, BIC and EBIC need no folds at all.
"""

# %%
import numpy as np

from finitesum import LinearRegressorCV
from finitesum.plots import CVDisplay

rng = np.random.default_rng(3)
n, d = 200, 40
X = rng.normal(size=(n, d))
y = X[:, :5] @ [2.0, -1.5, 1.0, -0.75, 0.5] + rng.normal(0.0, 1.5, n)

folds = LinearRegressorCV(alphas=30, l1_ratios=[1.0], cv=10).fit(X, y)
display = CVDisplay.from_estimator(folds)

# %%
# How many coefficients each rule keeps; five are there.
rules = {
    "best score": {"cv": 10},
    "one standard error": {"cv": 10, "rule": "one_standard_error"},
    "AIC": {"criterion": "aic"},
    "BIC": {"criterion": "bic"},
    "EBIC": {"criterion": "ebic"},
}
for name, how in rules.items():
    model = LinearRegressorCV(alphas=30, l1_ratios=[1.0], **how).fit(X, y)
    print(f"{name:20} alpha {model.alpha_:.4f}, {np.count_nonzero(model.coef_):2} coefficients")
