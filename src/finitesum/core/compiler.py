"""What numba is told of kernels: the only module that imports it, at the first kernel that is to be compiled.

See `finitesum.core.jit` for what kernels are, and where their machine code is kept and why.
"""

import hashlib
import inspect
import types
import uuid
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numba
from numba._dispatcher import compute_fingerprint
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.types import NamedTuple, NamedUniTuple  # type: ignore[attr-defined]
from numba.core.typing.templates import _OverloadMethodTemplate, infer_getattr, make_overload_attribute_template
from numba.extending import overload

from finitesum.core.files import locked, unsafe_part
from finitesum.core.kernel_folder import PACKAGE, cache_folder, source_stamp

#: Said of every other function, because numba compiles one that says nothing as its first caller is compiled.
#: A division by zero gives inf or NaN as NumPy's does: a branch for it would keep loops from becoming SIMD code.
#: C never calls one: the wrapper for it would take a tenth of the time to compile.
AS_WRITTEN: dict[str, Any] = {"fastmath": False, "error_model": "numpy", "no_cfunc_wrapper": True}

#: Said of parts, which are inlined and allocate nothing.
OF_PARTS: dict[str, Any] = {"_nrt": False, "forceinline": True, **AS_WRITTEN}


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Where a kernel's machine code lies and which sources it was made from, as numba asks."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._py_file = Path(inspect.getfile(function)).absolute()
        self._folder = folder
        # numba names the file by the last part of the module's name: two modules `base` must not share it
        self._place = f"{function.__module__}-{function.__code__.co_firstlineno}"

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        if PACKAGE in self._py_file.parents:
            return source_stamp()
        return source_stamp() + hashlib.sha256(self._py_file.read_bytes()).hexdigest()[:16]

    def get_disambiguator(self) -> str:
        return self._place

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> "_Locator | None":
        folder = cache_folder()
        return None if folder is None else cls(function, folder)


class _CacheContent(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _KernelFiles(IndexDataCacheFile):  # type: ignore[misc]
    """The files of a kernel. Numba numbers them, so that two processes at once could give one name to two kinds of code.

    Their index is read, added to and written again: by one process at a time, lest it lose what another has added.
    """

    def save(self, key: Any, data: Any) -> None:
        with locked(Path(self._cache_path) / "lock"):
            super().save(key, data)

    def _data_name(self, number: int) -> str:
        return f"{super()._data_name(number)}-{uuid.uuid4().hex[:12]}"


class _KernelCache(FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheContent

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _KernelFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # machine code is unpickled: whoever can write it can run anything
        return None if unsafe_part(Path(self._cache_path)) else super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:  # a full disk
            warnings.warn(
                f"Compiled kernels cannot be kept in {self._cache_path} ({error.strerror}).", RuntimeWarning, stacklevel=2
            )


def dispatchers(function: Callable[..., Any]) -> tuple[Any, Any]:
    """Return two dispatchers of a kernel: one whose machine code stays in the process, and one that keeps it on disk."""
    uncached, cached = (numba.njit(nogil=True, **AS_WRITTEN)(function) for _ in range(2))
    if cache_folder() is not None and Path(inspect.getfile(function)).is_file():
        cached._cache = _KernelCache(function)
    return uncached, cached


def fingerprint(args: tuple[Any, ...]) -> bytes | None:
    """Return what tells arguments of different types apart; None where numba knows no types for them."""
    with suppress(NotImplementedError):
        return compute_fingerprint(args)
    return None


def _bare(function: Callable[..., Any]) -> types.FunctionType:
    """Return the function without annotations, which numba would compare between classes."""
    given = cast(types.FunctionType, function)
    return types.FunctionType(given.__code__, given.__globals__, given.__name__, given.__defaults__, given.__closure__)


def know_part(of: Callable[..., Any], function: Callable[..., Any], inline: str, fastmath: Any) -> None:
    """Let kernels that call `of` run the machine code of `function`."""

    def implementation(*_args: Any) -> Any:
        return _bare(function)

    implementation.__signature__ = inspect.signature(_bare(function))  # type: ignore[attr-defined]
    # Inlined always: a call passes each member of a tuple by itself, a hundred numbers for a problem and its memory.
    options = {**OF_PARTS, "fastmath": fastmath}
    overload(of, inline=inline, jit_options=options)(implementation)


class _MethodTemplate(_OverloadMethodTemplate):  # type: ignore[misc]
    """Finds a method in the tuple's class. Other tuples keep their fields, be they named like a method of ours."""

    def _resolve(self, tuple_type: Any, name: str) -> Any:
        if name != self._attr or not inspect.isfunction(getattr(tuple_type.instance_class, name, None)):
            return None
        return super()._resolve(tuple_type, name)


def know_verb(name: str, parameters: tuple[str, ...]) -> None:
    """Let kernels call the method of this name of any compilable NamedTuple."""

    def implementation(self: Any, *_args: Any) -> Any:
        return _bare(getattr(self.instance_class, name))

    signature = inspect.Signature([inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in parameters])
    for numba_type in (NamedTuple, NamedUniTuple):
        copy = types.FunctionType(implementation.__code__, globals(), name, None, implementation.__closure__)
        copy.__signature__ = signature  # type: ignore[attr-defined]
        # What numba.extending.overload_method does, with a template of our own; inlined, so that loops become SIMD code.
        options = {"jit_options": OF_PARTS}
        infer_getattr(
            make_overload_attribute_template(numba_type, name, copy, inline="never", base=_MethodTemplate, **options)
        )
        overload(copy, **options)(copy)
