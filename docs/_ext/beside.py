"""The directive ``beside``: equations on the left, the lines of the library that compute them on the right.

:::{beside} finitesum.methods.curvature.ciag:_visits
:from: for component in order
:to: n_visits += 1

equations and text
:::
"""

from docutils import nodes
from docutils.parsers.rst import directives
from sources import SRC, piece_of
from sphinx.util.docutils import SphinxDirective


class Beside(SphinxDirective):
    has_content = True
    required_arguments = 1
    option_spec = {"from": directives.unchanged, "to": directives.unchanged}  # noqa: RUF012

    def run(self):
        try:
            piece = piece_of(self.arguments[0], self.options.get("from"), self.options.get("to"))
        except LookupError as error:
            return [self.state.document.reporter.warning(str(error), line=self.lineno)]
        self.env.note_dependency(str(SRC / piece.file))
        text = nodes.container(classes=["beside-text"])
        text += self.parse_content_to_nodes()
        code = nodes.container(classes=["beside-code"])
        name = self.arguments[0].partition(":")[2]
        code += nodes.paragraph("", "", nodes.literal("", name), nodes.Text(f", {piece.file}, line {piece.first_line}"))
        code += nodes.literal_block(piece.text, piece.text, language="python")
        return [nodes.container("", text, code, classes=["beside"])]


def setup(app):
    app.add_directive("beside", Beside)
    return {"parallel_read_safe": True}
