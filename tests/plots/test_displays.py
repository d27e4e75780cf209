"""Displays: what is drawn is what the models know, on axes that are given or new ones, and refusals in a sentence."""

import numpy as np
import pandas as pd
import pytest

from finitesum import (
    LinearRegressorCV,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Problem,
    Ridge,
    linear_path,
    logistic_path,
    minimize,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from finitesum.plots import (  # noqa: E402
    CoefficientDisplay,
    CVDisplay,
    LeverageDisplay,
    MeanCalibrationDisplay,
    PathDisplay,
    ResidualDisplay,
    TraceDisplay,
)
from finitesum.plots.fits import quantile_bins  # noqa: E402


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def data(n=80):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=["age", "dose", "site"])
    signal = X.to_numpy() @ [1.0, -0.5, 0.0]
    return X, signal + rng.standard_normal(n) > 0.0, rng.poisson(np.exp(0.5 * signal + 1.0)), rng


def problem():
    X, y, _, _ = data()
    return Problem.linear(X.to_numpy(), np.where(y, 1.0, -1.0), alpha=0.1)


def test_traces_of_results_end_where_the_runs_did():
    results = [minimize(problem(), method=name, tol=1e-8, measure_every=1) for name in ("newton", "fg")]
    display = TraceDisplay.from_results(results)
    for result in results:
        assert display.lines_[result.method.name].get_ydata()[-1] == pytest.approx(result.optimality, rel=1e-6)
    gaps = display.plot(y="gap", x="seconds").lines_["fg"].get_ydata()
    assert (gaps > 0.0).all()
    objectives = display.plot(y="objective").lines_["fg"].get_ydata()
    assert objectives[-1] == pytest.approx(results[1].fun, rel=1e-12)
    named = TraceDisplay.from_results({"one": results[0], "two": results[0]}, best=results[0].fun - 1.0, y="gap")
    assert named.lines_["two"].get_ydata()[-1] == pytest.approx(1.0)
    with pytest.raises(ValueError, match='y "optimality", "gap" or "objective", got \'n_passes\' and \'loss\''):
        display.plot(y="loss")
    with pytest.raises(ValueError, match="traces must hold one trace or more"):
        TraceDisplay({})


def test_traces_of_estimators_have_their_names():
    X, y, _, _ = data()
    model = LogisticRegression(solver="newton", measure_every=1).fit(X, y)
    _, ax = plt.subplots()
    display = TraceDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert list(display.lines_) == ["newton"]


def test_paths_and_choices():
    X, y, _, _ = data()
    path = logistic_path(X, y, Cs=[0.01, 0.1, 1.0], l1_ratio=1.0)
    display = PathDisplay.from_path(path, names=X.columns)
    np.testing.assert_array_equal(display.lines_[1].get_ydata(), path.coefs[:, 0, 1])
    of_numbers = linear_path(X, X["age"] + 0.1 * X["dose"], alphas=5, l1_ratio=1.0)
    drawn = PathDisplay.from_path(of_numbers)
    np.testing.assert_array_equal(drawn.lines_[0].get_ydata(), of_numbers.coefs[:, 0])
    assert drawn.ax_.get_xlabel().startswith("alpha")
    assert drawn.ax_.xaxis_inverted()
    with pytest.raises(ValueError, match="strength_name must be"):
        PathDisplay([0.1], np.ones((1, 2)), strength_name="lambda")
    model = LogisticRegressionCV(Cs=[0.01, 0.1, 1.0, 10.0], cv=4).fit(X, y)
    chosen = CVDisplay.from_estimator(model)
    best = int(np.argmax(chosen.means))
    assert chosen.means == pytest.approx(model.scores_.mean(axis=0))
    assert chosen.one_standard_error <= model.C_
    smallest = int(np.searchsorted(model.Cs_, chosen.one_standard_error))
    assert chosen.means[smallest] >= chosen.means[best] - chosen.errors[best]
    assert PathDisplay.from_estimator(model).chosen == model.C_
    both = LogisticRegressionCV(Cs=[0.01, 0.1, 1.0], l1_ratios=[0.0, 1.0], cv=4).fit(X, y)
    assert CVDisplay.from_estimator(both).means.max() == both.scores_.mean(axis=0).max()
    of_alpha = LinearRegressorCV(alphas=6, l1_ratios=[0.5, 1.0], cv=4).fit(X, X["age"] + 0.0 * X["dose"])
    drawn = CVDisplay.from_estimator(of_alpha)
    assert drawn.means.max() == of_alpha.scores_.mean(axis=0).max()
    assert drawn.one_standard_error >= of_alpha.alpha_
    with pytest.raises(ValueError, match="has no path"):
        PathDisplay.from_estimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match="has no scores of folds"):
        CVDisplay.from_estimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match=r"coefs must have shape \(2, d\)"):
        PathDisplay([0.1, 1.0], np.ones((3, 2)))


