"""Products with points in single precision, which sparse rows of many columns and small matrices have."""

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


@pytest.mark.as_chosen
@pytest.mark.parametrize("has_intercept", [False, True])
@pytest.mark.parametrize("shape", [(40, 6), (300, 600)], ids=["column by column", "row by row"])
@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
def test_those_of_small_matrices_are_too_whatever_the_size_of_the_point(shape, has_intercept, size):
    rng = np.random.default_rng(1)
    problem = Problem.linear(rng.standard_normal(shape), np.arange(shape[0]) % 2, alpha=0.1, fit_intercept=has_intercept)
    curvatures, v = rng.random(shape[0]), size * rng.standard_normal(problem.dim)
    found, expected = rounded_gram_product(problem, curvatures, v), gram_product(problem, curvatures, v)
    assert 0.0 < np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()
