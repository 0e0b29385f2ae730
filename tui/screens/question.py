"""What the selected scenario asks, beside the list (under it on a narrow screen). The takeaway is not told here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from core.formatting import parameter_text
from tui.screens.lines import Rule, palette_of

if TYPE_CHECKING:
    from tui.screens.home import Entry


class Question(Vertical):
    """Title, question, variants and parameters of one scenario; of a broken file, what is wrong with it."""

    DEFAULT_CSS = """
    Question { width: 44%; height: 1fr; }
    Question Static { border-left: solid $quiet; border-right: solid $quiet; padding: 1 1; height: 1fr; visibility: visible; }
    Question.-narrow { width: 1fr; height: 8; }
    Question.-narrow Static { padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.details = Static()

    def compose(self) -> ComposeResult:
        yield Rule("Question", "top")
        yield self.details
        yield Rule("", "bottom")

    def show(self, entry: Entry | None, *, narrow: bool) -> None:
        self.set_class(narrow, "-narrow")
        self.details.update(self._text(entry, narrow) if entry is not None else "")

    def _text(self, entry: Entry, narrow: bool) -> Text:
        palette = palette_of(self)
        scenario = entry.load()
        out = Text()
        if scenario is None:
            out.append("This file cannot be opened.\n\n", palette.style("bad"))
            return out.append(entry.error.replace(entry.path, Path(entry.path).name))
        gap = "\n" if narrow else "\n\n"
        if scenario.question and not narrow:
            out.append(f"{scenario.title}{gap}", palette.style("dim"))
        out.append((scenario.question or scenario.title or scenario.name) + gap, palette.style("plain", bold=True))
        if scenario.variants:
            out.append("compares ", palette.style("dim"))
            out.append(", ".join(scenario.variants) + "\n")
        if scenario.params:
            out.append("with ", palette.style("dim"))
            out.append(", ".join(f"{name} {parameter_text(value)}" for name, value in scenario.params.items()) + "\n")
        return out.append(scenario.name, palette.style("dim"))
