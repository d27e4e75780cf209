"""The experiments by name, as ``experiments.toml`` describes them; the module of each is loaded when it is run."""

import functools
import importlib
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from finitesum.papers.experiment import Context, Experiment, Outcome


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
