"""How kernels run in a test: compiled, or as Python. And one thread for BLAS, whose threads would wait for each other.

A kernel is compiled for every combination of rows, loss, penalty and set that it meets, which takes longer than most tests.
Most tests solve one small problem with each of many combinations: their kernels run as Python. Compiled are the tests of
the folders named here, slow ones, and those marked `compiled`, which compare compiled code with Python's or visit many
components.
"""

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read as NumPy is imported: pytest has a process for each core already

from finitesum.core.jit import as_python

#: Folders of tests whose kernels are compiled where nothing else is said: what compiles, large problems.
COMPILED = ("core", "methods/newton")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    marks = {mark.name for mark in item.iter_markers()}
    folder = item.path.parent.relative_to(Path(__file__).parent).as_posix()
    if folder in COMPILED or marks & {"compiled", "slow"}:
        return (yield)
    with as_python():  # its fixtures, too
        return (yield)


@pytest.fixture
def kernels_as_python():
    """Run kernels as Python in a test of a folder whose kernels are compiled."""
    with as_python():
        yield
