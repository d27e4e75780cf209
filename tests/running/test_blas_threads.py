"""How many threads of BLAS runs have: whose threads, once awake, take the time of the cores from those that work."""

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import Component, FiniteSum, Problem, minimize
from finitesum.core import threads
from finitesum.core.threads import limited_blas
from finitesum.methods import as_method
from finitesum.methods.cost_model import FEW_NUMBERS, MOST_FACTORED, SMALL, threads_of_blas
from finitesum.running.run import Run

OF_PROCESS = 2


def dense_problem(n_rows, n_columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    return Problem.linear(X, np.sign(X[:, 0] + rng.normal(size=n_rows)), alpha=0.1)


def sparse_problem():
    X = sp.random_array((2 * SMALL, SMALL + 1), density=0.005, format="csr", rng=np.random.default_rng(0))
    return Problem.linear(X, np.resize([-1.0, 1.0], 2 * SMALL), alpha=0.1)


def large_dense_problem():
    n_columns = SMALL + 1
    return dense_problem(int(FEW_NUMBERS) // n_columns + 1, n_columns)


@pytest.fixture
def seen(monkeypatch):
    """Return the numbers of threads that starts and passes had, by what was done; the process has two."""
    found = {}
    for name in ("start", "_passes"):
        done = getattr(Run, name)

        def watched(self, *args, name=name, done=done, **named):
            found[name] = threads.blas_threads()
            return done(self, *args, **named)

        monkeypatch.setattr(Run, name, watched)
    with limited_blas(OF_PROCESS):
        if threads.blas_threads() != OF_PROCESS:
            pytest.skip("the linear algebra library has one thread")
        yield found
        assert threads.blas_threads() == OF_PROCESS


@pytest.mark.parametrize("method", ["newton-cg", "saga", "fg", "coordinate-descent", "auto"])
def test_runs_on_sparse_rows_have_one_thread_from_the_start(seen, method):
    minimize(sparse_problem(), method=method, max_iter=2)
    assert seen == {"start": 1, "_passes": 1}


def test_runs_on_large_matrices_have_all_threads(seen):
    minimize(large_dense_problem(), method="newton", max_iter=1)
    assert seen == {"start": OF_PROCESS, "_passes": OF_PROCESS}


def test_a_method_says_how_many_threads_it_can_use():
    large = large_dense_problem()
    assert threads_of_blas(as_method("newton-cg"), large) == 1
    assert threads_of_blas(as_method("newton"), large) is None


@pytest.mark.parametrize("method", ["ciag", "nim", "iqn", "svrg2"])
def test_methods_with_matrices_of_all_coefficients_may_have_any_number_of_threads(method):
    assert threads_of_blas(as_method(method), sparse_problem()) is None
    assert threads_of_blas(as_method(method), dense_problem(60, 8)) == 1


@pytest.mark.parametrize("method", ["multinomial-newton", "multinomial-lbfgs"])
def test_several_outputs_have_one_thread_on_sparse_rows_of_many_columns(method):
    n = MOST_FACTORED + 1
    rows = sp.eye_array(n, format="csr")
    wide, y = sp.hstack([rows, rows], format="csr"), np.arange(n) % 3
    assert threads_of_blas(as_method(method), Problem.linear(wide, y, loss="multinomial", alpha=0.1)) == 1
    few = Problem.linear(wide[: SMALL + 1], y[: SMALL + 1], loss="multinomial", alpha=0.1)
    assert threads_of_blas(as_method(method), few) is None


@pytest.mark.parametrize("method", ["saga", "fg"])
def test_a_method_without_matrices_has_one_thread_on_sparse_rows_and_on_few_numbers(method):
    chosen = as_method(method)
    assert threads_of_blas(chosen, large_dense_problem()) is None
    assert threads_of_blas(chosen, dense_problem(60, 8)) == 1
    assert threads_of_blas(chosen, sparse_problem()) == 1


def test_components_may_have_any_number_of_threads():
    components = FiniteSum([Component(lambda w: w @ w, lambda w: 2.0 * w)], dim=1)
    assert threads_of_blas(as_method("saga"), components) is None
