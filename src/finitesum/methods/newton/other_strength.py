"""States of Newton's methods on problems that differ in the strength of an l2 penalty: what is known of the rows stays.

Slopes and curvatures of the rows do not depend on the penalty: what it adds to the gradient and to the Hessian is known
without them.
"""

import math

import numpy as np

from finitesum.methods.newton.lazy_newton import LazyNewtonState
from finitesum.methods.newton.newton_cg import NewtonCGState
from finitesum.methods.newton.row_metric import RowMetric
from finitesum.methods.newton.stale_hessian import factor_of
from finitesum.methods.subproblems.conjugate_gradients import ConjugateGradients
from finitesum.methods.subproblems.lbfgs import no_pairs
from finitesum.problems.linear import Problem

PathState = LazyNewtonState | NewtonCGState


def with_strength(problem: Problem, state: PathState, before: float) -> PathState:
    """Return the state of a method on another problem as its state on this one.

    Parameters
    ----------
    problem : Problem
        With an l2 penalty, alone or beside an l1 penalty.
    state : LazyNewtonState or NewtonCGState
        On a sample of all components, where the problem had another strength of its l2 penalty.
    before : float
        That strength.
    """
    more = (problem.term.ridge - before) * problem.term.weights
    gradient = state.gradient + more * state.x
    optimality = problem.term.optimality(state.x, gradient)
    if isinstance(state, NewtonCGState):
        state = state._replace(gradient=gradient, optimality=optimality)
        none = ConjugateGradients()
        return state._replace(diagonal=np.zeros(0), metric=RowMetric(), cg=none, on_rows=none, n_steps=0)
    factor, shift = factor_of(problem, state.hessian, problem.term.ridge, state.shift)
    state = state._replace(gradient=gradient, optimality=optimality, factor=factor, shift=shift)
    return state._replace(pairs=no_pairs(problem.dim), gradient_ratio=math.nan)
