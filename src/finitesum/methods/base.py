"""What a method is: hyperparameters, and two functions that make and advance a state."""

import importlib
import inspect
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import resources
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from finitesum.core.arrays import Indices, Vector
from finitesum.methods.parameters import check_parameters
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.finite_sum import AnyProblem, FiniteSum
from finitesum.problems.linear import Problem
from finitesum.problems.partitioned import is_parted


class Card(NamedTuple):
    """A method's line in the table of methods, `table.toml`."""

    title: str
    storage: str  # order of the numbers remembered, for a linear model with one row to a component
    work: str  # order of the flops of a visit, its Hessian included
    passes: str  # order of the visits to accuracy eps, as theory has it; a pass is m visits
    needs: str  # what that theory asks of F
    reference: str


_TABLE = tomllib.loads(resources.files("finitesum.methods").joinpath("table.toml").read_text(encoding="utf-8"))

#: The module and class of each method, below `finitesum.methods`: it is loaded when it is first asked for.
HOMES: dict[str, str] = {name: place for name, (place, *_) in _TABLE.items()}

_NAMES = {place: name for name, place in HOMES.items()}


class State(Protocol):
    """Everything that a method remembers; a NamedTuple of arrays and scalars."""

    @property
    def x(self) -> Vector: ...
    @property
    def n_gradients(self) -> int: ...
    @property
    def n_hessians(self) -> int: ...


#: What a method may be able to treat beyond smooth linear models, in words.
TREATS = {
    "l1": "l1 penalties",
    "weights": "penalty weights",
    "prox": "separable penalties known by their prox",
    "groups": "group lasso",
    "nonconvex": "MCP and SCAD",
    "constraint": "constraints",
    "bounded-l1": "an l1 penalty or penalty weights beside bounds",
    "nonsmooth": "nonsmooth losses",
    "nonconvex-loss": "smooth losses that are not convex",
    "callables": "callables that give subgradients",
    "components": "components given as functions",
    "outputs": "several outputs",
    "parts": "rows in parts, by sums over them",
}


@runtime_checkable
class Method(Protocol):
    """A recursion. `run_pass` returns a new state and leaves the given one as it was.

    A method whose passes end with the exact gradient at their iterate may say so by one more function,
    ``exact_measures(problem, state) -> Measures | None``: the check of its result is then not charged a second time. Where
    such a method's estimate is NaN, a pass ended within a step: nothing is checked then, and no progress is expected.
    Other attributes may be there: `patience`, the passes without progress after which a run is taken for stuck (100 when
    left out; None: never), `bound(problem, state)`, of a method with dual variables, which the minimum is not below,
    `blas_threads(problem)`, the threads of the linear algebra library that suffice (None: those there are; left out: 1 for
    sparse rows and few numbers),
    `refusal(problem)`, of a method for some linear models alone: why this one is none of them, in a sentence, or "",
    `is_one_step`, of a method whose first pass is all that it can do,
    `foreseen(problem, state)` and `point_so_far(problem, state)`, of a method whose steps take several passes: about the
    optimality, and the point, to which the passes of an unfinished step lead; NaN and None where nothing is known,
    `remark(problem, state)`, what the result's message says of the run, in a sentence, or "", and
    `template(problem, first, state)`, of a method whose arrays change their shapes: a state of the shapes that `state`,
    read from a checkpoint, must have; left out, they are those of the `first` one, which `init` returns.
    """

    name: ClassVar[str]
    card: ClassVar[Card]
    state_type: ClassVar[type[Any]]
    #: What it can treat beyond smooth linear models: keys of `TREATS`.
    handles: ClassVar[frozenset[str]]
    default_sampling: ClassVar[str]

    def init(self, problem: Problem, x0: Vector, tol: float = 0.0) -> Any:
        """Return the state before the first visit.

        `tol` is the optimality that the run asks for. A method whose choices depend on it keeps it in a field `tol` of its
        state, which the driver replaces where a run goes on with another tol.
        """

    def run_pass(self, problem: Problem, state: Any, order: Indices) -> Any:
        """Return the state after the visits of `order`."""

    def estimate(self, problem: Problem, state: Any) -> float:
        """Return an estimate of the optimality that costs no data access, NaN when there is none."""

    def default_batch_size(self, problem: Problem) -> int:
        """Return the component size the method works best with."""


