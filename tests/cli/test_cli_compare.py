"""`finitesum compare`, `finitesum demo` and the reports that they write."""

import csv
import json
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest

from finitesum import METHODS, Problem
from finitesum.cli import demo as demo_module
from finitesum.cli.options import USUAL_SOLVERS
from finitesum.datasets import make_logistic
from finitesum.reporting import plots, report


class Page(HTMLParser):
    """Checks that a page is well formed; gathers what it refers to, its names and its text."""

    VOID = frozenset({"meta", "br", "link", "img", "hr", "input"})

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.ids, self.counts, self.text = [], [], Counter(), Counter(), []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.counts[tag] += 1
        for name, value in attrs:
            if name in ("href", "src", "xlink:href", "data", "action", "srcset"):
                self.links.append(value)
            elif name == "id":
                self.ids[value] += 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def check_page(path, n_figures):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not re.search(r"https?:|//[a-z]", text)
    assert "@import" not in text
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert max(page.ids.values()) == 1
    assert page.counts["svg"] == n_figures
    assert page.counts["script"] == page.counts["link"] == page.counts["img"] == 0
    return " ".join(" ".join(page.text).split())


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_files_of_a_comparison(run, svm, tmp_path):
    out = tmp_path / "report"
    result = run("compare", svm, "--solvers", "a-ciag,saga,IG", "--max-iter", "30", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in out.iterdir()) == [
        "curves.csv",
        "passes.png",
        "report.html",
        "seconds.png",
        "table.csv",
    ]
    text = check_page(out / "report.html", 1)
    assert "small: logistic loss, alpha = 1/n, with intercept" in text
    for name in ("passes.png", "seconds.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    summary = json.loads(result.stdout)
    assert [row["method"] for row in summary["methods"]] == ["a-ciag", "saga", "ig"]
    assert summary["methods"][0]["converged"] is True
    table = read_csv(out / "table.csv")
    assert [row["method"] for row in table] == ["a-ciag", "saga", "ig"]
    for row in read_csv(out / "curves.csv"):
        assert row["method"] in ("a-ciag", "saga", "ig")
        float(row["optimality"])


def test_progress_on_stderr_and_verdict_on_stdout(run, svm, tmp_path):
    result = run("compare", svm, "--solvers", "a-ciag", "--out", tmp_path / "a")
    assert "1 of 1 methods reached 1e-10; a-ciag first" in result.stdout
    assert "a-ciag     converged" in result.stderr
    assert run("compare", svm, "--solvers", "a-ciag", "--out", tmp_path / "b", "-q").stderr == ""


def test_a_report_is_not_overwritten(run, svm, tmp_path):
    args = ("compare", svm, "--solvers", "fg", "--max-iter", "3", "--out", tmp_path)
    assert run(*args).exit_code == 0
    refused = run(*args)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert run(*args, "--force").exit_code == 0
    assert run(*args, "--force", "--strict").exit_code == 3


def test_a_failing_method_is_a_line_of_the_table(run, svm, tmp_path, monkeypatch):
    def broken(self, problem, x0, tol):
        raise RuntimeError("<boom> & more")

    monkeypatch.setattr(METHODS["saga"], "init", broken)
    result = run("compare", svm, "--solvers", "saga,a-ciag", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "Failed: RuntimeError: <boom> & more" in result.stderr
    assert "Failed: RuntimeError: <boom> & more" in check_page(tmp_path / "report.html", 1)
    assert "Failed" in read_csv(tmp_path / "table.csv")[0]["message"]


def test_all_methods_fail(run, tmp_path):
    file = tmp_path / "counts.csv"
    file.write_text("x,y\n" + "".join(f"{x / 9},{x}\n" for x in range(10)))
    args = ("compare", file, "--target", "y", "--loss", "poisson", "--solvers", "fg,saga", "--out", tmp_path / "r")
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert "No method reached 1e-10" in result.stdout
    assert "step_size" in check_page(tmp_path / "r" / "report.html", 1)


def test_titles_are_escaped(tmp_path):
    trace = report.Trace([report.TraceRow(0.0, 0.0, 0.0, 1.0, 1.0, np.nan)])
    outcome = report.Outcome("a<b>", "A('<')", trace, False, "Stopped: & so on")
    section = report.Comparison("<script>alert(1)</script>", 1e-6, [outcome], {"data": "x<y"}, ["<i>"])
    page = report.write_report(tmp_path, [section], title="<b>", intro="<p>")
    text = check_page(page, 1)
    assert "<b>" in text
    assert "x<y" in text


def test_two_sections_have_their_own_files_and_names(tmp_path):
    data = make_logistic(40, 3, seed=0)
    problem = Problem.linear(data.rows, data.targets(), alpha=0.1)
    outcomes = report.run_methods(problem, ["fg"], tol=1e-6, max_iter=20)
    sections = [report.Comparison(title, 1e-6, outcomes) for title in ("First one", "Second: 2/3")]
    page = report.write_report(tmp_path, sections, title="Two")
    check_page(page, 2)
    names = {file.name for file in tmp_path.iterdir()}
    assert {"first-one-table.csv", "second-2-3-curves.csv", "report.html"} <= names


def test_comparisons_are_timed_without_compiling_and_leave_the_problem_alone():
    data = make_logistic(40, 3, density=0.5, seed=0)
    problem = Problem.linear(data.rows, data.targets(), alpha=0.1, fit_intercept=True)
    tiny = report.small_like(problem)
    assert type(tiny.view.rows) is type(problem.view.rows)
    assert tiny.rows.values.dtype == problem.rows.values.dtype
    assert tiny.rows.columns.dtype == problem.rows.columns.dtype
    assert (tiny.n_rows, tiny.has_intercept) == (4, True)
    seen = []
    outcomes = report.run_methods(problem, ["fg", METHODS["saga"](step_size=0.1)], max_iter=5, on_done=seen.append)
    assert seen == outcomes
    assert "step_size=0.1" in outcomes[1].settings


@pytest.mark.parametrize("against", [["n_passes"], ["seconds"], ["n_passes", "seconds"]])
def test_figures_take_what_runs_give(against):
    steps = np.arange(5.0)
    runs = {
        "a-ciag": (steps, 0.001 * steps, 10.0 ** -(2 * steps)),
        "diverges": (steps, steps, np.array([1.0, 1e3, 1e30, np.inf, np.nan])),
        "exact": (steps[:2], steps[:2], np.array([1.0, 0.0])),
        "empty": (steps[:0], steps[:0], steps[:0]),
        "unmeasured": (steps, steps, np.full(5, np.nan)),
    }
    columns = ("n_passes", "seconds", "optimality")
    curves = [(name, dict(zip(columns, found, strict=True))) for name, found in runs.items()]
    figure = plots.optimality_figure(curves, against, tol=1e-8, title="a title")
    assert len(figure.axes) == len(against)
    assert all(axes.get_yscale() == "log" for axes in figure.axes)
    assert figure.axes[0].get_ylim()[1] < 1e5
    assert plots.to_png(figure).startswith(b"\x89PNG")
    svg = plots.to_svg(figure, "it's <a> label")
    assert svg.startswith('<svg role="img" aria-label="it&#x27;s &lt;a&gt; label"')
    assert "http" not in svg
    plots.to_png(plots.optimality_figure([], against))


def test_styles_distinguish_methods():
    names = [*METHODS, "new", "newer", "newest"]
    styles = plots.styles_of(names)
    assert len({styles[name].color for name in USUAL_SOLVERS}) == len(USUAL_SOLVERS)
    assert len({(style.color, str(style.dashes), style.marker) for style in styles.values()}) == len(names)


@pytest.mark.slow
def test_demo(run, tmp_path, monkeypatch):
    out = tmp_path / "demo"
    result = run("demo", "--out", out)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) <= 8
    assert str(out / "report.html") in result.stdout
    assert "as close as it should be" in result.stdout
    assert "newton-cholesky" in check_page(out / "report.html", 3)
    first = demo_module._data_sets()[:1]
    monkeypatch.setattr(demo_module, "_data_sets", lambda: first)
    monkeypatch.setattr(demo_module, "AGREEMENT", 0.0)
    failed = run("demo", "--out", out, "--json", "-q")
    assert failed.exit_code == 1
    summary = json.loads(failed.stdout)
    assert summary["agrees"] is False
    assert summary["fits"][0]["coefficients_differ"] <= 1e-8


def test_methods_of_ones_own_are_named_by_their_place(run, svm, tmp_path):
    place = "finitesum.methods.first_order.full_gradient:FG"
    result = run("compare", svm, "--solvers", f"a-ciag,{place}", "--max-iter", "5", "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert [line["method"] for line in read_csv(tmp_path / "r" / "table.csv")] == ["a-ciag", "fg"]
    missing = run("compare", svm, "--solvers", "nowhere.at_all:Method", "--out", tmp_path / "s")
    assert missing.exit_code == 2
    assert "no method 'Method' in the module 'nowhere.at_all'" in missing.output
