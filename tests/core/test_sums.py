"""Sums over parts: the same bits by each way, and results that are lost on the way."""

import numpy as np
import pytest

from finitesum.core.engine import Call, EngineElsewhere, Threads
from finitesum.core.sums import collected, completed, each_part, sum_in_tree, sum_of_parts


class Part:
    name, is_held = "part", True

    def __init__(self, data):
        self.data = data

    def load(self):
        return self.data


def times(data, factor):
    return factor * data


class Losing(Threads):
    """An engine elsewhere that loses the first result of some calls, and may lose what is collected."""

    is_elsewhere = True

    def __init__(self, *, lost=(), collects=True):
        super().__init__(2)
        self.lost, self.collects, self.n_collected = set(lost), collects, 0

    def share(self, value, n_calls):
        return value

    def submit_in_turn(self, function, handle, *arguments):
        return self.submit(function, handle, *arguments)

    def submit_all(self, calls):
        futures = []
        for k, call in enumerate(calls):
            is_lost = k in self.lost
            future = self.submit(self._fails if is_lost else call.function, call.handle, *call.arguments)
            future.call = call
            futures.append(future)
        return futures

    @staticmethod
    def _fails(data, *arguments):
        raise ConnectionError("the worker is gone")

    def recover(self, future):
        if not isinstance(future.exception(), ConnectionError):
            raise future.exception()
        return self.submit(future.call.function, future.call.handle, *future.call.arguments)

    def collect(self, futures, asked):
        self.n_collected += 1
        if not self.collects:
            raise ConnectionError("the worker is gone")
        results = (future.result() for future in futures)
        return [result if one is None else one(result) for result, one in zip(results, asked, strict=True)]


def numbers(n):
    return [np.array([0.1, 1e16, -1e16]) * (k + 1) ** 3.7 for k in range(n)]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_sums_of_results_that_are_here_have_the_bits_of_the_tree(n):
    engine = Threads(2)
    calls = [Call(times, engine.place(Part(data)), (3.0,)) for data in numbers(n)]
    np.testing.assert_array_equal(sum_in_tree(each_part(engine, calls)), sum_of_parts(engine, calls))
    assert sum_in_tree([[k] for k in range(n)]) == list(range(n))


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("lost", [(), (0,), (1, 3)])
def test_lost_results_are_computed_again(lost, collects):
    engine, arrivals = Losing(lost=lost, collects=collects), []
    assert isinstance(engine, EngineElsewhere)
    calls = [Call(times, engine.place(Part(data)), (3.0,)) for data in numbers(5)]
    futures = completed(engine, calls, arrivals.append)
    found = collected(engine, futures, [None, np.sum, None, np.max, None])
    assert (sorted(arrivals), engine.n_collected) == ([0, 1, 2, 3, 4], 1)
    for k, data in enumerate(numbers(5)):
        expected = 3.0 * data
        np.testing.assert_array_equal(found[k], {1: np.sum, 3: np.max}.get(k, np.asarray)(expected))


def test_an_error_of_a_call_ends_the_others():
    engine = Losing()

    def fails(data):
        raise ValueError("part 2 is wrong")

    calls = [Call(fails if k == 2 else np.asarray, engine.place(Part(data)), ()) for k, data in enumerate(numbers(4))]
    with pytest.raises(ValueError, match="part 2 is wrong"):
        completed(engine, calls)
