"""Data sets that need no network: those that scikit-learn ships."""

from typing import Any, Literal, get_args

import numpy as np

from finitesum.datasets.dataset import Dataset, Task
from finitesum.datasets.errors import DataError, preview

Embedded = Literal["breast_cancer", "digits", "diabetes"]


def load_embedded(name: Embedded, *, standardize: bool = False) -> Dataset:
    """Return a data set that comes with scikit-learn, with dense float64 rows; a DataError where there is none.

    Parameters
    ----------
    name
        "breast_cancer": 569 tumours, 30 measures of cell nuclei, labels "malignant" and "benign" (UCI). "digits": 1,797
        images of 8 x 8 pixels in [0, 1], labels "even" and "odd" (UCI). "diabetes": 442 patients, 10 measures, the
        progression of the disease after a year as target (a regression).
    standardize
        Whether each feature is shifted to mean 0 and scaled to standard deviation 1; a constant one becomes 0.

    Examples
    --------
    >>> data = load_embedded("breast_cancer")
    >>> data
    Dataset('breast_cancer': 569 rows, 30 features, dense float64, classification)
    >>> data.label_map().classes
    ('benign', 'malignant')
    """
    if name not in get_args(Embedded):
        raise DataError(f"name must be one of {', '.join(get_args(Embedded))}, got {preview(name)}.")
    from sklearn import datasets as shipped

    bunch: Any = getattr(shipped, f"load_{name}")()
    rows = np.ascontiguousarray(bunch.data, dtype=np.float64)
    labels = np.asarray(bunch.target)
    if name == "breast_cancer":
        labels = np.asarray(bunch.target_names).astype(str)[labels]
    elif name == "digits":
        rows = rows / 16.0
        labels = np.where(labels % 2 == 0, "even", "odd")
    if standardize:
        deviations = rows.std(axis=0)
        rows = (rows - rows.mean(axis=0)) / np.where(deviations > 0.0, deviations, 1.0)
    task: Task = "regression" if name == "diabetes" else "classification"
    names = tuple(str(feature) for feature in bunch.feature_names)
    return Dataset(rows, labels, name=name, feature_names=names, target_name="target", task=task)
