"""Small problems, twice: as the library has them and as the oracles have them."""

import numpy as np
import scipy.sparse
from oracles import projections
from oracles.sums import Sum

from finitesum.constraints import Box, L1Ball, L2Ball
from finitesum.methods.cost_model import costs_of
from finitesum.problems.linear import Problem
from finitesum.running.sampling import order_of_pass

#: Sets by name: the library's, and the projection in plain NumPy, in a metric.
CONSTRAINTS = {
    "l1-ball": (L1Ball(0.4), lambda x, s=1.0: projections.onto_l1_ball(x, 0.4, s)),
    "box": (Box(-0.1, 0.3), lambda x, s=1.0: np.clip(x, -0.1, 0.3)),
    "l2-ball": (L2Ball(0.5), lambda x, s=1.0: projections.onto_l2_ball(x, 0.5, s)),
}

FORMATS = ("dense", "csr32", "csr64")


def as_format(X, form):
    if form == "dense":
        return X
    matrix = scipy.sparse.csr_array(X)
    if form == "csr64":
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def targets_for(loss, signal, rng):
    """Return targets of the kind of a loss that go with a signal."""
    means = np.exp(np.clip(signal, -2.0, 2.0))
    return {
        "sign": lambda: np.where(signal > 0.0, 1, -1),
        "real": lambda: signal,
        "count": lambda: rng.poisson(means).astype(float),
        "positive": lambda: means * rng.gamma(2.0, 0.5, means.size),
        "share": lambda: rng.binomial(8, 1.0 / (1.0 + np.exp(-signal))) / 8.0,
    }[loss.target_kind()]()


def make_pair(
    form="dense",
    loss="logistic",
    *,
    n=23,
    d=6,
    alpha=0.05,
    l1_ratio=0.0,
    intercept=False,
    weighted=False,
    batch_size=1,
    constraint=None,
    dtype=np.float64,
    seed=0,
):
    """Return the same problem as (Problem, Sum); half of the entries are zero."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)
    if loss == "poisson":
        X *= 0.4  # the exponential has no bound on its curvature: keep the fixed steps of the tests stable
    signal = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    if loss == "poisson":
        y = rng.poisson(np.exp(np.clip(signal, -2, 2))).astype(float)
    elif loss in ("squared", "huber"):
        y = signal
    else:
        y = np.where(signal > 0, 1.0, -1.0)
    weights = rng.integers(1, 5, n).astype(float) if weighted else None
    offsets = 0.3 * rng.standard_normal(n) if weighted else None
    problem = Problem.linear(
        as_format(X, form),
        y,
        loss=loss,
        alpha=alpha,
        l1_ratio=l1_ratio,
        fit_intercept=intercept,
        sample_weight=weights,
        offset=offsets,
        batch_size=batch_size,
        constraint=None if constraint is None else CONSTRAINTS[constraint][0],
    )
    oracle = Sum(
        X,
        y,
        loss,
        l1=alpha * l1_ratio,
        l2=alpha * (1 - l1_ratio),
        intercept=intercept,
        weights=weights,
        offsets=offsets,
        batch_size=batch_size,
        project=None if constraint is None else CONSTRAINTS[constraint][1],
    )
    oracle.loss_name, oracle.constraint, oracle.costs = loss, constraint, costs_of(problem)
    return problem, oracle


def ident(setting):
    """A test's name for a setting."""
    return "-".join(f"{k}={v}" for k, v in setting.items()) or "plain"


def start(problem, scale=0.3):
    return scale * np.random.default_rng(5).standard_normal(problem.dim)


def passes_of(method, problem, x0, n_passes=4, sampling="shuffled"):
    """The orders of some passes, and the states after them."""
    orders = [order_of_pass(sampling, 3, k, problem.n_components) for k in range(n_passes)]
    state, states = method.init(problem, x0), []
    for order in orders:
        state = method.run_pass(problem, state, order)
        states.append(state)
    return orders, states
