"""Checks of hyperparameters, from the annotations of a method's fields.

A field that is annotated `StepSize`, `Fraction`, `Count`, `CountOrAuto`, `Seed` or with a `Literal` of texts is checked
when a method is made.
"""

import functools
import math
from collections.abc import Callable, Hashable
from dataclasses import fields
from numbers import Real
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

Auto = Literal["auto"]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real)


def _is_word(name: str, value: Any, what: str, words: tuple[str, ...] = ("auto",)) -> bool:
    """Return whether a parameter is one of some words; another text is refused."""
    if isinstance(value, str) and value not in words:
        choices = " or ".join([*(f'"{word}"' for word in words), what])
        raise ValueError(f"{name} must be {choices}, got {value!r}.")
    return isinstance(value, str)


def check_positive(
    name: str, value: Any, advice: str = "Leave it out to use the theory's value.", words: tuple[str, ...] = ("auto",)
) -> None:
    """Raise unless a parameter is a finite number > 0, "auto", or one of other words."""
    if not _is_word(name, value, "a number > 0", words) and not (_is_number(value) and 0.0 < value < math.inf):
        raise ValueError(f"{name} must be > 0, got {value}. {advice}")


def check_fraction(name: str, value: Any) -> None:
    """Raise unless a parameter is "auto" or a number in [0, 1)."""
    if not _is_word(name, value, "a number in [0, 1)") and not (_is_number(value) and 0.0 <= value < 1.0):
        raise ValueError(f"{name} must lie in [0, 1), got {value}.")


def check_damping(name: str, value: float | Auto) -> None:
    """Raise unless a parameter is "auto" or a number in (0, 1]."""
    check_positive(name, value)
    if not isinstance(value, str) and value > 1.0:
        raise ValueError(f"{name} must be at most 1, got {value}: a whole step ends at the model's minimiser.")


def check_count(name: str, value: Any, least: int = 1, *, or_auto: bool = False) -> None:
    """Raise unless a parameter is a whole number >= 1, or another least one, or "auto" where that is allowed."""
    if or_auto and value == "auto":
        return
    if not (_is_number(value) and value >= least and value == int(value)):
        what = f'a whole number >= {least} or "auto"' if or_auto else f"a whole number >= {least}"
        raise ValueError(f"{name} must be {what}, got {value!r}.")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise unless a parameter is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}.")


Check = Callable[[str, Any], None]

StepSize = Annotated[float | Auto, check_positive]
Damping = Annotated[float | Auto, check_damping]
Fraction = Annotated[float | Auto, check_fraction]
Count = Annotated[int, check_count]
CountOrAuto = Annotated[int | Auto, functools.partial(check_count, or_auto=True)]
Seed = Annotated[int, functools.partial(check_count, least=0)]


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
