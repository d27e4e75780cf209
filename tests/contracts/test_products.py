"""Every loss with every penalty on every set, with an intercept or without: `minimize` ends at tol or says why not."""

import itertools

import numpy as np
import pytest
from contracts.problems import targets_for

from finitesum import Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Simplex
from finitesum.evaluation.optimality import evaluate
from finitesum.losses import LOSSES, as_loss

N, D, TOL = 20, 4, 1e-9

PENALTIES = {
    "none": {},
    "l2": {"alpha": 0.1},
    "l1": {"alpha": 0.05, "l1_ratio": 1.0},
    "elastic net": {"alpha": 0.05, "l1_ratio": 0.5},
    "weighted l1": {"alpha": 0.05, "l1_ratio": 0.9, "penalty_weights": [1.0, 0.0, 2.0, 0.5]},
}

SETS = {
    "none": None,
    "box": Box(-0.1, [0.3, np.inf, 0.2, -0.1]),
    "orthant": NonNegative(),
    "l_inf ball": LInfBall(0.2),
    "l1 ball": L1Ball(0.5),
    "weighted l1 ball": L1Ball(0.5, weights=np.arange(1.0, D + 1)),
    "l2 ball": L2Ball(0.4),
    "simplex": Simplex(0.7),
    "half-space": HalfSpace(np.ones(D), -0.2),
}


def refused(loss, penalty, constraint):
    """What is said of a combination that no problem may have, at once; empty where it may."""
    if constraint == "none":
        return ""
    if loss == "multinomial":
        return "fit one output at a time"
    if penalty in ("l1", "elastic net", "weighted l1") and constraint not in ("box", "orthant", "l_inf ball"):
        return "set l1_ratio to 0 or leave constraint out"
    return ""


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_ends_at_tol_or_refuses_in_a_sentence(loss, penalty):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, D))
    y = targets_for(as_loss(loss), X @ rng.standard_normal(D) + rng.standard_normal(N), rng)
    for constraint, intercept in itertools.product(SETS, (False, True)):
        arguments = {"loss": loss, "fit_intercept": intercept, "constraint": SETS[constraint], **PENALTIES[penalty]}
        if said := refused(loss, penalty, constraint):
            with pytest.raises(ValueError, match=said):
                Problem.linear(X, y, **arguments)
            continue
        problem = Problem.linear(X, y, **arguments)
        result = minimize(problem, tol=TOL, measure_every=0)
        assert result.success, (constraint, intercept, result.method.name, result.message)
        if problem.n_outputs == 1:
            assert problem.constraint.contains(result.x[:D])
        for _ in range(5):
            x = problem.term.project(result.x + 1e-2 * rng.standard_normal(problem.dim))
            assert evaluate(problem, x).objective >= result.fun - 1e-8


@pytest.mark.parametrize("penalty", PENALTIES)
def test_hinge_ends_with_data_of_any_size(penalty):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    y = targets_for(as_loss("hinge"), X @ rng.standard_normal(D) + rng.standard_normal(N), rng)
    X[:, 1], X[:, 2] = X[:, 0], 1.0  # duplicated and constant columns
    X *= [1e-3, 1e-3, 1.0, 1e6]
    weights = np.geomspace(1e-6, 1.0, N)
    weights[3:6] = 0.0
    for constraint, intercept in itertools.product(SETS, (False, True)):
        if not refused("hinge", penalty, constraint):
            arguments = {"fit_intercept": intercept, "constraint": SETS[constraint], **PENALTIES[penalty]}
            problem = Problem.linear(X, y, loss="hinge", sample_weight=weights, **arguments)
            result = minimize(problem, tol=1e-6, measure_every=0)
            assert result.success, (constraint, intercept, result.message)
