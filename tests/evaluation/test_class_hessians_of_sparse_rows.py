"""Hessians of several classes on sparse rows, entry by entry: what products with the zeros find, and where they pay."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum.evaluation import class_hessians
from finitesum.evaluation.class_hessians import hessian_of_differences, nanoseconds_by_entries, nanoseconds_with_zeros
from finitesum.methods.class_costs import nanoseconds_of_factor
from finitesum.problems.linear import Problem


def problem_of(n=60, d=12, density=0.3, fit_intercept=True):
    rng = np.random.default_rng(0)
    X = sp.random_array((n, d), density=density, format="csr", rng=rng)
    weights = rng.uniform(0.5, 2.0, n) * (rng.random(n) < 0.8)
    y = np.arange(n) % 4
    return Problem.linear(
        X, y, loss="multinomial", alpha=0.1, fit_intercept=fit_intercept, sample_weight=weights
    ), rng.dirichlet(np.ones(4), n)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("is_part", [False, True], ids=["all rows", "some rows"])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("d", [12, 130], ids=["few columns", "pair by pair"])
def test_sums_by_entries_are_those_with_zeros(d, fit_intercept, is_part, kind, monkeypatch):
    problem, chances = problem_of(d=d, fit_intercept=fit_intercept)
    chances[problem.weights == 0.0] = np.nan
    rows, weights = (np.array([3, 7, 8, 31]), np.array([0.1, 0.2, 0.3, 0.4])) if is_part else (None, None)
    chances[[3, 7, 8, 31]] = 0.25
    found = []
    for nanoseconds in (math.inf, -1.0):
        monkeypatch.setattr(class_hessians, "nanoseconds_by_entries", lambda _problem, given=nanoseconds: given)
        found.append(hessian_of_differences(problem, chances, rows, weights, kind))
        assert found[-1].dtype == kind
    lower = np.tril_indices(len(found[0]))
    np.testing.assert_allclose(found[1][lower], found[0][lower], rtol=1e-5 if kind is np.float32 else 1e-12, atol=1e-7)


def test_entries_are_summed_where_they_are_few():
    few, many = (problem_of(3000, 250, density)[0] for density in (0.02, 0.9))
    dense = Problem.linear(np.ones((30, 5)), np.arange(30) % 3, loss="multinomial", alpha=0.1)
    assert nanoseconds_by_entries(few) < nanoseconds_with_zeros(4, 251)
    assert nanoseconds_by_entries(many) > nanoseconds_with_zeros(4, 251)
    assert nanoseconds_by_entries(dense) == math.inf
    assert nanoseconds_of_factor(few, 3000) < nanoseconds_of_factor(few, 3000, by_entries=False)
    assert nanoseconds_of_factor(many, 3000) == nanoseconds_of_factor(many, 3000, by_entries=False)
