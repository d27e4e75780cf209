import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import check_grad
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression as Reference

from finitesum import MultinomialProblem, Problem, minimize
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.outputs import full_hessian, hessian_product, scores_at
from finitesum.losses.classes import probabilities
from finitesum.methods.auto import choose
from finitesum.methods.newton import multinomial_newton
from finitesum.methods.newton.multinomial_lbfgs import MultinomialLBFGS
from finitesum.methods.newton.multinomial_newton import MultinomialNewton


def small(form="dense", dtype=np.float64, weighted=True, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((40, 5)) * (rng.random((40, 5)) < 0.6)).astype(dtype)
    y = rng.integers(0, 3, 40)
    s = rng.integers(0, 4, 40).astype(float) if weighted else None
    matrix = X if form == "dense" else scipy.sparse.csr_array(X)
    if form == "csr64":
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    problem = MultinomialProblem.linear(matrix, y, alpha=0.03, fit_intercept=True, sample_weight=s)
    return X, y, s, problem


def objective(x, X, y, s, alpha):
    """F by its formula, a row at a time."""
    W = x.reshape(3, -1)
    total = 0.0
    for row, label, weight in zip(X.astype(float), y, s, strict=True):
        u = W[:, :-1] @ row + W[:, -1]
        total += weight * (np.log(np.exp(u).sum()) - u[label])
    return total / s.sum() + 0.5 * alpha * (W[:, :-1] ** 2).sum()


@pytest.mark.parametrize("form", ["dense", "csr32", "csr64"])
def test_measures_are_those_of_the_formula(form):
    X, y, s, problem = small(form)
    x = np.random.default_rng(1).standard_normal(problem.dim)
    assert evaluate(problem, x).objective == pytest.approx(objective(x, X, y, s, 0.03), rel=1e-13)
    assert check_grad(lambda p: evaluate(problem, p).objective, lambda p: evaluate(problem, p).gradient, x) < 1e-6


@pytest.mark.parametrize("form", ["dense", "csr32"])
def test_the_hessian_is_the_derivative_of_the_gradient(form):
    _, _, _, problem = small(form)
    rng = np.random.default_rng(2)
    x, v = rng.standard_normal((2, problem.dim))
    curvatures = probabilities(scores_at(problem, x))
    product = hessian_product(problem, curvatures, v)
    h = 1e-6
    difference = (evaluate(problem, x + h * v).gradient - evaluate(problem, x - h * v).gradient) / (2 * h)
    assert np.allclose(product, difference, atol=1e-8)
    assert np.allclose(full_hessian(problem, curvatures) @ v, product, atol=1e-13)


def test_scores_of_a_thousand_overflow_nowhere():
    problem = MultinomialProblem.linear([[1000.0], [-1000.0], [0.0]], [0, 1, 2])
    measures = evaluate(problem, np.array([1.0, -1.0, 0.0]))
    value, gradient = measures.objective, measures.gradient
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert value == pytest.approx(np.log(3) / 3)


@pytest.mark.compiled
@pytest.mark.parametrize("method", [MultinomialNewton("exact"), MultinomialNewton("cg"), MultinomialLBFGS()])
def test_agrees_with_scikit_learn_on_digits(method):
    X, y = load_digits(return_X_y=True)
    X, y = X[:600] / 16.0, y[:600]
    s = np.random.default_rng(0).integers(0, 3, y.size)
    alpha = 1.0 / s.sum()
    problem = MultinomialProblem.linear(X, y, alpha=alpha, fit_intercept=True, sample_weight=s)
    result = minimize(problem, method=method, tol=1e-12)
    assert result.success
    reference = Reference(C=1.0, solver="newton-cholesky", tol=1e-13, max_iter=1000).fit(X, y, sample_weight=s)
    found = result.x.reshape(10, -1)
    assert np.abs(found[:, :-1] - reference.coef_).max() < 1e-8
    assert np.abs(found[:, -1] - reference.intercept_).max() < 1e-8


def test_sparse_rows_and_all_solvers_lead_to_the_same_point():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300]
    ends = [
        minimize(MultinomialProblem.linear(matrix, y, alpha=1e-3, fit_intercept=True), method=method, tol=1e-12).x
        for method in (MultinomialNewton("exact"), MultinomialNewton("cg"), MultinomialLBFGS(), MultinomialLBFGS("none"))
        for matrix in (X, scipy.sparse.csr_array(X))
    ]
    assert max(np.abs(end - ends[0]).max() for end in ends) < 1e-8


def test_single_precision_ends_where_its_rounding_shows_and_the_end_is_exact(monkeypatch):
    X, y = load_digits(return_X_y=True)
    problem = MultinomialProblem.linear(X[:300] / 16.0, y[:300], alpha=1e-3, fit_intercept=True)
    whole = minimize(problem, method="multinomial-lbfgs", tol=1e-11)
    monkeypatch.setattr("finitesum.evaluation.outputs.MANY_NUMBERS", 1)
    state, singles = MultinomialLBFGS().init(problem, np.zeros(problem.dim)), []
    for _ in range(80):
        assert (MultinomialLBFGS().exact_measures(problem, state) is None) == state.is_single
        singles.append(state.is_single)
        state = MultinomialLBFGS().run_pass(problem, state, np.arange(problem.n_components))
    assert singles == sorted(singles, reverse=True)
    assert True in singles
    assert False in singles
    mixed = minimize(problem, method="multinomial-lbfgs", tol=1e-11)
    assert mixed.success
    assert np.abs(mixed.x - whole.x).max() < 1e-8


