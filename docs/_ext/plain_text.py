"""Docstrings are written for a terminal: norms, ||x||, and names with a last underscore, scale_, are no markup there."""

import re

_QUOTED = re.compile(r"(`[^`]*`)")
_LAST_UNDERSCORE = re.compile(r"(?<=\w)_(?=[\s,;.:)]|$)")


def _escaped(app, what, name, obj, options, lines):
    literal_indent = None
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal_indent is not None and line.strip() and indent <= literal_indent:
            literal_indent = None
        if literal_indent is None and not line.lstrip().startswith((">>>", "..")):
            lines[i] = "".join(_escaped_text(part) for part in _QUOTED.split(line))
        if "::" in line and literal_indent is None:
            literal_indent = indent


def _escaped_text(part):
    if part.startswith("`"):
        return part
    return _LAST_UNDERSCORE.sub(r"\_", part.replace("|", r"\|"))


def _is_left_out(app, what, name, obj, skip, options):
    """Leave out what a class has from another library, and the fields of tuples, which the class's text describes."""
    if type(obj).__name__ == "_tuplegetter" or re.fullmatch(r"set_\w+_request", name):
        return True
    function = obj.fget if isinstance(obj, property) else getattr(obj, "__func__", obj)
    module = getattr(function, "__module__", None)
    return True if callable(function) and module and not module.startswith("finitesum") else None


def setup(app):
    app.connect("autodoc-process-docstring", _escaped, priority=900)  # after numpydoc
    app.connect("autodoc-skip-member", _is_left_out)
    return {"parallel_read_safe": True}
