"""The data sets and the solvers of peers.py: each solver yields its settings, ready to be run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from finitesum import LogisticRegression, Problem
from finitesum.datasets import load

LEVELS = (1e-4, 1e-6, 1e-8, 1e-10)
FILES = ("a9a", "w8a", "mushrooms", "ijcnn1", "phishing", "covtype.binary.scale", "rcv1.subset", "news20", "mnist")
GENERATED = ("dense-100000x500", "dense-1000000x18")

#: Sets that nobody looked at while methods were developed.
UNSEEN = ("cifar100", "australian", "diabetes", "ionosphere_scale", "sonar_scale", "fourclass")


class Task(NamedTuple):
    """A problem in the formats that solvers want."""

    name: str
    X: Any  # CSR, or dense
    y: Any  # -1 and +1
    problem: Problem

    @property
    def n(self) -> int:
        return int(self.X.shape[0])


class Setting(NamedTuple):
    """A solver with one choice of its parameters."""

    solver: str
    label: str
    solve: Callable[[], Any]  # returns w, shape (d,)


def generated(n: int, d: int) -> tuple[Any, Any]:
    """Return a dense logistic model with a signal of size 2."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    way = 2.0 * rng.standard_normal(d) / math.sqrt(d)
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-X @ way)), 1.0, -1.0)


def make_task(name: str, folder: Path) -> Task:
    """Return a data set as a task."""
    if name.startswith("dense-"):
        n, d = (int(size) for size in name.removeprefix("dense-").split("x"))
        X, y = generated(n, d)
    elif name == "mnist":
        data = load(folder / "mnist.npz")
        X = np.asarray(data.rows, dtype=np.float64)
        X = np.ascontiguousarray(X[:, X.max(axis=0) > 0])
        y = np.where(np.asarray(data.labels).astype(int) % 2 == 1, 1.0, -1.0)
    elif name == "cifar100":  # the first half of the classes against the second
        with np.load(folder / "cifar100_subset.npz") as file:
            X, labels = file["x_train"].reshape(len(file["y_train"]), -1) / 255.0, file["y_train"].ravel()
        y = np.where(labels < 50, 1.0, -1.0)
    else:
        data = load(folder / f"{name}.svm.xz")
        X = data.rows
        labels = np.asarray(data.labels)
        if name == "news20":  # one class against the rest, rows of unit length
            X = sp.csr_array(X)
            lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
            X = sp.csr_array(sp.diags_array(1.0 / np.maximum(lengths, 1e-300)) @ X)
            y = np.where(labels == np.unique(labels)[0], 1.0, -1.0)
        else:
            y = np.where(labels == np.unique(labels)[-1], 1.0, -1.0)
    if sp.issparse(X):
        X = sp.csr_array(X)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return Task(name, X, y, Problem.linear(X, y, alpha=1.0 / X.shape[0]))


# -- solvers


def ours(task: Task, threads: int) -> Iterator[Setting]:
    for level in LEVELS:

        def solve(tol: float = level) -> Any:
            model = LogisticRegression(C=1.0, tol=tol, fit_intercept=False, max_iter=3000, n_threads=threads)
            return model.fit(task.X, task.y).coef_[0]

        yield Setting("finitesum", f"auto, tol={level:g}", solve)


