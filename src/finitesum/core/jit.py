"""Compiles kernels: the only module that imports numba.

The decorators:

``kernel``
    an entry point, called from Python, compiled once and kept on disk between processes.
``kernel_part``
    a function that kernels call; it is compiled into them (``inlined_part`` pastes it, ``reassociated_part`` lets its sums
    run in any order).
``compiled_form``
    what kernels run in the place of a function that Python goes on calling.
``compilable``
    a NamedTuple class whose plain methods kernels may call, so that one kernel serves every kind of rows, every loss
    and every penalty.

One source, two forms: a part stays a plain function, which kernels compile and Python runs as it stands. A kernel that is
given an `Interpreted` object (functions of the user's in the place of rows of data) runs as Python, and so do its parts;
elementwise work then goes through `finitesum.core.vectors`, whose functions are NumPy operations in Python.

Why not numba's own cache as it is: it stamps a kernel's own file only, so that editing a loss in another file would run
the old machine code without a word, and it raises at import where nothing is writable. Here the folder is named by a
stamp of all kernel sources, and where no folder is writable kernels are compiled again in each process, with one warning.
A kernel that meets a tuple class from outside this package (a loss of the user's) is never kept on disk, because nothing
would notice when that class changes.

With ``NUMBA_DISABLE_JIT=1`` in the environment every decorator returns what it was given, and all kernels run as Python;
within a block of ``as_python()`` they do so in a process that has compiled them.
"""

import functools
import hashlib
import inspect
import tempfile
import types
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.types import NamedTuple, NamedUniTuple  # type: ignore[attr-defined]
from numba.core.typing.templates import _OverloadMethodTemplate, infer_getattr, make_overload_attribute_template
from numba.extending import overload

from finitesum.core.files import STALE_SECONDS, candidates, make_folders, prune, unsafe_part

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=type)

PACKAGE = Path(__file__).parents[1]

COMPILED: bool = not numba.config.DISABLE_JIT

#: Lets the compiler sum in any order and fuse multiply with add: for dot products, where no order is the right one.
REASSOCIATE = frozenset({"reassoc", "contract"})

#: Said of every other function, because numba compiles one that says nothing as its first caller is compiled.
#: A division by zero gives inf or NaN as NumPy's does: a branch for it would keep loops from becoming SIMD code.
AS_WRITTEN: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}


