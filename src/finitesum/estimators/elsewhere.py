"""Words of other libraries, with what is written here, and estimators as dataclasses that answer them."""

import functools
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast, dataclass_transform

from finitesum.core.in_memory import is_on_dask

Class = TypeVar("Class", bound=type[Any])

#: Parameters of scikit-learn, statsmodels, glum, glmnet and others that have another name here, or none.
PARAMETERS = {
    "n_jobs": "n_threads",
    "multi_class": "nothing: several classes are multinomial, and one against the rest in LinearClassifier",
    "dual": 'solver="dual-ascent" for the hinge loss, else nothing',
    "positive": "bounds=(0, None)",
    "lower_bounds": "bounds, a pair or a dict by column",
    "upper_bounds": "bounds, a pair or a dict by column",
    "A_ineq": "constraint=Polyhedron(A, b) of finitesum.constraints",
    "b_ineq": "constraint=Polyhedron(A, b) of finitesum.constraints",
    "P1": "penalty_weights",
    "P2": "penalty_weights",
    "penalty_factor": "penalty_weights",
    "family": "loss, or an estimator of the family",
    "normalize": "a StandardScaler in front, in a pipeline",
    "intercept_scaling": "nothing: the intercept is not penalised",
    "reg_param": "alpha",
    "gradient_tol": "tol",
    "eta0": "step_size",
    "learning_rate": "step_size",
    "n_epochs": "max_iter, in passes over the data",
    "early_stopping": "callback, which ends the fit where it returns True",
    "seed": "random_state",
    "precompute": "nothing: that is decided by the data's shape",
    "selection": "nothing: that is decided by the data's shape",
    "copy_X": "nothing: X is never written to",
}

#: Penalties by name.
PENALTIES = {
    "l2": "l1_ratio=0, which is the default",
    "l1": "l1_ratio=1",
    "elasticnet": "l1_ratio between 0 and 1",
    "none": "C=inf or alpha=0",
}

#: Solvers by name, of which there is none here; all of these problems are solved by what "auto" takes.
SOLVERS = frozenset(
    {
        "bfgs",
        "liblinear",
        "newton-cholesky",
        "cholesky",
        "svd",
        "lsqr",
        "sparse-cg",
        "irls",
        "irls-ls",
        "irls-cd",
        "cd",
        "highs",
        "highs-ds",
        "highs-ipm",
        "trust-constr",
        "revised-simplex",
    }
)


#: Estimators that have a class of their name in `finitesum.dask`.
ON_DASK = (
    "GammaRegressor",
    "HuberRegressor",
    "LinearClassifier",
    "LinearRegressor",
    "LinearSVC",
    "LogisticRegression",
    "PoissonRegressor",
    "Ridge",
    "TweedieRegressor",
)

#: Methods whose results for some rows depend on these rows alone.
BY_ROW = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def estimator(cls: Class) -> Class:
    """Make an estimator of a class: its fields are the parameters, by name; one of another library is answered.

    Examples
    --------
    >>> @estimator
    ... class Model:
    ...     n_threads: int = 1
    >>> Model(n_jobs=2)
    Traceback (most recent call last):
        ...
    TypeError: Model has no parameter n_jobs: here it is n_threads.
    """
    made: Any = dataclass(kw_only=True, eq=False, repr=False)(cls)
    known, make = {one.name for one in fields(made)}, made.__init__

    @functools.wraps(make)
    def __init__(self: Any, *given: Any, **parameters: Any) -> None:
        for name in parameters:
            if name in PARAMETERS and name not in known:
                raise TypeError(f"{type(self).__name__} has no parameter {name}: here it is {PARAMETERS[name]}.")
        make(self, *given, **parameters)

    made.__init__ = __init__
    return cast(Class, made)


def require_no_collection(given: Any, name: str, estimator: str, method: str = "fit") -> None:
    """Raise where an argument of an estimator's method in memory is a Dask collection, and say where to go instead."""
    if not is_on_dask(given):
        return
    in_memory = f"{name}.compute() where that fits into memory"
    if method in BY_ROW and name == "X":
        go = (
            f": call {method} for its blocks, by X.map_blocks (with dtype=, and drop_axis=1 where a row gives one number) "
            f"or X.map_partitions, or give {in_memory}."
        )
    elif method not in ("fit", "score"):
        go = f", which {method} does not take: give {in_memory}."
    elif estimator in ON_DASK:
        how = "fit" if method == "fit" else "score by a fitted"
        go = f": {how} finitesum.dask.{estimator} (pip install 'finitesum[dask]'), or {in_memory}."
    else:
        go = (
            f", and finitesum.dask has no {estimator}: fit one of {', '.join(ON_DASK)} there, or here a sample of the "
            f"rows, or {in_memory}."
        )
    raise TypeError(f"{name} is a Dask collection{go}")


def hint_for_solver(name: str) -> str:
    """Return what to write for a solver of another library, or for L-BFGS where it is unsuited; or nothing."""
    if name == "lbfgs":
        return ' "lbfgs" is for one smooth output: leave solver at "auto", which chooses.'
    return f' solver="{name}" is one of another library: leave solver at "auto", which chooses.' if name in SOLVERS else ""
