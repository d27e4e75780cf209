"""Components of a finite sum that are the rows of batches of data, of one function that gives the losses of any rows.

A function f(w, batch) returns the loss of each row of a batch. With n rows in m batches B_j of b rows (the last may be
shorter), the components are

    f_j(w) = (m / n) sum_{i in B_j} loss_i(w),    so that (1/m) sum_j f_j is the mean of all rows.

What differentiates f is a backend: for NumPy it is below, for others see `BACKENDS`. It is asked for sums over consecutive
rows, one call of f for each. Sums over all rows are taken in as few calls as `NUMBERS_PER_CALL` allows, not one for each
component.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.problems.trees import Layout, leaves_of, mapped

#: The modules of the backends, each with a class `Function`; loaded when first asked for.
BACKENDS = {"numpy": "finitesum.problems.batches", "torch": "finitesum.torch.functions", "jax": "finitesum.jax.functions"}

#: Into about how many components the rows are divided where no batch_size is given: a visit costs a call.
N_COMPONENTS = 64

#: Numbers that one call of f reads or makes in a sum over all rows, about: 128 MB, or a batch where that is more.
NUMBERS_PER_CALL = 2**24

#: Numbers that are read in the time that a call takes besides, about, as measured with PyTorch: 0.1 ms.
NUMBERS_IN_A_CALL = 2**16

#: Numbers of Hessians, two of each component, that are kept where they are not more: methods with Taylor models of the
#: components ask for a Hessian at one visit, and for the same one at the next, to take it out of the sum.
MOST_KEPT = 2**23


class Backend(Protocol):
    """Sums over consecutive rows of the losses that a function returns, and their derivatives with respect to w."""

    dim: int
    n_rows: int
    n_numbers: int  # of the data
    has_hessians: bool
    is_gauss_newton: bool  # whether its Hessians are J'J, with the Jacobian J of residuals

    def value_and_gradient(self, w: Vector, rows: slice) -> tuple[float, Vector]: ...
    def hessian(self, w: Vector, rows: slice) -> Matrix: ...
    def hessian_product(self, w: Vector, v: Vector, rows: slice) -> Vector: ...
    def flatten(self, parameters: Any) -> Vector: ...
    def unflatten(self, w: Vector) -> Any: ...


class BatchComponent:
    """The component of one batch."""

    def __init__(self, backend: Backend, rows: slice, scale: float, *, keeps_hessian: bool) -> None:
        self._backend, self.rows, self.scale, self._keeps_hessian = backend, rows, scale, keeps_hessian
        self._kept: dict[bytes, Matrix] = {}

    def value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Return value and gradient at w, by one call."""
        value, gradient = self._backend.value_and_gradient(w, self.rows)
        return self.scale * value, self.scale * gradient

    def value(self, w: Vector) -> float:
        """Return the value at w."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient at w."""
        return self.value_and_gradient(w)[1]

    @property
    def hessian(self) -> Callable[[Vector], Matrix] | None:
        """The function that returns the Hessian at w, or None."""
        if not self._backend.has_hessians:
            return None
        return self._hessian_at

    def _hessian_at(self, w: Vector) -> Matrix:
        if not self._keeps_hessian:
            return self.scale * self._backend.hessian(w, self.rows)
        if (at := w.tobytes()) not in self._kept:
            self._kept = dict([*self._kept.items()][-1:])
            self._kept[at] = self.scale * self._backend.hessian(w, self.rows)
        return self._kept[at].copy()

    @property
    def hessian_product(self) -> Callable[[Vector, Vector], Vector] | None:
        """The function that returns the Hessian at w times v, or None."""
        if not self._backend.has_hessians:
            return None
        return lambda w, v: self.scale * self._backend.hessian_product(w, v, self.rows)

    @property
    def is_gauss_newton(self) -> bool:
        """Whether its Hessian is that of Gauss-Newton, which is no derivative of the gradient."""
        return self._backend.is_gauss_newton


