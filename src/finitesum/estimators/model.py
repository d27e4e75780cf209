"""A fitted linear model as a file: what `finitesum fit` writes and `finitesum predict` reads.

The file is an .npz of plain arrays and one line of JSON, never pickle, and is written atomically.
"""

import os
import zipfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from scipy.special import log_softmax

from finitesum.core.arrays import Vector
from finitesum.core.indices import require_indices
from finitesum.datasets.labels import label_array
from finitesum.datasets.tables import TablePreparation
from finitesum.estimators.inference import Inference, inference_of
from finitesum.losses import LIKELIHOODS, Multinomial, as_loss
from finitesum.losses.arrays import log_likelihoods
from finitesum.problems.linear import Problem
from finitesum.running.checkpoint import read_npz, write_npz

FORMAT = "finitesum-model-2"

#: Fields of the first format, whose files are read, too; those that came later have their defaults there.
_FIRST_FORMAT = "finitesum-model-1"


#: What a model file holds of `Inference` beside names, coefficients and their covariance.
_OF_INFERENCE = tuple(name for name in get_type_hints(Inference) if name not in ("names", "coefficients", "covariance"))


class ModelError(ValueError):
    """A model file, or rows of data, that cannot be used: the message says what is wrong and what to do."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear model u = x'coef + intercept, and how it came about.

    Examples
    --------
    >>> model = LinearModel(np.array([2.0, -1.0]), 0.5, classes=("ham", "spam"))
    >>> model.decision(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([ 2.5, -0.5])
    >>> model.predict(np.array([[1.0, 0.0], [0.0, 1.0]]))
    array(['spam', 'ham'], dtype='<U4')
    """

    coef: Any  #: float64, shape (n_features,), or (K, n_features) of K > 2 classes
    intercept: Any = 0.0  #: a number, 0 where none was fitted; of K > 2 classes an ndarray, shape (K,)
    loss: str = "logistic"  #: a name of `finitesum.losses.LOSSES`
    alpha: float = 0.0  #: of the penalty alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)
    l1_ratio: float = 0.0
    classes: tuple[Any, ...] | None = None  #: the labels as the data had them, of two those behind -1 and +1
    feature_names: tuple[str, ...] | None = None
    fit_intercept: bool = False
    objective: float = float("nan")  #: that was reached
    optimality: float = float("nan")  #: that was reached
    tol: float = float("nan")  #: the optimality that was asked for
    n_passes: float = float("nan")  #: effective passes over the data
    method: str = ""  #: with its parameters
    seed: int = 0
    n_rows: int = 0  #: that the model was fitted to
    version: str = ""  #: of finitesum, which wrote the model
    target_name: str | None = None  #: the column of the labels
    preparation: TablePreparation | None = None  #: what was done to the columns of a table
    inference: Inference | None = None  #: errors and tests of the coefficients, where they are known

    @property
    def n_features(self) -> int:
        """The number of columns that rows must have."""
        return int(self.coef.shape[-1])

    @property
    def has_probabilities(self) -> bool:
        """Whether the loss gives probabilities of the two classes."""
        return self.classes is not None and isinstance(as_loss(self.loss), (*LIKELIHOODS, Multinomial))

    @property
    def coefficient_names(self) -> tuple[str, ...]:
        """The names of the coefficients with the intercept behind, class by class where there are several."""
        names = list(self.feature_names or (f"feature {j + 1}" for j in range(self.n_features)))
        names += ["intercept"] if self.fit_intercept else []
        if self.coef.ndim == 1:
            return tuple(names)
        return tuple(f"{label}: {name}" for label in self.classes or () for name in names)

    @property
    def coefficients(self) -> Vector:
        """The coefficients in the order of their names."""
        table = np.atleast_2d(self.coef)
        with_intercept = [table, np.reshape(self.intercept, (-1, 1))] if self.fit_intercept else [table]
        return np.hstack(with_intercept).ravel()

    def decision(self, rows: Any, offset: Any = None) -> Any:
        """Return u = x'coef + intercept for each row of an ndarray or SciPy's sparse rows, shape (n, n_features).

        Of several classes there is a column for each. Offsets, shape (n,), are added. Sparse rows may have fewer columns,
        the missing ones are zero; any other number of columns is a ModelError.
        """
        require_indices(rows)
        n_columns = int(rows.shape[1])
        sparse = not isinstance(rows, np.ndarray)
        if n_columns > self.n_features or (n_columns < self.n_features and not sparse):
            raise ModelError(f"the rows have {n_columns} features, but the model was fitted to {self.n_features}.")
        found = np.asarray(rows @ self.coef[..., :n_columns].T, dtype=np.float64) + self.intercept
        return found if offset is None else found + offset

    def predict(self, rows: Any, offset: Any = None) -> Any:
        """Return the predicted label of each row, or the predicted number: the mean, for losses of one."""
        decision = self.decision(rows, offset)
        if self.classes is not None:
            codes = (decision > 0.0).astype(np.int64) if decision.ndim == 1 else decision.argmax(axis=1)
            return np.array(self.classes)[codes]
        loss: Any = as_loss(self.loss)
        return loss.mean_at(decision) if hasattr(loss, "mean_at") else decision

    def probabilities(self, rows: Any, offset: Any = None) -> Any:
        """Return the probabilities of the K classes, shape (n, K); a ModelError where the model's loss gives none."""
        if not self.has_probabilities:
            raise ModelError(f'a model of the loss "{self.loss}" gives no probabilities; fit with "logistic" to have them.')
        decision = self.decision(rows, offset)
        known = log_softmax(decision, axis=1) if decision.ndim == 2 else log_likelihoods(as_loss(self.loss), decision)
        return np.exp(known)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {"coef": known.pop("coef")}
        if self.coef.ndim == 2:
            arrays["intercept"], known["intercept"] = known["intercept"], 0.0
        if self.preparation is not None:
            known["preparation"] = self.preparation.to_json()
        if self.inference is not None:
            known["inference"] = {name: getattr(self.inference, name) for name in _OF_INFERENCE}
            arrays["covariance"] = self.inference.covariance
        write_npz(path, {"format": FORMAT, **known}, arrays)


