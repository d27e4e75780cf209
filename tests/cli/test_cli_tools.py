"""`finitesum methods`, `warmup`, `doctor` and `data`."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum import METHODS, Problem, minimize
from finitesum.cli import warmup as warmup_module
from finitesum.core.files import prune
from finitesum.core.jit import COMPILED, Kernel
from finitesum.datasets import list_datasets
from finitesum.losses import LOSSES


def test_methods(run):
    text = run("methods").stdout
    rows = json.loads(run("methods", "--json").stdout)
    assert [row["name"] for row in rows] == list(METHODS)
    for name, cls in METHODS.items():
        assert cls.card.title in text
        assert f"\n{name} " in text
    assert "step_size" in rows[0]["options"]
    for row in rows:
        assert set(row["treats"]) == METHODS[row["name"]].handles
        assert ", ".join(row["treats"]) in text


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_warmup(run, monkeypatch, tmp_path):
    warmup_module.compile_all(warmup_module.Signature("logistic", "float64", "dense"))  # where kernels belong
    folder = tmp_path / "kernels" / ("0" * 16)
    folder.mkdir(parents=True)
    (folder / "kept.nbc").write_bytes(b"x" * 10)
    monkeypatch.setattr("finitesum.core.kernel_folder.cache_folder", lambda: folder)
    result = run("warmup", "--loss", "logistic", "--layout", "dense", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["folder"] == str(folder)
    assert report["bytes"] == 10
    assert [row["layout"] for row in report["signatures"]] == ["dense"]
    assert "logistic float64 dense" in result.stderr
    assert "kinds of problems compiled" in run("warmup", "--loss", "logistic", "--layout", "dense", "-q").stdout


@pytest.mark.parametrize(
    ("asked", "kinds"),
    [
        ([], [(loss, "float64", layout) for loss in ("logistic", "squared") for layout in ("dense", "csr-int32")]),
        (
            ["--loss", "huber", "--loss", "huber", "--dtype", "float32"],
            [("huber", "float32", k) for k in ("dense", "csr-int32")],
        ),
        (["--layout", "csr-int64", "--loss", "squared"], [("squared", "float64", "csr-int64")]),
    ],
)
@pytest.mark.parametrize(("purpose", "methods"), [("all", None), ("auto", warmup_module.OF_AUTO)])
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_warmup_compiles_what_is_asked_for(run, monkeypatch, asked, kinds, purpose, methods):
    seen = []
    monkeypatch.setattr(warmup_module, "compile_all", lambda *task: seen.append(task))
    result = run("warmup", "--for", purpose, "--workers", "1", *asked)
    assert result.exit_code == 0, result.output
    assert seen == [(warmup_module.Signature(*kind), methods) for kind in kinds]


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_warmup_in_two_processes_keeps_all_that_one_would(tmp_path):
    folder = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "finitesum", "warmup", "--for", "auto", "--loss", "squared", "--json", "--workers"]
    first, again = (
        json.loads(subprocess.run([*command, n], env=folder, capture_output=True, check=True).stdout) for n in "21"
    )
    assert [row["layout"] for row in first["signatures"]] == ["dense", "csr-int32"]
    assert again["bytes"] == first["bytes"]  # nothing was left to compile


def n_signatures():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("finitesum")]
    kernels = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Kernel)}
    return sum(kernel.signatures for kernel in kernels.values())


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_nothing_is_left_to_compile(run, csv_file):
    warmup_module.compile_all(warmup_module.Signature("logistic", "float64", "dense"))
    before = n_signatures()
    for method in METHODS:
        for more in ([], ["--no-intercept"], ["--l1-ratio", "0.5"], ["--step-size", "0.1"], ["--batch-size", "3"]):
            run("fit", csv_file, "--solver", method, "--max-iter", "5", *more)
    assert n_signatures() == before


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_nothing_is_left_to_compile_for_newton_s_methods_on_sparse_rows(monkeypatch):
    names = ("lazy-newton", "newton-cg", "working-set-newton", "coordinate-descent")
    monkeypatch.setattr("finitesum.methods.METHODS", {name: METHODS[name] for name in names})
    warmup_module.compile_all(warmup_module.Signature("logistic", "float64", "csr-int32"))
    before = n_signatures()
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 60), density=0.2, rng=rng, format="csr")
    y = np.where(X @ rng.standard_normal(60) > 0, 1.0, -1.0)
    for name, (alpha, l1_ratio), intercept in itertools.product(
        names, [(0.1, 0.0), (1e-5, 0.0), (1e-3, 0.5)], (False, True)
    ):
        problem = Problem.linear(X, y, alpha=alpha, l1_ratio=l1_ratio, fit_intercept=intercept)
        minimize(problem, method=name, max_iter=300)
    assert n_signatures() == before


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
@pytest.mark.parametrize(
    ("loss", "layout"), [("hinge", "dense"), ("hinge", "csr-int32"), ("squared-hinge", "dense"), ("quantile", "csr-int32")]
)
def test_nothing_is_left_to_compile_for_losses_with_corners(loss, layout):
    warmup_module.compile_all(warmup_module.Signature(loss, "float64", layout), warmup_module.OF_AUTO)
    before = n_signatures()
    rng = np.random.default_rng(0)
    X = sp.random_array((200, 30), density=0.3, rng=rng, format="csr")
    y = X @ rng.standard_normal(30) + 0.3 * rng.standard_normal(200)
    y = y > 0.0 if "hinge" in loss else y
    for alpha, intercept in itertools.product((0.1, 1e-4), (False, True)):
        problem = Problem.linear(
            X if layout != "dense" else X.toarray(), y, loss=loss, alpha=alpha, fit_intercept=intercept
        )
        for method in ("auto", "dual-ascent"):
            minimize(problem, method=method, tol=1e-6)
    assert n_signatures() == before


def test_several_classes_leave_nothing_to_compile_but_their_methods():
    warmup_module.compile_all(warmup_module.Signature("multinomial", "float64", "dense"), ("multinomial-newton",))


@pytest.mark.parametrize("loss", [*LOSSES, "multinomial"])
def test_a_tiny_problem_has_targets_of_each_loss(loss):
    assert warmup_module.tiny_problem(warmup_module.Signature(loss, "float64", "dense")).n_rows == 4


@pytest.mark.parametrize("dtype", warmup_module.DTYPES)
@pytest.mark.parametrize("layout", warmup_module.LAYOUTS)
def test_tiny_problems_are_laid_out_as_asked(dtype, layout):
    rows = warmup_module.tiny_problem(warmup_module.Signature("squared", dtype, layout)).view.rows
    assert rows.values.dtype == dtype
    assert rows.is_sparse() == (layout != "dense")
    if rows.is_sparse():
        assert layout.endswith(str(rows.columns.dtype))
        assert layout.endswith(str(rows.starts.dtype))


def test_stale_kernels_are_removed(tmp_path):
    current, old, recent, other = (tmp_path / name for name in ("a" * 16, "b" * 16, "c" * 16, "notes"))
    for folder in (current, old, recent, other):
        folder.mkdir()
        (folder / "kernel.nbc").write_bytes(b"12345")
    long_ago = time.time() - 10 * warmup_module.STALE_SECONDS
    for folder in (current, old, other):
        os.utime(folder, (long_ago, long_ago))
    assert prune(current, warmup_module.STALE_SECONDS) == (1, 5)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["a" * 16, "c" * 16, "notes"]


@pytest.mark.parametrize("kernels", ["python", pytest.param("compiled", marks=pytest.mark.slow)])
def test_doctor(run, kernels):
    result = run("doctor")
    assert result.exit_code == 0, result.output
    assert result.stdout.rstrip().endswith("All is well.")
    report = json.loads(run("doctor", "--json").stdout)
    assert report["problems"] == []
    assert report["fit"]["error"] < 1e-11
    assert report["kernels"]["writable"] is True
    assert report["libraries"]["numba"]
    assert report["data"]["folder"] == os.environ["FINITESUM_HOME"]
    files = list(Path(report["kernels"]["folder"]).glob("*.nbc-*"))
    assert report["kernels"]["kernels kept"] == len(files)
    assert files or kernels == "python" or not report["kernels"]["compiled"]  # the first call has kept one


def test_doctor_finds_what_is_broken(run, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FINITESUM_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("finitesum.core.kernel_folder.cache_folder", lambda: None)

    def broken(*args, **options):
        raise RuntimeError("no luck")

    monkeypatch.setattr("finitesum.running.driver.minimize", broken)
    result = run("doctor")
    assert result.exit_code == 1
    for what in ("no folder is writable for compiled kernels", "is not writable for data", "fit: RuntimeError: no luck"):
        assert what in result.stdout


def test_data_list(run, svm, monkeypatch):
    text = run("data", "list").stdout
    rows = json.loads(run("data", "list", "--json").stdout)
    assert [row["name"] for row in rows] == [entry.name for entry in list_datasets()]
    assert "a9a" in text
    assert not any(row["here"] for row in rows)
    (svm.parent / "a9a.svm").write_text(svm.read_text())
    monkeypatch.setenv("FINITESUM_DATA", str(svm.parent))
    here = {row["name"]: row["path"] for row in json.loads(run("data", "list", "--json").stdout) if row["here"]}
    assert here == {"a9a": str(svm.parent / "a9a.svm")}


def test_data_path_and_fetch(run, svm, monkeypatch, tmp_path):
    absent = run("data", "path", "a9a")
    assert absent.exit_code == 2
    assert "not on this machine" in absent.stderr
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "a9a").write_text(svm.read_text())
    fetched = run("data", "fetch", "a9a", "--mirror", mirror.as_uri())
    if fetched.exit_code == 0:  # the file is not a9a, but no checksum of it is known
        path = fetched.stdout.strip()
        assert path.startswith(os.environ["FINITESUM_HOME"])
        assert run("data", "path", "a9a").stdout.strip() == path
        assert json.loads(run("data", "path", "a9a", "--json").stdout) == {"name": "a9a", "path": path}
    else:
        assert "SHA-256" in fetched.stderr


def test_data_verify(run, svm, monkeypatch):
    assert run("data", "verify").exit_code == 2
    assert run("data", "verify", "a9a").exit_code == 2
    (svm.parent / "a1a.svm.xz").write_bytes(b"damaged")
    (svm.parent / "w8a.svm").write_text(svm.read_text())
    monkeypatch.setenv("FINITESUM_DATA", str(svm.parent))
    damaged = run("data", "verify", "--json")
    assert damaged.exit_code == 1
    outcome = {row["name"]: row["good"] for row in json.loads(damaged.stdout)}
    assert outcome == {"a1a": False, "w8a": True}
    assert run("data", "verify", "w8a").exit_code == 0
    counted = run("data", "verify", "w8a", "--counts")
    assert counted.exit_code == 1
    assert "DAMAGED" in counted.stdout
