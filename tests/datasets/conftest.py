"""Every test has a home folder of its own; real data are found by FINITESUM_DATA or beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REAL_DATA = Path(os.environ.get("FINITESUM_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(autouse=True)
def home_folder(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("FINITESUM_HOME", str(folder))
    monkeypatch.delenv("FINITESUM_DATA", raising=False)
    return folder


@pytest.fixture
def parsed(home_folder):
    return home_folder / "parsed"


@pytest.fixture(scope="session")
def real_file():
    def find(name):
        path = REAL_DATA / name
        if not path.is_file():
            pytest.skip(f"{name} is not in {REAL_DATA}: set FINITESUM_DATA to the folder that holds it")
        return path

    return find
