"""Trees of arrays, dicts, lists and tuples within each other, as one vector and back."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector


def leaves_of(tree: Any) -> list[Any]:
    """Return what a tree holds at its ends, from the first to the last."""
    if isinstance(tree, Mapping):
        return [leaf for value in tree.values() for leaf in leaves_of(value)]
    if isinstance(tree, list | tuple):
        return [leaf for value in tree for leaf in leaves_of(value)]
    return [] if tree is None else [tree]


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree of the same form with function(leaf) for each leaf, called from the first to the last.

    Examples
    --------
    >>> mapped(len, {"a": "one", "b": ["three"]})
    {'a': 3, 'b': [5]}
    """
    if isinstance(tree, Mapping):
        return type(tree)((key, mapped(function, value)) for key, value in tree.items())  # type: ignore[call-arg]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(function, value) for value in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(mapped(function, value) for value in tree)
    return None if tree is None else function(tree)


def checked_dim(dim: Any) -> int:
    """Return the length of w, or raise where it is none."""
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 1:
        raise ValueError(f"dim must be a whole number >= 1, got {dim!r}.")
    return int(dim)


class Layout(NamedTuple):
    """Where the arrays of a tree stand in a vector: one behind the other, each row by row."""

    like: Any  # a tree of the same form
    shapes: list[tuple[int, ...]]
    dim: int

    @classmethod
    def of(cls, dim: int | None, like: Any) -> "Layout":
        """Return the layout of a vector of length dim, or of a tree; raise where there is no number in it.

        Examples
        --------
        >>> layout = Layout.of(None, {"slopes": np.zeros((2, 2)), "intercept": 0.0})
        >>> layout.unflatten(np.arange(5.0))
        {'slopes': array([[0., 1.],
               [2., 3.]]), 'intercept': array(4.)}
        """
        if like is None:
            return cls(np.empty(0), [(checked_dim(dim),)], checked_dim(dim))
        shapes = [tuple(np.shape(leaf)) for leaf in leaves_of(like)]
        if not (size := sum(map(math.prod, shapes))):
            raise ValueError("like must hold one number at least.")
        return cls(like, shapes, size)

    def flatten(self, tree: Any, rows: int | None = None) -> Vector:
        """Return a tree as a vector, shape (dim,); with a number of rows also one of arrays of that length."""
        leaves = [np.asarray(leaf, dtype=np.float64) for leaf in leaves_of(tree)]
        shapes = [leaf.shape for leaf in leaves]
        if shapes == self.shapes:
            return np.concatenate([leaf.ravel() for leaf in leaves])
        if rows is not None and shapes == [(rows, *shape) for shape in self.shapes]:
            return np.concatenate([leaf.reshape(rows, -1) for leaf in leaves], axis=1)
        raise ValueError(f"parameters must have the shapes {self.shapes}, got {shapes}.")

    def unflatten(self, w: Vector) -> Any:
        """Return a vector as a tree of new arrays."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        parts = iter([part.reshape(shape).copy() for part, shape in zip(np.split(w, ends), self.shapes, strict=True)])
        return mapped(lambda _: next(parts), self.like)
