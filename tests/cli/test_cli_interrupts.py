"""A fit that is interrupted or killed at any moment continues to the same bits."""

import random
import signal
import sys
import threading
import time

import numpy as np
import pytest

from finitesum import Problem, minimize
from finitesum.datasets import load, make_logistic
from finitesum.estimators.model import load_model

pytestmark = pytest.mark.as_chosen  # as in the processes that are interrupted

#: A fit of many passes that writes a checkpoint after each.
SLOW = ("--solver", "fg", "--alpha", "2e-4", "--no-intercept", "--tol", "1e-9", "--max-iter", "9000", "-q")
EACH = ("--checkpoint-seconds", "0")


@pytest.fixture
def slow_svm(tmp_path):
    data = make_logistic(50, 4, noise=0.1, seed=2)
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row.tolist())) + "\n"
        for row, label in zip(data.rows, data.labels, strict=True)
    ]
    path = tmp_path / "slow.svm"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def whole(run, slow_svm, tmp_path):
    """Return the folder of the uninterrupted fit."""
    result = run("fit", slow_svm, *SLOW, "--out", tmp_path / "whole")
    assert result.exit_code == 0, result.output
    return tmp_path / "whole"


def written(path):
    return path.stat().st_mtime_ns if path.exists() else 0


def wait_for_new(path, before, process, seconds=60.0):
    """Wait until a process has written a file, or has ended."""
    end = time.monotonic() + seconds
    while written(path) == before and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def same_fit(a, b):
    first, second = load_model(a), load_model(b)
    assert first.coef.tobytes() == second.coef.tobytes()
    assert (first.optimality, first.objective, first.n_passes) == (second.optimality, second.objective, second.n_passes)
    columns = [0, 1, 3, 4, 5]  # all but the seconds
    traces = [np.genfromtxt(folder / "trace.csv", delimiter=",", skip_header=1)[:, columns] for folder in (a, b)]
    np.testing.assert_array_equal(*traces)


def test_interrupt_writes_a_checkpoint_and_says_how_to_continue(run, spawn, slow_svm, whole, tmp_path):
    out = tmp_path / "run"
    process = spawn("fit", slow_svm, *SLOW, *EACH, "--out", out)
    wait_for_new(out / "checkpoint.npz", 0, process)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert f"continue by: finitesum fit --resume {out}" in stderr
    assert "Traceback" not in stderr
    assert (out / "checkpoint.npz").exists()
    assert not (out / "model.npz").exists()
    result = run("fit", "--resume", out)
    assert result.exit_code == 0, result.output
    same_fit(whole, out)


@pytest.mark.slow
def test_kills_at_random_moments(run, spawn, slow_svm, whole, tmp_path):
    out = tmp_path / "run"
    moments = random.Random(7)
    args = ("fit", slow_svm, *SLOW, *EACH, "--out", out)
    n_killed = 0
    for _ in range(4):
        before = written(out / "checkpoint.npz")
        process = spawn(*args)
        wait_for_new(out / "checkpoint.npz", before, process)
        time.sleep(moments.uniform(0.0, 0.3))
        process.kill()
        process.communicate(timeout=60)
        n_killed += process.returncode == -signal.SIGKILL
        args = ("fit", "--resume", out, *EACH)
    assert n_killed >= 2
    result = run("fit", "--resume", out)
    assert result.exit_code == 0, result.output
    same_fit(whole, out)
    assert not list(out.glob(".*.tmp"))


def test_a_kill_between_the_last_pass_and_the_model(run, slow_svm, whole, tmp_path, monkeypatch):
    """The checkpoint of a run that has ended ends it again in the same way."""
    out = tmp_path / "run"

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("finitesum.cli.fit._write", killed)
        result = run("fit", slow_svm, *SLOW, "--out", out)
    assert result.exit_code == 130
    assert not (out / "model.npz").exists()
    assert run("fit", "--resume", out).exit_code == 0
    same_fit(whole, out)


def test_an_interrupt_without_a_folder_saves_nothing(run, slow_svm, tmp_path, monkeypatch):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("finitesum.running.driver.minimize", interrupted)
    result = run("fit", slow_svm)
    assert result.exit_code == 130
    assert "nothing was saved, because no --out was given" in result.stderr
    result = run("fit", slow_svm, "--out", tmp_path / "run")
    assert result.exit_code == 130
    assert "before the first checkpoint" in result.stderr


@pytest.fixture
def problem():
    data = make_logistic(40, 3, noise=0.1, seed=0)
    return Problem.linear(data.rows, data.targets(), alpha=0.1)


def interrupt_at(n_lines):
    """Return a trace function that raises KeyboardInterrupt at the n-th line that the driver executes."""
    left = n_lines

    def in_driver(frame, event, _arg):
        nonlocal left
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return in_driver

    def trace(frame, _event, _arg):
        return in_driver if frame.f_code.co_filename.endswith(("running/driver.py", "running/run.py")) else None

    return trace


@pytest.mark.parametrize(
    ("every", "method"),
    [
        (97, "fg"),
        (97, "saga"),
        (97, "a-ciag"),
        *(pytest.param(61, name, marks=pytest.mark.slow) for name in ("fg", "saga", "a-ciag")),
    ],
)
def test_an_interrupt_at_any_line_of_the_driver(problem, tmp_path, method, every):
    settings = {"method": method, "tol": 1e-6, "max_iter": 60}
    expected = minimize(problem, **settings)
    n_interrupts, before = 0, sys.gettrace()
    for n_lines in range(1, 2000, every):
        file = tmp_path / f"{n_lines}.npz"
        sys.settrace(interrupt_at(n_lines))
        try:
            minimize(problem, **settings, checkpoint=file, checkpoint_seconds=0.0)
        except KeyboardInterrupt:
            n_interrupts += 1
        finally:
            sys.settrace(before)
        result = minimize(problem, **settings, checkpoint=file, resume=True)
        assert result.x.tobytes() == expected.x.tobytes(), n_lines
        assert (result.nit, result.n_passes, result.reason) == (expected.nit, expected.n_passes, expected.reason)
        np.testing.assert_array_equal(result.trace.column("optimality"), expected.trace.column("optimality"))
    assert n_interrupts >= 4


@pytest.mark.parametrize("method", ["fg", "saga", "a-ciag"])
def test_resuming_a_run_that_has_ended(problem, tmp_path, method):
    file = tmp_path / "run.npz"
    settings = {"method": method, "checkpoint": file}
    first = minimize(problem, **settings, tol=1e-6)
    again = minimize(problem, **settings, tol=1e-6, resume=True)
    assert again.x.tobytes() == first.x.tobytes()
    assert (again.nit, again.n_passes) == (first.nit, first.n_passes)
    further = minimize(problem, **settings, tol=1e-9, resume=True)
    assert further.optimality <= 1e-9
    iterates = []  # of a run that was never ended; it may be checked later than the one that was, but is the same run
    minimize(problem, method=method, tol=1e-12, callback=lambda result: iterates.append(result.x))
    assert further.x.tobytes() == iterates[further.nit - 1].tobytes()


def test_a_file_is_readable_as_the_user_wants_it(run, slow_svm, whole):
    plain = slow_svm.stat().st_mode
    assert (whole / "model.npz").stat().st_mode == plain
    assert (whole / "result.json").stat().st_mode == plain
    assert load(slow_svm).n_rows == 50
    assert threading.active_count() < 20
