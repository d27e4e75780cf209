import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_mnist.py"


@pytest.mark.slow
@pytest.mark.skipif(not EXAMPLE.is_file(), reason="the examples are not part of this copy")
def test_the_example_trains_on_digits_where_mnist_is_absent(own_folders, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--epochs", "2"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    assert "digits of scikit-learn" in out
    losses = [float(loss) for loss in re.findall(r"training loss ([\d.]+)", out)]
    assert len(losses) == 2
    assert losses[1] < losses[0] < 2.4