#: What every docstring of a method says: the errors, and an example where it has none of its own.
RAISES = """Raises
------
ValueError
    A parameter is out of range, or does not go with another.

"""
EXAMPLES = """Examples
--------
>>> from finitesum import Problem, minimize
>>> problem = Problem.linear([[1.0], [1.0]], [0.0, 2.0], loss="squared")
>>> minimize(problem, method={name}()).x.round(1)
array([1.])

"""


class SumMethod(Method):
    """What the methods on finite sums have alike: the base of their classes, which are frozen dataclasses.

    Our own have the names and cards of the table, and the state that `init` is annotated to return if they name no other.
    Parameters are checked by their annotations (`finitesum.methods.parameters`). One source of a recursion serves linear
    models and components given as functions: see `finitesum.core.jit` and `finitesum.problems.components`.
    """

    name: ClassVar[str]
    state_type: ClassVar[type[Any]]
    card: ClassVar[Card] = Card("", "", "", "", "", "")
    handles: ClassVar[frozenset[str]] = frozenset({"l1", "weights", "prox", "components", "outputs"})
    default_sampling: ClassVar[str] = "shuffled"
    #: Whether its steps have one length for all coordinates, so that columns of different size cost passes.
    wants_scaled_columns: ClassVar[bool] = False
    #: Whether it sees data by sums over all rows alone, so that the shift of sparse columns need not be stored.
    sees_sums_only: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if name := _NAMES.get(f"{cls.__module__}.{cls.__qualname__}".removeprefix("finitesum.methods.")):
            cls.name, cls.card = name, Card(*_TABLE[name][1:])
            if not hasattr(cls, "state_type"):
                cls.state_type = cls.init.__annotations__["return"]
        own = inspect.cleandoc(cls.__doc__ or "")
        if "Parameters\n---" in own and "Examples\n---" not in own:
            before, references, after = own.partition("References\n---")
            own = before.rstrip() + "\n\n" + EXAMPLES.format(name=cls.__name__) + references + after
        before, examples, after = own.partition("Examples\n---")
        if "Parameters\n---" in before and "Raises\n---" not in before:
            before += RAISES
        cls.__doc__ = before + examples + after

    def __post_init__(self) -> None:
        check_parameters(self)

    @property
    def needs_hessians(self) -> bool:
        """Whether components given as functions must have second derivatives."""
        return False

    def estimate(self, problem: Any, state: Any) -> float:
        """Return the optimality that the last pass met, where the state keeps it as `last_optimality`, else NaN."""
        return float(getattr(state, "last_optimality", math.nan))

    def default_batch_size(self, problem: Problem) -> int:
        """Return 1."""
        return 1


class Alternative(NamedTuple):
    """A method that can go on from any point, and the seconds that it is likely to take."""

    method: Method
    seconds: float


class Choice(NamedTuple):
    """A method, the reason for it in a sentence, and where there are forecasts what else could be run."""

    method: Method
    reason: str = ""
    seconds: float = math.inf  # that the method is likely to take
    optimality: float = math.nan  # at 0, where these begin
    others: tuple[Alternative, ...] = ()  # the fastest one first
    remark: str = ""  # that a result's message has


def copied(state: Any) -> Any:
    """Return a NamedTuple of arrays, scalars and such tuples with copies of the arrays, which may be written to."""
    if isinstance(state, np.ndarray):
        return state.copy()
    if isinstance(state, tuple):
        return type(state)(*map(copied, state))
    return state


def label_of(method: Any) -> str:
    """Return the name of a method, with its solver where it has one, given the method or what identifies it."""
    known = method if isinstance(method, dict) else {key: getattr(method, key, "") for key in ("name", "solver")}
    solver = known.get("solver")
    return f"{known.get('name', '')} {solver}" if isinstance(solver, str) and solver else str(known.get("name", ""))


