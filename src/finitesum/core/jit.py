"""Decorators of kernels, and the one rule by which a kernel runs compiled, as Python, or in a form over arrays.

The decorators:

``kernel``
    an entry point, called from Python, compiled once and kept on disk between processes.
``kernel_part``
    a function that kernels call; it is compiled into them (``inlined_part`` pastes it, ``reassociated_part`` lets its sums
    run in any order).
``compiled_form``
    what kernels run in the place of a function that Python goes on calling.
``array_form``
    what runs in the place of a kernel on small data: NumPy's operations on whole arrays, which need no compiler.
``compilable``
    a NamedTuple class whose plain methods kernels may call, so that one kernel serves every kind of rows, every loss
    and every penalty.

A part stays a plain function, which kernels compile and Python runs as it stands. A kernel that is given an `Interpreted`
object (functions of the user's in the place of rows) runs as Python, and so do its parts and `finitesum.core.vectors`.

The rule: a kernel with a form over arrays runs in it where that form touches at most `MOST_NUMBERS` numbers, whether the
kernel is compiled or not, so that a result depends on the data and never on what happens to be compiled. There it is about
as fast as machine code, and a process with small problems alone never imports numba (`finitesum.core.compiler`).
The exception: some forms stand in for a kernel, several times slower than its machine code and many times faster than
compiling it (``array_form(..., stands_in=True)``). They run where no machine code for such arguments was on disk when the
process first asked for it, until they have taken as long as compiling (`finitesum.core.stand_ins`). A checkpoint holds
what was found (`finitesum.core.kernel_folder`), so that a run goes on in another process as it began. On parts of the data,
which several processes work on, none stands in (``without_stand_ins``).

Where machine code lies: `finitesum.core.kernel_folder`. A kernel that meets a tuple class from outside this package (a loss
of the user's) is never kept there, because nothing would notice when that class changes.

With ``NUMBA_DISABLE_JIT=1`` in the environment every decorator returns what it was given, and all kernels run as Python,
within a block of ``as_python()`` in a process that has compiled them, too.
"""

import functools
import hashlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast
from weakref import WeakSet

import numpy as np

from finitesum.core import kernel_folder
from finitesum.core.argument_kinds import kinds_of_arguments
from finitesum.core.stand_ins import standing_in

if TYPE_CHECKING:
    from types import ModuleType

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=type)

COMPILED: bool = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")

#: Lets the compiler sum in any order and fuse multiply with add: for dot products, where no order is the right one.
REASSOCIATE = frozenset({"reassoc", "contract"})

#: Numbers that a form over arrays touches, at most: there it takes a millisecond, and compiling seconds.
MOST_NUMBERS = 1_000_000.0

#: Whether forms over arrays may stand in for kernels that are not on disk.
_STANDS_IN: ContextVar[bool] = ContextVar("stands_in", default=True)

#: What the compiler is told before it compiles the first kernel, in order.
_QUEUE: list[Callable[["ModuleType"], None]] = []
_LOADING = threading.RLock()
_loaded: "ModuleType | None" = None


def _compiler() -> "ModuleType":
    """Return `finitesum.core.compiler`, which imports numba, with all parts and classes made known to it."""
    global _loaded
    with _LOADING:
        if _loaded is None:
            from finitesum.core import compiler

            while _QUEUE:
                _QUEUE.pop(0)(compiler)
            _loaded = compiler
        return _loaded


