"""What `usecases.py` measures: models and where their data come from.

Three parts have names: known sets, on which methods were developed; generated families; and sets that nobody looked at
while methods were developed. A fourth is drawn by a seed: the families of `auto_choice.py`, each with some model and
penalty, by numbers that no draw there has; methods were looked at on it later. The fifth, drawn by another seed, is
measured when a version is done, and not looked at before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from auto_choice import FAMILIES, MAKERS


class Case(NamedTuple):
    """A model and where its data come from."""

    part: str
    load: Callable[[Path], tuple[Any, Any]]
    model: str  # a name of MODELS
    strength: float = 1.0  # C, or alpha
    has_intercept: bool = False
    l1_ratio: float = 0.0
    is_share: bool = False  # whether the strength is a share of the least alpha that leaves all coefficients 0


#: Estimators of means by their model.
MEANS = {
    "poisson": "PoissonRegressor",
    "gamma": "GammaRegressor",
    "tweedie": "TweedieRegressor",
    "negative-binomial": "NegativeBinomialRegressor",
}


def of_file(name: str, *, normalised: bool = False, of_numbers: bool = False) -> Callable[[Path], tuple[Any, Any]]:
    def load(folder: Path) -> tuple[Any, Any]:
        from finitesum.datasets import load

        data = load(folder / name)
        X, y = data.rows, np.asarray(data.labels)
        if normalised:
            lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
            X = sp.csr_array(X.multiply(1.0 / np.maximum(lengths, 1e-300)[:, None]))
        return X, y.astype(float) if of_numbers else np.unique(y, return_inverse=True)[1]

    return load


def of_images(name: str, n: int) -> Callable[[Path], tuple[Any, Any]]:
    def load(folder: Path) -> tuple[Any, Any]:
        with np.load(folder / name) as file:
            images, labels = file["x_train"][:n], file["y_train"][:n]
        return images.reshape(len(images), -1) / 255.0, np.unique(labels, return_inverse=True)[1]

    return load


def of_sklearn(name: str) -> Callable[[Path], tuple[Any, Any]]:
    def load(folder: Path) -> tuple[Any, Any]:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return np.asarray(X, dtype=float), y

    return load


def counts(n: int, d: int, seed: int) -> Callable[[Path], tuple[Any, Any]]:
    """Return a loader of raw counts of words with Zipf's frequencies in documents of log-normal lengths, of two topics."""

    def load(folder: Path) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        frequencies = 1.0 / np.arange(1, d + 1)
        topics = [frequencies * np.exp(0.7 * rng.standard_normal(d)) for _ in range(2)]
        y, rows = rng.integers(0, 2, n), []
        lengths = np.maximum(np.exp(rng.normal(4.5, 1.0, n)).astype(int), 3)
        for label, length in zip(y, lengths, strict=True):
            words, number = np.unique(rng.choice(d, length, p=topics[label] / topics[label].sum()), return_counts=True)
            rows.append((words, number))
        starts = np.cumsum([0, *(len(words) for words, _ in rows)])
        parts = np.concatenate([c for _, c in rows]).astype(float), np.concatenate([w for w, _ in rows]), starts
        return sp.csr_array(parts, shape=(n, d)), y

    return load


def hashed(n: int, d: int, words: int, seed: int) -> Callable[[Path], tuple[Any, Any]]:
    """Return a loader of documents with Zipf's frequencies, rows of length 1, whose words are hashed to d columns."""

    def load(folder: Path) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        frequencies, places = 1.0 / np.arange(1, words + 1), rng.permutation(d)[:words]
        chosen = [np.unique(rng.choice(words, 100, p=frequencies / frequencies.sum())) for _ in range(n)]
        values = np.concatenate([np.full(row.size, row.size**-0.5) for row in chosen])
        columns, starts = places[np.concatenate(chosen)], np.cumsum([0, *(row.size for row in chosen)])
        X = sp.csr_array((values, columns.astype(np.int32), starts.astype(np.int32)), shape=(n, d))
        X.sort_indices()
        return X, (X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.0).astype(int)

    return load


def spectrum(n: int, d: int, n_classes: int, seed: int, decay: float = 0.7) -> Callable[[Path], tuple[Any, Any]]:
    """Return a loader of dense rows like embeddings, with singular values k^-decay."""

    def load(folder: Path) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        X = 3.0 * (rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -decay) @ basis
        return X, (X @ rng.standard_normal((d, n_classes)) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)

    return load


def targets(n: int, d: int, kind: str, seed: int) -> Callable[[Path], tuple[Any, Any]]:
    """Return a loader of standard normal rows with targets that are real, counts, or those of a family."""

    def load(folder: Path) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, d))
        means = X @ rng.standard_normal(d) / np.sqrt(d)
        if kind == "reals":
            return X, means + rng.standard_normal(n)
        if kind == "tweedie":  # sums of a Poisson number of gamma variables
            return X, np.exp(0.5 * means) * rng.gamma(2.0 * rng.poisson(np.exp(0.5 * means)) + 1e-300)
        varied = np.exp(means) * (1.0 if kind == "counts" else rng.gamma(2.0, 0.5, n))
        return X, varied if kind == "gamma" else rng.poisson(varied).astype(float)

    return load


