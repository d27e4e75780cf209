"""``finitesum fit``: read data, minimise, write a model."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

import click
from click.core import ParameterSource

from finitesum.cli.console import Console, console_options, to_json
from finitesum.cli.errors import INTERRUPTED, NOT_CONVERGED, InputError
from finitesum.cli.inputs import make_method, make_problem, read_data, run_settings, task_of
from finitesum.cli.models import MOST_WITH_ERRORS, model_of, reached
from finitesum.cli.options import (
    FOLDER,
    Settings,
    data_options,
    memory_option,
    problem_options,
    run_options,
    shown,
    solver_option,
    table_options,
)
from finitesum.cli.parts import problem_of_parts, read_parts, wants_parts, within_memory
from finitesum.cli.show import MOST_SHOWN, rows_of, table_of

if TYPE_CHECKING:
    from finitesum.datasets import Dataset
    from finitesum.estimators.model import LinearModel
    from finitesum.problems.linear import Problem
    from finitesum.running.driver import Result

FORMAT = "finitesum-run-1"


class RunFolder:
    """The files of one fit.

    The settings are written first and the model last; the checkpoint stays until the fit has converged. So at any moment a
    killed fit can be continued from what its folder holds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"  # what was asked for
        self.checkpoint = path / "checkpoint.npz"  # the state of a fit that is not finished
        self.model = path / "model.npz"
        self.trace = path / "trace.csv"  # the figures of each pass
        self.result = path / "result.json"  # how the fit ended

    @property
    def is_finished(self) -> bool:
        """Whether the fit has converged and there is nothing to continue."""
        return self.model.exists() and self.result.exists() and not self.checkpoint.exists()

    def require_free(self) -> None:
        """Raise where the folder holds a model or an unfinished fit."""
        if self.checkpoint.exists():
            raise InputError(
                f"{self.path} holds a fit that is not finished. Use --resume {self.path} to continue it, "
                "or --force to start again."
            )
        if self.model.exists():
            raise InputError(f"{self.path} already holds a model. Use --force to replace it, or another folder.")

    def begin(self, settings: dict[str, Any], *, keep: bool) -> None:
        """Make the folder and write down the settings; without `keep` the files of an earlier fit go."""
        self.path.mkdir(parents=True, exist_ok=True)
        for file in self.path.glob(".*.npz-*.tmp"):  # what a killed fit was writing
            file.unlink(missing_ok=True)
        if not keep:
            for file in (self.checkpoint, self.model, self.trace, self.result):
                file.unlink(missing_ok=True)
        write_json(self.settings, {"written_by": FORMAT, "settings": settings})

    def read_settings(self) -> dict[str, Any] | None:
        """Return the settings that were written down, or None where there are none."""
        if not self.settings.exists():
            return None
        content = read_json(self.settings)
        if content.get("written_by") != FORMAT or not isinstance(content.get("settings"), dict):
            raise _damaged(self.settings, "it was written by another version")
        kinds = get_type_hints(Settings) | {"solver": str}
        for name, value in content["settings"].items():
            if name in kinds and not _is_of_kind(value, kinds[name]):
                raise _damaged(self.settings, f"{name} is {value!r}")
        return dict(content["settings"])

    def read_result(self) -> dict[str, Any]:
        """Return how the fit ended."""
        content = read_json(self.result)
        if not isinstance(content.get("message"), str):
            raise _damaged(self.result, "it has no message")
        return content


def _is_of_kind(value: Any, kind: Any) -> bool:
    """Return whether a value that was read from a file may be that of a setting."""
    if kind == list[str]:
        return isinstance(value, list) and value != [] and all(isinstance(one, str) for one in value)
    return isinstance(value, kind | int if kind is float else kind)


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file that `write_json` wrote."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, why: object) -> InputError:
    return InputError(f"{path} is damaged ({why}). Start again with --out and --force.")


def write_json(path: Path, content: Any) -> None:
    """Write content as JSON, atomically."""
    from finitesum.reporting.files import write_text

    write_text(path, to_json(content) + "\n")


class Plan(NamedTuple):
    """What one call of the command does."""

    settings: Settings
    solver: str
    folder: RunFolder | None
    goes_on: bool  # from a checkpoint, where there is one
    checkpoint_seconds: float

    @property
    def to_store(self) -> dict[str, Any]:
        """All that a later call needs to do the same."""
        return {**asdict(self.settings), "solver": self.solver}

    @property
    def begun(self) -> str:
        """The name of the method of the fit to go on with, "" where there is none."""
        from finitesum.running.checkpoint import begun_with

        return begun_with(self.folder.checkpoint) if self.goes_on and self.folder is not None else ""


