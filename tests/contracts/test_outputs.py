"""What methods must do on linear models with several outputs: K classes, or K targets of the squared loss.

A method that treats them adds a row to ORACLES: its options, and its recursion on the explicit sum of `oracles.outputs`.
"""

from itertools import islice, pairwise

import numpy as np
import pytest
from contracts.problems import FORMATS, as_format
from oracles import iqn, methods as oracles, newton_type, svrg, svrg2
from oracles.outputs import SumOfOutputs

from finitesum import METHODS, FiniteSum, MultinomialProblem, Problem, minimize
from finitesum.constraints import L1Ball
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.row_space import row_space
from finitesum.evaluation.smoothness import component_smoothness, full_smoothness
from finitesum.methods.newton.multinomial_lbfgs import MultinomialLBFGS
from finitesum.methods.newton.multinomial_newton import MultinomialNewton
from finitesum.methods.newton.multinomial_working_set import MultinomialWorkingSet
from finitesum.running.checkpoint import flatten, unflatten
from finitesum.running.sampling import order_of_pass

ORACLES = {
    "fg": ({"step_size": 0.8}, lambda F, w, orders: oracles.fg(F, w, orders, 0.8)),
    "afg": ({"step_size": 0.5, "momentum": 0.6}, lambda F, w, orders: oracles.afg(F, w, orders, 0.5, 0.6)),
    "ig": ({"step_size": 0.2}, lambda F, w, orders: oracles.ig(F, w, orders, 0.2)),
    "iag": ({"step_size": 0.05}, lambda F, w, orders: oracles.aggregated(F, w, orders, 0.05)),
    "sag": ({"step_size": 0.1}, lambda F, w, orders: oracles.aggregated(F, w, orders, 0.1)),
    "saga": ({"step_size": 0.07}, lambda F, w, orders: oracles.saga(F, w, orders, 0.07)),
    "ciag": ({"step_size": 0.3}, lambda F, w, orders: oracles.ciag(F, w, orders, 0.3, 0.0)),
    "a-ciag": ({"step_size": 0.2, "extrapolation": 0.5}, lambda F, w, orders: oracles.ciag(F, w, orders, 0.2, 0.5)),
    "svrg": ({"step_size": 0.07}, lambda F, w, orders: svrg.svrg(F, w, orders, 0.07)),
    "acc-svrg": ({"step_size": 0.07, "momentum": 0.6}, lambda F, w, orders: svrg.acc_svrg(F, w, orders, 0.07, 0.6)),
    "sarah": ({"step_size": 0.1}, lambda F, w, orders: oracles.sarah(F, w, orders, 0.1)),
    "svrg2": ({"step_size": 0.1}, lambda F, w, orders: svrg2.svrg2(F, w, orders, 0.1, "full")),
    "nim": (
        {"step_size": 0.8, "solver": "exact", "warm_start_method": "full"},
        lambda F, w, orders: newton_type.nim(F, w, orders, 0.8, full=True),
    ),
    "iqn": (
        {"step_size": 0.6, "initial": 0.7},
        lambda F, w, orders: (state[0] for state in iqn.iqn(F, w, orders, 0.7, 0.6)),
    ),
    "newton": ({"step_size": 0.7}, lambda F, w, orders: newton_type.newton(F, w, len(orders), 0.7)),
    "multinomial-newton": ({}, lambda F, w, orders: newton_type.newton_of_outputs(F, w, len(orders))),
    "multinomial-working-set": ({}, lambda F, w, orders: newton_type.working_set_of_outputs(F, w, len(orders))),
    "multinomial-lbfgs": (
        {"preconditioner": "kronecker"},
        lambda F, w, orders: newton_type.lbfgs_of_outputs(F, w, len(orders)),
    ),
}
ALL = sorted(ORACLES)

#: Methods that solve with the Hessian, which is singular where shifts of all intercepts change nothing.
DRIFTING = ("nim",)

SETTINGS = [
    {},
    {"loss": "squared"},
    {"batch_size": 4, "intercept": True, "weighted": True},
    {"batch_size": 5, "intercept": True, "l1_ratio": 0.7, "alpha": 0.1, "loss": "squared"},
    {"batch_size": 23, "l1_ratio": 0.3, "intercept": True},
]


def ident(value):
    return value if isinstance(value, str) else "-".join(f"{k}={v}" for k, v in value.items()) or "plain"


