"""Tables of what the library itself says: ``method-card NAME``, ``methods-table`` and ``recorded-claims NAME``."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from finitesum import METHODS
from finitesum.methods.base import TREATS
from finitesum.papers.experiment import SIZES
from finitesum.papers.runner import recorded

LINES = {
    "What it is": "title",
    "Remembers": "storage",
    "Work of a visit": "work",
    "Visits to accuracy eps": "passes",
    "Which needs F to be": "needs",
    "From": "reference",
}


def _row(*texts, header=False):
    row = nodes.row()
    for text in texts:
        content = [text] if isinstance(text, nodes.Node) else [nodes.paragraph("", text)]
        row += nodes.entry("", *content)
    return row


def _table(rows, widths, header=None):
    group = nodes.tgroup(cols=len(widths))
    group += [nodes.colspec(colwidth=width) for width in widths]
    if header:
        group += nodes.thead("", _row(*header))
    group += nodes.tbody("", *[_row(*row) for row in rows])
    return nodes.table("", group, classes=["method-card"])


class MethodCard(SphinxDirective):
    """The card of a method as a table."""

    required_arguments = 1

    def run(self):
        method = METHODS[self.arguments[0]]
        rows = [(label, getattr(method.card, field)) for label, field in LINES.items()]
        treated = [words for word, words in TREATS.items() if word in method.handles]
        rows.append(("Treats, beside smooth linear models", ", ".join(treated) or "nothing"))
        rows.append(("Order of visits", method.default_sampling))
        return [_table(rows, (30, 70))]


class MethodsTable(SphinxDirective):
    """All methods, with links to their pages."""

    def run(self):
        rows = []
        for name, method in METHODS.items():
            link = nodes.reference("", name, internal=True, refuri=f"{name}.html")
            card = method.card
            treated = ", ".join(word for word in TREATS if word in method.handles)
            rows.append((nodes.paragraph("", "", link), card.title, card.storage, card.work, card.passes, treated))
        header = ("Method", "What it is", "Remembers", "Work of a visit", "Visits to accuracy eps", "Treats")
        return [_table(rows, (12, 20, 13, 15, 20, 20), header)]


class RecordedClaims(SphinxDirective):
    """The claims of an experiment, with what became of them in the recorded runs."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        rows = [(claim, outcome, size) for size in SIZES for claim, outcome in recorded(name, size)["verdicts"].items()]
        if not rows:
            return [nodes.paragraph("", "Recorded are values alone, which --check compares.")]
        return [_table(rows, (50, 40, 10), ("Claim", "Here", "Size"))]


def setup(app):
    app.add_directive("method-card", MethodCard)
    app.add_directive("methods-table", MethodsTable)
    app.add_directive("recorded-claims", RecordedClaims)
    return {"parallel_read_safe": True}