@functools.cache
def source_stamp() -> str:
    """Return a digest of all sources that kernels are made of: two equal stamps mean equal machine code.

    Those are the modules that use this one. A module that does not can hold no kernel and no part of one.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"finitesum.core.jit" in source or path == Path(__file__):
            digest.update(str(path.relative_to(PACKAGE)).encode())
            digest.update(source)
    return digest.hexdigest()[:16]


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder that keeps compiled kernels, or None where no folder is writable (warned of once).

    One whose machine code another user could replace is passed over: it would run as this user.
    """
    unsafe = ""
    for candidate in candidates():
        folder = candidate / source_stamp()
        try:
            is_new = not folder.exists()
            make_folders(folder)
            if (place := unsafe_part(folder)) is not None:
                unsafe += f" {candidate} is not used, because other users may write to {place}."
                continue
            folder = folder.resolve()
            with tempfile.TemporaryFile(dir=folder):
                pass
            if is_new:
                prune(folder, STALE_SECONDS)
            return folder
        except OSError:
            continue
    warnings.warn(
        "No folder is writable for compiled kernels, so each process compiles them again (seconds). "
        f"Set NUMBA_CACHE_DIR to a writable folder.{unsafe}",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


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
    """The files of a kernel. Numba numbers them, so that two processes at once could give one name to two kinds of code."""

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


class Interpreted:
    """The base of classes that kernels cannot see: a kernel runs as Python where one of its arguments holds an instance."""


def _is_interpreted(value: object) -> bool:
    return isinstance(value, Interpreted) or (isinstance(value, tuple) and any(map(_is_interpreted, value)))


def _is_foreign(value: object) -> bool:
    """Return whether a tuple class from outside the package, or something interpreted, is found at any depth."""
    if not isinstance(value, tuple):
        return isinstance(value, Interpreted)
    module = type(value).__module__
    if hasattr(value, "_fields") and not (module == "finitesum" or module.startswith("finitesum.")):
        return True
    return any(map(_is_foreign, value))


#: Classes of a tuple and of its members that were found to be our own, where no member holds a tuple or could hold one.
_OURS: set[tuple[type, ...]] = set()


def _holds_a_tuple(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(member, tuple) for member in value)


def _is_ours(value: tuple[Any, ...]) -> bool:
    """Return whether no foreign tuple class is found in an argument. A fit asks hundreds of times."""
    classes = (type(value), *map(type, value))
    if classes in _OURS:
        return True
    if _is_foreign(value):
        return False
    if not any(type(member) is tuple or _holds_a_tuple(member) for member in value):
        _OURS.add(classes)
    return True


class Kernel:
    """A compiled entry point: the disk-cached machine code, or a private one where the user's classes take part."""

    #: Whether all kernels of the process run as Python at present.
    as_python = False

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._uncached = numba.njit(nogil=True, **AS_WRITTEN)(function)
        self._cached = numba.njit(nogil=True, **AS_WRITTEN)(function)
        if cache_folder() is not None and Path(inspect.getfile(function)).is_file():
            self._cached._cache = _KernelCache(function)

    def __call__(self, *args: Any) -> Any:
        if Kernel.as_python:
            return self.function(*args)
        for value in args:
            if isinstance(value, tuple) and not _is_ours(value):
                break
        else:
            return self._cached(*args)
        if any(map(_is_interpreted, args)):
            return self.function(*args)
        return self._uncached(*args)

    @property
    def cache_hits(self) -> int:
        """How many signatures of this process came from the disk."""
        return sum(self._cached.stats.cache_hits.values())

    @property
    def signatures(self) -> int:
        """How many signatures this process has used."""
        return len(self._cached.signatures) + len(self._uncached.signatures)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that Python calls; keep its machine code on disk. Arguments are given by position."""
    return cast(Callable[P, R], Kernel(function)) if COMPILED else function


@contextmanager
def as_python() -> Iterator[None]:
    """Run all kernels of the process as Python within the block.

    For tests, and for a debugger, which then steps through a kernel and through the methods of a user's loss.
    """
    before, Kernel.as_python = Kernel.as_python, True
    try:
        yield
    finally:
        Kernel.as_python = before


def _bare(function: Callable[..., Any]) -> types.FunctionType:
    """Return the function without annotations, which numba would compare between classes."""
    given = cast(types.FunctionType, function)
    return types.FunctionType(given.__code__, given.__globals__, given.__name__, given.__defaults__, given.__closure__)


def _compile_for_kernels(
    of: Callable[..., Any], function: Callable[..., Any], inline: str = "never", fastmath: Any = False
) -> None:
    """Let kernels that call `of` run the machine code of `function`."""
    if not COMPILED:
        return

    def implementation(*_args: Any) -> Any:
        return _bare(function)

    implementation.__signature__ = inspect.signature(_bare(function))  # type: ignore[attr-defined]
    # Inlined always: a call passes each member of a tuple by itself, a hundred numbers for a problem and its memory.
    options = {"_nrt": False, "forceinline": True, **AS_WRITTEN, "fastmath": fastmath}
    overload(of, inline=inline, jit_options=options)(implementation)


def kernel_part(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function into the kernels that call it; Python calls it as it stands."""
    _compile_for_kernels(function, function)
    return function


def inlined_part(function: Callable[P, R]) -> Callable[P, R]:
    """Do as `kernel_part`, and paste the function where it is called: for the inner loop of a kernel that is all calls."""
    _compile_for_kernels(function, function, inline="always")
    return function


def reassociated_part(function: Callable[P, R]) -> Callable[P, R]:
    """Do as `kernel_part`, and let the compiler sum in any order (SIMD dot products; deterministic on one machine)."""
    _compile_for_kernels(function, function, fastmath=set(REASSOCIATE))
    return function


def compiled_form(of: Callable[P, R], *, fastmath: Any = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let kernels that call `of` run the decorated function, while Python goes on calling `of`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _compile_for_kernels(of, function, fastmath=fastmath)
        return function

    return decorate


_VERBS: dict[str, tuple[str, ...]] = {}


class _MethodTemplate(_OverloadMethodTemplate):  # type: ignore[misc]
    """Finds a method in the tuple's class. Other tuples keep their fields, be they named like a method of ours."""

    def _resolve(self, tuple_type: Any, name: str) -> Any:
        if name != self._attr or not inspect.isfunction(getattr(tuple_type.instance_class, name, None)):
            return None
        return super()._resolve(tuple_type, name)


def _register_verb(name: str, parameters: tuple[str, ...]) -> None:
    def implementation(self: Any, *_args: Any) -> Any:
        return _bare(getattr(self.instance_class, name))

    signature = inspect.Signature([inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in parameters])
    for numba_type in (NamedTuple, NamedUniTuple):
        copy = types.FunctionType(implementation.__code__, globals(), name, None, implementation.__closure__)
        copy.__signature__ = signature  # type: ignore[attr-defined]
        # What numba.extending.overload_method does, with a template of our own; inlined, so that loops become SIMD code.
        options = {"jit_options": {"_nrt": False, "forceinline": True, **AS_WRITTEN}}
        infer_getattr(
            make_overload_attribute_template(numba_type, name, copy, inline="never", base=_MethodTemplate, **options)
        )
        overload(copy, **options)(copy)


def compilable(cls: T) -> T:
    """Let kernels call the public methods of a NamedTuple class, and return it.

    It must have at least one field, and a method name carries the same parameter names in every class; else a TypeError.
    """
    fields = getattr(cls, "_fields", None)
    if not fields:
        raise TypeError(f"{cls.__name__} must be a NamedTuple with at least one field to be used in kernels.")
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("_") or name in fields:
            continue
        parameters = tuple(inspect.signature(member).parameters)
        known = _VERBS.get(name)
        if known is None:
            _VERBS[name] = parameters
            if COMPILED:
                _register_verb(name, parameters)
        elif known != parameters:
            raise TypeError(
                f"{cls.__name__}.{name}({', '.join(parameters)}) differs from the known {name}({', '.join(known)}): "
                "one verb has one signature. Rename the method or its parameters."
            )
    return cls
