"""
Several classes: what tells one digit from the others
=====================================================

Multinomial logistic regression has a vector of coefficients for each class. For images they are images, too.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from finitesum import LogisticRegression

images, digits = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(images / 16.0, digits, random_state=0)
model = LogisticRegression(C=1.0, tol=1e-8).fit(X_train, y_train)
print(f"{model.score(X_test, y_test):.1%} of the digits are right; optimality {model.optimality_:.0e} by {model.solver_}")

# %%
# Ink on blue pixels speaks for the digit, on red ones against it.
limit = abs(model.coef_).max()
fig, axes = plt.subplots(2, 5, figsize=(9, 4))
for digit, ax in enumerate(axes.flat):
    ax.imshow(model.coef_[digit].reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit)
    ax.set_title(digit)
    ax.axis("off")
fig.tight_layout()
