"""Hessians of several classes on sparse rows, entry by entry: what products with the zeros find, and where they pay."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum.evaluation import class_hessians
from finitesum.evaluation.class_hessians import hessian_of_differences, is_by_entries
from finitesum.losses.classes import Multinomial
from finitesum.methods.class_costs import nanoseconds_of_factor
from finitesum.methods.forecasts import Counts, terms_of
from finitesum.problems.linear import Problem
from finitesum.problems.rows import to_matrix


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
    for given in (False, True):
        monkeypatch.setattr(class_hessians, "is_by_entries", lambda _problem, _n, given=given: given)
        found.append(hessian_of_differences(problem, chances, rows, weights, kind))
        assert found[-1].dtype == kind
    lower = np.tril_indices(len(found[0]))
    np.testing.assert_allclose(found[1][lower], found[0][lower], rtol=1e-5 if kind is np.float32 else 1e-12, atol=1e-7)


def test_the_scale_of_the_loss_counts(monkeypatch):
    problem, chances = problem_of()
    scaled = Problem.linear(to_matrix(problem.rows), problem.targets, loss=Multinomial(2.5), alpha=0.1)
    plain = Problem.linear(to_matrix(problem.rows), problem.targets, loss="multinomial", alpha=0.04)
    monkeypatch.setattr(class_hessians, "is_by_entries", lambda _problem, _n: True)
    one, other = (hessian_of_differences(p, chances, None, None, np.float64) for p in (scaled, plain))
    lower = np.tril_indices(len(one))
    np.testing.assert_allclose(one[lower], 2.5 * other[lower], rtol=1e-12, atol=1e-12)


def test_entries_are_summed_where_rows_are_many_and_have_few():
    few, many = (problem_of(20000, 500, density)[0] for density in (0.01, 0.9))
    dense = Problem.linear(np.ones((30, 5)), np.arange(30) % 3, loss="multinomial", alpha=0.1)
    assert is_by_entries(few, 20000)
    assert list(is_by_entries(few, np.array([100, 20000]))) == [False, True]
    assert not is_by_entries(many, 20000)
    assert not is_by_entries(dense, 30)
    sizes = np.array([100, 20000])
    of_few, with_zeros = (nanoseconds_of_factor(few, sizes, by_entries=by_entries) for by_entries in (True, False))
    assert of_few[0] == with_zeros[0]
    assert of_few[1] < with_zeros[1]
    assert nanoseconds_of_factor(few, 20000) == of_few[1]
    assert nanoseconds_of_factor(many, 20000) == nanoseconds_of_factor(many, 20000, by_entries=False)


def test_forecasts_of_lbfgs_have_sums_by_entries():
    few, _ = problem_of(20000, 500, 0.01)
    counts = Counts(1.0, 1.0, 1.0)
    by_lbfgs, exact = (terms_of(name, few, counts)[2] for name in ("multinomial-lbfgs", "multinomial-newton exact"))
    assert by_lbfgs < 0.5 * exact
