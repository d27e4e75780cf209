"""Sums over parts in a fixed order, and the results of calls for all of them.

Sums of the parts' results are taken in a binary tree by the parts' numbers, whoever was faster: their bits do not depend
on how many workers there are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from finitesum.core.engine import Call, Engine, EngineElsewhere
from finitesum.core.threads import limited_blas

#: Seconds that a result of a future that is done may take to come, at first, before it is asked whether it is lost.
FIRST_WAIT = 10.0


def added(left: Any, right: Any) -> Any:
    """Return the sum of two results: arrays, numbers, tuples of such, or None."""
    if isinstance(left, tuple):
        sums = (added(*both) for both in zip(left, right, strict=True))
        return type(left)(*sums) if hasattr(left, "_fields") else tuple(sums)
    return None if left is None else left + right


def _parent(place: tuple[int, int]) -> tuple[int, int]:
    return place[0] + 1, place[1] // 2


def error_of(future: Any, seconds: float = FIRST_WAIT) -> BaseException | None:
    """Return the error of a future that is done; None where there is none, or where its result is lost meanwhile."""
    if getattr(future, "status", "") == "finished":  # which is known without asking for it
        return None
    try:
        error: BaseException | None = future.exception(timeout=seconds)
    except TimeoutError:
        return None
    return error


def settled(engine: Engine, future: Any) -> Any:
    """Return a future, or while it is lost already another of the same call."""
    while future.done() and error_of(future) is not None:
        future = engine.recover(future)
    return future


def fetched(engine: Engine, future: Any) -> Any:
    """Return a future's result, computed again where it was lost."""
    seconds = FIRST_WAIT
    while True:
        if not future.done():
            next(iter(engine.as_completed([future])))  # which notices that nobody is left to compute it
        try:
            return future.result(timeout=seconds)
        except TimeoutError:  # done, and lost before it came here; or large; or the call's own error
            seconds *= 2.0
            if error_of(future) is not None:
                future = engine.recover(future)
        except Exception:
            future = engine.recover(future)  # which raises an error of the call's own