def make_pair(
    form="dense", loss="multinomial", *, n=23, d=4, K=3, alpha=0.05, l1_ratio=0.0, intercept=False, weighted=False,
    batch_size=3, dtype=np.float64, seed=0,
):  # fmt: skip
    """Return the same problem as (Problem, SumOfOutputs); half of the entries are zero, and some weights."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)
    scores = X @ rng.standard_normal((d, K)) + 0.5 * rng.standard_normal((n, K))
    y = scores.argmax(axis=1) if loss == "multinomial" else scores
    weights = rng.integers(0, 5, n).astype(float) if weighted else None
    offsets = 0.3 * rng.standard_normal((n, K)) if weighted else None
    problem = Problem.linear(
        as_format(X, form),
        y,
        loss=loss,
        alpha=alpha,
        l1_ratio=l1_ratio,
        fit_intercept=intercept,
        sample_weight=weights,
        offset=offsets,
        batch_size=batch_size,
    )
    oracle = SumOfOutputs(
        X, y, loss, K,
        l1=alpha * l1_ratio, l2=alpha * (1 - l1_ratio), intercept=intercept, weights=weights, offsets=offsets,
        batch_size=batch_size,
    )  # fmt: skip
    return problem, oracle


def run(method, problem, w, orders):
    state = method.init(problem, w)
    for order in orders:
        state = method.run_pass(problem, state, order)
        yield state


def orders_of(problem, n_passes=4, sampling="with-replacement"):
    return [order_of_pass(sampling, 3, k, problem.n_components) for k in range(n_passes)]


def start(problem):
    return 0.3 * np.random.default_rng(5).standard_normal(problem.dim)


def test_every_method_that_says_so_has_a_row():
    assert set(ALL) == {name for name, cls in METHODS.items() if "outputs" in cls.handles}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
def test_measures_are_those_of_the_formula(form, setting):
    problem, oracle = make_pair(form, **setting)
    w = start(problem)
    measures = evaluate(problem, w)
    assert problem.n_outputs == 3
    assert measures.objective == pytest.approx(oracle.objective(w), rel=1e-13)
    np.testing.assert_allclose(measures.gradient, oracle.gradient(w), atol=1e-14)
    assert measures.optimality == pytest.approx(oracle.optimality(w), rel=1e-12)


@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
@pytest.mark.parametrize("name", ALL)
def test_equals_its_oracle_pass_by_pass(name, setting):
    if name in ("newton", *DRIFTING) and "intercept" in setting:  # whose oracle drifts
        setting = {**setting, "loss": "squared"}
    problem, oracle = make_pair("csr32" if "intercept" in setting else "dense", **setting)
    if "l1_ratio" in setting and "l1" not in METHODS[name].handles:
        with pytest.raises(ValueError, match=f"{name} cannot treat an l1 penalty"):
            minimize(problem, method=name)
        return
    options, recursion = ORACLES[name]
    orders, w = orders_of(problem), start(problem)
    for state, expected in zip(
        run(METHODS[name](**options), problem, w, orders), recursion(oracle, w, orders), strict=True
    ):
        np.testing.assert_allclose(state.x, expected, rtol=1e-11, atol=1e-11)
    assert np.abs(state.x - w).max() > 1e-3


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", [{}, {"intercept": True, "weighted": True}], ids=ident)
@pytest.mark.parametrize("method", [MultinomialNewton("exact"), MultinomialLBFGS("hessian")], ids=repr)
def test_hessians_in_the_span_of_few_rows_make_the_iterates_of_all_columns(form, setting, method):
    problem, oracle = make_pair(form, **setting | {"n": 14, "d": 40})
    orders, w = orders_of(problem, 5), start(problem)
    is_newton = isinstance(method, MultinomialNewton)
    expected = newton_type.newton_of_outputs(oracle, w, 5)
    if not is_newton:
        expected = newton_type.lbfgs_of_outputs(oracle, w, 5, is_exact=True)
    for state, point in zip(run(method, problem, w, orders), expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-7, atol=1e-9 if is_newton else 1e-6)
    if not is_newton:
        assert state.factor.lower.shape[0] < 2 * 15 + 1
    assert oracle.optimality(state.x) < 0.05 * oracle.optimality(w)


def test_rows_that_repeat_or_are_centred_have_a_smaller_span():
    X = np.random.default_rng(0).standard_normal((12, 50))
    X = np.vstack([X - X.mean(axis=0), X[:3], X[:3]])
    problem = Problem.linear(X, np.arange(18) % 3, loss="multinomial", alpha=0.01, fit_intercept=True)
    result = minimize(problem, tol=1e-10)
    assert result.success
    assert result.method == MultinomialNewton("exact")
    assert row_space(problem).mixed.shape == (18, np.linalg.matrix_rank(X))
    np.testing.assert_allclose(result.x, minimize(problem, method=MultinomialNewton("cg"), tol=1e-10).x, atol=1e-7)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "setting",
    [{"l1_ratio": 0.5}, {"l1_ratio": 1.0, "intercept": True, "weighted": True}, {"l1_ratio": 0.7, "loss": "squared"}],
    ids=ident,
)
def test_working_sets_of_many_coefficients_are_treated_in_orthants(form, setting, monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.multinomial_working_set.MOST_EXACT", 0)
    problem, oracle = make_pair(form, **setting | {"alpha": 0.1, "d": 9})
    orders, w = orders_of(problem, 12), start(problem)
    w[::5] = 0.0
    expected = islice(newton_type.orthant_of_outputs(oracle, w, 12), 12)
    for state, point in zip(run(MultinomialWorkingSet(), problem, w, orders), expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-9, atol=1e-9)
    result = minimize(problem, method=MultinomialWorkingSet(), tol=1e-9)
    assert result.success
    assert oracle.optimality(result.x) <= 1.01e-9
    assert (result.x == 0.0).any()


@pytest.mark.parametrize("joint", [0, 100])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "setting", [{}, {"intercept": True, "weighted": True}, {"intercept": True, "alpha": 0.0}], ids=ident
)
def test_lbfgs_from_a_hessian_of_classes_equals_its_oracle(form, setting, joint, monkeypatch):
    monkeypatch.setattr("finitesum.evaluation.class_hessians.MOST_JOINT", joint)
    problem, oracle = make_pair(form, **setting)
    orders, w = orders_of(problem, 6), start(problem)
    expected = newton_type.lbfgs_of_outputs(oracle, w, 6, is_exact=True)
    for state, point in zip(run(MultinomialLBFGS("hessian"), problem, w, orders), expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-7, atol=1e-7)
    assert state.n_hessians == 2 * np.count_nonzero(problem.weights)
    assert oracle.optimality(state.x) < 0.05 * oracle.optimality(w)


def assert_template_has_its_shapes(method, problem, w, state):
    flat = {key: np.array(value) for key, value in flatten(state).items()}
    shapes = flatten(method.template(problem, method.init(problem, w), unflatten(method.state_type, flat)))
    assert {key: np.shape(value) for key, value in shapes.items()} == {key: value.shape for key, value in flat.items()}


@pytest.mark.parametrize(
    "setting", [{}, {"intercept": True, "weighted": True}, {"loss": "squared", "intercept": True}], ids=ident
)
@pytest.mark.parametrize("form", ["dense", "csr32"])
def test_lbfgs_from_a_diagonal_equals_its_oracle(form, setting):
    problem, oracle = make_pair(form, **setting)
    orders, w = orders_of(problem, 6), start(problem)
    expected = newton_type.lbfgs_of_outputs(oracle, w, 6, is_diagonal=True)
    method = MultinomialLBFGS("diagonal")
    for state, point in zip(run(method, problem, w, orders), expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-8, atol=1e-8)
    assert state.kronecker.of_columns.shape == (problem.rows.dim(), 0)
    assert_template_has_its_shapes(method, problem, w, state)


@pytest.mark.parametrize("setting", [{}, {"intercept": True}, {"loss": "squared", "intercept": True}], ids=ident)
def test_lbfgs_from_factors_of_low_rank_equals_its_oracle(setting, monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.multinomial_lbfgs.rank_that_pays", lambda problem: 9)
    problem, oracle = make_pair("dense", **setting, n=30, d=40)
    orders, w = orders_of(problem, 5), start(problem)
    expected = newton_type.lbfgs_of_outputs(oracle, w, 5, rank=9)
    method = MultinomialLBFGS("low-rank")
    for state, point in zip(run(method, problem, w, orders), expected, strict=True):
        np.testing.assert_allclose(state.x, point, rtol=1e-8, atol=1e-8)
    assert state.kronecker.of_columns.shape == (problem.rows.dim(), 9)
    assert_template_has_its_shapes(method, problem, w, state)


def test_lbfgs_makes_factors_of_a_low_rank_again_once_curvatures_have_changed():
    rng = np.random.default_rng(0)
    X = 3.0 + rng.standard_normal((60, 200)) * np.arange(1, 201) ** -0.5
    problem = Problem.linear(X, rng.integers(0, 3, 60), loss="multinomial", alpha=1e-5, fit_intercept=True)
    method, made = MultinomialLBFGS("low-rank"), []
    for state in run(method, problem, np.zeros(problem.dim), [np.arange(1)] * 25):
        if not made or state.kronecker.curvature != made[-1]:
            made.append(state.kronecker.curvature)
    assert len(made) > 1
    assert all(max(a / b, b / a) > 3.0 for a, b in pairwise(made))
    found = minimize(problem, method=MultinomialLBFGS("low-rank"), tol=1e-4)
    assert found.success
    without = minimize(problem, method=MultinomialLBFGS("none"), tol=1e-4, max_iter=1.5 * found.n_passes)
    assert not without.success


@pytest.mark.parametrize("name", ALL)
def test_dense_and_sparse_rows_of_either_precision_make_the_same_iterates(name):
    setting = {"intercept": True, "loss": "squared" if name in DRIFTING else "multinomial"}
    w, options, ends = start(make_pair(**setting)[0]), ORACLES[name][0], []
    for form, dtype in (("dense", np.float32), ("csr32", np.float32), ("csr64", np.float64)):
        problem, _ = make_pair(form, dtype=dtype, **setting)
        *_, state = run(METHODS[name](**options), problem, w, orders_of(problem))
        ends.append(state.x)
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(ends[2], ends[0], rtol=1e-4, atol=1e-5)  # its entries were not rounded


@pytest.mark.parametrize(
    ("name", "more"),
    [(name, {}) for name in ALL if "components" in METHODS[name].handles]
    + [("svrg2", {"hessian": kind}) for kind in ("2D", "2Dsec", "CM", "AM")],
    ids=ident,
)
def test_makes_the_iterates_of_the_same_sum_of_functions(name, more):
    problem, _ = make_pair(intercept=True, weighted=True, loss="squared" if name in ("newton", "nim") else "multinomial")
    general = FiniteSum.from_linear(problem)
    assert general.check(start(problem)).success
    options = ORACLES[name][0] | more
    for state, expected in zip(
        run(METHODS[name](**options), problem, start(problem), orders_of(problem)),
        run(METHODS[name](**options), general, start(problem), orders_of(problem)),
        strict=True,
    ):
        np.testing.assert_allclose(state.x, expected.x, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ALL)
def test_goes_on_from_a_stored_state_to_the_same_bits_and_leaves_states_alone(name):
    problem, _ = make_pair("csr32", intercept=True)
    method, orders, w = METHODS[name](), orders_of(problem, 5, "shuffled"), start(problem)
    states = list(run(method, problem, w, orders))
    np.testing.assert_array_equal(w, start(problem))
    kept = {key: np.array(value) for key, value in flatten(states[1]).items()}
    state = unflatten(method.state_type, kept)
    for order in orders[2:]:
        state = method.run_pass(problem, state, order)
    for key, value in flatten(state).items():
        np.testing.assert_array_equal(value, flatten(states[-1])[key], err_msg=key)
    for key, value in flatten(states[1]).items():
        np.testing.assert_array_equal(value, kept[key], err_msg=key)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.8])
@pytest.mark.parametrize("name", ALL)
def test_stops_once_the_exact_optimality_is_at_most_tol(name, l1_ratio):
    problem, oracle = make_pair(n=60, alpha=0.1, intercept=True, l1_ratio=l1_ratio)
    if l1_ratio and "l1" not in METHODS[name].handles:
        return
    tol = {"ig": 2e-2, "iag": 1e-5}.get(name, 1e-9)
    result = minimize(problem, method=name, tol=tol, max_iter=3000)
    assert result.success, result.message
    assert oracle.optimality(result.x) <= 1.01 * tol
    assert result.fun == pytest.approx(oracle.objective(result.x), rel=1e-12)
    if name not in DRIFTING:
        assert np.abs(result.x.reshape(3, -1)[:, -1].mean()) < 1e-6  # no gradient points along shifts


@pytest.mark.parametrize("setting", SETTINGS, ids=ident)
def test_constants_bound_the_curvature(setting):
    problem, oracle = make_pair(**setting)
    largest = [np.linalg.eigvalsh(oracle.hessian(s * start(problem)))[-1] for s in (0.0, 1.0, 5.0)]
    assert max(largest) <= full_smoothness(problem)
    components = [oracle.loss_hessian(j, s * start(problem)) for j in range(oracle.m) for s in (0.0, 1.0, 5.0)]
    assert max(np.linalg.eigvalsh(H)[-1] for H in components) + problem.penalty.ridge() <= component_smoothness(problem)
    assert full_smoothness(problem) <= component_smoothness(problem) + 1e-12


def test_a_row_of_weight_zero_counts_for_nothing_even_where_it_overflows():
    X, Y = [[1.0], [0.5], [1e150]], np.array([[2.0, 1.0], [1.0, 0.0], [-1e200, 0.0]])
    problem = Problem.linear(X, Y, loss="squared", alpha=0.1, sample_weight=[1.0, 1.0, 0.0], batch_size=2)
    assert np.isfinite(evaluate(problem, np.full(2, 1e10)).objective)
    result = minimize(problem, method="saga", options={"step_size": 0.1}, tol=1e-8)
    assert result.success
    exact = Problem.linear(X[:2], Y[:2], loss="squared", alpha=0.1)
    np.testing.assert_allclose(result.x, minimize(exact, tol=1e-12).x, atol=1e-7)


def test_components_are_about_a_thousand_blocks_where_nothing_else_is_asked_for():
    rng = np.random.default_rng(0)
    problem = Problem.linear(rng.standard_normal((5000, 2)), rng.integers(0, 3, 5000), loss="multinomial", alpha=0.1)
    result = minimize(problem, method="saga", max_iter=1)
    assert result.batch_size == 5
    assert minimize(make_pair(batch_size=1)[0], method="saga", max_iter=1).batch_size == 1


@pytest.mark.parametrize("loss", ["multinomial", "squared"])
def test_auto_solves_them(loss):
    for l1_ratio in (0.0, 0.5):
        problem, oracle = make_pair(loss=loss, l1_ratio=l1_ratio, intercept=True, weighted=True, n=60)
        result = minimize(problem, tol=1e-9)
        assert result.success, result.message
        assert "3 outputs at once" in result.choice
        assert oracle.optimality(result.x) <= 1.01e-9


@pytest.mark.parametrize("method", [MultinomialNewton("exact"), MultinomialNewton("cg"), MultinomialLBFGS()])
def test_k_targets_are_k_problems(method):
    problem, oracle = make_pair(loss="squared", intercept=True)
    result = minimize(problem, method=method, tol=1e-11)
    assert result.success
    if method == MultinomialNewton("exact"):
        assert result.nit == 1
    for k in range(3):
        one = Problem.linear(problem.rows.values, oracle.y[:, k], loss="squared", alpha=0.05, fit_intercept=True)
        np.testing.assert_allclose(result.x.reshape(3, -1)[k], minimize(one, tol=1e-11).x, atol=1e-9)


def test_checkpoints_know_the_number_of_outputs(tmp_path):
    problem, _ = make_pair(intercept=True)
    file = tmp_path / "run.npz"
    minimize(problem, method="saga", tol=1e-9, max_iter=5, checkpoint=file)
    resumed = minimize(problem, method="saga", tol=1e-9, max_iter=50, checkpoint=file, resume=True)
    whole = minimize(problem, method="saga", tol=1e-9, max_iter=50)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert problem.fingerprint == make_pair(intercept=True)[0].fingerprint
    others = [make_pair(intercept=True, **change)[0] for change in ({"seed": 1}, {"alpha": 0.1}, {"loss": "squared"})]
    assert problem.fingerprint not in {other.fingerprint for other in others}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 0, 0]}, "two classes or more"),
        ({"y": [0, 1]}, r"y must have shape \(3,\)"),
        ({"y": [0.0, 1.0, float("nan")]}, "y must be finite, got nan at position 2"),
        ({"sample_weight": [1.0, 1.0, 0.0]}, "class 2 has weight 0"),
        ({"constraint": L1Ball(1.0), "alpha": 0.1, "l1_ratio": 0.5}, "an l1 penalty goes with bounds of coefficients"),
        ({"offset": [0.0, 1.0, 2.0]}, r"offset must have shape \(3, 3\)"),
        ({"loss": "logistic"}, "got 3 classes: 0, 1, 2"),
        ({"loss": "huber", "y": [[0.0, 1.0]] * 3}, "Several targets need loss='squared', got Huber"),
        ({"loss": "squared", "y": [[0.0, 1.0], [0.0, 1.0], [0.0, float("inf")]]}, "got inf at row 2, column 1"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        Problem.linear(**{"X": [[0.0], [1.0], [2.0]], "y": [0, 1, 2], "loss": "multinomial", **change})


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(ALL)))
def test_other_methods_refuse_them_in_a_sentence(name):
    with pytest.raises(ValueError, match=f"{name} cannot treat several classes at once. Choose another method"):
        minimize(make_pair()[0], method=name)
    with pytest.raises(ValueError, match=f"{name} cannot treat several targets at once"):
        minimize(make_pair(loss="squared")[0], method=name)


def test_auto_solves_classes_without_a_penalty_on_columns_far_from_0():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 90))
    X = (X + 100.0 * np.abs(X).max(axis=0)) * 10.0 ** rng.uniform(-1, 1, 90)
    signals = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.standard_normal((90, 4))
    y = (signals + 5.0 * rng.gumbel(size=(500, 4))).argmax(axis=1)
    problem = Problem.linear(X, y, loss="multinomial", alpha=0.0, fit_intercept=True)
    result = minimize(problem, tol=1e-8)
    assert result.success, result.message
    assert result.n_passes <= 50  # of L-BFGS a thousand


@pytest.mark.parametrize("form", FORMATS)
def test_auto_takes_working_sets_for_sparse_tables_of_many_coefficients(form):
    X = np.random.default_rng(0).standard_normal((60, 300))
    problem = Problem.linear(
        as_format(X, form), np.arange(60) % 3, loss="multinomial", alpha=0.05, l1_ratio=0.9, fit_intercept=True
    )
    result = minimize(problem, tol=1e-9)
    assert result.success
    assert result.method == MultinomialWorkingSet()
    assert result.n_passes < 15
    assert 0 < np.count_nonzero(result.x) < 300
    other = minimize(problem, method="fg", tol=1e-7, max_iter=5000)
    np.testing.assert_allclose(result.x, other.x, atol=1e-5)


def test_newtons_method_for_several_outputs_refuses_what_it_cannot_take():
    with pytest.raises(ValueError, match="multinomial-newton cannot treat an l1 penalty"):
        minimize(make_pair(l1_ratio=0.5)[0], method=MultinomialNewton())
    for name in ("multinomial-newton", "multinomial-lbfgs", "multinomial-working-set"):
        with pytest.raises(ValueError, match=f"{name} needs several outputs, got one"):
            minimize(Problem.linear([[0.0], [1.0]], [0, 1], alpha=1.0), method=name)


def test_one_target_in_a_column_is_a_problem_of_one_output():
    assert Problem.linear([[0.0], [1.0]], [[0.5], [1.0]], loss="squared").n_outputs == 1


def test_the_multinomial_problem_has_a_name_of_its_own():
    problem = MultinomialProblem.linear([[0.0], [1.0], [2.0]], ["a", "b", "c"], alpha=0.1)
    assert isinstance(problem, Problem)
    same = Problem.linear([[0.0], [1.0], [2.0]], ["a", "b", "c"], alpha=0.1, loss="multinomial")
    assert problem.fingerprint == same.fingerprint


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [{"alpha": 1e-6, "l1_ratio": 1.0}, {"alpha": 1e-6, "l1_ratio": 0.5}, {}], ids=ident)
def test_separable_classes_in_any_units_reach_tol(options, seed):
    """No one sees the mean of the intercepts, and what is lost to rounding errors is summed in extended precision."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 20)) * 10.0 ** rng.uniform(-3, 3, 20)
    problem = Problem.linear(X, np.arange(12) % 3, loss="multinomial", fit_intercept=True, **options)
    result = minimize(problem, tol=1e-10, max_iter=100)
    assert result.success, result.message
    assert np.abs(result.x.reshape(3, -1)[:, -1].mean()) < 1e-3
