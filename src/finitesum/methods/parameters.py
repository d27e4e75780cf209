"""Checks of hyperparameters, from the annotations of a method's fields.

A field that is annotated `StepSize`, `Fraction`, `Count`, `CountOrAuto`, `Seed` or with a `Literal` of texts is checked
when a method is made.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from dataclasses import fields
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

Auto = Literal["auto"]


def _is_auto(name: str, value: Any, what: str) -> bool:
    """Return whether a parameter is "auto"; another text is refused."""
    if isinstance(value, str) and value != "auto":
        raise ValueError(f'{name} must be "auto" or {what}, got {value!r}.')
    return isinstance(value, str)


def check_positive(name: str, value: float | Auto, advice: str = "Leave it out to use the theory's value.") -> None:
    """Raise unless a parameter is "auto" or a finite number > 0."""
    if not _is_auto(name, value, "a number > 0") and not 0.0 < float(value) < math.inf:
        raise ValueError(f"{name} must be > 0, got {value}. {advice}")


def check_fraction(name: str, value: float | Auto) -> None:
    """Raise unless a parameter is "auto" or a number in [0, 1)."""
    if not _is_auto(name, value, "a number in [0, 1)") and not 0.0 <= float(value) < 1.0:
        raise ValueError(f"{name} must lie in [0, 1), got {value}.")


def check_damping(name: str, value: float | Auto) -> None:
    """Raise unless a parameter is "auto" or a number in (0, 1]."""
    check_positive(name, value)
    if not isinstance(value, str) and value > 1.0:
        raise ValueError(f"{name} must be at most 1, got {value}: a whole step ends at the model's minimiser.")


def check_count(name: str, value: float | str, least: int = 1) -> None:
    """Raise unless a parameter is a whole number >= 1, or another least one."""
    if isinstance(value, str) or not (value >= least and value == int(value)):
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")


def _check_count_or_auto(name: str, value: float | str) -> None:
    if value != "auto":
        check_count(name, value)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless a parameter is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


Check = Callable[[str, Any], None]

StepSize = Annotated[float | Auto, check_positive]
"""A number > 0 or "auto"."""

Damping = Annotated[float | Auto, check_damping]
"""A number in (0, 1] or "auto"."""

Fraction = Annotated[float | Auto, check_fraction]
"""A number in [0, 1) or "auto"."""

Count = Annotated[int, check_count]
"""A whole number >= 1."""

CountOrAuto = Annotated[int | Auto, _check_count_or_auto]
"""A whole number >= 1 or "auto"."""

Seed = Annotated[int, functools.partial(check_count, least=0)]
"""A whole number >= 0."""


@functools.cache
def _checks_of(cls: type[Any]) -> dict[str, Check]:
    checks: dict[str, Check] = {}
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            checks[field.name] = hint.__metadata__[0]
        elif get_origin(hint) is Literal:
            checks[field.name] = functools.partial(check_choice, choices=get_args(hint))
    return checks


def check_parameters(method: Hashable) -> None:
    """Raise a ValueError unless each parameter of a method is what its annotation asks for."""
    for name, check in _checks_of(type(method)).items():
        check(name, getattr(method, name))