def test_pairs_of_many_variables_are_in_single_precision(monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.multinomial_lbfgs.MOST_DOUBLE", 3)
    _, _, _, problem = small()
    result = minimize(problem, method=MultinomialLBFGS("none"), tol=1e-11)
    exact = minimize(problem, method=MultinomialNewton("exact"), tol=1e-12)
    assert result.success
    assert result.state.pairs.steps.dtype == np.float32
    assert np.abs(result.x - exact.x).max() < 1e-9


@pytest.mark.parametrize("reason", ["", "many columns", "costly solutions", "few products"])
def test_the_preconditioner_has_factors_where_they_are_cheap_and_products_many(monkeypatch, reason):
    made, make = [], multinomial_newton._preconditioner
    monkeypatch.setattr(
        multinomial_newton, "_preconditioner", lambda *a, **k: made.append(k["is_factored"]) or make(*a, **k)
    )
    if reason != "few products":
        monkeypatch.setattr(multinomial_newton, "PLAIN_PRODUCTS", 1)
    if reason == "many columns":
        monkeypatch.setattr(multinomial_newton, "MOST_FACTORED", 3)
    if reason == "costly solutions":
        monkeypatch.setattr(multinomial_newton, "NUMBERS_OF_FACTOR", 0.1)
    _, _, _, problem = small()
    result = minimize(problem, method=MultinomialNewton("cg"), tol=1e-11)
    exact = minimize(problem, method=MultinomialNewton("exact"), tol=1e-12)
    assert result.success
    assert np.abs(result.x - exact.x).max() < 1e-9
    assert any(made) == (reason == "")


def test_no_penalty_leaves_the_mean_over_the_classes_at_the_start():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(y.size) < 0.2, rng.integers(0, 3, y.size), y)  # not separable
    problem = MultinomialProblem.linear(X, y, fit_intercept=True)
    for method in (MultinomialNewton("exact"), MultinomialNewton("cg"), MultinomialLBFGS()):
        result = minimize(problem, method=method, tol=1e-9)
        assert result.success
        assert np.abs(result.x.reshape(3, -1).mean(axis=0)).max() < 1e-9


def test_two_classes_are_the_logistic_problem_in_other_variables():
    X, y, s, _ = small()
    y = (y > 0).astype(int)
    two = MultinomialProblem.linear(X, y, alpha=0.02, fit_intercept=True, sample_weight=s)
    binary = Problem.linear(X, y, alpha=0.01, fit_intercept=True, sample_weight=s)  # w = w_1 - w_0 halves the penalty
    ends = minimize(two, method=MultinomialNewton(), tol=1e-12).x.reshape(2, -1)
    assert np.abs(ends[1] - ends[0] - minimize(binary, method="newton", tol=1e-12).x).max() < 1e-9


def test_counts_and_fingerprints():
    _, _, _, problem = small()
    result = minimize(problem, method=MultinomialNewton("exact"), tol=1e-10)
    assert result.n_hessian_passes == result.nit
    assert result.n_passes == result.nit + 1  # the gradient at the start and one a step; the last one is the check
    assert problem.fingerprint == small()[3].fingerprint
    assert problem.fingerprint != small(seed=1)[3].fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 0, 0]}, "two classes or more"),
        ({"y": [0, 1]}, r"y must have shape \(3,\)"),
        ({"sample_weight": [1.0, 1.0, 0.0]}, "class 2 has weight 0"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        MultinomialProblem.linear(**{"X": [[0.0], [1.0], [2.0]], "y": [0, 1, 2], **change})


def counts_of_words(n, d, n_classes=4):
    """Return sparse rows of counts with frequent and rare columns, of classes."""
    rng = np.random.default_rng(0)
    columns = np.minimum((d ** rng.random((n, 20))).astype(int), d - 1)
    X = scipy.sparse.csr_array((np.ones(20 * n), columns.ravel(), np.arange(0, 20 * n + 1, 20)), shape=(n, d))
    X.sum_duplicates()
    y = (X @ rng.standard_normal((d, n_classes)) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    return Problem.linear(X, y, loss="multinomial", alpha=1.0 / n)


def test_classes_on_sparse_rows_go_to_conjugate_gradients_where_no_kronecker_factor_pays():
    assert choose(counts_of_words(900, 1500)).method == MultinomialNewton("cg")
    assert choose(counts_of_words(3000, 150)).method.name == "multinomial-lbfgs"


def test_no_step_is_solved_more_exactly_than_tol_needs():
    problem, reached = counts_of_words(400, 600), []
    minimize(problem, method=MultinomialNewton("cg"), tol=1e-12, callback=lambda report: reached.append(report))
    until = next(report.n_passes for report in reached if report.optimality <= 1e-5)
    found = minimize(problem, method=MultinomialNewton("cg"), tol=1e-5)
    assert found.success
    assert found.n_passes < until
