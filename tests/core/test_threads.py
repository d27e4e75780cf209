"""Threads: blocks and tasks in order, the linear algebra library's share, children made by fork."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from finitesum.core import threads as finitesum_threads
from finitesum.core.threads import NUMBERS_OF_A_THREAD, limited_blas, map_blocks, map_tasks

#: Runs with two threads, forks, and runs again in the child, which a deadline ends if nothing else does.
FORK = """
import os, signal
import numpy as np
from finitesum import Problem, minimize
from finitesum.core import threads
threads.NUMBERS_OF_A_THREAD = 1000
rng = np.random.default_rng(0)
X = rng.standard_normal((20_000, 3))
y = X.sum(axis=1) + rng.standard_normal(20_000) > 0
problem = Problem.linear(X, y, alpha=1e-4)
parted = Problem.partitioned([(X[:9000], y[:9000]), (X[9000:], y[9000:])], alpha=1e-4)
def solution():
    whole = minimize(problem, method="lazy-newton", options={"n_threads": 2}, tol=1e-8, measure_every=0)
    return whole.x.tobytes() + minimize(parted, method="lazy-newton", tol=1e-8, measure_every=0).x.tobytes()
before = solution()
assert threads._pool.cache_info().currsize == 1
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if solution() == before else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_has_threads_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "0", done.stderr


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_blocks_come_back_in_order_and_few_numbers_stay_together(n_threads):
    items = np.arange(7)
    names = []

    def part(block):
        names.append(threading.current_thread().name)
        return block

    parts = map_blocks(part, items, 3 * NUMBERS_OF_A_THREAD, n_threads)
    assert len(parts) == n_threads
    assert np.concatenate(parts).tolist() == items.tolist()
    assert sum(name.startswith("finitesum") for name in names) == n_threads - 1
    assert len(map_blocks(part, items, 2 * NUMBERS_OF_A_THREAD - 1, n_threads)) == 1


def test_an_error_in_a_block_is_raised():
    def part(block):
        if block[0] > 0:
            raise ZeroDivisionError
        return block

    with pytest.raises(ZeroDivisionError):
        map_blocks(part, np.arange(4), 2 * NUMBERS_OF_A_THREAD, 2)


@pytest.mark.skipif(not blas_threads(), reason="the threads of this linear algebra library cannot be seen")
def test_tasks_share_the_threads_of_the_linear_algebra_library():
    before = blas_threads()
    assert map_tasks(lambda k: (k, blas_threads()), range(3), 2) == [(k, {1}) for k in range(3)]
    assert map_tasks(lambda k: blas_threads(), range(1), 2) == [{2}]
    assert map_tasks(lambda k: blas_threads(), range(2), None) == [before, before]
    with limited_blas(None):
        assert blas_threads() == before


def test_the_least_that_is_asked_of_blas_holds_until_nobody_asks():
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        if max(before, default=1) < 2:
            pytest.skip("the linear algebra library has one thread")
        try:
            # of two threads, say, which leave in the order of their coming
            first, second = limited_blas(1), limited_blas(2)
            first.__enter__()
            assert set(threads()) == {1}
            second.__enter__()
            assert set(threads()) == {1}
            first.__exit__(None, None, None)
            assert set(threads()) == {2}
        finally:
            second.__exit__(None, None, None)
        assert threads() == before


def test_a_forked_child_has_as_many_threads_as_there_were():
    blas = finitesum_threads._Blas()
    before = threadpool_info()
    blas.ask(1)
    blas.forget()
    assert threadpool_info() == before
    blas.leave(1)  # of the thread that made the child
    assert threadpool_info() == before
