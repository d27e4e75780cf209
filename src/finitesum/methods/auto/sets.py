"""The choice of a method for smooth losses on sets."""

import math
from typing import Any

from finitesum.methods import as_method, forecasts, set_forecasts
from finitesum.methods.auto.sizes import ALL_COLUMNS, LATE, MATRIX_UP_TO, MOST_BYTES
from finitesum.methods.base import Alternative, Choice, Method, is_suited
from finitesum.methods.cost_model import costs_of
from finitesum.problems.linear import Problem

#: The seconds of a Hessian from which lazy Newton is taken.
MUCH_OF_HESSIAN = 0.3


def for_set(problem: Problem, shape: str, options: dict[str, Any], tol: float, begun: str) -> Choice:
    """Return the method for a smooth loss on a set, and what goes on where accelerated gradients turn out to be slow.

    Where columns have intervals of their own, coordinate descent is compared, too, and gradients are not.
    """
    if problem.n_outputs > 1:
        return _for_outputs(problem, shape, tol, begun)
    features, by_columns = forecasts.features_of(problem, tol), is_suited(as_method("coordinate-descent"), problem)
    has_matrix = 16.0 * problem.dim**2 <= MOST_BYTES
    makes_zeros = (by_columns or problem.term.constraint.makes_zeros) and problem.dim > ALL_COLUMNS
    names = [*["newton"] * has_matrix, *["coordinate-descent"] * by_columns]
    names += ["working-set-newton"] * (makes_zeros and not by_columns)
    seconds = {name: set_forecasts.forecast(name, problem, features) for name in names}
    best, likely = min(seconds, key=lambda name: seconds[name], default=""), min(seconds.values(), default=math.inf)
    accelerated = as_method("afg")
    gradients = set_forecasts.forecast("afg", problem, features)
    is_tried = not by_columns and is_suited(accelerated, problem) and gradients <= set_forecasts.WORTH_TRYING * likely
    if (is_tried and begun in ("", "afg")) or not best:
        later = (Alternative(on_set(best, problem, options), likely),) if best else ()
        tried = min(gradients, set_forecasts.TRIED * likely) / LATE
        why = f"{shape}, on a set: accelerated gradients (about {gradients:.2g} s)" + f", then {best}" * bool(best)
        return Choice(accelerated, why, tried, forecasts.traits_of(problem).optimality, later)
    found = ", ".join(f"{name} {cost:.2g} s" for name, cost in sorted(seconds.items(), key=lambda item: item[1]))
    others: tuple[Alternative, ...] = ()
    if best == "coordinate-descent" and has_matrix:
        others = (Alternative(on_set("newton", problem, options), seconds["newton"]),)
    elif not by_columns and is_suited(accelerated, problem):
        others = (Alternative(accelerated, set_forecasts.UNSURE * gradients),)
    start = forecasts.traits_of(problem).optimality
    why = f"{shape}, on a set: the fastest by its forecast ({found})"
    return Choice(on_set(best, problem, options), why, likely, start, others)


def _for_outputs(problem: Problem, shape: str, tol: float, begun: str) -> Choice:
    """Return the method for a smooth loss of several outputs on a set, and what goes on where it turns out to be slow.

    Accelerated gradients are tried for a part of the other method's time where they may well be faster.
    """
    features, start = forecasts.features_of(problem, tol), forecasts.traits_of(problem).optimality
    accelerated, sets = as_method("afg"), is_suited(as_method("multinomial-working-set"), problem)
    names = ["multinomial-working-set"] * sets
    names += ["newton"] * (problem.dim <= (ALL_COLUMNS if sets else MATRIX_UP_TO))
    if not names:
        return Choice(accelerated, f"{shape}, on a set: accelerated gradients", optimality=start)
    seconds = {name: set_forecasts.forecast(name, problem, features) for name in names}
    first = names[0]
    likely, gradients = seconds[first], math.inf
    if is_suited(accelerated, problem):
        gradients = set_forecasts.forecast("afg", problem, features)
    found = f"accelerated gradients {gradients:.2g} s, {first} {likely:.2g} s"
    others = tuple(Alternative(as_method(name), seconds[name]) for name in names)
    tried = set_forecasts.TRIED * likely
    of_pass = set_forecasts.price("afg", problem, set_forecasts.Spent(1.0, 0.0, 1.0))
    is_seen = tried >= set_forecasts.FEWEST_TRIED * of_pass
    is_tried = gradients <= (set_forecasts.WORTH_TRYING if is_seen else 1.0) * likely
    if is_tried and begun in ("", "afg"):
        why = f"{shape}, on a set: accelerated gradients, then {first} ({found})"
        return Choice(accelerated, why, tried / LATE, start, others)
    if gradients < math.inf:
        others = (*others, Alternative(accelerated, set_forecasts.UNSURE * gradients))
    return Choice(as_method(first), f"{shape}, on a set: the fastest by its forecast ({found})", likely, start, others[1:])


def on_set(name: str, problem: Problem, options: dict[str, Any]) -> Method:
    """Return a method of Newton's kind for a set: where Hessians are expensive, one that shares or saves them."""
    if name == "newton":
        of_hessian = 1e-9 * problem.n_rows * costs_of(problem).hessian
        saves = of_hessian > MUCH_OF_HESSIAN and is_suited(as_method("lazy-newton"), problem)
        return as_method("lazy-newton", options) if saves else as_method(name)
    return as_method(name, options if name == "working-set-newton" else None)
