"""States that go on with another strength of the penalty: what they know is what a pass finds."""

import numpy as np
import pytest
from contracts.problems import make_pair

from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.samples import sample_of
from finitesum.methods.newton.lazy_newton import LazyNewton, direction_of
from finitesum.methods.newton.newton_cg import NewtonCG, solved_direction
from finitesum.methods.newton.other_strength import with_strength
from finitesum.problems.penalties import elastic_net


@pytest.mark.parametrize("method", [LazyNewton, NewtonCG])
@pytest.mark.parametrize("form", ["dense", "csr32"])
def test_the_gradient_is_that_of_the_other_problem(form, method):
    problem, _ = make_pair(form, "logistic", n=120, batch_size=7, alpha=0.3, intercept=True)
    order = np.arange(problem.n_components)
    state = method(first_rows=120).init(problem, np.full(problem.dim, 0.3), 1e-10)
    for _ in range(3):
        state = method().run_pass(problem, state, order)
    other = problem.with_penalty(elastic_net(0.01, 0.0))
    state = with_strength(other, state, 0.3)
    expected = evaluate(other, state.x)
    assert state.gradient == pytest.approx(expected.gradient, abs=1e-13)
    assert state.optimality == pytest.approx(expected.optimality, abs=1e-13)
    if method is LazyNewton:
        direction = direction_of(other, state, sample_of(other, state.order))
    else:
        while (direction := solved_direction(other, state)) is None:
            state = method().run_pass(other, state, order)
    assert direction @ state.gradient < 0.0
