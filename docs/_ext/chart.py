"""Draws the chart of questions that lead to a method: ``which-method``."""

from html import escape

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

#: Question, and the methods where the answer is yes; the last one is left where all are answered by no.
QUESTIONS = [
    ("A neural network?", "torch.AdaHB"),
    ("Functions of your own, no linear model?", "a-ciag with Hessians, else svrg"),
    ("Several classes or targets?", "multinomial-lbfgs, multinomial-newton"),
    ("A loss with corners and an l2 penalty?", "dual-ascent, semismooth-newton"),
    ("A loss with corners, and up to some thousand columns?", "interior-point, linear-program"),
    ("A loss with corners, and larger?", "adahb, hb"),
    ("Groups of columns?", "newton, working-set-newton"),
    ("Another penalty known by its prox (MCP, SCAD)?", "afg; not convex: fg"),
    ("An l1 penalty, or coefficients >= 0?", "coordinate-descent"),
    ("An l1 ball or simplex, and many columns?", "working-set-newton"),
    ("Does a matrix of all columns fit into memory?", "lazy-newton, lbfgs; small: newton"),
    ("", "newton-cg"),
]

WIDTH, HEIGHT, STEP, LEFT, RIGHT = 780, 34, 52, 410, 290


def picture():
    """Return an SVG: questions below each other, and the answers at their right."""
    parts = []
    for k, (question, methods) in enumerate(QUESTIONS):
        y, x, width = k * STEP, WIDTH - RIGHT, RIGHT
        if question:
            parts.append(_box(0, y, LEFT, question, "room"))
            parts.append(_arrow(LEFT, y + HEIGHT / 2, x, y + HEIGHT / 2, "yes", LEFT + 28, y + HEIGHT / 2 - 5))
            parts.append(_arrow(LEFT / 2, y + HEIGHT, LEFT / 2, y + STEP, "no", LEFT / 2 + 16, y + HEIGHT + 13))
        else:
            x, width = 0, LEFT
        parts.append(_box(x, y, width, methods, "room answer"))
    height = len(QUESTIONS) * STEP - STEP + HEIGHT
    label = "; ".join(f"{question or 'otherwise'} {methods}" for question, methods in QUESTIONS)
    box = f"-1 -1 {WIDTH + 2} {height + 2}"  # with room for half of the frames' width
    return f'<svg viewBox="{box}" class="rooms" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _box(x, y, width, text, kind):
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="6" class="{kind}"/>'
        f'<text x="{x + width / 2:.0f}" y="{y + HEIGHT / 2 + 5:.0f}">{escape(text)}</text>'
    )


def _arrow(x1, y1, x2, y2, text, x, y):
    dx, dy = (-7, 4) if y1 == y2 else (4, -7)
    other = (-7, -4) if y1 == y2 else (-4, -7)
    head = f"M{x2} {y2} L{x2 + dx} {y2 + dy} L{x2 + other[0]} {y2 + other[1]} Z"
    return (
        f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" class="arrow"/>'
        f'<path d="{head}" class="arrow-head"/>'
        f'<text x="{x:.0f}" y="{y:.0f}" class="room-size">{text}</text>'
    )


class WhichMethod(SphinxDirective):
    """The questions as a picture."""

    def run(self):
        return [nodes.raw("", picture(), format="html")]


def setup(app):
    app.add_directive("which-method", WhichMethod)
    return {"parallel_read_safe": True}
