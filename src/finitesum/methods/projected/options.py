"""The options of the projected methods: the annotation of a field says how it is checked and described."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from finitesum.methods.parameters import Auto, check_choice, check_fraction, check_positive
from finitesum.methods.projected.steps import OUTPUTS, SCHEDULES


class Option(NamedTuple):
    """What an option may be; called with its name and a value it raises a ValueError where the value is no such thing."""

    kind: str  # as in the Parameters of a docstring
    text: str
    check: Callable[[str, Any], None]

    def __call__(self, name: str, value: Any) -> None:
        self.check(name, value)


def choice(text: str, *names: str) -> Option:
    """Return an option that is one of some names."""
    return Option("{" + ", ".join(f'"{name}"' for name in names) + "}", text, partial(check_choice, choices=names))


_ABOUT = """The recursion is in `finitesum.methods.projected.rules`.

Parameters
----------
{parameters}

Examples
--------
>>> from finitesum import Problem, minimize
>>> problem = Problem.linear([[1.0], [2.0]], [-1, 1], loss="hinge")
>>> minimize(problem, method={name}(), max_iter=250).x.round(1)
array([0.5])

"""


def described(cls: type[Any], auto_step_size: str) -> str:
    """Return the docstring of a method: its own, with what its options are before the references."""
    found = ((name, get_args(hint)[-1:]) for name, hint in get_type_hints(cls, include_extras=True).items())
    options = [(name, last[0]) for name, last in found if last and isinstance(last[0], Option)]
    parameters = "\n".join(f"{name} : {option.kind}\n    {option.text}" for name, option in options)
    about = _ABOUT.format(name=cls.__name__, parameters=parameters.replace("AUTO", auto_step_size))
    before, references, after = inspect.cleandoc(cls.__doc__ or "").partition("References\n---")
    return before + about + references + after


def check_gamma(name: str, gamma: float) -> None:
    """Raise unless 0 < gamma <= 1."""
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma must lie in (0, 1], got {gamma}: beyond 1 the metric times sqrt(t) could shrink.")


def _check_delta(name: str, delta: float | Auto) -> None:
    if isinstance(delta, str):
        check_choice(name, delta, ("auto",))
    elif not 0.0 <= delta < math.inf:
        raise ValueError(f'{name} must be "auto" or a number >= 0, got {delta}.')


def _check_momentum(name: str, momentum: float | str) -> None:
    if isinstance(momentum, str):
        check_choice(name, momentum, ("varying",))
    elif not 0.0 <= momentum < 1.0:
        raise ValueError(f'{name} must be "varying", for t/(t+2), or lie in [0, 1), got {momentum}.')


def _check_horizon(name: str, horizon: float | None) -> None:
    if horizon is not None:
        check_positive(name, horizon, "It is the number of passes that the run will have.")


def check_schedule(schedule: str, horizon: float | None) -> None:
    """Raise unless a schedule has the horizon it needs, and no other."""
    needs_horizon = schedule in ("horizon", "linear")
    if needs_horizon and horizon is None:
        raise ValueError(f'schedule="{schedule}" needs horizon, the number of passes that the run will have.')
    if horizon is not None and not needs_horizon:
        raise ValueError(f'horizon goes with schedule="horizon" or "linear", got schedule="{schedule}".')


StepSize = Annotated[float | Auto, Option('float > 0 or "auto"', 'alpha; "auto" is AUTO', check_positive)]
Schedule = Annotated[
    str, choice("The lengths a_t: alpha/sqrt(t), alpha/sqrt(T), alpha/sqrt(T) (1 - (t-1)/T), or alpha.", *SCHEDULES)
]
RootOrConstant = Annotated[
    str, choice("a_t: alpha/sqrt(t), as convex problems need, or alpha, as networks are trained with.", "sqrt", "constant")
]
Horizon = Annotated[
    float | None,
    Option("float > 0, optional", "The passes that the run will have: T, in steps, of the schedules.", _check_horizon),
]
Output = Annotated[
    str,
    choice(
        "What is reported: the last iterate; the mean of w_1..w_T; the mean of the last half to three quarters of them;\n"
        "    the mean in which w_t weighs like t^3.",
        *OUTPUTS,
    ),
]
Momentum = Annotated[
    float | str,
    Option(
        '"varying" or float in [0, 1)',
        '"varying" is t/(t+2); with a number, beta, the bound is about ``output="average"``.',
        _check_momentum,
    ),
]
Form = Annotated[
    str,
    choice(
        'As published; as the theorem has it, stable, and fast on sparse rows. "auto" averages on CSR rows of more than\n'
        "    5000 columns (with varying momentum).",
        *("auto", "displacement", "averaging"),
    ),
]
Gamma = Annotated[float, Option("float in (0, 1]", "The weight of the newest squares is gamma/t.", check_gamma)]
Fraction = Annotated[float, Option("float in [0, 1)", "What a mean or a sum keeps of itself in a step.", check_fraction)]
#: What is right depends on another option, with which it is checked.
FractionOrGamma = Annotated[float, Option("float", "rho in [0, 1), or gamma in (0, 1].", lambda name, value: None)]
Delta = Annotated[
    float | Auto,
    Option(
        'float >= 0 or "auto"',
        'Keeps the metric positive; "auto" is 1e-8, and must be replaced on simplex and half-space.',
        _check_delta,
    ),
]
Metric = Annotated[
    str,
    choice(
        "In the metric, as the proofs have it; or Euclidean, which ends in the wrong place on l1 and l2 balls.",
        *("weighted", "euclidean"),
    ),
]
