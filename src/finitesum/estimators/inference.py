"""What is known of a fitted model's coefficients: errors, tests, intervals, and the criteria that compare models.

The covariance matrices behind it are those of `finitesum.estimators.covariance` and `finitesum.estimators.robust_errors`.
Intervals and p-values use Student's t for least squares with kind "model", and the normal distribution elsewhere.
"""

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import chdtrc, fdtrc, ndtr, ndtri, stdtr, stdtrit

from finitesum.core.arrays import Matrix, Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.covariance import inverse_and_rank, require_inference
from finitesum.estimators.likelihood import log_likelihood_and_deviance
from finitesum.estimators.residuals import Residuals, residuals_of
from finitesum.estimators.robust_errors import KINDS, model_covariance, robust_covariance
from finitesum.losses import Squared
from finitesum.problems.linear import Problem

#: Losses whose exponentiated coefficients are ratios, of odds, of rates or of means.
OF_RATIOS = ("logistic", "multinomial", "binomial", "poisson", "gamma", "tweedie", "negative binomial", "ordinal logistic")


@dataclass(frozen=True, eq=False, repr=False)
class Inference:
    """The coefficients of a fitted model with their errors; made by the estimators' `inference`.

    Variables are in the order of `coef_` with the intercept behind, class by class. ``print`` shows the table, notebooks
    show it as HTML.
    """

    title: str
    family: str
    names: tuple[str, ...]
    coefficients: Vector  #: shape (p,)
    covariance: Matrix  #: shape (p, p)
    kind: str  #: of the covariance matrix
    n_observations: float  #: S, the sum of the weights
    rank: int  #: of the Hessian: parameters that the data determine
    dispersion: float
    log_likelihood: float
    deviance: float
    optimality: float
    uses_t: bool  #: Student's t with `df_resid` degrees of freedom, or the normal distribution

    @property
    def standard_errors(self) -> Vector:
        """The square roots of the covariance matrix's diagonal."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def statistics(self) -> Vector:
        """Each coefficient divided by its standard error: z, or t for least squares."""
        with np.errstate(divide="ignore", invalid="ignore"):  # no errors where the model fits exactly
            return np.asarray(self.coefficients / self.standard_errors)

    @property
    def df_resid(self) -> float:
        """S - p, the degrees of freedom that are left."""
        return self.n_observations - self.rank

    @property
    def p_values(self) -> Vector:
        """Two-sided p-values of the hypotheses that a coefficient is 0."""
        below = -np.abs(self.statistics)
        return np.asarray(2.0 * (stdtr(self.df_resid, below) if self.uses_t else ndtr(below)))

    @property
    def aic(self) -> float:
        """-2 log-likelihood + 2 p."""
        return -2.0 * self.log_likelihood + 2.0 * self.rank

    @property
    def bic(self) -> float:
        """-2 log-likelihood + p log S."""
        return -2.0 * self.log_likelihood + self.rank * math.log(self.n_observations)

    def confint(self, level: float = 0.95) -> Matrix:
        """Return lower and upper ends of confidence intervals of 0 < level < 1, shape (p, 2)."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be > 0 and < 1, got {level!r}: 0.95 is usual.")
        end = 0.5 + 0.5 * level
        reach = float(stdtrit(self.df_resid, end) if self.uses_t else ndtri(end)) * self.standard_errors
        return np.column_stack([self.coefficients - reach, self.coefficients + reach])

    def coef_table(self, level: float = 0.95) -> dict[str, Any]:
        """Return the columns of the table by name, each of shape (p,)."""
        low, high = self.confint(level).T
        letter = "t" if self.uses_t else "z"
        columns = {"coef": self.coefficients, "std err": self.standard_errors, letter: self.statistics}
        columns |= {"p": self.p_values, f"[{50.0 * (1.0 - level):.4g}%": low, f"{50.0 * (1.0 + level):.4g}%]": high}
        if self.family in OF_RATIOS:
            columns["exp(coef)"] = np.exp(self.coefficients)
        return columns

    def to_frame(self, level: float = 0.95) -> Any:
        """Return the table as a pandas DataFrame, a row for each coefficient."""
        import pandas as pd

        return pd.DataFrame(self.coef_table(level), index=pd.Index(self.names, name="coefficient"))

    def cov_frame(self) -> Any:
        """Return the covariance matrix as a pandas DataFrame with names."""
        import pandas as pd

        return pd.DataFrame(self.covariance, index=list(self.names), columns=list(self.names))

    def wald_test(self, hypothesis: str | Sequence[str] | Any, values: Any = 0.0) -> dict[str, float]:
        """Test that some coefficients, or combinations R b of them, have given values.

        The statistic is (R b - r)' (R V R')^-1 (R b - r), with chi^2's distribution for q independent rows of R; where
        Student's t is used it is divided by q, with F's.

        Parameters
        ----------
        hypothesis : str, list of str, or array_like, shape (q, p)
            Names of coefficients, or R.
        values : float or array_like, shape (q,)
            r.

        Returns
        -------
        dict
            statistic, df, df_resid (infinite for chi^2), p_value
        """
        if isinstance(hypothesis, str) or (len(hypothesis) and isinstance(hypothesis[0], str)):
            wanted = [hypothesis] if isinstance(hypothesis, str) else list(hypothesis)
            unknown = [name for name in wanted if name not in self.names]
            if unknown:
                raise ValueError(f"hypothesis names {unknown[0]!r}, but the coefficients are {', '.join(self.names)}.")
            matrix = np.eye(len(self.names))[[self.names.index(name) for name in wanted]]
        else:
            matrix = np.atleast_2d(np.asarray(hypothesis, dtype=np.float64))
            if matrix.shape[1] != len(self.names):
                raise ValueError(
                    f"hypothesis must have {len(self.names)} columns, one a coefficient, got {matrix.shape[1]}."
                )
        lack = matrix @ self.coefficients - np.broadcast_to(np.asarray(values, dtype=np.float64), len(matrix))
        inverse, q = inverse_and_rank(matrix @ self.covariance @ matrix.T)
        statistic = float(lack @ inverse @ lack)
        if self.uses_t:
            statistic /= q
            p = float(fdtrc(q, self.df_resid, statistic))
            return {"statistic": statistic, "df": q, "df_resid": self.df_resid, "p_value": p}
        return {"statistic": statistic, "df": q, "df_resid": math.inf, "p_value": float(chdtrc(q, statistic))}

    # -- how it is shown

    def facts(self) -> list[tuple[str, str]]:
        """Return what the summary says above its table: names and texts."""
        return [
            ("observations", f"{self.n_observations:.10g}"),
            ("parameters", str(self.rank)),
            ("family", self.family),
            ("dispersion", f"{self.dispersion:.6g}"),
            ("log-likelihood", f"{self.log_likelihood:.6f}"),
            ("deviance", f"{self.deviance:.6f}"),
            ("AIC", f"{self.aic:.4f}"),
            ("BIC", f"{self.bic:.4f}"),
            ("covariance", self.kind),
            ("optimality", f"{self.optimality:.1e}"),
        ]

    def cells(self, level: float) -> tuple[list[str], list[list[str]]]:
        """Return the table as text: the names of its columns, and the cells of each coefficient."""
        columns = self.coef_table(level)
        texts = [[_number(name, value) for value in column] for name, column in columns.items()]
        return list(columns), [list(row) for row in zip(*texts, strict=True)]

    def __repr__(self) -> str:
        header, rows = self.cells(0.95)
        table = [["", *header], *([name, *row] for name, row in zip(self.names, rows, strict=True))]
        widths = [max(len(row[k]) for row in table) for k in range(len(table[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in table
        ]
        width = max(len(lines[0]), 60)
        facts = self.facts()
        pairs = zip(facts[::2], facts[1::2], strict=True)
        half = (width - 4) // 2
        above = [f"{_fact(one, half)}    {_fact(other, half)}" for one, other in pairs]
        return "\n".join([self.title.center(width).rstrip(), "=" * width, *above, "-" * width, *lines, "=" * width])

    def _repr_html_(self) -> str:
        header, rows = self.cells(0.95)
        facts = "".join(f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in self.facts())
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ["", *header])
        body = "".join(
            f"<tr><th>{html.escape(name)}</th>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
            for name, row in zip(self.names, rows, strict=True)
        )
        return (
            f"<table><caption>{html.escape(self.title)}</caption>{facts}</table>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def _number(column: str, value: float) -> str:
    if column == "p":
        return f"{value:.3f}" if value >= 5e-4 or math.isnan(value) else "<0.001"
    return f"{value:.2f}" if column in ("z", "t") else f"{value:.5g}"


def _fact(fact: tuple[str, str], width: int) -> str:
    name, value = fact
    return f"{name}:{value.rjust(width - len(name) - 1)}"


def likelihood_ratio_test(smaller: Inference, larger: Inference) -> dict[str, float]:
    """Test a model against a larger one that contains it: 2 (l_larger - l_smaller) with chi^2's distribution.

    Returns
    -------
    dict
        statistic, df (the difference of the ranks), p_value

    Raises
    ------
    ValueError
        The models have different families or numbers of observations, or the second is not the larger one.
    """
    if (smaller.family, smaller.n_observations) != (larger.family, larger.n_observations):
        raise ValueError(
            f"the models must be of one family on the same rows, got {smaller.family} on {smaller.n_observations:g} and "
            f"{larger.family} on {larger.n_observations:g}."
        )
    df, statistic = larger.rank - smaller.rank, 2.0 * (larger.log_likelihood - smaller.log_likelihood)
    if df <= 0 or statistic < -1e-6 * abs(larger.log_likelihood):
        raise ValueError("the second model must contain the first, with more parameters and no lower likelihood.")
    return {"statistic": statistic, "df": df, "p_value": float(chdtrc(df, max(statistic, 0.0)))}


def inference_of(
    title: str,
    problem: Problem,
    x: Vector,
    total: float,
    names: Sequence[str],
    *,
    kind: str = "model",
    groups: Any = None,
    optimality: float = math.nan,
) -> Inference:
    """Return what is known of the coefficients x of a problem whose weights sum to `total`."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}.")
    if (groups is not None) != (kind == "cluster"):
        raise ValueError('groups, a label for each row, go with kind="cluster", and only with it.')
    if groups is not None and np.shape(groups) != (problem.n_rows,):
        raise ValueError(f"groups must have shape ({problem.n_rows},), a label for each row, got {np.shape(groups)}.")
    require_inference(problem)
    loss: Any = problem.loss
    known = model_covariance(problem, x, total)
    covariance, dispersion = known.matrix, known.dispersion
    if kind != "model":
        covariance = robust_covariance(problem, x, total, kind, groups)
    likelihood, deviance = log_likelihood_and_deviance(problem, x, total, dispersion)
    return Inference(
        title=title,
        family=_family(loss),
        names=tuple(names),
        coefficients=x.copy(),
        covariance=covariance,
        kind=kind,
        n_observations=total,
        rank=known.rank,
        dispersion=dispersion,
        log_likelihood=likelihood,
        deviance=deviance,
        optimality=optimality,
        uses_t=isinstance(loss, Squared) and kind == "model",
    )


def _family(loss: Any) -> str:
    name = type(loss).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


class InferenceMixin(ABC):
    """What an estimator of a likelihood says of its coefficients, beside `standard_errors_`."""

    @abstractmethod
    def _posed(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[list[Problem], float]:
        """Return the problems that these data pose with the model's parameters, and the sum of the weights."""

    @abstractmethod
    def _packed(self, n_columns: int, n_points: int) -> list[Vector] | None: ...

    def _coefficient_names(self) -> list[str]:
        model: Any = self
        d = model.n_features_in_
        names = [str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(d)])]
        names += ["intercept"] if model.fit_intercept else []
        classes = getattr(model, "classes_", ())
        return [f"{label}: {name}" for label in classes for name in names] if len(classes) > 2 else names

    def _infer(self, problem: Problem, x: Vector, total: float, **how: Any) -> Inference:
        names, optimality = self._coefficient_names(), float(getattr(self, "optimality_", math.nan))
        return inference_of(type(self).__name__, problem, x, total, names, optimality=optimality, **how)

    @in_kind
    def inference(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, kind: str = "model", groups: Any = None
    ) -> Inference:
        """Return errors, tests and intervals of the coefficients, from the data that the model was fitted to.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for `fit`.
        kind : {"model", "HC0", "HC1", "HC2", "HC3", "cluster"}
            The covariance matrix: right where the model is; robust to variances that differ; robust to rows that depend on
            others of their group. `finitesum.estimators.robust_errors` has the formulas.
        groups : array_like, shape (n,), optional
            A label for each row, with "cluster".

        Returns
        -------
        Inference

        Raises
        ------
        ValueError
            The model has an l1 penalty, a constraint, several problems of its own, or a loss that is no likelihood.
        """
        problem, x, total = self._one_problem(X, y, sample_weight, offset)
        return self._infer(problem, x, total, kind=kind, groups=groups)

    @in_kind
    def residuals(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Residuals:
        """Return residuals, leverages and Cook's distances of the rows that the model was fitted to.

        Parameters
        ----------
        X, y, sample_weight, offset
            As for `fit`.

        Returns
        -------
        Residuals
        """
        problem, x, total = self._one_problem(X, y, sample_weight, offset)
        return residuals_of(problem, x, total)

    def _one_problem(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Problem, Vector, float]:
        from sklearn.utils.validation import check_is_fitted  # which models in files do without

        check_is_fitted(self)
        problems, total = self._posed(X, y, sample_weight, offset)
        points = self._packed(problems[0].rows.n_columns, len(problems))
        if len(problems) > 1 or points is None:
            raise ValueError(
                "inference is known for one problem at a time: fit one target, or LogisticRegression for classes."
            )
        return problems[0], points[0], total

    def summary(self) -> Inference:
        """Return the `Inference` of a fit with ``standard_errors=True``; print it, or look at it in a notebook."""
        known = self.__dict__.get("inference_")
        if known is None:
            raise ValueError(
                f"{type(self).__name__} knows no errors of its coefficients: fit one target with standard_errors=True, "
                "l1_ratio=0 and no constraint, or call inference(X, y) with the data of the fit."
            )
        return cast(Inference, known)

    def confint(self, level: float = 0.95) -> Matrix:
        """Return confidence intervals of the coefficients, shape (p, 2), as `Inference.confint` does."""
        return self.summary().confint(level)

    def coef_table(self, level: float = 0.95) -> Any:
        """Return the table of coefficients as a pandas DataFrame, as `Inference.to_frame` does."""
        return self.summary().to_frame(level)
