"""``finitesum reproduce``: the figures and tables of both papers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from finitesum.cli.console import Console, console_options, text_table
from finitesum.cli.errors import BROKEN
from finitesum.cli.options import FILE, FOLDER, shown

if TYPE_CHECKING:
    from finitesum.papers.experiment import Size
    from finitesum.papers.runner import Finished


@click.command(short_help="Run the experiments of both papers: list, NAME or all.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--quick", is_flag=True, help="A few minutes for all of them.")
@click.option("--check", "checked", is_flag=True, help="Compare with recorded values; exit with code 1 on a difference.")
@shown(
    "--out", "finitesum-papers", "Folder for the page, figures and tables; an interrupted run continues there.", type=FOLDER
)
@click.option("--data", "data_dir", type=FOLDER, help="Folder of data, searched first.")
@click.option("--record", "record_to", type=FILE, hidden=True, help="Record the outcomes.")
@console_options
@click.pass_context
def reproduce(
    ctx: click.Context, /, *, console: Console, names: tuple[str, ...], quick: bool, out: Path, **options: Any
) -> None:
    """Run experiments of both papers and write one page with figures, tables and what became of each claim.

    NAME is list, all, or names of the list such as ciag/fig1. Give the same command again to continue an interrupted
    run. Data are looked for in the folder of --data, in those of FINITESUM_DATA and in FINITESUM_HOME/data; what is
    absent is left out, and the page says where to get it.
    """
    from finitesum.papers.claims import tally
    from finitesum.papers.experiment import experiments
    from finitesum.papers.runner import PAGE, run_experiments

    if names == ("list",):
        found = experiments(("all",))
        rows = [{"name": e.name, "title": e.title, "section": e.section, "data": list(e.data)} for e in found]
        table = [(e.name, f"{e.title} ({e.section})" if e.section else e.title) for e in found]
        console.result(rows, text_table(table))
        return
    size: Size = "quick" if quick else "full"
    command = " ".join(["finitesum reproduce", *names, *(["--quick"] if quick else [])])
    try:
        asked = {"size": size, "verbose": console.verbose, "command": command, **options}
        done = run_experiments(experiments(names), out, on_done=lambda finished: _report(console, finished), **asked)
    except KeyboardInterrupt:
        console.warn(f"interrupted. Give the same command again to continue with what {out} holds.")
        raise
    differs = [d.experiment.name for d in done if d.check is not None and d.check.differences]
    lines = [f"{d.experiment.name:<16} {tally(d.outcome.verdicts) or d.experiment.title}" for d in done]
    if options["checked"]:
        lines.append(_compared(done, differs))
    content = {"page": str(out / PAGE), "experiments": [_plain(finished) for finished in done], "differences": differs}
    console.result(content, "\n".join([*lines, f"wrote {out / PAGE}"]))
    if differs:
        ctx.exit(BROKEN)


def _compared(done: list["Finished"], differs: list[str]) -> str:
    """Return what the comparison with recorded values found, in a sentence."""
    if differs:
        return f"Differences in {', '.join(differs)}."
    checks = {finished.experiment.name: finished.check for finished in done if finished.check is not None}
    n_compared = sum(check.n_compared for check in checks.values())
    n_missing = sum(check.n_missing for check in checks.values())
    unknown = [name for name, check in checks.items() if check.n_compared == 0]
    sentences = [f"{n_compared} recorded values and verdicts were found again."]
    if n_missing:
        sentences.append(f"{n_missing} more could not be compared, because the data are not those of the record.")
    if unknown:
        sentences.append(f"Nothing could be compared in {', '.join(unknown)}.")
    return " ".join(sentences)


def _report(console: Console, finished: "Finished") -> None:
    """Write on stderr what should be known before the end."""
    for name, advice in finished.outcome.absent.items():
        console.warn(f"{finished.experiment.name}: {name} was left out. {advice}")
    if finished.check is not None and finished.check.differences:
        console.warn(f"{finished.experiment.name}: {finished.check.sentence}")
    console.note(f"done: {finished.experiment.name}")


def _plain(finished: "Finished") -> dict[str, Any]:
    outcome = finished.outcome
    verdicts = [{"claim": v.claim, "outcome": v.outcome} for v in outcome.verdicts]
    values = {name: value.value for name, value in outcome.values.items()}
    found = {"name": finished.experiment.name, "verdicts": verdicts, "values": values, "absent": dict(outcome.absent)}
    return {**found, "folder": str(finished.folder), "files": list(finished.files)}