class Batches(Sequence[BatchComponent]):
    """All components of a function, and sums over all rows in few calls."""

    def __init__(self, backend: Backend, batch_size: int) -> None:
        n, self.backend, self.batch_size = backend.n_rows, backend, batch_size
        starts = range(0, n, batch_size)
        scale = len(starts) / n
        keeps = 2 * len(starts) * backend.dim**2 <= MOST_KEPT
        rows = [slice(k, min(k + batch_size, n)) for k in starts]
        self._components = [BatchComponent(backend, part, scale, keeps_hessian=keeps) for part in rows]
        #: f may make some of each row that are as many as the parameters
        self._numbers_per_row = max(backend.n_numbers / n, backend.dim)
        self._rows_per_call = max(int(NUMBERS_PER_CALL / self._numbers_per_row), batch_size)

    def __len__(self) -> int:
        return len(self._components)

    def __getitem__(self, j: Any) -> Any:
        return self._components[j]

    def _calls(self) -> Iterator[slice]:
        n = self.backend.n_rows
        for k in range(0, n, self._rows_per_call):
            yield slice(k, min(k + self._rows_per_call, n))

    def is_faster_whole(self, n_components: int) -> bool:
        """Return whether sums over all rows, in few calls, take less time than `n_components` components, a call each."""
        n_numbers = self._numbers_per_row * self.backend.n_rows * (1.0 - n_components / len(self))
        return n_numbers < (n_components - sum(1 for _ in self._calls())) * NUMBERS_IN_A_CALL

    def mean_value_and_gradient(self, w: Vector) -> tuple[float, Vector]:
        """Return the mean of all rows' losses at w and its gradient."""
        found = [self.backend.value_and_gradient(w, rows) for rows in self._calls()]
        n = self.backend.n_rows
        gradient = np.sum([gradient for _, gradient in found], axis=0) / n
        return math.fsum(value for value, _ in found) / n, gradient

    def mean_hessian(self, w: Vector) -> Matrix:
        """Return the Hessian of the mean at w."""
        first, *others = self._calls()
        total = self.backend.hessian(w, first)
        for rows in others:
            total += self.backend.hessian(w, rows)
        total /= self.backend.n_rows
        return total

    def mean_hessian_product(self, w: Vector, v: Vector) -> Vector:
        """Return the Hessian of the mean at w times v."""
        total = np.zeros(w.size)
        for rows in self._calls():
            total += self.backend.hessian_product(w, v, rows)
        return total / self.backend.n_rows


def number_of_rows(data: Any) -> int:
    """Return the rows of data: a number of them, or arrays of one length in a tree; raise where it is none."""
    if isinstance(data, int | np.integer) and not isinstance(data, bool):
        if data < 1:
            raise ValueError(f"data must have one row at least, got {data}.")
        return int(data)
    lengths = [tuple(getattr(leaf, "shape", ()))[:1] for leaf in leaves_of(data)]
    if not lengths or () in lengths:
        raise TypeError(
            "data must be an array, a tuple, list or dict of arrays with a row each for a loss, or the number of rows, "
            f"got {type(data).__name__}."
        )
    if len(set(lengths)) > 1 or lengths[0] == (0,):
        rows = ", ".join(str(length) for (length,) in lengths)
        raise ValueError(f"the arrays of data must have equally many rows, one at least, got {rows}.")
    return int(lengths[0][0])


def number_of_numbers(data: Any) -> int:
    """Return how many numbers the arrays of data hold; of a sparse one, how many it stores."""
    if isinstance(data, int | np.integer):
        return int(data)
    return sum(int(getattr(leaf, "nnz", math.prod(leaf.shape))) for leaf in leaves_of(data))


def require_losses(shape: tuple[int, ...], n_rows: int, *, are_residuals: bool = False) -> None:
    """Raise unless what f returned has a row for each row of the batch."""
    if shape[:1] != (n_rows,) or (len(shape) > 1 and not are_residuals):
        what = "residuals, shape (b,) or (b, k)," if are_residuals else "one loss, shape (b,),"
        raise ValueError(f"f must return {what} for the b = {n_rows} rows of a batch, got shape {shape}.")


