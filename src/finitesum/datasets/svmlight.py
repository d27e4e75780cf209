"""Reads svmlight text, the format of LIBSVM: ``label index:value index:value ...``, one row a line.

- Indices count from 1 (from 0 with ``zero_based=True``) and increase within a row; zeros may be left out, and a row may
  have no entry at all. Entries that are written as zero stay stored.
- What follows a ``#`` is a comment. Empty lines are skipped.
- ``qid:7`` directly after the label, which groups the rows of a ranking, is read over: no method here uses it.
- Every row has one label, a number. Several labels in a row (``1,4``) are refused.

scikit-learn's parser does the work. It raises without saying where, so that a block it refuses goes to
`finitesum.datasets.svmlight_scan`, which names the line.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from finitesum.datasets.collector import Header, RowCollector
from finitesum.datasets.streams import line_blocks, open_stream
from finitesum.datasets.svmlight_scan import SparseBlock, scan_block


def read_svmlight(path: Path, collector: RowCollector, *, zero_based: bool = False) -> Header:
    """Add the rows of an svmlight file to a collector.

    Parameters
    ----------
    path
        The file, plain or compressed by gz, bz2 or xz.
    collector
        Where the rows go.
    zero_based
        Whether indices count from 0.

    Returns
    -------
    Header
        An empty one: the format has no names.

    Raises
    ------
    DataError
        A line is broken; it is named by its number.
    """
    with open_stream(path) as stream:
        for block in line_blocks(stream, path):
            parsed = _parse_fast(block.data, zero_based)
            if parsed is None:
                parsed = scan_block(block, path, zero_based)
            collector.add_sparse(parsed.data, parsed.indices, parsed.lengths, parsed.labels)
    return Header()


def _parse_fast(data: bytes, zero_based: bool) -> SparseBlock | None:
    """Return the rows of a block, or None where something in it is unusual or wrong."""
    from sklearn.datasets import load_svmlight_file

    try:
        rows, labels = load_svmlight_file(io.BytesIO(data), dtype=np.float64, zero_based=zero_based)
    except (ValueError, OverflowError):
        return None
    if not (np.isfinite(rows.data).all() and np.isfinite(labels).all()):
        return None
    return SparseBlock(rows.data, rows.indices, np.diff(rows.indptr), labels)
