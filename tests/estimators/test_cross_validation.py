"""Cross-validation and paths: scores that are missing, metrics without weights, parameters that mean nothing there."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, log_loss, make_scorer, roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from finitesum import LogisticRegression, LogisticRegressionCV, Problem, linear_path, logistic_path
from finitesum.constraints import L1Ball
from finitesum.estimators import folds, path
from finitesum.estimators.folds import may_be_together
from finitesum.evaluation.class_hessians import hessian_of_differences
from finitesum.evaluation.optimality import evaluate
from finitesum.evaluation.row_space import products_of_rows
from finitesum.evaluation.whole_arrays import with_zeros
from finitesum.methods.base import Alternative, Choice
from finitesum.methods.newton.coordinate_descent import CoordinateDescent
from finitesum.methods.newton.lazy_newton import LazyNewton
from finitesum.methods.newton.lbfgs import LBFGS
from finitesum.methods.newton.multinomial_lbfgs import MultinomialLBFGS
from finitesum.methods.newton.multinomial_newton import MultinomialNewton
from finitesum.methods.newton.newton import Newton
from finitesum.methods.newton.newton_cg import NewtonCG
from finitesum.methods.newton.working_set_newton import WorkingSetNewton
from finitesum.problems.penalties import elastic_net
from finitesum.running import class_paths, class_products, factor_paths, few_rows_paths, together
from finitesum.running.accuracy import ACCURACY

CHEAP = {"solver": "newton"}


def data(n=80, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X[:, 0] + rng.standard_normal(n) > 0).astype(int)


def classes_of(n_classes, n=150, d=6):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    scores = X[:, :2] @ rng.standard_normal((2, n_classes)) + rng.gumbel(size=(n, n_classes))
    return X, scores.argmax(axis=1)


def test_a_C_without_a_score_is_not_chosen():
    X, y = data()
    Cs = [1e-3, 0.1, 10.0]

    def size_if_small(estimator, X, y):
        size = float(np.abs(estimator.coef_).max())
        return size if size < 1.0 else np.nan

    with pytest.warns(UserWarning, match="1 of 3 strengths have no score in some fold"):
        model = LogisticRegressionCV(Cs, cv=3, scoring=size_if_small, **CHEAP).fit(X, y)
    assert np.isnan(model.scores_[:, 2]).any()
    assert model.C_ == 0.1
    with pytest.raises(ValueError, match="no strength of the penalty has a score in every fold"):
        LogisticRegressionCV(Cs, cv=3, scoring=lambda *_: np.nan, **CHEAP).fit(X, y)


def test_standard_errors_that_are_not_known_are_refused_before_the_folds():
    def never(*_):
        raise AssertionError("a fold was scored")

    model = LogisticRegressionCV([1.0], scoring=never, constraint=L1Ball(1.0), standard_errors=True, **CHEAP)
    with pytest.raises(ValueError, match="standard errors are not known with a constraint"):
        model.fit(*data())


def test_a_metric_without_weights_is_not_given_any():
    X, y = data()
    s = np.random.default_rng(0).uniform(0.5, 2.0, y.size)

    def share_right(truth, predicted):
        return float((truth == predicted).mean())

    model = LogisticRegressionCV([0.01, 1.0], cv=3, scoring=make_scorer(share_right), **CHEAP)
    model.fit(X, y, sample_weight=s)
    for k, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        for m, C in enumerate(model.Cs_):
            one = LogisticRegression(C, **CHEAP).fit(X[train], y[train], sample_weight=s[train])
            assert model.scores_[k, m] == share_right(y[test], one.predict(X[test]))
    assert model.score(X, y, sample_weight=s) == share_right(y, model.predict(X))


@pytest.mark.parametrize(
    "parameter", [{"C": 2.0}, {"callback": print}, {"measure_every": 1}, {"standard_errors": True}, {"warm_start": True}]
)
def test_a_path_refuses_what_it_would_ignore(parameter):
    (name,) = parameter
    with pytest.raises(TypeError, match=f"logistic_path has no {name}"):
        logistic_path(*data(), Cs=[1.0], **parameter)


@pytest.mark.compiled
def test_a_path_uses_threads():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 3))
    y = X.sum(axis=1) + rng.standard_normal(20_000) > 0
    one, two = (logistic_path(X, y, Cs=[0.1, 1.0], solver="lazy-newton", n_threads=k) for k in (1, 2))
    assert [result.method.n_threads for result in two.results] == [2, 2]
    assert np.allclose(one.coefs, two.coefs, atol=1e-8)


WIDE = {"n": 60, "d": 240, "Cs": np.logspace(-3, 2, 6)}

#: What may differ between cross-validations whose folds are solved together: data, weights, parameters.
TOGETHER = {
    "dense": {},
    "csr": {"sparse": True},
    "no intercept": {"fit_intercept": False},
    "weights": {"weighted": True, "class_weight": "balanced"},
    "offsets": {"offsets": True},
    "few rows": {"n": 60, "d": 8},
    "nearly separated": {"n": 60, "d": 8, "noise": 0.02},
    "a sample": {"n": 6000, "d": 2},
    "l1": {"l1_ratio": 1.0},
    "elastic net": {"l1_ratio": 0.5, "sparse": True, "weighted": True},
    "no penalty": {"Cs": [0.1, np.inf]},
    "other splits": {"cv": ShuffleSplit(3, random_state=0)},
    "one fold at a time": {"most": 1.0},
    "wide": WIDE,
    "wide, csr": WIDE | {"sparse": True, "fit_intercept": False},
    "wide, weights and offsets": WIDE | {"weighted": True, "offsets": True, "class_weight": "balanced"},
}


def fold_fits(model, X, y, weights, offsets, Cs, cv):
    """Yield each fold's number, each C's, and a fit of its own."""
    parameters = {"fit_intercept": model.fit_intercept, "class_weight": model.class_weight, "tol": 1e-10}
    parameters["l1_ratio"] = model.l1_ratio
    solver = "newton" if len(model.classes_) == 2 else "auto"
    for f, (train, _) in enumerate(cv.split(X, y)):
        rows = {name: v if v is None else v[train] for name, v in (("sample_weight", weights), ("offset", offsets))}
        for k, C in enumerate(Cs):
            yield f, k, train, LogisticRegression(C, solver=solver, **parameters).fit(X[train], y[train], **rows)


@pytest.mark.parametrize("case", TOGETHER)
def test_folds_solved_together_are_fits_to_a_part_of_a_standard_error(case, monkeypatch):
    given = dict(TOGETHER[case])
    n, d, Cs = given.pop("n", 400), given.pop("d", 3), given.pop("Cs", np.logspace(-3, 4, 8))
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d)) * np.array([0.1, 3.0] * d)[:d] + 0.3
    if is_sparse := given.pop("sparse", False):
        X *= rng.random((n, d)) < 0.3
    scores = X.sum(axis=1) - (X.sum(axis=1).mean() if d > n else 0.0)
    y = (scores + given.pop("noise", 2.0) * rng.logistic(size=n) > 0).astype(int)
    data = sp.csr_array(X) if is_sparse else X
    weights = rng.uniform(0.2, 3.0, n) * (rng.random(n) < 0.9) if given.pop("weighted", False) else None
    offsets = rng.standard_normal(n) if given.pop("offsets", False) else None
    if (most := given.pop("most", None)) is not None:
        monkeypatch.setattr("finitesum.estimators.folds.MOST_NUMBERS", most)
    cv = given.pop("cv", StratifiedKFold(4))
    model = LogisticRegressionCV(Cs, cv=cv, **given).fit(data, y, sample_weight=weights, offset=offsets)
    for f, k, train, fit in fold_fits(model, X, y, weights, offsets, Cs, cv):
        Z = np.column_stack([X[train], np.ones(train.size)]) if model.fit_intercept else X[train]
        p = fit.predict_proba(X[train], offset=None if offsets is None else offsets[train])
        base = np.ones(train.size) if weights is None else weights[train]
        information = (Z.T * (base * p[:, 0] * p[:, 1])) @ Z
        w = np.append(model.coefs_paths_[f, k, 0] - fit.coef_[0], model.intercepts_paths_[f, k] - fit.intercept_)
        w = w if model.fit_intercept else w[:-1]
        assert np.sqrt(w @ information @ w) < 10 * ACCURACY  # for all decisions at once, in standard errors
        decisions = X[train] @ fit.coef_[0] + fit.intercept_
        size = max(1.0, np.sqrt(np.average(decisions**2, weights=base)))
        assert np.sqrt(np.mean((Z @ w) ** 2)) < 10 * ACCURACY * size
    own = {"l1_ratio": model.l1_ratio, "class_weight": model.class_weight, "fit_intercept": model.fit_intercept}
    alone = LogisticRegression(model.C_, solver="newton", **own)
    alone.fit(data, y, sample_weight=weights, offset=offsets)
    assert np.abs(model.coef_ - alone.coef_).max() < 1e-5  # the fit to all rows has tol
    assert model.optimality_ <= model.tol


def test_what_is_not_solved_together_is_solved_alone(monkeypatch):
    monkeypatch.setattr(together, "MOST_PASSES", 2)
    X, y = data(n=300)
    Cs = np.logspace(-2, 2, 5)
    model = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X, y)
    for f, k, _, fit in fold_fits(model, X, y, None, None, Cs, StratifiedKFold(3)):
        assert np.abs(model.coefs_paths_[f, k] - fit.coef_).max() < 2e-3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "MOST_PASSES", 0)
        patch.setattr(factor_paths, "MOST_STEPS", 0)
        exact = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X, y)
    for f, k, _, fit in fold_fits(model, X, y, None, None, Cs, StratifiedKFold(3)):
        assert np.abs(exact.coefs_paths_[f, k] - fit.coef_).max() < 1e-6


@pytest.mark.parametrize("what", ["MOST_STEPS", "ENOUGH"])
def test_what_few_rows_do_not_solve_is_solved_alone(what, monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((50, 240))
    y, Cs = (X[:, 0] + rng.logistic(size=50) > 0).astype(int), np.logspace(-2, 2, 5)
    if what == "MOST_STEPS":
        monkeypatch.setattr(few_rows_paths, "MOST_STEPS", 1)
    else:  # no step brings F down by so much: all are halved
        monkeypatch.setattr(few_rows_paths, "ENOUGH", 1e9)
    monkeypatch.setattr(factor_paths, "MOST_STEPS", 0)
    exact = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X, y)
    for f, k, _, fit in fold_fits(exact, X, y, None, None, Cs, StratifiedKFold(3)):
        assert np.abs(exact.coefs_paths_[f, k] - fit.coef_).max() < 1e-6


@pytest.mark.parametrize("method", [None, CoordinateDescent(), WorkingSetNewton()])
def test_folds_of_sparse_rows_are_solved_together_whatever_the_method_for_the_smallest_penalty(method, monkeypatch):
    if method is not None:
        monkeypatch.setattr("finitesum.estimators.folds.as_solver", lambda *_given, **_named: Choice(method))
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.standard_normal((900, 40)) * (rng.random((900, 40)) < 0.3))
    y = X @ rng.standard_normal(40) + rng.logistic(size=900) > 0
    found = []

    def noted(*given, **named):
        found.append(together.solve_together(*given, **named))
        return found[-1]

    monkeypatch.setattr("finitesum.estimators.folds.solve_together", noted)
    LogisticRegressionCV(np.logspace(-4, 4, 6), cv=3, l1_ratio=1.0, solver="Auto").fit(X, y)  # as all names, in any case
    assert len(found) == 1
    assert found[0].is_solved.mean() > 0.8


def test_folds_with_an_l1_penalty_on_many_columns_go_alone_where_a_method_reads_few_of_them():
    X, y = sp.random_array((4000, 260), density=0.01, format="csr", rng=0), np.arange(4000) % 2
    sparse, smooth = (Problem.linear(X, y, l1_ratio=ratio, alpha=0.1) for ratio in (1.0, 0.0))
    assert may_be_together(Newton(), sparse)
    assert not may_be_together(CoordinateDescent(), sparse)
    assert not may_be_together(CoordinateDescent(), smooth)


@pytest.mark.parametrize(
    ("loss", "n", "l1_ratio", "expected"),
    [
        ("logistic", 30, 1.0, "coordinate-descent"),
        ("poisson", 30, 0.5, "working-set-newton"),  # whose curvature has no bound
        ("logistic", 90, 1.0, "newton"),
        ("poisson", 30, 0.0, "newton"),
    ],
)
def test_paths_of_sparse_solutions_on_many_columns_have_no_hessians_of_all_columns(
    loss, n, l1_ratio, expected, monkeypatch
):
    choices = path.as_solver

    def chosen(solver, *given, **named):
        return Choice(Newton()) if solver == "auto" else choices(solver, *given, **named)

    monkeypatch.setattr(path, "as_solver", chosen)
    X, y = data(n, 60)
    given = {"l1_ratio": l1_ratio, "tol": 1e-9}
    if loss == "logistic":
        found = logistic_path(X, y, Cs=[0.3, 3.0], **given)
    else:
        found = linear_path(X, y, alphas=[0.01, 0.1], loss="poisson", **given)
    assert [result.method.name for result in found.results] == [expected] * 2
    assert (found.optimality <= 1e-9).all()


#: What may differ between cross-validations of several classes: data, weights, parameters.
CLASSES = {
    "dense": {},
    "csr": {"sparse": True},
    "no intercept": {"fit_intercept": False},
    "weights": {"weighted": True, "class_weight": "balanced"},
    "offsets": {"offsets": True},
    "few rows": {"n": 60, "d": 100},
    "few rows in folds": {"n": 80, "d": 100, "weighted": True},
    "span of few rows": {"n": 50, "d": 200},
    "span of few rows, weights and offsets": {"n": 50, "d": 200, "weighted": True, "offsets": True, "noise": 0.02},
    "nearly separated": {"n": 80, "d": 6, "noise": 0.02},
    "no penalty": {"Cs": [0.1, np.inf]},
    "other splits": {"cv": ShuffleSplit(3, random_state=0)},
    "no cheap Hessian": {"n": 200, "d": 6, "most": 0},
    "products of all columns": {"d": 6, "most": 0, "method": MultinomialLBFGS(), "weighted": True, "offsets": True},
    "products, csr": {"d": 20, "most": 0, "method": MultinomialLBFGS(), "sparse": True},
    "products of Hessians": {"d": 6, "most": 0, "method": MultinomialNewton("cg"), "weighted": True, "offsets": True},
    "products of Hessians, wide csr": {"n": 60, "d": 100, "most": 0, "sparse": True},
    "l1": {"l1_ratio": 1.0, "Cs": [0.01, 1.0]},
}


@pytest.mark.parametrize("case", CLASSES)
def test_folds_of_several_classes_are_fits_to_a_part_of_a_standard_error(case, monkeypatch):
    given = dict(CLASSES[case])
    n, d, Cs = given.pop("n", 300), given.pop("d", 3), given.pop("Cs", np.logspace(-3, 4, 6))
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d)) * np.array([0.1, 3.0] * d)[:d] + 0.3
    if is_sparse := given.pop("sparse", False):
        X *= rng.random((n, d)) < 0.3
    y = (X[:, :3] + given.pop("noise", 2.0) * rng.gumbel(size=(n, 3))).argmax(axis=1)
    data = sp.csr_array(X) if is_sparse else X
    weights = rng.uniform(0.2, 3.0, n) * (rng.random(n) < 0.9) if given.pop("weighted", False) else None
    offsets = rng.standard_normal((n, 3)) if given.pop("offsets", False) else None
    if (most := given.pop("most", None)) is not None:
        monkeypatch.setattr(class_paths, "MOST_VARIABLES", most)
    if (method := given.pop("method", None)) is not None:
        monkeypatch.setattr(folds, "as_solver", lambda *_, **__: Choice(method))
    cv = given.pop("cv", StratifiedKFold(3))
    model = LogisticRegressionCV(Cs, cv=cv, scoring="neg_log_loss", **given).fit(data, y, weights, offsets)
    scores = np.zeros_like(model.scores_)
    splits = list(cv.split(X, y))
    for f, k, train, fit in fold_fits(model, X, y, weights, offsets, Cs, cv):
        test = splits[f][1]
        p, of_test = (fit.predict_proba(X[r], offset=None if offsets is None else offsets[r]) for r in (train, test))
        base = np.ones(train.size) if weights is None else weights[train]
        moved = X[train] @ (model.coefs_paths_[f, k] - fit.coef_).T + model.intercepts_paths_[f, k] - fit.intercept_
        moved = moved - (p * moved).sum(axis=1, keepdims=True)
        assert np.sqrt(base @ (p * moved**2).sum(axis=1)) < 10 * ACCURACY  # for all decisions, in standard errors
        moved = moved - moved.mean(axis=1, keepdims=True)
        decisions = X[train] @ fit.coef_.T + fit.intercept_
        size = max(1.0, np.sqrt(np.average((decisions**2).sum(axis=1), weights=base)))
        assert np.sqrt(np.average((moved**2).sum(axis=1), weights=base)) < 10 * ACCURACY * size
        scores[f, k] = log_loss(y[test], of_test, sample_weight=None if weights is None else weights[test])
    np.testing.assert_allclose(model.scores_, -scores, rtol=1e-3)
    means = scores.mean(axis=0)
    assert means[list(model.Cs_).index(model.C_)] <= means.min() + 1e-5  # a tie, where it is not the best
    own = {"l1_ratio": model.l1_ratio, "class_weight": model.class_weight, "fit_intercept": model.fit_intercept}
    alone = LogisticRegression(model.C_, tol=1e-10, **own).fit(data, y, sample_weight=weights, offset=offsets)
    assert np.abs(model.coef_ - alone.coef_).max() < 1e-5  # the fit to all rows has tol
    assert model.optimality_ <= model.tol


@pytest.mark.parametrize("seed", [3, 5, 8])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_separated_classes_with_weak_penalties_are_solved(n_classes, seed):
    """Steps by Hessians of all rows are small there, and far from the solutions of the folds."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 4))
    y = (X @ rng.standard_normal((4, n_classes))).argmax(axis=1)
    Cs, cv = [1.0, 1e2, 1e4, 1e6], StratifiedShuffleSplit(3, test_size=0.3, random_state=0)
    found = LogisticRegressionCV(Cs, cv=cv, scoring="neg_log_loss").fit(X, y)
    exact = LogisticRegressionCV(Cs, cv=cv, scoring="neg_log_loss", solver="newton", tol=1e-13).fit(X, y)
    sizes = np.abs(exact.coefs_paths_).max(axis=(2, 3), keepdims=True)
    assert (np.abs(found.coefs_paths_ - exact.coefs_paths_) / sizes).max() < 2e-3
    np.testing.assert_allclose(found.scores_, exact.scores_, rtol=1e-2, atol=1e-4)


