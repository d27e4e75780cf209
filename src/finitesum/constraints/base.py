"""What all constraint sets have in common, and the checks of what they are given."""

import math
from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import finitesum.constraints.whole_arrays  # noqa: F401 - the form of projections for few coordinates
from finitesum.constraints.projections import Projection, project_euclidean, project_in_metric
from finitesum.core.arrays import Indices, Vector

#: What `contains` allows for rounding, relative to the size of the set.
TOLERANCE = 1e-12


class Constraint(ABC):
    """A closed convex set Q of R^d, on which iterates are projected.

    The projection in the diagonal metric s > 0 is ::

        P(x) = argmin_{y in Q} 1/2 sum_i s_i (y_i - x_i)^2

    and p = P(x) exactly if p is in Q and sigma(s (x - p)) = <s (x - p), p>, where sigma is the support function.

    Sets are immutable, may be copied, pickled and compared, and turn into plain dictionaries and back (`to_dict`,
    `constraint_from_dict`). Kernels take `compiled` in their place.
    """

    #: Whether the coordinates are constrained one by one, so that all diagonal metrics have the same projection.
    is_separable: ClassVar[bool] = False

    #: What bounds the set, by which quadratic and linear programs on it are solved: "nothing", "signs", "bounds", "sum",
    #: "l1-norm", "l2-norm", "plane", "planes", or "" for a set of another kind.
    boundary: ClassVar[str] = ""

    #: Whether most coordinates of a solution on the boundary are 0.
    makes_zeros: ClassVar[bool] = False

    #: Whether a coordinate with a metric near 0 takes the whole correction of a projection, so that metrics need a floor.
    needs_floor: ClassVar[bool] = False

    #: Whether the compiled tuple has a memory that it computes with, so that runs at once need a tuple each.
    has_memory: ClassVar[bool] = False

    @property
    @abstractmethod
    def compiled(self) -> Projection:
        """The tuple that kernels take: it has ``project_into(x, metric, out)``, ``project_euclidean_into(x, out)``."""

    @property
    def is_bounded(self) -> bool:
        """Whether the set is bounded."""
        return math.isfinite(self.width())

    @property
    def dim(self) -> int | None:
        """The number of variables that the set is made for, one for each column of its arrays; None without arrays."""
        return next((value.shape[-1] for value in self._values().values() if isinstance(value, np.ndarray)), None)

    @property
    def n_outputs(self) -> int | None:
        """The number of outputs that the set is made for; None where it is the same set for each of any number."""
        return None

    @abstractmethod
    def support(self, direction: npt.ArrayLike) -> float:
        """Return the support function sigma(g) = sup_{y in Q} <g, y>, perhaps inf, for g of shape (d,)."""

    @abstractmethod
    def contains(self, x: npt.ArrayLike, tolerance: float = TOLERANCE) -> bool:
        """Return whether x of shape (d,) is in the set, up to a rounding error relative to the size of the set."""

    @abstractmethod
    def diameter(self, dim: int) -> float:
        """Return the largest Euclidean distance of two points of the set in R^dim, perhaps inf."""

    @abstractmethod
    def width(self) -> float:
        """Return the largest extent along a coordinate axis, perhaps inf."""

    def project(self, x: npt.ArrayLike, metric: npt.ArrayLike | None = None) -> Vector:
        """Return the point of the set that is nearest to x: argmin_{y in Q} sum_i metric_i (y_i - x_i)^2.

        Parameters
        ----------
        x : array_like, shape (d,)
            The point; it is left as it is.
        metric : array_like, shape (d,), > 0, optional
            The diagonal of the metric; left out, the distance is Euclidean.

        Returns
        -------
        ndarray of float64, shape (d,)
            A new array, exact up to rounding.

        Raises
        ------
        ValueError
            x or metric is of the wrong shape or not finite, or the metric is not > 0.
        """
        point = self._point("x", x)
        if not (finite := np.isfinite(point)).all():
            raise ValueError(f"x must be finite, got {point[~finite][0]}. The step that led to it was too long.")
        out = np.empty_like(point)
        if metric is None:
            project_euclidean(self.compiled, point, out)
        else:
            project_in_metric(self.compiled, point, self._metric(metric, point), out)
        return out

    def intervals(self, dim: int) -> tuple[Vector, Vector]:
        """Return the bounds of the coordinates one by one, each of shape (dim,): infinite where the set has others."""
        return np.full(dim, -np.inf), np.full(dim, np.inf)

    def mapping(self, w: Vector, gradient: Vector) -> Vector:
        """Return w - P(w - gradient), the projected-gradient mapping, without its cancellation where |w| is large.

        The sets here have a formula each, in float64 or `numpy.longdouble`. For others it is g + (v - P(v)) with v = w - g,
        which keeps the gradient's digits wherever the projection leaves a coordinate as it is.
        """
        moved, projected = self._projected_step(w, gradient)
        return gradient + (moved - projected)

    def _projected_step(self, w: Vector, gradient: Vector) -> tuple[Vector, Vector]:
        """Return w - gradient and its projection, both in float64."""
        moved = np.asarray(w - gradient, dtype=np.float64)
        projected = np.empty_like(moved)
        project_euclidean(self.compiled, moved, projected)
        return moved, projected

    def _mapping_with_sum(self, w: Vector, gradient: Vector, weights: Vector, total: float) -> Vector:
        """Return the mapping of {y : weights'|y| <= total}, or = total where no y is negative.

        P takes theta weights_j off the sizes of the coordinates that it keeps from 0. There the mapping is g_j +- theta
        weights_j, where theta follows from the sums at w and of the gradient; elsewhere it is w_j.
        """
        moved, projected = self._projected_step(w, gradient)
        if (moved == projected).all():
            return gradient
        kept = projected != 0.0
        pull = weights[kept] * np.sign(projected[kept])
        theta = (pull @ w[kept] - total - pull @ gradient[kept]) / (pull @ pull)
        mapping = w.copy()
        mapping[kept] = gradient[kept] + theta * pull
        return mapping

    def start(self, dim: int) -> Vector:
        """Return the point of the set nearest to 0 in R^dim, a new array of shape (dim,)."""
        return self.project(np.zeros(dim))

    def on_columns(self, columns: Indices) -> "Constraint":
        """Return the set {u : x in Q for x_columns = u, all other coordinates 0}, of as many coordinates as columns.

        It is made by leaving out the others' bounds, weights or entries of a normal, which is right where Q has a point
        whose other coordinates are 0, and for no other columns: a simplex needs one of them at least, a box each
        coordinate that it keeps from 0. The columns where a point of Q is not 0, with any others, are always fine.

        Parameters
        ----------
        columns : ndarray of integers, shape (k,), 1 <= k <= d
            The coordinates that are kept.

        Raises
        ------
        ValueError
            A half-space without a point whose other coordinates are 0. Other sets do not check.
        """
        arrays = {name: value for name, value in self._values().items() if isinstance(value, np.ndarray)}
        chosen = {name: value[..., columns] for name, value in arrays.items()}
        return replace(self, **chosen) if chosen else self  # type: ignore[type-var]

    def check_dim(self, dim: int) -> None:
        """Raise a ValueError for a number of variables that the set, with arrays of another length, is not made for."""
        if dim < 1:
            raise ValueError(f"There must be a variable at least, got {dim}.")
        if self.dim not in (None, dim):
            raise ValueError(f"{type(self).__name__} is made for {self.dim} variables, but there are {dim}.")

    def check_outputs(self, n_outputs: int) -> None:
        """Raise a ValueError for a number of outputs that the set, with arrays for another one, is not made for."""
        if self.n_outputs not in (None, n_outputs):
            raise ValueError(f"{type(self).__name__} is made for {self.n_outputs} outputs, but there are {n_outputs}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the set as a dictionary of numbers, strings and lists, which JSON keeps to the last bit.

        Infinite bounds are written as the strings "inf" and "-inf", because JSON has no such numbers.
        """
        return {"type": type(self).__name__} | {name: _plain(value) for name, value in self._values().items()}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Constraint) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(str(self.to_dict()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._values().values())

    def _values(self) -> dict[str, Any]:
        names: list[str] = [field.name for field in fields(self)] if is_dataclass(self) else []
        return {name: getattr(self, name) for name in names}

    def _point(self, name: str, x: npt.ArrayLike) -> Vector:
        if self.n_outputs is not None:
            raise ValueError(
                f"This {type(self).__name__} is one for each of {self.n_outputs} outputs: take one, by of_output(0)."
            )
        point = np.require(x, np.float64, ["C", "A", "W"])  # one kind of array, one compilation
        if point.ndim != 1 or np.ndim(x) != 1:
            raise ValueError(f"{name} must have one axis, got shape {np.shape(x)}. Flatten it.")
        self.check_dim(point.size)
        return point

    def _metric(self, metric: npt.ArrayLike, point: Vector) -> Vector:
        values = np.require(metric, np.float64, ["C", "A", "W"])
        if values.shape != point.shape:
            raise ValueError(f"metric must have the shape {point.shape} of x, got {np.shape(metric)}.")
        return checked_positive("metric", values, "Add a small constant to it.")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | list):
        return [_plain(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def checked_number(name: str, value: Any, advice: str, *, positive: bool = False) -> float:
    """Return a number, which must be finite, and > 0 if asked for, as a float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}. {advice}")
    number = float(value)
    if not math.isfinite(number) or (positive and number <= 0.0):
        raise ValueError(f"{name} must be {'> 0 and ' if positive else ''}finite, got {value!r}. {advice}")
    return number


def checked_vector(name: str, values: Any, advice: str) -> Vector:
    """Return a float64 copy of numbers, which must have one axis, at least one entry and no NaN."""
    try:
        vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers, got {values!r}. {advice}") from None
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"{name} must have one axis and an entry at least, got shape {vector.shape}. {advice}")
    if np.isnan(vector).any():
        raise ValueError(f"{name} must not hold NaN, got it at index {int(np.isnan(vector).argmax())}. {advice}")
    return vector


def checked_positive(name: str, values: Vector, advice: str) -> Vector:
    """Return the values, which must all be > 0 and finite."""
    if not (good := (values > 0.0) & (values < np.inf)).all():
        raise ValueError(f"{name} must be > 0 and finite, got {values[~good][0]}. {advice}")
    return values
