"""``finitesum warmup``: compile kernels once, so that no later process has to."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from finitesum.cli.console import Console, console_options
from finitesum.cli.errors import InputError

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem

#: The losses that are compiled when none is named.
USUAL_LOSSES = ("logistic", "squared")

DTYPES = ("float64", "float32")
LAYOUTS = ("dense", "csr-int32", "csr-int64")

#: What of them is compiled when none is named: what most data come as.
USUAL_DTYPES, USUAL_LAYOUTS = DTYPES[:1], LAYOUTS[:2]

#: The methods that `auto` takes for smooth losses and the hinge loss with an elastic net.
OF_AUTO = (
    "newton",
    "lazy-newton",
    "newton-cg",
    "lbfgs",
    "working-set-newton",
    "coordinate-descent",
    "interior-point",
    "dual-ascent",
    "semismooth-newton",
)

#: Compiled kernels of other versions that nothing was written to for so long are removed.
STALE_SECONDS = 86_400.0


class Signature(NamedTuple):
    """What kernels are compiled for."""

    loss: Any
    dtype: str
    layout: str


@click.command(short_help="Compile kernels once and keep them.")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["all", "auto"]),
    default="all",
    show_default=True,
    help='Compile for all methods, or for those that "auto" takes for smooth losses and the hinge loss.',
)
@click.option("--loss", "losses", multiple=True, help="A loss to compile for; may be repeated. [default: the usual ones]")
@click.option("--dtype", "dtypes", multiple=True, type=click.Choice(DTYPES), help="Type of the data. [default: float64]")
@click.option(
    "--layout", "layouts", multiple=True, type=click.Choice(LAYOUTS), help="Form of the data. [default: dense, csr-int32]"
)
@click.option("--workers", type=click.IntRange(min=1), help="Processes that compile at once. [default: one for each core]")
@console_options
def warmup(
    *,
    console: Console,
    purpose: str,
    losses: tuple[str, ...],
    dtypes: tuple[str, ...],
    layouts: tuple[str, ...],
    workers: int | None,
) -> None:
    """Compile kernels for kinds of losses, types and forms of data, and keep them on disk.

    Small problems (up to about a million numbers) need no kernels with Newton's methods. Compiled kernels of other versions
    of finitesum, unused for a day, are removed.
    """
    from finitesum.core.files import prune
    from finitesum.core.jit import COMPILED
    from finitesum.core.kernel_folder import cache_folder
    from finitesum.losses import as_loss
    from finitesum.running.observers import steps

    for loss in losses:
        as_loss(loss)
    if not COMPILED:
        raise InputError("NUMBA_DISABLE_JIT is set, so there is nothing to compile. Unset it.")
    folder = cache_folder()
    kinds = itertools.product(losses or USUAL_LOSSES, dtypes or USUAL_DTYPES, layouts or USUAL_LAYOUTS)
    signatures = [Signature(*kind) for kind in dict.fromkeys(kinds)]
    started = time.perf_counter()
    # Each takes long: without a bar, a line for each.
    verbose = console.verbose if console.draws else 2 * console.verbose
    n_workers = min(len(signatures), workers or n_cores()) if folder is not None else 1
    with steps("compiling", len(signatures), verbose, "kinds") as report_step:
        _compile_each(signatures, OF_AUTO if purpose == "auto" else None, n_workers, report_step)
    seconds = time.perf_counter() - started
    removed = freed = size = 0
    if folder is not None:
        removed, freed = prune(folder, STALE_SECONDS)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    kept = {"folder": folder and str(folder), "bytes": size}
    stale = {"stale_folders_removed": removed, "stale_bytes_removed": freed}
    report = {"signatures": [signature._asdict() for signature in signatures], "seconds": seconds, **kept, **stale}
    text = f"{len(signatures)} kinds of problems compiled in {seconds:.1f} s; kept in {folder} ({size / 1e6:.1f} MB)"
    if removed:
        text += f"\n{removed} stale folders removed ({freed / 1e6:.1f} MB)"
    console.result(report, text)


def n_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compile_each(
    signatures: Sequence[Signature], methods: Sequence[str] | None, n_workers: int, report: Callable[[str, int], None]
) -> None:
    """Compile for all kinds, in processes of their own where there are several."""
    report(" ".join(signatures[0]), 0)
    if n_workers == 1:
        for signature in signatures:
            compile_all(signature, methods)
            report(" ".join(signature), 1)
        return
    in_processes(compile_all, [(k, methods) for k in signatures], n_workers, lambda task: report(" ".join(task[0]), 1))


def in_processes(
    work: Callable[..., None], tasks: Sequence[tuple[Any, ...]], n_workers: int, on_done: Callable[[tuple[Any, ...]], None]
) -> None:
    """Do some work for all tasks in processes of their own."""
    with ProcessPoolExecutor(n_workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(work, *task): task for task in tasks}
        try:
            for done in as_completed(running):
                done.result()
                on_done(running[done])
        except BaseException:  # an interrupt, too
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def tiny_problem(signature: Signature, l1_ratio: float = 0.0) -> "Problem":
    """Return a problem of a few rows that is laid out in memory as a signature says."""
    import numpy as np

    from finitesum.losses import as_loss
    from finitesum.problems.linear import Problem
    from finitesum.reporting.report import small_rows

    width = None if signature.layout == "dense" else signature.layout.removeprefix("csr-")
    rows = small_rows(signature.dtype, width)
    targets = np.array([0.0, 1.0, 0.0, 1.0]) + (as_loss(signature.loss).target_kind() == "positive")
    return Problem.linear(rows, targets, loss=signature.loss, alpha=0.1, l1_ratio=l1_ratio)


def _divided_by_no_plane(signature: Signature) -> "Problem":
    """Return a problem with rows that stay at corners of its loss, if that has any: they are solved for together."""
    from dataclasses import replace

    import numpy as np

    from finitesum.problems.rows import CSRRows, DenseRows

    tiny, n, d = tiny_problem(signature), 20, 3
    values: Any = np.sin(np.arange(n * d) ** 2.0).reshape(n, d).astype(signature.dtype)
    rows: Any = DenseRows(values, n, d, 0)
    if not isinstance(tiny.rows, DenseRows):
        columns, starts = (
            part.astype(tiny.rows.starts.dtype) for part in (np.arange(n * d) % d, np.arange(0, n * d + 1, d))
        )
        rows = CSRRows(values.ravel(), columns, starts, n, d, 0)
    targets = np.resize(tiny.targets, n)
    return replace(tiny, rows=rows, targets=targets, offsets=np.zeros(n), weights=np.full(n, 1.0 / n), batch_size=None)


def compile_all(signature: Signature, methods: Sequence[str] | None = None) -> None:
    """Run methods for some passes: their own step size, a given one, a sample to begin with; an l1 penalty; errors."""
    import numpy as np

    from finitesum.core.jit import as_compiled
    from finitesum.estimators.covariance import covariance_at
    from finitesum.evaluation.row_products import combination
    from finitesum.methods import METHODS
    from finitesum.methods.subproblems.many_models import model_steps, without_last
    from finitesum.methods.subproblems.scaled_columns import scaled
    from finitesum.running.driver import minimize

    variants: tuple[dict[str, float], ...] = ({}, {"step_size": 0.01}, {"first_rows": 2})
    for l1_ratio, options in itertools.product((0.0, 0.5), variants):
        problem = tiny_problem(signature, l1_ratio)
        names: Any = METHODS if methods is None else methods
        for name in names:
            with contextlib.suppress(ValueError, TypeError), as_compiled():  # what a method cannot do needs no machine code
                minimize(problem, method=name, options=dict(options), tol=0.0, max_iter=20)
    if "dual-ascent" in names:
        with contextlib.suppress(ValueError, TypeError), as_compiled():
            minimize(_divided_by_no_plane(signature), method="dual-ascent", tol=0.0, max_iter=40)
    problem = tiny_problem(signature)
    if problem.n_outputs > 1:  # whose rows are NumPy's
        return
    with contextlib.suppress(ValueError, TypeError), as_compiled():  # what a loss without errors cannot have
        covariance_at(problem, np.zeros(problem.dim), float(problem.n_rows))
        combination(problem, problem.weights)  # for that of an intercept
        rows = problem.rows._replace(values=problem.rows.values.astype(np.float64))
        scaled(rows, np.ones(problem.rows.n_columns))  # for curvatures that differ
        tables = np.ones((4, 1, 2))
        model_steps(without_last(np.ones((1, 2, 2))), np.zeros(1, dtype=np.int64), *tables)  # of folds with an l1 penalty
