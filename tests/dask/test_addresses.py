"""Where the arrays of a call for a part lie: what was allocated is used as it is, and no address changes the bits."""

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("distributed", reason="dask and distributed are not installed")

from finitesum import Problem
from finitesum.dask.engine import aligned
from finitesum.evaluation.hessian import hessian_of
from finitesum.evaluation.row_sums import curvatures_at, loss_sums


def moved(array, offset):
    """Return a copy of an array some bytes behind a multiple of 64."""
    room = np.empty(array.nbytes + 128, dtype=np.uint8)
    first = -room.ctypes.data % 64 + offset
    copy = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("offset", [0, 16, 48])
def test_arrays_that_were_allocated_are_not_copied(offset):
    array = moved(np.arange(60.0).reshape(20, 3), offset)
    given = aligned((array, (array[:0], None), 3))
    assert given[0] is array
    assert given[1][1:] == (None,)


@pytest.mark.parametrize("offset", [1, 4, 8, 24])
def test_arrays_elsewhere_are_copied_to_where_they_can_be_added_up(offset):
    array = np.arange(60.0).reshape(20, 3)
    (given,) = aligned((moved(array, offset),))
    np.testing.assert_array_equal(given, array)
    assert given.ctypes.data % 16 == 0


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("offset", [1, 2, 4, 8, 16, 24, 32, 48])
def test_sums_have_the_same_bits_wherever_rows_lay(offset, form):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 7)) * (rng.random((500, 7)) < 0.8), rng.random(500) < 0.5
    w, found = rng.standard_normal(7), []
    for at in (0, offset):
        problem = Problem.linear(form(X), y, loss="logistic", alpha=0.1)
        arrays = {"values": moved(problem.rows.values, at)}
        if form is not np.asarray:
            arrays |= {name: moved(getattr(problem.rows, name), at) for name in ("columns", "starts")}
        object.__setattr__(problem, "rows", aligned(problem.rows._replace(**arrays)))
        numbers = loss_sums(problem, w).gradient, hessian_of(problem, curvatures_at(problem, w))
        found.append(b"".join(one.tobytes() for one in numbers))
    assert found[0] == found[1]
