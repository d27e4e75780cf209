"""What users fit, against every peer: seconds from the raw arrays to the coefficients, at equal gaps of the objective.

    python benchmarks/usecases.py --data FOLDER [--only mnist-5000,...] [--rounds 2] [--limit 120]

Each fit is a process of its own, with one thread, that loads the arrays, fits once uncounted (which loads libraries and
compiled kernels) and then on the clock: once, or where a fit takes less than a second seven times and for half a second at
least, because a median of seven fits of a millisecond is one of a process that is not yet warm. A first fit of over ten
seconds counts itself. Fits of a case take turns, round by round; times are medians, wall and processor. Peers that are
not installed are left out.
The objective is computed here, from the coefficients, in float64; a fit counts for a gap when its objective is at most
that much above the best that anybody found, relative to it. Everyone has a setting as it comes, and tighter tolerances: of
the hinge, where nobody's tolerance is relative to the objective, six in each decade.

The folder holds the LIBSVM files (a9a.svm.xz ...), mnist.npz and cifar10_subset.npz. Cases are in three parts: known sets,
on which methods were developed; generated families; and sets that nobody looked at while methods were developed. Results
are kept in usecases.csv, case by case, and stand in the page again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from records import RESULTS, read_rows, table_of, write_rows
from scipy.special import logsumexp

#: Relative distances of the objective to the best known, at which times are compared.
GAPS = (1e-4, 1e-6, 1e-8, 1e-10)

#: Fits on the clock of less than a second each, at least, and the seconds that they take together, at least.
FEWEST_FITS, LEAST_SECONDS = 7, 0.5

#: Seconds of a first fit that counts, libraries and kernels loaded in it: a second one would take as long.
LONG = 10.0

#: Estimators of means by their model, and the size of the negative binomial one.
MEANS = {
    "poisson": "PoissonRegressor",
    "gamma": "GammaRegressor",
    "tweedie": "TweedieRegressor",
    "negative-binomial": "NegativeBinomialRegressor",
}
THETA = 2.0

HEAD = ("case", "gap", "finitesum, s", "best peer, s", "ratio")


class Case(NamedTuple):
    """A model and where its data come from."""

    part: str
    load: Callable[[Path], tuple[Any, Any]]
    model: str  # "logistic", "hinge", "squared-hinge", "ridge", "poisson", "gamma", "tweedie" or "negative-binomial"
    strength: float = 1.0  # C, or alpha
    has_intercept: bool = False


def of_file(name: str, *, normalised: bool = False) -> Callable[[Path], tuple[Any, Any]]:
    def load(folder: Path) -> tuple[Any, Any]:
        from finitesum.datasets import load

        data = load(folder / name)
        X, y = data.rows, np.asarray(data.labels)
        if normalised:
            lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
            X = sp.csr_array(X.multiply(1.0 / np.maximum(lengths, 1e-300)[:, None]))
        return X, np.unique(y, return_inverse=True)[1]

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
}

Fit = Callable[[Any, Any], Any]


def settings_of(case: Case, has_two: bool) -> dict[str, Callable[[], Any]]:
    """Return estimators by a name: ours and the peers', as they come and with tighter tolerances."""
    from sklearn import linear_model as sk, svm

    import finitesum as ours

    C, more, found = case.strength, {"fit_intercept": case.has_intercept}, {}

    def add(name: str, cls: Any, tols: tuple[float | None, ...], **parameters: Any) -> None:
        for tol in tols:
            given = parameters | ({} if tol is None else {"tol": tol})
            found[f"{name} {'' if tol is None else f'tol={tol:g}'}".strip()] = lambda given=given: cls(**given)

    mine = (None, 1e-2, 1e-3, 1e-4, 1e-5, 1e-7, 1e-9)
    if case.model == "logistic":
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
        add("finitesum", ours.Ridge, (None,), alpha=C, **more)
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
    return float(losses.mean()) + 0.5 * squares / (case.strength * n)


def store(X: Any, y: Any, folder: Path) -> None:
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape} if sp.issparse(X) else {"X": X}
    for name, array in {**parts, "y": y}.items():
        np.save(folder / f"{name}.npy", array)


