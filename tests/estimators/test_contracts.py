"""How the estimators behave: kinds of input, warm starts, callbacks, routing, pickles, warnings and errors."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from finitesum import (
    HuberRegressor,
    LinearClassifier,
    LinearRegressor,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    NegativeBinomialRegressor,
    OrdinalLogisticRegression,
    PoissonRegressor,
    Ridge,
    TweedieRegressor,
)
from finitesum.constraints import L1Ball
from finitesum.core import indices
from finitesum.estimators.tasks import HAS_CALLBACKS
from finitesum.methods import Newton

CHEAP = {"solver": "newton"}
MODELS = [
    LogisticRegression(**CHEAP),
    LogisticRegressionCV(Cs=[0.1, 1.0], cv=2, **CHEAP),
    LinearClassifier(**CHEAP),
    LinearSVC(**CHEAP),
    LinearSVC(loss="hinge"),
    OrdinalLogisticRegression(**CHEAP),
    LinearRegressor(**CHEAP),
    Ridge(),
    HuberRegressor(**CHEAP),
    PoissonRegressor(**CHEAP),
    TweedieRegressor(power=1.5, **CHEAP),
    NegativeBinomialRegressor(theta="estimate", **CHEAP),
]


def data(n=80, d=4, n_classes=2, seed=0, density=0.7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    return X, (X @ rng.standard_normal((d, n_classes)) + rng.standard_normal((n, n_classes))).argmax(axis=1)


@pytest.mark.parametrize("density", [0.3, 0.7])  # rows that stay sparse, and rows that are better dense
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_kinds_of_input_lead_to_the_same_model(model, density):
    X, y = data(density=density)
    dense = clone(model).fit(X, y)
    wide = scipy.sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    for other in (clone(model).fit(wide, y), clone(model).fit(scipy.sparse.csc_matrix(X), y), clone(model).fit(frame, y)):
        assert np.abs(other.coef_ - dense.coef_).max() < 1e-7
    assert other.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names"):
        other.predict(frame[["b", "a", "c", "d"]])
    assert np.allclose(dense.predict(wide), dense.predict(X))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_fit_that_raised_leaves_no_model(model):
    X, y = data()
    model = clone(model)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.full(len(y), np.nan))
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_indices_of_csr_rows_are_checked_once_and_entries_of_one_place_are_summed(model, monkeypatch):
    X, y = data(density=0.3)
    seen = []
    check = indices.require_compressed
    monkeypatch.setattr(indices, "require_compressed", lambda *args: seen.append(1) or check(*args))
    known = clone(model).fit(scipy.sparse.csr_array(X), y)
    assert len(seen) == 1
    n_rows, n_columns = X.shape
    # each entry in halves, columns from the last one on
    columns = np.tile(np.repeat(np.arange(n_columns)[::-1], 2), n_rows)
    halves = np.repeat(0.5 * X[:, ::-1], 2, axis=1).ravel()
    starts = np.arange(0, halves.size + 1, 2 * n_columns)
    for kind in scipy.sparse.csr_array, scipy.sparse.csr_matrix:
        doubled = kind((halves, columns, starts), shape=X.shape)
        found = clone(model).fit(doubled, y)
        assert doubled.nnz == halves.size  # what is given stays as it is
        assert np.abs(found.coef_ - known.coef_).max() < 1e-7
    doubled.indices[3] = n_columns
    with pytest.raises(ValueError, match="column indices from 0 to 3"):
        clone(model).fit(doubled, y)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_float32_stays_float32(model):
    X, y = data()
    single = clone(model).fit(X.astype(np.float32), y)
    double = clone(model).fit(X.astype(np.float32).astype(np.float64), y)
    assert single.coef_.dtype == np.float32
    assert double.coef_.dtype == np.float64
    assert np.abs(single.coef_ - double.coef_).max() < 1e-5
    if hasattr(single, "decision_function"):
        assert single.decision_function(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_clones_and_pickles(model):
    X, y = data()
    fitted = clone(model).fit(X, y)
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict(X), fitted.predict(X))
    assert copy.optimality_ == fitted.optimality_ <= fitted.tol
    assert not hasattr(clone(fitted), "coef_")
    assert clone(fitted).get_params() == fitted.get_params()


def test_a_pickle_leaves_the_memory_of_the_solver_behind():
    X, y = data()
    model = LogisticRegression(warm_start=True, **CHEAP).fit(X, y)
    assert hasattr(model, "_memory")
    assert not hasattr(pickle.loads(pickle.dumps(model)), "_memory")


@pytest.mark.parametrize("cls", [LogisticRegression, LogisticRegressionCV, LinearRegressor, Ridge])
def test_a_fit_without_standard_errors_keeps_none_of_an_earlier_one(cls):
    X, y = data()
    model = cls(standard_errors=True, **CHEAP).fit(X, y)
    assert model.standard_errors_.shape == (5,)
    model.set_params(standard_errors=False).fit(X, y)
    assert not hasattr(model, "cov_params_")
    assert not hasattr(model, "standard_errors_")


def test_what_is_known_of_a_run():
    X, y = data()
    model = LogisticRegression(measure_every=1, **CHEAP).fit(X, y)
    frame = model.trace_.to_frame()
    assert list(frame.columns) == ["n_passes", "n_hessian_passes", "seconds", "objective", "optimality", "estimate"]
    assert frame["objective"].iloc[-1] == pytest.approx(model.objective_, rel=1e-15)
    assert frame["objective"].notna().all()
    assert model.n_iter_.tolist() == [len(frame) - 1]
    assert model.n_hessian_passes_ == model.n_iter_[0]
    assert model.n_passes_ == model.n_iter_[0] + 1
    assert model.optimality_ <= model.tol
    assert model.solver_ == "newton"


def test_a_pipeline_with_named_output_and_a_search():
    X, y = data()
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(**CHEAP)).set_output(transform="pandas")
    pipeline.fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b", "c", "d"]
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(frame, y)
    assert search.best_params_["logisticregression__C"] in (0.1, 1.0)


# -- routing


def test_metadata_is_routed():
    X, y = data()
    s = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    with config_context(enable_metadata_routing=True):
        model = LogisticRegression(**CHEAP).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        found = cross_validate(model, X, y, cv=2, params={"sample_weight": s}, return_estimator=True)
        half = found["estimator"][0]
        assert half.coef_.shape == (1, 4)
        poisson = PoissonRegressor(**CHEAP).set_fit_request(offset=True).set_predict_request(offset=True)
        assert poisson.get_metadata_routing().fit.requests["offset"] is True
        groups = np.arange(y.size) % 4
        model = LogisticRegressionCV([0.1, 1.0], cv=GroupKFold(4), scoring="accuracy", **CHEAP)
        routed = model.fit(X, y, groups=groups).scores_
    assert routed.shape == (4, 2)
    np.testing.assert_array_equal(model.fit(X, y, groups=groups).scores_, routed)
    with pytest.raises(ValueError, match="fit has no parameter times"):
        model.fit(X, y, times=groups)


@pytest.mark.parametrize("solver", ["lazy-newton", "newton-cg"])
def test_solvers_with_threads_use_those_of_the_estimator(solver):
    X, y = data()
    model = LogisticRegression(solver=solver, n_threads=2, tol=1e-7, warm_start=True).fit(X, y)
    result = model._memory[0][1]
    assert (result.method.n_threads, result.state.tol) == (2, 1e-7)


# -- warm starts


def test_a_warm_start_takes_fewer_passes():
    X, y = data()
    cold = LogisticRegression(C=1.01, solver="saga", tol=1e-9, max_iter=5000).fit(X, y).n_passes_
    model = LogisticRegression(C=1.0, solver="saga", tol=1e-9, max_iter=5000, warm_start=True).fit(X, y)
    assert model.set_params(C=1.01).fit(X, y).n_passes_ < 0.9 * cold
    assert model.fit(X, y).n_passes_ == 1.0  # the check of the start
    several = LogisticRegression(warm_start=True, **CHEAP).fit(*data(n_classes=3))
    assert several.fit(*data(n_classes=3)).n_passes_ <= 2.0


def test_a_warm_start_on_the_same_data_goes_on_with_the_solvers_memory():
    X, y = data()
    settings = {"solver": "saga", "tol": 1e-9, "random_state": 5}
    whole = LogisticRegression(max_iter=5000, **settings).fit(X, y)
    model = LogisticRegression(max_iter=20, warm_start=True, **settings)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    first = model.n_iter_[0]
    model.set_params(max_iter=5000).fit(X, y)
    assert first + model.n_iter_[0] == pytest.approx(whole.n_iter_[0], abs=0.2 * whole.n_iter_[0])  # checks fall elsewhere
    assert np.abs(model.coef_ - whole.coef_).max() < 1e-6


def test_a_warm_start_goes_on_from_the_scale_that_was_found():
    X, y = data()
    model = HuberRegressor(scale="joint", warm_start=True, solver="newton").fit(X, y + X[:, 0])
    cold, scale = model.n_passes_, model.scale_
    assert model.fit(X, y + X[:, 0]).n_passes_ < 0.2 * cold
    assert model.scale_ == pytest.approx(scale, rel=1e-7)
    assert model.optimality_ <= model.tol
    assert model.fit(X, 1e-9 * (y + X[:, 0])).scale_ == pytest.approx(1e-9 * scale, rel=1e-3)  # from far above


def test_a_warm_start_with_coefficients_that_were_changed_starts_from_them():
    X, y = data()
    model = LogisticRegression(warm_start=True, **CHEAP).fit(X, y)
    at_optimum = model.fit(X, y).n_passes_
    model.coef_ = model.coef_ + 1.0
    assert model.fit(X, y).n_passes_ > at_optimum
    assert model.optimality_ <= model.tol


# -- callbacks


def test_the_callback_sees_every_pass_and_may_stop():
    X, y = data()
    seen = []
    model = LogisticRegression(callback=lambda report: seen.append(report.nit), **CHEAP).fit(X, y)
    assert seen == list(range(1, model.n_iter_[0] + 1))
    stopped = LogisticRegression(callback=lambda report: report.nit >= 2, **CHEAP).fit(X, y)  # no warning
    assert stopped.n_iter_.tolist() == [2]


@pytest.mark.skipif(not HAS_CALLBACKS, reason="this scikit-learn has no callbacks")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", [LogisticRegression(**CHEAP), LinearClassifier(n_threads=2, **CHEAP)], ids=repr)
def test_scikit_learns_callbacks_see_every_pass(model, n_classes):
    X, y = data(n_classes=n_classes)

    class Recorder:
        def __init__(self):
            self.events, self.scores = [], []

        def setup(self, estimator, context):
            self.events.append("setup")

        def teardown(self, estimator, context):
            self.events.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            self.events.append(f"begin {context.task_name}")

        def on_fit_task_end(self, estimator, context, *, fitted_estimator):
            self.events.append(f"end {context.task_name}")
            if fitted_estimator is not None:
                self.scores.append(fitted_estimator.score(X, y))

    recorder = Recorder()
    fitted = clone(model).set_callbacks(recorder).fit(X, y)
    assert recorder.events[:2] == ["setup", "begin fit"]
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert recorder.events.count("end pass") == fitted.n_iter_.sum()
    assert recorder.events.count("begin pass") == fitted.n_iter_.sum()
    assert recorder.scores[-1] == fitted.score(X, y)
    if n_classes == 3 and isinstance(model, LinearClassifier):
        assert recorder.events.count("end class") == 3
    else:
        assert len(recorder.scores) == fitted.n_iter_.sum() + 1


@pytest.mark.parametrize("scale", [1.0, "joint"])
def test_callbacks_see_the_passes_at_every_scale(scale):
    X, y = data()
    seen = []
    model = HuberRegressor(scale=scale, callback=lambda report: seen.append(report.nit), **CHEAP).fit(X, y + X[:, 0])
    assert len(seen) == model.n_iter_
    stopped = HuberRegressor(scale=scale, callback=lambda report: True, **CHEAP).fit(X, y)  # no warning
    assert stopped.n_iter_ == 1


@pytest.mark.skipif(not HAS_CALLBACKS, reason="this scikit-learn has no callbacks")
def test_a_callback_of_scikit_learn_may_stop():
    class Stopper:
        def setup(self, estimator, context): ...

        def teardown(self, estimator, context): ...

        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            return context.task_name == "pass"

    X, y = data()
    assert LogisticRegression(**CHEAP).set_callbacks(Stopper()).fit(X, y).n_iter_.tolist() == [1]


# -- warnings and errors


def test_a_stop_short_of_convergence_is_warned_of_with_both_values():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match=r"LogisticRegression: Stopped at max_iter: optimality .* \(asked: 1e-10\)"):
        LogisticRegression(solver="fg", max_iter=3).fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression(solver="svd"), "solver must be one of auto, fg, .*newton.* for Logistic here, got 'svd'"),
        (LogisticRegression(solver="adahb"), "solver must be one of auto"),
        (LogisticRegression(C=0.0), "C must be a number > 0, got 0.0"),
        (LogisticRegression(solver="newton", step_size=-1.0), "step_size must be > 0"),
        (LogisticRegression(class_weight="even"), "class_weight must be None"),
        (LogisticRegression(class_weight={0: -1.0}), "class_weight must hold factors >= 0"),
        (LogisticRegression(n_threads=0), "n_threads must be a whole number >= 1"),
        (LogisticRegression(l1_ratio=0.5, constraint=L1Ball(1.0)), "an l1 penalty goes with bounds of coefficients"),
        (LogisticRegression(solver="iqn", l1_ratio=0.5), "solver must be one of auto"),
        (LogisticRegression(solver=3), "solver must be a name or a method, got 3"),
        (LogisticRegression(solver=Newton(), step_size=1.0), "step_size goes with a solver's name"),
        (LinearSVC(loss="logistic"), 'loss must be "squared-hinge" or "hinge"'),
        (LinearSVC(loss="hinge", solver="interior-point", step_size=1.0), "interior-point has no step size"),
        (
            LinearSVC(loss="hinge", l1_ratio=1.0, solver="adahb"),
            "solver must be one of auto, interior-point, linear-program for Hinge",
        ),
        (LinearClassifier(loss="squared"), "loss must be one for classification"),
        (LinearRegressor(loss="hinge"), "loss must be one for regression"),
        (HuberRegressor(epsilon=-1.0), "epsilon must be > 0"),
        (HuberRegressor(scale="median"), 'scale must be a number > 0 or "joint"'),
        (HuberRegressor(scale="joint", l1_ratio=0.5), 'scale="joint" needs l1_ratio=0'),
        (Ridge(alpha=-1.0), "alpha must be a number >= 0"),
        (LogisticRegressionCV(Cs=[1.0, -1.0]), "Cs must be a whole number"),
        (LogisticRegressionCV(Cs="many"), "Cs must be a whole number"),
        (LogisticRegression(tol="tight"), "tol must be a number >= 0 and finite, got 'tight'"),
        (LogisticRegression(tol=np.nan), "tol must be a number >= 0 and finite, got nan"),
        (LogisticRegressionCV(tol=np.inf), "tol must be a number >= 0 and finite, got inf"),
        (HuberRegressor(scale="joint", tol="tight"), "tol must be a number >= 0 and finite, got 'tight'"),
        (HuberRegressor(scale="joint", alpha="weak"), "alpha must be a number >= 0 and finite, got 'weak'"),
        (LogisticRegression(callback=3), "callback must be callable or None, got 3"),
        (LogisticRegression(verbose=None), "verbose must be a whole number, got None"),
        (LogisticRegression(fit_intercept="no"), "fit_intercept must be True or False, got 'no'"),
        (LinearClassifier(alpha="0.1"), "alpha must be a number >= 0 and finite, got '0.1'"),
        (LogisticRegression(class_weight={"1": 9.0}), r"class_weight has the labels \['1'\], .* are \[0, 1\]"),
        (
            LinearRegressor(loss="huber", l1_ratio=0.5, standard_errors=True),
            "standard errors are not known for the Huber loss with l1_ratio > 0",
        ),
        (LinearRegressor(groups=[0, 0, 1, 1], standard_errors=True), "known with alpha and penalty_weights alone"),
        (LinearClassifier(loss="squared-hinge", standard_errors=True), "not known for the SquaredHinge loss"),
    ],
    ids=lambda value: repr(value) if not isinstance(value, str) else "",
)
def test_errors_say_what_to_do(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            LogisticRegression(solver="lazy-newton"),
            "solver must be one of auto, fg, .*, multinomial-lbfgs, multinomial-working-set for several classes here",
        ),
        (
            LogisticRegression(constraint=L1Ball(1.0), solver="saga"),
            "solver must be one of auto, fg, afg, .*newton.* for several classes here",
        ),
    ],
    ids=repr,
)
def test_errors_of_several_classes(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data(n_classes=3))


@pytest.mark.parametrize("solver", ["saga", "a-ciag", "afg", "newton"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_several_classes_have_the_same_solution_by_every_solver(solver, l1_ratio):
    X, y = data(n_classes=3)
    exact = LogisticRegression(C=0.1, l1_ratio=l1_ratio).fit(X, y)
    model = LogisticRegression(C=0.1, l1_ratio=l1_ratio, solver=solver, tol=1e-8).fit(X, y)
    newton = "newton" if l1_ratio else "multinomial-newton"  # which is Newton's method there, by a better solver
    assert model.solver_ == (newton if solver == "newton" else solver)
    assert exact.solver_ == newton  # of few variables
    assert (exact.coef_ == 0.0).any() == (l1_ratio > 0.0)
    np.testing.assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ([0.0], r"offset must have shape \(80,\) to match the rows of X, got \(1,\)"),
        (np.zeros((80, 1)), r"offset must have shape \(80,\)"),
        (0.0, r"offset must have shape \(80,\)"),
        (np.full(80, np.nan), "offset must be finite"),
        (["none"] * 80, "offset must hold numbers"),
    ],
    ids=["one", "column", "scalar", "nan", "text"],
)
def test_offsets_are_checked_wherever_they_are_given(offset, message):
    X, y = data()
    model = PoissonRegressor(**CHEAP).fit(X, y)
    for call in (
        lambda: model.fit(X, y, offset=offset),
        lambda: model.predict(X, offset=offset),
        lambda: model.score(X, y, offset=offset),
        lambda: LinearRegressor(**CHEAP).fit(X, y).score(X, y, offset=offset),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_probabilities_only_where_there_are_some():
    X, y = data(n_classes=3)
    assert not hasattr(LinearClassifier(loss="squared-hinge"), "predict_proba")
    model = LinearClassifier(**CHEAP).fit(X, y)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    model.intercept_ = np.array([-2000.0, -2001.0, -3000.0])  # far from every class
    far = model.predict_proba(np.zeros((1, 4)))
    assert far == pytest.approx(np.array([[1.0, np.exp(-1.0), 0.0]]) / (1.0 + np.exp(-1.0)))


def test_importing_an_estimator_loads_nothing_heavy():
    code = (
        "import sys; from finitesum import LogisticRegression; import sklearn.base; "
        "print([m for m in ('torch', 'matplotlib', 'sklearn.linear_model') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
