"""``finitesum methods``: the table of all methods."""

import click

from finitesum.cli.console import Console, console_options, text_table

_HEADINGS = {
    "name": "method",
    "title": "what it is",
    "storage": "remembers",
    "work": "work of a visit",
    "passes": "visits to accuracy eps",
    "needs": "which needs F to be",
    "treats": "treats",
    "reference": "reference",
}


@click.command()
@console_options
def methods(*, console: Console) -> None:
    """List the methods, what each needs, treats and costs.

    All figures are orders. m components of one row each (m visits are a pass), d columns; kappa is the condition number of
    F, kappa_max that of its worst component. "as built": slopes are kept that could be computed again.

    "treats" names what a method treats beside smooth linear models. l1: l1 penalties; weights: penalty weights; prox:
    separable penalties known by their prox; groups: the group lasso; nonconvex: MCP and SCAD; constraint: constraints;
    nonsmooth: nonsmooth losses; callables: callables that give subgradients; components: components given as functions;
    outputs: several outputs; parts: rows in parts, by sums over them (what treats components sees a part as one).
    """
    from finitesum.methods import METHODS, options_of
    from finitesum.methods.base import TREATS

    rows = []
    for name, cls in METHODS.items():
        treats = [word for word in TREATS if word in cls.handles]
        rows.append({"name": name, **cls.card._asdict(), "treats": treats, "options": options_of(cls)})
    shown = [row | {"treats": ", ".join(row["treats"])} for row in rows]
    lines = [list(_HEADINGS.values()), *([row[name] for name in _HEADINGS] for row in shown)]
    console.result(rows, text_table(lines))
