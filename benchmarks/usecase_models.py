"""The estimators that `usecases.py` measures, ours and the peers', and the objective that each model minimises."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import logsumexp
from usecase_data import MEANS, Case

#: The size of the negative binomial distribution.
THETA = 2.0


def with_strength(case: Case, X: Any, y: Any) -> Case:
    """Return a case with C or alpha, where it had a share of the least alpha that leaves all coefficients 0."""
    if not case.is_share:
        return case
    n = len(y)
    if case.model == "logistic":
        slopes = y - 0.5
    elif case.model == "quantile":
        slopes = 0.5 * np.sign(y - np.median(y) if case.has_intercept else y)
    else:
        slopes = y - y.mean() if case.has_intercept else y
    alpha = case.strength * float(np.abs(X.T @ slopes).max()) / (n * case.l1_ratio)
    return case._replace(strength=1.0 / (alpha * n) if case.model == "logistic" else alpha, is_share=False)


def settings_of(case: Case, y: Any) -> dict[str, Callable[[], Any]]:
    """Return estimators by a name: ours and the peers', as they come and with tighter tolerances."""
    from sklearn import linear_model as sk, svm

    import finitesum as ours

    has_two = len(np.unique(y)) == 2
    C, more, found = case.strength, {"fit_intercept": case.has_intercept}, {}

    def add(name: str, cls: Any, tols: tuple[float | None, ...], **parameters: Any) -> None:
        for tol in tols:
            given = parameters | ({} if tol is None else {"tol": tol})
            found[f"{name} {'' if tol is None else f'tol={tol:g}'}".strip()] = lambda given=given: cls(**given)

    mine = (None, 1e-2, 1e-3, 1e-4, 1e-5, 1e-7, 1e-9)
    if case.l1_ratio:
        for label, cls, tols, given in _with_l1(case, len(y), mine):
            add(label, cls, tols, **given, **more)
    elif case.model == "logistic":
        add("finitesum", ours.LogisticRegression, mine, C=C, **more)
        for solver, limit in (("lbfgs", 100), ("newton-cg", 100), ("newton-cholesky", 100)):
            add(f"scikit-learn {solver}", sk.LogisticRegression, (None,), C=C, solver=solver, max_iter=limit, **more)
            tight = {"C": C, "solver": solver, "max_iter": 5000, **more}
            add(f"scikit-learn {solver}", sk.LogisticRegression, (1e-6, 1e-8), **tight)
        if not case.has_intercept:
            for dual in (False, True):
                name = f"liblinear{' dual' if dual else ''}"
                parameters = {"C": C, "solver": "liblinear", "dual": dual, "max_iter": 20000, **more}
                add(name, sk.LogisticRegression, (None, 1e-2, 1e-6, 1e-8), **parameters)
        if has_two and (snapml := optional("snapml")):
            given = {"regularizer": 1.0 / C, "dual": True, "max_iter": 5000, **more}
            add("snapml", snapml.LogisticRegression, (None, 1e-5, 1e-7), **given)
    elif case.model in ("hinge", "squared-hinge"):
        loss = case.model.replace("-", "_")
        finer: tuple[float, ...] = ()
        if loss == "hinge":  # nobody's tol is relative to the objective, and time grows fast with it
            finer = tuple(part * 10.0**-k for k in range(1, 7) for part in (1.0, 0.7, 0.5, 0.3, 0.2, 0.14))
            mine = (*mine, *finer[6:], 1e-8, 1e-12)
        add("finitesum", ours.LinearSVC, mine, C=C, loss=case.model, **more)
        for dual in (True, False) if loss == "squared_hinge" else (True,):
            name = f"liblinear{' dual' if dual else ''}"
            parameters = {"C": C, "loss": loss, "dual": dual, "max_iter": 50000, **more}
            add(name, svm.LinearSVC, (None, 1e-2, 1e-6, 1e-8, *finer), **parameters)
        if snapml := optional("snapml"):
            given = {"regularizer": 1.0 / C, "loss": loss, "max_iter": 5000, **more}
            add("snapml", snapml.SupportVectorMachine, (None, 1e-5, 1e-7, *finer[6:]), **given)
    elif case.model == "ridge":
        add("finitesum", ours.Ridge, mine, alpha=C, **more)
        for solver in ("cholesky", "lsqr", "svd"):
            add(f"scikit-learn {solver}", sk.Ridge, (None, 1e-10), alpha=C, solver=solver, **more)
    else:
        name, more["alpha"] = MEANS[case.model], C
        own = {"tweedie": {"power": 1.5}, "negative-binomial": {"theta": THETA}}.get(case.model, {})
        add("finitesum", getattr(ours, name), mine, **own, **more)
        for solver in ("lbfgs", "newton-cholesky") if hasattr(sk, name) else ():
            add(f"scikit-learn {solver}", getattr(sk, name), (None, 1e-8), solver=solver, max_iter=5000, **own, **more)
        if case.model == "negative-binomial" and optional("statsmodels"):
            add("statsmodels", StatsModels, (None, 1e-10))
        if glum := optional("glum"):
            families: Any = {
                "tweedie": glum.TweedieDistribution(1.5),
                "negative-binomial": glum.NegativeBinomialDistribution(1.0 / THETA),
            }
            given = {"family": families.get(case.model, case.model), "l1_ratio": 0, "max_iter": 1000, **more}
            for tol in (1e-4, 1e-8):
                add(f"glum gradient_tol={tol:g}", glum.GeneralizedLinearRegressor, (None,), gradient_tol=tol, **given)
    return found


