"""How kernels run in a test: compiled, or as Python.

A kernel is compiled for every combination of rows, loss, penalty and set that it meets, which takes longer than most tests.
The tests of the rooms named here draw many combinations and solve one small problem with each: their kernels run as Python.
A test that compares compiled code with something, or that visits many components, is marked `compiled`.
"""

from pathlib import Path

import pytest

from finitesum.core.jit import as_python

#: Folders of tests whose kernels run as Python where nothing else is said.
INTERPRETED = (
    "contracts",
    *(f"methods/{family}" for family in ("curvature", "first_order", "projected", "subproblems")),
)


@pytest.fixture(autouse=True)
def _kernels(request):
    marks = {mark.name for mark in request.node.iter_markers()}
    folder = request.path.parent.relative_to(Path(__file__).parent).as_posix()
    if folder not in INTERPRETED or marks & {"compiled", "slow"}:
        yield
        return
    with as_python():
        yield
