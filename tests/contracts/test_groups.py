"""Groups of columns with several outputs: a group has the coefficients of its columns for all of them."""

import functools
import io
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse
from oracles import prox_gradient as oracle

from finitesum import METHODS, FiniteSum, LogisticRegression, Problem, minimize
from finitesum.core.jit import COMPILED
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import as_method
from finitesum.methods.base import is_suited

N, D = 40, 6
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, D)) * (RNG.random((N, D)) < 0.7)
SCORES = X @ np.array([[2.0, -1.0, 0.0], [1.0, 1.0, -1.0], *[[0.1, 0.0, -0.1]] * 4]) + 0.5 * RNG.standard_normal((N, 3))
SAMPLE_WEIGHT = RNG.random(N) + 0.5
P = SAMPLE_WEIGHT / SAMPLE_WEIGHT.sum()
LABELS = ["a", "b", "a", "c", "c", "c"]
COLUMNS = [[0, 2], [1], [3, 4, 5]]
SEPARATE = list(range(D))


def softmax(u):
    powers = np.exp(u - u.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


CODES = SCORES.argmax(axis=1)
LOSSES = {  # targets, slopes by scores, losses by scores
    "multinomial": (CODES, lambda u: softmax(u) - np.eye(3)[CODES], lambda u: -np.log(softmax(u)[np.arange(N), CODES])),
    "squared": (SCORES[:, :2], lambda u: u - SCORES[:, :2], lambda u: 0.5 * ((u - SCORES[:, :2]) ** 2).sum(axis=1)),
}
N_OUTPUTS = {"multinomial": 3, "squared": 2}
GROUPS = {"by column": (SEPARATE, [[j] for j in range(D)]), "of columns": (LABELS, COLUMNS)}
ALPHA = 0.12
SETTINGS = [*itertools.product(LOSSES, GROUPS, [0.0, 0.3])]


def penalty_of(loss, groups, l1_ratio):
    """Return value and prox of the penalty on coefficients of shape (K, d), row by row: members are K x d_g blocks."""
    K, alpha, columns = N_OUTPUTS[loss], ALPHA, GROUPS[groups][1]
    members = [[k * D + j for k in range(K) for j in some] for some in columns]
    strengths = [alpha * (1.0 - l1_ratio) * np.sqrt(K * len(some)) for some in columns]
    return oracle.groups(alpha * l1_ratio, strengths, members)


def term_of(groups, l1_ratio):
    return {"alpha": ALPHA, "l1_ratio": l1_ratio, "groups": GROUPS[groups][0]}


def problem_of(loss, groups, l1_ratio, form=np.asarray):
    words = {"loss": loss, "fit_intercept": True, "sample_weight": SAMPLE_WEIGHT}
    return Problem.linear(form(X), LOSSES[loss][0], **words, **term_of(groups, l1_ratio))


@functools.cache
def slow_minimum(loss, groups, l1_ratio):
    """Return the table of the minimum, intercepts last and of mean 0 where that changes nothing; and F there."""
    _, slopes, losses = LOSSES[loss]
    value, prox = penalty_of(loss, groups, l1_ratio)
    start = np.zeros((N_OUTPUTS[loss], D + 1))
    table, size = oracle.minimum_of_outputs(X, lambda u: P[:, None] * slopes(u), start, value, prox, 0.3, 4000)
    return table, float(P @ losses(X @ table[:, :-1].T + table[:, -1])) + size


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(("loss", "groups", "l1_ratio"), SETTINGS)
def test_objective_and_optimality_are_those_of_the_formula(loss, groups, l1_ratio, form):
    problem, (value, prox) = problem_of(loss, groups, l1_ratio, form), penalty_of(loss, groups, l1_ratio)
    _, slopes, losses = LOSSES[loss]
    table = np.random.default_rng(1).standard_normal((N_OUTPUTS[loss], D + 1))
    table[:, 1] = 0.0
    scores = X @ table[:, :-1].T + table[:, -1]
    found = evaluate(problem, table.ravel())
    assert found.objective == pytest.approx(P @ losses(scores) + value(table[:, :-1].ravel()), rel=1e-13)
    pull = P[:, None] * slopes(scores)
    gradient = np.column_stack([pull.T @ X, pull.sum(axis=0)])
    moved = table - gradient
    moved[:, :-1] = prox(moved[:, :-1].ravel(), 1.0).reshape(-1, D)
    assert found.optimality == pytest.approx(np.linalg.norm(table - moved), rel=1e-12)
    np.testing.assert_allclose(problem.term.prox(table.ravel() - gradient.ravel(), 1.0), moved.ravel(), atol=1e-14)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(("loss", "groups", "l1_ratio"), SETTINGS)
def test_the_minimum_is_that_of_slow_steps_and_groups_are_zero_for_all_outputs(loss, groups, l1_ratio, form):
    table, least = slow_minimum(loss, groups, l1_ratio)
    result = minimize(problem_of(loss, groups, l1_ratio, form), tol=1e-9, max_iter=5000, measure_every=0)
    assert result.success, result.message
    assert result.fun == pytest.approx(least, abs=1e-12)
    found = result.x.reshape(table.shape)
    np.testing.assert_allclose(found, table, atol=1e-6)
    zero = [bool((found[:, some] == 0.0).all()) for some in GROUPS[groups][1]]
    assert any(zero)
    assert not all(zero)
    if l1_ratio == 0.0:  # a group is 0 for all outputs or for none of them
        some = [found[:, j] for group, is_zero in zip(GROUPS[groups][1], zero, strict=True) if not is_zero for j in group]
        assert all((coefficients != 0.0).all() for coefficients in some)


def suited():
    problem = problem_of("squared", "of columns", 0.0)
    return [name for name in sorted(METHODS) if is_suited(as_method(name), problem) and name != "ig"]  # which is sublinear


@pytest.mark.parametrize("form", ["dense", "csr", "functions"])
@pytest.mark.parametrize("method", suited()[:: 4 if COMPILED else 1])
def test_every_method_that_treats_groups_finds_the_minimum(method, form):
    problem = problem_of("squared", "of columns", 0.3, scipy.sparse.csr_array if form == "csr" else np.asarray)
    if form == "functions":
        problem = FiniteSum.from_linear(problem)
    if not is_suited(as_method(method), problem):
        pytest.skip("no functions")
    result = minimize(problem, method=method, tol=1e-7, max_iter=4000, measure_every=0)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, slow_minimum("squared", "of columns", 0.3)[0].ravel(), atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_in_parts_have_the_same_minimum(loss):
    y, cuts = LOSSES[loss][0], [0, 15, 16, N]
    parts = [(X[a:b], y[a:b], SAMPLE_WEIGHT[a:b]) for a, b in itertools.pairwise(cuts)]
    words = {"loss": loss, "fit_intercept": True, **term_of("of columns", 0.3)}
    result = minimize(Problem.partitioned(parts, **words), tol=1e-9, max_iter=5000, measure_every=0)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, slow_minimum(loss, "of columns", 0.3)[0].ravel(), atol=1e-6)


