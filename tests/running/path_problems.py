"""Problems with falling strengths of an l2 penalty, on columns of several sizes, for paths to parts of a standard error."""

import numpy as np
import scipy.sparse as sp

from finitesum.problems.given_term import convex_term
from finitesum.problems.linear import Problem

ACCURACY = 1e-3
ALPHAS = np.logspace(0, -5, 6)

#: What may differ between problems.
CASES = {
    "dense": {},
    "csr, no intercept": {"is_sparse": True, "fit_intercept": False},
    "weights and offsets": {"weighted": True, "offsets": True},
    "separated": {"n": 40, "d": 30},
    "wide, csr": {"n": 30, "d": 50, "is_sparse": True},
}


def problems_of(
    n=120, d=8, loss="logistic", is_sparse=False, fit_intercept=True, weighted=False, offsets=False, penalty_weights=None
):
    """Return X and the problems; a multinomial loss has three classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.geomspace(0.3, 3.0, d)
    if is_sparse:
        X *= rng.random((n, d)) < 0.4
    n_outputs = 3 if loss == "multinomial" else 1
    scores = X @ rng.standard_normal((d, n_outputs)) / np.sqrt(d)
    if loss == "multinomial":
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    elif loss == "poisson":
        y = rng.poisson(np.exp(0.3 * scores[:, 0])).astype(float)
    else:
        y = np.sign(scores[:, 0] + rng.logistic(size=n))
    problem = Problem.linear(
        sp.csr_array(X) if is_sparse else X,
        y,
        loss=loss,
        alpha=1.0,
        fit_intercept=fit_intercept,
        sample_weight=rng.uniform(0.2, 3.0, n) * (rng.random(n) < 0.9) if weighted else None,
        offset=0.3 * rng.standard_normal((n, n_outputs)).squeeze() if offsets else None,
        penalty_weights=penalty_weights,
    )
    terms = [
        convex_term(d, int(fit_intercept), n_outputs, alpha=alpha, penalty_weights=penalty_weights) for alpha in ALPHAS
    ]
    return X, [problem.with_penalty(term.penalty) for term in terms]
