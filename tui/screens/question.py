"""What the selected scenario asks, beside the list (under it on a narrow screen). The takeaway is not told here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from core.formatting import parameter_text
from tui.screens.framed_text import FramedText
from tui.screens.lines import palette_of

if TYPE_CHECKING:
    from tui.screens.home import Entry


class Question(FramedText):
    """Title, question, variants and parameters of one scenario; of a broken file, what is wrong with it."""

    DEFAULT_CSS = """
    Question { width: 44%; }
    Question.-narrow { width: 1fr; height: 8; }
    """

    def show(self, entry: Entry | None, *, narrow: bool) -> None:
        self.set_class(narrow, "-narrow")
        self.text.update(self._text(entry, narrow) if entry is not None else "")

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
