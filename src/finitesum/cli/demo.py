"""``finitesum demo``: the main job on small data that need no download."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from finitesum.cli.compare import run_comparison
from finitesum.cli.console import Console, console_options
from finitesum.cli.errors import BROKEN
from finitesum.cli.inputs import make_problem
from finitesum.cli.options import DEMO_SOLVER, DEMO_SOLVERS, FOLDER, Settings, shown

if TYPE_CHECKING:
    from finitesum.datasets import Dataset
    from finitesum.problems.linear import Problem
    from finitesum.reporting.report import Comparison, Outcome

#: How far the optimum may lie from scikit-learn's.
AGREEMENT = 1e-8

_ASKED = Settings(intercept=False, tol=1e-12, max_iter=100)


@click.command(short_help="See it work on small data: fits, a comparison, a report.")
@shown("--out", "finitesum-demo", "Folder for the report.", type=FOLDER)
@console_options
@click.pass_context
def demo(ctx: click.Context, /, *, console: Console, out: Path) -> None:
    """Fit logistic regressions to small data, compare methods, check the optimum, write a report. Under a minute."""
    from finitesum.reporting.report import write_report

    started = time.perf_counter()
    lines, rows, sections = [], [], []
    for title, data in _data_sets():
        console.note(title)
        section, row = _one(title, data, console)
        sections.append(section)
        rows.append(row)
        lines.append(
            f"  {data.name:<17} {data.n_rows} x {data.n_features:<3} {row['method']}: {row['n_passes']:.4g} passes, "
            f"{row['seconds']:.3f} s, optimum within {row['coefficients_differ']:.0e}"
        )

    page = write_report(out, sections, title="finitesum: a demonstration", intro=_INTRO)
    seconds = time.perf_counter() - started
    good = all(row["agrees"] for row in rows)
    verdict = "as close as it should be" if good else "NOT as close as it should be"
    lines = [
        "Logistic regression with an l2 penalty, alpha = 1/n, to an optimality of 1e-12:",
        *lines,
        f"The optima are {verdict} to those of scikit-learn's newton-cholesky ({AGREEMENT:.0e}).",
        f"Report: {page.absolute()} ({seconds:.0f} s in all, compiling included)",
    ]
    summary = {"report": str(page.absolute()), "seconds": seconds, "agrees": good, "fits": rows}
    console.result(summary, "\n".join(lines))
    if not good:
        ctx.exit(BROKEN)


_INTRO = (
    "Eight methods minimise the same three objectives: the mean logistic loss with an l2 penalty, on data that "
    "scikit-learn ships and on a generated problem. Each optimum is checked against scikit-learn's newton-cholesky."
)


def _data_sets() -> list[tuple[str, Dataset]]:
    from finitesum.datasets import load_embedded, make_logistic

    return [
        ("Handwritten digits, even or odd", load_embedded("digits")),
        ("Breast cancer, standardised", load_embedded("breast_cancer", standardize=True)),
        ("Generated, badly conditioned", make_logistic(3000, 40, condition=100.0, noise=0.05, seed=0)),
    ]


def _one(title: str, data: Dataset, console: Console) -> tuple[Comparison, dict[str, Any]]:
    """Compare all methods on a data set and check the optimum."""
    from dataclasses import replace

    problem, _ = make_problem(_ASKED, data)
    comparison = run_comparison(data, problem, _ASKED, list(DEMO_SOLVERS), console)
    best = next(outcome for outcome in comparison.outcomes if outcome.name == DEMO_SOLVER)
    row = {"data": data.name, **best.row(), **_differences(problem, best, _newton_cholesky(problem, data))}
    note = (
        f"The optimum of {best.name} differs from that of scikit-learn's newton-cholesky by "
        f"{row['coefficients_differ']:.1e} in the coefficients and by {row['objective_differs']:.1e} in the objective."
    )
    return replace(comparison, title=title, notes=[note]), row


def _newton_cholesky(problem: Problem, data: Dataset) -> Any:
    """Return the coefficients that scikit-learn finds for the same objective."""
    from sklearn.linear_model import LogisticRegression

    strength = 1.0 / (problem.penalty.ridge() * data.n_rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where rounding errors end its line search, at the optimum
        reference = LogisticRegression(C=strength, solver="newton-cholesky", tol=1e-14, fit_intercept=False)
        reference.fit(data.rows, data.targets())
    return reference.coef_.ravel()


def _differences(problem: Problem, outcome: Outcome, reference: Any) -> dict[str, Any]:
    from finitesum.evaluation.optimality import evaluate

    if outcome.x is None:
        return {"coefficients_differ": float("nan"), "objective_differs": float("nan"), "agrees": False}
    coefficients = float(abs(outcome.x - reference).max())
    objective = abs(outcome.objective - evaluate(problem, reference).objective)
    agrees = outcome.success and max(coefficients, objective) <= AGREEMENT
    return {"coefficients_differ": coefficients, "objective_differs": float(objective), "agrees": agrees}
