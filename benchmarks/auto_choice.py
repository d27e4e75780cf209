"""Whether method="auto" takes the fastest method: generated problems, every suited method, the regret of the choice.

    python benchmarks/auto_choice.py measure [--half fit|check] [--draws 200] [--first 0] [--seconds 2.0]
    python benchmarks/auto_choice.py fit
    python benchmarks/auto_choice.py run [--half check]
    python benchmarks/auto_choice.py page

`measure` appends a line for each draw and method to benchmarks/results/auto_choice.csv. A draw has rows, columns,
density, scale, offset, redundancy, label noise, loss, intercept, penalty and tol. Every method of Newton's kind that
treats it, of losses with corners every exact one, and for classes L-BFGS, too, is run twice, from the checked arrays to
the coefficients, on one thread, by the processor's clock; the shorter time counts, and runs that compile do not. A
method is given up after five times the seconds of the fastest so far. (SAGA, in a first round, was the fastest on 4 of
534 draws.) Of no kind of problem have the halves a family of data in common: `fit` writes the figures of
`finitesum.methods.forecasts` by the one, and the page shows the other: what `choose` takes of it, by the seconds of the
best method. `run` measures `auto` itself, beside the best method once more.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba.core import event
from records import RESULTS, table_of
from scipy.optimize import least_squares
from threadpoolctl import threadpool_limits

from finitesum import Problem, minimize
from finitesum.core.jit import without_stand_ins
from finitesum.methods import as_method, forecasts
from finitesum.methods.auto import choose
from finitesum.methods.auto.corner_costs import features_of, typical_seconds
from finitesum.methods.auto.corners import matrices_of
from finitesum.methods.auto.outputs import FEW_OF_OUTPUTS, with_label
from finitesum.methods.base import is_suited, label_of
from finitesum.methods.cost_model import has_few_rows, hessian_sample
from finitesum.problems.input import stored_well

TABLE = RESULTS / "auto_choice.csv"
FIELDS = ("half", "draw", "method", "seconds", "converged", "passes", "hessian_passes", "steps")

FAMILIES = {"fit": ("dense", "filled", "sparse", "counts"), "check": ("embeddings", "signals", "categories", "text")}
SMOOTH_LOSSES = ("logistic", "logistic", "logistic", "squared-hinge", "smoothed-hinge", "poisson", "huber")
OF_NEWTON = ("newton", "lazy-newton", "newton-cg", "lbfgs", "working-set-newton", "coordinate-descent")

#: Those that are for l1 penalties.
OF_L1 = ("working-set-newton", "coordinate-descent")
OF_CORNERS = ("interior-point", "semismooth-newton", "dual-ascent")
OF_CLASSES = forecasts.OF_CLASSES
CANDIDATES = (*OF_NEWTON, *OF_CORNERS, *OF_CLASSES)

#: How strongly effects of standardised features are held at 0, in runs.
RIDGE = 12.0

#: The same of the powers that counts grow with, and the least count that is looked at.
COUNTS_HELD, LEAST_COUNT = 4.0, 0.1

#: A run is given up after this many times the seconds of the fastest, and these.
GIVE_UP, LEAST_SECONDS = 5.0, 0.05

#: The first of the draws with many rows, and of those with losses of a mean, every other four of which have many rows, as
#: every fourth four of those with corners.
TALL, OF_MEANS = 1000, 2000

#: The first of the draws with losses that have corners, the first of those with rare labels, and these losses.
CORNERS, RARE = 3000, 3500
CORNERED = ("hinge", "hinge", "hinge", "absolute", "quantile", "epsilon-insensitive")

#: The first of the draws with several classes, and how many these are, at least and at most.
CLASSES, N_CLASSES = 4000, (3, 12)

#: The first of the draws that have an l1 penalty each, and the first of those that have the squared loss, too.
WITH_L1, QUADRATIC = 5000, 6000

#: The first of the draws whose columns hardly depend on each other, and their families.
INDEPENDENT, OF_INDEPENDENT = 7000, ("independent", "binary")

#: The first of the draws with several classes on such columns, and the family of each half.
INDEPENDENT_CLASSES, OF_CLASSES_TOO = 8000, {"fit": "independent", "check": "binary"}

#: The first of the draws with losses of a mean on such columns.
INDEPENDENT_MEANS = 9000

#: The first of the draws with the squared loss and an l2 penalty, of all families of their half but the independent ones,
#: and what is compared there.
SQUARES, OF_SQUARES = 10_000, ("newton", "newton-cg")

#: The first of the draws with well-separated groups of rows and with few rows for each column, and their families. The
#: half that is fitted to says what Newton's method with few rows takes; effects are fitted without them, which they left
#: as they are.
WIDE, OF_WIDE = 11_000, {"fit": ("clusters", "neighbours"), "check": ("pixels", "factors")}

#: The first of the draws with an l1 penalty on such rows and on columns that hardly depend on each other: with the squared
#: loss, and with others; and their families.
WIDE_QUADRATIC, WIDE_L1 = 12_000, 13_000
OF_WIDE_L1 = {"fit": ("independent", "clusters", "neighbours"), "check": ("binary", "pixels", "factors")}

#: Kinds of draws that regrets are shown of.
KINDS = ("l2", "squares", "l1", "quadratic l1", "corners", "classes")

#: Runs that are measured of a method on a draw, and those at most that compile and are not.
N_RUNS, MOST_COMPILED = 2, 4


def _shape(rng: Any, tall: bool, rows: tuple[float, float], columns: tuple[float, float]) -> tuple[int, int]:
    """Return rows and columns by the exponents of 10 that they are drawn between."""
    n, d = int(10 ** rng.uniform(*((4.5, 5.7) if tall else rows))), int(10 ** rng.uniform(*columns))
    return min(n, int((1e7 if tall else 5e6) / d)), d


def _dense(rng: Any, tall: bool) -> Any:
    """Rows of low rank with noise; columns of several sizes, or off-centre."""
    n, d = _shape(rng, tall, (2.3, 4.5), (0.7, 2.75))
    basis = rng.standard_normal((max(1, int(d * rng.uniform(0.3, 1.0))), d))
    X = rng.standard_normal((n, len(basis))) @ basis / np.sqrt(len(basis)) + 0.1 * rng.standard_normal((n, d))
    return X * 10 ** rng.uniform(0.0, rng.choice([0.0, 1.0]), d) + rng.choice([0.0, 0.0, 30.0])


def _independent(rng: Any, tall: bool) -> Any:
    """Rows with a little of each column in the others; columns of one size or of several."""
    n, d = _shape(rng, tall, (2.3, 4.5), (0.7, 3.0))
    X = rng.standard_normal((n, d)) if rng.random() < 0.5 else rng.uniform(-1.0, 1.0, (n, d))
    X = X @ (np.eye(d) + rng.choice([0.0, 0.3, 1.0]) / np.sqrt(d) * rng.standard_normal((d, d)))
    return X * 10 ** rng.uniform(0.0, rng.choice([0.0, 0.0, 1.0]), d)


def _binary(rng: Any, tall: bool) -> Any:
    """Columns of 0 and 1 with frequencies of their own, some of which follow another one."""
    n, d = _shape(rng, tall, (2.3, 4.5), (0.7, 3.0))
    X = (rng.random((n, d)) < rng.uniform(0.03, 0.97, d)).astype(float)
    for j in rng.permutation(d)[: int(rng.choice([0.0, 0.3]) * d)]:
        X[:, j] = np.where(rng.random(n) < rng.uniform(0.1, 0.8), X[:, j - 1], X[:, j])
    return X


def _embeddings(rng: Any, tall: bool) -> Any:
    """Rows with a decaying spectrum."""
    n, d = _shape(rng, tall, (2.5, 4.3), (1.3, 2.8))
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -rng.uniform(0.2, 1.2)) @ rotation


def _signals(rng: Any, tall: bool) -> Any:
    """Neighbouring columns alike, with heavy tails, in units of their own."""
    n, d = _shape(rng, tall, (2.3, 4.5), (0.5, 2.5))
    X = rng.standard_t(rng.choice([3.0, 30.0]), (n, d))
    for j in range(1, d):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    return X * 10 ** rng.uniform(-0.5, rng.choice([-0.5, 0.7]), d) + rng.choice([0.0, 5.0])


def _sparse(rng: Any, tall: bool, *, counts: bool = False, least: float = 5.0, most: float = 80.0) -> Any:
    """Columns of very different frequency."""
    n, d = (int(10 ** rng.uniform(*e)) for e in (((4.4, 5.2), (1.3, 3.0)) if tall else ((2.3, 4.4), (1.8, 4.3))))
    lengths = np.maximum(rng.lognormal(np.log(rng.uniform(least, most)), 0.7, n).astype(int), 1)
    columns = np.minimum((d ** rng.random(lengths.sum())).astype(int), d - 1)
    values = rng.geometric(0.5, columns.size).astype(float) if counts else rng.standard_normal(columns.size)
    X = sp.csr_array(sp.csr_matrix((values, columns, np.append(0, lengths.cumsum())), shape=(n, d)))
    X.sum_duplicates()
    return X


def _categories(rng: Any, tall: bool) -> Any:
    """One-hot columns of some categories with frequent and rare levels."""
    exponents = (4.5, 5.5) if tall else (2.5, 4.5)
    n, levels, blocks = int(10 ** rng.uniform(*exponents)), int(10 ** rng.uniform(0.5, 3.3)), int(rng.integers(3, 25))
    draws = np.minimum((levels * rng.random((n, blocks)) ** rng.uniform(1.0, 3.0)).astype(int), levels - 1)
    columns = (draws + levels * np.arange(blocks)).ravel()
    ends = np.arange(0, n * blocks + 1, blocks)
    X = sp.csr_array(sp.csr_matrix((np.ones(columns.size), columns, ends), shape=(n, levels * blocks)))
    X.sum_duplicates()
    return X


def _text(rng: Any, tall: bool) -> Any:
    """Logarithms of counts by the rarity of columns, rows of length 1."""
    X = _sparse(rng, tall, counts=True, least=20.0, most=150.0)
    seen = np.bincount(X.indices, minlength=X.shape[1])
    X.data = (1.0 + np.log(X.data)) * np.log(1.0 + X.shape[0] / (1.0 + seen))[X.indices]
    sizes = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(sizes, np.diff(X.indptr))
    return X


def _few_rows(rng: Any) -> tuple[int, int]:
    """Return rows and columns of which there are as many, about, or more."""
    n = int(10 ** rng.uniform(2.0, 3.3))
    return n, min(int(n * 10 ** rng.uniform(-0.5, 0.9)), 4000)


def _standardised(rng: Any, X: Any) -> Any:
    """Return columns of mean 0 and size 1, or as they are."""
    return (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9) if rng.random() < 0.5 else X


def _clusters(rng: Any, tall: bool) -> Any:
    """Rows around some centres, near to each other or far apart."""
    n, d = _shape(rng, tall, (2.0, 4.0), (0.7, 3.6))
    centres = rng.standard_normal((int(rng.integers(2, 20)), d)) * 10 ** rng.uniform(-1.3, 0.3)
    return _standardised(rng, centres[rng.integers(0, len(centres), n)] + rng.standard_normal((n, d)))


def _neighbours(rng: Any, tall: bool) -> Any:
    """Few rows for each column, which is independent of others or like its neighbour."""
    n, d = _few_rows(rng)
    X, alike = rng.standard_normal((n, d)), rng.choice([0.0, 0.5, 0.9])
    for j in range(1, d) if alike > 0.0 else ():
        X[:, j] = alike * X[:, j - 1] + np.sqrt(1.0 - alike**2) * X[:, j]
    return _standardised(rng, X * np.exp(rng.choice([0.0, 0.0, 1.0]) * rng.standard_normal(d)))


def _pixels(rng: Any, tall: bool) -> Any:
    """Spots on some patterns, the rest 0."""
    n, d = _shape(rng, tall, (2.0, 4.0), (1.0, 3.2))
    patterns = np.maximum(rng.random((int(rng.integers(5, 60)), d)) - 0.6, 0.0)
    return _standardised(rng, patterns[rng.integers(0, len(patterns), n)] * rng.random((n, d)))


def _factors(rng: Any, tall: bool) -> Any:
    """Few rows for each column, from factors of falling size, and noise."""
    n, d = _few_rows(rng)
    sizes = np.arange(1, min(n, d) + 1) ** -rng.uniform(0.0, 1.2)
    X = (rng.standard_normal((n, sizes.size)) * sizes) @ rng.standard_normal((sizes.size, d)) / np.linalg.norm(sizes)
    return _standardised(rng, X + rng.choice([0.0, 0.1, 1.0]) * rng.standard_normal((n, d)))


def _with_classes(rng: Any, family: str, X: Any) -> tuple[str, dict[str, Any], float]:
    """Return a draw with classes on these rows, with an l2 penalty: see `drawn`."""
    (n, d), n_classes = X.shape, int(rng.integers(N_CLASSES[0], N_CLASSES[1] + 1))
    signal = X @ rng.standard_normal((d, n_classes))
    signal = (signal - np.median(signal, axis=0)) / (signal.std(axis=0) + 1e-300)
    noise = rng.choice([0.1, 0.5, 2.0])
    y = (signal + noise * rng.gumbel(size=signal.shape)).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    C, tol = float(10 ** rng.uniform(-2.0, 2.0)), float(10.0 ** -rng.uniform(2.0, 8.0))
    has_intercept = bool(rng.random() < 0.5)
    given = {"X": stored_well(X), "y": y, "loss": "multinomial", "alpha": 1.0 / (C * n), "fit_intercept": has_intercept}
    what = f"{family} {n:,} x {d:,}, {n_classes} classes, C = {C:.2g}, noise {noise:g}, tol {tol:.1g}"
    scale = float(np.linalg.norm(X.T @ (np.eye(n_classes)[y] - 1.0 / n_classes))) / n + 1e-300
    return what + (", intercept" if has_intercept else ""), given, tol * scale


MAKERS: dict[str, Any] = {
    "dense": _dense,
    "filled": lambda rng, tall: sp.csr_array(_dense(rng, tall)),
    "sparse": _sparse,
    "counts": lambda rng, tall: _sparse(rng, tall, counts=True),
    "embeddings": _embeddings,
    "signals": _signals,
    "categories": _categories,
    "text": _text,
    "independent": _independent,
    "binary": _binary,
    "clusters": _clusters,
    "neighbours": _neighbours,
    "pixels": _pixels,
    "factors": _factors,
}


def drawn(half: str, k: int) -> tuple[str, dict[str, Any], float]:
    """Return draw k in words, what `Problem.linear` is given, and tol."""
    rng = np.random.default_rng([list(FAMILIES).index(half), k])
    family = OF_INDEPENDENT[k % 2] if INDEPENDENT <= k < SQUARES else FAMILIES[half][k % 4]
    family = OF_WIDE[half][k % 2] if WIDE <= k < WIDE_QUADRATIC else family
    family = OF_WIDE_L1[half][k % 3] if k >= WIDE_QUADRATIC else family
    has_classes = CLASSES <= k < WITH_L1 or INDEPENDENT_CLASSES <= k < INDEPENDENT_MEANS
    family = OF_CLASSES_TOO[half] if has_classes and k >= INDEPENDENT_CLASSES else family
    X = MAKERS[family](rng, k >= TALL if k < OF_MEANS else k // 4 % (2 if k < CORNERS else 4 if k < CLASSES else 8) == 1)
    if has_classes:
        return _with_classes(rng, family, X)
    of_means = k // 16 % 3 == 2 if WITH_L1 <= k < QUADRATIC else OF_MEANS <= k < CORNERS or INDEPENDENT_MEANS <= k < SQUARES
    X = X * (3.0 / float(np.abs(X).max())) if of_means else X  # so that exp does not overflow
    n, d = X.shape
    signal = X @ rng.standard_normal(d)
    signal = (signal - np.median(signal)) / (signal.std() + 1e-300)
    noise = rng.choice([0.1, 0.5, 2.0])
    noisy = signal + noise * rng.logistic(size=n)
    y: Any = np.where(noisy > (0.0 if k < RARE else np.quantile(noisy, rng.uniform(0.5, 0.99))), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    kind = rng.choice(["l2", "l2", "l2", "l2", "l1", "elastic-net", "hinge"])
    loss = "hinge" if kind == "hinge" else str(rng.choice(SMOOTH_LOSSES))
    C, tol = float(rng.choice([0.01, 1.0, 100.0])), float(rng.choice([1e-3, 1e-6, 1e-8]))
    if k >= WIDE_QUADRATIC:
        kind = str(rng.choice(["l1", "l1", "elastic-net"]))
        loss = "squared" if k < WIDE_L1 else str(rng.choice(SMOOTH_LOSSES))
        tol = float(10.0 ** -rng.uniform(2.0, 8.0))
    elif k >= INDEPENDENT:
        kind, loss = "l2", "squared" if SQUARES <= k < WIDE else str(rng.choice(SMOOTH_LOSSES))
        C, tol = float(10 ** rng.uniform(-2.5, 2.5)), float(10.0 ** -rng.uniform(2.0, 8.0))
    elif k >= WITH_L1:
        kind, loss = str(rng.choice(["l1", "l1", "elastic-net"])), str(rng.choice(SMOOTH_LOSSES))
        tol = float(10.0 ** -rng.uniform(2.0, 8.0))
        loss = "squared" if k >= QUADRATIC else loss
    elif k >= CORNERS:
        kind, loss = "l2", str(rng.choice(CORNERED))
        C, tol = float(10 ** rng.uniform(-2.0, 2.0)), float(10.0 ** -rng.uniform(2.0, 8.0))
    largest = float(np.abs(X).max()) * np.sqrt(d)
    unsuited = "dense", "filled", "signals", "independent", "binary", *(OF_WIDE_L1[half] if k >= WIDE_QUADRATIC else ())
    if loss == "poisson" and (largest > 1e3 or family in unsuited):
        loss = "logistic"  # exp overflows
    if CORNERS <= k < CLASSES:
        y = y if loss == "hinge" else signal + noise * rng.standard_t(3, n)
    elif of_means and kind != "hinge":
        loss = str(rng.choice(["poisson", "poisson", "gamma", "tweedie", "negative-binomial"]))
        means = np.exp(rng.uniform(0.3, 1.0) * np.clip(signal, -3, 3) + rng.uniform(-2.0, 2.0))
        varied = means * rng.gamma(1.0 / noise, noise, n)
        number = rng.poisson(varied).astype(float)
        y = {"gamma": varied + 1e-9, "tweedie": varied * (number > 0.0)}.get(loss, number)
    elif loss == "poisson":
        y = rng.poisson(np.exp(np.clip(0.3 * signal, -3, 3))).astype(float)
    elif loss in ("huber", "squared"):
        y = signal + noise * rng.standard_t(3, n)
    alpha, l1_ratio = 1.0 / (C * n), {"l1": 1.0, "elastic-net": 0.5}.get(kind, 0.0)
    scale = float(np.linalg.norm(X.T @ y) / n) + 1e-300
    if l1_ratio:  # by what leaves all coefficients 0
        part = float(rng.choice([0.3, 0.03, 0.003]) if k < WITH_L1 else 10.0 ** -rng.uniform(0.3, 2.7))
        alpha = float(np.abs(X.T @ y).max() / n) * part
    if CORNERS <= k < CLASSES:
        scale = 1.0
    elif loss == "hinge":
        scale, tol = 1.0, max(tol, 1e-6)
    has_intercept = bool(rng.random() < 0.5)
    given = {
        "X": stored_well(X),
        "y": y,
        "loss": loss,
        "alpha": alpha,
        "l1_ratio": l1_ratio,
        "fit_intercept": has_intercept,
    }
    strength = f"alpha = {alpha:.1g}" if l1_ratio else f"C = {C:g}"
    what = f"{family} {n:,} x {d:,}, {loss}, {kind}, {strength}, noise {noise:g}, tol {tol:g}"
    return what + (", intercept" if has_intercept else ""), given, tol * scale


def _fits(problem: Problem, name: str) -> bool:
    """Return whether a method treats a problem at all, in a time that is not out of the question."""
    if name == "auto":
        return True
    if problem.n_outputs > 1 or name in OF_CLASSES:
        is_tiny = name == "newton" and problem.dim <= FEW_OF_OUTPUTS
        return problem.n_outputs > 1 and (is_tiny or name in forecasts.known_methods(problem))
    if not is_suited(as_method(name), problem):
        return False
    if name in OF_L1 and not problem.term.has_l1:
        return False
    if _kind_of(problem) == "squares" and name not in OF_SQUARES:
        return False
    n, d = problem.n_rows, problem.dim
    may_be_of_rows = name == "interior-point" or _kind_of(problem) == "squares"
    order = min(n, d) if may_be_of_rows and not problem.term.has_l1 else d
    by_matrix = name in ("newton", "lazy-newton", "interior-point", "semismooth-newton")
    return not by_matrix or (order <= 3000 and (problem.rows.is_sparse() or n * order * order <= 3e10))


class Compiling(event.Listener):
    """The seconds that this process has compiled for."""

    def __init__(self) -> None:
        self.seconds, self.depth, self.began = 0.0, 0, 0.0

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.began = time.process_time()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.process_time() - self.began


def measure_draw(half: str, k: int, best: float, tried: set[str], compiling: Compiling, names: Any, out: Any) -> None:
    """Send a line for each method that treats draw k and was not tried; runs that compile are begun again.

    Where names are given, it is these, the first of which was the fastest before.
    """
    _, given, tol = drawn(half, k)
    problem = Problem.linear(**given)
    for name in names or dict.fromkeys((label_of(choose(problem, tol).method), *CANDIDATES)):
        if name in tried or not _fits(problem, name):
            continue
        limit, times = max(GIVE_UP * best, LEAST_SECONDS), []
        for _ in range(N_RUNS + MOST_COMPILED):
            began, compiled = time.process_time(), compiling.seconds
            out.send(("begins", name, limit))
            result = minimize(
                Problem.linear(**given),
                method=name if name == "auto" else with_label(name),
                tol=tol,
                max_iter=1e5,
                measure_every=0,
                callback=lambda _, over=began + limit - compiled: time.process_time() - compiling.seconds > over,
            )
            seconds = time.process_time() - began
            if compiling.seconds == compiled:
                times.append(seconds)
            if len(times) == N_RUNS or (times and (min(times) > limit or not result.success)):
                break
        if result.success:
            best = min(best, *times)
        counts = (result.n_passes, result.n_hessian_passes, result.nit)
        label = "best again" if names and name == names[0] != "auto" else name
        out.send(("line", label, min(times, default=limit), result.success, *counts))
    out.send(("done",))


def _work(half: str, draws: list[int], most_seconds: float, tried: set[str], best: float, names: Any, out: Any) -> None:
    compiling = Compiling()
    event.register("numba:compile", compiling)
    with threadpool_limits(1):
        for k in draws:
            out.send(("draw", k))
            measure_draw(half, k, best, tried, compiling, names.get(k), out)
            tried, best = set(), most_seconds / GIVE_UP


def measure(half: str, draws: list[int], most_seconds: float, table: Path, names: dict[int, Any]) -> None:
    """Measure draws in a process, which is replaced where one pass of a method outlasts its limit by far."""
    context = multiprocessing.get_context("fork")
    is_new = not table.exists()
    tried, best, k = set[str](), most_seconds / GIVE_UP, draws[0]
    with table.open("a", newline="") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(FIELDS)
        while draws:
            here, there = context.Pipe(duplex=False)
            process = context.Process(
                target=_work, args=(half, draws, most_seconds, tried, best, names, there), daemon=True
            )
            process.start()
            there.close()
            patience = 120.0
            try:
                while here.poll(patience):
                    kind, *found = here.recv()
                    if kind == "draw" and found[0] != k:
                        tried, best = set(), most_seconds / GIVE_UP
                    if kind == "draw":
                        k, patience = found[0], 120.0
                        print(half, k, *drawn(half, k)[:1], flush=True)
                    elif kind == "begins":
                        tried.add(found[0])
                        patience = 20.0 + 5.0 * found[1]
                    elif kind == "line":
                        name, seconds, is_converged, *counts = found
                        best = min(best, seconds) if is_converged else best
                        writer.writerow((half, k, name, f"{seconds:.6f}", int(is_converged), *(f"{c:.5g}" for c in counts)))
                        file.flush()
                    else:
                        draws = draws[1:]
                print("  given up:", *list(tried)[-1:], flush=True)
            except EOFError:
                pass
            process.terminate()
            process.join()


def read(table: Path) -> dict[tuple[str, int], dict[str, dict[str, float]]]:
    """Return what was measured of each draw, by method."""
    found: dict[tuple[str, int], dict[str, dict[str, float]]] = {}
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            figures = {name: float(row[name]) for name in FIELDS[3:]}
            found.setdefault((row["half"], int(row["draw"])), {})[row["method"]] = figures
    return {
        key: lines for key, lines in found.items() if any(lines[name]["converged"] for name in CANDIDATES if name in lines)
    }


def _order_of(line: dict[str, float]) -> float:
    return line["seconds"] if line["converged"] else float("inf")


def fastest(lines: dict[str, dict[str, float]]) -> float:
    return min(line["seconds"] for name, line in lines.items() if line["converged"] and name in CANDIDATES)


def seconds_of(line: dict[str, float], best: float) -> tuple[float, float]:
    """Return what a run took and the weight that it has: one that was given up counts half, by its limit and a third."""
    if line["converged"]:
        return line["seconds"], 1.0
    return 1.3 * max(line["seconds"], GIVE_UP * best), 0.5


class Observation(NamedTuple):
    """What a method took on a draw, and what the forecasts know of it."""

    seconds: float
    weight: float
    counts: tuple[float, float, float]
    of_one: Any  # (3, terms)  what one pass, Hessian and step come to
    of_usual: Any  # the same, of the counts that are usual
    features: dict[str, float]


def _kind_of(problem: Problem) -> str:
    """Return the kind of a draw: see `KINDS`."""
    if problem.n_outputs > 1:
        return "classes"
    if not problem.loss.is_smooth():
        return "corners"
    is_quadratic = problem.loss.d2_lipschitz() == 0.0
    if not problem.term.has_l1:
        return "squares" if is_quadratic else "l2"
    return "quadratic l1" if is_quadratic else "l1"


def observations(table: Path) -> dict[str, dict[str, list[Observation]]]:
    """Return those of the half that is fitted to, by kind and method; a method that was given up counts by its limit."""
    found: dict[str, dict[str, list[Observation]]] = {kind: {} for kind in KINDS if kind != "corners"}
    for (half, k), lines in read(table).items():
        if half != "fit" or CORNERS <= k < CLASSES or WIDE <= k < WIDE_QUADRATIC:
            continue
        _, given, tol = drawn(half, k)
        problem = Problem.linear(**given)
        if not problem.loss.is_smooth():
            continue
        known, best = forecasts.features_of(problem, tol), fastest(lines)
        for name in OF_CLASSES if problem.n_outputs > 1 else OF_NEWTON:
            if name not in lines or (name in OF_L1 and problem.is_smooth):
                continue
            if name == "lbfgs" and "redundancy" not in known:  # which it is not compared for
                continue
            if name == "newton" and _kind_of(problem) == "squares" and has_few_rows(problem):  # which has prices of its own
                continue
            needs_all = name == "lbfgs" or problem.n_outputs > 1 or _kind_of(problem) == "quadratic l1"
            features = {key: value for key, value in known.items() if needs_all or key != "redundancy"}
            line = lines[name]
            units = [forecasts.Counts(*row) for row in np.eye(3)]
            of_one = np.array([forecasts.terms_of(name, problem, unit) for unit in units])
            of_usual = of_one.copy()
            if name == "lazy-newton" and problem.is_smooth:
                of_usual[1] *= hessian_sample(problem) / problem.n_rows
            seconds, weight = seconds_of(line, best)
            counts = line["passes"], line["hessian_passes"], line["steps"]
            one = Observation(seconds, weight, counts, of_one, of_usual, features)
            found[_kind_of(problem)].setdefault(name, []).append(one)
    return found


def powers_of(seen: list[Observation]) -> Any:
    """Return the logarithms of counts as linear functions of the features that they grow with, shape (3, features + 1)."""
    X = np.array([[1.0, *(one.features[key] for key in forecasts.OF_COUNTS)] for one in seen])
    logs = np.log(np.maximum([one.counts for one in seen], LEAST_COUNT))
    held = COUNTS_HELD * np.diag([0.0] + [1.0] * (X.shape[1] - 1))
    return np.linalg.solve(X.T @ X + held, X.T @ logs).T


def fitted(name: str, seen: list[Observation]) -> dict[str, Any]:
    """Return prices, usual counts and effects by least squares on the logarithms of seconds."""
    over = [one for one in seen if one.weight == 1.0]
    terms = np.array([one.counts @ one.of_one for one in over])
    logs = np.log([one.seconds for one in over])
    held = np.full(terms.shape[1], 0.1)
    held[3:4] = 2.0  # of factors of large matrices, as flops cost: the draws have small ones
    start = np.zeros(held.size)

    def errors(exponents: Any) -> Any:
        return np.concatenate([np.log(terms @ np.exp(exponents)) - logs, held * exponents])

    prices = np.exp(least_squares(errors, start, loss="soft_l1", f_scale=0.5).x)
    powers = powers_of(over)
    if name == "lazy-newton":
        powers[1] = np.log(2.0), 0.0, 0.0  # of the sample
    if name in ("newton-cg", "lbfgs", "multinomial-newton cg"):
        powers[1] = -np.inf, 0.0, 0.0
    counts = [np.exp(powers @ [1.0, *(one.features[key] for key in forecasts.OF_COUNTS)]) for one in seen]
    logs = np.array([np.log(one.seconds / (c @ one.of_usual @ prices)) for one, c in zip(seen, counts, strict=True)])
    rows, error = effects_of(seen, logs)
    return {"prices": prices, "counts": powers, "effects": rows, "error": error, "n": len(seen)}


def effects_of(seen: list[Any], logs: Any) -> tuple[dict[str, tuple[float, float, float]], float]:
    """Return the effects of features on logarithms, with the ranges of the features, and the error that is left."""
    features = {key: np.array([one.features[key] for one in seen]) for key in seen[0].features if key != "one"}
    weights = np.array([one.weight for one in seen])
    means = {key: np.average(column, weights=weights) for key, column in features.items()}
    sizes = {key: max(float(column.std()), 0.15) for key, column in features.items()}
    X = np.column_stack([(column - means[key]) / sizes[key] for key, column in features.items()])
    constant, effects = float(np.average(logs, weights=weights)), np.zeros(X.shape[1])
    for _ in range(20):  # Huber's weights
        left = logs - constant - X @ effects
        robust = weights * np.minimum(1.0, 0.8 / np.maximum(np.abs(left), 1e-9))
        constant = float(np.average(logs - X @ effects, weights=robust))
        effects = np.linalg.solve((X.T * robust) @ X + RIDGE * np.eye(X.shape[1]), (X.T * robust) @ (logs - constant))
    by_name = {key: effect / sizes[key] for key, effect in zip(features, effects, strict=True)}
    constant -= sum(by_name[key] * means[key] for key in features)
    rows = {"one": (constant, 1.0, 1.0)}
    rows |= {key: (by_name[key], float(column.min()), float(column.max())) for key, column in features.items()}
    error = float(np.std(logs - constant - sum(by_name[key] * column for key, column in features.items())))
    return rows, error


class Cornered(NamedTuple):
    """What a method took on a draw with a loss that has corners."""

    log: float  # of its seconds by its price
    weight: float
    features: dict[str, float]


def of_corners(table: Path) -> dict[str, list[Cornered]]:
    """Return the observations of the half that is fitted to, by method; one that was given up counts by its limit."""
    found: dict[str, list[Cornered]] = {name: [] for name in OF_CORNERS}
    for (half, k), lines in read(table).items():
        if half != "fit" or not CORNERS <= k < CLASSES:
            continue
        _, given, tol = drawn(half, k)
        problem = Problem.linear(**given)
        prices, features = typical_seconds(problem, matrices_of(problem)[0], fits=True), features_of(problem, tol)
        for name in OF_CORNERS:
            if name in lines and name in prices:
                seconds, weight = seconds_of(lines[name], fastest(lines))
                found[name].append(Cornered(float(np.log(seconds / prices[name])), weight, features))
    return found


def _numbers(values: Any) -> str:
    return f"[{', '.join(f'{number:.4g}' for number in values)}]"


def fit(table: Path) -> None:
    """Write the figures that forecasts are made with."""
    lines = [
        "# Prices, usual counts and effects of forecasts (finitesum.methods.forecasts), by kind of problem and method.",
        "# Written by `python benchmarks/auto_choice.py fit` from benchmarks/results/auto_choice.csv: not by hand.",
        "# prices: of a step (ms), a pass, a Hessian, d^3 (10 ps) and d^2 (ns) of each step, these again for l1 penalties.",
        "# counts: logarithm of passes, Hessians (lazy-newton: of its sample) and steps, by digits and by height.",
        "# effects: factor, least and largest feature.",
    ]
    with without_stand_ins():  # as where the kernels are compiled, which was measured
        smooth, cornered = observations(table), of_corners(table)
    for of_draws, methods in smooth.items():
        kind = {"l2": "smooth", "quadratic l1": "quadratic"}.get(of_draws, of_draws)
        for name, seen in methods.items():
            found = fitted(name, seen)
            print(f"{kind} {name}: {found['n']} runs, error {found['error']:.2f} of log seconds")
            lines += ["", f'[{kind}."{name}"]' if " " in name else f"[{kind}.{name}]"]
            lines += [f"prices = {_numbers(found['prices'])}"]
            lines += [f"counts = [{', '.join(_numbers(row) for row in found['counts'])}]"]
            lines += [f'[{kind}."{name}".effects]' if " " in name else f"[{kind}.{name}.effects]"]
            lines += [f"{key} = {_numbers(row)}" for key, row in found["effects"].items()]
    for name, seen_there in cornered.items():
        effects, error = effects_of(seen_there, np.array([one.log for one in seen_there]))
        print(f"corners {name}: {len(seen_there)} runs, error {error:.2f} of log seconds")
        lines += ["", f"[corners.{name}.effects]"]
        lines += [f"{key} = {_numbers(row)}" for key, row in effects.items()]
    (Path(forecasts.__file__).parent / "forecasts.toml").write_text("\n".join(lines) + "\n")


def page(table: Path) -> None:
    """Write the regrets of what `choose` takes, and of runs of `auto` where they were measured, on the check half."""
    rows = []
    for (half, k), lines in read(table).items():
        if half != "check":
            continue
        what, given, tol = drawn(half, k)
        if given["loss"] in CORNERED and k < CORNERS:  # few of them
            continue
        problem = Problem.linear(**given)
        with without_stand_ins():  # as where the kernels are compiled, which was measured
            taken = label_of(choose(problem, tol).method)
        best = fastest(lines)
        by = min((name for name in CANDIDATES if name in lines), key=lambda name: _order_of(lines[name]))
        row: dict[str, Any] = {"draw": what, "took": taken, "best": by, "regret": regret_of(lines, taken, best)}
        beside = lines.get("best again")
        row["regret of the run"] = regret_of(lines, "auto", beside["seconds"] if beside and beside["converged"] else best)
        shown = {name: lines[name] for name in CANDIDATES if name in lines}
        row |= {name: f"{1e3 * line['seconds']:.1f}" if line["converged"] else "-" for name, line in shown.items()}
        row["kind"] = _kind_of(problem)
        rows.append(row)
    columns = ["draw", "took", "best", "regret", "regret of the run", *CANDIDATES]
    lines_out = [
        "# The choice of a method",
        "",
        "Made by `python benchmarks/auto_choice.py page` from `auto_choice.csv`, which has both halves of the draws;",
        "these are of the half that nothing was fitted to, of other families but for one that is named below. What is",
        "measured stands at the head of the script. The regret is that of the method which is taken, run to its end;",
        "that of the run includes the choice, and a change of the method where the run did worse than its forecast.",
        "inf: not converged in five times the best time.",
        "",
        *table_of([_summary("of the method", "regret", rows), *_by_kind("regret", rows)]),
        "",
        *table_of([_summary("of the run", "regret of the run", rows), *_by_kind("regret of the run", rows)]),
        "",
        "Most was measured on a loaded machine, in several parts and with earlier versions, so that a regret below 1.2",
        "of one draw is noise. L-BFGS and conjugate gradients of classes, and their runs, were measured when it did little",
        "else; so were, last, Newton's method and working sets with an l1 penalty, and runs, but in the fitted half.",
        "Of the family 'independent' 320 other draws with an l2 penalty and 120 with several classes are fitted to; of",
        "'binary' none is. Draws with few rows for each column, of patterns with zeros and of groups of rows, 100 with",
        "an l2 penalty and 210 with an l1 penalty, came last; of such, of other families, 300 with an l1 penalty are",
        "fitted to.",
        "The errors of the forecasts (a standard deviation of 0.4 to 0.9 of log seconds) are not those of their form:",
        "neither products of the features, nor the eigenvalues and the conjugate gradients of a sample of rows",
        "explained more of the half that is fitted to; nor, with an l2 penalty but for L-BFGS, did how alike columns are,",
        "tr(R^2) / tr(R), with each family left out in turn (geometric mean of the regret 1.13 without it and 1.12 with",
        "it). With the squared loss and an l1 penalty, on dense rows, it is a feature. Of the draws with independent",
        "columns, of patterns with zeros and with few rows for each column that nothing was fitted to, the geometric mean",
        "was 1.13 before, and is 1.07 (1.17 and 1.13 with an l1 penalty and other losses, older draws as before); on",
        "sparse rows and with other losses it took longer on real data that no draw is like.",
        "",
        "The 40 draws with the largest regret, in milliseconds of the processor, one thread; -: not converged in five",
        "times the best time; empty: not tried.",
        "",
    ]
    worst = sorted(rows, key=lambda row: -row["regret"])[:40]
    shown_rows = [
        {c: f"{row[c]:.2f}" if isinstance(row.get(c), float) else row.get(c, "") for c in columns} for row in worst
    ]
    (RESULTS / "auto_choice.md").write_text("\n".join([*lines_out, *table_of(shown_rows)]) + "\n")
    print("\n".join(lines_out))


def regret_of(lines: dict[str, dict[str, float]], name: str, best: float) -> float:
    line = lines.get(name)
    return line["seconds"] / best if line and line["converged"] else float("inf" if line else "nan")


def _by_kind(column: str, rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [_summary(kind, column, [row for row in rows if row["kind"] == kind]) for kind in KINDS]


def _summary(label: str, column: str, rows: list[dict[str, Any]]) -> dict[str, str]:
    regrets = np.array([row[column] for row in rows])
    regrets = regrets[~np.isnan(regrets)]
    shares = {
        f"within {most:g}": f"{np.mean(regrets <= most):.0%}" if regrets.size else "" for most in (1.1, 1.3, 2.0, 3.0)
    }
    median = f"{np.median(regrets):.2f}" if regrets.size else ""
    return {"regret": label, "draws": str(regrets.size), **shares, "median": median}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "fit", "run", "page"])
    parser.add_argument("--half", choices=list(FAMILIES), default="check")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=2.0, help="the longest run that is waited for")
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()
    draws = list(range(options.first, options.first + options.draws))
    if options.what == "measure":
        measure(options.half, draws, options.seconds, options.table, {})
    elif options.what == "run":
        found = {
            k: lines for (half, k), lines in read(options.table).items() if half == options.half and "auto" not in lines
        }
        best = {k: min(lines, key=lambda name: _order_of(lines[name])) for k, lines in found.items()}
        names = {k: tuple(dict.fromkeys((name, "auto"))) for k, name in best.items()}
        measure(options.half, list(names), options.seconds, options.table, names)
    elif options.what == "fit":
        fit(options.table)
    else:
        page(options.table)


if __name__ == "__main__":
    main()
