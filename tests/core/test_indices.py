"""Indices of sparse rows are looked at, not what SciPy's flags say of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum.core.indices import have_increasing_indices, require_indices


def rows(indices, starts=(0, 2, 2, 4), n_columns=4):
    return sp.csr_array((np.ones(len(indices)), np.array(indices), np.array(starts)), shape=(len(starts) - 1, n_columns))


@pytest.mark.parametrize(
    ("indices", "expected"),
    [([0, 3, 1, 2], True), ([2, 3, 0, 1], True), ([3, 0, 1, 2], False), ([1, 1, 1, 2], False), ([0, 3, 2, 2], False)],
)
def test_increasing_indices_whatever_flags_say(indices, expected):
    """From row to row they may fall; a row that is empty changes nothing, nor does what lies behind the last one."""
    matrix = rows(indices)
    matrix.has_sorted_indices = matrix.has_canonical_format = not expected
    assert have_increasing_indices(matrix) == expected
    matrix.indices = np.append(matrix.indices, [0, 0])
    assert have_increasing_indices(matrix) == expected


def test_no_entries():
    assert have_increasing_indices(sp.csr_array((3, 2)))


@pytest.mark.parametrize("wrong", [-1, 4])
def test_indices_outside_are_refused(wrong):
    matrix = rows([0, 3, 1, 2])
    require_indices(matrix)
    matrix.indices[1] = wrong
    with pytest.raises(ValueError, match="column indices from 0 to 3"):
        require_indices(matrix)
