"""Checkpoints: a run killed at any moment goes on to the same bits; what does not fit is refused with a sentence."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse

from finitesum import METHODS, Problem, StopReason, minimize
from finitesum.constraints import L1Ball
from finitesum.core.arrays import Vector
from finitesum.core.files import writer_mark
from finitesum.core.jit import COMPILED, Kernel
from finitesum.evaluation.smoothness import full_smoothness
from finitesum.methods import FG
from finitesum.running import checkpoint as checkpoints
from finitesum.running.checkpoint import Checkpoint, CheckpointError, flatten, load, save, unflatten

#: A problem, and the arguments of a run of 40 passes that no tolerance ends.
CASE = """
import numpy as np
from finitesum import Problem
rng = np.random.default_rng(0)
X = rng.standard_normal((30, 3))
problem = Problem.linear(X, X @ rng.standard_normal(3) + rng.standard_normal(30) > 0, alpha=0.01, batch_size=2)
settings = {"tol": 0.0, "max_iter": 40, "sampling": "shuffled", "random_state": 3}
"""

#: Runs the case in a process of its own: method, checkpoint, seconds between checkpoints. Prints the passes.
CHILD = (
    CASE
    + """
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands ignore interrupts

import sys, time
from finitesum import minimize
method, path, seconds = sys.argv[1:]
def slowly(result):
    print(result.nit, flush=True)
    time.sleep(0.003)