def test_what_is_left_of_a_path_begins_where_it_was_left(monkeypatch):
    """The weakest penalties may be solved where stronger ones are not."""
    starts = []
    X, y = data(n=300)
    solve = folds.solve_by_factors

    def noted(problems, start, *given):
        starts.append(start.copy())
        return solve(problems, start, *given)

    def but_two(*given, **named):
        found = together.solve_together(*given, **named)
        found.is_solved[:, [0, 2]] = False, True
        found.is_solved[:, 3] = False
        return found

    monkeypatch.setattr(folds, "solve_by_factors", noted)
    monkeypatch.setattr(folds, "solve_together", but_two)
    LogisticRegressionCV(np.logspace(-2, 2, 5), cv=3).fit(X, y)
    assert len(starts) == 3
    assert not np.any(starts)


def test_a_strength_of_several_classes_that_is_not_solved_is_solved_by_products_or_alone(monkeypatch):
    X, y = classes_of(3)
    Cs = np.logspace(-2, 2, 5)
    monkeypatch.setattr(class_paths, "MOST_STEPS", 3)
    model = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X, y)
    for f, k, _, fit in fold_fits(model, X, y, None, None, Cs, StratifiedKFold(3)):
        assert np.abs(model.coefs_paths_[f, k] - fit.coef_).max() < 2e-3
    monkeypatch.setattr(class_paths, "MOST_STEPS", 0)
    rough = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X, y)
    for f, k, _, fit in fold_fits(model, X, y, None, None, Cs, StratifiedKFold(3)):
        assert 1e-9 < np.abs(rough.coefs_paths_[f, k] - fit.coef_).max() < 2e-3
    monkeypatch.setattr(class_products, "MOST_STEPS", 0)
    exact = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X, y)
    for f, k, _, fit in fold_fits(model, X, y, None, None, Cs, StratifiedKFold(3)):
        assert np.abs(exact.coefs_paths_[f, k] - fit.coef_).max() < 1e-6


