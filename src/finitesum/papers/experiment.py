"""What an experiment is: where the paper has it, and a function that runs it and returns what came out.

An experiment is cut into units: one method on one data set with one seed, say. `Context.complete` runs those that are not
done yet and keeps the figures of each in a file of its own, so that an interrupted run continues with the next unit.
"""

import contextlib
import functools
import hashlib
import importlib
import json
import math
import time
import tomllib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from finitesum import __version__
from finitesum.datasets import DataError, Dataset, find, info, load_dataset
from finitesum.datasets.registry import where_to_get
from finitesum.papers.claims import Verdict
from finitesum.reporting.files import write_text
from finitesum.running.observers import Report, steps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = Literal["quick", "full"]
SIZES: tuple[Size, ...] = ("quick", "full")

_FETCH = (
    "'finitesum data fetch {}' gets it. Where the file is already on this machine, name its folder by --data, or put it "
    "into the folder 'data' in FINITESUM_HOME."
)


class Unit(NamedTuple):
    """A piece of work that is stored as a whole.

    The work returns what JSON can hold; or it returns a generator, which also yields what it has reached, in words. Its
    figures depend on its arguments, but for functions and paths: with other arguments it is another unit.
    """

    name: str  # the beginning of its file's name, and its key among the results
    work: partial[dict[str, Any]] | partial[Generator[str, None, dict[str, Any]]]
    checkpoint: Path | None = None  # a file where unfinished work may be kept, which is removed when the figures are
    version: str = __version__  # with another one it is another unit

    @property
    def file_name(self) -> str:
        """A name that differs between units whose figures may differ."""
        given = [arg for arg in (*self.work.args, self.work.keywords) if not (isinstance(arg, Path) or callable(arg))]
        known = json.dumps([self.version, self.name, given], sort_keys=True, default=repr)
        plain = "".join(c if c.isalnum() or c in "-._" else "-" for c in self.name)
        return f"{plain[:80]}-{hashlib.blake2b(known.encode(), digest_size=4).hexdigest()}.json"


class Drawing(NamedTuple):
    """A figure of the page, also written as PNG."""

    name: str
    caption: str
    figure: "Figure"


class Table(NamedTuple):
    """A table, written as CSV, and on the page unless it is too long for that."""

    name: str
    caption: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str | float | int]]
    on_page: bool = True


class Value(NamedTuple):
    """A number that another machine should reproduce, and within what tolerance.

    A value agrees with the recorded one when they differ by at most absolute + relative |recorded|. Where it was not
    reached, both must be NaN.
    """

    value: float
    relative: float = 0.0
    absolute: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What came out of an experiment, in the order of the page."""

    drawings: Sequence[Drawing] = ()
    tables: Sequence[Table] = ()
    verdicts: Sequence[Verdict] = ()
    values: Mapping[str, Value] = field(default_factory=dict)  # what `check` compares with recorded ones
    notes: Sequence[str] = ()  # paragraphs, behind those of the experiment
    absent: Mapping[str, str] = field(default_factory=dict)  # data sets and libraries, and where to get them
    is_usual: bool = True  # whether the cases are those of the record; else only values that both have are compared
    timings: Mapping[str, float] = field(default_factory=dict)  # seconds and the like, which are not compared


@dataclass(frozen=True)
class Context:
    """What an experiment is run with."""

    size: Size  # "quick" takes minutes for all experiments together; "full" is the paper's size
    folder: Path  # the experiment's own; its neighbours are those of the other experiments
    data_dir: Path | None = None  # a folder of data that is searched before the others
    verbose: int = 0  # as for `steps`
    label: str = ""  # what progress is headed with

    @property
    def is_quick(self) -> bool:
        """Whether the size is "quick"."""
        return self.size == "quick"

    def complete(self, units: Sequence[Unit], until: float = math.inf) -> dict[str, dict[str, Any]]:
        """Return the figures of all units by name; those that an earlier call has kept are not run again.

        Units that are not done when `time.monotonic()` comes to `until` are left out.
        """
        results = {}
        with steps(self.label, len(units), self.verbose, "runs") as report:
            for unit in units:
                file = self.folder / "units" / unit.file_name
                known = read_figures(file)
                if known is None:
                    report(f"now {unit.name}", 0)
                    found = _figures(unit, report, until)
                    if found is None:
                        continue
                    text = json.dumps(found)
                    write_text(file, text)
                    known = json.loads(text)
                    if unit.checkpoint is not None:
                        unit.checkpoint.unlink(missing_ok=True)
                results[unit.name] = known
                report(f"done: {unit.name}", 1)
        return results


def _figures(unit: Unit, report: Report, until: float) -> dict[str, Any] | None:
    """Return the figures of a unit, None where the time is over before; what it has reached meanwhile is shown."""
    if time.monotonic() >= until:
        return None
    work = unit.work()
    if not isinstance(work, Generator):
        return work
    with contextlib.closing(work):
        while True:
            try:
                report(f"{unit.name}: {next(work)}", 0)
            except StopIteration as end:
                return dict(end.value)
            if time.monotonic() >= until:
                return None


def read_figures(file: Path) -> dict[str, Any] | None:
    """Return the figures in a file; None where there is none, or one that was damaged from outside."""
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper."""

    name: str  # what users write, such as "ciag/fig1"
    title: str  # what is compared with what
    source: str  # the paper; empty for a page of our own
    section: str  # where the paper has it
    setting: tuple[str, ...]  # paragraphs: the paper's setting, and what of it is not known
    run: Callable[[Context], Outcome]
    data: tuple[str, ...] = ()  # names of the data sets that it would use
    notes: tuple[str, ...] = ()  # paragraphs: what is run, and where it differs from the paper

    @property
    def slug(self) -> str:
        """The name of its folder."""
        return self.name.replace("/", "-")


