"""Functions as components: the time of a pass beside compiled kernels, and worked examples beside their peers.

    python benchmarks/functions.py [--data DIR] [--rounds 5] [--out benchmarks/results/functions.md]

One process, one thread, warm, in turns; CPU seconds of this process, median of the rounds. The data folder holds
the LIBSVM file cpusmall_scale.svm.xz; where it is absent that example is left out. PyTorch and statsmodels are needed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import scipy.sparse
import statsmodels.api as sm
import torch
from scipy.optimize import least_squares, minimize as scipy_minimize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from finitesum import FiniteSum, Problem, minimize
from finitesum.constraints import NonNegative
from finitesum.datasets import load
from finitesum.evaluation.optimality import evaluate

torch.set_num_threads(1)
Vector = Any

WHY_SLOWER = """\
Where a peer is faster: `least_squares` is compiled code that is given its Jacobian, which autograd has to find: ours
takes 65 evaluations and 28 Hessians, which are 0.3 and 0.9 ms by torch and a third of that by hand; with derivatives
by hand on both sides ours is faster. On 69 patients a call of torch (0.3 ms, twenty of them) takes longer than its
numbers. In the tomography L-BFGS-B needs no Hessian, while ours solves for about 430 free pixels sixteen times, one
factor for each pixel that comes to 0 (1.5 ms, and as much for the slopes of all 1,024): it ends with exact zeros and
an optimality of 1e-18."""

ABOUT_PASSES = """\
Logistic regression on 100,000 x 50 dense rows in 64 batches: a linear model in compiled kernels, and the same as a
function in PyTorch. Hessians are one matrix product in both, because the losses depend on the parameters by linear
predictors alone."""


def cpu_seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = action()
    return time.process_time() - start, found


# -- the time of a pass


def losses(w: Any, batch: Any) -> Any:
    X, y = batch
    return torch.nn.functional.softplus(-y * (X @ w))


def passes(rounds: int, n: int = 100_000, d: int = 50, n_batches: int = 64) -> list[str]:
    """Return lines of a table: the time of a pass of the compiled linear model, of the torch form, and their ratio."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) / 4 + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    linear = Problem.linear(X, y, alpha=1e-3, batch_size=-(-n // n_batches))
    general = FiniteSum.from_function(losses, (X, y), dim=d, alpha=1e-3, batch_size=-(-n // n_batches))
    w = 0.1 * rng.standard_normal(d)

    def run(problem: Any, method: str) -> float:
        if method == "full gradient":
            evaluate(problem, w + 0.01 * rng.standard_normal(d))
            return 1.0
        options = {"step_size": 0.1} if method in ("saga", "svrg") else {}
        return float(minimize(problem, method=method, options=options, max_iter=8, tol=1e-12, measure_every=0).n_passes)

    lines = []
    for method in ("full gradient", "saga", "svrg", "ciag", "a-ciag", "nim", "iqn", "newton"):
        both = []
        for problem in (linear, general):
            run(problem, method)
            both.append(np.median([seconds / n_passes for seconds, n_passes in _timed(run, problem, method, rounds)]))
        lines.append(f"| {method} | {1e3 * both[0]:.1f} ms | {1e3 * both[1]:.1f} ms | {both[1] / both[0]:.1f} |")
    return lines


def _timed(run: Any, problem: Any, method: str, rounds: int) -> list[tuple[float, float]]:
    return [cpu_seconds(lambda: run(problem, method)) for _ in range(rounds)]


# -- worked examples


class Example(NamedTuple):
    """A problem, what solves it, and a peer that does the same."""

    name: str
    peer: str
    ours: Callable[[], Vector]
    theirs: Callable[[], Vector]
    objective: Callable[[Vector], float]


def conditional_logit(choices: int | None) -> Example:
    """Travel modes (Greene's 210 travellers), or so many generated choices among 5 with 8 attributes."""
    if choices is None:
        frame = sm.datasets.modechoice.load_pandas().data
        columns = ["ttme", "invc", "invt", "gc"]
        A = frame[columns].to_numpy(float).reshape(-1, 4, len(columns))
        A = np.concatenate([A, np.tile(np.eye(4)[None, :, :3], (A.shape[0], 1, 1))], axis=2)  # a constant for each mode
        A /= A.reshape(-1, A.shape[2]).std(axis=0)
        chosen = frame["choice"].to_numpy(float).reshape(-1, 4).argmax(axis=1)
    else:
        rng = np.random.default_rng(0)
        A = rng.standard_normal((choices, 5, 8))
        chosen = (A @ np.linspace(-1.0, 1.0, 8) + rng.gumbel(size=(choices, 5))).argmax(axis=1)
    n, k, d = A.shape

    def f(w: Any, batch: Any) -> Any:
        attributes, way = batch
        utilities = attributes @ w
        return torch.logsumexp(utilities, 1) - utilities.gather(1, way[:, None])[:, 0]

    problem = FiniteSum.from_function(f, (A, chosen), dim=d)
    model = sm.ConditionalLogit(np.eye(k)[chosen].ravel(), A.reshape(-1, d), groups=np.repeat(np.arange(n), k))
    return Example(
        f"conditional logit, {n:,} choices",
        "statsmodels ConditionalLogit",
        lambda: minimize(problem, tol=1e-9).x,
        lambda: model.fit(disp=False).params,
        lambda w: evaluate(problem, w).objective,
    )


def least_squares_of(data: Path, derivatives: str) -> Example | None:
    """Exponential regression y = exp(x'w) + error by least squares."""
    file = data / "cpusmall_scale.svm.xz"
    if not file.is_file():
        return None
    loaded = load(file)
    X, y = np.asarray(loaded.X.toarray() if hasattr(loaded.X, "toarray") else loaded.X), np.asarray(loaded.y, float) / 100.0
    X = np.column_stack([X, np.ones(len(X))])
    n, d = X.shape

    def f(w: Vector, batch: Any) -> tuple[Vector, Vector]:
        X, y = batch
        means = np.exp(X @ w)
        return 0.5 * (means - y) ** 2, ((means - y) * means) @ X

    def gram(w: Vector, batch: Any) -> Vector:  # of Gauss and Newton
        X = batch[0]
        means = np.exp(X @ w)
        return (X.T * means**2) @ X

    by_hand = FiniteSum.from_function(f, (X, y), dim=d, backend="numpy", hessian=gram, convex=False, batch_size=n)
    by_torch = FiniteSum.from_function(
        lambda w, batch: torch.exp(batch[0] @ w) - batch[1], (X, y), dim=d, residuals=True, convex=False
    )
    problem = by_hand if derivatives == "by hand" else by_torch

    def residuals(w: Vector) -> Vector:
        return np.exp(X @ w) - y

    def jacobian(w: Vector) -> Vector:
        return np.exp(X @ w)[:, None] * X

    return Example(
        f"nonlinear least squares, cpusmall {n:,} x {d}, ours {derivatives}",
        "scipy least_squares (lm)",
        lambda: minimize(problem, method="lazy-newton", tol=1e-9).x,
        lambda: (
            least_squares(residuals, np.zeros(X.shape[1]), jac=jacobian, method="lm", xtol=1e-12, ftol=1e-12, gtol=1e-12).x
        ),
        lambda w: evaluate(problem, w).objective,
    )


def cox(n: int | None) -> Example:
    """Cox's partial likelihood (Breslow's, for ties): Stanford's heart transplants, or generated survival times."""
    if n is None:
        frame = sm.datasets.heart.load_pandas().data
        times, died = frame["survival"].to_numpy(float), frame["censors"].to_numpy(float)
        age = frame["age"].to_numpy(float)
        X = np.column_stack([age, age**2])
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    else:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, 10))
        times = rng.exponential(np.exp(-X @ np.linspace(-0.5, 0.5, 10)))
        limits = rng.exponential(2.0, n)
        times, died = np.minimum(times, limits), (times <= limits).astype(float)
    order = np.argsort(-times, kind="stable")
    rows, last = X[order], np.searchsorted(-times[order], -times[order], side="right") - 1  # all who live as long
    events = np.flatnonzero(died[order] > 0.0)
    known, at_risk, event = (torch.as_tensor(part) for part in (rows, last[events], events))

    def f(w: Any, number: Any) -> Any:  # the risk sets of all events: one cumulative sum over the rows
        predictors = known @ w
        sums = torch.logcumsumexp(predictors, 0)
        return (sums[at_risk] - predictors[event])[number]

    problem = FiniteSum.from_function(f, len(events), dim=X.shape[1], batch_size=len(events))
    model = sm.PHReg(times, X, status=died, ties="breslow")
    return Example(
        f"Cox's partial likelihood, {len(times):,} x {X.shape[1]}",
        "statsmodels PHReg",
        lambda: minimize(problem, tol=1e-9).x,
        lambda: model.fit(disp=False).params,
        lambda w: evaluate(problem, w).objective,
    )