@pytest.mark.parametrize("most", [0, 4])
def test_a_strength_that_products_of_hessians_do_not_solve_is_solved_alone(most, monkeypatch):
    X, y = classes_of(3)
    Cs = np.logspace(-2, 2, 4)
    monkeypatch.setattr(class_paths, "MOST_VARIABLES", 0)
    monkeypatch.setattr(folds, "as_solver", lambda *_, **__: Choice(MultinomialNewton("cg")))
    monkeypatch.setattr(class_products, "MOST_STEPS", most)
    model = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X, y)
    for f, k, _, fit in fold_fits(model, X, y, None, None, Cs, StratifiedKFold(3)):
        assert np.abs(model.coefs_paths_[f, k] - fit.coef_).max() < (2e-3 if most else 1e-6)


@pytest.mark.parametrize(
    ("worth", "unused", "error"),
    [(30.0, "_alone", 2e-3), (0.0, "solve_classes_by_products", 1e-6)],
    ids=["a factor of all classes", "runs of their own"],
)
def test_folds_of_classes_with_columns_far_from_0(worth, unused, error, monkeypatch):
    """By diagonals conjugate gradients do not see all of the error there, and a run by itself centres columns."""
    X, y = classes_of(3)
    monkeypatch.setattr(folds, "WORTH_PRODUCTS", worth)
    monkeypatch.setattr(class_paths, "MOST_VARIABLES", 0)
    monkeypatch.setattr(folds, "as_solver", lambda *_, **__: Choice(MultinomialNewton("cg")))
    monkeypatch.setattr(folds, unused, None)
    Cs = np.logspace(-2, 2, 3)
    model = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X + 30.0, y)
    for f, k, _, fit in fold_fits(model, X + 30.0, y, None, None, Cs, StratifiedKFold(3)):
        assert np.abs(model.coefs_paths_[f, k] - fit.coef_).max() < error


