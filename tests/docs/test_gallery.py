"""The gallery: every example runs, and draws what it says."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "gallery").glob("*/plot_*.py"))


def test_there_is_a_gallery():
    assert len(EXAMPLES) >= 15
    assert all((example.parent / "GALLERY_HEADER.rst").exists() for example in EXAMPLES)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, capsys):
    pytest.importorskip("pandas", reason="pandas is not installed: pip install '.[test]'")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.close("all")
    runpy.run_path(str(example), run_name="__main__")
    try:
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")
    assert "nan" not in capsys.readouterr().out.split()
