"""What moves on a terminal, and that nothing moves elsewhere."""

import io
import os
import re
import sys
import time

import pytest

from finitesum.cli.console import Console, plain, to_json
from finitesum.running import observers
from finitesum.running.observers import Bar, Lines, PassReport, progress

REPORT = PassReport(3.0, 10.0, 1e-3, 1.0, 1e-6)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that puts a terminal in the place of stderr (pytest puts its own there before each test)."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    def put():
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        return stream

    return put


def shown(stream):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def wait_until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_the_bar_shows_before_the_first_pass_is_over(terminal):
    stream = terminal()
    bar = Bar("saga", "preparing", patience_seconds=0.0)
    try:
        wait_until(lambda: "preparing" in shown(stream))
        bar.after_pass(REPORT)
        wait_until(lambda: "pass 3  optimality 1.00e-03  (asked 1e-06)" in shown(stream))
    finally:
        bar.close()


def test_a_short_run_shows_no_bar(terminal):
    stream = terminal()
    with progress("saga", 1) as observer:
        assert isinstance(observer, Bar)
        observer.after_pass(REPORT)
    assert stream.getvalue() == ""
    observer.appear()
    assert stream.getvalue() == ""


def test_no_bar_without_colour_or_terminal(terminal, monkeypatch):
    terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    with progress("saga", 1) as observer:
        assert isinstance(observer, Lines)
    assert not Console(1).draws
    monkeypatch.delenv("NO_COLOR")
    assert Console(1).draws
    assert not Console(0).draws
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not Console(1).draws


def test_a_slow_step_is_named_on_a_terminal(terminal, monkeypatch):
    stream = terminal()
    monkeypatch.setattr(observers, "PATIENCE_SECONDS", 0.0)
    with Console(1).busy("reading data.svm"):
        wait_until(lambda: "reading data.svm ..." in shown(stream))
    before = stream.getvalue()
    monkeypatch.setattr(observers, "PATIENCE_SECONDS", 60.0)
    with Console(1).busy("a fast step"):
        pass
    with Console(0).busy("a quiet step"):
        pass
    assert stream.getvalue() == before


def test_json_holds_what_json_can():
    import numpy as np

    content = {"a": np.float64(1.5), "b": np.array([1.0, np.nan]), "c": (True, None, np.int64(3)), 4: float("inf")}
    assert plain(content) == {"a": 1.5, "b": [1.0, None], "c": [True, None, 3], "4": None}
    assert "null" in to_json(content)
    assert plain({"p": os}) == {"p": str(os)}


def test_log_of_the_library_goes_to_stderr(run, svm, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FINITESUM_HOME", str(tmp_path / "file"))
    result = run("fit", svm, "--max-iter", "3")
    assert result.exit_code == 0
    assert "finitesum: warning: " in result.stderr
    assert "finitesum: warning: No parsed copy" not in result.stdout
    quiet = run("fit", svm, "--max-iter", "100", "-q")
    assert quiet.stderr == ""