def _with_l1(
    case: Case, n: int, mine: tuple[float | None, ...]
) -> Iterator[tuple[str, Any, tuple[float | None, ...], dict[str, Any]]]:
    """Yield names, classes, tolerances and parameters of estimators with an l1 penalty."""
    from sklearn import linear_model as sk

    import finitesum as ours

    strength, tols = case.strength, (None, 1e-6, 1e-8, 1e-10)
    celer, skglm = optional("celer"), optional("skglm")
    if case.model == "quantile":
        yield "finitesum", ours.QuantileRegressor, mine, {"alpha": strength}
        yield "scikit-learn", sk.QuantileRegressor, (None,), {"alpha": strength}
    elif case.model == "logistic":
        yield "finitesum", ours.LogisticRegression, mine, {"C": strength, "l1_ratio": 1.0}
        given = {"C": strength, "l1_ratio": 1.0, "max_iter": 3000}
        yield "liblinear", sk.LogisticRegression, (None, 1e-2, 1e-6, 1e-8), given | {"solver": "liblinear"}
        yield "scikit-learn saga", sk.LogisticRegression, (None, 1e-6), given | {"solver": "saga"}
        if celer:
            yield "celer", celer.LogisticRegression, tols, {"C": strength}
        if skglm:  # which has alpha, of the mean
            alpha = 1.0 / (strength * n)
            yield "skglm", skglm.SparseLogisticRegression, tols, {"alpha": alpha, "max_iter": 200}
    else:
        given = {"alpha": strength, "l1_ratio": case.l1_ratio}
        yield "finitesum", ours.LinearRegressor, mine, given
        yield "scikit-learn", sk.ElasticNet, tols, given | {"max_iter": 100_000}
        if celer:
            yield "celer", celer.ElasticNet, tols, given
        if skglm:
            yield "skglm", skglm.ElasticNet, tols, given


class StatsModels:
    """The negative binomial model of statsmodels, without a penalty."""

    def __init__(self, tol: float = 1e-8) -> None:
        self._tol = tol

    def fit(self, X: Any, y: Any) -> StatsModels:
        import statsmodels.api as sm

        family = sm.families.NegativeBinomial(alpha=1.0 / THETA)
        found = sm.GLM(y, sm.add_constant(X), family=family).fit(tol=self._tol, maxiter=200)
        self.intercept_, self.coef_ = found.params[0], found.params[1:]
        return self


def optional(library: str) -> Any:
    """Return a library, None where it is not installed."""
    try:
        return importlib.import_module(library)
    except ImportError:
        return None


def objective(case: Case, X: Any, y: Any, coef: Any, intercept: Any) -> float:
    """Return the sum of losses and penalty that the case minimises, divided by the rows."""
    coef = np.atleast_2d(coef)
    scores = X @ coef.T + np.atleast_1d(intercept)
    n, squares = len(y), float(np.vdot(coef, coef))
    if case.model in ("squared", "quantile"):
        residuals = y - scores[:, 0]
        losses = 0.5 * residuals**2 if case.model == "squared" else 0.5 * np.abs(residuals)
        l1_ratio = case.l1_ratio
        penalty = l1_ratio * float(np.abs(coef).sum()) + 0.5 * (1.0 - l1_ratio) * squares
        return float(losses.mean()) + case.strength * penalty
    if case.model == "ridge":
        return float(((y - scores[:, 0]) ** 2).sum() + case.strength * squares) / n
    if case.model in MEANS:
        u = scores[:, 0]
        losses = {
            "poisson": lambda: np.exp(u) - y * u,
            "gamma": lambda: u + y * np.exp(-u),
            "tweedie": lambda: 2.0 * (np.exp(0.5 * u) + y * np.exp(-0.5 * u)),
            "negative-binomial": lambda: (y + THETA) * np.log(THETA + np.exp(u)) - y * u,
        }[case.model]()
        return float(losses.mean() + 0.5 * case.strength * squares)
    if scores.shape[1] > 1:
        losses = logsumexp(scores, axis=1) - scores[np.arange(n), y]
    else:
        margins = np.where(y > 0, 1.0, -1.0) * scores[:, 0]
        hinge = np.maximum(1.0 - margins, 0.0)
        losses = {"logistic": np.logaddexp(0.0, -margins), "hinge": hinge, "squared-hinge": hinge**2}[case.model]
    penalty = float(np.abs(coef).sum()) if case.l1_ratio else 0.5 * squares
    return float(losses.mean()) + penalty / (case.strength * n)