def completion(rank: int = 6, l2: float = 1e-3) -> Example:
    """Low-rank completion of the digits' pixels, of which 30 % are seen; the peer alternates least squares."""
    rng = np.random.default_rng(0)
    M = load_digits().data[:600] / 16.0
    seen = rng.random(M.shape) < 0.3
    i, j = np.nonzero(seen)
    values, (rows, columns) = M[i, j], M.shape
    like = {"U": np.zeros((rows, rank)), "V": np.zeros((columns, rank))}
    start = {"U": 0.3 * rng.standard_normal((rows, rank)), "V": 0.3 * rng.standard_normal((columns, rank))}

    def f(p: Any, batch: Any) -> Any:
        i, j, value = batch
        return (p["U"] @ p["V"].T)[i, j] - value

    problem = FiniteSum.from_function(
        f, (i, j, values), like=like, residuals=True, alpha=l2, convex=False, batch_size=i.size
    )
    x0, n = problem.flatten(start), i.size

    def alternating() -> Vector:
        U, V = start["U"].copy(), start["V"].copy()
        before = np.inf
        for _ in range(2000):
            for left, right, mask, table in ((U, V, seen, M), (V, U, seen.T, M.T)):
                for k in range(len(left)):
                    part = right[mask[k]]
                    left[k] = np.linalg.solve(part.T @ part + n * l2 * np.eye(rank), part.T @ table[k, mask[k]])
            residuals = (U[i] * V[j]).sum(axis=1) - values
            now = 0.5 * (residuals @ residuals) / n + 0.5 * l2 * ((U**2).sum() + (V**2).sum())
            if before - now < 1e-7 * now:
                break
            before = now
        return problem.flatten({"U": U, "V": V})

    return Example(
        f"matrix completion, {rows} x {columns} of rank {rank}, {n:,} seen",
        "alternating least squares, NumPy",
        lambda: minimize(problem, x0, tol=1e-5).x,
        alternating,
        lambda w: evaluate(problem, w).objective,
    )


