"""Logistic regression on Dask with two worker processes: seconds to equal gaps of the objective, rounds, bytes moved.

    python -m venv PEER && PEER/bin/pip install dask-ml                   the peer, in an environment of its own
    python benchmarks/scale_dask.py compare --data FOLDER --peer PEER/bin/python [--only "a9a;rcv1"]
    python benchmarks/scale_dask.py ten --data FOLDER --peer PEER/bin/python      is dask-ml ten times slower to 1e-4?
    python benchmarks/scale_dask.py slow                                  a worker that is five times slower
    python benchmarks/scale_dask.py overhead --rows 56000000              two processes beside two threads
    python benchmarks/scale.py page                                       results/scale.md

F is the mean of the losses and alpha/2 ||w||^2 with alpha = 1/n (C = 1), without an intercept, which dask-ml would
penalise. Rows lie in eight blocks in the workers' memory when the clock starts. Each solver runs with one setting after
another (tol or max_iter), each time from the start, in a process of its own; what counts is the fastest run whose
coefficients have (F - F*) / F* <= gap, with F computed here and F* the least that was found. Rounds are waits of the
client; bytes are those that the loopback interface of this machine carried.
"""

import argparse
import contextlib
import functools
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from records import read_rows, write_rows

N_BLOCKS, N_WORKERS = 8, 2
GAPS = (1e-4, 1e-8)
TOLS = (1e-2, 1e-3, 1e-5, 1e-7, 1e-9)
ITERATIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 3000, 10_000, 100_000)
PEER = ("lbfgs", "newton", "admm", "proximal_grad", "gradient_descent")

#: What is shown of dask-ml; seconds of its first run, which imports, beside; times ten times ours that a run may take.
TEN, FIRST, OVER = 10.0, 30.0, 3.0

#: Files, and how often their rows are taken; none are generated.
SETS = {
    "a9a x 30": ("a9a", 30),
    "covtype x 10": ("covtype.binary.scale", 10),
    "rcv1": ("rcv1.subset", 1),
    "10,000,000 x 28": ("", 1),
    "news20": ("news20", 1),
}


# -- data


