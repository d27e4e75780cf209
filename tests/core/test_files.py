"""Folders that another user could write to, and what killed processes leave."""

import os
import subprocess
import sys

import pytest

from finitesum.core.files import make_folders, remove_leftovers, unsafe_part, writer_mark

unix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are those of Unix")
root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a folder away")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "a" / "b" / "c"
    make_folders(place)
    return place


@unix
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize(("mode", "is_safe"), [(0o700, True), (0o755, True), (0o777, False), (0o757, False)])
def test_every_parent_counts(folder, depth, mode, is_safe):
    place = [folder, *folder.parents][depth]
    place.chmod(mode)
    assert unsafe_part(folder) == (None if is_safe else place)


@unix
def test_anybody_may_add_to_a_parent_with_the_sticky_bit(folder):
    folder.parent.chmod(0o1777)
    assert unsafe_part(folder) is None
    folder.parent.chmod(0o700)
    folder.chmod(0o1777)  # here another user could have put a file first
    assert unsafe_part(folder) == folder


@root
def test_groups_and_other_owners(folder):
    folder.parent.chmod(0o775)
    assert unsafe_part(folder) is None  # the group has the user's own number
    os.chown(folder.parent, 0, 12345)
    assert unsafe_part(folder) == folder.parent
    os.chown(folder.parent.parent, 12345, 0)
    folder.parent.chmod(0o755)
    assert unsafe_part(folder) == folder.parent.parent


@unix
def test_a_link_counts_as_what_it_leads_to(folder, tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    (open_to_all / "inside").mkdir()
    (folder / "link").symlink_to(open_to_all / "inside")
    assert unsafe_part(folder / "link") == open_to_all


@unix
def test_folders_are_made_so_that_they_are_safe(tmp_path):
    before = os.umask(0)
    try:
        make_folders(tmp_path / "x" / "y")
    finally:
        os.umask(before)
    assert unsafe_part(tmp_path / "x" / "y") is None
    assert (tmp_path / "x" / "y").stat().st_mode & 0o077 == 0


def test_what_dead_processes_left_is_removed_at_once_and_other_files_when_they_are_old(tmp_path):
    code = "from finitesum.core.files import writer_mark; print(writer_mark())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    names = [f".x{dead}.tmp", f".x{writer_mark()}.tmp", ".x-00000000-1-aa.tmp", ".x-old", f".other{dead}.tmp"]
    for name in names:
        (tmp_path / name).mkdir() if name == names[0] else (tmp_path / name).touch()
    os.utime(tmp_path / ".x-old", (0, 0))
    remove_leftovers(tmp_path, ".x")
    gone = {names[0], ".x-old"} if hasattr(os, "getuid") else {".x-old"}
    assert {path.name for path in tmp_path.iterdir()} == set(names) - gone
    remove_leftovers(tmp_path / "missing", ".x")
