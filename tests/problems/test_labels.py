"""Labels become classes and codes as by sorting them, whatever they are."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from finitesum.problems.labels import classes_and_codes, codes_of_words, labels_and_codes


def require_as_by_sorting(labels):
    classes, codes = classes_and_codes(labels)
    expected_classes, expected_codes = np.unique(labels, return_inverse=True)
    np.testing.assert_array_equal(classes, expected_classes)
    np.testing.assert_array_equal(codes, expected_codes)
    assert classes.dtype == expected_classes.dtype
    assert codes.dtype == np.int64


@given(
    st.lists(st.integers(-128, 127), min_size=1, max_size=60),
    st.sampled_from([np.int8, np.int64, np.float32, np.float64, np.uint8, np.uint64]),
)
def test_whole_numbers(values, dtype):
    labels = np.array(values)
    require_as_by_sorting((labels + 128 if np.dtype(dtype).kind == "u" else labels).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_floats_keep_their_digits(dtype):
    """Differences of labels need more digits than labels."""
    most = int(2 / np.finfo(dtype).eps)
    require_as_by_sorting(np.array([most, 1 - most, 3, 5, most - 1] + [0] * most, dtype=dtype))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_any_numbers(values):
    require_as_by_sorting(np.array(values))


@given(st.lists(st.text(max_size=3), min_size=1, max_size=60), st.sampled_from([object, None]))
def test_words(values, dtype):
    require_as_by_sorting(np.array(values, dtype=dtype))


@pytest.mark.parametrize(
    "values",
    [[2**63 - 1, -(2**63), 0], [0, 10**9, 5], [2**60, 2**60 + 1, 2**60 + 2], [True, False, True], [True, True]],
    ids=str,
)
def test_numbers_that_are_not_counted(values):
    require_as_by_sorting(np.array(values))


def test_no_words():
    """What is no array of str alone is left to others: numbers, mixtures, what has no hash, several axes."""
    for values in ([1, 2], ["a", 1], ["a", None], [b"a"], [{}, {}]):
        assert codes_of_words(np.array(values, dtype=object)) is None
    assert codes_of_words(np.array([["a"], ["b"]], dtype=object)) is None
    assert codes_of_words(np.array(["a"])) is None
    assert codes_of_words(["a"]) is None


@pytest.mark.parametrize(
    ("labels", "says"), [(["a", None], "must not lack labels, got None at position 1"), (["a", 1], "labels of one kind")]
)
def test_mixtures_are_refused(labels, says):
    with pytest.raises(ValueError, match=says):
        labels_and_codes(np.array(labels, dtype=object))
