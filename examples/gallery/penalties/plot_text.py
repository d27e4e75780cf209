"""
Sparse text: which words tell the subject?
==========================================

Documents as rows of word frequencies are wide and sparse: thousands of columns, a few dozen entries in a row. With an
l1 penalty most words get no coefficient at all.
"""

# %%
# The documents are the docstrings of SciPy's functions, and the question is whether one belongs to ``scipy.stats``.
import inspect

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import cross_val_score

from finitesum import LogisticRegression

packages = [scipy.stats, scipy.signal, scipy.linalg, scipy.special]
found = [(inspect.getdoc(getattr(p, name)) or "", p is scipy.stats) for p in packages for name in p.__all__]
documents, is_statistics = zip(*[(text, which) for text, which in found if len(text) > 300], strict=True)
words = TfidfVectorizer(token_pattern=r"[a-z]{3,}", min_df=3)
X, y = words.fit_transform(documents), np.array(is_statistics)
print(f"{X.shape[0]} documents, {X.shape[1]} words, {X.nnz / X.shape[0]:.0f} in a document")

# %%
# The l1 penalty keeps a handful of words, and the solver looks at few others: it screens the columns.
model = LogisticRegression(C=20.0, l1_ratio=1.0, tol=1e-6).fit(X, y)
coef = model.coef_.ravel()
print(f"{np.count_nonzero(coef)} words have a coefficient; optimality {model.optimality_:.0e} by {model.solver_}")
for name, ratio in (("l1", 1.0), ("l2", 0.0)):
    score = cross_val_score(LogisticRegression(C=20.0, l1_ratio=ratio, tol=1e-6), X, y, cv=5).mean()
    print(f"{name}: {score:.1%} of documents right, in folds")

# %%
strongest = np.argsort(coef)[np.r_[:8, -12:0]]
plt.figure(figsize=(6, 5))
plt.barh(words.get_feature_names_out()[strongest], coef[strongest], color=np.where(coef[strongest] > 0, "C0", "C3"))
plt.xlabel("coefficient: against scipy.stats, or for it")
plt.tight_layout()