# -- the experiments by name, as `experiments.toml` describes them; the module of each is loaded when it is run


@functools.cache
def _described() -> dict[str, Any]:
    return tomllib.loads(resources.files("finitesum.papers").joinpath("experiments.toml").read_text(encoding="utf-8"))


def names() -> tuple[str, ...]:
    """Return the names of all experiments, in the order of a page with all of them."""
    return tuple(_described()["experiments"])


def captions(name: str) -> dict[str, str]:
    """Return the captions of an experiment's figures and tables, and notes, with the fields that it fills in."""
    return dict(_described()["experiments"][name]["captions"])


def experiment(name: str) -> Experiment:
    """Return the experiment of a name; a ValueError says that there is none."""
    if name not in names():
        raise ValueError(f"NAME must be list, all or one of {', '.join(names())}, got {name!r}.")

    def run(context: Context) -> Outcome:
        module = importlib.import_module(f"finitesum.papers.{name.replace('/', '.').replace('-', '_')}")
        outcome: Outcome = module.run(context)
        return outcome

    entry: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in _described()["experiments"][name].items()
        if key != "captions"
    }
    return Experiment(name, source=_described()["papers"].get(entry.pop("paper", None), ""), run=run, **entry)


def experiments(asked: Sequence[str]) -> list[Experiment]:
    """Return the experiments of some names, each once; "all" means all. An unknown name is an error of `experiment`."""
    wanted = [name for entry in asked for name in (names() if entry == "all" else (entry,))]
    return [experiment(name) for name in dict.fromkeys(wanted)]


# -- data sets, which are loaded where they are on this machine, and never fetched without being asked for


def load(name: str, data_dir: Path | None) -> Dataset:
    """Return a data set of the registry; a DataError with the advice of `missing` where it is not on this machine."""
    for advice in missing([name], data_dir).values():
        raise DataError(advice)
    return load_dataset(name, data_dir=data_dir)


def missing(names: Iterable[str], data_dir: Path | None) -> dict[str, str]:
    """Return the data sets of some names that are not on this machine, and for each how to get it."""
    absent = {}
    for name in names:
        entry = info(name)
        if find(name, data_dir=data_dir) is None:
            there = f"{name} is not on this machine. {where_to_get(entry, data_dir)}"
            absent[name] = _FETCH.format(name) if any(file.urls for file in entry.files) else there
    return absent
