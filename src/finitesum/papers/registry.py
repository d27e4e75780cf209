"""The experiments by name; each is loaded when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from finitesum.papers.experiment import Experiment

#: name: module. The order is that of a page with all of them.
_HOMES = {
    "ciag/fig1": "finitesum.papers.ciag.fig1",
    "ciag/table1": "finitesum.papers.ciag.table1",
    "ciag/table2": "finitesum.papers.ciag.table2",
    "ciag/phases": "finitesum.papers.ciag.phases",
    "ciag/restart": "finitesum.papers.ciag.restart",
    "adahb/fig1": "finitesum.papers.adahb.fig1",
    "adahb/networks": "finitesum.papers.adahb.networks",
    "adahb/fig6": "finitesum.papers.adahb.fig6",
    "which-method": "finitesum.papers.which_method",
}


def names() -> tuple[str, ...]:
    """Return the names of all experiments."""
    return tuple(_HOMES)


def experiment(name: str) -> Experiment:
    """Return the experiment of a name.

    Raises
    ------
    ValueError
        There is none.
    """
    if name not in _HOMES:
        raise ValueError(f"NAME must be list, all or one of {', '.join(_HOMES)}, got {name!r}.")
    found: Experiment = importlib.import_module(_HOMES[name]).EXPERIMENT
    return found


def experiments(asked: Sequence[str]) -> list[Experiment]:
    """Return the experiments of some names, each once; "all" means all.

    Raises
    ------
    ValueError
        A name is unknown.
    """
    wanted = [name for entry in asked for name in (names() if entry == "all" else (entry,))]
    return [experiment(name) for name in dict.fromkeys(wanted)]
