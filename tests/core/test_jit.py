"""Kernels: as machine code, as Python, and what they are given."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

from finitesum import Problem, minimize
from finitesum.core import jit

pytestmark = pytest.mark.skipif(not jit.COMPILED, reason="nothing is compiled under NUMBA_DISABLE_JIT")


def test_a_kernel_without_a_file_is_compiled_and_not_kept():
    namespace = {}
    exec(compile("def double(x):\n    return 2 * x\n", "<typed in>", "exec"), namespace)
    made = jit.kernel(namespace["double"])
    assert (made(4), made.cache_hits, made.signatures) == (8, 0, 1)


def test_threads_run_kernels_to_the_same_bits():
    rng = np.random.default_rng(0)
    problems = []
    for loss in ("squared", "logistic", "squared", "logistic"):
        X = rng.standard_normal((40, 4))
        y = X @ rng.standard_normal(4) + rng.standard_normal(40)
        problem = Problem.linear(X, y if loss == "squared" else y > 0, loss=loss, alpha=0.05)
        problems.append((problem, "fg" if loss == "squared" else "saga"))

    def run(problem_and_method):
        problem, method = problem_and_method
        return minimize(problem, method=method, tol=1e-8).x.tobytes()

    serial = [run(problem) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(run, problems)) == serial


@jit.kernel_part
def _scaled_sum(pair):
    return pair.total() * pair.scale


@jit.kernel
def _compiled_scaled_sum(pair):
    return _scaled_sum(pair)


class Function(jit.Interpreted):
    """What Numba knows nothing of."""

    def __init__(self, function):
        self.function = function


class Pair(NamedTuple):
    factor: float
    of: object


@jit.kernel_part
def _applied(pair, value):
    return pair.factor * pair.of.function(value)


@jit.kernel
def _total(pair, values):
    total = 0.0
    for value in values:
        total += _applied(pair, value)
    return total


def test_a_kernel_and_its_parts_run_as_python_where_an_argument_holds_something_interpreted():
    squares = Pair(2.0, Function(lambda value: value**2))
    assert _total(squares, np.arange(4.0)) == 28.0
    assert _total.signatures == 0


@jit.kernel
def _value(of, value):
    return of.function(value)


def test_a_kernel_runs_as_python_where_an_argument_is_something_interpreted():
    assert _value(Function(lambda value: value**2), 3.0) == 9.0
    assert _value.signatures == 0


@jit.kernel_part
def _product_less(a, b, c):
    return a * b - c


@jit.reassociated_part
def _sum_of_differences(values, b, c):
    total = 0.0
    for value in values:
        total += _product_less(value, b, c)
    return total


@jit.kernel
def _differences_first_met_in_a_sum(values, b, c):
    return _sum_of_differences(values, b, c), _product_less(values[0], b, c)


@pytest.mark.skipif(not jit.COMPILED, reason="nothing is compiled under NUMBA_DISABLE_JIT")
def test_within_a_block_kernels_run_as_python_and_after_an_error_they_are_compiled_again():
    seen = []

    @jit.kernel
    def half(x):
        return x / 2.0

    assert half(1.0) == 0.5
    half.function = lambda x: seen.append(x) or x / 2.0

    @jit.as_python()
    def interrupted():
        assert half(3.0) == 1.5
        raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert seen == [3.0]
    assert half(5.0) == 2.5
    assert seen == [3.0]
    assert half.signatures == 1


def test_a_part_is_rounded_as_written_whoever_calls_it_first():
    a, b = 1.0 - 2.0**-53, 1e5
    assert _differences_first_met_in_a_sum(np.array([a]), b, a * b) == (0.0, 0.0)  # fused, it would be 3.4e-12


def test_methods_compile_where_all_fields_are_of_one_type_and_where_they_are_not():
    @jit.compilable
    class Pair(NamedTuple):
        scale: float
        other: float

        def total(self) -> float:
            return self.scale + self.other

    assert _compiled_scaled_sum(Pair(2.0, 0.5)) == 5.0
    assert _compiled_scaled_sum(Pair(2.0, 3)) == 10.0  # float64 and int64: another kind of tuple to numba


def test_tuples_of_others_keep_fields_that_are_named_like_a_method_of_ours():
    numba = pytest.importorskip("numba")

    class Observation(NamedTuple):
        value: float
        dim: int
        first: float

    class Uniform(NamedTuple):
        value: float
        dot: float

    @numba.njit
    def read(observation, uniform):
        return observation.value + observation.dim + observation.first + uniform.value + uniform.dot

    assert read(Observation(1.0, 2, 3.0), Uniform(10.0, 20.0)) == 36.0


def test_a_tuple_without_the_method_is_an_error_of_types_not_a_wrong_answer():
    numba = pytest.importorskip("numba")

    class Plain(NamedTuple):
        scale: float

    with pytest.raises(numba.TypingError, match="Unknown attribute 'total'"):
        _compiled_scaled_sum(Plain(1.0))


def test_foreign_tuple_classes_are_found_at_any_depth():
    class Own(NamedTuple):
        x: float

    view = Problem.linear([[1.0], [2.0]], [0, 1]).view
    assert not jit._is_foreign(view)
    assert not jit._is_foreign((1.0, (2, np.zeros(1))))
    assert jit._is_foreign(Own(1.0))
    assert jit._is_foreign((1.0, (view, Own(1.0))))
    assert jit._is_foreign(view._replace(loss=Own(1.0)))
    for _ in range(2):  # what was found once is remembered by the classes, and only where those decide
        assert jit._is_ours(view)
        assert not jit._is_ours(view._replace(loss=Own(1.0)))
        assert jit._is_ours((1.0, (2.0, 3.0)))
        assert jit._is_ours((1.0, (2.0, (3.0,))))
        assert not jit._is_ours((1.0, (2.0, (Own(1.0),))))