@click.command(short_help="Fit a linear model to DATA and write it to a folder.")
@data_options(several=True)
@table_options
@problem_options
@solver_option
@run_options(tol=1e-6, max_iter=1000)
@memory_option
@click.option("--out", type=FOLDER, help="Folder for the model and the checkpoint.")
@click.option("--resume", type=FOLDER, help="Go on with the fit of this folder, as it was set.")
@shown("--checkpoint-seconds", 30.0, "At most.", type=click.FloatRange(min=0.0))
@click.option("--force", is_flag=True, help="Replace what the folder --out holds.")
@click.option("--strict", is_flag=True, help="Exit with code 3 when the fit has not converged.")
@console_options
@click.pass_context
def fit(ctx: click.Context, /, *, console: Console, threads: int | None, strict: bool, force: bool, **options: Any) -> None:
    """Fit a linear model to DATA.

    DATA is a file in svmlight format (also .xz, .gz, .bz2), CSV, .npz, .npy or Parquet, or the name of a data set
    ('finitesum data list'); or several such files, a folder or a pattern, which are read in parts: they may be larger than
    the memory. The folder --out gets model.npz, trace.csv and result.json; until the fit has converged it
    holds checkpoint.npz, from which --resume continues to the same bits as an uninterrupted fit.

    One CSV or Parquet file may have text, which becomes columns of 0 and 1, and missing values (--missing). What is done to
    the columns is kept in the model, and done again by predict.

    \b
    finitesum fit data.svm --loss logistic --alpha 1e-4 --tol 1e-10 --out run1
    finitesum fit --resume run1
    finitesum fit people.csv --target churn --drop id,since --missing indicator --out run2
    finitesum fit data/*.parquet --target y --memory 2GB --out run3
    """
    from finitesum.core.threads import limited_blas

    plan = _plan(ctx, options, force)
    if plan.goes_on and plan.folder is not None and plan.folder.is_finished:
        report = plan.folder.read_result()
        console.note(f"The fit in {plan.folder.path} is finished: there is nothing to continue.")
        console.result(report, f"{report['message']}\n{plan.folder.model}")
        return
    started = time.perf_counter()
    with limited_blas(threads):
        method = make_method(plan.solver, plan.settings)
        data: Any
        if wants_parts(plan.settings):
            data = read_parts(plan.settings, console, task=task_of(plan.settings), n_workers=threads)
            problem, classes = problem_of_parts(plan.settings, data, n_workers=threads)
            method = within_memory(plan.settings, problem, method, n_workers=threads, begun=plan.begun)
        else:
            data = read_data(plan.settings, console, task=task_of(plan.settings))
            problem, classes = make_problem(plan.settings, data)
        read_seconds = time.perf_counter() - started
        if plan.folder is not None:
            plan.folder.begin(plan.to_store, keep=plan.goes_on)
        try:
            result = _minimise(plan, problem, method, console)
        except KeyboardInterrupt:
            _report_interrupted(plan.folder)
            ctx.exit(INTERRUPTED)
    seconds = {"reading": read_seconds, "minimising": result.seconds, "total": time.perf_counter() - started}
    model = model_of(plan.settings, data, problem, classes, result)
    report = _report(plan, data, model, result, seconds)
    if plan.folder is not None:
        _write(plan.folder, model, result, report)
    console.result(report, f"{_text(plan, data, report)}\n\n{table_of(model, MOST_SHOWN)}")
    if plan.folder is None:
        console.note("The model is not kept: give --out to have it written.")
    if not result.success:
        console.warn("the fit has not converged.")
    if strict and not result.success:
        ctx.exit(NOT_CONVERGED)


def _plan(ctx: click.Context, options: dict[str, Any], force: bool) -> Plan:
    """Return what is to be done: as the command line says, or as the folder to be resumed does."""
    out, resume, checkpoint_seconds = (options.pop(name) for name in ("out", "resume", "checkpoint_seconds"))
    if out is not None and resume is not None:
        raise click.UsageError("--out and --resume name the same folder: give one of them", ctx)
    folder = None if out is None and resume is None else RunFolder(resume or out)
    if folder is not None and resume is not None:
        options = _resumed(ctx, options, folder)
    elif folder is not None and not force:
        folder.require_free()
    if options["data"] is None:
        raise click.UsageError("Missing argument 'DATA'", ctx)
    options["data"] = _absolute(options["data"])
    solver = options.pop("solver")
    return Plan(Settings(**options), solver, folder, resume is not None, checkpoint_seconds)


