"""scikit-learn's callbacks (`sklearn.callback`, from 1.9): the tasks of a fit, where that module is there.

A fit is a task; where several problems are solved, each is one below it; each pass over the data is a task below these. A
callback that answers True after a pass ends the run.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])

try:
    import sklearn.callback as _callbacks
except ImportError:
    _callbacks = None

HAS_CALLBACKS = _callbacks is not None

if HAS_CALLBACKS and not TYPE_CHECKING:  # scikit-learn's have no types, and would hide those of the methods
    CallbackSupportMixin, with_callbacks = _callbacks.CallbackSupportMixin, _callbacks.with_callbacks
else:

    class CallbackSupportMixin:
        """Stands in for scikit-learn's class of this name."""

    def with_callbacks(method: Method) -> Method:
        """Return the method: there are no callbacks to manage."""
        return method


__all__ = ["HAS_CALLBACKS", "CallbackSupportMixin", "FitTasks", "with_callbacks"]


class FitTasks:
    """The tasks of one fit."""

    def __init__(self, estimator: Any, X: Any, y: Any, metadata: dict[str, Any], n_problems: int) -> None:
        given = {name: value for name, value in metadata.items() if value is not None} or None
        self._fit = {"estimator": estimator, "X": X, "y": y, "metadata": given}
        self._root: Any = None
        self.are_watched = bool(getattr(estimator, "_skl_callbacks", []))
        if HAS_CALLBACKS and (self.are_watched or hasattr(estimator, "_parent_callback_ctx")):
            several = n_problems > 1
            self._root = estimator._init_callback_context(
                max_subtasks=n_problems if several else None, sequential_subtasks=not several
            )
            self._begin(self._root)
        self._n_problems = n_problems

    def _begin(self, context: Any) -> None:
        context.call_on_fit_task_begin(**self._fit)

    def _end(self, context: Any, attributes: Callable[[], dict[str, Any]] | None = None) -> bool:
        return bool(context.call_on_fit_task_end(**self._fit, reconstruction_attributes=attributes))

    def of_problem(self, k: int) -> Any:
        """Return the context that the passes on problem k belong to."""
        if self._root is None or self._n_problems == 1:
            return self._root
        context = self._root.subcontext(task_name="class", task_id=k, max_subtasks=None)
        self._begin(context)
        return context

    def after_pass(self, context: Any, attributes: Callable[[], dict[str, Any]] | None) -> bool:
        """Call the callbacks after a pass; return whether one of them wants to stop."""
        task = context.subcontext(task_name="pass")
        self._begin(task)
        return self._end(task, attributes)

    def end_of_problem(self, context: Any) -> None:
        """Call the callbacks once a problem is solved."""
        if context is not None and context is not self._root:
            self._end(context)

    def end(self, attributes: Callable[[], dict[str, Any]]) -> None:
        """Call the callbacks at the end of the fit."""
        if self._root is not None:
            self._end(self._root, attributes)
