"""The methods by name: their classes, and the method of a name with its options."""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from finitesum.methods.base import Method
from finitesum.methods.table import HOMES


class _Registry(Mapping[str, type[Any]]):
    """The classes by name, each loaded at its first use."""

    def __getitem__(self, name: str) -> type[Any]:
        module, _, cls = HOMES[name].rpartition(".")
        found: type[Any] = getattr(importlib.import_module(f"finitesum.methods.{module}"), cls)
        return found

    def __contains__(self, name: object) -> bool:
        return name in HOMES

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


METHODS: Mapping[str, type[Any]] = _Registry()


def options_of(cls: type[Any]) -> list[str]:
    """Return the names of a method's options: the fields of its class, without what all its instances share."""
    return [field.name for field in fields(cls)]


def as_method(method: str | Method, options: dict[str, Any] | None = None) -> Method:
    """Return the method of a name with its options, or the method itself.

    Raises
    ------
    ValueError
        The name is unknown.
    TypeError
        It is neither a name nor a method, or an option is unknown to the method.

    Examples
    --------
    >>> as_method("saga", {"step_size": 0.1})
    SAGA(step_size=0.1)
    """
    if not isinstance(method, str):
        if isinstance(method, type) or not isinstance(method, Method):
            raise TypeError(f'method must be a name such as "saga" or a method such as SAGA(), got {method!r}.')
        if options:
            raise TypeError("options go with a method's name; give them to the method itself instead.")
        return method
    key = method.lower().replace("_", "-")
    if key not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    cls = METHODS[key]
    known = options_of(cls)
    if unknown := sorted(set(options or {}) - set(known)):
        raise TypeError(f"{key} has no option {', '.join(unknown)}; it has: {', '.join(known)}.")
    made: Method = cls(**(options or {}))
    return made
