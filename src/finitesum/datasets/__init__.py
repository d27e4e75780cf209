"""Data sets: readers for files of many formats, parsed copies on disk, public data by name, generated problems.

Importing this package is fast: scikit-learn, SciPy and pyarrow are imported where they are used.

Examples
--------
>>> from finitesum.datasets import load_embedded
>>> data = load_embedded("digits")
>>> data.n_rows, data.n_features
(1797, 64)
>>> sorted(set(data.targets()))
[np.float64(-1.0), np.float64(1.0)]
"""

from finitesum.datasets.builtin import load_embedded, make_logistic
from finitesum.datasets.cache import clear_cache
from finitesum.datasets.dataset import Dataset
from finitesum.datasets.errors import DataError
from finitesum.datasets.fetching import Verification, fetch, load_dataset, verify
from finitesum.datasets.labels import LabelMap
from finitesum.datasets.loading import load
from finitesum.datasets.parts import FileParts
from finitesum.datasets.registry import DataFile, Info, find, info, list_datasets, path
from finitesum.datasets.tables import TablePreparation

__all__ = [
    "DataError",
    "DataFile",
    "Dataset",
    "FileParts",
    "Info",
    "LabelMap",
    "TablePreparation",
    "Verification",
    "clear_cache",
    "fetch",
    "find",
    "info",
    "list_datasets",
    "load",
    "load_dataset",
    "load_embedded",
    "make_logistic",
    "path",
    "verify",
]