class _Tree:
    """Results at the places of a binary tree: level 0 has those of the parts, in their order."""

    def __init__(self, engine: Engine, add: Callable[[Any, Any], Any], n_parts: int) -> None:
        self.engine, self.add, self.root = engine, add, None
        self.sizes, self.known = [n_parts], {}  # type: ignore[var-annotated]
        while self.sizes[-1] > 1:
            self.sizes.append(-(-self.sizes[-1] // 2))

    def join(self, future: Any, place: tuple[int, int]) -> tuple[Any, tuple[int, int]] | None:
        """Take a result that is there; return one that is still computed from it, with its place."""
        while place[0] < len(self.sizes) - 1:
            other = place[0], place[1] ^ 1
            if other[1] >= self.sizes[place[0]]:  # without a neighbour it goes up as it is
                place = _parent(place)
                continue
            if other not in self.known:
                self.known[place] = future
                return None
            neighbour = self.known.pop(other)
            left, right = (future, neighbour) if place[1] < other[1] else (neighbour, future)
            future, place = self.engine.submit(self.add, left, right), _parent(place)
            future = settled(self.engine, future)
            if not future.done():
                return future, place
        self.root = future
        return None


def sum_of_parts(
    engine: Engine,
    calls: Sequence[Call],
    add: Callable[[Any, Any], Any] = added,
    take: Callable[[int, Any], Any] | None = None,
    arrived: Callable[[int], Any] | None = None,
) -> Any:
    """Return the sum of the calls' results, in a tree by their order; the first error is raised, and ends the others.

    If given, `take` is called with the number and the future of each result that is there, and returns a future of what is
    to be summed, which need not be there yet; before it `arrived` is called with the number, as each of them comes. No
    result is kept longer than it is needed.
    """
    with limited_blas(1):  # one part a worker, and the same bits for any number of them
        tree, waiting = _Tree(engine, add, len(calls)), {}
        for k, future in enumerate(_submitted(engine, calls)):
            waiting[future] = _CALLED, k
        with _cancelled_after_errors(waiting):
            while waiting:
                waiting.update(_next_round(engine, tree, waiting, take, arrived))
        return fetched(engine, tree.root)


#: The level of results that are not taken yet: below the tree's.
_CALLED = -1


def _submitted(engine: Engine, calls: Sequence[Call]) -> list[Any]:
    if isinstance(engine, EngineElsewhere):
        return engine.submit_all(calls)
    return [engine.submit(call.function, call.handle, *call.arguments) for call in calls]


@contextmanager
def _cancelled_after_errors(waiting: dict[Any, Any]) -> Iterator[None]:
    """Cancel the futures that are waited for where there is an error."""
    try:
        yield
    except BaseException:
        for future in waiting:
            future.cancel()
        raise


def _next_round(
    engine: Engine,
    tree: _Tree,
    waiting: dict[Any, tuple[int, int]],
    take: Callable[[int, Any], Any] | None,
    arrived: Callable[[int], Any] | None,
) -> dict[Any, tuple[int, int]]:
    """Return what is to be waited for next; these futures wait no more."""
    following = {}
    for future in engine.as_completed(list(waiting)):
        level, k = waiting.pop(future)
        if error_of(future) is not None:
            following[engine.recover(future)] = level, k
            continue
        joining = future
        if level == _CALLED:
            level = 0
            if arrived is not None:
                arrived(k)
            if take is not None and not (joining := settled(engine, take(k, future))).done():
                following[joining] = level, k
                continue
        del future
        if (more := tree.join(joining, (level, k))) is not None:
            following[more[0]] = more[1]
    return following


def completed(engine: Engine, calls: Sequence[Call], arrived: Callable[[int], Any] | None = None) -> list[Any]:
    """Return futures of the calls, in their order, once all are done; if given, a function is called as each of them is.

    It is given the call's number.
    """
    with limited_blas(1):
        futures = _submitted(engine, calls)
        waiting = {future: k for k, future in enumerate(futures)}
        with _cancelled_after_errors(waiting):
            _complete(engine, futures, waiting, arrived)
    return futures


def _complete(engine: Engine, futures: list[Any], waiting: dict[Any, int], arrived: Callable[[int], Any] | None) -> None:
    """Wait until futures are done, those of calls that are made again put in the places of what was lost."""
    while waiting:
        again = {}
        for future in engine.as_completed(list(waiting)):
            k = waiting.pop(future)
            if error_of(future) is not None:
                futures[k] = engine.recover(future)
                again[futures[k]] = k
            elif arrived is not None:
                arrived(k)
        waiting.update(again)


def collected(engine: Engine, futures: Sequence[Any], asked: Sequence[Callable[[Any], Any] | None]) -> list[Any]:
    """Return the results of futures that are done, or what functions make of them where they are: None asks for all."""
    if isinstance(engine, EngineElsewhere):
        try:
            return engine.collect(futures, asked)
        except Exception:  # one by one it is seen which of them are lost
            pass
    each = zip(futures, asked, strict=True)
    return [fetched(engine, future if one is None else engine.submit(one, future)) for future, one in each]


def each_part(engine: Engine, calls: Iterable[Call], arrived: Callable[[int], Any] | None = None) -> list[Any]:
    """Return the calls' results in their order; if given, a function is called with the number of each that is there."""
    futures = completed(engine, list(calls), arrived)
    return collected(engine, futures, [None] * len(futures))


def sum_in_tree(results: Sequence[Any], add: Callable[[Any, Any], Any] = added) -> Any:
    """Return the sum of results that are here, as `sum_of_parts` adds them."""
    results = list(results)
    with limited_blas(1):
        while len(results) > 1:
            pairs = zip(results[::2], results[1::2], strict=False)
            results = [*(add(left, right) for left, right in pairs), *results[len(results) // 2 * 2 :]]
    return results[0]
