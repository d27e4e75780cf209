"""Trace and progress: figures by name, files, and what is shown where."""

import csv
import io
import math
import threading

import numpy as np
import pytest

from finitesum.running import observers
from finitesum.running.observers import Lines, PassReport, Trace, TraceRow, fraction_done, progress


def row(n_passes, optimality=math.nan, seconds=0.0):
    return TraceRow(n_passes, 0.0, seconds, 0.5, optimality, math.nan)


def report(**changes):
    return PassReport(
        **{"n_passes": 3.0, "max_iter": 100.0, "optimality": 1e-3, "start_optimality": 1.0, "tol": 1e-6} | changes
    )


@pytest.fixture
def trace():
    return Trace([row(0.0, 1.0), row(1.0, 0.1, 0.5), row(2.0, math.nan, 1.0), row(4.0, 0.01, 1.5), row(5.0, 0.02, 2.0)])


def test_columns(trace):
    np.testing.assert_array_equal(trace.column("n_passes"), [0.0, 1.0, 2.0, 4.0, 5.0])
    np.testing.assert_array_equal(trace.column("optimality"), [1.0, 0.1, np.nan, 0.01, 0.02])
    assert list(trace.to_dict()) == list(TraceRow._fields)
    assert [r.n_passes for r in trace] == [0.0, 1.0, 2.0, 4.0, 5.0]
    assert len(trace) == 5
    assert Trace().column("seconds").shape == (0,)


def test_a_trace_does_not_share_the_list_it_is_made_of():
    rows = [row(0.0)]
    trace = Trace(rows)
    trace.append(row(1.0))
    assert (len(rows), len(trace)) == (1, 2)


def test_an_unknown_column_is_named(trace):
    with pytest.raises(KeyError, match="no column 'loss'; it has n_passes, n_hessian_passes, seconds, objective"):
        trace.column("loss")


@pytest.mark.parametrize(
    ("asked", "n_passes", "seconds"),
    [(1.0, 0.0, 0.0), (0.5, 1.0, 0.5), (0.1, 1.0, 0.5), (0.015, 4.0, 1.5), (0.01, 4.0, 1.5)],
)
def test_first_reached(trace, asked, n_passes, seconds):
    assert (trace.passes_to(asked), trace.seconds_to(asked)) == (n_passes, seconds)


def test_never_reached_is_nan(trace):
    assert math.isnan(trace.passes_to(1e-3))
    assert math.isnan(Trace().seconds_to(1.0))


def test_csv_holds_every_bit(trace, tmp_path):
    trace.append(row(1 / 3, 0.1 + 0.2))
    trace.to_csv(tmp_path / "trace.csv")
    with (tmp_path / "trace.csv").open(newline="") as file:
        header, *lines = list(csv.reader(file))
    assert header == list(TraceRow._fields)
    np.testing.assert_array_equal(np.array(lines, dtype=float), np.array(trace.rows))


def test_frame(trace):
    pytest.importorskip("pandas")
    frame = trace.to_frame()
    assert list(frame.columns) == list(TraceRow._fields)
    np.testing.assert_array_equal(frame["n_passes"], trace.column("n_passes"))


@pytest.mark.parametrize(
    ("changes", "fraction"),
    [
        ({"optimality": 1e-3}, 0.5),  # half of the digits
        ({"optimality": 1.0}, 0.03),
        ({"optimality": 10.0}, 0.03),  # further away than the start
        ({"optimality": 1e-9}, 1.0),
        ({"n_passes": 80.0}, 0.8),
        ({"n_passes": 101.0}, 1.0),
        ({"tol": 0.0}, 0.03),
        ({"optimality": math.nan}, 0.03),
        ({"start_optimality": math.nan}, 0.03),
        ({"optimality": 0.0}, 0.03),
        ({"max_iter": math.inf, "optimality": 1.0}, 0.0),
    ],
)
def test_fraction_done(changes, fraction):
    assert fraction_done(report(**changes)) == pytest.approx(fraction, rel=1e-12)


def test_lines_come_at_most_every_so_often(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(observers.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    lines = Lines(stream, every_seconds=10.0)
    for second in (1.0, 9.9, 10.0, 15.0, 19.9, 20.0):
        now[0] = second
        lines.after_pass(report(n_passes=second))
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["10", "20"]


def test_a_line_says_what_was_reached_and_asked(monkeypatch):
    stream = io.StringIO()
    Lines(stream, every_seconds=0.0).after_pass(report(tol=1.5e-7))
    assert stream.getvalue() == "pass 3  optimality 1.00e-03  (asked 1.5e-07)\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("verbose", [0, -1])
def test_quiet_shows_nothing(verbose):
    with progress("saga", verbose) as observer:
        assert observer is None


@pytest.mark.parametrize(
    ("stream", "environment", "bar"), [(Terminal, {}, True), (Terminal, {"NO_COLOR": "1"}, False), (io.StringIO, {}, False)]
)
def test_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch, stream, environment, bar):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(observers.sys, "stderr", stream())
    with progress("saga", 1) as observer:
        assert isinstance(observer, Lines) is not bar
        observer.after_pass(report())
    # too short for a bar to appear; elsewhere there is a line at least
    assert observers.sys.stderr.getvalue() == ("" if bar else "pass 3  optimality 1.00e-03  (asked 1e-06)\n")
    assert threading.active_count() < 50


def test_the_bar_appears_after_its_patience_and_goes(monkeypatch):
    pytest.importorskip("rich")
    stream = Terminal()
    monkeypatch.setattr(observers.sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    bar = observers.Bar("saga", patience_seconds=0.0)
    bar.after_pass(report())
    bar.close()
    assert "saga" in stream.getvalue()
    bar.after_pass(report())  # late ones do no harm


def test_steps_are_counted_line_by_line(capsys):
    with observers.steps("fig1", 3, 2, "runs") as report_step:
        report_step("now a", 0)
        report_step("done: a", 1)
    out, err = capsys.readouterr()
    assert not out
    assert err.splitlines() == ["fig1: 0 of 3 runs; now a", "fig1: 1 of 3 runs; done: a"]


def test_a_download_shows_what_has_arrived(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(observers.sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    bar = observers.DownloadBar("a9a.svm.xz")
    bar.total = 2_000_000
    bar.update(500_000)
    bar.close()
    assert "a9a.svm.xz" in stream.getvalue()
    assert "0.5 of 2.0 MB" in stream.getvalue()
