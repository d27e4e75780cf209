"""Data sets without a file: those that scikit-learn ships, and generated problems of any size and conditioning."""

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from finitesum.datasets.dataset import Dataset, Task
from finitesum.datasets.errors import DataError, preview

Array = npt.NDArray[Any]

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


def make_logistic(
    n: int, d: int, *, density: float = 1.0, condition: float = 1.0, noise: float = 0.0, seed: int = 0
) -> Dataset:
    """Return a generated problem of binary classification, by the recipe of the CIAG experiments [1]_.

    With the true coefficients ``theta`` uniform in [-1, 1]^d, a row is ``x = (z, 1)`` with z uniform in [-1, 1]^(d - 1),
    and its label is ``sign(<x, theta>)``: without noise the two classes are separable. The last column is the constant
    one, which carries the bias.

    Parameters
    ----------
    n
        The number of rows, at least 2.
    d
        The number of columns with the constant one, at least 2.
    density
        The fraction of entries of z that are not zero, in (0, 1]. Below 1 the rows are sparse.
    condition
        The ratio of the largest to the smallest second moment of the columns of z, at least 1: column j is scaled by
        ``condition ** (-j / (2 (d - 2)))``. As these columns are independent, it is the condition number of their
        covariance. Labels are drawn from the scaled rows.
    noise
        The probability that a label is flipped, in [0, 0.5): above 0 the classes overlap.
    seed
        The same seed gives the same problem.

    Returns
    -------
    Dataset
        float64 rows, labels -1 and +1 (int64), the task "classification". Both labels occur: where all rows would be
        of one class, the one nearest to the border changes sides.

    Raises
    ------
    DataError
        A number is out of its range.

    References
    ----------
    .. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedić, A. Scaglione, "Accelerating incremental gradient optimization with
       curvature information", Computational Optimization and Applications, 2020, arXiv:1806.00125.

    Examples
    --------
    >>> data = make_logistic(100, 6, condition=1e4, seed=1)
    >>> data
    Dataset('logistic-100x6': 100 rows, 6 features, dense float64, classification)
    >>> make_logistic(100, 50, density=0.1).is_sparse
    True
    """
    _check(n, d, density, condition, noise)
    rng = np.random.default_rng(seed)
    theta = rng.uniform(-1.0, 1.0, size=d)
    scales = condition ** (-np.arange(d - 1) / (2.0 * max(1, d - 2)))
    if density < 1.0:
        rows: Any = _sparse_rows(n, d, density, scales, rng)
    else:
        rows = np.ones((n, d))
        rows[:, :-1] = rng.uniform(-1.0, 1.0, size=(n, d - 1)) * scales
    scores = rows @ theta
    labels = np.where(scores >= 0.0, 1, -1).astype(np.int64)
    labels[rng.random(n) < noise] *= -1
    if abs(int(labels.sum())) == n:  # one class only: the row nearest to the border changes sides
        labels[np.argmin(np.abs(scores))] *= -1
    return Dataset(rows, labels, name=f"logistic-{n}x{d}", task="classification")


def _check(n: int, d: int, density: float, condition: float, noise: float) -> None:
    for name, count in (("n", n), ("d", d)):
        if count < 2:
            raise DataError(f"{name} must be at least 2, got {count}.")
    if not 0.0 < density <= 1.0:
        raise DataError(f"density must be in (0, 1], got {density}.")
    if not 1.0 <= condition < np.inf:
        raise DataError(f"condition must be at least 1 and finite, got {condition}.")
    if not 0.0 <= noise < 0.5:
        raise DataError(f"noise must be in [0, 0.5), got {noise}.")


def _sparse_rows(n: int, d: int, density: float, scales: Array, rng: np.random.Generator) -> Any:
    """Return sparse rows whose every entry, but the constant one, is there with probability `density`."""
    from scipy.sparse import csr_array

    places = _chosen(n * (d - 1), density, rng)
    rows, columns = np.divmod(places, d - 1)
    values = rng.uniform(-1.0, 1.0, size=len(places)) * scales[columns]
    lengths = np.bincount(rows, minlength=n) + 1
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    last = indptr[1:] - 1  # where the constant entry of each row stands
    indices = np.full(indptr[-1], d - 1)
    data = np.ones(indptr[-1])
    others = np.ones(indptr[-1], dtype=bool)
    others[last] = False
    indices[others], data[others] = columns, values
    narrow = np.int32 if max(int(indptr[-1]), d) < 2**31 else np.int64
    return csr_array((data, indices.astype(narrow), indptr.astype(narrow)), shape=(n, d))


def _chosen(total: int, probability: float, rng: np.random.Generator) -> Array:
    """Return which of `total` places are chosen, increasing, when each is chosen with a probability."""
    found: list[Array] = []
    last = -1
    while last < total:
        # The gaps between chosen places are geometric: no number is drawn for those left out.
        gaps = rng.geometric(probability, size=int(1.1 * (total - last) * probability) + 16)
        places = last + np.cumsum(gaps)
        found.append(places)
        last = int(places[-1])
    chosen = np.concatenate(found)
    return chosen[chosen < total]
