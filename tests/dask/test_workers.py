"""Calls for parts go to the worker that ends them first, where workers are measurably unequal."""

from concurrent.futures import Future

import pytest

pytest.importorskip("distributed", reason="dask and distributed are not installed")

from finitesum.dask import workers as known


class Client:
    def subscribe_topic(self, topic, handler):
        assert topic == known.TOPIC
        self.report = lambda **found: handler((0.0, {"n_threads": 1, **found}))


@pytest.fixture
def cluster():
    """Workers "slow" and "fast" with two parts each of a megabyte, and what is known of them."""
    client = Client()
    workers = known.Workers(client)
    for k, worker in enumerate(["slow", "fast"] * 2):
        client.report(worker=worker, part=f"part {k}", call=f"part {k}", n_bytes=1_000_000)
    return client, workers


def tell(client, seconds, times=known.WINDOW):
    for worker, each in [*seconds.items()] * times:
        client.report(worker=worker, part="part 0" if worker == "slow" else "part 1", call="", seconds=each)


def pending(workers, worker, n=1):
    given = [Future() for _ in range(n)]
    for k, future in enumerate(given):
        future.key = f"call {k} of {worker}"
        workers.given(worker, future)
    return given


@pytest.mark.parametrize("seconds", [{}, {"slow": 1.0}, {"slow": 1.4, "fast": 1.0}, {"slow": 0.01, "fast": 0.001}])
def test_dask_decides_where_little_is_known_or_workers_are_about_equal(seconds, cluster):
    client, workers = cluster
    tell(client, seconds)
    assert workers.choice("part 0") is None


def test_parts_of_a_slow_worker_go_to_others_until_these_are_busy_for_longer(cluster):
    client, workers = cluster
    tell(client, {"slow": 5.0, "fast": 1.0})
    assert workers.slowness == pytest.approx([5.0, 1.0])
    assert workers.choice("part 0") == workers.choice("part 1") == "fast"
    given = pending(workers, "fast", 6)
    assert workers.choice("part 0") == "slow"
    client.report(worker="fast", part="part 1", call=given[0].key, seconds=1.0)
    for future in given[1:4]:
        future.set_result(None)
    assert workers.choice("part 0") == "fast"


def test_a_part_is_not_moved_where_that_takes_longer(cluster):
    client, workers = cluster
    client.report(worker="slow", part="large", call="large", n_bytes=1_000_000_000)
    tell(client, {"slow": 0.1, "fast": 0.01})  # a megabyte: the large part takes 100 s, or 10 s to move and 10 s
    assert workers.choice("large") == "fast"
    tell(client, {"slow": 0.016}, known.WINDOW)
    assert workers.choice("large") == "slow"


def test_a_first_call_that_compiles_does_not_make_a_worker_slow_and_unknown_ones_are_tried(cluster):
    client, workers = cluster
    tell(client, {"slow": 5.0, "fast": 100.0}, 1)
    assert workers.choice("part 0") is None
    tell(client, {"slow": 5.0, "fast": 1.0})
    assert workers.slowness == pytest.approx([5.0, 1.0])
    workers.there({"slow": 1, "fast": 1, "new": 2})
    assert workers.slowness == pytest.approx([5.0, 1.0, 1.0, 1.0])
    given = pending(workers, "fast", 1)
    assert workers.choice("part 0") == "new"
    assert len(given) == 1


def test_a_worker_that_gets_no_calls_is_tried_again(cluster):
    client, workers = cluster
    tell(client, {"slow": 5.0, "fast": 1.0})
    assert any(workers.choice("part 0") != "fast" for _ in range(500))


def test_calls_of_workers_that_are_gone_are_found_and_these_forgotten(cluster):
    client, workers = cluster
    tell(client, {"slow": 5.0, "fast": 1.0})
    given = pending(workers, "fast", 2)
    given[0].set_result(None)
    assert workers.there({"slow": 1, "fast": 1}) == []
    assert workers.there({"slow": 1}) == given[1:]
    assert workers.choice("part 0") is None
