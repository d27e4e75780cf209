"""Used by the tests of the experiments: a runner of the command line, and a small experiment."""

from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from finitesum.cli import main
from finitesum.core.kernel_folder import cache_folder
from finitesum.papers import experiment as registry
from finitesum.papers.claims import Finding, Verdict
from finitesum.papers.experiment import Drawing, Experiment, Outcome, Table, Unit, Value
from finitesum.reporting.plots import Line, Panel, panels_figure


@pytest.fixture(autouse=True)
def _no_data(tmp_path_factory, monkeypatch):
    """Keep the data of this machine out of the tests; compiled kernels are shared, or all would compile."""
    folder = cache_folder()
    if folder is not None:
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder.parent))
    monkeypatch.setenv("FINITESUM_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("FINITESUM_DATA", raising=False)


@pytest.fixture
def run():
    """Return a function that runs a command in this process: result.exit_code, .stdout, .stderr."""

    def invoke(*args):
        return CliRunner().invoke(main, [str(arg) for arg in args], prog_name="finitesum")

    return invoke


class Squares:
    """An experiment that squares three numbers and counts how often it was asked to."""

    def __init__(self):
        self.computed = []
        self.fails_at = None
        self.absent = {}

    def square(self, k):
        if k == self.fails_at:
            raise KeyboardInterrupt
        self.computed.append(k)
        return {"square": k * k}

    def run(self, context):
        results = context.complete([Unit(f"n={k}", partial(self.square, k)) for k in (1, 2, 3)])
        x = np.array([1.0, 2.0, 3.0])
        y = np.array([results[f"n={k}"]["square"] for k in (1, 2, 3)], dtype=float)
        figure = panels_figure([Panel("squares", "k", "k^2", [Line("k <^2>", x, y)])])
        return Outcome(
            [Drawing("squares", "Squares of 1, 2 & 3.", figure)],
            [Table("squares", "The squares.", ("k", "square"), [[1, "1"], [2, "4"], [3, "9"]])],
            [Verdict("Squares grow", (Finding("1 to 3", True, "1, 4, 9"),))],
            {"sum": Value(float(y.sum()), absolute=0.5)},
            ["A note."],
            self.absent,
        )


@pytest.fixture
def squares(monkeypatch):
    """Return the small experiment, which stands in for one of the papers'."""
    found = Squares()
    entry = Experiment("toy/squares", "Three squares", "A paper", "Section 1", ("A setting.",), found.run)
    monkeypatch.setattr(registry, "experiment", lambda name: entry)
    monkeypatch.setattr(registry, "names", lambda: ("toy/squares",))
    return found