@pytest.mark.parametrize("most", [0, 4])
def test_a_strength_that_kronecker_products_do_not_solve_is_solved_by_those_of_hessians(most, monkeypatch):
    """Those of all rows, after which no fold is tried, or those of the folds."""
    X, y = classes_of(3)
    Cs = np.logspace(-2, 2, 4)
    monkeypatch.setattr(class_paths, "MOST_VARIABLES", 0)
    monkeypatch.setattr(folds, "as_solver", lambda *_, **__: Choice(MultinomialLBFGS()))
    rough = class_paths.solve_classes_roughly
    called = []

    def counted(problems, *given, **named):
        called.append(len(called))
        monkeypatch.setattr(class_paths, "MOST_STEPS", 100 if most and not called[-1] else most)
        return rough(problems, *given, **named)

    monkeypatch.setattr(folds, "solve_classes_roughly", counted)
    monkeypatch.setattr(folds, "_alone", None)
    model = LogisticRegressionCV(Cs, cv=3, tol=1e-10).fit(X, y)
    assert len(called) == (4 if most else 1)
    for f, k, _, fit in fold_fits(model, X, y, None, None, Cs, StratifiedKFold(3)):
        assert np.abs(model.coefs_paths_[f, k] - fit.coef_).max() < 2e-3