def last_layer(width: int = 64, l2: float = 1e-3) -> Example:
    """The last layer of a small network on the digits, whose first one is frozen where a few epochs left it."""
    digits = load_digits()
    torch.manual_seed(0)
    X, y = torch.as_tensor(digits.data / 16.0), torch.as_tensor(digits.target)
    network = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)).double()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(X), y).backward()
        optimizer.step()
    features = network[1](network[0](X)).detach()
    n = len(features)

    def f(p: Any, batch: Any) -> Any:
        features, labels = batch
        scores = torch.func.functional_call(network[2], p, (features,))
        return torch.nn.functional.cross_entropy(scores, labels, reduction="none")

    weights = np.append(np.ones(10 * width), np.zeros(10))  # biases are free
    problem = FiniteSum.from_function(f, (features, y), like=network[2], alpha=l2, penalty_weights=weights)
    values = features.numpy()

    def peer() -> Vector:
        model = LogisticRegression(C=1.0 / (n * l2), tol=1e-8, max_iter=10_000).fit(values, digits.target)
        return np.concatenate([model.coef_.ravel(), model.intercept_])

    return Example(
        f"last layer of a network, {n:,} x {width}, 10 classes",
        "scikit-learn LogisticRegression (lbfgs)",
        lambda: minimize(problem, tol=1e-6).x,
        peer,
        lambda w: evaluate(problem, w).objective,
    )


