"""Products with points in single precision, which sparse rows of many columns have."""

import numpy as np
import pytest
from scipy.sparse import random_array

from finitesum import Problem, minimize
from finitesum.evaluation.row_products import gram_product, rounded_gram_product
from finitesum.problems.rows import products


@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_they_are_those_in_double_precision_but_for_rounding(has_intercept, dtype):
    rng = np.random.default_rng(0)
    X = random_array((60, 300_000), density=2e-5, format="csr", dtype=dtype, rng=rng)
    problem = Problem.linear(X, np.arange(60) % 2, alpha=0.1, fit_intercept=has_intercept)
    curvatures, v = rng.random(60), rng.standard_normal(problem.dim)
    found = rounded_gram_product(problem, curvatures, v, np.arange(60))
    np.testing.assert_allclose(found, gram_product(problem, curvatures, v), atol=1e-5 * np.abs(v).max())
    rounded = v.astype(np.float32)
    np.testing.assert_allclose(products(problem.rows, rounded), products(problem.rows, v), atol=1e-5 * np.abs(v).max())
    assert minimize(problem, method="newton-cg", tol=1e-8).success