def test_coefficients_have_their_intervals():
    X, y, _, _ = data()
    model = LogisticRegression(standard_errors=True).fit(X, y)
    display = CoefficientDisplay.from_estimator(model, level=0.9)
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["age", "dose", "site"]
    np.testing.assert_array_equal(display.intervals, model.confint(0.9)[:3])
    ratios = CoefficientDisplay(model.summary(), names=["dose"]).plot(exponentiated=True)
    (points,) = [line for line in ratios.ax_.lines if line.get_marker() == "o"]
    assert points.get_xdata() == pytest.approx(np.exp(model.coef_[0, 1:2]))
    with pytest.raises(ValueError, match="names holds 'sex', but the coefficients are age, dose, site, intercept"):
        CoefficientDisplay(model.summary(), names=["sex"])
    with pytest.raises(ValueError, match="knows no errors of its coefficients"):
        CoefficientDisplay.from_estimator(LogisticRegression().fit(X, y))


@pytest.mark.parametrize("kind", ["deviance", "pearson", "standardised", "response"])
def test_residuals_and_leverages(kind):
    X, _, counts, _ = data()
    model = PoissonRegressor(alpha=0.0).fit(X, counts)
    display = ResidualDisplay.from_estimator(model, X, counts, kind=kind)
    drawn = display.ax_.lines[0]
    np.testing.assert_array_equal(drawn.get_ydata(), getattr(model.residuals(X, counts), kind))
    np.testing.assert_array_equal(drawn.get_xdata(), display.residuals.fitted)
    leverages = LeverageDisplay.from_estimator(model, X, counts, n_names=2)
    names = {text.get_text() for text in leverages.ax_.texts}
    assert names == {str(i) for i in np.argsort(-display.residuals.cooks)[:2]}
    with pytest.raises(ValueError, match='kind must be "deviance"'):
        display.plot(kind="raw")


def test_means_of_bins_are_those_of_their_rows():
    X, _, counts, rng = data(200)
    weights = rng.integers(0, 3, 200).astype(float)
    model = PoissonRegressor(alpha=0.0).fit(X, counts, sample_weight=weights)
    display = MeanCalibrationDisplay.from_estimator(model, X, counts, sample_weight=weights, n_bins=1)
    assert display.observed == pytest.approx([np.average(counts, weights=weights)])
    assert display.predicted == pytest.approx(display.observed)  # what the intercept sees to
    assert MeanCalibrationDisplay.from_estimator(model, X, counts, n_bins=7).observed.size == 7
    with pytest.raises(ValueError, match="y and predicted must have one shape"):
        MeanCalibrationDisplay.from_predictions(counts, counts[:-1])
    assert [rows.tolist() for rows in quantile_bins(np.array([2.0, 1.0, 1.0, 1.0]), np.ones(4), 4)] == [[1, 2, 3], [0]]


def test_a_model_of_numbers_has_residuals_too():
    X, _, counts, _ = data()
    display = ResidualDisplay.from_estimator(Ridge().fit(X, counts), X, counts, kind="response")
    assert display.ax_.get_ylabel() == "response residual"
