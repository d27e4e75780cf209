"""Formulas of docstrings, which are written for a terminal, as mathematics: paragraphs that hold nothing but a formula."""

import re

#: Words of formulas, and what they are in TeX.
WORDS = {
    **{
        name: rf"\{name} "
        for name in ("alpha", "beta", "gamma", "delta", "epsilon", "theta", "sigma", "lambda", "mu", "phi")
    },
    **{name: rf"\{name} " for name in ("sum", "exp", "log", "max", "min", "cosh", "tanh", "sup")},
    "loss": r"\ell ",
    "infinity": r"\infty ",
    "sqrt": r"\sqrt ",
    "grad": r"\nabla ",
    "prox": r"\operatorname{prox}",
    **{name: rf"\operatorname{{{name}}}" for name in ("logsumexp", "argmin", "clip", "sign")},
    "Phi": r"\Phi ",
    "over": r"\quad\text{over}\quad ",
    "for": r"\quad\text{for}\quad ",
    "where": r"\quad\text{where}\quad ",
    "or": r"\ \text{or}\ ",
    "and": r"\ \text{and}\ ",
    "in": r" \in ",
    "such": r"\quad\text{such}",
    "that": r"\text{ that}\quad ",
    "lam": r"\lambda ",
}

#: Names of several letters that are set upright.
NAMES = (
    *("l1_ratio", "value", "power", "penalty", "momentum", "step_size", "step", "damping", "scale", "radius", "total"),
    *("low", "high", "previous", "l1", "l2"),
)

_TOKEN = re.compile(
    r"(?P<name>\b(?:" + "|".join(NAMES) + r")\b)|(?P<fraction>\(1/(\w)\))|(?P<word>[A-Za-z]{2,}(?=_|\b))|(?P<norm>\|\|)"
    r"|(?P<bar>\|)|(?P<transposed>')|(?P<below>_\((?P<in_below>[^()]*)\))|(?P<index>_(?P<in_index>[^\W_]+))"
    r"|(?P<braces>_\{(?P<in_braces>[^{}]*)\})|(?P<reference>\[\d(?:, \d)*\])|(?P<left><(?=[a-z],))|(?P<right>(?<=[a-z])>)"
    r"|(?P<above>\^\((?P<in_above>[^()]*)\))|(?P<power>\^(?P<in_power>-?\w+))|(?P<many>\.\.\.)|(?P<least>>=)|(?P<most><=)"
    r"|(?P<space>[ ]{2,})|(?P<sign>\+-)|(?P<set>[{}%&#])"
)


def as_tex(text):
    """Return a formula in TeX; None for what is no formula.

    >>> print(as_tex("F(w) = (1/S) sum_i s_i exp(x_i'w) + alpha/2 ||w||^2"))
    F(w) = \\frac{1}{S} \\sum _{i} s_{i} \\exp (x_{i}^\\top w) + \\alpha /2 {\\Vert w\\Vert }^{2}
    """
    if not re.match(r"^[A-Za-z]{1,2}[+]?(_\w+|_\([^()]*\))?(\([^=]*?\))? (=|<=|>=) ", text):
        return None
    unknown, bars = [], []

    def replaced(match):
        kind, found = match.lastgroup, match.group()
        if kind == "name":
            return r"\text{" + found + "}"
        if match.group("fraction"):
            return rf"\frac{{1}}{{{found[3]}}}"
        if kind == "word":
            if found not in WORDS and len(found) > 2:
                unknown.append(found)
            return WORDS.get(found, found)
        for name in ("below", "index", "braces", "above", "power"):
            if match.group(name):
                return (
                    ("^" if name in ("above", "power") else "_")
                    + "{"
                    + match.group(f"in_{name}").replace(" in ", r" \in ")
                    + "}"
                )
        if kind == "norm":
            bars.append(found)
            return r"{\Vert " if len(bars) % 2 else r"\Vert }"
        fixed = {"bar": "|", "transposed": r"^\top ", "many": r"\ldots ", "least": r"\ge ", "most": r"\le "}
        return {
            **fixed,
            "space": r"\quad ",
            "sign": r"\pm ",
            "left": r"\langle ",
            "right": r"\rangle ",
            "reference": "",
            "set": "\\" + found,
        }[kind]

    tex = _TOKEN.sub(replaced, text)
    return None if unknown else tex.rstrip(",. ")


def typeset(lines):
    """Return the lines of a docstring with formulas that stand alone as directives."""
    out, k = [], 0
    while k < len(lines):
        end = k
        while end < len(lines) and lines[end].strip():
            end += 1
        indent = lines[k][: len(lines[k]) - len(lines[k].lstrip())]
        is_alone = end > k and (k == 0 or not lines[k - 1].strip())
        tex = as_tex(" ".join(line.strip() for line in lines[k:end])) if is_alone else None
        if tex is not None:
            indent = _without_literal_block(out, indent)
            out += [f"{indent}.. math::", "", f"{indent}   {tex}", ""]
            k = end
        else:
            out += lines[k : max(end, k + 1)]
            k = max(end, k + 1)
    return out


def _without_literal_block(lines, indent):
    """Let the last paragraph, where it ends with ::, begin no literal block; return its indent then, else the given one."""
    last = next((k for k in reversed(range(len(lines))) if lines[k].strip()), None)
    if last is None or not lines[last].endswith("::"):
        return indent
    before = lines[last][:-2]
    lines[last] = before.rstrip() if before.endswith(" ") else f"{before}:"
    return before[: len(before) - len(before.lstrip())]


def _on_docstring(app, what, name, obj, options, lines):
    lines[:] = typeset(lines)


def setup(app):
    app.connect("autodoc-process-docstring", _on_docstring, priority=850)  # after numpydoc, before what escapes markup
    return {"parallel_read_safe": True}
