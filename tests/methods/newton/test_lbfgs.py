"""L-BFGS for one output: its oracle step by step, growing samples, lengths of steps, and where it is chosen."""

import numpy as np
import pytest
from contracts.problems import make_pair
from oracles import lazy_newton as oracle

from finitesum import LogisticRegression, Problem, minimize
from finitesum.methods import forecasts
from finitesum.methods.auto import choose
from finitesum.methods.newton.lbfgs import LBFGS, memory_of
from finitesum.methods.newton.multinomial_lbfgs import MultinomialLBFGS


def independent(n=6000, d=120, seed=0, **more):
    """Return logistic regression on columns that do not depend on each other."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.exp(rng.standard_normal(d))
    y = np.where(X @ rng.standard_normal(d) + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return Problem.linear(X, y, **{"alpha": 1e-3, "fit_intercept": True} | more)


@pytest.mark.usefixtures("kernels_as_python")
@pytest.mark.parametrize(
    ("form", "loss", "more"),
    [
        ("dense", "logistic", {}),
        ("csr32", "logistic", {"weighted": True, "intercept": True}),
        ("csr64", "poisson", {"alpha": 0.3}),
        ("dense", "squared", {"weighted": True}),
        ("dense", "huber", {"intercept": True}),
    ],
)
def test_each_step_is_the_oracle_s(form, loss, more):
    problem, F = make_pair(form, loss, n=120, batch_size=7, **more)
    method = LBFGS(first_rows=problem.n_rows)
    x0 = 2.0 * np.random.default_rng(1).standard_normal(problem.dim) * (loss != "poisson")
    state = method.init(problem, x0, 1e-10)
    for expected in oracle.lbfgs(F, loss, x0, 15):
        state = method.run_pass(problem, state, np.arange(problem.n_components))
        np.testing.assert_allclose(state.x, expected, rtol=1e-6, atol=1e-7)
        assert state.optimality == pytest.approx(F.optimality(state.x), rel=1e-5, abs=1e-9)
        if state.optimality < 1e-7:  # beyond, rounding errors part the two
            break
    assert state.optimality < 1e-3


def test_samples_grow_and_keep_their_pairs():
    problem, method = independent(), LBFGS(first_rows=500)
    order, state = np.random.default_rng(1).permutation(problem.n_components), method.init(problem, np.zeros(problem.dim))
    sizes, pairs = [0], [0]
    for _ in range(60):
        state = method.run_pass(problem, state, order)
        sizes.append(state.n_sampled)
        pairs.append(len(state.pairs.steps))
    rows = np.array(sizes) * (problem.batch_size or 1)
    assert sorted(set(rows)) == [0, 500, 2000, 6000]
    assert min(pairs[k] for k in range(1, 60) if rows[k] > rows[k - 1] > 0) > 0
    assert max(pairs) == memory_of(problem) == 20
    gradient = np.linalg.norm(state.gradient)
    assert gradient == pytest.approx(state.optimality)
    assert gradient < 1e-6


@pytest.mark.usefixtures("kernels_as_python")
def test_F_falls_from_far_away():
    problem = independent(n=400, d=20)
    method = LBFGS(first_rows=400)
    state = method.init(problem, np.full(problem.dim, 30.0))
    values = []
    for _ in range(40):
        state = method.run_pass(problem, state, np.arange(problem.n_components))
        values.append(state.value + problem.term.value(state.x))
    assert (np.diff(values) <= 1e-14).all()
    result = minimize(problem, method="newton", tol=1e-10)
    assert values[-1] == pytest.approx(result.fun, rel=1e-8)


def test_it_is_compared_where_columns_hardly_depend_on_each_other():
    rng = np.random.default_rng(2)
    alike = rng.standard_normal((6000, 3)) @ rng.standard_normal((3, 120)) + 0.1 * rng.standard_normal((6000, 120))
    y = np.where(rng.random(6000) < 0.5, 1.0, -1.0)
    assert "lbfgs" not in forecasts.known_methods(Problem.linear(alike, y, alpha=1e-3))
    assert "lbfgs" in forecasts.known_methods(independent())
    assert "lbfgs" not in forecasts.known_methods(independent(l1_ratio=0.5))
    problem = independent(n=12_000, d=250, alpha=1e-2)
    assert choose(problem, 1e-4).method.name == "lbfgs"


def test_estimators_take_it_where_it_is_suited():
    X = np.random.default_rng(0).standard_normal((200, 5))
    y = X[:, 0] > 0.3
    found, known = (LogisticRegression(solver=name, tol=1e-9).fit(X, y) for name in ("lbfgs", "auto"))
    assert found.solver_ == "lbfgs"
    np.testing.assert_allclose(found.coef_, known.coef_, atol=1e-6)
    for unsuited in (LogisticRegression(solver="lbfgs"), LogisticRegression(solver="lbfgs", l1_ratio=1.0)):
        labels = y if unsuited.l1_ratio else np.arange(200) % 3
        with pytest.raises(ValueError, match='"lbfgs" is for one smooth output: leave solver at "auto", which chooses'):
            unsuited.fit(X, labels)


@pytest.mark.usefixtures("kernels_as_python")
def test_the_diagonal_follows_curvatures_of_another_size():
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((300, 8)) * np.array([1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0])
    problem = Problem.linear(X, rng.poisson(1.0, 300).astype(float), loss="poisson", alpha=1e-3)
    method, made = LBFGS(first_rows=300), set()
    state = method.init(problem, np.full(problem.dim, 2.0))
    for _ in range(60):
        state = method.run_pass(problem, state, np.arange(problem.n_components))
        made.add(state.curvature)
    assert len(made - {0.0}) > 1
    assert state.optimality < 1e-6


def test_several_classes_begin_with_a_diagonal_where_columns_hardly_depend_on_each_other():
    rng = np.random.default_rng(0)
    X, y, method = rng.standard_normal((3000, 60)), rng.integers(0, 3, 3000), MultinomialLBFGS()
    for rows, vectors in ((X, [0] * 20 + [60] * 4), (X[:, :2] @ rng.standard_normal((2, 60)) + 0.1 * X, [60] * 24)):
        problem, found = Problem.linear(rows, y, loss="multinomial", alpha=1e-6), list[int]()
        state = method.init(problem, np.zeros(problem.dim))
        for _ in vectors:
            state = method.run_pass(problem, state, np.arange(1))
            found.append(state.kronecker.of_columns.shape[1])
        assert found == vectors
