"""``finitesum warmup``: compile every kernel once, so that no later process has to."""

import contextlib
import itertools
import time
from typing import TYPE_CHECKING, NamedTuple

import click

from finitesum.cli.console import Console, console_options
from finitesum.cli.errors import InputError

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem

#: The losses that are compiled when none is named.
USUAL_LOSSES = ("logistic", "squared")

DTYPES = ("float64", "float32")
LAYOUTS = ("dense", "csr-int32", "csr-int64")

#: Compiled kernels of other versions that nothing was written to for so long are removed.
STALE_SECONDS = 86_400.0


class Signature(NamedTuple):
    """What kernels are compiled for."""

    loss: str
    dtype: str
    layout: str


@click.command(short_help="Compile all kernels once and keep them.")
@click.option("--loss", "losses", multiple=True, help="A loss to compile for; may be repeated. [default: the usual ones]")
@console_options
def warmup(*, console: Console, losses: tuple[str, ...]) -> None:
    """Compile all kernels for {float64, float32} x {dense, CSR int32, CSR int64} and keep them on disk.

    Compiled kernels of other versions of finitesum, unused for a day, are removed.
    """
    from finitesum.core.files import prune
    from finitesum.core.jit import COMPILED, cache_folder
    from finitesum.losses import as_loss
    from finitesum.running.observers import steps

    for loss in losses:
        as_loss(loss)
    if not COMPILED:
        raise InputError("NUMBA_DISABLE_JIT is set, so there is nothing to compile. Unset it.")
    folder = cache_folder()
    signatures = [Signature(*kind) for kind in itertools.product(losses or USUAL_LOSSES, DTYPES, LAYOUTS)]
    started = time.perf_counter()
    # Each takes long: without a bar, a line for each.
    verbose = console.verbose if console.draws else 2 * console.verbose
    with steps("compiling", len(signatures), verbose, "kinds") as report_step:
        for k, signature in enumerate(signatures):
            report_step(" ".join(signature), int(k > 0))
            compile_all(signature)
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


def tiny_problem(signature: Signature, l1_ratio: float = 0.0) -> "Problem":
    """Return a problem of a few rows that is laid out in memory as a signature says."""
    import numpy as np

    from finitesum.problems.linear import Problem
    from finitesum.reporting.report import small_rows

    width = None if signature.layout == "dense" else signature.layout.removeprefix("csr-")
    rows = small_rows(signature.dtype, width)
    return Problem.linear(rows, np.array([0.0, 1.0, 0.0, 1.0]), loss=signature.loss, alpha=0.1, l1_ratio=l1_ratio)


def compile_all(signature: Signature) -> None:
    """Run every method for some passes: its own step size, a given one, a sample to begin with; an l1 penalty, too."""
    from finitesum.methods import METHODS
    from finitesum.running.driver import minimize

    variants: tuple[dict[str, float], ...] = ({}, {"step_size": 0.01}, {"first_rows": 2})
    for l1_ratio, options in itertools.product((0.0, 0.5), variants):
        problem = tiny_problem(signature, l1_ratio)
        for name in METHODS:
            with contextlib.suppress(ValueError, TypeError):  # what a method cannot do needs no machine code
                minimize(problem, method=name, options=dict(options), tol=0.0, max_iter=20)
