"""Models with groups, and Newton's methods on them: compared with slow proximal steps in NumPy."""

import numpy as np
import pytest
from oracles import prox_gradient as oracle

from finitesum import LogisticRegression, Problem, minimize
from finitesum.constraints import Unconstrained
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.auto import choose
from finitesum.methods.subproblems import group_models
from finitesum.methods.subproblems.quadratic_models import minimise_model
from finitesum.problems.penalties import GroupLasso
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import as_penalty, group_total, shrink_groups

LABELS = [0, 1, 0, 2, 2, 2, 3, 1]
MEMBERS = [[0, 2], [1, 7], [3, 4, 5], [6]]


def slow_model(hessian, gradient, y, prox, n_steps=6_000):
    """Return the minimiser by accelerated prox-gradient steps with restarts."""
    step, w, point, t = 1.0 / np.linalg.eigvalsh(hessian)[-1], y.copy(), y.copy(), 1.0
    for _ in range(n_steps):
        moved = point - step * (gradient + hessian @ (point - y))
        moved[: len(LABELS)] = prox(moved[: len(LABELS)], step)
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        if (point - moved) @ (moved - w) > 0.0:
            after, point = 1.0, moved
        else:
            point = moved + (t - 1.0) / after * (moved - w)
        w, t = moved, after
    return w


@pytest.mark.parametrize("n_free", [0, 1])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("n_rows", [30, 5], ids=["regular", "singular"])
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_models_have_the_minimiser_of_slow_steps(n_free, l1_ratio, n_rows, start):
    rng = np.random.default_rng(n_rows)
    d = len(LABELS)
    matrix = np.column_stack([rng.standard_normal((n_rows, d)), np.ones((n_rows, n_free))])
    matrix[:, 1] = matrix[:, 2] + (n_rows == 5) * 0.1 * matrix[:, 3]
    hessian = matrix.T @ matrix / n_rows
    y = start * rng.standard_normal(d + n_free)
    gradient = hessian @ y - matrix.T @ (matrix @ [2.0, 0, 1, 0, 0, 0, 1, 0, *[1.0] * n_free]) / n_rows
    alpha = 0.15
    term = ConvexTerm(as_penalty(GroupLasso(alpha, LABELS, l1_ratio), d), Unconstrained(), d, n_free)
    strengths = [alpha * (1.0 - l1_ratio) * np.sqrt(len(some)) for some in MEMBERS]
    value, prox = oracle.groups(alpha * l1_ratio, strengths, MEMBERS)
    found = minimise_model(term, hessian, gradient, y, 1e-13)
    slow = slow_model(hessian, gradient, y, prox)

    def model(w):
        return gradient @ (w - y) + 0.5 * (w - y) @ hessian @ (w - y) + value(w[:d])

    assert model(found) <= model(slow) + 1e-12 * (1.0 + abs(model(slow)))
    if n_rows > d and l1_ratio < 1.0:  # where two columns are the same, the l1 part alone does not say how they share
        np.testing.assert_allclose(found, slow, atol=1e-7)
    assert term.optimality(found, gradient + hessian @ (found - y)) <= 1e-11


def test_columns_that_are_the_same_in_two_groups_cost_no_steps():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 8)) * 10.0 ** rng.uniform(-3, 3, 8)
    X[:, 1] = X[:, 0]
    y = np.where(X[:, 0] / np.abs(X[:, 0]).max() + 0.2 * rng.standard_normal(60) > 0.0, 1, -1)
    for l1_ratio in (0.0, 0.5):
        problem = Problem.linear(X, y, alpha=0.01, l1_ratio=l1_ratio, groups=[0, 1, 0, 2, 2, 3, 4, 4])
        result = minimize(problem, method="newton", tol=1e-9, max_iter=60)
        assert result.success, result.message


def unscaled(kind, n=300, d=40):
    """Return columns of sizes between 1e-3 and 1e3, or of sizes 1 and 1e6 by groups of 8; scores; and groups."""
    rng, groups = np.random.default_rng(8), np.arange(d) // 8
    sizes = np.geomspace(1e-3, 1e3, d)[rng.permutation(d)] if kind == "within" else np.where(groups % 2, 1e6, 1.0)
    plain = rng.standard_normal((n, d))
    scores = plain[:, np.arange(d) % 8 < 3] @ rng.standard_normal(15) + rng.standard_normal(n)
    return plain * sizes, scores, groups