def identity_of(method: Any) -> dict[str, Any]:
    """Return what identifies a method in a checkpoint: its name and its hyperparameters, as JSON knows them."""
    names = [field.name for field in fields(method)] if is_dataclass(method) else vars(method)
    return {"name": method.name} | {name: _as_json(getattr(method, name)) for name in names}


def _as_json(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_as_json(entry) for entry in value]
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


#: What to give instead of what a method cannot treat of a term.
INSTEAD = {
    "constraint": "no constraint",
    "bounded-l1": "alpha alone, or no constraint",
    "l1": "l1_ratio=0",
    "weights": "no penalty_weights",
    "prox": "alpha and l1_ratio alone",
    "groups": "no groups",
    "nonconvex": "alpha and l1_ratio, which make a convex penalty",
}


def require_suited(method: Method, problem: AnyProblem, *, reads_rows: bool = False) -> None:
    """Raise a ValueError unless a method can treat what a problem demands, and has the second derivatives that it needs.

    Rows in parts that it `reads_rows` of are no demand: they lie in one file then.
    """
    demands = _demands(problem)
    for name, (what, instead) in demands.items():
        if name not in method.handles and not (name == "parts" and (reads_rows or "components" in method.handles)):
            if name in ("constraint", "outputs") and {"constraint", "outputs"} <= set(demands):
                what = f"a constraint with {demands['outputs'][0]}"
                raise ValueError(f"{method.name} cannot treat {what}: {_that_can(demands)} can.")
            raise ValueError(
                f"{method.name} cannot treat {what}. Choose another method (`finitesum methods` lists what each treats) "
                f"or {instead}."
            )
    refusal = getattr(method, "refusal", None)
    if refusal is not None and (sentence := refusal(problem)):
        raise ValueError(sentence)
    if isinstance(problem, FiniteSum) and getattr(method, "needs_hessians", False):
        problem.require_hessians(method.name)


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


def _that_can(demands: dict[str, Any]) -> str:
    """Return the names of the methods that treat all that is demanded."""
    names = [name for name, known in METHODS.items() if set(demands) <= known.handles | {"parts"}]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def is_suited(method: Method | type[Any], problem: AnyProblem, *, reads_rows: bool = False) -> bool:
    """Return whether a method, or one of a class with its defaults, can treat a problem: see `require_suited`."""
    try:
        require_suited(method() if isinstance(method, type) else method, problem, reads_rows=reads_rows)
    except ValueError:
        return False
    return True


#: Components that a problem with several outputs is divided into where nothing else is asked for: a visit costs two matrix
#: products in Python, so that many small ones take longer than few large ones.
N_BLOCKS = 1024


def batch_size_for(method: Method, problem: Problem) -> int:
    """Return the component size of a problem that has none: about n / 1024 with several outputs and of rows in parts.

    Else it is the method's choice.
    """
    is_left = problem.n_outputs == 1 and not is_parted(problem)
    return method.default_batch_size(problem) if is_left else -(-problem.n_rows // N_BLOCKS)


def _demands(problem: AnyProblem) -> dict[str, tuple[str, str]]:
    """Return what a problem asks of a method: what it is in words, and what to give instead."""
    demands = {name: (what, INSTEAD[name]) for name, what in problem.term.demands.items()}
    if isinstance(problem, SubgradientProblem):
        demands["callables"] = ("functions given as callables", "a linear model")
        return demands
    if isinstance(problem, FiniteSum):
        demands["components"] = ("components given as functions", "a linear model")
        return demands
    if problem.n_outputs > 1:
        what = "classes" if problem.loss.target_kind() == "class" else "targets"
        demands["outputs"] = (f"several {what} at once", "one output at a time")
    if is_parted(problem):
        demands["parts"] = ("rows in parts", "a problem in memory, by Problem.linear")
    if not problem.loss.is_smooth():
        smooth = "huber" if problem.loss.target_kind() == "real" else "smoothed-hinge"
        demands["nonsmooth"] = (f"the nonsmooth loss {type(problem.loss).__name__}", f'loss="{smooth}"')
    if not problem.convex:
        demands["nonconvex-loss"] = (f"the loss {type(problem.loss).__name__}, which is not convex", 'loss="gamma"')
    return demands
