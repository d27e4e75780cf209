"""The model that a fit has found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from finitesum import __version__
from finitesum.cli.options import Settings
from finitesum.cli.parts import wants_parts

if TYPE_CHECKING:
    from finitesum.estimators.model import LinearModel
    from finitesum.problems.linear import Problem
    from finitesum.running.driver import Result

#: Coefficients whose standard errors are computed at most, and the rows times their square: a second or so of work.
MOST_WITH_ERRORS, MOST_WORK = 500, 2e10


def reached(settings: Settings, result: Result) -> dict[str, Any]:
    """Return what the model and the report both say of a fit."""
    figures = {"objective": float(result.fun), "optimality": float(result.optimality), "tol": settings.tol}
    return {**figures, "n_passes": float(result.n_passes), "method": repr(result.method), "version": __version__}


def model_of(
    settings: Settings, data: Any, problem: Problem, classes: tuple[Any, ...] | None, result: Result
) -> LinearModel:
    """Return the model that a result means, with errors of its coefficients where they are known."""
    import numpy as np

    from finitesum.estimators.model import LinearModel, with_inference

    coef: Any = result.x.reshape(problem.n_outputs, -1).copy()
    if problem.n_outputs > 1 and not settings.l1_ratio:  # what is added to all classes changes nothing
        coef -= coef.mean(axis=0)
    intercept: Any = np.zeros(len(coef))
    if problem.has_intercept:
        coef, intercept = np.ascontiguousarray(coef[:, :-1]), coef[:, -1].copy()
    if problem.n_outputs == 1:
        coef, intercept = coef[0], float(intercept[0])
    is_table = not wants_parts(settings)
    model = LinearModel(
        coef,
        intercept,
        loss=settings.loss if problem.n_outputs == 1 else "multinomial",
        alpha=problem.penalty.lasso() + problem.penalty.ridge(),
        l1_ratio=settings.l1_ratio,
        classes=classes,
        feature_names=data.feature_names,
        fit_intercept=problem.has_intercept,
        seed=settings.seed,
        n_rows=data.n_rows,
        target_name=data.target_name,
        preparation=data.preparation if is_table else None,
        **reached(settings, result),
    )
    size = model.coefficients.size
    if not (is_table and result.success and size <= MOST_WITH_ERRORS and problem.n_rows * size**2 <= MOST_WORK):
        return model
    return with_inference(model, problem, data.sample_weight)
