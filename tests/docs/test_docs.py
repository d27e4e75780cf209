"""The documentation: each method has a page whose code exists, examples run, and Sphinx builds it without warnings."""

import importlib.util
import inspect
import itertools
import re
import runpy
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import finitesum
from finitesum import METHODS, estimators
from finitesum.cli import main
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, Polyhedron, Simplex
from finitesum.papers.experiment import names

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
pytestmark = pytest.mark.compiled  # what is added to the library is to be compiled as it says

BUILDERS = ("sphinx", "numpydoc", "pydata_sphinx_theme", "myst_parser", "sphinx_gallery", "pandas", "torch")


def sources():
    spec = importlib.util.spec_from_file_location("docs_sources", DOCS / "_ext" / "sources.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example(name):
    return runpy.run_path(str(DOCS / name))


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_a_page_with_its_equations_beside_its_code(name):
    page = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    assert f"```{{method-card}} {name}\n" in page
    assert f".. autoclass:: finitesum.methods.{METHODS[name].__name__}\n" in page
    assert re.search(r"^## .*proven.* measured$", page, re.MULTILINE | re.IGNORECASE)
    assert "$$" in page
    assert sources().pieces_on(page)
    assert re.search(rf"^{name}$", (DOCS / "methods" / "index.md").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", [p for p in PAGES if "{beside}" in p.read_text(encoding="utf-8")], ids=lambda p: p.stem)
def test_the_code_beside_equations_is_there(page):
    text = page.read_text(encoding="utf-8")
    pieces = sources().pieces_on(text)
    assert len(pieces) == text.count("{beside}")
    for name, first, last in pieces:
        assert sources().piece_of(name, first, last).text.strip()


def test_each_public_name_and_each_experiment_has_its_place():
    named = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    elsewhere = {"METHODS", "__version__"}
    assert [name for name in finitesum.__all__ if name not in elsewhere and f"   {name}\n" not in named] == []
    results = (DOCS / "results" / "papers.md").read_text(encoding="utf-8")
    assert [name for name in names() if f"```{{recorded-claims}} {name}\n" not in results] == []


def test_the_changelog_names_each_method_estimator_and_command():
    told = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [name for name in (*METHODS, *estimators.__all__, *main.list_commands(None)) if f"`{name}`" not in told] == []


def test_the_version_is_the_same_everywhere():
    root = DOCS.parent
    with (root / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == finitesum.__version__
    assert f"\nversion: {finitesum.__version__}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")


def test_the_evidence_of_the_features_is_there():
    page = (DOCS / "features.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:tests|benchmarks|src)/[^`]*)`", page)
    assert len(paths) > 20
    assert [path for path in paths if not (DOCS.parent / path).exists()] == []
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {12}


def test_headlines_are_those_of_the_page_of_use_cases():
    spec = importlib.util.spec_from_file_location("benchmark_pages", DOCS / "_ext" / "benchmark_pages.py")
    module = importlib.util.module_from_spec(spec)
    pytest.importorskip("sphinx")
    spec.loader.exec_module(module)
    text = (DOCS.parent / "benchmarks" / "results" / "usecases.md").read_text(encoding="utf-8")
    found = module.headlines(text)
    assert [line[0].lower() for line in found] == ["known", "generated", "unseen", "drawn", "drawn last"]
    assert all(float(median) >= float(least) > 0.0 for _, _, median, least, _ in found)


def test_formulas_of_docstrings_are_mathematics():
    spec = importlib.util.spec_from_file_location("formulas", DOCS / "_ext" / "formulas.py")
    formulas = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(formulas)
    assert formulas.as_tex("over w in the set, with y_i = +-1") is None
    assert formulas.as_tex("x_i = the words of a row") is None
    math = pytest.importorskip("docutils.utils.math.latex2mathml", reason="docutils is not installed")
    public = [getattr(estimators, name) for name in estimators.__all__ if not name.endswith(("CV", "_path"))]
    for documented in [*public, finitesum.Problem, finitesum.FiniteSum, finitesum.minimize]:
        lines = formulas.typeset(inspect.getdoc(documented).splitlines())
        found = [lines[k + 2].strip() for k, line in enumerate(lines) if line.startswith(".. math::")]
        assert found, documented
        assert all("<msub>" in math.tex2mathml(tex, as_block=True) or "<mo>=" in math.tex2mathml(tex) for tex in found)
    behind = ["The projection in a metric s is ::", "", "    y = x - S^-1 A'v", "", "exactly."]  # no literal block
    assert formulas.typeset(behind)[:3] == ["The projection in a metric s is", "", ".. math::"]
    for documented in (Box, HalfSpace, L1Ball, L2Ball, Polyhedron, Simplex):
        lines = [line for line in formulas.typeset(inspect.getdoc(documented).splitlines()) if line.strip()]
        assert not any(one.endswith("::") and "math::" in two for one, two in itertools.pairwise(lines))


def test_code_that_is_gone_is_missed():
    with pytest.raises(LookupError, match="has no _visit_of_old"):
        sources().piece_of("finitesum.methods.curvature.ciag:_visit_of_old")
    with pytest.raises(LookupError, match="no line holds 'in reverse'"):
        sources().piece_of("finitesum.methods.curvature.ciag:_visits", "in reverse")


def test_the_loss_that_is_added_has_right_derivatives_and_a_majorant():
    found = example("extend/pseudo_huber.py")
    loss, width = found["PseudoHuber"](), 1e-5
    points = np.linspace(-4.0, 4.0, 33)
    for u in points:
        slope = (loss.value(u + width, 0.5) - loss.value(u - width, 0.5)) / (2 * width)
        curvature = (loss.d1(u + width, 0.5) - loss.d1(u - width, 0.5)) / (2 * width)
        jerk = (loss.d2(u + width, 0.5) - loss.d2(u - width, 0.5)) / (2 * width)
        assert loss.d1_d2(u, 0.5) == pytest.approx((slope, curvature), abs=1e-8)
        assert loss.d2(u, 0.5) <= loss.curvature_bound()
        assert abs(jerk) <= loss.d2_lipschitz() + 1e-8
        above = [
            loss.value(u, 0.5) + loss.d1(u, 0.5) * (v - u) + 0.5 * loss.majorant(u, 0.5) * (v - u) ** 2 for v in points
        ]
        assert all(bound >= loss.value(v, 0.5) - 1e-12 for v, bound in zip(points, above, strict=True))
    result = found["main"]()
    assert result.success
    assert result.x == pytest.approx(np.arange(1.0, 6.0), abs=0.1)  # a tenth of the targets is off by 100


def test_the_penalty_that_is_added_has_the_prox_that_it_says():
    found = example("extend/log_penalty.py")
    grid = np.arange(-6_000, 6_001) / 1_000.0
    for penalty in (found["LogSum"](0.2, 0.5), found["LogSum"](1.0, 0.1)):
        values = np.array([penalty.penalty_value(w) for w in grid])
        for step in (0.1, 1.0, 3.0):
            for v in (-5.0, -0.7, -0.05, 0.0, 0.3, 1.1, 4.0):
                w = penalty.prox_at(v, step)
                cost = penalty.penalty_value(w) + (w - v) ** 2 / (2.0 * step)
                assert cost <= np.min(values + (grid - v) ** 2 / (2.0 * step)) + 1e-12
    result = found["main"]()
    assert result.success
    assert "stationary point" in result.message
    assert result.x[:3] == pytest.approx([3.0, -2.0, 1.0], abs=0.1)
    assert not result.x[3:].any()


def test_the_constraint_that_is_added_is_projected_on():
    found = example("extend/band_constraint.py")
    band = found["Band"](1.0)
    x, metric = np.array([3.0, -1.0, 2.0]), np.array([1.0, 2.0, 4.0])
    for s in (np.ones(3), metric):
        p = band.project(x, s)
        assert band.contains(p)
        assert band.support(s * (x - p)) == pytest.approx(s * (x - p) @ p)
    inside = np.array([0.5, -0.25, 0.5])
    assert band.project(inside, metric) == pytest.approx(inside)
    result = found["main"]()
    assert result.success
    assert result.x.sum() == pytest.approx(1.0)


def test_the_method_that_is_added_converges():
    found = example("extend/barzilai_borwein.py")
    result = found["main"]()
    assert result.success
    assert result.optimality <= 1e-10


def test_the_printed_projection_ends_in_the_wrong_place():
    found = example("methods/counterexample.py")
    g = found["g"]
    assert found["last_iterate"]("euclidean") == pytest.approx([-0.5, -0.5], abs=1e-6)  # delta is 1e-8
    assert g @ found["last_iterate"]("weighted") == pytest.approx(-1.0, abs=1e-6)


@pytest.mark.slow
def test_the_pages_are_built_without_a_warning(tmp_path):
    for package in BUILDERS:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install '.[doc]'")
    # A process of its own: what Sphinx imports warns, and this one takes warnings for errors.
    import subprocess

    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-E",
        "-q",
        "-D",
        "plot_gallery=0",
        "-b",
        "html",
        DOCS,
        tmp_path / "html",
    ]
    built = subprocess.run(
        [*map(str, command), "-d", str(tmp_path / "doctrees")], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    start = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert "demo.png" in start
    for name in METHODS:
        page = (tmp_path / "html" / "methods" / f"{name}.html").read_text(encoding="utf-8")
        assert "<math" in page
        assert 'class="highlight-python' in page