def test_kronecker_products_are_for_many_rows_for_each_column():
    X, y = classes_of(3, 60, 6)
    tall, wide = (Problem.linear(x, y[: len(x)], loss="multinomial", alpha=0.1) for x in (X, X[:40]))
    assert class_paths.has_products(tall)
    assert not class_paths.has_products(wide)
    many = sp.random_array((3500, 3100), density=0.001, format="csr", rng=0)
    assert not class_paths.has_products(Problem.linear(many, np.arange(3500) % 3, loss="multinomial", alpha=0.1))


def test_products_keep_a_penalty_that_falls_far():
    """The values of the product are the penalty alone where C has none."""
    X, y = classes_of(3)
    problem = Problem.linear(X, y, loss="multinomial", alpha=1.0)
    problems = [problem.with_penalty(elastic_net(alpha, 0.0)) for alpha in (1e14, 1e4, 1.0, 1e-4)]
    found = class_paths.solve_classes_roughly(problems, 150.0, 1e-10)
    assert found.is_solved.all()
    for one, product, point in zip(problems, found.products, found.points, strict=True):
        assert product.values.min() >= one.term.ridge
        assert np.linalg.norm(evaluate(one, point).gradient) < 1e-4


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_path_that_ends_without_a_penalty_has_a_method_for_its_other_strengths(n_classes):
    X, y = classes_of(n_classes)
    path = logistic_path(X, y, Cs=[0.05, np.inf], l1_ratio=1.0, tol=1e-9)
    assert (path.optimality <= 1e-9).all()
    for C, coef in zip(path.Cs, path.coefs, strict=True):
        alone = LogisticRegression(C, l1_ratio=1.0, tol=1e-9).fit(X, y).coef_
        free = n_classes > 2 and math.isinf(C)  # what all classes share changes nothing without a penalty
        assert coef - free * coef.mean(axis=0) == pytest.approx(alone - free * alone.mean(axis=0), abs=1e-5)


