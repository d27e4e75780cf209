"""Damaged files of every kind that is read: `python tests/fuzz/campaign.py --files 10000` reads more of them."""

import pytest

pytest.importorskip("torch", reason="images for networks are among the files that are read")
from fuzz.campaign import run
from fuzz.kinds import kinds


def test_some_files_of_each_kind():
    counts, failures = run(2 * len(kinds()), seed=10**6)
    assert not failures, "\n".join(failures)
    assert counts["refused"] > counts["read"] > 20


@pytest.mark.slow
def test_many_files():
    counts, failures = run(1500, seed=2 * 10**6)
    assert not failures, "\n".join(failures)
    assert counts["refused"] + counts["read"] == 1500
