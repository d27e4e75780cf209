"""Labels to codes and back."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from finitesum.datasets import DataError, LabelMap


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1, 1], (0, 1)),
        ([2.0, 1.0, 2.0], (1, 2)),
        ([-1.0, 1.0], (-1, 1)),
        (["no", "yes", "no"], ("no", "yes")),
        ([True, False], (False, True)),
        ([0.5, 1.5, 0.5], (0.5, 1.5)),
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        (np.array([b"b", b"a"]), ("a", "b")),
        (np.array([[3], [4]], dtype=np.uint8), (3, 4)),
    ],
)
def test_two_classes_become_minus_and_plus_one(labels, classes):
    label_map = LabelMap.from_labels(labels)
    codes = label_map.encode(labels)
    assert label_map.classes == classes
    assert label_map.is_binary
    assert codes.dtype == np.float64
    expected = [1.0 if item == classes[1] else -1.0 for item in label_map.decode(codes).tolist()]
    np.testing.assert_array_equal(codes, expected)
    assert label_map.decode(codes).tolist() == np.asarray(labels).ravel().astype(label_map.decode(codes).dtype).tolist()


def test_whole_numbers_are_kept_as_integers():
    label_map = LabelMap.from_labels(np.array([1.0, 2.0]))
    assert json.loads(label_map.to_json()) == {"classes": [1, 2]}
    assert label_map.decode(np.array([1.0])).dtype == np.int64


def test_integers_beyond_what_floats_tell_apart():
    labels = [2**53, 2**53 + 1]
    assert LabelMap.from_labels(labels).encode(labels).tolist() == [-1.0, 1.0]


def test_more_classes_become_integers():
    label_map = LabelMap.from_labels(["c", "a", "b", "a"])
    codes = label_map.encode(["c", "a", "b", "a"])
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(codes, [2, 0, 1, 0])
    assert label_map.decode(codes).tolist() == ["c", "a", "b", "a"]
    assert len(label_map) == 3


def test_numbers_of_another_type_are_the_same_label():
    label_map = LabelMap.from_labels([1, 2])
    np.testing.assert_array_equal(label_map.encode(np.array([2.0, 1.0])), [1.0, -1.0])
    np.testing.assert_array_equal(label_map.encode(np.array([2, 1], dtype=np.uint8)), [1.0, -1.0])


def test_pandas_text_is_taken():
    assert LabelMap.from_labels(pd.Series(["b", "a"])).classes == ("a", "b")
    with pytest.raises(DataError, match="missing value"):
        LabelMap.from_labels(pd.Series(["b", None]))


def test_unseen_labels_are_named():
    label_map = LabelMap.from_labels([0, 1])
    with pytest.raises(DataError, match=r"labels have 2 unknown to this map: 3, 7\. It knows the classes 0, 1\."):
        label_map.encode([0, 7, 3, 1, 7])
    with pytest.raises(DataError, match=r"unknown to this map: 3, 4, 5, 6, 7, \.\.\."):
        label_map.encode(range(3, 30))
    with pytest.raises(DataError, match="unknown to this map: nan"):
        label_map.encode([0.0, np.nan])


def test_text_for_numbers_is_refused():
    with pytest.raises(DataError, match="labels are text, but the classes are numbers: 0, 1"):
        LabelMap.from_labels([0, 1]).encode(["0", "1"])
    assert len(LabelMap.from_labels([0, 1]).encode([])) == 0


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1, 1], r"classes must be at least two, got \[1\].*which target were read"),
        ([], "labels are empty"),
        ([1.0, np.nan], "not finite"),
        ([0.0, -(2.0**53)], "labels reach -9007199254740992, and from 2.* as text"),
        (np.linspace(0, 1, 50), 'take 50 distinct values with fractions.*task="regression"'),
        ([[1, 2], [3, 4]], r"one axis, got shape \(2, 2\)"),
        ([1, "a"], "mix numbers with text: 'a' and 1"),
        (np.array([1, "a"], dtype=object), "mix numbers with text"),
        (np.array([1j, 2j]), "numbers or text, got dtype complex128"),
        (np.array([object(), object()]), "numbers or text, got <object"),
    ],
)
def test_what_cannot_be_classes(labels, message):
    with pytest.raises(DataError, match=message):
        LabelMap.from_labels(labels)


def test_classes_must_increase():
    with pytest.raises(DataError, match=r"must increase, got \[2, 1\]"):
        LabelMap((2, 1))
    with pytest.raises(DataError, match="must increase"):
        LabelMap((1, 1))


def test_codes_are_checked():
    with pytest.raises(DataError, match=r"codes must be -1 and \+1, got 0\.0"):
        LabelMap((0, 1)).decode([1.0, 0.0])
    with pytest.raises(DataError, match="codes must be 0 to 2, got 3"):
        LabelMap((0, 1, 2)).decode([0, 3])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"classes": 3}', "nonsense"])
def test_json_of_something_else(text):
    with pytest.raises(DataError, match="no label map"):
        LabelMap.from_json(text)


number_labels = st.lists(st.integers(-(10**6), 10**6), min_size=2, unique=True)
text_labels = st.lists(st.text(st.characters(exclude_characters="\x00", codec="utf-8")), min_size=2, unique=True)


@given(st.one_of(number_labels, text_labels))
def test_round_trip(labels):
    label_map = LabelMap.from_json(LabelMap.from_labels(labels).to_json())
    assert label_map == LabelMap.from_labels(labels)
    assert label_map.decode(label_map.encode(labels)).tolist() == labels