def sparse(n: int, d: int, stored: int, seed: int) -> Callable[[Path], tuple[Any, Any]]:
    """Return a loader of sparse rows with so many standard normal entries each."""

    def load(folder: Path) -> tuple[Any, Any]:
        rng = np.random.default_rng(seed)
        parts = rng.standard_normal(n * stored), rng.integers(0, d, n * stored), np.arange(0, n * stored + 1, stored)
        X = sp.csr_array(parts, shape=(n, d))
        X.sum_duplicates()
        return X, (X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.0).astype(int)

    return load


CASES: dict[str, Case] = {
    "news20, 20 classes, raw counts": Case("known", of_file("news20.svm.xz"), "logistic", 1.0, True),
    "news20, 20 classes, rows of length 1": Case("known", of_file("news20.svm.xz", normalised=True), "logistic", 1.0, True),
    "mnist, 5,000 rows, 10 classes": Case("known", of_images("mnist.npz", 5000), "logistic", 1.0, True),
    "mnist, 60,000 rows, 10 classes": Case("known", of_images("mnist.npz", 60000), "logistic", 1.0, True),
    "pendigits, 10 classes": Case("known", of_file("pendigits.svm.xz"), "logistic", 1.0, True),
    "rcv1, hinge": Case("known", of_file("rcv1.subset.svm.xz"), "hinge"),
    "a9a, hinge": Case("known", of_file("a9a.svm.xz"), "hinge"),
    "covtype, hinge": Case("known", of_file("covtype.binary.scale.svm.xz"), "hinge", 0.01),
    "rcv1, squared hinge": Case("known", of_file("rcv1.subset.svm.xz"), "squared-hinge"),
    "rcv1": Case("known", of_file("rcv1.subset.svm.xz"), "logistic"),
    "a9a": Case("known", of_file("a9a.svm.xz"), "logistic"),
    "phishing": Case("known", of_file("phishing.svm.xz"), "logistic"),
    "w8a": Case("known", of_file("w8a.svm.xz"), "logistic"),
    "covtype": Case("known", of_file("covtype.binary.scale.svm.xz"), "logistic"),
    "arcene": Case("known", of_file("arcene.svm.xz"), "logistic"),
    "colon-cancer": Case("known", of_file("colon-cancer.svm.xz"), "logistic"),
    "pcmac": Case("known", of_file("pcmac.svm.xz"), "logistic"),
    "counts 1,993 x 7,862": Case("generated", counts(1993, 7862, 1), "logistic"),
    "counts 1,427 x 4,322": Case("generated", counts(1427, 4322, 2), "logistic"),
    "counts 8,000 x 20,000, squared hinge": Case("generated", counts(8000, 20000, 3), "squared-hinge"),
    "hashed text 5,000 x 1,048,576": Case("generated", hashed(5000, 2**20, 30000, 17), "logistic", 10.0),
    "hashed text 5,000 x 1,048,576, squared hinge": Case("generated", hashed(5000, 2**20, 30000, 17), "squared-hinge"),
    "embeddings 5,000 x 768": Case("generated", spectrum(5000, 768, 2, 4), "logistic", 0.1, True),
    "embeddings 5,000 x 768, 4 classes": Case("generated", spectrum(5000, 768, 4, 5), "logistic", 10.0, True),
    "embeddings 20,000 x 256, 6 classes": Case("generated", spectrum(20000, 256, 6, 6), "logistic", 1.0, True),
    "ridge 200,000 x 200": Case("generated", targets(200000, 200, "reals", 7), "ridge", 1.0, True),
    "poisson 100,000 x 50": Case("generated", targets(100000, 50, "counts", 8), "poisson", 1e-3, True),
    "gamma 100,000 x 50": Case("generated", targets(100000, 50, "gamma", 11), "gamma", 1e-3, True),
    "gamma 3,000 x 10": Case("generated", targets(3000, 10, "gamma", 12), "gamma", 1e-3, True),
    "tweedie 1.5, 100,000 x 50": Case("generated", targets(100000, 50, "tweedie", 13), "tweedie", 1e-3, True),
    "tweedie 1.5, 3,000 x 10": Case("generated", targets(3000, 10, "tweedie", 14), "tweedie", 1e-3, True),
    "negative binomial, 100,000 x 50": Case(
        "generated", targets(100000, 50, "negative", 15), "negative-binomial", 0.0, True
    ),
    "negative binomial, 3,000 x 10": Case("generated", targets(3000, 10, "negative", 16), "negative-binomial", 0.0, True),
    "sparse 100,000 x 20,000": Case("generated", sparse(100000, 20000, 30, 9), "logistic"),
    "dense 1,000 x 20": Case("generated", spectrum(1000, 20, 2, 10, 0.0), "logistic", 1.0, True),
    "breast cancer, as it comes": Case("unseen", of_sklearn("breast_cancer"), "logistic", 1.0, True),
    "wine, as it comes": Case("unseen", of_sklearn("wine"), "logistic", 1.0, True),
    "digits": Case("unseen", of_sklearn("digits"), "logistic", 1.0, True),
    "svmguide3": Case("unseen", of_file("svmguide3.svm.xz"), "logistic", 1.0, True),
    "german": Case("unseen", of_file("german.numer_scale.svm.xz"), "squared-hinge"),
    "cifar10, 2,000 rows": Case("unseen", of_images("cifar10_subset.npz", 2000), "logistic", 0.01, True),
    "w8a, test part, hinge": Case("unseen", of_file("w8a.t.svm.xz"), "hinge"),
    "cpusmall, lasso": Case("unseen", of_file("cpusmall_scale.svm.xz", of_numbers=True), "squared", 0.003, True, 1.0, True),
    "housing, median": Case("unseen", of_file("housing_scale.svm.xz", of_numbers=True), "quantile", 0.03, True, 1.0, True),
    "w8a, test part, l1": Case("unseen", of_file("w8a.t.svm.xz"), "logistic", 0.03, False, 1.0, True),
}