def blocks_of(name: str, data: Path, n_rows: int) -> Iterator[tuple[Any, Any]]:
    """Yield the blocks of a set: rows and labels, which count from 0."""
    file, times = SETS[name]
    if not file:
        truth = np.random.default_rng(0).standard_normal(28)
        for k in range(N_BLOCKS):
            rng = np.random.default_rng([1, k])
            X = rng.standard_normal((n_rows // N_BLOCKS, 28))
            yield X, (X @ truth + rng.logistic(size=len(X)) > 0.0).astype(np.int64)
        return
    from finitesum.datasets import load

    one = load(data / f"{file}.svm.xz")
    X, y = scipy.sparse.csr_array(one.X), np.unique(one.y, return_inverse=True)[1]
    n = X.shape[0]
    order = np.random.default_rng(0).permutation(n)
    ends = np.linspace(0, times * n, N_BLOCKS + 1).astype(np.int64)
    for start, stop in itertools.pairwise(ends):
        rows = order[np.arange(start, stop) % n]
        yield (X[rows].toarray() if X.nnz > 0.15 * X.shape[0] * X.shape[1] else X[rows]), y[rows]


def read(file: Path, form: str = "") -> Any:
    """Return a block of rows: as it is, as an array, or as what dask-ml takes for sparse rows."""
    X = np.load(file) if file.suffix == ".npy" else scipy.sparse.load_npz(file)
    if isinstance(X, np.ndarray):
        return X
    if form == "sparse":
        import sparse

        return sparse.COO.from_scipy_sparse(X.tocoo())
    return X.toarray() if form == "dense" else X


def form_for_peer(folder: Path) -> str:
    """Return "dense" where all rows as an array take 3 GB or less."""
    files = sorted(folder.glob("X*"))
    if files[0].suffix == ".npy":
        return ""
    n = sum(np.load(file).size for file in folder.glob("y*.npy"))
    return "dense" if 8 * n * scipy.sparse.load_npz(files[0]).shape[1] <= 3e9 else "sparse"


def collections(folder: Path, form: str) -> tuple[Any, Any]:
    """Return the blocks of a folder as dask arrays in the workers' memory."""
    import dask
    import dask.array as da
    from distributed import wait

    rows, labels = [], []
    for file in sorted(folder.glob("X*")):
        y, meta = np.load(folder / f"y{file.stem[1:]}.npy"), read(file, form)[:0]
        block = dask.delayed(read)(file, form)
        rows.append(da.from_delayed(block, (y.size, meta.shape[1]), dtype=np.float64, meta=meta))
        labels.append(da.from_array(y, chunks=y.size))
    X, y = dask.persist(da.concatenate(rows) if len(rows) > 1 else rows[0], da.concatenate(labels))
    wait([X, y])
    return X, y


def whole(folder: Path) -> tuple[Any, Any]:
    """Return all rows in memory."""
    blocks = [read(file) for file in sorted(folder.glob("X*"))]
    stack = np.concatenate if isinstance(blocks[0], np.ndarray) else functools.partial(scipy.sparse.vstack, format="csr")
    return stack(blocks), np.concatenate([np.load(file) for file in sorted(folder.glob("y*.npy"))])


def objective(folder: Path, w: Any) -> float:
    """Return F, for w of shape (d,) or (K, d), by blocks."""
    total, n, W = 0.0, 0, np.atleast_2d(w)
    if not np.isfinite(W).all():
        return np.nan
    for file in sorted(folder.glob("X*")):
        U, y = np.asarray(read(file) @ W.T), np.load(folder / f"y{file.stem[1:]}.npy")
        U = np.column_stack([np.zeros(len(U)), U]) if W.shape[0] == 1 else U
        total += float((np.logaddexp.reduce(U, axis=1) - U[np.arange(len(U)), y]).sum())
        n += y.size
    return (total + 0.5 * float((W * W).sum())) / n


# -- contenders: each is given a folder, and yields a setting and a function that fits with it and returns w


def ours_on_dask(folder: Path, _solver: str) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """Yield fits of finitesum.dask."""
    from finitesum.dask import LogisticRegression

    X, y = collections(folder, "")
    for tol in TOLS:
        yield tol, lambda tol=tol: LogisticRegression(C=1.0, fit_intercept=False, tol=tol).fit(X, y).coef_


def ours_in_memory(folder: Path, _solver: str) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """Yield fits of finitesum by two threads."""
    from finitesum import LogisticRegression

    X, y = whole(folder)
    settings: Any = {"C": 1.0, "fit_intercept": False, "n_threads": N_WORKERS}
    for tol in TOLS:
        yield tol, lambda tol=tol: LogisticRegression(tol=tol, **settings).fit(X, y).coef_


def scikit_learn(folder: Path, solver: str) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """Yield fits of scikit-learn in memory."""
    from sklearn.linear_model import LogisticRegression

    X, y = whole(folder)
    settings: Any = {"C": 1.0, "fit_intercept": False, "solver": solver, "max_iter": 10_000}
    for tol in (1e-2, 1e-4, 1e-6, 1e-8):
        yield tol, lambda tol=tol: LogisticRegression(tol=tol, **settings).fit(X, y).coef_


def dask_ml(folder: Path, solver: str) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """Yield fits of dask-ml."""
    from dask_ml.linear_model import LogisticRegression

    X, y = collections(folder, form_for_peer(folder))
    if int(y.max().compute()) > 1:
        raise ValueError("it takes two classes")
    for k in ITERATIONS:
        model = LogisticRegression(C=1.0, fit_intercept=False, solver=solver, max_iter=k, tol=1e-14)
        yield k, lambda model=model: model.fit(X, y).coef_


CONTENDERS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "finitesum.dask": (ours_on_dask, ("",)),
    "finitesum in memory": (ours_in_memory, ("",)),
    "scikit-learn in memory": (scikit_learn, ("lbfgs", "newton-cholesky")),
    "dask-ml": (dask_ml, PEER),
}


def moved() -> int:
    """Return the bytes that the loopback interface has carried."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.lstrip().startswith("lo:")).split(":")[1].split()[0])


def count_rounds() -> list[int]:
    """Return a list that grows with each wait of the client for the workers."""
    rounds: list[int] = []

    def counting(function: Any) -> Any:
        @functools.wraps(function)
        def counted(*arguments: Any, **options: Any) -> Any:
            rounds.append(1)
            return function(*arguments, **options)

        return counted

    import distributed

    distributed.Client.gather = counting(distributed.Client.gather)
    if "finitesum" in sys.modules:
        from finitesum.evaluation.part_components import PartSum
        from finitesum.problems import partitioned

        partitioned.sum_of_parts = counting(partitioned.sum_of_parts)
        for name in ("values_and_gradients", "ask_hessians", "found_on"):
            setattr(PartSum, name, counting(getattr(PartSum, name)))
        distributed.Client.gather = distributed.Client.gather.__wrapped__
    return rounds


def run(contender: str, solver: str, folder: Path, limit: float, enough: float, out: Path) -> None:
    """Run a contender with its settings until they are all done or the time is over, and write what was found.

    The last one is a run that takes `enough` seconds; one that takes three times as long is ended and written without w.
    """
    warnings.simplefilter("ignore")
    fits, _ = CONTENDERS[contender]
    found: list[tuple[Any, ...]] = []
    if contender.endswith("memory"):
        _run(fits(folder, solver), (limit, enough), [], found, out)
        return
    from distributed import Client, LocalCluster

    if contender == "finitesum.dask":
        import finitesum.dask  # noqa: F401
    with LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        _run(fits(folder, solver), (limit, enough), count_rounds(), found, out)


def _write(found: list[Any], out: Path) -> None:
    columns = zip(*found, strict=True)
    np.savez(out, **dict(zip(("setting", "seconds", "rounds", "bytes", "w"), map(np.array, columns), strict=True)))


@contextlib.contextmanager
def _ended_after(seconds: float, setting: Any, found: list[Any], out: Path) -> Iterator[None]:
    """End the process where a run takes longer than this."""

    def end() -> None:
        _write([*found, (setting, seconds, 0, 0, np.full_like(found[-1][-1], np.nan) if found else np.nan)], out)
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    if seconds < np.inf:
        timer.start()
    yield
    timer.cancel()


def _run(fits: Any, limits: tuple[float, float], rounds: list[int], found: list[Any], out: Path) -> None:
    spent, is_first, (limit, enough) = 0.0, True, limits
    for setting, fit in fits:
        if is_first:
            with _ended_after(FIRST + OVER * enough, setting, found, out):
                fit()  # which compiles, and imports on the workers
            is_first = False
        before, bytes_before, started = len(rounds), moved(), time.perf_counter()
        with _ended_after(OVER * enough, setting, found, out):
            w = fit()
        seconds = time.perf_counter() - started
        found.append((setting, seconds, len(rounds) - before, moved() - bytes_before, np.asarray(w)))
        _write(found, out)
        spent += seconds
        if seconds >= enough or spent > limit:
            break


# -- comparing


def measured(
    name: str, folder: Path, contender: str, solver: str, asked: Any, enough: float = np.inf
) -> list[dict[str, Any]]:
    """Return what the runs of a solver found, or why there is none; a run that takes `enough` seconds is the last."""
    out = folder / "found.npz"
    out.unlink(missing_ok=True)
    python = asked.peer if contender == "dask-ml" else sys.executable
    limit = asked.limit if enough == np.inf else 5.0 * enough  # of all runs up to the longest
    limits = ["--limit", str(limit), "--enough", str(enough)]
    child = [python, __file__, "run", "--job", contender, solver, str(folder), str(out), *limits]
    threads = str(N_WORKERS if contender.endswith("memory") else 1)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    remark, time_over = "", 4.0 * limit + 120.0
    begun = subprocess.Popen(child, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    try:
        errors = [line for line in begun.communicate(timeout=time_over)[1].splitlines() if "Error" in line]
        if begun.returncode:
            remark = errors[-1].strip()[:150] if errors else f"ended with {begun.returncode}"
    except subprocess.TimeoutExpired:
        remark = f"ended after {time_over:.0f} s"
    finally:
        with contextlib.suppress(ProcessLookupError):  # workers of its own that are left
            os.killpg(begun.pid, signal.SIGKILL)
    row = {"set": name, "contender": contender, "solver": solver, "load": f"{os.getloadavg()[0]:.1f}", "remark": remark}
    nothing = dict.fromkeys(("setting", "seconds", "rounds", "bytes", "objective"), "")
    if not out.exists():
        return [row | nothing]
    held = np.load(out)  # w is NaN of a run that was ended
    found = [{key: held[key][k].item() for key in ("setting", "seconds", "rounds", "bytes")} for k in range(len(held["w"]))]
    return [row | one | {"objective": objective(folder, w)} for one, w in zip(found, held["w"], strict=True)]


@contextlib.contextmanager
def blocks_in_files(name: str, asked: Any) -> Iterator[Path]:
    """Yield a folder with the blocks of a set, which goes afterwards."""
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        for k, (X, y) in enumerate(blocks_of(name, asked.data, asked.rows)):
            if isinstance(X, np.ndarray):
                np.save(Path(folder) / f"X{k}.npy", X)
            else:
                scipy.sparse.save_npz(Path(folder) / f"X{k}.npz", scipy.sparse.csr_matrix(X), compressed=False)
            np.save(Path(folder) / f"y{k}.npy", y)
        yield Path(folder)


def compare(asked: Any) -> None:
    """Measure sets, one after the other, and keep what was found."""
    for name in asked.only.split(";"):
        with blocks_in_files(name, asked) as folder:
            for contender, solver in ((one, solver) for one, (_, many) in CONTENDERS.items() for solver in many):
                if contender not in asked.contender.split(";") or (contender == "dask-ml" and not asked.peer):
                    continue
                rows = measured(name, folder, contender, solver, asked)
                print(*rows, sep="\n", flush=True)
                others = (
                    one
                    for one in read_rows("scale_dask")
                    if (one["set"], one["contender"], one["solver"]) != (name, contender, solver)
                )
                write_rows("scale_dask", [*others, *rows])


def ten_times(asked: Any) -> None:
    """Give each solver of dask-ml a run of ten times the seconds that ours takes to the first gap, and write the table.

    Ours is measured before each solver; what counts is the longest of its times until then.
    """
    for name in (name for name in asked.only.split(";") if name != "news20"):  # which has more classes than it takes
        with blocks_in_files(name, asked) as folder:
            ours: list[float] = []
            for solver in PEER:
                own = measured(name, folder, "finitesum.dask", "", asked)
                least = min(row["objective"] for row in own)
                ours.append(min(row["seconds"] for row in own if row["objective"] <= (1.0 + GAPS[0]) * least))
                found = measured(name, folder, "dask-ml", solver, asked, TEN * max(ours))
                row = {"data": name, "solver of dask-ml": solver, "finitesum.dask, s": f"{max(ours):.2f}"}
                row |= _verdict([one for one in found if one["objective"] != ""], least, max(ours), found[0]["remark"])
                row["load"] = f"{os.getloadavg()[0]:.1f}"
                print(row, flush=True)
                others = [
                    one for one in read_rows("scale_ten") if (one["data"], one["solver of dask-ml"]) != (name, solver)
                ]
                write_rows("scale_ten", [*others, row])


def _verdict(runs: list[dict[str, Any]], least: float, seconds: float, remark: str) -> dict[str, Any]:
    """Return what runs show: the fastest that reaches the first gap, or else the longest."""
    if not runs:
        return {"its run, s": "", "max_iter": "", "gap then": "", "times to 1e-4": remark}
    good = [run for run in runs if run["objective"] <= (1.0 + GAPS[0]) * least]
    last = min(good, key=lambda run: run["seconds"]) if good else max(runs, key=lambda run: run["seconds"])
    gap, times = last["objective"] / least - 1.0, last["seconds"] / seconds
    shown = f"{times:.1f}" if good else "more than 10" if times >= TEN else "ends before, by itself"
    gap_then = f"{gap:.0e}" if np.isfinite(gap) else "not ended"
    return {
        "its run, s": f"{last['seconds']:.1f}",
        "max_iter": last["setting"],
        "gap then": gap_then,
        "times to 1e-4": shown,
    }


def table() -> list[dict[str, Any]]:
    """Return the lines of the table: the fastest run of each solver that reaches a gap."""
    rows, lines = read_rows("scale_dask"), []
    for name in SETS:
        here = [row for row in rows if row["set"] == name]
        values = [float(row["objective"]) for row in here if row["objective"]]
        least = min((value for value in values if np.isfinite(value)), default=np.nan)
        for contender, solver in dict.fromkeys((row["contender"], row["solver"]) for row in here):
            own = [row for row in here if (row["contender"], row["solver"]) == (contender, solver)]
            runs = [row for row in own if row["objective"] and np.isfinite(float(row["objective"]))]
            line = {"data": name, "who": f"{contender} {solver}".strip()}
            for gap in GAPS:
                good = [row for row in runs if float(row["objective"]) - least <= gap * least]
                best = min(good, key=lambda row: float(row["seconds"]), default=None)
                cells = ("-", "-", "-")
                if best is not None:
                    cells = (f"{float(best['seconds']):.2f}", best["rounds"], f"{float(best['bytes']) / 1e6:.1f}")
                    cells = (cells[0], "", "") if contender.endswith("memory") else cells
                line |= dict(zip((f"s to {gap:.0e}", f"rounds to {gap:.0e}", f"MB to {gap:.0e}"), cells, strict=True))
            gaps = [float(row["objective"]) / least - 1.0 for row in runs]
            lines.append(
                line
                | {"least gap": f"{min(gaps):.0e}" if gaps else "-", "load": own[0]["load"], "remark": own[0]["remark"]}
            )
    return lines


# -- a worker that is slower


def slowed(function: Callable[..., Any], seconds: float, slowness: float, *arguments: Any) -> Any:
    """Return what a function returns, some seconds later; on the first worker so many times as late."""
    from distributed import get_worker

    found = function(*arguments)
    time.sleep(seconds * (slowness if get_worker().name == 0 else 1.0))
    return found


def slow_workers(n_workers: int, seconds: float) -> None:
    """Measure runs on a cluster of processes each of which takes some seconds for a part, and write the table."""
    from distributed import Client, LocalCluster

    from finitesum import Problem, minimize
    from finitesum.dask import DaskEngine
    from finitesum.methods import ACIAG

    class Slowed(DaskEngine):
        times = 0.0  # as long as the others; 0: nothing is slowed down

        def _slow(self, call: Any) -> Any:
            """Return a call that takes its time if it works on a part."""
            if self.times > 0.0 and getattr(call.function, "__name__", "") in ("run_job", "survey"):
                return call._replace(function=functools.partial(slowed, call.function, seconds, self.times))
            return call

        def submit_all(self, calls: Any) -> Any:
            """Return futures of calls."""
            return super().submit_all([self._slow(call) for call in calls])

        def _submit(self, call: Any, *tries: int, **how: bool) -> Any:
            """Return a future of a call."""
            return super()._submit(self._slow(call), *tries, **how)

    methods: dict[str, Any] = {
        "newton (a barrier in each round)": "newton",
        "a-ciag, in order": ACIAG(max_delay="auto", asynchronous=False),
        "a-ciag, as they come": ACIAG(max_delay="auto", asynchronous=True),
        'a-ciag, "auto" of the two': ACIAG(max_delay="auto"),
        "auto": "auto",
    }
    rng, n_parts, rows = np.random.default_rng(0), 8 * n_workers, []
    truth = rng.standard_normal(20)
    parts = []
    for _ in range(n_parts):
        X = rng.standard_normal((500, 20))
        parts.append((X, np.where(X @ truth + rng.logistic(size=500) > 0.0, 1.0, -1.0)))
    for name, method in methods.items():
        row: dict[str, Any] = {"method": name, "workers": n_workers, "parts": n_parts}
        for kind, slowness in (("undisturbed", 1.0), ("one slow", 5.0)):
            cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)
            with cluster, Client(cluster) as client:
                engine = Slowed(client)
                problem = Problem.partitioned(parts, alpha=1e-3, engine=engine)
                minimize(problem, method="newton", tol=1e-2)  # which imports and compiles on the workers
                engine.times = slowness
                problem = Problem.partitioned(parts, alpha=1e-3, engine=engine)  # the times of this first pass decide
                started = time.perf_counter()
                result = minimize(problem, method=method, tol=1e-8, measure_every=0)
                spent = time.perf_counter() - started
                assert result.success
            how = "as they come" if "(asynchronous)" in result.message else "in order"
            is_of_visits = result.method.name == "a-ciag"
            row |= {f"taken, {kind}": how if is_of_visits else "all"}
            row |= {f"passes, {kind}": f"{result.n_passes:.1f}", f"s, {kind}": f"{spent:.1f}"}
        rows.append(row | {"times": f"{float(row['s, one slow']) / float(row['s, undisturbed']):.2f}"})
        print(rows[-1], flush=True)
    write_rows("scale_slow", rows)


# -- messages beside passes that take a second


def mapped_block(folder: Path, k: int) -> Any:
    """Return rows and labels of a file; the rows are mapped."""
    return np.load(folder / f"X{k:05}.npy", mmap_mode="r"), np.load(folder / f"y{k:05}.npy")


def sums_and_fits(folder: Path, engine: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield sums over all rows, which are rounds, and fits, each by its name; the rows are read before."""
    from finitesum import Problem, minimize
    from finitesum.evaluation.hessian import hessian_of
    from finitesum.evaluation.row_products import gram_product
    from finitesum.evaluation.row_sums import loss_sums
    from finitesum.problems.beside import empty_by_row

    parts: Any = [functools.partial(mapped_block, folder, k) for k in range(len(list(folder.glob("X*"))))]
    problem = Problem.partitioned(parts, alpha=1e-7, engine=engine)
    w, curvatures = np.full(problem.dim, 0.1), empty_by_row(problem)
    yield "gradient", lambda: loss_sums(problem, w)
    yield "gradient and curvatures of the rows", lambda: loss_sums(problem, w, curvatures=curvatures)
    yield "Hessian times a vector", lambda: gram_product(problem, curvatures, w)
    yield "Hessian", lambda: hessian_of(problem, curvatures)
    for method in ("lazy-newton", "newton-cg"):
        yield (
            f"a fit by {method}, tol 1e-8",
            lambda method=method: minimize(problem, method=method, tol=1e-8, measure_every=0),
        )


def overhead(root: Path | None, n_rows: int) -> None:
    """Measure sums and fits over the same mapped parts by two threads and by two processes, and write the table."""
    from distributed import Client, LocalCluster
    from scale import generate

    from finitesum.core.engine import Threads
    from finitesum.dask import DaskEngine

    rows = []
    with tempfile.TemporaryDirectory(dir=root) as folder:
        generate("dense", Path(folder), n_rows)
        cluster = LocalCluster(n_workers=N_WORKERS, threads_per_worker=1, dashboard_address=None)
        with cluster, Client(cluster) as client:
            engines = Threads(N_WORKERS), DaskEngine(client)
            for (what, here), (_, there) in zip(*(sums_and_fits(Path(folder), one) for one in engines), strict=True):
                seconds: Any = ([], [])
                here(), there()  # which compile
                n_bytes = 0
                for k in [0, 1] * 3:  # in turn, since other programs come and go
                    started, before = time.perf_counter(), moved()
                    (here, there)[k]()
                    seconds[k].append(time.perf_counter() - started)
                    n_bytes = moved() - before
                least = [min(tries) for tries in seconds]
                row = {"rows": f"{n_rows:,}", "what": what, "threads, s": f"{least[0]:.2f}", "Dask, s": f"{least[1]:.2f}"}
                row |= {"ratio": f"{least[1] / least[0]:.2f}", "MB moved": f"{n_bytes / 1e6:.1f}"}
                rows.append(row | {"load": f"{os.getloadavg()[0]:.1f}"})
                print(rows[-1], flush=True)
    write_rows("scale_overhead", rows)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["compare", "ten", "slow", "overhead", "run"])
    parser.add_argument("--only", default=";".join(SETS), help="sets, with ; between")
    parser.add_argument("--data", type=Path, help="folder of LIBSVM files, which compare needs")
    parser.add_argument("--peer", default="", help="the Python that has dask-ml")
    parser.add_argument("--contender", default=";".join(CONTENDERS), help="who is measured again, with ; between")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a solver on a set, about")
    parser.add_argument("--enough", type=float, default=np.inf, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the generated set")
    parser.add_argument("--folder", type=Path, help="where temporary folders are made")
    parser.add_argument("--job", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.what == "run":
        contender, solver, folder, out = asked.job
        run(contender, solver, Path(folder), asked.limit, asked.enough, Path(out))
    elif asked.what == "slow":
        slow_workers(4, 0.3)
    elif asked.what == "overhead":
        overhead(asked.folder, asked.rows)
    elif asked.data is None:
        parser.error(f"{asked.what} needs --data FOLDER")
    else:
        {"compare": compare, "ten": ten_times}[asked.what](asked)


if __name__ == "__main__":
    main()
