"""How kernels run in a test: compiled, or as Python. And one thread for BLAS, whose threads would wait for each other.

A kernel is compiled for every combination of rows, loss, penalty and set that it meets, which takes longer than most tests.
Most tests solve one small problem with each of many combinations: their kernels run as Python. Compiled, also on small
data, are the tests of the folders named here and those marked `compiled`, which compare compiled code with Python's or
visit many components. In tests of estimators, slow ones and those marked `as_chosen` kernels run as in a user's process,
on small data over arrays.
"""

import gc
import math
import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read as NumPy is imported: pytest has a process for each core already

from finitesum.core import stand_ins
from finitesum.core.jit import as_compiled, as_python

stand_ins.ENOUGH = math.inf  # what runs in one test must not depend on the tests before it

#: Folders of tests whose kernels are compiled where nothing else is said: what compiles, large problems.
COMPILED = ("core", "methods/newton")

#: Folders of tests whose kernels run in the form that a user's process chooses.
AS_CHOSEN = ("estimators",)


def pytest_collection_finish():
    """Take what was collected, which stays to the end, out of the sight of all collections of garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    marks = {mark.name for mark in item.iter_markers()}
    folder = item.path.parent.relative_to(Path(__file__).parent).as_posix()
    if "compiled" not in marks and (folder in AS_CHOSEN or marks & {"as_chosen", "slow"}):
        return (yield)
    with as_compiled() if folder in COMPILED or "compiled" in marks else as_python():  # its fixtures, too
        return (yield)


@pytest.fixture
def kernels_as_python():
    """Run kernels as Python in a test of a folder whose kernels are compiled."""
    with as_python():
        yield