settings.update(checkpoint=path, checkpoint_seconds=float(seconds), resume=True, callback=slowly)
minimize(problem, method=method, **settings)
"""
)


def the_case():
    namespace = {}
    exec(CASE, namespace)
    return namespace["problem"], namespace["settings"]


def bits(result):
    """Everything of a result but its times."""
    trace = {name: column.tobytes() for name, column in result.trace.to_dict().items() if name != "seconds"}
    return (
        result.x.tobytes(),
        result.fun,
        result.optimality,
        result.n_passes,
        result.n_hessian_passes,
        result.nit,
        result.reason,
        {key: value.tobytes() for key, value in flatten(result.state).items()},
        trace,
    )


def start_child(method, path, seconds):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, method, str(path), str(seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **({"NUMBA_DISABLE_JIT": "1"} if Kernel.as_python else {})},
    )


def wait_for_pass(child, k):
    for line in child.stdout:
        if int(line) >= k:
            return
    raise AssertionError(child.stderr.read())


# -- what is killed goes on


@pytest.mark.parametrize("method", ["a-ciag", "saga"])
def test_a_run_killed_at_random_moments_goes_on_to_the_same_bits(method, tmp_path):
    problem, settings = the_case()
    whole = bits(minimize(problem, method=method, **settings))
    path = tmp_path / "run.npz"
    moments = random.Random(method)
    k = 0
    for _ in range(2):  # the same run is killed again
        child = start_child(method, path, 0)
        wait_for_pass(child, k + moments.randint(2, 10))
        time.sleep(moments.uniform(0.0, 0.006))  # anywhere in a pass, a write or a rename
        child.send_signal(signal.SIGKILL)
        child.communicate()
        k = load(path).header["loop"]["k"]
        assert 0 < k < 40
    resumed = minimize(problem, method=method, checkpoint=path, resume=True, **settings)
    assert bits(resumed) == whole


@pytest.mark.parametrize("method", ["a-ciag", "saga"])
def test_an_interrupted_run_leaves_a_checkpoint_and_a_note(method, tmp_path):
    problem, settings = the_case()
    path = tmp_path / "run.npz"
    child = start_child(method, path, 1e9)  # no other checkpoint than the last
    wait_for_pass(child, 7)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate()
    assert child.returncode != 0
    assert f"The run was written to {path}; the same call goes on from there." in errors  # which says resume=True
    assert load(path).header["loop"]["k"] >= 6
    resumed = minimize(problem, method=method, checkpoint=path, resume=True, **settings)
    assert bits(resumed) == bits(minimize(problem, method=method, **settings))


@pytest.mark.parametrize("k", [1, 5, 39, 40])
@pytest.mark.parametrize("method", ["fg", "saga", "ciag"])
def test_an_interrupt_in_a_callback_loses_nothing(method, k, tmp_path):
    problem, settings = the_case()
    settings["options"] = {"step_size": 0.3}  # the search for one would be charged
    path = tmp_path / "run.npz"

    def interrupt(result):
        if result.nit == k:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        minimize(problem, method=method, checkpoint=path, checkpoint_seconds=1e9, callback=interrupt, **settings)
    assert caught.value.__notes__ == [f"The run was written to {path}; resume=True goes on from there."]
    resumed = minimize(problem, method=method, checkpoint=path, resume=True, **settings)
    assert bits(resumed) == bits(minimize(problem, method=method, **settings))


@pytest.mark.parametrize("place", ["order_for", "evaluate"])
@pytest.mark.parametrize("call", [1, 2, 3, 8])
def test_an_interrupt_at_other_lines_loses_nothing_either(place, call, tmp_path, monkeypatch):
    import finitesum.running.run as runs

    problem, settings = the_case()
    path = tmp_path / "run.npz"
    whole = bits(minimize(problem, method="saga", **settings))
    original, calls = getattr(runs, place), []

    def interrupting(*args, **kwargs):
        calls.append(place)
        if len(calls) == call + 1:  # the first measures the start
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(runs, place, interrupting)
        with pytest.raises(KeyboardInterrupt):
            minimize(problem, method="saga", checkpoint=path, checkpoint_seconds=1e9, **settings)
    assert bits(minimize(problem, method="saga", checkpoint=path, resume=True, **settings)) == whole


def test_without_a_checkpoint_an_interrupt_passes_through():
    problem, settings = the_case()

    def interrupt(_result):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        minimize(problem, method="fg", callback=interrupt, **settings)
    assert not hasattr(caught.value, "__notes__")


# -- going on from the end


@pytest.mark.parametrize("method", ["saga", "fg"])
def test_a_run_that_is_over_is_over_when_it_is_resumed(method, tmp_path):
    problem, settings = the_case()
    converging = settings | {"tol": 1e-4, "max_iter": 500}
    path = tmp_path / "run.npz"
    first = minimize(problem, method=method, checkpoint=path, **converging)
    assert first.success
    assert bits(minimize(problem, method=method, checkpoint=path, resume=True, **converging)) == bits(first)
    path.unlink()
    stopped = minimize(problem, method=method, checkpoint=path, **settings)
    assert bits(minimize(problem, method=method, checkpoint=path, resume=True, **settings)) == bits(stopped)


@pytest.mark.parametrize("method", ["saga", "fg", "psg"])
def test_a_run_that_has_converged_returns_its_result_without_a_pass(method, tmp_path, monkeypatch):
    problem, settings = the_case()
    if method == "psg":
        problem = Problem.linear(problem.rows, problem.targets, loss="hinge", constraint=L1Ball(1.0))
    converging = settings | {"tol": 1e-2, "max_iter": 2000, "checkpoint": tmp_path / "run.npz"}
    first = minimize(problem, method=method, **converging)
    assert first.success
    assert first.nit > 0
    written = load(tmp_path / "run.npz")
    monkeypatch.setattr(METHODS[method], "run_pass", never)
    for _ in range(2):
        assert bits(minimize(problem, method=method, resume=True, **converging)) == bits(first)
    assert load(tmp_path / "run.npz").header == written.header


@pytest.mark.filterwarnings("error" if COMPILED else "ignore:.*encountered in:RuntimeWarning")
def test_a_run_that_diverged_ends_in_the_same_way_when_it_is_resumed(tmp_path):
    problem, settings = the_case()
    problem = Problem.linear(problem.rows, problem.targets, loss="squared")
    arguments = {"method": FG(step_size=10.0 / full_smoothness(problem)), **settings}
    whole = minimize(problem, **arguments)
    assert whole.reason is StopReason.DIVERGED
    path = tmp_path / "run.npz"
    minimize(problem, checkpoint=path, **(arguments | {"max_iter": whole.nit - 2}))
    for _ in range(2):
        again = minimize(problem, checkpoint=path, resume=True, **arguments)
        assert bits(again) == bits(whole)
        assert again.message == whole.message


@pytest.mark.parametrize("method", ["saga", "fg", "a-ciag"])
def test_more_passes_go_on_as_if_they_had_been_asked_for_at_once(method, tmp_path):
    problem, settings = the_case()
    path = tmp_path / "run.npz"
    minimize(problem, method=method, checkpoint=path, **(settings | {"max_iter": 20}))
    assert bits(minimize(problem, method=method, checkpoint=path, resume=True, **settings)) == bits(
        minimize(problem, method=method, **settings)
    )


def test_a_smaller_tol_goes_on(tmp_path):
    problem, settings = the_case()
    path = tmp_path / "run.npz"
    arguments = {"method": "saga", "checkpoint": path, **settings, "max_iter": 500}
    loose = minimize(problem, **(arguments | {"tol": 1e-3}))
    tight = minimize(problem, resume=True, **(arguments | {"tol": 1e-8}))
    assert loose.success
    assert tight.success
    assert tight.optimality <= 1e-8 < loose.optimality
    assert tight.nit > loose.nit
    straight = minimize(problem, **(arguments | {"tol": 1e-8, "checkpoint": None}))
    assert tight.x.tobytes() == straight.x.tobytes()


@pytest.mark.parametrize("name", ["lazy-newton", "newton-cg"])
def test_what_auto_chose_goes_on_with_another_tol(name, tmp_path, monkeypatch):
    """These methods know the tolerance that they are to reach: that makes no other method of them."""
    rng = np.random.default_rng(0)
    n, d = (300, 20_000) if name == "newton-cg" else (8000, 60)
    monkeypatch.setattr("finitesum.methods.forecasts.forecast", lambda one, *_: 1.0 if one == name else 2.0)
    X = scipy.sparse.random_array((n, d), density=min(1.0, 10.0 / d), rng=rng, format="csr")
    problem = Problem.linear(X, X @ rng.standard_normal(d) + rng.standard_normal(n) > 0, alpha=0.01)
    arguments = {"checkpoint": tmp_path / "run.npz", "measure_every": 0}
    loose = minimize(problem, tol=1e-3, **arguments)
    assert loose.method.name == name
    assert loose.state.tol == 1e-3
    named = minimize(problem, method=name, tol=1e-3, measure_every=0)
    assert named.x.tobytes() == loose.x.tobytes()  # tol reaches a method whoever named it
    tight = minimize(problem, tol=1e-9, resume=True, **arguments)
    assert tight.success
    assert tight.nit > loose.nit
    assert tight.state.tol == 1e-9
    with pytest.raises(CheckpointError, match="method"):  # its other settings do
        minimize(problem, tol=1e-9, resume=True, method=name, options={"first_rows": 7}, **arguments)


def test_a_start_that_was_checked_is_not_checked_again(tmp_path):
    problem, settings = the_case()
    best = minimize(problem, method="a-ciag", tol=1e-10).x
    path = tmp_path / "run.npz"
    arguments = {"method": "saga", "checkpoint": path, **settings, "tol": 1e-8}
    first = minimize(problem, best, **arguments)
    assert (first.nit, first.n_passes) == (0, 1.0)
    assert bits(minimize(problem, best, resume=True, **arguments)) == bits(first)


def test_resume_without_a_file_starts_and_without_a_name_is_an_error(tmp_path):
    problem, settings = the_case()
    fresh = minimize(problem, method="fg", checkpoint=tmp_path / "new" / "run.npz", resume=True, **settings)
    assert bits(fresh) == bits(minimize(problem, method="fg", **settings))
    assert (tmp_path / "new" / "run.npz").exists()
    with pytest.raises(ValueError, match=r"^resume needs the checkpoint file to go on from: give checkpoint="):
        minimize(problem, method="fg", resume=True)


def test_a_seed_that_was_drawn_is_taken_from_the_checkpoint(tmp_path):
    problem, settings = the_case()
    path = tmp_path / "run.npz"
    arguments = {"method": "saga", "checkpoint": path, **settings, "random_state": None}
    first = minimize(problem, **(arguments | {"max_iter": 10}))
    second = minimize(problem, resume=True, **arguments)
    assert second.seed == first.seed
    assert bits(second) == bits(minimize(problem, method="saga", **(settings | {"random_state": first.seed})))


def test_checkpoints_are_written_as_often_as_asked(tmp_path, monkeypatch):
    problem, settings = the_case()
    written = []
    monkeypatch.setattr(checkpoints, "save", lambda _path, checkpoint: written.append(checkpoint.header["loop"]["k"]))
    arguments = {"method": FG(step_size=0.3), "checkpoint": tmp_path / "run.npz", **settings, "max_iter": 5}
    minimize(problem, checkpoint_seconds=0.0, **arguments)
    assert written == [1, 2, 3, 4, 5, 5]
    written.clear()
    minimize(problem, checkpoint_seconds=1e9, **arguments)
    assert written == [5]


# -- where a checkpoint may be written


def test_an_earlier_run_is_not_overwritten(good):
    problem, settings = the_case()
    before = good.read_bytes()
    with pytest.raises(CheckpointError, match=r"run\.npz holds an earlier run, which would be lost\. Give resume=True"):
        minimize(problem, method="fg", checkpoint=good, checkpoint_seconds=0.0, **settings)
    assert good.read_bytes() == before
    good.rename(good.with_name("kept.npz"))
    assert minimize(problem, method="fg", checkpoint=good, **settings).nit > 0
    assert good.exists()


def never(*_args):
    raise AssertionError("a pass was run")


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("place", ["folder", "file/run.npz", "file/below/run.npz", "x" * 300])
def test_a_path_that_cannot_be_written_is_refused_before_the_run(tmp_path, place, resume):
    problem, settings = the_case()
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r" cannot be written \(.*\)\. Give a checkpoint file in a folder that may"):
        minimize(problem, method="fg", checkpoint=tmp_path / place, callback=never, resume=resume, **settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_without_permission_is_refused_before_the_run(good, resume, monkeypatch):
    problem, settings = the_case()
    path, original = good if resume else good.with_name("new.npz"), Path.open

    def forbidden(file, mode="r", *args):  # for root everything is permitted
        if mode == "xb":
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return original(file, mode, *args)

    monkeypatch.setattr(Path, "open", forbidden)
    with pytest.raises(CheckpointError, match=rf"{path.name} cannot be written \(Permission denied\)"):
        minimize(problem, method="fg", checkpoint=path, resume=resume, callback=never, **settings)


def test_resuming_from_another_start_is_refused(tmp_path):
    problem, settings = the_case()
    path, x0 = tmp_path / "run.npz", np.ones(3)
    arguments = {"method": "saga", "checkpoint": path, "resume": True, **settings}
    minimize(problem, x0, **(arguments | {"max_iter": 5}))
    for other in (np.zeros(3), np.nextafter(x0, 2.0)):
        with pytest.raises(CheckpointError, match=r"run\.npz belongs to another start"):
            minimize(problem, other, **arguments)
    whole = bits(minimize(problem, x0, method="saga", **settings))
    short = path.read_bytes()
    assert bits(minimize(problem, x0, **arguments)) == whole
    path.write_bytes(short)
    assert bits(minimize(problem, **arguments)) == whole  # left out, it is that of the run
    path.write_bytes(short)
    minimize(problem, **(arguments | {"max_iter": 7}))  # and is still known when it is written again
    with pytest.raises(CheckpointError, match=r"another start"):
        minimize(problem, np.zeros(3), **arguments)


# -- foreign files


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("problem", {"problem": "other"}),
        ("method", {"method": "sag"}),
        ("method", {"options": {"step_size": 0.01}}),
        ("seed", {"random_state": 4}),
        ("sampling", {"sampling": "cyclic"}),
    ],
)
def test_a_foreign_checkpoint_is_refused_with_the_difference(part, change, tmp_path):
    problem, settings = the_case()
    path = tmp_path / "run.npz"
    arguments = {"method": "saga", "checkpoint": path, **settings, "max_iter": 2}
    minimize(problem, **arguments)
    before = path.read_bytes()
    other = problem.batched(3) if change.pop("problem", None) else problem
    with pytest.raises(CheckpointError, match=rf"run\.npz belongs to another {part}: it has .*, this run has .*\. Use"):
        minimize(other, resume=True, **(arguments | change))
    assert path.read_bytes() == before


# -- round trips


class Inner(NamedTuple):
    a: Vector
    count: int


class Outer(NamedTuple):
    x: Vector
    inner: Inner
    flag: bool
    step: float
    matrix: Vector


def test_nested_tuples_come_back_with_their_types_and_bits(tmp_path):
    state = Outer(
        np.array([0.1, -0.0, 5e-324, np.inf, np.nan]),
        Inner(np.zeros(0, dtype=np.int64), 2**62 + 1),
        True,
        1 / 3,
        np.arange(6.0).reshape(2, 3),
    )
    header = {"seed": 2**90, "loop": {"best": float("inf"), "start": float("nan")}, "text": "é"}
    save(tmp_path / "s.npz", Checkpoint(header, flatten(state)))
    found = load(tmp_path / "s.npz")
    assert found.header["seed"] == 2**90
    assert found.header["loop"]["best"] == float("inf")
    assert found.header["text"] == "é"
    back = unflatten(Outer, found.arrays)
    assert back.x.tobytes() == state.x.tobytes()
    assert back.inner.a.dtype == np.int64
    assert back.inner.a.shape == (0,)
    assert (type(back.inner.count), back.inner.count) == (int, 2**62 + 1)
    assert back.flag is True
    assert (type(back.step), back.step) == (float, 1 / 3)
    assert back.matrix.shape == (2, 3)
    assert back.matrix.flags.writeable


def test_a_missing_field_is_named():
    arrays = flatten(Inner(np.ones(1), 3))
    del arrays["state.count"]
    with pytest.raises(CheckpointError, match=r"^the checkpoint lacks state\.count\. It was written by another version"):
        unflatten(Inner, arrays)


# -- damaged files


@pytest.fixture
def good(tmp_path):
    problem, settings = the_case()
    path = tmp_path / "run.npz"
    minimize(problem, method="fg", checkpoint=path, **(settings | {"max_iter": 3}))
    return path


def refused(path):
    problem, settings = the_case()
    with pytest.raises(CheckpointError, match=rf"{path.name} .*|lacks") as caught:
        minimize(problem, method="fg", checkpoint=path, resume=True, **settings)
    return str(caught.value)


def test_empty_text_pickled_and_other_files_are_refused(tmp_path):
    import pickle

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "evil"),)

    files = {
        "empty.npz": b"",
        "text.npz": b"not a checkpoint\n",
        "pickle.npz": pickle.dumps(Evil()),
        "zeros.npz": bytes(5000),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert "is damaged or no checkpoint" in refused(tmp_path / name)
    np.save(tmp_path / "array.npy", np.ones(3))
    assert "is damaged or no checkpoint" in refused(tmp_path / "array.npy")
    np.savez(tmp_path / "objects.npz", header=np.array([Evil()], dtype=object))
    assert "is damaged or no checkpoint" in refused(tmp_path / "objects.npz")
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    assert "is damaged or no checkpoint" in refused(tmp_path / "other.npz")
    assert not (tmp_path / "evil").exists()


def test_other_formats_are_refused(tmp_path):
    for header in ({"format": "finitesum-checkpoint-2"}, {}, [1, 2], "text", 3):
        np.savez(tmp_path / "old.npz", header=np.array(json.dumps(header)))
        assert "is no checkpoint of this version (finitesum-checkpoint-3)" in refused(tmp_path / "old.npz")
    np.savez(tmp_path / "old.npz", header=np.array("{not json"))
    assert "is damaged or no checkpoint" in refused(tmp_path / "old.npz")


def test_what_cannot_be_read_is_not_called_damaged(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(CheckpointError, match="cannot be read"):
        load(tmp_path / "folder.npz")


@pytest.mark.parametrize("part", ["trace", "state.x", "header", "state.step_size"])
def test_a_file_without_a_part_is_refused(good, part):
    short = good.with_name("short.npz")
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(short, "w") as target:
        for name in source.namelist():
            if name != f"{part}.npy":
                target.writestr(name, source.read(name))
    refused(short)


def test_a_header_without_the_loop_is_refused(good):
    header, arrays = load(good)
    for loop in (None, {"passes": 3}):
        save(good, Checkpoint({key: value for key, value in {**header, "loop": loop}.items() if value}, arrays))
        assert "written by another version" in refused(good)


def test_every_truncated_file_is_refused(good):
    content = good.read_bytes()
    for n in [*range(0, len(content), 97), len(content) - 1]:
        good.write_bytes(content[:n])
        with pytest.raises(CheckpointError, match="is damaged or no checkpoint"):
            load(good)


def test_a_flipped_bit_never_changes_a_number(tmp_path):
    path = tmp_path / "s.npz"
    save(path, Checkpoint({"seed": 3}, {"state.x": np.arange(3.0)}))
    content, expected = path.read_bytes(), load(path)
    refusals = 0
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= (0x01, 0x80, 0xFF)[position % 3]
        path.write_bytes(damaged)
        try:
            found = load(path)
        except CheckpointError:
            refusals += 1
            continue
        assert found.header == expected.header
        for name, array in found.arrays.items():  # an array may be missing: that is seen later
            assert array.tobytes() == expected.arrays[name].tobytes()
    assert refusals > 0.5 * len(content)


# -- writing


@pytest.mark.parametrize("place", ["fsync", "replace", "write"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_crash_while_writing_leaves_the_old_file(place, error, tmp_path, monkeypatch):
    path = tmp_path / "s.npz"
    save(path, Checkpoint({"seed": 1}, {"state.x": np.ones(3)}))
    before = path.read_bytes()

    def crash(*_args, **_kwargs):
        raise error

    target = {"fsync": (os, "fsync"), "replace": (Path, "replace"), "write": (np, "savez")}[place]
    with monkeypatch.context() as patch:
        patch.setattr(*target, crash)
        with pytest.raises(type(error)):
            save(path, Checkpoint({"seed": 2}, {"state.x": np.zeros(3)}))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    save(path, Checkpoint({"seed": 2}, {"state.x": np.zeros(3)}))
    assert load(path).header["seed"] == 2


def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*s\.npz'"):
        save(tmp_path / "s.npz", Checkpoint({"seed": 1}, {}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="other systems tell by age alone")
def test_what_killed_runs_were_writing_is_removed_by_the_next_one(tmp_path):
    problem, settings = the_case()
    code = "from finitesum.core.files import writer_mark; print(writer_mark())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    for name in (f".run.npz{dead}.tmp", f".run.npz{writer_mark()}.tmp", f".other.npz{dead}.tmp"):
        (tmp_path / name).touch()
    minimize(problem, method="fg", checkpoint=tmp_path / "run.npz", **settings)
    assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == [".other.npz", ".run.npz", "run.npz"]


def test_an_interrupt_while_writing_waits_until_the_file_is_whole(tmp_path, monkeypatch):
    """Within zipfile, Ctrl-C would come out as a ValueError about an open handle."""
    path = tmp_path / "s.npz"
    savez = np.savez

    def interrupted(file, **arrays):
        signal.raise_signal(signal.SIGINT)
        savez(file, **arrays)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with monkeypatch.context() as patch:
            patch.setattr(np, "savez", interrupted)
            with pytest.raises(KeyboardInterrupt):
                save(path, Checkpoint({"seed": 1}, {"state.x": np.ones(3)}))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert load(path).header["seed"] == 1
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_made(tmp_path):
    save(tmp_path / "a" / "b" / "s.npz", Checkpoint({}, {}))
    assert load(tmp_path / "a" / "b" / "s.npz").arrays == {}


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.npz")