def tomography(side: int = 32, n_rays: int = 700) -> Example:
    """An image >= 0 from sums along noisy rays, with an l1 penalty, which is linear there."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side] / side - 0.5
    image = 1.0 * (x**2 + y**2 < 0.15) - 0.6 * ((x - 0.1) ** 2 + (y + 0.1) ** 2 < 0.02)
    angles, offsets = rng.uniform(0.0, np.pi, n_rays), rng.uniform(-0.5, 0.5, n_rays)
    distances = np.cos(angles)[:, None] * x.ravel() + np.sin(angles)[:, None] * y.ravel() - offsets[:, None]
    A = scipy.sparse.csr_array(np.abs(distances) < 0.5 / side) / side
    b = A @ image.ravel() + 0.01 * rng.standard_normal(n_rays)
    l1 = 1e-5

    def f(w: Vector, batch: Any) -> tuple[Vector, Vector]:
        A, b = batch
        r = A @ w - b
        return 0.5 * r**2 + l1 * w.sum(), A.T @ r + r.size * l1

    def gram(w: Vector, batch: Any) -> Vector:
        return (batch[0].T @ batch[0]).toarray()

    problem = FiniteSum.from_function(
        f, (A, b), dim=side**2, backend="numpy", hessian=gram, constraint=NonNegative(), batch_size=n_rays
    )

    def bounded() -> Vector:
        def value(w: Vector) -> tuple[float, Vector]:
            r = A @ w - b
            return 0.5 * (r @ r) / n_rays + l1 * w.sum(), A.T @ r / n_rays + l1

        options = {"maxiter": 100_000, "maxfun": 100_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
        start = np.zeros(side**2)
        return scipy_minimize(
            value, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * start.size, options=options
        ).x

    return Example(
        f"tomography, {n_rays:,} rays, {side**2:,} pixels >= 0, l1",
        "scipy L-BFGS-B",
        lambda: minimize(problem, method="lazy-newton", tol=1e-9).x,
        bounded,
        lambda w: evaluate(problem, w).objective,
    )


def examples(data: Path) -> Iterator[Example]:
    yield conditional_logit(None)
    yield conditional_logit(20_000)
    for derivatives in ("by hand", "by torch"):
        if (found := least_squares_of(data, derivatives)) is not None:
            yield found
    yield cox(None)
    yield cox(5000)
    yield completion()
    yield last_layer()
    yield tomography()


def beside_peers(data: Path, rounds: int) -> list[str]:
    """Return lines of a table: seconds of both, and how far F is from the lower of the two, by its size."""
    lines = []
    for example in examples(data):
        times: tuple[list[float], list[float]] = ([], [])
        points: list[Vector] = []
        for k in range(rounds + 1):
            points = []
            for solve, seconds in zip((example.ours, example.theirs), times, strict=True):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    spent, point = cpu_seconds(solve)
                points.append(np.asarray(point))
                if k > 0:
                    seconds.append(spent)
        values = [example.objective(point) for point in points]
        gaps = [(value - min(values)) / max(abs(min(values)), 1e-300) for value in values]
        ours, theirs = (float(np.median(part)) for part in times)
        lines.append(
            f"| {example.name} | {ours:.3f} s | {gaps[0]:.0e} | {example.peer} | {theirs:.3f} s | {gaps[1]:.0e} | "
            f"{theirs / ours:.1f} |"
        )
        print(lines[-1], flush=True)
    return lines


@click.command()
@click.option("--data", type=click.Path(path_type=Path), default=Path("data"), help="Folder of LIBSVM files.")
@click.option("--rounds", default=5, help="Rounds, of which medians are taken.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="File for the page.")
def main(data: Path, rounds: int, out: Path | None) -> None:
    """Compare functions as components with compiled kernels and with peers."""
    compared, timed = beside_peers(data, rounds), passes(rounds)
    page = "\n".join(
        [
            "# Functions as components",
            "",
            "`python benchmarks/functions.py`: CPU seconds on one thread, medians; see the program for what is run.",
            "",
            "## Worked examples",
            "",
            "Gaps are those of F to the lower of the two, relative to its size.",
            "",
            "| example | ours | gap | peer | its time | its gap | ratio |",
            "|---|---|---|---|---|---|---|",
            *compared,
            "",
            WHY_SLOWER,
            "",
            "## The time of a pass",
            "",
            ABOUT_PASSES,
            "",
            "| method | compiled | torch | ratio |",
            "|---|---|---|---|",
            *timed,
            "",
        ]
    )
    if out is not None:
        out.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
