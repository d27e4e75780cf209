"""Data without a network: what scikit-learn ships, and generated problems."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from finitesum.datasets import DataError, load_embedded, make_logistic


@pytest.mark.parametrize(
    ("name", "shape", "task", "classes"),
    [
        ("breast_cancer", (569, 30), "classification", ("benign", "malignant")),
        ("digits", (1797, 64), "classification", ("even", "odd")),
        ("diabetes", (442, 10), "regression", None),
    ],
)
def test_embedded(name, shape, task, classes):
    data = load_embedded(name)
    assert data.rows.shape == shape
    assert data.rows.flags.c_contiguous
    assert data.inferred_task == task
    assert len(data.feature_names) == shape[1]
    assert data.targets().dtype == np.float64
    if classes:
        assert data.label_map().classes == classes
        assert set(data.targets()) == {-1.0, 1.0}


def test_embedded_facts():
    assert int((load_embedded("breast_cancer").labels == "malignant").sum()) == 212
    digits = load_embedded("digits")
    assert digits.rows.min() == 0.0
    assert digits.rows.max() == 1.0
    assert digits.labels[:4].tolist() == ["even", "odd", "even", "odd"]  # 0, 1, 2, 3


def test_standardized():
    rows = load_embedded("digits", standardize=True).rows
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-12)
    deviations = rows.std(axis=0)
    assert np.all(np.isclose(deviations, 1.0) | (deviations == 0.0))


def test_unknown_name():
    with pytest.raises(DataError, match="name must be one of breast_cancer, digits, diabetes, got 'iris'"):
        load_embedded("iris")


def test_recipe():
    data = make_logistic(400, 6, seed=3)
    rng = np.random.default_rng(3)
    theta = rng.uniform(-1, 1, 6)
    assert data.rows.shape == (400, 6)
    assert np.all(data.rows[:, -1] == 1.0)
    assert np.abs(data.rows).max() <= 1.0
    np.testing.assert_array_equal(data.labels, np.where(data.rows @ theta >= 0, 1, -1))  # separable
    np.testing.assert_array_equal(make_logistic(400, 6, seed=3).rows, data.rows)
    assert not np.array_equal(make_logistic(400, 6, seed=4).rows, data.rows)


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_condition(density):
    data = make_logistic(40_000, 5, density=density, condition=1e4, seed=0)
    columns = data.to_dense().rows[:, :-1]
    eigenvalues = np.linalg.eigvalsh(columns.T @ columns)
    assert eigenvalues[-1] / eigenvalues[0] == pytest.approx(1e4, rel=0.1)


def test_sparse():
    data = make_logistic(2000, 101, density=0.05, seed=1)
    rows = data.rows
    assert isinstance(rows, csr_array)
    assert rows.indices.dtype == np.int32
    rows.check_format(full_check=True)
    assert rows.has_canonical_format
    assert np.all(rows[:, [100]].toarray() == 1.0)
    assert (data.nnz - 2000) / (2000 * 100) == pytest.approx(0.05, rel=0.05)
    lengths = np.diff(rows.indptr)
    assert lengths.var() == pytest.approx(100 * 0.05 * 0.95, rel=0.2)  # each entry by itself


def test_noise():
    clean, noisy = (make_logistic(5000, 4, noise=noise, seed=5) for noise in (0.0, 0.2))
    np.testing.assert_array_equal(clean.rows, noisy.rows)
    assert np.mean(clean.labels != noisy.labels) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("seed", range(30))
def test_both_classes_occur(seed):
    assert len(set(make_logistic(2, 2, seed=seed).labels)) == 2


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n": 1}, "n must be at least 2, got 1"),
        ({"d": 1}, "d must be at least 2, got 1"),
        ({"density": 0.0}, r"density must be in \(0, 1\], got 0.0"),
        ({"condition": 0.5}, "condition must be at least 1"),
        ({"noise": 0.5}, r"noise must be in \[0, 0.5\)"),
    ],
)
def test_ranges(kwargs, message):
    with pytest.raises(DataError, match=message):
        make_logistic(**{"n": 5, "d": 5, **kwargs})
