"""The table of methods: it says what the paper's Table 1 says, and what runs measure."""

from typing import get_args

import numpy as np
import pytest

from finitesum import METHODS, Problem
from finitesum.losses import CLASS_LOSSES, LOSSES, LossName
from finitesum.methods import MethodName
from finitesum.running.checkpoint import flatten
from finitesum.running.sampling import SAMPLINGS, Sampling, order_of_pass

#: Wai et al. 2020, Table 1, linear models: storage, work of a visit, iterations to eps, kind of guarantee.
TABLE_1 = {
    "iag": ("m", "d", "m kappa log 1/eps", "worst case"),
    "sag": ("m", "d", "(m + kappa_max) log 1/eps", "expected"),
    "saga": ("m", "d", "(m + kappa_max) log 1/eps", "expected"),
    "svrg": ("d", "d", "(m + kappa_max) log 1/eps", "expected"),
    "acc-svrg": ("d", "d", "(m + m kappa_max / (m + sqrt(kappa_max))) log 1/eps at the best batch", "expected"),
    "svrg2": ("d^2", "d^2", "kappa log 1/eps at best", "expected"),
    "iqn": ("m d^2", "d^2", "o(log 1/eps) near the optimum (superlinear)", "worst case"),
    "nim": ("m + d^2", "d^3", "o(log 1/eps) near the optimum (superlinear)", "worst case"),
    "ciag": ("m + d^2", "d^2", "kappa log 1/eps for small eps", "worst case"),
    "a-ciag": ("m + d^2", "d^2", "sqrt(kappa) log 1/eps for small eps", "worst case"),
}

#: Gradients and Hessians that a pass over m components costs at least: what the visits read, and snapshots.
GRADIENTS_OF_A_PASS = {"svrg": 2, "acc-svrg": 2, "svrg2": 2, "sarah": 3}
SMOOTH = ["fg", "afg", "ig", "sarah", "newton", *TABLE_1]


def test_names_that_type_checkers_know():
    assert get_args(MethodName) == ("auto", *METHODS)
    assert get_args(LossName) == (*LOSSES, *CLASS_LOSSES)
    assert get_args(Sampling) == tuple(SAMPLINGS)


def generated(m, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d))
    return Problem.linear(X, np.sign(X[:, 0] + rng.standard_normal(m)), alpha=0.1, batch_size=1)


def state_after(name, problem, n_passes):
    method = METHODS[name]()
    state = method.init(problem, np.zeros(problem.dim))
    for k in range(n_passes):
        state = method.run_pass(problem, state, order_of_pass(method.default_sampling, 0, k, problem.n_components))
    return state


@pytest.mark.parametrize("name", TABLE_1)
def test_a_line_says_what_table_1_says(name):
    storage, work, visits, kind = TABLE_1[name]
    card = METHODS[name].card
    assert card.storage.split(";")[0] == storage
    assert card.work.split(";")[0].split(",")[0] == work
    assert card.passes == f"{visits}, {kind}"


@pytest.mark.parametrize("name", SMOOTH)
def test_a_state_grows_with_rows_and_columns_as_the_table_says(name):
    """Second differences of the numbers in a state, with m and d doubled, tell the terms m, d^2 and m d^2 apart."""

    def numbers(m, d):
        return sum(np.size(value) for value in flatten(state_after(name, generated(m, d), 1)).values())

    m, d = 40, 16
    base, tall, wide, wider = numbers(m, d), numbers(2 * m, d), numbers(m, 2 * d), numbers(m, 3 * d)
    both = numbers(2 * m, 2 * d)
    built = METHODS[name].card.storage.removesuffix(" as built").split("; ")[-1].split(" + ")
    assert (both - tall - wide + base > 0) == ("m d^2" in built)
    assert (tall - base > 0) == ("m" in built or "m d^2" in built)
    if name != "newton":  # its Hessian is gone when a pass is over
        assert (wider - 2 * wide + base > 0) == ("d^2" in built or "m d^2" in built)
    expected = {"m": m, "d": d, "d^2": d * d, "m d^2": m * d * d}
    assert base <= 6 * sum(expected[term] for term in built) + 12 * d + 40


@pytest.mark.parametrize("name", SMOOTH)
def test_a_pass_reads_as_many_gradients_and_hessians_as_the_table_says(name):
    problem = generated(40, 4)
    before, after = state_after(name, problem, 3), state_after(name, problem, 4)
    m = problem.n_components
    assert after.n_gradients - before.n_gradients == GRADIENTS_OF_A_PASS.get(name, 1) * m
    needs = METHODS[name].card.needs
    reads_always = "Hessian" in needs and "at the start only" not in needs
    assert after.n_hessians - before.n_hessians == (m if reads_always else 0)
    assert (after.n_hessians > 0) == ("Hessian" in needs)
