"""Constraint sets: convex sets with an exact projection, Euclidean and in any diagonal metric.

The sets are classes that users make and that check what they are given; kernels take their ``compiled`` tuple. In a model
with several outputs the coefficients of each of them lie in the set by themselves.
"""

from typing import Any

from finitesum.constraints.balls import L1Ball, L2Ball
from finitesum.constraints.base import Constraint
from finitesum.constraints.boxes import Box, LInfBall, NonNegative, Unconstrained
from finitesum.constraints.flats import HalfSpace, Simplex
from finitesum.constraints.polyhedra import Polyhedron
from finitesum.constraints.projections import Projection

#: All sets by name.
CONSTRAINTS: dict[str, type[Constraint]] = {
    cls.__name__: cls for cls in (Unconstrained, NonNegative, Box, LInfBall, L1Ball, L2Ball, Simplex, HalfSpace, Polyhedron)
}

__all__ = [
    "CONSTRAINTS",
    "Box",
    "Constraint",
    "HalfSpace",
    "L1Ball",
    "L2Ball",
    "LInfBall",
    "NonNegative",
    "Polyhedron",
    "Projection",
    "Simplex",
    "Unconstrained",
    "constraint_from_dict",
]


def constraint_from_dict(data: dict[str, Any]) -> Constraint:
    """Return the set that `Constraint.to_dict` has written down.

    Raises
    ------
    ValueError
        The name is unknown, or the values do not fit the set.

    Examples
    --------
    >>> constraint_from_dict({"type": "Box", "lower": 0.0, "upper": "inf"})
    Box(lower=0.0, upper=inf)
    >>> constraint_from_dict(L1Ball(3.0).to_dict()) == L1Ball(3.0)
    True
    """
    name = data.get("type")
    if name not in CONSTRAINTS:
        raise ValueError(f"type must be one of {', '.join(CONSTRAINTS)}, got {name!r}.")
    values = {key: _number(value) for key, value in data.items() if key != "type"}
    try:
        return CONSTRAINTS[name](**values)
    except TypeError as error:
        raise ValueError(f"{name} cannot be made of {values}: {error}") from error


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(entry) for entry in value]
    return float(value) if isinstance(value, str) else value