def _when_compiling(tell: Callable[["ModuleType"], None]) -> None:
    """Tell the compiler something: now where it is in use, else before it compiles the first kernel."""
    if not COMPILED:
        return
    with _LOADING:
        if _loaded is None:
            _QUEUE.append(tell)
        else:
            tell(_loaded)


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
    """An entry point: compiled, with the machine code kept on disk or, where the user's classes take part, in the process.

    On small data a form over arrays takes its place, where there is one.
    """

    #: Whether all kernels of the process run as Python at present, or all as machine code.
    as_python = False
    as_compiled = False

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.array_form: Callable[..., Any] | None = None
        self.n_numbers: Callable[..., float] = _no_numbers
        self.stands_in: Callable[..., bool] | None = None  # whether the form over arrays only stands in, by the arguments
        self._on_disk: dict[Any, bool] = {}  # by kinds of arguments, as it was when first asked for
        self._marked: set[Any] = set()
        self._cached: Any = None
        self._uncached: Any = None

    def __call__(self, *args: Any) -> Any:
        if Kernel.as_python:
            return self.function(*args)
        is_small = self.array_form is not None and not Kernel.as_compiled and self.n_numbers(*args) <= MOST_NUMBERS
        kinds = None if self.stands_in is None else _kinds_of(args)
        if is_small and (self.stands_in is None or not self.stands_in(*args) or self._needs_stand_in(kinds)):
            with np.errstate(all="ignore"), nullcontext() if kinds is None else standing_in(self, kinds):
                return cast(Any, self.array_form)(*args)  # errors are ignored as machine code does
        for value in args:
            if isinstance(value, Interpreted) or (isinstance(value, tuple) and not _is_ours(value)):
                break
        else:
            found = (self._cached or self._made(keeps=True))(*args)
            if kinds is not None:
                self._mark(kinds)
            return found
        if any(map(_is_interpreted, args)):
            return self.function(*args)
        return (self._uncached or self._made(keeps=False))(*args)

    def _needs_stand_in(self, kinds: Any) -> bool:
        return _STANDS_IN.get() and not self._was_on_disk(kinds)

    def is_on_disk(self, args: tuple[Any, ...]) -> bool:
        """Return whether machine code for such arguments was on disk when the process first asked for it."""
        return self._was_on_disk(_kinds_of(args))

    def _was_on_disk(self, kinds: Any) -> bool:
        if kinds not in self._on_disk:
            self._on_disk[kinds] = kernel_folder.holds_mark(self._mark_of(kinds))
        return self._on_disk[kinds]

    def end_stand_in(self, kinds: Any) -> None:
        """Let machine code run for arguments of some kinds from now on, as if it had been on disk."""
        self._on_disk[kinds] = True
        kernel_folder.take_for_found(self._mark_of(kinds), partial(self._on_disk.__setitem__, kinds, False))

    def _mark_of(self, kinds: Any) -> str:
        digest = hashlib.sha256(repr(kinds).encode()).hexdigest()[:16]
        return f"{self.function.__module__}.{self.function.__qualname__}-{digest}.kept"

    def _mark(self, kinds: Any) -> None:
        """Leave a mark beside machine code on disk, which can be found without importing numba."""
        if kinds not in self._marked:
            self._marked.add(kinds)
            kernel_folder.leave_mark(self._mark_of(kinds))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle kernels of modules by their names: the code of a compiled one is thousands of bytes."""
        module, name = self.function.__module__, self.function.__qualname__
        if module != "__main__" and getattr(sys.modules.get(module), name, None) is self:
            return name
        return super().__reduce_ex__(protocol)

    def _made(self, *, keeps: bool) -> Any:
        """Return what compiles at its first call and keeps machine code on disk, or does not; make both."""
        with _LOADING:
            if self._cached is None:
                self._uncached, self._cached = _compiler().dispatchers(self.function)
        return self._cached if keeps else self._uncached

    @property
    def cache_hits(self) -> int:
        """How many signatures of this process came from the disk."""
        return 0 if self._cached is None else sum(self._cached.stats.cache_hits.values())

    @property
    def signatures(self) -> int:
        """How many signatures this process has used."""
        made = () if self._cached is None else (self._cached, self._uncached)
        return sum(len(one.signatures) for one in made)


def runs_in_arrays(n_numbers: float) -> bool:
    """Return whether what touches this many numbers runs in arrays, in the place of kernels."""
    return COMPILED and n_numbers <= MOST_NUMBERS and not (Kernel.as_python or Kernel.as_compiled)


def has_machine_code(of: Callable[..., Any], *args: Any) -> bool:
    """Return whether machine code of a kernel for such arguments was on disk when the process first asked: see `marked`."""
    return Kernel.as_compiled or not _STANDS_IN.get() or (isinstance(of, Kernel) and of.is_on_disk(args))


def marked(of: Callable[P, R]) -> Callable[P, R]:
    """Let `has_machine_code` find a kernel that has no form over arrays to stand in for it, and return the kernel."""
    if isinstance(of, Kernel):
        of.stands_in = _always
    return of


def _always(*_args: Any) -> bool:
    return True


#: Kinds of arguments by numba's fingerprints of them, which take a quarter of the time.
_KINDS: dict[bytes, Any] = {}


def _kinds_of(args: tuple[Any, ...]) -> Any:
    """Return the kinds of arguments, by their fingerprint where numba is imported."""
    fingerprint: bytes | None = None if _loaded is None else _loaded.fingerprint(args)
    if fingerprint is None:
        return kinds_of_arguments(args)
    if fingerprint not in _KINDS:
        _KINDS[fingerprint] = kinds_of_arguments(args)
    return _KINDS[fingerprint]


def _no_numbers(*_args: Any) -> float:
    return 0.0


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that Python calls; keep its machine code on disk. Arguments are given by position."""
    return cast(Callable[P, R], Kernel(function)) if COMPILED else function


