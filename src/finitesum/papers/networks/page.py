"""The results as a page of Markdown: the settings, the table, the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from finitesum.papers.networks.grid import best_alphas, final_rows
from finitesum.papers.networks.methods import METHODS
from finitesum.papers.networks.verdict import Finding, Results, Statement

_TOPICS = {
    ("paper", "loss", "test_accuracy"): (
        "The paper's claim: a lower training loss",
        "Each method has the alpha with the best final test accuracy, as in the authors' code.",
    ),
    ("paper", "loss", "train_loss"): (
        "The same, with alpha chosen by the training loss",
        "The other rule that the paper names: what each method can reach.",
    ),
    ("paper", "accuracy", "test_accuracy"): (
        "The paper's claim: a test accuracy at least as good",
        "Undecided where AdaHB is behind by less than two standard errors of the test set.",
    ),
    ("schedule", "loss", "train_loss"): (
        "What t counts: epochs, as the authors ran it, against steps, as the theorems have it: training loss",
        "",
    ),
    ("schedule", "accuracy", "test_accuracy"): ("What t counts: test accuracy", ""),
    ("control", "loss", "train_loss"): (
        "The control: alpha / √epoch for everybody, training loss",
        "AdaHB has this decay by itself, the paper's others have none; here they get it, too.",
    ),
    ("control", "accuracy", "test_accuracy"): ("The control: test accuracy", ""),
}


def page(
    results: Sequence[Results], statements: Sequence[Statement], *, command: str, absent: dict[str, str], size: str
) -> str:
    """Return the page.

    Parameters
    ----------
    results
        The grids that were run.
    statements
        What `verdict.judge` says of them.
    command
        How it was called.
    absent
        For each set of images that is not on this machine, what to do about it.
    size
        The name of the size.
    """
    parts = [_head(results, command, size)]
    parts += [f"Left out: **{name}**. {advice}" for name, advice in absent.items()]
    parts.append(verdict_text(statements))
    parts += [_grid_section(result) for result in results]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(results: Sequence[Results], command: str, size: str) -> str:
    devices = sorted({row.device for result in results for row in result.rows})
    versions = sorted({row.torch for result in results for row in result.rows})
    seconds = sum(row.seconds for result in results for row in result.rows)
    lines = [
        f"# Networks of the heavy-ball paper, size {size}",
        "",
        f"Command: `{command}`. Device: {', '.join(devices)}. torch {', '.join(versions)}. "
        f"{seconds / 60.0:.1f} minutes of training by the clock, whatever else the machine did.",
    ]
    if size != "full":
        lines += [
            "",
            "Few images and few epochs: this shows tendencies. The paper trained on all images for 100 epochs with batches "
            "of 512; `--size full` does, and wants a GPU. The statistics of batch normalisation move by 0.1 a step "
            "instead of the published 0.01, because in so few steps they would stay near their start and test accuracy "
            "would mean nothing.",
        ]
    return "\n".join(lines)


def verdict_text(statements: Sequence[Statement]) -> str:
    """Return the verdict: a table for each topic."""
    sections = ["## Verdict", _in_short(statements)]
    for key, (title, remark) in _TOPICS.items():
        topic = [s for s in statements if (s.claim.topic, s.claim.measure, s.claim.by) == key]
        if not topic:
            continue
        lines = [f"### {title}", ""]
        lines += [remark, ""] if remark else []
        names = list(dict.fromkeys(f.data for s in topic for f in s.findings))
        lines.append(f"| claim | outcome | {' | '.join(names)} |")
        lines.append("|---|---|" + "---|" * len(names))
        for statement in topic:
            cells = {finding.data: _cell(finding, statement) for finding in statement.findings}
            row = " | ".join(cells.get(name, "") for name in names)
            lines.append(f"| {statement.claim.sentence} | **{statement.outcome}** | {row} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def _in_short(statements: Sequence[Statement]) -> str:
    """Return a line for each topic: against whom the claim holds, and against whom it does not."""
    lines = []
    for key, (title, _) in _TOPICS.items():
        topic = [s for s in statements if (s.claim.topic, s.claim.measure, s.claim.by) == key]
        outcomes: dict[str, list[str]] = {}
        for statement in topic:
            outcomes.setdefault(statement.outcome, []).append(METHODS[statement.claim.theirs].label)
        if topic:
            told = "; ".join(f"{outcome} against {', '.join(labels)}" for outcome, labels in sorted(outcomes.items()))
            lines.append(f"- *{title}*: {told}.")
    return "\n".join(lines)


def _cell(finding: Finding, statement: Statement) -> str:
    show = loss_text if statement.claim.measure == "loss" else accuracy_text
    sign = {True: "≥" if statement.claim.measure == "accuracy" else "<", False: "not", None: "?"}[finding.holds]
    return f"{show(finding.mine)} {sign} {show(finding.theirs)} ({finding.n_wins}/{finding.n_seeds})"


def loss_text(loss: float) -> str:
    """Return a loss with three figures."""
    return f"{loss:.3g}" if math.isfinite(loss) else "diverged"


def accuracy_text(accuracy: float) -> str:
    """Return an accuracy in per cent."""
    return f"{100.0 * accuracy:.2f} %"


def _grid_section(result: Results) -> str:
    training = result.grid.training
    steps = {row.epoch for row in result.rows}
    lines = [
        f"## {result.grid.name}",
        "",
        f"{training.n_train or 'all'} training images, {result.n_test} test images, batches of {training.batch_size}, "
        f"{max(steps)} epochs, alpha in {{{', '.join(f'{a:g}' for a in result.grid.alphas)}}}, "
        f"{_repeats(len(result.grid.seeds))}.",
        "",
        f"![Training loss and test accuracy by epoch]({result.grid.name}.png)",
        "",
        "Last epoch, means over the repeats (alpha chosen for each; * at an end of the grid: a better one may lie beyond):",
        "",
        "| method | alpha by accuracy | training loss | test accuracy | alpha by loss | training loss | seconds/epoch |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [line for method in METHODS if (line := _method_line(result, method))]
    return "\n".join(lines)


def _repeats(n: int) -> str:
    return f"{n} repeats" if n > 1 else "a single repeat, so that small differences may be chance"


def _method_line(result: Results, method: str) -> str:
    final = final_rows(result.rows)
    chosen = []
    for by in ("test_accuracy", "train_loss"):
        best = best_alphas(result.rows, by)
        chosen.append([final[name, alpha, seed] for (name, seed), alpha in best.items() if name == method])
    if not chosen[0]:
        return ""
    by_accuracy, by_loss = chosen
    seconds = fmean(row.seconds for row in result.rows if row.method == method)
    cells = [
        METHODS[method].label,
        _alphas({row.alpha for row in by_accuracy}, result.grid.alphas),
        loss_text(fmean(row.train_loss for row in by_accuracy)),
        accuracy_text(fmean(row.test_accuracy for row in by_accuracy)),
        _alphas({row.alpha for row in by_loss}, result.grid.alphas),
        loss_text(fmean(row.train_loss for row in by_loss)),
        f"{seconds:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _alphas(chosen: set[float], grid: Sequence[float]) -> str:
    """Return the alphas of the repeats, each once; an end of the grid is marked."""
    ends = (min(grid), max(grid))
    return ", ".join(f"{alpha:g}{'*' if alpha in ends else ''}" for alpha in sorted(chosen, reverse=True))
