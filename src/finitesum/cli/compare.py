"""``finitesum compare``: several methods on one problem, and a report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from finitesum.cli.console import Console, console_options
from finitesum.cli.errors import NOT_CONVERGED, InputError
from finitesum.cli.inputs import make_problem, method_options, read_data, require_sampling, run_settings, task_of
from finitesum.cli.options import (
    FOLDER,
    USUAL_SOLVERS,
    Settings,
    data_options,
    problem_options,
    run_options,
    shown,
    table_options,
)

if TYPE_CHECKING:
    from finitesum.datasets import Dataset
    from finitesum.problems.linear import Problem
    from finitesum.reporting.report import Comparison, Outcome


@click.command(short_help="Run several methods on DATA and write a report.")
@data_options()
@table_options
@shown("--solvers", ",".join(USUAL_SOLVERS), "Names of methods, or package.module:Class, with commas between; or all.")
@problem_options
@run_options(tol=1e-10, max_iter=100)
@shown("--out", "report", "Folder for the report.", type=FOLDER)
@click.option("--force", is_flag=True, help="Replace the report in the folder --out.")
@click.option("--strict", is_flag=True, help="Exit with code 3 when a method has not converged.")
@console_options
@click.pass_context
def compare(
    ctx: click.Context, /, *, console: Console, solvers: str, out: Path, force: bool, strict: bool, **options: Any
) -> None:
    """Run several methods on DATA and write a report: a page that opens offline, PNG figures and CSV tables."""
    if (out / "report.html").exists() and not force:
        raise InputError(f"{out} already holds a report. Use --force to replace it, or another folder.")
    threads = options.pop("threads")
    asked, names = Settings(**options), _methods(solvers)
    require_sampling(asked)
    from finitesum.core.threads import limited_blas
    from finitesum.methods import METHODS
    from finitesum.methods.base import is_suited
    from finitesum.reporting.report import write_report

    with limited_blas(threads):
        data = read_data(asked, console, task=task_of(asked))
        problem, _ = make_problem(asked, data)
        if solvers.strip() == "all":
            names = [name for name in names if is_suited(METHODS[name], problem)]
        comparison = run_comparison(data, problem, asked, names, console)

    page = write_report(out, [comparison], title=f"{data.name}: {comparison.title}")
    rows = [outcome.row() for outcome in comparison.outcomes]
    console.result(
        {"report": str(page), "verdict": comparison.verdict(), "methods": rows, "settings": asdict(asked)},
        f"{comparison.verdict()}\nwrote {page}",
    )
    if strict and not all(outcome.success for outcome in comparison.outcomes):
        ctx.exit(NOT_CONVERGED)


def _methods(text: str) -> list[Any]:
    """Return the methods that a list with commas means, each once: names, and package.module:Class."""
    from finitesum.methods import METHODS
    from finitesum.reporting.comparing import resolved

    given = [name.strip() for name in text.split(",") if name.strip()]
    try:
        own = [resolved(name) for name in given if ":" in name]
    except ValueError as error:
        raise InputError(f"--solvers: {error}") from error
    names = [name.lower().replace("_", "-") for name in given if ":" not in name]
    if own and not names:
        return own
    if names == ["all"]:
        return list(METHODS)
    unknown = [name for name in names if name not in METHODS and name != "auto"]
    if unknown or not names:
        raise InputError(
            f"--solvers must be names of methods with commas between, got {text!r}. They are: auto, {', '.join(METHODS)}."
        )
    return [*dict.fromkeys(names), *own]


def run_comparison(data: Dataset, problem: Problem, asked: Settings, names: list[Any], console: Console) -> Comparison:
    """Return what methods did on a problem; each is reported on stderr when it is done."""
    from finitesum.reporting import report

    settings = {"options": method_options(asked), "verbose": console.verbose, **run_settings(asked)}
    outcomes = report.run_methods(problem, names, on_done=lambda outcome: console.note(_outcome_line(outcome)), **settings)
    penalty = {0.0: "l2 penalty", 1.0: "l1 penalty"}.get(asked.l1_ratio, f"elastic net, l1_ratio {asked.l1_ratio:g}")
    intercept = "with intercept" if asked.intercept else "no intercept"
    kind = f"sparse, {data.nnz} entries ({100.0 * data.density:.3g} %)" if data.is_sparse else "dense"
    title = f"{asked.loss} loss, alpha = {asked.alpha}, {intercept}"
    facts = {
        "data": f"{data.name}: {data.n_rows} rows, {data.n_features} features, {kind}, {data.rows.dtype}",
        "objective": f"mean {asked.loss} loss, {penalty}, alpha = {asked.alpha} = "
        f"{problem.penalty.lasso() + problem.penalty.ridge():.6g}, {intercept}",
        "stop": f"optimality at most {asked.tol:g}, or {asked.max_iter:g} effective passes",
        "order of visits": f"{asked.sampling or 'the default of each method'}, seed {asked.seed}",
        "machine": _machine_line(),
    }
    return report.Comparison(title, asked.tol, outcomes, facts)


def _outcome_line(outcome: Outcome) -> str:
    """Return how a method ended, as a line of a table; below it what to do where it did not converge."""
    if not len(outcome.trace):
        return f"  {outcome.name:<10} {outcome.message}"
    advice = "" if outcome.success else outcome.message.partition(". ")[2]  # behind the figures
    return (
        f"  {outcome.name:<10} {'converged' if outcome.success else 'stopped':<10} optimality {outcome.optimality:.1e}"
        f"  {outcome.n_passes:6.4g} passes  {outcome.seconds:7.3f} s" + (f"\n{'':13}{advice}" if advice else "")
    )


def _machine_line() -> str:
    """Return what seconds depend on."""
    import os
    import platform
    from importlib.metadata import version

    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {libraries}"
