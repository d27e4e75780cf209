"""The convex term of a problem from what users write: a strength and a ratio, a penalty, weights, groups, a set."""

from typing import Any

from finitesum.constraints import Box, Constraint, Unconstrained
from finitesum.problems.penalties import ElasticNet, GroupLasso, elastic_net
from finitesum.problems.term import ConvexTerm
from finitesum.problems.term_penalties import WeightedElasticNet, as_penalty


def convex_term(
    n_columns: int,
    n_free: int,
    n_blocks: int = 1,
    alpha: float = 0.0,
    l1_ratio: float = 0.0,
    constraint: Constraint | None = None,
    penalty: Any = None,
    penalty_weights: Any = None,
    groups: Any = None,
) -> ConvexTerm:
    """Return the term of a problem as users write it: the parameters are those of `Problem.linear`, and are checked."""
    if penalty is not None:
        if alpha != 0.0 or l1_ratio != 0.0 or groups is not None:
            raise ValueError(
                "penalty goes without alpha, l1_ratio and groups: give its strength to the penalty itself, as in MCP(0.1)."
            )
    else:
        penalty = elastic_net(alpha, l1_ratio) if groups is None else GroupLasso(alpha, groups, l1_ratio)
    known = as_penalty(penalty, n_columns, penalty_weights)
    return ConvexTerm(known, checked_constraint(constraint, n_columns, known, n_blocks), n_columns, n_free, n_blocks)


def checked_constraint(constraint: Constraint | None, n_columns: int, penalty: Any, n_outputs: int = 1) -> Constraint:
    """Return the set of a problem in n_columns variables, the whole space for None, or raise what is wrong with it.

    A table of bounds with one row is that of a model with one output.
    """
    if constraint is None:
        return Unconstrained()
    if not isinstance(constraint, Constraint):
        raise TypeError(f"constraint must be a set from finitesum.constraints such as L1Ball(10.0), got {constraint!r}.")
    constraint.check_dim(n_columns)
    constraint.check_outputs(n_outputs)
    if n_outputs == 1 and isinstance(constraint, Box):
        constraint = constraint.of_output(0)
    if isinstance(constraint, Unconstrained):
        return constraint
    if isinstance(penalty, ElasticNet | WeightedElasticNet) and constraint.boundary in ("bounds", "signs"):
        return constraint
    if penalty.lasso() > 0.0:
        raise ValueError(
            "an l1 penalty goes with bounds of coefficients, such as NonNegative() or Box(-1, 1), but with no other set, "
            "because its prox is not known there: set l1_ratio to 0 or leave constraint out."
        )
    if constraint.boundary in ("bounds", "signs"):
        raise ValueError(
            "bounds of coefficients go with alpha, l1_ratio and penalty_weights alone, because the prox of another penalty "
            "on them is not known: leave penalty and groups out, or the bounds."
        )
    if not isinstance(penalty, ElasticNet):
        raise ValueError(  # noqa: TRY004 - of the problem
            "a constraint goes with an l2 penalty alone, because the prox of a penalty on a set is not known: leave "
            "penalty, penalty_weights and groups out, or constraint."
        )
    return constraint
