"""What the estimators' parameters penalty and bounds stand for."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from finitesum.constraints import Box
from finitesum.estimators.elsewhere import PENALTIES
from finitesum.problems.penalties import MCP, SCAD


def as_penalty_of(penalty: Any, alpha: float, l1_ratio: float) -> Any:
    """Return the penalty of a name, with the strength alpha, or the penalty itself.

    Raises
    ------
    ValueError
        The name is unknown, or belongs to another library: the message says what to write here.
    """
    if isinstance(penalty, str) and penalty in PENALTIES:
        raise ValueError(f'penalty="{penalty}" is written as {PENALTIES[penalty]} here.')
    if l1_ratio != 0.0:
        raise ValueError(f"penalty goes without l1_ratio, got l1_ratio={l1_ratio!r}: leave one of them out.")
    if not isinstance(penalty, str):
        return penalty
    known = {"mcp": MCP, "scad": SCAD}
    if penalty in known:
        return known[penalty](alpha)
    raise ValueError(f'penalty must be "mcp", "scad" or one of finitesum.problems.penalties, got {penalty!r}.')


def box_of(bounds: Any, n_columns: int, names: Any) -> Box:
    """Return the box of lower and upper bounds of the coefficients.

    Parameters
    ----------
    bounds : dict or pair
        By name or number of a column a pair (lower, upper), None for no bound; or one such pair for all coefficients, of
        numbers, of vectors of shape (d,) or, of several classes at once, of tables of shape (K, d).

    Examples
    --------
    >>> box_of({"age": (0.0, None)}, 2, ["age", "dose"]).intervals(2)
    (array([  0., -inf]), array([inf, inf]))
    """
    if not isinstance(bounds, Mapping):
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise ValueError(f"bounds must be a dict by column, or a pair (lower, upper), got {bounds!r}.")
        return Box(*(end if bound is None else bound for bound, end in zip(bounds, (-math.inf, math.inf), strict=True)))
    lower, upper = np.full(n_columns, -math.inf), np.full(n_columns, math.inf)
    places = {str(name): j for j, name in enumerate(names)} if names is not None else {}
    for key, pair in bounds.items():
        column = places.get(key) if isinstance(key, str) else key
        if not isinstance(column, int | np.integer) or not 0 <= column < n_columns:
            known = ", ".join(places) if places else f"numbers from 0 to {n_columns - 1}, X having no names"
            raise ValueError(f"bounds has a column {key!r}, but the columns are {known}.")
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(f"bounds of {key!r} must be a pair (lower, upper), got {pair!r}.")
        lower[column] = -math.inf if pair[0] is None else pair[0]
        upper[column] = math.inf if pair[1] is None else pair[1]
    return Box(lower, upper)
