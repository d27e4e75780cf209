"""Formulas as MathML, which browsers draw by themselves: the pages need no script and no network."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

# \frac12: docutils reads the number 12
_SHORT_FRACTION = re.compile(r"(\\t?frac)(\w)(\w)")

_log = logging.getLogger(__name__)


def _markup(node, as_block):
    source = _SHORT_FRACTION.sub(r"\1{\2}{\3}", node.astext().strip())
    wrapped = rf"\begin{{aligned}}{source}\end{{aligned}}" if r"\\" in source else source
    try:
        return tex2mathml(wrapped, as_block=as_block)
    except MathError as error:
        _log.warning("formula %r: %s", source, error, location=node)
        return f"<code>{source}</code>"


def _inline(self, node):
    self.body.append(_markup(node, as_block=False))
    raise nodes.SkipNode


def _block(self, node):
    self.body.append(f'<div class="formula">{_markup(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("browsers", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True}
