"""Objective, gradient and optimality against their definitions in NumPy."""

import numpy as np
import pytest
import scipy.sparse
from contracts.problems import FORMATS, make_pair

from finitesum import Problem
from finitesum.constraints import Box, L2Ball
from finitesum.core.jit import COMPILED
from finitesum.evaluation import outputs
from finitesum.evaluation.optimality import evaluate

SETTINGS = [
    {},
    {"weighted": True, "intercept": True},
    {"l1_ratio": 0.6, "alpha": 0.3, "intercept": True},
    {"loss": "poisson", "weighted": True, "l1_ratio": 1.0},
    {"loss": "huber", "alpha": 0.0},
    {"loss": "squared-hinge", "weighted": True},
    {"loss": "smoothed-hinge", "intercept": True},
]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_measures_are_those_of_the_definition(form, setting):
    problem, oracle = make_pair(form, **setting)
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal(problem.dim)
        found = evaluate(problem, x)
        assert found.objective == pytest.approx(oracle.objective(x), rel=1e-14)
        np.testing.assert_allclose(found.gradient, oracle.gradient(x), rtol=1e-13, atol=1e-14)
        assert found.optimality == pytest.approx(oracle.optimality(x), rel=1e-13)
        assert problem.term.optimality(x, found.gradient) == found.optimality


def test_float32_rows_are_measured_in_float64():
    problem, oracle = make_pair("csr32", dtype=np.float32, weighted=True)
    x = np.random.default_rng(0).standard_normal(problem.dim)
    found = evaluate(problem, x)
    assert found.objective == pytest.approx(oracle.objective(x), rel=1e-14)
    np.testing.assert_allclose(found.gradient, oracle.gradient(x), rtol=1e-13, atol=1e-14)


def test_without_an_l1_part_the_optimality_is_the_norm_of_the_gradient():
    problem, oracle = make_pair()
    x = np.linspace(-1.0, 1.0, problem.dim)
    assert evaluate(problem, x).optimality == pytest.approx(np.linalg.norm(oracle.gradient(x)), rel=1e-14)


def test_under_a_constraint_it_is_the_step_to_the_projection():
    X, y = np.array([[1.0, 2.0], [0.0, 1.0]]), [1.0, -1.0]
    problem = Problem.linear(X, y, loss="squared", fit_intercept=True, constraint=Box(-0.1, 0.2))
    x = np.array([-0.1, 0.2, 3.0])
    gradient = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, 1.0]]) @ (X @ x[:2] + x[2] - y) / 2
    target = x - gradient
    target[:2] = np.clip(target[:2], -0.1, 0.2)  # the intercept is free
    assert evaluate(problem, x).optimality == pytest.approx(np.linalg.norm(x - target), rel=1e-14)


def test_the_optimality_is_zero_at_an_optimum_and_nowhere_near():
    X, y = np.array([[2.0], [2.0]]), [1.0, 5.0]
    problem = Problem.linear(X, y, loss="squared", alpha=1.0, l1_ratio=1.0)
    optimum = (6.0 - 1.0) / 4.0  # 4 x - 6 + sign(x) = 0
    assert evaluate(problem, np.array([optimum])).optimality == pytest.approx(0.0, abs=1e-15)
    assert evaluate(problem, np.array([optimum + 1e-8])).optimality == pytest.approx(4e-8, rel=1e-6)


def test_at_zero_the_l1_part_holds_small_gradients():
    problem = Problem.linear([[1.0]], [0.4], loss="squared", alpha=0.5, l1_ratio=1.0)
    assert evaluate(problem, np.zeros(1)).optimality == 0.0  # |gradient| = 0.4 <= 0.5


def test_rows_of_weight_zero_count_for_nothing_even_where_their_loss_is_infinite():
    problem = Problem.linear([[1.0], [1e4]], [1.0, 0.0], loss="poisson", sample_weight=[1.0, 0.0])
    assert evaluate(problem, np.array([1.0])).objective == pytest.approx(np.e - 1.0, rel=1e-15)


def test_nothing_given_is_written_to():
    problem, _ = make_pair(l1_ratio=0.5)
    x, gradient = np.ones(problem.dim), np.full(problem.dim, 0.5)
    evaluate(problem, x)
    problem.term.prox_step(x, gradient, 0.1)
    problem.term.optimality(x, gradient)
    np.testing.assert_array_equal(x, 1.0)
    np.testing.assert_array_equal(gradient, 0.5)


