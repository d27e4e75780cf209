"""The epochs of dual coordinate ascent (`finitesum.methods.newton.sdca`) with which Newton-CG begins, pass by pass."""

from typing import Any

import numpy as np

from finitesum.evaluation.row_sums import Majorize, loss_sums
from finitesum.evaluation.samples import evaluate_on, sample_of
from finitesum.methods.newton import subsampling
from finitesum.methods.newton.sdca import DualState, are_slow, next_epoch
from finitesum.methods.newton.subsampling import found_at
from finitesum.problems.linear import Problem
from finitesum.problems.rows import n_entries

#: Stored numbers that are read in about a millisecond: a pass goes on until epochs have read as many, or for a few of them.
NUMBERS_OF_A_PASS, FEW_EPOCHS = 1e6, 4


def after_epochs(problem: Problem, state: Any, n_threads: int) -> Any:
    """Return a state of Newton-CG after some epochs: the last where tol is met or conjugate gradients gain more."""
    m, tol = problem.n_components, max(state.tol, subsampling.LEAST_TOL)
    w, dual, n_epochs, is_slow, is_over = state.x, state.dual, 0, False, False
    while not is_over and (
        n_epochs == 0 or (n_epochs < FEW_EPOCHS and n_epochs * n_entries(problem.rows) < NUMBERS_OF_A_PASS)
    ):
        w, dual = next_epoch(problem, w, dual, int(state.order[0]))
        n_epochs, is_slow = n_epochs + 1, are_slow(problem, dual, tol)
        is_over = is_slow or dual.after_change * dual.change <= tol
    state = state._replace(x=w, dual=dual, n_gradients=state.n_gradients + n_epochs * m)
    if not is_over:
        return state
    found = evaluate_on(problem, sample_of(problem, state.order), w, state.curvatures, n_threads=n_threads)
    optimality = problem.term.optimality(w, found.gradient)
    state = state._replace(n_gradients=state.n_gradients + m)
    if optimality > tol and not is_slow:
        return state._replace(dual=dual._replace(after_change=1.2 * optimality / dual.change))
    state = state._replace(dual=DualState())
    if optimality > tol:
        state = state._replace(n_gradients=state.n_gradients + m)
        start = np.zeros(problem.dim)
        at_start = loss_sums(problem, start, n_threads=n_threads).value
        if not found.value + problem.term.value(w) < at_start:  # where no penalty has a value
            return state._replace(x=start)
    state = found_at(problem, state, w, found)
    return state._replace(first_optimality=optimality, majorize=Majorize.NONE, n_sampled=m)
