"""Makes a page in results/benchmarks/ of each file that the benchmark programs wrote, and a table of headline figures."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parents[1]


def _write_pages(app, config):
    folder = HERE / "results" / "benchmarks"
    folder.mkdir(exist_ok=True)
    names = {file.name for file in (HERE.parent / "benchmarks" / "results").glob("*.md")}
    for file in folder.glob("*.md"):
        if file.name not in names:
            file.unlink()
    for name in names:
        text = f"```{{include}} ../../../benchmarks/results/{name}\n:relative-images:\n```\n"
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def headlines(text):
    """Return a line for each part of the page of use cases: cases, median and least ratio, cases that did not end."""
    lines = []
    for part in text.split("\n## ")[1:]:
        cells = [line.split(" | ") for line in part.splitlines() if re.match(r"\| .* \| 1e-", line)]
        found = re.search(r"Ratios: median (\d+\.\d+), least (\d+\.\d+)", part)
        missing = sorted({row[0].strip("| ") for row in cells if row[2] == "-"})
        if found:
            cases = len({row[0] for row in cells})
            lines.append((part.splitlines()[0], str(cases), *found.groups(), "; ".join(missing) or "none"))
    return lines


class Headlines(SphinxDirective):
    """The ratios of `benchmarks/usecases.py`: seconds of the best peer by ours."""

    def run(self):
        file = HERE.parent / "benchmarks" / "results" / "usecases.md"
        self.env.note_dependency(str(file))
        header = ("data", "cases", "median", "least", "gaps that we did not reach")
        rows = [header, *headlines(file.read_text(encoding="utf-8"))]
        group = nodes.tgroup("", *(nodes.colspec(colwidth=width) for width in (12, 8, 8, 8, 40)), cols=len(header))
        built = [nodes.row("", *(nodes.entry("", nodes.paragraph("", text)) for text in row)) for row in rows]
        group += [nodes.thead("", built[0]), nodes.tbody("", *built[1:])]
        return [nodes.table("", group)]


def setup(app):
    app.add_directive("benchmark-headlines", Headlines)
    app.connect("config-inited", _write_pages)
    return {"parallel_read_safe": True}