@pytest.mark.parametrize(("of_lazy", "expected"), [(1.5, "lazy-newton"), (3.0, "lbfgs")])
def test_paths_take_what_carries_a_hessian_unless_it_takes_long(of_lazy, expected, monkeypatch):
    others = Alternative(LazyNewton(), of_lazy), Alternative(Newton(), 1.0)
    monkeypatch.setattr(path, "as_solver", lambda *_, **__: Choice(LBFGS(), seconds=1.0, others=others))
    X, y = data()
    found = logistic_path(X, y, Cs=[0.1, 1.0, 10.0], tol=1e-9)
    assert [result.method.name for result in found.results] == [expected] * 3
    assert (found.optimality <= 1e-9).all()
    assert logistic_path(X, y, Cs=[1.0], tol=1e-9).results[0].method.name == "lbfgs"  # nothing is carried


@pytest.mark.parametrize(
    ("method", "seconds", "expected"), [(Newton(), 0.0, True), (NewtonCG(), 1.0, True), (NewtonCG(), 1e-7, False)]
)
def test_products_of_few_rows_pay_where_factors_are_short(method, seconds, expected):
    X, y = data(40, 80)
    problem = Problem.linear(X, 2.0 * y - 1.0, alpha=0.1)
    assert few_rows_paths.has_few_rows(problem, Choice(method, seconds=seconds)) == expected
    few_more = Problem.linear(*data(150, 100), alpha=0.1)
    assert few_rows_paths.has_few_rows(few_more, Choice(Newton(), seconds=seconds)) == (seconds == 1.0)
    tall = Problem.linear(*data(), alpha=0.1)
    assert not few_rows_paths.has_few_rows(tall, Choice(method, seconds=seconds))


