"""What "auto" says of problems that no method treats: what is wrong, and something that works."""

import numpy as np
import pytest

from finitesum import Problem, minimize
from finitesum.constraints import Box, Polyhedron
from finitesum.problems.penalties import MCP

X = np.random.default_rng(0).standard_normal((40, 6))
NUMBERS, LABELS = X[:, 0] + 0.3, np.where(X[:, 0] + X[:, 5] ** 2 > 0.8, 1, -1)
PENALTIES = {"a group lasso": {"alpha": 0.1, "groups": [0, 0, 1, 1, 2, 2]}, "MCP": {"penalty": MCP(0.1)}}
SMOOTH = {"hinge": "smoothed-hinge", "absolute": "huber", "epsilon-insensitive": "huber", "quantile": "huber"}


@pytest.mark.parametrize("what", PENALTIES)
@pytest.mark.parametrize("loss", SMOOTH)
def test_a_nonsmooth_loss_with_a_penalty_known_by_its_prox(loss, what):
    y = LABELS if loss == "hinge" else NUMBERS
    with pytest.raises(ValueError, match=f"is nonsmooth, and no method takes such a loss with {what}") as raised:
        minimize(Problem.linear(X, y, loss=loss, **PENALTIES[what]))
    advice = SMOOTH[loss]
    assert f'such as loss="{advice}", or give ' in str(raised.value)
    assert minimize(Problem.linear(X, y, loss=advice, **PENALTIES[what]), tol=1e-3).success


def test_a_set_without_interior_points_and_the_heavy_ball_that_is_named():
    flat = Polyhedron(np.vstack([np.ones(6), -np.ones(6)]), [0.3, -0.3])
    problem = Problem.linear(X, NUMBERS, loss="absolute", alpha=0.01, constraint=flat)
    with pytest.raises(ValueError, match=r'ive another set, or name .* slowly: method="hb"') as raised:
        minimize(problem)
    assert "\n" not in str(raised.value)
    assert minimize(problem, method="hb", tol=1e-12, max_iter=30).optimality < 1.0


def test_sets_of_many_numbers_take_one_line_of_a_message():
    problem = Problem.linear(X, NUMBERS, loss="huber", constraint=Box(-np.arange(1.0, 7.0), np.arange(1.0, 7.0) / 3.0))
    for name in ("interior-point", "linear-program"):
        with pytest.raises(ValueError, match=r"on Box\(lower=array") as raised:
            minimize(problem, method=name)
        assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match=r'saga cannot treat the nonsmooth loss Absolute.* or loss="huber"'):
        minimize(Problem.linear(X, NUMBERS, loss="absolute"), method="saga")
