"""The folder of a fit: its settings, its checkpoint while it runs, and its model, trace and result in the end.

``settings.json`` is written first and the model last; the checkpoint stays until the fit has converged. So at any moment
a killed fit goes on from what its folder holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finitesum.cli.errors import InputError

FORMAT = "finitesum-run-1"


@dataclass(frozen=True)
class RunFolder:
    """The files of one fit."""

    path: Path

    @property
    def settings(self) -> Path:
        """What was asked for."""
        return self.path / "settings.json"

    @property
    def checkpoint(self) -> Path:
        """The state of a fit that is not finished."""
        return self.path / "checkpoint.npz"

    @property
    def model(self) -> Path:
        """The fitted model."""
        return self.path / "model.npz"

    @property
    def trace(self) -> Path:
        """The figures of each pass."""
        return self.path / "trace.csv"

    @property
    def result(self) -> Path:
        """How the fit ended."""
        return self.path / "result.json"

    @property
    def is_finished(self) -> bool:
        """Whether the fit has converged and there is nothing to go on with."""
        return self.model.exists() and self.result.exists() and not self.checkpoint.exists()

    def require_free(self) -> None:
        """Raise where the folder holds a model or an unfinished fit."""
        if self.checkpoint.exists():
            raise InputError(
                f"{self.path} holds a fit that is not finished. Use --resume {self.path} to go on with it, "
                "or --force to begin anew."
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
            raise InputError(f"{self.settings} is damaged ({error}). Begin anew with --out and --force.") from error

    def read_result(self) -> dict[str, Any]:
        """Return how the fit ended."""
        try:
            return dict(json.loads(self.result.read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputError(f"{self.result} is damaged ({error}). Begin anew with --out and --force.") from error


def write_json(path: Path, content: Any) -> None:
    """Write content as JSON, atomically."""
    from finitesum.cli.console import to_json
    from finitesum.running.checkpoint import write_atomically

    text = to_json(content) + "\n"
    write_atomically(path, lambda file: file.write(text.encode("utf-8")))