@pytest.mark.parametrize(("n", "d", "expected"), [(40, 30, True), (390, 300, False), (100, 3000, True)])
def test_products_of_few_rows_give_way_to_shorter_factors_of_columns(n, d, expected):
    X, y = data(n, d)
    problem = Problem.linear(X, 2.0 * y - 1.0, alpha=0.1)
    assert few_rows_paths.has_few_rows(problem, Choice(Newton(), seconds=1.0)) == expected


def test_strengths_of_several_classes_share_hessians(monkeypatch):
    X, y = classes_of(3, n=300)
    made, folds = [], []

    def noted(problem, *given):
        (made if problem.n_rows == 300 else folds).append(problem.n_rows)
        return hessian_of_differences(problem, *given)

    monkeypatch.setattr(class_paths, "hessian_of_differences", noted)
    LogisticRegressionCV(np.logspace(-5, 5, 20), cv=3).fit(X, y)
    assert 2 <= len(made) <= 8  # of 20 strengths, at two steps of each
    assert len(folds) <= 6  # which have those of all rows


@pytest.mark.parametrize(("density", "is_dense"), [(0.5, True), (0.1, False)])
def test_sparse_rows_with_few_zeros_are_matrices_in_folds(density, is_dense):
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.standard_normal((200, 10)) * (rng.random((200, 10)) < density))
    problem = Problem.linear(X, rng.random(200) < 0.5, alpha=0.1)
    found = with_zeros(problem)
    assert found.rows.is_sparse() != is_dense
    w = rng.standard_normal(problem.dim)
    np.testing.assert_allclose(evaluate(found, w).gradient, evaluate(problem, w).gradient, rtol=1e-12, atol=1e-15)


def test_problems_that_differ_in_their_penalty_share_what_is_known_of_the_rows():
    X, y = data(n=20, d=40)
    problem = Problem.linear(X, y, alpha=1.0)
    other = problem.batched(4).with_penalty(elastic_net(0.5, 0.1)).batched(2)
    assert products_of_rows(other) is products_of_rows(problem)
    assert other.term.has_l1
    assert not problem.term.has_l1
    assert "products_of_rows" not in replace(problem, weights=problem.weights[::-1]).of_rows
    assert not pickle.loads(pickle.dumps(problem)).of_rows


@pytest.mark.parametrize("is_separated", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    ("name", "scorer"),
    [
        (None, make_scorer(accuracy_score)),
        ("accuracy", make_scorer(accuracy_score)),
        ("neg_log_loss", make_scorer(log_loss, greater_is_better=False, response_method="predict_proba")),
    ],
)
def test_scores_of_all_models_at_once_are_the_scorers(name, scorer, n_classes, is_separated):
    X, y = data(n=90)
    y = (X[:, 0] > 0.0).astype(int) if is_separated else y  # so that probabilities are near 0 and 1
    y = y + (n_classes == 3) * (X[:, 1] > 0.5)
    rng = np.random.default_rng(2)
    given = {"sample_weight": rng.uniform(0.0, 2.0, y.size)}
    given["offset"] = rng.standard_normal(y.size if n_classes == 2 else (y.size, 3))
    one, other = (LogisticRegressionCV([0.01, 1.0, 1e8], cv=3, scoring=how).fit(X, y, **given) for how in (name, scorer))
    np.testing.assert_allclose(one.scores_, other.scores_, rtol=1e-6)  # theirs have 1 less a number near 1


def test_folds_and_strengths_share_passes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 4))
    y = X.sum(axis=1) + 2.0 * rng.logistic(size=3000) > 0
    model = LogisticRegressionCV(10, cv=5, scoring="neg_log_loss").fit(X, y)
    assert model.n_passes_paths_.mean() < 4.0
    assert (model.n_passes_paths_[:, -4:-1] == 1.0).all()  # interpolated


