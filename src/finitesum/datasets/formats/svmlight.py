"""Reads svmlight text, the format of LIBSVM: ``label index:value index:value ...``, one row per line.

- Indices count from 1 (from 0 with ``zero_based=True``) and increase within a row; zeros may be left out, and a row may
  have no entry at all. Entries that are written as zero stay stored.
- What follows a ``#`` is a comment. Empty lines are skipped.
- ``qid:7`` directly after the label, which groups the rows of a ranking, is ignored: no method here uses it.
- Every row has one label, a number. Several labels in a row (``1,4``) are refused.

scikit-learn's parser does the work. It raises without saying where, so that a block it refuses is read again token by
token, which is slow and names the line.
"""

import io
import math
import re
from pathlib import Path

import numpy as np

from finitesum.datasets.errors import DataError, preview
from finitesum.datasets.formats.collector import Array, Contents, RowCollector
from finitesum.datasets.formats.streams import Block, line_blocks, open_stream, to_number
from finitesum.datasets.labels import Labels

#: Of k rows: values (nnz,), indices from 0 (nnz,), the number of entries of each row (k,), labels (k,).
_SparseRows = tuple[Array, Array, Array, Labels]

_SHAPE = "A row is written as: label index:value index:value ..."


def read_svmlight(path: Path, collector: RowCollector, *, zero_based: bool = False) -> Contents:
    """Return the rows of an svmlight file, gathered by a collector; `zero_based` indices count from 0."""
    with open_stream(path) as stream:
        for block in line_blocks(stream, path):
            rows = _parse_fast(block.data, zero_based) or _parse_lines(block, path, zero_based)
            collector.add_sparse(*rows)
            collector.n_skipped += block.data.count(b"\n") + (not block.data.endswith(b"\n")) - len(rows[3])
    return collector.finish()


def _parse_fast(data: bytes, zero_based: bool) -> _SparseRows | None:
    """Return the rows of a block, or None where something in it is unusual or wrong."""
    from sklearn.datasets import load_svmlight_file

    if b"_" in data:  # which scikit-learn takes as Python does, for a mark of thousands
        return None
    try:
        rows, labels = load_svmlight_file(io.BytesIO(data), dtype=np.float64, zero_based=zero_based)
    except (ValueError, OverflowError):
        return None
    if not (np.isfinite(rows.data).all() and np.isfinite(labels).all()):
        return None
    return rows.data, rows.indices, np.diff(rows.indptr), labels


def _parse_lines(block: Block, path: Path, zero_based: bool) -> _SparseRows:
    """Return the rows of a block, or raise what is wrong with the first broken line."""
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
            lengths.append(_add_entries(tokens[1:], zero_based, data, indices))
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
    columns = np.array(indices, dtype=np.int64) - (0 if zero_based else 1)
    return np.array(data, dtype=np.float64), columns, np.array(lengths, dtype=np.int64), np.array(labels)


def _number(token: bytes) -> float | None:
    return to_number(token.decode("latin-1"))


def _label(token: bytes) -> float:
    value = _number(token)
    if value is None:
        if b"\x00" in token:
            raise DataError("the file holds binary data, not svmlight text. Give format= if it is of another format.")
        if b":" in token:
            raise DataError(f"the label is missing: the line begins with {preview(token)}. {_SHAPE}")
        if b"," in token and all(_number(part) is not None for part in token.split(b",")):
            raise DataError(f"{preview(token)} gives several labels to one row. Choose one label for each row.")
        raise DataError(f"the label {preview(token)} is not a number. {_SHAPE}")
    if not math.isfinite(value):
        raise DataError(f"the label is {preview(token)}, which is not finite. Remove the row or give its label.")
    return value


def _add_entries(tokens: list[bytes], zero_based: bool, data: list[float], indices: list[int]) -> int:
    """Append the entries of a row and return their number."""
    if tokens and tokens[0].startswith(b"qid:"):
        tokens = tokens[1:]
    previous = -1
    for token in tokens:
        index_text, colon, value_text = token.partition(b":")
        if not colon:
            raise DataError(f"{preview(token)} has no colon. {_SHAPE}")
        index = _index(index_text, zero_based)
        if index == previous:
            raise DataError(f"index {index} occurs twice. Give each feature of a row once.")
        if index < previous:
            raise DataError(f"index {index} follows index {previous}. Sort the entries of each row by index.")
        value = _number(value_text)
        if value is None:
            raise DataError(f"the value {preview(value_text)} of index {index} is not a number. {_SHAPE}")
        if not math.isfinite(value):
            what = f"the value of index {index} is {preview(value_text)}, which is not finite"
            raise DataError(f"{what}. Fill it or drop the row.")
        data.append(value)
        indices.append(index)
        previous = index
    return len(tokens)


def _index(text: bytes, zero_based: bool) -> int:
    if not re.fullmatch(rb"[+-]?\d{1,99}", text):
        raise DataError(f"the index {preview(text)} is not a whole number. {_SHAPE}")
    index = int(text)
    if index < 0 or (index == 0 and not zero_based):
        advice = _SHAPE if index < 0 else "If the file counts from 0, use zero_based=True."
        raise DataError(f"index {index} is less than {0 if zero_based else 1}. {advice}")
    if index >= 2**63 - 1:
        raise DataError(f"index {index} does not fit 64 bits. Hash the features to fewer.")
    return index
