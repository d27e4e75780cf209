"""Where machine code is kept, that it is found again, and that nothing stale is ever run."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import finitesum
from finitesum.core import kernel_folder
from finitesum.core.files import prune
from finitesum.core.jit import COMPILED

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is compiled under NUMBA_DISABLE_JIT")

PACKAGE = Path(finitesum.__file__).parent

#: Fits a tiny problem; prints x as bytes, cache hits, the folder and the warnings.
FIT = """
import json, sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np
    from finitesum import Problem, minimize
    from finitesum.core import jit, kernel_folder
    from finitesum.evaluation import row_sums
    problem = Problem.linear(np.array([[1.0, 0.5], [0.0, 2.0], [1.5, -1.0]]), [0.5, -1.0, 2.0], loss="squared", alpha=0.1)
    with jit.as_compiled():
        result = minimize(problem, method="fg", tol=1e-8)
print(json.dumps({
    "success": bool(result.success),
    "x": result.x.tobytes().hex(),
    "hits": row_sums._add_losses.cache_hits,
    "folder": None if kernel_folder.cache_folder() is None else str(kernel_folder.cache_folder()),
    "stamp": kernel_folder.source_stamp(),
    "warnings": [[warning.category.__name__, str(warning.message)] for warning in caught],
}))
"""


def fit_elsewhere(folder, **environment):
    """Run FIT in a process of its own whose working folder is `folder`."""
    import json

    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "FINITESUM_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", FIT], env=clean | environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def choose_folder(monkeypatch, tmp_path):
    """A function that chooses the folder again, with everything that it reads below tmp_path."""
    for name in ("NUMBA_CACHE_DIR", "FINITESUM_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    (tmp_path / "file").touch()
    return kernel_folder.cache_folder.__wrapped__


def test_the_folder_is_the_first_of_the_documented_ones(choose_folder, monkeypatch, tmp_path):
    stamp = kernel_folder.source_stamp()
    below_a_file = str(tmp_path / "file" / "below")  # nothing can be made there, not even by root
    if sys.platform.startswith("linux"):
        assert choose_folder() == tmp_path / "user" / "finitesum" / "kernels" / stamp
    monkeypatch.setenv("FINITESUM_HOME", str(tmp_path / "home"))
    assert choose_folder() == tmp_path / "home" / "kernels" / stamp
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert choose_folder() == tmp_path / "numba" / stamp
    monkeypatch.setenv("NUMBA_CACHE_DIR", below_a_file)
    assert choose_folder() == tmp_path / "home" / "kernels" / stamp
    monkeypatch.setenv("FINITESUM_HOME", below_a_file)
    monkeypatch.setenv("XDG_CACHE_HOME", below_a_file)
    monkeypatch.setenv("HOME", below_a_file)
    in_temp = choose_folder()
    assert in_temp.parent.parent == tmp_path / "temp"
    assert in_temp.name == stamp
    assert in_temp.stat().st_mode & 0o077 == 0


def test_without_a_writable_folder_there_is_one_warning(choose_folder, monkeypatch, tmp_path):
    for name in ("NUMBA_CACHE_DIR", "FINITESUM_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "file" / "below"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match=r"^No folder is writable .* Set NUMBA_CACHE_DIR to a writable folder"):
        assert choose_folder() is None


@pytest.mark.skipif(not hasattr(os, "chown") or os.getuid() != 0, reason="only root can give a folder away")
def test_machine_code_in_somebody_elses_folder_is_not_trusted(choose_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "below"))
    ours = choose_folder()
    os.chown(ours.parent, 12345, 12345)  # who owns the folder above can put another one in its place
    with pytest.warns(RuntimeWarning, match="No folder is writable"):
        assert choose_folder() is None
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    os.chown(choose_folder(), 12345, 12345)
    with pytest.warns(RuntimeWarning, match="No folder is writable"):
        assert choose_folder() is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes are those of Unix")
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "FINITESUM_HOME"])
def test_a_folder_below_one_that_anybody_may_write_to_is_passed_over(choose_folder, monkeypatch, tmp_path, variable):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv(variable, str(tmp_path / "open" / "deep" / "down"))
    assert tmp_path / "open" not in choose_folder().parents
    (tmp_path / "open").chmod(0o1777)
    assert tmp_path / "open" in choose_folder().parents


def test_a_home_that_is_unknown_makes_no_folder_here(choose_folder, monkeypatch, tmp_path):
    import pooch

    monkeypatch.setattr(pooch, "os_cache", lambda _project: Path("~/.cache/finitesum"))  # what it then answers
    monkeypatch.chdir(tmp_path)
    assert choose_folder().parent.parent == tmp_path / "temp"
    assert not (tmp_path / "~").exists()


def test_a_second_process_finds_the_machine_code(tmp_path):
    first = fit_elsewhere(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    second = fit_elsewhere(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    assert first["success"]
    assert first["folder"] == second["folder"] == str(tmp_path / "kernels" / kernel_folder.source_stamp())
    assert (first["hits"], second["hits"]) == (0, 1)
    assert first["x"] == second["x"]
    assert first["warnings"] == second["warnings"] == []


def test_where_nothing_is_writable_all_works_with_one_warning(tmp_path):
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "below")
    found = fit_elsewhere(
        tmp_path, HOME=nowhere, XDG_CACHE_HOME=nowhere, NUMBA_CACHE_DIR=nowhere, FINITESUM_HOME=nowhere, **no_temp(tmp_path)
    )
    assert found["success"]
    assert found["folder"] is None
    kinds, texts = zip(*found["warnings"], strict=True)
    assert kinds == ("RuntimeWarning",)
    assert texts[0].startswith("No folder is writable for compiled kernels")


def no_temp(folder):
    """Make tempfile.gettempdir() answer a folder below a file, through a start-up module of the process."""
    below = folder / "file" / "below"
    (folder / "sitecustomize.py").write_text(f"import tempfile\ntempfile.tempdir = {str(below)!r}\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(PACKAGE.parent)])}


def test_an_edited_kernel_source_changes_the_stamp_and_another_module_does_not(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "finitesum", ignore=shutil.ignore_patterns("__pycache__", "datasets", "torch"))

    def stamp():
        code = "from finitesum.core import kernel_folder; print(kernel_folder.PACKAGE, kernel_folder.source_stamp())"
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
        )
        folder, digest = done.stdout.split()
        assert folder == str(tmp_path / "finitesum")
        return digest

    def append(name, text):
        with (tmp_path / "finitesum" / name).open("a") as file:
            file.write(text)

    first = stamp()
    append("running/checkpoint.py", "\n# holds no kernel\n")
    assert stamp() == first
    append("losses/margins.py", "\n# compiled into kernels\n")
    second = stamp()
    assert second != first
    append("core/jit.py", "\n")
    assert stamp() not in (first, second)


def test_kernels_of_equal_names_in_modules_of_equal_names_have_files_of_their_own():
    def named(module):
        def visits():
            pass

        visits.__module__ = module
        from finitesum.core.compiler import _Locator

        return _Locator(visits, Path()).get_disambiguator()

    assert named("finitesum.methods.base") != named("finitesum.constraints.base")


def test_a_kernel_outside_of_the_package_is_compiled_anew_when_its_file_changes(tmp_path):
    def run(number):
        (tmp_path / "mine.py").write_text(
            f"from finitesum.core.jit import kernel\n@kernel\ndef f(x):\n    return x + {number}\n"
        )
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONDONTWRITEBYTECODE": "1"}
        code = "import mine; print(mine.f(1), mine.f.cache_hits)"
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert [run(1000), run(1000), run(2000)] == ["1001 0\n", "1001 1\n", "2001 0\n"]


def test_old_kernels_go_when_a_new_version_begins_its_own(choose_folder, tmp_path):
    kernels = choose_folder().parent
    shutil.rmtree(kernels)
    for name in ("0123456789abcdef", "fedcba9876543210", "0123456789ABCDEF", "notes", "0123456789abcde"):
        (kernels / name).mkdir(parents=True)
        (kernels / name / "kernel.nbc").write_bytes(b"code")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (kernels / ("a" * 16)).symlink_to(elsewhere, target_is_directory=True)
    old = time.time() - 31 * 86_400
    for name in sorted(path.name for path in kernels.iterdir()):
        if name != "fedcba9876543210":
            os.utime(kernels / name, (old, old))
    folder = choose_folder()
    left = {path.name for path in kernels.iterdir()}
    assert left == {folder.name, "fedcba9876543210", "0123456789ABCDEF", "notes", "0123456789abcde", "a" * 16}
    assert (elsewhere / "file").exists()
    os.utime(kernels / "fedcba9876543210", (old, old))
    assert choose_folder() == folder
    assert (kernels / "fedcba9876543210").exists()  # a start that makes no folder reads none
    assert prune(folder, 0.0) == (1, 4)


def test_what_cannot_be_removed_is_no_error(choose_folder, monkeypatch):
    folder = choose_folder()
    (folder.parent / "0123456789abcdef").mkdir()

    def forbidden(_path):
        raise PermissionError

    monkeypatch.setattr(shutil, "rmtree", forbidden)
    assert prune(folder, 0.0) == (0, 0)
    monkeypatch.setattr(Path, "iterdir", forbidden)
    assert prune(folder, 0.0) == (0, 0)


def same(x):
    return x


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes are those of Unix")
def test_machine_code_is_not_loaded_once_others_may_write_to_its_folder(tmp_path):
    first = fit_elsewhere(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    assert first["hits"] == 0
    Path(first["folder"]).chmod(0o777)
    (tmp_path / "user").mkdir()
    second = fit_elsewhere(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "kernels"), XDG_CACHE_HOME=str(tmp_path / "user"))
    assert second["hits"] == 0
    assert second["x"] == first["x"]
    from finitesum.core.compiler import _KernelCache

    cache = _KernelCache(same)
    Path(cache._cache_path).chmod(0o777)
    try:
        assert cache.load_overload(None, None) is None
    finally:
        Path(cache._cache_path).chmod(0o700)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a limit of Linux")
def test_a_full_disk_costs_the_machine_code_and_not_the_fit(tmp_path):
    code = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    code += "from finitesum import Problem, minimize\nfrom finitesum.core.jit import as_compiled\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
    code += "problem = Problem.linear([[1.0], [3.0]], [0.0, 2.0], loss='squared')\n"
    code += "with as_compiled(): print(minimize(problem, method='fg').success)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    assert f"Compiled kernels cannot be kept in {tmp_path}" in done.stderr