def test_scorers_of_decisions_know_the_offsets():
    rng = np.random.default_rng(3)
    X, offset = rng.standard_normal((60, 2)), 5.0 * rng.standard_normal(60)
    y = X[:, 0] + offset + rng.logistic(size=60) > 0.0
    model = LogisticRegressionCV([1.0], cv=3, scoring="roc_auc", **CHEAP).fit(X, y, offset=offset)
    assert model.score(X, y, offset=offset) == roc_auc_score(y, model.decision_function(X, offset))
    assert model.score(X, y, offset=offset) > model.score(X, y)


def test_l1_ratios_are_chosen_with_C():
    X, y = classes_of(2)
    each = [LogisticRegressionCV([0.05, 0.5, 5.0], l1_ratio=r, cv=3, tol=1e-10).fit(X, y) for r in (0.0, 0.5, 1.0)]
    model = LogisticRegressionCV([0.05, 0.5, 5.0], l1_ratios=[0.0, 0.5, 1.0], cv=3, tol=1e-10).fit(X, y)
    assert model.scores_.shape == (3, 3, 3)
    np.testing.assert_array_equal(model.scores_, np.stack([one.scores_ for one in each], axis=1))
    best = int(np.argmax([one.scores_.mean(axis=0).max() for one in each]))
    assert (model.C_, model.l1_ratio_) == (each[best].C_, [0.0, 0.5, 1.0][best])
    assert model.coef_ == pytest.approx(each[best].coef_, abs=1e-9)
    assert model.coefs_paths_.shape == (3, 3, 1, X.shape[1])
    with pytest.raises(ValueError, match="l1_ratios must be a sequence"):
        LogisticRegressionCV(l1_ratios=[]).fit(X, y)


def test_one_standard_error_takes_a_smaller_C():
    X, y = classes_of(2)
    how = {"cv": 5, "scoring": "neg_log_loss", "tol": 1e-9}
    best = LogisticRegressionCV(8, **how).fit(X, y)
    model = LogisticRegressionCV(8, rule="one_standard_error", **how).fit(X, y)
    means, error = best.scores_.mean(axis=0), best.scores_.std(axis=0, ddof=1) / np.sqrt(5)
    place = int(np.argmax(means))
    assert model.C_ == best.Cs_[means >= means[place] - error[place]].min() < best.C_


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
def test_criteria_are_those_of_the_fits(criterion, n_classes):
    X, y = classes_of(n_classes)
    model = LogisticRegressionCV([0.02, 0.2, 2.0], l1_ratios=[1.0], criterion=criterion, tol=1e-10).fit(X, y)
    n, expected = len(y), []
    for C in model.Cs_:
        fit = LogisticRegression(C, l1_ratio=1.0, tol=1e-10).fit(X, y)
        likelihood = fit.predict_log_proba(X)[np.arange(n), np.searchsorted(fit.classes_, y)].sum()
        k, d = np.count_nonzero(fit.coef_), fit.coef_.size
        freedom = k + (1 if n_classes == 2 else n_classes - 1)
        more = 2.0 * np.log(math.comb(d, k)) if criterion == "ebic" else 0.0
        expected.append(-2.0 * likelihood + freedom * (2.0 if criterion == "aic" else np.log(n)) + more)
    if n_classes == 2:
        assert model.criteria_[0] == pytest.approx(expected, rel=1e-7)
    else:  # coefficients of all classes in a column leave one direction that changes no probability
        assert (np.abs(model.criteria_[0] - expected) <= np.log(n) * X.shape[1]).all()
    assert model.Cs_[np.argmin(model.criteria_[0])] == model.C_
    assert not hasattr(model, "scores_")


def test_rows_of_a_group_are_in_one_fold():
    X, y = classes_of(2)
    groups = np.arange(len(y)) % 7
    model = LogisticRegressionCV([0.1, 1.0], cv=GroupKFold(3), tol=1e-9).fit(X, y, groups=groups)
    splits = list(GroupKFold(3).split(X, y, groups))
    np.testing.assert_array_equal(model.scores_, LogisticRegressionCV([0.1, 1.0], cv=splits, tol=1e-9).fit(X, y).scores_)


def test_a_fold_whose_rows_have_weight_0_is_refused():
    X, y = classes_of(3)
    weights = np.ones(len(y))
    weights[: len(y) // 3] = 0.0
    with pytest.raises(ValueError, match="all have weight 0"):
        LogisticRegressionCV(2, cv=KFold(3)).fit(X, y, weights)
