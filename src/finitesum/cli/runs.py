"""The folder of a fit: its settings, its checkpoint while it runs, and its model, trace and result in the end.

``settings.json`` is written first and the model last; the checkpoint stays until the fit has converged. So at any moment
a killed fit can be continued from what its folder holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from finitesum.cli.errors import InputError

FORMAT = "finitesum-run-1"


class RunFolder:
    """The files of one fit.

    Parameters
    ----------
    path
        The folder: it holds ``settings.json`` (what was asked for), ``checkpoint.npz`` (the state of a fit that is not
        finished), ``model.npz``, ``trace.csv`` (the figures of each pass) and ``result.json`` (how the fit ended).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.checkpoint = path / "checkpoint.npz"
        self.model = path / "model.npz"
        self.trace = path / "trace.csv"
        self.result = path / "result.json"

    @property
    def is_finished(self) -> bool:
        """Whether the fit has converged and there is nothing to continue."""
        return self.model.exists() and self.result.exists() and not self.checkpoint.exists()

    def require_free(self) -> None:
        """Raise where the folder holds a model or an unfinished fit."""
        if self.checkpoint.exists():
            raise InputError(
                f"{self.path} holds a fit that is not finished. Use --resume {self.path} to continue it, "
                "or --force to start again."
            )
        if self.model.exists():
            raise InputError(f"{self.path} already holds a model. Use --force to replace it, or another folder.")

    def begin(self, settings: dict[str, Any], *, keep: bool) -> None:
        """Make the folder and write down the settings; without `keep` the files of an earlier fit go."""
        self.path.mkdir(parents=True, exist_ok=True)
        for file in self.path.glob(".*.npz-*.tmp"):  # what a killed fit was writing
            file.unlink(missing_ok=True)
        if not keep:
            for file in (self.checkpoint, self.model, self.trace, self.result):
                file.unlink(missing_ok=True)
        write_json(self.settings, {"written_by": FORMAT, "settings": settings})

    def read_settings(self) -> dict[str, Any] | None:
        """Return the settings that were written down, or None where there are none."""
        try:
            content = json.loads(self.settings.read_text(encoding="utf-8"))
            if content["written_by"] != FORMAT:
                raise ValueError("it was written by another version")
            return dict(content["settings"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.settings} is damaged ({error}). Start again with --out and --force.") from error

    def read_result(self) -> dict[str, Any]:
        """Return how the fit ended."""
        try:
            return dict(json.loads(self.result.read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputError(f"{self.result} is damaged ({error}). Start again with --out and --force.") from error


def write_json(path: Path, content: Any) -> None:
    """Write content as JSON, atomically."""
    from finitesum.cli.console import to_json
    from finitesum.reporting.files import write_text

    write_text(path, to_json(content) + "\n")
