"""Draws the rooms of the package, from the import contract itself: ``rooms CONTRACT`` shows its layers as a picture."""

import configparser
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
WIDTH, HEIGHT, GAP = 720, 46, 8


def layers(contract):
    """Return the container of a contract, and its lines from the top: a list of lists of names."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    section = parser[f"importlinter:contract:{contract}"]
    lines = [line.split("|") for line in section["layers"].splitlines() if line.strip()]
    return section["containers"].strip(), [[name.strip(" ()") for name in line] for line in lines]


def n_lines(path):
    """Return the number of lines of a module, or of all modules in a folder."""
    folder = ROOT / "src" / path
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def picture(container, rows):
    """Return an SVG with one line of boxes for each layer: what stands higher imports from what stands lower."""
    parts = []
    for k, names in enumerate(rows):
        y, width = k * (HEIGHT + GAP), (WIDTH - GAP * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            x = column * (width + GAP)
            count = n_lines(f"{container}/{name}".replace(".", "/"))
            parts.append(
                f'<g><rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}" rx="6" class="room"/>'
                f'<text x="{x + width / 2:.0f}" y="{y + 20}" class="room-name">{escape(name)}</text>'
                f'<text x="{x + width / 2:.0f}" y="{y + 37}" class="room-size">{count:,} lines</text></g>'
            )
    height = len(rows) * (HEIGHT + GAP) - GAP
    label = f"The layers of {container}, from the top: " + "; ".join(", ".join(names) for names in rows)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" class="rooms" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


class Rooms(SphinxDirective):
    """The layers of a contract in .importlinter as a picture."""

    required_arguments = 1

    def run(self):
        self.env.note_dependency(str(ROOT / ".importlinter"))
        return [nodes.raw("", picture(*layers(self.arguments[0])), format="html")]


def setup(app):
    app.add_directive("rooms", Rooms)
    return {"parallel_read_safe": True}