#: Models of a part that is drawn, one for each draw, before a seed gives their order.
MODELS = (
    *("logistic", "logistic", "logistic", "logistic", "l1 logistic", "l1 logistic", "l1 logistic"),
    *("multinomial", "multinomial", "multinomial", "hinge", "squared-hinge", "squared-hinge", "ridge"),
    *("lasso", "lasso", "elastic net", "quantile", "poisson", "gamma"),
)

#: Those of the fourth part and, behind them, of the fifth.
DRAWN_MODELS = tuple(str(model) for seed in (7, 9) for model in np.random.default_rng(seed).permutation(MODELS))


def drawn(k: int) -> Case:
    """Return draw k, its data made when they are loaded."""
    rng = np.random.default_rng([7, k])
    model, C = DRAWN_MODELS[k], float(rng.choice([0.01, 1.0, 100.0]))
    has_intercept, share = bool(rng.random() < 0.5), float(rng.choice([0.3, 0.03, 0.003]))
    plain = {"l1 logistic": "logistic", "multinomial": "logistic", "lasso": "squared", "elastic net": "squared"}
    l1_ratio = {"l1 logistic": 1.0, "lasso": 1.0, "elastic net": 0.5, "quantile": 1.0}.get(model, 0.0)
    if model in ("l1 logistic", "hinge", "squared-hinge"):  # liblinear's penalty holds the intercept, too
        has_intercept = False
    load = partial(_drawn, k, model)
    strength = C
    if l1_ratio:
        strength = share  # of the least alpha that leaves all coefficients 0
    elif model in MEANS:
        strength = 1e-3
    part = "drawn" if k < len(MODELS) else "drawn last"
    return Case(part, load, plain.get(model, model), strength, has_intercept, l1_ratio, bool(l1_ratio))


def _family(k: int) -> str:
    """Return the family of draw k: those that forecasts are fitted and checked by take turns."""
    names = sorted(name for half in FAMILIES.values() for name in half)
    return names[k % len(names)]


def _drawn(k: int, model: str, folder: Path) -> tuple[Any, Any]:
    rng = np.random.default_rng([8, k])
    X = MAKERS[_family(k)](rng, bool(rng.random() < 0.25))
    if model in MEANS:
        X = X * (3.0 / float(np.abs(X).max()))  # so that exp does not overflow
    if sp.issparse(X):
        X = sp.csr_array(X)
    n, d = X.shape
    noise = rng.choice([0.1, 0.5, 2.0])

    def signal() -> Any:
        u = X @ rng.standard_normal(d)
        return (u - np.median(u)) / (u.std() + 1e-300)

    if model == "multinomial":
        scores = np.stack([signal() for _ in range(int(rng.integers(3, 9)))], axis=1)
        return X, np.unique((scores + noise * rng.gumbel(size=scores.shape)).argmax(axis=1), return_inverse=True)[1]
    u = signal()
    if model in MEANS:
        means = np.exp(0.6 * np.clip(u, -3.0, 3.0) + rng.uniform(-1.0, 2.0))
        return X, means * rng.gamma(2.0, 0.5, n) + 1e-9 if model == "gamma" else rng.poisson(means).astype(float)
    if model in ("ridge", "lasso", "elastic net", "quantile"):
        return X, u + noise * rng.standard_t(5.0, n)
    return X, (u + noise * rng.logistic(size=n) > 0.0).astype(int)


CASES |= {f"{k + 1}: {_family(k)}, {model}": drawn(k) for k, model in enumerate(DRAWN_MODELS)}