def stored(folder: Path) -> tuple[Any, Any]:
    y = np.load(folder / "y.npy")
    if (folder / "X.npy").exists():
        return np.load(folder / "X.npy"), y
    parts = tuple(np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr"))
    return sp.csr_matrix(parts, shape=tuple(np.load(folder / "shape.npy"))), y  # which every peer takes


def fit_here(case: Case, name: str, folder: Path) -> None:
    """Fit in this process, and print seconds, processor seconds and the objective."""
    X, y = stored(folder)
    make = settings_of(case, len(np.unique(y)) == 2)[name]
    warnings.simplefilter("ignore")
    begin, used_before, times = time.perf_counter(), time.process_time(), []
    model = make().fit(X, y)
    first = time.perf_counter() - begin
    if first > LONG:
        times.append((first, time.process_time() - used_before))
    while not times or (first <= 1.0 and (len(times) < FEWEST_FITS or sum(row[0] for row in times) < LEAST_SECONDS)):
        begin, used = time.perf_counter(), time.process_time()
        model = make().fit(X, y)
        times.append((time.perf_counter() - begin, time.process_time() - used))
    seconds, used = (statistics.median(column) for column in zip(*times, strict=True))
    print(json.dumps([seconds, used, objective(case, X, y, model.coef_, model.intercept_)]))


def fitted(key: str, name: str, folder: Path, limit: float) -> tuple[float, float, float] | None:
    """Return what a child process printed; None where it took too long or failed."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    command = [sys.executable, __file__, "--child", key, name, str(folder)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=2.0 * limit, env=os.environ | threads, check=True
        )
        return tuple(json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        print(f"  {key}: {name} failed: {error.stderr.strip().splitlines()[-1:]}", flush=True)
        return None


def measure(key: str, data: Path, rounds: int, limit: float) -> list[dict[str, Any]]:
    """Return a row for each setting of a case."""
    case, runs = CASES[key], {}
    X, y = case.load(data)
    with tempfile.TemporaryDirectory() as place:
        store(X, y, Path(place))
        names = list(settings_of(case, len(np.unique(y)) == 2))
        for k in range(rounds):
            for name in names:
                if k and (not runs[name] or runs[name][0] is None or runs[name][0][0] > limit / rounds):
                    continue
                runs.setdefault(name, []).append(fitted(key, name, Path(place), limit))
                print(f"  {key}: {name}: {runs[name][-1]}", flush=True)
    rows = []
    for name, known in runs.items():
        times = [run for run in known if run is not None]
        if times:
            seconds, used = (statistics.median(run[k] for run in times) for k in (0, 1))
            row = {"case": key, "setting": name, "seconds": seconds, "processor": used, "objective": repr(times[0][2])}
            rows.append(row)
    return rows


def lines_of(key: str, rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return a line of the table for each gap: the fastest of ours, the fastest peer, and their ratio."""
    best, lines = min(float(row["objective"]) for row in rows), []
    for gap in GAPS:
        good = [row for row in rows if float(row["objective"]) - best <= gap * abs(best)]
        found = []
        for is_ours in (True, False):
            those = [row for row in good if row["setting"].startswith("finitesum") == is_ours]
            found.append(min(those, key=lambda row: float(row["processor"]), default=None))
        mine, peer = found
        ratio = f"{float(peer['processor']) / float(mine['processor']):.2f}" if mine and peer else "-"
        cells = [f"{float(row['processor']):.3g} ({row['setting']})" if row else "-" for row in found]
        lines.append(dict(zip(HEAD, (key, f"{gap:.0e}", *cells, ratio), strict=True)))
    return lines


def summary_of(table: list[dict[str, str]]) -> str:
    """Return the median and the least ratio, and how many gaps none but a peer reached, which have none."""
    ratios = [float(line["ratio"]) for line in table if line["ratio"] != "-"]
    n_missed = sum(line[HEAD[2]] == "-" != line[HEAD[3]] for line in table)
    known = f"Ratios: median {statistics.median(ratios):.2f}, least {min(ratios):.2f}." if ratios else "No ratios."
    return f"{known} Gaps that a peer alone reached: {n_missed}."


def page(rows: list[dict[str, Any]]) -> str:
    lines = [
        "# What users fit, against peers",
        "",
        "Made by `python benchmarks/usecases.py` (what is measured stands at its head). Seconds are a processor's, from",
        "the raw arrays to the coefficients, kernels compiled; a ratio is the best peer's by ours, at gaps of the",
        f"objective relative to the best known. {os.cpu_count()} cores, one thread. Cases that the last run left out",
        "keep their rows, of an earlier version and hour: a ratio is of one run, seconds of two cases need not be.",
    ]
    for part in dict.fromkeys(case.part for case in CASES.values()):
        table = [
            line
            for key, case in CASES.items()
            if case.part == part and (those := [row for row in rows if row["case"] == key])
            for line in lines_of(key, those)
        ]
        if table:
            lines += ["", f"## {part.capitalize()}", "", *table_of(table), "", summary_of(table)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the cases that the command line names, and write the page."""
    if sys.argv[1:2] == ["--child"]:
        fit_here(CASES[sys.argv[2]], sys.argv[3], Path(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--only", default=None, help="names of cases or their beginnings, with semicolons between; all without"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a fit")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = list(read_rows("usecases"))
    for key in CASES:
        if options.only is None or any(key.startswith(text) for text in options.only.split(";") if text):
            rows = [row for row in rows if row["case"] != key]
            rows += measure(key, options.data, options.rounds, options.limit)
            if not rows:
                continue
            write_rows("usecases", rows)
            (RESULTS / "usecases.md").write_text(page(rows))


if __name__ == "__main__":
    main()
