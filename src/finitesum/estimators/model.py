"""A fitted linear model as a file: what `finitesum fit` writes and `finitesum predict` reads.

The file is an .npz of plain arrays and one line of JSON, never pickle, and is written atomically.
"""

import math
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.core.indices import require_indices
from finitesum.datasets.labels import label_array
from finitesum.losses import LIKELIHOODS, as_loss
from finitesum.losses.arrays import log_likelihoods
from finitesum.running.checkpoint import read_npz, write_npz

FORMAT = "finitesum-model-1"


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

    coef: Vector  #: float64, shape (n_features,)
    intercept: float = 0.0  #: 0 where none was fitted
    loss: str = "logistic"  #: a name of `finitesum.losses.LOSSES`
    alpha: float = 0.0  #: of the penalty alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)
    l1_ratio: float = 0.0
    classes: tuple[Any, Any] | None = None  #: the labels behind -1 and +1, as the data had them; None for a regression
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

    @property
    def n_features(self) -> int:
        """The number of columns that rows must have."""
        return int(self.coef.size)

    @property
    def has_probabilities(self) -> bool:
        """Whether the loss gives probabilities of the two classes."""
        return self.classes is not None and isinstance(as_loss(self.loss), LIKELIHOODS)

    def decision(self, rows: Any) -> Vector:
        """Return u = x'coef + intercept for each row of an ndarray or SciPy's sparse rows, shape (n, n_features).

        Sparse rows may have fewer columns, the missing ones are zero; any other number of columns is a ModelError.
        """
        require_indices(rows)
        n_columns = int(rows.shape[1])
        sparse = not isinstance(rows, np.ndarray)
        if n_columns > self.n_features or (n_columns < self.n_features and not sparse):
            raise ModelError(f"the rows have {n_columns} features, but the model was fitted to {self.n_features}.")
        return np.asarray(rows @ self.coef[:n_columns], dtype=np.float64) + self.intercept

    def predict(self, rows: Any) -> Any:
        """Return the predicted label of each row, or the predicted number: the mean, for losses of one."""
        decision = self.decision(rows)
        if self.classes is not None:
            return np.array(self.classes)[(decision > 0.0).astype(np.int64)]
        loss: Any = as_loss(self.loss)
        return loss.mean_at(decision) if hasattr(loss, "mean_at") else decision

    def probabilities(self, rows: Any) -> Any:
        """Return the probabilities of the two classes, shape (n, 2); a ModelError where the model's loss gives none."""
        if not self.has_probabilities:
            raise ModelError(f'a model of the loss "{self.loss}" gives no probabilities; fit with "logistic" to have them.')
        return np.exp(log_likelihoods(as_loss(self.loss), self.decision(rows)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file."""
        known = asdict(self)
        arrays = {"coef": known.pop("coef")}
        write_npz(path, {"format": FORMAT, **known}, arrays)


def load_model(path: str | os.PathLike[str]) -> LinearModel:
    """Return the model in a file, or in a folder that `finitesum fit` wrote.

    A ModelError says that there is no such file, or that it is damaged, or holds no model.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "model.npz"
    try:
        header, arrays = read_npz(file)
        if header["format"] != FORMAT:
            raise ModelError(f"{file} is a model of another version ({header['format']}, not {FORMAT}). Fit it again.")
        return _from_header(header, arrays["coef"])
    except FileNotFoundError:
        raise ModelError(f"{file} does not exist. finitesum fit DATA --out FOLDER writes FOLDER/model.npz.") from None
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{file} is damaged or no model ({error!s:.300}). Fit it again.") from error


def _from_header(header: dict[str, Any], coef: Any) -> LinearModel:
    known = {field.name: header[field.name] for field in fields(LinearModel) if field.name != "coef"}
    for name, value in known.items():
        kind = type(getattr(LinearModel, name))
        if kind is type(None):
            known[name] = None if value is None else tuple(value)
        elif type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{name} is {value!r}")
    classes, names = known["classes"], known["feature_names"]
    if classes is not None and (len(classes) != 2 or label_array(np.array(classes, dtype=object)).size != 2):
        raise ValueError(f"classes are {classes!r}")
    if names is not None and not (len(names) == coef.size and all(isinstance(name, str) for name in names)):
        raise ValueError(f"{len(names)} names of features do not fit {coef.size} coefficients")
    if coef.ndim != 1 or coef.dtype != np.float64:
        raise ValueError(f"coef has shape {coef.shape} and type {coef.dtype}")
    if not (np.isfinite(coef).all() and math.isfinite(known["intercept"])):
        raise ValueError("coefficients are not finite")
    return LinearModel(coef=coef, **known)