def array_form(
    of: Callable[P, R], n_numbers: Callable[P, float], *, stands_in: bool | Callable[P, bool] = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let the decorated function run in the place of a kernel on arguments where it touches few numbers, as given.

    Both compute the same up to rounding errors, or to what is asked for. A form that only `stands_in`, always or for some
    arguments, gives way to machine code that is on disk.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if isinstance(of, Kernel):
            of.array_form, of.n_numbers = function, n_numbers
            of.stands_in = stands_in if callable(stands_in) else (_always if stands_in else None)
        return function

    return decorate


@contextmanager
def as_python() -> Iterator[None]:
    """Run all kernels of the process as Python within the block: for tests, and to step through them in a debugger."""
    before, Kernel.as_python = Kernel.as_python, True
    try:
        yield
    finally:
        Kernel.as_python = before


@contextmanager
def without_stand_ins() -> Iterator[None]:
    """Run kernels as machine code in this thread where a form over arrays would only stand in for it.

    For what several processes take part in, whose results must not depend on which of them has compiled what.
    """
    token = _STANDS_IN.set(False)
    try:
        yield
    finally:
        _STANDS_IN.reset(token)


@contextmanager
def as_compiled() -> Iterator[None]:
    """Run all kernels of the process as machine code within the block, on small data, too: to compile or to test them."""
    before, Kernel.as_compiled = Kernel.as_compiled, True
    try:
        yield
    finally:
        Kernel.as_compiled = before


def _compile_for_kernels(
    of: Callable[..., Any], function: Callable[..., Any], inline: str = "never", fastmath: Any = False
) -> None:
    """Let kernels that call `of` run the machine code of `function`."""
    _when_compiling(lambda compiler: compiler.know_part(of, function, inline, fastmath))


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

#: Classes whose methods are known: each fit offers that of its loss.
_KNOWN: WeakSet[type] = WeakSet()


def _know_verb(name: str, parameters: tuple[str, ...], compiler: "ModuleType") -> None:
    compiler.know_verb(name, parameters)


def compilable(cls: T) -> T:
    """Let kernels call the public methods of a NamedTuple class, and return it.

    It must have at least one field, and a method name carries the same parameter names in every class; else a TypeError.
    """
    if cls in _KNOWN:
        return cls
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
            _when_compiling(partial(_know_verb, name, parameters))
        elif known != parameters:
            raise TypeError(
                f"{cls.__name__}.{name}({', '.join(parameters)}) differs from the known {name}({', '.join(known)}): "
                "one verb has one signature. Rename the method or its parameters."
            )
    _KNOWN.add(cls)
    return cls