def _resumed(ctx: click.Context, options: dict[str, Any], folder: RunFolder) -> dict[str, Any]:
    """Return the settings of an earlier fit, replaced where this command line gives others."""
    stored = folder.read_settings()
    if stored is None:
        if options["data"] is None:
            raise InputError(f"{folder.path} holds no fit to continue. Start one by --out {folder.path}.")
        return options
    given = {
        name: value
        for name, value in options.items()
        if value is not None and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if "data" in given:
        given["data"] = _absolute(given["data"])
    merged = {**{name: stored.get(name, value) for name, value in options.items()}, **given}
    if folder.is_finished and merged != {name: stored.get(name) for name in merged}:
        raise InputError(
            f"the fit in {folder.path} is finished, and was made with other settings. "
            f"Use --out {folder.path} --force to start again, or another folder."
        )
    return merged


def _absolute(data: list[str]) -> list[str]:
    """Return the whole paths of files; a name stays."""
    return [str(Path(one).absolute()) if Path(one).exists() or any(sign in one for sign in "*?[") else one for one in data]


def _minimise(plan: Plan, problem: Problem, method: Any, console: Console) -> Result:
    from finitesum.running.driver import minimize

    checkpoint = None if plan.folder is None else plan.folder.checkpoint
    if plan.goes_on and checkpoint is not None and not checkpoint.exists():
        console.note(f"{checkpoint.parent} holds no checkpoint: the fit starts again.")
    file: Any = {"checkpoint": checkpoint, "checkpoint_seconds": plan.checkpoint_seconds, "resume": plan.goes_on}
    return minimize(problem, method=method, verbose=console.verbose, **run_settings(plan.settings), **file)


def _report(plan: Plan, data: Dataset, model: LinearModel, result: Result, seconds: dict[str, float]) -> dict[str, Any]:
    """Return how a fit ended, as plain values."""
    ended = {"success": bool(result.success), "status": result.reason.name.lower(), "message": result.message}
    work = {"n_hessian_passes": float(result.n_hessian_passes), "n_iter": int(result.nit), "seconds": seconds}
    how = {"choice": result.choice, "batch_size": int(result.batch_size), "settings": plan.to_store}
    table = rows_of(model) if len(model.coefficient_names) <= MOST_WITH_ERRORS else None
    columns = None if model.preparation is None else model.preparation.to_json()
    file = None if plan.folder is None else str(plan.folder.model)
    known = {"data": data.summary(), "preparation": columns, "coefficients": table}
    return {**ended, **reached(plan.settings, result), **work, **how, **known, "model": file}


def _write(folder: RunFolder, model: LinearModel, result: Result, report: dict[str, Any]) -> None:
    """Write the files of a fit; the checkpoint goes when there is nothing to continue."""
    result.trace.to_csv(folder.trace)
    write_json(folder.result, report)
    model.save(folder.model)
    if result.success:
        folder.checkpoint.unlink(missing_ok=True)


def _text(plan: Plan, data: Dataset, report: dict[str, Any]) -> str:
    """Return how a fit ended, as people read it."""
    lines = [
        report["message"],
        f"{data.name}: {data.n_rows} rows, {data.n_features} features; {plan.settings.loss} loss, "
        f"alpha {plan.settings.alpha}{', intercept' if plan.settings.intercept else ''}",
        f"{plan.solver}: objective {report['objective']:.12g} in {report['seconds']['minimising']:.3g} s",
    ]
    if report["choice"]:
        lines.append(f"chose {report['method']}: {report['choice']}")
    if plan.folder is not None:
        lines.append(f"wrote {plan.folder.model}, trace.csv, result.json")
        if not report["success"]:
            lines.append(f"continue by: finitesum fit --resume {plan.folder.path} --max-iter ...")
    return "\n".join(lines)


def _report_interrupted(folder: RunFolder | None) -> None:
    """Say what an interrupt has left behind."""
    if folder is None:
        text = "interrupted; nothing was saved, because no --out was given."
    elif folder.checkpoint.exists():
        text = f"interrupted; continue by: finitesum fit --resume {folder.path}"
    else:
        text = f"interrupted before the first checkpoint; start again by: finitesum fit --resume {folder.path}"
    click.echo(f"finitesum: {text}", err=True)