def optimality_of(X, slopes, table, alpha, groups):
    """Return the norm of the prox-gradient mapping at a table (K, d + 1), by its formula."""
    K, d = table.shape[0], X.shape[1]
    pull = slopes(X @ table[:, :-1].T + table[:, -1]) / len(X)
    gradient = np.column_stack([pull.T @ X, pull.sum(axis=0)])
    members = [[k * d + j for k in range(K) for j in np.flatnonzero(groups == g)] for g in np.unique(groups)]
    _, prox = oracle.groups(0.0, [alpha * np.sqrt(len(some)) for some in members], members)
    moved = table - gradient
    moved[:, :-1] = prox(moved[:, :-1].ravel(), 1.0).reshape(K, d)
    return np.linalg.norm(table - moved)


@pytest.mark.parametrize("kind", ["within", "between"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.3])
def test_unscaled_columns_come_to_tol(kind, n_classes, l1_ratio):
    X, scores, groups = unscaled(kind)
    codes = np.digitize(scores, np.quantile(scores, np.arange(1, n_classes) / n_classes))
    model = LogisticRegression(C=0.5, groups=groups, l1_ratio=l1_ratio, max_iter=60, tol=1e-8).fit(X, codes)
    assert model.optimality_ <= model.tol
    if l1_ratio == 0.0:
        table, indicators = np.column_stack([model.coef_, model.intercept_]), np.eye(n_classes)[codes]

        def slopes(u):
            if n_classes == 2:
                return 1.0 / (1.0 + np.exp(-u)) - indicators[:, 1:]
            powers = np.exp(u - u.max(axis=1, keepdims=True))
            return powers / powers.sum(axis=1, keepdims=True) - indicators

        assert optimality_of(X, slopes, table, 1.0 / (0.5 * len(X)), groups) <= 1.01 * model.tol + 1e-9


