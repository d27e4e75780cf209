"""Factors of weighted rows: those by the largest rows first are those of all reflections, where they are taken at all."""

import numpy as np
import pytest

from finitesum.methods.newton import interior_factors
from finitesum.methods.newton.interior_factors import of_stacked


def rows(n, d, seed, *, spread):
    """Return rows whose weights spread over decades, a few of them far above the others."""
    rng = np.random.default_rng(seed)
    weights = 10.0 ** rng.uniform(-spread, 0.0, n)
    weights[rng.choice(n, 2 * d, replace=False)] *= 10.0 ** rng.uniform(0.0, spread, 2 * d)
    return np.sqrt(weights)[:, None] * rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-4, 4, d)


@pytest.mark.parametrize("spread", [2.0, 6.0, 10.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_largest_rows_and_the_sum_of_the_others_have_the_factor_of_all_reflections(seed, spread, monkeypatch):
    stacked = rows(1500, 2 + 3 * seed, seed, spread=spread)
    units = np.linalg.norm(stacked, axis=0)
    right = units * np.random.default_rng(seed).standard_normal(units.size)
    found = of_stacked(stacked.copy()).solved(right)
    assert interior_factors._of_largest(stacked / units) is not None
    monkeypatch.setattr(interior_factors, "_of_largest", lambda rows: None)
    other = of_stacked(stacked.copy()).solved(right)
    assert np.linalg.norm(units * (found - other)) <= 1e-12 * np.linalg.norm(units * other)


@pytest.mark.parametrize("kind", ["dependent columns", "few rows"])
def test_all_rows_are_reflected_where_the_largest_do_not_tell_columns_apart(kind, monkeypatch):
    stacked = rows(30 if kind == "few rows" else 1500, 6, 0, spread=6.0)
    if kind == "dependent columns":
        stacked[:, 5] = stacked[:, 3] + 1e-9 * stacked[:, 4]
    assert interior_factors._of_largest(stacked / np.linalg.norm(stacked, axis=0)) is None
    found = of_stacked(stacked.copy())
    monkeypatch.setattr(interior_factors, "_of_largest", lambda rows: None)
    other = of_stacked(stacked.copy())
    assert all(map(np.array_equal, found, other))


def test_a_factor_does_not_depend_on_the_units_of_the_columns():
    stacked = rows(1500, 5, 0, spread=8.0)
    right, units = np.random.default_rng(0).standard_normal(5), 2.0 ** np.array([-60, 0, 3, 40, 80])
    one, other = of_stacked(stacked.copy()).solved(right), of_stacked(stacked * units).solved(right * units)
    assert np.array_equal(one, other * units)
