"""
Logistic regression with the table of a statistician
====================================================

Which measurements of a cell nucleus tell a malignant tumour? The coefficients of a logistic regression come with
standard errors, z statistics, p-values and confidence intervals, and the optimum that they rest on is verified.
"""

# %%
# Ten means of the measurements, standardised, so that a coefficient belongs to one standard deviation.
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from finitesum import LogisticRegression
from finitesum.estimators.inference import likelihood_ratio_test
from finitesum.plots import CoefficientDisplay

X, benign = load_breast_cancer(return_X_y=True, as_frame=True)
names = ["mean texture", "mean smoothness", "mean symmetry", "mean concave points"]
X = StandardScaler().set_output(transform="pandas").fit_transform(X[names])
malignant = 1 - benign

# %%
# ``C=float("inf")`` is no penalty: the maximum-likelihood estimate.
model = LogisticRegression(C=float("inf"), standard_errors=True, tol=1e-10).fit(X, malignant)
print(model.summary())

# %%
# A coefficient is the logarithm of an odds ratio. ``exponentiated=True`` draws the ratios with their intervals.
display = CoefficientDisplay.from_estimator(model, exponentiated=True)

# %%
# Do smoothness and symmetry tell anything beside the others? A Wald test of both, and the likelihood-ratio test of the
# models.
print(model.summary().wald_test(["mean smoothness", "mean symmetry"]))
fewer = X[["mean texture", "mean concave points"]]
smaller = LogisticRegression(C=float("inf"), standard_errors=True, tol=1e-10).fit(fewer, malignant)
print(likelihood_ratio_test(smaller.summary(), model.summary()))