def scikit_learn(task: Task, threads: int) -> Iterator[Setting]:
    from sklearn.linear_model import LogisticRegression as Peer

    grids: dict[str, tuple[float, ...]] = {
        "newton-cholesky": (1e-4, 1e-6, 1e-8, 1e-10),
        "newton-cg": (1e-4, 1e-6, 1e-8, 1e-10),
        "lbfgs": (1e-4, 1e-6, 1e-8, 1e-12),
        "liblinear": (1e-2, 1e-4, 1e-6, 1e-8, 1e-10),
        "saga": (1e-4, 1e-6, 1e-8),
        "sag": (1e-4, 1e-6, 1e-8),
    }
    wide = task.X.shape[1] > 3000
    formats = {"": task.X}
    if sp.issparse(task.X) and not wide:
        formats[" dense"] = task.X.toarray()
    for solver, tolerances in grids.items():
        if wide and solver == "newton-cholesky":
            continue
        for form, X in formats.items():
            for tol in tolerances:
                dual = (False, True) if solver == "liblinear" else (False,)
                for is_dual in dual:

                    def solve(X: Any = X, solver: str = solver, tol: float = tol, is_dual: bool = is_dual) -> Any:
                        model = Peer(C=1.0, solver=solver, tol=tol, fit_intercept=False, max_iter=3000, dual=is_dual)
                        return model.fit(X, task.y).coef_[0]

                    yield Setting(f"sklearn {solver}", f"tol={tol:g}{form}{' dual' if is_dual else ''}", solve)


def cyanure(task: Task, threads: int) -> Iterator[Setting]:
    from cyanure.estimators import Classifier

    for solver in ("catalyst-miso", "qning-miso", "auto"):
        for tol in (1e-4, 1e-6, 1e-9, 1e-12):

            def solve(solver: str = solver, tol: float = tol) -> Any:
                model = Classifier(
                    loss="logistic",
                    penalty="l2",
                    lambda_1=1.0 / task.n,
                    fit_intercept=False,
                    solver=solver,
                    tol=tol,
                    max_iter=1000,
                    verbose=False,
                    n_threads=threads,
                )
                X = sp.csr_matrix(task.X) if sp.issparse(task.X) else task.X
                return np.ravel(model.fit(X, task.y).get_weights())

            yield Setting("cyanure", f"{solver}, tol={tol:g}", solve)


def glum(task: Task, threads: int) -> Iterator[Setting]:
    from glum import GeneralizedLinearRegressor

    if task.X.shape[1] > 3000:
        return
    target = (task.y > 0).astype(float)
    for solver in ("irls-ls", "lbfgs"):
        for tol in (1e-4, 1e-6, 1e-8, 1e-10):

            def solve(solver: str = solver, tol: float = tol) -> Any:
                model = GeneralizedLinearRegressor(
                    family="binomial",
                    link="logit",
                    alpha=1.0 / task.n,
                    l1_ratio=0.0,
                    fit_intercept=False,
                    solver=solver,
                    gradient_tol=tol,
                    max_iter=1000,
                )
                X = sp.csc_matrix(task.X) if sp.issparse(task.X) else task.X
                return model.fit(X, target).coef_

            yield Setting("glum", f"{solver}, tol={tol:g}", solve)


def snapml(task: Task, threads: int) -> Iterator[Setting]:
    from snapml import LogisticRegression as Peer

    X = sp.csr_matrix(task.X) if sp.issparse(task.X) else task.X
    for dual in (True, False):
        for tol in (1e-4, 1e-6, 1e-9):

            def solve(dual: bool = dual, tol: float = tol) -> Any:
                model = Peer(regularizer=1.0, dual=dual, tol=tol, fit_intercept=False, max_iter=2000, n_jobs=threads)
                return np.ravel(model.fit(X, task.y).coef_)

            yield Setting("snapml", f"{'dual' if dual else 'primal'}, tol={tol:g}", solve)


def intelex(task: Task, threads: int) -> Iterator[Setting]:
    if sp.issparse(task.X):
        return
    from sklearnex.linear_model import LogisticRegression as Peer

    for tol in (1e-4, 1e-6, 1e-8, 1e-12):

        def solve(tol: float = tol) -> Any:
            model = Peer(C=1.0, solver="lbfgs", tol=tol, fit_intercept=False, max_iter=3000)
            return model.fit(task.X, task.y).coef_[0]

        yield Setting("sklearnex lbfgs", f"tol={tol:g}", solve)


PEERS: dict[str, Callable[[Task, int], Iterator[Setting]]] = {
    "scikit-learn": scikit_learn,
    "cyanure": cyanure,
    "glum": glum,
    "snapml": snapml,
    "scikit-learn-intelex": intelex,
}


# -- measuring
