"""One thread, so that torch leaves the other cores alone; small images made here."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def one_thread():
    import torch  # without it no test of this folder gets here

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def own_folders(tmp_path, monkeypatch):
    """A folder of data that is the only one to be searched."""
    monkeypatch.setenv("FINITESUM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FINITESUM_DATA", "")
    folder = tmp_path / "images"
    folder.mkdir()
    return folder


@pytest.fixture
def images():
    """Three classes of noisy images, each bright in a corner of its own."""
    from finitesum.papers.networks.data import Images

    generator = np.random.default_rng(1)
    labels = generator.integers(0, 3, 120)
    pixels = generator.uniform(0.0, 0.6, (120, 1, 6, 6)).astype(np.float32)
    for i, label in enumerate(labels):
        pixels[i, 0, (label // 2) * 3 : (label // 2) * 3 + 3, (label % 2) * 3 : (label % 2) * 3 + 3] += 0.4
    return Images("made", 3, pixels[:80], labels[:80], pixels[80:], labels[80:])
