"""Semismooth Newton for the hinge loss: minima against interior points, where steps see some of the rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Problem, minimize


def generated(seed, n):
    """Return rows of any density, weights with zeros among them, offsets, any alpha."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 15))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5) * 10.0 ** rng.uniform(-1, 1, d)
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    more = {"alpha": 10.0 ** rng.uniform(-4, 0), "fit_intercept": seed % 2 == 0}
    if seed % 3 == 0:
        more["sample_weight"] = 10.0 ** rng.uniform(-2, 0, n) * (rng.random(n) < 0.9)
    if seed % 4 == 0:
        more["offset"] = 0.3 * rng.standard_normal(n)
    return Problem.linear(sp.csr_array(X) if seed % 2 else X, y, loss="hinge", **more)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usefixtures("kernels_as_python")
def test_minima_are_those_of_interior_points(seed, monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.semismooth_newton.FEW_ROWS", 20)
    problem = generated(seed, 300)
    result = minimize(problem, method="semismooth-newton", tol=1e-9, measure_every=0)
    other = minimize(problem, method="interior-point", tol=1e-9, measure_every=0)
    assert result.success, result.message
    assert abs(result.fun - other.fun) <= 2e-9


@pytest.mark.parametrize(("seed", "scale", "alpha"), [(5, 1e-3, 0.1), (2, 1.0, 10.0)])
@pytest.mark.usefixtures("kernels_as_python")
def test_an_intercept_moves_freely_however_strong_the_penalty(seed, scale, alpha):
    """Beside l2, or columns that are small, its strength in dual ascent is large; and h must not fall before F_h does."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 5))
    y = X @ rng.standard_normal(5) + rng.standard_normal(400) + 0.5 > 0.0
    problem = Problem.linear(scale * X, y, loss="hinge", alpha=alpha, fit_intercept=True)
    result = minimize(problem, method="semismooth-newton", tol=1e-9, max_iter=300, measure_every=0)
    assert result.success, result.message


@pytest.mark.usefixtures("kernels_as_python")
def test_steps_see_some_of_the_rows(monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.semismooth_newton.FEW_ROWS", 20)
    problem, sizes = generated(1, 400), []
    watch = lambda report: sizes.append(report.n_passes)  # noqa: E731
    result = minimize(problem, method="semismooth-newton", tol=1e-9, measure_every=0, callback=watch)
    assert result.success
    assert np.diff(sizes).min() < 1.0
