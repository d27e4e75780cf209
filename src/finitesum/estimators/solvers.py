"""Which method an estimator's `solver` means on a problem, and which ones can be chosen.

"auto" is what `finitesum.methods.auto` chooses.

A solver is offered where it reaches the optimum to high accuracy. The projected methods, which approach it like 1 /
sqrt(t), are offered for nonsmooth losses alone; `ig`, which settles near it, is not offered.
"""

from typing import Any

from finitesum.estimators.elsewhere import hint_for_solver
from finitesum.methods import METHODS
from finitesum.methods.auto import choose
from finitesum.methods.base import Choice, Method, SumMethod, is_suited, require_suited
from finitesum.problems.linear import Problem


def is_auto(solver: str | Method) -> bool:
    """Return whether a method is to be chosen."""
    return isinstance(solver, str) and solver.lower() == "auto"


def as_solver(
    solver: str | Method,
    step_size: Any,
    problem: Problem,
    *,
    tol: float = 1e-10,
    n_threads: int | None = None,
    begun: str = "",
) -> Choice:
    """Return the method that a solver's name and step size mean on a problem, or raise with a list of those that treat it.

    What "auto" means depends on `tol`, the optimality that is asked for, and on the method that a run was `begun` with.
    """
    if not isinstance(solver, str):
        if not isinstance(solver, SumMethod | Method):
            raise ValueError(f"solver must be a name or a method, got {solver!r}.")  # noqa: TRY004
        if step_size != "auto":
            raise ValueError("step_size goes with a solver's name; give it to the method itself instead.")
        require_suited(solver, problem)
        return Choice(solver)
    name = solver.lower().replace("_", "-")
    if name == "auto":
        if step_size != "auto":
            raise ValueError(f'step_size goes with a solver: name one, or leave step_size at "auto", got {step_size!r}.')
        usual = "newton", "interior-point"  # asked first: to ask all imports all
        if not problem.is_smooth and not any(_is_offered(known, problem) for known in (*usual, *METHODS)):
            raise ValueError(_refusal(solver, problem))
        return choose(problem, tol, n_threads or 1, begun)
    if not _is_offered(name, problem):
        raise ValueError(_refusal(solver, problem))
    known = _class(name, problem).__dataclass_fields__
    if step_size != "auto" and "step_size" not in known:
        raise ValueError(f'solver {name} has no step size: leave step_size at "auto", got {step_size!r}.')
    options = {"step_size": step_size, "n_threads": n_threads or 1}
    return Choice(_class(name, problem)(**{key: value for key, value in options.items() if key in known}))


def offered(problem: Problem) -> list[str]:
    """Return the names of the solvers that can be chosen on a problem."""
    return [name for name in METHODS if _is_offered(name, problem)]


def _refusal(solver: str, problem: Problem) -> str:
    what = "several classes" if problem.n_outputs > 1 else type(problem.loss).__name__
    known = offered(problem)
    if not known:
        return f"no solver treats {what} with this penalty and constraint. Change one of them."
    return f"solver must be one of auto, {', '.join(known)} for {what} here, got {solver!r}." + hint_for_solver(solver)


def _is_offered(name: str, problem: Problem) -> bool:
    if name not in METHODS or name == "ig":
        return False
    cls = METHODS[name]
    takes_subgradients = "nonsmooth" in cls.handles and not hasattr(cls, "refusal")
    return not (takes_subgradients and problem.loss.is_smooth()) and is_suited(cls, problem)


def _class(name: str, problem: Problem) -> Any:
    several = METHODS["multinomial-newton"]
    return several if name == "newton" and is_suited(several, problem) else METHODS[name]