class Function:
    """The backend of NumPy: f(w, batch) returns the losses and their gradients, both arrays."""

    is_gauss_newton = False

    def __init__(
        self,
        f: Callable[..., Any],
        data: Any,
        *,
        dim: int | None,
        like: Any,
        dtype: str,
        residuals: bool,
        one_row: bool,
        hessian: Callable[..., Any] | None,
        hessian_product: Callable[..., Any] | None,
    ) -> None:
        if residuals or one_row or dtype != "float64":
            raise ValueError(
                'residuals, one_row and dtype need backend="torch" or "jax": with "numpy", f returns the losses of a '
                "batch's rows and their gradients."
            )
        self._f, self._data, self.n_rows, self.n_numbers = f, data, number_of_rows(data), number_of_numbers(data)
        self._layout = Layout.of(dim, like)
        self.dim, self.has_hessians = self._layout.dim, hessian is not None or hessian_product is not None
        self._hessian, self._product = hessian, hessian_product
        self._is_tree = like is not None

    def _arguments(self, w: Vector, rows: slice) -> tuple[Any, Any]:
        is_count = isinstance(self._data, int | np.integer)
        batch = np.arange(rows.start, rows.stop) if is_count else mapped(lambda leaf: leaf[rows], self._data)
        return self.unflatten(w) if self._is_tree else w.copy(), batch

    def value_and_gradient(self, w: Vector, rows: slice) -> tuple[float, Vector]:
        returned = self._f(*self._arguments(w, rows))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise ValueError(
                f'with backend="numpy" f must return (losses, gradients), got a {type(returned).__name__}. '
                'backend="torch" and "jax" differentiate losses themselves.'
            )
        losses, size = np.asarray(returned[0], dtype=np.float64), rows.stop - rows.start
        require_losses(losses.shape, size)
        gradient = returned[1]
        if self._is_tree:
            gradient = self._layout.flatten(gradient, rows=size)
        gradient = np.asarray(gradient, dtype=np.float64)
        if gradient.shape not in ((size, self.dim), (self.dim,)):
            raise ValueError(
                f"f must return the gradients of the rows, shape ({size}, {self.dim}), or that of their sum, shape "
                f"({self.dim},), got shape {gradient.shape}."
            )
        return float(losses.sum()), gradient.sum(axis=0) if gradient.ndim == 2 else gradient

    def hessian(self, w: Vector, rows: slice) -> Matrix:
        if self._hessian is None:
            return np.stack([self.hessian_product(w, unit, rows) for unit in np.eye(self.dim)], axis=1)
        returned = self._hessian(*self._arguments(w, rows))
        hessian = self._checked("hessian", returned, 2)
        return hessian if hessian.flags.c_contiguous else np.ascontiguousarray(hessian.T)  # it is symmetric

    def hessian_product(self, w: Vector, v: Vector, rows: slice) -> Vector:
        if self._product is None:
            return np.asarray(self.hessian(w, rows) @ v)
        point, batch = self._arguments(w, rows)
        return self._checked("hessian_product", self._product(point, v.copy(), batch), 1)

    def _checked(self, name: str, returned: Any, n_dims: int) -> Vector:
        shape = (self.dim,) * n_dims
        is_sparse = hasattr(returned, "toarray")
        array: Vector = np.asarray(returned.toarray()) if is_sparse else np.array(returned, dtype=np.float64)
        if array.shape != shape:
            raise ValueError(f"{name} must return the sum over the rows of a batch, shape {shape}, got {array.shape}.")
        return array

    def flatten(self, parameters: Any) -> Vector:
        return self._layout.flatten(parameters)

    def unflatten(self, w: Vector) -> Any:
        return self._layout.unflatten(w)


def batches_of(f: Callable[..., Any], data: Any, batch_size: int | None, backend: str, **options: Any) -> Batches:
    """Return the components of a function: see `FiniteSum.from_function`."""
    if not callable(f):
        raise TypeError(f"f must be a function, got {f!r}.")
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}.")
    if options["dtype"] not in ("float64", "float32"):
        raise ValueError(f'dtype must be "float64" or "float32", got {options["dtype"]!r}.')
    if (options["dim"] is None) == (options["like"] is None):
        raise ValueError("give either dim, the length of w, or like, parameters of the shapes that f takes.")
    if backend != "numpy" and any(options[name] is not None for name in ("hessian", "hessian_product")):
        raise ValueError(f'hessian and hessian_product are for backend="numpy": {backend} differentiates f itself.')
    try:
        module = importlib.import_module(BACKENDS[backend])
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in (backend, f"{backend}lib"):
            raise
        raise ModuleNotFoundError(
            f"backend={backend!r} needs {backend}: pip install 'finitesum[{backend}]'.", name=error.name
        ) from error
    found: Backend = module.Function(f, data, **options)
    if batch_size is None:
        batch_size = -(-found.n_rows // N_COMPONENTS)
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ValueError(f"batch_size must be a whole number >= 1, got {batch_size!r}.")
    return Batches(found, int(batch_size))


def backend_of(components: Any) -> Backend:
    """Return the backend of a function's components, or raise where they are none."""
    if not isinstance(components, Batches):
        raise TypeError("flatten and unflatten are for sums by FiniteSum.from_function.")
    return components.backend