def test_runs_go_on_from_checkpoints_of_the_same_groups_alone(tmp_path):
    words, file = {"method": "afg", "tol": 1e-9, "measure_every": 0}, tmp_path / "run.ckpt"
    problem, other = problem_of("multinomial", "of columns", 0.0), problem_of("multinomial", "by column", 0.0)
    whole = minimize(problem, **words)
    minimize(problem, checkpoint=file, max_iter=5, **words)
    assert problem.fingerprint != other.fingerprint
    with pytest.raises(ValueError, match=r"run\.ckpt"):
        minimize(other, checkpoint=file, resume=True, **words)
    np.testing.assert_array_equal(minimize(problem, checkpoint=file, resume=True, **words).x, whole.x)


def test_estimators_tie_classes_together():
    table, _ = slow_minimum("multinomial", "of columns", 0.3)
    C = 1.0 / (ALPHA * SAMPLE_WEIGHT.sum())
    model = LogisticRegression(C=C, l1_ratio=0.3, groups=LABELS, tol=1e-9).fit(X, CODES, sample_weight=SAMPLE_WEIGHT)
    np.testing.assert_allclose(model.coef_, table[:, :-1], atol=1e-6)
    np.testing.assert_allclose(model.intercept_, table[:, -1], atol=1e-6)
    again = pickle.load(io.BytesIO(pickle.dumps(model)))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.groups == LABELS
