"""Used by the tests of the command line: a runner in this process, one in processes of their own, and small files."""

import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from finitesum.cli import main
from finitesum.core.jit import Kernel
from finitesum.core.kernel_folder import cache_folder
from finitesum.datasets import make_logistic


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """Keep the user's parsed copies and data out of the tests; compiled kernels are shared, or all would compile."""
    folder = cache_folder()
    if folder is not None:
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder.parent))
    monkeypatch.setenv("FINITESUM_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("FINITESUM_DATA", raising=False)
    monkeypatch.delenv("FINITESUM_DEBUG", raising=False)


@pytest.fixture
def run():
    """Return a function that runs a command in this process: result.exit_code, .stdout, .stderr."""

    def invoke(*args):
        return CliRunner().invoke(main, [str(arg) for arg in args], prog_name="finitesum")

    return invoke


#: `python -m finitesum`, heeding interrupts: a shell's background commands ignore them, and so would their children.
COMMAND = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("finitesum", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def spawn():
    """Return a function that starts a command in a process of its own."""

    def start(*args):
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # an interrupt may come between the opening of a file and its `with`: Python then says so on stderr
            env={
                **os.environ,
                "PYTHONWARNINGS": "error,ignore::ResourceWarning",
                **({"NUMBA_DISABLE_JIT": "1"} if Kernel.as_python else {}),
            },
        )

    return start


def write_svmlight(path, rows, labels):
    lines = []
    for row, label in zip(np.asarray(rows), labels, strict=True):
        entries = " ".join(f"{j + 1}:{float(value)!r}" for j, value in enumerate(row) if value)
        lines.append(f"{label} {entries}\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture
def svm(tmp_path):
    """Return a file of 60 rows and 5 sparse features, labels 1 and 2."""
    data = make_logistic(60, 5, density=0.6, noise=0.1, seed=1)
    return write_svmlight(tmp_path / "small.svm", data.rows.toarray(), np.where(data.labels > 0, 2, 1))


@pytest.fixture
def csv_file(tmp_path):
    """Return a CSV file of 40 rows, three named features and the labels yes and no."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 3))
    names = np.where(rows @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(40) > 0, "yes", "no")
    path = tmp_path / "small.csv"
    lines = [",".join([*(repr(float(v)) for v in row), name]) for row, name in zip(rows, names, strict=True)]
    path.write_text("\n".join(["a,b,c,answer", *lines]) + "\n")
    return path
