"""Reads svmlight text token by token: slow, but it names the line that is broken, and what is wrong with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from finitesum.datasets.collector import Array
from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.labels import Labels
from finitesum.datasets.streams import Block

_SHAPE = "A row is written as: label index:value index:value ..."


class SparseBlock(NamedTuple):
    """The rows of a block of lines."""

    data: Array  # float64 (nnz,)
    indices: Array  # int64 or int32 (nnz,), from 0
    lengths: Array  # int64 (k,)
    labels: Labels  # float64 (k,)


class _Problem(Exception):
    """What is wrong with a line, without the number of the line."""


def scan_block(block: Block, path: Path, zero_based: bool) -> SparseBlock:
    """Return the rows of a block of lines.

    Parameters
    ----------
    block
        Whole lines.
    path
        The file, for messages.
    zero_based
        Whether indices count from 0.

    Raises
    ------
    DataError
        A line is broken: the first such line is named.
    """
    data: list[float] = []
    indices: list[int] = []
    lengths: list[int] = []
    labels: list[float] = []
    for number, line in enumerate(block.data.split(b"\n"), start=block.first_line):
        tokens = line.partition(b"#")[0].split()
        if not tokens:
            continue
        try:
            labels.append(_label(tokens[0]))
            lengths.append(_entries(tokens[1:], zero_based, data, indices))
        except _Problem as problem:
            raise DataError(f"{path}, line {number}: {problem}") from None
    shift = 0 if zero_based else 1
    return SparseBlock(
        np.array(data, dtype=np.float64),
        np.array(indices, dtype=np.int64) - shift,
        np.array(lengths, dtype=np.int64),
        np.array(labels, dtype=np.float64),
    )


def _label(token: bytes) -> float:
    """Return the number that a label stands for."""
    value = _number(token)
    if value is None:
        if b"\x00" in token:
            raise _Problem("the file holds binary data, not svmlight text. Give format= if it is of another format.")
        if b":" in token:
            raise _Problem(f"the label is missing: the line begins with {preview(token)}. {_SHAPE}")
        if b"," in token and all(_number(part) is not None for part in token.split(b",")):
            raise _Problem(f"{preview(token)} gives several labels to one row. Choose one label for each row.")
        raise _Problem(f"the label {preview(token)} is not a number. {_SHAPE}")
    if not math.isfinite(value):
        raise _Problem(f"the label is {preview(token)}, which is not finite. Remove the row or give its label.")
    return value


def _entries(tokens: list[bytes], zero_based: bool, data: list[float], indices: list[int]) -> int:
    """Append the entries of a row and return their number."""
    if tokens and tokens[0].startswith(b"qid:"):
        tokens = tokens[1:]
    previous = -1
    for token in tokens:
        index_text, colon, value_text = token.partition(b":")
        if not colon:
            raise _Problem(f"{preview(token)} has no colon. {_SHAPE}")
        index = _index(index_text, zero_based)
        if index == previous:
            raise _Problem(f"index {index} occurs twice. Give each feature of a row once.")
        if index < previous:
            raise _Problem(f"index {index} follows index {previous}. Sort the entries of each row by index.")
        data.append(_value(index, value_text))
        indices.append(index)
        previous = index
    return len(tokens)


def _index(text: bytes, zero_based: bool) -> int:
    """Return the number that an index stands for."""
    try:
        index = int(text)
    except ValueError:
        raise _Problem(f"the index {preview(text)} is not a whole number. {_SHAPE}") from None
    if index < 0 or (index == 0 and not zero_based):
        advice = "" if index < 0 else " If the file counts from 0, use zero_based=True."
        raise _Problem(f"index {index} is less than {0 if zero_based else 1}.{advice or ' ' + _SHAPE}")
    if index >= 2**63 - 1:
        raise _Problem(f"index {index} does not fit 64 bits. Hash the features to fewer.")
    return index


def _value(index: int, text: bytes) -> float:
    """Return the number that the value of an entry stands for."""
    value = _number(text)
    if value is None:
        raise _Problem(f"the value {preview(text)} of index {index} is not a number. {_SHAPE}")
    if not math.isfinite(value):
        raise _Problem(f"the value of index {index} is {preview(text)}, which is not finite. Fill it or drop the row.")
    return value


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
