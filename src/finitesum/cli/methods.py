"""``finitesum methods``: the table of all methods."""

from __future__ import annotations

import click

from finitesum.cli.console import Console, console_options, text_table

_HEADINGS = {
    "name": "method",
    "title": "what it is",
    "storage": "remembers",
    "work": "work of a visit",
    "passes": "visits to accuracy eps",
    "needs": "which needs F to be",
    "reference": "reference",
}


@click.command()
@console_options
def methods(*, console: Console) -> None:
    """List the methods, what each needs and what it costs.

    All figures are orders. m components of one row each (m visits are a pass), d columns; kappa is the condition number of
    F, kappa_max that of its worst component. "as built": slopes are kept that could be computed again.
    """
    from finitesum.methods import METHODS

    rows = [
        {"name": name, **cls.card._asdict(), "options": list(cls.__dataclass_fields__)} for name, cls in METHODS.items()
    ]
    lines = [list(_HEADINGS.values()), *([row[name] for name in _HEADINGS] for row in rows)]
    console.result(rows, text_table(lines))
