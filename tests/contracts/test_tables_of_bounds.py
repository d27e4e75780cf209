"""Boxes with bounds for each output: a table with a row for each, as the coefficients have.

Minima are compared with a long projected gradient method of NumPy, which clips the coefficients to the table.
"""

import json
import math
import pickle

import numpy as np
import pytest
from contracts.problems import FORMATS, as_format
from oracles import projected_gradients
from oracles.outputs import SumOfOutputs

from finitesum import FiniteSum, LogisticRegression, Problem, minimize
from finitesum.constraints import Box, NonNegative, constraint_from_dict

N, D, K = 60, 4, 3


def draw(seed, *, loss="multinomial", alpha=0.01, form="dense", scale=0.0):
    """Return problem, oracle, and the table of bounds over intercepts, too."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.8) * 10.0 ** rng.uniform(0.0, scale, D)
    scores = X @ rng.standard_normal((D, K)) + rng.gumbel(size=(N, K))
    y = scores.argmax(axis=1) if loss == "multinomial" else scores
    lower, upper = -0.4 * rng.random((K, D)), 0.4 * rng.random((K, D))
    lower[0, 1], upper[2, 0], upper[1, 3] = -math.inf, math.inf, 0.0
    problem = Problem.linear(
        as_format(X, form), y, loss=loss, alpha=alpha, fit_intercept=True, constraint=Box(lower, upper)
    )  # fmt: skip
    oracle = SumOfOutputs(X, y, loss, K, l1=0.0, l2=alpha, intercept=True, weights=None, offsets=None)
    free = np.full((K, 1), math.inf)
    return problem, oracle, (np.hstack([lower, -free]).ravel(), np.hstack([upper, free]).ravel())


def lowest(oracle, ends, dim):
    """Return the minimum by projected gradients with momentum that begins again."""
    step = 0.5 / np.linalg.eigvalsh(oracle.hessian(np.zeros(dim)))[-1]
    return projected_gradients.lowest(oracle, lambda point: np.clip(point, *ends), step, dim)


@pytest.mark.as_chosen
@pytest.mark.parametrize("loss", ["multinomial", "squared"])
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", [0, 1])
def test_methods_find_the_minimum_of_the_oracle(seed, form, loss):
    problem, oracle, ends = draw(seed, loss=loss, form=form)
    expected = lowest(oracle, ends, problem.dim)
    for method in ("auto", "afg", "fg", "newton", "multinomial-working-set", "acc-svrg", "ciag"):
        result = minimize(problem, method=method, tol=1e-8, max_iter=20_000)
        assert result.success, result.message
        assert result.fun == pytest.approx(expected, rel=1e-7)
        assert np.linalg.norm(result.x - np.clip(result.x - oracle.gradient(result.x), *ends)) <= 1.01e-8
        assert (np.clip(result.x, *ends) == result.x).all()
    general = minimize(FiniteSum.from_linear(problem), method="fg", options={"step_size": 0.1}, tol=0.0, max_iter=7)
    same = minimize(problem, method="fg", options={"step_size": 0.1}, tol=0.0, max_iter=7)
    np.testing.assert_allclose(general.x, same.x, atol=1e-12)


@pytest.mark.parametrize("method", ["auto", "newton", "multinomial-working-set"])
def test_badly_scaled_columns_keep_tol(method):
    problem, oracle, ends = draw(3, scale=4.0)
    result = minimize(problem, method=method, tol=1e-7)
    assert result.success, result.message
    assert np.linalg.norm(result.x - np.clip(result.x - oracle.gradient(result.x), *ends)) <= 1.01e-7


def test_a_table_of_equal_rows_is_the_box_of_all_outputs():
    X, y = np.random.default_rng(0).standard_normal((50, 3)), np.arange(50) % 4
    one = Problem.linear(X, y, loss="multinomial", alpha=0.01, constraint=NonNegative())
    for table in (
        Box(np.zeros((4, 3)), math.inf),
        Box(np.zeros((4, 1)), np.full(3, math.inf)),
        Box(0.0, [[math.inf] * 3] * 4),
    ):
        same = Problem.linear(X, y, loss="multinomial", alpha=0.01, constraint=table)
        for method in ("newton", "multinomial-working-set", "afg"):
            options = {"step_size": 0.5} if method == "afg" else {}
            results = [minimize(each, method=method, options=options, tol=1e-9, max_iter=5000) for each in (one, same)]
            np.testing.assert_allclose(results[0].x, results[1].x, atol=1e-8)


def test_checkpoints_go_on_with_the_same_bits(tmp_path):
    problem = draw(2)[0]
    for method in ("afg", "multinomial-working-set"):
        file = tmp_path / f"{method}.npz"
        whole = minimize(problem, method=method, tol=0.0, max_iter=6)
        minimize(problem, method=method, tol=0.0, max_iter=3, checkpoint=file)
        resumed = minimize(problem, method=method, tol=0.0, max_iter=6, checkpoint=file, resume=True)
        assert resumed.x.tobytes() == whole.x.tobytes()
    assert problem.fingerprint == draw(2)[0].fingerprint != draw(4)[0].fingerprint


def test_a_table_is_written_and_read_to_the_last_bit():
    box = draw(5)[0].constraint
    assert (box.dim, box.n_outputs, Box(0.0, 1.0).n_outputs) == (D, K, None)
    for again in (constraint_from_dict(json.loads(json.dumps(box.to_dict()))), pickle.loads(pickle.dumps(box))):
        assert again == box
        assert hash(again) == hash(box)
    assert box.of_output(1) == Box(box.lower[1], box.upper[1])
    assert box.on_columns(np.array([0, 2])) == Box(box.lower[:, [0, 2]], box.upper[:, [0, 2]])
    assert box.diameter(D) == math.inf


def test_logistic_regression_takes_a_table_for_its_classes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, D))
    y = (X[:, :K] + 0.7 * rng.gumbel(size=(90, K))).argmax(axis=1)
    lower, upper = -0.3 * rng.random((K, D)), 0.3 * rng.random((K, D))
    model = LogisticRegression(bounds=(lower, upper), tol=1e-9).fit(X, y)
    assert ((lower <= model.coef_) & (model.coef_ <= upper)).all()
    assert (model.coef_ == upper).any()
    two = [LogisticRegression(bounds=bounds).fit(X, y == 0).coef_ for bounds in (([[0.0] * D], None), (0.0, None))]
    np.testing.assert_array_equal(*two)


def test_shapes_that_do_not_fit_are_named():
    X, y = np.eye(4), [0, 1, 2, 0]
    for table, message in (
        (np.zeros((3, 5)), "Box is made for 5 variables, but there are 4"),
        (np.zeros((2, 4)), "Box is made for 2 outputs, but there are 3"),
    ):
        with pytest.raises(ValueError, match=message):
            Problem.linear(X, y, loss="multinomial", constraint=Box(table, math.inf))
    with pytest.raises(ValueError, match="Box is made for 3 outputs, but there are 1"):
        Problem.linear(X, [0, 1, 1, 0], constraint=Box(np.zeros((3, 4)), math.inf))
    for made, message in (
        (lambda: Box([[0.0, 1.0], [0.0]], 1.0), "lower must have rows of one length"),
        (
            lambda: Box(np.zeros((2, 3)), np.ones((3, 3))),
            r"lower and upper must be of one shape, got \(2, 3\) and \(3, 3\)",
        ),
        (lambda: Box([[0.0, math.nan]], 1.0), r"lower\[0\] must not hold NaN, got it at index 1"),
        (lambda: Box([[0.0, 2.0]], [[1.0, 1.0]]), "lower must be <= upper, with a number between them, got 2.0 and 1.0"),
        (lambda: Box(np.zeros((2, 3)), 1.0).project(np.zeros(3)), "is one for each of 2 outputs: take one, by of_"),
    ):
        with pytest.raises(ValueError, match=message):
            made()
