"""What choosing a penalty costs: ten values in five folds, against one fit at the smallest penalty, and scikit-learn.

    python benchmarks/cross_validation.py [--rounds 2] [FAMILY ...]

CPU seconds on one thread, the least of some rounds in which all take turns, with compiled kernels; the aim is a ratio of at
most 3. scikit-learn's estimators have the same strengths and folds and their own tolerances, but for Poisson, which has no
CV estimator there: GridSearchCV with its Newton solver. Without families all are measured, and the page is written.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from records import RESULTS, table_of
from sklearn import linear_model as reference
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits

from finitesum import (
    LinearRegressor,
    LinearRegressorCV,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    PoissonRegressorCV,
    Ridge,
    RidgeCV,
)
from finitesum.core.jit import without_stand_ins

#: Kind of rows, rows and columns; several classes on those with at most this many rows times columns.
SHAPES = [
    ("dense", 500, 20),
    ("dense", 5_000, 50),
    ("dense", 20_000, 200),
    ("csr", 2_000, 100),
    ("dense", 200, 1_000),
    ("independent", 400, 300),
    ("independent", 5_000, 200),
]
MOST_OF_CLASSES = 1_000_000

#: Inverse strengths of classes, and what strengths fall to relative to the first elsewhere: ten values.
INVERSE, FALLING = np.logspace(-4.0, 4.0, 10), np.geomspace(1.0, 1e-3, 10)

#: What classes are scored by, the log loss, and the optimality of the fits that scores are compared with.
SCORING, EXACT = "neg_log_loss", 1e-10

#: Columns that matter, where d is larger.
MATTER = 20


class Trial(NamedTuple):
    """One fit at the smallest penalty, ours with the choice, scikit-learn's."""

    one: Any
    ours: Any
    theirs: Any
    target: Any


def data(kind: str, n: int, d: int):
    """Return rows with columns of several sizes, correlated where they are "dense", scores of 4 classes and their noise."""
    rng = np.random.default_rng(0)
    if kind in ("dense", "independent"):
        X = rng.standard_normal((n, d)) * np.exp(rng.normal(0.0, 0.7, d))
        if kind == "dense":
            X[:, 1:] += 0.5 * X[:, :-1]
    else:
        X = scipy.sparse.random_array((n, d), density=min(1.0, 30.0 / d), format="csr", rng=rng)
        X.data = rng.standard_normal(X.nnz)
    scores = X @ (rng.standard_normal((d, 4)) * (rng.random((d, 1)) < MATTER / d))
    return X, 2.0 * scores / scores.std(axis=0), rng


def first_strength(X: Any, y: Any) -> float:
    """Return the strength of an l1 penalty from which on the squared loss leaves no coefficient."""
    return float(np.abs(X.T @ (y - y.mean())).max()) / len(y)


def squared(l1_ratio: float, theirs: Callable[..., Any]) -> Callable[..., Trial]:
    """Return the trial of the squared loss with an l1 penalty."""

    def trial(X: Any, scores: Any, rng: Any) -> Trial:
        y = scores[:, 0] + 3.0 + rng.standard_normal(len(scores))
        alphas = first_strength(X, y) / l1_ratio * FALLING
        one = LinearRegressor(alpha=alphas[-1], l1_ratio=l1_ratio)
        return Trial(one, LinearRegressorCV(alphas=alphas, l1_ratio=l1_ratio), theirs(alphas=alphas, cv=5), y)

    return trial


def ridge(X: Any, scores: Any, rng: Any) -> Trial:
    """Return the trial of ridge regression."""
    y = scores[:, 0] + 3.0 + rng.standard_normal(len(scores))
    alphas = first_strength(X, y) * len(y) * FALLING
    return Trial(Ridge(alpha=alphas[-1]), RidgeCV(alphas=alphas), reference.RidgeCV(alphas=alphas, cv=5), y)


def poisson(l1_ratio: float) -> Callable[..., Trial]:
    """Return the trial of counts; scikit-learn's has an l2 penalty only."""

    def trial(X: Any, scores: Any, rng: Any) -> Trial:
        alphas = FALLING * (1.0 if l1_ratio == 0.0 else 0.3)
        theirs = None
        if l1_ratio == 0.0:
            model = reference.PoissonRegressor(solver="newton-cholesky")
            theirs = GridSearchCV(model, {"alpha": alphas}, cv=5)
        ours = PoissonRegressorCV(alphas=alphas, l1_ratio=l1_ratio)
        counts = rng.poisson(np.exp(0.25 * scores[:, 0]))
        return Trial(PoissonRegressor(alpha=alphas[-1], l1_ratio=l1_ratio), ours, theirs, counts)

    return trial