@pytest.mark.parametrize("n_classes", [2, 10])
def test_digits_come_to_tol_in_few_passes(n_classes):
    from sklearn.datasets import load_digits

    X, y = (part[:600] for part in load_digits(return_X_y=True))
    model = LogisticRegression(C=1.0, groups=np.arange(64) // 8).fit(X, y % n_classes)
    assert model.optimality_ <= model.tol
    assert model.n_passes_ <= 30.0


def wide(n_outputs, d=600, n=80):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, d))
    scores = X[:, :8] @ rng.standard_normal((8, n_outputs)) + 0.3 * rng.standard_normal((n, n_outputs))
    y = scores.argmax(axis=1) if n_outputs > 1 else np.sign(scores[:, 0])
    loss = "multinomial" if n_outputs > 1 else "logistic"
    return Problem.linear(X, y, loss=loss, alpha=0.08, l1_ratio=0.1, groups=np.arange(d) // 4, fit_intercept=True)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_working_sets_have_whole_groups_and_find_the_minimum(n_outputs):
    problem = wide(n_outputs)
    name = choose(problem).method.name
    assert name == ("working-set-newton" if n_outputs == 1 else "multinomial-working-set")
    result, slow = minimize(problem, tol=1e-9), minimize(problem, method="fg", tol=1e-7, max_iter=20_000, measure_every=0)
    assert result.success, result.message
    assert slow.success
    assert evaluate(problem, result.x).objective <= slow.fun + 1e-12
    np.testing.assert_allclose(result.x, slow.x, atol=1e-4)
    table = result.x.reshape(n_outputs, -1)[:, :-1].reshape(n_outputs, -1, 4)
    n_groups = int(table.any(axis=(0, 2)).sum())
    assert 0 < n_groups < 100


@pytest.mark.parametrize(
    ("n_outputs", "method"), [(1, "working-set-newton"), (3, "multinomial-working-set"), (3, "newton")]
)
def test_runs_with_groups_go_on_to_the_same_bits(n_outputs, method, tmp_path):
    problem = wide(n_outputs, 80 if method == "newton" else 600)
    words = {"method": method, "tol": 1e-9, "measure_every": 0, "random_state": 0}
    whole, file = minimize(problem, **words), tmp_path / "run.ckpt"
    for cut in range(1, min(whole.nit, 5)):
        minimize(problem, checkpoint=file, resume=cut > 1, **{**words, "max_iter": cut})
    resumed = minimize(problem, checkpoint=file, resume=True, **words)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert resumed.n_passes == whole.n_passes


@pytest.mark.parametrize("l1_ratio", [0.0, 0.4])
def test_slopes_along_a_direction_are_those_of_differences(l1_ratio):
    penalty = as_penalty(GroupLasso(0.7, LABELS, l1_ratio), len(LABELS))
    rng = np.random.default_rng(0)
    end, direction = rng.standard_normal(8), rng.standard_normal(8)
    end[[3, 4, 5, 0]] = 0.0
    width = 1e-7
    change = penalty.penalty_total(end + width * direction, 0.0) - penalty.penalty_total(end, 0.0)
    assert penalty.slope(end, direction) == pytest.approx(change / width, rel=1e-5)


def test_groups_of_some_columns_keep_their_strengths():
    penalty = as_penalty(GroupLasso(1.0, LABELS, 0.2), len(LABELS))
    np.testing.assert_array_equal(penalty.whole(np.array([2, 6])), [0, 2, 6])
    some = penalty.on_columns(np.array([0, 2, 3, 6]))
    w = np.zeros(8)
    w[[0, 2, 3, 6]] = [1.0, -2.0, 3.0, 0.5]
    assert some.penalty_total(w[[0, 2, 3, 6]], 0.0) == pytest.approx(penalty.penalty_total(w, 0.0), rel=1e-15)


def test_separated_classes_with_groups_are_penalised(recwarn):
    LogisticRegression(C=1.0, groups=[0, 0]).fit([[0.0, 1.0], [0.2, 0.0], [3.0, 1.0], [4.0, 0.5]], [0, 0, 1, 1])
    assert not [warning for warning in recwarn if "not penalised" in str(warning.message)]


def test_with_very_many_variables_of_several_outputs_no_hessian_is_made():
    problem = Problem.linear(np.eye(9, 8000), np.arange(9) % 3, loss="multinomial", alpha=0.1, groups=np.arange(8000) // 4)
    assert choose(problem).method.name == "afg"


def test_no_group_leaves_zero_where_the_penalty_is_strong():
    for targets in (np.arange(9) % 3, np.arange(9) % 2):
        loss = "multinomial" if targets.max() > 1 else "logistic"
        problem = Problem.linear(np.eye(9, 1200), targets, loss=loss, alpha=1.0, groups=np.arange(1200) // 4)
        result = minimize(problem)
        assert result.success
        assert not result.x.any()


@pytest.mark.parametrize("l1_ratio", [0.0, 0.4])
def test_the_penalty_and_its_prox_by_array_operations_are_those_of_kernels(l1_ratio):
    groups = as_penalty(GroupLasso(0.5, LABELS, l1_ratio), len(LABELS))
    for size in (0.0, 0.1, 3.0):
        w = size * np.random.default_rng(3).standard_normal(len(LABELS))
        assert group_total(groups, w, 2.0) == pytest.approx(groups.penalty_total(w, 2.0), rel=1e-14)
        one, other = w.copy(), w.copy()
        groups.apply_prox(one, 0.7)
        shrink_groups(groups, other, 0.7)
        np.testing.assert_allclose(other, one, rtol=1e-14)
        assert ((one == 0.0) == (other == 0.0)).all()
    w[0] = np.nan
    shrink_groups(groups, w, 0.7)
    assert np.isnan(w[0])


def test_groups_whose_squares_vanish_are_left_out_of_a_face():
    groups = as_penalty(GroupLasso(0.5, [0, 0, 1]), 3)
    model = group_models._Model(np.eye(3), groups, np.zeros(0, dtype=np.int64), {})
    some, slopes, curvature = group_models._face(model, group_models._Point(np.array([1e-170, 1e-170, 1.0]), np.zeros(3)))
    np.testing.assert_array_equal(some, [2])
    np.testing.assert_allclose(slopes, [0.5])
    np.testing.assert_allclose(curvature, [[1.0]])
