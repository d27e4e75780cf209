"""Visiting orders: pure functions of seed and pass, with the counts that they promise."""

import itertools

import numpy as np
import pytest

from finitesum import Problem
from finitesum.running.sampling import SAMPLINGS, order_for, order_of_pass

ALL = sorted(SAMPLINGS)


@pytest.mark.parametrize("sampling", ALL)
def test_an_order_is_a_function_of_seed_and_pass_alone(sampling):
    first = [order_of_pass(sampling, 7, k, 50) for k in range(4)]
    for k in (3, 1, 2, 0):  # in any order of asking
        np.testing.assert_array_equal(order_of_pass(sampling, 7, k, 50), first[k])
    assert all(order.dtype == np.int64 and order.shape == (50,) for order in first)


@pytest.mark.parametrize("sampling", ["cyclic", "shuffled-once", "shuffled"])
def test_orders_without_replacement_visit_each_component_once(sampling):
    for k in range(5):
        np.testing.assert_array_equal(np.sort(order_of_pass(sampling, 3, k, 37)), np.arange(37))


def test_which_orders_change_with_the_pass_and_with_the_seed():
    def same(sampling, one, other):
        return bool((order_of_pass(sampling, *one, 60) == order_of_pass(sampling, *other, 60)).all())

    passes = {name: same(name, (1, 0), (1, 1)) for name in ALL}
    seeds = {name: same(name, (1, 0), (2, 0)) for name in ALL}
    assert passes == {"cyclic": True, "shuffled-once": True, "shuffled": False, "with-replacement": False}
    assert seeds == {"cyclic": True, "shuffled-once": False, "shuffled": False, "with-replacement": False}
    np.testing.assert_array_equal(order_of_pass("cyclic", 9, 9, 5), np.arange(5))
    assert not same("shuffled", (1, 1), (2, 0))  # the passes of one seed are not those of the next, shifted


def test_draws_with_replacement_are_uniform_and_independent_between_passes():
    n, passes = 40, 500
    draws = np.array([order_of_pass("with-replacement", 11, k, n) for k in range(passes)])
    counts = np.bincount(draws.ravel(), minlength=n)
    chi_square = ((counts - passes) ** 2 / passes).sum()  # 39 degrees of freedom: 99.99 % below 83
    assert chi_square < 83.0
    absent = np.mean([n - np.unique(row).size for row in draws]) / n
    assert absent == pytest.approx((1 - 1 / n) ** n, abs=0.02)
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 0.03


def test_shuffles_put_each_component_everywhere():
    n, passes = 8, 4000
    places = np.array([np.argsort(order_of_pass("shuffled", 5, k, n)) for k in range(passes)])
    for component in range(n):
        counts = np.bincount(places[:, component], minlength=n)
        assert ((counts - passes / n) ** 2 / (passes / n)).sum() < 30.0  # 7 degrees of freedom


@pytest.mark.parametrize("sampling", ALL)
def test_one_component(sampling):
    np.testing.assert_array_equal(order_of_pass(sampling, 0, 5, 1), [0])


def test_large_seeds_are_taken():
    assert order_of_pass("shuffled", 2**80, 3, 10).shape == (10,)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"^sampling must be one of cyclic, .*, got 'random'"):
        order_of_pass("random", 0, 0, 3)


@pytest.mark.parametrize("sampling", ["cyclic", "shuffled-once", "shuffled"])
@pytest.mark.parametrize("seed", range(8))
def test_a_part_is_visited_wholly_before_the_next_is_touched(sampling, seed):
    rows = np.random.default_rng(0).standard_normal((60, 2))
    cuts = [0, 7, 20, 33, 60]
    parts = [(rows[a:b], rows[a:b, 0] > 0.1) for a, b in itertools.pairwise(cuts)]
    problem = Problem.partitioned(parts).batched(2)
    order = order_for(problem, sampling, seed, 1)
    np.testing.assert_array_equal(np.sort(order), np.arange(30))
    reads = [set(np.searchsorted(cuts[1:], [2 * k, 2 * k + 1], side="right").tolist()) for k in range(30)]
    touched: set[int] = set()
    left = set(range(30))
    for component in order.tolist():
        if not reads[component] <= touched:
            assert not any(reads[k] <= touched for k in left)  # all that lies in the parts touched before was visited
            touched |= reads[component]
        left.remove(component)
    assert touched == set(range(4))


@pytest.mark.parametrize("sampling", ["cyclic", "shuffled"])
def test_parts_in_which_no_component_begins_are_visited_with_others(sampling):
    rows = np.random.default_rng(0).standard_normal((21, 2))
    cuts = [0, 9, 10, 11, 12, 21]
    problem = Problem.partitioned([(rows[a:b], rows[a:b, 0] > 0.1) for a, b in itertools.pairwise(cuts)]).batched(4)
    np.testing.assert_array_equal(np.sort(order_for(problem, sampling, 5, 1)), np.arange(6))
