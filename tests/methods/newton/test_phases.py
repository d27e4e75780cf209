"""Phases of Newton's methods: a pass is a step or a part of one, and a run goes on from any of them to the same bits."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import METHODS, Problem, minimize
from finitesum.running.checkpoint import flatten, unflatten
from finitesum.running.sampling import order_of_pass


def problem_of(kind):
    rng = np.random.default_rng(0)
    if kind.startswith("multinomial"):
        X = rng.standard_normal((90, 4))
        y = (X @ rng.standard_normal((4, 3)) + 0.5 * rng.standard_normal((90, 3))).argmax(axis=1)
        l1_ratio = 0.5 if kind == "multinomial-working-set" else 0.0
        return Problem.linear(X, y, loss="multinomial", alpha=1e-4, l1_ratio=l1_ratio, fit_intercept=True, batch_size=4)
    if kind == "newton-cg on dense rows":
        X = rng.standard_normal((600, 50)) * np.arange(1, 51) ** -1.0
        y = np.where(X @ rng.standard_normal(50) + 0.3 * rng.standard_normal(600) > 0.0, 1.0, -1.0)
        return Problem.linear(X, y, alpha=1e-3, fit_intercept=True, batch_size=4)
    d = {"lazy-newton": 6, "newton-cg": 40, "epochs": 300, "working-set-newton": 60, "coordinate-descent": 60}[kind]
    X = sp.random_array((2_000, d), density=0.2, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(2_000) > 0.0, 1.0, -1.0)
    more = {"l1_ratio": 1.0} if kind in ("working-set-newton", "coordinate-descent") else {}
    return Problem.linear(X, y, alpha=5e-3 if kind == "epochs" else 1e-3, fit_intercept=True, batch_size=4, **more)


def name_of(kind):
    return "newton-cg" if kind in ("epochs", "newton-cg on dense rows") else kind


OPTIONS = {
    "lazy-newton": {"first_rows": 60},
    "newton-cg": {"first_rows": 60},
    "newton-cg on dense rows": {"first_rows": 300},
    "epochs": {},
    "working-set-newton": {"first_columns": 3},
    "coordinate-descent": {"first_columns": 3},
    "multinomial-newton": {"solver": "cg"},
    "multinomial-working-set": {},
}


@pytest.fixture(autouse=True)
def _in_orthants(monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.multinomial_newton.NUMBERS_OF_A_PASS", 0.0)  # a product a pass
    monkeypatch.setattr("finitesum.methods.newton.multinomial_newton.PLAIN_PRODUCTS", 3)  # then factors
    monkeypatch.setattr("finitesum.methods.newton.multinomial_working_set.MOST_EXACT", 0)
    monkeypatch.setattr("finitesum.methods.newton.coordinate_descent.SOME_PASSES", 0.01)


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_run_goes_on_from_any_pass_to_the_same_bits(kind):
    problem = problem_of(kind)
    method = METHODS[name_of(kind)](**OPTIONS[kind])
    state, n_within = method.init(problem, np.zeros(problem.dim), 1e-9), 0
    for k in range(40):
        order = order_of_pass("shuffled-once", 3, k, problem.n_components)
        before = flatten(state)
        kept = {name: value.tobytes() for name, value in before.items()}
        after = method.run_pass(problem, state, order)
        assert {name: value.tobytes() for name, value in flatten(state).items()} == kept  # left as it was
        again = method.run_pass(problem, unflatten(method.state_type, before), order)
        assert {name: value.tobytes() for name, value in flatten(after).items()} == {
            name: value.tobytes() for name, value in flatten(again).items()
        }
        n_within += math.isnan(method.estimate(problem, after))
        state = after
    assert 3 <= n_within < 40


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("after", [1, 2, 4, 7])
def test_runs_stop_and_resume_within_their_phases(kind, after, tmp_path):
    problem, path = problem_of(kind), tmp_path / "run.npz"
    name = name_of(kind)
    settings = {"method": name, "options": OPTIONS[kind], "tol": 1e-9}
    whole = minimize(problem, **settings)
    assert whole.success
    stopped = minimize(
        problem, **settings, checkpoint=path, callback=lambda intermediate_result: intermediate_result.nit == after
    )
    assert stopped.nit == after
    assert not stopped.success
    rest = minimize(problem, **settings, checkpoint=path, resume=True)
    assert rest.x.tobytes() == whole.x.tobytes()
    assert (rest.nit, rest.n_passes, rest.n_hessian_passes) == (whole.nit, whole.n_passes, whole.n_hessian_passes)
    spent = [[row.n_passes for row in result.trace.rows] for result in (rest, whole)]
    assert spent[0] == spent[1]