def classes(n_classes: int, l1_ratio: float) -> Callable[..., Trial]:
    """Return the trial of logistic regression."""

    def trial(X: Any, scores: Any, rng: Any) -> Trial:
        some = scores[:, :n_classes]
        given = {"scoring": SCORING, "use_legacy_attributes": False}
        theirs = reference.LogisticRegressionCV(Cs=INVERSE, cv=5, **given) if l1_ratio == 0.0 else None
        one = LogisticRegression(C=INVERSE[-1], l1_ratio=l1_ratio)
        labels = (some + rng.gumbel(size=some.shape)).argmax(axis=1)
        return Trial(one, LogisticRegressionCV(INVERSE, l1_ratio=l1_ratio, cv=5, scoring=SCORING), theirs, labels)

    return trial


FAMILIES: dict[str, Callable[..., Trial]] = {
    "ridge": ridge,
    "lasso": squared(1.0, reference.LassoCV),
    "elastic net": squared(0.5, lambda **given: reference.ElasticNetCV(l1_ratio=0.5, **given)),
    "2 classes": classes(2, 0.0),
    "2 classes, l1": classes(2, 1.0),
    "4 classes": classes(4, 0.0),
    "Poisson": poisson(0.0),
    "Poisson, l1": poisson(1.0),
}


def cpu_seconds(fits: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the least CPU seconds of each over some rounds in which they take turns, after one that compiles."""
    least = [np.inf] * len(fits)
    for k in range(rounds + 1):
        for i, fit in enumerate(fits):
            begin = time.process_time()
            fit()
            if k > 0:
                least[i] = min(least[i], time.process_time() - begin)
    return least


def errors_of_scores(X: Any, trial: Trial) -> list[str]:
    """Return by how much mean scores of ours and of scikit-learn's are off, relative to exact ones, at most."""
    if not isinstance(trial.one, LogisticRegression) or trial.theirs is None:
        return ["nan", "nan"]
    exact = np.zeros(INVERSE.size)
    folds = list(StratifiedKFold(5).split(X, trial.target))
    for k, C in enumerate(INVERSE):
        for train, test in folds:
            model = LogisticRegression(C=C, tol=EXACT).fit(X[train], trial.target[train])
            exact[k] -= log_loss(trial.target[test], model.predict_proba(X[test]), labels=model.classes_) / len(folds)
    means = [np.asarray(model.scores_).mean(axis=0) for model in (trial.ours, trial.theirs)]
    return [f"{np.abs(mean / exact - 1.0).max():.0e}" for mean in means]


def measure(family: str, kind: str, n: int, d: int, rounds: int) -> dict[str, str]:
    """Return a row of the table."""
    X, scores, rng = data(kind, n, d)
    trial = FAMILIES[family](X, scores, rng)
    models = [model for model in trial[:3] if model is not None]
    with without_stand_ins():
        one, ours, *theirs = cpu_seconds([lambda model=model: model.fit(X, trial.target) for model in models], rounds)
        our_error, their_error = errors_of_scores(X, trial)
    return {
        "family": family,
        "data": f"{kind} {n:,} x {d:,}",
        "one fit, ms": f"{1e3 * one:.1f}",
        "choice, ms": f"{1e3 * ours:.1f}",
        "choice / one fit": f"{ours / one:.1f}",
        "scikit-learn's choice, ms": f"{1e3 * theirs[0]:.1f}" if theirs else "nan",
        "scikit-learn / ours": f"{theirs[0] / ours:.1f}" if theirs else "nan",
        "error of our scores": our_error,
        "of scikit-learn's": their_error,
    }


def main() -> None:
    """Print a line for each case, and write the page where all were measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"some of {', '.join(FAMILIES)}; all without")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    if unknown := [name for name in given.families if name not in FAMILIES]:
        parser.error(f"a family must be one of {', '.join(FAMILIES)}, got {unknown[0]!r}")
    warnings.simplefilter("ignore")
    threadpool_limits(1)
    rows = []
    for family in given.families or FAMILIES:
        for kind, n, d in SHAPES:
            if "classes" in family and n * d > MOST_OF_CLASSES:
                continue
            rows.append(measure(family, kind, n, d, given.rounds))
            print(" | ".join(rows[-1].values()), flush=True)
    if not given.families:
        (RESULTS / "cross_validation.md").write_text("\n".join([*HEAD, *table_of(rows)]) + "\n")


HEAD = [
    "# Choosing a penalty",
    "",
    "Made by `python benchmarks/cross_validation.py`: ten strengths in five folds and the fit to all rows, against one fit",
    "at the smallest penalty, and scikit-learn's estimator for the same choice (for Poisson `GridSearchCV`). CPU seconds",
    "on one thread of a machine that did other work, too, the least of some rounds in which all take turns; ratios are of",
    "the same rounds. Our last fit reaches an optimality of 1e-8, scikit-learn's have their own tolerances. The aim is a",
    "choice at 3 times one fit; `-` is where scikit-learn has no such estimator. By how much the mean scores of classes,",
    "the log loss, are off at most, relative to those of fits to an optimality of 1e-10, stands last: weak penalties need",
    "a smaller tolerance than scikit-learn's.",
    "",
]


if __name__ == "__main__":
    main()
