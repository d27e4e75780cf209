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
    """The files of one fit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"  # what was asked for
        self.checkpoint = path / "checkpoint.npz"  # the state of a fit that is not finished
        self.model = path / "model.npz"
        self.trace = path / "trace.csv"  # the figures of each pass
        self.result = path / "result.json"  # how the fit ended

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
        if not self.settings.exists():
            return None
        content = read_json(self.settings)
        if content.get("written_by") != FORMAT or not isinstance(content.get("settings"), dict):
            raise _damaged(self.settings, "it was written by another version")
        return dict(content["settings"])


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file that `write_json` wrote."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, why: object) -> InputError:
    return InputError(f"{path} is damaged ({why}). Start again with --out and --force.")


def write_json(path: Path, content: Any) -> None:
    """Write content as JSON, atomically."""
    from finitesum.cli.console import to_json
    from finitesum.reporting.files import write_text

    write_text(path, to_json(content) + "\n")