def test_the_prox_step_leaves_the_intercept_to_the_gradient():
    problem = Problem.linear([[1.0, 0.0]], [0.0], loss="squared", alpha=1.0, l1_ratio=1.0, fit_intercept=True)
    stepped = problem.term.prox_step(np.array([0.3, -2.0, 0.3]), np.array([0.1, 0.0, 0.1]), 0.5)
    np.testing.assert_allclose(stepped, [0.0, -1.5, 0.25], rtol=1e-15)


def test_the_prox_step_projects_the_coefficients():
    problem = Problem.linear([[1.0, 0.0]], [0.0], loss="squared", fit_intercept=True, constraint=L2Ball(1.0))
    stepped = problem.term.prox_step(np.array([3.0, 4.0, 9.0]), np.zeros(3), 0.5)
    np.testing.assert_allclose(stepped, [0.6, 0.8, 9.0], rtol=1e-15)


@pytest.mark.compiled
@pytest.mark.filterwarnings("error" if COMPILED else "ignore:overflow:RuntimeWarning")  # NumPy's scalars do warn
def test_an_overflow_is_infinite_and_no_warning():
    problem = Problem.linear([[1e200]], [0.0], loss="squared")
    measures = evaluate(problem, np.array([1e200]))
    assert measures.optimality == np.inf
    assert measures.objective == np.inf


@pytest.mark.parametrize("loss", ["squared", "hinge"])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(3), r"w must have shape \(2,\), got \(3,\)"),
        (np.zeros(1), r"w must have shape \(2,\), got \(1,\)"),
        (np.zeros((2, 1)), r"w must have shape \(2,\), got \(2, 1\)"),
        (0.0, r"w must have shape \(2,\), got \(\)"),
        (["a", "b"], "w must hold 2 numbers"),
        ([1j, 0.0], "w must hold 2 numbers"),
    ],
)
def test_a_point_of_another_shape_is_refused(loss, x, message):
    problem = Problem.linear([[1.0, 2.0], [3.0, 1.0]], [1.0, -1.0], loss=loss)
    with pytest.raises(ValueError, match=f"^{message}"):
        evaluate(problem, x)


def test_a_point_may_be_a_list_or_a_strided_array():
    problem = Problem.linear([[1.0, 2.0], [3.0, 1.0]], [1.0, -1.0], loss="squared")
    expected = evaluate(problem, np.array([1.0, 2.0])).objective
    assert evaluate(problem, [1, 2]).objective == expected
    assert evaluate(problem, np.array([1.0, 0.0, 2.0, 0.0])[::2]).objective == expected


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("targets", [np.arange(23) % 3, np.arange(46.0).reshape(23, 2)], ids=["classes", "targets"])
def test_sums_of_several_outputs_do_not_depend_on_the_blocks_in_which_rows_are_read(make, targets, monkeypatch):
    rng = np.random.default_rng(0)
    X, loss = (
        rng.standard_normal((23, 4)) * (rng.random((23, 4)) < 0.6),
        "multinomial" if targets.ndim == 1 else "squared",
    )
    problem = Problem.linear(make(X), targets, loss=loss, alpha=0.1, fit_intercept=True, sample_weight=rng.random(23))
    x, scales = rng.standard_normal(problem.dim), rng.standard_normal((23, problem.n_outputs))

    def found():
        curvatures = outputs.loss_of(problem).curvatures(outputs.scores_at(problem, x))
        return (
            *outputs.measure(problem, x),
            outputs.full_hessian(problem, curvatures),
            outputs.hessian_product(problem, curvatures, x),
            outputs.sum_of_rows(problem, scales, squared=True),
            outputs.weighted_gram(problem, scales[:, 0], np.array([1, 4, 22])),
        )

    whole = found()
    squares = np.hstack([X, np.ones((23, 1))]) ** 2
    np.testing.assert_allclose(whole[4], scales.T @ squares, rtol=1e-12, atol=1e-14)
    monkeypatch.setattr(outputs, "BLOCK_SIZE", 20)  # five rows
    for one, other in zip(found(), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