def with_inference(model: LinearModel, problem: Problem, sample_weight: Any = None) -> LinearModel:
    """Return a model with errors of its coefficients, from the problem that it solves; as it is where none are known."""
    total = float(problem.n_rows if sample_weight is None else sample_weight.sum())
    title = f"{model.loss} model" + ("" if model.target_name is None else f" of {model.target_name}")
    title += f": {model.classes[1]!r} against {model.classes[0]!r}" if model.classes and len(model.classes) == 2 else ""
    names = model.coefficient_names
    try:
        found = inference_of(title, problem, model.coefficients, total, names, optimality=model.optimality)
    except ValueError:  # an l1 penalty, or a loss that is no likelihood
        return model
    return replace(model, inference=found)


def load_model(path: str | os.PathLike[str]) -> LinearModel:
    """Return the model in a file, or in a folder that `finitesum fit` wrote.

    A ModelError says that there is no such file, or that it is damaged, or holds no model.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "model.npz"
    try:
        if file.exists() and not zipfile.is_zipfile(file):
            raise ValueError("it is no .npz archive")
        header, arrays = read_npz(file)
        if header["format"] not in (FORMAT, _FIRST_FORMAT):
            raise ModelError(f"{file} is a model of another version ({header['format']}, not {FORMAT}). Fit it again.")
        return _from_header(header, arrays)
    except FileNotFoundError:
        raise ModelError(f"{file} does not exist. finitesum fit DATA --out FOLDER writes FOLDER/model.npz.") from None
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{file} is damaged or no model ({error!s:.300}). Fit it again.") from error


def _from_header(header: dict[str, Any], arrays: dict[str, Any]) -> LinearModel:
    coef, later = arrays["coef"], {"target_name", "preparation", "inference"}
    known: dict[str, Any] = {
        field.name: header.get(field.name) if field.name in later else header[field.name]
        for field in fields(LinearModel)
        if field.name != "coef"
    }
    preparation, inference = known.pop("preparation"), known.pop("inference")
    for name, value in known.items():
        kind = str if name == "target_name" and value is not None else type(getattr(LinearModel, name))
        if kind is type(None):
            known[name] = None if value is None else tuple(value)
        elif type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{name} is {value!r}")
    classes, names = known["classes"], known["feature_names"]
    if coef.ndim == 2 and classes is not None and len(classes) == len(coef) > 2:
        known["intercept"] = arrays["intercept"]
    elif classes is not None and len(classes) != 2:
        raise ValueError(f"classes are {classes!r}")
    elif coef.ndim != 1:
        raise ValueError(f"coef has shape {coef.shape}")
    if classes is not None and label_array(np.array(classes, dtype=object)).size != len(classes):
        raise ValueError(f"classes are {classes!r}")
    if coef.dtype != np.float64 or np.shape(known["intercept"]) != coef.shape[:-1]:
        raise ValueError(f"coef has shape {coef.shape} and type {coef.dtype}")
    if names is not None and not (len(names) == coef.shape[-1] and all(isinstance(name, str) for name in names)):
        raise ValueError(f"{len(names)} names of features do not fit {coef.shape[-1]} coefficients")
    if not (np.isfinite(coef).all() and np.isfinite(known["intercept"]).all()):
        raise ValueError("coefficients are not finite")
    if preparation is not None:
        preparation = TablePreparation.from_json(preparation)
        if preparation.feature_names != names:
            raise ValueError("the features are not those of the columns")
    model = LinearModel(coef=coef, preparation=preparation, **known)
    return model if inference is None else replace(model, inference=_inference_from(inference, arrays["covariance"], model))


def _inference_from(content: dict[str, Any], covariance: Any, model: LinearModel) -> Inference:
    kinds = get_type_hints(Inference)
    for name in _OF_INFERENCE:
        kind, value = kinds[name], content[name]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{name} is {value!r}")
    names = model.coefficient_names
    if covariance.shape != (len(names), len(names)) or covariance.dtype != np.float64:
        raise ValueError(f"covariance has shape {covariance.shape} and type {covariance.dtype}")
    given = {name: content[name] for name in _OF_INFERENCE}
    return Inference(names=names, coefficients=model.coefficients, covariance=covariance, **given)
