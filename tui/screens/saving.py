"""Actions that take something away: export to a file, copy to the clipboard."""

from __future__ import annotations

import os
import re
from pathlib import Path

from core.errors import BadInput
from tui.screens.stage_base import StageBase

FORMATS: dict[str, tuple[str, str]] = {
    "svg": (".svg", "a picture of this screen"),
    "text": (".txt", "facts and checks as text"),
    "json": (".json", "what `notes-tui run --json` prints"),
    "trace": (".trace.json", "a Chrome trace, for Perfetto or chrome://tracing"),
    "csv": (".csv", "every step with its values"),
}
"""Format -> its file's ending, and what is in it."""


class Saving(StageBase):
    """Part of the stage screen."""

    def action_copy(self) -> None:
        recording, step = self.front.recording, self.player.step
        if not len(recording):
            return
        lines = [recording.time_text(step) if recording.clock else "", recording.title(step), recording.detail(step)]
        self.app.copy_to_clipboard("\n".join(line for line in lines if line))
        self.say("copied what this step says", "dim")

    def action_export(self) -> None:
        from tui.picture import svg
        from tui.screens.export import ExportForm

        front = self.front
        if not front.done:
            self.say("still recording: export when it is done", "dim")
            return
        self.app.push_screen(ExportForm(self, svg(self.app, self.scenario.title or self.scenario.name)))

    def save(self, format: str, path: Path, picture: str, *, overwrite: bool) -> None:
        """Write the picture, or the runs in sight; BadInput when the file exists (unless ``overwrite``) or cannot be written."""
        if os.path.isdir(path):  # noqa: PTH112 - never raises
            raise BadInput("file", f"{path} is a folder", "the name of a file")
        if os.path.exists(path) and not overwrite:  # noqa: PTH110 - never raises
            raise BadInput("file", f"{path} exists", "another name, or Enter once more to overwrite it")
        from core.export import write, write_pieces

        try:
            if format == "svg":
                path.parent.mkdir(parents=True, exist_ok=True)
                write_pieces([picture], path.absolute())
            else:
                runs = [run for run in (self.runs.front, self.runs.beside) if run is not None]
                write({run.label: run.recording for run in runs}, self.scenario, format, path, overwrite=overwrite)
        except OSError as error:
            raise BadInput("file", f"{path}: {error.strerror or error}", "a file that can be written") from None
        self.say(f"saved {path}", "good")

    def default_path(self, format: str) -> Path:
        stem = re.sub(r"[^\w.-]+", "-", f"{self.scenario.name}-{self.front.label}".removesuffix("-default")).strip("-")
        return Path(f"{stem}-step{self.player.step + 1}.svg" if format == "svg" else f"{stem}{FORMATS[format][0]}")
