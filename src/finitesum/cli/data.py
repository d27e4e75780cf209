"""``finitesum data``: the registry of public data sets."""

from typing import Any

import click

from finitesum.cli.console import Console, console_options, text_table
from finitesum.cli.errors import BROKEN, InputError


@click.group()
def data() -> None:
    """Public data sets: list, fetch, path, verify."""


@data.command("list")
@console_options
def list_all(*, console: Console) -> None:
    """List the data sets that are known by name."""
    from finitesum.datasets import find, list_datasets

    rows: list[dict[str, Any]] = []
    lines: list[tuple[Any, ...]] = [("name", "rows", "features", "classes", "here", "what it is")]
    for entry in list_datasets():
        file = find(entry.name)
        size = {"name": entry.name, "rows": entry.n_rows, "features": entry.n_features}
        lines.append((*size.values(), entry.n_classes or "-", "yes" if file else "no", entry.title))
        place = {"here": file is not None, "path": file and str(file)}
        more = {"downloadable": any(part.urls for part in entry.files), "title": entry.title}
        rows.append({**size, "classes": entry.n_classes, **place, **more})
    console.result(rows, text_table(lines))


@data.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--mirror", "mirrors", multiple=True, help="Address of a folder that is tried first; may be repeated.")
@console_options
def fetch(*, console: Console, names: tuple[str, ...], mirrors: tuple[str, ...]) -> None:
    """Download data sets that are not on this machine; give their paths."""
    from finitesum import datasets

    files = {name: str(datasets.fetch(name, mirrors=mirrors, progress=console.draws)) for name in names}
    console.result(files, "\n".join(files.values()))


@data.command()
@click.argument("name")
@console_options
def path(*, console: Console, name: str) -> None:
    """Give the path of a data set on this machine."""
    from finitesum import datasets

    file = str(datasets.path(name))
    console.result({"name": name, "path": file}, file)


@data.command()
@click.argument("names", nargs=-1)
@click.option("--counts", is_flag=True, help="Read each file as well, and count its rows, features and classes.")
@console_options
@click.pass_context
def verify(ctx: click.Context, /, *, console: Console, names: tuple[str, ...], counts: bool) -> None:
    """Check the files of data sets against their checksums: of the named ones, or of all that are on this machine.

    Exit code 1 when a file is not what it should be.
    """
    from finitesum import datasets

    chosen = names or [entry.name for entry in datasets.list_datasets() if datasets.find(entry.name) is not None]
    if not chosen:
        raise InputError("no data set of the registry is on this machine. Name one, or get one by 'finitesum data fetch'.")
    rows: list[dict[str, Any]] = []
    for name in chosen:
        file = datasets.path(name)  # its absence is an error of the call, not of the file
        with console.busy(f"checking {name}"):
            rows.append(_verify(name, str(file), counts))
    console.result(rows, "\n".join(f"{row['name']}: {row['message']}" for row in rows))
    if not all(row["good"] for row in rows):
        ctx.exit(BROKEN)


def _verify(name: str, file: str, counts: bool) -> dict[str, Any]:
    """Return the outcome of checking a file."""
    from finitesum import datasets

    try:
        found = datasets.verify(name, counts=counts)
    except datasets.DataError as error:
        return {"name": name, "path": file, "good": False, "message": f"DAMAGED: {error}"}
    known = {"registry": "checksum agrees with the registry", "first download": "checksum as at the first download"}
    message = known.get(found.known_from, "present; no checksum is known")
    message += "; rows, features and classes counted" if counts else ""
    return {"name": name, "path": file, "good": True, "message": message, "sha256": found.sha256}
