"""The loop that every run goes through: passes, stopping, tracing, timing, callbacks, checkpoints.

`minimize` checks what it is given and makes the run (`finitesum.running.run`), which decides when to stop.

Stopping. A method's state carries a free estimate of the optimality (the norm of its stored gradient, say). Once that
estimate is at most tol, one exact full pass confirms it, or the run goes on; the pass is charged to `n_passes`. Methods
without an estimate are checked exactly at passes that grow by a tenth. So `success` always means that the exact
optimality was seen to be at most tol. Measuring for the trace is not charged, and the clock stops for it.

Nonsmooth losses. There the optimality is the duality gap F(x) - (the best lower bound that the checks so far gave), see
`finitesum.evaluation.certificates`; the checks come at passes that grow by a half. Where there is no bound the
optimality is NaN, no check is charged, and a run ends at max_iter, never with `success`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.optimize import OptimizeResult

from finitesum.core.arrays import Vector
from finitesum.core.engine import PartError
from finitesum.core.stand_ins import run_of_kernels
from finitesum.core.threads import limited_blas
from finitesum.evaluation.part_components import parts_as_components
from finitesum.methods import MethodName, as_method
from finitesum.methods.base import Choice, Method, batch_size_for, identity_of, label_of, require_suited
from finitesum.methods.cost_model import threads_of_blas
from finitesum.problems.callables import SubgradientProblem
from finitesum.problems.finite_sum import AnyProblem
from finitesum.problems.linear import Problem
from finitesum.problems.one_file import can_be_one_file, has_small_components, in_one_file
from finitesum.problems.partitioned import is_parted
from finitesum.problems.used_columns import UsedColumns, in_used_columns
from finitesum.running import checkpoint as checkpoints
from finitesum.running.all_columns import with_all_columns, within_used
from finitesum.running.ending import result_of
from finitesum.running.handover import WithoutBarrier
from finitesum.running.observers import print_line, progress
from finitesum.running.results import Result, StopReason
from finitesum.running.run import Run
from finitesum.running.sampling import SAMPLINGS, Sampling, as_seed
from finitesum.running.scaled_columns import ScaleColumns, in_scaled_columns

__all__ = ["Result", "StopReason", "as_seed", "minimize"]


def _checked_start(problem: AnyProblem, x0: Any) -> Vector:
    """Return x0 as a new array, brought to the set that F is minimised over."""
    try:
        given = np.zeros(problem.dim) if x0 is None else np.asarray(x0)
        start = given.astype(np.float64, order="C", casting="same_kind" if given.dtype.kind == "c" else "unsafe")
    except (TypeError, ValueError) as error:  # complex numbers, text, lists of several lengths
        raise ValueError(f"x0 must hold {problem.dim} numbers: {error}.") from error
    if start.shape != (problem.dim,):
        raise ValueError(f"x0 must have shape ({problem.dim},), got {start.shape}.")
    if not np.isfinite(start).all():
        raise ValueError("x0 must be finite. Leave it out to start at 0.")
    return start if isinstance(problem, SubgradientProblem) else problem.term.project(start)


def _check_settings(
    tol: float, max_iter: float, sampling: str | None, measure_every: int, callback: Any, checkpoint_seconds: float
) -> None:
    if not isinstance(tol, Real) or not 0.0 <= tol < math.inf:
        raise ValueError(f"tol must be >= 0 and finite, got {tol!r}.")
    if not isinstance(max_iter, Real) or not max_iter >= 1:
        raise ValueError(f"max_iter must be >= 1 effective pass, got {max_iter!r}.")
    if sampling is not None and sampling not in SAMPLINGS:
        raise ValueError(f"sampling must be one of {', '.join(SAMPLINGS)}, got {sampling!r}.")
    if not isinstance(measure_every, Integral) or measure_every < 0:
        raise ValueError(f"measure_every must be a whole number >= 0, got {measure_every!r}. 0 measures at the end only.")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}.")
    if not isinstance(checkpoint_seconds, Real) or not checkpoint_seconds >= 0.0:
        raise ValueError(f"checkpoint_seconds must be >= 0, got {checkpoint_seconds!r}. 0 writes after each pass.")


def _chosen(
    problem: AnyProblem, method: str | Method | Choice, options: dict[str, Any] | None, tol: float, begun: str = ""
) -> Choice:
    """Return the method, and where it was left to us the reason for it and what else could be run."""
    if isinstance(method, Choice):
        return method
    if method != "auto":
        return Choice(as_method(method, options))
    from finitesum.methods.auto import choose

    options = dict(options or {})
    n_threads = options.pop("n_threads", 1)
    if options:
        raise TypeError(f"options {', '.join(options)} need a method: name one. auto has n_threads alone.")
    return choose(problem, tol, n_threads, begun)


def _going_on(choice: Choice, earlier: Result | None) -> Choice:
    """Return the choice of the method that an earlier run ended with, where that was one of the others."""
    if earlier is not None and identity_of(earlier.method) != identity_of(choice.method):
        for other in choice.others:
            if identity_of(other.method) == identity_of(earlier.method):
                return Choice(other.method, choice.reason, remark=choice.remark)
        if choice.remark and _is_without_barrier(earlier.method):  # which rounds of the choice had become
            remark = "Rounds are asynchronous, as at the end of the earlier run."
            return Choice(earlier.method, "asynchronous rounds, as in the earlier run", remark=remark)
    return choice


def _is_without_barrier(method: Method) -> bool:
    from finitesum.methods.rounds import without_barrier

    return identity_of(method) == identity_of(without_barrier())


def _later(problem: AnyProblem, choice: Choice, sampling: str | None) -> WithoutBarrier | None:
    """Return how a run that waits for parts on other machines may go on; None where this was not left to us."""
    if not (choice.remark and isinstance(problem, Problem) and is_parted(problem)):
        return None
    from finitesum.methods.rounds import later_without_barrier, without_barrier

    method = without_barrier()
    order = sampling or method.default_sampling
    return WithoutBarrier(method, order, partial(parts_as_components, problem), partial(later_without_barrier, problem))


def _as_read_by(method: Method, problem: Problem) -> AnyProblem:
    """Return a problem in parts as a method reads it: by sums over the parts, part by part, or row by row in one file."""
    is_elsewhere, by_sums = getattr(problem.rows.engine, "is_elsewhere", False), "parts" in method.handles
    by_parts = "components" in method.handles and not (
        has_small_components(problem) and not getattr(method, "max_delay", 0)
    )
    if not (by_sums or by_parts) and can_be_one_file(problem):
        require_suited(method, problem, reads_rows=True)
        return in_one_file(problem)
    require_suited(method, problem)
    if not by_sums or (is_elsewhere and getattr(method, "prefers_components", False)):
        return parts_as_components(problem)
    return problem


def _check_earlier(earlier: Result, method: Method, problem: AnyProblem, x0: Any, checkpoint: Any) -> None:
    if x0 is not None or checkpoint is not None:
        raise ValueError("earlier goes without x0 and checkpoint: the run goes on where the earlier one ended.")
    if identity_of(earlier.method) != identity_of(method):
        raise ValueError(f"earlier must be a result of {method!r}, got one of {earlier.method!r}.")
    if earlier.x.shape != (problem.dim,):
        raise ValueError(f"earlier must be a result on this problem of {problem.dim} variables, got {earlier.x.size}.")


def _in_used_columns(problem: AnyProblem, earlier: Result | None) -> UsedColumns | None:
    """Return the problem in the columns that have entries; None where there is none, or an earlier run was in all."""
    used = in_used_columns(problem) if isinstance(problem, Problem) else None
    if used is None or (earlier is not None and within_used(earlier, used) is None):
        return None
    return used


@run_of_kernels
def minimize(
    problem: AnyProblem,
    x0: Any = None,
    *,
    method: MethodName | Method | Choice = "auto",
    options: dict[str, Any] | None = None,
    tol: float = 1e-6,
    max_iter: float = 1000,
    sampling: Sampling | None = None,
    random_state: Any = 0,
    measure_every: int = 1,
    callback: Callable[[OptimizeResult], Any] | None = None,
    verbose: int = 0,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
    resume: bool = False,
    earlier: Result | None = None,
    scale_columns: ScaleColumns = "auto",
) -> Result:
    """Minimise a finite sum.

    F(w) = (1/S) sum_i s_i loss(y_i, x_i'w + b) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    Parameters
    ----------
    problem : Problem, FiniteSum or SubgradientProblem
    x0 : array_like, shape (problem.dim,), optional
        The start; zeros when left out, or where F overflows there a point with finite F, if one is found. It is not
        written to. With a constraint it is moved to the nearest point of the set. A start that is given is checked first,
        for one pass: one that fulfils tol is returned as it is. The first pass stands for that check where all
        coefficients are 0 and F is smooth.
    method : str or Method
        A name from `finitesum.methods.METHODS`, an instance, or "auto": what suits the problem best
        (`finitesum.methods.auto`); the result's ``choice`` says why.
    options : dict, optional
        Hyperparameters for a method given by name.
    tol : float >= 0
        Converged means: the 2-norm of grad F, or of the prox-gradient mapping x - prox(x - grad f(x)), is at most tol,
        by one exact full pass. The same for every method. For nonsmooth losses and for callables: a duality gap is.
    max_iter : float >= 1
        Effective passes: component gradients evaluated / number of components. Products with the data that a method's
        own step size takes ("auto" of fg, afg and iag, "theory" of ciag and a-ciag: some twenty to fifty) count as what
        they cost, a pass each. At least one pass is run, and the check of the result may come on top.
    sampling : {"cyclic", "shuffled-once", "shuffled", "with-replacement"}, optional
        The order of visits; the method's own when left out.
    random_state : int, numpy generator or None
        Seeds the order of visits. None draws a seed, or takes that of the checkpoint to resume.
    measure_every : int >= 0
        Objective and optimality are measured at every such pass for the trace, off the clock, unless the method's
        last step has found them at the iterate, or less than half an effective pass was spent since (by steps on a
        sample, say); 0: at the end only.
    callback : callable, optional
        ``callback(intermediate_result)`` after each pass (of some methods a step, or a part of one), with x, fun,
        optimality, n_passes, nit. Raising StopIteration or returning True ends the run.
    verbose : int
        1: progress on stderr; 2: a line a pass.
    checkpoint : path, optional
        File to write the run to every `checkpoint_seconds`, at the end, on Ctrl-C, and where a part of the data or
        all workers are lost. Without `resume` there must be no such file: that of an earlier run is never overwritten.
    checkpoint_seconds : float >= 0
        0 writes after each pass.
    resume : bool
        Go on from `checkpoint` where that file exists, or else begin. Problem, method with its options (``n_threads``
        among them), sampling, random_state and x0 must be those of that run; x0 may be left out. With the same tol the
        result has the same bits as that of an uninterrupted run, whatever max_iter was before, on the same kind of
        processor and with the same versions of the libraries; elsewhere it differs by rounding. With another tol the run
        goes on as well: the passes and checks so far remain those that the earlier tol led to. A run that has converged
        returns its result at once.
    earlier : Result, optional
        The result of an earlier run of the same method on the same problem: this run goes on from its state, with the
        same tol to the same bits as one longer run (unless runs in between compiled a kernel), and counts its own passes.
        The caller vouches for the problem: it is not compared.
    scale_columns : bool or "auto"
        Whether the method works on columns of equal size, a copy of X by powers of 2 (`finitesum.problems.scaled`), as
        methods with one step for all coordinates need it. x, tol, trace, callbacks and checkpoints stay in the units of X.
        Beside an intercept columns far from 0 are shifted to their means, too.
        "auto" does so for these methods where they choose their steps, columns differ by a factor of 8 or more, and penalty
        and set allow it (any penalty of one coefficient each, boxes; no groups, balls or other sets), for X up to 4 GB
        (256 MB in mapped files).
        With False, or a step size that is given, iterates are those of the papers' recursions in the columns as they are.

    Returns
    -------
    Result
        A `scipy.optimize.OptimizeResult` with ``x, fun, jac, optimality, rounding, n_passes, n_hessian_passes, nit,
        success, status, message, seconds, trace, state, method, choice``. ``rounding`` is at most what rounding errors
        put into the optimality (NaN where that is not known). ``success`` says whether the exact optimality at x is, with
        them, at most tol, also where the callback has stopped the run; ``reason`` and ``status`` say what ended it. After a
        divergence x is the best iterate that is known, else the last one.

    Raises
    ------
    ValueError
        A parameter is out of range, or the method cannot treat the problem.
    TypeError
        problem, method or callback is no such thing.
    CheckpointError
        The checkpoint is damaged, belongs to another run, would be overwritten or cannot be written.

    Examples
    --------
    >>> from finitesum.problems.linear import Problem
    >>> problem = Problem.linear([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], alpha=0.1)
    >>> result = minimize(problem, method="a-ciag", tol=1e-10)
    >>> result.success, result.optimality <= 1e-10
    (True, True)
    """
    if not isinstance(problem, AnyProblem):
        raise TypeError(
            "problem must be a Problem, as Problem.linear(X, y) makes it, a FiniteSum or a SubgradientProblem, "
            f"got a {type(problem).__name__}."
        )
    _check_settings(tol, max_iter, sampling, measure_every, callback, checkpoint_seconds)
    if not (isinstance(scale_columns, bool) or scale_columns == "auto"):
        raise ValueError(f'scale_columns must be True, False or "auto", got {scale_columns!r}.')
    if resume and checkpoint is None:
        raise ValueError("resume needs the checkpoint file to go on from: give checkpoint=.")
    if (used := _in_used_columns(problem, earlier)) is not None:
        found = minimize(
            used.problem,
            None if x0 is None else used.inward(_checked_start(problem, x0)),
            method=method,
            options=options,
            tol=tol,
            max_iter=max_iter,
            sampling=sampling,
            random_state=random_state,
            measure_every=measure_every,
            callback=None if callback is None else lambda report: callback(with_all_columns(report, used)),
            verbose=verbose,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            resume=resume,
            earlier=None if earlier is None else within_used(earlier, used),
            scale_columns=scale_columns,
        )
        return cast(Result, with_all_columns(found, used))
    with limited_blas(1):  # products of vectors alone
        begun = checkpoints.begun_with(checkpoint) if checkpoint is not None and resume else ""
        choice = _going_on(_chosen(problem, method, options, tol, begun), earlier)
        chosen = choice.method
        order = sampling or chosen.default_sampling
        if isinstance(problem, Problem) and is_parted(problem):
            problem = _as_read_by(chosen, problem)
            if not (isinstance(problem, Problem) and is_parted(problem)):
                choice = Choice(chosen, choice.reason, remark=choice.remark)
        else:
            require_suited(chosen, problem)
        if earlier is not None:
            _check_earlier(earlier, chosen, problem, x0, checkpoint)
        if isinstance(problem, Problem) and is_parted(problem):
            problem.rows.rounds.clear()
        later = _later(problem, choice, sampling)
        start = _checked_start(problem, x0)
        if problem.batch_size is None:
            problem = problem.batched(batch_size_for(chosen, problem))
        elif problem.term.constraint.has_memory:
            problem = problem.batched(problem.batch_size) if isinstance(problem, Problem) else replace(problem)
        file = None if checkpoint is None else Path(checkpoint)
        goes_on = file is not None and checkpoints.prepare(file, resume=resume)
        run = Run(
            problem=problem,
            method=in_scaled_columns(chosen, problem, scale_columns, earlier),
            choice=choice,
            tol=tol,
            max_iter=max_iter,
            sampling=order,
            random_state=random_state,
            measure_every=measure_every,
            callback=callback,
            checkpoint=file,
            checkpoint_seconds=checkpoint_seconds,
        )
    run.without_barrier = later if run.method is chosen else None
    if choice.reason and verbose:
        print_line(f"{chosen.name}: {choice.reason}")
    with progress(chosen.name, verbose) as observer:
        with limited_blas(threads_of_blas(run.method, run.problem)):
            if goes_on:
                run.resume(start, is_given=x0 is not None)
            elif earlier is not None:
                run.go_on(earlier)
            else:
                run.start(start, is_given=x0 is not None)
        try:
            reason = run.go(observer)
        except (KeyboardInterrupt, PartError) as interrupt:
            if file is not None:
                run.save()
                again = "the same call" if resume else "resume=True"
                interrupt.add_note(f"The run was written to {file}; {again} goes on from there.")
            raise
    run.save()
    with limited_blas(threads_of_blas(run.method, run.problem)):
        result = result_of(run, reason)
    result.choice = choice.reason
    if run.loop.n_changes:
        why = "did worse than that" if run.problem is problem else "waited for parts that were late"
        result.choice += f"; {label_of(chosen)} {why}, and {label_of(run.method)} went on from its point"
    return result
