"""Models by formulas such as ``"y ~ a * b + C(region)"``, read by formulaic (extra `formula`)."""

from typing import Any, NamedTuple

import numpy as np

from finitesum.estimators.elsewhere import require_no_collection

INTERCEPT = "Intercept"


class Formula(NamedTuple):
    """The right-hand side of a formula, with the levels and transformations that the data of the fit gave it."""

    text: str
    spec: Any  #: formulaic's ModelSpec
    has_intercept: bool

    def rows(self, frame: Any, na_action: str = "raise") -> Any:
        """Return the columns of a frame's rows as the formula says, a DataFrame without a column for the intercept.

        It is a ValueError where a column is absent, or where values are missing and the action is "raise".
        """
        from formulaic.errors import FormulaicError

        try:
            made = self.spec.get_model_matrix(frame, na_action=na_action)
        except (FormulaicError, ValueError) as error:
            raise ValueError(f'the formula "{self.text}" cannot be evaluated: {error}') from error
        return made.drop(columns=INTERCEPT) if self.has_intercept else made


def is_raw(X: Any, names: Any) -> bool:
    """Return whether X is a frame of a formula's variables, and not of the columns that it makes of them."""
    columns = getattr(X, "columns", None)
    return columns is not None and set(names) != set(columns)


def fit_formula(cls: Any, text: str, frame: Any, sample_weight: Any, offset: Any, parameters: dict[str, Any]) -> Any:
    """Return an estimator that is fitted to a frame, as `LinearEstimator.from_formula` says."""
    try:
        import formulaic
    except ImportError:
        raise ImportError(
            "formulas are read by formulaic, which is not installed. Run: pip install 'finitesum[formula]'"
        ) from None
    if "~" not in text:
        raise ValueError(f'formula must have a target and features, such as "y ~ a + b", got {text!r}.')
    if "fit_intercept" in parameters:
        raise ValueError('fit_intercept is what the formula says: write "- 1" in it for a model without an intercept.')
    require_no_collection(frame, "frame", cls.__name__, "from_formula")
    frame = frame.reset_index(drop=True)  # so that an index is a position
    known = formulaic.Formula(text)
    target = _target(known.lhs, text, frame)
    try:
        made = known.rhs.get_model_matrix(frame)
    except formulaic.errors.FormulaicError as error:
        raise ValueError(f'the formula "{text}" cannot be evaluated: {error}') from error
    formula = Formula(text, made.model_spec, INTERCEPT in made.columns)
    X = made.drop(columns=INTERCEPT) if formula.has_intercept else made
    kept = X.index.to_numpy()
    kept = kept[~target.iloc[kept].isna().to_numpy()]
    beside = {"sample_weight": sample_weight, "offset": offset}
    named = {name: frame[value] if isinstance(value, str) else value for name, value in beside.items()}
    given = {name: np.asarray(value)[kept] for name, value in named.items() if value is not None}
    model = cls(fit_intercept=formula.has_intercept, **parameters)
    model.fit(X.loc[kept], target.iloc[kept].to_numpy(), **given)
    model.formula_ = formula
    return model


def _target(side: Any, text: str, frame: Any) -> Any:
    """Return the left-hand side of a formula: a column as it is, which may hold labels, or an expression of numbers."""
    name = str(side).strip().strip("`")
    if name in frame.columns:
        return frame[name]
    made = side.get_model_matrix(frame, na_action="ignore")
    if made.shape[1] != 1:
        raise ValueError(f'the formula "{text}" must have one target on the left, got {made.shape[1]}.')
    return made.iloc[:, 0]
