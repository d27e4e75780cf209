"""``finitesum doctor``: what this installation is made of, and whether it works."""

import contextlib
import os
import platform
import sys
import warnings
from collections.abc import Callable
from typing import Any

import click

from finitesum import __version__
from finitesum.cli.console import Console, console_options
from finitesum.cli.errors import BROKEN

_NUMERICAL = ("numpy", "scipy", "scikit-learn", "numba", "threadpoolctl")
_LIBRARIES = (*_NUMERICAL, "click", "rich", "matplotlib", "pooch", "jinja2")
_EXTRAS = {"data": "pyarrow", "torch": "torch", "dask": "dask", "jax": "optax", "formula": "formulaic", "onnx": "skl2onnx"}


@click.command(short_help="Check whether this installation works.")
@console_options
@click.pass_context
def doctor(ctx: click.Context, /, *, console: Console) -> None:
    """Report what is installed and where files go, and make a tiny fit. Exit code 1 when something is broken."""
    problems: list[str] = []
    report: dict[str, Any] = {"finitesum": __version__, "python": platform.python_version()}
    report["executable"] = sys.executable
    for name, check in _CHECKS.items():
        try:
            report[name] = check(problems)
        except Exception as error:  # whatever is broken is reported, and the rest is checked
            problems.append(f"{name}: {type(error).__name__}: {error}")
            report[name] = None
    report["problems"] = problems
    console.result(report, _text(report))
    if problems:
        ctx.exit(BROKEN)


def _libraries(problems: list[str]) -> dict[str, str | None]:
    found = {name: _version(name) for name in _LIBRARIES}
    problems += [f"{name} is not installed: pip install {name}" for name, version in found.items() if version is None]
    return found


def _version(name: str) -> str | None:
    from importlib import metadata  # slow to import

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _extras(_problems: list[str]) -> dict[str, str | None]:
    from importlib.util import find_spec

    return {f"{extra}: {name}": _version(name) if find_spec(name) else None for extra, name in _EXTRAS.items()}


def _threads(_problems: list[str]) -> dict[str, Any]:
    import numpy  # noqa: F401  it loads the libraries whose threads are counted
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    pools = {f"{pool['internal_api']} {pool['version']}": pool["num_threads"] for pool in threadpool_info()}
    return {"cores": os.cpu_count(), "usable": usable, **pools}


def _kernels(problems: list[str]) -> dict[str, Any]:
    from finitesum.core.jit import COMPILED
    from finitesum.core.kernel_folder import cache_folder, source_stamp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        folder = cache_folder()
    if folder is None:
        problems.append("no folder is writable for compiled kernels: set NUMBA_CACHE_DIR to a writable folder")
    kept = 0 if folder is None else sum(1 for _ in folder.glob("*.nbc-*"))  # a file for each signature
    place = {"folder": folder and str(folder), "writable": folder is not None, "kernels kept": kept}
    return {"compiled": COMPILED, **place, "stamp": source_stamp()}


def _data(problems: list[str]) -> dict[str, Any]:
    import tempfile

    from finitesum.datasets import find, list_datasets
    from finitesum.datasets.home import home, search_folders

    root, known = home(), list_datasets()
    writable = False
    with contextlib.suppress(OSError):
        if root is not None:
            root.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=root).close()
            writable = True
    if not writable:
        problems.append(f"{root or 'no home folder'} is not writable for data: set FINITESUM_HOME to a writable folder")
    here = f"{sum(find(entry.name) is not None for entry in known)} of {len(known)}"
    searched = [str(folder) for folder in search_folders()]
    return {"folder": root and str(root), "writable": writable, "searched": searched, "data sets here": here}


def _compiler(problems: list[str]) -> dict[str, Any]:
    """Return how long one small kernel takes to be compiled, or to be read where it was kept."""
    import time

    from finitesum.core.jit import COMPILED, Kernel

    if not COMPILED:
        return {"works": "not asked for: NUMBA_DISABLE_JIT is set"}
    started, doubled = time.perf_counter(), Kernel(_doubled)
    if not (works := doubled(1.5) == 3.0):
        problems.append("the compiler makes wrong code: reinstall numba and llvmlite")
    return {"works": works, "from the disk": doubled.cache_hits > 0, "seconds": time.perf_counter() - started}


def _doubled(x: float) -> float:
    return x + x


def _fit(problems: list[str]) -> dict[str, Any]:
    """Return the result of a tiny fit, whose optimum is known."""
    import time

    from finitesum.problems.linear import Problem
    from finitesum.running.driver import minimize

    started = time.perf_counter()
    # The optimum is w = mean(x y) / (mean(x^2) + alpha) = 2.5 / 3.5.
    problem = Problem.linear([[1.0], [2.0]], [1.0, 2.0], loss="squared", alpha=1.0)
    result = minimize(problem, method="newton", tol=1e-12)
    error = abs(float(result.x[0]) - 5.0 / 7.0)
    if not (result.success and error < 1e-11):
        problems.append(f"a tiny fit went wrong by {error:.1e}: {result.message}")
    return {"message": result.message, "error": error, "seconds": time.perf_counter() - started}


#: By name, in the order of the report; each adds to a list what is broken.
_CHECKS: dict[str, Callable[[list[str]], Any]] = {
    check.__name__.strip("_"): check for check in (_libraries, _extras, _threads, _kernels, _compiler, _data, _fit)
}


def _text(report: dict[str, Any]) -> str:
    lines = [f"finitesum {report['finitesum']}, Python {report['python']} ({report['executable']})"]
    for name in _CHECKS:
        lines += [f"{name}:", *(f"  {key:<16} {_shown(value)}" for key, value in (report[name] or {}).items())]
    if report["problems"]:
        return "\n".join([*lines, "broken:", *(f"  {problem}" for problem in report["problems"])])
    return "\n".join([*lines, "All is well."])


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not there"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
