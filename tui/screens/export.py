"""The export dialog: a format and a file."""

from __future__ import annotations

import os
from pathlib import Path

from textual.widgets import Input

from core.errors import BadInput
from tui.screens.form import Chooser, Form, FormField, FormRow
from tui.screens.saving import FORMATS, Saving


class ExportForm(Form):
    """The file name follows the format until it is edited; a file that exists is overwritten on a second Enter only."""

    def __init__(self, stage: Saving, picture: str) -> None:
        self.stage = stage
        self.picture = picture
        self._warned: Path | None = None
        fields = [
            FormField("format", "svg", "", "", tuple(FORMATS)),
            FormField("file", str(stage.default_path("svg")), "", f"relative to {Path.cwd()}"),
        ]
        super().__init__("Export", fields, self._save, enter="Enter saves", wide=True)

    def _tell(self, row: FormRow) -> None:
        if row is self.rows[0]:
            self.about.fold(FORMATS[row.value][1], "dim")
        else:
            super()._tell(row)

    def on_chooser_changed(self, event: Chooser.Changed) -> None:
        box = self.rows[1].entry
        proposals = {str(self.stage.default_path(name)) for name in FORMATS}
        if isinstance(box, Input) and box.value in proposals:
            box.value = str(self.stage.default_path(event.chooser.value))
        super().on_chooser_changed(event)

    def _save(self, values: dict[str, str]) -> None:
        if not values["file"].strip():
            raise BadInput("file", "nothing is written", "the name of a file")
        path = Path(os.path.expanduser(values["file"].strip()))  # noqa: PTH111 - never raises
        overwrite = self._warned == path
        self._warned = path if os.path.exists(path) else None  # noqa: PTH110 - never raises
        self.stage.save(values["format"], path, self.picture, overwrite=overwrite)
